"""Adoption of Parquet files of other writers as data files of an append table, without encoding their rows again.

A file is adopted if its columns have the physical and logical types with which Morrow (and Java Paimon) would write the
columns of the table, and codecs and encodings that every version of Java Paimon reads. Then all readers of the table
see the same rows in it. Values are checked and counted as those of an append. In the file system of the table, the data
file is a hard link to the file; elsewhere it is a copy.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from morrow.engine.errors import StorageError
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import to_polars_dtype
from morrow.engine.redaction import get_logger
from morrow.writers.buckets.modes import BucketMode, determine_bucket_mode, make_router
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage, Operation, record_operation
from morrow.writers.files.data_files import (
    FileDescription,
    FileKind,
    Placement,
    build_file_path,
    number_rows,
    read_local_clock,
)
from morrow.writers.ingest.conversion import convert_rows
from morrow.writers.ingest.row_files import PARQUET
from morrow.writers.operations.write_session import WriteSession, commit_once
from morrow.writers.target import WriteTarget

CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD")
ENCODINGS = frozenset(("PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"))
TYPE_DETAILS = ("Type", "isAdjustedToUTC", "timeUnit", "precision", "scale", "bitWidth", "isSigned")
"""The members of a logical type that change the meaning of values."""

log = get_logger(__name__)


@dataclass(frozen=True)
class RowFile:
    """A file to add to a table: its path, its rows, and whether its folders name all partition columns."""

    path: Path
    open: Callable[[], object]
    is_partition: bool


@record_operation(Operation.WRITE)
def adopt_files(target: WriteTarget, files: Sequence[RowFile]) -> Snapshot | None:
    """Add Parquet files to an append table in one commit. The rows of files that cannot be adopted are written.

    Raises: as `append_rows`; no new file is left then.
    """
    adoption = None if _find_obstacle(target) else _Adoption(target)
    session = WriteSession(target)
    messages: list[CommitMessage] = []
    try:
        for file in files:
            difference = adoption.find_difference(file) if adoption else "the table adopts no files"
            if adoption is not None and difference is None:
                messages += adoption.adopt(file)
            else:
                log.info("%s: the rows are copied: %s", file.path, difference)
                session.write(file.open())
        messages += session.prepare()
    except BaseException:
        session.abort()
        session.commits.abort(messages)
        raise
    return commit_once(session.commits, messages, BATCH_COMMIT_IDENTIFIER)


def _find_obstacle(target: WriteTarget) -> bool:
    """Return whether the table adopts no files: it has buckets, file indexes, row ids, external
    paths, or files of another format."""
    kind = FileKind.of(target, 0, changelog=False)
    is_unaware = determine_bucket_mode(target) is BucketMode.UNAWARE
    if target.write.external_strategy != "none":
        return True
    return not is_unaware or kind.format.name != PARQUET or bool(kind.indexes) or target.options.row_tracking


class _Adoption:
    """The adoption of files by one table."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target
        self._kind = FileKind.of(target, 0, changelog=False)
        self._router = make_router(target, None)
        self._expected = self._describe_own_columns()

    def find_difference(self, file: RowFile) -> str | None:
        """Return why a file cannot be a data file of the table; None if it can."""
        keys = self._target.schema.partition_keys
        if keys and not file.is_partition:
            return "its rows may belong to several partitions"
        metadata = pq.read_metadata(file.path)
        found = _describe_columns(metadata, pl.read_parquet_schema(file.path))
        given = {*keys, *(f"{name} as read" for name in keys)}
        missing = [name for name in self._expected if name not in found and name not in given]
        if missing:
            return f"it lacks the column {missing[0]}"
        for name, type_ in found.items():
            if type_ != self._expected.get(name):
                return f"{name} is stored as {type_}, not as {self._expected.get(name)}"
        return next(_find_unreadable(metadata), None)

    def adopt(self, file: RowFile) -> Iterator[CommitMessage]:
        """Make a file a data file of its one partition, and yield the message; nothing if it has no rows.

        Raises: as `append_rows`.
        """
        placed: list[Placement] = []
        blocks: list[FileDescription] = []
        for rows in convert_rows(self._target, file.open()):
            for place, part in self._router.route(rows):
                placed.append(place)
                blocks.append(self._kind.describe(part, encode=False))
        for place in dict.fromkeys(placed):
            yield self._make_message(place, file.path, blocks)

    def _make_message(self, place: Placement, path: Path, blocks: Sequence[FileDescription]) -> CommitMessage:
        name = f"{self._kind.prefix}{uuid.uuid4()}-0{self._kind.suffix}"
        goal = build_file_path(self._target, place, name)
        try:
            size = _link_or_copy(self._target, path, goal)
        except BaseException:
            with suppress(StorageError):
                self._target.store.delete(goal)
            raise
        file = DataFileMeta(
            file_name=name,
            file_size=size,
            schema_id=self._target.schema.id,
            level=self._kind.level,
            creation_time=read_local_clock(),
            file_source=FileSource.APPEND,
            **self._kind.metadata(blocks, number_rows(self._target, 0)),
        )
        buckets = self._target.options.bucket
        return CommitMessage(partition=place.partition, bucket=place.bucket, total_buckets=buckets, new_files=(file,))

    def _describe_own_columns(self) -> Mapping[str, str]:
        """Describe the columns of a file of the table, by a file without rows."""
        columns = {field.name: to_polars_dtype(field.type) for field in self._kind.layout.columns}
        encoder = self._kind.encoder
        block = encoder.block(pl.DataFrame(schema=columns))
        made = encoder.head + block.body + encoder.foot([block])
        return _describe_columns(pq.read_metadata(BytesIO(made)), pl.read_parquet_schema(BytesIO(made)))


def _describe_columns(metadata: pq.FileMetaData, dtypes: Mapping[str, pl.DataType]) -> dict[str, str]:
    """Return the type of each leaf column by its path, as text that is equal for equal meanings.

    Args:
        dtypes: the top-level columns as Polars reads them, also by the Arrow schema that the footer may hold.
    """
    columns = (metadata.schema.column(at) for at in range(metadata.num_columns))
    leaves = {column.path: _describe_type(column) for column in columns}
    return leaves | {f"{name} as read": str(dtype) for name, dtype in dtypes.items()}


def _describe_type(column: pq.ColumnSchema) -> str:
    logical = json.loads(column.logical_type.to_json())
    details = [f"{logical[name]}" for name in TYPE_DETAILS if name in logical and logical["Type"] != "None"]
    length = [f"{column.length} bytes"] if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else []
    return " ".join([column.physical_type, *length, *details, f"in {column.max_repetition_level} lists"])


def _find_unreadable(metadata: pq.FileMetaData) -> Iterator[str]:
    """Yield the columns with a codec or an encoding that some reader lacks."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            if column.compression not in CODECS:
                yield f"{column.path_in_schema} is compressed by {column.compression}"
            if not {*column.encodings} <= ENCODINGS:
                yield f"{column.path_in_schema} is encoded by {', '.join(sorted({*column.encodings} - ENCODINGS))}"


def _link_or_copy(target: WriteTarget, path: Path, goal: str) -> int:
    """Make a file appear under a new path, durably, and return its size."""
    local = target.store.local_target(goal)
    if local is not None:
        with suppress(OSError):  # another file system, or one without links
            os.link(path.resolve(), local)
            target.store.sync([goal])
            return path.stat().st_size
    with path.open("rb") as source, target.store.output(goal) as stream:
        shutil.copyfileobj(source, stream)
        return source.tell()
