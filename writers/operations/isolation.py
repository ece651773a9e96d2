"""Serializable isolation: operations read rows and write results as if nothing changed in between.

An operation reads one snapshot in batches, and commits with the read rows as its premise. If another commit was faster,
both are repeated on the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import polars as pl
import pyarrow as pa

from morrow.engine.errors import CommitConflict
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.planner import check_main_alone, make_plan
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.execution import execute
from morrow.writers.commit import messages
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.manifests import read_live_entries
from morrow.writers.commit.premise import Premise, guard_read, make_request
from morrow.writers.files.data_files import Placement
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.ingest.conversion import convert_rows
from morrow.writers.operations.write_session import MAX_RECOMPACTION_TRIES, recompact_buckets
from morrow.writers.target import WriteTarget

Done = TypeVar("Done")


def run_serially(
    target: WriteTarget, filter: Filter, attempt: Callable[[Premise], Done], columns: frozenset[str] | None = None
) -> Done:
    """Repeat an operation until no other commit has changed the rows that it read.

    Args:
        filter: selects the rows that the operation reads.
        attempt: reads the snapshot of a premise, and commits under this premise.
        columns: the columns that it reads or writes, besides those of the filter; None: all.

    Raises:
        CommitConflict: other commits were faster each time (``commit.max-retries``, ``commit.timeout``). Others: as
            `attempt`.
        Unsupported: matching rows are read from the table's fallback branch.
    """

    def once() -> Done:
        messages.begin_tally()
        premise = Premise(find_readable_snapshot(target), filter, columns)
        with guard_read(target.metadata, premise.read):
            check_alone(target, premise.read, filter)
        return attempt(premise)

    return retry_on_conflict(target, once)


def check_alone(target: WriteTarget, snapshot: Snapshot | None, filter: Filter) -> None:
    """Check that no matching rows are read from a fallback branch. Raises `Unsupported`."""
    if target.options.other_branch is not None:
        names = tuple(target.schema.by_name)
        check_main_alone(target.metadata, make_request(target, snapshot, names, filter))


def find_readable_snapshot(target: WriteTarget) -> Snapshot | None:
    """Return the newest snapshot, after compacting rows that reads do not see yet.

    If reads only see compacted files, committed rows may not be visible yet: their writer has not compacted them yet,
    or was killed.

    Raises:
        CommitConflict: other writers are faster than the compaction.
    """
    for _ in range(MAX_RECOMPACTION_TRIES):
        latest = target.metadata.latest_snapshot()
        if latest is None:
            return None
        with guard_read(target.metadata, latest):
            places = find_hidden_buckets(target, latest)
        if not places:
            return latest
        recompact_buckets(commit_with_maintenance(target), places, latest)
    raise CommitConflict(f"{target.where}: others write faster than their rows are compacted, so that no read is whole")


def find_hidden_buckets(target: WriteTarget, latest: Snapshot) -> list[Placement]:
    """Return the buckets with rows hidden until a compaction, if writers of this table compact."""
    if not target.keyed or not target.hides_level_zero or target.write.write_only:
        return []
    entries = read_live_entries(target.metadata, latest, target.schema, None)
    waiting = entries.filter((entries["_LEVEL"] == 0) & (entries["_BUCKET"] >= 0))
    found: Iterable[tuple[bytes, int]] = waiting.select("_PARTITION", "_BUCKET").unique(maintain_order=True).rows()
    return [Placement(partition, bucket) for partition, bucket in found]


def plan_where(
    target: WriteTarget, snapshot: Snapshot | None, filter: Filter, columns: Sequence[str] | None = None
) -> ScanPlan:
    """Return the plan of the rows of `snapshot` for which the filter is true, with all columns by default.

    Time travel options and the fallback branch are ignored: operations change the newest snapshot of this branch.
    """
    names = tuple(target.schema.by_name) if columns is None else tuple(columns)
    return make_plan(target.metadata, make_request(target, snapshot, names, filter))


def read_rows_where(
    target: WriteTarget, snapshot: Snapshot | None, filter: Filter, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yield the rows for which the filter is true, with all columns by default, in bounded memory.

    Raises:
        CommitConflict: others have changed the table, and the snapshot has expired. Others: as reading does.
    """
    with guard_read(target.metadata, snapshot):
        for batch in execute.to_batches(plan_where(target, snapshot, filter, columns), target.store):
            yield pa.Table.from_batches([batch])


def check_rows(target: WriteTarget, rows: pa.Table) -> pl.DataFrame:
    """Convert rows to one frame of the table's columns (and kinds, if keyed), as `convert_rows` does. Missing columns
    get their default value or null."""
    return pl.concat(convert_rows(target, rows, partial=True, stored=True))


def set_row_kind(target: WriteTarget, rows: pa.Table, kind: str) -> pa.Table:
    """Return the rows with this kind in the column ``rowkind.field``, which takes precedence over other kinds."""
    name = target.write.rowkind_field
    if name is None or name not in rows.column_names:
        return rows
    column = pa.repeat(pa.scalar(kind, target.schema.by_name[name].type.arrow()), rows.num_rows)
    return rows.set_column(rows.column_names.index(name), name, column)
