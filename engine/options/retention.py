"""The options for expiry of snapshots, changelogs and partitions, and for tags.

The proposal that introduced tags had ``tag.create-time`` and ``tag.create-interval``; Paimon was released with other
names. Morrow translates the two to the equivalent released options. A tag is due every few days at a time of day. The
time of day becomes ``tag.creation-delay`` after midnight (02:30 is 150 min). The interval becomes
``tag.creation-period`` (1 d is daily) or ``tag.creation-period-duration`` (7 d), and ``tag.automatic-creation`` is
process-time.

Values of partitions are formatted as Java prints them, to read a time from them. A DATE is printed as its epoch days,
which formatters cannot parse, so partitions by DATE expire by ``update-time``. Without a formatter a time is
``yyyy-MM-dd HH:mm:ss`` or ``yyyy-MM-dd``, parsed leniently: digits may be fewer, and the 30th of February is the first
or second of March.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.binary_row import Value
from morrow.engine.format.date_patterns import MAX_YEAR, DatePattern, parse_date_pattern, to_epoch_day
from morrow.engine.format.paths import partition_path, unescape_path_name
from morrow.engine.format.types import DataField
from morrow.engine.options.declarations import (
    DURATION,
    BadValue,
    Declared,
    ExpireStrategy,
    Options,
    Period,
    PeriodFormatter,
    TagCreation,
    bind_option,
    read_values,
)
from morrow.engine.options.declared import maintenance
from morrow.engine.units import NANOS_PER_DAY, NANOS_PER_SECOND

UNLIMITED = maintenance.SNAPSHOT_NUM_RETAINED_MAX.default
MILLI = timedelta(milliseconds=1)


class Retention(msgspec.Struct, frozen=True):
    """The limits of retention: the newest `least` are kept, and up to `most` if they are younger than `time`."""

    most: int
    least: int
    time: timedelta

    @property
    def millis(self) -> int:
        return self.time // MILLI

    def check(self, where: str) -> None:
        """Raise `InvalidArgument` if the numbers contradict each other, or nothing would be kept."""
        if self.least < 1:
            raise InvalidArgument(f"{where}: at least one must be retained, not {self.least}")
        if self.most < self.least:
            raise InvalidArgument(
                f"{where}: the most that are retained ({self.most}) must not be less than the least ({self.least})"
            )


class ExpireOptions(msgspec.Struct, frozen=True):
    """The options ``snapshot.*``, ``changelog.*`` and ``consumer.changelog-only``, parsed.

    `limit`: the maximum number of snapshots, and of changelogs, that a writer removes after a commit.
    """

    snapshots: Retention
    changelogs: Retention
    limit: int = bind_option(maintenance.SNAPSHOT_EXPIRE_LIMIT)
    clean_empty_directories: bool = bind_option(maintenance.SNAPSHOT_CLEAN_EMPTY_DIRECTORIES)
    consumers_keep_changelogs_only: bool = bind_option(maintenance.CONSUMER_CHANGELOG_ONLY)
    write_only: bool = bind_option(maintenance.WRITE_ONLY)

    @property
    def decoupled(self) -> bool:
        """Whether changelogs are kept longer than their snapshots."""
        mine, theirs = self.changelogs, self.snapshots
        return mine.most > theirs.most or mine.least > theirs.least or mine.time > theirs.time


def parse_expire_options(options: Mapping[str, str], *, where: str) -> ExpireOptions:
    """Parse the options of one schema, with Paimon's defaults. Changelog options default to the values for snapshots.

    Raises `InvalidArgument`: a value that does not parse. `Unsupported`: an unknown word.
    """
    given = Options(options, where)
    snapshots = Retention(
        given.get(maintenance.SNAPSHOT_NUM_RETAINED_MAX),
        given.get(maintenance.SNAPSHOT_NUM_RETAINED_MIN),
        given.get(maintenance.SNAPSHOT_TIME_RETAINED),
    )
    most, least, time = (
        given.get(maintenance.CHANGELOG_NUM_RETAINED_MAX),
        given.get(maintenance.CHANGELOG_NUM_RETAINED_MIN),
        given.get(maintenance.CHANGELOG_TIME_RETAINED),
    )
    changelogs = Retention(
        snapshots.most if most is None else most,
        snapshots.least if least is None else least,
        snapshots.time if time is None else time,
    )
    return ExpireOptions(snapshots, changelogs, **read_values(ExpireOptions, given))


class PartitionExpiryOptions(msgspec.Struct, frozen=True):
    """The expiry of partitions older than `expiration_time` (None: never), at most `max_num` at a time.

    A commit removes `batch_size` of them. `pattern` builds a time from the partition's values (``$year-$month-$day``;
    None: the first value is the time), and `formatter` parses it. Writers check the partitions once per
    `check_interval`, and at the end of a batch if `at_end_of_input`. With `strict`, rows of partitions that `pattern`
    and `formatter` cannot read are refused.
    """

    expiration_time: timedelta | None = bind_option(maintenance.PARTITION_EXPIRATION_TIME)
    check_interval: timedelta = bind_option(maintenance.PARTITION_EXPIRATION_CHECK_INTERVAL)
    strategy: ExpireStrategy = bind_option(maintenance.PARTITION_EXPIRATION_STRATEGY)
    max_num: int = bind_option(maintenance.PARTITION_EXPIRATION_MAX_NUM)
    batch_size: int = maintenance.PARTITION_EXPIRATION_MAX_NUM.default
    pattern: str | None = bind_option(maintenance.PARTITION_TIMESTAMP_PATTERN)
    formatter: DatePattern | None = None
    strict: bool = bind_option(maintenance.PARTITION_TIMESTAMP_FORMAT_STRICT)
    at_end_of_input: bool = bind_option(maintenance.END_INPUT_CHECK_PARTITION_EXPIRE)


def parse_partition_expiry(raw: Mapping[str, str], *, where: str) -> PartitionExpiryOptions:
    """Parse the options.

    Raises:
        InvalidArgument: a value that does not parse. Unsupported: another strategy, or a formatter letter that Morrow
            does not read.
    """
    options = Options(raw, where)
    parsed = read_values(PartitionExpiryOptions, options)
    batch_size = options.get(maintenance.PARTITION_EXPIRATION_BATCH_SIZE)
    formatter = options.get(maintenance.PARTITION_TIMESTAMP_FORMATTER)
    return PartitionExpiryOptions(
        batch_size=parsed["max_num"] if batch_size is None else batch_size,
        formatter=None if formatter is None else parse_date_pattern(formatter),
        **parsed,
    )


TAG_KEYS = ("tag.", "sink.process-time-zone", "sink.watermark-time-zone", "snapshot.watermark-idle-timeout")
"""Prefixes of the options that `parse_tag_options` reads."""
TIME_OF_DAY = r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])"
DAY = dt.timedelta(days=1)
MIN_PERIOD = dt.timedelta(milliseconds=1)
"""The shortest period: Java counts periods in milliseconds."""

BY_PERIOD = (TagCreation.PROCESS_TIME, TagCreation.WATERMARK)

LENGTHS: Mapping[Period, dt.timedelta] = {
    Period.DAILY: DAY,
    Period.HOURLY: dt.timedelta(hours=1),
    Period.TWO_HOURS: dt.timedelta(hours=2),
}


class TagOptions(msgspec.Struct, frozen=True):
    """The ``tag.*`` options of a table.

    `period` is the named period, or None if `period_length` was given. `process_zone` is None for the zone of this
    machine. `time_retained` and `most` (``tag.num-retained-max``) are None without a limit.
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
    """Parse the options in `raw`; `where` names the table in messages.

    Raises:
        InvalidArgument: a value that does not parse, or settings that contradict each other.
        Unsupported: an unknown word.
    """
    options = Options(_translate_proposed(Options(raw, where)), where)
    period, length = _read_period(options)
    creation, delay = options.get(maintenance.TAG_AUTOMATIC_CREATION), options.get(maintenance.TAG_CREATION_DELAY)
    if creation in BY_PERIOD and delay >= length:
        raise InvalidArgument(
            f"{where}: {maintenance.TAG_CREATION_DELAY} is {delay}, and a period lasts {length}; the delay must "
            "be shorter"
        )
    return TagOptions(
        creation=creation,
        period=period,
        period_length=length,
        formatter=options.get(maintenance.TAG_PERIOD_FORMATTER),
        delay=delay,
        most=_read_tag_limit(options),
        time_retained=_read_time_retained(options),
        expires=options.get(maintenance.TAG_TIME_EXPIRE_ENABLED),
        completes=options.get(maintenance.TAG_AUTOMATIC_COMPLETION),
        success_file=options.get(maintenance.TAG_CREATE_SUCCESS_FILE),
        batch_name=options.get(maintenance.TAG_BATCH_CUSTOMIZED_NAME),
        process_zone=_parse_zone_option(options, maintenance.SINK_PROCESS_TIME_ZONE),
        watermark_zone=_parse_zone_option(options, maintenance.SINK_WATERMARK_TIME_ZONE) or dt.UTC,
        watermark_idle=options.get(maintenance.SNAPSHOT_WATERMARK_IDLE_TIMEOUT),
    )


