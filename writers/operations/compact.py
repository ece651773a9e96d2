"""Compaction on request, in one commit, also of tables that are ``write-only``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from morrow.engine.arguments import texts
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import FilterLike
from morrow.engine.progress import expect, is_shown
from morrow.writers.append.small_files import compact_append
from morrow.writers.append.sort_compaction import ORDER, sort_compact
from morrow.writers.buckets.restored import BucketState, of_buckets, restored_partitions
from morrow.writers.commit import TableCommit
from morrow.writers.commit.expired_base import compacting
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.files import Placement
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.keyed.postpone import compact_postponed
from morrow.writers.keyed.writer import compact_bucket
from morrow.writers.operations.committing import commit_once
from morrow.writers.operations.partitions import matching_partitions, partition_filter
from morrow.writers.operations.planned import planned_compactions
from morrow.writers.operations.retrying import retried
from morrow.writers.target import WriteTarget

MOST_RETRIES = 3
"""Retries of a compaction at most: each reads and writes its files once more."""

Done = TypeVar("Done")


def compact(
    target: WriteTarget,
    *,
    full: bool = False,
    partition: Mapping[str, object] | None = None,
    where: FilterLike = None,
    order_by: str | Sequence[str] | None = None,
    strategy: str | None = None,
) -> Snapshot | None:
    """Compacts a table; see `Table.compact`."""
    columns = sort_columns(order_by, strategy)

    def once() -> Snapshot | None:
        snapshot = target.metadata.latest_snapshot()
        partitions = chosen_partitions(target, snapshot, partition, where)
        return compact_partitions(target, snapshot, partitions, full=full, order_by=columns, strategy=strategy or ORDER)

    return made_anew(target, once)


def made_anew(target: WriteTarget, once: Callable[[], Done]) -> Done:
    """Calls `once`, which compacts the newest snapshot, again where another commit took files of it meanwhile.

    Raises:
        CommitConflict: others were faster each time. Others: as `once`.
    """
    return retried(target, once, locks=False, most=MOST_RETRIES)


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
    """Compacts these partitions (BinaryRows; None: all) of a snapshot. Other arguments as for `Table.compact`.

    `buckets`: only buckets with these numbers, unless rows are sorted.
    """
    if snapshot is None or partitions == []:
        return None
    commits = maintained(target)
    with compacting(target.metadata, snapshot):
        if is_shown():
            _expect_rows(target, restored_partitions(target, snapshot, partitions), full or order_by is not None)
        if order_by is not None:
            messages = sort_compact(target, snapshot, order_by, strategy, partitions=partitions)
        elif target.keyed:
            states = of_buckets(restored_partitions(target, snapshot, partitions), buckets)
            messages = _keyed(target, commits, states, full)
        else:
            messages = compact_append(target, snapshot, full=full, partitions=partitions, buckets=buckets)
    return commit_once(commits, messages, BATCH_COMMIT_IDENTIFIER)


def _expect_rows(target: WriteTarget, states: Mapping[Placement, BucketState], full: bool) -> None:
    """Tells who looks how many rows there are to read."""
    plan = planned_compactions(target, states, full=full)
    expect(rows=sum(file.row_count for unit in plan for file in unit.files))


def sort_columns(order_by: str | Sequence[str] | None, strategy: str | None) -> list[str] | None:
    """Returns the columns to sort by, None not to sort.

    Raises `InvalidArgument` for a strategy without columns, and for an empty list of columns.
    """
    if strategy is not None and order_by is None:
        raise InvalidArgument(f"compact: strategy={strategy!r} says how to sort; give order_by=[...] too")
    if order_by is None:
        return None
    columns = list(texts(order_by, "compact: order_by"))
    if not columns:
        raise InvalidArgument("compact: order_by has no column in it; leave it out, or say what to sort by")
    return columns


def chosen_partitions(
    target: WriteTarget, snapshot: Snapshot | None, partition: Mapping[str, object] | None, where: FilterLike
) -> list[bytes] | None:
    """Returns the partitions to compact (BinaryRows), None for all.

    Raises:
        InvalidArgument: a column that is no partition column, a value or condition that does not fit.
    """
    if partition is None and where is None:
        return None
    filter = partition_filter(target, partition, where, "compact")
    return [] if snapshot is None else matching_partitions(target, snapshot, filter)


def _keyed(
    target: WriteTarget, commits: TableCommit, states: Mapping[Placement, BucketState], full: bool
) -> list[CommitMessage]:
    messages: list[CommitMessage] = []
    try:
        for message in _compacted(target, states, full):
            messages.append(message)  # noqa: PERF402 - after an error those before it are aborted
    except BaseException:
        commits.abort(messages)
        raise
    return [message for message in messages if not message.is_empty]


def _compacted(target: WriteTarget, states: Mapping[Placement, BucketState], full: bool) -> Iterator[CommitMessage]:
    if target.options.bucket == POSTPONE_BUCKET:
        yield from compact_postponed(target, states, full=full)
        return
    for place, state in states.items():
        if state.files:
            yield compact_bucket(target, place, state, full=full)
