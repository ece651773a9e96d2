"""Maintenance operations to interrupt, on small tables with a few commits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from morrow.engine.errors import AlreadyExists, MorrowError, NotFound
from morrow.engine.io.local import LocalStore
from morrow.engine.io.store import FileStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.tables.table import Table
from tests.lifecycle.tables import KINDS, NEW, OLD, Kind, frame, remove_all_orphans

FOR_EVER = 1000

MANY = {"snapshot.num-retained.min": "100", "snapshot.num-retained.max": "100"}
VECTORS = Kind(
    True, {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"}, partitioned=True
)
PLAIN = Kind(True, {"bucket": "1", "changelog-producer": "input"}, partitioned=True)
DECOUPLED = Kind(True, {**KINDS["decoupled"].options, **MANY, "changelog.num-retained.max": "200"})


def table_at(path: str, store: FileStore | None = None) -> Table:
    return Table(TableMetadata(store or LocalStore(), path))


def _write(table: Table, first: int, value: int) -> None:
    table.append(frame(table, [(i, OLD if i % 2 else NEW, value) for i in range(first, first + 4)]))


def _past(path: str, kind: Kind = VECTORS) -> Table:
    """Make five commits, with the tag `old` and a branch at the second, and the tag `late` at the fourth."""
    table = kind.create(Path(path))
    for number in range(5):
        _write(table, number, number)
        if number == 1:
            table.tags.create("old")
            table.branches.create("b", tag="old")
            _write(table.on_branch("b"), 7, 77)
        if number == 3:
            table.tags.create("late")
    return table


def _plain_past(path: str) -> Table:
    """Make the same table, with one snapshot per commit."""
    return _past(path, PLAIN)


def _tags_alone(path: str) -> Table:
    """Leave only the tags, the branch and the newest snapshot."""
    table = _past(path)
    _expire(table)
    return table


def _changelogs(path: str) -> Table:
    """Make a table with expired snapshots that live on as changelogs."""
    table = DECOUPLED.create(Path(path))
    for number in range(5):
        _write(table, number, number)
    table.expire_snapshots(2, 1)
    return table


def _orphans(path: str) -> Table:
    """Add files that killed processes may leave."""
    table = _past(path)
    for name in (
        f"dt={OLD}/bucket-0/data-1-0.parquet",
        "manifest/manifest-1-0",
        "index/index-1-0",
        "snapshot/.snapshot-9.tmp",
    ):
        (Path(path) / name).write_bytes(b"half of")
    return table


def _wrong_hints(path: str) -> Table:
    table = _past(path)
    for name in ("LATEST", "EARLIEST"):
        (Path(path) / "snapshot" / name).write_text("77")
    return table


def _expire(table: Table) -> None:
    table.expire_snapshots(1, 1)


@dataclass(frozen=True)
class Operation:
    """An operation to interrupt: `make` creates the table and its past, `run` is interrupted."""

    make: Callable[[str], Table]
    run: Callable[[Table], object]
    done: tuple[type[MorrowError], ...] = ()
    """Errors that a repetition may raise if the operation was already complete."""
    changes_nothing: bool = False
    """Whether the operation leaves all readable content unchanged."""
    commits: bool = False
    """Whether the operation makes a snapshot. If it is killed, its files remain as orphans, and a repetition may make a
    second snapshot.
    """


OPERATIONS: Mapping[str, Operation] = {
    "expire snapshots": Operation(_past, _expire),
    "expire snapshots, keep changelogs": Operation(_changelogs, _expire),
    "expire changelogs": Operation(_changelogs, lambda t: t.expire_changelogs(1, 1)),
    "delete a tag": Operation(_tags_alone, lambda t: t.tags.delete("late"), (NotFound,)),
    "create a tag": Operation(_past, lambda t: t.tags.create("new", snapshot=3), (AlreadyExists,)),
    "replace a tag": Operation(_tags_alone, lambda t: t.tags.replace("late")),
    "rename a tag": Operation(_tags_alone, lambda t: t.tags.rename("late", "later"), (NotFound, AlreadyExists)),
    "rollback to a snapshot": Operation(_past, lambda t: t.rollback(snapshot=3)),
    "rollback to a tag": Operation(_tags_alone, lambda t: t.rollback(tag="old")),
    "create a branch": Operation(_past, lambda t: t.branches.create("new", tag="late"), (AlreadyExists,)),
    "delete a branch": Operation(_tags_alone, lambda t: t.branches.delete("b"), (NotFound,)),
    "rename a branch": Operation(_tags_alone, lambda t: t.branches.rename("b", "c"), (NotFound,)),
    "fast-forward": Operation(_plain_past, lambda t: t.branches.fast_forward("b")),
    "expire partitions": Operation(_past, lambda t: t.expire_partitions(dt.timedelta(days=7)), commits=True),
    "remove orphans": Operation(_orphans, remove_all_orphans, changes_nothing=True),
    "repair": Operation(_wrong_hints, lambda t: t.repair(), changes_nothing=True),
    "purge": Operation(_past, lambda t: t.purge(), commits=True),
}
