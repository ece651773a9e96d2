"""Small keyed tables for the tests in this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import morrow
from morrow.engine.format.manifest_entries import EMPTY_ROW, DataFileMeta, FileSource
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.writers.files.data_files import Placement, write_files
from morrow.writers.target import WriteTarget

SCHEMA = "k BIGINT NOT NULL, v INT, w STRING"
BUCKET = Placement(EMPTY_ROW, 0)
KINDS = ("+I", "-U", "+U", "-D")


def table(folder: Path, schema: str = SCHEMA, keys: Sequence[str] = ("k",), **options: str) -> morrow.Table:
    """Create a table with one bucket; option names have ``__`` for a dot and ``_`` for a dash."""
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    catalog = morrow.Catalog(folder)
    return catalog.create_table("db.t", schema=schema, primary_keys=list(keys), options={"bucket": "1", **named})


def target(table: morrow.Table) -> WriteTarget:
    return WriteTarget.of(TableMetadata(LocalStore(), table.path))


def versions(target: WriteTarget, *rows: tuple[Any, ...]) -> pl.DataFrame:
    """Build a version frame from rows of a sequence number, a kind and the columns."""
    dtypes = {field.name: to_polars_dtype(field.type) for field in target.schema.fields}
    data = [(*row[2:], row[0], KINDS.index(row[1])) for row in rows]
    return pl.DataFrame(data, schema={**dtypes, SEQUENCE_NUMBER: pl.Int64, VALUE_KIND: pl.Int8}, orient="row")


def stored(target: WriteTarget, level: int, *rows: tuple[Any, ...]) -> DataFileMeta:
    """Write a data file of these versions, which must be sorted by key."""
    (file,) = write_files(target, BUCKET, [versions(target, *rows)], level=level, source=FileSource.COMPACT)
    return file


def rows_of(frame: pl.DataFrame, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """List the rows as sorted tuples."""
    return sorted(frame.select(columns).rows(), key=repr)


def upsert(table: morrow.Table, rows: Sequence[Mapping[str, Any]], kinds: Sequence[str] | None = None) -> None:
    """Commit these rows."""
    dtypes = {field.name: to_polars_dtype(field.type) for field in table.schemas()[-1].fields}
    table.upsert(pl.DataFrame(list(rows), schema=dtypes), kinds=kinds)
