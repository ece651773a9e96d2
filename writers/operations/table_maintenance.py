"""Maintenance of tables: file indexes, entries of missing files, statistics, and marks of complete partitions.

Indexes of data files are built again by the table's current options, in one COMPACT snapshot. The data files stay.
Their entries are replaced by entries with the new index, which is stored in the entry itself or, if it is too large, in
a new file beside the data file. An index covers the columns and types with which its data file was written. Java:
FileIndexProcessor.

Data files that are missing in the store can be removed from the newest snapshot; their rows are lost already. Reads of
a missing file fail with `FileMissing`. Without its entry, they return the remaining rows. In tables with a primary key,
older versions of a key may reappear.

ANALYZE measures statistics of the newest snapshot and commits them beside it. A partition is marked as done by a file
``_SUCCESS`` in its folder, which shows other systems that it is complete.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import msgspec

from morrow.engine.errors import CommitConflict, CorruptFile, FileMissing, InvalidArgument, Unsupported
from morrow.engine.format.file_index.builder import RequestedIndex, build_container, check_kind, find_requested_indexes
from morrow.engine.format.manifest_entries import (
    ColumnFacts,
    DataFileMeta,
    ManifestEntry,
    TableStatistics,
    drop_value_stats,
    to_entries,
)
from morrow.engine.format.paths import INDEX_SUFFIX, POSTPONE_BUCKET, check_segment, partition_path
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField, MapType
from morrow.engine.options.declared.files import FILE_INDEX_IN_MANIFEST_THRESHOLD
from morrow.engine.plan.data_files import list_file_columns, resolve_external_path
from morrow.engine.plan.entries import read_live_entries as entries_live_entries
from morrow.engine.plan.filter import Filter, FilterLike
from morrow.engine.plan.manifests import guard_planning, is_living
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.structs import replace
from morrow.readers.execution.statistics import check_measured, measure_columns
from morrow.writers.append.writer import UNAWARE
from morrow.writers.buckets.routers import restore_buckets
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.manifests import read_live_entries
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.commit.premise import guard_compaction, guard_read
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement, build_file_path
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.history.commit_maintenance import (
    commit_with_maintenance,
    mark_done,
)
from morrow.writers.operations.partition_filters import (
    AnyOf,
    build_partition_filter,
    find_matching_partitions,
    parse_partition_spec,
)
from morrow.writers.operations.write_session import commit_once, plan_where
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class RewrittenIndexes:
    """The number of data files that got a new index, and the number of their partitions.

    `snapshot` is None if every file had the requested indexes already.
    """

    partitions: int
    files: int
    snapshot: Snapshot | None


def rewrite_file_index(target: WriteTarget, partition: AnyOf, where: FilterLike) -> RewrittenIndexes:
    """Rewrite the indexes of data files; see `Table.rewrite_file_index`."""
    if target.options.data_evolution:
        raise Unsupported("rewrite_file_index with data evolution, where a file has some columns", where=target.where)
    filter = build_partition_filter(target, partition, where, "rewrite_file_index")

    def attempt() -> RewrittenIndexes:
        snapshot = target.metadata.latest_snapshot()
        if snapshot is None:
            return RewrittenIndexes(0, 0, None)
        chosen = frozenset(find_matching_partitions(target, snapshot, filter))
        with guard_compaction(target.metadata, snapshot):
            entries = to_entries(read_live_entries(target.metadata, snapshot, target.schema, chosen))
            settled = [entry for entry in entries if entry.bucket != POSTPONE_BUCKET]  # reads ignore the others
            messages = _make_messages(target, settled)
        done = commit_once(commit_with_maintenance(target), messages, BATCH_COMMIT_IDENTIFIER)
        return RewrittenIndexes(len({message.partition for message in messages}), len(messages), done)

    return retry_on_conflict(target, attempt)


def _make_messages(target: WriteTarget, entries: Iterable[ManifestEntry]) -> list[CommitMessage]:
    """Return a message for each file that gets a new index; after an error, no new file is left."""
    indexer = _Indexer(target)
    messages: list[CommitMessage] = []
    try:
        for entry in entries:
            new = indexer.indexed(Placement.of(entry), entry.file)
            if new != entry.file:
                messages.append(_make_message(entry, new))
    except BaseException:
        TableCommit(target).abort(messages)
        raise
    return messages


def _make_message(entry: ManifestEntry, new: DataFileMeta) -> CommitMessage:
    return CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        compact_before=(entry.file,),
        compact_after=(new,),
    )


@dataclass(frozen=True)
class _IndexedColumns(StoredFiles):
    """Reader of all rows of data files, in the columns `wanted`."""

    wanted: tuple[DataField, ...] = ()

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        return self.wanted


class _Indexer:
    """Builder of the indexes of data files that the options of a table ask for."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target
        self._indexes = find_requested_indexes(target.write.raw, target.schema.fields)
        self._of_schema: dict[int, tuple[RequestedIndex, ...]] = {}

    def indexed(self, place: Placement, file: DataFileMeta) -> DataFileMeta:
        """Return the file with its indexes built again, or unchanged if they are the same."""
        others = tuple(name for name in file.extra_files if not name.endswith(INDEX_SUFFIX))
        index = self._build(place, file)
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
        # A new name, since snapshots may name the index of another attempt or an older index.
        name = f"{file.file_name}-{uuid.uuid4().hex}{INDEX_SUFFIX}"
        self._target.store.write(build_file_path(self._target, place, name), index)
        return msgspec.structs.replace(file, extra_files=(*others, name), embedded_file_index=None)

    def _present(self, place: Placement, file: DataFileMeta) -> bytes | None:
        """Return the current index of the file, None if there is none; empty if its file is lost."""
        names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
        if not names or file.embedded_file_index is not None:
            return file.embedded_file_index
        if file.external_path is None:
            path = build_file_path(self._target, place, check_segment(names[0], self._target.where))
        else:
            beside = f"{file.external_path.rsplit('/', 1)[0]}/{check_segment(names[0], self._target.where)}"
            path = resolve_external_path(self._target.metadata, self._target.options, beside)
        try:
            return self._target.store.read(path)
        except FileMissing:
            return b""  # not None: the entry names it

    def _build(self, place: Placement, file: DataFileMeta) -> bytes | None:
        indexes = self._list_wanted(file.schema_id)
        if not indexes:
            return None
        columns = {one.name: one for one in list_file_columns(self._target.metadata.schema(file.schema_id))}
        wanted = tuple(columns[name] for name in dict.fromkeys(index.column for index in indexes))
        reader = _IndexedColumns(self._target, place, (file,), wanted=wanted)
        (rows,) = reader.collect([reader.lazy(file)])
        if rows.height != file.row_count:
            raise CorruptFile(file.file_name, f"it has {rows.height} rows, not the {file.row_count} of its entry")
        return build_container(rows, indexes)

    def _list_wanted(self, schema_id: int) -> tuple[RequestedIndex, ...]:
        """Return the requested indexes for files of a schema, with the names and types of its columns."""
        if schema_id not in self._of_schema:
            there = {one.id: one for one in self._target.metadata.schema(schema_id).fields}
            newest = self._target.schema.by_name
            pairs = ((index, there.get(newest[index.column].id)) for index in self._indexes)
            self._of_schema[schema_id] = tuple(
                _restore_written_column(index, column) for index, column in pairs if column
            )
        return self._of_schema[schema_id]


