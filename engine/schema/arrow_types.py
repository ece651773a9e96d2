"""Arrow types as Paimon types: the type that holds every value of the Arrow type, or an error that suggests one.

Unsigned integers take the next wider signed type (uint64: DECIMAL(20, 0)); encodings (dictionary, run-end, large, view
and fixed-size layouts) are dropped, and so are zones, because Paimon's zoned timestamps are instants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
from pyarrow import types as is_

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import (
    MAX_DECIMAL_PRECISION,
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)

COMMENT = b"comment"
"""The key of field metadata that holds comments."""

UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
UINT64_DIGITS = 20

LIST_LAYOUTS = (is_.is_list, is_.is_large_list, is_.is_list_view, is_.is_large_list_view, is_.is_fixed_size_list)

PLAIN: dict[pa.DataType, DataType] = {
    pa.bool_(): BooleanType(),
    pa.int8(): TinyIntType(),
    pa.int16(): SmallIntType(),
    pa.int32(): IntType(),
    pa.int64(): BigIntType(),
    pa.uint8(): SmallIntType(),
    pa.uint16(): IntType(),
    pa.uint32(): BigIntType(),
    pa.uint64(): DecimalType(precision=UINT64_DIGITS),
    pa.float16(): FloatType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.date32(): DateType(),
    pa.date64(): DateType(),
    pa.time32("s"): TimeType(precision=0),
    pa.time32("ms"): TimeType(precision=3),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), VarCharType()),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), VarBinaryType()),
}

REFUSED: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (is_.is_null, "no value of it says which type is meant; name one, such as pa.string()"),
    (is_.is_time64, "Paimon keeps milliseconds of a time of day; use pa.time32('ms'), or TIME(3) in SQL"),
    (is_.is_duration, "Paimon has no time spans; use pa.int64() and name the unit in the column"),
    (is_.is_interval, "Paimon has no time spans; use pa.int64() and name the unit in the column"),
    (is_.is_union, "Paimon has no unions; use a struct with a field for each case"),
)

Converter: TypeAlias = Callable[[pa.DataType, str], DataType]


def paimon_type(arrow: pa.DataType, column: str) -> DataType:
    """Returns the nullable Paimon type of an Arrow type; `column` goes into errors.

    Raises:
        InvalidArgument: no Paimon type holds all values of the Arrow type.
    """
    if arrow in PLAIN:
        return PLAIN[arrow]
    for applies, convert in CONVERTERS:
        if applies(arrow):
            return convert(arrow, column)
    reasons = (reason for applies, reason in REFUSED if applies(arrow))
    raise _refused(arrow, column, next(reasons, "cast it to another type"))


def _member(field: pa.Field, column: str) -> DataType:
    return paimon_type(field.type, f"{column}.{field.name}").with_nullable(field.nullable)


def _decimal(arrow: pa.DataType, column: str) -> DataType:
    # A negative scale means zeros before the point, a scale above the precision zeros after it.
    digits, scale = max(arrow.precision, arrow.scale), max(arrow.scale, 0)
    if arrow.scale < 0:
        digits -= arrow.scale
    if digits > MAX_DECIMAL_PRECISION:
        raise _refused(arrow, column, f"Paimon's decimals have {MAX_DECIMAL_PRECISION} digits at most")
    return DecimalType(precision=digits, scale=scale)


def _timestamp(arrow: pa.DataType, _: str) -> DataType:
    digits = UNIT_DIGITS[arrow.unit]
    return TimestampType(precision=digits) if arrow.tz is None else LocalZonedTimestampType(precision=digits)


def _is_list(arrow: pa.DataType) -> bool:
    return any(is_list(arrow) for is_list in LIST_LAYOUTS)


def _map(arrow: pa.DataType, column: str) -> DataType:
    key = paimon_type(arrow.key_type, f"{column}.key").with_nullable(False)
    return MapType(key=key, value=_member(arrow.item_field, column))


def _row(arrow: pa.DataType, column: str) -> DataType:
    members = [arrow.field(i) for i in range(arrow.num_fields)]
    return RowType(fields=tuple(_row_member(i, member, column) for i, member in enumerate(members)))


def _row_member(position: int, member: pa.Field, column: str) -> DataField:
    comment = (member.metadata or {}).get(COMMENT)
    return DataField(position, member.name, _member(member, column), None if comment is None else comment.decode())


CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], Converter], ...] = (
    (lambda t: isinstance(t, pa.BaseExtensionType), lambda t, column: paimon_type(t.storage_type, column)),
    (is_.is_dictionary, lambda t, column: paimon_type(t.value_type, column)),
    (is_.is_run_end_encoded, lambda t, column: paimon_type(t.value_type, column)),
    (is_.is_decimal, _decimal),
    (is_.is_timestamp, _timestamp),
    (is_.is_fixed_size_binary, lambda t, _: BinaryType(length=t.byte_width)),
    (_is_list, lambda t, column: ArrayType(element=_member(t.value_field, column))),
    (is_.is_map, _map),
    (is_.is_struct, _row),
)


def _refused(arrow: pa.DataType, column: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"the column {column!r} has the Arrow type {arrow}, which Paimon has no type for; {reason}")
