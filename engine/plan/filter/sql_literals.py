"""Literals of SQL text, and their values when DuckDB compares them with a column.

DuckDB types a literal by its spelling (``1`` INTEGER, ``0.1`` DECIMAL, ``1e0`` DOUBLE), and an untyped string takes
the type of the column it is compared with. If DuckDB would round in between, the literal is not converted here and
the condition stays SQL.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from morrow.engine.format.types import (
    BigIntType,
    BooleanType,
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
)
from morrow.engine.plan.filter.literals import snapped
from morrow.engine.plan.filter.sql_values import double_for, float_for, from_text, number_for
from morrow.engine.plan.predicate import Value

MAX_DECIMAL_DIGITS = 38


Node = Any
"""A node of sqlglot's tree; its base class differs between versions."""


@dataclass(frozen=True)
class Constant:
    """A literal: its Python value, and whether it is an untyped string (`family` "text") or its type."""

    value: Value | None
    family: str


NULL = Constant(None, "null")

_NUMBER = re.compile(r"(?P<whole>\d*)(?:\.(?P<fraction>\d*))?(?P<exponent>[eE][+-]?\d+)?")


def constant(node: Node) -> Constant | None:
    """Returns the literal of a node, or None."""
    node = node.unnest()
    read = _CONSTANTS.get(type(node))
    return read(node) if read else None


def _literal(node: Node) -> Constant | None:
    return Constant(str(node.this), "text") if node.args.get("is_string") else _number(str(node.this))


def _number(text: str) -> Constant | None:
    match = _NUMBER.fullmatch(text)
    if match is None or not (match["whole"] or match["fraction"]):
        return None
    if match["exponent"]:
        return Constant(float(text), "double")
    if match["fraction"] is None:
        return Constant(int(text), "number")
    return Constant(Decimal(text), "number") if len(match["whole"] + match["fraction"]) <= MAX_DECIMAL_DIGITS else None


def _negative(node: Node) -> Constant | None:
    inner = constant(node.this)
    if inner is None or inner is NULL:
        return inner
    if not isinstance(inner.value, (int, float, Decimal)) or isinstance(inner.value, bool):
        return None
    return Constant(inner.value.copy_negate() if isinstance(inner.value, Decimal) else -inner.value, inner.family)


def _hexadecimal(node: Node) -> Constant | None:
    digits = str(node.this)
    return Constant(bytes.fromhex(digits), "blob") if len(digits) % 2 == 0 else None


def _cast(node: Node) -> Constant | None:
    """Reads ``DATE '2024-01-01'``, ``CAST('..' AS DATE)``, ``'..'::DATE``: only casts that round nothing."""
    inner, target = constant(node.this), _target(node)
    if inner is None or inner is NULL or target is None:
        return NULL if inner is NULL and target is not None else None
    kind, family = target
    if inner.family == "text":
        value = from_text(str(inner.value), DataField(0, "literal", kind))
        return None if value is None else Constant(value, family)
    if inner.family != family or inner.value is None:
        return None
    snap = snapped(kind, inner.value)
    return Constant(snap.below, family) if snap and snap.exact else None


def _target(node: Node) -> tuple[DataType, str] | None:
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
    exp.Literal: _literal,
    exp.Boolean: lambda node: Constant(bool(node.this), "boolean"),
    exp.Null: lambda _node: NULL,
    exp.Neg: _negative,
    exp.HexString: _hexadecimal,
    exp.RawString: lambda node: Constant(str(node.this), "text"),
    exp.Cast: _cast,
}


def typed(literal: Constant, column: DataField) -> Value | None:
    """Returns the value that DuckDB compares the column with, None if that casts the column or rounds.

    Raises:
        InvalidArgument: an untyped string that is no value of the column's type.
    """
    convert = _TYPED.get(literal.family)
    return literal.value if convert is None or literal.value is None else convert(literal.value, column)


def _timestamp_for(value: Any, column: DataField) -> Value | None:
    assert isinstance(value, dt.datetime)
    zoned = isinstance(column.type, LocalZonedTimestampType)
    return value.replace(tzinfo=dt.UTC) if zoned else value


_TYPED: dict[str, Callable[[Any, DataField], Value | None]] = {
    "text": from_text,
    "number": number_for,
    "double": double_for,
    "float": float_for,
    "timestamp": _timestamp_for,
}
