"""Writer of the metadata of a snapshot: sequence numbers of the rows, delta and changelog, base list, index manifest.

Delta and changelog are the same for every newest snapshot (unless the changes depend on it), so they are written once
for all tries. Between reading the newest snapshot and creating the next one, a try writes little: one manifest list,
and seldom merged manifests or an index manifest. Tables with ``row-tracking.enabled`` get row ids and snapshot numbers
for their new files here.

The rows of a commit must be newer than all rows committed before it.

A writer continues from the greatest sequence number that a bucket has when the write begins. If others have committed
to the bucket since, the writer's rows might not be newer than theirs. A committer checks this against each snapshot
that the commit may follow, and rewrites the files of such a bucket with greater numbers. Compactions of the old files
are dropped: the rows stay in level 0 until the next compaction.

Rows in the postponed bucket are without numbers, and are ordered by the creation time of their files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
import polars as pl

from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument
from morrow.engine.format.file_formats import BLOB, VECTOR_INFIX
from morrow.engine.format.manifest_entries import (
    ADD,
    MANIFEST_LIST_COLUMNS,
    DataFileMeta,
    EntryKind,
    FileSource,
    ManifestEntry,
    index_frame,
    to_entry_frame,
)
from morrow.engine.format.metadata_json import parse_object
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.schema import ROW_ID, SEQUENCE_NUMBER, TableSchema
from morrow.engine.format.snapshot import COMPACT, FIRST_SNAPSHOT_ID, OF_OPERATIONS, OVERWRITE, Snapshot
from morrow.engine.io.store import call_both
from morrow.engine.options import parse_write_options
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import list_manifests, read_index_entries
from morrow.engine.plan.metadata import REPLACING_SCHEMA
from morrow.engine.structs import replace
from morrow.readers.execution.execute import DEFAULT_BATCH_ROWS
from morrow.readers.files.file_frames import translate_file_errors
from morrow.writers.commit.chain_partitions import check_dropped_partitions
from morrow.writers.commit.conflicts import (
    AlreadyCommitted,
    check_buckets,
    check_columns,
    check_conflicts,
    check_lookup_files,
    check_numbers,
    combine_index_files,
    find_stale_indexes,
)
from morrow.writers.commit.manifests import SIMPLE_COLUMNS, BaseEntries, ManifestWriter, merge_manifests
from morrow.writers.commit.messages import Changes, CommitMessage, Tally, find_running_tally, make_append_changes
from morrow.writers.commit.premise import Premise, Routes, identify_version
from morrow.writers.commit.row_id_reassignment import Reassignment
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement, delete_files, find_paths, write_files
from morrow.writers.target import WriteTarget

MAX_LOCKED_BYTES = 32 << 20
"""Files up to this size are rewritten under the commit lock. Larger ones are rewritten before, with a gap."""
MIN_NUMBER_GAP = 1 << 12
"""Sequence numbers left free for concurrent commits. Multiplied each time the gap was too small."""
MAX_NUMBER_GAP = 1 << 40

BUCKET = ["_PARTITION", "_BUCKET"]


@dataclass
class SequenceNumbering:
    """The APPEND changes of messages, as a function of the snapshot that they follow.

    `messages` are the resulting messages: for renumbered buckets they name other files, without a compaction.
    """

    target: WriteTarget
    base: BaseEntries
    routes: Routes
    given: Sequence[CommitMessage]
    messages: list[CommitMessage] = field(init=False)
    _changes: Changes = field(init=False)
    _rounds: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.messages = list(self.given)
        self._changes = make_append_changes(self.messages)

    def __call__(self, latest: Snapshot | None) -> Changes:
        """Return the changes on top of `latest`, renumbered in buckets that have greater sequence numbers.

        Raises:
            AlreadyCommitted: a file of the messages is in the table.
            CommitConflict: the number of buckets of a partition has changed.
            Misplaced: keys have moved since rows were assigned to buckets.
            FileMissing, CorruptFile, StorageError: files cannot be rewritten.
        """
        self._follow(latest, MIN_NUMBER_GAP * 16**self._rounds if self._rounds else 0)
        return self._changes

    def ahead(self, latest: Snapshot | None) -> None:
        """Renumber large files before this committer takes the commit lock. Raises as a call."""
        if sum(file.file_size for message in self.messages for file in message.new_files) > MAX_LOCKED_BYTES:
            self._follow(latest, MIN_NUMBER_GAP * 16 ** (self._rounds + 1))

    @property
    def changes(self) -> Changes:
        """The changes in their current numbering."""
        return self._changes

    @property
    def replaced(self) -> list[CommitMessage]:
        """The given messages that are not committed unchanged, with files to discard: rewritten and compacted ones."""
        return [
            msgspec.structs.replace(old, new_index_files=())
            for old, new in zip(self.given, self.messages, strict=True)
            if old is not new and not _is_postponed(old)
        ]

    def undo(self) -> None:
        """Remove the rewritten files after a failed commit."""
        for old, new in zip(self.given, self.messages, strict=True):
            if old is not new:
                self._discard(old, new)
        self.messages = list(self.given)

    def _follow(self, latest: Snapshot | None, gap: int) -> None:
        self.routes.check(self.given, latest)
        if latest is None or all(_is_based_on(message, latest) for message in self.messages):
            return
        there = self.base.at(latest, self._changes.partitions)
        self._check_new(there)
        check_buckets(self.target, there, self._changes.entries)
        newest = there.group_by(BUCKET).agg(pl.col("_MAX_SEQUENCE_NUMBER", "_CREATION_TIME").max())
        moved = self._moved({Placement(*row[:2]): row[2:] for row in newest.rows()}, min(gap, MAX_NUMBER_GAP))
        if not moved or self.target.options.orders_by_snapshot:
            return
        self._rounds += 1
        for number, message in enumerate(self.messages):
            by = moved.get(Placement.of(message), 0)
            if by and message.new_files:
                self._renumber(number, message, by)
        self._changes = make_append_changes(self.messages)

    def _check_new(self, there: pl.DataFrame) -> None:
        names = [
            file.file_name for message in self.given for file in (*message.new_files, *_find_rewritten_files(message))
        ]
        found = there["_FILE_NAME"].filter(there["_FILE_NAME"].is_in(names))
        if len(found):
            raise AlreadyCommitted(self.target.where, found[0])

    def _moved(self, newest: dict[Placement, tuple[int, object]], gap: int) -> dict[Placement, int]:
        """Return how much to add to the sequence numbers of each bucket (postponed rows: to the times in
        milliseconds)."""
        first: dict[Placement, int] = {}
        for message in self.messages:
            place = Placement.of(message)
            for file in message.new_files:
                own = file.creation_time if _is_postponed(message) else file.min_sequence_number
                first[place] = min(own, first.get(place, own))
        moved: dict[Placement, int] = {}
        for place, own in first.items():
            if place not in newest:
                continue
            number, created = newest[place]
            postponed = place.bucket == POSTPONE_BUCKET
            greatest = _to_millis(created) if postponed else number
            if own <= greatest:
                moved[place] = greatest + 1 - own + (0 if postponed else gap)
        return moved

    def _renumber(self, number: int, message: CommitMessage, by: int) -> None:
        if _is_postponed(message):
            later = tuple(msgspec.structs.replace(f, creation_time=f.creation_time + by) for f in message.new_files)
            self.messages[number] = msgspec.structs.replace(message, new_files=later)
            return
        place, old = Placement.of(message), self.given[number]
        new = renumber_files(self.target, place, message.new_files, by)
        try:
            changelog = renumber_files(self.target, place, message.changelog_files, by, changelog=True)
        except BaseException:
            delete_files(self.target, place, new)
            raise
        self.messages[number] = msgspec.structs.replace(
            message,
            new_files=tuple(new),
            changelog_files=tuple(changelog),
            compact_before=(),
            compact_after=(),
            compact_changelog=(),
            compact_new_index_files=(),
            compact_deleted_index_files=(),
            compact_seen=None,
            based_on=None,
        )
        if message is not old:
            self._discard(old, message)

    def _discard(self, old: CommitMessage, new: CommitMessage) -> None:
        """Remove the files of `new` that are not in `old`."""
        if _is_postponed(new):
            return
        kept = {file.file_name for file in (*old.new_files, *old.changelog_files)}
        files: list[DataFileMeta] = [f for f in (*new.new_files, *new.changelog_files) if f.file_name not in kept]
        self.target.store.discard([path for f in files for path in find_paths(self.target, Placement.of(new), f)])


def _is_based_on(message: CommitMessage, latest: Snapshot) -> bool:
    """Return whether the writer continued the numbers of exactly this snapshot, or assigned none."""
    if not message.new_files:
        return True
    return message.based_on is not None and message.based_on == identify_version(latest)


def _find_rewritten_files(message: CommitMessage) -> list[DataFileMeta]:
    """Return the files that compaction wrote, without files that it only moved to another level."""
    before = {file.file_name for file in message.compact_before}
    return [file for file in message.compact_after if file.file_name not in before]


def _is_postponed(message: CommitMessage) -> bool:
    return message.bucket == POSTPONE_BUCKET


def _to_millis(created: object) -> int:
    return int(pl.Series([created], dtype=pl.Datetime("ms")).cast(pl.Int64)[0])


def renumber_files(
    target: WriteTarget, place: Placement, files: Sequence[DataFileMeta], by: int, *, changelog: bool = False
) -> list[DataFileMeta]:
    """Copy the rows of these files to new files, with `by` added to every sequence number. Rows are streamed.

    Args:
        files: files of the bucket that no snapshot names yet; they stay unchanged.
        changelog: whether they are changelog files.

    Returns: the new files in the order of the old ones, durable.

    Raises `FileMissing`, `CorruptFile`: a file cannot be read. `StorageError`. After any error, no new file is left.
    """
    made: list[DataFileMeta] = []
    try:
        for file in files:
            own = restore_written_schema(target, file.schema_id)
            made += write_files(
                own,
                place,
                _read_renumbered(own, place, file, by),
                level=file.level,
                source=FileSource.APPEND,
                changelog=changelog,
            )
    except BaseException:
        delete_files(target, place, made)
        raise
    return made


def restore_written_schema(target: WriteTarget, schema_id: int) -> WriteTarget:
    """Return the table at the schema with which files were written, without columns added since."""
    if schema_id == target.schema.id:
        return target
    metadata = target.metadata
    schema = metadata.schema(schema_id)
    write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
    return replace(target, schema=schema, options=metadata.options(schema), write=write)


def _read_renumbered(target: WriteTarget, place: Placement, file: DataFileMeta, by: int) -> Iterator[pl.DataFrame]:
    stored = StoredFiles(target, place, (file,))
    try:
        frame = stored.lazy(file).with_columns(pl.col(SEQUENCE_NUMBER) + by)
        with translate_file_errors(stored.plan, [stored.section], stored.fields, target.store):
            yield from frame.collect_batches(
                chunk_size=DEFAULT_BATCH_ROWS, maintain_order=True, lazy=True, engine="streaming"
            )
    except FileMissing as error:
        raise FileMissing(
            error.path, hint="a file that waits to be committed was removed; write these rows again"
        ) from error


AnyChanges: TypeAlias = Changes | Callable[[Snapshot | None], Changes]
"""The changes of a snapshot, or a function of the previous snapshot, on which an overwrite depends."""


@dataclass(frozen=True)
class SnapshotRequest:
    """A request to create a snapshot.

    `changes`: its changes; a function is called again on each try.
    `check`: whether to check for conflicts with other commits.
    `recognised`: whether another process may have created it already, after `known`, the newest snapshot known to
    precede it.
    `premise`: the condition that must hold on the previous snapshot.
    `only_manifests`: the snapshot only merges manifests, and is not created if there are none to merge. `statistics`:
    the file that replaces the previous snapshot's statistics; `drops_statistics`: the snapshot has none. `reassigns`:
    returns new row ids for the rows of the previous snapshot; the snapshot is not created if there are none.
    """

    kind: str
    identifier: int
    changes: AnyChanges
    check: bool
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    recognised: bool = False
    known: Snapshot | None = None
    premise: Premise | None = None
    only_manifests: bool = False
    statistics: str | None = None
    drops_statistics: bool = False
    reassigns: Callable[[Snapshot], Reassignment | None] | None = None


class NothingMerged(Exception):
    """Signal that no manifest of the newest snapshot is worth merging."""


@dataclass(frozen=True)
class Delta:
    """The written changes of a snapshot: their entries, and names and sizes of the lists (None: no changelog)."""

    changes: Changes
    entries: pl.DataFrame
    delta_list: tuple[str, int]
    changelog_list: tuple[str | None, int | None]
    next_row_id: int


class Preparer:
    """Writer of the metadata files of one table's snapshots. Names of new files are added to the lists `written`."""

    def __init__(self, target: WriteTarget, manifests: ManifestWriter, base: BaseEntries) -> None:
        self._target = target
        self._manifests = manifests
        self._base = base

    @property
    def lasting(self) -> bool:
        """Whether the delta is independent of the newest snapshot."""
        return not (self._target.options.row_tracking or self._target.options.orders_by_snapshot)

    def check(self, request: SnapshotRequest, changes: Changes, latest: Snapshot | None) -> None:
        """Raise `CommitConflict` if the changes cannot follow `latest`."""
        if request.premise is not None:
            request.premise.check(self._target, latest)
        check_dropped_partitions(self._target, request.kind, changes, latest)
        if latest is None or not request.check:
            return
        watched = self._unaware and self._target.options.deletion_vectors
        check_conflicts(
            self._target,
            self._base.at(latest, changes.partitions),
            changes.entries.select(SIMPLE_COLUMNS),
            overwrite=request.kind == OVERWRITE,
            base_index=read_index_entries(self._target.metadata, latest) if watched else None,
            delta_index=index_frame(changes.index) if watched else None,
            next_row_id=None if request.kind == COMPACT else latest.next_row_id,
        )
        if changes.adds_columns and request.kind != COMPACT:
            self._check_columns(changes, latest)
        check_lookup_files(self._target, self._base.at(latest, changes.partitions), changes.looked_at)
        check_numbers(self._target, self._base.at(latest, changes.partitions), changes.numbered_from)

    def _check_columns(self, changes: Changes, latest: Snapshot) -> None:
        """Raise `CommitConflict` if others have written the columns that change, or built a global index on them."""
        files = (each for each in changes.files if each.kind == EntryKind.ADD and each.file.first_row_id is not None)
        added = [(each.partition, each.file) for each in files]
        if changes.planned_on is not None:
            check_columns(self._target, latest, changes.planned_on, added)
        dropped = {entry.file.file_name for entry in changes.index if entry.kind == EntryKind.DELETE}
        stale = [entry.file for entry in find_stale_indexes(self._target, latest, added)]
        if new := [file.file_name for file in stale if file.file_name not in dropped]:
            raise CommitConflict(f"{self._target.where}: another commit built the global index {new[0]}; retry")

    def delta(self, changes: Changes, latest: Snapshot | None, written: list[str], *, kind: str) -> Delta:
        """Write the manifests and manifest lists of changes for a new snapshot of this kind."""
        entries, next_row_id = changes.entries, _read_next_row_id(latest)
        snapshot_id = latest.id + 1 if latest else FIRST_SNAPSHOT_ID
        if self._target.keyed and self._target.options.orders_by_snapshot and kind != COMPACT:
            entries = to_entry_frame(_number_by_snapshot(changes.files, snapshot_id))
        if self._target.options.row_tracking:
            next_row_id = max(next_row_id, self._find_used_row_ids(latest))
            files = changes.files
            if self._target.write.groups_row_ids:
                files = tuple(sorted(files, key=lambda entry: entry.partition))
            files, next_row_id = assign_row_ids(files, snapshot_id, next_row_id)
            entries = to_entry_frame(files)
        delta_list = self._manifests.manifest_list(self._manifests.entries(entries, written), written)
        changelog_list: tuple[str | None, int | None] = (None, None)
        if changes.changelog:
            manifests = self._manifests.entries(to_entry_frame(changes.changelog), written)
            changelog_list = self._manifests.manifest_list(manifests, written)
        return Delta(changes, entries, delta_list, changelog_list, next_row_id)

    def _find_used_row_ids(self, latest: Snapshot | None) -> int:
        """Return the first row id after all manifests: a writer that sets ids itself may not count them."""
        if latest is None:
            return 0
        used = list_manifests(self._target.metadata, latest)["_MAX_ROW_ID"].drop_nulls()
        return max(used.to_list(), default=-1) + 1

    def snapshot(self, request: SnapshotRequest, latest: Snapshot | None, delta: Delta, written: list[str]) -> Snapshot:
        """Write the other metadata files of the snapshot after `latest`; return the snapshot, not yet created.

        Raises `NothingMerged` for a request of `only_manifests`.
        """
        previous = list_manifests(self._target.metadata, latest) if latest else _make_empty_manifest_list()
        new_ids = None if request.reassigns is None or latest is None else request.reassigns(latest)
        if request.reassigns is not None and new_ids is None:
            raise NothingMerged
        if new_ids is None:
            base = merge_manifests(self._target, self._manifests, previous, written)
            index_manifest, next_row_id = self._index_manifest(delta.changes, latest, written), delta.next_row_id
        else:
            base, next_row_id = new_ids.rewrite(self._target, self._manifests, previous, written), new_ids.next_row_id
            index_manifest = None
            if new_ids.index is not None and new_ids.index.height:
                index_manifest = self._manifests.index_manifest(new_ids.index, written)
        if request.only_manifests and set(base["_FILE_NAME"]) == set(previous["_FILE_NAME"]):
            raise NothingMerged
        is_replacement = REPLACING_SCHEMA in request.properties  # it commits before its schema
        metadata = replace(self._target.metadata, known={})
        base_list, newest = call_both(
            metadata.store, lambda: self._manifests.manifest_list(base, written), metadata.latest_schema
        )
        if not is_replacement:
            _check_same_table(self._target, newest)
        changelog = delta.changes.changelog
        done = _find_operation(request)
        rows = _count_added_rows(delta.entries)
        schema_id = max(newest.id, self._target.schema.id)
        return Snapshot(
            id=latest.id + 1 if latest else FIRST_SNAPSHOT_ID,
            schema_id=schema_id,
            base_manifest_list=base_list[0],
            base_manifest_list_size=base_list[1],
            delta_manifest_list=delta.delta_list[0],
            delta_manifest_list_size=delta.delta_list[1],
            changelog_manifest_list=delta.changelog_list[0],
            changelog_manifest_list_size=delta.changelog_list[1],
            index_manifest=index_manifest,
            commit_user=self._target.commit_user,
            commit_identifier=request.identifier,
            commit_kind=request.kind,
            time_millis=time.time_ns() // 1_000_000,
            total_record_count=self._records(latest) + rows,
            delta_record_count=rows,
            changelog_record_count=sum(entry.file.row_count for entry in changelog) if changelog else None,
            watermark=_choose_later(request.watermark, latest.watermark if latest else None),
            statistics=None if request.drops_statistics else request.statistics or self._statistics(latest, schema_id),
            properties={**_build_properties(request, latest), **self._target.properties, **request.properties},
            operation=None if done is None else done.operation,
            # A delta written once for all tries does not assign row ids.
            next_row_id=next_row_id if self._target.options.row_tracking else _read_next_row_id(latest),
        )

    def _records(self, latest: Snapshot | None) -> int:
        """Return the number of rows in the files of `latest`, even if its writer did not count them."""
        if latest is None:
            return 0
        if latest.total_record_count is not None:
            return latest.total_record_count
        metadata = self._target.metadata
        entries = read_live_entries(metadata, latest, metadata.schema(latest.schema_id), columns=("_ROW_COUNT",))
        return int(entries.frame["_ROW_COUNT"].sum())

    def _index_manifest(self, changes: Changes, latest: Snapshot | None, written: list[str]) -> str | None:
        if not changes.index:
            return latest.index_manifest if latest else None
        previous = read_index_entries(self._target.metadata, latest) if latest else None
        return self._manifests.index_manifest(
            combine_index_files(previous, changes.index, unaware=self._unaware), written
        )

    @property
    def _unaware(self) -> bool:
        return not self._target.keyed and self._target.options.bucket == -1

    def _statistics(self, latest: Snapshot | None, schema_id: int) -> str | None:
        """Return the statistics file of `latest`, None after a change of the schema."""
        if latest is None or latest.statistics is None:
            return None
        path = self._target.metadata.paths.statistics(latest.statistics)
        try:
            node = parse_object(self._target.store.read(path), path)
        except FileMissing:
            return None
        return latest.statistics if node.get("schemaId") == schema_id else None


