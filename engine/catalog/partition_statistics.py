"""Changes of each partition in a commit, for the catalog's partition list: sums over the commit's new manifests."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl

from morrow.engine.format.binary_row import decode_rows
from morrow.engine.format.manifest_entries import ADD
from morrow.engine.format.paths import partition_path, unescape_path_name
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.manifests import list_delta_manifests, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.units import MILLIS_PER_SECOND

CREATED = "lastFileCreationTime"


def partition_statistics(metadata: TableMetadata, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the statistics of the partitions that a snapshot adds files to or removes files from.

    Counts of removed files are negative. A table without partition keys has one partition without values.

    Raises `CorruptFile`, `FileMissing`: a manifest cannot be read.
    """
    manifests = list_delta_manifests(metadata, snapshot)
    if not manifests.height:
        return []
    schema = metadata.schema(snapshot.schema_id)
    sign = pl.when(pl.col("_KIND") == ADD).then(1).otherwise(-1).cast(pl.Int64)
    sums = (
        pl.concat(read_manifest_entries(metadata, manifests))
        .lazy()
        .group_by("_PARTITION", maintain_order=True)
        .agg(
            (pl.col("_ROW_COUNT") * sign).sum().alias("recordCount"),
            (pl.col("_FILE_SIZE") * sign).sum().alias("fileSizeInBytes"),
            sign.sum().alias("fileCount"),
            pl.col("_CREATION_TIME").max().alias(CREATED),
            pl.col("_TOTAL_BUCKETS").last().alias("totalBuckets"),
        )
        .collect()
    )
    specs = partition_specs(metadata, schema, sums["_PARTITION"].to_list())
    counts = sums.drop("_PARTITION").rows(named=True)
    return [
        {"spec": spec, **each, CREATED: to_creation_millis(each[CREATED])}
        for spec, each in zip(specs, counts, strict=True)
    ]


def partition_specs(metadata: TableMetadata, schema: TableSchema, partitions: list[bytes]) -> list[dict[str, str]]:
    """Return the values of partitions as in their folder names, by partition key."""
    options, keys = metadata.options(schema), schema.partition_keys
    types = [schema.by_name[key].type for key in keys]
    default, legacy = options.partition_default_name, options.legacy_partition_name
    specs = []
    for values in decode_rows(partitions, types, where=metadata.where):
        parts = [
            partition_path([value], [kind], ["k"], default_name=default, legacy_name=legacy)
            for value, kind in zip(values, types, strict=True)
        ]
        specs.append({key: unescape_path_name(part.partition("=")[2]) for key, part in zip(keys, parts, strict=True)})
    return specs


def to_creation_millis(local: dt.datetime | None) -> int:
    """Return epoch milliseconds of the local time in a manifest, as Java reads it."""
    return 0 if local is None else int(local.timestamp() * MILLIS_PER_SECOND)
