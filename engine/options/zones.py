"""Time zones as Java names them: regions, ``UTC``, and offsets such as ``+08:00``, ``GMT-8`` or ``UTC+0530``."""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from morrow.engine.errors import InvalidArgument

OFFSET = (
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])"
    r"(?:(?P<hour>[0-9])|(?P<hours>[0-9]{2})(?:(?P<colon>:?)(?P<minutes>[0-5][0-9])(?:(?P=colon)(?P<seconds>[0-5][0-9]))?)?)"
)
NO_OFFSET = frozenset(("Z", "UTC", "GMT", "UT"))
WIDEST = dt.timedelta(hours=18)


def zone(name: str) -> dt.tzinfo:
    """Returns the zone of this name.

    Raises:
        InvalidArgument: no such zone.
    """
    if name in NO_OFFSET:
        return dt.UTC
    if match := re.fullmatch(OFFSET, name):
        hours = int(match["hour"] or match["hours"])
        offset = dt.timedelta(hours=hours, minutes=int(match["minutes"] or 0), seconds=int(match["seconds"] or 0))
        if offset <= WIDEST:
            return dt.timezone(-offset if match["sign"] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidArgument(
            f"there is no time zone {name!r}; name one such as 'America/Los_Angeles', 'UTC' or 'GMT-08:00'"
        ) from error
