"""An S3 server on the loopback that is fast enough for races, and can be made slow, busy and unreliable.

It keeps S3's promises about conditional puts (`s3_objects`), counts requests and how many of them waited for one
another, and answers late or not at all if its `trouble` says so.
"""

from __future__ import annotations

import io
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, unquote

from tests.support.s3_objects import Answer, Objects, Request

BUCKET = "lake"
REGION = "us-east-1"
HEADER_LINES = 200


@dataclass(frozen=True)
class Cut(Answer):
    """An answer whose connection is cut after `after` bytes of its body; with -1 nothing is sent or done."""

    after: int = 0


Trouble = Callable[[Request], Answer | None]
"""A function that returns an answer to replace the server's own, or None; it may also sleep."""


@dataclass
class S3Server:
    """A server with the empty bucket ``lake``; `asked` lists its requests with their start and end times.

    `latency` is the minimum time of an answer in seconds. `trouble` is called first for each request.
    """

    objects: Objects = field(default_factory=Objects)
    latency: float = 0.0
    trouble: Trouble | None = None
    asked: list[tuple[str, float, float]] = field(default_factory=list)
    port: int = 0

    @property
    def options(self) -> dict[str, str]:
        """Storage options for this server."""
        return {
            "aws_endpoint_url": f"http://127.0.0.1:{self.port}",
            "aws_region": REGION,
            "aws_access_key_id": "user",
            "aws_secret_access_key": "secret",
        }

    def answer(self, request: Request) -> Answer:
        """Answer a request after the latency."""
        began = time.monotonic()
        answer = None if self.trouble is None else self.trouble(request)
        if answer is None or (isinstance(answer, Cut) and answer.after >= 0):
            own = self.objects.answer(request)
            answer = own if answer is None else Cut(own.status, own.body, own.headers, own.length, answer.after)
        if self.latency:
            time.sleep(max(began + self.latency - time.monotonic(), 0))
        name = f"{request.method} {request.key or '?' + request.query.get('prefix', '')}"
        self.asked.append((name, began, time.monotonic()))
        return answer

    def rounds(self) -> int:
        """Find the longest chain of requests in which each began after the previous one had ended."""
        longest: list[tuple[float, int]] = []
        for _, began, ended in sorted(self.asked, key=lambda each: each[1]):
            before = max((length for end, length in longest if end <= began), default=0)
            longest.append((ended, before + 1))
        return max((length for _, length in longest), default=0)


@contextmanager
def running(latency: float = 0.0, trouble: Trouble | None = None) -> Iterator[S3Server]:
    """Run a server with an empty bucket."""
    served = S3Server(latency=latency, trouble=trouble)
    served.objects.make_bucket(BUCKET)
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.served, served.port = served, server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Start a server with the empty bucket ``lake``; yield its storage options."""
    with running() as server:
        yield server.options


def client_of(options: dict[str, str]) -> Any:
    """Make a client of the server from AWS options."""
    import boto3  # type: ignore[import-untyped]  # boto3 ships no types

    return boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint_url"],
        region_name=options["aws_region"],
        aws_access_key_id=options["aws_access_key_id"],
        aws_secret_access_key=options["aws_secret_access_key"],
    )


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256
    block_on_close = False
    served: S3Server


class _Connection(socketserver.StreamRequestHandler):
    """A connection that serves requests until its client closes it."""

    server: _Server
    rbufsize = 1 << 16

    def handle(self) -> None:
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError, TimeoutError):
            while (request := self._read()) is not None:
                if not self._send(self.server.served.answer(request), request.method):
                    return

    def _read(self) -> Request | None:
        line = self.rfile.readline().decode("latin-1").split()
        if len(line) != 3:
            return None
        headers: dict[str, str] = {}
        while (header := self.rfile.readline().decode("latin-1").rstrip("\r\n")) and len(headers) < HEADER_LINES:
            name, _, value = header.partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("expect") == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        path, _, query = line[1].partition("?")
        bucket, _, key = path.lstrip("/").partition("/")
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        return Request(line[0], unquote(bucket), unquote(key), parameters, headers, self._body(headers))

    def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            body = _unchunked(self.rfile)
        else:
            body = self.rfile.read(int(headers.get("content-length", 0)))
        if "x-amz-decoded-content-length" not in headers:
            return body
        return _unchunked(io.BytesIO(body))

    def _send(self, answer: Answer, method: str) -> bool:
        length = len(answer.body) if answer.length is None else answer.length
        lines = [f"HTTP/1.1 {answer.status} S3", f"Content-Length: {0 if answer.status == 204 else length}"]
        head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in answer.headers.items()), "\r\n"])
        body = b"" if method == "HEAD" else answer.body
        if isinstance(answer, Cut):
            if answer.after >= 0:
                self.wfile.write(head.encode("latin-1") + body[: answer.after])
            return len(body) <= answer.after
        self.wfile.write(head.encode("latin-1") + body)
        return True


def _unchunked(stream: BinaryIO) -> bytes:
    """Return the data of chunks, with or without signatures, and skip the trailer."""
    parts: list[bytes] = []
    while size := int(stream.readline().partition(b";")[0].strip() or b"0", 16):
        parts.append(stream.read(size))
        stream.readline()
    while stream.readline().strip():
        pass
    return b"".join(parts)
