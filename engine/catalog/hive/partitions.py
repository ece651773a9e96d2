"""Partitions in the metastore, of tables with ``metastore.partitioned-table``: added by commits, dropped if empty."""

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import copy
from typing import Any

import polars as pl

from morrow.engine.catalog.hive.client import Gone, Metastore, thrift_types
from morrow.engine.catalog.hive.tables import Kept, location_of
from morrow.engine.catalog.statistics import partition_specs, partition_statistics
from morrow.engine.format.partition_path import escape_path_name
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import OVERWRITE, Snapshot
from morrow.engine.options.declared.table import DATA_FILE_PATH_DIRECTORY
from morrow.engine.options.given import Options
from morrow.engine.plan.entries import live_entries
from morrow.engine.plan.metadata import TableMetadata

BATCH = 500
"""The most partitions of one call."""


def tell_partitions(
    metastore: Metastore, kept: Kept, database: str, table: str, metadata: TableMetadata, snapshot: Snapshot
) -> None:
    """Adds the partitions that a snapshot adds files to, and drops those that an overwrite leaves without files.

    Raises:
        StorageError: the metastore does not do it.
    """
    schema = metadata.schema(snapshot.schema_id)
    changed = partition_statistics(metadata, snapshot)
    added = [each["spec"] for each in changed if each["fileCount"] > 0]
    if added:
        there = metastore.call("get_table", database, table)
        for begin in range(0, len(added), BATCH):
            parts = [_partition(kept, there, schema, spec) for spec in added[begin : begin + BATCH]]
            request = thrift_types().AddPartitionsRequest(database, table, parts, ifNotExists=True, needResult=False)
            metastore.call("add_partitions_req", request)
    fewer = [each["spec"] for each in changed if each["fileCount"] < 0]
    if fewer and snapshot.commit_kind == OVERWRITE:
        living = _living(metadata, snapshot, schema)
        for spec in fewer:
            values = [spec[key] for key in schema.partition_keys]
            if tuple(values) not in living:
                try:
                    metastore.call("drop_partition", database, table, values, False)
                except Gone:
                    continue


def _partition(kept: Kept, table: Any, schema: TableSchema, spec: Mapping[str, str]) -> Any:
    now = int(time.time())
    made = thrift_types().Partition(
        values=[spec[key] for key in schema.partition_keys],
        dbName=table.dbName,
        tableName=table.tableName,
        createTime=now,
        lastAccessTime=now,
        sd=copy(table.sd),
        parameters={},
    )
    folders = [f"{escape_path_name(key)}={escape_path_name(spec[key])}" for key in schema.partition_keys]
    below = Options(schema.options).get(DATA_FILE_PATH_DIRECTORY)
    kept.place_partition(made, "/".join(filter(None, (location_of(table), below, *folders))))
    return made


def _living(metadata: TableMetadata, snapshot: Snapshot, schema: TableSchema) -> set[tuple[str, ...]]:
    """Returns the values of the partitions that have files."""
    rows = live_entries(metadata, snapshot, schema).frame.select(pl.col("_PARTITION").unique())["_PARTITION"]
    specs = partition_specs(metadata, schema, rows.to_list())
    return {tuple(spec[key] for key in schema.partition_keys) for spec in specs}
