"""Matches incoming data to the table's columns by name, checks it, and makes frames for bucket writers."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import partial
from typing import Final, Literal, TypeAlias

import polars as pl
import pyarrow as pa

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.forks import check_process
from morrow.engine.format import types as t
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.names import unnamed
from morrow.engine.telling import did_you_mean
from morrow.engine.units import MILLIS_PER_SECOND, NANOS_PER_MILLI
from morrow.engine.wording import plural
from morrow.readers.casts import arrow_cast
from morrow.readers.casts.dtypes import polars_dtype, to_series
from morrow.writers.rows.kinds import KindColumn, Kinds, kinds_of_field, without_ignored
from morrow.writers.rows.lossless import lossless
from morrow.writers.rows.sources import Piece, Source, source_of
from morrow.writers.rows.validation import check_values
from morrow.writers.target import WriteTarget

ROWS_SHOWN = 3

Missing: TypeAlias = Literal["null", "error"]
"""What becomes of nullable columns that the data lack: they are null (or their default), or the data are refused."""
NULL: Final = "null"
ERROR: Final = "error"


def incoming(
    target: WriteTarget,
    data: object,
    *,
    columns: Sequence[str] | None = None,
    kinds: Kinds = None,
    partial: bool = False,
    missing: Missing = NULL,
    stored: bool = False,
) -> Iterator[pl.DataFrame]:
    """Returns the data as frames of the table's columns in schema order, in keyed tables with ``_VALUE_KIND`` (Int8).

    Columns are matched by name, in any order. A missing column takes its default value, without one null. As in Java, a
    default value also replaces given nulls. Where versions are combined, null leaves a value as it is. An empty list
    lacks no column.

    Args:
        data: see `source_of`.
        columns: take only these columns of the table, and yield frames of them (and kinds). The table's other columns
            are ignored.
        kinds: the kind of each row; all are ``+I`` when None. The option ``rowkind.field`` overrides it.
        partial: use null for missing columns, partition columns included.
        missing: ``error`` refuses data without one of the columns, except in deletions.
        stored: the rows are the table's own, checked or left as another writer stored them: no value is out of range.

    Raises:
        ColumnNotFound: the data has a column that the table does not have.
        InvalidArgument: a column of a key is missing, or one that is NOT NULL; a value does not fit its column's type,
            a null in a NOT NULL column, or a row kind that the table does not accept. Errors of names are raised by
            this call, errors of types and values when their frame is made.
    """
    check_process()
    source = source_of(data, target.schema.fields)
    fields = target.schema.fields if columns is None else tuple(target.schema.column(name) for name in columns)
    row_kinds = KindColumn(kinds, source.names)
    deletes = isinstance(kinds, str) and kinds == "-D"
    if missing not in (NULL, ERROR):
        raise InvalidArgument(f"missing is {NULL!r} or {ERROR!r}, not {missing!r}")
    fills = missing == NULL
    nulls = partial or deletes or (fills and target.merge is not None and target.merge.folds)
    # A row without its partition would go astray in the partition of null.
    kept = () if nulls else target.schema.partition_keys
    free = {f.name for f in fields if f.type.nullable and f.name not in kept} if nulls or fills else set[str]()
    _check_names(target, source, fields, row_kinds.column, free)
    return _frames(target, source, fields, row_kinds, stored)


def _check_names(
    target: WriteTarget,
    source: Source,
    fields: Sequence[t.DataField],
    kind_column: str | None,
    free: Container[str],
) -> None:
    known = [f.name for f in fields]
    if kind_column in known:
        takes = target.write.rowkind_field == kind_column
        hint = "leave kinds out: rowkind.field takes them from it" if takes else "give the kinds another name"
        raise InvalidArgument(f"{target.where}: kinds={kind_column!r} names a column of the table; {hint}")
    extra = [name for name in source.names if name not in target.schema.by_name and name != kind_column]
    if extra:
        hint = did_you_mean(extra[0], known)
        raise ColumnNotFound(
            f"{target.where}: the data has columns that the table does not have: {', '.join(map(repr, extra))}; {hint}"
            f"the table's columns are {', '.join(target.schema.by_name)}"
        )
    absent = [f for f in fields if f.name not in source.names and f.default_value is None]
    missing = [f for f in absent if f.name not in free]
    if missing and source.names:  # an empty list has no columns, and no rows that lack any
        hint = "give it" if len(missing) == 1 else "give them"
        if all(f.type.nullable for f in missing):
            hint += " (null where nothing is known), or set a default value: Table.alter.set_default"
        raise InvalidArgument(
            f"{target.where}: the data lacks {_named(target, [f.name for f in missing])}; {hint}. "
            f"Its columns are {', '.join(source.names)}"
        )


def _named(target: WriteTarget, names: Sequence[str]) -> str:
    """Returns the columns as text that tells which of them are keys."""
    schema = target.schema
    keys = dict.fromkeys(schema.primary_keys, "primary key")
    kinds = {**dict.fromkeys(schema.partition_keys, "partition key"), **keys}
    grouped: dict[str, list[str]] = {}
    for name in names:
        grouped.setdefault(kinds.get(name, ""), []).append(name)
    return " and ".join(
        f"the {kind} column{'s' * (len(group) > 1)} ".replace("  ", " ") + ", ".join(group)
        for kind, group in grouped.items()
    )


def _frames(
    target: WriteTarget, source: Source, fields: Sequence[t.DataField], row_kinds: KindColumn, stored: bool
) -> Iterator[pl.DataFrame]:
    defaults = {f.name: _default(f, target.where) for f in fields if f.default_value is not None}
    rowkind_field = target.write.rowkind_field
    row = 0
    for piece in source.pieces:
        height = len(piece)
        if not source.names:
            raise InvalidArgument(f"{target.where}: the data has {height} rows and no columns")
        columns = [_column(piece, f, defaults.get(f.name), f.name in source.names, row, stored) for f in fields]
        rows = pl.DataFrame(columns)
        kinds = row_kinds.of(partial(_as_series, piece), height)
        if rowkind_field is not None and rowkind_field in rows.columns:
            kinds = kinds_of_field(rows, rowkind_field, row)
        rows, kinds = without_ignored(target, rows, kinds)
        if rows.height:
            yield rows.with_columns(kinds.alias(VALUE_KIND)) if target.keyed else rows
        row += height
    row_kinds.check_end()


def _column(
    piece: Piece, field: t.DataField, default: pl.Series | None, given: bool, first_row: int, stored: bool
) -> pl.Series:
    if not given:
        absent = pl.Series(field.name, [None], polars_dtype(field.type)) if default is None else default
        return unnamed(absent).new_from_index(0, len(piece)).alias(field.name)
    column = _typed(piece, field, first_row, stored)
    if not field.type.nullable and column.null_count():
        nulls = unnamed(column).is_null().arg_true().head(ROWS_SHOWN).to_list()
        raise InvalidArgument(
            f"column {field.name!r} is {field.type} and the data has {plural(column.null_count(), 'null')} in it, the "
            f"first in row {', '.join(str(first_row + row) for row in nulls)}"
        )
    if default is None or not column.null_count():
        return column
    return unnamed(column).fill_null(default[0]).alias(field.name)


def _typed(piece: Piece, field: t.DataField, first_row: int, stored: bool) -> pl.Series:
    """Returns the column in Morrow's Polars representation."""
    if isinstance(piece, pl.DataFrame):
        series = piece[field.name]
        if _is_exact(unnamed(series), field.type):
            check_values(unnamed(series), field, first_row)
            return series
        given = series.to_arrow(compat_level=pl.CompatLevel.newest())
    else:
        given = piece.column(field.name)
    return to_series(field.name, lossless(given, field, first_row, stored=stored), field.type)


def _is_exact(series: pl.Series, kind: t.DataType) -> bool:
    """Returns whether a series has the type's representation and no value with more digits than the type."""
    if series.dtype != polars_dtype(kind):
        return False
    if isinstance(kind, t.TimeType):
        return bool((series.to_physical() % NANOS_PER_MILLI == 0).all())
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)):
        return kind.precision > 0 or bool((series.to_physical() % MILLIS_PER_SECOND == 0).all())
    return not series.dtype.is_nested()


def _as_series(piece: Piece, name: str) -> pl.Series:
    return piece[name] if isinstance(piece, pl.DataFrame) else pl.Series(name, pl.from_arrow(piece.column(name)))


def _default(field: t.DataField, where: str) -> pl.Series:
    """Returns the default value of a column (one row): its text cast to the type, without outer quotes, as in Java."""
    text = field.default_value
    assert text is not None
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    cast = arrow_cast(pa.array([text], pa.string()), t.VarCharType(), field.type, where=f"{where}, default of {field}")
    return to_series(field.name, cast, field.type)
