"""Merges as SQL: the text, and DuckDB's result, which equals that of the row-wise oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib.metadata import EntryPoint, EntryPoints
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from morrow.engine.errors import ColumnNotFound, InvalidArgument, MorrowError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.merge.functions import FunctionSpec
from morrow.engine.merge.spec import MergeSpec, Rule
from morrow.readers.merges.sql_merge import merge_query, merge_sql
from tests.oracle import Row
from tests.support.merge_sql import MergedTable, Version
from tests.support.random_merging_tables import DRAFTS
from tests.support.value_pools import values

INTS, TEXTS = t.ArrayType(element=t.IntType()), t.ArrayType(element=t.VarCharType())
MAP = t.MapType(key=t.IntType(nullable=False), value=t.VarCharType())

# --- the text ---


def test_plain_partial_update() -> None:
    table = MergedTable.of("partial-update", {"a": "INT", "b": "STRING"})

    assert (
        merge_sql(table.spec, table.fields, retractions=False)
        == """\
-- partial-update by (k) ordered by _SEQUENCE_NUMBER, retractions refused
WITH ordered AS (
  SELECT
    *,
    row_number() OVER by_age AS version
  FROM "versions"
  WINDOW by_age AS (PARTITION BY "k" ORDER BY "_SEQUENCE_NUMBER")
)
SELECT
  "k",
  arg_max("a", version) AS "a",  -- the newest value that is not null
  arg_max("b", version) AS "b"
FROM ordered
GROUP BY "k\""""
    )


def test_a_sequence_group_with_an_aggregate_function() -> None:
    options = {"fields.g.sequence-group": "a,b", "fields.b.aggregate-function": "listagg"}
    table = MergedTable.of("partial-update", {"g": "INT", "a": "INT", "b": "STRING"}, options)

    assert (
        merge_sql(table.spec, table.fields, relation="orders", retractions=False)
        == """\
-- partial-update by (k) ordered by _SEQUENCE_NUMBER, retractions by column
WITH ordered AS (
  SELECT
    *,
    row_number() OVER by_age AS version,
    count(*) OVER (PARTITION BY "k") AS version_count,
    row_number() OVER (PARTITION BY "k" ORDER BY "g" NULLS FIRST, "_SEQUENCE_NUMBER") AS g_rank
  FROM "orders"
  WINDOW by_age AS (PARTITION BY "k" ORDER BY "_SEQUENCE_NUMBER")
), stepped AS (
  SELECT
    *,
    CASE
      WHEN version_count = 1 THEN 'append'
      WHEN "g" IS NULL THEN NULL
      WHEN g_rank = max(g_rank) OVER by_version THEN 'append'
      ELSE 'prepend'
    END AS g_step,
    CASE WHEN g_step = 'prepend' THEN -version ELSE version END AS g_place
  FROM ordered
  WINDOW by_version AS (PARTITION BY "k" ORDER BY version)
)
SELECT
  "k",
  arg_max_null("g", g_rank) AS "g",  -- of the newest version by the group
  arg_max_null("a", g_rank) FILTER (WHERE g_step IS NOT NULL) AS "a",  -- its value, null or not
  coalesce(string_agg("b", ',' ORDER BY g_place) FILTER (WHERE g_step IS NOT NULL AND "b" <> ''), \
min("b") FILTER (WHERE g_step IS NOT NULL)) AS "b"  -- listagg(delimiter ',')
FROM stepped
GROUP BY "k\""""
    )


def test_deduplicate_is_one_condition() -> None:
    options = {"sequence.field": "s", "sequence.field.sort-order": "descending"}
    table = MergedTable.of("deduplicate", {"s": "INT"}, options)

    assert (
        merge_sql(table.spec, table.fields)
        == """\
-- deduplicate by (k) ordered by s DESC, _SEQUENCE_NUMBER
SELECT
  "k",
  "s"
FROM "versions"
QUALIFY row_number() OVER (PARTITION BY "k" ORDER BY "s" NULLS LAST, "_SEQUENCE_NUMBER" DESC) = 1
  AND "_VALUE_KIND" IN (0, 2)"""
    )


