"""The oracle's aggregate functions on values that are small enough to check by eye, with Java Paimon 1.4.2's quirks."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import datasketches
import pytest
from pyroaring import BitMap

from morrow.engine.format import types as t
from morrow.engine.format.types import parse_atomic
from tests.oracle import RetractionError
from tests.oracle.functions import AGGREGATORS, Aggregator, Call, aggregator
from tests.support.merging_columns import INT_ARRAY, NESTED_TABLE, ROW_ARRAY, TEXT_ARRAY, TEXT_MAP, TIMED_MAP
from tests.support.rbm64 import bitmap64, decode, encode

Options = dict[str, str]


def function(name: str, kind: str | t.DataType, **options: str) -> Aggregator:
    typed = kind if isinstance(kind, t.DataType) else parse_atomic(kind)
    return aggregator(Call(name, typed, {k.replace("_", "-"): v for k, v in options.items()}))


def decimals(*texts: str) -> list[Decimal]:
    return [Decimal(text) for text in texts]


# --- one value after another ---


@pytest.mark.parametrize(
    ("name", "kind", "values", "result"),
    [
        ("last_value", "INT", [1, None], None),
        ("last_non_null_value", "INT", [1, None], 1),
        ("first_value", "INT", [None, 1], None),
        ("first_non_null_value", "INT", [None, 1, 2], 1),
        ("first_not_null_value", "INT", [None, 1, 2], 1),
        ("max", "INT", [None, 1, 3, 2], 3),
        ("min", "STRING", ["b", None, "a"], "a"),
        ("max", "DOUBLE", [1.0, -0.0, 0.0, 1.5], 1.5),
        ("bool_and", "BOOLEAN", [True, None, False], False),
        ("bool_or", "BOOLEAN", [None, False, True], True),
        ("sum", "TINYINT", [127, 1], -128),
        ("sum", "BIGINT", [2**63 - 1, None, 1], -(2**63)),
        ("sum", "FLOAT", [16777216.0, 1.0], 16777216.0),
        ("sum", "FLOAT", [3.0e38, 3.0e38], math.inf),
        ("sum", "DECIMAL(3, 1)", decimals("99.9", "0.1"), Decimal("100.0")),
        ("sum", "DECIMAL(19, 0)", decimals("9999999999999999999", "1"), None),
        ("product", "SMALLINT", [300, 300], 24464),
        ("product", "DECIMAL(4, 2)", decimals("0.05", "0.10"), Decimal("0.01")),
        ("product", "DECIMAL(4, 2)", decimals("-0.05", "0.10"), Decimal("-0.01")),
        ("product", "DECIMAL(4, 2)", decimals("99.99", "2.00"), None),
        ("listagg", "STRING", ["a", None, "", "b"], "a,b"),
    ],
    ids=str,
)
def test_aggregates(name: str, kind: str, values: list[Any], result: Any) -> None:
    call, accumulator = function(name, kind), None
    for value in values:
        accumulator = call.agg(accumulator, value)
    assert accumulator == result


def test_floats_compare_as_in_java() -> None:
    assert math.isnan(function("max", "FLOAT").agg(math.nan, 1.0))
    assert math.copysign(1, function("max", "FLOAT").agg(-0.0, 0.0)) == 1
    assert math.copysign(1, function("min", "FLOAT").agg(0.0, -0.0)) == -1


@pytest.mark.parametrize(
    ("options", "result"),
    [
        ({}, "a,b,,b,c"),
        ({"list_agg_delimiter": ";"}, "a,b;,b,c"),
        ({"distinct": "true"}, "a,b,c"),
        ({"distinct": "true", "list_agg_delimiter": ";"}, "a,b;,b,c"),
    ],
)
def test_listagg(options: Options, result: str) -> None:
    assert function("listagg", "STRING", **options).agg("a,b", ",b,c") == result


def test_an_empty_delimiter_splits_at_blanks() -> None:
    assert function("listagg", "STRING", distinct="true", list_agg_delimiter="").agg("a b", "b c") == "a bc"


@pytest.mark.parametrize(
    ("kind", "distinct", "old", "new", "result"),
    [
        (INT_ARRAY, "false", [1, 1], [1, None], [1, 1, 1, None]),
        (INT_ARRAY, "true", [1, 1], [2, None], [1, 2, None]),
        (INT_ARRAY, "true", None, [2, 2], [2]),
        (TEXT_ARRAY, "true", ["a"], None, ["a"]),
        # Rows are compared with the accumulator, which is trusted to be distinct.
        (ROW_ARRAY, "true", [{"x": 1}, {"x": 1}], [{"x": 1}, {"x": 2}, {"x": 2}], [{"x": 1}, {"x": 1}, {"x": 2}]),
        # Byte arrays are equal only to themselves.
        (t.ArrayType(element=t.VarBinaryType()), "true", [b"a"], [b"a"], [b"a", b"a"]),
    ],
    ids=str,
)
def test_collect(kind: t.DataType, distinct: str, old: Any, new: Any, result: Any) -> None:
    assert function("collect", kind, distinct=distinct).agg(old, new) == result


def test_maps_are_merged_key_by_key() -> None:
    bytes_map = t.MapType(key=t.VarBinaryType(nullable=False), value=t.IntType())
    assert function("merge_map", bytes_map).agg([(b"a", 1)], [(b"a", 2)]) == [(b"a", 1), (b"a", 2)]  # as in arrays
    assert function("merge_map", TEXT_MAP).agg([("a", 1), ("b", 2)], [("b", None)]) == [("a", 1), ("b", None)]


@pytest.mark.parametrize(
    ("new", "result"),
    [
        (("n", "3"), ("n", "3")),
        (("n", "2"), ("o", "2")),
        (("n", "10"), ("o", "2")),  # times are compared as text
        (("n", None), ("o", "2")),
        (None, None),
        (("n", "\U0001f600"), ("n", "\U0001f600")),
    ],
)
def test_merge_map_with_keytime_keeps_the_later_value(new: Any, result: Any) -> None:
    def entry(value: Any) -> Any:
        return None if value is None else {"value": value[0], "ts": value[1]}

    merged = function("merge_map_with_keytime", TIMED_MAP).agg([("k", entry(("o", "2")))], [("k", entry(new))])
    assert merged == ([] if result is None else [("k", entry(result))])


def test_times_compare_by_16_bit_units() -> None:
    """The surrogates of U+1F600 sort before U+FFFF."""
    old, new = {"value": "o", "ts": "\uffff"}, {"value": "n", "ts": "\U0001f600"}
    assert function("merge_map_with_keytime", TIMED_MAP).agg([("k", old)], [("k", new)]) == [("k", old)]


def item(id: int | None, name: str | None, n: int | None = None) -> dict[str, Any]:
    return {"id": id, "name": name, "n": n}


@pytest.mark.parametrize(
    ("options", "result"),
    [
        ({}, [item(1, "a"), item(2, "b"), item(1, None, 5), item(3, "c")]),
        ({"nested_key": "id"}, [item(1, None, 5), item(2, "b"), item(3, "c")]),
        ({"count_limit": "3"}, [item(1, "a"), item(2, "b"), item(1, None, 5)]),
        ({"count_limit": "2"}, [item(1, "a"), item(2, "b")]),
    ],
    ids=str,
)
def test_nested_update(options: Options, result: Any) -> None:
    old, new = [item(1, "a"), item(2, "b")], [None, item(1, None, 5), item(3, "c")]
    assert function("nested_update", NESTED_TABLE, **options).agg(old, new) == result


def test_nested_partial_update() -> None:
    call = function("nested_partial_update", NESTED_TABLE, nested_key="id")
    assert call.agg([item(1, "a"), None], [item(1, None, 5), item(None, "x")]) == [item(1, "a", 5), item(None, "x")]


# --- sets ---


def test_bitmaps_are_united() -> None:
    merged = function("rbm32", "BYTES").agg(BitMap([1, 2]).serialize(), BitMap([2**31]).serialize())
    assert list(BitMap.deserialize(merged)) == [1, 2, 2**31]
    merged = function("rbm64", "BYTES").agg(encode(bitmap64([2**40])), encode(bitmap64([3, 2**63])))
    assert decode(merged).values == {3, 2**40, 2**63}


@pytest.mark.parametrize("values", [[], [1], range(5000), [2**16, 1, 2**48], [*range(0, 20_000, 2), 2**63]], ids=str)
def test_64_bit_bitmaps_come_back(values: Any) -> None:
    assert decode(encode(bitmap64(values))).values == frozenset(values)


@pytest.mark.parametrize("name", ["hll_sketch", "theta_sketch"])
def test_sketches_count_what_is_different(name: str) -> None:
    def sketch(values: range) -> bytes:
        made = datasketches.hll_sketch(12) if name == "hll_sketch" else datasketches.update_theta_sketch()
        for value in values:
            made.update(value)
        return bytes(made.serialize_compact() if name == "hll_sketch" else made.compact().serialize())

    merged = function(name, "BYTES").agg(sketch(range(5)), sketch(range(3, 9)))
    reader = datasketches.hll_sketch if name == "hll_sketch" else datasketches.compact_theta_sketch
    assert round(reader.deserialize(merged).get_estimate()) == 9


# --- older records and retractions ---


@pytest.mark.parametrize(
    ("name", "kind", "accumulator", "older", "result"),
    [
        ("last_value", "INT", 2, 1, 2),
        ("last_non_null_value", "INT", None, 1, 1),
        ("listagg", "STRING", "b", "a", "a,b"),
        ("collect", INT_ARRAY, [2], [1], [2, 1]),
        ("merge_map", TEXT_MAP, [("k", 2)], [("k", 1)], [("k", 2)]),
    ],
    ids=str,
)
def test_an_older_record_goes_in_front(name: str, kind: Any, accumulator: Any, older: Any, result: Any) -> None:
    assert function(name, kind).agg_reversed(accumulator, older) == result


def test_first_value_takes_the_older_record_once_it_has_one() -> None:
    call = function("first_value", "INT")
    assert call.agg_reversed(2, 1) == 2
    assert call.agg_reversed(2, 1) == 1


def test_ignore_retract_turns_collect_round_for_older_records() -> None:
    assert function("collect", INT_ARRAY, ignore_retract="true").agg_reversed([2], [1]) == [1, 2]


@pytest.mark.parametrize(
    ("name", "kind", "accumulator", "taken", "result"),
    [
        ("last_value", "INT", 1, None, None),
        ("last_non_null_value", "INT", 1, None, 1),
        ("last_non_null_value", "INT", 1, 7, None),
        ("sum", "INT", 5, 7, -2),
        ("sum", "INT", 5, None, 5),
        ("sum", "TINYINT", None, -128, -128),
        ("sum", "DECIMAL(19, 0)", Decimal("-9999999999999999999"), Decimal(1), None),
        ("product", "INT", -7, 2, -3),
        ("product", "TINYINT", -128, -1, -128),
        ("product", "INT", None, 2, None),
        ("product", "DOUBLE", 1.0, 0.0, math.inf),
        ("product", "DECIMAL(4, 1)", Decimal("1.0"), Decimal("8.0"), Decimal("0.1")),
        ("collect", INT_ARRAY, [1, 2, 1, None], [1, None, 9], [2, 1]),
        ("collect", INT_ARRAY, None, [1], None),
        ("merge_map", TEXT_MAP, [("a", 1), ("b", 2)], [("a", 9)], [("b", 2)]),
        ("nested_update", NESTED_TABLE, [item(1, "a"), item(1, "a"), item(1, "b")], [item(1, "a")], [item(1, "b")]),
    ],
    ids=str,
)
def test_retractions(name: str, kind: Any, accumulator: Any, taken: Any, result: Any) -> None:
    assert function(name, kind).retract(accumulator, taken) == result


def test_nested_rows_are_retracted_by_their_key() -> None:
    call = function("nested_update", NESTED_TABLE, nested_key="id")
    assert call.retract([item(1, "a"), item(2, "b")], [item(1, "other")]) == [item(2, "b")]


@pytest.mark.parametrize(("kind", "by"), [("INT", 0), ("DECIMAL(10, 2)", Decimal(3)), ("DECIMAL(10, 2)", Decimal(0))])
def test_a_product_without_a_quotient_fails(kind: str, by: Any) -> None:
    with pytest.raises(ArithmeticError):
        function("product", kind).retract(type(by)(1), by)


RETRACTING = {
    *("last_value", "last_non_null_value", "sum", "product", "collect", "merge_map", "nested_update", "primary-key"),
}


@pytest.mark.parametrize("name", sorted(AGGREGATORS.keys() - RETRACTING))
def test_other_functions_refuse_retractions_unless_they_ignore_them(name: str) -> None:
    kind = TIMED_MAP if name == "merge_map_with_keytime" else "INT"
    with pytest.raises(RetractionError, match=name):
        function(name, kind).retract(None, None)
    assert function(name, kind, ignore_retract="true").retract(1, 2) == 1
