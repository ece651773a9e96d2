"""A cluster: a master and two workers in processes of their own, and a driver in another one.

What `local[2]` cannot show: that all which travels can travel, and what the death of an executor does to a write.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import morrow
from tests.conftest import PROJECT
from tests.spark.cluster_driver import READ, ROWS, UPDATED_FROM
from tests.support.spark_cluster import cluster

SECONDS = 400
WORKERS = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def told(folder: Path, golden_root: Path) -> Any:
    """What the driver tells."""
    with cluster(folder, WORKERS) as running:
        program = [sys.executable, "-m", "tests.spark.cluster_driver", running.url, str(folder), str(golden_root)]
        path = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            program, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=SECONDS, cwd=folder
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_executors_read_what_this_process_reads(told: Any) -> None:
    """Compared by the driver, row by row."""
    assert told["read"] == list(READ)


def test_a_killed_executor_costs_no_row_and_leaves_no_file(told: Any, folder: Path) -> None:
    """The second of two writes lost an executor when its first file was there, and Spark started another one."""
    assert told["executors"] == WORKERS + 1
    table = morrow.open(folder / "table")
    assert [snapshot.commit_kind for snapshot in table.snapshots()] == ["APPEND", "COMPACT"] * 2

    rows = table.scan(["id", "round"]).to_polars().sort("id")
    assert rows["id"].to_list() == list(range(UPDATED_FROM + ROWS))
    assert rows["round"].to_list() == [1] * UPDATED_FROM + [2] * ROWS
    assert table.remove_orphan_files(older_than=dt.timedelta(0)).paths == ()
