"""collect, merge_map and merge_map_with_keytime: what is kept, in which order, and what a retraction takes away."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import (
    ArrayType,
    DataField,
    DataType,
    DoubleType,
    IntType,
    MapType,
    MultisetType,
    RowType,
    VarBinaryType,
    VarCharType,
    VectorType,
)
from tests.support.aggregates import function, stepped

INTS = ArrayType(True, IntType())
DOUBLES = ArrayType(True, DoubleType())
COUNTS = MapType(True, VarCharType(), IntType())
NAN = float("nan")


def row(**members: DataType) -> RowType:
    return RowType(True, tuple(DataField(i, name, kind) for i, (name, kind) in enumerate(members.items())))


TIMED = MapType(True, VarCharType(), row(v=IntType(), ts=VarCharType()))


def entries(of: dict[Any, Any] | None) -> list[dict[str, Any]] | None:
    return None if of is None else [{"key": key, "value": value} for key, value in of.items()]


def dicts(maps: list[Any]) -> list[dict[Any, Any] | None]:
    """Maps as dicts; a key that is there twice fails."""
    for one in maps:
        assert one is None or len({repr(entry["key"]) for entry in one}) == len(one)
    return [None if one is None else {entry["key"]: entry["value"] for entry in one} for one in maps]


def texts(arrays: list[Any]) -> list[Any]:
    """Values by their text: tells zeros apart, and NaN is itself."""
    return [None if array is None else [repr(value) for value in array] for array in arrays]


# --- collect ---


@pytest.mark.parametrize("step", ["agg", "agg_reversed"])
def test_collect_appends_also_what_is_older(step: str) -> None:
    pairs = [(None, None), ([1, 1], None), (None, [2, None]), ([1, None, 2], [2, None]), ([], []), ([], [1])]
    expected = [None, [1, 1], [2, None], [1, None, 2, 2, None], [], [1]]
    assert stepped(step, "collect", INTS, pairs) == expected


@pytest.mark.parametrize("step", ["agg", "agg_reversed"])
def test_distinct_is_a_set(step: str) -> None:
    pairs = [(None, None), ([1, 1], None), (None, [2, None, 2, None]), ([1, None], [None, 2, 1, 2]), ([], [])]
    # The accumulator's own doubles go, too; the order is that of Java's hash set, in which null comes first.
    expected = [None, [1], [None, 2], [None, 1, 2], []]
    assert stepped(step, "collect", INTS, pairs, distinct=True) == expected


def test_distinct_doubles_are_equal_as_boxed_ones() -> None:
    [result] = texts(stepped("agg", "collect", DOUBLES, [([0.0, NAN], [-0.0, NAN, 0.0])], distinct=True))
    assert sorted(result) == ["-0.0", "0.0", "nan"]


NESTED: list[tuple[DataType, Any, Any, Any]] = [
    (row(x=DoubleType()), [{"x": 0.0}], [{"x": -0.0}, {"x": None}, None, None], [{"x": 0.0}, {"x": None}, None]),
    (row(x=IntType()), [{"x": 1}, {"x": 1}], [{"x": 1}, {"x": 2}, {"x": 2}], [{"x": 1}, {"x": 1}, {"x": 2}]),
    (ArrayType(True, DoubleType()), [[0.0]], [[-0.0], [0.0, 0.0], []], [[0.0], [0.0, 0.0], []]),
    (VectorType(True, DoubleType(), 2), [[0.0, 1.0]], [[-0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]),
    (
        COUNTS,
        [entries({"a": 1, "b": 2})],
        [entries({"b": 2, "a": 1}), entries({"a": 1})],
        [entries({"a": 1, "b": 2}), entries({"a": 1})],
    ),
    (
        MultisetType(True, VarCharType()),
        [entries({"a": 1})],
        [entries({"a": 2})] * 2,
        [entries({"a": 1}), entries({"a": 2})],
    ),
    (VarBinaryType(), [b"a", b"a"], [b"a", b"b", b"b"], [b"a", b"a", b"b"]),
]


@pytest.mark.parametrize(("element", "acc", "new", "expected"), NESTED, ids=lambda value: str(value)[:20])
def test_distinct_compares_nested_values(element: DataType, acc: Any, new: Any, expected: Any) -> None:
    """Zeros are equal, entries of maps have no order, and what the accumulator has twice it keeps."""
    assert stepped("agg", "collect", ArrayType(True, element), [(acc, new)], distinct=True) == [expected]


def test_nested_nan_equals_nothing() -> None:
    rows = ArrayType(True, row(x=DoubleType(), m=MapType(True, IntType(), DoubleType())))
    nan, in_map = {"x": NAN, "m": None}, {"x": None, "m": [{"key": 1, "value": NAN}]}
    [result] = stepped("agg", "collect", rows, [([nan, in_map], [nan, in_map, nan])], distinct=True)
    assert len(result) == 5


def test_a_retraction_takes_away_the_first_equal_elements() -> None:
    pairs = [(None, [1]), ([1], None), ([1, 2, 1, None, 1, None], [1, None, 3, 1]), ([1], []), ([1], [1])]
    expected = [None, [1], [2, 1, None], [1], []]
    assert stepped("retract", "collect", INTS, pairs) == expected
    assert stepped("retract", "collect", INTS, pairs, distinct=True) == expected


ELEMENTS = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=6))
PAIRS = st.lists(st.tuples(ELEMENTS, ELEMENTS), min_size=1, max_size=8)


@given(PAIRS)
def test_a_retraction_is_the_difference_of_bags(pairs: list[tuple[Any, Any]]) -> None:
    for (acc, new), left in zip(pairs, stepped("retract", "collect", INTS, pairs)):
        if acc is None or new is None:
            assert left == acc
        else:
            assert Counter(left) == Counter(acc) - Counter(new)


@given(PAIRS)
def test_distinct_is_the_union_of_sets(pairs: list[tuple[Any, Any]]) -> None:
    """In which order the elements are is told in `test_hash_order`."""
    for (acc, new), union in zip(pairs, stepped("agg", "collect", INTS, pairs, distinct=True)):
        if acc is None and new is None:
            assert union is None
        else:
            assert Counter(union) == Counter({*(acc or []), *(new or [])})


# --- merge_map ---

MAPS = st.one_of(st.none(), st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 9))))
MAP_PAIRS = st.lists(st.tuples(MAPS, MAPS), min_size=1, max_size=8)


def stepped_maps(step: str, name: str, kind: MapType, pairs: list[tuple[Any, Any]], **options: Any) -> list[Any]:
    return dicts(stepped(step, name, kind, [(entries(acc), entries(new)) for acc, new in pairs], **options))


def test_the_newest_entry_of_a_key_stays() -> None:
    pairs = [(None, None), ({"a": 1}, None), (None, {"a": 1}), ({"a": 1, "b": 2}, {"b": None, "c": 3}), ({}, {})]
    expected = [None, {"a": 1}, {"a": 1}, {"a": 1, "b": None, "c": 3}, {}]
    assert stepped_maps("agg", "merge_map", COUNTS, pairs) == expected


def test_keys_are_equal_as_boxed_values() -> None:
    doubles = MapType(True, DoubleType(), IntType())
    [result] = stepped("agg", "merge_map", doubles, [(entries({0.0: 1, NAN: 2}), entries({-0.0: 3, NAN: 4}))])
    assert {repr(entry["key"]): entry["value"] for entry in result} == {"0.0": 1, "-0.0": 3, "nan": 4}
    octets = MapType(True, VarBinaryType(), IntType())
    assert stepped_maps("agg", "merge_map", octets, [({b"a": 1}, {b"a": 2})]) == [{b"a": 2}]


@given(MAP_PAIRS)
def test_merge_map_is_the_union_of_dicts(pairs: list[tuple[Any, Any]]) -> None:
    for (acc, new), merged in zip(pairs, stepped_maps("agg", "merge_map", COUNTS, pairs)):
        both_null = acc is None and new is None
        assert merged == (None if both_null else {**(acc or {}), **(new or {})})


@given(MAP_PAIRS)
def test_a_retraction_removes_keys_whatever_their_values(pairs: list[tuple[Any, Any]]) -> None:
    for (acc, new), left in zip(pairs, stepped_maps("retract", "merge_map", COUNTS, pairs)):
        assert left == (None if acc is None else {key: value for key, value in acc.items() if key not in (new or ())})


# --- merge_map_with_keytime ---


def at(time: str | None, value: int = 0) -> dict[str, Any]:
    return {"v": value, "ts": time}


@pytest.mark.parametrize(
    ("acc", "new", "expected"),
    [
        ({}, {"a": at("1")}, {"a": at("1")}),
        ({"a": at("1")}, {"a": at("2", 7)}, {"a": at("2", 7)}),
        ({"a": at("2")}, {"a": at("1", 7)}, {"a": at("2")}),
        ({"a": at("1")}, {"a": at("1", 7)}, {"a": at("1")}),
        ({"a": at("9")}, {"a": at("10", 7)}, {"a": at("9")}),  # times are texts
        ({"a": at(None)}, {"a": at("", 7)}, {"a": at("", 7)}),
        ({"a": None}, {"a": at("1", 7)}, {"a": at("1", 7)}),
        ({"a": at("1")}, {"a": at(None, 7)}, {"a": at("1")}),
        ({"a": None}, {"a": at(None)}, {"a": None}),
        ({}, {"a": at(None)}, {}),
        ({"a": at("1"), "b": at("1")}, {"a": None, "c": None}, {"b": at("1")}),
        ({"a": at("\ue000")}, {"a": at("\U00010000", 7)}, {"a": at("\ue000")}),  # in the order of UTF-16
        ({"a": at("\U00010000")}, {"a": at("\ue000", 7)}, {"a": at("\ue000", 7)}),
        (None, {"a": None, "b": at(None)}, {"a": None, "b": at(None)}),  # one alone stays as it is
        ({"a": None}, None, {"a": None}),
        (None, None, None),
    ],
)
def test_the_entry_with_the_greater_time_stays(acc: Any, new: Any, expected: Any) -> None:
    assert stepped_maps("agg", "merge_map_with_keytime", TIMED, [(acc, new)], timestamp_field="ts") == [expected]


def test_keytime_has_no_retraction_and_needs_its_time() -> None:
    compiled = function("merge_map_with_keytime", TIMED, timestamp_field="ts")
    assert compiled.retract({"value": pl.col("acc")}, pl.col("new")) is None
    with pytest.raises(InvalidArgument, match="which member of the map's rows is the time"):
        function("merge_map_with_keytime", TIMED)
