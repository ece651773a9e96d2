"""A commit that is repeated with its commit user and identifier is applied once, whatever happened before."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import MorrowError
from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.tables.table import Table
from morrow.writers.commit.messages import CommitMessage
from tests.durability.checks import read
from tests.durability.operations import NEW_ROWS, OPERATIONS, at
from tests.support.faulty_store import ERRORS, Fault, FaultKind, FaultyStore
from tests.support.processes import PROCESSES
from tests.support.system_calls import counted, killed_at

COMMIT = 7
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SAMPLE, SEED = 4, 2
"""Kills tried in `make test`: the seed gives some before the snapshot is linked and some after."""


def write(table: Table) -> None:
    """Write as a job with numbered commits does, both at first and after each failure."""
    with table.writer(commit_user="job") as writer:
        writer.write(NEW_ROWS)
        writer.commit(COMMIT)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.name)
def test_a_failure_at_every_file_operation(kind: FaultKind, copy: Callable[[str], str]) -> None:
    for number in range(1_000):
        path = copy("append")
        store = FaultyStore(LocalStore(), Fault(number, kind))
        with disable_fsync():
            try:
                write(Table(at(path, store)))
            except MorrowError:
                write(morrow.open(path))
        assert read(path) == OPERATIONS["append"].after
        assert [s.commit_identifier for s in morrow.open(path).snapshots() if s.commit_user == "job"] == [COMMIT]
        if not store.failed:
            break
    assert number > 3


def test_success_repeated(copy: Callable[[str], str]) -> None:
    path = copy("append")
    for _ in range(3):
        write(morrow.open(path))

    assert read(path) == OPERATIONS["append"].after


# Killed processes whose job is repeated


ONE = pl.DataFrame({"id": [1], "n": [1]}, schema={"id": pl.Int32, "n": pl.Int32})


def _summed(folder: Path) -> tuple[str, list[CommitMessage]]:
    """Make a table that shows if a row is applied twice, and a prepared batch with a later commit before it."""
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    table = morrow.Catalog(folder).create_table(
        "db.t", schema="id INT NOT NULL, n INT", primary_keys=["id"], options=options
    )
    table.upsert(ONE)
    with table.writer("job") as writer:
        writer.write(ONE)
        waiting = writer.prepare()
    table.upsert(ONE)
    return table.path, waiting


def _commit(path: str, waiting: list[CommitMessage]) -> None:
    morrow.open(path).committer("job").commit(waiting, COMMIT)


def _rewrite(path: str, waiting: list[CommitMessage]) -> None:  # noqa: ARG001 - the rows are written again
    with morrow.open(path).writer("job") as writer:
        writer.write(ONE)
        writer.commit(COMMIT)


def _commit_until(number: int, path: str, waiting: list[CommitMessage]) -> None:
    with disable_fsync():
        killed_at(number, path, lambda: _commit(path, waiting))


def test_killed_and_repeated(tmp_path: Path) -> None:
    """The rows appear once, even after a kill between the link of the snapshot and the reply."""
    with disable_fsync():
        made, waiting = _summed(tmp_path)
        whole = str(shutil.copytree(made, tmp_path / "whole"))
        calls = range(counted(whole, lambda: _commit(whole, waiting)))
        newest = set()
        for number in calls if LONG else sorted(random.Random(SEED).sample(calls, SAMPLE)):
            path = str(shutil.copytree(made, tmp_path / f"copy-{number}"))
            process = PROCESSES.Process(target=_commit_until, args=(number, path, waiting))
            process.start()
            process.join(60)
            assert process.exitcode == -signal.SIGKILL
            newest.add(morrow.open(path).scan().snapshot_id)

            for repeat in (_rewrite, _commit) if number % 2 else (_commit, _rewrite):
                repeat(path, waiting)
                assert morrow.open(path).scan().to_polars().rows() == [(1, 3)], f"killed at {number}, then {repeat}"
    assert newest == {2, 3}, "no kill came before the link, or none after it"
