"""A table with difficult values of every type, random predicates over it, and a slow row-wise evaluator."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

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
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    to_arrow_schema,
)
from morrow.engine.plan.predicate import And, Leaf, Op, Or, Predicate

UTC = dt.UTC
NAN, INF = math.nan, math.inf
MOMENTS = [
    dt.datetime(1, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
    dt.datetime(1970, 1, 1),
    dt.datetime(2024, 2, 29, 12, 30, 15, 123000),
    dt.datetime(2024, 2, 29, 12, 30, 15, 124000),
    dt.datetime(9999, 12, 31, 23, 59, 59),
]
MODERN = MOMENTS[1:-1]
MICROS = [*MOMENTS, dt.datetime(2024, 2, 29, 12, 30, 15, 123456)]
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "it's",
    'say "hi"',
    "a%b",
    "a_b",
    "\\",
    "é",
    "日本",
    "\U0010ffff",
    "ab\U0010ffffx",
    "\n;--",
    "Ab",
]
FLOATS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.5, 0.25, 16777216.0, 3.4028234663852886e38]

COLUMNS: dict[str, tuple[DataType, list[Any]]] = {
    "b": (BooleanType(), [True, False]),
    "i8": (TinyIntType(), [-128, -1, 0, 1, 5, 127]),
    "x": (IntType(), [-(2**31), -1, 0, 1, 5, 10, 11, 2**31 - 1]),
    "l": (BigIntType(), [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "f": (FloatType(), [*FLOATS, 0.10000000149011612]),
    "d": (DoubleType(), [*FLOATS, 0.1, 0.10000000149011612, 9007199254740992.0]),
    "dec": (
        DecimalType(precision=10, scale=2),
        [Decimal(v) for v in ("-1.50", "0.00", "0.10", "10.55", "99999999.99")],
    ),
    "big": (
        DecimalType(precision=38, scale=0),
        [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0), Decimal(10**37 + 1)],
    ),
    "s": (VarCharType(), TEXTS),
    "bin": (VarBinaryType(), [b"", b"a", b"ab", b"\x00", b"\xff\xfe", b"'"]),
    "dt": (DateType(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    "t": (TimeType(), [dt.time(), dt.time(10, 0, 0, 1000), dt.time(10, 0, 0, 2000), dt.time(23, 59, 59, 999000)]),
    "ts0": (TimestampType(precision=0), [m.replace(microsecond=0) for m in MOMENTS]),
    "ts3": (TimestampType(precision=3), MOMENTS),
    "ts": (TimestampType(), MICROS),
    "ts9": (TimestampType(precision=9), MODERN),
    "ltz": (LocalZonedTimestampType(), [m.replace(tzinfo=UTC) for m in MICROS]),
    "ltz9": (LocalZonedTimestampType(precision=9), [m.replace(tzinfo=UTC) for m in MODERN]),
    'we"ird; col.umn': (IntType(), [1, 2, 3]),
}
FIELDS = tuple(DataField(i, name, kind) for i, (name, (kind, _)) in enumerate(COLUMNS.items()))
COMPARISONS = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)
NULL_TESTS = (Op.IS_NULL, Op.IS_NOT_NULL)


def table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Convert rows to an Arrow table, with their number in the column ``row``."""
    schema = to_arrow_schema(FIELDS)
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.table(
        [*columns, pa.array(range(len(rows)), pa.int64())], schema=schema.append(pa.field("row", pa.int64()))
    )


def edge_rows() -> list[dict[str, Any]]:
    """Return rows with every difficult value of every column once, and nulls."""
    longest = max(len(values) for _, values in COLUMNS.values()) + 1
    return [
        {name: values[i] if i < len(values) else None for name, (_, values) in COLUMNS.items()} for i in range(longest)
    ]


def rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    row = st.fixed_dictionaries({name: st.none() | st.sampled_from(values) for name, (_, values) in COLUMNS.items()})
    return st.lists(row, max_size=12)


@st.composite
def leaves(draw: st.DrawFn, names: Sequence[str] = tuple(COLUMNS)) -> Leaf:
    name = draw(st.sampled_from(list(names)))
    kind, values = COLUMNS[name]
    textual = isinstance(kind, VarCharType)
    op = draw(st.sampled_from([o for o in Op if textual or o not in (Op.STARTS_WITH, Op.NOT_STARTS_WITH)]))
    if op in NULL_TESTS:
        return Leaf(name, op)
    literals = st.sampled_from(values)
    if op in (Op.IN, Op.NOT_IN):
        return Leaf(name, op, tuple(draw(st.lists(literals, min_size=1, max_size=4))))
    return Leaf(name, op, (draw(literals),))


def predicates(names: Sequence[str] = tuple(COLUMNS)) -> st.SearchStrategy[Predicate]:
    def joined(children: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        parts = st.lists(children, max_size=3).map(tuple)
        return parts.map(And) | parts.map(Or)

    return st.recursive(leaves(names), joined, max_leaves=6)


def truth(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Evaluate the predicate for one row in SQL's three-valued logic; None is unknown."""
    if isinstance(predicate, Leaf):
        return _leaf_truth(predicate, row.get(predicate.column))
    answers = [truth(child, row) for child in predicate.children]
    decisive = isinstance(predicate, Or)
    if decisive in answers:
        return decisive
    return None if None in answers else not decisive


def matching(predicate: Predicate, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    return [i for i, row in enumerate(rows) if truth(predicate, row) is True]


def _leaf_truth(leaf: Leaf, value: Any) -> bool | None:
    if leaf.op in NULL_TESTS:
        return (value is None) is (leaf.op is Op.IS_NULL)
    if value is None:
        return None
    if leaf.op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        return bool(value.startswith(leaf.literals[0])) is (leaf.op is Op.STARTS_WITH)
    left, right = ordered(value), [ordered(literal) for literal in leaf.literals]
    return {
        Op.EQ: lambda: left == right[0],
        Op.NE: lambda: left != right[0],
        Op.LT: lambda: left < right[0],
        Op.LE: lambda: left <= right[0],
        Op.GT: lambda: left > right[0],
        Op.GE: lambda: left >= right[0],
        Op.IN: lambda: left in right,
        Op.NOT_IN: lambda: left not in right,
    }[leaf.op]()


def ordered(value: Any) -> Any:
    """Order values: NaN is the greatest float and equal to itself, strings compare as UTF-8 bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value
