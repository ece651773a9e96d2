"""Facts about the files of a snapshot from its metadata, without names."""

from __future__ import annotations

from typing import Any

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.metadata import TableMetadata

FILE_FACTS = (
    *("_PARTITION", "_BUCKET", "_LEVEL", "_ROW_COUNT", "_DELETE_ROW_COUNT", "_MIN_KEY", "_MAX_KEY"),
    *("_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_FILE_SOURCE", "_SCHEMA_ID"),
)


def files_of(metadata: TableMetadata, snapshot: Snapshot) -> list[tuple[Any, ...]]:
    """Return `FILE_FACTS` and the number of dead rows of each file of a snapshot, without names, sizes and times."""
    live = read_live_entries(metadata, snapshot, metadata.schema(snapshot.schema_id)).frame
    indexes = read_index_entries(metadata, snapshot)
    ranges = [] if indexes is None else indexes["_DELETIONS_VECTORS_RANGES"].explode().drop_nulls().to_list()
    dead = {entry["f0"]: entry["_CARDINALITY"] for entry in ranges}
    rows = zip(live.select(FILE_FACTS).rows(), live["_FILE_NAME"].to_list(), strict=True)
    return sorted(((*facts, dead.get(name, 0)) for facts, name in rows), key=repr)
