"""Casts that keep values, and casts that wrap, round, truncate or lose them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from morrow.engine.format import types as t
from morrow.engine.schema.sql_columns import parse_type
from morrow.readers.casts import cast_array
from morrow.readers.casts.base import Cast, TypeChange
from morrow.readers.casts.rules import is_allowed
from morrow.readers.execution.type_changes import find_first_loss, is_lossless

D = Decimal
UTC = dt.UTC


def second(micros: int = 0, zone: dt.timezone | None = None) -> dt.datetime:
    return dt.datetime(2024, 1, 1, 0, 0, 0, micros, tzinfo=zone)


CASES: list[tuple[str, str, list[object], object, object]] = [
    ("BIGINT", "INT", [2**31 - 1, -(2**31)], 2**31, -(2**31)),
    ("INT", "TINYINT", [-128, 127], 128, -128),
    ("INT", "FLOAT", [2**24, -(2**31)], 2**31 - 1, 2.0**31),
    ("BIGINT", "DOUBLE", [2**53, -(2**63)], 2**63 - 1, 2.0**63),
    ("BIGINT", "DECIMAL(4, 2)", [99, -99], 100, None),
    ("INT", "BOOLEAN", [0, 1], 2, True),
    ("INT", "CHAR(3)", [1, 123], 1234, "123"),
    ("DECIMAL(10, 2)", "DECIMAL(10, 1)", [D("1.50")], D("1.55"), D("1.6")),
    ("DECIMAL(10, 2)", "DECIMAL(4, 2)", [D("99.99")], D("100.00"), None),
    ("DECIMAL(10, 2)", "INT", [D("5.00")], D("5.01"), 5),
    ("DECIMAL(20, 2)", "DOUBLE", [D("0.10")], D("123456789012345678.01"), 123456789012345680.0),
    ("DOUBLE", "FLOAT", [0.5, float("nan"), float("inf")], 1e300, float("inf")),
    ("DOUBLE", "INT", [5.0, -0.0], 5.5, 5),
    ("DOUBLE", "BIGINT", [5.0], float("nan"), 0),
    ("DOUBLE", "DECIMAL(10, 2)", [0.1], 0.125, D("0.13")),
    ("DOUBLE", "VARCHAR(3)", [1.5], 12.25, "12."),
    ("TIMESTAMP(6)", "TIMESTAMP(3)", [second(1000)], second(1001), "2024-01-01 00:00:00.001"),
    ("TIMESTAMP_LTZ(6)", "TIMESTAMP_LTZ(3)", [second(1000, UTC)], second(1, UTC), "2024-01-01 00:00:00.000Z"),
    ("TIMESTAMP(3)", "DATE", [second()], second(1000), "2024-01-01"),
    ("TIMESTAMP(3)", "INT", [second()], second(1000), 1704067200),
    ("STRING", "VARCHAR(3)", ["abc", "ab "], "abcd", "abc"),
    ("STRING", "CHAR(3)", ["abc", "a"], "abcd", "abc"),
    ("BYTES", "BINARY(3)", [b"abc", b"a"], b"abcd", b"abc"),
    ("BYTES", "STRING", [b"abc"], b"\xff", "\ufffd"),
    ("STRING", "DECIMAL(4, 2)", ["7", "1.5"], "123456", None),
]


@pytest.mark.parametrize(("before", "after", "kept", "lost", "made"), CASES)
@pytest.mark.parametrize("around", ["{}", "ARRAY<{}>", "MAP<STRING, {}>", "ROW<a {}>"])
def test_the_first_value_that_is_lost(
    before: str, after: str, kept: list[object], lost: object, made: object, around: str
) -> None:
    source, target = (parse_type(around.format(kind), "v") for kind in (before, after))
    cast = Cast(source, target, change=TypeChange(("v",), 0, 1))

    def column(values: list[object]) -> pa.Array:
        inside = {"{}": lambda x: x, "ARRAY<{}>": lambda x: [None, x], "MAP<STRING, {}>": lambda x: [("k", x)]}
        wrapped = [inside.get(around, lambda x: {"a": x})(value) for value in values]
        return pa.array([None, *wrapped], source.arrow())

    assert not is_lossless(source, target)
    assert find_first_loss(column(kept), cast) is None
    found = find_first_loss(column([*kept, lost]), cast)
    assert found is not None
    step = {"ARRAY<{}>": ("element",), "MAP<STRING, {}>": ("value",), "ROW<a {}>": ("a",)}.get(around, ())
    assert found.path == ("v", *step)
    assert (found.source, found.target) == (parse_type(before, "v"), parse_type(after, "v"))
    assert str(found.made) == str(made)


EXTREMES: dict[str, list[object]] = {
    "TINYINT": [-128, 127],
    "SMALLINT": [-(2**15), 2**15 - 1],
    "INT": [-(2**31), 2**31 - 1],
    "BIGINT": [-(2**63), 2**63 - 1],
    "BOOLEAN": [True, False],
    "FLOAT": [3.4e38, 1e-45, float("inf")],
    "DOUBLE": [1.7e308, 5e-324],
    "DECIMAL(4, 2)": [D("99.99"), D("-0.01")],
    "DECIMAL(38, 2)": [D("9" * 36 + ".99")],
    "DATE": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "TIMESTAMP(3)": [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999000)],
    "TIMESTAMP(6)": [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "VARCHAR(3)": ["", "abc"],
    "STRING": ["", "abcd" * 9],
    "VARBINARY(3)": [b"", b"abc"],
    "BYTES": [b"\xff" * 9],
}


@pytest.mark.parametrize("before", EXTREMES)
def test_types_that_keep_all_values_do(before: str) -> None:
    source = parse_type(before, "v")
    values = pa.array(EXTREMES[before], source.arrow())
    for after in EXTREMES:
        target = parse_type(after, "v")
        if is_lossless(source, target) and is_allowed(source, target) and is_allowed(target, source):
            made = pa.array(values)
            for one, other in ((source, target), (target, source)):
                made = cast_array(made, one, other)
            assert made.equals(values), after


def test_text_that_is_no_value_of_the_type_breaks_reads() -> None:
    loss = find_first_loss(pa.array(["7", "abc"]), Cast(t.VarCharType(), t.IntType()))
    assert loss is not None
    assert (loss.value, loss.breaks) == ("abc", True)
    loss = find_first_loss(pa.array([float("inf")]), Cast(t.DoubleType(), t.DecimalType(precision=4, scale=2)))
    assert loss is not None
    assert loss.breaks
