"""Erasure of rows: no file of the table holds them afterwards, neither live nor in the history of any branch.

A deletion only hides rows. They stay in data files (behind deletion vectors, in lower levels of a merge tree), in older
snapshots, tags, other branches and changelogs, and their values in the bounds and indexes of manifests. An erasure
runs these steps; each is atomic, and finds from the files alone what is left to do, so another call completes a killed
run:

1. Find all data files and changelog files that hold rows for which the condition is true, whether live, deleted or
   superseded, in every root of every branch.
2. Rewrite these files in the newest snapshot of every branch, in one OVERWRITE snapshot per branch. In a table with a
   primary key, the merged rows of the overlapping files are written without the rows of the condition; so this works
   for all merge engines. Indexes of data files are written again with them.

With the history of the table:

3. Delete the tags that hold such rows.
4. Merge the manifests of each branch, which then name live files only, and drop the statistics of ANALYZE.
5. Expire the snapshots that hold such rows and those before them, and all changelogs.
6. Remove unreferenced files.

Finally, every remaining data file is read again. Erased rows are in no changelog: it would hold them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np
import polars as pl

from morrow.engine.errors import FileMissing, InvalidArgument, Unsupported
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.manifest_entries import ADD, DataFileMeta, FileSource, to_data_files
from morrow.engine.format.metadata_json import parse_object
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.stats import decode_column_stats
from morrow.engine.format.types import DataField
from morrow.engine.names import ROW
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.filter import NO_FILTER, Filter, FilterLike, parse_filter
from morrow.engine.plan.manifests import (
    list_changelog_manifests,
    list_delta_manifests,
    list_manifests,
    read_manifest_entries,
)
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import mask_by_key, mask_by_value
from morrow.engine.plan.references import WRITTEN
from morrow.engine.plan.roots import Line, Root, RootKind
from morrow.engine.progress import advance
from morrow.engine.redaction import escape_to_line
from morrow.engine.units import format_count
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.execution import execute
from morrow.readers.expressions.polars import filter_rows
from morrow.writers.append.bucket_compaction import AppendFiles
from morrow.writers.append.writer import UNAWARE
from morrow.writers.buckets.bucket_state import BucketState, restore_partitions
from morrow.writers.commit import tally
from morrow.writers.commit.base_entries import read_live_entries
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.committer import purge_manifests
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.premise import guard_compaction
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.commit.tally import Operation, record_operation
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement, delete_files, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.history.orphan_files import compute_cutoff_millis, list_all_branches, remove_orphan_files
from morrow.writers.history.snapshot_expiry import expire_all_changelogs, expire_changelogs, expire_snapshots
from morrow.writers.history.tags import delete_tags
from morrow.writers.history.tombstones import finish_removals
from morrow.writers.keyed.levels import Section, list_files, split_sections
from morrow.writers.keyed.rewriter import merge_sorted
from morrow.writers.operations.commits import clean_up_on_failure
from morrow.writers.operations.compaction import build_levels, compact_table
from morrow.writers.operations.isolation import plan_where
from morrow.writers.target import WriteTarget

MAX_FILES_AT_ONCE = 64
"""Maximum data files of a bucket that are searched together."""


class Holder(StrEnum):
    """The kinds of things that keep a file."""

    LIVE = "newest snapshot"
    TAG = "tag"
    SNAPSHOT = "snapshot"
    CHANGELOG = "changelog"
    UNREFERENCED = "unreferenced files"


@dataclass(frozen=True)
class Holding:
    """A snapshot, tag or changelog of a branch with rows for which a condition is true.

    `name` is the id of the snapshot or changelog, or the name of the tag. `rows` counts stored rows, including deleted
    and superseded ones, in `files`. `bounds` counts removed files whose statistics in manifests name such a value.
    Unreferenced files are listed without being read. `reason` says why the holding remains.
    """

    kind: Holder
    branch: str
    name: str
    files: tuple[str, ...] = ()
    rows: int = 0
    bounds: int = 0
    reason: str = ""

    def __str__(self) -> str:
        held = [format_count(len(self.files), "file")]
        held += [format_count(self.rows, "stored row")] if self.kind != Holder.UNREFERENCED else []
        held += [f"statistics of {format_count(self.bounds, 'removed file')}"] if self.bounds else []
        where = f"branch {self.branch}, " if self.branch else ""
        named = f"{self.kind} {self.name}".strip()
        return escape_to_line(f"{where}{named}: {', '.join(held)}" + (f" ({self.reason})" if self.reason else ""))


@dataclass(frozen=True)
class Erasure:
    """The receipt of an erasure.

    Attributes:
        condition: the rows that were erased.
        history: whether tags, older snapshots and changelogs were removed.
        dry_run: whether nothing was changed.
        found: what held such rows before.
        rows: number of live rows that were erased, in all branches.
        rewritten: number of data files that were rewritten without such rows.
        snapshots: ids of the snapshots that erased rows, by branch.
        tags: the tags that were deleted, by branch.
        expired, changelogs, orphans: numbers of snapshots, changelogs and unreferenced files that were removed.
        files_read, rows_read: data files that the final verification read, and their stored rows.
        remaining: what still holds such rows, and why. Empty if no file of the table does.
    """

    condition: str
    history: bool
    dry_run: bool
    found: tuple[Holding, ...]
    rows: int = 0
    rewritten: int = 0
    snapshots: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    expired: int = 0
    changelogs: int = 0
    orphans: int = 0
    files_read: int = 0
    rows_read: int = 0
    remaining: tuple[Holding, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether no file of the table holds such rows any more."""
        return not self.dry_run and not self.remaining

    def to_polars(self) -> pl.DataFrame:
        """Return what held such rows before (``state`` found), and what still does (``remaining``), one row each."""
        states = [("found", each) for each in self.found] + [("remaining", each) for each in self.remaining]
        columns = {
            "state": pl.String,
            "holder": pl.String,
            "branch": pl.String,
            "name": pl.String,
            "files": pl.Int64,
            "stored_rows": pl.Int64,
            "bounds": pl.Int64,
            "reason": pl.String,
        }
        rows = [
            (state, each.kind.value, each.branch, each.name, len(each.files), each.rows, each.bounds, each.reason)
            for state, each in states
        ]
        return pl.DataFrame(rows, schema=columns, orient="row")

    def __str__(self) -> str:
        head = f"{'Would erase' if self.dry_run else 'Erased'} rows where {escape_to_line(self.condition)}"
        lines = [head, "held by:" if self.found else "held by nothing"]
        lines += [f"  {each}" for each in self.found]
        if self.dry_run:
            return "\n".join(lines)
        removed = [
            format_count(self.expired, "snapshot"),
            format_count(sum(map(len, self.tags.values())), "tag"),
            format_count(self.changelogs, "changelog"),
            format_count(self.orphans, "unreferenced file"),
        ]
        lines.append(f"rewritten: {format_count(self.rewritten, 'file')}, without {format_count(self.rows, 'live row')}")
        lines += [f"removed: {', '.join(removed)}"] if self.history else []
        lines.append(f"verified: {format_count(self.files_read, 'file')}, {format_count(self.rows_read, 'stored row')}")
        lines.append("still held by:" if self.remaining else "no file of the table holds such rows")
        return "\n".join([*lines, *(f"  {each}" for each in self.remaining)])

    __repr__ = __str__


