"""Merge engines are named in one place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.merge.engines import BUILT_IN, OVERWRITE_ADVICE
from morrow.engine.merge.spec import AggregateCall, ColumnMerge, MergeSpec, OnDelete, Rule, SequenceGroup
from morrow.engine.options.declarations import MERGE_ENGINES
from tests.engine.merge.described import Columns, described, row

ROOT = Path(__file__).parents[3]


def test_engines_are_told_apart_by_their_traits() -> None:
    """Only `engine/merge` and the declaration of the option name engines."""
    named = re.compile("|".join(f"[\"']{engine}[\"']" for engine in BUILT_IN))
    sources = [path for folder in ("engine", "readers", "writers", "morrow") for path in (ROOT / folder).rglob("*.py")]
    homes = ("engine/merge/", "engine/options/", "cli/warehouse.py")  # the demo makes tables as users do

    found = [
        str(path.relative_to(ROOT))
        for path in sources
        if not str(path.relative_to(ROOT)).removeprefix("morrow/").startswith(homes) and named.search(path.read_text())
    ]

    assert len(sources) > 100
    assert found == []


def test_the_option_takes_the_engines_that_are_built_in() -> None:
    """`MERGE_ENGINES` lists the built-in engines; it cannot import the registry, which is in a higher layer."""
    assert set(MERGE_ENGINES) == set(BUILT_IN)


# aggregation: which function aggregates which column, and what is refused.

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
        undeletable=f"{OVERWRITE_ADVICE}, or make another table with aggregation.remove-record-on-delete",
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
        # The option filters rows when they are written; retractions that reached the files count.
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
            "'fields.pirce.aggregate-function' names 'pirce', which is not a column",
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


# partial-update: what columns and options say about the merge, and what is refused.

COLUMNS_PARTIAL_UPDATE = {"a": "INT", "b": "INT", "g": "INT", "c": "STRING", "d": "INT", "h": "INT"}


def partial_update(options: Mapping[str, str], columns: Columns = COLUMNS_PARTIAL_UPDATE) -> MergeSpec:
    return described("partial-update", columns, options)


def column(spec: MergeSpec, name: str) -> ColumnMerge:
    return next(column for column in spec.columns if column.name == name)


def test_without_options_every_column_takes_values_that_are_not_null() -> None:
    spec = partial_update({}, {"a": "INT", "b": "STRING"})

    assert (spec.rule, spec.key, spec.on_delete) == (Rule.UPDATE, ("k",), OnDelete.REFUSE)
    assert spec.columns == (ColumnMerge("a"), ColumnMerge("b"))
    assert spec.folds
    assert not spec.takes_retractions
    assert str(spec) == (
        "partial-update by (k) ordered by _SEQUENCE_NUMBER, retractions refused\n"  #
        "  a, b: newest non-null"
    )


def test_sequence_groups_guard_the_columns_they_list() -> None:
    spec = partial_update({"fields.g.sequence-group": "b,a", "fields.h.sequence-group": "c"})

    assert spec.groups == (SequenceGroup(("g",), ("a", "b")), SequenceGroup(("h",), ("c",)))
    assert spec.columns == (
        ColumnMerge("a", group=0),
        ColumnMerge("b", group=0),
        ColumnMerge("g", group=0),
        ColumnMerge("c", group=1),
        ColumnMerge("d"),
        ColumnMerge("h", group=1),
    )
    assert str(spec) == (
        "partial-update by (k) ordered by _SEQUENCE_NUMBER, retractions by column\n"
        "  a, b: newest in group (g)\n"
        "  g: sequence of group (g)\n"
        "  c: newest in group (h)\n"
        "  d: newest non-null\n"
        "  h: sequence of group (h)"
    )


def test_a_group_may_be_ordered_by_several_columns() -> None:
    spec = partial_update({"fields.h,g.sequence-group": "a"})

    assert spec.groups == (SequenceGroup(("h", "g"), ("a",)),)
    assert column(spec, "g") == ColumnMerge("g", group=0)


def test_functions_inside_groups() -> None:
    spec = partial_update(
        {
            "fields.g,h.sequence-group": "a,c",
            "fields.a.aggregate-function": "sum",
            "fields.c.aggregate-function": "listagg",
            "fields.c.list-agg-delimiter": "|",
        }
    )

    assert column(spec, "a") == ColumnMerge("a", AggregateCall("sum"), group=0)
    assert column(spec, "c") == ColumnMerge("c", AggregateCall("listagg", delimiter="|"), group=0)
    assert "  a: sum in group (g, h)\n  b, d: newest non-null\n" in str(spec)
    assert "  c: listagg(delimiter '|') in group (g, h)" in str(spec)


def test_the_default_function_is_for_columns_without_their_own() -> None:
    spec = partial_update(
        {
            "fields.g.sequence-group": "a,b",
            "fields.a.aggregate-function": "max",
            "fields.default-aggregate-function": "last_non_null_value",
        }
    )

    assert column(spec, "a").call == AggregateCall("max")
    assert column(spec, "b").call == column(spec, "d").call == AggregateCall("last_non_null_value")
    assert column(spec, "g").call is None


def test_a_function_of_a_sequence_column_means_nothing_but_must_exist() -> None:
    options = {"fields.g.sequence-group": "a"}

    assert column(partial_update({**options, "fields.g.aggregate-function": "sum"}), "g").call is None
    with pytest.raises(
        Unsupported, match="the aggregate function 'summe' is not supported; known functions: bool_and,"
    ):
        partial_update({**options, "fields.g.aggregate-function": "summe"})


def test_key_columns_in_groups() -> None:
    """Key columns may be in groups: all versions of a key agree on them, so they need no guard and can order groups."""
    spec = partial_update({"fields.g.sequence-group": "k,a", "fields.k,h.sequence-group": "b"})

    assert spec.groups == (SequenceGroup(("k", "h"), ("b",)), SequenceGroup(("g",), ("a",)))
    assert [column.name for column in spec.columns] == ["a", "b", "g", "c", "d", "h"]


@pytest.mark.parametrize("options", [{"fields.g.sequence-group": "g,a"}, {"fields.h.sequence-group": "g,b"}])
def test_a_sequence_column_belongs_to_the_group_it_orders(options: dict[str, str]) -> None:
    """A sequence column belongs to its own group even if another lists it.

    Paimon may refuse the second case, depending on the order of a hash map.
    """
    spec = partial_update({"fields.g.sequence-group": "a", "fields.h.sequence-group": "b", **options})

    assert spec.groups == (SequenceGroup(("g",), ("a",)), SequenceGroup(("h",), ("b",)))
    assert column(spec, "g") == ColumnMerge("g", group=0)


def test_sequence_field_orders_all_versions_beside_the_groups() -> None:
    spec = partial_update(
        {"sequence.field": "d", "sequence.field.sort-order": "descending", "fields.g.sequence-group": "a,d"}
    )

    assert (spec.sequence, spec.descending) == (("d",), True)
    assert column(spec, "d") == ColumnMerge("d", group=0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, OnDelete.REFUSE),
        ({"ignore-delete": "true"}, OnDelete.IGNORE),
        ({"partial-update.ignore-delete": "true"}, OnDelete.IGNORE),
        ({"partial-update.ignore-delete": "true", "ignore-delete": "false"}, OnDelete.REFUSE),
        ({"ignore-delete": "true", "fields.g.sequence-group": "a"}, OnDelete.IGNORE),
        ({"partial-update.remove-record-on-delete": "true"}, OnDelete.REMOVE_RECORD),
        ({"fields.g.sequence-group": "a"}, OnDelete.RETRACT),
        ({"aggregation.remove-record-on-delete": "true"}, OnDelete.REFUSE),
    ],
)
def test_what_retractions_do_partial_update(options: dict[str, str], expected: OnDelete) -> None:
    spec = partial_update(options)

    assert spec.on_delete is expected
    # Ignored retractions may still create a row, so they are not simply skipped.
    assert not spec.ignore_delete


@pytest.mark.parametrize(("named", "removing"), [("g", [0]), ("h", [1]), ("d", [1]), ("g,h", [0, 1])])
def test_groups_whose_deletion_removes_the_row(named: str, removing: list[int]) -> None:
    spec = partial_update(
        {
            "fields.g.sequence-group": "a",
            "fields.h,d.sequence-group": "c",
            "partial-update.remove-record-on-sequence-group": named,
        }
    )

    ordered = sorted(spec.groups, key=lambda group: group.sequence)
    assert [number for number, group in enumerate(ordered) if group.removes_record] == removing
    assert "its -D removes the row" in str(spec)


GROUP = {"fields.g.sequence-group": "a"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        # Groups
        (
            {"fields.g.sequence-group": "a,nope"},
            "the option 'fields.g.sequence-group' names 'nope', which is not a column;",
        ),
        (
            {"fields.g.sequence-group": "a, b"},
            "names ' b', which is not a column; blanks around commas belong to the name",
        ),
        ({"fields.g.sequence-group": ""}, "the option 'fields.g.sequence-group' names '', which is not a column"),
        ({"fields.g,x.sequence-group": "a"}, "the option 'fields.g,x.sequence-group' names 'x', which is not a column"),
        ({**GROUP, "fields.h.sequence-group": "a"}, r"'a' is listed by two sequence groups, \(g\) and \(h\); leave it"),
        ({"fields.g.sequence-group": "a,a"}, r"column 'a' is listed by two sequence groups, \(g\) and \(g\)"),
        # Functions
        (
            {"fields.a.aggregate-function": "sum"},
            "function sum of column 'a' needs a sequence group; list the column in",
        ),
        ({"fields.default-aggregate-function": "max"}, "function max of column 'a' needs a sequence group"),
        ({**GROUP, "fields.a.aggregate-function": "listagg"}, "listagg folds STRING, and column 'a' is INT; choose"),
        (
            {"fields.x.aggregate-function": "sum"},
            "the option 'fields.x.aggregate-function' names 'x', which is not a column",
        ),
        # Retractions
        (
            {"ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
            "'ignore-delete' and 'partial-update.remove-record-on-delete' contradict each other; set one of them",
        ),
        (
            {**GROUP, "ignore-delete": "true", "partial-update.remove-record-on-sequence-group": "g"},
            "'ignore-delete' and 'partial-update.remove-record-on-sequence-group' contradict each other",
        ),
        (
            {**GROUP, "partial-update.remove-record-on-delete": "true"},
            "'sequence-group' and 'partial-update.remove-record-on-delete' contradict each other",
        ),
        (
            {**GROUP, "partial-update.remove-record-on-sequence-group": "a"},
            "'partial-update.remove-record-on-sequence-group' names 'a', which is not a sequence column .* they are g",
        ),
        ({"partial-update.remove-record-on-sequence-group": "g"}, r"names 'g', .* they are \(none\)"),
        ({"partial-update.remove-record-on-delete": "yes"}, "has the value 'yes'; it must be true or false"),
        (
            {
                **GROUP,
                "fields.a.aggregate-function": "sum",
                "fields.a.ignore-retract": "true",
                "aggregation.remove-record-on-delete": "true",
            },
            "'fields.a.ignore-retract' and 'aggregation.remove-record-on-delete' contradict each other",
        ),
    ],
)
def test_options_that_contradict_the_table_or_each_other_partial_update(options: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^/t: .*{problem}"):
        partial_update(options)


def test_two_groups_ordered_by_the_same_column() -> None:
    with pytest.raises(
        Unsupported, match=r"the sequence column 'g' of two groups, \(g\) and \(g, h\), is not supported"
    ):
        partial_update({"fields.g.sequence-group": "a", "fields.g,h.sequence-group": "b"})


@pytest.mark.parametrize(
    "kind",
    [
        *(
            "TINYINT",
            "SMALLINT",
            "INT",
            "BIGINT",
            "FLOAT",
            "DOUBLE",
            "DECIMAL(10, 2)",
            "BOOLEAN",
            "CHAR(3)",
            "VARCHAR(9)",
        ),
        *("STRING", "BINARY(4)", "VARBINARY(8)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)"),
        "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    ],
)
def test_types_that_order_a_group(kind: str) -> None:
    assert partial_update(GROUP, {"a": "INT", "g": kind}).groups == (SequenceGroup(("g",), ("a",)),)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (t.VariantType(), InvalidArgument),
        (t.BlobType(), InvalidArgument),
        (t.ArrayType(element=t.IntType()), Unsupported),
        (t.VectorType(element=t.FloatType(), length=2), Unsupported),
        (t.MapType(key=t.IntType(), value=t.IntType()), Unsupported),
        (t.MultisetType(element=t.IntType()), Unsupported),
        (row(x="INT"), Unsupported),
    ],
)
def test_types_that_do_not_order_a_group(kind: t.DataType, error: type[MorrowError]) -> None:
    with pytest.raises(error, match=r"^/t: the sequence field 'g' .*the type"):
        partial_update(GROUP, {"a": "INT", "g": kind})
