"""Periods of automatic tags, with expected values from Java's TagPeriodHandler."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.options.retention import parse_tag_options, parse_zone
from morrow.writers.history.tag_periods import MICRO, PATTERNS, WALL_EPOCH, TagPeriod, to_wall_time

DAILY, HOURLY, TWO_HOURS = "daily", "hourly", "two-hours"
DASHES, NO_DASHES, NO_BLANKS = "with_dashes", "without_dashes", "without_dashes_and_spaces"
SHANGHAI, NEW_YORK, KOLKATA = "Asia/Shanghai", "America/New_York", "+05:30"
MIDNIGHT = 1715644800000  # 2024-05-14T00:00Z


def period_of(period: str, formatter: str, duration: str | None = None) -> TagPeriod:
    raw = {"tag.creation-period": period, "tag.period-formatter": formatter}
    return TagPeriod.of(
        parse_tag_options(raw | ({"tag.creation-period-duration": duration} if duration else {}), where="/t")
    )


@pytest.mark.parametrize(
    ("period", "formatter", "duration", "where", "millis", "last", "running"),
    [
        (DAILY, DASHES, None, "UTC", MIDNIGHT - 1, "2024-05-12", "2024-05-13"),
        (DAILY, DASHES, None, "UTC", MIDNIGHT, "2024-05-13", "2024-05-14"),
        (DAILY, DASHES, None, "UTC", 1709164800000, "2024-02-28", "2024-02-29"),
        (DAILY, DASHES, None, KOLKATA, 1730610000000, "2024-11-02", "2024-11-03"),
        (DAILY, DASHES, None, "UTC", -86400001, "1969-12-30", "1969-12-31"),
        (DAILY, NO_DASHES, None, NEW_YORK, MIDNIGHT - 1, "20240512", "20240513"),
        (DAILY, NO_BLANKS, None, "UTC", 0, "19691231", "19700101"),
        (HOURLY, DASHES, None, SHANGHAI, 1711850400000, "2024-03-31 09", "2024-03-31 10"),
        (HOURLY, DASHES, None, KOLKATA, MIDNIGHT, "2024-05-14 04", "2024-05-14 05"),
        (HOURLY, DASHES, None, SHANGHAI, -86400001, "1969-12-31 07", "1969-12-31 08"),
        (HOURLY, NO_DASHES, None, NEW_YORK, 1715648400000, "20240513 20", "20240513 21"),
        (HOURLY, NO_BLANKS, None, "UTC", 951782399999, "2000022822", "2000022823"),
        (TWO_HOURS, DASHES, None, "UTC", 0, "1969-12-31 22", "1970-01-01 00"),
        (TWO_HOURS, NO_DASHES, None, "UTC", -86400001, "1969-12-30 22", "1969-12-31 00"),
        (TWO_HOURS, NO_BLANKS, None, SHANGHAI, 951782399999, "2000-02-29 04", "2000-02-29 06"),
        (DAILY, DASHES, "10 min", KOLKATA, 0, "197001010520", "197001010530"),
        (DAILY, DASHES, "10 min", NEW_YORK, 1730610000000, "202411030050", "202411030100"),
        (HOURLY, NO_DASHES, "90 s", "UTC", 1709164800000, "202402282358", "202402290000"),
        (DAILY, DASHES, "7 d", NEW_YORK, MIDNIGHT - 1, "202405020000", "202405090000"),
        (DAILY, DASHES, "7 d", "UTC", -86400001, "196912250000", "197001010000"),
        (DAILY, DASHES, "1 ms", KOLKATA, -1, "197001010529", "197001010529"),
        (DAILY, DASHES, "30 h", KOLKATA, -86400001, "196912301800", "197001010000"),
        (DAILY, DASHES, "30 h", NEW_YORK, 1711850400000, "202403290600", "202403301200"),
    ],
)
def test_the_period_that_has_ended_and_the_one_that_runs(
    period: str, formatter: str, duration: str | None, where: str, millis: int, last: str, running: str
) -> None:
    periods, time = period_of(period, formatter, duration), to_wall_time(millis, parse_zone(where))
    assert time is not None

    assert periods.name(periods.last_ended(time)) == last
    assert periods.name(periods.next(periods.last_ended(time))) == running


AUTOMATIC = [
    (DAILY, DASHES, None, "2024-05-14", "2024-05-14T00:00"),
    (DAILY, DASHES, None, "2024-05-14 x", "2024-05-14T00:00"),
    (DAILY, DASHES, None, "2024-05-14 ", "2024-05-14T00:00"),
    (DAILY, DASHES, None, "9999-12-31", "9999-12-31T00:00"),
    (DAILY, DASHES, None, "0001-01-01", "0001-01-01T00:00"),
    (DAILY, NO_DASHES, None, "20240514", "2024-05-14T00:00"),
    (DAILY, NO_BLANKS, None, "20240514 25", "2024-05-14T00:00"),
    (HOURLY, DASHES, None, "2024-05-14 13", "2024-05-14T13:00"),
    (HOURLY, NO_DASHES, None, "20240514 13", "2024-05-14T13:00"),
    (HOURLY, NO_BLANKS, None, "2024051413", "2024-05-14T13:00"),
    (TWO_HOURS, NO_DASHES, None, "2024-05-14 13", "2024-05-14T13:00"),
    (HOURLY, NO_DASHES, "90 s", "202405141300", "2024-05-14T13:00"),
]

NAMES = (
    *("2024-05-14", "20240514", "2024-05-14 13", "20240514 13", "2024051413", "202405141300", "20240514130"),
    *("2024-02-30", "2023-02-29", "2024-05-14 x", "2024-05-14 ", "", "20240514 25", "2024-05-14 24", "24-05-14"),
    *("+2024-05-14", "2024-5-14", "savepoint-1", "9999-12-31", "0001-01-01", "\uff12\uff10\uff12\uff140514"),
)


@pytest.mark.parametrize(("period", "formatter", "duration", "name", "time"), AUTOMATIC)
def test_a_name_tells_its_period(period: str, formatter: str, duration: str | None, name: str, time: str) -> None:
    expected = (dt.datetime.fromisoformat(time) - WALL_EPOCH) // MICRO

    assert period_of(period, formatter, duration).time(name) == expected


@pytest.mark.parametrize(
    ("period", "formatter", "duration", "automatic"),
    [
        (DAILY, DASHES, None, "2024-05-14|2024-05-14 13|2024-05-14 x|2024-05-14 |2024-05-14 24|9999-12-31|0001-01-01"),
        (DAILY, NO_DASHES, None, "20240514|20240514 13|20240514 25"),
        (HOURLY, DASHES, None, "2024-05-14 13"),
        (HOURLY, NO_DASHES, None, "20240514 13"),
        (HOURLY, NO_BLANKS, None, "2024051413"),
        (TWO_HOURS, NO_BLANKS, None, "2024-05-14 13"),
        (DAILY, DASHES, "7 d", "202405141300"),
    ],
)
def test_which_names_are_automatic(period: str, formatter: str, duration: str | None, automatic: str) -> None:
    periods = period_of(period, formatter, duration)

    assert [name for name in NAMES if periods.is_automatic(name)] == automatic.split("|")


@given(st.datetimes(dt.datetime(1000, 1, 2)), st.sampled_from(sorted(PATTERNS, key=str)))
def test_a_name_is_read_back(time: dt.datetime, way: tuple[str | None, str]) -> None:
    periods = period_of(way[0] or DAILY, way[1], None if way[0] else "1 min")
    begin = periods.last_ended((time - WALL_EPOCH) // MICRO)
    name = periods.name(begin)

    assert name is not None
    assert periods.time(name) == begin


def test_a_year_that_four_digits_cannot_write_has_no_name() -> None:
    assert period_of(DAILY, DASHES).name((dt.datetime.max - WALL_EPOCH) // MICRO + 1) is None


def test_the_end_of_a_stream_is_no_time() -> None:
    assert to_wall_time(2**63 - 1, dt.UTC) is None
