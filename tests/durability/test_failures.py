"""A store that fails at any operation: the write succeeds or raises a typed error, and nothing in between.

A failed write leaves no files, unless the store failed to delete them or never replied.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from morrow.engine.errors import MorrowError, UnclearOutcome
from morrow.engine.io.local import LocalStore, disable_fsync
from tests.durability.checks import check_table, newest
from tests.durability.moments import moments
from tests.durability.operations import OPERATIONS, at
from tests.support.faulty_store import ANSWERED, ERRORS, Fault, FaultKind, FaultyStore
from tests.support.profile import every
from tests.support.repeatable import repeatable
from tests.support.table_files import orphans


@pytest.mark.parametrize(("name", "kind"), every(2, product(OPERATIONS, ERRORS)))
def test_a_failure_at_every_file_operation(name: str, kind: FaultKind, copy: Callable[[str], str]) -> None:
    tried = moments(name, kind, copy)
    assert [fails(name, copy(name), Fault(number, kind)) for number in tried] == [True] * (len(tried) - 1) + [False]


@pytest.mark.parametrize("kind", [FaultKind.BAD_DISK, FaultKind.NO_SPACE], ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_fails_from_an_operation_on(name: str, kind: FaultKind, copy: Callable[[str], str]) -> None:
    tried = moments(name, kind, copy, lasting=True)
    failed = [fails(name, copy(name), Fault(number, kind, lasting=True)) for number in tried]
    assert failed == [True] * (len(tried) - 1) + [False]


def fails(name: str, path: str, fault: Fault) -> bool:
    """Run the operation with the fault and check the table; return False if it ended before the fault."""
    operation, store = OPERATIONS[name], FaultyStore(LocalStore(), fault)
    committed = newest(path)
    error: MorrowError | None = None
    with disable_fsync():
        try:
            with repeatable(path):
                operation.run(at(path, store))
        except MorrowError as caught:
            error = caught
        context = f"{store.failed[:1]} of {store.asked}: {error!r}"
        unchanged = newest(path) == committed
        left = orphans(path)
        found = check_table(operation, path, past=committed[0])

    if error is None:
        assert found == operation.after, f"acknowledged and not there: {context}"
    elif unchanged:
        assert found == operation.before, context
    may_remain = (
        isinstance(error, UnclearOutcome)
        or any(asked.startswith("delete") for asked in store.failed)
        or (fault.lasting and fault.kind is FaultKind.BAD_DISK)
        or (fault.kind not in ANSWERED)
    )
    assert may_remain or not left, f"left {left}: {context}"
    return bool(store.failed)