def _restore_written_column(index: RequestedIndex, column: DataField) -> RequestedIndex:
    kind = column.type.value if index.key is not None and isinstance(column.type, MapType) else column.type
    renamed = replace(index, column=column.name, field=column)
    found = replace(renamed, field=DataField(column.id, renamed.name, kind))
    check_kind(found.kind, kind, found.name)
    return found


DEFAULT_THREADS = 8
"""Default number of files whose existence is checked in parallel."""


def remove_missing_files(target: WriteTarget, *, dry_run: bool, parallelism: int | None = None) -> list[str]:
    """Remove the entries of files that do not exist; see `Table.remove_unexisting_files`."""
    threads = DEFAULT_THREADS if parallelism is None else parallelism

    def attempt() -> list[str]:
        snapshot = target.metadata.latest_snapshot()
        if snapshot is None:
            return []
        with guard_read(target.metadata, snapshot):
            missing = _find_missing(target, snapshot, threads)
        if missing and not is_living(target.metadata, snapshot):  # its files were removed, not lost
            what = f"snapshot {snapshot.id} expired while its files were looked for"
            raise CommitConflict(f"{target.where}: {what}; nothing was changed, do it again")
        if missing and not dry_run:
            messages = _collect_deletions(target, snapshot, [entry for entry, _ in missing])
            commit_once(commit_with_maintenance(target), messages, BATCH_COMMIT_IDENTIFIER)
        return sorted(target.store.url(path) for _, path in missing)

    return retry_on_conflict(target, attempt)


def _find_missing(target: WriteTarget, snapshot: Snapshot, threads: int) -> list[tuple[ManifestEntry, str]]:
    """Return the live entries whose data file does not exist, with its path."""
    entries = to_entries(read_live_entries(target.metadata, snapshot, target.schema, None))
    target.find_folders(entry.partition for entry in entries)
    paths = [_build_path(target, entry) for entry in entries]
    with ThreadPoolExecutor(threads) as pool:
        there = list(pool.map(target.store.exists, paths))
    return [(entry, path) for entry, path, exists in zip(entries, paths, there, strict=True) if not exists]


