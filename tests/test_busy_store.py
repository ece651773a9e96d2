"""A store that is busy, slow, or cuts connections: the right rows, or an error that says so; never other rows."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import morrow
from morrow.engine.errors import StorageError
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
    """Trouble with the first try of every third request, whatever it asks for."""

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
