"""Requests to an object store, and how many wait for one another: limits for reads and commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import morrow
from tests.support.s3_server import BUCKET, S3Server, running

LATENCY = 0.06
"""Seconds that each request takes, which is long enough for independent requests to overlap."""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running() as server:
        yield server


def made(server: S3Server, name: str, *, keys: list[str] | None = None, commits: int = 1) -> morrow.Table:
    catalog = morrow.Catalog(f"s3://{BUCKET}/{name}", storage_options=server.options)
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "100"} if keys else {}
    table = catalog.create_table("db.t", schema="id INT NOT NULL, v STRING", primary_keys=keys, options=options)
    for number in range(commits):
        table.append({"id": [number], "v": ["a"]})
    return table


ATTEMPTS = 3
"""Attempts to stay within a limit: a busy machine starts requests late, which then seem to wait for others."""


def check(server: S3Server, requests: int, rounds: int, attempt: Callable[[int], None]) -> None:
    """Assert that one of some attempts stays within the limits; `attempt` clears `server.asked`."""
    for number in range(ATTEMPTS):
        attempt(number)
        if len(server.asked) <= requests and server.rounds() <= rounds:
            return
    pytest.fail("\n".join(name for name, _, _ in server.asked))


@pytest.mark.parametrize("keys", [None, ["id"]], ids=["append", "keyed"])
@pytest.mark.parametrize(
    ("operation", "commits", "requests", "rounds"),
    [  # on an idle machine, the two reads take one round less
        ("open", 1, 9, 2),
        ("open, plan and read", 1, 14, 5),
        ("morrow.read", 1, 10, 4),
        ("read again", 1, 5, 2),
        ("commit", 1, 19, 6),
        ("commit to many snapshots", 11, 34, 6),
    ],
)
def test_requests_are_few_and_do_not_wait_for_each_other(
    server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    keys: list[str] | None,
    operation: str,
    commits: int,
    requests: int,
    rounds: int,
) -> None:
    def attempt(number: int) -> None:
        monkeypatch.setattr(server, "latency", 0)
        table = made(server, f"{operation} {keys} {number}", keys=keys, commits=commits)
        rows = 1 if operation == "read again" else commits
        if operation != "read again":
            morrow.clear_caches()
        else:
            table.to_polars()
        if operation in ("commit", "commit to many snapshots"):
            table = morrow.open(table.path, storage_options=server.options)
        monkeypatch.setattr(server, "latency", LATENCY)
        server.asked.clear()
        if operation == "morrow.read":
            assert morrow.read(table.path, storage_options=server.options).height == rows
        elif operation.startswith("commit"):
            table.append({"id": [100], "v": ["b"]})
        else:
            opened = table if operation == "read again" else morrow.open(table.path, storage_options=server.options)
            if operation != "open":
                assert opened.to_polars().height == rows

    check(server, requests, rounds, attempt)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_lookups_request_the_files_of_a_section_at_once(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """First snapshot and manifests, then footers, then keys, then values; of files that were seen before, values."""
    catalog = morrow.Catalog(f"s3://{BUCKET}/lookups {engine}", storage_options=server.options)
    options = {"bucket": "1", "write-only": "true", "merge-engine": engine}
    made = catalog.create_table("db.t", schema="id INT, v INT, w INT", primary_keys=["id"], options=options)
    for number in range(4):
        made.upsert({"id": range(100), "v": [number] * 100, "w": [number] * 100})
    monkeypatch.setattr(server, "latency", LATENCY)
    table = made

    def look_up_first(_number: int) -> None:
        nonlocal table
        morrow.clear_caches()
        table = morrow.open(made.path, storage_options=server.options)
        look_up(0)

    def look_up(number: int) -> None:
        server.asked.clear()
        assert table.get(17 + number) == {"id": 17 + number, "v": 3, "w": 3}

    check(server, 26, 7, look_up_first)
    check(server, 9, 3, lambda number: look_up(1 + number))


def test_orphans_cost_pages_of_a_listing_not_requests_a_file(server: S3Server) -> None:
    """`python -m bench.listing` measures this with 100,000 files, and also expiry and tags."""
    table = made(server, "orphans", commits=2)
    bucket, pages = server.objects._buckets[BUCKET], 3
    folder = "orphans/db.db/t/bucket-0"
    for number in range(1000 * (pages - 1)):
        bucket.put(f"{folder}/data-stray-{number}.parquet", b"", {})
    time.sleep(0.01)  # so that the files are older than now by some milliseconds
    server.asked.clear()
    assert table.remove_orphan_files(older_than="0 s", dry_run=False).count == 1000 * (pages - 1)
    told = "\n".join(name for name, _, _ in server.asked)
    # Files are listed twice, names first, and new snapshots are looked up before each deletion of a thousand files.
    assert len(server.asked) <= 2 * pages + 11 * pages + 10, told
    server.asked.clear()
    table.tags.create("old", snapshot=1)
    assert table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s") == 1
    assert len(server.asked) <= 45
    assert (table.scan(tag="old").count(), table.scan().count()) == (1, 2)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
def test_the_files_of_all_buckets_are_asked_for_before_the_first_is_merged(server: S3Server, engine: str) -> None:
    server.latency = 0
    catalog = morrow.Catalog(f"s3://{BUCKET}/{engine}", storage_options=server.options)
    options = {"bucket": "6", "merge-engine": engine, "num-sorted-run.compaction-trigger": "100"}
    table = catalog.create_table("db.t", schema="id INT NOT NULL, v INT", primary_keys=["id"], options=options)
    for _ in range(2):
        table.upsert({"id": range(60), "v": range(60)})
    morrow.clear_caches(folder=True)
    opened = morrow.open(table.path, storage_options=server.options)
    assert len(opened.scan().plan.files) == 12
    server.asked.clear()
    server.latency = 10 * LATENCY  # all 12 must begin before the first ends, also on a busy machine
    assert opened.to_polars().height == 60
    server.latency = 0
    data = [(began, ended) for name, began, ended in server.asked if "/bucket-" in name]
    assert len(data) == 12
    assert max(began for began, _ in data) < min(ended for _, ended in data)
