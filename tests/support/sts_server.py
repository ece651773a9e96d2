"""A small STS on the loopback that lends role credentials with a given lifetime, and checks requests for them.

It also answers like the metadata service of an AWS machine that has a role.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from tests.support.s3_objects import Answer, Request

ROLE = "arn:aws:iam::123456789012:role/reader"
KEY = "user"


@dataclass
class StsServer:
    """A server that lends credentials for `life` seconds to the key ``user``; `asked` lists its requests' parameters.

    `refuses` is the code and text of an error to answer with. `answers` is a text that replaces the whole answer.
    """

    life: float = 3600.0
    refuses: tuple[int, str, str] | None = None
    answers: str | None = None
    asked: list[dict[str, str]] = field(default_factory=list)
    lent: dict[str, tuple[str, float]] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    """Secret keys and tokens, which must never be shown."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def guard(self, request: Request) -> Answer | None:
        """Refuse requests without valid lent credentials; it serves as the `trouble` of an `S3Server`."""
        key = _key_of(request.headers.get("authorization", ""))
        token, ends = self.lent.get(key, ("", 0.0))
        if not token or request.headers.get("x-amz-security-token") != token:
            return s3_error(403, "InvalidAccessKeyId")
        return s3_error(400, "ExpiredToken") if time.time() > ends else None

    def answer(self, asked: dict[str, str], authorization: str) -> tuple[int, str]:
        """Answer a request with these parameters."""
        self.asked.append({**asked, "key": _key_of(authorization)})
        if self.answers is not None:
            return 200, self.answers
        if self.refuses is not None:
            return self.refuses[0], _error(*self.refuses[1:])
        action = asked.get("Action", "")
        if action == "AssumeRole" and _key_of(authorization) != KEY:
            return 403, _error("InvalidClientTokenId", "The security token included in the request is invalid.")
        members = self.lend()
        held = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in members.items())
        return 200, _result(action, f"<Credentials>{held}</Credentials>")

    def lend(self) -> dict[str, str]:
        """Create and lend credentials."""
        key, secret, token = f"ASIA{uuid.uuid4().hex[:16]}", uuid.uuid4().hex, uuid.uuid4().hex * 2
        ends = time.time() + self.life
        self.lent[key] = (token, ends)
        self.secrets += [secret, token]
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ends)) + f".{int(ends % 1 * 1000):03}Z"
        return {"AccessKeyId": key, "SecretAccessKey": secret, "SessionToken": token, "Expiration": when}

    def of_machine(self, path: str) -> str:
        """Answer like the metadata service of a machine whose role is ``machine``."""
        if not path.endswith("/machine"):
            return "machine"
        self.asked.append({"Action": "metadata"})
        lent = self.lend()
        return json.dumps({"Code": "Success", **lent, "Token": lent["SessionToken"], "LastUpdated": lent["Expiration"]})


@contextmanager
def sts_server(life: float = 3600.0) -> Iterator[StsServer]:
    """Run a server."""
    served = StsServer(life=life)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            asked = dict(parse_qsl(self.path.partition("?")[2])) | dict(parse_qsl(body))
            self.send(*served.answer(asked, self.headers.get("Authorization") or ""))

        def do_PUT(self) -> None:
            self.send(200, "token of a session")

        def do_GET(self) -> None:
            self.send(200, served.of_machine(self.path))

        def send(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def _key_of(authorization: str) -> str:
    found = re.search(r"Credential=([^/]+)/", authorization)
    return found[1] if found else ""


def _result(action: str, inner: str) -> str:
    return (
        f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>{inner}</{action}Result>'
        f"<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></{action}Response>"
    )


def _error(code: str, message: str) -> str:
    return (
        '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
        f"<Code>{code}</Code><Message>{escape(message)}</Message></Error><RequestId>1</RequestId></ErrorResponse>"
    )


def s3_error(status: int, code: str) -> Answer:
    """Make S3's error with this code."""
    text = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return Answer(status, text.encode(), {"Content-Type": "application/xml"})