def parse_time_span(text: str) -> dt.timedelta:
    """Parse a time span as in options, such as ``1 d``. Raises `InvalidArgument`."""
    try:
        return DURATION.parse(text)
    except BadValue as error:
        raise InvalidArgument(f"tags: the time retained is {text!r}; {error}") from None


def _translate_proposed(options: Options) -> Mapping[str, str]:
    """Return the options with the proposal's two options replaced by their released equivalents."""
    raw, where = options.raw, options.where
    proposed = [each for each in (maintenance.TAG_CREATE_TIME, maintenance.TAG_CREATE_INTERVAL) if options.has(each)]
    if not proposed:
        return raw
    for other in (
        maintenance.TAG_CREATION_DELAY,
        maintenance.TAG_CREATION_PERIOD,
        maintenance.TAG_CREATION_PERIOD_DURATION,
    ):
        if options.has(other):
            raise InvalidArgument(f"{where}: {proposed[0]} and {other} say the same thing twice; keep one of them")
    creation = options.text(maintenance.TAG_AUTOMATIC_CREATION)
    if creation is not None and creation.strip().lower() != TagCreation.PROCESS_TIME:
        raise InvalidArgument(
            f"{where}: {proposed[0]} makes tags by the clock, and {maintenance.TAG_AUTOMATIC_CREATION} is "
            f"{creation!r}; make it process-time, or remove {proposed[0]}"
        )
    by_clock = {maintenance.TAG_AUTOMATIC_CREATION.key: str(TagCreation.PROCESS_TIME)}
    return {
        **raw,
        **by_clock,
        maintenance.TAG_CREATION_DELAY.key: _format_delay(options),
        **_translate_interval(options),
    }


