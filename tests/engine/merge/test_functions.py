"""Aggregate functions: which columns they take and which options they read."""

from __future__ import annotations

import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.types import parse_atomic
from morrow.engine.merge.functions import BUILT_IN
from morrow.engine.merge.spec import AggregateCall
from tests.engine.merge.described import described, row

INTS = t.ArrayType(element=t.IntType())
ROWS = t.ArrayType(element=row(id="INT", day="DATE", v="STRING"))
MAP = t.MapType(key=t.IntType(), value=t.VarCharType())
TIMED = t.MapType(key=t.IntType(), value=row(v="INT", at="STRING", by="STRING", n="INT"))

TYPES: dict[str, t.DataType] = {
    text: parse_atomic(text)
    for text in (
        *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "BOOLEAN", "CHAR(3)"),
        *("VARCHAR(9)", "STRING", "BINARY(4)", "VARBINARY(8)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(6)"),
        *("TIMESTAMP(3) WITH LOCAL TIME ZONE", "VARIANT"),
    )
}
TYPES |= {"ints": INTS, "rows": ROWS, "map": MAP, "timed map": TIMED, "multiset": t.MultisetType(element=t.IntType())}

NUMERIC = {"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)"}
BYTES = {"VARBINARY(8)", "BYTES"}
ORDERED = NUMERIC | BYTES | {"CHAR(3)", "VARCHAR(9)", "STRING", "BINARY(4)", "DATE", "TIME(3)", "TIMESTAMP(6)"}
ORDERED |= {"TIMESTAMP(3) WITH LOCAL TIME ZONE"}


def call(function: str, kind: str | t.DataType, **options: str) -> AggregateCall:
    """Return the call that aggregates column v of this type; ``nested_key`` is the option fields.v.nested-key."""
    raw = {f"fields.v.{name.replace('_', '-')}": value for name, value in options.items()}
    spec = described("aggregation", {"v": kind}, {"fields.v.aggregate-function": function, **raw})
    found = spec.columns[0].call
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("function", "accepted"),
    [
        ("sum", NUMERIC),
        ("product", NUMERIC),
        ("count", {"INT", "BIGINT"}),
        ("max", ORDERED),
        ("min", ORDERED),
        ("last_value", set(TYPES)),
        ("last_non_null_value", set(TYPES)),
        ("first_value", set(TYPES)),
        ("first_non_null_value", set(TYPES)),
        ("listagg", {"STRING"}),
        ("bool_and", {"BOOLEAN"}),
        ("bool_or", {"BOOLEAN"}),
        ("collect", {"ints", "rows"}),
        ("merge_map", {"map", "timed map"}),
        ("merge_map_with_keytime", {"timed map"}),
        ("nested_update", {"rows"}),
        ("nested_partial_update", {"rows"}),
        ("rbm32", BYTES),
        ("rbm64", BYTES),
        ("hll_sketch", BYTES),
        ("theta_sketch", BYTES),
    ],
)
def test_the_types_a_function_folds(function: str, accepted: set[str]) -> None:
    assert {name for name, kind in TYPES.items() if BUILT_IN[function].accepts(kind)} == accepted


def test_functions_that_take_values_back() -> None:
    assert {name for name, spec in BUILT_IN.items() if spec.retracts} == {
        *("sum", "product", "count", "last_value", "last_non_null_value"),
        *("collect", "merge_map", "nested_update"),
    }


def test_the_former_name_of_first_non_null_value() -> None:
    assert call("first_not_null_value", "INT") == AggregateCall("first_non_null_value")


