"""The live files of a table as one frame, for pictures."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from morrow.engine.format.binary_row import arities
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import VECTOR
from morrow.engine.plan.data_files import partition_values
from morrow.engine.plan.deletions import with_vectors
from morrow.engine.plan.entries import live_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.keyed.keys import key_order_of

COLUMNS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "partition": pl.String,
    "bucket": pl.Int32,
    "name": pl.String,
    "level": pl.Int32,
    "rows": pl.Int64,
    "dead": pl.Int64,
    "size": pl.Int64,
    "created": pl.Datetime("ms"),
    "sequence": pl.Int64,
    "low": pl.Binary,
    "high": pl.Binary,
    "schema": pl.Int64,
}


@dataclass(frozen=True)
class LiveFiles:
    """The files of a snapshot, columns `COLUMNS`; `keyed`: their keys are known and place them in a merge tree."""

    schema: TableSchema
    frame: pl.DataFrame
    keyed: bool


def total(frame: pl.DataFrame, name: str) -> int:
    """Returns the sum of a column of whole numbers."""
    return int(frame[name].sum())


def live_files(metadata: TableMetadata, snapshot: Snapshot | None) -> LiveFiles:
    """Returns the files of the snapshot. Raises as `live_entries`."""
    newest = metadata.latest_schema()
    if snapshot is None:
        return LiveFiles(newest, pl.DataFrame(schema=COLUMNS), False)
    schema = metadata.schema(snapshot.schema_id)
    live = live_entries(metadata, snapshot, schema).frame
    frame, vectors = with_vectors(metadata, metadata.options(newest), snapshot, live)
    dead = pl.Series([0], dtype=pl.Int64).new_from_index(0, frame.height)
    if vectors is not None:
        marked = pl.Series([*vectors.ranges["_CARDINALITY"].to_list(), 0], dtype=pl.Int64)
        numbers = frame[VECTOR].to_numpy()
        dead = marked.gather(pl.Series(numbers).replace(-1, len(marked) - 1)).fill_null(0)
    texts = [_partition_text(schema, values) for values in partition_values(schema, frame, where=metadata.where)]
    found = pl.DataFrame(
        {
            "partition": pl.Series(texts, dtype=pl.String),
            "bucket": frame["_BUCKET"],
            "name": frame["_FILE_NAME"],
            "level": frame["_LEVEL"],
            "rows": frame["_ROW_COUNT"],
            "dead": dead,
            "size": frame["_FILE_SIZE"],
            "created": frame["_CREATION_TIME"],
            "sequence": frame["_MAX_SEQUENCE_NUMBER"],
            "low": frame["_MIN_KEY"],
            "high": frame["_MAX_KEY"],
            "schema": frame["_SCHEMA_ID"],
        }
    )
    keyed = bool(schema.primary_keys) and not (pl.Series(arities(found["low"], where=metadata.where)) == 0).any()
    return LiveFiles(schema, found, keyed)


def _partition_text(schema: TableSchema, values: Sequence[object]) -> str:
    return ", ".join(f"{name}={value!s}" for name, value in zip(schema.partition_keys, values, strict=True))


@dataclass(frozen=True)
class Placed:
    """A file of a bucket: `start` and `end` are between 0 and 1, in the order of keys (or of commits)."""

    level: int
    rows: int
    dead: int
    size: int
    sequence: int
    start: float
    end: float
    keys: str


def placed(files: LiveFiles, bucket: pl.DataFrame, where: str) -> list[Placed]:
    """Returns the files of one bucket with their places among all keys that bound files there."""
    rows = bucket.to_dicts()
    return _by_keys(files, rows, where) if files.keyed else _by_size(rows)


def _by_size(rows: Sequence[dict[str, Any]]) -> list[Placed]:
    whole, passed, found = sum(row["size"] for row in rows) or 1, 0, []
    for row in sorted(rows, key=lambda row: row["sequence"]):
        start, passed = passed, passed + row["size"]
        found.append(_placed(row, start / whole, passed / whole, ""))
    return found


def _by_keys(files: LiveFiles, rows: Sequence[dict[str, Any]], where: str) -> list[Placed]:
    fields = [files.schema.by_name[name] for name in files.schema.trimmed_primary_keys]
    keys = {row[name] for row in rows for name in ("low", "high")}
    order = key_order_of(fields, where=where, keys=keys)
    bounds = sorted({*map(order, keys)})
    last = max(len(bounds) - 1, 1)

    def place(key: bytes) -> float:
        return bisect_left(bounds, order(key)) / last

    return [
        _placed(row, place(row["low"]), place(row["high"]), f"{_key(order(row['low']))} to {_key(order(row['high']))}")
        for row in rows
    ]


def _placed(row: dict[str, Any], start: float, end: float, keys: str) -> Placed:
    return Placed(row["level"], row["rows"], row["dead"], row["size"], row["sequence"], start, end, keys)


def _key(values: Sequence[Any]) -> str:
    texts = (value.decode(errors="replace") if isinstance(value, bytes) else _shown(value) for value in values)
    return ", ".join(text if len(text) <= 40 else f"{text[:40]}..." for text in texts)


def _shown(value: Any) -> str:
    return str(value[0]) if isinstance(value, tuple) else str(value)
