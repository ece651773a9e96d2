"""Writer of the metadata files of a snapshot: delta and changelog first, then the base list and the index manifest.

Delta and changelog are the same for every newest snapshot (unless the changes depend on it), so they are written once
for all tries. Between reading the newest snapshot and creating the next one, a try writes little: one manifest list,
and seldom merged manifests or an index manifest. Tables with ``row-tracking.enabled`` get row ids and snapshot numbers
for their new files here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
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
from morrow.engine.format.schema import ROW_ID, TableSchema
from morrow.engine.format.snapshot import COMPACT, FIRST_SNAPSHOT_ID, OF_OPERATIONS, OVERWRITE, Snapshot
from morrow.engine.io.store import call_both
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import list_manifests, read_index_entries
from morrow.writers.commit.base_entries import SIMPLE_COLUMNS, BaseEntries
from morrow.writers.commit.conflicts import (
    check_columns,
    check_conflicts,
    check_lookup_files,
    check_numbers,
    combine_index_files,
    find_stale_indexes,
)
from morrow.writers.commit.manifests import ManifestWriter, merge_manifests
from morrow.writers.commit.messages import Changes, Tally, find_running_tally
from morrow.writers.commit.premise import Premise
from morrow.writers.target import WriteTarget

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
    the file that replaces the previous snapshot's statistics; `drops_statistics`: the snapshot has none.
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
        return not self._target.options.row_tracking

    def check(self, request: SnapshotRequest, changes: Changes, latest: Snapshot | None) -> None:
        """Raise `CommitConflict` if the changes cannot follow `latest`."""
        if request.premise is not None:
            request.premise.check(self._target, latest)
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

    def delta(self, changes: Changes, latest: Snapshot | None, written: list[str]) -> Delta:
        """Write the manifests and manifest lists of the changes."""
        entries, next_row_id = changes.entries, _read_next_row_id(latest)
        if self._target.options.row_tracking:
            next_row_id = max(next_row_id, self._find_used_row_ids(latest))
            snapshot_id = latest.id + 1 if latest else FIRST_SNAPSHOT_ID
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
        """Return the first row id after the ones of all manifests: a writer that sets ids itself may not count them."""
        if latest is None:
            return 0
        used = list_manifests(self._target.metadata, latest)["_MAX_ROW_ID"].drop_nulls()
        return max(used.to_list(), default=-1) + 1

    def snapshot(self, request: SnapshotRequest, latest: Snapshot | None, delta: Delta, written: list[str]) -> Snapshot:
        """Write the other metadata files of the snapshot after `latest`; return the snapshot, not yet created.

        Raises `NothingMerged` for a request of `only_manifests`.
        """
        previous = list_manifests(self._target.metadata, latest) if latest else _make_empty_manifest_list()
        base = merge_manifests(self._target, self._manifests, previous, written)
        if request.only_manifests and set(base["_FILE_NAME"]) == set(previous["_FILE_NAME"]):
            raise NothingMerged
        metadata = self._target.metadata.knowing(self._target.schema)
        base_list, newest = call_both(
            metadata.store, lambda: self._manifests.manifest_list(base, written), metadata.latest_schema
        )
        _check_same_table(self._target, newest)
        changelog = delta.changes.changelog
        done = _find_operation(request)
        rows = _count_added_rows(delta.entries)
        schema_id = max(newest.id, self._target.schema.id)  # a replacement commits before its schema
        return Snapshot(
            id=latest.id + 1 if latest else FIRST_SNAPSHOT_ID,
            schema_id=schema_id,
            base_manifest_list=base_list[0],
            base_manifest_list_size=base_list[1],
            delta_manifest_list=delta.delta_list[0],
            delta_manifest_list_size=delta.delta_list[1],
            changelog_manifest_list=delta.changelog_list[0],
            changelog_manifest_list_size=delta.changelog_list[1],
            index_manifest=self._index_manifest(delta.changes, latest, written),
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
            next_row_id=delta.next_row_id if self._target.options.row_tracking else _read_next_row_id(latest),
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
    """Raise `CommitConflict` if the table was replaced, so that rows of the target would be in none of its columns."""
    ids = {field.id for field in target.schema.fields}
    if newest.id > target.schema.id and ids.isdisjoint(field.id for field in newest.fields):
        raise CommitConflict(f"{target.where}: the table was replaced while rows were written; write them again")


def _make_empty_manifest_list() -> pl.DataFrame:
    return pl.DataFrame(schema=MANIFEST_LIST_COLUMNS)


def _count_added_rows(entries: pl.DataFrame) -> int:
    added = entries["_KIND"] == ADD
    return int(entries["_ROW_COUNT"].filter(added).sum()) - int(entries["_ROW_COUNT"].filter(~added).sum())


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
    vectors one after another.

    Raises:
        InvalidArgument: a file of unknown source, or a dedicated file that does not belong to a data file.
    """
    result: list[ManifestEntry] = []
    start = data_start = vector_start = next_row_id
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
