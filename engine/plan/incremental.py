"""Plans of incremental reads: the files that describe the changes from one snapshot to another.

There are three sources (option ``incremental-between-scan-mode``).

delta: the files that APPEND snapshots added, as they were written. Compactions and overwrites are left out. With data
evolution the files of new rows are joined by row id.
changelog: the changelog files of the snapshots, made by ``changelog-producer``. Overwrites are left out.
diff: the rows that differ between both snapshots, found by comparing two plans.

The keys of a section that merges, and of a file that is read without a merge, are in no other section of the plan. So
if both plans have the same section or file, with the same deletion vectors, both have its rows, and it is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import msgspec
import polars as pl

from morrow.engine.errors import SnapshotExpired, SnapshotNotFound, Unsupported
from morrow.engine.format.manifest_entries import ADD
from morrow.engine.format.paths import check_segments
from morrow.engine.format.schema import ROWKIND, TableSchema
from morrow.engine.format.snapshot import APPEND, FIRST_SNAPSHOT_ID, OVERWRITE, Snapshot
from morrow.engine.format.types import DataField, VarCharType, has_same_values
from morrow.engine.options import TableOptions
from morrow.engine.options.declarations import FIRST_ROW, ChangelogProducer
from morrow.engine.options.declared.merging import CHANGELOG_PRODUCER, MERGE_ENGINE
from morrow.engine.options.declared.scans import STREAMING_READ_APPEND_OVERWRITE, STREAMING_READ_OVERWRITE
from morrow.engine.options.write_options import count_levels
from morrow.engine.plan.changelogs import check_snapshot_order
from morrow.engine.plan.data_files import (
    build_data_files,
    decode_partition_values,
    list_allowed_roots,
    list_file_columns,
    list_readable_roots,
)
from morrow.engine.plan.entries import mask_manifests, mask_partitions
from morrow.engine.plan.filter import NO_FILTER, Filter
from morrow.engine.plan.manifests import (
    guard_planning,
    list_base_manifests,
    list_changelog_manifests,
    list_delta_manifests,
    read_manifest_entries,
)
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import make_plan, plan_entries
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import mask_by_value, project_predicate
from morrow.engine.plan.scan_plan import DataFile, DeletionRef, ScanPlan, ScanRequest, Section, SectionKind
from morrow.engine.structs import replace

ROWKIND_FIELD = DataField(2**31 - 5, ROWKIND, VarCharType(nullable=False), "+I, -U, +U or -D")


class ChangesMode(StrEnum):
    """The source of changes; AUTO: see `resolve_mode`. RAW is DELTA, explicitly requested by a stream."""

    AUTO = "auto"
    RAW = "raw"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


@dataclass(frozen=True)
class ChangesRequest:
    """A caller's request for changes: columns in order and a parsed filter, both of the newest schema.

    `raw`: streams return rows as they were written, even if they are not complete rows.
    """

    schema: TableSchema
    options: TableOptions
    columns: tuple[str, ...]
    filter: Filter
    raw: bool = False

    @property
    def producer(self) -> ChangelogProducer:
        """The table's ``changelog-producer``."""
        return self.options.changelog_producer

    @property
    def followed_mode(self) -> ChangesMode:
        """The source of a stream's changes. Raises as `resolve_mode`."""
        return resolve_mode(self, ChangesMode.RAW if self.raw else ChangesMode.AUTO, tags=False)


@dataclass(frozen=True)
class FileChanges:
    """Files whose rows are changes, in the order of `plan`'s sections; the rows are neither merged nor masked."""

    plan: ScanPlan


@dataclass(frozen=True)
class FullRows:
    """All rows of a plan, as insertions."""

    plan: ScanPlan


@dataclass(frozen=True)
class Difference:
    """The difference between the rows of `after` and `before`, which are plans of all columns without a filter.

    Rows are identified by `key`; without one, equal rows are counted.
    """

    before: ScanPlan
    after: ScanPlan
    key: tuple[str, ...]
    filter: Filter


Changes: TypeAlias = FileChanges | FullRows | Difference


