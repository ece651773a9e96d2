"""Rules of commits to the branches of a chain table, as in Java (`morrow.engine.plan.chains`).

A partition of the snapshot branch stays as long as later changes need it: it may be dropped if an earlier partition of
the snapshot branch takes its place, or if no changes follow before the next one. An overwritten partition of the delta
branch is dropped from the snapshot branch afterwards, so that reads merge it again.
"""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.manifest_entries import EntryKind
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import OVERWRITE, Snapshot
from morrow.engine.plan.chains import Chain, PartitionOrder, find_chain
from morrow.engine.plan.entries import list_partitions
from morrow.engine.plan.time_travel import Travel
from morrow.writers.commit.messages import Changes
from morrow.writers.target import WriteTarget


def check_dropped_partitions(target: WriteTarget, kind: str, changes: Changes, latest: Snapshot | None) -> None:
    """Check that the snapshot branch keeps the partitions that later changes are merged with.

    Raises `InvalidArgument`: the commit drops such a partition.
    """
    chain = target.options.chain
    if chain is None or kind != OVERWRITE or latest is None or target.metadata.branch != chain[0]:
        return
    kinds = {*(entry.kind for entry in changes.files), *(entry.kind for entry in changes.index)}
    if kinds != {EntryKind.DELETE}:
        return
    found = open_chain(target)
    whole = list_partitions(target.metadata, latest, target.schema)
    periods = list_partitions(found.deltas.metadata, found.deltas.snapshot, found.deltas.schema)
    order = PartitionOrder(found, sorted({*whole, *periods, *changes.partitions}))
    anchors, following = order.sort(whole), order.sort(periods)
    for stored in changes.partitions:
        group, place = order.locate(stored)
        places = [each for each, _ in anchors.get(group, [])]
        end = next((each for each in places if each > place), None)
        needed = [each for each, _ in following.get(group, []) if each > place and (end is None or each < end)]
        if needed and not any(each < place for each in places):
            raise InvalidArgument(
                f"{target.where}: the partition {target.partition_values(stored)} of the snapshot branch cannot be "
                f"dropped: {len(needed)} later partitions of the delta branch are merged with it; drop those first"
            )


def list_replaced_partitions(target: WriteTarget, kind: str, changes: Changes) -> list[bytes]:
    """Return the partitions that this commit to the delta branch replaces; none for other commits."""
    chain = target.options.chain
    is_overwrite = chain is not None and kind == OVERWRITE and target.metadata.branch == chain[1]
    return sorted({entry.partition for entry in changes.files}) if is_overwrite else []


def open_snapshot_branch(target: WriteTarget) -> WriteTarget:
    """Return the snapshot branch of the chain table, for a writer of the same name."""
    assert target.options.chain is not None
    return WriteTarget.of(target.metadata.at_branch(target.options.chain[0]), target.commit_user)


def open_chain(target: WriteTarget) -> Chain:
    """Return the newest state of both branches of the chain table. Raises as `find_chain`."""
    main = target.metadata.at_branch(MAIN_BRANCH)
    found = find_chain(main, target.options, None, Travel())
    assert found is not None
    return found
