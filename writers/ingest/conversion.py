"""Conversion of incoming data to checked frames for bucket writers, with columns matched by name.

Row kinds are given once for all rows, in a column, separately from the data, or in the table's ``rowkind.field``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.row_kinds import DELETE, INSERT, RETRACT_BIT, UPDATE_AFTER, UPDATE_BEFORE
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.names import clear_pattern_name
from morrow.engine.polars_threads import check_process
from morrow.engine.polars_versions import export_series, import_array
from morrow.engine.redaction import suggest_name
from morrow.engine.units import MILLIS_PER_SECOND, NANOS_PER_MILLI, format_count
from morrow.readers.casts import cast_array
from morrow.readers.casts.dtypes import to_polars_dtype, to_series
from morrow.writers.ingest.casts import cast_lossless
from morrow.writers.ingest.sources import Piece, Source, open_source
from morrow.writers.ingest.validation import check_values
from morrow.writers.target import WriteTarget

MAX_SHOWN_ROWS = 3

Missing: TypeAlias = Literal["null", "error"]
"""Handling of nullable columns that the data lacks: filled with null (or the default value), or an error."""
NULL: Final = "null"
ERROR: Final = "error"


def convert_rows(
    target: WriteTarget,
    data: object,
    *,
    columns: Sequence[str] | None = None,
    kinds: Kinds = None,
    partial: bool = False,
    missing: Missing = NULL,
    stored: bool = False,
) -> Iterator[pl.DataFrame]:
    """Return the data as frames of the table's columns in schema order, in keyed tables with ``_VALUE_KIND`` (Int8).

    Columns are matched by name, in any order. A missing column gets its default value, or null. As in Java, a default
    value also replaces given nulls. If the merge engine combines versions, null leaves a value unchanged. For an empty
    list, columns are not required.

    Args:
        data: see `open_source`.
        columns: take only these columns of the table, and yield frames of them (and kinds). The table's other columns
            are ignored.
        kinds: the kind of each row; None: all are ``+I``. The option ``rowkind.field`` takes precedence.
        partial: use null for missing columns, partition columns included.
        missing: ``error`` refuses data without one of the columns, except in deletions.
        stored: the rows come from the table itself, so their values are not checked against ranges.

    Raises:
        ColumnNotFound: the data has a column that the table does not have.
        InvalidArgument: a key or NOT NULL column is missing, a value does not fit its column's type, a NOT NULL column
            has a null, or the table does not accept a row kind. Errors of names are raised by this call, errors of
            types and values when their frame is made.
    """
    check_process()
    source = open_source(data, target.schema.fields)
    fields = target.schema.fields if columns is None else tuple(target.schema.column(name) for name in columns)
    row_kinds = KindColumn(kinds, source.names)
    deletes = isinstance(kinds, str) and kinds == "-D"
    if missing not in (NULL, ERROR):
        raise InvalidArgument(f"missing is {NULL!r} or {ERROR!r}, not {missing!r}")
    fills = missing == NULL
    nulls = partial or deletes or (fills and target.merge is not None and target.merge.folds)
    # A row without its partition columns would end up in the partition of null.
    kept = () if nulls else target.schema.partition_keys
    free = {f.name for f in fields if f.type.nullable and f.name not in kept} if nulls or fills else set[str]()
    _check_names(target, source, fields, row_kinds.column, free)
    return _convert_pieces(target, source, fields, row_kinds, stored)


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
        hint = suggest_name(extra[0], known) or 'append and upsert add them with schema_mode="merge"; '
        raise ColumnNotFound(
            f"{target.where}: the data has columns that the table does not have: {', '.join(map(repr, extra))}; {hint}"
            f"the table's columns are {', '.join(target.schema.by_name)}"
        )
    absent = [f for f in fields if f.name not in source.names and f.default_value is None]
    missing = [f for f in absent if f.name not in free]
    if missing and source.names:  # an empty list is without columns
        hint = "give it" if len(missing) == 1 else "give them"
        if all(f.type.nullable for f in missing):
            hint += " (null where nothing is known), or set a default value: Table.alter.set_default"
        raise InvalidArgument(
            f"{target.where}: the data lacks {_describe_columns(target, [f.name for f in missing])}; {hint}. "
            f"Its columns are {', '.join(source.names)}"
        )


def _describe_columns(target: WriteTarget, names: Sequence[str]) -> str:
    """Return the columns as text that marks the keys among them."""
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


def _convert_pieces(
    target: WriteTarget, source: Source, fields: Sequence[t.DataField], row_kinds: KindColumn, stored: bool
) -> Iterator[pl.DataFrame]:
    defaults = {f.name: _build_default(f, target.where) for f in fields if f.default_value is not None}
    rowkind_field = target.write.rowkind_field
    row = 0
    for piece in source.pieces:
        height = len(piece)
        if not source.names:
            raise InvalidArgument(f"{target.where}: the data has {height} rows and no columns")
        columns = [_convert_column(piece, f, defaults.get(f.name), f.name in source.names, row, stored) for f in fields]
        rows = pl.DataFrame(columns)
        kinds = row_kinds.of(partial(_to_series, piece), height)
        if rowkind_field is not None and rowkind_field in rows.columns:
            kinds = read_kind_field(rows, rowkind_field, row)
        rows, kinds = drop_ignored_rows(target, rows, kinds)
        if rows.height:
            yield rows.with_columns(kinds.alias(VALUE_KIND)) if target.keyed else rows
        row += height
    row_kinds.check_end()


def _convert_column(
    piece: Piece, field: t.DataField, default: pl.Series | None, given: bool, first_row: int, stored: bool
) -> pl.Series:
    if not given:
        absent = pl.Series(field.name, [None], to_polars_dtype(field.type)) if default is None else default
        return clear_pattern_name(absent).new_from_index(0, len(piece)).alias(field.name)
    column = _cast_column(piece, field, first_row, stored)
    if not field.type.nullable and column.null_count():
        nulls = clear_pattern_name(column).is_null().arg_true().head(MAX_SHOWN_ROWS).to_list()
        raise InvalidArgument(
            f"column {field.name!r} is {field.type} and the data has {format_count(column.null_count(), 'null')} "
            "in it, the "
            f"first in row {', '.join(str(first_row + row) for row in nulls)}"
        )
    if default is None or not column.null_count():
        return column
    return clear_pattern_name(column).fill_null(default[0]).alias(field.name)


def _cast_column(piece: Piece, field: t.DataField, first_row: int, stored: bool) -> pl.Series:
    """Return the column in Morrow's Polars representation."""
    if isinstance(piece, pl.DataFrame):
        series = piece[field.name]
        if _is_exact(clear_pattern_name(series), field.type):
            check_values(clear_pattern_name(series), field, first_row)
            return series
        given = export_series(series)
    else:
        given = piece.column(field.name)
    return to_series(field.name, cast_lossless(given, field, first_row, stored=stored), field.type)