def _format_delay(options: Options) -> str:
    text = options.get(maintenance.TAG_CREATE_TIME)
    match = re.fullmatch(TIME_OF_DAY, "00:00" if text is None else text.strip())
    if match is None:
        raise options.refused(maintenance.TAG_CREATE_TIME, "it must be a time of day such as 02:30")
    return f"{60 * int(match['hour']) + int(match['minute'])} min"


def _translate_interval(options: Options) -> Mapping[str, str]:
    interval = options.get(maintenance.TAG_CREATE_INTERVAL)
    if interval is None or interval == DAY:
        return {maintenance.TAG_CREATION_PERIOD.key: str(Period.DAILY)}
    if interval < DAY or interval % DAY:
        raise options.refused(maintenance.TAG_CREATE_INTERVAL, "it must be whole days, such as 7 d")
    return {maintenance.TAG_CREATION_PERIOD_DURATION.key: f"{interval.days} d"}


def _read_period(options: Options) -> tuple[Period | None, dt.timedelta]:
    """Return the named period and the duration; the duration takes precedence if both are set, as in Java."""
    named = options.get(maintenance.TAG_CREATION_PERIOD)
    length = options.get(maintenance.TAG_CREATION_PERIOD_DURATION)
    if length is None:
        return named, LENGTHS[named]
    if length < MIN_PERIOD:
        raise options.refused(maintenance.TAG_CREATION_PERIOD_DURATION, "it must be a millisecond at least")
    return None, length


