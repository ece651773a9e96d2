"""The options for tags: automatic creation and retention.

The proposal that introduced tags had ``tag.create-time`` and ``tag.create-interval``; Paimon was released with other
names. Morrow translates the two to the equivalent released options: a tag is due every so many days, at the time of
day. So the time of day is the delay after midnight, the interval the period, and process time the clock:

    tag.create-time = '02:30'      tag.automatic-creation = process-time    tag.creation-delay = 150 min
    tag.create-interval = '1 d'    tag.creation-period = daily
    tag.create-interval = '7 d'    tag.creation-period-duration = 7 d
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

import msgspec

from morrow.engine.errors import InvalidArgument
from morrow.engine.options.declared import history
from morrow.engine.options.declaring import Declared
from morrow.engine.options.given import Options
from morrow.engine.options.kinds import DURATION, BadValue
from morrow.engine.options.words import Period, PeriodFormatter, TagCreation
from morrow.engine.options.zones import zone

TAG_KEYS = ("tag.", "sink.process-time-zone", "sink.watermark-time-zone", "snapshot.watermark-idle-timeout")
"""Prefixes of the options that `parse_tag_options` reads."""
TIME_OF_DAY = r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])"
DAY = dt.timedelta(days=1)
SHORTEST_PERIOD = dt.timedelta(milliseconds=1)
"""The shortest period: Java counts periods in milliseconds."""


BY_PERIOD = (TagCreation.PROCESS_TIME, TagCreation.WATERMARK)


LENGTHS: Mapping[Period, dt.timedelta] = {
    Period.DAILY: DAY,
    Period.HOURLY: dt.timedelta(hours=1),
    Period.TWO_HOURS: dt.timedelta(hours=2),
}


class TagOptions(msgspec.Struct, frozen=True):
    """The ``tag.*`` options of a table.

    `period` is the named period, or None where `period_length` was given. `process_zone` is None for the zone of this
    machine. `time_retained` and `most` (``tag.num-retained-max``) are None where there is no limit.
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
    """Parses the options in `raw`; `where` names the table in messages.

    Raises:
        InvalidArgument: a value that does not parse, or settings that contradict each other.
        Unsupported: a word that the option does not know.
    """
    options = Options(_released(Options(raw, where)), where)
    period, length = _period(options)
    creation, delay = options.get(history.TAG_AUTOMATIC_CREATION), options.get(history.TAG_CREATION_DELAY)
    if creation in BY_PERIOD and delay >= length:
        raise InvalidArgument(
            f"{where}: {history.TAG_CREATION_DELAY} is {delay}, and a period lasts {length}; the delay must be shorter"
        )
    return TagOptions(
        creation=creation,
        period=period,
        period_length=length,
        formatter=options.get(history.TAG_PERIOD_FORMATTER),
        delay=delay,
        most=_most(options),
        time_retained=_time_retained(options),
        expires=options.get(history.TAG_TIME_EXPIRE_ENABLED),
        completes=options.get(history.TAG_AUTOMATIC_COMPLETION),
        success_file=options.get(history.TAG_CREATE_SUCCESS_FILE),
        batch_name=options.get(history.TAG_BATCH_CUSTOMIZED_NAME),
        process_zone=_zone(options, history.SINK_PROCESS_TIME_ZONE),
        watermark_zone=_zone(options, history.SINK_WATERMARK_TIME_ZONE) or dt.UTC,
        watermark_idle=options.get(history.SNAPSHOT_WATERMARK_IDLE_TIMEOUT),
    )


def time_span(text: str) -> dt.timedelta:
    """Parses a time span as in options, such as ``1 d``. Raises `InvalidArgument`."""
    try:
        return DURATION.parse(text)
    except BadValue as error:
        raise InvalidArgument(f"tags: the time retained is {text!r}; {error}") from None


def _released(options: Options) -> Mapping[str, str]:
    """Returns the options with the proposal's two replaced by their released equivalents."""
    raw, where = options.raw, options.where
    proposed = [each for each in (history.TAG_CREATE_TIME, history.TAG_CREATE_INTERVAL) if options.has(each)]
    if not proposed:
        return raw
    for other in (history.TAG_CREATION_DELAY, history.TAG_CREATION_PERIOD, history.TAG_CREATION_PERIOD_DURATION):
        if options.has(other):
            raise InvalidArgument(f"{where}: {proposed[0]} and {other} say the same thing twice; keep one of them")
    creation = options.text(history.TAG_AUTOMATIC_CREATION)
    if creation is not None and creation.strip().lower() != TagCreation.PROCESS_TIME:
        raise InvalidArgument(
            f"{where}: {proposed[0]} makes tags by the clock, and {history.TAG_AUTOMATIC_CREATION} is "
            f"{creation!r}; make it process-time, or remove {proposed[0]}"
        )
    by_clock = {history.TAG_AUTOMATIC_CREATION.key: str(TagCreation.PROCESS_TIME)}
    return {**raw, **by_clock, history.TAG_CREATION_DELAY.key: _minutes(options), **_interval(options)}


def _minutes(options: Options) -> str:
    text = options.get(history.TAG_CREATE_TIME)
    match = re.fullmatch(TIME_OF_DAY, "00:00" if text is None else text.strip())
    if match is None:
        raise options.refused(history.TAG_CREATE_TIME, "it must be a time of day such as 02:30")
    return f"{60 * int(match['hour']) + int(match['minute'])} min"


def _interval(options: Options) -> Mapping[str, str]:
    interval = options.get(history.TAG_CREATE_INTERVAL)
    if interval is None or interval == DAY:
        return {history.TAG_CREATION_PERIOD.key: str(Period.DAILY)}
    if interval < DAY or interval % DAY:
        raise options.refused(history.TAG_CREATE_INTERVAL, "it must be whole days, such as 7 d")
    return {history.TAG_CREATION_PERIOD_DURATION.key: f"{interval.days} d"}


def _period(options: Options) -> tuple[Period | None, dt.timedelta]:
    """Returns the named period and the duration; the duration takes precedence if both are set, as in Java."""
    named = options.get(history.TAG_CREATION_PERIOD)
    length = options.get(history.TAG_CREATION_PERIOD_DURATION)
    if length is None:
        return named, LENGTHS[named]
    if length < SHORTEST_PERIOD:
        raise options.refused(history.TAG_CREATION_PERIOD_DURATION, "it must be a millisecond at least")
    return None, length


def _most(options: Options) -> int | None:
    most = options.get(history.TAG_NUM_RETAINED_MAX)
    if most is not None and most < 1:
        raise options.refused(history.TAG_NUM_RETAINED_MAX, "it must be 1 at least")
    return most


def _time_retained(options: Options) -> dt.timedelta | None:
    retained = options.get(history.TAG_DEFAULT_TIME_RETAINED)
    if retained is not None and not retained:
        raise options.refused(history.TAG_DEFAULT_TIME_RETAINED, "tags would be gone as soon as they are there")
    return retained


def _zone(options: Options, option: Declared[str] | Declared[str | None]) -> dt.tzinfo | None:
    name = options.text(option)
    if name is None:
        return None
    try:
        return zone(name.strip())
    except InvalidArgument as error:
        raise options.refused(option, str(error)) from error
