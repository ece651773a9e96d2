"""Tables without data for tests of commits, whose data files exist only in metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
from msgspec import structs

from morrow.engine.format.binary_row_encoder import encode_row
from morrow.engine.format.manifest_entries import (
    DELETION_VECTORS_INDEX,
    EMPTY_ROW,
    DataFileMeta,
    DeletionRange,
    IndexFileMeta,
)
from morrow.engine.format.types import DataField, IntType, VarCharType
from morrow.engine.io.local import LocalStore
from morrow.engine.io.store import FileStore
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.target import WriteTarget
from tests.support.schema_file import schema_json

P, K, V = DataField(0, "p", VarCharType(False, 5)), DataField(1, "k", IntType(False)), DataField(2, "v", IntType())
_NUMBERS = count(0, 1000)


def table(
    folder: Path,
    *,
    keyed: bool = False,
    partitioned: bool = False,
    options: Mapping[str, str] | None = None,
    store: FileStore | None = None,
) -> TableMetadata:
    """Make a table ``k INT NOT NULL, v INT`` without rows; if partitioned, with ``p VARCHAR(5) NOT NULL`` first."""
    metadata = TableMetadata(store or LocalStore(), str(folder / "t"))
    add_schema(metadata, 0, keyed=keyed, partitioned=partitioned, options=options)
    return metadata


def add_schema(
    metadata: TableMetadata,
    schema_id: int,
    *,
    keyed: bool = False,
    partitioned: bool = False,
    options: Mapping[str, str] | None = None,
) -> None:
    fields = [P, K, V] if partitioned else [K, V]
    keys = [field.name for field in fields[:-1]] if keyed else []
    settings = {"bucket": "1" if keyed else "-1", **(options or {})}
    node = schema_json(schema_id, fields, ["p"] if partitioned else [], keys, settings)
    path = Path(metadata.paths.schema(schema_id))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(node))


def committer(metadata: TableMetadata, user: str | None = None) -> TableCommit:
    return TableCommit(WriteTarget.of(metadata, user))


def partition(name: str | None) -> bytes:
    return encode_row((name,), [P.type])


def data_file(
    name: str, low: int = 0, high: int = 9, *, level: int = 0, rows: int = 10, **members: Any
) -> DataFileMeta:
    """Describe a file with the keys `low` to `high`."""
    given: dict[str, Any] = {
        "file_name": name,
        "file_size": 1000,
        "row_count": rows,
        "min_key": encode_row((low,), [K.type]),
        "max_key": encode_row((high,), [K.type]),
        "min_sequence_number": 0,
        "max_sequence_number": rows - 1,
        "schema_id": 0,
        "level": level,
        "creation_time": 1_700_000_000_000,
    }
    return DataFileMeta(**given | members)


def _numbered(file: DataFileMeta) -> DataFileMeta:
    first = next(_NUMBERS)
    return structs.replace(file, min_sequence_number=first, max_sequence_number=first + file.row_count - 1)


def vectors(name: str, *data_files: str) -> IndexFileMeta:
    """Describe an index file with a deletion vector for each of these data files."""
    ranges = tuple(DeletionRange(file, 1 + 30 * i, 22, 3) for i, file in enumerate(data_files))
    return IndexFileMeta(
        index_type=DELETION_VECTORS_INDEX, file_name=name, file_size=99, row_count=len(ranges), deletion_ranges=ranges
    )


def message(
    *new_files: DataFileMeta, place: bytes = EMPTY_ROW, bucket: int = 0, total: int = 1, **parts: Any
) -> CommitMessage:
    if total > 0:  # writers give rows in buckets higher numbers than all rows before them
        new_files = tuple(_numbered(file) for file in new_files)
    return CommitMessage(partition=place, bucket=bucket, total_buckets=total, new_files=new_files, **parts)


def live(metadata: TableMetadata) -> list[tuple[str, int]]:
    """Return name and level of each live file of the newest snapshot, sorted by name."""
    frame = live_frame(metadata)
    return sorted(zip(frame["_FILE_NAME"].to_list(), frame["_LEVEL"].to_list(), strict=True))


def live_frame(metadata: TableMetadata) -> pl.DataFrame:
    snapshot = metadata.latest_snapshot()
    assert snapshot is not None
    return read_live_entries(metadata, snapshot, metadata.latest_schema()).frame


def names(folder: str) -> Sequence[str]:
    """Return the names of all files in a folder, including hidden ones."""
    path = Path(folder)
    return sorted(file.name for file in path.iterdir()) if path.is_dir() else []
