"""Time zones of ORC writers, with the offsets of `java.util.TimeZone`.

ORC's TIMESTAMP is stored relative to the zone of the writer's machine, and Paimon's writer, unless
``orc.timestamp-ltz.legacy.type`` is false, shifts TIMESTAMP_LTZ by that zone as well. Reading undoes both with the
offsets that Java uses: those of the time zone database from 1900 on, and before 1900 the zone's standard offset of
today, never local mean time.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import Unsupported

UTC = "UTC"
UTC_NAMES = frozenset({"", UTC, "GMT", "Etc/UTC", "Etc/GMT", "Z"})
JAVA_FIRST_SECOND = int(dt.datetime(1900, 1, 1, tzinfo=dt.UTC).timestamp())
ORC_EPOCH = dt.datetime(2015, 1, 1)
"""The epoch of seconds in ORC files, on the clock of the writer."""
DAY_SECONDS = 86_400
CYCLE = range(2060, 2088)
"""28 years with every combination of leap year and first weekday, in which zone rules of later years are looked up."""

Integers = npt.NDArray[np.int64]


def is_utc(zone: str) -> bool:
    """Returns whether clocks of this zone show UTC."""
    return zone in UTC_NAMES


def orc_epoch_seconds(zone: str, where: str) -> int:
    """Returns the instant (seconds since 1970 in UTC) from which ORC counts in this zone."""
    tzinfo = dt.UTC if is_utc(zone) else _zone(zone, where)
    return int(ORC_EPOCH.replace(tzinfo=tzinfo).timestamp())


def offsets(instants: Integers, zone: str, where: str) -> Integers:
    """Returns the seconds by which clocks of `zone` are ahead of UTC at these instants (seconds since 1970).

    Raises:
        Unsupported: a zone that the time zone database does not have.
    """
    if is_utc(zone):
        return np.zeros(len(instants), np.int64)
    today = dt.datetime(2025, 1, 1, tzinfo=_zone(zone, where))
    standard = (today.utcoffset() or dt.timedelta()) - (today.dst() or dt.timedelta())
    near = np.where(instants < JAVA_FIRST_SECOND, 0, _within_cycle(instants))
    clock = pl.Series(near * 1_000).cast(pl.Datetime("ms", UTC)).dt.convert_time_zone(zone).dt.replace_time_zone(None)
    found: Integers = (clock.to_physical() // 1_000).to_numpy() - near
    return np.where(instants < JAVA_FIRST_SECOND, int(standard.total_seconds()), found)


def _zone(zone: str, where: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = "install the time zone database (the package tzdata)"
        raise Unsupported(f"the time zone {zone!r} of an ORC file", where=where, hint=hint) from error


def _within_cycle(instants: Integers) -> Integers:
    """Moves instants after `CYCLE` into its year with the same calendar: zone tables end in 2100."""
    limit = _year_day(CYCLE.stop) * DAY_SECONDS
    years = np.where(
        instants < limit, CYCLE.start, instants.astype("datetime64[s]").astype("datetime64[Y]").astype(int) + 1970
    )
    start, following = _year_days(years), _year_days(years + 1)
    twin = _twins()[following - start - 365, start % 7]
    return np.where(instants < limit, instants, instants + (twin - start) * DAY_SECONDS)


@lru_cache(maxsize=1)
def _twins() -> Integers:
    """Returns the first day of a year of `CYCLE` by [leap year, weekday of that day]."""
    table = np.zeros((2, 7), np.int64)
    for year in CYCLE:
        start = _year_day(year)
        table[_year_day(year + 1) - start - 365, start % 7] = start
    return table


def _year_day(year: int) -> int:
    return int(_year_days(np.array([year]))[0])


def _year_days(years: Integers) -> Integers:
    days: Integers = (years - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    return days
