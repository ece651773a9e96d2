"""Exact rewriting of comparisons with any literal to literals in the column's own type, and the literals of SQL text.

A column type is a grid of values on a line: integers, multiples of 10^-scale, milliseconds, float32. A literal lies on
that grid, between two of its points, or beyond its ends. For example, ``x > 10.5`` on an INT column is ``x > 10``, ``x
= 10.5`` is never true, and ``x < 1e9`` is true for every non-null SMALLINT. Nothing is rounded.

DuckDB types a literal by its spelling (``1`` INTEGER, ``0.1`` DECIMAL, ``1e0`` DOUBLE), and an untyped string adopts
the type of the column it is compared with. If DuckDB would round in between, the literal is not converted here and the
condition stays SQL.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from sqlglot import exp

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataField,
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
    to_arrow_time_unit,
)
from morrow.engine.plan.predicate import NEVER, Leaf, Op, Predicate, Value

INTEGER_BITS: dict[type[DataType], int] = {TinyIntType: 8, SmallIntType: 16, IntType: 32, BigIntType: 64}
STRING_TYPES = (CharType, VarCharType)
BINARY_TYPES = (BinaryType, VarBinaryType)
TIMESTAMP_TYPES = (TimestampType, LocalZonedTimestampType)
FLOAT_TYPES = (FloatType, DoubleType)

MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
EPOCH = dt.datetime(1970, 1, 1)
NANOS_RANGE = (
    EPOCH - dt.timedelta(microseconds=2**63 // 1000),
    EPOCH + dt.timedelta(microseconds=(2**63 - 1) // 1000),
)
"""The range of microseconds that fit int64 nanoseconds: the years 1677 to 2262."""


@dataclass(frozen=True)
class Snap:
    """A literal's position on a column's grid: `below` is the greatest value not above it, None if all are above."""

    below: Value | None
    exact: bool = False
    above_all: bool = False
    """Whether the literal is greater than every value of the type (and `below` is the greatest)."""


def build_comparison(column: DataField, op: Op, value: Value) -> Predicate | None:
    """Return ``column op value`` as a predicate with the same truth for every value of the column, null included.

    `op` is one of ``= != < <= > >=``. Floats are ordered as in Polars and DuckDB: NaN equals itself and is greatest.
    Returns None if the column's and the literal's types are not comparable without a cast of the column.
    """
    snap = snap_literal(column.type, value)
    if snap is None:
        return None
    if isinstance(column.type, BooleanType):
        return _compare_boolean(column.name, op, bool(value))
    if snap.exact and snap.below is not None:
        return Leaf(column.name, op, (snap.below,))
    return _compare_between_points(column.name, op, snap)


def build_membership(column: DataField, values: Iterable[Value], *, negated: bool = False) -> Predicate | None:
    """Return ``column [NOT] IN (values)`` as a predicate; None as in `build_comparison`. Values may not be null."""
    snaps = [snap_literal(column.type, value) for value in values]
    if any(snap is None for snap in snaps):
        return None
    kept = tuple(dict.fromkeys(s.below for s in snaps if s is not None and s.exact and s.below is not None))
    if not kept:
        return build_is_not_null(column) if negated else NEVER
    if len(kept) == 1:
        return build_comparison(column, Op.NE if negated else Op.EQ, kept[0])
    return Leaf(column.name, Op.NOT_IN if negated else Op.IN, kept)


def build_is_null(column: DataField) -> Predicate:
    return Leaf(column.name, Op.IS_NULL)


def build_is_not_null(column: DataField) -> Predicate:
    return Leaf(column.name, Op.IS_NOT_NULL)


def snap_literal(kind: DataType, value: Value) -> Snap | None:
    """Return the position of `value` on the grid of a type, None if the two are not comparable."""
    snap = _SNAPS.get(type(kind))
    return snap(kind, value) if snap else None


def _compare_between_points(name: str, op: Op, snap: Snap) -> Predicate:
    everything = Leaf(name, Op.IS_NOT_NULL)
    if op in (Op.EQ, Op.NE):
        return NEVER if op is Op.EQ else everything
    if op in (Op.GT, Op.GE):
        if snap.above_all:
            return NEVER
        return everything if snap.below is None else Leaf(name, Op.GT, (snap.below,))
    if snap.above_all:
        return everything
    return NEVER if snap.below is None else Leaf(name, Op.LE, (snap.below,))


def _compare_boolean(name: str, op: Op, value: bool) -> Predicate:
    """Compare booleans: false < true, so every comparison selects one of the two, both, or neither."""
    ordered: dict[Op, Callable[[bool], bool]] = {
        Op.EQ: lambda x: x == value,
        Op.NE: lambda x: x != value,
        Op.LT: lambda x: x < value,
        Op.LE: lambda x: x <= value,
        Op.GT: lambda x: x > value,
        Op.GE: lambda x: x >= value,
    }
    matching = [x for x in (False, True) if ordered[op](x)]
    if len(matching) == 1:
        return Leaf(name, Op.EQ, (matching[0],))
    return Leaf(name, Op.IS_NOT_NULL) if matching else NEVER


def _is_real(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _snap_to_grid(value: Any, lowest: int, highest: int, step: Fraction, build: Callable[[int], Value]) -> Snap:
    """Snap a real number to the multiples ``lowest*step .. highest*step``."""
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        beyond = not value < 0 if value == value else True
        return Snap(build(highest), above_all=True) if beyond else Snap(None)
    steps = Fraction(value) / step
    index = math.floor(steps)
    if index < lowest:
        return Snap(None)
    if index > highest or (index == highest and steps != index):
        return Snap(build(highest), above_all=True)
    return Snap(build(index), exact=steps == index)


def _snap_integer(kind: DataType, value: Value) -> Snap | None:
    if not _is_real(value):
        return None
    half = 1 << (INTEGER_BITS[type(kind)] - 1)
    if isinstance(value, int) and -half <= value < half:
        return Snap(value, exact=True)
    return _snap_to_grid(value, -half, half - 1, Fraction(1), int)


def _snap_decimal(kind: DataType, value: Value) -> Snap | None:
    assert isinstance(kind, DecimalType)
    if not _is_real(value):
        return None
    scale, limit = kind.scale, 10**kind.precision - 1
    exact = Context(prec=kind.precision + 1, rounding=ROUND_FLOOR)
    return _snap_to_grid(
        value, -limit, limit, Fraction(1, 10**scale), lambda i: Decimal(i).scaleb(-scale, context=exact)
    )


def _snap_float(kind: DataType, value: Value) -> Snap | None:
    """Snap to the grid of IEEE numbers: -inf, the finite ones, +inf, NaN."""
    if not _is_real(value):
        return None
    assert isinstance(value, (int, float, Decimal))
    if value != value or value in (math.inf, -math.inf):
        return Snap(float(value), exact=True)
    if value == 0:
        return Snap(0.0, exact=True)
    dtype: Any = np.float32 if isinstance(kind, FloatType) else np.float64
    wanted = Fraction(value)
    largest = float(np.finfo(dtype).max)
    if abs(wanted) > Fraction(largest):
        return Snap(largest if wanted > 0 else -math.inf)
    near = float(dtype(float(value)))
    near = math.copysign(largest, near) if math.isinf(near) else near
    if Fraction(near) > wanted:
        near = float(np.nextafter(dtype(near), dtype(-math.inf)))
    return Snap(near + 0.0, exact=Fraction(near) == wanted)


def _snap_date(kind: DataType, value: Value) -> Snap | None:  # noqa: ARG001 - same signature as the others
    if isinstance(value, dt.datetime):
        return Snap(value.date(), exact=value.time() == dt.time()) if value.tzinfo is None else None
    return Snap(value, exact=True) if isinstance(value, dt.date) else None


def _snap_time(kind: DataType, value: Value) -> Snap | None:  # noqa: ARG001 - Paimon keeps milliseconds in any TIME(p)
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        return None
    fraction = value.microsecond % MICROS_PER_UNIT["ms"]
    return Snap(value.replace(microsecond=value.microsecond - fraction), exact=fraction == 0)


def _snap_timestamp(kind: DataType, value: Value) -> Snap | None:
    """Snap timestamps: TIMESTAMP accepts naive values, TIMESTAMP_LTZ aware; a DATE is its midnight (UTC for LTZ)."""
    assert isinstance(kind, (TimestampType, LocalZonedTimestampType))
    zoned = isinstance(kind, LocalZonedTimestampType)
    if not isinstance(value, dt.date):
        return None
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    if moment.tzinfo is not None:
        if not zoned:
            return None
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)

    def build(naive: dt.datetime) -> Value:
        return naive.replace(tzinfo=dt.UTC) if zoned else naive

    unit = to_arrow_time_unit(kind.precision)
    if unit == "ns":
        lowest, highest = NANOS_RANGE
        if moment < lowest:
            return Snap(None)
        return Snap(build(highest), above_all=True) if moment > highest else Snap(build(moment), exact=True)
    fraction = (moment - EPOCH) // dt.timedelta(microseconds=1) % MICROS_PER_UNIT[unit]
    return Snap(build(moment - dt.timedelta(microseconds=fraction)), exact=fraction == 0)


def _snap_only(kind: type) -> Callable[[DataType, Value], Snap | None]:
    """Return the snap function of types that compare only with literals of a single Python type."""
    return lambda _type, value: Snap(value, exact=True) if type(value) is kind else None


_SNAPS: dict[type[DataType], Callable[[DataType, Value], Snap | None]] = {
    **dict.fromkeys(INTEGER_BITS, _snap_integer),
    **dict.fromkeys(FLOAT_TYPES, _snap_float),
    **dict.fromkeys(TIMESTAMP_TYPES, _snap_timestamp),
    **dict.fromkeys(STRING_TYPES, _snap_only(str)),
    **dict.fromkeys(BINARY_TYPES, _snap_only(bytes)),
    BooleanType: _snap_only(bool),
    DecimalType: _snap_decimal,
    DateType: _snap_date,
    TimeType: _snap_time,
}

DOUBLE_DIGITS, FLOAT_DIGITS = 2**53, 2**24
"""The integers up to which DOUBLE and FLOAT represent all integers."""
DOUBLE_TENS, FLOAT_TENS = 22, 10
"""The powers of ten that DOUBLE and FLOAT represent exactly, so that a single division rounds correctly."""

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_REAL = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?")
_STAMP = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})(?:[ T](?P<time>\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)(?P<zone>Z|[+-]\d{2}(?::\d{2})?)?)?"
)
_BYTE = re.compile(r"\\x([0-9A-Fa-f]{2})")
_MAYBE_TEMPORAL = re.compile(
    r"\s*([+-]?\d[\d\s:./\\+\-TtZz]*([A-Za-z/_]+|\([bB][cC]\))?|epoch|-?infinity|inf|-inf)\s*", re.IGNORECASE
)
_MAYBE_NUMBER = re.compile(r"\s*[+-]?(\d|\.\d|inf|nan)[\w.+-]*\s*", re.IGNORECASE)


def from_text(text: str, column: DataField) -> Value | None:
    """Return an untyped string as a value of the column; None if DuckDB may interpret it otherwise.

    Raises:
        InvalidArgument: the string is not a value of the column's type.
    """
    read = next((read for kinds, read in _READERS if isinstance(column.type, kinds)), None)
    if read is None:
        return None
    try:
        return read(text, column.type)
    except ValueError:
        raise InvalidArgument(
            f"filter: {text!r} is no {column.type.text()}, the type of column {column.name!r}"
        ) from None


def _read_boolean(text: str, _kind: DataType) -> Value | None:
    word = text.lower()
    if word in ("true", "t", "false", "f"):
        return word[0] == "t"
    return _reject_form(word not in ("1", "0", "yes", "no", "y", "n"))


def _read_integer(text: str, kind: DataType) -> Value | None:
    if not _INTEGER.fullmatch(text):
        return _reject_form(not _MAYBE_NUMBER.fullmatch(text))
    snap = snap_literal(kind, int(text))
    return snap.below if snap and snap.exact else _reject_form(True)


def _read_decimal(text: str, kind: DataType) -> Value | None:
    if not _DECIMAL.fullmatch(text):
        return _reject_form(not _MAYBE_NUMBER.fullmatch(text))
    snap = snap_literal(kind, Decimal(text))
    return snap.below if snap and snap.exact else None


def _read_float(text: str, kind: DataType) -> Value | None:
    if not _REAL.fullmatch(text):
        return _reject_form(not _MAYBE_NUMBER.fullmatch(text))
    value = float(text)
    if not np.isfinite(value):
        return value if text.lstrip("+-")[0].isalpha() else None
    if isinstance(kind, DoubleType):
        return value
    snap = snap_literal(kind, value)
    if snap and snap.exact:
        return snap.below
    return convert_number(Decimal(text), DataField(0, "", kind)) if _DECIMAL.fullmatch(text) else None


def _read_date(text: str, _kind: DataType) -> Value | None:
    if not _DATE.fullmatch(text):
        return _reject_form(not _MAYBE_TEMPORAL.fullmatch(text))
    return None if text.startswith("0000") else dt.date.fromisoformat(text)


def _read_time(text: str, _kind: DataType) -> Value | None:
    match = _TIME.fullmatch(text)
    if match is None or match[1] == "24":
        return _reject_form(not _MAYBE_TEMPORAL.fullmatch(text))
    return dt.time(int(match[1]), int(match[2]), int(match[3]), int((match[4] or "").ljust(6, "0")))


def _read_timestamp(text: str, kind: DataType) -> Value | None:
    match = _STAMP.fullmatch(text)
    if match is None or match["date"].startswith("0000") or (match["time"] or "").startswith("24"):
        return _reject_form(not _MAYBE_TEMPORAL.fullmatch(text))
    date = _read_date(match["date"], kind)
    time = _read_time(match["time"] or "00:00:00", kind)
    if not isinstance(date, dt.date) or not isinstance(time, dt.time):
        return None
    value, zone = dt.datetime.combine(date, time), match["zone"]
    if isinstance(kind, LocalZonedTimestampType):
        value = value.replace(tzinfo=dt.UTC) if zone in (None, "Z") else _shift_to_utc(value, zone)
    elif zone:
        return None  # DuckDB decides whether it ignores the zone here
    snap = snap_literal(kind, value)
    return snap.below if snap and snap.exact else None


def _shift_to_utc(value: dt.datetime, zone: str) -> dt.datetime:
    hours, minutes = int(zone[1:3]), int(zone[4:6] or 0)
    offset = dt.timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
    try:
        return (value - offset).replace(tzinfo=dt.UTC)
    except OverflowError:
        raise ValueError("beyond the years 1 to 9999") from None


def _read_binary(text: str, _kind: DataType) -> Value | None:
    plain = _BYTE.sub("", text)
    if not plain.isascii() or "\\" in plain:
        return None
    parts = _BYTE.split(text)
    return b"".join(bytes.fromhex(part) if i % 2 else part.encode("ascii") for i, part in enumerate(parts))


def _reject_form(certainly: bool) -> Value | None:
    """Handle a form that is not read here: raise if DuckDB cannot read it either, otherwise leave it to DuckDB."""
    if certainly:
        raise ValueError
    return None


_READERS: tuple[tuple[type[DataType] | tuple[type[DataType], ...], Callable[[str, DataType], Value | None]], ...] = (
    (STRING_TYPES, lambda text, _kind: text),
    (BooleanType, _read_boolean),
    (tuple(INTEGER_BITS), _read_integer),
    (DecimalType, _read_decimal),
    ((FloatType, DoubleType), _read_float),
    (DateType, _read_date),
    (TimeType, _read_time),
    ((TimestampType, LocalZonedTimestampType), _read_timestamp),
    (BINARY_TYPES, _read_binary),
)


def convert_number(value: Any, column: DataField) -> Value | None:
    """Convert INTEGER and DECIMAL literals: exact for integers and decimals, rounded once for FLOAT and DOUBLE."""
    if not isinstance(column.type, (FloatType, DoubleType)):
        return value if isinstance(column.type, (*INTEGER_BITS, DecimalType)) else None
    single = isinstance(column.type, FloatType)
    digits, tens = (FLOAT_DIGITS, FLOAT_TENS) if single else (DOUBLE_DIGITS, DOUBLE_TENS)
    sign, coefficient, exponent = Decimal(value).as_tuple()
    unscaled = int("".join(map(str, coefficient)))
    if not isinstance(exponent, int) or exponent > 0 or unscaled > digits or -exponent > tens:
        return None
    dtype: type[np.float32] | type[np.float64] = np.float32 if single else np.float64
    return float(dtype(-unscaled if sign else unscaled) / dtype(10**-exponent))


def convert_double(value: Any, column: DataField) -> Value | None:
    """Convert DOUBLE literals: the column is cast to DOUBLE, which is exact except for large integers and decimals."""
    bits = INTEGER_BITS.get(type(column.type))
    if bits:
        return value if bits <= 32 or not np.isfinite(value) or abs(value) < DOUBLE_DIGITS else None
    return value if isinstance(column.type, (FloatType, DoubleType)) else None


def convert_float(value: Any, column: DataField) -> Value | None:
    return value if isinstance(column.type, (FloatType, DoubleType)) else None


MAX_DECIMAL_DIGITS = 38


Node = Any
"""A node of sqlglot's tree, whose base class differs between versions."""


