"""Compaction on request, in one commit and even if the table is ``write-only``; and rescaling of buckets.

Compactions are planned with the same strategies as in writers, from metadata alone. Rescaling writes the rows of
partitions again with another number of buckets, in one OVERWRITE snapshot.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from morrow.engine.arguments import check_texts
from morrow.engine.errors import InvalidArgument, SnapshotNotFound, Unsupported
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import OVERWRITE, Snapshot
from morrow.engine.options import Options, parse_write_options
from morrow.engine.options.declared.maintenance import CLUSTERING_COLUMNS, COMPACTION_SKIP_EXPIRED_PARTITIONS
from morrow.engine.options.declared.table import BUCKET
from morrow.engine.plan.chains import find_chain, plan_merged
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import ScanRequest
from morrow.engine.plan.time_travel import Travel
from morrow.engine.progress import expect, is_shown
from morrow.engine.structs import replace
from morrow.readers.execution.execute import open_batch_reader
from morrow.writers.append.bucket_compaction import pick_full, pick_window
from morrow.writers.append.compaction import (
    compact_append,
    compact_pack,
    enable_compaction,
    load_vectors,
    materialize_append,
    pick_packs,
)
from morrow.writers.append.sort_compaction import ORDER, sort_compact
from morrow.writers.append.writer import UNAWARE
from morrow.writers.buckets.routers import BucketState, filter_bucket_numbers, restore_partitions
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.committer import Committer
from morrow.writers.commit.manifests import read_live_entries
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, Changes, CommitMessage
from morrow.writers.commit.premise import Premise, guard_compaction
from morrow.writers.commit.row_id_reassignment import Reassignment, plan_reassignment
from morrow.writers.commit.snapshot_metadata import NothingMerged, SnapshotRequest
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.data_files import Placement
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.history.commit_maintenance import commit_compaction, commit_with_maintenance
from morrow.writers.history.partition_expiry import leave_out_expired
from morrow.writers.ingest.conversion import convert_rows
from morrow.writers.keyed.compaction import (
    CompactUnit,
    FilePicker,
    LookupStrategy,
    UniversalCompaction,
    make_strategy,
)
from morrow.writers.keyed.levels import LevelRun, Levels, make_key_order, trim_key
from morrow.writers.keyed.postpone_bucket import compact_postponed
from morrow.writers.keyed.writer import compact_bucket
from morrow.writers.operations.overwrite import overwrite_rows
from morrow.writers.operations.partition_filters import AnyOf, build_partition_filter, find_matching_partitions
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.operations.write_session import (
    WriteSession,
    clean_up_on_failure,
    commit_once,
    read_rows_where,
    run_serially,
)
from morrow.writers.target import WriteTarget

MAX_COMPACTION_RETRIES = 3
"""Maximum retries of a compaction. Each one reads and writes the files again."""

Done = TypeVar("Done")


def compact_table(
    target: WriteTarget,
    *,
    full: bool = False,
    partition: Mapping[str, object] | None = None,
    where: FilterLike = None,
    order_by: str | Sequence[str] | None = None,
    strategy: str | None = None,
) -> Snapshot | None:
    """Compact a table; see `Table.compact`."""
    columns = parse_sort_columns(order_by, strategy)

    def once() -> Snapshot | None:
        snapshot = target.metadata.latest_snapshot()
        partitions = _skip_expired(target, snapshot, choose_partitions(target, snapshot, partition, where))
        return compact_partitions(target, snapshot, partitions, full=full, order_by=columns, strategy=strategy or ORDER)

    return retry_compaction(target, once)


def materialize_vectors(
    target: WriteTarget, partition: Mapping[str, object] | None = None, where: FilterLike = None
) -> Snapshot | None:
    """Rewrite rows beside deleted ones; see `Table.materialize_deletion_vectors`."""
    if not target.options.data_evolution:
        hint = "Table.compact removes deleted rows from other tables"
        raise Unsupported("materialize_deletion_vectors without data evolution", where=target.where, hint=hint)

    def once() -> Snapshot | None:
        snapshot = target.metadata.latest_snapshot()
        partitions = choose_partitions(target, snapshot, partition, where)
        with guard_compaction(target.metadata, snapshot):
            messages = [] if partitions == [] else materialize_append(target, snapshot, partitions)
        return commit_once(commit_with_maintenance(target), messages, BATCH_COMMIT_IDENTIFIER)

    return retry_compaction(target, once)


def reassign_row_ids(
    target: WriteTarget, partition: AnyOf = None, where: FilterLike = None
) -> tuple[Snapshot, Reassignment] | None:
    """Give new row ids; see `Table.reassign_row_ids`. Returns None if all ids are consecutive by partition."""
    if not target.options.data_evolution:
        raise Unsupported("new row ids without data evolution", where=target.where)
    planned: Reassignment | None = None

    def plan(latest: Snapshot) -> Reassignment | None:
        nonlocal planned
        partitions = choose_partitions(target, latest, partition, where)
        planned = None if partitions == [] else plan_reassignment(target, latest, partitions)
        return planned

    committer = Committer(target)
    request = SnapshotRequest(OVERWRITE, BATCH_COMMIT_IDENTIFIER, Changes(), check=False, reassigns=plan)
    try:
        snapshot = None if committer.log.latest() is None else committer.create(request)
    except NothingMerged:
        return None
    finally:
        committer.log.settle()
    return None if snapshot is None or planned is None else (snapshot, planned)


def compact_chain(metadata: TableMetadata, partition: Mapping[str, object], *, overwrite: bool) -> bool:
    """Write the merged rows of a partition of a chain table to its snapshot branch; see `Table.compact_chain`."""
    target = WriteTarget.of(metadata)
    chain = find_chain(metadata, target.options, None, Travel())
    if chain is None:
        raise InvalidArgument(
            f"{metadata.where}: it is not a chain table with both branches; set 'chain-table.enabled', "
            "'scan.fallback-snapshot-branch' and 'scan.fallback-delta-branch'"
        )
    if not partition:
        raise InvalidArgument(f"{metadata.where}: name the partition to compact, such as {{'dt': '20250810'}}")
    chosen = build_partition_filter(target, [partition], None, "partition")
    whole, schema = chain.snapshots, target.schema
    there = [] if whole.snapshot is None else find_matching_partitions(target, whole.snapshot, chosen)
    if there and not overwrite:
        return False
    request = ScanRequest(schema, target.options, None, tuple(schema.by_name), chosen)
    plan = plan_merged(request, chain, frozenset(), ignores_whole=True)
    if plan is None or not any(part.files for part in plan.parts):
        return False
    rows, into = open_batch_reader(plan, metadata.store), WriteTarget.of(whole.metadata)
    if there:
        overwrite_rows(into, rows, None, dynamic=True)
    else:  # as an APPEND, which streams of the branch read, too
        session = WriteSession(into)
        session.write(rows)
        session.commit(premise=Premise(whole.snapshot, chosen))
    return True


def retry_compaction(target: WriteTarget, once: Callable[[], Done]) -> Done:
    """Call `once` to compact the newest snapshot; repeat it if another commit removed some of its files meanwhile.

    Raises `CommitConflict`: other commits were faster each time. Others: as `once`.
    """
    return retry_on_conflict(target, once, locks=False, most=MAX_COMPACTION_RETRIES)


def compact_partitions(
    target: WriteTarget,
    snapshot: Snapshot | None,
    partitions: Sequence[bytes] | None,
    *,
    full: bool = False,
    order_by: Sequence[str] | None = None,
    strategy: str = ORDER,
    buckets: Sequence[range] | None = None,
) -> Snapshot | None:
    """Compact these partitions (BinaryRows; None: all) of a snapshot. Other arguments as for `Table.compact`.

    `buckets`: only buckets with these numbers, unless rows are sorted.
    """
    if snapshot is None or partitions == []:
        return None
    commits = commit_compaction(target)
    with guard_compaction(target.metadata, snapshot):
        if is_shown():
            _expect_rows(target, restore_partitions(target, snapshot, partitions), full or order_by is not None)
        if order_by is not None:
            messages = sort_compact(target, snapshot, order_by, strategy, partitions=partitions)
        elif target.keyed:
            states = filter_bucket_numbers(restore_partitions(target, snapshot, partitions, rewrites=True), buckets)
            messages = _collect_messages(commits, _compact_buckets(target, states, full))
        elif target.write.incremental_clustering:
            states = filter_bucket_numbers(restore_partitions(target, snapshot, partitions), buckets)
            messages = _collect_messages(commits, _cluster_partitions(target, states, full))
        else:
            messages = compact_append(target, snapshot, full=full, partitions=partitions, buckets=buckets)
    return commit_once(commits, messages, BATCH_COMMIT_IDENTIFIER)


def _expect_rows(target: WriteTarget, states: Mapping[Placement, BucketState], full: bool) -> None:
    """Report the number of rows to read to progress displays."""
    plan = plan_compactions(target, states, full=full)
    expect(rows=sum(file.row_count for unit in plan for file in unit.files))


def parse_sort_columns(order_by: str | Sequence[str] | None, strategy: str | None) -> list[str] | None:
    """Return the columns to sort by, None for no sort.

    Raises `InvalidArgument` for a strategy without columns, and for an empty list of columns.
    """
    if strategy is not None and order_by is None:
        raise InvalidArgument(f"compact: strategy={strategy!r} says how to sort; give order_by=[...] too")
    if order_by is None:
        return None
    columns = list(check_texts(order_by, "compact: order_by"))
    if not columns:
        raise InvalidArgument("compact: order_by has no column in it; leave it out, or say what to sort by")
    return columns


def choose_partitions(
    target: WriteTarget, snapshot: Snapshot | None, partition: AnyOf, where: FilterLike
) -> list[bytes] | None:
    """Return the partitions to compact (BinaryRows), None for all.

    Raises `InvalidArgument`: a column is not a partition column, or a value or condition does not fit.
    """
    if partition is None and where is None:
        return None
    filter = build_partition_filter(target, partition, where, "compact")
    return [] if snapshot is None else find_matching_partitions(target, snapshot, filter)


def _collect_messages(commits: TableCommit, made: Iterable[CommitMessage]) -> list[CommitMessage]:
    messages: list[CommitMessage] = []
    try:
        for message in made:
            messages.append(message)  # noqa: PERF402 - after an error those before it are aborted
    except BaseException:
        commits.abort(messages)
        raise
    return [message for message in messages if not message.is_empty]


def _compact_buckets(
    target: WriteTarget, states: Mapping[Placement, BucketState], full: bool
) -> Iterator[CommitMessage]:
    if target.options.bucket == POSTPONE_BUCKET:
        yield from compact_postponed(target, states, full=full)
        return
    for place, state in states.items():
        if state.files:
            yield compact_bucket(target, place, state, full=full)


def _cluster_partitions(
    target: WriteTarget, states: Mapping[Placement, BucketState], full: bool
) -> Iterator[CommitMessage]:
    """Sort rows of each partition by ``clustering.columns``, as ``clustering.incremental`` asks for."""
    for place, state in states.items():
        unit = pick_cluster(target, state, full)
        if unit is not None:
            vectors = load_vectors(target, place, state.index_files)
            yield compact_pack(target, place, unit.files, vectors, level=unit.output_level)


def pick_cluster(target: WriteTarget, state: BucketState, full: bool) -> CompactUnit | None:
    """Return the files of a partition to sort together, and the level of the new files; None if none are worth it.

    Files are runs at levels, as in a merge tree, and universal compaction picks some runs. A full compaction picks all
    files, unless they are one run at the highest level that was sorted by the same columns.

    Raises `Unsupported`: a table with fixed buckets, or without columns to sort by.
    """
    if target.options.bucket != UNAWARE:
        hint = "set 'clustering.incremental' to false; Table.compact then compacts each bucket"
        raise Unsupported("incremental clustering of fixed buckets", where=target.where, hint=hint)
    if not target.write.clustering_columns:
        hint = "set 'clustering.columns', or 'clustering.incremental' to false"
        raise Unsupported("incremental clustering without columns", where=target.where, hint=hint)
    by_level: dict[int, list[DataFileMeta]] = defaultdict(list)
    for file in reversed(state.files):
        by_level[file.level].append(file)
    runs = [LevelRun(0, (file,)) for file in by_level.pop(0, [])]
    runs += [LevelRun(level, tuple(files)) for level, files in sorted(by_level.items())]
    top = target.write.levels - 1
    if not full:
        return UniversalCompaction(
            target.write.size_amplification, target.write.size_ratio, target.write.run_trigger
        ).pick(target.write.levels, runs)
    if not runs or (len(runs) == 1 and runs[0].level == top and _has_same_clustering(target, runs[0].files[0])):
        return None
    return CompactUnit.of(top, runs)


def _has_same_clustering(target: WriteTarget, file: DataFileMeta) -> bool:
    options = Options(target.metadata.schema(file.schema_id).options)
    return options.get(CLUSTERING_COLUMNS) == target.write.clustering_columns


@dataclass(frozen=True)
class PlannedCompaction:
    """Files of one bucket that a compaction would rewrite or move up.

    `output_level` is None for postponed rows, which go to several buckets, and in append tables without incremental
    clustering.
    """

    place: Placement
    files: tuple[DataFileMeta, ...]
    output_level: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)


def read_bucket_states(target: WriteTarget, snapshot: Snapshot | None) -> dict[Placement, BucketState]:
    """Return the files of all buckets of a snapshot. Raises as `read_live_entries`."""
    return restore_partitions(target, snapshot, None)


def build_levels(target: WriteTarget, state: BucketState) -> Levels:
    """Return the merge tree of a bucket of a keyed table. Raises `Unsupported` if files of a level overlap."""
    keys = [key for file in state.files for key in (file.min_key, file.max_key)]
    order = make_key_order(trim_key(target), where=target.where, keys=keys)
    return Levels.of(state.files, target.write.levels, order, where=target.where)


def plan_compactions(
    target: WriteTarget, states: Mapping[Placement, BucketState], *, full: bool = False
) -> Iterator[PlannedCompaction]:
    """Yield the first compaction that `Table.compact` would run in each bucket.

    Raises `Unsupported`: Morrow does not compact this table, or files of one level overlap.
    """
    if not target.keyed and not target.write.incremental_clustering:
        target = enable_compaction(target)
    for place, state in states.items():
        if not state.files:
            continue
        if not target.keyed:
            yield from _plan_appended(target, place, state, full)
        elif place.bucket == POSTPONE_BUCKET:
            yield PlannedCompaction(place, state.files)
        elif (found := _plan_tree(target, place, state, full)) is not None:
            yield found


def _plan_tree(target: WriteTarget, place: Placement, state: BucketState, full: bool) -> PlannedCompaction | None:
    has_vectors = target.write.deletion_vectors
    vectors = DeletionMaintainer(target, place.partition, place.bucket, state.index_files) if has_vectors else None
    strategy = make_strategy(target.write, lookup=LookupStrategy.of(target).needed)
    picks, levels = FilePicker(target.write, strategy, vectors), build_levels(target, state)
    unit = picks.full(levels) if full else picks.ordinary(levels)
    return None if unit is None or unit.changes_nothing else PlannedCompaction(place, unit.files, unit.output_level)


def _plan_appended(
    target: WriteTarget, place: Placement, state: BucketState, full: bool
) -> Iterator[PlannedCompaction]:
    vectors = load_vectors(target, place, state.index_files)
    if target.write.incremental_clustering:
        unit = pick_cluster(target, state, full)
        if unit is not None:
            yield PlannedCompaction(place, unit.files, unit.output_level)
        return
    if target.options.bucket == UNAWARE:
        for pack in pick_packs(target, state, vectors, full):
            yield PlannedCompaction(place, pack)
        return
    ordered = sorted(state.files, key=lambda file: file.min_sequence_number)
    files = pick_full(ordered, target.write, vectors) if full else pick_window(ordered, target.write).files
    if files:
        yield PlannedCompaction(place, files)


EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class ChosenBuckets:
    """Selection of partitions and buckets to compact.

    Args:
        partitions: values of partition columns; a partition matches any of them. Empty: all partitions.
        where: a condition on partition columns.
        idle: only partitions without a new file for this duration.
        buckets: only buckets with these numbers; None: all.
    """

    partitions: Sequence[Mapping[str, object]] = ()
    where: FilterLike = None
    idle: dt.timedelta | None = None
    buckets: Sequence[range] | None = None


def _skip_expired(
    target: WriteTarget, snapshot: Snapshot | None, partitions: Sequence[bytes] | None
) -> Sequence[bytes] | None:
    """Leave out expired partitions if the option ``compaction.skip-expired-partitions`` says so."""
    if snapshot is None or not target.write.given.get(COMPACTION_SKIP_EXPIRED_PARTITIONS):
        return partitions
    return leave_out_expired(target, snapshot, partitions)


def find_partitions(target: WriteTarget, snapshot: Snapshot | None, chosen: ChosenBuckets) -> Sequence[bytes] | None:
    """Return the chosen partitions (BinaryRows), None for all."""
    specs: Sequence[Mapping[str, object] | None] = chosen.partitions or (None,)
    found = [choose_partitions(target, snapshot, spec, chosen.where) for spec in specs]
    named = [one for part in found for one in part or ()]
    partitions = _skip_expired(target, snapshot, None if None in found else list(dict.fromkeys(named)))
    if chosen.idle is None:
        return partitions
    newest: dict[bytes, int] = {}
    for place, state in restore_partitions(target, snapshot, partitions).items():
        times = [file.creation_time for file in state.files]
        newest[place.partition] = max([newest.get(place.partition, 0), *times])
    # The local wall clock of the file's writer, as Paimon stores it.
    until = (dt.datetime.now() - chosen.idle - EPOCH) // dt.timedelta(milliseconds=1)
    return [partition for partition, time in newest.items() if time <= until]


def check_buckets(target: WriteTarget, buckets: Sequence[range] | None) -> None:
    """Raise `Unsupported` if bucket numbers are not fixed, `InvalidArgument` for numbers of missing buckets."""
    if buckets is None:
        return
    there = target.options.bucket
    if there < 1:
        raise Unsupported(
            f"compaction of some buckets with 'bucket' = {there}",
            where=target.where,
            hint="Specifying buckets is only supported for fixed-bucket tables",
        )
    if any(numbers[-1] >= there for numbers in buckets if numbers):
        raise InvalidArgument(f"{target.where}: compact: the buckets are 0 to {there - 1}")


def rescale_buckets(target: WriteTarget, buckets: int | None, partition: AnyOf, where: FilterLike) -> Snapshot | None:
    """Rescale partitions; see `Table.rescale`."""
    to = _make_rescaled_target(target, buckets)
    filter = build_partition_filter(target, partition, where, "rescale")
    if target.metadata.latest_snapshot() is None:
        raise SnapshotNotFound(f"{target.where}: the table has no snapshot, so there is nothing to rescale")

    def attempt(premise: Premise) -> Snapshot | None:
        if premise.read is None:
            return None
        chosen = find_matching_partitions(target, premise.read, filter)
        _check_whole(target, premise.read, chosen)
        commits = commit_with_maintenance(to)
        writer = TableWriter(to, overwrite=True)
        try:
            for rows in read_rows_where(target, premise.read, filter):
                writer.write_frames(convert_rows(to, rows, stored=True))
            messages = writer.prepare_commit()
        finally:
            writer.close()
        with clean_up_on_failure(commits, messages):
            return commits.overwrite(messages, partitions=chosen, premise=premise)

    return run_serially(target, filter, attempt)


def _check_whole(target: WriteTarget, snapshot: Snapshot, partitions: Sequence[bytes]) -> None:
    """Check that reads see all rows. Rows in level 0 may be hidden until a separate job compacts them.

    Raises `Unsupported`: rows in level 0 that reads do not see would be lost.
    """
    if not target.hides_level_zero:
        return
    entries = read_live_entries(target.metadata, snapshot, target.schema, frozenset(partitions))
    if ((entries["_LEVEL"] == 0) & (entries["_BUCKET"] >= 0)).any():
        raise Unsupported(
            "rescaling rows that are not compacted yet", where=target.where, hint="compact the table first"
        )


def _make_rescaled_target(target: WriteTarget, buckets: int | None) -> WriteTarget:
    """Return the table with this number of buckets, or with that of its options if None.

    Raises:
        InvalidArgument: the argument is not a number, or not a valid number of buckets.
        Unsupported: the number of buckets of this table is not fixed.
    """
    now = target.options.bucket
    if buckets is not None and (isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 1):
        raise InvalidArgument(f"rescale: the number of buckets is 1 or more, not {buckets!r}")
    if now < 1 and now != POSTPONE_BUCKET:
        raise Unsupported(f"rescaling without a fixed number of buckets ('bucket' = {now})", where=target.where)
    if buckets is None:
        if now == POSTPONE_BUCKET:
            raise InvalidArgument(
                f"{target.where}: rescale: with 'bucket' = {now}, say how many buckets there shall be"
            )
        return target
    schema = replace(target.schema, options={**target.schema.options, BUCKET.key: str(buckets)})
    write = parse_write_options(schema.options, keyed=target.keyed, where=target.where)
    return replace(target, schema=schema, options=target.metadata.options(schema), write=write)
