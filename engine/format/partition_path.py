"""Partition folders, ``k1=v1/k2=v2`` under the table, and the text of each type in their names.

escaping      %XX, two upper-case hexadecimal digits, for control characters and " # % ' * / : = ? \\ { } [ ] ^ DEL
default name  the option partition.default-name (__DEFAULT_PARTITION__), for null, empty and blank values
legacy names  with partition.legacy-name=true values are written as the internal ones print (DATE as epoch days,
              TIME as milliseconds of the day, TIMESTAMP as 2024-01-31T07:00), otherwise as SQL casts them to text
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row import EPOCH, Value
from morrow.engine.format.java_floats import format_double, format_float
from morrow.engine.format.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)

DEFAULT_PARTITION_NAME = "__DEFAULT_PARTITION__"

# Patterns as text: `re` compiles each when it is first used.
_ESCAPED = r"""[\x00-\x1f"#%'*/:=?\\\x7f{}\[\]^]"""
_ESCAPE = "%([0-9A-Fa-f]{2})"
_BLANK = "[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]*"
"""White space as defined by Java, which excludes non-breaking spaces."""

PLAIN_NOTATION_FROM = 1e-3
PLAIN_NOTATION_BELOW = 1e7

Text = Callable[[Any, DataType], str]


def partition_path(
    values: Sequence[Value],
    types: Sequence[DataType],
    names: Sequence[str],
    *,
    default_name: str = DEFAULT_PARTITION_NAME,
    legacy_name: bool = True,
    time_zone: dt.tzinfo = dt.UTC,
    shortest_floats: bool = False,
) -> str:
    """Return the folder of a partition, relative to the table; "" for a table without partition keys.

    Args:
        values: partition values as `decode_row` returns them.
        types: their types.
        names: the partition keys.
        default_name: the option ``partition.default-name``.
        legacy_name: the option ``partition.legacy-name``.
        time_zone: for TIMESTAMP_LTZ without legacy names, which Java writes in the time zone of the writing process.
        shortest_floats: write FLOAT and DOUBLE as Java 19 and newer (``2.0E23``), not as Java 8 to 18
            (``1.9999999999999998E23``).

    Raises:
        Unsupported: a type whose names are not defined: BINARY with legacy names (Java writes an object's address),
            bytes that are not UTF-8, nested types.
    """
    folders = []
    for value, kind, name in zip(values, types, names, strict=True):
        text = None if value is None else _to_text(value, kind, legacy_name, time_zone, shortest_floats)
        if text is None or re.fullmatch(_BLANK, text):
            text = default_name
        folders.append(f"{escape_path_name(name)}={escape_path_name(text)}")
    return "/".join(folders)


def escape_path_name(text: str) -> str:
    """Escape characters that folder names may not contain as %XX."""
    return re.sub(_ESCAPED, lambda match: f"%{ord(match[0]):02X}", text)


def unescape_path_name(text: str) -> str:
    """Reverse `escape_path_name`; a lone % stays."""
    return re.sub(_ESCAPE, lambda match: chr(int(match[1], 16)), text)


def _to_text(value: Value, kind: DataType, legacy_name: bool, time_zone: dt.tzinfo, shortest_floats: bool) -> str:
    text = (_LEGACY_TEXTS if legacy_name else _TEXTS).get(type(kind))
    if shortest_floats:
        text = _SHORTEST_TEXTS.get(type(kind), text)
    if text is None:
        naming = f"partition.legacy-name={str(legacy_name).lower()}"
        raise Unsupported(f"{kind} as a partition key with {naming}", hint="Paimon has no stable folder name for it")
    if isinstance(kind, LocalZonedTimestampType) and not legacy_name and time_zone is not dt.UTC:
        value = _move_to_zone(value, time_zone)
    return text(value, kind)


def _format_boolean(value: bool, _: DataType) -> str:
    return "true" if value else "false"


def _format_string(value: str, _: DataType) -> str:
    return value


def _format_binary(value: bytes, kind: DataType) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Unsupported(f"a {kind} partition value that is not UTF-8") from error


def _format_int(value: int, _: DataType) -> str:
    return str(value)


def _format_decimal(value: Decimal, _: DataType) -> str:
    return f"{value:f}"


def _format_float(value: float, _: DataType) -> str:
    return format_float(value)


def _format_double(value: float, _: DataType) -> str:
    return format_double(value)


def _format_shortest_float(value: float, _: DataType) -> str:
    return _format_shortest(np.float32(value))


def _format_shortest_double(value: float, _: DataType) -> str:
    return _format_shortest(np.float64(value))


def _format_shortest(value: np.float32 | np.float64) -> str:
    """Print a float like Java 19 and newer: plain from 0.001 to 10 million, else 1.5E10.

    The text has the fewest digits that read back as the same value, but at least two.
    """
    if not np.isfinite(value) or value == 0:
        return format_double(float(value))
    if PLAIN_NOTATION_FROM <= abs(float(value)) < PLAIN_NOTATION_BELOW:
        return np.format_float_positional(value, unique=True, trim="0")
    mantissa, exponent = np.format_float_scientific(value, unique=True, trim="0").split("e")
    if mantissa.endswith(".0"):  # with two digits, Java writes the ones nearest to the value: 4.9E-324, not 5E-324
        two_digits = np.format_float_scientific(value, precision=1, unique=False)
        if type(value)(two_digits) == value:
            mantissa, exponent = two_digits.split("e")
    return f"{mantissa}E{int(exponent)}"


def _format_date(value: dt.date, _: DataType) -> str:
    return value.isoformat()


def _format_epoch_days(value: dt.date, _: DataType) -> str:
    return str((value - EPOCH.date()).days)


def _format_day_millis(value: dt.time, _: DataType) -> str:
    return str(((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000)


def _format_time(value: dt.time, kind: DataType) -> str:
    """Return ``07:25:07``; above precision 0 with a fraction of 1 to `precision` digits, without trailing zeros."""
    assert isinstance(kind, TimeType)
    text = value.strftime("%H:%M:%S")
    if kind.precision == 0:
        return text
    fraction = f"{value.microsecond // 1000:03d}".rstrip("0")[: kind.precision]
    return f"{text}.{fraction or '0'}"


def _split_timestamp(value: dt.datetime | np.datetime64) -> tuple[dt.datetime, int]:
    """Split a timestamp into whole seconds (naive; UTC for aware timestamps) and nanoseconds."""
    if isinstance(value, np.datetime64):
        seconds, nanos = divmod(int(value.astype("datetime64[ns]").astype(np.int64)), 1_000_000_000)
        return EPOCH + dt.timedelta(seconds=seconds), nanos
    wall = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return wall.replace(microsecond=0), wall.microsecond * 1000


def _move_to_zone(value: Value, time_zone: dt.tzinfo) -> Value:
    assert isinstance(value, (dt.datetime, np.datetime64))
    seconds, nanos = _split_timestamp(value)
    wall = seconds.replace(tzinfo=dt.UTC).astimezone(time_zone).replace(tzinfo=None)
    if nanos % 1000 == 0:
        return wall.replace(microsecond=nanos // 1000)
    return np.datetime64(wall, "ns") + np.timedelta64(nanos, "ns")


def _format_timestamp(value: dt.datetime | np.datetime64, kind: DataType) -> str:
    """Return ``2024-01-31 07:00:00`` and a fraction of at least `precision` digits."""
    assert isinstance(kind, (TimestampType, LocalZonedTimestampType))
    seconds, nanos = _split_timestamp(value)
    digits = f"{nanos:09d}"
    fraction = digits[: kind.precision] + digits[kind.precision :].rstrip("0")
    text = seconds.isoformat(" ")
    return f"{text}.{fraction}" if fraction else text


def _format_local_date_time(value: dt.datetime | np.datetime64, _: DataType) -> str:
    """Return ``2024-01-31T07:00``, then seconds if there are any, then 3, 6 or 9 digits."""
    seconds, nanos = _split_timestamp(value)
    if not nanos:
        return seconds.isoformat(timespec="seconds" if seconds.second else "minutes")
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{seconds.isoformat()}.{digits}"


_TEXTS: dict[type[DataType], Text] = {
    BooleanType: _format_boolean,
    TinyIntType: _format_int,
    SmallIntType: _format_int,
    IntType: _format_int,
    BigIntType: _format_int,
    FloatType: _format_float,
    DoubleType: _format_double,
    DecimalType: _format_decimal,
    CharType: _format_string,
    VarCharType: _format_string,
    BinaryType: _format_binary,
    VarBinaryType: _format_binary,
    DateType: _format_date,
    TimeType: _format_time,
    TimestampType: _format_timestamp,
    LocalZonedTimestampType: _format_timestamp,
}

_LEGACY_TEXTS: dict[type[DataType], Text] = {
    **{kind: text for kind, text in _TEXTS.items() if kind not in (BinaryType, VarBinaryType)},
    DateType: _format_epoch_days,
    TimeType: _format_day_millis,
    TimestampType: _format_local_date_time,
    LocalZonedTimestampType: _format_local_date_time,
}

_SHORTEST_TEXTS: dict[type[DataType], Text] = {FloatType: _format_shortest_float, DoubleType: _format_shortest_double}