def _build_path(target: WriteTarget, entry: ManifestEntry) -> str:
    if entry.file.external_path is not None:
        return resolve_external_path(target.metadata, target.options, entry.file.external_path)
    return build_file_path(target, Placement.of(entry), entry.file.file_name)


def _collect_deletions(
    target: WriteTarget, snapshot: Snapshot, missing: Sequence[ManifestEntry]
) -> list[CommitMessage]:
    """Return the messages of `_make_deletions`; after an error, no new file is left."""
    messages: list[CommitMessage] = []
    try:
        for message in _make_deletions(target, snapshot, missing):
            messages.append(message)  # noqa: PERF402  # the error path needs the messages made so far
    except BaseException:
        TableCommit(target).abort(messages)
        raise
    return messages


def _make_deletions(
    target: WriteTarget, snapshot: Snapshot, missing: Sequence[ManifestEntry]
) -> Iterable[CommitMessage]:
    """Yield a message per bucket that deletes its missing files and their deletion vectors."""
    if target.options.data_evolution:
        raise Unsupported("remove_unexisting_files with data evolution, where files hold some columns of rows alone")
    buckets: dict[tuple[Placement, int], list[DataFileMeta]] = {}
    for entry in missing:
        buckets.setdefault((Placement.of(entry), entry.total_buckets), []).append(entry.file)
    states = restore_buckets(target, snapshot, [place for place, _ in buckets])
    for (place, total), files in buckets.items():
        rolling = not target.keyed and target.options.bucket == UNAWARE
        vectors = DeletionMaintainer(target, place.partition, place.bucket, states[place].index_files, rolling=rolling)
        for file in files:
            vectors.remove(file.file_name)
        changes = vectors.write()
        yield CommitMessage(
            partition=place.partition,
            bucket=place.bucket,
            total_buckets=total,
            deleted_files=tuple(map(drop_value_stats, files) if target.write.manifest_drop_stats else files),
            new_index_files=changes.new,
            deleted_index_files=changes.replaced,
        )


Measure: TypeAlias = Callable[[ScanPlan, Sequence[DataField]], tuple[int, Mapping[str, ColumnFacts]]]
"""A function that measures a plan: it returns the number of rows, and statistics by column name."""


def analyze_table(target: WriteTarget, columns: Sequence[str], measure: Measure | None = None) -> Snapshot | None:
    """Measure the newest snapshot and commit the statistics; see `Table.analyze`. By default, measure in this
    process."""
    fields = [target.schema.column(name) for name in columns]
    check_measured(fields, target.where)
    commit = TableCommit(target)
    snapshot = commit.latest_snapshot()
    if snapshot is None:
        return None
    plan = plan_where(target, snapshot, Filter(ALWAYS, (), frozenset(), ""))
    rows, facts = measure_columns(plan, target.store, fields) if measure is None else measure(plan, fields)
    with guard_planning(target.metadata, snapshot):
        files = entries_live_entries(target.metadata, snapshot, target.schema).frame
    stored, size = int(files["_ROW_COUNT"].sum()), int(files["_FILE_SIZE"].sum())
    share = min(rows / stored, 1.0) if stored else 0.0
    return commit.analyze(TableStatistics(snapshot.id, target.schema.id, rows, int(size * share), facts))


def mark_partitions_done(target: WriteTarget, partitions: Sequence[Mapping[str, object]]) -> list[str]:
    """Mark partitions as done; see `Table.mark_partition_done`."""
    if not partitions:
        raise InvalidArgument(f"{target.where}: mark_partition_done: name the partitions that are done")
    folders = [_find_folder(target, partition) for partition in partitions]  # find all folders before the first write
    return [target.store.url(path) for path in mark_done(target, folders)]


def _find_folder(target: WriteTarget, partition: Mapping[str, object]) -> str:
    """Return the folder of a partition, or of all partitions with these values in their first columns."""
    spec = parse_partition_spec(target, partition)
    keys = target.schema.partition_keys[: len(spec)]
    if not spec or set(spec) != set(keys):
        columns = ", ".join(target.schema.partition_keys) or "none"
        raise InvalidArgument(
            f"{target.where}: mark_partition_done: {dict(partition)!r} names no folder; give values of all partition "
            f"columns, or of the first ones ({columns})"
        )
    return partition_path(
        [spec[name] for name in keys],
        [target.schema.by_name[name].type for name in keys],
        keys,
        default_name=target.options.partition_default_name,
        legacy_name=target.options.legacy_partition_name,
    )
