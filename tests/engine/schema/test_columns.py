"""Columns from every kind of description, and the field ids they get."""

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
from morrow.engine.schema.columns import assign_ids, read_columns, to_paimon_type
from morrow.engine.schema.sql_columns import Column

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
    assert read_columns(schema).columns == EXPECTED


def test_a_relation_of_duckdb() -> None:
    with duckdb.connect() as connection:
        assert read_columns(connection.sql("SELECT 1::BIGINT AS id, 'a' AS name")).columns == EXPECTED


def test_arrow_fields_bring_nulls_and_comments() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata={"comment": "the key"})])
    assert read_columns(schema).columns == (Column("id", t.BigIntType(False), "the key"),)


def test_text_in_a_mapping_may_go_on_after_the_type() -> None:
    (column,) = read_columns({"a b": "INT NOT NULL COMMENT 'pieces' DEFAULT 1"}).columns
    assert column == Column("a b", t.IntType(False), "pieces", "1")


def test_types_in_a_mapping_may_be_those_of_polars_and_python() -> None:
    kinds = {"a": pl.Int64, "b": pl.Decimal(10, 2), "c": pl.Datetime, "d": pl.List(pl.Int32), "e": str, "f": dt.date}

    columns = read_columns(kinds).columns

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
        ({5: "INT"}, "the column name 5 is not text"),
        ({"a": "INT, b INT"}, "not a list of columns"),
    ],
)
def test_what_describes_none(schema: Any, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        read_columns(schema)


def test_a_column_is_numbered_before_and_a_member_after_what_is_inside() -> None:
    # The columns of the golden table types_nested_deep.
    columns = read_columns(
        "id INT, a ARRAY<ARRAY<ROW<x INT, y MAP<STRING, ARRAY<BIGINT>>>>>, "
        "b MAP<STRING, MAP<INT, ROW<q TIMESTAMP(3), d DECIMAL(20, 4)>>>, c ROW<r ROW<s ROW<t STRING>>>"
    ).columns
    fields, highest = assign_ids(columns)

    assert [field.id for field in fields] == [0, 1, 4, 7]
    assert str(fields[3].type) == "ROW<`r` ROW<`s` ROW<`t` STRING>>>"
    assert highest == 10
    r = fields[3].type.fields[0]  # type: ignore[attr-defined]  # its text shows a row
    s = r.type.fields[0]
    assert (r.id, s.id, s.type.fields[0].id) == (10, 9, 8)


def test_ids_go_on_after_those_that_are_taken() -> None:
    fields, highest = assign_ids([Column("x", t.IntType())], 5)
    assert (fields[0].id, highest) == (5, 5)
    assert assign_ids([], 5) == ((), 4)


# Arrow types become Paimon types without loss, or are refused.


OF_NEWER_ARROW: tuple[tuple[str, tuple[int, ...], str], ...] = (
    ("uuid", (), "BINARY(16)"),
    ("json_", (), "STRING"),
    ("decimal32", (5, 2), "DECIMAL(5, 2)"),
)


@pytest.mark.parametrize(
    ("arrow", "paimon"),
    [
        (pa.bool_(), "BOOLEAN"),
        (pa.int8(), "TINYINT"),
        (pa.int16(), "SMALLINT"),
        (pa.int32(), "INT"),
        (pa.int64(), "BIGINT"),
        (pa.uint8(), "SMALLINT"),
        (pa.uint16(), "INT"),
        (pa.uint32(), "BIGINT"),
        (pa.uint64(), "DECIMAL(20, 0)"),
        (pa.float16(), "FLOAT"),
        (pa.float32(), "FLOAT"),
        (pa.float64(), "DOUBLE"),
        (pa.string(), "STRING"),
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
        (pa.run_end_encoded(pa.int32(), pa.int16()), "SMALLINT"),
        (pa.binary(), "BYTES"),
        (pa.large_binary(), "BYTES"),
        (pa.binary_view(), "BYTES"),
        (pa.binary(16), "BINARY(16)"),
        *((getattr(pa, name)(*args), text) for name, args, text in OF_NEWER_ARROW if hasattr(pa, name)),
        (pa.decimal128(38, 10), "DECIMAL(38, 10)"),
        (pa.decimal256(30, 4), "DECIMAL(30, 4)"),
        (pa.decimal128(3, 5), "DECIMAL(5, 5)"),
        (pa.decimal128(3, -2), "DECIMAL(5, 0)"),
        (pa.date32(), "DATE"),
        (pa.date64(), "DATE"),
        (pa.time32("s"), "TIME(0)"),
        (pa.time32("ms"), "TIME(3)"),
        (pa.timestamp("s"), "TIMESTAMP(0)"),
        (pa.timestamp("ms"), "TIMESTAMP(3)"),
        (pa.timestamp("us"), "TIMESTAMP(6)"),
        (pa.timestamp("ns"), "TIMESTAMP(9)"),
        (pa.timestamp("us", tz="Europe/Rome"), "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (pa.list_(pa.int8()), "ARRAY<TINYINT>"),
        (pa.large_list(pa.field("item", pa.int8(), nullable=False)), "ARRAY<TINYINT NOT NULL>"),
        (pa.list_view(pa.string()), "ARRAY<STRING>"),
        (pa.list_(pa.float32(), 4), "VECTOR<FLOAT, 4>"),
        (pa.list_(pa.string(), 4), "ARRAY<STRING>"),
        (pa.map_(pa.string(), pa.int32()), "MAP<STRING NOT NULL, INT>"),
    ],
)
def test_what_holds_every_value(arrow: pa.DataType, paimon: str) -> None:
    assert str(to_paimon_type(arrow, "c")) == paimon


def test_structs_keep_names_nulls_and_comments() -> None:
    arrow = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.uint8(), metadata={"comment": "x"})])
    assert to_paimon_type(arrow, "c") == t.RowType(
        fields=(t.DataField(0, "a", t.IntType(False)), t.DataField(1, "b", t.SmallIntType(), "x"))
    )


@pytest.mark.parametrize(
    ("arrow", "what_to_use"),
    [
        (pa.null(), r"name one, such as pa.string\(\)"),
        (pa.time64("us"), "use pa.time32"),
        (pa.time64("ns"), r"TIME\(3\) in SQL"),
        (pa.duration("s"), r"use pa.int64\(\)"),
        (pa.month_day_nano_interval(), r"use pa.int64\(\)"),
        (pa.decimal256(40, 2), "38 digits at most"),
        (pa.sparse_union([pa.field("a", pa.int8())]), "a struct with a field for each case"),
    ],
)
def test_what_nothing_holds_names_the_column_and_what_to_use(arrow: pa.DataType, what_to_use: str) -> None:
    with pytest.raises(InvalidArgument, match=f"the column 'c' has the Arrow type .*{what_to_use}"):
        to_paimon_type(arrow, "c")


def test_inside_of_others_the_whole_path_is_named() -> None:
    arrow = pa.list_(pa.field("item", pa.struct([pa.field("t", pa.time64("ns"))])))
    with pytest.raises(InvalidArgument, match=r"the column 'c\.item\.t' has"):
        to_paimon_type(arrow, "c")


@pytest.mark.parametrize(
    "text",
    ["INT", "STRING", "TIMESTAMP(3)", "DECIMAL(7, 3)", "ARRAY<ROW<`a` INT NOT NULL>>", "MAP<INT NOT NULL, DATE>"],
)
def test_what_morrow_returns_makes_the_same_table_again(text: str) -> None:
    from morrow.engine.schema.sql_columns import parse_type

    assert str(to_paimon_type(parse_type(text, "c").arrow(), "c")) == text