def _is_exact(series: pl.Series, kind: t.DataType) -> bool:
    """Return whether a series has the type's representation, and all values fit the digits of the type."""
    if series.dtype != to_polars_dtype(kind):
        return False
    if isinstance(kind, t.TimeType):
        return bool((series.to_physical() % NANOS_PER_MILLI == 0).all())
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)):
        return kind.precision > 0 or bool((series.to_physical() % MILLIS_PER_SECOND == 0).all())
    return not series.dtype.is_nested()


def _to_series(piece: Piece, name: str) -> pl.Series:
    return piece[name] if isinstance(piece, pl.DataFrame) else import_array(piece.column(name)).alias(name)


def _build_default(field: t.DataField, where: str) -> pl.Series:
    """Return the default value of a column (one row): its text cast to the type, without outer quotes, as in Java."""
    text = field.default_value
    assert text is not None
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    cast = cast_array(pa.array([text], pa.string()), t.VarCharType(), field.type, where=f"{where}, default of {field}")
    return to_series(field.name, cast, field.type)


Kinds: TypeAlias = "str | int | pl.Series | np.ndarray[tuple[int], np.dtype[np.generic]] | Iterable[str | int] | None"
"""One kind for all rows (``"-D"`` or its code), the name of a column of the data, or a kind per row."""

CODES = {"+I": INSERT, "-U": UPDATE_BEFORE, "+U": UPDATE_AFTER, "-D": DELETE}
SPELLINGS = "+I, -U, +U, -D or their codes 0 to 3"


