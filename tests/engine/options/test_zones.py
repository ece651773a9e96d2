"""Time zones by the names that Java gives them."""

from __future__ import annotations

import datetime as dt

import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.options.zones import zone

SUMMER = dt.datetime(2024, 7, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("UTC", 0),
        ("Z", 0),
        ("GMT", 0),
        ("UT", 0),
        ("+8", 8),
        ("+08", 8),
        ("-08:00", -8),
        ("+0530", 5.5),
        ("+05:30:00", 5.5),
        ("GMT-08:00", -8),
        ("UTC+8", 8),
        ("UT+18:00", 18),
        ("America/Los_Angeles", -7),
        ("Asia/Kolkata", 5.5),
    ],
)
def test_a_zone_is_a_region_or_an_offset(name: str, hours: float) -> None:
    assert SUMMER.astimezone(zone(name)).utcoffset() == dt.timedelta(hours=hours)


@pytest.mark.parametrize(
    "name", ["", "utc+8", "+8:30", "+18:01", "+05:60", "+1:2:3", "Mars/Olympus", "../UTC", "America"]
)
def test_there_is_no_such_zone(name: str) -> None:
    with pytest.raises(InvalidArgument, match="there is no time zone"):
        zone(name)
