"""Default values of columns: the text in a schema file, and the value that writers fill in for it.

The text is cast to the column's type as Paimon casts strings, after removing a pair of single quotes around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.units import NANOS_PER_SECOND

TRUE = frozenset({"t", "true", "y", "yes", "1"})
FALSE = frozenset({"f", "false", "n", "no", "0"})

WHOLE = re.compile(r"[+-]?\d+(\.\d*)?")
REAL = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|NaN|Infinity)")
COUNT = re.compile(r"-?[0-9]+")
DATE = re.compile(r"(\d{4,})-(\d{1,2})-(\d{1,2})(?: .*)?")
TIME = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?")
TIMESTAMP = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?")

NANO_DIGITS = 9
MILLIS_DIGITS = 3
EPOCH_DAY = date(1970, 1, 1).toordinal()


def parse_default(data_type: t.DataType, text: str, column: str) -> pa.Scalar:
    """Return the value of a default's text, in the column's Arrow type.

    Texts of TIMESTAMP_LTZ are in UTC. Whole numbers are days for a DATE, milliseconds for a TIME, and units of the
    precision for a TIMESTAMP.

    Raises:
        InvalidArgument: the text is not a value of the type.
        Unsupported: a type without default values in Morrow or Paimon.
    """
    if type(data_type) not in (*PARSERS, *NESTED):
        raise Unsupported(f"a default value of the type {data_type}", where=f"the column {column!r}")
    quoted = text.startswith("'") and text.endswith("'")
    try:
        if type(data_type) in NESTED:
            nested = _parse_nested(text, data_type)
            return pa.scalar(nested, data_type.arrow())
        # A single quote alone is not quoted text, and Paimon accepts nothing else for it.
        value = None if text == "'" else PARSERS[type(data_type)](text[1:-1] if quoted else text, data_type)
        if value is not None:
            return pa.scalar(value, data_type.arrow())
    except (ValueError, OverflowError, InvalidOperation):
        pass
    raise InvalidArgument(f"the column {column!r}: the default value {text!r} is not a valid {data_type.text()}")


def check_default(data_type: t.DataType, value: object, column: str) -> str | None:
    """Return the text of a default given as text or as a Python value; None stays None.

    Raises: as `parse_default`.
    """
    if value is None:
        return None
    text = format_default(value, column)
    parse_default(data_type, text, column)
    return text


def format_default(value: object, column: str) -> str:
    """Return the text of a Python value; text is returned as it is. Raises `InvalidArgument` for other types."""
    if isinstance(value, str):
        return value
    for kind, write in WRITERS:
        if isinstance(value, kind):
            return write(value)
    raise InvalidArgument(f"the column {column!r}: the default value {value!r} is of no type that has a text form")


def _parse_whole(text: str, bits: int) -> int | None:
    if not WHOLE.fullmatch(text):
        return None
    value = int(text.partition(".")[0])
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def _parse_real(text: str, _: t.DataType) -> float | None:
    return float(text) if REAL.fullmatch(text.strip()) else None


def _parse_decimal(text: str, kind: Any) -> Decimal | None:
    if not Decimal(text).is_finite():
        return None
    with localcontext(prec=2 * t.MAX_DECIMAL_PRECISION):
        value = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), rounding=ROUND_HALF_UP)
    return value if len(value.as_tuple().digits) <= kind.precision else None


def _parse_boolean(text: str, _: t.DataType) -> bool | None:
    return {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}.get(text.lower())


def _parse_date(text: str, _: t.DataType) -> date | None:
    if COUNT.fullmatch(text):
        return date.fromordinal(EPOCH_DAY + int(text))
    match = DATE.fullmatch(text)
    return None if match is None else date(int(match[1]), int(match[2]), int(match[3]))


def _parse_time(text: str, _: t.DataType) -> time | None:
    if COUNT.fullmatch(text):
        return _to_time(int(text))
    match = TIME.fullmatch(text)
    if match is None:
        return None
    millis = int((match[4] or "0").ljust(MILLIS_DIGITS, "0")[:MILLIS_DIGITS])
    return time(int(match[1]), int(match[2] or 0), int(match[3] or 0), millis * 1000)


def _to_time(millis: int) -> time:
    seconds, millis = divmod(millis, 1000)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, millis * 1000)


def _parse_timestamp(text: str, kind: Any) -> int | None:
    """Return the number of the Arrow type's units since 1970; digits beyond the precision are cut off."""
    if COUNT.fullmatch(text) and isinstance(kind, t.TimestampType):
        return int(text) if kind.precision in UNIT_PRECISIONS else None
    match = TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    parts = [int(part or default) for part, default in zip(match.groups()[:6], (0, 0, 0, 0, 0, 0))]
    seconds = int(datetime(*parts, tzinfo=UTC).timestamp())  # type: ignore[arg-type,misc]  # six integers
    fraction = int((match[7] or "").ljust(NANO_DIGITS, "0")[: kind.precision].ljust(NANO_DIGITS, "0"))
    return (seconds * NANOS_PER_SECOND + fraction) // UNIT_NANOS[kind.arrow().unit]


UNIT_PRECISIONS = (0, 3, 6, 9)
UNIT_NANOS = {"s": NANOS_PER_SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}


