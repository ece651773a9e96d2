"""A filter keeps the rows that its own engine keeps, whatever part of it is pushed down."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.types import DataField, IntType
from morrow.engine.plan.filter import FilterLike, parse_filter
from morrow.readers.expressions import arrow, polars
from tests.support.one_duckdb import one_duckdb
from tests.support.predicates import FIELDS, edge_rows, table

DATA = table(edge_rows())
FRAME, (BATCH,) = pl.DataFrame(DATA), DATA.combine_chunks().to_batches()
UTC = dt.UTC


def kept(filter: FilterLike) -> list[int]:
    """Return the rows kept by predicate and residuals, and check that Polars (both engines) and Arrow agree."""
    parsed = parse_filter(filter, FIELDS)
    frame = polars.filter_rows(parsed, FIELDS, FRAME.lazy())
    rows = arrow.filter_batch(parsed, FIELDS, BATCH)
    in_memory = frame.select("row").collect()["row"].to_list()
    assert frame.select("row").collect(engine="streaming")["row"].to_list() == in_memory
    assert rows.column("row").to_pylist() == in_memory
    return in_memory


def kept_by_duckdb(text: str) -> list[int]:
    with one_duckdb().cursor() as connection:
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        connection.register("data", DATA)
        return [row for (row,) in connection.execute(f"SELECT row FROM data WHERE {text}").fetchall()]


SQL = [
    *[f"{column} {op} 0.1" for column in ("x", "l", "f", "d", "dec", "i8") for op in ("=", "<>", "<", ">=")],
    *[f"{column} {op} 1e0" for column in ("x", "l", "f", "d", "dec", "i8") for op in ("=", ">", "<=")],
    *[
        f"{column} > {value}"
        for column in ("f", "d")
        for value in ("0.25", "'0.1'", "16777217", "0.1::DOUBLE", "CAST('0.1' AS FLOAT)")
    ],
    *[f"{column} {op} 'nan'" for column in ("f", "d") for op in ("=", "<>", "<", "<=", ">", ">=")],
    *[
        f"{column} {op} '2024-02-29'"
        for column in ("dt", "ts0", "ts3", "ts", "ts9", "ltz", "ltz9")
        for op in ("=", "<>", "<=", ">")
    ],
    *[
        f"{column} {op} '2024-02-29 12:30:15.1235'"
        for column in ("dt", "ts3", "ts", "ts9", "ltz")
        for op in ("=", "<", ">=")
    ],
    *[
        f"{column} {op} TIMESTAMP '2024-02-29 12:30:15.1235'"
        for column in ("dt", "ts0", "ts3", "ts", "ts9", "ltz")
        for op in ("=", "<", ">=", "<>")
    ],
    "l = 9007199254740993",
    "l = 9007199254740993.0",
    "l > 9007199254740992e0",
    "d = 9007199254740993",
    "x = '5'",
    "x > '4.6'",
    "x IN (1, 5.0, 10.5)",
    "x NOT IN (1, 10.5)",
    "x NOT IN (10.5)",
    "x IN (1, '5')",
    "l IN (1, 1e0)",
    "f IN (0.1, 1)",
    "f IN (0.1, 1e-1)",
    "dt IN ('2024-02-29', '2024/02/29')",
    "dt = '2024/2/29'",
    "ts IN ('2024-02-29 12:30:15.123456')",
    "f IN (0.0)",
    "f NOT IN (0.0)",
    "t = '10:00:00.001'",
    "t < TIME '10:00:00.0015'",
    "t >= '10:00:00.001999'",
    "bin = 'ab'",
    "bin > x'61'",
    "bin = '\\xFF\\xFE'",
    "b = 'true'",
    "b = 'f'",
    "b > FALSE",
    "b <= FALSE",
    "NOT b",
    "b IS NOT FALSE",
    "b IS UNKNOWN",
    "b",
    "b = TRUE OR x = 1",
    "s LIKE 'a%'",
    "s NOT LIKE 'a%'",
    "s LIKE 'ab'",
    "s LIKE '%'",
    "s LIKE 'a\\%'",
    "s LIKE '\\'",
    "s LIKE 'a!%%' ESCAPE '!'",
    "s ILIKE 'AB%'",
    "s LIKE 'a_%'",
    "s = 'it''s'",
    "s > 'a' AND s < 'b'",
    "s ^@ 'a'",
    "s = E'\\n;--'",
    "upper(s) = 'AB'",
    "s || 'x' = 'abx'",
    "s LIKE NULL",
    "s SIMILAR TO 'a.*'",
    "s ~ 'a.*'",
    "regexp_matches(s, 'b')",
    "len(s) > 2 AND x IS NOT NULL",
    "coalesce(x, 0) = 0",
    "x % 2 = 1",
    "x = l",
    "x + 1 > 5",
    "-x = 1",
    "x = -(-5)",
    "1 = 1",
    "1 = 2",
    "NULL",
    "TRUE",
    "x = 1 AND NULL",
    "NOT (x = 1 AND NULL)",
    "x IS NULL AND s IS NOT NULL",
    "x BETWEEN 0 AND 10 AND s >= ''",
    "x NOT BETWEEN 0 AND 10",
    "x BETWEEN NULL AND 5",
    "x NOT BETWEEN NULL AND 5",
    "NOT x BETWEEN 0 AND 5",
    "x IS DISTINCT FROM 5",
    "x IS NOT DISTINCT FROM 5",
    "x IS DISTINCT FROM NULL",
    "NOT x IS NOT DISTINCT FROM 5.5",
    "(x > 1) IS NOT TRUE",
    "x = 1 IS TRUE",
    "NOT x = 1 IS TRUE",
    "NOT x IS NULL",
    "x IN (1, NULL)",
    "NOT x IN (1, NULL)",
    "x IN (NULL)",
    "NOT x = 1 AND NOT x = 5 OR b",
    "CASE WHEN b THEN x = 0 ELSE x > 5 END",
    "hour(ts) = 12",
    "ts::DATE = '2024-02-29'",
    "date_trunc('day', ltz) = '2024-02-29'",
    "ltz = '2024-02-29 13:30:15.123456+01'",
    "dec = 0.100",
    "dec > 10.5499999",
    "dec = 1e-1",
    "dec IN (0.1, 10.55)",
    "big = 99999999999999999999999999999999999999",
    "big > 1",
    "dec = 100000000000",
    'x = 1 AND "we""ird; col.umn" = 2',
    "i8 > 127",
    "i8 < -128",
    "i8 >= -128",
    "i8 <> 300",
    "x = CAST('5' AS BIGINT)",
    "dec = CAST('10.55' AS DECIMAL(10,2))",
    "d = CAST('0.1' AS DOUBLE)",
]


def test_sql_keeps_what_duckdb_keeps() -> None:
    with one_duckdb().cursor() as connection:
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        connection.register("data", DATA)
        for text in SQL:
            of_duckdb = connection.execute(f"SELECT row FROM data WHERE {text}").fetchall()
            assert kept(text) == [row for (row,) in of_duckdb], text


CONDITIONS = [
    "x = 5",
    "x > 1",
    "b",
    "s LIKE 'a%'",
    "x IS NULL",
    "x IN (1, NULL)",
    "l BETWEEN 0 AND 9",
    "x = NULL",
    "x + 1 > 5",
    "upper(s) = 'AB'",
    "d > 0.1",
    "x IS DISTINCT FROM 1",
]


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Draw conditions that are joined with some or no parentheses, so that DuckDB's precedence matters."""
    text = draw(st.sampled_from(CONDITIONS))
    for _ in range(draw(st.integers(0, 4))):
        negation = draw(st.sampled_from(["", "NOT "]))
        text += f" {draw(st.sampled_from(['AND', 'OR']))} {negation}{draw(st.sampled_from(CONDITIONS))}"
        text = f"({text})" if draw(st.booleans()) else text
    return text


