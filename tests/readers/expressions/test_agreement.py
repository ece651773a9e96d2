"""A predicate keeps the same rows in Polars, Arrow and DuckDB as a simple evaluator that takes row by row."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morrow.engine.plan.predicate import ALWAYS, NEVER, And, Leaf, Op, Or, Predicate
from morrow.readers.expressions import arrow, polars, sql
from tests.support.predicates import COLUMNS, COMPARISONS, FIELDS, edge_rows, matching, predicates, rows, table


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'Europe/Berlin'")  # literals of instants must not depend on the zone
    return connection


def kept_by_polars(predicate: Predicate, data: pa.Table) -> list[int]:
    return pl.DataFrame(data).lazy().filter(polars.compile(predicate, FIELDS)).collect()["row"].to_list()


def kept_by_arrow(predicate: Predicate, data: pa.Table) -> list[int]:
    kept: list[int] = data.filter(arrow.compile(predicate, FIELDS)).column("row").to_pylist()
    return kept


def kept_by_duckdb(connection: duckdb.DuckDBPyConnection, predicate: Predicate, data: pa.Table) -> list[int]:
    connection.register("data", data)
    query = f"SELECT row FROM data WHERE {sql.compile(predicate, FIELDS)}"
    return [row for (row,) in connection.execute(query).fetchall()]


def assert_agree(connection: duckdb.DuckDBPyConnection, predicate: Predicate, data: list[dict[str, Any]]) -> None:
    expected, arrow_rows = matching(predicate, data), table(data)
    assert kept_by_polars(predicate, arrow_rows) == expected
    assert kept_by_arrow(predicate, arrow_rows) == expected
    assert kept_by_duckdb(connection, predicate, arrow_rows) == expected


@given(predicate=predicates(), data=rows())
@settings(max_examples=settings().max_examples)
def test_random_trees(duck: duckdb.DuckDBPyConnection, predicate: Predicate, data: list[dict[str, Any]]) -> None:
    assert_agree(duck, predicate, data)


@pytest.mark.parametrize("name", list(COLUMNS))
def test_every_operator_with_every_hard_value(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    data, values = edge_rows(), COLUMNS[name][1]
    for op in COMPARISONS:
        for value in values:
            assert_agree(duck, Leaf(name, op, (value,)), data)
    for op in (Op.IN, Op.NOT_IN):
        assert_agree(duck, Leaf(name, op, tuple(values[:3])), data)
        assert_agree(duck, Leaf(name, op, tuple(values[-2:])), data)
        assert_agree(duck, Leaf(name, op), data)
    for op in (Op.IS_NULL, Op.IS_NOT_NULL):
        assert_agree(duck, Leaf(name, op), data)


@given(prefix=st.text(max_size=3), values=st.lists(st.text(max_size=5), max_size=5))
@settings(max_examples=settings().max_examples // 2)
def test_prefixes_of_any_text(duck: duckdb.DuckDBPyConnection, prefix: str, values: list[str]) -> None:
    data = [{"s": value} for value in [*values, prefix, prefix + "x", None]]
    for op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH, Op.EQ, Op.LT):
        assert_agree(duck, Leaf("s", op, (prefix,)), data)


def test_all_rows_and_no_rows(duck: duckdb.DuckDBPyConnection) -> None:
    assert_agree(duck, ALWAYS, edge_rows())
    assert_agree(duck, NEVER, edge_rows())


def test_a_thousand_conditions_do_not_nest_a_thousand_deep(duck: duckdb.DuckDBPyConnection) -> None:
    leaves = tuple(Leaf("x", Op.EQ, (i,)) for i in range(2000))
    assert_agree(duck, Or(leaves), edge_rows())
    assert_agree(duck, And(leaves), edge_rows())
