"""Tags whose time is over."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest

from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.history.tags.changing import replace_tag
from morrow.writers.history.tags.creation import create_tag
from morrow.writers.history.tags.retention import expire_tags
from tests.support.tags import moment, table, tags

MADE = moment("2024-05-14T12:00")
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def metadata(tmp_path: Path) -> TableMetadata:
    """Tags that were made at noon: for an hour, for a day, and for ever (its file is of 1 o'clock)."""
    made = table(tmp_path, "2024-05-14T09:00", "2024-05-14T10:00")
    create_tag(made, "hour", 1, time_retained=HOUR, clock=lambda: MADE)
    create_tag(made, "day", 1, time_retained=24 * HOUR, clock=lambda: MADE)
    create_tag(made, "ever", 2)
    at = (MADE + HOUR).timestamp()
    os.utime(made.paths.tag("ever"), (at, at))
    return made


@pytest.mark.parametrize(
    ("after", "expired"),
    [(HOUR, []), (HOUR + dt.timedelta(microseconds=1), ["hour"]), (25 * HOUR, ["day", "hour"])],
)
def test_a_tag_stays_as_long_as_it_says(metadata: TableMetadata, after: dt.timedelta, expired: list[str]) -> None:
    assert expire_tags(metadata, clock=lambda: MADE + after) == expired
    assert set(tags(metadata)) == {"hour", "day", "ever"} - {*expired}


@pytest.mark.parametrize(
    ("older_than", "expired"),
    [(MADE, []), (MADE + dt.timedelta(seconds=1), ["day", "hour"]), (MADE + 2 * HOUR, ["day", "hour", "ever"])],
)
def test_or_until_somebody_wants_the_old_ones_gone(
    metadata: TableMetadata, older_than: dt.datetime, expired: list[str]
) -> None:
    assert expire_tags(metadata, older_than=older_than, clock=lambda: MADE) == expired


def test_a_zone_tells_which_moment_is_meant(metadata: TableMetadata) -> None:
    shanghai = dt.timezone(dt.timedelta(hours=8))

    assert expire_tags(metadata, older_than=MADE.replace(tzinfo=shanghai), clock=lambda: MADE) == []


def test_a_time_without_an_end_in_any_calendar(metadata: TableMetadata) -> None:
    create_tag(metadata, "long", time_retained=dt.timedelta.max, clock=lambda: MADE)

    assert "long" not in expire_tags(metadata, clock=lambda: moment("9999-12-31"))


def test_a_tag_that_was_replaced_meanwhile_stays(metadata: TableMetadata, monkeypatch: pytest.MonkeyPatch) -> None:
    from morrow.writers.history.tags import retention

    listed = retention.tag_files(metadata)
    replace_tag(metadata, "hour", 2)
    monkeypatch.setattr(retention, "tag_files", lambda _: listed)

    assert expire_tags(metadata, clock=lambda: MADE + 2 * HOUR) == []


def test_a_tag_that_is_gone_meanwhile(metadata: TableMetadata, monkeypatch: pytest.MonkeyPatch) -> None:
    from morrow.writers.history.tags import retention

    listed = retention.tag_files(metadata)
    Path(metadata.paths.tag("hour")).unlink()
    monkeypatch.setattr(retention, "tag_files", lambda _: listed)

    assert expire_tags(metadata, clock=lambda: MADE + 2 * HOUR) == []