def test_what_sql_cannot_merge_is_said_and_named() -> None:
    options = {"fields.visitors.aggregate-function": "theta_sketch", "fields.n.aggregate-function": "sum"}
    table = MergedTable.of("aggregation", {"visitors": "BYTES", "n": "INT"}, options)

    query = merge_query(table.spec, table.fields)

    assert not query.runnable
    assert query.left_out == ("visitors: theta_sketch",)
    assert query.text.split("\n")[1:3] == [
        "-- Not runnable as it stands: this is left to Morrow, in calls of morrow_...():",
        "--   visitors: theta_sketch",
    ]
    assert 'morrow_theta_sketch("visitors" ORDER BY version) AS "visitors"' in query.text


# --- results ---


def group(**functions: str) -> dict[str, str]:
    """Return options of a sequence group g with these columns; an empty text means no function."""
    named = {f"fields.{column}.aggregate-function": name for column, name in functions.items() if name}
    return {"fields.g.sequence-group": ",".join(functions), **named}


def function(name: str, **options: str) -> dict[str, str]:
    """Return options of a column v with an aggregate function."""
    return {f"fields.v.{key}": value for key, value in {"aggregate-function": name, **options}.items()}


EXAMPLES: Mapping[str, tuple[str, dict[str, Any], dict[str, str], list[Version], list[Row]]] = {
    "deduplicate": (
        "deduplicate", {"v": "INT"}, {}, [("+I", 1, 5), ("+U", 1, 6), ("+I", 2, 7), ("-D", 2, 7)], [(1, 6)],
    ),
    "deduplicate, nulls of the sequence are oldest": (
        "deduplicate", {"s": "INT", "v": "INT"}, {"sequence.field": "s", "sequence.field.sort-order": "descending"},
        [("+I", 1, 2, 10), ("+I", 1, 1, 11), ("+I", 1, 3, 12), ("+I", 1, None, 13)], [(1, 1, 11)],
    ),
    "deduplicate, retractions ignored": (
        "deduplicate", {"v": "INT"}, {"ignore-delete": "true"}, [("+I", 1, 5), ("-D", 1, 6), ("-D", 2, 7)], [(1, 5)],
    ),
    "first-row": ("first-row", {"v": "INT"}, {}, [("+I", 1, 5), ("+I", 1, 6), ("+I", 2, 7)], [(1, 5), (2, 7)]),
    "partial-update": (
        "partial-update", {"a": "INT", "b": "STRING"}, {},
        [("+I", 1, 1, None), ("+U", 1, None, "x"), ("+U", 1, 3, None), ("+I", 2, None, "y"), ("-D", 3, 1, "z")],
        [(1, 3, "x"), (2, None, "y")],
    ),
    "partial-update, a first retraction fills the row though it is ignored": (
        "partial-update", {"a": "INT", "b": "INT"}, {"ignore-delete": "true"},
        [("-D", 1, 1, 1), ("+I", 1, None, 2), ("-D", 1, 9, 9), ("-D", 2, 5, 5), ("-U", 2, 6, 6)], [(1, 1, 2)],
    ),
    "partial-update, a removed row starts again from the values of its -D": (
        "partial-update", {"a": "INT", "b": "INT"}, {"partial-update.remove-record-on-delete": "true"},
        [("+I", 1, 1, 1), ("-D", 1, None, 7), ("+I", 1, 3, None), ("+I", 2, 1, 1), ("-D", 2, 1, 1)], [(1, 3, 7)],
    ),
    "group, the greatest sequence wins, null by null": (
        "partial-update", {"g": "INT", "v": "INT"}, group(v=""),
        [("+I", 1, 2, 20), ("+I", 1, 3, None), ("+I", 1, 1, 10), ("+I", 1, None, 99)], [(1, 3, None)],
    ),
    "group, a single version is the row as it is stored": (
        "partial-update", {"g": "INT", "v": "INT"}, group(v=""), [("+I", 1, None, 5)], [(1, None, 5)],
    ),
    "group, a retraction that wins clears its columns": (
        "partial-update", {"g": "INT", "v": "INT", "w": "INT"}, group(v=""),
        [("+I", 1, 1, 10, 7), ("-D", 1, 2, 10, 8), ("+I", 2, 2, 20, 7), ("-D", 2, 1, 20, 8)],
        [(1, 2, None, 7), (2, 2, 20, 7)],
    ),
    "group, older values come before": (
        "partial-update", {"g": "INT", "f": "INT", "l": "STRING"}, group(f="first_value", l="listagg"),
        [("+I", 1, 5, 50, "e"), ("+I", 1, 1, 10, "a"), ("+I", 1, 3, 30, "c"), ("+I", 1, 7, 70, "g")],
        [(1, 7, 30, "c,a,e,g")],
    ),
    "group, sums take back": (
        "partial-update", {"g": "INT", "v": "INT"}, group(v="sum"),
        [("-D", 1, 9, 5), ("+I", 1, 1, 10), ("-U", 1, 3, 4), ("+U", 1, None, 100)], [(1, 9, 6)],
    ),
    "group, its -D removes the row": (
        "partial-update", {"g": "INT", "v": "INT", "w": "INT"},
        {**group(v=""), "partial-update.remove-record-on-sequence-group": "g"},
        [
            ("+I", 1, 2, 20, 7), ("-D", 1, 1, 0, 0), ("+I", 2, 2, 20, 7), ("-D", 2, 2, 0, 0),
            ("+I", 3, 2, 20, 7), ("-D", 3, 2, 0, 1), ("+I", 3, 3, 30, None),
        ],
        [(1, 2, 20, 7), (3, 3, 30, 1)],
    ),
    "sum": (
        "aggregation", {"v": "INT"}, function("sum"),
        [("+I", 1, 5), ("-U", 1, 2), ("-D", 2, 3), ("-D", 2, 4)], [(1, 3), (2, -7)],
    ),
    "max": (
        "aggregation", {"v": "STRING"}, function("max"),
        [("+I", 1, "a"), ("+I", 1, None), ("+I", 1, "é")], [(1, "é")],
    ),
    "product of decimals": (
        "aggregation", {"v": "DECIMAL(6, 2)"}, function("product"),
        [("+I", 1, Decimal("1.55")), ("+I", 1, Decimal("1.50"))], [(1, Decimal("2.33"))],
    ),
    "product, divided again": (
        "aggregation", {"v": "INT"}, function("product"),
        [("+I", 1, -7), ("+I", 1, 3), ("-D", 1, 2)], [(1, -10)],
    ),
    "last_value": ("aggregation", {"v": "INT"}, function("last_value"), [("+I", 1, 5), ("+I", 1, None)], [(1, None)]),
    "last_non_null_value": (
        "aggregation", {"v": "INT"}, {},
        [("+I", 1, 5), ("+I", 1, None), ("+I", 2, 5), ("-D", 2, 6)], [(1, 5), (2, None)],
    ),
    "retractions ignored": (
        "aggregation", {"v": "INT"}, function("max", **{"ignore-retract": "true"}),
        [("+I", 1, 5), ("-D", 1, 9)], [(1, 5)],
    ),
    "a removed row": (
        "aggregation", {"v": "INT"}, {**function("sum"), "aggregation.remove-record-on-delete": "true"},
        [("+I", 1, 5), ("-D", 1, 2), ("+I", 1, 3), ("+I", 2, 5), ("-D", 2, 5)], [(1, 5)],
    ),
    "listagg, distinct": (
        "aggregation", {"v": "STRING"}, function("listagg", distinct="true", **{"list-agg-delimiter": "{;}"}),
        [("+I", 1, "b{;}b"), ("+I", 1, "a{;}{;}b{;}a{;}c"), ("+I", 1, "")], [(1, "b{;}b{;}a{;}c")],
    ),
    "listagg, empty texts": (
        "aggregation", {"v": "STRING"}, function("listagg"),
        [("+I", 1, ""), ("+I", 1, "a"), ("+I", 1, ""), ("+I", 1, "b"), ("+I", 2, ""), ("+I", 2, None)],
        [(1, "a,b"), (2, "")],
    ),
    "collect": (
        "aggregation", {"v": INTS}, function("collect"),
        [("+I", 1, [1, None]), ("+I", 1, None), ("+I", 1, [1, 2]), ("-D", 1, [1, 9])], [(1, [None, 1, 2])],
    ),
    "collect, distinct": (
        "aggregation", {"v": TEXTS}, function("collect", distinct="true"),
        [("+I", 1, ["b", None, "b"]), ("+I", 1, ["a", "b", None]), ("+I", 2, ["c", "c"])],
        [(1, ["b", None, "a"]), (2, ["c", "c"])],
    ),
    "merge_map": (
        "aggregation", {"v": MAP}, function("merge_map"),
        [("+I", 1, [(1, "a"), (2, "b")]), ("+I", 1, [(2, None), (3, "c")]), ("-D", 1, [(1, "x")])],
        [(1, [(2, None), (3, "c")])],
    ),
}  # fmt: skip


