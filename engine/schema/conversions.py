"""Enabling and disabling deletion vectors: allowed only when the table's files read the same either way.

With vectors, files above level 0 are read as they are and level 0 is not read at all; without, files are merged and
vectors are ignored. A full compaction makes both the same: each bucket is one sorted run without dead rows. Snapshots
of before the change are read only where they are compacted so, too (`engine.plan.deletions`).
"""

from __future__ import annotations

import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.manifest_columns import DELETION_VECTORS_INDEX
from morrow.engine.format.schema import TableSchema
from morrow.engine.options import Options
from morrow.engine.options.declared.merging import DELETION_VECTORS_ENABLED
from morrow.engine.plan.deletions import one_run_each
from morrow.engine.plan.entries import live_entries
from morrow.engine.plan.manifests import index_entries
from morrow.engine.plan.metadata import TableMetadata


def check_conversion(metadata: TableMetadata, before: TableSchema, after: TableSchema) -> None:
    """Checks a change of the option ``deletion-vectors.enabled`` against the newest snapshot.

    Raises:
        InvalidArgument: rows would be lost, duplicated, or reappear.
    """
    had, has = (Options(schema.options, metadata.where).get(DELETION_VECTORS_ENABLED) for schema in (before, after))
    if had == has or (snapshot := metadata.latest_snapshot()) is None:
        return
    compact = "compact the table fully first: compact(full=True)"
    if had:
        dead = _dead_rows(index_entries(metadata, snapshot))
        if dead:
            raise InvalidArgument(
                f"{metadata.where}: the option {DELETION_VECTORS_ENABLED} cannot be unset while deletion vectors mark "
                f"{dead} rows as dead, which would come back; {compact}"
            )
    elif after.primary_keys:
        entries = live_entries(metadata, snapshot, after).frame
        if not one_run_each(entries.filter(entries["_BUCKET"] >= 0)):  # others await a bucket
            raise InvalidArgument(
                f"{metadata.where}: the option {DELETION_VECTORS_ENABLED} cannot be set while buckets hold several "
                f"sorted runs, which would be read unmerged or not at all; {compact}"
            )


def _dead_rows(indexes: pl.DataFrame | None) -> int:
    if indexes is None:
        return 0
    vectors = indexes.filter(indexes["_INDEX_TYPE"] == DELETION_VECTORS_INDEX)
    ranges = vectors.select(pl.col("_DELETIONS_VECTORS_RANGES").explode()).drop_nulls().to_series()
    # A vector of unknown size marks at least a row.
    return int(ranges.struct.field("_CARDINALITY").fill_null(1).sum()) if len(ranges) else 0
