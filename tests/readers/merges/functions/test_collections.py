"""collect, merge_map and merge_map_with_keytime: kept values, their order, and the effect of retractions."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
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
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.merges.functions.collections import hash_codes, is_hashable, sort_by_hash
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
    """Convert maps to dicts, and check that no key is there twice."""
    for one in maps:
        assert one is None or len({repr(entry["key"]) for entry in one}) == len(one)
    return [None if one is None else {entry["key"]: entry["value"] for entry in one} for one in maps]


def texts(arrays: list[Any]) -> list[Any]:
    """Convert values to text, which keeps 0.0 and -0.0 apart and makes NaN equal to itself."""
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
    # Duplicates in the accumulator are removed, too; the order is as in Java's hash set, with null first.
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
    """Zeros are equal, the order of map entries does not matter, and duplicates in the accumulator are kept."""
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
        ({"a": at("9")}, {"a": at("10", 7)}, {"a": at("9")}),  # times are compared as text
        ({"a": at(None)}, {"a": at("", 7)}, {"a": at("", 7)}),
        ({"a": None}, {"a": at("1", 7)}, {"a": at("1", 7)}),
        ({"a": at("1")}, {"a": at(None, 7)}, {"a": at("1")}),
        ({"a": None}, {"a": at(None)}, {"a": None}),
        ({}, {"a": at(None)}, {}),
        ({"a": at("1"), "b": at("1")}, {"a": None, "c": None}, {"b": at("1")}),
        ({"a": at("\ue000")}, {"a": at("\U00010000", 7)}, {"a": at("\ue000")}),  # compared in UTF-16
        ({"a": at("\U00010000")}, {"a": at("\ue000", 7)}, {"a": at("\ue000", 7)}),
        (None, {"a": None, "b": at(None)}, {"a": None, "b": at(None)}),  # an only map stays as it is
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


# nested_update and nested_partial_update: small tables in a column.

ROWS = ArrayType(True, RowType(True, (DataField(0, "id", IntType()), DataField(1, "name", VarCharType()))))
NUMBERS = ArrayType(True, RowType(True, (DataField(0, "x", DoubleType()), DataField(1, "n", IntType()))))


def rows(*pairs: tuple[Any, Any] | None) -> list[Any]:
    return [None if pair is None else {"id": pair[0], "name": pair[1]} for pair in pairs]


def numbers(*pairs: tuple[Any, Any]) -> list[Any]:
    return [{"x": x, "n": n} for x, n in pairs]


A, B, C, D = ((number, text) for number, text in enumerate("abcd"))


@pytest.mark.parametrize(
    ("acc", "new", "expected"),
    [
        (None, None, None),
        (rows(A, None), None, rows(A, None)),  # an only array stays as it is
        (None, rows(None, B), rows(None, B)),
        (rows(A, None), rows(None, B, A), rows(A, B, A)),  # null rows vanish when two arrays are merged
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
        (3, rows(A, None), rows(B, C), rows(A, B)),  # a null row counts towards the limit and then vanishes
        (3, rows(A, None, B), rows(C), rows(A, None, B)),  # a full array stays as it is
        (1, rows(A, B), rows(C), rows(A, B)),
        (0, rows(), rows(A), rows()),
        (-1, rows(A), rows(B), rows(A)),
        (1, None, rows(A, B), rows(A, B)),  # the limit does not apply to an only array
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
        (9, rows((None, "x")), rows((None, None), None), {None: None}),  # null is a key, but a null row is dropped
        (2, rows(A), rows((0, "new"), B), {0: "new"}),  # the limit counts rows before they are merged by key
    ],
)
def test_rows_with_the_same_key_are_replaced(limit: int, acc: Any, new: Any, expected: Any) -> None:
    [result] = stepped("agg", "nested_update", ROWS, [(acc, new)], nested_key=("id",), count_limit=limit)
    assert by_id(result) == expected


def test_one_array_alone_keeps_rows_with_the_same_key() -> None:
    twice = rows(A, (0, "new"), None)
    assert stepped("agg", "nested_update", ROWS, [(None, twice), (twice, None)], nested_key=("id",)) == [twice, twice]


ITEMS = ArrayType(
    True,
    RowType(True, (DataField(0, "id", IntType()), DataField(1, "at", IntType()), DataField(2, "v", VarCharType()))),
)


def items(*rows: tuple[Any, Any, Any]) -> list[Any]:
    return [{"id": key, "at": at, "v": value} for key, at, value in rows]


@pytest.mark.parametrize(
    ("limit", "acc", "new", "expected"),
    [
        (9, items((1, 5, "a")), items((1, 4, "b")), {1: "a"}),
        (9, items((1, 5, "a")), items((1, 5, "b")), {1: "b"}),  # the later one of equal rows
        (9, items((1, None, "a")), items((1, 0, "b"), (1, None, "c")), {1: "b"}),  # null is the least
        (9, None, items((1, 5, "a"), (1, 4, "b")), {1: "a"}),
        (9, items((1, 5, "a")), None, {1: "a"}),
        (2, items((1, 5, "a")), items((2, 1, "b"), (3, 1, "c"), (1, 6, "d")), {1: "d", 2: "b"}),  # counts keys
        (1, items((1, 5, "a"), (2, 5, "b")), items((3, 5, "c")), {1: "a", 2: "b"}),
    ],
)
def test_the_greatest_sequence_of_a_key_stays(limit: int, acc: Any, new: Any, expected: Any) -> None:
    options = {"nested_key": ("id",), "nested_sequence": ("at",), "count_limit": limit}
    [result] = stepped("agg", "nested_update", ITEMS, [(acc, new)], **options)
    assert {row["id"]: row["v"] for row in result} == expected
    assert len(result) == len(expected)


@pytest.mark.parametrize("name", ["nested_update", "nested_partial_update"])
def test_nested_rows_with_a_null_key(name: str) -> None:
    pair = rows(A, (None, "x")), rows((None, "y"), B)
    found = {
        nulls: by_id(stepped("agg", name, ROWS, [pair], nested_key=("id",), nested_nulls=nulls)[0])
        for nulls in ("merge", "ignore")
    }
    assert found == {"merge": {0: "a", None: "y", 1: "b"}, "ignore": {0: "a", 1: "b"}}
    with pytest.raises((InvalidArgument, pl.exceptions.ComputeError), match="has a null; write another key"):
        stepped("agg", name, ROWS, [pair], nested_key=("id",), nested_nulls="error")
    kept = {"nested_key": ("id",), "nested_nulls": "ignore"}
    assert stepped("retract", "nested_update", ROWS, [(rows(A, B, (None, "x")), rows(B))], **kept) == [rows(A)]


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
        (rows(A, B, A, None), rows(A, None, D), rows(B)),  # all equal rows are removed, not one for each
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
PAIRS_NESTED = st.lists(st.tuples(TABLE, TABLE), min_size=1, max_size=6)


@given(PAIRS_NESTED, st.integers(0, 6))
def test_keyed_updates_are_those_of_dicts(pairs: list[Any], limit: int) -> None:
    given = [(rows(*acc), rows(*new)) for acc, new in pairs]
    results = stepped("agg", "nested_update", ROWS, given, nested_key=("id",), count_limit=limit)
    for (acc, new), result in zip(pairs, results):
        if len(acc) >= limit:
            assert result == rows(*acc)
        else:
            appended = [row for row in new if row][: limit - len(acc)]
            assert by_id(result) == dict([row for row in acc if row] + appended)


@given(PAIRS_NESTED)
def test_partial_updates_are_those_of_dicts(pairs: list[Any]) -> None:
    given = [(rows(*acc), rows(*new)) for acc, new in pairs]
    for (acc, new), result in zip(pairs, stepped("agg", "nested_partial_update", ROWS, given, nested_key=("id",))):
        expected: dict[int, str | None] = {}
        for number, name in filter(None, acc + new):
            expected[number] = name or expected.get(number)
        assert by_id(result) == expected


# Java's hash codes, and the order of elements in its HashSet. Java printed the codes.

CODES: list[tuple[t.DataType, list[Any], list[int]]] = [
    (t.VarCharType(), ["a", "abcd", "é", "hello wörld", None], [1485273170, -396302900, 2119106806, -2089953811, 0]),
    (t.DecimalType(precision=30, scale=2), [Decimal("-1.25"), Decimal("12345678901234567890.12")], [-3873, 494185783]),
    (t.IntType(), [5, -1, None], [5, -1, 0]),
    (t.BigIntType(), [5, -1, 1 << 32], [5, 0, 1]),
    (t.BooleanType(), [True, False], [1231, 1237]),
    (t.DoubleType(), [1.0, -0.0], [1072693248, -(2**31)]),
    (t.FloatType(), [1.0, -0.0], [1065353216, -(2**31)]),
    (t.DateType(), [dt.date(1970, 1, 3)], [2]),
    (t.TimeType(), [dt.time(0, 0, 1)], [1000]),
    (t.TimestampType(precision=6), [dt.datetime(1970, 1, 1, 0, 0, 1, 5)], [31 * 1000 + 5000]),
]


@pytest.mark.parametrize(("kind", "values", "codes"), CODES, ids=[str(kind) for kind, *_ in CODES])
def test_hash_codes_are_those_of_java(kind: t.DataType, values: list[Any], codes: list[int]) -> None:
    found = hash_codes(pl.Series(values, dtype=to_polars_dtype(kind)), kind)
    assert found.astype(np.uint32).view(np.int32).tolist() == codes


def ordered(values: list[int]) -> list[int]:
    frame = pl.DataFrame({"row": pl.repeat(0, len(values), eager=True), "element": pl.Series(values, dtype=pl.Int32)})
    return sort_by_hash(frame, t.IntType())["element"].to_list()


def test_small_integers_come_out_sorted_and_elements_of_one_bucket_as_they_came() -> None:
    assert ordered([5, 3, 1]) == [1, 3, 5]
    assert ordered([17, 1, 33, 2]) == [17, 1, 33, 2]  # 17, 1 and 33 are in bucket 1 of 16


def test_the_table_doubles_when_it_is_three_quarters_full() -> None:
    twelve, thirteen = [16, *range(11)], [16, *range(12)]
    assert ordered(twelve) == [16, *range(11)]  # 16 buckets: 16 is in bucket 0
    assert ordered(thirteen) == [*range(12), 16]  # 32 buckets


def test_bytes_and_nested_values_have_no_order() -> None:
    assert not is_hashable(t.VarBinaryType())
    assert not is_hashable(t.ArrayType(element=t.IntType()))