def retract(versions: Sequence[Version]) -> bool:
    return any(version[0] in ("-U", "-D") for version in versions)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples(example: str) -> None:
    engine, columns, options, versions, rows = EXAMPLES[example]
    table = MergedTable.of(engine, columns, options)

    assert table.sql_rows(versions, retractions=retract(versions)) == rows
    assert table.comparable(table.oracle_rows(versions)) == table.comparable(rows)


def test_no_version_is_no_row() -> None:
    assert MergedTable.of("aggregation", {"v": "INT"}, function("sum")).sql_rows([]) == []


@pytest.mark.parametrize(
    ("engine", "options", "reason"),
    [
        ("partial-update", {}, "says by no option what a retraction does"),
        ("aggregation", function("max"), "a retraction reaches v, whose functions take none back"),
        ("first-row", {}, "first-row takes no retractions"),
    ],
)
def test_refused_retractions_fail_the_query(engine: str, options: dict[str, str], reason: str) -> None:
    table = MergedTable.of(engine, {"v": "INT"}, options)

    with pytest.raises(duckdb.InvalidInputException, match=reason):
        table.sql_rows([("+I", 1, 5), ("-D", 1, 5)])


def test_a_sum_that_exceeds_its_type_fails_the_query() -> None:
    with pytest.raises(duckdb.ConversionException, match="out of range"):
        MergedTable.of("aggregation", {"v": "TINYINT"}, function("sum")).sql_rows([("+I", 1, 100), ("+I", 1, 100)])


