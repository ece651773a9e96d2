"""Erasure of rows: no file of the table holds them afterwards, neither live nor in the history of any branch.

A deletion only hides rows. They stay in data files (behind deletion vectors, in lower levels of a merge tree), in older
snapshots, tags, other branches and changelogs, and their values in the bounds and indexes of manifests. An erasure
runs these steps; each is atomic, and finds from the files alone what is left to do, so another call completes a killed
run:

1. Find all data files and changelog files that hold rows for which the condition is true, whether live, deleted or
   superseded, in every root of every branch.
2. Rewrite these files in the newest snapshot of every branch, in one OVERWRITE snapshot per branch. In a table with a
   primary key, the merged rows of the overlapping files are written without the rows of the condition; so this works
   for all merge engines. Indexes of data files are written again with them. All BLOBs of such a table are copied.
   With data evolution, all files of the same row ids are replaced by files of the other live rows, which get new ids;
   global indexes of their partition are dropped.

With the history of the table:

3. Delete the tags that hold such rows.
4. Merge the manifests of each branch, which then name live files only, and drop the statistics of ANALYZE.
5. Expire the snapshots that hold such rows and those before them, and all changelogs.
6. Remove unreferenced files, and folders that became empty: the names of partition folders have values.

Finally, every remaining data file is read again. Erased rows are in no changelog: it would hold them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from morrow.engine.errors import ColumnNotFound, FileMissing, InvalidArgument, Unsupported
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.paths import MAIN_BRANCH, POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import ROW
from morrow.engine.options import Options
from morrow.engine.options.declared.features import GLOBAL_INDEX_COLUMN_UPDATE_ACTION, METADATA_ICEBERG_STORAGE
from morrow.engine.options.declared.table import DATA_EVOLUTION_ENABLED
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.data_files import has_single_runs
from morrow.engine.plan.filter import Filter, FilterLike, parse_filter
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.redaction import clean_text, escape_to_line
from morrow.engine.units import format_count
from morrow.readers.expressions.polars import filter_rows
from morrow.writers.append.bucket_compaction import AppendFiles, check_rewritable, list_carried_fields
from morrow.writers.append.column_files import group_files, rewrite_live_rows
from morrow.writers.append.writer import UNAWARE
from morrow.writers.buckets.routers import BucketState, restore_partitions
from morrow.writers.commit import messages as tally
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.committer import purge_manifests
from morrow.writers.commit.conflicts import IGNORE
from morrow.writers.commit.manifests import read_live_entries
from morrow.writers.commit.messages import CommitMessage, Operation, record_operation
from morrow.writers.commit.premise import Premise, guard_compaction
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.blob_files import PackWriter
from morrow.writers.files.data_files import Placement, delete_files, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.history.orphan_files import compute_cutoff_millis, list_all_branches, remove_orphan_files
from morrow.writers.history.snapshot_expiry import expire_all_changelogs, expire_changelogs, expire_snapshots
from morrow.writers.history.tags import delete_tags
from morrow.writers.history.tombstones import finish_removals
from morrow.writers.history.unreferenced_files import remove_empty_folders
from morrow.writers.keyed.levels import Section, list_files, split_sections
from morrow.writers.keyed.rewriter import merge_sorted
from morrow.writers.operations.compaction import build_levels, compact_table
from morrow.writers.operations.row_search import Holder, Holding, RowSearch, merges_columns
from morrow.writers.operations.write_session import clean_up_on_failure
from morrow.writers.target import WriteTarget


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
        """Whether no file of the table holds such rows."""
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
            return "\n".join(map(clean_text, lines))
        removed = [
            format_count(self.expired, "snapshot"),
            format_count(sum(map(len, self.tags.values())), "tag"),
            format_count(self.changelogs, "changelog"),
            format_count(self.orphans, "unreferenced file"),
        ]
        lines.append(
            f"rewritten: {format_count(self.rewritten, 'file')}, without {format_count(self.rows, 'live row')}"
        )
        lines += [f"removed: {', '.join(removed)}"] if self.history else []
        lines.append(f"verified: {format_count(self.files_read, 'file')}, {format_count(self.rows_read, 'stored row')}")
        lines.append("still held by:" if self.remaining else "no file of the table holds such rows")
        return "\n".join(map(clean_text, [*lines, *(f"  {each}" for each in self.remaining)]))

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
    for table in tables.values():
        _check_copied_values(table)
    targets = [WriteTarget.of(table, properties=properties) for table in tables.values()]
    searches = [RowSearch(target, _parse_condition(target, condition)) for target in targets]
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
        _rewrite_branch(search, done, copies_blobs=bool(search.target.managed_blobs))
    purged = _Purged()
    if history:
        for search in searches:
            held_by = [each for each in found if each.branch == search.branch]
            _purge_branch(search.target, held_by, purged, is_rewritten=search.branch in done.snapshots)
        orphans = remove_orphan_files(metadata, older_than_millis=older_than_millis, dry_run=False)
        purged.orphans = orphans.count
        held = (path for holding in found for path in holding.files)
        remove_empty_folders(metadata.store, metadata.root, held)  # a partition's folder has values in its name
    checks = [RowSearch(search.target, search.filter, prunes=False) for search in searches]
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


@record_operation(Operation.DELETE)
def delete_by_rewriting(target: WriteTarget, filter: Filter, premise: Premise | None = None) -> Snapshot | None:
    """Delete the rows that match from the newest snapshot by rewriting files; the history keeps them.

    This works for all merge engines, also those without deletions.

    Raises:
        Unsupported: a ``write-only`` table, whose files another job compacts, if they are not compacted fully; a table
            whose rows have ids.
        CommitConflict: rows of the premise have changed, or other commits were faster each time.
    """
    check_rewritable(target)
    newest = target.metadata.latest_snapshot()
    entries = None if newest is None else read_live_entries(target.metadata, newest, target.schema, None)
    if entries is not None and target.write.write_only and not has_single_runs(entries):
        raise Unsupported(
            "deleting rows of a write-only table with files that are not compacted",
            where=target.where,
            hint="please use 'COMPACT' procedure first: CALL sys.compact(table => ...)",
        )
    done = _Rewritten()
    _rewrite_branch(RowSearch(target, filter), done, premise)
    return target.metadata.latest_snapshot() if done.snapshots else None


def _parse_condition(target: WriteTarget, condition: FilterLike) -> Filter:
    """Parse the condition over the columns of a branch. Raises `ColumnNotFound` with the branch that lacks one."""
    try:
        return parse_filter(condition, target.schema.fields)
    except ColumnNotFound as error:
        if target.metadata.branch == MAIN_BRANCH:
            raise
        raise ColumnNotFound(
            f"{target.where}: branch {target.metadata.branch!r}: {error}; "
            "give columns that all branches have, or delete the branch"
        ) from error


def _check_copied_values(metadata: TableMetadata) -> None:
    """Raise `Unsupported` if files that no erasure rewrites hold values, for Iceberg or of global indexes.

    An index may have values that no data file has anymore, unless all changes of rows keep it right.
    """
    options = Options(metadata.latest_schema().options)
    if options.get(METADATA_ICEBERG_STORAGE) != "disabled":
        raise Unsupported(
            "erasing rows of a table with Iceberg metadata, which has bounds of columns,",
            where=metadata.where,
            hint=f"unset {METADATA_ICEBERG_STORAGE} and remove its folder",
        )
    if options.get(DATA_EVOLUTION_ENABLED) and options.get(GLOBAL_INDEX_COLUMN_UPDATE_ACTION) != IGNORE:
        return
    newest = metadata.latest_snapshot()
    entries = None if newest is None else read_index_entries(metadata, newest)
    if entries is not None and entries["_GLOBAL_INDEX"].is_not_null().any():
        raise Unsupported(
            "erasing rows of a table with a global index, which has the values of a column,",
            where=metadata.where,
            hint="drop the index: Table.drop_global_index",
        )


def _finish_expiry(metadata: TableMetadata) -> None:
    """Complete interrupted removals, so that every file belongs to a root or is unreferenced."""
    finish_removals(metadata)
    if metadata.latest_snapshot() is not None:
        expire_snapshots(metadata, max_deletes=0)
        expire_changelogs(metadata, max_deletes=0)


def _list_unreferenced(metadata: TableMetadata) -> list[Holding]:
    paths = remove_orphan_files(metadata, older_than_millis=time.time_ns() // 1_000_000, dry_run=True).paths
    data = tuple(path for path in paths if "/bucket-" in path or "/index/" in path)
    return [Holding(Holder.UNREFERENCED, "", "", data)] if data else []


# Rewriting


@dataclass
class _Rewritten:
    """Counts of the rewrites: live rows left out, files replaced, and the snapshot of each branch."""

    rows: int = 0
    files: int = 0
    snapshots: dict[str, int] = field(default_factory=dict)


def _rewrite_branch(
    search: RowSearch, done: _Rewritten, premise: Premise | None = None, *, copies_blobs: bool = False
) -> None:
    """Rewrite the files of the newest snapshot of a branch that hold such rows, in one commit.

    `copies_blobs`: rewrite all files and their BLOBs.
    """
    target = search.target
    if target.options.bucket == POSTPONE_BUCKET:
        compact_table(target)  # postponed rows are not merged yet

    def once() -> tuple[Snapshot | None, _BranchRewrite]:
        tally.begin_tally()
        snapshot, rewrite = target.metadata.latest_snapshot(), _BranchRewrite(search, copies_blobs)
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
            return commits.rewrite(messages, premise), rewrite

    made, rewrite = retry_on_conflict(target, once)
    if made is not None:
        done.snapshots[target.metadata.branch] = made.id
        done.rows += rewrite.rows
        done.files += sum(len(message.compact_before) for message in rewrite.made)


@dataclass
class _BranchRewrite:
    """The rewrite of the buckets of a snapshot. `rows` counts the live rows that were left out.

    `search` knows the rows of the files that it has read; files do not change. A BLOB file of a keyed table holds
    values of many rows, also of rows that were deleted earlier: with `copies_blobs`, live values are copied to new
    files.
    """

    search: RowSearch
    copies_blobs: bool = False
    rows: int = 0
    made: list[CommitMessage] = field(default_factory=list)

    @property
    def target(self) -> WriteTarget:
        return self.search.target

    @property
    def filter(self) -> Filter:
        return self.search.filter

    def messages(self, snapshot: Snapshot) -> list[CommitMessage]:
        """Write the files that replace files with such rows; return the messages. `made` has those made so far."""
        entries = read_live_entries(self.target.metadata, snapshot, self.target.schema, None)
        held = set(self.search.match(entries))
        for entry in self.search.find_held_indexes(snapshot, entries, held):
            self.made.append(
                CommitMessage(
                    partition=entry.partition,
                    bucket=entry.bucket,
                    total_buckets=self.target.options.bucket,
                    compact_deleted_index_files=(entry.file,),
                )
            )
        if not held and not merges_columns(self.target, self.filter) and not self.copies_blobs:
            return self.made
        for place, state in restore_partitions(self.target, snapshot, None, rewrites=True).items():
            if state.files and place.bucket != POSTPONE_BUCKET:
                self._rewrite_bucket(place, state, held)
        return self.made

    def _rewrite_bucket(self, place: Placement, state: BucketState, held: set[str]) -> None:
        rolling = not self.target.keyed and self.target.options.bucket == UNAWARE
        vectors = DeletionMaintainer(self.target, place.partition, place.bucket, state.index_files, rolling=rolling)
        rewrite = self._rewrite_sections if self.target.keyed else self._rewrite_files
        if self.target.options.data_evolution:
            rewrite = self._rewrite_groups
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
            first, columns = file.min_sequence_number, list_carried_fields(self.target)
            source = FileSource.COMPACT
            after += write_files(
                self.target, place, rows, level=file.level, source=source, first_sequence=first, columns=columns
            )
            before.append(file)

    def _rewrite_groups(
        self,
        place: Placement,
        state: BucketState,
        held: set[str],
        vectors: DeletionMaintainer,
        before: list[DataFileMeta],
        after: list[DataFileMeta],
    ) -> None:
        """Write the live rows of each group of files of a data-evolution table without such rows."""
        groups = [group for group in group_files(state.files) if group.files[0].file_name in held]
        if groups:
            old, new = rewrite_live_rows(self.target, place, groups, vectors, self._others, self.filter.columns)
            before += old
            after += new

    def _rewrite_sections(
        self,
        place: Placement,
        state: BucketState,
        held: set[str],
        vectors: DeletionMaintainer,
        before: list[DataFileMeta],
        after: list[DataFileMeta],
    ) -> None:
        """Merge files with overlapping keys, and write the rows that are not to be erased to the top level."""
        levels = build_levels(self.target, state)
        for group in self._choose_sections(place, split_sections(levels.files, levels.order), held, vectors):
            rows = self._others(merge_sorted(self.target, place, group, vectors=vectors, drop_deletes=True))
            if self.copies_blobs:
                rows = self._copy_blobs(place, rows)
            after += write_files(self.target, place, rows, level=levels.max_level, source=FileSource.COMPACT)
            before += list_files(group)

    def _choose_sections(
        self, place: Placement, sections: Sequence[Section], held: set[str], vectors: DeletionMaintainer
    ) -> Iterator[list[Section]]:
        """Yield groups of neighbouring sections with rows to erase: no new file may span the keys of other sections."""
        group: list[Section] = []
        for section in sections:
            if self.copies_blobs or self._is_held(place, section, held, vectors):
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

    def _copy_blobs(self, place: Placement, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        packs = PackWriter(self.target, place)
        try:
            yield from map(packs.externalize, frames)
        except BaseException:
            packs.abort()
            raise
        packs.finish()

    def _find(self, rows: pl.DataFrame) -> pl.Series:
        """Return the numbers of the rows that match."""
        numbered = rows.with_row_index(ROW).lazy()
        return filter_rows(self.filter, self.target.schema.fields, numbered).select(ROW).collect()[ROW]

    def _others(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the rows that do not match, and count the others."""
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
    """The removed parts of the history, and the reasons why the oldest snapshots of branches stay."""

    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    expired: int = 0
    changelogs: int = 0
    orphans: int = 0
    kept_by: dict[str, str] = field(default_factory=dict)


def _purge_branch(target: WriteTarget, found: Sequence[Holding], purged: _Purged, *, is_rewritten: bool) -> None:
    """Delete tags, expire snapshots and remove changelogs of a branch that hold such rows."""
    metadata, branch = target.metadata, target.metadata.branch
    tags = delete_tags(metadata, [each.name for each in found if each.kind == Holder.TAG])
    if tags:
        purged.tags[branch] = tuple(tags)
    newest = metadata.latest_snapshot()
    if newest is None or not (found or is_rewritten):
        return
    last = max((int(each.name) for each in found if each.kind == Holder.SNAPSHOT), default=0)
    if is_rewritten or any(each.kind == Holder.LIVE for each in found):
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
    """Remove all changelogs except the ones that a consumer needs."""
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
    return Holding(holding.kind, holding.branch, holding.name, holding.files, holding.rows, holding.bounds, reason)


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
