"""Plans of changes: which files tell how a table got from one snapshot to another.

Three sources (option ``incremental-between-scan-mode``):

* delta: the files that APPEND snapshots added, as they were written; compactions and overwrites are left out.
* changelog: the changelog files of the snapshots, which ``changelog-producer`` made; overwrites are left out.
* diff: the rows of the two snapshots held against each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

import polars as pl

from morrow.engine.format.binary_row import Value
from morrow.engine.format.manifest import ADD
from morrow.engine.format.paths import check_segments
from morrow.engine.format.schema import ROWKIND, TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField, VarCharType
from morrow.engine.options import TableOptions
from morrow.engine.options.parsing import choice, flag, integer
from morrow.engine.options.writing import ChangelogProducer
from morrow.engine.plan.change_ranges import check_order
from morrow.engine.plan.data_files import data_files, partition_values
from morrow.engine.plan.entries import (
    changelog_manifests_of,
    delta_manifests_of,
    manifest_entries,
    partition_matches,
    partitions_overlap,
)
from morrow.engine.plan.filter import NO_FILTER, Filter
from morrow.engine.plan.in_flight import planning
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import ScanRequest, file_columns, make_plan
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import projected, value_mask
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind

ROWKIND_FIELD = DataField(2**31 - 5, ROWKIND, VarCharType(nullable=False), "+I, -U, +U or -D")

APPEND, OVERWRITE = "APPEND", "OVERWRITE"
"""Kinds of commits; ANALYZE and COMPACT are the others."""


class ChangesMode(StrEnum):
    """Where changes are taken from; AUTO: see `mode_of`."""

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


@dataclass(frozen=True)
class ChangesRequest:
    """What a caller wants of changes: columns in order and a parsed filter, of the newest schema."""

    schema: TableSchema
    options: TableOptions
    columns: tuple[str, ...]
    filter: Filter

    def producer(self, where: str) -> ChangelogProducer:
        """The table's ``changelog-producer``."""
        known = tuple(ChangelogProducer)
        return ChangelogProducer(choice(self.options.raw, "changelog-producer", "none", known, where))


@dataclass(frozen=True)
class FileChanges:
    """Files whose rows are changes, in the order of `plan`'s sections: no row of them is merged or masked."""

    plan: ScanPlan


@dataclass(frozen=True)
class FullRows:
    """All rows that a plan gives, as insertions."""

    plan: ScanPlan


@dataclass(frozen=True)
class Difference:
    """How the rows of `after` differ from those of `before`; plans of all columns and no filter.

    Rows are told apart by `key`; without one, rows are counted.
    """

    before: ScanPlan
    after: ScanPlan
    key: tuple[str, ...]
    filter: Filter


Changes: TypeAlias = FileChanges | FullRows | Difference
Place: TypeAlias = tuple[tuple[Value | None, ...], int]
"""A bucket of a partition."""


def mode_of(metadata: TableMetadata, request: ChangesRequest, mode: ChangesMode, *, tags: bool) -> ChangesMode:
    """What AUTO stands for: tags are held against each other; else changelog files are read where a producer makes
    them, and delta files where none does.
    """
    if mode is not ChangesMode.AUTO:
        return mode
    if tags:
        return ChangesMode.DIFF
    no_producer = request.producer(metadata.where) is ChangelogProducer.NONE
    return ChangesMode.DELTA if no_producer else ChangesMode.CHANGELOG


def in_changelogs(metadata: TableMetadata, request: ChangesRequest, mode: ChangesMode) -> bool:
    """Whether changes of this mode outlive their snapshots in changelogs (``changelog.num-retained.*``): those that a
    producer made, and where none does those that were written.
    """
    return mode is not ChangesMode.DELTA or request.producer(metadata.where) is ChangelogProducer.NONE


# --- what a snapshot changed ---


def changes_of(
    metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot, mode: ChangesMode
) -> FileChanges | None:
    """The files that tell what one snapshot changed; None when it has none of that kind.

    Args:
        mode: DELTA or CHANGELOG.

    Raises:
        CorruptFile, FileMissing, UnsafePath, Unsupported: metadata that cannot be trusted or read.
        SnapshotExpired: what the snapshot changed has been removed meanwhile.
    """
    with planning(metadata, snapshot, of_changes=True):
        listed = None
        if mode is ChangesMode.DELTA and snapshot.commit_kind == APPEND:
            listed = delta_manifests_of(metadata, snapshot)
        elif mode is ChangesMode.CHANGELOG and snapshot.commit_kind != OVERWRITE:
            listed = changelog_manifests_of(metadata, snapshot)
        return None if listed is None else _added(metadata, request, snapshot, listed)


def followed(metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot) -> Changes | None:
    """What a stream reads of one snapshot: as `changes_of`, and overwrites where the table's options ask for them.

    ``streaming-read-overwrite``: an overwrite of a keyed table is its difference from the snapshot before;
    ``streaming-read-append-overwrite``: one of an append table is what it added.
    """
    where, keyed = metadata.where, bool(request.schema.primary_keys)
    mode = mode_of(metadata, request, ChangesMode.AUTO, tags=False)
    option = "streaming-read-overwrite" if keyed else "streaming-read-append-overwrite"
    if snapshot.commit_kind != OVERWRITE or not flag(request.options.raw, option, False, where):
        return changes_of(metadata, request, snapshot, mode)
    if not keyed:
        with planning(metadata, snapshot, of_changes=True):
            return _added(metadata, request, snapshot, delta_manifests_of(metadata, snapshot))
    return difference(metadata, request, metadata.snapshot(snapshot.id - 1), snapshot)


