"""Schema evolution: columns of a file, written with an older schema, as columns of the schema that is read.

Columns and nested members are matched by field id. A file's columns are read by their names in the file's schema;
then they are renamed, moved and cast, and columns that the file does not have are null. (Default values of columns
are given when rows are written; reading never fills them in.)
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from morrow.engine.format import types as t
from morrow.engine.format.type_equality import same_values
from morrow.engine.names import col, cols
from morrow.engine.plan.evolution import translate_predicate
from morrow.readers.casts.dtypes import polars_dtype

__all__ = ["file_columns", "project", "translate_predicate"]

Fields = Sequence[t.DataField]


def file_columns(file_fields: Fields, read_fields: Fields) -> tuple[t.DataField, ...]:
    """Returns the columns of the file that the read needs, in file order; nested columns whole."""
    wanted = {field.id for field in read_fields}
    return tuple(field for field in file_fields if field.id in wanted)


def project(
    frame: pl.LazyFrame,
    file_fields: Fields,
    read_fields: Fields,
    *,
    where: str | None = None,
    zone: str = "UTC",
    schemas: tuple[int, int] | None = None,
) -> pl.LazyFrame:
    """Selects `read_fields`, in their order, from a frame of `file_fields` (in Morrow's dtypes, by name).

    Unchanged and renamed columns are plain columns, through which Polars pushes projections and filters into the scan;
    a column whose type changed costs only its own cast.

    Args:
        frame: the file's rows; columns that the read does not need may be absent.
        where: the name in errors, such as the file.
        zone: the session's zone, for casts of TIMESTAMP_LTZ.
        schemas: the ids of the schemas of the file and of the read, for errors.

    Raises:
        Unsupported: a type changed in a way that Java Paimon cannot read either. (A value that its cast cannot take
            fails when the query runs.)
    """
    by_id = {field.id: field for field in file_fields}
    columns = [_column(by_id.get(field.id), field, where, zone, schemas) for field in read_fields]
    if any(field.id in by_id for field in read_fields):
        return frame.select(columns)
    # Literals alone would yield one row: keep the height of the file.
    return frame.with_columns(columns).select(cols(field.name for field in read_fields))


def _column(
    written: t.DataField | None, field: t.DataField, where: str | None, zone: str, schemas: tuple[int, int] | None
) -> pl.Expr:
    if written is None:
        return pl.lit(None, dtype=polars_dtype(field.type)).alias(field.name)
    column = col(written.name)
    if not same_values(written.type, field.type):
        from morrow.readers.casts import cast_expression
        from morrow.readers.casts.base import TypeChange

        change = None if schemas is None else TypeChange((field.name,), *schemas)
        place = where if change is not None else f"{where}, column {field.name}" if where else f"column {field.name}"
        column = cast_expression(column, written.type, field.type, where=place, zone=zone, change=change)
    return column if written.name == field.name else column.alias(field.name)