@pytest.mark.parametrize(
    ("expected", "function", "kind", "options"),
    [
        (AggregateCall("listagg"), "listagg", "STRING", {}),
        (AggregateCall("listagg", delimiter=" "), "listagg", "STRING", {"list_agg_delimiter": " "}),
        (AggregateCall("listagg", delimiter=""), "listagg", "STRING", {"list_agg_delimiter": ""}),
        (AggregateCall("listagg", distinct=True), "listagg", "STRING", {"distinct": "true"}),
        (AggregateCall("collect", distinct=True), "collect", INTS, {"distinct": "TRUE"}),
        (AggregateCall("nested_update"), "nested_update", ROWS, {}),
        (AggregateCall("nested_update", nested_key=("id", "day")), "nested_update", ROWS, {"nested_key": "id, day"}),
        (AggregateCall("nested_update", count_limit=-1), "nested_update", ROWS, {"count_limit": "-1"}),
        (AggregateCall("nested_partial_update", nested_key=("v",)), "nested_partial_update", ROWS, {"nested_key": "v"}),
        *(
            (AggregateCall(name, nested_key=("id",), **read), name, ROWS, {"nested_key": "id", **options})
            for name in ("nested_update", "nested_partial_update")
            for options, read in (
                ({"nested_key_null_strategy": "ignore"}, {"nested_nulls": "ignore"}),
                ({"nested_sequence_field": "day, v"}, {"nested_sequence": ("day", "v")}),
            )
        ),
        (
            AggregateCall("merge_map_with_keytime", timestamp_field="by"),
            "merge_map_with_keytime",
            TIMED,
            {"ts_field": "by"},
        ),
        # Options of other functions are ignored.
        (AggregateCall("sum"), "sum", "INT", {"distinct": "what", "nested_key": "x", "count_limit": "many"}),
        (AggregateCall("max", ignore_retract=True), "max", "INT", {"ignore_retract": "true"}),
    ],
)
def test_options(expected: AggregateCall, function: str, kind: str | t.DataType, options: dict[str, str]) -> None:
    assert call(function, kind, **options) == expected


def test_the_time_of_a_map_is_the_last_member_of_its_rows_unless_named() -> None:
    kind = t.MapType(key=t.IntType(), value=row(v="INT", at="STRING"))

    assert call("merge_map_with_keytime", kind).timestamp_field == "at"


@pytest.mark.parametrize(
    ("function", "kind", "options", "problem"),
    [
        (
            "listagg",
            "VARCHAR(9)",
            {},
            r"listagg folds STRING, and column 'v' is VARCHAR\(9\); choose another 'fields.v.agg",
        ),
        ("listagg", "STRING", {"distinct": "y"}, "'fields.v.distinct' has the value 'y'; it must be true or false"),
        ("nested_update", INTS, {}, "nested_update folds ARRAY of ROW, and column 'v' is ARRAY<INT>"),
        (
            "nested_update",
            ROWS,
            {"nested_key": "x"},
            "'fields.v.nested-key' has the value 'x', but 'x' is not a member",
        ),
        (
            "nested_update",
            ROWS,
            {"nested_key": ""},
            "has the value '', but '' is not a member of the rows, which have id, day",
        ),
        (
            "nested_update",
            ROWS,
            {"count_limit": "3.5"},
            "'fields.v.count-limit' has the value '3.5'; it must be a whole number",
        ),
        ("nested_update", ROWS, {"count_limit": "2147483648"}, "it must be a whole number of 32 bits"),
        (
            "nested_partial_update",
            ROWS,
            {},
            "nested_partial_update of column 'v' needs the option 'fields.v.nested-key'",
        ),
        ("merge_map_with_keytime", MAP, {}, "merge_map_with_keytime folds MAP to ROW of two or more members"),
        (
            "merge_map_with_keytime",
            TIMED,
            {"ts_field": "x"},
            "which is not a member of the map's rows; they have v, at, by",
        ),
        (
            "merge_map_with_keytime",
            TIMED,
            {},
            "compares times as text, and its time 'n' is INT; name a STRING member by",
        ),
    ],
)
def test_options_that_do_not_fit(function: str, kind: str | t.DataType, options: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^/t: .*{problem}"):
        call(function, kind, **options)


@pytest.mark.parametrize("name", ["nested_update", "nested_partial_update"])
def test_values_of_options_that_are_not_known(name: str) -> None:
    with pytest.raises(Unsupported, match=r"'fields\.v\.nested-key-null-strategy' = 'x' .*: merge, ignore, error"):
        call(name, ROWS, nested_key="id", nested_key_null_strategy="x")
    with pytest.raises(InvalidArgument, match=r"'fields\.v\.nested-sequence-field' .* 'x' is not a member of the rows"):
        call(name, ROWS, nested_key="id", nested_sequence_field="x")


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("sum", AggregateCall("sum")),
        ("collect(distinct)", AggregateCall("collect", distinct=True)),
        ("listagg(delimiter ',', retractions ignored)", AggregateCall("listagg", ignore_retract=True)),
        ("nested_update(key (a, b), at most 3)", AggregateCall("nested_update", nested_key=("a", "b"), count_limit=3)),
        ("merge_map_with_keytime(time at)", AggregateCall("merge_map_with_keytime", timestamp_field="at")),
        ("mine(weight '2')", AggregateCall("mine", options=(("weight", "2"),))),
    ],
)
def test_a_call_as_text(text: str, made: AggregateCall) -> None:
    assert str(made) == text
