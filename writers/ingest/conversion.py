"""Conversion of incoming data to checked frames for bucket writers, with columns matched by name.

Row kinds are given once for all rows, in a column, separately from the data, or in the table's ``rowkind.field``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import Final, Literal, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from morrow.engine.arguments import refuse_depth
from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import read_validity
from morrow.engine.format.blob_values import unregister_blob
from morrow.engine.format.blobs import is_descriptor, is_view
from morrow.engine.format.row_kinds import INSERT, RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.variant_building import encode_arrow
from morrow.engine.format.variant_json import encode_json_column
from morrow.engine.library_versions import export_series, import_array
from morrow.engine.names import clear_pattern_name
from morrow.engine.polars_threads import check_process
from morrow.engine.redaction import suggest_name
from morrow.engine.schema.defaults import NESTED, parse_default
from morrow.engine.units import MILLIS_PER_SECOND, NANOS_PER_MILLI, format_count
from morrow.readers.casts import cast_array
from morrow.readers.casts.dtypes import make_null_mask, to_series
from morrow.readers.casts.dtypes import to_polars_dtype as dtypes_to_polars_dtype
from morrow.writers.ingest.sources import Piece, Source, open_source
from morrow.writers.ingest.validation import (
    KindColumn,
    Kinds,
    check_values,
    check_variants,
    decode_array,
    find_live_values,
    is_text,
    narrow_type,
    read_kind_field,
    show_value,
    to_plain,
)
from morrow.writers.target import WriteTarget

# Lossless casts of Arrow columns to the exact types of the table.
#
# Integers are cast to any number type that holds each of them, text only to text, and instants only to TIMESTAMP_LTZ.
# Values that would have to be parsed, rounded, truncated or guessed raise an error that names the given and needed
# type.

MAX_DECIMAL_DIGITS = 38

PARSERS: dict[type[t.DataType], str] = {
    t.DateType: "str.to_date()",
    t.TimeType: "str.to_time()",
    t.TimestampType: "str.to_datetime()",
    t.LocalZonedTimestampType: 'str.to_datetime(time_zone="UTC")',
}
"""Polars' methods that parse text, by type of the table."""


class Misfit(Exception):
    """Reason why values do not fit the type. The caller names the column and raises `InvalidArgument`.

    Without a text, the caller suggests a cast.
    """


def cast_lossless(
    array: pa.Array | pa.ChunkedArray, field: t.DataField, first_row: int, *, stored: bool = False
) -> pa.ChunkedArray:
    """Return the column as exactly ``field.type.arrow()``.

    Args:
        array: the values as given, of any Arrow type.
        first_row: the number of the first row, for messages.
        stored: the values come from a table and stay unchanged: other writers store years beyond 9999.

    Raises `InvalidArgument`: the type is incompatible, or a value does not fit.
    """
    given, row_of_chunk = array.type, first_row
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    made = []
    for chunk in chunks:
        try:
            made.append(_cast(decode_array(chunk), field.type))
        except Misfit as misfit:
            example = _show_first_value(chunk, row_of_chunk)
            raise InvalidArgument(
                f"column {field.name!r}: {given} where {field.type} is needed{example}: "
                f"{str(misfit) or _suggest_cast(given, field)}"
            ) from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            row = _find_first_misfit(chunk, field.type)
            raise InvalidArgument(
                f"column {field.name!r}, row {row_of_chunk + row}: {show_value(chunk, row)} does not fit {field.type} "
                f"({error})"
            ) from error
        row_of_chunk += len(chunk)
    column = pa.chunked_array(made, field.type.arrow())
    if not stored:
        check_values(column, field, first_row)
        if not is_text(given) and t.has_type(field.type, t.VariantType):
            check_variants(column, field, first_row)
    return column


def _show_first_value(chunk: pa.Array, first_row: int) -> str:
    row = pc.index(chunk.is_valid(), pa.scalar(True)).as_py()
    return "" if row < 0 else f" (row {first_row + row} has {show_value(chunk, row)})"


def _suggest_cast(given: pa.DataType, field: t.DataField) -> str:
    """Return the expression of Polars that converts the column, if one does, or the change of the table's type."""
    column, dtype = f"pl.col({field.name!r})", t.to_polars_dtype(field.type)
    if is_text(given) and type(field.type) in PARSERS:
        return f"parse the text first, such as by {column}.{PARSERS[type(field.type)]}"
    if dtype.is_nested():
        return "convert the column first"
    cast = f"cast the column first, such as by {column}.cast(pl.{dtype!r})"
    if kinds.is_floating(given) and isinstance(field.type, t.INTEGER_TYPES):
        return f"{cast}, or change the table's type: table.alter.set_type({field.name!r}, 'DOUBLE')"
    return cast


