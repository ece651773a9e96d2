"""Reads of a growing table: after each commit, with warm caches, and in new processes.

Rows are committed to a copy of the table. Then the copy is read, in turns with the plain scan of its current files. CPU
seconds are measured, since short reads are easily disturbed by other processes. The measured read is the first one of
the new snapshot, including masks and merged rows that the commit made necessary.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench import data, tables
from bench.compare import Bound, Measured, put
from bench.conftest import Tables
from bench.tables import SPECS, Table
from morrow.engine.io import cache_folder

SECTION = "After a commit"
CURVE = "After a commit: the first read by the rows of the commit"
PROCESSES = "New processes: masks and merged rows from the cache folder"

COMMITS = 15
"""Number of commits. The bound is about a hundred, but the median of 15 is as stable."""
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
ENGINES = {
    "bigint": "deduplicate",
    "composite": "deduplicate, key (STRING, INT)",
    "partial_update": "partial-update",
    "sequence_groups": "partial-update, two groups and a sum",
    "aggregation": "aggregation",
}
FOLDER_WARM = {"bigint": 1.2, "composite": 1.2}
"""Bounds of reads in new processes that use the cache folder of another process; 1.3 for other engines."""
SUM = (pl.len(), pl.col("amount").sum())


def cpu(action: Callable[[], object]) -> float:
    """Return the CPU seconds of the action in all threads."""
    began = time.process_time()
    kept = action()
    took = time.process_time() - began
    del kept
    return took


class Growing:
    """A copy of a table, to which commits are added."""

    def __init__(self, table: Table, name: str, home: Path, divisor: int) -> None:
        shutil.copytree(table.path, home)
        self.path, self.columns, self.name, self.commits = str(home), table.columns, name, 0
        self.spec = SPECS[name].scaled(divisor)

    def commit(self, rows: int) -> None:
        """Upsert rows, a fifth of them new, like the table's updates."""
        self.commits += 1
        ids = data.update_ids(self.spec.rows, rows, seed=1_000 + self.commits)
        update = data.rows(ids, self.spec.key, seed=2_000 + self.commits)
        merge = self.spec.merge
        morrow.open(self.path).upsert(data.without(update, merge.halves[self.commits % 2]) if merge else update)

    def plain(self) -> pl.LazyFrame:
        """Return a scan of the current files without merging."""
        files = [file.path for file in morrow.open(self.path).scan().plan.files]
        return pl.scan_parquet(files).select(self.columns)

    def full(self) -> pl.DataFrame:
        return morrow.open(self.path).scan().to_polars()

    def total(self) -> pl.DataFrame:
        return morrow.open(self.path).scan(columns=["amount"]).lazy().select(SUM).collect()


@pytest.fixture
def growing(table: Tables, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Growing]]:
    divisor = tables.QUICK_DIVISOR if request.config.getoption("--quick") else 1
    yield lambda name: Growing(table(name), name, tmp_path / "t", divisor)
    morrow.clear_caches()


def after_commits(table: Growing, rows: int, commits: int) -> tuple[Measured, Measured]:
    """Measure a full read, and count and sum, alternating which is first after a commit."""
    found = {
        "full read": Measured(SECTION, "", "Polars scan of the same files, CPU", bound=Bound(1.5)),
        "count and sum": Measured(SECTION, "", "Polars scan of the same files, CPU", bound=Bound(1.5)),
    }
    table.full(), table.total()
    scans: dict[str, Callable[[], object]] = {
        "full read": table.plain().collect,
        "count and sum": table.plain().select(SUM).collect,
    }
    for turn in range(2 * commits + 2):
        table.commit(rows)
        what = ("full read", "count and sum")[turn % 2]
        # Polars releases memory unused for half a second, as during a commit, and the next read then takes 50 %
        # longer. So a plain scan of the previous files runs before both.
        scans[what]()
        subject = cpu(table.total if turn % 2 else table.full)
        plain = table.plain() if turn % 2 == 0 else table.plain().select(SUM)  # planned after the read, which plans
        scans[what] = plain.collect
        plain.collect()
        base = cpu(plain.collect)
        (table.full if turn % 2 else table.total)()
        if turn > 1:  # the first refresh reads the keys of all files
            found[what].base.append(base)
            found[what].subject.append(subject)
    return found["full read"], found["count and sum"]


@pytest.mark.parametrize("name", ENGINES)
def test_reads_after_commits(benchmark: BenchmarkFixture, growing: Callable[[str], Growing], name: str) -> None:
    table = growing(name)
    rows = 10_000 if table.spec.rows > 1_000_000 else 1_000
    measured: list[Measured] = []
    benchmark.pedantic(lambda: measured.extend(after_commits(table, rows, COMMITS)), rounds=1, iterations=1)
    for each, what in zip(measured, ("full read", "count and sum")):
        each.what = f"{ENGINES[name]}: {what}, commits of {rows:,} rows"
    put(benchmark, measured)


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("name", ["bigint", "sequence_groups"])
def test_sizes_of_commits(benchmark: BenchmarkFixture, growing: Callable[[str], Growing], name: str, rows: int) -> None:
    table = growing(name)
    if rows > table.spec.rows // 2:
        pytest.skip("the table has not as many rows")
    measured: list[Measured] = []
    benchmark.pedantic(lambda: measured.extend(after_commits(table, rows, 4)), rounds=1, iterations=1)
    for each, what in zip(measured, ("full read", "count and sum")):
        each.section, each.what, each.bound = CURVE, f"{ENGINES[name]}: {what}, {rows:,} rows", None
    put(benchmark, measured)


PROGRAM = """
import json, sys, time
import polars as pl, pyarrow.parquet
import morrow, morrow.readers.merges.sections
from bench.test_commits import SUM, cpu
path, small, what, *files = sys.argv[1:]
def read(path):
    scan = morrow.open(path).scan(columns=None if what == "full" else ["amount"])
    return scan.to_polars() if what == "full" else scan.lazy().select(SUM).collect()
plain = pl.scan_parquet(files).select([field.name for field in morrow.open(path).scan().plan.fields])
plain = plain if what == "full" else plain.select(SUM)
read(small)
plain.collect()
base = cpu(plain.collect)
print(json.dumps([cpu(lambda: read(path)), base, cpu(lambda: read(path))]))
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("what", ["full", "sum"])
def test_new_processes(benchmark: BenchmarkFixture, table: Tables, tmp_path: Path, name: str, what: str) -> None:
    """Measure reads in new processes. A small table is read first, since imports are measured elsewhere."""
    data_table, small = table(name), table("small")
    empty, warm = (
        Measured(PROCESSES, f"{ENGINES[name]}: {what}, folder {state}", "Polars scan, no merge, CPU", bound=bound)
        for state, bound in (("empty", None), ("warm", Bound(FOLDER_WARM.get(name, 1.3))))
    )

    def run(folder: Path) -> tuple[float, float]:
        home = {cache_folder.SWITCH: "on", cache_folder.FOLDER: str(folder)}
        command = [sys.executable, "-c", PROGRAM, data_table.path, small.path, what, *data_table.files]
        told = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **home})
        subject, base, _ = json.loads(told.stdout)
        return subject, base

    def rounds() -> None:
        for number in range(7):
            for measured in (empty, warm):
                subject, base = run(tmp_path / str(number))
                measured.subject.append(subject)
                measured.base.append(base)

    benchmark.pedantic(rounds, rounds=1, iterations=1)
    put(benchmark, [empty, warm])