def _read_tag_limit(options: Options) -> int | None:
    most = options.get(maintenance.TAG_NUM_RETAINED_MAX)
    if most is not None and most < 1:
        raise options.refused(maintenance.TAG_NUM_RETAINED_MAX, "it must be 1 at least")
    return most


def _read_time_retained(options: Options) -> dt.timedelta | None:
    retained = options.get(maintenance.TAG_DEFAULT_TIME_RETAINED)
    if retained is not None and not retained:
        raise options.refused(maintenance.TAG_DEFAULT_TIME_RETAINED, "tags would be gone as soon as they are there")
    return retained


def _parse_zone_option(options: Options, option: Declared[str] | Declared[str | None]) -> dt.tzinfo | None:
    name = options.text(option)
    if name is None:
        return None
    try:
        return parse_zone(name.strip())
    except InvalidArgument as error:
        raise options.refused(option, str(error)) from error


OFFSET = (
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])"
    r"(?:(?P<hour>[0-9])|(?P<hours>[0-9]{2})(?:(?P<colon>:?)(?P<minutes>[0-5][0-9])(?:(?P=colon)(?P<seconds>[0-5][0-9]))?)?)"
)
NO_OFFSET = frozenset(("Z", "UTC", "GMT", "UT"))
MAX_OFFSET = dt.timedelta(hours=18)


def parse_zone(name: str) -> dt.tzinfo:
    """Return the zone of this name. Raises `InvalidArgument`: no such zone."""
    if name in NO_OFFSET:
        return dt.UTC
    if match := re.fullmatch(OFFSET, name):
        hours = int(match["hour"] or match["hours"])
        offset = dt.timedelta(hours=hours, minutes=int(match["minutes"] or 0), seconds=int(match["seconds"] or 0))
        if offset <= MAX_OFFSET:
            return dt.timezone(-offset if match["sign"] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidArgument(
            f"there is no time zone {name!r}; name one such as 'America/Los_Angeles', 'UTC' or 'GMT-08:00'"
        ) from error


DEFAULT_FORMAT = re.compile(
    r"(-?[0-9]{1,10})-(-?[0-9]{1,2})-(-?[0-9]{1,2})"
    r"(?: (-?[0-9]{1,2}):(-?[0-9]{1,2}):(-?[0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
)
MINUS_ZERO = re.compile("-0+(?![0-9])")


def parse_partition_time(
    options: PartitionExpiryOptions, fields: Sequence[DataField], values: Sequence[Value]
) -> int | None:
    """Return the nanoseconds from 1970-01-01 to the time of a partition, both without time zone.

    Args:
        fields: the partition columns.
        values: their values, as `decode_row` returns them.

    Returns: the nanoseconds, or None if a value is null or the text of the values does not parse.

    Raises `Unsupported`: values of a column's type cannot be formatted as text.
    """
    known = list(values) if options.pattern is not None else [values[0]]
    if any(value is None for value in known):
        return None
    texts = [_to_java_text(value, field) for value, field in zip(known, fields)]
    text = texts[0]
    if options.pattern is not None:
        parts = {f"${field.name}": part for field, part in zip(fields, texts)}
        longest_first = sorted(parts, key=len, reverse=True)  # "$month" is not "$m" and "onth"
        text = re.sub("|".join(map(re.escape, longest_first)), lambda found: parts[found[0]], options.pattern)
    return parse_default_time(text) if options.formatter is None else options.formatter.read(text)


def parse_default_time(text: str) -> int | None:
    """Parse a time in the default format into nanoseconds as in `parse_partition_time`; None for any other text."""
    match = DEFAULT_FORMAT.fullmatch(text)
    if match is None or MINUS_ZERO.search(re.sub("(?<=[0-9])-", " ", text)):
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    years, months = divmod(month - 1, 12)
    if abs(year) > MAX_YEAR:
        return None
    days = to_epoch_day(year + years, months + 1, day)
    seconds = (hour * 60 + minute) * 60 + second
    return days * NANOS_PER_DAY + seconds * NANOS_PER_SECOND + int((match[7] or "").ljust(9, "0"))


def _to_java_text(value: Value, field: DataField) -> str:
    folder = partition_path([value], [field.type], ["v"], legacy_name=True)
    return unescape_path_name(folder.removeprefix("v="))
