"""Default values: their text in schema files, and the values that it stands for."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.schema.defaults import check_default, parse_default
from morrow.engine.schema.sql_columns import parse_type


def value(kind: str, text: str) -> pa.Scalar:
    return parse_default(parse_type(kind, "c"), text, "c")


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("BOOLEAN", "Yes", True),
        ("ARRAY<STRING>", "ARRAY('a', 'it\\'s, b', \"c\", null)", ["a", "it's, b", "c", None]),
        ("ARRAY<INT>", "[1, 2]", [1, 2]),
        ("ARRAY<ARRAY<INT>>", "array(array(1), ARRAY())", [[1], []]),
        ("MAP<INT, DOUBLE>", "map(99, 99.99D)", [(99, 99.99)]),
        ("MAP<STRING, INT>", "{a -> 1, b -> null}", [("a", 1), ("b", None)]),
        ("MAP<STRING, INT>", "MAP()", []),
        ("ROW<x INT, y STRING>", "STRUCT(42, 'v')", {"x": 42, "y": "v"}),
        ("ROW<x DATE, y ARRAY<INT>>", "{2026-01-02, [1]}", {"x": date(2026, 1, 2), "y": [1]}),
        ("ROW<x DATE>", "struct(DATE'2026-01-02')", {"x": date(2026, 1, 2)}),
        ("ROW<x INT>", "STRUCT()", {"x": None}),
        ("BOOLEAN", "0", False),
        ("TINYINT", "-128", -128),
        ("INT", "+7.9", 7),
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("DOUBLE", "-1.5e3", -1500.0),
        ("FLOAT", "Infinity", float("inf")),
        ("DECIMAL(5, 2)", "1.235", Decimal("1.24")),
        ("STRING", "plain", "plain"),
        ("STRING", "'quoted'", "quoted"),
        ("STRING", "it's", "it's"),
        ("STRING", "", ""),
        ("VARCHAR(3)", "abcd", "abc"),
        ("CHAR(3)", "a", "a  "),
        ("BYTES", "ab", b"ab"),
        ("BINARY(3)", "ab", b"ab\0"),
        ("DATE", "2024-1-2", date(2024, 1, 2)),
        ("DATE", "2024-01-02 10:00", date(2024, 1, 2)),
        ("DATE", "-1", date(1969, 12, 31)),
        ("TIME(3)", "12:30:01.5", time(12, 30, 1, 500_000)),
        ("TIME(3)", "3600000", time(1)),
        ("TIMESTAMP(6)", "2024-01-02 03:04:05.678901", datetime(2024, 1, 2, 3, 4, 5, 678_901)),
        ("TIMESTAMP(0)", "2024-01-02", datetime(2024, 1, 2)),
        ("TIMESTAMP(3)", "1500", datetime(1970, 1, 1, 0, 0, 1, 500_000)),
        ("TIMESTAMP_LTZ(3)", "2024-01-02 03:04:05", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ],
)
def test_texts_are_cast_to_the_type(kind: str, text: str, expected: Any) -> None:
    found = value(kind, text)
    assert found.as_py() == expected
    assert found.type == parse_type(kind, "c").arrow()


def test_digits_beyond_the_precision_are_cut_off() -> None:
    assert value("TIMESTAMP(9)", "1970-01-01 00:00:00.123456789").value == 123_456_789
    assert value("TIMESTAMP(7)", "1970-01-01 00:00:00.123456789").value == 123_456_700


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("BOOLEAN", "maybe"),
        ("TINYINT", "128"),
        ("INT", ""),
        ("INT", "1e3"),
        ("DOUBLE", "one"),
        ("DECIMAL(3, 1)", "100"),
        ("DECIMAL(3, 1)", "NaN"),
        ("DATE", "2024-02-30"),
        ("DATE", "today"),
        ("TIME(3)", "25:00:00"),
        ("TIMESTAMP(3)", "2024-01-02T03:04:05"),
        ("TIMESTAMP(5)", "1500"),
        ("STRING", "'"),
        ("ARRAY<INT>", "1"),
        ("ARRAY<INT>", "ARRAY('a')"),
        ("MAP<INT, INT>", "MAP(1)"),
        ("ROW<a INT>", "STRUCT(1, 2)"),
    ],
)
def test_what_is_no_value_of_the_type(kind: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"the column 'c': the default value .* is not a valid "):
        value(kind, text)


@pytest.mark.parametrize("kind", ["VARIANT", "BLOB"])
def test_types_without_default_values(kind: str) -> None:
    with pytest.raises(Unsupported, match="the column 'c': a default value of the type"):
        value(kind, "1")


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        ("BOOLEAN", True, "true"),
        ("INT", 5, "5"),
        ("DOUBLE", float("nan"), "NaN"),
        ("DECIMAL(5, 2)", Decimal("1E+2"), "100"),
        ("DATE", date(2024, 1, 2), "2024-01-02"),
        ("TIMESTAMP(6)", datetime(2024, 1, 2, 3, 4, 5, 6), "2024-01-02 03:04:05.000006"),
        ("TIMESTAMP_LTZ(6)", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02 03:04:05"),
        ("TIME(3)", time(1, 2, 3), "01:02:03"),
        ("STRING", "text", "text"),
        ("INT", None, None),
    ],
)
def test_python_values_become_texts(kind: str, given: object, text: str | None) -> None:
    assert check_default(parse_type(kind, "c"), given, "c") == text


def test_nanoseconds_of_pandas_are_kept() -> None:
    pandas = pytest.importorskip("pandas")
    given = pandas.Timestamp("2024-01-02 03:04:05.000000006")
    assert check_default(parse_type("TIMESTAMP(9)", "c"), given, "c") == str(given)


def test_what_has_no_text() -> None:
    with pytest.raises(InvalidArgument, match="is of no type that has a text form"):
        check_default(parse_type("INT", "c"), [1], "c")
