"""Lossless casts of Arrow columns to the exact types of the table.

Integers are cast to any number type that holds each of them, text only to text, and instants only to TIMESTAMP_LTZ.
Values that would have to be parsed, rounded, truncated or guessed raise an error that names the given and needed type.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import read_validity
from morrow.engine.format.polars_types import to_polars_dtype
from morrow.readers.casts.dtypes import make_null_mask
from morrow.writers.ingest.validation import (
    check_values,
    decode_array,
    find_live_values,
    is_text,
    narrow_type,
    show_value,
)

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

    Raises:
        InvalidArgument: the type is incompatible, or a value does not fit.
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
    return column


def _show_first_value(chunk: pa.Array, first_row: int) -> str:
    row = pc.index(chunk.is_valid(), pa.scalar(True)).as_py()
    return "" if row < 0 else f" (row {first_row + row} has {show_value(chunk, row)})"


def _suggest_cast(given: pa.DataType, field: t.DataField) -> str:
    """Return the expression of Polars that converts the column, if one does, or the change of the table's type."""
    column, dtype = f"pl.col({field.name!r})", to_polars_dtype(field.type)
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
        case t.ArrayType() | t.VectorType():
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
        values = _cast_nested(values, kind.element, "element", present)
        return pa.FixedSizeListArray.from_arrays(values, type=kind.arrow(), mask=make_null_mask(array))
    if not kinds.is_list(array.type):
        raise Misfit(f"give lists of {kind.length} elements")
    return _cast_vector(array.cast(pa.list_(array.type.value_type, kind.length)), kind)


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
    members = [
        _cast_nested(array.field(given.index(f.name)), f.type, f.name, present)
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
    if names != {"value", "metadata"}:
        raise Misfit("give structs of the Parquet variant encoding (value, metadata)")
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