def _find_first_misfit(chunk: pa.Array, kind: t.DataType) -> int:
    """Return the row of the first value that does not fit, found by bisection."""
    low, high = 0, len(chunk)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(decode_array(chunk.slice(low, middle - low)), kind)
            low = middle
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
    return low


def _cast(array: pa.Array, kind: t.DataType) -> pa.Array:
    target = kind.arrow()
    if array.type.equals(target, check_metadata=True) and not _has_required_member(kind):
        return array
    if kinds.is_null(array.type):
        return pa.nulls(len(array), target)
    return _CASTS[type(kind)](array, kind)


def _has_required_member(kind: t.DataType) -> bool:
    """Return whether a part of the type is NOT NULL, which Arrow arrays do not enforce."""
    match kind:
        case t.VectorType():
            return True
        case t.ArrayType():
            inside: tuple[t.DataType, ...] = (kind.element,)
        case t.MapType():
            inside = (kind.value,)
        case t.RowType():
            inside = tuple(member.type for member in kind.fields)
        case _:
            return False
    return any(not member.nullable or _has_required_member(member) for member in inside)


def _make_cast(*takes: Callable[[pa.DataType], bool], hint: str = "") -> Callable[[pa.Array, t.DataType], pa.Array]:
    """Return Arrow's own checked cast, for these types."""

    def cast(array: pa.Array, kind: t.DataType) -> pa.Array:
        if not any(take(array.type) for take in takes):
            raise Misfit(hint)
        return array.cast(kind.arrow(), safe=True)

    return cast


def _cast_float(array: pa.Array, kind: t.DataType) -> pa.Array:
    if not (kinds.is_integer(array.type) or kinds.is_floating(array.type)):
        raise Misfit
    target = kind.arrow()
    made = array.cast(target, safe=True)
    if kinds.is_floating(array.type) and array.type.bit_width > target.bit_width:
        same = pc.or_(pc.equal(made.cast(array.type), array), pc.is_nan(array))
        if pc.any(pc.invert(same)).as_py():
            raise pa.ArrowInvalid("it has more digits than FLOAT keeps; round it with a cast to float32")
    return made


def _cast_decimal(array: pa.Array, kind: t.DataType) -> pa.Array:
    assert isinstance(kind, t.DecimalType)
    if kinds.is_integer(array.type):
        array = (
            array.cast(pa.decimal128(MAX_DECIMAL_DIGITS, 0)) if array.type != pa.uint64() else _widen_unsigned(array)
        )
    elif not kinds.is_decimal(array.type):
        raise Misfit
    if kind.scale:
        array = array.cast(pa.decimal256(76, max(kind.scale, array.type.scale)), safe=True)
    return array.cast(kind.arrow(), safe=True)


def _widen_unsigned(array: pa.Array) -> pa.Array:
    return array.cast(pa.decimal128(20, 0))


def _cast_timestamp(array: pa.Array, kind: t.DataType) -> pa.Array:
    if not kinds.is_timestamp(array.type):
        raise Misfit
    zoned, wanted = array.type.tz is not None, isinstance(kind, t.LocalZonedTimestampType)
    if zoned and not wanted:
        raise Misfit("a TIMESTAMP has no zone; convert the instants to wall-clock time yourself")
    if wanted and not zoned:
        raise Misfit("an instant needs a zone; say in which zone these wall-clock times are")
    return array.cast(kind.arrow(), safe=True)


def _cast_list(array: pa.Array, kind: t.DataType) -> pa.Array:
    assert isinstance(kind, t.ArrayType)
    target = kind.arrow()
    if kinds.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    if not kinds.is_list(array.type):
        raise Misfit("give lists")
    offsets, values = find_live_values(array)
    values = _cast_nested(values, kind.element, "element")
    return pa.ListArray.from_arrays(narrow_type(offsets), values, target, mask=make_null_mask(array))


def _cast_vector(array: pa.Array, kind: t.DataType) -> pa.Array:
    assert isinstance(kind, t.VectorType)
    if kinds.is_fixed_size_list(array.type) and array.type.list_size == kind.length:
        size = kind.length
        values = array.values[array.offset * size : (array.offset + len(array)) * size]
        present = pa.array(read_validity(array).repeat(size)) if array.null_count else None
        values = _cast_nested(values, kind.element.with_nullable(False), "element", present)
        return pa.FixedSizeListArray.from_arrays(values, type=kind.arrow(), mask=make_null_mask(array))
    if not kinds.is_list(array.type):
        raise Misfit(f"give lists of {kind.length} elements")
    return _cast_vector(_fix_length(array, kind.length), kind)