class KindColumn:
    """The kinds of rows that arrive in pieces."""

    def __init__(self, kinds: Kinds, names: tuple[str, ...]) -> None:
        self.column: str | None = None
        """The column of the data that holds kinds and is not a column of the table."""
        self._of_piece = self._chosen(kinds, names)
        self._row = 0

    def of(self, piece_column: Callable[[str], pl.Series], height: int) -> pl.Series:
        """Return the kinds of the next `height` rows (Int8). Raises `InvalidArgument` for an invalid kind."""
        kinds = self._of_piece(piece_column, height)
        self._row += height
        return kinds

    def check_end(self) -> None:
        """Raise `InvalidArgument` if there were more kinds than rows."""
        if isinstance(self._given, pl.Series) and len(self._given) != self._row:
            raise InvalidArgument(f"kinds has {len(self._given)} values for {self._row} rows; give one kind per row")

    _given: pl.Series | None = None

    def _chosen(self, kinds: Kinds, names: tuple[str, ...]) -> Callable[[Callable[[str], pl.Series], int], pl.Series]:
        if kinds is None:
            return lambda _column, height: _make_constant(INSERT, height)
        if isinstance(kinds, str) and kinds not in CODES:
            if kinds not in names:
                raise InvalidArgument(
                    f"kinds={kinds!r} is no kind ({SPELLINGS}) and no column of the data, whose columns are "
                    f"{', '.join(names)}"
                )
            self.column = kinds
            return lambda column, _height: to_kind_codes(column(kinds))
        if isinstance(kinds, (str, int)):
            code = int(to_kind_codes(pl.Series([kinds]))[0])
            return lambda _column, height: _make_constant(code, height)
        self._given = to_kind_codes(_kinds_to_series(kinds))
        return self._next

    def _next(self, _column: Callable[[str], pl.Series], height: int) -> pl.Series:
        assert self._given is not None
        part = self._given.slice(self._row, height)
        if len(part) < height:
            raise InvalidArgument(f"kinds has {len(self._given)} values for more rows; give one kind per row")
        return part


def to_kind_codes(kinds: pl.Series) -> pl.Series:
    """Return the codes (Int8) of kinds given as text or codes.

    Raises:
        InvalidArgument: a null, or a value that is not a kind.
    """
    kinds = clear_pattern_name(kinds)
    if kinds.dtype.is_integer():
        found = kinds.is_between(INSERT, DELETE)
        result = pl.select(pl.when(found).then(kinds).cast(pl.Int8)).to_series()
    elif kinds.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        result = kinds.cast(pl.String).replace_strict(CODES, default=None, return_dtype=pl.Int8)
    else:
        raise InvalidArgument(f"row kinds are {SPELLINGS}, not values of type {kinds.dtype}")
    if result.null_count():
        row = int(result.is_null().arg_max() or 0)
        raise InvalidArgument(f"row {row}: the row kind {kinds[row]!r} is none of {SPELLINGS}")
    return result


def _kinds_to_series(kinds: Any) -> pl.Series:
    if isinstance(kinds, pl.Series):
        return kinds
    try:
        columnar = hasattr(kinds, "__array__") or hasattr(kinds, "__arrow_c_stream__")
        made = pl.Series(kinds if columnar else list(kinds))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"kinds: a {type(kinds).__name__} holds no row kinds ({error})") from error
    return made.cast(pl.Int8) if not len(made) else made


def _make_constant(code: int, height: int) -> pl.Series:
    return pl.Series([code], dtype=pl.Int8).new_from_index(0, height)


def read_kind_field(rows: pl.DataFrame, field: str, first_row: int) -> pl.Series:
    """Return the codes of the kinds in the table's column ``rowkind.field`` (text).

    Raises:
        InvalidArgument: a null, or text that is not a kind.
    """
    try:
        return to_kind_codes(rows[field])
    except InvalidArgument as error:
        raise InvalidArgument(f"the column {field!r} (rowkind.field), from row {first_row} on: {error}") from error


def drop_ignored_rows(target: WriteTarget, rows: pl.DataFrame, kinds: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
    """Return the rows that the table accepts: ``ignore-delete`` drops retractions.

    Raises:
        InvalidArgument: a retraction that the table's merge engine refuses.
    """
    if kinds.max() in (None, INSERT):
        return rows, kinds
    retracting = (kinds & RETRACT_BIT) == 1
    if not retracting.any():
        return rows, kinds
    if target.options.ignore_delete:
        return rows.filter(~retracting), kinds.filter(~retracting)
    reason = _find_refusal(target)
    if reason:
        raise InvalidArgument(f"{target.where}: -U and -D rows cannot be written: {reason}")
    return rows, kinds


def _find_refusal(target: WriteTarget) -> str | None:
    merge = target.merge
    if merge is None:
        return "it is an append table; use Table.delete or Table.update"
    if merge.takes_retractions:
        return None
    return f"merge-engine {merge.engine} takes no retractions; {merge.refused_retractions}"