def resolve_mode(request: ChangesRequest, mode: ChangesMode, *, tags: bool) -> ChangesMode:
    """Resolve AUTO to a source of changes.

    Tags are compared with each other. Otherwise changelog files are read if the table has a changelog producer, and
    delta files if it does not.

    Raises:
        Unsupported: the table lacks a producer, and the written rows are only parts of the table's rows.
    """
    if mode is ChangesMode.RAW:
        return ChangesMode.DELTA
    if mode is not ChangesMode.AUTO:
        return mode
    if tags:
        return ChangesMode.DIFF
    if request.producer is not ChangelogProducer.NONE:
        return ChangesMode.CHANGELOG
    engine = request.options.merge_engine
    if request.schema.primary_keys and engine != MERGE_ENGINE.default:
        takes_any = engine != FIRST_ROW and not request.options.deletion_vectors
        producers = f"{ChangelogProducer.LOOKUP} or {ChangelogProducer.FULL_COMPACTION}"
        raise Unsupported(
            f"a read of changes of a table with the merge engine {engine} and without a changelog producer",
            where=request.options.given.where,
            hint=f"the rows as written may be parts of rows; set {CHANGELOG_PRODUCER} to "
            f"{producers if takes_any else ChangelogProducer.LOOKUP}, compare "
            "two snapshots (mode diff), or ask for what was written by name (mode raw)",
        )
    return ChangesMode.DELTA


def is_in_changelogs(request: ChangesRequest, mode: ChangesMode) -> bool:
    """Return whether changes of this mode outlive their snapshots in changelogs (``changelog.num-retained.*``).

    With a changelog producer these are its changelog files, without one the files as written.
    """
    return mode is not ChangesMode.DELTA or request.producer is ChangelogProducer.NONE


# --- changes of one snapshot ---


def plan_changes(
    metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot, mode: ChangesMode
) -> FileChanges | FullRows | None:
    """Return the files with the changes of one snapshot, or its new rows; None if it has none of that kind.

    Args:
        mode: DELTA or CHANGELOG.

    Raises:
        CorruptFile, FileMissing, UnsafePath, Unsupported: metadata that cannot be trusted or read.
        Unsupported: columns of existing rows were written separately (data evolution).
        SnapshotExpired: the snapshot's changes have been removed meanwhile.
    """
    with guard_planning(metadata, snapshot, of_changes=True):
        listed = None
        if mode is ChangesMode.DELTA and snapshot.commit_kind == APPEND:
            listed = list_delta_manifests(metadata, snapshot)
        elif mode is ChangesMode.CHANGELOG and snapshot.commit_kind != OVERWRITE:
            listed = list_changelog_manifests(metadata, snapshot)
        return None if listed is None else _plan_added_files(metadata, request, snapshot, listed)


def plan_stream_changes(metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot) -> Changes | None:
    """Return the changes that a stream reads of one snapshot: as `plan_changes`, plus requested overwrites.

    With ``streaming-read-overwrite``, an overwrite of a keyed table is read as its difference from the previous
    snapshot, and all rows of the first snapshot are insertions. With ``streaming-read-append-overwrite``, an overwrite
    of an append table is read as the rows it added.

    Raises:
        Unsupported: a column's type has changed. SnapshotExpired: the snapshot before an overwrite.
    """
    _check_types(metadata, request, snapshot)
    keyed = bool(request.schema.primary_keys)
    mode = request.followed_mode
    option = STREAMING_READ_OVERWRITE if keyed else STREAMING_READ_APPEND_OVERWRITE
    if snapshot.commit_kind != OVERWRITE or not request.options.given.get(option):
        return plan_changes(metadata, request, snapshot, mode)
    if not keyed:
        with guard_planning(metadata, snapshot, of_changes=True):
            return _plan_added_files(metadata, request, snapshot, list_delta_manifests(metadata, snapshot))
    if snapshot.id == FIRST_SNAPSHOT_ID:
        return FullRows(_plan_all_rows(metadata, request, snapshot))
    try:
        before = metadata.snapshot(snapshot.id - 1)
    except SnapshotNotFound as error:
        raise SnapshotExpired(
            f"{error}; with {STREAMING_READ_OVERWRITE}, a stream reads the overwrite of snapshot {snapshot.id} as the "
            "difference from the snapshot before it: read the whole table, and begin another stream after it; a "
            "consumer keeps the snapshots that its stream needs"
        ) from error
    return plan_difference(metadata, request, before, snapshot)


