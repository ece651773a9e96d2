"""``$manifests``: the manifests of a snapshot, changelog manifests last."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from morrow.engine.plan.manifests import changelog_manifests_of, manifests_of
from morrow.readers.system.base import MetadataTable, TableState, columns_of, frame_of
from morrow.readers.system.partition_text import partition_rows

COLUMNS = columns_of(
    file_name="STRING NOT NULL",
    file_size="BIGINT NOT NULL",
    num_added_files="BIGINT NOT NULL",
    num_deleted_files="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    min_partition_stats="STRING",
    max_partition_stats="STRING",
    min_row_id="BIGINT",
    max_row_id="BIGINT",
)


def _rows(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    metadata, snapshot = state.metadata, state.snapshot
    if snapshot is None:
        return frame_of(COLUMNS, [])
    changelog = changelog_manifests_of(metadata, snapshot)
    listed = manifests_of(metadata, snapshot)
    listed = listed if changelog is None else pl.concat([listed, changelog])
    stats = listed["_PARTITION_STATS"].struct
    return listed.select(
        file_name="_FILE_NAME",
        file_size="_FILE_SIZE",
        num_added_files="_NUM_ADDED_FILES",
        num_deleted_files="_NUM_DELETED_FILES",
        schema_id="_SCHEMA_ID",
        min_partition_stats=partition_rows(stats.field("_MIN_VALUES"), state.schema, where=metadata.where),
        max_partition_stats=partition_rows(stats.field("_MAX_VALUES"), state.schema, where=metadata.where),
        min_row_id="_MIN_ROW_ID",
        max_row_id="_MAX_ROW_ID",
    )


MANIFESTS = MetadataTable("manifests", "the manifests of a snapshot", COLUMNS, _rows, travels=True)