@given(text=conditions())
@settings(max_examples=settings().max_examples // 2)
def test_connectives_nest_as_in_duckdb(text: str) -> None:
    assert kept(text) == kept_by_duckdb(text)


field = pc.field
ARROW = [
    field("d") > 1.0,
    ~(field("d") > 1.0),
    field("d") >= -1.5,
    ~(field("d") <= 1.0),
    field("d") != 1.0,
    field("d") == float("nan"),
    field("f") > 0.1,
    field("f") == 0.1,
    field("d") < 1,
    field("d").isin([1.0, float("nan")]),
    field("d").is_null(nan_is_null=True),
    pc.is_nan(field("d")),
    field("x").isin([1, 5]),
    ~field("x").isin([1, 5]),
    field("x").isin([1, None]),
    ~field("x").isin([1, None]),
    pc.is_in(field("x"), value_set=pa.array([1, None]), skip_nulls=True),
    ~pc.is_in(field("x"), value_set=pa.array([1, None]), skip_nulls=True),
    ~(field("x") == 5) | field("b"),
    ~(field("b") & (field("x") > 1)),
    field("i8") < 300,
    field("x") == pa.scalar(None, pa.int32()),
    field("ts9") > dt.datetime(2024, 2, 29),
    field("ts3") >= dt.datetime(2024, 2, 29, 12, 30, 15, 123500),
    field("ltz") < dt.datetime(2024, 2, 29, tzinfo=UTC),
    field("dt") > dt.datetime(2024, 1, 1),
    field("dec") > Decimal("0.105"),
    field("t") < dt.time(10, 0, 0, 1500),
    field("s") >= "ab",
    pc.starts_with(field("s"), "a"),
    pc.starts_with(field("s"), "A", ignore_case=True),
    field("x") == field("l"),
    field("bin") > b"a",
    field('we"ird; col.umn') == 1,
    pc.scalar(True),
    (field("x") > 1) & (field("l") == field("x")),
    pc.utf8_length(field("s")) > 1,
    field("x").cast("int64") > 1,
]


@pytest.mark.parametrize("expression", ARROW, ids=str)
def test_arrow_expressions_keep_what_arrow_keeps(expression: pc.Expression) -> None:
    assert kept(expression) == DATA.filter(expression).column("row").to_pylist()


col = pl.col
POLARS = [
    col("d") > 1.0,
    ~(col("d") > 1.0),
    col("d") == float("nan"),
    col("f") > 0.1,
    col("f") == 0.1,
    col("f") == pl.lit(0.1, dtype=pl.Float64),
    col("d") < 1,
    col("f") >= 16777217,
    col("d").is_nan(),
    col("x") > 2.5,
    col("l") == 9007199254740992.0,
    col("x").is_in([1, 5]),
    ~col("x").is_in([1, 5]),
    col("x").is_in([1, None]),
    ~col("x").is_in([1, None]),
    col("s").is_in(["a", "it's"]),
    col("dt").is_in([dt.date(2024, 2, 29)]),
    col("ts9") > dt.datetime(2024, 2, 29),
    col("ts3") >= dt.datetime(2024, 2, 29, 12, 30, 15, 123500),
    col("ts3") == dt.datetime(2024, 2, 29, 12, 30, 15, 123000),
    col("ts0") == dt.datetime(2024, 2, 29, 12, 30, 15),
    col("ltz") < dt.datetime(2024, 2, 29, tzinfo=UTC),
    col("t") < dt.time(10, 0, 0, 1500),
    col("dec") == Decimal("0.1"),
    col("dec") > 1,
    col("x").eq_missing(None),
    col("x").eq_missing(5),
    ~col("x").eq_missing(5),
    col("x").ne_missing(5),
    col("x").is_between(1, 5, closed="none"),
    ~col("x").is_between(1, 5),
    col("b") & ~(col("x") == 1),
    ~(col("b") | (col("x") == 1)),
    pl.lit(True),
    col("s").str.to_uppercase() == "AB",
    (col("x") > 0) & (col("x") == col("l")),
    col("b").not_(),
    pl.any_horizontal("b", col("x") > 5),
    col("bin") == b"ab",
    col('we"ird; col.umn') == 1,
    col("x") > 1 + pl.lit(3),
    col("i8") < 300,
]


@pytest.mark.parametrize("expression", POLARS, ids=str)
def test_polars_expressions_keep_what_polars_keeps(expression: pl.Expr) -> None:
    assert kept(expression) == FRAME.filter(expression)["row"].to_list()


def test_a_residual_lets_projections_through() -> None:
    filter = parse_filter("upper(s) = 'AB'", FIELDS)
    plan = polars.filter_rows(filter, FIELDS, FRAME.lazy()).select("row").explain()
    assert (
        f'PROJECT["row", "s"] 2/{DATA.num_columns}' in plan.replace("'", '"') or f"2/{DATA.num_columns} COLUMNS" in plan
    )


def test_a_residual_on_a_batch_keeps_all_its_columns() -> None:
    batch = DATA.to_batches()[0]
    assert arrow.filter_batch(parse_filter("x + 0 = 5", FIELDS), FIELDS, batch) == batch.filter(pc.equal(batch["x"], 5))


@pytest.mark.parametrize(
    "text",
    [
        "no_such_function(x) = 1",
        "median(x) + list_sum(x) > 1",
        "read_text('/etc/hosts') = 'a'",
        "s + 1 = x",
        "dt = '2024/13/45'",
    ],
)
def test_what_duckdb_refuses_is_an_invalid_argument(text: str) -> None:
    with pytest.raises(InvalidArgument):
        polars.filter_rows(parse_filter(text, FIELDS), FIELDS, FRAME.lazy()).collect()


def test_what_only_a_row_can_tell_is_an_invalid_argument_when_it_is_read() -> None:
    frame = polars.filter_rows(parse_filter("s::INT = 1", FIELDS), FIELDS, FRAME.lazy())
    with pytest.raises(InvalidArgument, match="DuckDB cannot evaluate 's::INT = 1': Conversion Error"):
        frame.collect()


def test_decimals_too_large_to_rescale_in_duckdb_compare_exactly() -> None:
    assert kept("big > 0.1") == [i for i, row in enumerate(edge_rows()) if row["big"] and row["big"] > 0]


def test_columns_that_differ_only_in_case_cannot_meet_in_one_sql_condition() -> None:
    fields = (DataField(0, "a", IntType()), DataField(1, "A", IntType()))
    with pytest.raises(Unsupported, match="differ only in case"):
        polars.filter_rows(parse_filter('"a" = "A"', fields), fields, pl.LazyFrame({"a": [1], "A": [1]}))
