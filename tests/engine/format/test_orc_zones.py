"""Offsets as Java has them: the zone database from 1900 on, today's standard offset before."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import Unsupported
from morrow.engine.format.orc_zones import offsets

HOUR = 3_600


def instant(*date: int) -> int:
    return int(dt.datetime(*date, tzinfo=dt.UTC).timestamp())  # type: ignore[misc]  # no zone in date


def offset(zone: str, *date: int) -> int:
    return int(offsets(np.array([instant(*date)]), zone, "f")[0])


@pytest.mark.parametrize(
    ("zone", "date", "seconds"),
    [
        ("UTC", (2024, 7, 1), 0),
        ("Asia/Shanghai", (2024, 7, 1), 8 * HOUR),
        ("Asia/Shanghai", (1899, 12, 31), 8 * HOUR),
        ("Asia/Shanghai", (1900, 6, 1), 8 * HOUR + 5 * 60 + 43),
        ("America/New_York", (2024, 7, 1), -4 * HOUR),
        ("America/New_York", (2024, 12, 31), -5 * HOUR),
        ("America/New_York", (1, 1, 1), -5 * HOUR),
        ("America/New_York", (9999, 7, 1), -4 * HOUR),
        ("Australia/Sydney", (9999, 12, 31), 11 * HOUR),
    ],
)
def test_offsets(zone: str, date: tuple[int, ...], seconds: int) -> None:
    assert offset(zone, *date) == seconds


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata"]),
    st.datetimes(dt.datetime(1901, 1, 1), dt.datetime(9990, 1, 1)),
)
def test_offsets_of_all_years_since_1901_are_those_of_the_zone_database(zone: str, moment: dt.datetime) -> None:
    aware = moment.replace(tzinfo=dt.UTC, microsecond=0)
    expected = aware.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset()

    assert dt.timedelta(seconds=int(offsets(np.array([int(aware.timestamp())]), zone, "f")[0])) == expected


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "Etc'UTC"])
def test_an_unknown_zone_is_unsupported(zone: str) -> None:
    with pytest.raises(Unsupported, match="f: the time zone"):
        offset(zone, 2024, 1, 1)
