"""The rows given to each commit of a golden table, as a writer takes them; and what metadata says, without names."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from morrow.engine.format import types as t
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.entries import index_entries, live_entries
from morrow.engine.plan.metadata import TableMetadata
from tests.support.golden import jsonl
from tests.support.golden_values import parsed

FROM_TEXT: Mapping[type[t.DataType], Any] = {
    t.DateType: dt.date.fromisoformat,
    t.TimeType: dt.time.fromisoformat,
    t.TimestampType: dt.datetime.fromisoformat,
    t.LocalZonedTimestampType: dt.datetime.fromisoformat,
}


def input_rows(path: Path, fields: Sequence[t.DataField]) -> tuple[list[str], pa.Table]:
    """The row kinds and the rows of an input file, whose columns are `fields`."""
    rows = jsonl(path)
    columns = [
        pa.array([_value(row[i + 1], field.type) for row in rows], field.type.arrow()) for i, field in enumerate(fields)
    ]
    return [row[0] for row in rows], pa.table(columns, schema=t.arrow_schema(tuple(fields)))


def _value(value: Any, kind: t.DataType) -> Any:
    from_text = FROM_TEXT.get(type(kind))
    return parsed(value, kind) if from_text is None or value is None else from_text(value)


FILE_FACTS = (
    *("_PARTITION", "_BUCKET", "_LEVEL", "_ROW_COUNT", "_DELETE_ROW_COUNT", "_MIN_KEY", "_MAX_KEY"),
    *("_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_FILE_SOURCE", "_SCHEMA_ID"),
)


def files_of(metadata: TableMetadata, snapshot: Snapshot) -> list[tuple[Any, ...]]:
    """What a snapshot says of its files, names, sizes and times left out: `FILE_FACTS` and the number of dead rows."""
    live = live_entries(metadata, snapshot, metadata.schema(snapshot.schema_id)).frame
    indexes = index_entries(metadata, snapshot)
    ranges = [] if indexes is None else indexes["_DELETIONS_VECTORS_RANGES"].explode().drop_nulls().to_list()
    dead = {entry["f0"]: entry["_CARDINALITY"] for entry in ranges}
    rows = zip(live.select(FILE_FACTS).rows(), live["_FILE_NAME"].to_list(), strict=True)
    return sorted(((*facts, dead.get(name, 0)) for facts, name in rows), key=repr)
