"""``$tags``, ``$branches`` and ``$consumers``: the references that keep snapshots alive, or lead away from them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

import polars as pl

from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.metadata import BRANCH_PREFIX
from morrow.readers.casts.java_text import java_order, wall_clock
from morrow.readers.system.base import MetadataTable, TableState, columns_of, frame_of

TAG_COLUMNS = columns_of(
    tag_name="STRING NOT NULL",
    snapshot_id="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    commit_time="TIMESTAMP(3) NOT NULL",
    record_count="BIGINT",
    create_time="TIMESTAMP(3)",
    time_retained="STRING",
)
BRANCH_COLUMNS = columns_of(branch_name="STRING NOT NULL", create_time="TIMESTAMP(3) NOT NULL")
CONSUMER_COLUMNS = columns_of(consumer_id="STRING NOT NULL", next_snapshot_id="BIGINT NOT NULL")

MICROS_PER_SECOND = 1_000_000
SECONDS_PER_MINUTE = 60
SECONDS_PER_HOUR = 3600


def _tags(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    tags = sorted(state.metadata.tags(), key=lambda tag: java_order(tag.name))
    rows = (
        (
            tag.name,
            tag.snapshot.id,
            tag.snapshot.schema_id,
            None,
            tag.snapshot.total_record_count,
            tag.create_time,
            None if tag.time_retained is None else duration_text(tag.time_retained),
        )
        for tag in tags
    )
    times = wall_clock([tag.snapshot.time_millis for tag in tags])
    return frame_of(TAG_COLUMNS, rows).with_columns(times.alias("commit_time"))


def duration_text(duration: dt.timedelta) -> str:
    """Returns Java's text of a duration: ``PT24H``, ``PT1H30M``, ``PT0.5S``; hours are the largest unit."""
    micros = duration // dt.timedelta(microseconds=1)
    sign = "-" if micros < 0 else ""
    seconds, fraction = divmod(abs(micros), MICROS_PER_SECOND)
    hours, rest = divmod(seconds, SECONDS_PER_HOUR)
    minutes, rest = divmod(rest, SECONDS_PER_MINUTE)
    texts = [f"{sign}{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count]
    if rest or fraction or not texts:
        digits = f".{fraction:06d}".rstrip("0") if fraction else ""
        texts.append(f"{sign}{rest}{digits}S")
    return "PT" + "".join(texts)


def _branches(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    metadata = state.metadata
    listed = [s for s in metadata.store.list(metadata.paths.branches_dir) if s.is_dir]
    changed = {s.name.removeprefix(BRANCH_PREFIX): s.modified_millis for s in listed}
    names = metadata.branch_names()
    times = wall_clock([changed.get(name, 0) for name in names])
    return pl.DataFrame({"branch_name": pl.Series(names, dtype=pl.String), "create_time": times})


def _consumers(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    return frame_of(CONSUMER_COLUMNS, Consumers(state.metadata).all().items())


TAGS = MetadataTable("tags", "the tags by name", TAG_COLUMNS, _tags)
BRANCHES = MetadataTable("branches", "the branches except main, by name", BRANCH_COLUMNS, _branches)
CONSUMERS = MetadataTable("consumers", "readers of changes and where they go on", CONSUMER_COLUMNS, _consumers)
