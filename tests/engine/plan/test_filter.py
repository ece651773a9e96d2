"""Filters of users: the predicate that is pushed down, the remaining filter, and the columns that it reads."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import polars as pl
import polars.selectors as cs
import pyarrow.compute as pc
import pytest

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.types import BooleanType, DataField, IntType, RowType, VarCharType
from morrow.engine.plan.filter import NO_FILTER, parse_filter
from morrow.engine.plan.predicate import Leaf, Op
from tests.support.predicates import FIELDS

UTC = dt.UTC
NESTED = DataField(100, "r", RowType(fields=(DataField(101, "k", IntType()),)))
ALL = (*FIELDS, NESTED)

PUSHED = [
    ("x = 5", "x = 5"),
    ("5 < x", "x > 5"),
    ("x <> -1 AND l != 2", "x != -1 AND l != 2"),
    ("(x > 1 AND (s = 'it''s' AND b))", "x > 1 AND s = 'it''s' AND b = True"),
    ("x BETWEEN 1 AND 2 AND l NOT BETWEEN 3 AND 4", "x >= 1 AND x <= 2 AND (l < 3 OR l > 4)"),
    ("NOT (x = 1 OR s LIKE 'a%')", "x != 1 AND s NOT STARTS WITH 'a'"),
    ("x IN (1, 2, NULL)", "x IN (1, 2)"),
    ("x IN (1)", "x = 1"),
    ("x NOT IN (1, NULL)", "FALSE"),
    ("x = NULL", "FALSE"),
    ("NOT (x = NULL)", "FALSE"),
    ("x IS NOT DISTINCT FROM NULL", "x IS NULL"),
    ("x IS DISTINCT FROM 5", "x != 5 OR x IS NULL"),
    ("b IS NOT TRUE", "b = False OR b IS NULL"),
    ("(x = 1) IS TRUE", "x = 1"),
    ("NOT b", "b = False"),
    ("s LIKE 'abc'", "s = 'abc'"),
    ("starts_with(s, 'a')", "s STARTS WITH 'a'"),
    # literals of the column's type
    ("dt >= DATE '2024-01-01' AND dt < '2024-02-01'", "dt >= DATE '2024-01-01' AND dt < DATE '2024-02-01'"),
    ("ts = CAST('2024-01-01' AS DATE)", "ts = TIMESTAMP '2024-01-01 00:00:00'"),
    ("ltz > '2024-01-01 02:00:00+02'", "ltz > TIMESTAMP '2024-01-01 00:00:00+00:00'"),
    ("dec = '10.5' OR dec = 1", "dec = 10.50 OR dec = 1.00"),
    ("bin = 'a\\xff' OR bin = x'00FF'", "bin = x'61ff' OR bin = x'00ff'"),
    ("f = 0.1", "f = 0.10000000149011612"),
    ("d > 'nan'", "d > nan"),
    # literals between the column's values or out of their range
    ("x > 10.5", "x > 10"),
    ("x = 10.5", "FALSE"),
    ("NOT x = 10.5", "x IS NOT NULL"),
    ("i8 < 300", "i8 IS NOT NULL"),
    ("i8 >= 300 OR x = 1", "x = 1"),
    ("i8 NOT IN (300, 400)", "i8 IS NOT NULL"),
    ("dec <= 10.555", "dec <= 10.55"),
    ("dt < TIMESTAMP '2024-01-01 12:00:00'", "dt <= DATE '2024-01-01'"),
    ("ts3 >= TIMESTAMP '2024-01-01 00:00:00.0005'", "ts3 > TIMESTAMP '2024-01-01 00:00:00'"),
    ("ts9 < TIMESTAMP '3000-01-01'", "ts9 IS NOT NULL"),
    # names
    ("X = 1", "x = 1"),
    ('"we""ird; col.umn" = 1', 'we"ird; col.umn = 1'),
    ("x = 5 -- a comment", "x = 5"),
]


@pytest.mark.parametrize(("text", "predicate"), PUSHED)
def test_sql_that_becomes_a_predicate(text: str, predicate: str) -> None:
    parsed = parse_filter(text, ALL)
    assert str(parsed.predicate) == predicate
    assert not parsed.residuals


@pytest.mark.parametrize(
    ("text", "predicate", "residuals", "columns"),
    [
        ("upper(s) = 'A' AND x > 1", "x > 1", ["upper(s) = 'A'"], {"s", "x"}),
        ("x = l", "TRUE", ["x = l"], {"x", "l"}),
        ("r.k > 1", "TRUE", ["r.k > 1"], {"r"}),
        ("x = 1 OR abs(x) = 2", "x = 1 OR x IN (-2, 2)", ["x = 1 OR abs(x) = 2"], {"x"}),
        ("s LIKE 'a%b'", "s STARTS WITH 'a'", ["s LIKE 'a%b'"], {"s"}),
        ("s LIKE 'a!%%' ESCAPE '!'", "TRUE", ["s LIKE 'a!%%' ESCAPE '!'"], {"s"}),
        (
            "CASE WHEN b THEN x = 1 AND l = 2 END AND x = 3",
            "x = 3",
            ["CASE WHEN b THEN x = 1 AND l = 2 END"],
            {"b", "x", "l"},
        ),
        ("s ~ 'a+'", "TRUE", ["s ~ 'a+'"], {"s"}),
        ("len(list_filter([x], v -> v > l)) = 1", "TRUE", ["len(list_filter([x], v -> v > l)) = 1"], {"x", "l"}),
        # DuckDB would round the literal, or the column
        ("ts3 < '2024-01-01 00:00:00.0005'", "TRUE", ["ts3 < '2024-01-01 00:00:00.0005'"], {"ts3"}),
        ("ts9 = '2024-01-01 00:00:00.123456789'", "TRUE", ["ts9 = '2024-01-01 00:00:00.123456789'"], {"ts9"}),
        ("l = 9007199254740993e0", "TRUE", ["l = 9007199254740993e0"], {"l"}),
        ("s = 5", "TRUE", ["s = 5"], {"s"}),
        ("1 = 1", "TRUE", ["1 = 1"], set()),
    ],
)
def test_sql_that_stays_sql(text: str, predicate: str, residuals: list[str], columns: set[str]) -> None:
    parsed = parse_filter(text, ALL)
    assert str(parsed.predicate) == predicate
    assert [residual.text for residual in parsed.residuals] == residuals
    assert parsed.columns == columns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dt = 'not a date'", "'not a date' is not a valid DATE, the type of column 'dt'"),
        ("dt = '2024-02-30'", "'2024-02-30' is not a valid DATE"),
        ("x = 'abc'", "'abc' is not a valid INT"),
        ("i8 = '300'", "'300' is not a valid TINYINT"),
        ("x = ", "does not parse at line 1, column 3"),
        ("x = 1 x", "does not parse at line 1, column 7, near 'x'"),
        ("x = 1; DROP TABLE t", "does not parse"),
        ("x = 1; b", "not statements"),
        ("x = 1) OR (1 = 1", "does not parse"),
        ("SELECT 1", "does not parse"),
        ("x = 'open", "does not parse"),
        ("", "does not parse"),
        ("count(x) > 1", "an aggregate function"),
        ("sum(x) OVER () > 1", "a window function"),
        ("x IN (SELECT 1)", "a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"),
        ("5", "5 is a value, not a condition"),
        ("x", "x is a value, not a condition"),
        ("x = 1 OR NOT (x - 1)", "x - 1 is a value, not a condition"),
        ("x = ?", "a parameter"),
        ("(" * 3000 + "x = 1" + ")" * 3000, "nested too deeply"),
    ],
)
def test_sql_that_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match="filter: ") as error:
        parse_filter(text, ALL)
    assert message in str(error.value)


def test_an_unknown_column_is_named_with_its_neighbours() -> None:
    fields = (DataField(0, "customer_id", IntType()), DataField(1, "custom", VarCharType()))
    for filter in (
        "custmer_id = 1",
        pc.field("custmer_id") == 1,
        pl.col("custmer_id") == 1,
        Leaf("custmer_id", Op.EQ, (1,)),
    ):
        with pytest.raises(ColumnNotFound, match=r"no column 'custmer_id'; did you mean 'customer_id' or 'custom'\?"):
            parse_filter(filter, fields)


def test_exact_spelling_wins_and_other_case_must_be_unique() -> None:
    fields = (DataField(0, "Id", IntType()), DataField(1, "ID", IntType()), DataField(2, "Flag", BooleanType()))
    assert parse_filter('"ID" = 1 AND flag', fields).columns == {"ID", "Flag"}
    with pytest.raises(InvalidArgument, match="ambiguous between 'Id', 'ID'"):
        parse_filter("id = 1", fields)


@pytest.mark.parametrize(
    ("expression", "predicate"),
    [
        ((pc.field("x") > 5) & (pc.field("s") == "a"), "x > 5 AND s = 'a'"),
        (~(pc.field("x").isin([1, 2])), "x NOT IN (1, 2) OR x IS NULL"),
        (pc.field("x").isin([1, None]), "x = 1 OR x IS NULL"),
        (pc.field("d") > 1.0, "d > 1.0 AND d < nan"),
        (~(pc.field("d") > 1.0), "d <= 1.0 OR d = nan"),
        (pc.field("f") > 0.1, "f > 0.09999999403953552 AND f < nan"),
        (pc.field("dec") > Decimal("1.105"), "dec > 1.10"),
        (pc.field("ts9") > dt.datetime(2024, 1, 1), "ts9 > TIMESTAMP '2024-01-01 00:00:00'"),
        (pc.field("b") | ~pc.field("b"), "b = True OR b = False"),
        (pc.starts_with(pc.field("s"), "a"), "s STARTS WITH 'a'"),
        (pc.field("x").is_valid() | pc.field("x").is_null(), "x IS NOT NULL OR x IS NULL"),
    ],
)
def test_arrow_expressions_that_become_predicates(expression: pc.Expression, predicate: str) -> None:
    parsed = parse_filter(expression, ALL)
    assert str(parsed.predicate) == predicate
    assert not parsed.residuals


def test_what_arrow_alone_can_say_follows_the_predicate() -> None:
    expression = (pc.field("x") > 5) & (pc.field("x") == pc.field("l")) & (pc.field("r", "k") == 1)
    parsed = parse_filter(expression, ALL)
    assert str(parsed.predicate) == "x > 5"
    assert parsed.columns == {"x", "l", "r"}
    assert [residual.kind for residual in parsed.residuals] == ["arrow"]


@pytest.mark.parametrize(
    ("expression", "predicate"),
    [
        ((pl.col("x") > 5) & (pl.col("s") == "a"), "x > 5 AND s = 'a'"),
        (~pl.col("s").is_in(["a", "b"]), "s NOT IN ('a', 'b')"),
        (
            pl.col("dt").is_between(dt.date(2024, 1, 1), dt.date(2024, 2, 1), closed="left"),
            "dt >= DATE '2024-01-01' AND dt < DATE '2024-02-01'",
        ),
        (pl.col("x").ne_missing(5), "x != 5 OR x IS NULL"),
        (pl.col("d").is_not_nan(), "d < nan"),
        (pl.col("f") > 0.1, "f > 0.10000000149011612"),
        (pl.col("ltz") > dt.datetime(2024, 1, 1, tzinfo=UTC), "ltz > TIMESTAMP '2024-01-01 00:00:00+00:00'"),
        (pl.all_horizontal(pl.col("b"), pl.col("s").str.starts_with("a")), "b = True AND s STARTS WITH 'a'"),
        (pl.col("x") > 5, "x > 5"),
    ],
)
def test_polars_expressions_that_become_predicates(expression: pl.Expr, predicate: str) -> None:
    parsed = parse_filter(expression, ALL)
    assert str(parsed.predicate) == predicate
    assert not parsed.residuals


def test_what_polars_alone_can_say_follows_the_predicate() -> None:
    parsed = parse_filter((pl.col("x") > 5) & (pl.col("s").str.to_uppercase() == "A"), ALL)
    assert str(parsed.predicate) == "x > 5"
    assert parsed.columns == {"x", "s"}
    assert [residual.kind for residual in parsed.residuals] == ["polars"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (pl.col("x") > pl.col("x").mean(), "more than one row"),
        (pl.col("x").shift() > 1, "more than one row"),
        (pl.col("x").sum().over("s") > 1, "more than one row"),
        (pl.len() > 1, "more than one row"),
        (cs.integer() > 1, "several columns"),
        (pl.col("x") + 1, "is Int32, not a boolean"),
        (pl.col("x").str.len_chars() > 1, "cannot plan"),
        (pl.col("x") == "a", "cannot plan"),
        (pc.field("x") + 1, "must evaluate to bool"),
        (pc.field("s") == 5, "no kernel"),
        (pc.field(0) == True, "numbering"),  # noqa: E712
        (5, "a int is not a filter"),
    ],
)
def test_expressions_that_are_refused(expression: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match="filter: ") as error:
        parse_filter(expression, ALL)  # type: ignore[arg-type]  # the last case is not a filter
    assert message in str(error.value)


def test_no_filter_keeps_all_rows_and_reads_nothing() -> None:
    assert parse_filter(None, ALL) == NO_FILTER
    assert str(NO_FILTER.predicate) == "TRUE"


@pytest.mark.parametrize(
    "filter", ["x = 1 AND upper(s) = 'A'", pl.col("x") == pl.col("l"), pc.field("x") == pc.field("l")]
)
def test_filters_compare_hash_and_pickle(filter: str | pl.Expr | pc.Expression) -> None:
    parsed = parse_filter(filter, ALL)
    assert pickle.loads(pickle.dumps(parsed)) == parsed == parse_filter(filter, ALL)
    assert len({parsed, parse_filter(filter, ALL)}) == 1
