"""Times parsed by patterns as PartitionTimeExtractor does with Java's DateTimeFormatter."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.date_patterns import parse_date_pattern, to_epoch_day
from morrow.engine.units import NANOS_PER_DAY, NANOS_PER_SECOND

JAVA_READS = [
    ("yyyyMMdd", "20240131", "2024-01-31T00:00"),
    ("yyyyMMdd", "2024013", None),
    ("yyyyMMdd", "202401311", None),
    ("yyyyMMdd", "20240231", "2024-02-29T00:00"),
    ("yyyyMMdd", "20230229", "2023-02-28T00:00"),
    ("yyyyMMdd", "20241301", None),
    ("yyyyMMdd", "00000101", None),
    ("yyyyMMdd", "+20240131", None),
    ("yyyyMMdd", "+120240131", "+12024-01-31T00:00"),
    ("yyyyMMdd", "120240131", None),
    ("yyyyMMdd", "2024-01-31", None),
    ("yyyy-MM-dd", "2024-01-31", "2024-01-31T00:00"),
    ("yyyy-MM-dd", "2024-1-31", None),
    ("yyyy-MM-dd", "-2024-01-31", None),
    ("yyyy-MM-dd", "12024-01-31", None),
    ("yyyy-MM-dd", "+12024-01-31", "+12024-01-31T00:00"),
    ("uuuu-MM-dd", "-0044-03-15", "-0044-03-15T00:00"),
    ("uuuu-MM-dd", "0000-01-01", "0000-01-01T00:00"),
    ("yyMMdd", "240131", "2024-01-31T00:00"),
    ("yyMMdd", "990131", "2099-01-31T00:00"),
    ("y-M-d", "2024-1-31", "2024-01-31T00:00"),
    ("y-M-d", "24-1-1", "0024-01-01T00:00"),
    ("y-M-d", "2024-01-031", "2024-01-31T00:00"),
    ("yMMdd", "20240131", "2024-01-31T00:00"),
    ("yMMdd", "50101", "0005-01-01T00:00"),
    ("yMMdd", "120240131", "+12024-01-31T00:00"),
    ("yyyyMd", "2024131", None),
    ("yyyyDDD", "2024060", "2024-02-29T00:00"),
    ("yyyyDDD", "2023366", None),
    ("yyyyDDD", "2024366", "2024-12-31T00:00"),
    ("yyyyMMddHH", "2024013107", "2024-01-31T07:00"),
    ("yyyyMMddHH", "2024013124", "2024-02-01T00:00"),
    ("yyyyMMddHH", "2024013125", None),
    ("yyyyMMddHH", "202401310", None),
    ("yyyyMMddHHmmssSSS", "20240131070809123", "2024-01-31T07:08:09.123"),
    ("yyyyMM", "202401", None),
    ("yyyy", "2024", None),
    ("yyyyMMdd[HH]", "20240131", "2024-01-31T00:00"),
    ("yyyyMMdd[HH]", "2024013107", None),
    ("yyyy-MM-dd['T'HH:mm[:ss]]", "2024-01-31T07:08", "2024-01-31T07:08"),
    ("yyyy-MM-dd['T'HH:mm[:ss]]", "2024-01-31T07:08:09", "2024-01-31T07:08:09"),
    ("yyyy-MM-dd['T'HH:mm[:ss]]", "2024-01-31", "2024-01-31T00:00"),
    ("yyyy-MM-dd['T'HH:mm[:ss]]", "2024-01-31T07", None),
    ("'d'yyyyMMdd", "d20240131", "2024-01-31T00:00"),
    ("'d'yyyyMMdd", "20240131", None),
    ("yyyy''MM''dd", "2024'01'31", "2024-01-31T00:00"),
    ("dd-MMM-yyyy", "31-Jan-2024", "2024-01-31T00:00"),
    ("dd-MMM-yyyy", "31-jan-2024", None),
    ("dd-MMM-yyyy", "31-01-2024", None),
    ("yyyyMMddhha", "2024013112AM", "2024-01-31T00:00"),
    ("yyyyMMddhha", "2024013101PM", "2024-01-31T13:00"),
    ("yyyyMMddhha", "2024013113PM", None),
    ("yyyyMMddhha", "2024013100AM", "2024-01-31T00:00"),
    ("yyyyMMddhh", "2024013101", "2024-01-31T00:00"),
    ("yyyyMMddkk", "2024013124", "2024-01-31T00:00"),
    ("yyyyMMddKKa", "2024013111PM", "2024-01-31T23:00"),
    ("yyyyMMddKKa", "2024013112AM", None),
    ("yyyyMMddHHa", "2024013113PM", "2024-01-31T13:00"),
    ("yyyyMMddHHa", "2024013113AM", None),
    ("yyyyMMddmm", "2024013107", "2024-01-31T00:00"),
    ("yyyyMMddHH.ss", "2024013125.61", "2024-01-31T00:00"),
    ("yyyyMMddMM", "2024013101", "2024-01-31T00:00"),
    ("yyyyMMddMM", "2024013102", None),
    ("uuuu/yyyy-MM-dd", "2024/2024-01-31", "2024-01-31T00:00"),
    ("uuuu/yyyy-MM-dd", "2023/2024-01-31", None),
    ("yyyyMMddDDD", "20240131031", "2024-01-31T00:00"),
    ("yyyyMMddDDD", "20240131032", None),
    ("yyyyMMddHHmmss", "20240131245959", None),
    ("yyyyMMddHHmmss", "20240131240000", "2024-02-01T00:00"),
]
"""Pattern, text, and the time that Java prints (None if Java throws)."""

TIME = re.compile(r"([+-]?[0-9]+)-([0-9]+)-([0-9]+)T([0-9]+):([0-9]+)(?::([0-9]+)(?:\.([0-9]+))?)?")


def nanos(java_time: str | None) -> int | None:
    """Return the nanoseconds since 1970-01-01 of a time that Java printed."""
    if java_time is None:
        return None
    match = TIME.fullmatch(java_time)
    assert match is not None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    seconds = (hour * 60 + minute) * 60 + second
    fraction = int((match[7] or "").ljust(9, "0"))
    return to_epoch_day(year, month, day) * NANOS_PER_DAY + seconds * NANOS_PER_SECOND + fraction


@pytest.mark.parametrize(("pattern", "text", "time"), JAVA_READS)
def test_text_is_read_as_java_reads_it(pattern: str, text: str, time: str | None) -> None:
    assert parse_date_pattern(pattern).read(text) == nanos(time)


@pytest.mark.parametrize("pattern", ["yyyy{", "yyyy#", "'yyyy", "yyyy]", "yyyy-MM-dd'"])
def test_what_java_takes_for_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="time pattern"):
        parse_date_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["yyyy-ww", "EEE d MMM yyyy", "yyyyMMddHHH", "yyyyDDDD", "yyyy-MM-dd z", "MMMM yyyy"]
)
def test_letters_that_are_not_read_are_refused(pattern: str) -> None:
    with pytest.raises(Unsupported, match="in the time pattern"):
        parse_date_pattern(pattern)


def test_open_brackets_are_closed_at_the_end() -> None:
    assert parse_date_pattern("[yyyy-MM-dd").read("2024-01-31") == parse_date_pattern("yyyy-MM-dd").read("2024-01-31")


@given(st.datetimes(min_value=dt.datetime(1, 1, 1)))
def test_every_time_that_python_writes_is_read_back(time: dt.datetime) -> None:
    since = time - dt.datetime(1970, 1, 1)
    exact = (since.days * 86_400 + since.seconds) * NANOS_PER_SECOND + since.microseconds * 1000
    assert (
        parse_date_pattern("yyyy-MM-dd'T'HH:mm:ss.SSSSSS").read(f"{time.isoformat(timespec='microseconds')}") == exact
    )
    assert (
        parse_date_pattern("yyyyMMddHHmmssSSSSSS").read(re.sub("[^0-9]", "", time.isoformat(timespec="microseconds")))
        == exact
    )
