"""The options about tags: their defaults, the two of the proposal, and what contradicts each other."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.tagging import TagOptions, parse_tag_options, time_span
from morrow.engine.options.words import Period, PeriodFormatter, TagCreation

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
    """Parses options: ``tag_creation_period="daily"`` is ``tag.creation-period``."""
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in given.items()}
    return parse_tag_options(keys, where="/t")


def test_without_options_no_tag_is_made() -> None:
    assert options() == DEFAULTS


def test_all_options() -> None:
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
    assert time_span("1 d") == dt.timedelta(days=1)
    with pytest.raises(InvalidArgument, match="it must be a time span"):
        time_span("a day")
