"""aggregation: which function folds which column, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.merge.spec import AggregateCall, ColumnMerge, MergeSpec, OnDelete, Rule
from tests.engine.merge.described import Columns, described

COLUMNS = {"price": "DOUBLE", "sales": "BIGINT", "seen": "TIMESTAMP(3)"}


def aggregation(options: Mapping[str, str], columns: Columns = COLUMNS) -> MergeSpec:
    return described("aggregation", columns, options)


def functions(spec: MergeSpec) -> dict[str, AggregateCall | None]:
    return {column.name: column.call for column in spec.columns}


def test_every_column_outside_the_key_has_a_function() -> None:
    spec = aggregation({"fields.price.aggregate-function": "max", "fields.sales.aggregate-function": "sum"})

    assert spec == MergeSpec(
        "aggregation",
        Rule.AGGREGATE,
        ("k",),
        columns=(
            ColumnMerge("price", AggregateCall("max")),
            ColumnMerge("sales", AggregateCall("sum")),
            ColumnMerge("seen", AggregateCall("last_non_null_value")),
        ),
        on_delete=OnDelete.RETRACT,
        updatable=False,
        undeletable="overwrite the table with the rows that stay, or make another table with "
        "aggregation.remove-record-on-delete",
    )
    assert str(spec) == (
        "aggregation by (k) ordered by _SEQUENCE_NUMBER, retractions by column\n"
        "  price: max\n"
        "  sales: sum\n"
        "  seen: last_non_null_value"
    )


def test_the_default_function() -> None:
    spec = aggregation({"fields.default-aggregate-function": "max", "fields.sales.aggregate-function": "sum"})

    assert functions(spec) == {
        "price": AggregateCall("max"),
        "sales": AggregateCall("sum"),
        "seen": AggregateCall("max"),
    }


def test_sequence_fields_take_the_newest_value() -> None:
    spec = aggregation({"sequence.field": "seen,price", "fields.default-aggregate-function": "sum"})

    assert spec.sequence == ("seen", "price")
    assert functions(spec) == {
        "price": AggregateCall("last_value"),
        "sales": AggregateCall("sum"),
        "seen": AggregateCall("last_value"),
    }


def test_a_table_of_keys_alone_still_folds() -> None:
    spec = aggregation({}, {})

    assert spec.columns == ()
    assert spec.folds


def test_sequence_groups_belong_to_partial_update() -> None:
    assert aggregation({"fields.seen.sequence-group": "price"}) == aggregation({})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, OnDelete.RETRACT),
        ({"aggregation.remove-record-on-delete": "true"}, OnDelete.REMOVE_RECORD),
        # Rows are filtered when they are written; retractions that reached the files count.
        ({"ignore-delete": "true"}, OnDelete.RETRACT),
        ({"partial-update.remove-record-on-delete": "true"}, OnDelete.RETRACT),
    ],
)
def test_what_retractions_do(options: dict[str, str], expected: OnDelete) -> None:
    spec = aggregation(options)

    assert spec.on_delete is expected
    assert not spec.ignore_delete


def test_columns_may_ignore_retractions() -> None:
    spec = aggregation({"fields.price.aggregate-function": "max", "fields.price.ignore-retract": "true"})

    assert spec.columns[0].call == AggregateCall("max", ignore_retract=True)
    assert "  price: max(retractions ignored)\n" in str(spec)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"fields.price.ignore-retract": "true", "aggregation.remove-record-on-delete": "true"},
            "'fields.price.ignore-retract' and 'aggregation.remove-record-on-delete' contradict each other; set one",
        ),
        (
            {"fields.k.ignore-retract": "true", "aggregation.remove-record-on-delete": "true"},
            "'fields.k.ignore-retract' and 'aggregation.remove-record-on-delete' contradict each other",
        ),
        ({"fields.price.ignore-retract": "1"}, "'fields.price.ignore-retract' has the value '1'; it must be true or"),
        ({"aggregation.remove-record-on-delete": ""}, "has the value ''; it must be true or false"),
        (
            {"sequence.field": "seen", "fields.seen.aggregate-function": "max"},
            "'seen' is a sequence field, which takes no aggregate function; remove the option 'fields.seen.agg",
        ),
        ({"sequence.field": "seen,seen"}, "the option 'sequence.field' names 'seen' twice"),
        (
            {"fields.pirce.aggregate-function": "max"},
            "'fields.pirce.aggregate-function' names 'pirce', which is no column",
        ),
        ({"fields.seen.aggregate-function": "sum"}, r"sum folds numeric types, and column 'seen' is TIMESTAMP\(3\)"),
        ({"fields.default-aggregate-function": "bool_or"}, "bool_or folds BOOLEAN, and column 'price' is DOUBLE"),
    ],
)
def test_options_that_contradict_the_table_or_each_other(options: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^/t: .*{problem}"):
        aggregation(options)


@pytest.mark.parametrize("key", ["fields.price.aggregate-function", "fields.k.aggregate-function"])
@pytest.mark.parametrize("name", ["average", "SUM", "", "primary-key"])
def test_a_function_that_does_not_exist(key: str, name: str) -> None:
    with pytest.raises(Unsupported, match=f"^/t: the aggregate function '{name}' is not supported; known functions: "):
        aggregation({key: name})


def test_an_unknown_default_is_refused_though_no_column_takes_it() -> None:
    own = {f"fields.{name}.aggregate-function": "last_value" for name in COLUMNS}

    with pytest.raises(Unsupported, match="the aggregate function 'average'"):
        aggregation({**own, "fields.default-aggregate-function": "average"})