@dataclass(frozen=True)
class Constant:
    """A literal: its Python value, and whether it is an untyped string (`family` "text") or its type."""

    value: Value | None
    family: str


NULL = Constant(None, "null")

_NUMBER = re.compile(r"(?P<whole>\d*)(?:\.(?P<fraction>\d*))?(?P<exponent>[eE][+-]?\d+)?")


def read_constant(node: Node) -> Constant | None:
    """Return the literal of a node, or None."""
    node = node.unnest()
    read = _CONSTANTS.get(type(node))
    return read(node) if read else None


def _read_literal(node: Node) -> Constant | None:
    return Constant(str(node.this), "text") if node.args.get("is_string") else _read_number(str(node.this))


def _read_number(text: str) -> Constant | None:
    match = _NUMBER.fullmatch(text)
    if match is None or not (match["whole"] or match["fraction"]):
        return None
    if match["exponent"]:
        return Constant(float(text), "double")
    if match["fraction"] is None:
        return Constant(int(text), "number")
    return Constant(Decimal(text), "number") if len(match["whole"] + match["fraction"]) <= MAX_DECIMAL_DIGITS else None


def _read_negative(node: Node) -> Constant | None:
    inner = read_constant(node.this)
    if inner is None or inner is NULL:
        return inner
    if not isinstance(inner.value, (int, float, Decimal)) or isinstance(inner.value, bool):
        return None
    return Constant(inner.value.copy_negate() if isinstance(inner.value, Decimal) else -inner.value, inner.family)


