"""Checks that every table must pass, whatever interrupted it."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

import morrow
from tests.durability.operations import LATER_ROWS, Operation, State, at
from tests.support.table_files import fingerprint

LATER = frozenset(LATER_ROWS.rows())

_found: dict[str, State] = {}
"""The rows of tables that were checked already, by fingerprint: most interruptions leave the same bytes."""


def read(path: str, snapshot: int | None = None, options: Mapping[str, str] | None = None) -> State:
    """Read all rows, and check that each appears once; `options` are for object stores."""
    rows = morrow.open(path, storage_options=options).scan(snapshot=snapshot).to_polars().rows()
    assert len(set(rows)) == len(rows), "rows are there twice"
    return frozenset(rows)


def check_table(operation: Operation, path: str, *, past: int) -> State:
    """Check that the rows are from before or after the operation, that the past is intact, and that writes work.

    Args:
        past: the newest snapshot before the operation.

    Returns: the rows found.
    """
    bytes_of_it = fingerprint(path)
    if bytes_of_it not in _found:
        _found[bytes_of_it] = check_rows(operation, path, past)
    return _found[bytes_of_it]


def check_rows(operation: Operation, path: str, past: int, options: Mapping[str, str] | None = None) -> State:
    """Check like `check_table`, but in any store and without remembering results."""
    found = read(path, options=options)
    assert found in (operation.before, operation.after), f"half of it: {len(found)} rows"
    ids = [snapshot.id for snapshot in morrow.open(path, storage_options=options).snapshots()]
    assert ids[-1] == morrow.open(path, storage_options=options).scan().snapshot_id
    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) >= past
    for snapshot in ids[:-1]:
        read(path, snapshot, options)

    table = morrow.open(path, storage_options=options)
    table.append(LATER_ROWS.with_columns(pl.lit(None).alias(name) for name in table.schema.names[LATER_ROWS.width :]))
    later = read(path, options=options)
    assert {row[:3] for row in later} in (
        {row[:3] for row in found | LATER},
        {row[:3] for row in operation.after | LATER},  # a compaction made committed rows of level 0 visible
    )
    return found


def newest(path: str) -> tuple[int, int]:
    """Return the ids of the newest snapshot and schema."""
    metadata = at(path)
    snapshot = metadata.latest_snapshot()
    assert snapshot is not None
    return snapshot.id, metadata.schema_ids()[-1]
