"""Indexes that Java Paimon made of columns of every type, and its answers to single probes.

`java_indexes.json` is the output of `JavaIndexes.java`: values of a column, the container with one index over them, and
probes: operator, literal, and ``"all"``, ``"none"`` or the rows as the bits of a number. The literals are all values of
the column, so Python can also compute which rows match.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.file_index import ALL, NONE, FileIndex, IndexResult, read_file_index
from morrow.engine.format.types import DataType, parse_atomic

CASES = json.loads(Path(__file__).with_name("java_indexes.json").read_text())
CASE = pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c['index']}-{c['type']}" for i, c in enumerate(CASES)])
EPOCH = dt.datetime(1970, 1, 1)
VALUES: dict[str, Callable[[Any], Any]] = {
    "DATE": lambda days: dt.date(1970, 1, 1) + dt.timedelta(days),
    "TIME": lambda millis: (EPOCH + dt.timedelta(milliseconds=millis)).time(),
    "TIMESTAMP": lambda micros: EPOCH + dt.timedelta(microseconds=micros),
    "TIMESTAMP_LTZ": lambda micros: (EPOCH + dt.timedelta(microseconds=micros)).replace(tzinfo=dt.UTC),
    "FLOAT": lambda text: float(text.replace("1.4E-45", repr(2.0**-149))),
    "DOUBLE": float,
    "DECIMAL": Decimal,
    "VARBINARY": bytes.fromhex,
}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def opened(case: dict[str, Any]) -> tuple[FileIndex, DataType, list[Any]]:
    data_type = parse_atomic(case["type"])
    value = VALUES.get(data_type.keyword, lambda same: same)
    index = read_file_index(bytes.fromhex(case["bytes"]), where="data-0.index")
    return index, data_type, [None if v is None else value(v) for v in case["values"]]


def matches(op: str, value: Any, literal: Any) -> bool:
    """Compare like SQL, except that NaN equals itself and is greater than all numbers."""
    if op in ("IS NULL", "IS NOT NULL"):
        return (value is None) == (op == "IS NULL")
    if value is None:
        return False
    if isinstance(value, float):
        value, literal = (math.isnan(value), value), (math.isnan(literal), literal)
        if value[0] or literal[0]:
            value, literal = value[:1], literal[:1]
    return COMPARE[op](value, literal)


def literals(data_type: DataType, literal: Any) -> tuple[Any, ...]:
    return () if literal is None else (VALUES.get(data_type.keyword, lambda same: same)(literal),)


def row_set(result: IndexResult, row_count: int) -> set[int]:
    return {row for row, may in enumerate(result.mask(row_count)) if may}


@CASE
def test_the_rows_are_those_that_match(case: dict[str, Any]) -> None:
    index, data_type, values = opened(case)
    bloom = case["index"] == "bloom-filter"

    for op, literal, _ in case["probes"]:
        wanted = literals(data_type, literal)
        result = index.evaluate("c", data_type, op, wanted, row_count=len(values))
        expected = {row for row, value in enumerate(values) if matches(op, value, *(wanted or (None,)))}
        if bloom or (case["index"].startswith("bitmap") and op in ("<", "<=", ">", ">=")):
            assert result == ALL
        else:
            assert row_set(result, len(values)) == expected, (op, wanted)


@CASE
def test_java_reads_the_same_rows(case: dict[str, Any]) -> None:
    index, data_type, values = opened(case)
    nulls = {row for row, value in enumerate(values) if value is None}

    for op, literal, java in case["probes"]:
        wanted = literals(data_type, literal)
        result = index.evaluate("c", data_type, op, wanted)
        if java == "all":
            assert result == ALL
            continue
        if data_type.keyword in ("FLOAT", "DOUBLE") and wanted and wanted[0] == 0:
            continue  # Java keeps 0.0 and -0.0 apart and SQL does not; the test above checks this
        by_java = {row for row in range(len(values)) if int(java, 16) >> row & 1}
        if op == "!=":  # Java's bitmap index lets nulls pass
            assert row_set(result, len(values)) == by_java - nulls
        elif len(nulls) == len(values):  # range-bitmap of Java 1.4.2 loses the rows of a column that is all null
            assert row_set(result, len(values)) >= by_java
        else:
            assert row_set(result, len(values)) == by_java, (op, wanted)


def case_of(kind: str, type_text: str, rows: int) -> dict[str, Any]:
    return next(c for c in CASES if c["index"] == kind and c["type"] == type_text and len(c["values"]) == rows)


@pytest.mark.parametrize("kind", ["bitmap 1", "bitmap 2", "bsi", "range-bitmap"])
@given(st.sampled_from([*COMPARE, "IN", "NOT IN"]), st.lists(st.integers(-60, 60), min_size=1, max_size=4))
def test_integers_between_and_beyond_the_values(kind: str, op: str, wanted: list[int]) -> None:
    index, data_type, values = opened(case_of(kind, "INT", 60))
    literal = tuple(wanted) if op.endswith("IN") else (wanted[0],)

    result = index.evaluate("c", data_type, op, literal)

    if op.endswith("IN"):
        expected = {r for r, v in enumerate(values) if v is not None and (v in wanted) == (op == "IN")}
    else:
        expected = {r for r, v in enumerate(values) if matches(op, v, wanted[0])}
    assert (
        result == ALL if kind.startswith("bitmap") and op in ("<", "<=", ">", ">=") else row_set(result, 60) == expected
    )


@given(st.sampled_from([*COMPARE]), st.text(alphabet="abz日é\U0001f600 ", max_size=4))
def test_texts_compare_by_their_utf8_bytes(op: str, wanted: str) -> None:
    index, data_type, values = opened(case_of("range-bitmap", "STRING", 40))

    expected = {r for r, v in enumerate(values) if v is not None and matches(op, v.encode(), wanted.encode())}

    assert row_set(index.evaluate("c", data_type, op, (wanted,)), 40) == expected


@pytest.mark.parametrize(
    ("type_text", "absent"),
    [("INT", range(100, 200)), ("STRING", map(str, range(100))), ("DOUBLE", (n + 0.3 for n in range(100)))],
)
def test_a_bloom_filter_rules_out_most_absent_values(type_text: str, absent: Any) -> None:
    case = next(c for c in CASES if c["index"] == "bloom-filter" and c["type"] == type_text)
    index, data_type, _ = opened(case)

    ruled_out = [index.evaluate("c", data_type, "=", (value,)) == NONE for value in absent]

    assert sum(ruled_out) > (20 if type_text == "STRING" else 90)  # more distinct texts than the filter's capacity
