"""Small tables with a row for each snapshot, and helpers that look at them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from morrow.engine.errors import MorrowError
from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.engine.io.store import FileStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.tables.table import Table
from tests.lifecycle.needed import balance
from tests.support.faulty_store import Fault, FaultKind, FaultyStore
from tests.support.written import made_once, new_table, rows

KEYED = {"bucket": "1", "write-only": "true"}
"""Each commit is one snapshot, and nothing expires automatically."""


def numbers(folder: Path, count: int, options: dict[str, Any] | None = None) -> Table:
    """Make a table ``k INT`` (key), ``v INT`` with a snapshot for each of the rows (1, 1) to (count, count)."""

    def make(template: Path) -> Table:
        table = new_table(template, "k INT NOT NULL, v INT", keys=["k"], options={**KEYED, **(options or {})})
        put(table, *range(1, count + 1))
        return table

    return made_once(f"numbers {count} {options}", folder, make)


def put(table: Table, *numbers: int) -> None:
    """Commit the row (n, n) for each number n; other columns are null."""
    with disable_fsync():
        for n in numbers:
            others = [pl.lit(None).alias(name) for name in table.schema.names[2:]]
            row = pl.DataFrame({"k": [n], "v": [n]}, schema={"k": pl.Int32, "v": pl.Int32})
            table.upsert(row.with_columns(others))


def keys(table: Table, **scan: Any) -> list[int]:
    """List the keys of the rows, in order."""
    return [row[0] for row in rows(table, **scan)]


def ids(table: Table) -> list[int]:
    return [snapshot.id for snapshot in table.snapshots()]


def hint(table: Table, name: str) -> int | None:
    path = Path(table._metadata.paths.snapshot_dir) / name
    return int(path.read_text()) if path.exists() else None


def assert_clean(table: Table) -> None:
    """Assert that the needed files exist, and no others."""
    found = balance(table._metadata.root)
    assert (found.missing, found.unneeded) == (frozenset(), frozenset())


def through(table: Table, store: FileStore, root: Path | None = None) -> Table:
    """Open the same table, or a copy of it, through a store."""
    metadata = table._metadata
    return Table(TableMetadata(store, str(root or metadata.root), metadata.branch))


def killed_everywhere(table: Table, act: Callable[[Table], object], folder: Path) -> Iterator[Table]:
    """Kill `act` before each of its changes in turn, each time on a new copy of the table; yield the copies."""
    for number in range(1_000):
        copy = folder / f"killed-{number}"
        shutil.copytree(table._metadata.root, copy)
        store = FaultyStore(LocalStore(), Fault(number, FaultKind.LOST, lasting=True))
        try:
            with disable_fsync():
                act(through(table, store, copy))
        except MorrowError:
            with disable_fsync():
                yield through(table, LocalStore(), copy)
            shutil.rmtree(copy)
        else:
            assert not store.failed, "the failure was swallowed"
            return
