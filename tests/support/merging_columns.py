"""Columns of random tables with an aggregate function: the types, options and values that fit each function."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import datasketches
from hypothesis import strategies as st
from pyroaring import BitMap

from morrow.engine.format import types as t
from morrow.engine.format.types import parse_atomic
from tests.support.rbm64 import bitmap64, encode
from tests.support.value_pools import NESTED, POOLS

TEXT, BYTES = t.VarCharType(), t.VarBinaryType()


def row_of(first_id: int, **fields: t.DataType) -> t.RowType:
    return t.RowType(
        fields=tuple(t.DataField(first_id + i, name, kind) for i, (name, kind) in enumerate(fields.items()))
    )


NESTED_TABLE = t.ArrayType(element=row_of(80, id=t.IntType(), name=TEXT, n=t.BigIntType()))
TIMED_MAP = t.MapType(key=t.VarCharType(nullable=False), value=row_of(84, value=TEXT, ts=TEXT))
INT_ARRAY, TEXT_MAP, ROW = NESTED
ROW_ARRAY = t.ArrayType(element=ROW)
TEXT_ARRAY = t.ArrayType(element=TEXT)


def _nested(*rows: tuple[int | None, str | None, int | None] | None) -> list[dict[str, Any] | None]:
    return [None if row is None else dict(zip(("id", "name", "n"), row, strict=True)) for row in rows]


def _timed(**entries: tuple[str | None, str | None] | None) -> list[tuple[str, Any]]:
    return [(k, None if v is None else dict(zip(("value", "ts"), v, strict=True))) for k, v in entries.items()]


def _sketch(sketch: Any, values: Sequence[int]) -> Any:
    for value in values:
        sketch.update(value)
    return sketch


NESTED_ROWS: dict[t.DataType, list[Any]] = {
    TEXT_ARRAY: [[], ["a"], ["a", "b", None, "a"], ["b", None]],
    INT_ARRAY: [[], [1], [1, None, 3], [3, 3, 1]],
    ROW_ARRAY: [
        [],
        [{"x": 1, "y": "a"}],
        [{"x": 1, "y": "a"}, None, {"x": None, "y": None}],
        [{"x": 1, "y": None}] * 2,
    ],
    TEXT_MAP: [[], [("k", 1)], [("k", None), ("l", 2)], [("l", 3), ("m", 4)]],
    TIMED_MAP: [
        [],
        _timed(a=("x", "1")),
        _timed(a=("y", "2"), b=("x", None)),
        _timed(a=None, b=("z", "10")),
        _timed(a=("\uffff", "\uffff"), b=(None, "10")),
        _timed(a=("\U0001f600", "\U0001f600"), b=("w", "10")),
    ],
    NESTED_TABLE: [
        [],
        _nested((1, "a", 10)),
        _nested((1, "b", None), (2, "a", 20)),
        _nested((2, None, 21), None, (2, "c", None), (3, "c", 30)),
        _nested((None, "n", 1), (None, None, 2), (1, "a", 10)),
    ],
}
LISTS = ["", "a", "a,b", "b,,a", "c;d", "d;;c;", "x y", "y  x", "::", "e::f"]
INTEGER_FACTORS = [-128, -7, -1, 1, 2, 127]
FLOAT_FACTORS = [-1.5, 0.0, 0.25, 3.0e38]
DECIMAL_FACTORS = [Decimal(x) for x in ("-2", "-0.5", "0.25", "1", "20")]
FACTORS: dict[str, list[Any]] = {
    "TINYINT": INTEGER_FACTORS,
    "SMALLINT": INTEGER_FACTORS,
    "INT": INTEGER_FACTORS,
    "BIGINT": INTEGER_FACTORS,
    "FLOAT": FLOAT_FACTORS,
    "DOUBLE": FLOAT_FACTORS,
    "DECIMAL(10, 2)": DECIMAL_FACTORS,
    "DECIMAL(25, 3)": DECIMAL_FACTORS,
}
"""Factors of products that can be divided again: no zeros for integers and decimals, and no endless quotients."""

SUMMANDS = {"DECIMAL(10, 2)": [Decimal(x) for x in ("-199999.99", "-0.01", "0.00", "1.50", "99999.99")]}
"""Short decimals, since their sums are not limited to their precision, which Arrow would refuse."""

SETS: tuple[list[int], ...] = ([], [1], [1, 2, 3, 4, 5, 6], [7, 2**16, 2**17 + 1], [2**31, 2**32 - 1])
LONG_SETS = (*SETS, [2**40, 5], [2**40 + 2**16, 2**63, 2**64 - 1])
SERIALISED: dict[str, list[bytes]] = {
    "rbm32": [bytes(BitMap(values).serialize()) for values in SETS],
    "rbm64": [encode(bitmap64(values)) for values in LONG_SETS],
    "theta_sketch": [
        bytes(_sketch(datasketches.update_theta_sketch(), values).compact().serialize()) for values in SETS
    ],
    "hll_sketch": [bytes(_sketch(datasketches.hll_sketch(12), values).serialize_compact()) for values in SETS],
}


@dataclass(frozen=True)
class Column:
    """A column's type, its options without their ``fields.<name>.`` prefix, and its values if they are special."""

    type: t.DataType
    options: Mapping[str, str] = field(default_factory=dict)
    pool: Sequence[Any] | None = None


