"""A busy, slow or unreliable store: reads return the right rows or raise an error that names the problem."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import morrow
from morrow.engine.errors import MorrowError, StorageError
from morrow.engine.io.object_store import HASTY_TRIES
from morrow.engine.structs import replace
from tests.support.s3_objects import Answer, Request
from tests.support.s3_server import BUCKET, Cut, S3Server, running

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"

TROUBLE: dict[str, Callable[[], Answer | None]] = {
    "429": lambda: Answer(429, b"<Error><Code>TooManyRequests</Code></Error>", {"Retry-After": "0"}),
    "503": lambda: Answer(503, b"<Error><Code>SlowDown</Code></Error>", {"Retry-After": "0"}),
    "500": lambda: Answer(500, b"<Error><Code>InternalError</Code></Error>"),
    "cut before the answer": lambda: Cut(after=-1),
    "cut in the body": lambda: Cut(after=40),
    "slow first byte": lambda: time.sleep(0.05),
}


class Once:
    """Trouble that hits the first try of every third request of any kind."""

    def __init__(self, make: Callable[[], Answer | None]) -> None:
        self._make, self._seen, self._turn = make, set[tuple[str, str, str]](), threading.Lock()
        self.met = 0

    def __call__(self, request: Request) -> Answer | None:
        asked = request.method, request.key, request.headers.get("range", "") + str(dict(request.query))
        with self._turn:
            if asked in self._seen:
                return None
            self._seen.add(asked)
            if len(self._seen) % 3:
                return None
            self.met += 1
        return self._make()


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running() as server:
        yield server


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        (keys, what)
        for keys in (None, ["id"])
        for number, what in enumerate(TROUBLE)
        if LONG or (keys is None) == (number % 2 == 0)
    ],
)
def test_writes_and_reads_come_through(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, what: str, keys: list[str] | None
) -> None:
    catalog = morrow.Catalog(f"s3://{BUCKET}/{what} {keys}", storage_options=server.options)
    trouble = Once(TROUBLE[what])
    monkeypatch.setattr(server, "trouble", trouble)

    table = catalog.create_table("db.t", schema="id BIGINT NOT NULL, v STRING", primary_keys=keys)
    for number in range(3):
        table.append({"id": list(range(number, number + 3)), "v": [f"{number}"] * 3})
    morrow.clear_caches()
    rows = morrow.open(table.path, storage_options=server.options).to_polars().sort("id", "v").rows()

    merged = [(0, "0"), (1, "1"), (2, "2"), (3, "2"), (4, "2")]
    assert rows == (merged if keys else sorted((n + i, f"{n}") for n in range(3) for i in range(3)))
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3]
    assert trouble.met > 5


@pytest.mark.skipif(not LONG, reason="waits through all retries: in the long profile")
@pytest.mark.parametrize("part", ["data-", "manifest-list-", "snapshot-1"])
def test_what_does_not_end_is_an_error(server: S3Server, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    catalog = morrow.Catalog(f"s3://{BUCKET}/never {part}", storage_options=server.options)
    table = catalog.create_table("db.t", schema="id BIGINT")
    table.append({"id": [1]})
    morrow.clear_caches()
    monkeypatch.setattr(server, "trouble", lambda request: Cut(after=3) if part in request.key else None)
    with pytest.raises(StorageError, match="never"):
        morrow.open(table.path, storage_options=server.options).to_polars()


@contextmanager
def _redirecting(to: str) -> Iterator[str]:
    """Run an empty server that redirects all requests, and yield its host."""

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"http://{to}{self.path}")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815  # the name that the server calls

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{served.server_port}"
        served.shutdown()


@pytest.mark.parametrize(
    ("redirects", "host", "reason"),
    [
        (False, "127.0.0.1:9", "Connection refused"),
        (False, "nobody.invalid", "failed to lookup address"),
        (True, "127.0.0.1:9", "Connection refused"),
    ],
)
def test_where_no_store_is_the_error_comes_at_once(server: S3Server, redirects: bool, host: str, reason: str) -> None:
    with _redirecting(host) if redirects else nullcontext(host) as asked:
        options = {**server.options, "aws_endpoint_url": f"http://{asked}"}
        begun = time.monotonic()
        with pytest.raises(StorageError, match=f"{host}.*{reason}.*; check the address and the credentials") as caught:
            morrow.open(f"s3://{BUCKET}/db.db/t", storage_options=options)
        assert time.monotonic() - begun < 3
        assert "\n" not in str(caught.value)


def test_a_store_that_is_busy_at_first_is_waited_for(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**server.options, "timeout": "29s"}  # a unique value, so that the client is new
    path = f"s3://{BUCKET}/first/db.db/t"
    morrow.Catalog(f"s3://{BUCKET}/first", storage_options=server.options).create_table("db.t", schema="id BIGINT")
    busy = iter(range(HASTY_TRIES + 2))
    slow_down = Answer(503, b"<Error><Code>SlowDown</Code></Error>")
    monkeypatch.setattr(server, "trouble", lambda _: slow_down if next(busy, None) is not None else None)
    assert morrow.open(path, storage_options=options).schema.names == ["id"]
    assert next(busy, None) is None


def _as_told(server: S3Server, request: Request, **headers: str) -> Answer:
    return server.objects.answer(replace(request, headers={**request.headers, **headers}))


def _whole(server: S3Server, request: Request, answer: Answer) -> Answer:  # noqa: ARG001  # the signature of all lies
    return _as_told(server, request, range="")


def _shifted(server: S3Server, request: Request, answer: Answer) -> Answer:
    first, _, last = request.headers.get("range", "").removeprefix("bytes=").partition("-")
    if not first or not last or int(first) < 7:
        return answer
    found = _as_told(server, request, range=f"bytes={int(first) - 7}-{int(last) - 7}")
    return Answer(found.status, found.body, answer.headers)


LIES: dict[str, Callable[[S3Server, Request, Answer], Answer]] = {
    "a byte less": lambda _, __, answer: Answer(answer.status, answer.body[:-1], answer.headers),
    "half of it": lambda _, __, answer: Answer(answer.status, answer.body[: len(answer.body) // 2], answer.headers),
    "more": lambda _, __, answer: Answer(answer.status, answer.body + b"garbage", answer.headers),
    "nothing": lambda _, __, answer: Answer(answer.status, b"", answer.headers),
    "zeros": lambda _, __, answer: Answer(answer.status, bytes(len(answer.body)), answer.headers),
    "an error as success": lambda _, __, ___: Answer(200, b"<Error><Code>InternalError</Code></Error>"),
    "another tag": lambda _, __, answer: Answer(answer.status, answer.body, {**answer.headers, "ETag": '"1"'}),
    "not there": lambda _, __, ___: Answer(404, b"<Error><Code>NoSuchKey</Code></Error>"),
    "all in place of a range": _whole,
    "another range": _shifted,
}
HARMLESS = ("another tag", "all in place of a range", "another range")
"""Lies that reads of these small files need not detect."""
PARTS = ("schema-0", "snapshot-", "LATEST", "manifest-list-", "manifest/manifest-", "bucket-0", "index-")


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_is_not_believed(server: S3Server, monkeypatch: pytest.MonkeyPatch, lie: str) -> None:
    catalog = morrow.Catalog(f"s3://{BUCKET}/lies {lie}", storage_options=server.options)
    vectors = {"bucket": "1", "deletion-vectors.enabled": "true"}
    table = catalog.create_table("db.t", schema="id INT NOT NULL, v STRING", primary_keys="id", options=vectors)
    for number in range(3):
        table.append({"id": list(range(number, number + 3)), "v": [f"{number}"] * 3})
    outcomes = set()
    for part in PARTS:

        def answer(request: Request, part: str = part) -> Answer | None:
            if request.method != "GET" or part not in request.key:
                return None
            true = server.objects.answer(request)
            return LIES[lie](server, request, true) if true.status in (200, 206) else true

        morrow.clear_caches(folder=True)
        monkeypatch.setattr(server, "trouble", answer)
        for filter in (None, "id >= 0"):
            try:
                rows = morrow.open(table.path, storage_options=server.options).scan(filter=filter).to_polars().rows()
            except MorrowError:
                outcomes.add("error")
            else:
                outcomes.add("rows")
                assert sorted(rows) == [(0, "0"), (1, "1"), (2, "2"), (3, "2"), (4, "2")], part
    monkeypatch.setattr(server, "trouble", None)
    assert outcomes >= ({"rows"} if lie in HARMLESS else {"error"})
