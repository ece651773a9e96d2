"""Arrow types as Paimon types: without loss, or not at all."""

from __future__ import annotations

import pyarrow as pa
import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.schema.arrow_types import paimon_type


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
        (pa.uuid(), "BINARY(16)"),
        (pa.json_(), "STRING"),
        (pa.decimal32(5, 2), "DECIMAL(5, 2)"),
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
        (pa.list_(pa.float32(), 4), "ARRAY<FLOAT>"),
        (pa.map_(pa.string(), pa.int32()), "MAP<STRING NOT NULL, INT>"),
    ],
)
def test_what_holds_every_value(arrow: pa.DataType, paimon: str) -> None:
    assert str(paimon_type(arrow, "c")) == paimon


def test_structs_keep_names_nulls_and_comments() -> None:
    arrow = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.uint8(), metadata={"comment": "x"})])
    assert paimon_type(arrow, "c") == t.RowType(
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
        paimon_type(arrow, "c")


def test_inside_of_others_the_whole_path_is_named() -> None:
    arrow = pa.list_(pa.field("item", pa.struct([pa.field("t", pa.time64("ns"))])))
    with pytest.raises(InvalidArgument, match=r"the column 'c\.item\.t' has"):
        paimon_type(arrow, "c")


@pytest.mark.parametrize(
    "text",
    ["INT", "STRING", "TIMESTAMP(3)", "DECIMAL(7, 3)", "ARRAY<ROW<`a` INT NOT NULL>>", "MAP<INT NOT NULL, DATE>"],
)
def test_what_morrow_returns_makes_the_same_table_again(text: str) -> None:
    from morrow.engine.schema.sql import parse_type

    assert str(paimon_type(parse_type(text, "c").arrow(), "c")) == text