@record_operation(Operation.DELETE)
def erase_rows(
    metadata: TableMetadata,
    condition: FilterLike,
    *,
    history: bool = False,
    dry_run: bool = False,
    older_than_millis: int | None = None,
    properties: Mapping[str, str] | None = None,
) -> Erasure:
    """Erase the rows for which a condition is true; see `Table.erase`.

    Raises:
        InvalidArgument: no condition, one that does not fit the columns of a branch, or a moment in the future.
        Unsupported: files of the table cannot be rewritten.
        CorruptFile, FileMissing: a file cannot be read. CommitConflict: others were faster each time. StorageError: a
            file was not removed. In each case another call continues.
    """
    if condition is None:
        raise InvalidArgument("erase: give a condition; Table.purge removes all rows with their history")
    compute_cutoff_millis(older_than_millis)
    tables = list_all_branches(metadata)
    targets = [WriteTarget.of(table, properties=properties) for table in tables.values()]
    searches = [_Search(target, _parse_condition(target, condition)) for target in targets]
    text = searches[0].filter.text
    if history and not dry_run:
        for table in tables.values():
            _finish_expiry(table)
    found = [holding for search in searches for holding in search.holdings()]
    found += _list_unreferenced(metadata)
    if dry_run:
        return Erasure(text, history, dry_run, tuple(found))
    done = _Rewritten()
    for search in searches:
        _rewrite_branch(search.target, search.filter, done)
    purged = _Purged()
    if history:
        for search in searches:
            _purge_branch(search.target, [each for each in found if each.branch == search.branch], purged)
        orphans = remove_orphan_files(metadata, older_than_millis=older_than_millis, dry_run=False)
        purged.orphans = orphans.count
    checks = [_Search(search.target, search.filter, prunes=False) for search in searches]
    left = [_explain(holding, purged.kept_by, history) for check in checks for holding in check.holdings()]
    left += _find_left_files(metadata, found, left, history)
    return Erasure(
        text,
        history,
        dry_run,
        tuple(found),
        done.rows,
        done.files,
        done.snapshots,
        purged.tags,
        purged.expired,
        purged.changelogs,
        purged.orphans,
        sum(check.files_read for check in checks),
        sum(check.rows_read for check in checks),
        tuple(left),
    )


