"""Appends and upserts of rows, addition of their new columns to the table, and adoption of Parquet files.

Columns of the rows that the table lacks can be added to the table before the rows are written.

Adopted files of other writers become data files of an append table, without encoding their rows again.

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
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from morrow.engine.arguments import check_texts
from morrow.engine.errors import AlreadyExists, ColumnNotFound, CommitConflict, InvalidArgument, StorageError
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import to_polars_dtype
from morrow.engine.library_versions import export_frame, import_array
from morrow.engine.names import SOURCE, col, cols
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.redaction import get_logger
from morrow.engine.schema.columns import read_columns
from morrow.engine.schema.evolution import commit_changes
from morrow.engine.schema.schema_changes import AddColumn
from morrow.engine.structs import replace
from morrow.writers.buckets.modes import BucketMode, determine_bucket_mode, make_router
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage, Operation, record_operation
from morrow.writers.commit.premise import Premise
from morrow.writers.files.data_files import (
    FileDescription,
    FileKind,
    Placement,
    build_file_path,
    number_rows,
    read_local_clock,
)
from morrow.writers.ingest.conversion import NULL, Missing, convert_rows
from morrow.writers.ingest.row_files import PARQUET
from morrow.writers.ingest.sources import Piece, Source, open_source
from morrow.writers.ingest.validation import Kinds
from morrow.writers.operations.write_session import OvertakenError, WriteSession, commit_once
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from morrow.writers.operations.merge import Merge

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
    kind = FileKind.of(target, 0, changelog=False)
    adoption = _Adoption(target, kind) if _can_adopt(target, kind) else None
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


def _can_adopt(target: WriteTarget, kind: FileKind) -> bool:
    """Return whether a table stores plain Parquet files: without buckets, indexes, row ids and external paths."""
    is_unaware = determine_bucket_mode(target) is BucketMode.UNAWARE
    is_plain = is_unaware and not target.options.row_tracking and target.write.external_strategy == "none"
    return is_plain and kind.format.name == PARQUET and not kind.indexes


class _Adoption:
    """The adoption of files by one table."""

    def __init__(self, target: WriteTarget, kind: FileKind) -> None:
        self._target, self._kind = target, kind
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

    `dtypes`: the top-level columns as Polars reads them, also by the Arrow schema that the footer may hold.
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
        try:
            os.link(path.resolve(), local)
        except OSError as error:  # another file system, or one without links
            log.debug("%s is copied: %s", path, error)
        else:
            target.store.sync([goal])
            return path.stat().st_size
    with path.open("rb") as source, target.store.output(goal) as stream:
        shutil.copyfileobj(source, stream)
        return source.tell()


@record_operation(Operation.WRITE)
def append_rows(
    target: WriteTarget,
    data: object,
    kinds: Kinds = None,
    *,
    missing: Missing = NULL,
    schema_mode: SchemaMode = None,
) -> Snapshot | None:
    """Write rows in one commit; in keyed tables the merge engine combines them with rows of the same key.

    Raises: as `WriteSession.write`, `WriteSession.commit` and `add_missing_columns`.
    """
    target, data = add_missing_columns(target, data, kinds, schema_mode)
    begun = iter([target.begun])  # a retry reads the newest snapshot again
    target = replace(target, begun=None)

    def once() -> Snapshot | None:
        return _write_rows(target, next(begun, None), data, kinds, missing)

    if not isinstance(data, READ_AGAIN) or isinstance(kinds, Iterator):  # streams can only be read once
        return once()
    return retry_on_conflict(target, once, after=_find_retried_conflicts(target))


@record_operation(Operation.WRITE)
def append_parts(
    target: WriteTarget,
    parts: Sequence[Callable[[], object]],
    kinds: Kinds = None,
    *,
    is_stream: bool,
    premise: Premise | None = None,
) -> Snapshot | None:
    """Write the rows of several sources in one commit, each with columns of its own; missing ones are null.

    Args:
        parts: functions that open the sources, one after the other.
        is_stream: whether a source can be opened only once.
        premise: the condition of the commit, which the caller meets again if it fails.

    Raises: as `append_rows`.
    """
    begun = iter([target.begun])
    target = replace(target, begun=None)

    def once() -> Snapshot | None:
        session = WriteSession(target, base=next(begun, None))
        try:
            for open_part in parts:
                session.write(open_part(), kinds)
            return session.commit(premise=premise)
        finally:
            session.abort()

    return (
        once()
        if is_stream or premise is not None
        else retry_on_conflict(target, once, after=_find_retried_conflicts(target))
    )


def _find_retried_conflicts(target: WriteTarget) -> type[CommitConflict]:
    """Return the conflicts that can be resolved by writing the rows again.

    These are all conflicts if buckets depend on earlier commits: two writers may put a key into two buckets or
    partitions, and the later commit is refused. In other tables, the commit resolves conflicts itself if possible.
    """
    depends = determine_bucket_mode(target) in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)
    return CommitConflict if depends else OvertakenError


def _write_rows(
    target: WriteTarget,
    begun: Snapshot | None,
    data: object,
    kinds: Kinds,
    missing: Missing,
) -> Snapshot | None:
    session = WriteSession(target, base=begun)
    try:
        session.write(data, kinds, missing)
        return session.commit()
    finally:
        session.abort()


def upsert_rows(
    target: WriteTarget,
    data: object,
    kinds: Kinds = None,
    *,
    key: str | Sequence[str] | None = None,
    missing: Missing = NULL,
    schema_mode: SchemaMode = None,
) -> Snapshot | None:
    """Append rows to a keyed table, see `append_rows`; or update or insert them by the columns `key`.

    Raises `InvalidArgument`: the table is without a primary key, or has one besides `key`. Others: as `append_rows`.
    """
    if not target.keyed and key is not None:
        return _upsert_by_columns(target, data, kinds, check_texts(key, "upsert: key"), schema_mode)
    if not target.keyed:
        hint = "give key=[...], or use Table.append or Table.merge"
        raise InvalidArgument(f"{target.where}: it has no primary key to upsert by; {hint}")
    if key is not None and {*check_texts(key, "upsert: key")} != {*target.schema.primary_keys}:
        raise InvalidArgument(f"{target.where}: rows are upserted by the primary key; leave out key={key!r}")
    return append_rows(target, data, kinds, missing=missing, schema_mode=schema_mode)


def _upsert_by_columns(
    target: WriteTarget, data: object, kinds: Kinds, key: Sequence[str], schema_mode: SchemaMode
) -> Snapshot | None:
    """Update the rows that are equal in these columns, and insert the others; of equal rows of `data`, the last."""
    if kinds is not None:
        raise InvalidArgument(f"{target.where}: upsert: kinds go with a primary key only; use Table.merge")
    target, data = add_missing_columns(target, data, kinds, schema_mode)
    return make_upsert(target, data, key).execute()


def make_upsert(target: WriteTarget, data: object, key: Sequence[str], set: Sequence[str] | None = None) -> Merge:
    """Return the merge that upserts rows by columns; `set` are the columns that matched rows get, None: all."""
    from morrow.writers.operations.merge import Merge, read_source

    source = read_source(target, data)
    for name in key:
        target.schema.column(name)
        if name not in source.column_names:
            raise ColumnNotFound(f"{target.where}: upsert by {name!r}: the rows have {', '.join(source.column_names)}")
    numbers = pl.DataFrame({str(i): import_array(source.column(name)) for i, name in enumerate(key)})
    keys = cols(numbers.columns)
    alone = pl.any_horizontal(each.is_null() for each in keys) | pl.struct(keys).is_last_distinct()
    last = numbers.with_row_index("row").filter(alone)["row"]
    merge = Merge(target, source.take(last.to_arrow()), key)
    changed = [name for name in (source.column_names if set is None else set) if name not in key]
    if changed:
        merge = merge.when_matched_update({name: col(f"{SOURCE}.{name}") for name in changed})
    return merge.when_not_matched_insert()


SchemaMode: TypeAlias = Literal["merge"] | None
"""Handling of columns that the table lacks: None refuses the write; ``merge`` adds the columns."""

READ_AGAIN = (pl.DataFrame, pa.Table, Mapping, list)
"""Data that can be read more than once."""


def add_missing_columns(
    target: WriteTarget, data: object, kinds: Kinds, mode: SchemaMode
) -> tuple[WriteTarget, object]:
    """Add the columns that the table lacks, nullable and last; return the target with them, and the rows to write.

    If the write fails afterwards, the columns stay, with nulls in all rows. Empty data does not add columns.

    Raises:
        InvalidArgument: an unknown mode, a column type that Paimon lacks, or a column with unknown type (only nulls).
        Unsupported, CommitConflict: as changes of the schema.
    """
    if mode is None:
        return target, data
    if mode != "merge":
        raise InvalidArgument(f"schema_mode is None or 'merge', not {mode!r}")
    source = open_source(data, target.schema.fields)
    new = [name for name in source.names if name not in target.schema.by_name and name != kinds]
    first = next(source.pieces, None)
    if new and first is not None:
        add_columns(target.metadata, _read_schema(first, new))
        target = WriteTarget.of(target.metadata, target.commit_user, target.properties)
    if first is None:
        return target, Source(tuple(name for name in source.names if name not in new), iter(()))
    return target, data if isinstance(data, READ_AGAIN) else Source(source.names, chain((first,), source.pieces))


def add_columns(metadata: TableMetadata, columns: pa.Schema) -> None:
    """Add columns to a table, nullable and last. Raises as `add_missing_columns`."""
    _check_types(columns)
    made = read_columns(columns).columns
    _add(metadata, [AddColumn((each.name,), each.type.with_nullable(True), each.comment) for each in made])


def _read_schema(piece: Piece, names: list[str]) -> pa.Schema:
    whole = piece.schema if isinstance(piece, pa.Table) else export_frame(piece.head(0)).schema
    return pa.schema([whole.field(name) for name in names])


def _check_types(schema: pa.Schema) -> None:
    empty = [field.name for field in schema if pa.types.is_null(field.type)]
    if empty:
        raise InvalidArgument(f"column {empty[0]!r} has no value that tells its type; leave it out, or give it a type")


def _add(metadata: TableMetadata, changes: list[AddColumn]) -> None:
    try:
        commit_changes(metadata, changes)
    except AlreadyExists:  # another process has added some meanwhile; values that do not fit are refused when written
        for change in changes:
            with suppress(AlreadyExists):
                commit_changes(metadata, [change])
