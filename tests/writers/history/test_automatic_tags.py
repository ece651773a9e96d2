"""Automatic tags. Histories and their tags were compared with Java's TagAutoManager."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument
from morrow.engine.options.retention import TagOptions, parse_tag_options
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.structs import replace
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.history.automatic_tags import (
    PeriodTags,
    create_due_tag,
    expire_tags,
    find_tag_actions,
    needs_empty_snapshot,
)
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.history.tag_periods import MICRO, TagPeriod, to_wall_time
from morrow.writers.history.tags import create_tag, read_tag_options, replace_tag
from morrow.writers.target import WriteTarget
from tests.support.recording_store import RecordingStore
from tests.support.tags import add_snapshot, millis, moment, table, tags

BY_CLOCK = {"tag.automatic-creation": "process-time"}
BY_WATERMARK = {"tag.automatic-creation": "watermark"}
BY_BATCH = {"tag.automatic-creation": "batch"}
HOURLY = {"tag.creation-period": "hourly"}


def committed(metadata: TableMetadata, *times: str, first: int = 1) -> None:
    """Add snapshots with these times, and run the tag actions of a writer after each."""
    actions = find_tag_actions(WriteTarget.of(metadata), clock=lambda: moment("2024-06-01"))
    for snapshot_id, time in enumerate(times, first):
        snapshot = add_snapshot(metadata, snapshot_id, time)
        for action in actions:
            action(snapshot)


# By the clock


def test_the_first_snapshot_after_a_day_is_the_tag_of_that_day(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_CLOCK)

    committed(
        metadata, "2024-05-13T09:00", "2024-05-13T23:00", "2024-05-14T00:00", "2024-05-14T12:00", "2024-05-15T08:00"
    )

    assert tags(metadata) == {"2024-05-12": 1, "2024-05-13": 3, "2024-05-14": 5}


def test_days_are_those_of_a_zone(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_CLOCK | {"sink.process-time-zone": "Asia/Shanghai"})

    committed(metadata, "2024-05-13T09:00", "2024-05-13T16:00", "2024-05-14T00:00")

    assert tags(metadata) == {"2024-05-12": 1, "2024-05-13": 2}


def test_a_delay_lets_late_rows_in(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_CLOCK | {"tag.creation-delay": "2 h"})

    committed(metadata, "2024-05-13T09:00", "2024-05-14T01:59", "2024-05-14T02:00")

    assert tags(metadata) == {"2024-05-12": 1, "2024-05-13": 3}


def test_the_options_of_the_proposal(tmp_path: Path) -> None:
    metadata = table(tmp_path, options={"tag.create-time": "02:00", "tag.create-interval": "7 d"})

    committed(
        metadata, "2024-05-13T09:00", "2024-05-16T01:59", "2024-05-16T02:00", "2024-05-20T02:00", "2024-05-23T03:00"
    )

    assert tags(metadata) == {"202405020000": 1, "202405090000": 3, "202405160000": 5}  # the epoch was a Thursday


def test_periods_without_a_snapshot_have_no_tag(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_CLOCK | HOURLY)

    committed(metadata, "2024-05-14T09:00", "2024-05-14T13:10", "2024-05-14T13:20")

    assert tags(metadata) == {"2024-05-14 08": 1, "2024-05-14 12": 2}


def test_missing_tags_are_completed_one_a_snapshot(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_CLOCK | HOURLY | {"tag.automatic-completion": "true"})

    committed(
        metadata, "2024-05-14T09:00", "2024-05-14T12:10", "2024-05-14T12:20", "2024-05-14T12:30", "2024-05-14T12:40"
    )

    assert tags(metadata) == {"2024-05-14 08": 1, "2024-05-14 09": 2, "2024-05-14 10": 3, "2024-05-14 11": 4}


def test_the_next_writer_goes_on_where_the_tags_end(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-13T09:00", "2024-05-14T09:00", options=BY_CLOCK)
    create_tag(metadata, "2024-05-13", 2)
    create_tag(metadata, "mine", 2)

    committed(metadata, "2024-05-14T10:00", "2024-05-15T10:00", first=3)

    assert tags(metadata) == {"2024-05-13": 2, "mine": 2, "2024-05-14": 4}


def test_nothing_is_read_while_nothing_is_due(tmp_path: Path) -> None:
    store = RecordingStore()
    metadata = table(tmp_path, *(f"2024-05-13T09:{m:02}" for m in range(60)), options=BY_CLOCK, store=store)
    create_tag(metadata, "2024-05-13", 5)
    periods = PeriodTags(metadata, read_tag_options(metadata))
    store.reads.clear()

    for minute in range(60, 100):
        assert periods.run(add_snapshot(metadata, minute + 1, f"2024-05-14T09:{minute - 60:02}")) == []

    assert store.reads == ["tag-2024-05-13"]


def test_the_first_that_is_due_is_found_by_halving(tmp_path: Path) -> None:
    store = RecordingStore()
    times = [(moment("2024-05-13T23:00") + dt.timedelta(minutes=i)).isoformat() for i in range(500)]
    metadata = table(tmp_path, *times, options=BY_CLOCK, store=store)
    create_tag(metadata, "2024-05-12", 1)
    store.reads.clear()

    made = PeriodTags(metadata, read_tag_options(metadata)).run(metadata.snapshot(500))

    assert [(tag.name, tag.snapshot.id) for tag in made] == [("2024-05-13", 61)]
    assert len(store.reads) < 20


# By watermarks


def test_watermarks_tell_the_time_of_rows(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_WATERMARK | {"sink.watermark-time-zone": "GMT-08:00"})
    periods = PeriodTags(metadata, read_tag_options(metadata))
    marks = [None, "2024-05-13T09:00", "2024-05-14T07:59", "2024-05-14T08:00"]
    for i, mark in enumerate(marks, 1):
        periods.run(add_snapshot(metadata, i, "2024-06-01T00:00", watermark=mark))

    assert tags(metadata) == {"2024-05-12": 2, "2024-05-13": 4}


def test_the_end_of_a_stream_makes_no_tag(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-13T09:00", options=BY_WATERMARK)
    periods = PeriodTags(metadata, read_tag_options(metadata))
    last = replace(metadata.snapshot(1), watermark=2**63 - 1)

    assert periods.run(last) == []


# By batches


def test_a_batch_is_tagged_with_its_day(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_BATCH)

    committed(metadata, "2024-05-13T09:00", "2024-05-13T10:00", "2024-05-14T09:00")

    assert tags(metadata) == {"batch-write-2024-05-13": 2, "batch-write-2024-05-14": 3}


def test_a_name_of_its_own_moves_on(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_BATCH | {"tag.batch.customized-name": "nightly"})

    committed(metadata, "2024-05-13T09:00", "2024-05-14T09:00")

    assert tags(metadata) == {"nightly": 2}


def test_commits_of_streams_are_no_batches(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_BATCH)
    (tag_batch, _) = find_tag_actions(WriteTarget.of(metadata))

    tag_batch(add_snapshot(metadata, 1, "2024-05-13T09:00", identifier=7))

    assert tags(metadata) == {}


def test_of_batches_all_tags_count(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-11", options=BY_BATCH | {"tag.num-retained-max": "2"})
    create_tag(metadata, "mine", 1)

    committed(metadata, "2024-05-12", "2024-05-13", first=2)

    assert tags(metadata) == {"batch-write-2024-05-12": 2, "batch-write-2024-05-13": 3}


# Maximum number, retention and callbacks


def test_only_so_many_automatic_tags_are_kept(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-10", options=BY_CLOCK | {"tag.num-retained-max": "2"})
    create_tag(metadata, "mine", 1)

    committed(metadata, "2024-05-11", "2024-05-12", "2024-05-13", first=2)

    assert tags(metadata) == {"mine": 1, "2024-05-11": 3, "2024-05-12": 4}


def test_automatic_tags_end_as_all_do(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_CLOCK | {"tag.default-time-retained": "1 d"})

    committed(metadata, "2024-05-13T09:00")

    (tag,) = metadata.tags()
    assert tag.time_retained == dt.timedelta(days=1)
    assert tag.create_time == moment("2024-06-01").astimezone().replace(tzinfo=None)


def test_commits_delete_tags_whose_time_is_over(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-01")
    create_tag(metadata, "old", time_retained=dt.timedelta(days=1), clock=lambda: moment("2024-05-01"))

    committed(metadata, "2024-06-01", first=2)

    assert tags(metadata) == {}


def test_unless_the_table_wants_to_keep_them(tmp_path: Path) -> None:
    metadata = table(tmp_path, options={"tag.time-expire-enabled": "false"})

    assert find_tag_actions(WriteTarget.of(metadata)) == []


def test_others_may_have_made_the_same_tag(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-13T09:00", options=BY_CLOCK)
    one, other = (PeriodTags(metadata, read_tag_options(metadata)) for _ in range(2))
    snapshot = metadata.snapshot(1)

    assert [len(one.run(snapshot)), len(other.run(snapshot))] == [1, 0]
    assert tags(metadata) == {"2024-05-12": 1}


def test_a_second_automatic_name_for_one_snapshot_is_refused(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-13T09:00", options=BY_CLOCK)
    create_tag(metadata, "2024-05-12", 1)

    with pytest.raises(InvalidArgument, match="snapshot 1 has the automatic tag '2024-05-12'"):
        create_tag(metadata, "2024-05-13", 1)


def test_wrong_options_are_found_before_anything_is_written(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_CLOCK | HOURLY | {"tag.creation-delay": "1 h"})

    with pytest.raises(InvalidArgument, match="the delay must be shorter"):
        find_tag_actions(WriteTarget.of(metadata))


# Idle tables


def test_what_is_due_is_made_from_the_snapshots_that_are_there(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-13T09:00", "2024-05-14T09:00", "2024-05-14T10:00", options=BY_CLOCK)

    made = create_due_tag(metadata, now=moment("2024-05-14T11:00"))

    assert [(tag.name, tag.snapshot.id) for tag in made] == [("2024-05-12", 1), ("2024-05-13", 2)]
    assert create_due_tag(metadata, now=moment("2024-05-14T12:00")) == []
    assert metadata.snapshot_ids() == [1, 2, 3]


@pytest.fixture
def idle(tmp_path: Path) -> TableMetadata:
    """Commit an empty snapshot with the current time, and tag it manually as the snapshot of January 1st."""
    metadata = table(tmp_path, options=BY_CLOCK | {"tag.automatic-completion": "true"})
    TableCommit(WriteTarget.of(metadata)).commit((), keep_empty=True)
    create_tag(metadata, "2024-01-01", 1)
    return metadata


def test_an_empty_snapshot_carries_the_tag_of_a_table_that_stands_still(idle: TableMetadata) -> None:
    made = create_due_tag(idle, now=moment("2024-01-03T00:00"))

    assert [(tag.name, tag.snapshot.id) for tag in made] == [("2024-01-02", 2)]
    assert create_due_tag(idle, now=moment("2024-01-03T23:00")) == []


def test_each_missing_tag_gets_one(idle: TableMetadata) -> None:
    create_due_tag(idle, now=moment("2024-01-05T12:00"))

    assert tags(idle) == {"2024-01-01": 1, "2024-01-02": 2, "2024-01-03": 3, "2024-01-04": 4}


@pytest.mark.parametrize("options", [{}, BY_WATERMARK, BY_BATCH])
def test_other_tables_wait(tmp_path: Path, options: dict[str, str]) -> None:
    metadata = table(tmp_path, "2024-05-13T09:00", options=options)

    assert create_due_tag(metadata, now=moment("2034-05-13")) == []
    assert metadata.snapshot_ids() == [1]


def test_a_time_before_all_names_makes_no_tag(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-13T09:00", options=BY_CLOCK)
    create_due_tag(metadata, now=dt.datetime(1, 1, 1, tzinfo=dt.UTC))

    assert tags(metadata) == {"2024-05-12": 1}


def test_a_table_without_snapshots_waits(tmp_path: Path) -> None:
    assert create_due_tag(table(tmp_path, options=BY_CLOCK), now=moment("2024-05-13")) == []


# Streams that have nothing to commit


@pytest.mark.parametrize(("now", "forced"), [("2024-05-14T23:59", False), ("2024-05-15T00:00", True)])
def test_a_stream_commits_an_empty_snapshot_when_a_period_has_ended(tmp_path: Path, now: str, forced: bool) -> None:
    metadata = table(tmp_path, "2024-05-14T09:00", options=BY_CLOCK)
    create_tag(metadata, "2024-05-13", 1)

    assert needs_empty_snapshot(WriteTarget.of(metadata), clock=lambda: moment(now)) == forced


@pytest.mark.parametrize(("now", "forced"), [("2024-05-14T09:04", False), ("2024-05-14T09:05", True)])
def test_or_when_its_watermark_stands_still(tmp_path: Path, now: str, forced: bool) -> None:
    metadata = table(tmp_path, options=BY_WATERMARK | {"snapshot.watermark-idle-timeout": "5 min"})
    add_snapshot(metadata, 1, "2024-06-01", watermark="2024-05-14T09:00")

    assert needs_empty_snapshot(WriteTarget.of(metadata), clock=lambda: moment(now)) == forced


@pytest.mark.parametrize(
    "options", [{}, BY_BATCH, BY_WATERMARK, BY_CLOCK | {"write-only": "true"}], ids=lambda o: "-".join(o.values())
)
def test_other_streams_do_not(tmp_path: Path, options: dict[str, str]) -> None:
    metadata = table(tmp_path, "2024-05-14T09:00", options=options)

    assert not needs_empty_snapshot(WriteTarget.of(metadata), clock=lambda: moment("2034-01-01"))


def test_so_that_each_period_is_tagged(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=BY_CLOCK)
    commits = commit_with_maintenance(WriteTarget.of(metadata))

    assert commits.commit((), identifier=1) is not None  # there is no tag yet, so one is due
    assert commits.commit((), identifier=2) is None
    assert commits.commit(()) is None
    assert list(tags(metadata).values()) == [1]


# Tags that have expired.

MADE = moment("2024-05-14T12:00")
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def metadata(tmp_path: Path) -> TableMetadata:
    """Make tags at noon that last an hour, a day and forever; the file of the last one is from 1 o'clock."""
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
    from morrow.writers.history import automatic_tags

    listed = automatic_tags.list_tag_files(metadata)
    replace_tag(metadata, "hour", 2)
    monkeypatch.setattr(automatic_tags, "list_tag_files", lambda _: listed)

    assert expire_tags(metadata, clock=lambda: MADE + 2 * HOUR) == []