def _check_types(metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot) -> None:
    """Refuse changed column types. A stream keeps its first columns, and values of a later type need not fit them."""
    if snapshot.schema_id <= request.schema.id:
        return
    newer = {field.id: field for field in metadata.schema(snapshot.schema_id).fields}
    for name in sorted({*request.columns, *request.filter.columns}):
        field = request.schema.by_name[name]
        now = newer.get(field.id, field).type
        if not has_same_values(now, field.type):
            raise Unsupported(
                f"the column {name!r}, which was {field.type.text()} when the stream began, as {now.text()}",
                where=f"{metadata.where}, snapshot {snapshot.id}",
                hint="stop, and begin again at this snapshot: a query of Spark with the same checkpoint, a consumer's "
                "stream by its id",
            )


def plan_full_rows(metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot) -> FullRows:
    """Return all rows of a snapshot that its changelog covers. Rows not yet compacted by the producer follow later."""
    producer = ChangelogProducer.NONE if request.raw else request.producer
    least_level = 0
    if producer is ChangelogProducer.LOOKUP:
        least_level = 1
    elif producer is ChangelogProducer.FULL_COMPACTION:
        least_level = count_levels(request.options.given) - 1
    options = request.options
    if producer is not ChangelogProducer.NONE:
        options = replace(options, merges_postponed=False)  # compaction writes the changelog of postponed rows
    columns, filter_ = request.columns, request.filter
    scan = ScanRequest(request.schema, options, snapshot, columns, filter_, least_level=least_level)
    return FullRows(make_plan(metadata, scan))


def _plan_added_files(
    metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot, listed: pl.DataFrame
) -> FileChanges | FullRows | None:
    """Return the files that these manifests add, one section per bucket, in the order of the manifests.

    With data evolution, return the files of the added rows.
    """
    schema, predicate, where = request.schema, request.filter.predicate, metadata.where
    by_partition = project_predicate(predicate, frozenset(schema.partition_keys))
    if by_partition != ALWAYS:
        listed = listed.filter(mask_manifests(listed, schema, by_partition, where))
    if not listed.height:
        return None
    entries = pl.concat(read_manifest_entries(metadata, listed))
    entries = entries.filter(entries["_KIND"] == ADD)
    if by_partition != ALWAYS:
        entries = entries.filter(mask_partitions(entries, schema, by_partition, where))
    if request.producer is not ChangelogProducer.NONE:
        entries = entries.filter(entries["_BUCKET"] >= 0)  # compaction writes the changelog of postponed rows
    if request.options.data_evolution and entries.height:
        return _plan_new_rows(metadata, request, snapshot, entries)
    if predicate != ALWAYS and entries.height:
        kept = mask_by_value(metadata, schema, request.options, predicate, entries)
        entries = entries if kept is None else entries.filter(kept)
    if not entries.height:
        return None
    check_segments(entries["_FILE_NAME"], where)
    return FileChanges(
        ScanPlan(
            table=where,
            schema=schema,
            columns=request.columns,
            filter=request.filter,
            sections=_build_sections(metadata, request, entries),
            snapshot=snapshot,
            file_fields={i: list_file_columns(metadata.schema(i)) for i in entries["_SCHEMA_ID"].unique().to_list()},
            file_options=request.options.raw,
            root=metadata.root,
            branch=metadata.branch,
            of_changes=True,
            roots=list_readable_roots(metadata, request.options),
            allowed_roots=list_allowed_roots(metadata, request.options),
        )
    )


