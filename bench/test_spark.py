"""Morrow on Spark: against Spark's own Parquet scan of the same files, which is the limit, and against Java Paimon.

All three take turns: Morrow and the scan in one session of two cores, Java Paimon in its own session (Spark 3.5, as its
jar requires) with the same cores and memory. Morrow's time includes planning, masks, building the DataFrame, and the
query. Its caches are dropped before every turn except for *again*. The tables of a quick run have a tenth of the rows
that the report names.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
import morrow.spark
from bench import spark as sparks
from bench import tables
from bench.compare import Baseline, Bound, Clock, Limit, Measured, compare, compare_each, put, timed
from bench.conftest import Peers, Tables
from bench.spark_worker import DRIVER, DRIVER_HEAP, DRIVER_JVM, EXECUTOR_HEAP, EXECUTORS, WARM
from bench.tables import HOME, SPARK_SIZES, Table
from bench.test_write import Workshop
from morrow.engine.structs import replace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = "Java Paimon 0.9.0, Spark 3.5"
SCAN = "read.parquet of its files"
LIMIT = "Spark: the scan of Parquet is the limit"
ENGINES = {
    "deduplicate": ("bigint", "spark_20"),
    "partial-update": ("partial_update", "spark_20_partial_update"),
    "10 % deleted": ("dv10", "spark_20_dv10"),
}
"""Merge engine -> its tables of 2 million and 20 million rows."""
QUERIES = {"full": "full read", "sum": "count and sum"}
FIRST = {
    "deduplicate": {"full": Bound(1.15), "sum": Bound(1.8)},
    "partial-update": {"full": Bound(1.6), "sum": Bound(2.5)},
    "10 % deleted": {"full": Bound(1.3), "sum": Bound(1.3)},
}
AGAIN = {**FIRST, "deduplicate": {"full": Bound(1.15), "sum": Bound(1.3)}}
"""Bounds of repeated reads against the scan, by engine and query."""
TO_JAVA = {"deduplicate": Bound(0.5), "partial-update": Bound(0.5), "10 % deleted": Bound(0.85)}
UPSERT_TO_JAVA = Bound(0.5)

ROUNDS, WARMUP = 7, 2
LARGE = 20
"""Millions of rows of a large table."""
GROWING_ROUNDS = {2: 5, 5: 3, 10: 3, 20: 3, 40: 1}
"""Rounds by millions of rows. A turn of a large table takes half a minute, with little variance."""
LARGE_ROUNDS = 3
FEW = 5
"""Rows with fewer rounds show their number of rounds."""
QUICK = 10
UPSERT_ROUNDS = 3
FIXED = {"bucket": "2"}
EXECUTOR_COUNTS, EXECUTOR_ROUNDS = (1, 2), 3
EXECUTOR_TABLE = 5
"""Millions of rows that executors read."""
HELD = {
    "spark_2": "2 million rows",
    "spark_20": "20 million rows",
    "spark_40": "40 million rows",
    "spark_20_partial_update": "20 million rows, partial-update",
}
"""Tables whose reads are measured for memory."""
MEGABYTE, MEBIBYTE = 10**6, 2**20
OVERHEAD = 384
"""MiB that a Spark process may use besides its heap, including Python workers, before a cluster kills it."""
MOST_HELD = {
    DRIVER: 600,
    DRIVER_JVM: (DRIVER_HEAP + OVERHEAD) * MEBIBYTE // MEGABYTE,
    EXECUTORS: max(EXECUTOR_COUNTS) * (EXECUTOR_HEAP + OVERHEAD) * MEBIBYTE // MEGABYTE,
}
"""Role -> MB: for the driver's Python the bound of large reads in one process, else Spark's request to a cluster."""
Drive = Callable[[Iterable[str], int, int], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    made = sparks.session("local[2]")
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def progress(request: pytest.FixtureRequest) -> None:
    """Print a line for each test, since a run takes some minutes."""
    plugins = request.config.pluginmanager
    with plugins.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{request.node.name} ", end="", flush=True)


def by_morrow(spark: SparkSession, data: Table, query: str) -> Callable[[], object]:
    return lambda: sparks.QUERIES[query](morrow.spark.read(spark, data.path))


def by_scan(spark: SparkSession, data: Table, query: str) -> Clock:
    return timed(lambda: sparks.QUERIES[query](sparks.plain(spark, data)))


def by_java(peer: Peers, data: Table, query: str) -> Clock:
    return lambda: peer("paimon-spark").clock(data.warehouse, query, "amount")


@pytest.mark.peers
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("engine", ENGINES)
def test_read(
    benchmark: BenchmarkFixture, spark: SparkSession, table: Tables, peer: Peers, engine: str, query: str
) -> None:
    data = table(ENGINES[engine][0])
    compare_each(
        benchmark,
        f"{engine}: {QUERIES[query]}, first",
        by_morrow(spark, data, query),
        [
            Baseline(
                "Spark: the scan of Parquet is the limit", SCAN, by_scan(spark, data, query), FIRST[engine][query]
            ),
            Baseline("Spark: Java Paimon", JAVA, by_java(peer, data, query), TO_JAVA[engine]),
        ],
        before=morrow.clear_caches,
        rounds=ROUNDS,
        warmup=WARMUP,
    )


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("engine", ENGINES)
def test_read_again(benchmark: BenchmarkFixture, spark: SparkSession, table: Tables, engine: str, query: str) -> None:
    """Measure with masks and metadata cached, as in a session that reads a table twice."""
    data = table(ENGINES[engine][0])
    compare(
        benchmark,
        LIMIT,
        f"{engine}: {QUERIES[query]}, again",
        by_morrow(spark, data, query),
        baseline=(SCAN, by_scan(spark, data, query)),
        bound=AGAIN[engine][query],
        rounds=ROUNDS,
    )


@pytest.mark.peers
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("millions", SPARK_SIZES)
def test_more_and_more_rows(
    benchmark: BenchmarkFixture, spark: SparkSession, table: Tables, peer: Peers, millions: int, query: str
) -> None:
    data = table(f"spark_{millions}")
    rows = compare_each(
        benchmark,
        f"{millions} million rows: {QUERIES[query]}, first",
        by_morrow(spark, data, query),
        [
            Baseline(
                f"Spark, a growing table, {QUERIES[query]}: the scan of Parquet", SCAN, by_scan(spark, data, query)
            ),
            Baseline(f"Spark, a growing table, {QUERIES[query]}: Java Paimon", JAVA, by_java(peer, data, query)),
        ],
        before=morrow.clear_caches,
        rounds=GROWING_ROUNDS[millions],
        warmup=int(millions == min(GROWING_ROUNDS)),
    )
    for row in rows:
        row.note = rounds_told(row)
        row.curve = {"at": millions, "axis": "million rows, and 25 % of them in updates", "each": "million rows"}
    put(benchmark, [*rows, *large_rows("deduplicate", query, rows)] if millions == LARGE else rows)


@pytest.mark.peers
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "deduplicate"])
def test_read_large(
    benchmark: BenchmarkFixture, spark: SparkSession, table: Tables, peer: Peers, engine: str, query: str
) -> None:
    data = table(ENGINES[engine][1])
    rows = compare_each(
        benchmark,
        "",
        by_morrow(spark, data, query),
        [Baseline("", SCAN, by_scan(spark, data, query)), Baseline("", JAVA, by_java(peer, data, query))],
        before=morrow.clear_caches,
        rounds=LARGE_ROUNDS,
        warmup=0,
    )
    for row in rows:
        row.note = rounds_told(row)
    put(benchmark, large_rows(engine, query, rows))


def rounds_told(row: Measured) -> str:
    rounds = len(row.subject)
    return "" if rounds >= FEW else "one round" if rounds == 1 else f"median of {rounds} rounds"


def large_rows(engine: str, query: str, rows: list[Measured]) -> list[Measured]:
    """Move the rows against the scan and against Java Paimon to the sections of large tables."""
    scan, java = rows
    what = f"{engine}: {QUERIES[query]}, first"
    sections = f"Spark, {LARGE} million rows: the scan of Parquet", f"Spark, {LARGE} million rows: Java Paimon"
    return [
        replace(scan, section=sections[0], what=what, bound=FIRST[engine][query], curve=None),
        replace(java, section=sections[1], what=what, bound=TO_JAVA[engine], curve=None),
    ]


@pytest.fixture
def workshop(request: pytest.FixtureRequest) -> Iterator[Workshop]:
    shop = Workshop(HOME / "spark", QUICK if request.config.getoption("--quick") else 1)
    shop.clean()
    yield shop
    shutil.rmtree(shop.folder, ignore_errors=True)


@pytest.mark.peers
@pytest.mark.parametrize("into", ["an empty table", "as many rows"])
def test_upsert(benchmark: BenchmarkFixture, spark: SparkSession, workshop: Workshop, peer: Peers, into: str) -> None:
    """Upsert unordered rows of a Parquet file. If the table has rows, every second key exists already."""
    rows = workshop.base()
    source = workshop.folder.with_suffix(".parquet")
    rows.write_parquet(source, row_group_size=tables.ROW_GROUP)
    made = [workshop.table(FIXED)]
    empty = into == "an empty table"
    if not empty:
        made[0].upsert(rows.with_columns(pl.when(pl.col("id") % 4 == 0).then("id").otherwise(pl.col("id") + 1)))
        made[0].compact(full=True)
    original = Path(made[0].path)
    copy = original.with_name("copy")

    def before() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(original, copy)
        morrow.clear_caches()

    def java() -> float:
        before()
        return peer("paimon-spark").write(str(workshop.folder), "db.copy", str(source))

    compare(
        benchmark,
        "Spark: upsert",
        f"upsert of {rows.height:,} rows into {into}",
        lambda: morrow.spark.upsert(spark.read.parquet(str(source)), copy),
        baseline=(JAVA, java),
        bound=UPSERT_TO_JAVA,
        before=before,
        rounds=UPSERT_ROUNDS,
        note=f"{FIXED['bucket']} buckets; Morrow's side includes fsync of every file; median of {UPSERT_ROUNDS} rounds",
    )
    source.unlink()

    assert morrow.open(copy).scan().count() == rows.height * (2 if empty else 3) // 2


@pytest.fixture
def drive(request: pytest.FixtureRequest, table: Tables) -> Drive:
    """`drive(names, executors, rounds)`: the results of a driver in a new process for each of these tables.

    Measures memory if `rounds` is 0, else time.
    """
    size = "quick" if request.config.getoption("--quick") else "full"

    def run(names: Iterable[str], executors: int, rounds: int) -> list[dict[str, Any]]:
        for name in (WARM, *names):
            table(name)
        command = [sys.executable, "-m", "bench.spark_worker", size, str(executors), str(rounds), *names]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=HOME.parent.parent)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.mark.long
@pytest.mark.parametrize("executors", EXECUTOR_COUNTS)
def test_executors(benchmark: BenchmarkFixture, drive: Drive, executors: int) -> None:
    """Measure reads by executors with one core each."""
    (answer,) = benchmark.pedantic(drive, ([f"spark_{EXECUTOR_TABLE}"], executors, EXECUTOR_ROUNDS), rounds=1)
    put(
        benchmark,
        [
            Measured(
                f"Spark: executors, {EXECUTOR_TABLE} million rows",
                f"{QUERIES[query]}: {executors} {'executor' if executors == 1 else 'executors'} of one core, first",
                SCAN,
                answer[query]["Morrow"],
                answer[query]["scan"],
                note=f"median of {EXECUTOR_ROUNDS} rounds",
            )
            for query in QUERIES
        ],
    )


@pytest.mark.long
def test_peak_memory(benchmark: BenchmarkFixture, drive: Drive) -> None:
    """Measure memory of a full read and an aggregate: a driver with 0.5 GiB of heap, two executors with 1 GiB."""
    answers = benchmark.pedantic(drive, (HELD, max(EXECUTOR_COUNTS), 0), rounds=1)
    rows = []
    for role, most in MOST_HELD.items():
        for answer in answers:
            measured = Measured("Spark: peak memory", f"{role}: {HELD[answer['table']]}", bound=Limit(most, "MB"))
            measured.subject = [answer[role] / MEGABYTE]
            measured.note = f"{answer['stored'] / MEGABYTE:,.0f} MB of Parquet files" if role == DRIVER else ""
            rows.append(measured)
    put(benchmark, rows)


@pytest.mark.peers
@pytest.mark.parametrize("name", [name for names in ENGINES.values() for name in names[:1]])
def test_java_reads_the_same_rows(spark: SparkSession, peer: Peers, name: str) -> None:
    """Check that the reads return the same rows, so that times are comparable."""
    data = tables.make(name, quick=True)
    rows, total = sparks.count_and_sum(morrow.spark.read(spark, data.path))
    answer = peer("paimon-spark").read(data.warehouse, "sum", "amount")

    assert answer["rows"] == rows == data.live_rows
    assert answer["sum"] == pytest.approx(total)
