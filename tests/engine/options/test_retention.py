"""Retention of snapshots and changelogs by the options of a table."""

from __future__ import annotations

import datetime as dt
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.date_patterns import parse_date_pattern
from morrow.engine.options.declarations import ExpireStrategy, Period, PeriodFormatter, TagCreation
from morrow.engine.options.retention import (
    UNLIMITED,
    ExpireOptions,
    PartitionExpiryOptions,
    Retention,
    TagOptions,
    parse_expire_options,
    parse_partition_expiry,
    parse_tag_options,
    parse_time_span,
    parse_zone,
)

HOUR = timedelta(hours=1)


def test_defaults_are_those_of_paimon() -> None:
    options = parse_expire_options({}, where="t")
    assert options == ExpireOptions(
        snapshots=Retention(UNLIMITED, 10, HOUR),
        changelogs=Retention(UNLIMITED, 10, HOUR),
        limit=50,
        clean_empty_directories=False,
        consumers_keep_changelogs_only=False,
        write_only=False,
    )
    assert not options.decoupled


def test_changelogs_stay_as_long_as_snapshots_unless_they_are_told_to_stay_longer() -> None:
    raw = {"snapshot.num-retained.max": "20", "snapshot.time-retained": "2 h"}
    options = parse_expire_options(raw, where="t")
    assert options.changelogs == options.snapshots == Retention(20, 10, 2 * HOUR)

    for key, value in (("num-retained.max", "21"), ("num-retained.min", "11"), ("time-retained", "3 h")):
        assert parse_expire_options({**raw, f"changelog.{key}": value}, where="t").decoupled
    for key, value in (("num-retained.max", "20"), ("num-retained.min", "5"), ("time-retained", "1 h")):
        assert not parse_expire_options({**raw, f"changelog.{key}": value}, where="t").decoupled


def test_other_options() -> None:
    raw = {
        "snapshot.expire.limit": "7",
        "snapshot.expire.clean-empty-directories": "true",  # its former name
        "consumer.changelog-only": "true",
        "write-only": "true",
    }
    options = parse_expire_options(raw, where="t")
    assert options.limit == 7
    assert options.clean_empty_directories
    assert options.consumers_keep_changelogs_only
    assert options.write_only


def test_values_that_do_not_parse() -> None:
    with pytest.raises(InvalidArgument, match=r"snapshot\.time-retained"):
        parse_expire_options({"snapshot.time-retained": "an hour"}, where="t")


@pytest.mark.parametrize(("most", "least"), [(1, 2), (5, 0), (0, 0)])
def test_numbers_that_contradict_each_other(most: int, least: int) -> None:
    with pytest.raises(InvalidArgument, match="retained"):
        Retention(most, least, HOUR).check("t")


def test_without_options_nothing_expires() -> None:
    options = parse_partition_expiry({}, where="t")
    assert options == PartitionExpiryOptions()
    assert options.expiration_time is None
    assert (options.check_interval, options.max_num, options.batch_size) == (timedelta(hours=1), 100, 100)
    assert options.strategy is ExpireStrategy.VALUES_TIME


def test_all_options() -> None:
    assert parse_partition_expiry(
        {
            "partition.expiration-time": "7 d",
            "partition.expiration-check-interval": "0 s",
            "partition.expiration-strategy": "update-time",
            "partition.expiration-max-num": "5",
            "partition.timestamp-pattern": "$dt",
            "partition.timestamp-formatter": "yyyyMMdd",
            "partition.timestamp-format.strict": "true",
            "end-input.check-partition-expire": "true",
        },
        where="t",
    ) == PartitionExpiryOptions(
        expiration_time=timedelta(days=7),
        check_interval=timedelta(0),
        strategy=ExpireStrategy.UPDATE_TIME,
        max_num=5,
        batch_size=5,  # equals max-num unless it is set
        pattern="$dt",
        formatter=parse_date_pattern("yyyyMMdd"),
        strict=True,
        at_end_of_input=True,
    )


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("partition.expiration-time", "soon", InvalidArgument),
        ("partition.expiration-max-num", "many", InvalidArgument),
        ("partition.expiration-strategy", "by-moon", Unsupported),
        ("partition.timestamp-formatter", "YYYY-ww", Unsupported),
        ("partition.timestamp-formatter", "yyyy}", InvalidArgument),
    ],
)
def test_what_does_not_parse_is_refused(key: str, value: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_partition_expiry({key: value}, where="t")


# Tag options: their defaults, the two options of the proposal, and contradictions.

DEFAULTS = TagOptions(
    creation=TagCreation.NONE,
    period=Period.DAILY,
    period_length=dt.timedelta(days=1),
    formatter=PeriodFormatter.WITH_DASHES,
    delay=dt.timedelta(),
    most=None,
    time_retained=None,
    expires=True,
    completes=False,
    success_file=False,
    batch_name=None,
    process_zone=None,
    watermark_zone=dt.UTC,
    watermark_idle=None,
)


def options(**given: str) -> TagOptions:
    """Parse options; ``tag_creation_period="daily"`` sets ``tag.creation-period``."""
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in given.items()}
    return parse_tag_options(keys, where="/t")


def test_without_options_no_tag_is_made() -> None:
    assert options() == DEFAULTS


