"""A server on the loopback that speaks S3, and that keeps what S3 promises about conditional puts.

moto looks whether there is an object and puts its own in two steps, which lets two requests at a time both win. Here
each request is served alone, as it is in effect by S3.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3  # type: ignore[import-untyped]  # it ships no types
from moto.server import create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "lake"
REGION = "us-east-1"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Storage options of a server with the empty bucket ``lake``."""
    application = _OneAtATime(create_backend_app("s3"))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_KeepAlive)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        options = {
            "aws_endpoint_url": f"http://127.0.0.1:{server.server_port}",
            "aws_region": REGION,
            "aws_access_key_id": "user",
            "aws_secret_access_key": "secret",
        }
        client_of(options).create_bucket(Bucket=BUCKET)
        yield options
        _empty(client_of(options))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _empty(client: Any) -> None:
    """Leave nothing behind: all servers of a process show the same buckets."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for entry in page.get("Contents", ()):
            client.delete_object(Bucket=BUCKET, Key=entry["Key"])


def client_of(options: dict[str, str]) -> Any:
    """A client of the server in the terms of AWS."""
    return boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint_url"],
        region_name=options["aws_region"],
        aws_access_key_id=options["aws_access_key_id"],
        aws_secret_access_key=options["aws_secret_access_key"],
    )


class _KeepAlive(WSGIRequestHandler):
    """Connections serve more than one request; requests are not logged."""

    protocol_version = "HTTP/1.1"

    def log_request(self, *_: object) -> None:
        return


class _OneAtATime:
    """A WSGI application whose requests wait for each other."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._turn:
            return list(self._application(environ, start_response))