def _check_same_table(target: WriteTarget, newest: TableSchema) -> None:
    """Raise `CommitConflict` if the table was replaced, or dropped and created again, since its schema was read.

    The new columns may have the same ids, and would be read from files of other columns.
    """
    schema = target.schema
    ids = {field.id for field in schema.fields}
    is_replaced = newest.id > schema.id and ids.isdisjoint(field.id for field in newest.fields)
    own = newest if newest.id <= schema.id else target.metadata.schema(schema.id)
    if is_replaced or own.layout != schema.layout:
        raise CommitConflict(f"{target.where}: the table was replaced while rows were written; write them again")


def _make_empty_manifest_list() -> pl.DataFrame:
    return pl.DataFrame(schema=MANIFEST_LIST_COLUMNS)


def _count_added_rows(entries: pl.DataFrame) -> int:
    added = entries["_KIND"] == ADD
    return int(entries["_ROW_COUNT"].filter(added).sum()) - int(entries["_ROW_COUNT"].filter(~added).sum())


def _number_by_snapshot(entries: Sequence[ManifestEntry], snapshot_id: int) -> tuple[ManifestEntry, ...]:
    """Return the entries with the snapshot as the sequence number of added files, for ``sequence.snapshot-ordering``.

    Compactions keep the numbers: they have read the rows with the snapshots that brought them.
    """
    number = {"min_sequence_number": snapshot_id, "max_sequence_number": snapshot_id}
    return tuple(
        entry
        if entry.kind == EntryKind.DELETE
        else msgspec.structs.replace(entry, file=msgspec.structs.replace(entry.file, **number))
        for entry in entries
    )


