"""Operations in an object store with a latency of 30 ms: the number of sequential requests.

The server (`tests.support.s3_server`) runs on the loopback, in memory, so that latency and the cost of the operation
itself are measured. A full scan takes turns with Polars' scan of the same objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Bound, Limit, Measured, compare, put, timed
from tests.support.s3_server import BUCKET, S3Server, running

LATENCY = 0.03
SECTION = "Requests to an object store, each answered after 30 ms"
SCANS = "Full scans in an object store, each request answered after 30 ms"
ROUNDS = 5
FILES, FILES_OF_A_COMMIT = 1_000, 50
ROWS_OF_A_SCAN, FILES_OF_A_SCAN = 6_000_000, 12
ROWS_WITH_KEYS = 600_000


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running() as server:
        yield server


def made(server: S3Server, name: str, keys: list[str] | None = None, partition: str | None = None) -> morrow.Table:
    catalog = morrow.Catalog(f"s3://{BUCKET}/{name}", storage_options=server.options)
    return catalog.create_table(
        "db.t",
        schema="id BIGINT NOT NULL, p INT NOT NULL, v STRING, amount DOUBLE",
        primary_keys=keys,
        partition_keys=[partition] if partition else None,
        options={"bucket": "1" if keys else "-1"},
    )


def rows(first: int, count: int) -> pl.DataFrame:
    numbers = pl.int_range(first, first + count, dtype=pl.Int64, eager=True)
    return pl.DataFrame(
        {
            "id": numbers,
            "p": (numbers % 50).cast(pl.Int32),
            "v": "row " + numbers.cast(pl.String),
            "amount": numbers / 7,
        }
    )


def count(benchmark: BenchmarkFixture, server: S3Server, what: str, work: Callable[[], object], bound: int) -> None:
    """Record the number of sequential round trips, and their time."""
    rounds: list[float] = []
    requests: list[int] = []
    times: list[float] = []

    def once() -> None:
        server.asked.clear()
        server.latency = LATENCY
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
        server.latency = 0
        rounds.append(server.rounds())
        requests.append(len(server.asked))

    benchmark.pedantic(once, rounds=ROUNDS, iterations=1)
    note = f"{max(requests)} requests"
    unit = Limit(bound, "round trips")
    put(benchmark, [Measured(SECTION, what, "", rounds, [], unit, note), Measured(SECTION, f"{what}, time", "", times)])


def opened(server: S3Server, table: morrow.Table) -> morrow.Table:
    return morrow.open(table.path, storage_options=server.options)


@pytest.mark.parametrize("keys", [None, ["id"]], ids=["append table", "table with keys"])
def test_a_small_table(benchmark: BenchmarkFixture, server: S3Server, keys: list[str] | None) -> None:
    name = "table with keys" if keys else "append table"
    table = made(server, f"small {name}", keys)
    table.append(rows(0, 100))

    def read() -> None:
        morrow.clear_caches()
        assert opened(server, table).to_polars().height == 100

    count(benchmark, server, f"open, plan and read, {name}", read, 5)


@pytest.mark.parametrize("keys", [None, ["id"]], ids=["append table", "table with keys"])
def test_a_commit(benchmark: BenchmarkFixture, server: S3Server, keys: list[str] | None) -> None:
    name = "table with keys" if keys else "append table"
    table = made(server, f"commits {name}", keys)
    table.append(rows(0, 100))
    count(benchmark, server, f"a commit, {name}", lambda: table.append(rows(0, 100)), 6)


def test_a_plan(benchmark: BenchmarkFixture, server: S3Server) -> None:
    table = made(server, "plan", partition="p")
    for first in range(0, FILES, FILES_OF_A_COMMIT):
        table.append(rows(first, FILES_OF_A_COMMIT))

    def plan() -> None:
        morrow.clear_caches()
        assert len(opened(server, table).scan().plan.files) == FILES

    count(benchmark, server, f"open and plan, {FILES:,} files of {FILES // FILES_OF_A_COMMIT} commits", plan, 5)


@pytest.mark.parametrize("first", [True, False], ids=["first", "again"])
def test_a_full_scan(benchmark: BenchmarkFixture, server: S3Server, first: bool) -> None:
    server.latency = 0
    table = made(server, f"scan {first}")
    each = ROWS_OF_A_SCAN // FILES_OF_A_SCAN
    for number in range(FILES_OF_A_SCAN):
        table.append(rows(number * each, each))
    urls = [table._metadata.store.url(file.path) for file in table.scan().plan.files]

    def plain() -> pl.DataFrame:
        return pl.scan_parquet(urls, storage_options=server.options).collect()

    def full() -> None:
        assert (opened(server, table) if first else table).to_polars().height == ROWS_OF_A_SCAN

    server.latency = LATENCY
    what = f"{ROWS_OF_A_SCAN:,} rows in {FILES_OF_A_SCAN} files, " + ("opened and read" if first else "again")
    drop = (lambda: morrow.clear_caches(folder=True)) if first else None
    scan = ("Polars", timed(plain))
    compare(benchmark, SCANS, what, full, baseline=scan, bound=Bound(1.2), before=drop)
    server.latency = 0


WITH_KEYS = {
    "merged on read": {"num-sorted-run.compaction-trigger": "100"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "aggregation": {
        "num-sorted-run.compaction-trigger": "100",
        "merge-engine": "aggregation",
        "fields.p.aggregate-function": "max",
        "fields.v.aggregate-function": "last_non_null_value",
        "fields.amount.aggregate-function": "sum",
    },
}


@pytest.mark.parametrize("how", WITH_KEYS)
def test_a_full_scan_with_keys(benchmark: BenchmarkFixture, server: S3Server, how: str) -> None:
    server.latency = 0
    options = WITH_KEYS[how]
    catalog = morrow.Catalog(f"s3://{BUCKET}/scan {how}", storage_options=server.options)
    columns = "id BIGINT NOT NULL, p INT NOT NULL, v STRING, amount DOUBLE"
    table = catalog.create_table("db.t", schema=columns, primary_keys=["id"], options={"bucket": "4", **options})
    table.upsert(rows(0, ROWS_WITH_KEYS))
    for number in range(3):
        table.upsert(rows(number * ROWS_WITH_KEYS // 6, ROWS_WITH_KEYS // 4))
    urls = [table._metadata.store.url(file.path) for file in table.scan().plan.files]

    def plain() -> pl.DataFrame:
        return pl.scan_parquet(urls, storage_options=server.options).collect()

    def full() -> None:
        assert opened(server, table).to_polars().height == ROWS_WITH_KEYS

    server.latency = LATENCY
    what = f"{ROWS_WITH_KEYS:,} keys in {len(urls)} files, {how}, opened and read"
    compare(
        benchmark,
        SCANS,
        what,
        full,
        baseline=("Polars", timed(plain)),
        bound=Bound(1.2),
        before=lambda: morrow.clear_caches(folder=True),
    )
    server.latency = 0
