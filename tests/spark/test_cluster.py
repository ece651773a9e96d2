"""A Spark cluster: a master and two workers in separate processes, and a driver in another one.

Unlike `local[2]`, it shows that everything sent to tasks can be pickled. It also shows that failing or dying tasks,
executors and drivers lose or duplicate no rows, and that their leftover files can be removed. Spark only repeats a slow
task on another machine, so each worker has a separate address.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import morrow
from morrow.spark import read, write
from tests.conftest import PROJECT
from tests.spark import cluster_driver
from tests.spark.cluster_driver import READ, UPDATED_FROM
from tests.spark.failures import ROWS
from tests.support.spark_cluster import cluster
from tests.support.written import data_files, new_table
from tests.support.written import rows as rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 400
WORKERS = 2
LONG_AGO = 1_500_000_000
"""Seconds since 1970, in July 2017."""

PLAIN = {"manifest.compression": "none"}  # so that manifests can be searched for file names
VECTORS = {**PLAIN, "bucket": 2, "deletion-vectors.enabled": True}
TABLES = {name: (["id"], VECTORS) for name in ("vectors", "slow", "lost", "driver")} | {"append": ([], PLAIN)}
KEYED = [name for name, (keys, _) in TABLES.items() if keys]
OLD = [(i, -1) for i in range(10)]
NEW = [(i, i % 50) for i in range(ROWS)]


@dataclass(frozen=True)
class Left:
    """The output and tables of the driver after it was killed."""

    told: Any
    folder: Path
    tables: dict[str, morrow.Table]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, golden_root: Path) -> Left:
    folder = tmp_path_factory.mktemp("cluster")
    made = {
        name: new_table(folder, "id BIGINT, v BIGINT", keys=keys, options=options, name=name)
        for name, (keys, options) in TABLES.items()
    }
    for name in KEYED:
        made[name].append({"id": [i for i, _ in OLD], "v": [v for _, v in OLD]})
    (folder / "attempts").mkdir()
    with cluster(folder, WORKERS, apart=True) as running:
        program = [sys.executable, "-m", "tests.spark.cluster_driver", running.url, str(folder), str(golden_root)]
        path = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            program, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=SECONDS, cwd=folder
        )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [line for line in done.stderr.splitlines() if "WARN" in line or line.startswith("Using")] == []
    return Left(json.loads(done.stdout.splitlines()[-1]), folder, made)


@pytest.fixture(scope="module")
def tables(left: Left) -> dict[str, morrow.Table]:
    """Return the tables that the driver wrote with injected failures, until it was killed."""
    return left.tables


def test_executors_read_what_this_process_reads(left: Left) -> None:
    """The driver has compared them row by row."""
    assert left.told["read"] == list(READ)


def test_a_killed_executor_costs_no_row_and_leaves_no_file(left: Left) -> None:
    """The second of two writes lost an executor after the first file, and Spark started another one."""
    assert left.told["executors"] == WORKERS + 1
    table = morrow.open(left.folder / "table")
    assert [snapshot.commit_kind for snapshot in table.snapshots()] == ["APPEND", "COMPACT"] * 2

    rows = table.scan(["id", "round"]).to_polars().sort("id")
    assert rows["id"].to_list() == list(range(UPDATED_FROM + cluster_driver.ROWS))
    assert rows["round"].to_list() == [1] * UPDATED_FROM + [2] * cluster_driver.ROWS
    assert table.remove_orphan_files(older_than=dt.timedelta(0)).paths == ()


def attempts(table: morrow.Table, name: str) -> set[str]:
    """List the attempts that wrote their files, as task.attempt."""
    names = [path.name.split(" ") for path in (Path(table.path).parents[1] / "attempts").iterdir()]
    return {attempt for case, attempt in names if case == name}


def strays(table: morrow.Table) -> set[str]:
    """List data files, index files and files of the write itself that no commit has ever referenced."""
    manifests = b"".join(path.read_bytes() for path in (Path(table.path) / "manifest").iterdir())
    names = {path.name for path in data_files(Path(table.path)) if path.parent.name not in ("manifest", "snapshot")}
    return {name for name in names if name.encode() not in manifests}


@pytest.mark.parametrize("name", ["append", "vectors"])
def test_tasks_that_fail_and_whose_processes_die(tables: dict[str, morrow.Table], name: str) -> None:
    """Each task fails after writing its files, then its process dies, then it succeeds."""
    assert {"0.0", "0.1", "0.2"} <= attempts(tables[name], name)
    assert rows_of(tables[name]) == NEW
    assert strays(tables[name]) == set()


def test_of_a_slow_task_and_its_double_one_counts(tables: dict[str, morrow.Table]) -> None:
    """Both attempts have written their files, as Spark started the second while the first was still running."""
    assert {"0.0", "0.1"} <= attempts(tables["slow"], "slow")
    assert rows_of(tables["slow"]) == NEW
    assert strays(tables["slow"]) == set()


def test_an_executor_that_is_killed_in_the_middle_of_a_write(tables: dict[str, morrow.Table]) -> None:
    """Its tasks run again, including those before the write, which now return other rows with the same keys."""
    assert {"0.0", "0.1", "1.0"} <= attempts(tables["lost"], "lost")
    assert [i for i, _ in rows_of(tables["lost"])] == list(range(ROWS))
    assert all(0 <= v < 50 for _, v in rows_of(tables["lost"]))
    assert strays(tables["lost"]) == set()


def test_a_driver_that_is_killed_between_files_and_commit(tables: dict[str, morrow.Table], spark: SparkSession) -> None:
    """Nothing was committed; the next driver makes the same commit once, and the old files are orphans."""
    table = tables["driver"]
    assert rows_of(table) == OLD
    left = strays(table)
    assert len([name for name in left if name.startswith("data-")]) >= 2

    rows = spark.range(0, ROWS).selectExpr("id", "id % 50 AS v")
    assert write(rows, table.path, commit_user="loader", commit_identifier=1) is not None
    assert write(rows, table.path, commit_user="loader", commit_identifier=1) is None
    assert rows_of(table) == NEW
    assert sorted(map(tuple, read(spark, table.path).collect())) == NEW
    assert strays(table) == left

    assert table.remove_orphan_files(dry_run=True).count == 0
    for path in data_files(Path(table.path)):
        os.utime(path, (LONG_AGO, LONG_AGO))
    removed = table.remove_orphan_files(older_than=dt.timedelta(days=1), dry_run=False)
    assert {Path(path).name for path in removed.paths} >= left
    assert strays(table) == set()
    assert not list(Path(table.path).glob(".morrow-*"))
    assert rows_of(table) == NEW


@pytest.mark.parametrize("name", KEYED)
def test_tables_go_on_after_that(tables: dict[str, morrow.Table], name: str, tmp_path: Path) -> None:
    table = morrow.open(shutil.copytree(tables[name].path, tmp_path / "copy"))
    before = [i for i, _ in rows_of(table)]
    table.append({"id": [7, 1000], "v": [0, 0]})
    table.compact(full=True)
    assert [i for i, _ in rows_of(table)] == [*before, 1000]