def _find_operation(request: SnapshotRequest) -> Tally | None:
    """Return the operation that the snapshot records, None for a compaction after written rows."""
    return None if request.kind == COMPACT else find_running_tally()


def _build_properties(request: SnapshotRequest, latest: Snapshot | None) -> dict[str, str]:
    """Return the properties that the running operation records; a merge of manifests keeps those of the newest one."""
    if request.only_manifests and latest is not None:
        return {key: value for key, value in latest.properties.items() if key not in OF_OPERATIONS}
    done = _find_operation(request)
    return {} if done is None or done.operation is None else done.properties()


def _choose_later(one: int | None, other: int | None) -> int | None:
    known = [mark for mark in (one, other) if mark is not None]
    return max(known, default=None)


def _read_next_row_id(latest: Snapshot | None) -> int:
    return (latest.next_row_id if latest else None) or 0


def assign_row_ids(
    entries: Sequence[ManifestEntry], snapshot_id: int, next_row_id: int
) -> tuple[tuple[ManifestEntry, ...], int]:
    """Return the entries with their row ids, and the next free row id.

    Sequence numbers 0 become the id of the snapshot. A file with rows of older snapshots only has the greatest one
    replaced. Appended files get the next row ids in their order, unless they already have ids or store them. Dedicated
    files share the row ids of the preceding data file: blob files from its first row for each blob column, files of
    vectors one after another. No appended file gets a row id that another file of the commit has already.

    Raises `InvalidArgument`: a file of unknown source, or a dedicated file that does not belong to a data file.
    """
    result: list[ManifestEntry] = []
    added = (entry.file for entry in entries if entry.kind == EntryKind.ADD)
    ends = [file.first_row_id + file.row_count for file in added if file.first_row_id is not None]
    start = data_start = vector_start = max(next_row_id, *ends, 0)
    blob_starts: dict[str, int] = {}
    for entry in entries:
        file = entry.file
        if entry.kind == EntryKind.DELETE:
            result.append(entry)
            continue
        if file.min_sequence_number == 0:
            file = msgspec.structs.replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
        elif file.max_sequence_number == 0:
            file = msgspec.structs.replace(file, max_sequence_number=snapshot_id)
        if file.file_source is None:
            raise InvalidArgument(f"the file {file.file_name} of a table with row tracking has no source")
        if file.file_source == FileSource.APPEND and file.first_row_id is None and not stores_row_ids(file):
            if file.file_name.endswith(f".{BLOB}"):
                column = (file.write_cols or ("",))[0]
                first = blob_starts.get(column, data_start)
                blob_starts[column] = first + file.row_count
            elif VECTOR_INFIX in file.file_name:
                first = vector_start
                vector_start += file.row_count
            else:
                first = data_start = start
                blob_starts.clear()
                start += file.row_count
            if first >= start:
                raise InvalidArgument(f"the file {file.file_name} belongs to no data file of its commit")
            file = msgspec.structs.replace(file, first_row_id=first)
        result.append(msgspec.structs.replace(entry, file=file))
    return tuple(result), start


def stores_row_ids(file: DataFileMeta) -> bool:
    """Return whether the file holds the ids of its rows, which it has taken over from other files."""
    return file.write_cols is not None and ROW_ID in file.write_cols