@dataclass(frozen=True)
class Function:
    """An aggregate function with its possible columns; `retracts` says whether values can be retracted."""

    columns: tuple[Column, ...]
    retracts: bool = False


def _plain(names: Sequence[str], pools: Mapping[str, Sequence[Any]] | None = None) -> tuple[Column, ...]:
    return tuple(Column(parse_atomic(name), pool=(pools or {}).get(name)) for name in names)


def _nested_columns(kinds: Sequence[t.DataType], **options: Sequence[str]) -> tuple[Column, ...]:
    """Return a column for each combination of options; an empty text omits the option."""
    named = [[(name.replace("_", "-"), v) for v in values] for name, values in options.items()]
    return tuple(
        Column(kind, {name: v for name, v in chosen if v}, NESTED_ROWS[kind])
        for kind in kinds
        for chosen in itertools.product(*named)
    )


NUMBERS = tuple(FACTORS)
ORDERED = tuple(name for name in POOLS if name != "BOOLEAN")
ANY = (*_plain(tuple(POOLS)), *(Column(kind) for kind in NESTED), *(Column(k, pool=p) for k, p in NESTED_ROWS.items()))
FLAG = ("", "true")

FUNCTIONS: dict[str, Function] = {
    "last_value": Function(ANY, retracts=True),
    "last_non_null_value": Function(ANY, retracts=True),
    "first_value": Function(ANY),
    "first_non_null_value": Function(ANY),
    "first_not_null_value": Function(ANY),
    "max": Function(_plain(ORDERED)),
    "min": Function(_plain(ORDERED)),
    "bool_and": Function(_plain(("BOOLEAN",))),
    "bool_or": Function(_plain(("BOOLEAN",))),
    "sum": Function(_plain(NUMBERS, SUMMANDS), retracts=True),
    "product": Function(_plain(NUMBERS, FACTORS), retracts=True),
    "listagg": Function(
        tuple(
            Column(TEXT, {k: v for k, v in (("list-agg-delimiter", d), ("distinct", flag)) if v}, LISTS)
            for d in ("", ";", "::")
            for flag in FLAG
        )
    ),
    "collect": Function(_nested_columns((INT_ARRAY, TEXT_ARRAY, ROW_ARRAY), distinct=FLAG), retracts=True),
    "merge_map": Function(_nested_columns((TEXT_MAP,)), retracts=True),
    "merge_map_with_keytime": Function(_nested_columns((TIMED_MAP,), ts_field=("", "ts"))),
    "nested_update": Function(
        _nested_columns((NESTED_TABLE,), nested_key=("", "id", "id, name"), count_limit=("", "0", "2")), retracts=True
    ),
    "nested_partial_update": Function(_nested_columns((NESTED_TABLE,), nested_key=("id", "id,name"))),
    **{name: Function((Column(BYTES, pool=pool),)) for name, pool in SERIALISED.items()},
}
GENERAL = ("last_value", "last_non_null_value", "first_value", "first_non_null_value")
"""Functions that a table may have as its default, since they take any type."""


@st.composite
def columns(draw: st.DrawFn, functions: Sequence[str], *, retracting: bool, ignoring: bool = True) -> Column:
    """Draw a column with one of these functions; if records retract, the function supports or ignores it."""
    name = draw(st.sampled_from([f for f in functions if ignoring or not retracting or FUNCTIONS[f].retracts]))
    column = draw(st.sampled_from(FUNCTIONS[name].columns))
    options = {"aggregate-function": name, **column.options}
    if ignoring and ((retracting and not FUNCTIONS[name].retracts) or draw(st.booleans())):
        options["ignore-retract"] = "true"
    return Column(column.type, options, column.pool)