def _fix_length(array: pa.Array, length: int) -> pa.Array:
    """Return lists as lists of a fixed size. Arrow's own cast refuses null lists of another length."""
    (starts, values), present = find_live_values(array), read_validity(array)
    lengths = np.diff(starts)
    if (wrong := present & (lengths != length)).any():
        raise pa.ArrowInvalid(f"it has {format_count(int(lengths[wrong.argmax()]), 'element')}, not {length}")
    if array.null_count:
        places = starts[:-1, None] + np.arange(length)
        values = values.take(pa.array(places.ravel(), mask=~present.repeat(length)))
    return pa.FixedSizeListArray.from_arrays(values, length, mask=make_null_mask(array))


def _cast_entries(array: pa.Array, key: t.DataType, value: t.DataType, target: pa.DataType) -> pa.Array:
    """Cast maps, including lists of (key, value) structs, as Polars represents maps."""
    kind = array.type
    if not kinds.is_map(kind) and not (kinds.is_list(kind) and _is_pair(kind.value_type)):
        raise Misfit("give maps, or lists of structs of a key and a value")
    offsets, entries = find_live_values(array)
    given_keys, given_values = entries.flatten()
    if given_keys.null_count:
        raise Misfit("a key of a map is null")
    keys = _cast_nested(given_keys, key.with_nullable(False), "key")
    values = _cast_nested(given_values, value, "value")
    return pa.MapArray.from_arrays(narrow_type(offsets), keys, values, type=target, mask=make_null_mask(array))


def _is_pair(kind: pa.DataType) -> bool:
    return bool(kinds.is_struct(kind)) and kind.num_fields == len(("key", "value"))


def _cast_map(array: pa.Array, kind: t.DataType) -> pa.Array:
    assert isinstance(kind, t.MapType)
    return _cast_entries(array, kind.key, kind.value, kind.arrow())


def _cast_multiset(array: pa.Array, kind: t.DataType) -> pa.Array:
    assert isinstance(kind, t.MultisetType)
    return _cast_entries(array, kind.element, t.IntType(nullable=False), kind.arrow())


def _cast_row(array: pa.Array, kind: t.DataType) -> pa.Array:
    assert isinstance(kind, t.RowType)
    if not kinds.is_struct(array.type):
        raise Misfit("give structs")
    given = [array.type.field(i).name for i in range(array.type.num_fields)]
    extra = [name for name in given if name not in {f.name for f in kind.fields}]
    if extra:
        raise Misfit(f"there is no member {extra[0]!r}")
    present = array.is_valid()
    # Null structs may hide lists of another length than a vector's.
    hides = array.null_count > 0 and t.has_type(kind, t.VectorType)
    values = array.flatten() if hides else [array.field(i) for i in range(len(given))]
    members = [
        _cast_nested(values[given.index(f.name)], f.type, f.name, present)
        if f.name in given
        else _make_absent_member(f, array)
        for f in kind.fields
    ]
    if not members:
        return array
    return pa.StructArray.from_arrays(members, fields=list(kind.arrow()), mask=make_null_mask(array))


def _make_absent_member(member: t.DataField, array: pa.StructArray) -> pa.Array:
    if not member.type.nullable and array.null_count < len(array):
        raise Misfit(f"the member {member.name!r} is missing and NOT NULL")
    return pa.nulls(len(array), member.type.arrow())


def _cast_nested(array: pa.Array, kind: t.DataType, name: str, present: pa.Array | None = None) -> pa.Array:
    """Cast elements or members. Those that are NOT NULL may only be null if their struct or vector is null."""
    try:
        made = _cast(decode_array(array), kind)
    except Misfit as misfit:
        raise Misfit(f"{name}: {misfit}" if str(misfit) else f"{name} is {array.type}, not {kind}") from None
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"{name}: {error}") from error
    if not kind.nullable and made.null_count:
        missing = made.is_null() if present is None else pc.and_(made.is_null(), present)
        if pc.any(missing).as_py():
            raise Misfit(f"{name}: a null inside, where {kind} is needed")
    return made


def _cast_variant(array: pa.Array, kind: t.DataType) -> pa.Array:
    wanted = kind.arrow()
    names = {array.type.field(i).name for i in range(array.type.num_fields)} if kinds.is_struct(array.type) else set()
    if is_text(array.type):
        return encode_json_column(array)
    if names != {"value", "metadata"} or not all(_is_bytes(member.type) for member in array.type):
        return encode_arrow(to_plain(array))
    members = [array.field(f.name).cast(pa.binary()) for f in wanted]
    return pa.StructArray.from_arrays(members, fields=list(wanted), mask=make_null_mask(array))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_binary_view(kind)
        or kinds.is_fixed_size_binary(kind)
    )


_cast_integer = _make_cast(kinds.is_integer)
_cast_text = _make_cast(is_text)
_cast_bytes = _make_cast(_is_bytes)

