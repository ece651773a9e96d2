"""Columns from whatever describes them, and the ids they get."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.schema.columns import columns_of, numbered
from morrow.engine.schema.sql import Column

EXPECTED = (Column("id", t.BigIntType()), Column("name", t.VarCharType()))
ARROW = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.mark.parametrize(
    "schema",
    [
        "id BIGINT, name STRING",
        ARROW,
        ARROW.empty_table(),
        {"id": "BIGINT", "name": pa.large_string()},
        {"id": t.BigIntType(), "name": "STRING"},
        pl.Schema({"id": pl.Int64, "name": pl.String}),
        pl.DataFrame({"id": [1], "name": ["a"]}),
        pl.LazyFrame({"id": [1], "name": ["a"]}),
        EXPECTED,
        [("id", "BIGINT"), pa.field("name", pa.string())],
        (t.DataField(7, "id", t.BigIntType()), t.DataField(3, "name", t.VarCharType())),
        TableSchema(4, (t.DataField(7, "id", t.BigIntType()), t.DataField(3, "name", t.VarCharType())), 9),
    ],
    ids=lambda schema: type(schema).__name__,
)
def test_what_describes_columns(schema: Any) -> None:
    assert columns_of(schema).columns == EXPECTED


def test_a_relation_of_duckdb() -> None:
    with duckdb.connect() as connection:
        assert columns_of(connection.sql("SELECT 1::BIGINT AS id, 'a' AS name")).columns == EXPECTED


def test_arrow_fields_bring_nulls_and_comments() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata={"comment": "the key"})])
    assert columns_of(schema).columns == (Column("id", t.BigIntType(False), "the key"),)


def test_text_in_a_mapping_may_go_on_after_the_type() -> None:
    (column,) = columns_of({"a b": "INT NOT NULL COMMENT 'pieces' DEFAULT 1"}).columns
    assert column == Column("a b", t.IntType(False), "pieces", "1")


def test_types_in_a_mapping_may_be_those_of_polars_and_python() -> None:
    kinds = {"a": pl.Int64, "b": pl.Decimal(10, 2), "c": pl.Datetime, "d": pl.List(pl.Int32), "e": str, "f": dt.date}

    columns = columns_of(kinds).columns

    assert [str(column.type) for column in columns] == [
        *("BIGINT", "DECIMAL(10, 2)", "TIMESTAMP(6)", "ARRAY<INT>", "STRING", "DATE"),
    ]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"a": object}, "the column 'a' has the type <class 'object'>"),
        ({"a": pl.Object}, "the column 'a' has the type Object"),
        ({"a": pl.Unknown}, "the column 'a' has the type Unknown"),
        ({"a": pl.Duration}, "the column 'a' has the type Duration"),
        (5, "int describes no columns"),
        ([5], "int describes no columns"),
        ({"a": 7}, "the column 'a' has the type 7"),
        ({5: "INT"}, "the column name 5 is no text"),
        ({"a": "INT, b INT"}, "no list of columns"),
    ],
)
def test_what_describes_none(schema: Any, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        columns_of(schema)


def test_a_column_is_numbered_before_and_a_member_after_what_is_inside() -> None:
    # As the golden table types_nested_deep has it.
    columns = columns_of(
        "id INT, a ARRAY<ARRAY<ROW<x INT, y MAP<STRING, ARRAY<BIGINT>>>>>, "
        "b MAP<STRING, MAP<INT, ROW<q TIMESTAMP(3), d DECIMAL(20, 4)>>>, c ROW<r ROW<s ROW<t STRING>>>"
    ).columns
    fields, highest = numbered(columns)

    assert [field.id for field in fields] == [0, 1, 4, 7]
    assert str(fields[3].type) == "ROW<`r` ROW<`s` ROW<`t` STRING>>>"
    assert highest == 10
    r = fields[3].type.fields[0]  # type: ignore[attr-defined]  # a row, as its text shows
    s = r.type.fields[0]
    assert (r.id, s.id, s.type.fields[0].id) == (10, 9, 8)


def test_ids_go_on_after_those_that_are_taken() -> None:
    fields, highest = numbered([Column("x", t.IntType())], 5)
    assert (fields[0].id, highest) == (5, 5)
    assert numbered([], 5) == ((), 4)
