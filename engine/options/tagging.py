"""What the options of a table say about its tags: which are made without being asked for, and how long they stay.

The proposal that brought tags had ``tag.create-time`` and ``tag.create-interval``; Paimon was released with other
names. Morrow reads the two as the released options that say the same: a tag is due each so many days, once the time of
day has come. So the time of day is the delay after midnight, the interval the period, and process time the clock:

    tag.create-time = '02:30'      tag.automatic-creation = process-time    tag.creation-delay = 150 min
    tag.create-interval = '1 d'    tag.creation-period = daily
    tag.create-interval = '7 d'    tag.creation-period-duration = 7 d
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from morrow.engine.errors import InvalidArgument
from morrow.engine.options.parsing import choice, duration, flag, integer, refused_value
from morrow.engine.options.zones import zone

TAG_KEYS = ("tag.", "sink.process-time-zone", "sink.watermark-time-zone", "snapshot.watermark-idle-timeout")
"""How the options begin that `parse_tag_options` reads."""
CREATE_TIME = "tag.create-time"
CREATE_INTERVAL = "tag.create-interval"
TIME_OF_DAY = re.compile(r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])")
DAY = dt.timedelta(days=1)
SHORTEST_PERIOD = dt.timedelta(milliseconds=1)
"""Java counts periods in milliseconds."""


class TagCreation(StrEnum):
    """When tags are made without being asked for."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


BY_PERIOD = (TagCreation.PROCESS_TIME, TagCreation.WATERMARK)


class Period(StrEnum):
    """The periods that have names."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class PeriodFormatter(StrEnum):
    """How the time of a period is written in the name of its tag."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


LENGTHS: Mapping[Period, dt.timedelta] = {
    Period.DAILY: DAY,
    Period.HOURLY: dt.timedelta(hours=1),
    Period.TWO_HOURS: dt.timedelta(hours=2),
}


@dataclass(frozen=True)
class TagOptions:
    """The ``tag.*`` options of a table.

    `period` is the named period, or None where `period_length` was given by itself. `process_zone` is None for the
    zone of this machine. `time_retained` and `most` (``tag.num-retained-max``) are None where there is no limit.
    """

    creation: TagCreation
    period: Period | None
    period_length: dt.timedelta
    formatter: PeriodFormatter
    delay: dt.timedelta
    most: int | None
    time_retained: dt.timedelta | None
    expires: bool
    completes: bool
    success_file: bool
    batch_name: str | None
    process_zone: dt.tzinfo | None
    watermark_zone: dt.tzinfo
    watermark_idle: dt.timedelta | None


def parse_tag_options(raw: Mapping[str, str], *, where: str) -> TagOptions:
    """The options in `raw`; `where` names the table in messages.

    Raises:
        InvalidArgument: a value that does not parse, or settings that contradict each other.
        Unsupported: a word that the option does not know.
    """
    raw = _released(raw, where)
    period, length = _period(raw, where)
    creation = TagCreation(choice(raw, "tag.automatic-creation", "none", tuple(TagCreation), where))
    delay = duration(raw, "tag.creation-delay", dt.timedelta(), where) or dt.timedelta()
    if creation in BY_PERIOD and delay >= length:
        raise InvalidArgument(
            f"{where}: 'tag.creation-delay' is {delay}, and a period lasts {length}; the delay must be shorter"
        )
    return TagOptions(
        creation=creation,
        period=period,
        period_length=length,
        formatter=PeriodFormatter(choice(raw, "tag.period-formatter", "with_dashes", tuple(PeriodFormatter), where)),
        delay=delay,
        most=_most(raw, where),
        time_retained=_time_retained(raw, where),
        expires=flag(raw, "tag.time-expire-enabled", True, where),
        completes=flag(raw, "tag.automatic-completion", False, where),
        success_file=flag(raw, "tag.create-success-file", False, where),
        batch_name=raw.get("tag.batch.customized-name"),
        process_zone=_zone(raw, "sink.process-time-zone", where) if "sink.process-time-zone" in raw else None,
        watermark_zone=_zone(raw, "sink.watermark-time-zone", where) if "sink.watermark-time-zone" in raw else dt.UTC,
        watermark_idle=duration(raw, "snapshot.watermark-idle-timeout", None, where),
    )


def time_span(text: str) -> dt.timedelta:
    """A span as options have it, such as ``1 d``. Raises `InvalidArgument`."""
    span = duration({"time retained": text}, "time retained", None, "tags")
    assert span is not None  # it was given
    return span


def _released(raw: Mapping[str, str], where: str) -> Mapping[str, str]:
    """The options with the proposal's two replaced by those that say the same."""
    proposed = [key for key in (CREATE_TIME, CREATE_INTERVAL) if key in raw]
    if not proposed:
        return raw
    for other in ("tag.creation-delay", "tag.creation-period", "tag.creation-period-duration"):
        if other in raw:
            raise InvalidArgument(f"{where}: {proposed[0]!r} and {other!r} say the same thing twice; keep one of them")
    released = {**raw, "tag.creation-delay": _minutes(raw, where), **_interval(raw, where)}
    if released.setdefault("tag.automatic-creation", "process-time").strip().lower() != TagCreation.PROCESS_TIME:
        raise InvalidArgument(
            f"{where}: {proposed[0]!r} makes tags by the clock, and 'tag.automatic-creation' is "
            f"{raw['tag.automatic-creation']!r}; make it process-time, or remove {proposed[0]!r}"
        )
    return released


def _minutes(raw: Mapping[str, str], where: str) -> str:
    match = TIME_OF_DAY.fullmatch(raw.get(CREATE_TIME, "00:00").strip())
    if match is None:
        raise refused_value(raw, CREATE_TIME, where, "it must be a time of day such as 02:30")
    return f"{60 * int(match['hour']) + int(match['minute'])} min"


def _interval(raw: Mapping[str, str], where: str) -> Mapping[str, str]:
    interval = duration(raw, CREATE_INTERVAL, DAY, where) or dt.timedelta()
    if interval < DAY or interval % DAY:
        raise refused_value(raw, CREATE_INTERVAL, where, "it must be whole days, such as 7 d")
    if interval == DAY:
        return {"tag.creation-period": Period.DAILY}
    return {"tag.creation-period-duration": f"{interval.days} d"}


def _period(raw: Mapping[str, str], where: str) -> tuple[Period | None, dt.timedelta]:
    """The duration counts where both are set, as in Java."""
    named = Period(choice(raw, "tag.creation-period", "daily", tuple(Period), where))
    length = duration(raw, "tag.creation-period-duration", None, where)
    if length is None:
        return named, LENGTHS[named]
    if length < SHORTEST_PERIOD:
        raise refused_value(raw, "tag.creation-period-duration", where, "it must be a millisecond at least")
    return None, length


def _most(raw: Mapping[str, str], where: str) -> int | None:
    if "tag.num-retained-max" not in raw:
        return None
    most = integer(raw, "tag.num-retained-max", 0, where)
    if most < 1:
        raise refused_value(raw, "tag.num-retained-max", where, "it must be 1 at least")
    return most


def _time_retained(raw: Mapping[str, str], where: str) -> dt.timedelta | None:
    retained = duration(raw, "tag.default-time-retained", None, where)
    if retained is not None and not retained:
        raise refused_value(raw, "tag.default-time-retained", where, "tags would be gone as soon as they are there")
    return retained


def _zone(raw: Mapping[str, str], key: str, where: str) -> dt.tzinfo:
    try:
        return zone(raw[key].strip())
    except InvalidArgument as error:
        raise refused_value(raw, key, where, str(error)) from error
