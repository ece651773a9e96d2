"""Serialisable operations, which read rows and write results as if nothing changed in between.

One read, one commit with the read as its premise. When another commit was faster, both are repeated on the newest
snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from morrow.engine.errors import CommitConflict
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.fallback import check_not_of_fallback
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.request import ScanRequest
from morrow.writers.commit import tally
from morrow.writers.commit.base_entries import live_in_partitions
from morrow.writers.commit.expired_base import reading
from morrow.writers.commit.premise import Premise
from morrow.writers.files import Placement
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.operations.recompaction import MOST_TRIES, recompacted_places
from morrow.writers.operations.retrying import retried
from morrow.writers.target import WriteTarget

Done = TypeVar("Done")


def serially(target: WriteTarget, filter: Filter, attempt: Callable[[Premise], Done]) -> Done:
    """Repeats an operation until no other commit has changed the rows that it read.

    Args:
        filter: which rows it reads.
        attempt: reads the snapshot of a premise, and commits under this premise.

    Raises:
        CommitConflict: others were faster each time (``commit.max-retries``, ``commit.timeout``). Others: as `attempt`.
        Unsupported: such rows are read from the table's fallback branch.
    """

    def once() -> Done:
        tally.begin()
        premise = Premise(readable(target), filter)
        with reading(target.metadata, premise.read):
            check_alone(target, premise.read, filter)
        return attempt(premise)

    return retried(target, once)


def check_alone(target: WriteTarget, snapshot: Snapshot | None, filter: Filter) -> None:
    """Checks that no rows for which the filter is true are read from a fallback branch. Raises `Unsupported`."""
    if target.options.other_branch is not None:
        names = tuple(target.schema.by_name)
        request = ScanRequest(target.schema, target.options, snapshot, names, filter)
        check_not_of_fallback(target.metadata, request)


def readable(target: WriteTarget) -> Snapshot | None:
    """Returns the newest snapshot, after compacting rows that reads do not see yet.

    Where reads see compacted files only, committed rows may not be compacted yet: their writer is about to compact
    them, or was killed before.

    Raises:
        CommitConflict: others write faster than this compacts.
    """
    for _ in range(MOST_TRIES):
        latest = target.metadata.latest_snapshot()
        if latest is None:
            return None
        with reading(target.metadata, latest):
            places = hidden_places(target, latest)
        if not places:
            return latest
        recompacted_places(maintained(target), places, latest)
    raise CommitConflict(f"{target.where}: others write faster than their rows are compacted, so that no read is whole")


def hidden_places(target: WriteTarget, latest: Snapshot) -> list[Placement]:
    """Returns the buckets with rows that reads do not see before they are compacted, which this writer would do."""
    if not target.keyed or not target.hides_level_zero or target.write.write_only:
        return []
    entries = live_in_partitions(target.metadata, latest, target.schema, None)
    waiting = entries.filter((entries["_LEVEL"] == 0) & (entries["_BUCKET"] >= 0))
    found: Iterable[tuple[bytes, int]] = waiting.select("_PARTITION", "_BUCKET").unique(maintain_order=True).rows()
    return [Placement(partition, bucket) for partition, bucket in found]
