"""Compaction of append tables on request, which picks the files to compact and returns the messages.

Tables without buckets: files below 70 % of the target size, and files with more dead rows than
``compaction.delete-ratio-threshold``, are packed partition by partition, the smallest first. A pack is complete when it
holds two files and twice the target size (each file counts for ``source.split.open-file-cost`` more). The remaining
files make another pack if there are ``compaction.min.file-num`` of them. Files whose deletion vectors are in the same
index file go into the same pack, which is always compacted. With data evolution, see `column_files`.

Fixed buckets: see `bucket_compaction`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from morrow.engine.errors import Unsupported
from morrow.engine.format.deletion_vectors import INDEX_TYPE
from morrow.engine.format.manifest_entries import DataFileMeta, IndexFileMeta
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.options import WriteOptions
from morrow.engine.options.declared.maintenance import COMPACTION_FILE_NUM_LIMIT
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace
from morrow.engine.units import format_count
from morrow.writers.append.bucket_compaction import compute_small_size, rewrite_files
from morrow.writers.append.column_files import group_files, pick_group_packs, rewrite_groups, rewrite_live_rows
from morrow.writers.append.sort_compaction import cluster_files
from morrow.writers.append.writer import UNAWARE, AppendWriter
from morrow.writers.buckets.routers import BucketState, filter_bucket_numbers, restore_partitions
from morrow.writers.commit.conflicts import list_global_indexes
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.data_files import Placement, delete_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer, IndexChanges
from morrow.writers.target import WriteTarget

MIN_PACK_FILES = 2

log = get_logger(__name__)


def compact_append(
    target: WriteTarget,
    snapshot: Snapshot | None,
    *,
    full: bool = False,
    partitions: Sequence[bytes] | None = None,
    buckets: Sequence[range] | None = None,
) -> list[CommitMessage]:
    """Compact the small files of an append table, even if it is ``write-only``.

    Args:
        snapshot: the snapshot to compact.
        full: in tables without buckets, compact every small file and every file with dead rows, or all files with
            ``compaction.force-rewrite-all-files``. In fixed buckets, run a requested compaction in each.
        partitions: the partitions to compact (BinaryRows); None: all.
        buckets: the numbers of the buckets to compact; None: all.

    Returns: one message for each rewrite; none when no rewrite is worthwhile. All new files are durable.

    Raises:
        Unsupported: a table that is clustered incrementally.
        CorruptFile, FileMissing: a file that cannot be read. StorageError: after any error nothing new stays.
    """
    target = enable_compaction(target)
    states = filter_bucket_numbers(restore_partitions(target, snapshot, partitions), buckets)
    tasks = _compact_partitions if target.options.bucket == UNAWARE else compact_append_buckets
    messages: list[CommitMessage] = []
    try:
        for message in tasks(target, states.items(), full):
            messages.append(message)  # noqa: PERF402  # the error path needs the messages made so far
    except BaseException:
        TableCommit(target).abort(messages)
        raise
    return messages


def enable_compaction(target: WriteTarget) -> WriteTarget:
    """Return the table without ``write-only``, for compaction. Raises `Unsupported` as `compact_append`."""
    if target.write.incremental_clustering:
        raise Unsupported("compaction of an incrementally clustered table", where=target.where)
    return replace(target, write=replace(target.write, write_only=False))


def compact_append_buckets(
    target: WriteTarget, states: Iterable[tuple[Placement, BucketState]], full: bool
) -> Iterator[CommitMessage]:
    """Run a requested compaction in each of these fixed buckets; `target` as `enable_compaction` returns it."""
    for place, state in states:
        writer = AppendWriter(target, place, state)
        try:
            writer.compact(full)
            message = writer.prepare_commit()
        finally:
            writer.close()
        if not message.is_empty:
            yield message


def _compact_partitions(
    target: WriteTarget, states: Iterable[tuple[Placement, BucketState]], full: bool
) -> Iterator[CommitMessage]:
    for place, state in states:
        vectors = load_vectors(target, place, state.index_files)
        for files in pick_packs(target, state, vectors, full):
            yield compact_pack(target, place, files, vectors)


def load_vectors(
    target: WriteTarget, place: Placement, index_files: Iterable[IndexFileMeta]
) -> DeletionMaintainer | None:
    """Return the deletion vectors of a partition in a table without buckets, None if the table does not use them."""
    if not target.write.deletion_vectors:
        return None
    return DeletionMaintainer(target, place.partition, place.bucket, index_files, rolling=True)


def compact_pack(
    target: WriteTarget,
    place: Placement,
    files: Sequence[DataFileMeta],
    vectors: DeletionMaintainer | None,
    *,
    level: int | None = None,
) -> CommitMessage:
    """Rewrite one pack. `vectors` has all deletion vectors of the index files that hold the vectors of these files.

    `level`: sort the rows by ``clustering.columns``, into files of this level.
    """
    written: list[DataFileMeta] = []
    changes = IndexChanges()
    try:
        if level is not None:
            written += cluster_files(target, place, files, vectors, level)
        elif target.options.data_evolution:
            for file in rewrite_groups(target, place, files, vectors):
                written.append(file)  # the error path needs the files written so far
        else:
            written += rewrite_files(target, place, files, vectors)
        if vectors is not None:
            for file in files:
                vectors.remove(file.file_name)
            changes = vectors.write()
    except BaseException:
        delete_files(target, place, written)
        raise
    return CommitMessage(
        partition=place.partition,
        bucket=place.bucket,
        total_buckets=target.options.bucket,
        compact_before=tuple(files),
        compact_after=tuple(written),
        compact_new_index_files=changes.new,
        compact_deleted_index_files=changes.replaced,
    )


def materialize_append(
    target: WriteTarget, snapshot: Snapshot | None, partitions: Sequence[bytes] | None
) -> list[CommitMessage]:
    """Rewrite the groups of files of a data-evolution table that have deleted rows; the live rows get new ids.

    Global indexes of the partitions, which hold the old ids, are dropped. Arguments and errors are as of
    `compact_append`.
    """
    messages: list[CommitMessage] = []
    try:
        for place, state in restore_partitions(target, snapshot, partitions).items():
            vectors = DeletionMaintainer(target, place.partition, place.bucket, state.index_files, rolling=True)
            groups = [each for each in group_files(state.files) if any(f.file_name in vectors for f in each.files)]
            if groups:
                before, after = rewrite_live_rows(target, place, groups, vectors)
                message = CommitMessage(
                    partition=place.partition,
                    bucket=place.bucket,
                    total_buckets=target.options.bucket,
                    compact_before=tuple(before),
                    compact_after=tuple(after),
                )
                messages.append(message)
                changes, indexes = vectors.write(), list_global_indexes(target, snapshot, place.partition)
                messages[-1] = msgspec.structs.replace(
                    message,
                    compact_new_index_files=changes.new,
                    compact_deleted_index_files=(*changes.replaced, *indexes),
                )
    except BaseException:
        TableCommit(target).abort(messages)
        raise
    return messages


# --- which files ---


@dataclass
class _Bin:
    """Files that are rewritten together into one file, or a few."""

    options: WriteOptions
    open_file_cost: int
    files: list[DataFileMeta] = field(default_factory=list)
    size: int = 0

    def add(self, files: Iterable[DataFileMeta]) -> None:
        for file in files:
            self.files.append(file)
            self.size += file.file_size + self.open_file_cost

    @property
    def has_enough(self) -> bool:
        return len(self.files) >= MIN_PACK_FILES and self.size >= self.options.target_file_size * 2

    def drain(self) -> tuple[DataFileMeta, ...]:
        files, self.files, self.size = tuple(self.files), [], 0
        return files


def pick_packs(
    target: WriteTarget, state: BucketState, vectors: DeletionMaintainer | None, full: bool
) -> list[tuple[DataFileMeta, ...]]:
    """Return the files of each rewrite of one partition of a table without buckets; no two share an index file."""
    options = target.write
    if target.options.data_evolution:
        return pick_group_packs(target, state.files, state.index_files, compute_small_size(options), full=full)
    cost = options.open_file_cost
    everything = full and options.force_rewrite_all
    files = [file for file in state.files if everything or _is_worth_it(file, options, vectors, full)]
    holders = _index_file_of(state.index_files) if vectors is not None else {}
    found = _pack_by_index_file([f for f in files if f.file_name in holders], holders, _Bin(options, cost))
    others = sorted((f for f in files if f.file_name not in holders), key=lambda file: file.file_size)
    if len(others) >= MIN_PACK_FILES or everything:
        least = (1 if everything else MIN_PACK_FILES) if full else options.append_min_files
        if len(others) > options.file_num_limit:
            log.warning(
                "%s: %s stay for the next compaction: %s is %d",
                target.where,
                format_count(len(others) - options.file_num_limit, "small file"),
                COMPACTION_FILE_NUM_LIMIT,
                options.file_num_limit,
            )
        found += _pack_files(others[: options.file_num_limit], _Bin(options, cost), least)
    return found


def _is_worth_it(file: DataFileMeta, options: WriteOptions, vectors: DeletionMaintainer | None, full: bool) -> bool:
    if file.file_size < compute_small_size(options):
        return True
    dead = vectors.dead_rows(file.file_name) if vectors is not None and file.file_name in vectors else 0
    return dead > (0 if full else file.row_count * options.delete_ratio)


def _index_file_of(index_files: Iterable[IndexFileMeta]) -> dict[str, str]:
    """Return the index file that holds the deletion vector of each data file that has one."""
    vectors = (file for file in index_files if file.index_type == INDEX_TYPE)
    return {entry.data_file: file.file_name for file in vectors for entry in file.deletion_ranges or ()}


def _pack_by_index_file(
    files: Iterable[DataFileMeta], holders: dict[str, str], pack: _Bin
) -> list[tuple[DataFileMeta, ...]]:
    groups: dict[str, list[DataFileMeta]] = defaultdict(list)
    for file in files:
        groups[holders[file.file_name]].append(file)
    packs: list[tuple[DataFileMeta, ...]] = []
    for group in sorted(groups.values(), key=lambda group: sum(file.file_size for file in group)):
        pack.add(group)
        if pack.has_enough:
            packs.append(pack.drain())
    return [*packs, pack.drain()] if pack.files else packs


def _pack_files(files: Iterable[DataFileMeta], pack: _Bin, least: int) -> list[tuple[DataFileMeta, ...]]:
    packs: list[tuple[DataFileMeta, ...]] = []
    for file in files:
        pack.add([file])
        if pack.has_enough:
            packs.append(pack.drain())
    return [*packs, pack.drain()] if len(pack.files) >= least else packs
