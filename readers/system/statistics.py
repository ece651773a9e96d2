"""``$statistics``: the results of ANALYZE for a snapshot, from ``statistics/<name>``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from morrow.engine.format.json_file import built, parse_object, printed
from morrow.readers.system.base import MetadataTable, TableState, columns_of, frame_of

COLUMNS = columns_of(
    snapshot_id="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    mergedRecordCount="BIGINT",
    mergedRecordSize="BIGINT",
    colstat="STRING",
)
MEMBERS = ("colId", "distinctCount", "min", "max", "nullCount", "avgLen", "maxLen")
"""Members of one column's statistics, in the order in which Java prints them; nulls are left out."""


def _rows(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    snapshot, metadata = state.snapshot, state.metadata
    if snapshot is None or snapshot.statistics is None:
        return frame_of(COLUMNS, [])
    path = metadata.paths.statistics(snapshot.statistics)
    row = built(path, _row, parse_object(metadata.store.read(path), path))
    return frame_of(COLUMNS, [row])


def _row(node: Mapping[str, Any]) -> tuple[int, int, int | None, int | None, str]:
    count, size = node.get("mergedRecordCount"), node.get("mergedRecordSize")
    columns = {name: _told(stats) for name, stats in (node.get("colStats") or {}).items()}
    return (
        int(node["snapshotId"]),
        int(node["schemaId"]),
        None if count is None else int(count),
        None if size is None else int(size),
        printed(columns).decode(),
    )


def _told(stats: Mapping[str, Any]) -> dict[str, Any]:
    return {name: stats[name] for name in MEMBERS if stats.get(name) is not None}


STATISTICS = MetadataTable("statistics", "what ANALYZE found out", COLUMNS, _rows, travels=True)
