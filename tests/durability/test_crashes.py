"""A process killed at any of its file operations: the table has its old or its new rows, and can still be written."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from itertools import product
from multiprocessing.connection import Connection

import pytest

from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.tables.table import Table
from tests.durability.checks import check_table, newest, read
from tests.durability.moments import moments
from tests.durability.operations import OLD_ROWS, OPERATIONS, at, rows, state
from tests.support.faulty_store import KILLS, Fault, FaultKind, FaultyStore
from tests.support.processes import PROCESSES
from tests.support.profile import every


def _run(operation: str, path: str, fault: Fault) -> None:
    """Run the operation in the process that is killed. Its writes survive unsynced; test_power_loss.py covers syncs."""
    with disable_fsync():
        OPERATIONS[operation].run(at(path, FaultyStore(LocalStore(), fault)))


def exit_code(operation: str, path: str, fault: Fault) -> int | None:
    process = PROCESSES.Process(target=_run, args=(operation, path, fault))
    process.start()
    process.join(60)
    return process.exitcode


@pytest.mark.parametrize(("kind", "name"), every(2, product(KILLS, OPERATIONS)))
def test_killed_at_every_file_operation(name: str, kind: FaultKind, copy: Callable[[str], str]) -> None:
    operation, found, codes = OPERATIONS[name], [], []
    for number in moments(name, kind, copy):
        path = copy(name)
        past, _ = newest(path)
        codes.append(exit_code(name, path, Fault(number, kind)))
        with disable_fsync():
            found.append(check_table(operation, path, past=past))

    assert codes == [-signal.SIGKILL] * (len(codes) - 1) + [0]
    # Early kills leave the table unchanged; without a kill, the operation is complete.
    assert found[0] == operation.before
    assert found[-1] == operation.after


COMMITS = [rows(range(100 * i, 100 * i + 150), f"commit {i}") for i in range(6)]
SEEDS = range(5)


def _commit_all(path: str, fault: Fault, acknowledged: Connection) -> None:
    with disable_fsync():
        table = Table(at(path, FaultyStore(LocalStore(), fault)))
        for number, part in enumerate(COMMITS):
            table.upsert(part)
            acknowledged.send(number)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_acknowledged_commit_of_a_killed_process_is_there(seed: int, copy: Callable[[str], str]) -> None:
    path = copy("upsert with deletion vectors")
    chance = random.Random(seed)
    here, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(
        target=_commit_all, args=(path, Fault(chance.randrange(60), chance.choice(KILLS)), there)
    )
    process.start()
    there.close()
    acknowledged = 0
    while here.poll(60):
        try:
            acknowledged = here.recv() + 1
        except EOFError:
            break
    process.join(60)

    # The interrupted commit may have succeeded.
    made = [state(OLD_ROWS, *COMMITS[:count]) for count in (acknowledged, acknowledged + 1)]
    assert read(path) in made
    assert process.exitcode == (0 if acknowledged == len(COMMITS) else -signal.SIGKILL)
