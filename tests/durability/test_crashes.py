"""A process killed at every file operation of what it does: the table is as before, or as after, and goes on."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable

import pytest

from morrow.engine.io.durability import fsync_disabled
from morrow.engine.io.local import LocalStore
from tests.durability.checks import check_table, newest
from tests.durability.operations import OPERATIONS, at
from tests.support.faulty_store import KILLS, Fault, FaultKind, FaultyStore

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.durability.operations", "morrow.writing"])


def _run(operation: str, path: str, fault: Fault) -> None:
    """What the process does that is killed. (Synced or not, what a killed process wrote stays: test_power_loss.py.)"""
    with fsync_disabled():
        OPERATIONS[operation].run(at(path, FaultyStore(LocalStore(), fault)))


def exit_code(operation: str, path: str, fault: Fault) -> int | None:
    process = PROCESSES.Process(target=_run, args=(operation, path, fault))
    process.start()
    process.join(60)
    return process.exitcode


@pytest.mark.parametrize("kind", KILLS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_every_file_operation(name: str, kind: FaultKind, copy: Callable[[str], str]) -> None:
    operation, found = OPERATIONS[name], []
    for number in range(1_000):
        path = copy(name)
        past, _ = newest(path)
        code = exit_code(name, path, Fault(number, kind))
        with fsync_disabled():
            found.append(check_table(operation, path, past=past))
        if code == 0:
            break
        assert code == -signal.SIGKILL, f"killed at change {number}: exit code {code}"

    # Early kills leave the table as it was; what ran to its end is there.
    assert found[0] == operation.before
    assert found[-1] == operation.after
    assert number > 0
