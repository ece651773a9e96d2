"""Names, literals and paths in SQL text: whatever they hold, they stay names, literals and paths."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarCharType,
)
from morrow.engine.plan.predicate import And, Leaf, Op, Or
from morrow.readers.expressions.sql import compile, quote_identifier, quote_literal, quote_path, quote_text
from tests.support.one_duckdb import one_duckdb

FIELDS = (DataField(0, "x", IntType()), DataField(1, "dt", DateType()), DataField(2, 'a"b', VarCharType()))
NASTY = [
    "'",
    '"',
    "''",
    '""',
    "\\",
    "\\'",
    "--",
    ";",
    "/*",
    "*/",
    "\n",
    "\t",
    "$$",
    "$1",
    "?",
    "%",
    "x' OR '1'='1",
    '"; DROP TABLE t; --',
    "\u2019",
    "🙂",
]


def answer(expression: str) -> Any:
    with one_duckdb().cursor() as connection:
        return connection.execute(f"SELECT {expression}").fetchall()[0][0]


def test_a_predicate_reads_as_sql() -> None:
    predicate = And(
        (
            Leaf("x", Op.IN, (1, -2)),
            Or((Leaf("dt", Op.GE, (dt.date(2024, 1, 1),)), Leaf('a"b', Op.STARTS_WITH, ("it's",)))),
        )
    )
    assert compile(predicate, FIELDS) == (
        "(\"x\" IN (CAST('1' AS INTEGER), CAST('-2' AS INTEGER)) AND "
        "(\"dt\" >= DATE '2024-01-01' OR starts_with(\"a\"\"b\", 'it''s')))"
    )


@pytest.mark.parametrize(
    ("value", "kind", "sql"),
    [
        (True, BooleanType(), "TRUE"),
        (-128, TinyIntType(), "CAST('-128' AS TINYINT)"),
        (0.25, FloatType(), "CAST('0.25' AS FLOAT)"),
        (float("-inf"), FloatType(), "CAST('-inf' AS FLOAT)"),
        (Decimal("1E+2"), DecimalType(precision=5, scale=2), "CAST('100' AS DECIMAL(5, 2))"),
        (b"\x00'", BinaryType(length=2), "CAST('\\x00\\x27' AS BLOB)"),
        (dt.time(10, 0, 0, 1000), TimeType(), "TIME '10:00:00.001000'"),
        (dt.datetime(2024, 1, 1, 10), TimestampType(precision=3), "TIMESTAMP_MS '2024-01-01 10:00:00'"),
        (dt.datetime(2024, 1, 1, 10), TimestampType(precision=9), "TIMESTAMP_NS '2024-01-01 10:00:00'"),
        (
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            LocalZonedTimestampType(),
            "TIMESTAMPTZ '2024-01-01 00:00:00+00:00'",
        ),
    ],
)
def test_literals_carry_the_type_of_their_column(value: Any, kind: DataType, sql: str) -> None:
    assert quote_literal(value, kind) == sql
    answer(f"({sql}) IS NOT NULL")


@given(text=st.text(max_size=20) | st.lists(st.sampled_from(NASTY), max_size=4).map("".join))
@settings(max_examples=settings().max_examples)
def test_any_text_comes_back_as_it_was(text: str) -> None:
    assert answer(quote_text(text)) == text


@given(value=st.binary(max_size=20))
@settings(max_examples=settings().max_examples // 2)
def test_any_bytes_come_back_as_they_were(value: bytes) -> None:
    assert answer(quote_literal(value, BinaryType(length=20))) == value


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=10)


@given(name=names | st.lists(st.sampled_from(NASTY), min_size=1, max_size=4).map("".join), value=st.integers(-5, 5))
@settings(max_examples=settings().max_examples)
def test_any_name_stays_a_name(name: str, value: int) -> None:
    field = DataField(0, name, IntType())
    data = pa.table({name: pa.array([value, value + 1, None], pa.int32())})
    with one_duckdb().cursor() as connection:
        connection.register("data", data)
        where = compile(Leaf(name, Op.EQ, (value,)), [field])
        assert connection.execute(f"SELECT {quote_identifier(name)} FROM data WHERE {where}").fetchall() == [(value,)]


@pytest.mark.parametrize("name", ["plain", "a[b]", "a*b", "a?b", "it's", "a b", "[*?]", "ä-日本", "a{b,c}", "a\\b"])
def test_a_path_is_one_file_even_where_globs_match_others(tmp_path: Path, name: str) -> None:
    for i, other in enumerate([name, "ab", "axb", "b", "ac", "*"]):
        pl.DataFrame({"i": [i if other != name else 0]}).write_parquet(tmp_path / f"{other}.parquet")
    assert answer(f"list(i) FROM read_parquet({quote_path(str(tmp_path / name))[:-1]}.parquet')") == [0]


def test_what_cannot_be_written_is_refused() -> None:
    for name in ("", "a\0b"):
        with pytest.raises(InvalidArgument, match="cannot be written in SQL"):
            quote_identifier(name)
    with pytest.raises(Unsupported, match="literal of type ARRAY<INT>"):
        quote_literal(1, ArrayType(element=IntType()))
    with pytest.raises(ColumnNotFound, match="'y' is not among the columns read: x, dt"):
        compile(Leaf("y", Op.EQ, (1,)), FIELDS)
