"""Maintenance that is killed or fails at any file operation: the table is intact, and the next call completes it.

`make test` kills half of the operations, and has the store fail in the others: some faults of each, always the same
ones. `make test-long` tries all.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence

import pytest

from morrow.engine.errors import MorrowError
from morrow.engine.io.local import LocalStore, disable_fsync
from tests.lifecycle.checks import check_interrupted, check_repeated
from tests.lifecycle.conftest import Templates
from tests.lifecycle.operations import OPERATIONS, table_at
from tests.support.faulty_store import ERRORS, KILLS, Fault, FaultKind, FaultyStore
from tests.support.processes import PROCESSES
from tests.support.profile import every
from tests.support.system_calls import counted, killed_at

NEVER = 1 << 62
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SAMPLE = 1
"""Number of kills, and of errors, that `make test` tries per operation, at a random file operation."""
REMOVE_MANY = ("expire snapshots", "expire changelogs", "delete a tag", "rollback to a snapshot", "rollback to a tag")
"""Operations that make many system calls in one operation of the store."""


def faults(name: str, kinds: Sequence[FaultKind], templates: Templates) -> list[Fault]:
    """List the faults to try."""
    chance = random.Random(name)
    tried = kinds if LONG else chance.sample(kinds, SAMPLE)
    every = [[Fault(number, kind) for number in range(_operations(name, kind, templates))] for kind in tried]
    return [fault for one in every for fault in (one if LONG else chance.sample(one, min(1, len(one))))]


def _operations(name: str, kind: FaultKind, templates: Templates) -> int:
    """Count the file operations that can have a fault of this kind."""
    store = FaultyStore(LocalStore(), Fault(NEVER, kind))
    with disable_fsync():
        OPERATIONS[name].run(table_at(templates.copy(name), store))
    return len(store.counted)


def _run(name: str, path: str, fault: Fault) -> None:
    """Run the operation in the process that is killed."""
    with disable_fsync():
        OPERATIONS[name].run(table_at(path, FaultyStore(LocalStore(), fault)))


@pytest.mark.parametrize("name", every(2, OPERATIONS))
def test_killed(name: str, templates: Templates) -> None:
    before, after = templates.states(name)
    for fault in faults(name, KILLS, templates):
        path = templates.copy(name)
        process = PROCESSES.Process(target=_run, args=(name, path, fault))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL, f"{fault}: exit code {process.exitcode}"
        with disable_fsync():
            check_interrupted(path, before, after)
            check_repeated(path, OPERATIONS[name], after)


def _run_until(name: str, path: str, number: int) -> None:
    with disable_fsync():
        killed_at(number, path, lambda: OPERATIONS[name].run(table_at(path)))


@pytest.mark.parametrize("name", OPERATIONS if LONG else REMOVE_MANY[::2])
def test_killed_within_an_operation(name: str, templates: Templates) -> None:
    """Kill between the removals of two files, or between a link and the removal of its temporary name."""
    before, after = templates.states(name)
    with disable_fsync():
        whole = templates.copy(name)
        calls = range(counted(whole, lambda: OPERATIONS[name].run(table_at(whole))))
    for number in calls if LONG else random.Random(name).sample(calls, min(1, len(calls))):
        path = templates.copy(name)
        process = PROCESSES.Process(target=_run_until, args=(name, path, number))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL, f"call {number}: exit code {process.exitcode}"
        with disable_fsync():
            check_interrupted(path, before, after)
            check_repeated(path, OPERATIONS[name], after)


@pytest.mark.parametrize("name", every(2, OPERATIONS, first=1))
def test_failed(name: str, templates: Templates) -> None:
    """Each operation succeeds or raises a typed error, and nothing in between."""
    before, after = templates.states(name)
    for fault in faults(name, ERRORS, templates):
        path = templates.copy(name)
        store = FaultyStore(LocalStore(), fault)
        error: MorrowError | None = None
        with disable_fsync():
            try:
                OPERATIONS[name].run(table_at(path, store))
            except MorrowError as caught:
                error = caught
            found = check_interrupted(path, before, after)
            assert error is not None or found == after, f"acknowledged and not done: {store.failed}"
            check_repeated(path, OPERATIONS[name], after)