def _read_hexadecimal(node: Node) -> Constant | None:
    digits = str(node.this)
    return Constant(bytes.fromhex(digits), "blob") if len(digits) % 2 == 0 else None


def _read_cast(node: Node) -> Constant | None:
    """Read ``DATE '2024-01-01'``, ``CAST('..' AS DATE)``, ``'..'::DATE``: only casts without rounding."""
    inner, target = read_constant(node.this), find_cast_target(node)
    if inner is None or inner is NULL or target is None:
        return NULL if inner is NULL and target is not None else None
    kind, family = target
    if inner.family == "text":
        value = from_text(str(inner.value), DataField(0, "literal", kind))
        return None if value is None else Constant(value, family)
    if inner.family != family or inner.value is None:
        return None
    snap = snap_literal(kind, inner.value)
    return Constant(snap.below, family) if snap and snap.exact else None


def find_cast_target(node: Node) -> tuple[DataType, str] | None:
    """Return the type of a cast, and the family of its literals; None for a type with options or of another kind."""
    target = node.args.get("to")
    options = {name for name, value in node.args.items() if value not in (None, False, [])} - {"this", "to", "_type"}
    if not isinstance(target, exp.DataType) or options:
        return None
    sizes = [int(size.name) for size in target.expressions if size.name.isdigit()]
    if target.this.name == "DECIMAL" and len(sizes) == 2 and 0 < sizes[0] <= MAX_DECIMAL_DIGITS:
        return DecimalType(precision=sizes[0], scale=sizes[1]), "number"
    return None if target.expressions else _CAST_TARGETS.get(target.this.name)