def full_rows(metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot) -> FullRows:
    """All rows of a snapshot that its changelog has told of: those that wait for a producer's compaction come later."""
    producer, raw = request.producer(metadata.where), request.options.raw
    least_level = 0
    if producer is ChangelogProducer.LOOKUP:
        least_level = 1
    elif producer is ChangelogProducer.FULL_COMPACTION:
        trigger = integer(raw, "num-sorted-run.compaction-trigger", 5, metadata.where)
        least_level = integer(raw, "num-levels", trigger + 1, metadata.where) - 1
    columns, filter_ = request.columns, request.filter
    scan = ScanRequest(request.schema, request.options, snapshot, columns, filter_, least_level=least_level)
    return FullRows(make_plan(metadata, scan))


def _added(
    metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot, listed: pl.DataFrame
) -> FileChanges | None:
    """The files that these manifests add, a section for each bucket, in the order of the manifests."""
    schema, predicate, where = request.schema, request.filter.predicate, metadata.where
    by_partition = projected(predicate, frozenset(schema.partition_keys))
    if by_partition != ALWAYS:
        listed = listed.filter(partitions_overlap(listed, schema, by_partition, where))
    if not listed.height:
        return None
    entries = pl.concat(manifest_entries(metadata, listed))
    entries = entries.filter(entries["_KIND"] == ADD)
    if by_partition != ALWAYS:
        entries = entries.filter(partition_matches(entries, schema, by_partition, where))
    if request.producer(where) is not ChangelogProducer.NONE:
        entries = entries.filter(entries["_BUCKET"] >= 0)  # what is postponed has its changelog when it is compacted
    if predicate != ALWAYS and entries.height:
        kept = value_mask(metadata, schema, request.options, predicate, entries)
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
            sections=_sections(metadata, request, entries),
            snapshot=snapshot,
            file_fields={i: file_columns(metadata.schema(i)) for i in entries["_SCHEMA_ID"].unique().to_list()},
            file_options=request.options.raw,
            root=metadata.root,
            branch=metadata.branch,
            of_changes=True,
        )
    )


def _sections(metadata: TableMetadata, request: ChangesRequest, entries: pl.DataFrame) -> tuple[Section, ...]:
    files = data_files(metadata, request.schema, request.options, entries, {})
    values = partition_values(request.schema, entries, where=metadata.where)
    members: dict[tuple[bytes, int], list[int]] = {}
    for row, place in enumerate(zip(entries["_PARTITION"].to_list(), entries["_BUCKET"].to_list())):
        members.setdefault(place, []).append(row)
    return tuple(
        Section(SectionKind.RAW, values[rows[0]], bucket, tuple(files[row] for row in rows))
        for (_, bucket), rows in members.items()
    )


# --- how two snapshots differ ---


def difference(metadata: TableMetadata, request: ChangesRequest, before: Snapshot, after: Snapshot) -> Difference:
    """Plans of two snapshots, without what both have in common.

    Buckets of keyed tables whose files are the same, and files of append tables that are in both, are left out.

    Raises:
        InvalidArgument: `after` is the older one.
    """
    check_order(metadata, before.id, after.id)
    everything = replace(request, columns=tuple(request.schema.by_name), filter=NO_FILTER)
    old, new = (_all_rows(metadata, everything, snapshot) for snapshot in (before, after))
    without = _without_shared_buckets if request.schema.primary_keys else _without_shared_files
    return Difference(without(old, new), without(new, old), request.schema.primary_keys, request.filter)


def _all_rows(metadata: TableMetadata, request: ChangesRequest, snapshot: Snapshot) -> ScanPlan:
    scan = ScanRequest(request.schema, request.options, snapshot, request.columns, request.filter, travelled=True)
    return make_plan(metadata, scan)


def _without_shared_buckets(plan: ScanPlan, other: ScanPlan) -> ScanPlan:
    """The sections of buckets whose files, deletion vectors included, are not the same in the other plan."""
    mine, theirs = _by_bucket(plan), _by_bucket(other)
    changed = {place for place, files in mine.items() if theirs.get(place) != files}
    return replace(plan, sections=tuple(s for s in plan.sections if (s.partition, s.bucket) in changed))


def _by_bucket(plan: ScanPlan) -> dict[Place, set[DataFile]]:
    files: dict[Place, set[DataFile]] = {}
    for section in plan.sections:
        files.setdefault((section.partition, section.bucket), set()).update(section.files)
    return files


def _without_shared_files(plan: ScanPlan, other: ScanPlan) -> ScanPlan:
    """The files, and whole sections of files that hold a row's columns together, which the other plan has not."""
    theirs = {file for section in other.sections if section.kind is SectionKind.RAW for file in section.files}
    stitched = {section for section in other.sections if section.kind is not SectionKind.RAW}
    sections = []
    for section in plan.sections:
        files = tuple(file for file in section.files if file not in theirs)
        if section.kind is not SectionKind.RAW:
            sections += [section] if section not in stitched else []
        elif files:
            sections.append(Section(section.kind, section.partition, section.bucket, files))
    return replace(plan, sections=tuple(sections))