def _plan_new_rows(
    metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot, entries: pl.DataFrame
) -> FullRows:
    """Return the rows of files with row ids, whose columns may lie in several files.

    Raises:
        Unsupported: some of the rows existed before, and which of them were changed is not recorded.
    """
    if (entries["_FIRST_ROW_ID"].fill_null(0) < _find_first_new_row(metadata, snapshot)).any():
        raise Unsupported(
            f"a read of the changes of snapshot {snapshot.id}, which wrote columns of rows that were there before,",
            where=metadata.where,
            hint="which rows it changed is not recorded; compare two snapshots (mode diff), or begin after it",
        )
    scan = ScanRequest(request.schema, request.options, snapshot, request.columns, request.filter)
    return FullRows(replace(plan_entries(metadata, scan, entries), of_changes=True))


def _find_first_new_row(metadata: TableMetadata, snapshot: Snapshot) -> int:
    """Return the smallest row id that rows of earlier snapshots cannot have."""
    if snapshot.id == FIRST_SNAPSHOT_ID:
        return 0
    before = metadata.snapshot_or_none(snapshot.id - 1) or metadata.changelog_or_none(snapshot.id - 1)
    if before is not None:
        return before.next_row_id or 0
    listed = list_base_manifests(metadata, snapshot)
    ends = [entries["_FIRST_ROW_ID"] + entries["_ROW_COUNT"] for entries in read_manifest_entries(metadata, listed)]
    return int(pl.concat(ends).max() or 0) if ends else 0  # type: ignore[arg-type]  # of integers


def _build_sections(metadata: TableMetadata, request: ChangesRequest, entries: pl.DataFrame) -> tuple[Section, ...]:
    files = build_data_files(metadata, request.schema, request.options, entries, {})
    values = decode_partition_values(request.schema, entries, where=metadata.where)
    members: dict[tuple[bytes, int], list[int]] = {}
    for row, place in enumerate(zip(entries["_PARTITION"].to_list(), entries["_BUCKET"].to_list())):
        members.setdefault(place, []).append(row)
    return tuple(
        Section(
            SectionKind.RAW, values[rows[0]], bucket, tuple(files[row] for row in rows), partition_row=partition_row
        )
        for (partition_row, bucket), rows in members.items()
    )


# --- difference of two snapshots ---


def plan_difference(
    metadata: TableMetadata, request: ChangesRequest, before: Snapshot | None, after: Snapshot
) -> Difference | FullRows:
    """Return plans of two snapshots, without the files and sections that both share (`drop_shared`).

    Without `before`, the table was empty: all rows of `after` were added.

    Raises:
        InvalidArgument: `after` is the older one.
    """
    if before is None:
        return FullRows(_plan_all_rows(metadata, request, after))
    check_snapshot_order(metadata, before.id, after.id)
    everything = replace(request, columns=tuple(request.schema.by_name), filter=NO_FILTER)
    old, new = (_plan_all_rows(metadata, everything, snapshot) for snapshot in (before, after))
    return Difference(*drop_shared(old, new), request.schema.row_keys, request.filter)


def _plan_all_rows(metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot) -> ScanPlan:
    scan = ScanRequest(request.schema, request.options, snapshot, request.columns, request.filter)
    return make_plan(metadata, scan)


def drop_shared(old: ScanPlan, new: ScanPlan) -> tuple[ScanPlan, ScanPlan]:
    """Return both plans without the sections and files that give the same rows in both.

    The plans have the same columns and schema.
    """
    return _drop_sections_of(old, new), _drop_sections_of(new, old)


def _drop_sections_of(plan: ScanPlan, other: ScanPlan) -> ScanPlan:
    raw = {_identify_rows(file) for file in _iterate_raw_files(other)}
    others = {section for section in other.sections if section.kind is not SectionKind.RAW}
    sections: list[Section] = []
    for section in plan.sections:
        if section.kind is not SectionKind.RAW:
            sections += [section] if section not in others else []
        elif files := tuple(file for file in section.files if _identify_rows(file) not in raw):
            sections.append(msgspec.structs.replace(section, files=files))
    return replace(plan, sections=tuple(sections))


def _iterate_raw_files(plan: ScanPlan) -> Iterator[DataFile]:
    return (file for section in plan.sections if section.kind is SectionKind.RAW for file in section.files)


def _identify_rows(file: DataFile) -> tuple[str, DeletionRef | None]:
    """Return the identity of a file's rows: a compaction may have moved the file to another level unchanged."""
    return file.path, file.deletion