def test_a_tag_that_is_gone_meanwhile(metadata: TableMetadata, monkeypatch: pytest.MonkeyPatch) -> None:
    from morrow.writers.history import automatic_tags

    listed = automatic_tags.list_tag_files(metadata)
    Path(metadata.paths.tag("hour")).unlink()
    monkeypatch.setattr(automatic_tags, "list_tag_files", lambda _: listed)

    assert expire_tags(metadata, clock=lambda: MADE + 2 * HOUR) == []


# However often writers look or restart, they make the same tags as a pass over all snapshots.

PERIODS = (
    {"tag.creation-period": "daily"},
    {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"},
    {"tag.creation-period": "two-hours"},
    {"tag.creation-period-duration": "45 min"},
)
OPTIONS = st.builds(
    lambda period, delay, completes: {
        **period,
        "tag.automatic-creation": "process-time",
        "tag.creation-delay": f"{delay} min",
        "tag.automatic-completion": str(completes).lower(),
    },
    st.sampled_from(PERIODS),
    st.integers(0, 44),
    st.booleans(),
)
STEPS = st.lists(st.tuples(st.integers(0, 300), st.sampled_from(["nobody looks", "same", "anew"])), max_size=8)
"""Minutes between two snapshots, and whether the same writer, a new writer or no writer looks after the second."""


def in_turn(times: Sequence[str], options: TagOptions) -> dict[str, int]:
    """Map tag names to snapshots by looking at every snapshot, as Java does."""
    period, due = TagPeriod.of(options), None
    found: dict[str, int] = {}
    for snapshot_id, text in enumerate(times, 1):
        time = to_wall_time(millis(text), options.process_zone)
        assert time is not None
        if due is None or time - options.delay // MICRO >= period.next(due):
            begin = due if options.completes and due is not None else period.last_ended(time)
            name = period.name(begin)
            assert name is not None
            found[name] = snapshot_id
            due = period.next(begin)
    return found


@given(OPTIONS, STEPS)
def test_tags_do_not_depend_on_when_somebody_looks(settings: dict[str, str], steps: list[tuple[int, str]]) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        metadata, time = table(folder, options=settings), dt.datetime(2024, 2, 28, 22, 10)
        options = parse_tag_options(metadata.latest_schema().options, where="/t")
        writer, times = PeriodTags(metadata, options), []
        for snapshot_id, (minutes, who) in enumerate([*steps, (0, "anew")], 1):
            time += dt.timedelta(minutes=minutes)
            times.append(time.isoformat())
            snapshot = add_snapshot(metadata, snapshot_id, times[-1])
            writer = PeriodTags(metadata, options) if who == "anew" else writer
            if who != "nobody looks":
                writer.run(snapshot)

        assert tags(metadata) == in_turn(times, options)
    finally:
        shutil.rmtree(folder)