def test_columns_may_have_any_name() -> None:
    """Helper columns avoid the table's column names, and names are never interpreted as SQL."""
    names = ['version"; DROP TABLE t', "version", "retracts", "ordered", "g_rank", "select", "state", "row", "a\n'b"]
    options = {"fields.g.sequence-group": "row,version", "fields.version.aggregate-function": "last_non_null_value"}
    table = MergedTable.of("partial-update", {"g": "INT", **dict.fromkeys(names, "INT")}, options)
    versions = [("+I", 1, *range(10)), ("-U", 1, *range(10)), ("+U", 1, *range(20, 30))]

    assert table.sql_rows(versions) == table.oracle_rows(versions) == [(1, *range(20, 30))]


def test_names_in_comments_stay_in_them() -> None:
    options = {"fields.a\nb.aggregate-function": "rbm32"}
    table = MergedTable.of("aggregation", {"a\nb": "BYTES"}, options)

    assert "--   a b: rbm32\nWITH" in table.query().text


def test_partition_columns_can_belong_to_the_key() -> None:
    fields = [t.DataField(i, name, t.IntType()) for i, name in enumerate(("p", "k"))]

    text = merge_sql(MergeSpec("deduplicate", Rule.NEWEST, ("k",)), fields, primary_key=("p", "k"))

    assert 'PARTITION BY "p", "k"' in text