def test_all_options_tagging() -> None:
    parsed = options(
        tag__automatic_creation="WATERMARK",
        tag__creation_period="two-hours",
        tag__period_formatter="without_dashes",
        tag__creation_delay="10 min",
        tag__num_retained_max="3",
        tag__default_time_retained="7 d",
        tag__time_expire_enabled="false",
        tag__automatic_completion="true",
        tag__create_success_file="true",
        tag__batch__customized_name="nightly",
        sink__process_time_zone="Asia/Shanghai",
        sink__watermark_time_zone="GMT-08:00",
        snapshot__watermark_idle_timeout="5 min",
    )

    assert parsed == TagOptions(
        creation=TagCreation.WATERMARK,
        period=Period.TWO_HOURS,
        period_length=dt.timedelta(hours=2),
        formatter=PeriodFormatter.WITHOUT_DASHES,
        delay=dt.timedelta(minutes=10),
        most=3,
        time_retained=dt.timedelta(days=7),
        expires=False,
        completes=True,
        success_file=True,
        batch_name="nightly",
        process_zone=ZoneInfo("Asia/Shanghai"),
        watermark_zone=dt.timezone(dt.timedelta(hours=-8)),
        watermark_idle=dt.timedelta(minutes=5),
    )


def test_a_duration_counts_where_the_period_has_a_name_too() -> None:
    parsed = options(tag__creation_period="hourly", tag__creation_period_duration="90 min")

    assert (parsed.period, parsed.period_length) == (None, dt.timedelta(minutes=90))


@pytest.mark.parametrize(
    ("proposed", "released"),
    [
        ({"tag__create_time": "02:30"}, {"tag__creation_delay": "150 min"}),
        ({"tag__create_interval": "1 d"}, {}),
        ({"tag__create_interval": "24 h", "tag__create_time": "23:59"}, {"tag__creation_delay": "1439 min"}),
        ({"tag__create_interval": "7 d"}, {"tag__creation_period_duration": "7 d"}),
    ],
)
def test_the_options_of_the_proposal_are_those_that_say_the_same(
    proposed: dict[str, str], released: dict[str, str]
) -> None:
    by_the_clock = {"tag__automatic_creation": "process-time"}

    assert options(**proposed) == options(**by_the_clock, **released)
    assert options(**proposed, **by_the_clock) == options(**proposed)


@pytest.mark.parametrize("time", ["2:30", "24:00", "12:60", "noon", ""])
def test_a_time_of_day_has_two_digits_each(time: str) -> None:
    with pytest.raises(InvalidArgument, match=f"'tag.create-time' has the value '{time}'; it must be a time of day"):
        options(tag__create_time=time)


@pytest.mark.parametrize("interval", ["12 h", "36 h", "0 d", "1"])
def test_an_interval_is_whole_days(interval: str) -> None:
    with pytest.raises(InvalidArgument, match=r"'tag\.create-interval' .* it must be whole days"):
        options(tag__create_interval=interval)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tag__create_time": "02:30", "tag__creation_delay": "1 h"}, "say the same thing twice"),
        ({"tag__create_interval": "2 d", "tag__creation_period": "daily"}, "say the same thing twice"),
        ({"tag__create_interval": "2 d", "tag__creation_period_duration": "2 d"}, "say the same thing twice"),
        ({"tag__create_time": "02:30", "tag__automatic_creation": "watermark"}, "makes tags by the clock"),
        ({"tag__create_time": "02:30", "tag__automatic_creation": "none"}, "makes tags by the clock"),
        (
            {"tag__automatic_creation": "process-time", "tag__creation_delay": "1 d"},
            "'tag.creation-delay' is 1 day, 0:00:00, and a period lasts 1 day, 0:00:00; the delay must be shorter",
        ),
        ({"tag__creation_period_duration": "1 µs"}, "it must be a millisecond at least"),
        ({"tag__num_retained_max": "0"}, "it must be 1 at least"),
        ({"tag__default_time_retained": "0 s"}, "tags would be gone as soon as they are there"),
        ({"sink__process_time_zone": "Mars"}, "'sink.process-time-zone' .* there is no time zone 'Mars'"),
        ({"tag__creation_delay": "soon"}, "it must be a time span"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        options(**given)


def test_a_delay_that_nobody_waits_for_is_no_matter() -> None:
    assert options(tag__creation_delay="9 d").delay == dt.timedelta(days=9)


@pytest.mark.parametrize("key", ["tag__automatic_creation", "tag__creation_period", "tag__period_formatter"])
def test_unknown_words_are_refused(key: str) -> None:
    with pytest.raises(Unsupported, match="known values"):
        options(**{key: "sometimes"})


def test_a_span_of_time_in_words() -> None:
    assert parse_time_span("1 d") == dt.timedelta(days=1)
    with pytest.raises(InvalidArgument, match="it must be a time span"):
        parse_time_span("a day")


# Time zones by their Java names.

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
    assert SUMMER.astimezone(parse_zone(name)).utcoffset() == dt.timedelta(hours=hours)


@pytest.mark.parametrize(
    "name", ["", "utc+8", "+8:30", "+18:01", "+05:60", "+1:2:3", "Mars/Olympus", "../UTC", "America"]
)
def test_there_is_no_such_zone(name: str) -> None:
    with pytest.raises(InvalidArgument, match="there is no time zone"):
        parse_zone(name)
