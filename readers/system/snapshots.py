"""``$snapshots``: all live snapshots."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from morrow.readers.casts.java_text import wall_clock
from morrow.readers.system.base import MetadataTable, TableState, columns_of, frame_of

COLUMNS = columns_of(
    snapshot_id="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    commit_user="STRING NOT NULL",
    commit_identifier="BIGINT NOT NULL",
    commit_kind="STRING NOT NULL",
    commit_time="TIMESTAMP(3) NOT NULL",
    base_manifest_list="STRING NOT NULL",
    delta_manifest_list="STRING NOT NULL",
    changelog_manifest_list="STRING",
    total_record_count="BIGINT",
    delta_record_count="BIGINT",
    changelog_record_count="BIGINT",
    watermark="BIGINT",
    next_row_id="BIGINT",
)


def _rows(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    snapshots = list(state.metadata.snapshots())
    rows = (
        (
            snapshot.id,
            snapshot.schema_id,
            snapshot.commit_user,
            snapshot.commit_identifier,
            snapshot.commit_kind,
            None,
            snapshot.base_manifest_list,
            snapshot.delta_manifest_list,
            snapshot.changelog_manifest_list,
            snapshot.total_record_count,
            snapshot.delta_record_count,
            snapshot.changelog_record_count,
            snapshot.watermark,
            snapshot.next_row_id,
        )
        for snapshot in snapshots
    )
    times = wall_clock([snapshot.time_millis for snapshot in snapshots])
    return frame_of(COLUMNS, rows).with_columns(times.alias("commit_time"))


SNAPSHOTS = MetadataTable("snapshots", "living snapshots, oldest first", COLUMNS, _rows)
