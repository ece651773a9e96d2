"""A commit repeated with its commit user and identifier, after whatever answer, is made once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import morrow
from morrow.engine.errors import MorrowError
from morrow.engine.io.durability import fsync_disabled
from morrow.engine.io.local import LocalStore
from morrow.table import Table
from tests.durability.checks import read
from tests.durability.operations import NEW_ROWS, OPERATIONS, at
from tests.support.faulty_store import ERRORS, Fault, FaultKind, FaultyStore

COMMIT = 7


def write(table: Table) -> None:
    """What a job does that knows its commits by number, the first time and after each failure."""
    with table.writer(commit_user="job") as writer:
        writer.write(NEW_ROWS)
        writer.commit(COMMIT)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.name)
def test_a_failure_at_every_file_operation(kind: FaultKind, copy: Callable[[str], str]) -> None:
    for number in range(1_000):
        path = copy("append")
        store = FaultyStore(LocalStore(), Fault(number, kind))
        with fsync_disabled():
            try:
                write(Table(at(path, store)))
            except MorrowError:
                write(morrow.open(path))
        assert read(path) == OPERATIONS["append"].after
        assert [s.commit_identifier for s in morrow.open(path).snapshots() if s.commit_user == "job"] == [COMMIT]
        if not store.failed:
            break
    assert number > 5


def test_success_repeated(copy: Callable[[str], str]) -> None:
    path = copy("append")
    for _ in range(3):
        write(morrow.open(path))

    assert read(path) == OPERATIONS["append"].after
