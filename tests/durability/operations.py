"""Operations to interrupt, on small tables with a few snapshots, and the rows expected before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

import morrow
from morrow.engine.format.types import parse_atomic
from morrow.engine.io.local import LocalStore
from morrow.engine.io.store import FileStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema.evolution import commit_changes
from morrow.engine.schema.schema_changes import AddColumn
from morrow.tables.table import Table

ROWS = 300
OLD, NEW, LATER = range(ROWS), range(ROWS // 2, ROWS * 2), range(ROWS * 3, ROWS * 3 + 5)
FEW = range(ROWS - 10, ROWS + 5)
"""Too few rows to compact with the old ones, so a deletion vector hides the rows that they replace."""
COLUMNS = "id BIGINT NOT NULL, name STRING, amount DOUBLE"
KEYED = {"bucket": "2"}
VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "100", "changelog-producer": "lookup"}

State = frozenset[tuple[object, ...]]


def rows(ids: range, name: str) -> pl.DataFrame:
    return pl.DataFrame({"id": ids, "name": [f"{name}-{i}" for i in ids], "amount": [i / 4 for i in ids]})


def state(*parts: pl.DataFrame) -> State:
    """Compute the rows of a table with the primary key ``id`` after these upserts, in order."""
    return frozenset({row[0]: row for part in parts for row in part.rows()}.values())


@dataclass(frozen=True)
class Operation:
    """An operation to interrupt: `make` creates the table and its past, `run` is interrupted."""

    make: Callable[[str], Table]
    run: Callable[[TableMetadata], object]
    before: State
    after: State
    new_column: bool = False
    """Whether the operation adds a column."""


def at(path: str, store: FileStore | None = None) -> TableMetadata:
    return TableMetadata(store or LocalStore(), path)


def _made(primary_keys: list[str], options: dict[str, str], *parts: pl.DataFrame) -> Callable[[str], Table]:
    def make(path: str) -> Table:
        warehouse, database, name = Path(path).parents[1], Path(path).parent.stem, Path(path).name
        table = morrow.Catalog(warehouse).create_table(
            f"{database}.{name}", schema=COLUMNS, primary_keys=primary_keys, options=options
        )
        for part in parts:
            table.append(part)
        return table

    return make


def _append(table: TableMetadata) -> None:
    Table(table).append(NEW_ROWS)


def _upsert(table: TableMetadata) -> None:
    Table(table).upsert(FEW_ROWS)


def _compact(table: TableMetadata) -> None:
    Table(table).compact(full=True)


def _overwrite(table: TableMetadata) -> None:
    Table(table).overwrite(NEW_ROWS)


def _delete(table: TableMetadata) -> None:
    Table(table).delete(f"id < {FEW.start}")


def _alter(table: TableMetadata) -> None:
    commit_changes(table, [AddColumn(("note",), parse_atomic("STRING"))])


OLD_ROWS, NEW_ROWS, LATER_ROWS = rows(OLD, "old"), rows(NEW, "new"), rows(LATER, "later")
FEW_ROWS = rows(FEW, "few")
UPSERTED = state(OLD_ROWS, NEW_ROWS)

OPERATIONS: dict[str, Operation] = {
    "append": Operation(
        _made([], {"bucket": "-1"}, OLD_ROWS),
        _append,
        before=frozenset(OLD_ROWS.rows()),
        after=frozenset([*OLD_ROWS.rows(), *NEW_ROWS.rows()]),  # names distinguish old from new rows with the same id
    ),
    "upsert with deletion vectors": Operation(
        _made(["id"], VECTORS, OLD_ROWS), _upsert, before=state(OLD_ROWS), after=state(OLD_ROWS, FEW_ROWS)
    ),
    "compact": Operation(
        _made(["id"], {**KEYED, "write-only": "true"}, OLD_ROWS, NEW_ROWS), _compact, before=UPSERTED, after=UPSERTED
    ),
    "overwrite": Operation(_made(["id"], KEYED, OLD_ROWS), _overwrite, before=state(OLD_ROWS), after=state(NEW_ROWS)),
    "delete by vectors": Operation(
        _made([], {"bucket": "-1", "deletion-vectors.enabled": "true"}, OLD_ROWS),
        _delete,
        before=frozenset(OLD_ROWS.rows()),
        after=frozenset(row for row in OLD_ROWS.rows() if row[0] >= FEW.start),
    ),
    "upsert into dynamic buckets": Operation(
        _made(["id"], DYNAMIC, OLD_ROWS), _upsert, before=state(OLD_ROWS), after=state(OLD_ROWS, FEW_ROWS)
    ),
    "schema change": Operation(
        _made(["id"], KEYED, OLD_ROWS),
        _alter,
        before=state(OLD_ROWS),
        after=frozenset((*row, None) for row in OLD_ROWS.rows()),
        new_column=True,
    ),
}