_CAST_TARGETS: dict[str, tuple[DataType, str]] = {
    "DATE": (DateType(), "date"),
    "TIME": (TimeType(), "time"),
    "TIMESTAMP": (TimestampType(), "timestamp"),
    "TIMESTAMPNTZ": (TimestampType(), "timestamp"),
    "TIMESTAMPTZ": (LocalZonedTimestampType(), "timestamptz"),
    "TINYINT": (TinyIntType(), "number"),
    "SMALLINT": (SmallIntType(), "number"),
    "INT": (IntType(), "number"),
    "BIGINT": (BigIntType(), "number"),
    "FLOAT": (FloatType(), "float"),
    "DOUBLE": (DoubleType(), "double"),
    "BOOLEAN": (BooleanType(), "boolean"),
    "TEXT": (VarCharType(), "text"),
    "VARCHAR": (VarCharType(), "text"),
    "VARBINARY": (VarBinaryType(), "blob"),
}

_CONSTANTS: dict[type, Callable[[Any], Constant | None]] = {
    exp.Literal: _read_literal,
    exp.Boolean: lambda node: Constant(bool(node.this), "boolean"),
    exp.Null: lambda _node: NULL,
    exp.Neg: _read_negative,
    exp.HexString: _read_hexadecimal,
    exp.RawString: lambda node: Constant(str(node.this), "text"),
    exp.Cast: _read_cast,
}


def convert_constant(literal: Constant, column: DataField) -> Value | None:
    """Return the value that DuckDB compares the column with; None if DuckDB casts the column or rounds.

    Raises:
        InvalidArgument: an untyped string that is not a value of the column's type.
    """
    convert = _TYPED.get(literal.family)
    return literal.value if convert is None or literal.value is None else convert(literal.value, column)


def _convert_timestamp(value: Any, column: DataField) -> Value | None:
    assert isinstance(value, dt.datetime)
    zoned = isinstance(column.type, LocalZonedTimestampType)
    return value.replace(tzinfo=dt.UTC) if zoned else value


_TYPED: dict[str, Callable[[Any, DataField], Value | None]] = {
    "text": from_text,
    "number": convert_number,
    "double": convert_double,
    "float": convert_float,
    "timestamp": _convert_timestamp,
}
