"""Tallies of running operations: name, counts of rows, and start.

    with count_rows_of(Operation.UPDATE) as tally:
        table.update({"amount": "0"}, "id = 1")
    tally.updated  # 1

The snapshots of the operation record the tally (`record_operation`). If an operation is repeated after a conflict, its
rows are counted again from zero.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ParamSpec, TypeVar

from morrow.engine.format.snapshot import DURATION, ROWS_DELETED, ROWS_INSERTED, ROWS_UPDATED

Args = ParamSpec("Args")
Result = TypeVar("Result")


class Operation(StrEnum):
    """Names of operations in snapshots: Paimon's ``Snapshot.Operation``."""

    WRITE = "WRITE"
    OVERWRITE = "OVERWRITE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"
    UPDATE = "UPDATE"
    MERGE = "MERGE"


@dataclass
class Tally:
    """An operation and its numbers of rows. None: not counted, as when whole partitions are dropped."""

    operation: Operation | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    began: float = field(default_factory=time.monotonic)

    def properties(self) -> dict[str, str]:
        """Return the properties of the operation's snapshots: counts of rows, and milliseconds since its start."""
        duration = round((time.monotonic() - self.began) * 1000)
        counts = {ROWS_INSERTED: self.inserted, ROWS_UPDATED: self.updated, ROWS_DELETED: self.deleted}
        return {DURATION: str(duration), **{name: str(rows) for name, rows in counts.items() if rows is not None}}


_current: ContextVar[Tally | None] = ContextVar("morrow_tally", default=None)


@contextmanager
def count_rows_of(operation: Operation | None = None) -> Iterator[Tally]:
    """Count the rows of the operations in a block, on this thread. Inside another such block, that one keeps
    counting."""
    outer = _current.get()
    if outer is not None:
        outer.operation = outer.operation or operation
        yield outer
        return
    tally = Tally(operation)
    token = _current.set(tally)
    try:
        yield tally
    finally:
        _current.reset(token)


def record_operation(operation: Operation) -> Callable[[Callable[Args, Result]], Callable[Args, Result]]:
    """Decorate a function as an operation that its snapshots record."""

    def decorate(function: Callable[Args, Result]) -> Callable[Args, Result]:
        @functools.wraps(function)
        def run(*args: Args.args, **kwargs: Args.kwargs) -> Result:
            with count_rows_of(operation):
                return function(*args, **kwargs)

        return run

    return decorate


def find_running_tally() -> Tally | None:
    """Return the tally of the operation that runs on this thread, None if there is none."""
    return _current.get()


def begin_tally() -> None:
    """Reset the counts before another attempt."""
    if (tally := _current.get()) is not None:
        tally.inserted = tally.updated = tally.deleted = None


def count(*, inserted: int | None = None, updated: int | None = None, deleted: int | None = None) -> None:
    """Add rows to the counts."""
    tally = _current.get()
    if tally is None:
        return
    for name, rows in (("inserted", inserted), ("updated", updated), ("deleted", deleted)):
        if rows is not None:
            setattr(tally, name, (getattr(tally, name) or 0) + rows)
