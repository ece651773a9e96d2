"""Indexes of data files made anew, as the table's options ask for by now: in one COMPACT snapshot.

The data files stay. Their entries are replaced by entries that name another index, which is in the entry itself or, if
it is too large for that, in a new file beside the data file. An index is about the columns and types that its data file
was written with. Java: FileIndexProcessor.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import msgspec

from morrow.engine.errors import CorruptFile, FileMissing, Unsupported
from morrow.engine.format.data_file_meta import DataFileMeta, ManifestEntry
from morrow.engine.format.entry_frames import entries_of
from morrow.engine.format.file_index.container_encode import check_kind
from morrow.engine.format.file_index.wanted import WantedIndex, build_container, wanted_indexes
from morrow.engine.format.paths import INDEX_SUFFIX, POSTPONE_BUCKET, segment
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField, MapType
from morrow.engine.options.declared.files import FILE_INDEX_IN_MANIFEST_THRESHOLD
from morrow.engine.plan.data_files import external
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.planner import file_columns
from morrow.engine.values import replace
from morrow.writers.commit import TableCommit
from morrow.writers.commit.base_entries import live_in_partitions
from morrow.writers.commit.expired_base import compacting
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.files import Placement, file_path
from morrow.writers.files.stored import StoredFiles
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.operations.committing import commit_once
from morrow.writers.operations.partitions import AnyOf, matching_partitions, partition_filter
from morrow.writers.operations.retrying import retried
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class RewrittenIndexes:
    """The number of data files that got another index, and of the partitions that they are in.

    `snapshot` is None when every file had the indexes that the options ask for.
    """

    partitions: int
    files: int
    snapshot: Snapshot | None


def rewrite_file_index(target: WriteTarget, partition: AnyOf, where: FilterLike) -> RewrittenIndexes:
    """Rewrites the indexes of data files; see `Table.rewrite_file_index`."""
    if target.options.data_evolution:
        raise Unsupported("rewrite_file_index with data evolution, where a file has some columns", where=target.where)
    filter = partition_filter(target, partition, where, "rewrite_file_index")

    def attempt() -> RewrittenIndexes:
        snapshot = target.metadata.latest_snapshot()
        if snapshot is None:
            return RewrittenIndexes(0, 0, None)
        chosen = frozenset(matching_partitions(target, snapshot, filter))
        with compacting(target.metadata, snapshot):
            entries = entries_of(live_in_partitions(target.metadata, snapshot, target.schema, chosen))
            settled = [entry for entry in entries if entry.bucket != POSTPONE_BUCKET]  # reads leave the others out
            messages = _messages(target, settled)
        done = commit_once(maintained(target), messages, BATCH_COMMIT_IDENTIFIER)
        return RewrittenIndexes(len({message.partition for message in messages}), len(messages), done)

    return retried(target, attempt)


def _messages(target: WriteTarget, entries: Iterable[ManifestEntry]) -> list[CommitMessage]:
    """Returns a message for each file that gets another index; after an error no new file stays."""
    indexer = _Indexer(target)
    messages: list[CommitMessage] = []
    try:
        for entry in entries:
            new = indexer.indexed(Placement.of(entry), entry.file)
            if new != entry.file:
                messages.append(_message(entry, new))
    except BaseException:
        TableCommit(target).abort(messages)
        raise
    return messages


def _message(entry: ManifestEntry, new: DataFileMeta) -> CommitMessage:
    return CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        compact_before=(entry.file,),
        compact_after=(new,),
    )


@dataclass(frozen=True)
class _IndexedColumns(StoredFiles):
    """Reads the columns `wanted` of data files, all their rows."""

    wanted: tuple[DataField, ...] = ()

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        return self.wanted


class _Indexer:
    """Makes the indexes of data files that the options of a table ask for."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target
        self._indexes = wanted_indexes(target.write.raw, target.schema.fields)
        self._of_schema: dict[int, tuple[WantedIndex, ...]] = {}

    def indexed(self, place: Placement, file: DataFileMeta) -> DataFileMeta:
        """Returns the file with its indexes made anew; as it is where they are the same."""
        others = tuple(name for name in file.extra_files if not name.endswith(INDEX_SUFFIX))
        index = self._built(place, file)
        if index == self._present(place, file):
            return file
        if index is None or len(index) <= self._target.write.file_index_in_manifest:
            return msgspec.structs.replace(file, extra_files=others, embedded_file_index=index)
        if file.external_path is not None:
            raise Unsupported(
                f"an index of {len(index)} bytes beside a file in an external path",
                where=file.external_path,
                hint=f"raise {FILE_INDEX_IN_MANIFEST_THRESHOLD.key!r}",
            )
        # Never the name of another attempt, or of an older index: snapshots may name that.
        name = f"{file.file_name}-{uuid.uuid4().hex}{INDEX_SUFFIX}"
        self._target.store.write(file_path(self._target, place, name), index)
        return msgspec.structs.replace(file, extra_files=(*others, name), embedded_file_index=None)

    def _present(self, place: Placement, file: DataFileMeta) -> bytes | None:
        """Returns the index that the file has, None without one or where it is lost."""
        names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
        if not names or file.embedded_file_index is not None:
            return file.embedded_file_index
        if file.external_path is None:
            path = file_path(self._target, place, segment(names[0], self._target.where))
        else:
            beside = f"{file.external_path.rsplit('/', 1)[0]}/{segment(names[0], self._target.where)}"
            path = external(self._target.metadata, self._target.options, beside)
        try:
            return self._target.store.read(path)
        except FileMissing:
            return b""  # not None: the entry names it

    def _built(self, place: Placement, file: DataFileMeta) -> bytes | None:
        indexes = self._wanted(file.schema_id)
        if not indexes:
            return None
        columns = {one.name: one for one in file_columns(self._target.metadata.schema(file.schema_id))}
        wanted = tuple(columns[name] for name in dict.fromkeys(index.column for index in indexes))
        reader = _IndexedColumns(self._target, place, (file,), wanted=wanted)
        (rows,) = reader.collect([reader.lazy(file)])
        if rows.height != file.row_count:
            raise CorruptFile(file.file_name, f"it has {rows.height} rows, not the {file.row_count} of its entry")
        return build_container(rows, indexes)

    def _wanted(self, schema_id: int) -> tuple[WantedIndex, ...]:
        """Returns the indexes of the files of a schema, by the names and types of its columns."""
        if schema_id not in self._of_schema:
            there = {one.id: one for one in self._target.metadata.schema(schema_id).fields}
            newest = self._target.schema.by_name
            pairs = ((index, there.get(newest[index.column].id)) for index in self._indexes)
            self._of_schema[schema_id] = tuple(_as_written(index, column) for index, column in pairs if column)
        return self._of_schema[schema_id]


def _as_written(index: WantedIndex, column: DataField) -> WantedIndex:
    kind = column.type.value if index.key is not None and isinstance(column.type, MapType) else column.type
    renamed = replace(index, column=column.name, field=column)
    found = replace(renamed, field=DataField(column.id, renamed.name, kind))
    check_kind(found.kind, kind, found.name)
    return found
