"""Counts of the rows that an operation inserts, updates and deletes, for whoever asks for them.

    with counting() as tally:
        table.update({"amount": "0"}, "id = 1")
    tally.updated  # 1

An operation that is repeated after a conflict is counted anew, so that the counts are those of its commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Tally:
    """Numbers of rows; None: nobody counted them, as where whole partitions are dropped."""

    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None


_current: ContextVar[Tally | None] = ContextVar("morrow_tally", default=None)


@contextmanager
def counting() -> Iterator[Tally]:
    """Counts the rows of the operations of a block, on this thread."""
    tally = Tally()
    token = _current.set(tally)
    try:
        yield tally
    finally:
        _current.reset(token)


def begin() -> None:
    """Forgets what an attempt has counted."""
    if (tally := _current.get()) is not None:
        tally.inserted = tally.updated = tally.deleted = None


def count(*, inserted: int | None = None, updated: int | None = None, deleted: int | None = None) -> None:
    """Adds rows to the counts."""
    tally = _current.get()
    if tally is None:
        return
    for name, rows in (("inserted", inserted), ("updated", updated), ("deleted", deleted)):
        if rows is not None:
            setattr(tally, name, (getattr(tally, name) or 0) + rows)