def _parse_condition(target: WriteTarget, condition: FilterLike) -> Filter:
    """Parse the condition over the columns of a branch, after checking that its files can be rewritten."""
    if target.options.row_tracking or target.options.data_evolution:
        raise Unsupported(
            "erasing rows of a table with row tracking, whose rewritten files would have to keep row ids,",
            where=target.where,
            hint="append the rows that stay to a new table, and drop this one",
        )
    return parse_filter(condition, target.schema.fields)


def _finish_expiry(metadata: TableMetadata) -> None:
    """Complete interrupted removals, so that every file belongs to a root or is unreferenced."""
    finish_removals(metadata)
    if metadata.latest_snapshot() is not None:
        expire_snapshots(metadata, max_deletes=0)
        expire_changelogs(metadata, max_deletes=0)


def _list_unreferenced(metadata: TableMetadata) -> list[Holding]:
    paths = remove_orphan_files(metadata, older_than_millis=time.time_ns() // 1_000_000, dry_run=True).paths
    data = tuple(path for path in paths if "/bucket-" in path)
    return [Holding(Holder.UNREFERENCED, "", "", data)] if data else []


# Search


@dataclass(frozen=True)
class _FilteredFiles(StoredFiles):
    """Reader of the columns of a condition, of all rows that are stored in files of a bucket."""

    filter: Filter = NO_FILTER

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        read = tuple(field for field in self.target.schema.fields if field.name in self.filter.columns)
        return read or self.target.schema.fields[:1]

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yield the path and the number of matching rows of each file."""
        for start in range(0, len(self.files), MAX_FILES_AT_ONCE):
            group = self.files[start : start + MAX_FILES_AT_ONCE]
            frames = [filter_rows(self.filter, self.fields, self.lazy(file)).select(pl.len()) for file in group]
            for file, count in zip(group, self.collect(frames), strict=True):
                advance(files=1, rows=file.row_count)
                yield self._by_name[file.file_name].path, int(count.item())


@dataclass
class _Search:
    """Search for stored rows in all roots of a branch; `files_read` and `rows_read` count what was read.

    `prunes`: whether files are skipped whose statistics exclude such rows.
    """

    target: WriteTarget
    filter: Filter
    prunes: bool = True
    files_read: int = 0
    rows_read: int = 0
    _found: dict[str, tuple[str, int]] = field(default_factory=dict)
    """File name -> path and number of matching rows."""

    @property
    def branch(self) -> str:
        return self.target.metadata.branch

    def holdings(self) -> Iterator[Holding]:
        """Yield the roots that hold such rows. Raises `FileMissing` if a root is removed meanwhile."""
        line = Line.of(self.target.metadata)
        newest = line.snapshot_ids[-1] if line.snapshot_ids else None
        for root in line.roots():
            own, changelog = self._list_entries(root)
            if root.kind == RootKind.SNAPSHOT and root.id == newest:
                yield from self._hold(Holder.LIVE, root, own)
                yield from self._hold(Holder.SNAPSHOT, root, changelog, bounds=self._count_bounds(root, own))
                continue
            kind = Holder(root.kind)
            yield from self._hold(kind, root, pl.concat([own, changelog]), bounds=self._count_bounds(root, own))

    def match(self, entries: pl.DataFrame) -> dict[str, tuple[str, int]]:
        """Return path and number of matching rows by name, of the files of entries that have any."""
        new = entries.filter(~entries["_FILE_NAME"].is_in(list(self._found))).unique("_FILE_NAME", maintain_order=True)
        self._found |= dict.fromkeys(new["_FILE_NAME"].to_list(), ("", 0))
        if self.prunes and new.height and self.filter.predicate != ALWAYS:
            new = new.filter(self._may_match(new))
        for (partition, bucket), group in new.partition_by(
            ["_PARTITION", "_BUCKET"], maintain_order=True, as_dict=True
        ).items():
            self.read(Placement(partition, bucket), to_data_files(group))
        names = entries["_FILE_NAME"].unique(maintain_order=True).to_list()
        return {name: self._found[name] for name in names if self._found[name][1]}

    def read(self, place: Placement, files: Sequence[DataFileMeta]) -> None:
        """Count the matching rows of these files."""
        reader = _FilteredFiles(self.target, place, tuple(files), filter=self.filter)
        for file, (path, rows) in zip(files, reader.counts(), strict=True):
            self._found[file.file_name] = path, rows
            self.files_read += 1
            self.rows_read += file.row_count

    def _may_match(self, entries: pl.DataFrame) -> pl.Series:
        target, predicate = self.target, self.filter.predicate
        mask = mask_by_key(target.metadata, target.schema, predicate, entries)
        values = mask_by_value(target.metadata, target.schema, target.options, predicate, entries)
        return mask if values is None else mask & values

    def _hold(self, kind: Holder, root: Root, entries: pl.DataFrame, *, bounds: int = 0) -> Iterator[Holding]:
        held = self.match(entries)
        rows = sum(rows for _, rows in held.values())
        if not rows and kind in (Holder.LIVE, Holder.TAG):
            rows = self._count_merged(root)
        if rows or bounds:
            paths = tuple(path for path, _ in held.values())
            yield Holding(kind, self.branch, root.name or str(root.id), paths, rows, bounds)

    def _count_merged(self, root: Root) -> int:
        """Return the number of merged rows that match though no stored row does, since a fold combines columns."""
        if not merges_columns(self.target, self.filter):
            return 0
        return execute.count(plan_where(self.target, root.snapshot, self.filter), self.target.store)

    def _list_entries(self, root: Root) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the entries of the files that a root needs: data files, then changelog files."""
        metadata, snapshot = self.target.metadata, root.snapshot
        none = pl.DataFrame(schema=_get_entry_schema())
        own = changelog = none
        if root.keeps_data and root.kind == RootKind.CHANGELOG:
            delta = _concat(read_manifest_entries(metadata, list_delta_manifests(metadata, snapshot)))
            own = delta.filter(delta["_FILE_SOURCE"].fill_null(WRITTEN) == WRITTEN)
        elif root.keeps_data:
            own = read_live_entries(metadata, snapshot, self.target.schema, None)
        if root.kind != RootKind.TAG and (listed := list_changelog_manifests(metadata, snapshot)) is not None:
            changelog = _concat(read_manifest_entries(metadata, listed))
            changelog = changelog.filter(changelog["_KIND"] == ADD)
        return own, changelog

    def _count_bounds(self, root: Root, live: pl.DataFrame) -> int:
        """Return the number of statistics of other than live files that name a matching value."""
        metadata, snapshot = self.target.metadata, root.snapshot
        if not root.keeps_data or root.kind == RootKind.CHANGELOG:
            return 0
        entries = _concat(read_manifest_entries(metadata, list_manifests(metadata, snapshot)))
        gone = entries.filter(~entries["_FILE_NAME"].is_in(live["_FILE_NAME"].implode()))
        gone = gone.unique("_FILE_NAME", keep="first", maintain_order=True)
        known = sum(self._found.get(name, ("", 0))[1] > 0 for name in gone["_FILE_NAME"])
        gone = gone.filter(~gone["_FILE_NAME"].is_in([name for name, (_, rows) in self._found.items() if rows]))
        parts = [frame for _, group in gone.group_by(["_SCHEMA_ID"]) for frame in self._list_bounds(group)]
        parts += self._list_statistics(snapshot)
        return known + sum(self._count_named(frame) for frame in parts)

    @cached_property
    def _wanted(self) -> tuple[DataField, ...]:
        return tuple(field for field in self.target.schema.fields if field.name in self.filter.columns)

    def _count_named(self, values: Mapping[str, pl.Series]) -> int:
        """Return the number of rows of values for which the condition is true; unknown values are null."""
        known = {name: column for name, column in values.items() if column.null_count() < len(column)}
        if not known:
            return 0
        height = max(map(len, known.values()))
        columns = [
            (known[each.name] if each.name in known else pl.Series([None] * height))
            .cast(to_polars_dtype(each.type), strict=False)
            .alias(each.name)
            for each in self._wanted
        ]
        frame = pl.DataFrame(columns).filter(pl.any_horizontal(pl.all().is_not_null()))
        return int(filter_rows(self.filter, self._wanted, frame.lazy()).select(pl.len()).collect().item())

    def _list_bounds(self, entries: pl.DataFrame) -> Iterator[Mapping[str, pl.Series]]:
        """Yield the least, then the greatest values of the columns of the condition in files of one schema."""
        target, written = self.target, self.target.metadata.schema(entries["_SCHEMA_ID"][0])
        names = {field.id: field.name for field in written.fields}
        types = {field.name: field.type for field in written.fields}
        wanted = {each.name: names[each.id] for each in self._wanted if each.id in names}
        stats = entries["_VALUE_STATS"].struct
        found = decode_column_stats(
            stats.field("_MIN_VALUES"),
            stats.field("_MAX_VALUES"),
            stats.field("_NULL_COUNTS"),
            entries.select(pl.coalesce("_VALUE_STATS_COLS", "_WRITE_COLS")).to_series(),
            types,
            list(wanted.values()),
            where=target.where,
        )
        fixed = self._decode(entries["_PARTITION"], written, written.partition_keys)
        for which, key in (("minimum", "_MIN_KEY"), ("maximum", "_MAX_KEY")):
            keys = self._decode(entries[key], written, written.trimmed_primary_keys)
            values = {name: getattr(each, which) for name, each in found.items()}
            bounds = {**{name: each for name, each in values.items() if each is not None}, **keys, **fixed}
            yield {name: bounds[stored] for name, stored in wanted.items() if stored in bounds}

    def _decode(self, rows: pl.Series, schema: TableSchema, names: Sequence[str]) -> Mapping[str, pl.Series]:
        if not names:
            return {}
        types = [schema.by_name[name].type for name in names]
        return dict(
            zip(names, decode_columns(rows, types, where=self.target.where, unrepresentable="null"), strict=True)
        )

    def _list_statistics(self, snapshot: Snapshot) -> Iterator[Mapping[str, pl.Series]]:
        """Yield the bounds in the statistics of ANALYZE."""
        if snapshot.statistics is None:
            return
        path = self.target.metadata.paths.statistics(snapshot.statistics)
        columns = parse_object(self.target.store.read(path), path).get("colStats")
        for which in ("min", "max"):
            known = {name: each.get(which) for name, each in (columns or {}).items()}
            yield {
                each.name: pl.Series([str(known[each.name])])
                for each in self._wanted
                if known.get(each.name) is not None
            }


def merges_columns(target: WriteTarget, filter: Filter) -> bool:
    """Return whether a merged row may match a condition that none of its stored versions matches."""
    folds = target.merge is not None and target.merge.folds
    return folds and not filter.columns <= {*target.schema.primary_keys}


def _get_entry_schema() -> Mapping[str, pl.DataType]:
    from morrow.engine.format.manifest_entries import ENTRY_COLUMNS, FILE_COLUMNS

    return {**ENTRY_COLUMNS, **FILE_COLUMNS}  # type: ignore[dict-item]


def _concat(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames) if frames else pl.DataFrame(schema=_get_entry_schema())


# Rewriting


@dataclass
class _Rewritten:
    """Counts of the rewrites: live rows left out, files replaced, and the snapshot of each branch."""

    rows: int = 0
    files: int = 0
    snapshots: dict[str, int] = field(default_factory=dict)


def _rewrite_branch(target: WriteTarget, filter: Filter, done: _Rewritten) -> None:
    """Rewrite the files of the newest snapshot of a branch that hold such rows, in one commit."""
    if target.options.bucket == POSTPONE_BUCKET:
        compact_table(target)  # postponed rows have no merged version yet

    def once() -> tuple[Snapshot | None, _BranchRewrite]:
        tally.begin_tally()
        snapshot, rewrite = target.metadata.latest_snapshot(), _BranchRewrite(target, filter)
        if snapshot is None:
            return None, rewrite
        try:
            with guard_compaction(target.metadata, snapshot):
                messages = rewrite.messages(snapshot)
        except BaseException:
            TableCommit(target).abort(rewrite.made)
            raise
        if not messages:
            return None, rewrite
        commits = commit_with_maintenance(target)
        with clean_up_on_failure(commits, messages):
            return commits.rewrite(messages), rewrite

    made, rewrite = retry_on_conflict(target, once)
    if made is not None:
        done.snapshots[target.metadata.branch] = made.id
        done.rows += rewrite.rows
        done.files += sum(len(message.compact_before) for message in rewrite.made)


@dataclass
class _BranchRewrite:
    """The rewrite of the buckets of a snapshot. `rows` counts the live rows that were left out."""

    target: WriteTarget
    filter: Filter
    rows: int = 0
    made: list[CommitMessage] = field(default_factory=list)

    def messages(self, snapshot: Snapshot) -> list[CommitMessage]:
        """Write the files that replace files with such rows; return the messages. `made` has those made so far."""
        search = _Search(self.target, self.filter)
        held = set(search.match(read_live_entries(self.target.metadata, snapshot, self.target.schema, None)))
        if not held and not merges_columns(self.target, self.filter):
            return []
        for place, state in restore_partitions(self.target, snapshot, None).items():
            if state.files and place.bucket != POSTPONE_BUCKET:
                self._rewrite_bucket(place, state, held)
        return self.made

    def _rewrite_bucket(self, place: Placement, state: BucketState, held: set[str]) -> None:
        rolling = not self.target.keyed and self.target.options.bucket == UNAWARE
        vectors = DeletionMaintainer(self.target, place.partition, place.bucket, state.index_files, rolling=rolling)
        rewrite = self._rewrite_sections if self.target.keyed else self._rewrite_files
        before: list[DataFileMeta] = []
        after: list[DataFileMeta] = []
        try:
            rewrite(place, state, held, vectors, before, after)
            if not before:
                return
            for file in before:
                vectors.remove(file.file_name)
            changes = vectors.write()
        except BaseException:
            delete_files(self.target, place, after)
            raise
        self.made.append(
            CommitMessage(
                partition=place.partition,
                bucket=place.bucket,
                total_buckets=state.total_buckets or self.target.options.bucket,
                compact_before=tuple(before),
                compact_after=tuple(after),
                compact_new_index_files=changes.new,
                compact_deleted_index_files=changes.replaced,
            )
        )

    def _rewrite_files(
        self,
        place: Placement,
        state: BucketState,
        held: set[str],
        vectors: DeletionMaintainer,
        before: list[DataFileMeta],
        after: list[DataFileMeta],
    ) -> None:
        """Write the live rows of each file of an append table without such rows. Sequence numbers keep their order."""
        for file in state.files:
            if file.file_name not in held:
                continue
            rows = self._others(AppendFiles(self.target, place, (file,), vectors).frames())
            first = file.min_sequence_number
            after += write_files(
                self.target, place, rows, level=file.level, source=FileSource.COMPACT, first_sequence=first
            )
            before.append(file)

    def _rewrite_sections(
        self,
        place: Placement,
        state: BucketState,
        held: set[str],
        vectors: DeletionMaintainer,
        before: list[DataFileMeta],
        after: list[DataFileMeta],
    ) -> None:
        """Write the merged rows of files with overlapping keys without such rows, to the top level."""
        levels = build_levels(self.target, state)
        for group in self._choose_sections(place, split_sections(levels.files, levels.order), held, vectors):
            rows = merge_sorted(self.target, place, group, vectors=vectors, drop_deletes=True)
            after += write_files(
                self.target, place, self._others(rows), level=levels.max_level, source=FileSource.COMPACT
            )
            before += list_files(group)

    def _choose_sections(
        self, place: Placement, sections: Sequence[Section], held: set[str], vectors: DeletionMaintainer
    ) -> Iterator[list[Section]]:
        """Yield neighbouring sections that hold such rows. A file must not span the keys of a section that stays."""
        group: list[Section] = []
        for section in sections:
            if self._is_held(place, section, held, vectors):
                group.append(section)
            elif group:
                yield group
                group = []
        if group:
            yield group

    def _is_held(self, place: Placement, section: Section, held: set[str], vectors: DeletionMaintainer) -> bool:
        if any(file.file_name in held for file in list_files([section])):
            return True
        if len(section) < 2 or not merges_columns(self.target, self.filter):
            return False
        merged = merge_sorted(self.target, place, [section], vectors=vectors, drop_deletes=True)
        return any(len(self._find(rows)) for rows in merged)

    def _find(self, rows: pl.DataFrame) -> pl.Series:
        """Return the numbers of the rows that match."""
        numbered = rows.with_row_index(ROW).lazy()
        return filter_rows(self.filter, self.target.schema.fields, numbered).select(ROW).collect()[ROW]

    def _others(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the rows that do not match, and count those that do."""
        for rows in frames:
            found = self._find(rows)
            self.rows += len(found)
            tally.count(deleted=len(found))
            others = np.ones(rows.height, np.bool_)
            others[found.to_numpy()] = False
            yield rows.filter(pl.Series(others))


# History


@dataclass
class _Purged:
    """What was removed, and the reasons why the oldest snapshots of branches stay."""

    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    expired: int = 0
    changelogs: int = 0
    orphans: int = 0
    kept_by: dict[str, str] = field(default_factory=dict)


def _purge_branch(target: WriteTarget, found: Sequence[Holding], purged: _Purged) -> None:
    """Delete tags, expire snapshots and remove changelogs of a branch that hold such rows."""
    metadata, branch = target.metadata, target.metadata.branch
    tags = delete_tags(metadata, [each.name for each in found if each.kind == Holder.TAG])
    if tags:
        purged.tags[branch] = tuple(tags)
    newest = metadata.latest_snapshot()
    if not found or newest is None:
        return
    last = max((int(each.name) for each in found if each.kind == Holder.SNAPSHOT), default=0)
    if any(each.kind == Holder.LIVE for each in found):
        last = newest.id
    if last == newest.id:
        newest = purge_manifests(target)
    keep = newest.id - last
    now = time.time_ns() // 1_000_000
    expired = expire_snapshots(metadata, retain_max=keep, retain_min=keep, older_than_millis=now)
    purged.expired += expired
    purged.kept_by[branch] = expired.kept_by
    purged.changelogs += _remove_changelogs(metadata, now)


def _remove_changelogs(metadata: TableMetadata, now: int) -> int:
    """Remove all changelogs, except those that a consumer still needs."""
    slowest, newest = Consumers(metadata).slowest(), metadata.latest_snapshot()
    if slowest is None or newest is None or slowest[1] >= newest.id:
        return expire_all_changelogs(metadata)
    return expire_changelogs(metadata, retain_max=1, retain_min=1, older_than_millis=now)


def _explain(holding: Holding, kept_by: Mapping[str, str], history: bool) -> Holding:
    """Return a remaining holding with the reason why it remains."""
    if holding.kind == Holder.LIVE:
        reason = "written meanwhile; erase again"
    elif not history:
        reason = "history=True removes it"
    elif holding.kind == Holder.TAG:
        reason = "created meanwhile; erase again"
    else:
        reason = kept_by.get(holding.branch) or "erase again"
    return Holding(
        holding.kind, holding.branch, holding.name, holding.files, holding.rows, holding.bounds, reason
    )


def _find_left_files(
    metadata: TableMetadata, found: Sequence[Holding], left: Sequence[Holding], history: bool
) -> Iterator[Holding]:
    """Yield the unreferenced files that stay, and files with such rows that were not removed."""
    known = {path for holding in left for path in holding.files}
    if history:
        for holding in _list_unreferenced(metadata):
            known |= {*holding.files}
            reason = "not read: a running writer's, or remains of a killed one; give older_than to remove them"
            yield Holding(holding.kind, "", "", holding.files, reason=reason)
    paths = {path for holding in found if holding.kind != Holder.UNREFERENCED for path in holding.files} - known
    there = tuple(path for path in sorted(paths) if _is_there(metadata, path))
    if there and history:
        reason = "not removed: outside of the table's folder and of allowed_roots; remove them by hand"
        yield Holding(Holder.UNREFERENCED, "", "", there, reason=reason)


def _is_there(metadata: TableMetadata, path: str) -> bool:
    try:
        return metadata.store.exists(path)
    except FileMissing:
        return False