_CASTS: dict[type[t.DataType], Callable[[pa.Array, t.DataType], pa.Array]] = {
    t.BooleanType: _make_cast(kinds.is_boolean),
    t.TinyIntType: _cast_integer,
    t.SmallIntType: _cast_integer,
    t.IntType: _cast_integer,
    t.BigIntType: _cast_integer,
    t.FloatType: _cast_float,
    t.DoubleType: _cast_float,
    t.DecimalType: _cast_decimal,
    t.DateType: _make_cast(kinds.is_date),
    t.TimeType: _make_cast(kinds.is_time),
    t.TimestampType: _cast_timestamp,
    t.LocalZonedTimestampType: _cast_timestamp,
    t.CharType: _cast_text,
    t.VarCharType: _cast_text,
    t.BinaryType: _cast_bytes,
    t.VarBinaryType: _cast_bytes,
    t.BlobType: _cast_bytes,
    t.ArrayType: _cast_list,
    t.VectorType: _cast_vector,
    t.MapType: _cast_map,
    t.MultisetType: _cast_multiset,
    t.RowType: _cast_row,
    t.VariantType: _cast_variant,
}

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


def convert_columns(data: object, fields: Sequence[t.DataField], where: str) -> pl.DataFrame:
    """Return these columns of the data, which may contain nulls; other columns are ignored.

    Raises `InvalidArgument`: a column is missing, or a value does not fit its type. Other errors as `open_source`.
    """
    source = open_source(data, fields)
    absent = [field.name for field in fields if field.name not in source.names]
    if absent and source.names:
        raise InvalidArgument(
            f"{where}: the data lacks the column {absent[0]!r}; it must have {', '.join(each.name for each in fields)}"
        )
    pieces, row = [pl.DataFrame(schema={field.name: dtypes_to_polars_dtype(field.type) for field in fields})], 0
    for piece in source.pieces:
        if source.names:
            pieces.append(pl.DataFrame([_cast_column(piece, field, row, False) for field in fields]))
        row += len(piece)
    return pl.concat(pieces)


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
        with refuse_depth("values are"):
            rows = pl.DataFrame(
                [_convert_column(piece, f, defaults.get(f.name), f.name in source.names, row, stored) for f in fields]
            )
        kinds = row_kinds.of(partial(_to_series, piece), height)
        if rowkind_field is not None and rowkind_field in rows.columns:
            kinds = read_kind_field(rows, rowkind_field, row)
        rows, kinds = drop_ignored_rows(target, rows, kinds)
        if rows.height:
            rows = _check_inline_blobs(target, rows)
            yield rows.with_columns(kinds.alias(VALUE_KIND)) if target.keyed else rows
        row += height
    row_kinds.check_end()


def _check_inline_blobs(target: WriteTarget, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with the descriptors of files that the user gave.

    Raises:
        InvalidArgument: a value of ``blob-descriptor-field`` is not a descriptor, or of ``blob-view-field`` not a view.
    """
    for name in target.write.view_blobs:
        if name in rows.columns and not is_view(rows[name]).fill_null(True).all():
            raise InvalidArgument(f"column {name!r} is in 'blob-view-field'; give views of blobs (BlobView), no bytes")
    for name in target.write.descriptor_blobs:
        column = rows[name] if name in rows.columns else pl.Series(dtype=pl.Binary)
        if not is_descriptor(column).fill_null(True).all():
            raise InvalidArgument(
                f"column {name!r} is in 'blob-descriptor-field'; give paths, URLs (morrow.Blob.from_url) or "
                "descriptors, no bytes"
            )
        if len(column):
            # One call for each value: it names a file.
            shown = [None if value is None else unregister_blob(value, target.where) for value in column]
            rows = rows.with_columns(pl.Series(name, shown, dtype=pl.Binary))
    return rows


def _convert_column(
    piece: Piece, field: t.DataField, default: pl.Series | None, given: bool, first_row: int, stored: bool
) -> pl.Series:
    if not given:
        absent = pl.Series(field.name, [None], dtypes_to_polars_dtype(field.type)) if default is None else default
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
    plain = clear_pattern_name(column)
    if type(field.type) in NESTED:  # Polars fills a list with each of its elements
        others = clear_pattern_name(default).new_from_index(0, len(plain))
        return plain.zip_with(plain.is_not_null(), others).alias(field.name)
    return plain.fill_null(default[0]).alias(field.name)


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
    if series.dtype != dtypes_to_polars_dtype(kind):
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
    if type(field.type) in NESTED:
        scalar = parse_default(field.type, text, field.name)
        return to_series(field.name, pa.array([scalar.as_py()], scalar.type), field.type)
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    cast = cast_array(pa.array([text], pa.string()), t.VarCharType(), field.type, where=f"{where}, default of {field}")
    return to_series(field.name, cast, field.type)


def drop_ignored_rows(target: WriteTarget, rows: pl.DataFrame, kinds: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
    """Return the rows that the table accepts: ``ignore-delete`` drops retractions.

    Raises `InvalidArgument`: a retraction that the table's merge engine refuses.
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
