"""The time of a partition: what Java's PartitionTimeExtractor makes of its values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest

from morrow.engine.format.binary_row import Value
from morrow.engine.format.types import DataField, DateType, IntType, TimestampType, VarCharType
from morrow.engine.options.partition_expiry import parse_partition_expiry
from morrow.writers.history.expiry.partition_times import default_time, partition_time
from tests.engine.format.test_date_patterns import nanos

JAVA_READS = [
    ("2024-01-31", "2024-01-31T00:00"),
    ("2024-1-5", "2024-01-05T00:00"),
    ("24-1-1", "0024-01-01T00:00"),
    ("2024-13-45", "2025-02-14T00:00"),
    ("2024-02-30", "2024-03-01T00:00"),
    ("0000-00-00", "-0001-11-30T00:00"),
    ("-5-01-01", "-0005-01-01T00:00"),
    ("-0-01-01", None),
    ("2024--1-01", "2023-11-01T00:00"),
    ("12345678901-01-01", None),
    ("9999999999-01-01", None),
    ("2024-01-31 07:08:09", "2024-01-31T07:08:09"),
    ("2024-01-31 7:8:9", "2024-01-31T07:08:09"),
    ("2024-01-31 24:00:00", "2024-02-01T00:00"),
    ("2024-01-31 25:61:61", "2024-02-01T02:02:01"),
    ("2024-01-31 00:00:00.5", "2024-01-31T00:00:00.500"),
    ("2024-01-31 00:00:00.1234567890", None),
    ("2024-01-31 00:00", None),
    ("2024-01-31T00:00:00", None),
    ("2024-01-31 ", None),
    ("20240131", None),
    ("", None),
    ("19723", None),
    ("+2024-01-31", None),
]
"""Text, and the time that Java prints without pattern and formatter; None where it throws."""

TEXT = VarCharType(10)


@pytest.mark.parametrize(("text", "time"), JAVA_READS)
def test_without_formatter_dates_and_times_are_read_leniently(text: str, time: str | None) -> None:
    assert default_time(text) == nanos(time)


@pytest.mark.parametrize(
    ("pattern", "formatter", "partition", "time"),
    [
        (None, None, {"dt": "2024-01-31", "hr": None}, "2024-01-31T00:00"),
        (None, None, {"hr": "7", "dt": "2024-01-31"}, None),
        (None, None, {"dt": None}, None),
        ("$year-$month-$day", None, {"year": "2024", "month": "1", "day": "31"}, "2024-01-31T00:00"),
        ("$year-$month-01 $h:00:00", None, {"year": "2024", "month": "1", "h": "7"}, "2024-01-01T07:00"),
        ("$dt", None, {"region": "eu", "dt": "2024-01-31"}, "2024-01-31T00:00"),
        ("$dt $hr", "yyyyMMdd HH", {"dt": "20240131", "hr": "07"}, "2024-01-31T07:00"),
        ("2024-$month-$m", None, {"month": "1", "m": "3"}, "2024-01-03T00:00"),
        ("2024-$month-$m", None, {"m": "3", "month": "1"}, None),  # $m is found in $month first
        ("$dt", None, {"dt": "2024-01-31", "hr": None}, None),
    ],
)
def test_a_pattern_puts_values_together(
    pattern: str | None, formatter: str | None, partition: dict[str, str | None], time: str | None
) -> None:
    fields = [DataField(i, name, TEXT) for i, name in enumerate(partition)]
    assert _time(fields, [*partition.values()], pattern, formatter) == nanos(time)


@pytest.mark.parametrize(
    ("field", "value", "formatter", "time"),
    [
        (DataField(0, "d", DateType()), dt.date(2024, 1, 31), None, None),  # Java has its epoch days, 19753
        (DataField(0, "i", IntType()), 20240131, "yyyyMMdd", "2024-01-31T00:00"),
        (DataField(0, "t", TimestampType(3)), dt.datetime(2024, 1, 31, 7), None, None),
        (DataField(0, "t", TimestampType(3)), dt.datetime(2024, 1, 31, 7), "yyyy-MM-dd'T'HH:mm", "2024-01-31T07:00"),
    ],
)
def test_values_are_texts_as_java_prints_them(
    field: DataField, value: Value, formatter: str | None, time: str | None
) -> None:
    assert _time([field], [value], None, formatter) == nanos(time)


def _time(
    fields: Sequence[DataField], values: Sequence[Value], pattern: str | None, formatter: str | None
) -> int | None:
    given = {"partition.timestamp-pattern": pattern, "partition.timestamp-formatter": formatter}
    raw = {key: value for key, value in given.items() if value is not None}
    return partition_time(parse_partition_expiry(raw, where="t"), fields, values)
