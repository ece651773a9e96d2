"""Whenever writers look, and however often they start anew, tags are those of going through all snapshots in turn."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.options.tagging import TagOptions, parse_tag_options
from morrow.writers.history.tags.automatic import PeriodTags
from morrow.writers.history.tags.periods import MICRO, TagPeriod, wall_time
from tests.support.tags import add_snapshot, millis, table, tags

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
"""Minutes between two snapshots, and whether a writer looks after the second: the same as before, or another."""


def in_turn(times: Sequence[str], options: TagOptions) -> dict[str, int]:
    """Maps names to snapshots, as Java does it: every snapshot is looked at."""
    period, due = TagPeriod.of(options), None
    found: dict[str, int] = {}
    for snapshot_id, text in enumerate(times, 1):
        time = wall_time(millis(text), options.process_zone)
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