def _fit_char(text: str, kind: Any) -> str:
    return text[: kind.length].ljust(kind.length) if isinstance(kind, t.CharType) else text[: kind.length]


def _fit_binary(text: str, kind: Any) -> bytes:
    data = text.encode()[: kind.length]
    return data.ljust(kind.length, b"\0") if isinstance(kind, t.BinaryType) else data


PARSERS: dict[type[t.DataType], Callable[[str, t.DataType], Any]] = {
    t.BooleanType: _parse_boolean,
    t.TinyIntType: lambda text, _: _parse_whole(text, 8),
    t.SmallIntType: lambda text, _: _parse_whole(text, 16),
    t.IntType: lambda text, _: _parse_whole(text, 32),
    t.BigIntType: lambda text, _: _parse_whole(text, 64),
    t.FloatType: _parse_real,
    t.DoubleType: _parse_real,
    t.DecimalType: _parse_decimal,
    t.CharType: _fit_char,
    t.VarCharType: _fit_char,
    t.BinaryType: _fit_binary,
    t.VarBinaryType: _fit_binary,
    t.DateType: _parse_date,
    t.TimeType: _parse_time,
    t.TimestampType: _parse_timestamp,
    t.LocalZonedTimestampType: _parse_timestamp,
}


# Arrays, maps and rows

NESTED: dict[type[t.DataType], re.Pattern[str]] = {
    t.ArrayType: re.compile(r"(?:ARRAY\s*\((.*)\)|\[(.*)\])", re.IGNORECASE | re.DOTALL),
    t.MapType: re.compile(r"(?:MAP\s*\((.*)\)|\{(.*)\})", re.IGNORECASE | re.DOTALL),
    t.RowType: re.compile(r"(?:STRUCT\s*\((.*)\)|\{(.*)\})", re.IGNORECASE | re.DOTALL),
}
"""The two forms of a nested value: a function of SQL, or brackets, in which a map has ``key -> value``."""
QUOTED = re.compile(r"""(?:DATE|TIMESTAMP(?:_NTZ|_LTZ)?)?\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")""", re.DOTALL)
NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?:BD|[LSYFD])?", re.IGNORECASE)
OPENING, CLOSING, QUOTES = "([{", ")]}", "'\""


def is_function_form(text: str) -> bool:
    """Return whether the default of an array, map or row is SQL, such as ``ARRAY(1, 2)``."""
    return not text.strip().startswith(("[", "{"))


def _parse_nested(text: str, kind: Any) -> Any:
    found = NESTED[type(kind)].fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    inner = found[1] if found[1] is not None else found[2]
    parts = _split_parts(inner)
    if isinstance(kind, t.ArrayType):
        return [_parse_part(part, kind.element) for part in parts]
    if isinstance(kind, t.MapType):
        if found[1] is None:
            parts = [side for part in parts for side in part.split("->", 1)]
        sides = [iter(parts)] * 2
        return [(_parse_part(k, kind.key), _parse_part(v, kind.value)) for k, v in zip(*sides, strict=True)]
    if not parts:
        return dict.fromkeys(field.name for field in kind.fields)
    return {f.name: _parse_part(part, f.type) for f, part in zip(kind.fields, parts, strict=True)}


def _split_parts(text: str) -> list[str]:
    """Split a text at its commas outside of quotes and brackets."""
    parts, depth, quote, start = list[str](), 0, "", 0
    escaped = False
    for place, character in enumerate(text):
        if escaped or character == "\\":
            escaped = not escaped
        elif quote:
            quote = "" if character == quote else quote
        elif character in QUOTES:
            quote = character
        elif character == "," and not depth:
            parts.append(text[start:place])
            start = place + 1
        else:
            depth += (character in OPENING) - (character in CLOSING)
    return [part.strip() for part in [*parts, text[start:]]] if text.strip() else []


def _parse_part(text: str, kind: t.DataType) -> Any:
    text = text.strip()
    if text.lower() == "null":
        return None
    if type(kind) in NESTED:
        return _parse_nested(text, kind)
    quoted, number = QUOTED.fullmatch(text), NUMBER.fullmatch(text)
    if quoted is not None:
        text = re.sub(r"\\(.)", r"\1", quoted[1] if quoted[1] is not None else quoted[2], flags=re.DOTALL)
    elif number is not None:
        text = number[1]
    value = PARSERS[type(kind)](text, kind) if type(kind) in PARSERS else None
    if value is None:
        raise ValueError(text)
    return value


def _format_datetime(value: datetime) -> str:
    instant = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    digits = "microseconds" if instant.microsecond else "seconds"
    # Timestamps of pandas have nanoseconds, too.
    return instant.isoformat(sep=" ", timespec="nanoseconds" if getattr(instant, "nanosecond", 0) else digits)


WRITERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, lambda value: str(value).lower()),
    (int, str),
    (float, lambda value: {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))),
    (Decimal, lambda value: format(value, "f")),
    (datetime, _format_datetime),
    (date, date.isoformat),
    (time, time.isoformat),
)
"""Python type -> conversion to text. The first match counts: ``True`` is also an ``int``."""
