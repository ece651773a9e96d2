"""Small pools of values for each type, including corner cases.

NaN and -0.0 are not included, since Java compares them as equal to other numbers in keys.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from morrow.engine.format import types as t

UTC = dt.UTC

POOLS: dict[str, list[Any]] = {
    "BOOLEAN": [False, True],
    "TINYINT": [-128, -1, 0, 1, 127],
    "SMALLINT": [-(2**15), -1, 0, 1, 2**15 - 1],
    "INT": [-(2**31), -7, 0, 1, 2, 3, 2**31 - 1],
    "BIGINT": [-(2**63), -7, 0, 1, 2, 2**31, 2**63 - 1],
    "FLOAT": [-1.5, 0.0, 0.25, 3.0e38],
    "DOUBLE": [-1e300, -0.5, 0.0, 2.0, 2.5],
    "DECIMAL(10, 2)": [Decimal(x) for x in ("-99999999.99", "-0.01", "0.00", "1.50", "99999999.99")],
    "DECIMAL(25, 3)": [Decimal(x) for x in ("-1234567890123456789012.345", "-0.001", "0.000", "2.500", "2.501")],
    "STRING": ["", "a", "a\0", "abcdefg", "abcdefgh", "it's", "é", "\uffff", "\U0001f600"],
    "VARCHAR(10)": ["", "b", "longer val"],
    "CHAR(3)": ["abc", "abd", "zzz"],
    "BYTES": [b"", b"\0", b"\x7f", b"\x80", b"\xff" * 9],
    "BINARY(2)": [b"\0\0", b"\0\xff", b"\xff\0"],
    "DATE": [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "TIME(3)": [dt.time(0, 0), dt.time(12, 30, 15, 1000), dt.time(23, 59, 59, 999000)],
    "TIMESTAMP(0)": [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2024, 5, 1, 12, 0, 0)],
    "TIMESTAMP(3)": [dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(2024, 5, 1, 12, 0, 0, 1000)],
    "TIMESTAMP(6)": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 5, 1, 12, 0, 0, 1)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [dt.datetime(2000, 1, 1, tzinfo=UTC), dt.datetime(2024, 5, 1, 1, tzinfo=UTC)],
}
NESTED: dict[t.DataType, list[Any]] = {
    t.ArrayType(element=t.IntType()): [[], [1], [1, None, 3]],
    t.MapType(key=t.VarCharType(nullable=False), value=t.IntType()): [[], [("k", 1)], [("k", None), ("l", 2)]],
    t.RowType(fields=(t.DataField(90, "x", t.IntType()), t.DataField(91, "y", t.VarCharType()))): [
        {"x": 1, "y": "a"},
        {"x": None, "y": None},
    ],
}
NOT_NULL_CHANCE = 3


def values(kind: t.DataType, pool: Sequence[Any] | None = None) -> st.SearchStrategy[Any]:
    """Draw a value of the type or of the pool; null in a third of the draws if the type is nullable."""
    if pool is None:
        pool = NESTED[kind] if kind in NESTED else POOLS[str(kind.with_nullable(True))]
    some = st.sampled_from(pool)
    return (
        some if not kind.nullable else st.integers(0, NOT_NULL_CHANCE - 1).flatmap(lambda n: some if n else st.none())
    )