def test_a_function_of_another_package_may_bring_its_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "morrow.engine.plugins.entry_points",
        lambda **wanted: EntryPoints([EntryPoint("mean", f"{__name__}:MEAN", "morrow.aggregate_functions")]).select(
            **wanted
        ),
    )
    table = MergedTable.of("aggregation", {"v": "DOUBLE"}, function("mean"))

    assert table.sql_rows([("+I", 1, 1.0), ("+I", 1, 4.0)]) == [(1, 2.5)]


MEAN = SimpleNamespace(
    spec=FunctionSpec("mean", lambda kind: isinstance(kind, t.DoubleType), "DOUBLE"),
    sql=lambda column, order, condition: f"avg({column} ORDER BY {order}) FILTER (WHERE {condition})",
)


@pytest.mark.parametrize(
    ("spec", "names", "error", "reason"),
    [
        (MergeSpec("deduplicate", Rule.NEWEST, ("k",)), ("k", "v", "V"), Unsupported, "differ only in case"),
        (
            MergeSpec("deduplicate", Rule.NEWEST, ("k",), ("s",)),
            ("k", "v"),
            ColumnNotFound,
            "the merge needs the column 's'",
        ),
        (MergeSpec("deduplicate", Rule.NEWEST, ("k",)), ("k", "v\0"), InvalidArgument, "cannot be written in SQL"),
    ],
)
def test_what_cannot_be_written(spec: MergeSpec, names: tuple[str, ...], error: type[MorrowError], reason: str) -> None:
    fields = [t.DataField(i, name, t.IntType()) for i, name in enumerate(names)]

    with pytest.raises(error, match=reason):
        merge_sql(spec, fields)


# --- compared with the oracle ---

SMALL_FACTORS = {t.DecimalType: [Decimal(x) for x in ("-2", "-0.5", "0.25", "1")], t.DoubleType: [-1.5, 0.25, 2.0]}


@st.composite
def tables_and_versions(draw: st.DrawFn) -> tuple[MergedTable, list[Version]]:
    """Draw a partial-update or aggregation table and versions of two keys.

    Sums and products are small, since DuckDB raises an error on an overflow where Java wraps around.
    """
    draft = draw(DRAFTS[draw(st.sampled_from(sorted(DRAFTS)))]())
    kinds = {"k": t.IntType(nullable=False), **{name: column.type for name, column in draft.columns.items()}}
    fields = tuple(t.DataField(i, n, kinds[n]) for i, n in enumerate(draw(st.permutations(sorted(kinds)))))
    pools: dict[str, Any] = {"k": [1, 2]}
    for name, column in draft.columns.items():
        computed = column.options.get("aggregate-function") in ("sum", "product")
        approximate = t.DoubleType if isinstance(column.type, t.FloatType) else type(column.type)
        pools[name] = SMALL_FACTORS.get(approximate, [-2, -1, 1, 3]) if computed else column.pool
    versions = st.tuples(st.sampled_from(draft.kinds), *(values(f.type, pools[f.name]) for f in fields))
    return MergedTable(fields, dict(draft.all_options)), draw(st.lists(versions, min_size=1, max_size=7))


@settings(max_examples=settings().max_examples // 2)
@given(tables_and_versions())
def test_sql_merges_as_the_oracle_does(case: tuple[MergedTable, list[Version]]) -> None:
    table, versions = case
    retractions = retract(versions)
    assume(table.query(retractions=retractions).runnable)

    merged = table.sql_rows(versions, retractions=retractions)

    assert table.comparable(merged) == table.comparable(table.oracle_rows(versions))
