"""``$partitions`` and ``$buckets``: sums over the files of a snapshot.

They are sums over all manifest entries, where a DELETE subtracts what its ADD counted; only the time of the last update
is that of the newest file, even if it is deleted again. Java counts the same way, and the result changes with a merge
of manifests.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from morrow.engine.format.manifest_columns import ADD
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.plan.manifests import manifest_entries, manifests_of
from morrow.readers.system.base import MetadataTable, TableState, columns_of, frame_of
from morrow.readers.system.partition_text import partition_rows, partition_specs

PARTITION_COLUMNS = columns_of(
    partition="STRING",
    record_count="BIGINT NOT NULL",
    file_size_in_bytes="BIGINT NOT NULL",
    file_count="BIGINT NOT NULL",
    last_update_time="TIMESTAMP(3)",
    created_at="TIMESTAMP(3)",
    created_by="STRING",
    updated_by="STRING",
    options="STRING",
)
"""The last four are known to catalogs that manage partitions; in a file system they are null."""

BUCKET_COLUMNS = columns_of(
    partition="STRING",
    bucket="INT NOT NULL",
    record_count="BIGINT NOT NULL",
    file_size_in_bytes="BIGINT NOT NULL",
    file_count="BIGINT NOT NULL",
    last_update_time="TIMESTAMP(3)",
)

COUNTED = ("_KIND", "_PARTITION", "_BUCKET", "_ROW_COUNT", "_FILE_SIZE", "_CREATION_TIME")


def real_buckets(state: TableState) -> pl.Expr:
    """Returns a condition for the entries that scans of the table see: postponed rows are in no bucket yet."""
    return pl.col("_BUCKET") >= 0 if state.options.bucket == POSTPONE_BUCKET else pl.lit(True)


def partition_sums(state: TableState, keys: Sequence[str], kept: pl.Expr) -> pl.DataFrame | None:
    """Returns counts of each group of entries that still has files; None for a table without a snapshot."""
    if state.snapshot is None:
        return None
    manifests = manifests_of(state.metadata, state.snapshot)
    if not manifests.height:
        return None
    entries = pl.concat([frame.select(COUNTED) for frame in manifest_entries(state.metadata, manifests)])
    sign = pl.when(pl.col("_KIND") == ADD).then(1).otherwise(-1)
    return (
        entries.lazy()
        .filter(kept)
        .group_by(keys)
        .agg(
            (pl.col("_ROW_COUNT") * sign).sum().alias("record_count"),
            (pl.col("_FILE_SIZE") * sign).sum().alias("file_size_in_bytes"),
            sign.cast(pl.Int64).sum().alias("file_count"),
            pl.col("_CREATION_TIME").max().alias("last_update_time"),
        )
        .filter(pl.col("file_count") > 0)
        .collect()
    )


def _partitions(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    sums = partition_sums(state, ["_PARTITION"], real_buckets(state))
    if sums is None:
        return frame_of(PARTITION_COLUMNS, [])
    default, where = state.options.partition_default_name, state.metadata.where
    unknown = frame_of(PARTITION_COLUMNS[5:], [(None,) * 4]).select(pl.all().repeat_by(sums.height).explode())
    return sums.with_columns(
        partition_specs(sums["_PARTITION"], state.schema, default, where=where).alias("partition"), *unknown
    ).sort("partition")


def _buckets(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    sums = partition_sums(state, ["_PARTITION", "_BUCKET"], pl.lit(True))
    if sums is None:
        return frame_of(BUCKET_COLUMNS, [])
    partition = partition_rows(sums["_PARTITION"], state.schema, where=state.metadata.where).alias("partition")
    return sums.rename({"_BUCKET": "bucket"}).with_columns(partition).sort("partition", "bucket")


PARTITIONS = MetadataTable(
    "partitions", "rows, bytes and files of each partition", PARTITION_COLUMNS, _partitions, travels=True
)
BUCKETS = MetadataTable("buckets", "rows, bytes and files of each bucket", BUCKET_COLUMNS, _buckets, travels=True)
