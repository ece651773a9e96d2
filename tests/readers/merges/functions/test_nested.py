"""nested_update and nested_partial_update: small tables inside a column."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.types import ArrayType, DataField, DoubleType, IntType, RowType, VarCharType
from tests.support.aggregates import function, stepped

ROWS = ArrayType(True, RowType(True, (DataField(0, "id", IntType()), DataField(1, "name", VarCharType()))))
NUMBERS = ArrayType(True, RowType(True, (DataField(0, "x", DoubleType()), DataField(1, "n", IntType()))))
NAN = float("nan")


def rows(*pairs: tuple[Any, Any] | None) -> list[Any]:
    return [None if pair is None else {"id": pair[0], "name": pair[1]} for pair in pairs]


def numbers(*pairs: tuple[Any, Any]) -> list[Any]:
    return [{"x": x, "n": n} for x, n in pairs]


A, B, C, D = ((number, text) for number, text in enumerate("abcd"))


@pytest.mark.parametrize(
    ("acc", "new", "expected"),
    [
        (None, None, None),
        (rows(A, None), None, rows(A, None)),  # one alone stays as it is
        (None, rows(None, B), rows(None, B)),
        (rows(A, None), rows(None, B, A), rows(A, B, A)),  # null rows vanish as soon as two arrays meet
        (rows(), rows(), rows()),
        (rows(None), rows(), rows()),
    ],
)
def test_rows_are_appended(acc: Any, new: Any, expected: Any) -> None:
    assert stepped("agg", "nested_update", ROWS, [(acc, new)]) == [expected]


@pytest.mark.parametrize(
    ("limit", "acc", "new", "expected"),
    [
        (3, rows(A), rows(None, B, C, D), rows(A, B, C)),
        (3, rows(A, None), rows(B, C), rows(A, B)),  # a null row takes a place, and then vanishes
        (3, rows(A, None, B), rows(C), rows(A, None, B)),  # what is full stays as it is
        (1, rows(A, B), rows(C), rows(A, B)),
        (0, rows(), rows(A), rows()),
        (-1, rows(A), rows(B), rows(A)),
        (1, None, rows(A, B), rows(A, B)),  # one alone is not limited
    ],
)
def test_the_limit_is_on_what_is_appended(limit: int, acc: Any, new: Any, expected: Any) -> None:
    assert stepped("agg", "nested_update", ROWS, [(acc, new)], count_limit=limit) == [expected]


def by_id(table: list[Any] | None) -> dict[Any, Any] | None:
    if table is None:
        return None
    assert len({row["id"] for row in table}) == len(table)
    return {row["id"]: row["name"] for row in table}


@pytest.mark.parametrize(
    ("limit", "acc", "new", "expected"),
    [
        (9, rows(A, B), rows((1, "new"), (1, "newer"), C), {0: "a", 1: "newer", 2: "c"}),
        (9, rows((None, "x")), rows((None, None), None), {None: None}),  # null is a key, a null row is none
        (2, rows(A), rows((0, "new"), B), {0: "new"}),  # rows count before they meet their keys
    ],
)
def test_rows_with_the_same_key_are_replaced(limit: int, acc: Any, new: Any, expected: Any) -> None:
    [result] = stepped("agg", "nested_update", ROWS, [(acc, new)], nested_key=("id",), count_limit=limit)
    assert by_id(result) == expected


def test_one_array_alone_keeps_rows_with_the_same_key() -> None:
    twice = rows(A, (0, "new"), None)
    assert stepped("agg", "nested_update", ROWS, [(None, twice), (twice, None)], nested_key=("id",)) == [twice, twice]


def test_a_key_of_several_members() -> None:
    key = ("name", "id")
    [result] = stepped("agg", "nested_update", ROWS, [(rows(A, (0, None)), rows((0, "z"), A))], nested_key=key)
    assert sorted(map(str, result)) == sorted(map(str, rows(A, (0, None), (0, "z"))))


def test_keys_are_equal_as_binary_rows() -> None:
    pair = (numbers((0.0, 1), (NAN, 2)), numbers((-0.0, 3), (NAN, 4)))
    [result] = stepped("agg", "nested_update", NUMBERS, [pair], nested_key=("x",))
    assert {repr(row["x"]): row["n"] for row in result} == {"0.0": 1, "nan": 4, "-0.0": 3}


@pytest.mark.parametrize(
    ("acc", "taken", "expected"),
    [
        (None, rows(A), None),
        (rows(A, None), None, rows(A, None)),
        (rows(A, B, A, None), rows(A, None, D), rows(B)),  # all equal rows go, not one each
        (rows((0, None)), rows((0, None)), rows()),
        (rows((0, None)), rows((0, "a")), rows((0, None))),
    ],
)
def test_a_retraction_removes_equal_rows(acc: Any, taken: Any, expected: Any) -> None:
    assert stepped("retract", "nested_update", ROWS, [(acc, taken)]) == [expected]


def test_retracted_rows_are_compared_member_by_member() -> None:
    [left] = stepped("retract", "nested_update", NUMBERS, [(numbers((0.0, 1), (NAN, 2)), numbers((-0.0, 1), (NAN, 2)))])
    assert [repr(row["x"]) for row in left] == ["nan"]


def test_a_retraction_by_key_looks_at_keys_only() -> None:
    pairs = [(rows(A, B, (1, "z"), None), rows((0, "other"), None)), (None, rows(A)), (rows(None, A), None)]
    left = stepped("retract", "nested_update", ROWS, pairs, nested_key=("id",))
    assert left == [rows((1, "z")), None, rows(None, A)]


@pytest.mark.parametrize(
    ("acc", "new", "expected"),
    [
        (rows((0, "a"), (1, None)), rows((0, None), (1, "b"), (2, None)), {0: "a", 1: "b", 2: None}),
        (rows((0, "a"), (0, None), None), rows(None, (0, "c"), (0, None)), {0: "c"}),
        (rows((None, "a")), rows((None, None)), {None: "a"}),
        (rows(), rows(), {}),
        (None, None, None),
    ],
)
def test_partial_update_overwrites_members_that_are_not_null(acc: Any, new: Any, expected: Any) -> None:
    [result] = stepped("agg", "nested_partial_update", ROWS, [(acc, new)], nested_key=("id",))
    assert by_id(result) == expected


def test_partial_update_leaves_one_array_alone() -> None:
    alone = rows((0, "a"), (0, None), None)
    pairs = [(alone, None), (None, alone)]
    assert stepped("agg", "nested_partial_update", ROWS, pairs, nested_key=("id",)) == [alone, alone]
    by_id_only = function("nested_partial_update", ROWS, nested_key=("id",))
    assert by_id_only.retract({"value": pl.col("acc")}, pl.col("new")) is None


TABLE = st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 3), st.sampled_from([None, "a", "b"]))), max_size=5)
PAIRS = st.lists(st.tuples(TABLE, TABLE), min_size=1, max_size=6)


@given(PAIRS, st.integers(0, 6))
def test_keyed_updates_are_those_of_dicts(pairs: list[Any], limit: int) -> None:
    given = [(rows(*acc), rows(*new)) for acc, new in pairs]
    results = stepped("agg", "nested_update", ROWS, given, nested_key=("id",), count_limit=limit)
    for (acc, new), result in zip(pairs, results):
        if len(acc) >= limit:
            assert result == rows(*acc)
        else:
            appended = [row for row in new if row][: limit - len(acc)]
            assert by_id(result) == dict([row for row in acc if row] + appended)


@given(PAIRS)
def test_partial_updates_are_those_of_dicts(pairs: list[Any]) -> None:
    given = [(rows(*acc), rows(*new)) for acc, new in pairs]
    for (acc, new), result in zip(pairs, stepped("agg", "nested_partial_update", ROWS, given, nested_key=("id",))):
        expected: dict[int, str | None] = {}
        for number, name in filter(None, acc + new):
            expected[number] = name or expected.get(number)
        assert by_id(result) == expected
