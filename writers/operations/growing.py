"""Columns that the rows have and the table lacks become columns of the table before the rows are written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from typing import Literal, TypeAlias

import polars as pl
import pyarrow as pa

from morrow.engine.errors import AlreadyExists, InvalidArgument
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema.changes import AddColumn
from morrow.engine.schema.columns import columns_of
from morrow.engine.schema.committing import commit_changes
from morrow.writers.rows import Kinds
from morrow.writers.rows.sources import Piece, Source, source_of
from morrow.writers.target import WriteTarget

SchemaMode: TypeAlias = Literal["merge"] | None
"""What a write does with columns that the table lacks: None: it is refused; ``merge``: they are added."""

READ_AGAIN = (pl.DataFrame, pa.Table, Mapping, list)
"""Data that can be read more than once."""


def grown(target: WriteTarget, data: object, kinds: Kinds, mode: SchemaMode) -> tuple[WriteTarget, object]:
    """Adds the columns that the table lacks, nullable and last; returns the target with them, and the rows to write.

    A write that fails afterwards leaves the columns: they are null in all rows. No rows add no columns.

    Raises:
        InvalidArgument: another mode; a column of a type that Paimon does not have, or without any value to tell it.
        Unsupported, CommitConflict: as changes of the schema.
    """
    if mode is None:
        return target, data
    if mode != "merge":
        raise InvalidArgument(f"schema_mode is None or 'merge', not {mode!r}")
    source = source_of(data, target.schema.fields)
    new = [name for name in source.names if name not in target.schema.by_name and name != kinds]
    first = next(source.pieces, None)
    if new and first is not None:
        add_columns(target.metadata, _schema(first, new))
        target = WriteTarget.of(target.metadata, target.commit_user)
    if first is None:
        return target, Source(tuple(name for name in source.names if name not in new), iter(()))
    return target, data if isinstance(data, READ_AGAIN) else Source(source.names, chain((first,), source.pieces))


def add_columns(metadata: TableMetadata, columns: pa.Schema) -> None:
    """Adds columns to a table, nullable and last. Raises as `grown`."""
    _check_types(columns)
    made = columns_of(columns).columns
    _add(metadata, [AddColumn((each.name,), each.type.with_nullable(True), each.comment) for each in made])


def _schema(piece: Piece, names: list[str]) -> pa.Schema:
    whole = piece.schema if isinstance(piece, pa.Table) else piece.head(0).to_arrow().schema
    return pa.schema([whole.field(name) for name in names])


def _check_types(schema: pa.Schema) -> None:
    empty = [field.name for field in schema if pa.types.is_null(field.type)]
    if empty:
        raise InvalidArgument(f"column {empty[0]!r} has no value that tells its type; leave it out, or give it a type")


def _add(metadata: TableMetadata, changes: list[AddColumn]) -> None:
    try:
        commit_changes(metadata, changes)
    except AlreadyExists:  # somebody else has added some meanwhile; values that do not fit are refused when written
        for change in changes:
            with suppress(AlreadyExists):
                commit_changes(metadata, [change])
