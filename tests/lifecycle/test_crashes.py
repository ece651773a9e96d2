"""Maintenance killed, or failing, at each of its file operations: the table is whole, and the next call completes it.

`make test` tries some operations of each kind, always the same ones; `make test-long` tries all.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal

import pytest

from morrow.engine.errors import MorrowError
from morrow.engine.io.durability import fsync_disabled
from morrow.engine.io.local import LocalStore
from tests.lifecycle.checks import check_interrupted, check_repeated
from tests.lifecycle.conftest import Templates
from tests.lifecycle.operations import OPERATIONS, table_at
from tests.support.faulty_store import ERRORS, KILLS, Fault, FaultKind, FaultyStore

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.lifecycle.operations", "morrow.writing"])
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SAMPLE = 3
"""Operations tried of each kind of fault in `make test`."""


def points(name: str, kind: FaultKind, templates: Templates) -> list[int]:
    """At which of its file operations the fault comes."""
    store = FaultyStore(LocalStore(), Fault(1 << 62, kind))
    with fsync_disabled():
        OPERATIONS[name].run(table_at(templates.copy(name), store))
    every = range(store.counted)
    return list(every) if LONG else sorted(random.Random(f"{name} {kind}").sample(every, min(SAMPLE, len(every))))


def _run(name: str, path: str, fault: Fault) -> None:
    """What the process does that is killed."""
    with fsync_disabled():
        OPERATIONS[name].run(table_at(path, FaultyStore(LocalStore(), fault)))


@pytest.mark.parametrize("kind", KILLS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed(name: str, kind: FaultKind, templates: Templates) -> None:
    before, after = templates.states(name)
    for number in points(name, kind, templates):
        path = templates.copy(name)
        process = PROCESSES.Process(target=_run, args=(name, path, Fault(number, kind)))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL, f"killed at change {number}: exit code {process.exitcode}"
        with fsync_disabled():
            check_interrupted(path, before, after)
            check_repeated(path, OPERATIONS[name], after)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", OPERATIONS)
def test_failed(name: str, kind: FaultKind, templates: Templates) -> None:
    """A typed error or success, and nothing in between."""
    before, after = templates.states(name)
    for number in points(name, kind, templates):
        path = templates.copy(name)
        store = FaultyStore(LocalStore(), Fault(number, kind))
        error: MorrowError | None = None
        with fsync_disabled():
            try:
                OPERATIONS[name].run(table_at(path, store))
            except MorrowError as caught:
                error = caught
            found = check_interrupted(path, before, after)
            assert error is not None or found == after, f"acknowledged and not done: {store.failed}"
            check_repeated(path, OPERATIONS[name], after)
