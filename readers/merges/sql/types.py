"""DuckDB's names of Paimon's types, for casts, as in the relations that Morrow makes from Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from morrow.engine.format import types as t
from morrow.readers.expressions.sql import TIMESTAMP_KEYWORDS, quote_identifier

_ATOMIC: dict[type[t.DataType], str] = {
    t.BooleanType: "BOOLEAN",
    t.TinyIntType: "TINYINT",
    t.SmallIntType: "SMALLINT",
    t.IntType: "INTEGER",
    t.BigIntType: "BIGINT",
    t.FloatType: "FLOAT",
    t.DoubleType: "DOUBLE",
    t.DateType: "DATE",
    t.TimeType: "TIME",
    t.CharType: "VARCHAR",
    t.VarCharType: "VARCHAR",
    t.BinaryType: "BLOB",
    t.VarBinaryType: "BLOB",
    t.BlobType: "BLOB",
    t.VariantType: "STRUCT(value BLOB, metadata BLOB)",
}


def _instant(kind: t.LocalZonedTimestampType) -> str:
    return "TIMESTAMPTZ_NS" if t.arrow_time_unit(kind.precision) == "ns" else "TIMESTAMPTZ"


def _row(kind: t.RowType) -> str:
    return f"STRUCT({', '.join(f'{quote_identifier(field.name)} {type_name(field.type)}' for field in kind.fields)})"


_PARAMETRIC: dict[type[t.DataType], Callable[[Any], str]] = {
    t.DecimalType: lambda kind: kind.text(),
    t.TimestampType: lambda kind: TIMESTAMP_KEYWORDS[t.arrow_time_unit(kind.precision)],
    t.LocalZonedTimestampType: _instant,
    t.ArrayType: lambda kind: f"{type_name(kind.element)}[]",
    t.VectorType: lambda kind: f"{type_name(kind.element)}[{kind.length}]",
    t.MapType: lambda kind: f"MAP({type_name(kind.key)}, {type_name(kind.value)})",
    t.MultisetType: lambda kind: f"MAP({type_name(kind.element)}, INTEGER)",
    t.RowType: _row,
}


REALS = (t.FloatType, t.DoubleType)


def inner_types(kind: t.DataType) -> Sequence[t.DataType]:
    """Returns the types of the members, elements, or keys and values."""
    if isinstance(kind, t.RowType):
        return [field.type for field in kind.fields]
    if isinstance(kind, (t.ArrayType, t.VectorType, t.MultisetType)):
        return [kind.element]
    return [kind.key, kind.value] if isinstance(kind, t.MapType) else []


def holds_reals(kind: t.DataType) -> bool:
    """Returns whether values are, or have at any depth, FLOAT or DOUBLE."""
    return isinstance(kind, REALS) or any(map(holds_reals, inner_types(kind)))


def type_name(kind: t.DataType) -> str:
    """Returns the type as DuckDB spells it: ``DECIMAL(10, 2)``, ``MAP(INTEGER, VARCHAR[])``."""
    name = _ATOMIC.get(type(kind))
    return name if name is not None else _PARAMETRIC[type(kind)](kind)
