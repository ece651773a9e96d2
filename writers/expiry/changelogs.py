"""Old changelogs are removed: they live longer than the snapshots that they are left of, but not for ever.

The newest changelog stays, as in Java, unless all are removed: readers find there where the snapshots begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from morrow.engine.errors import NotFound
from morrow.engine.options.expiring import parse_expire_options
from morrow.engine.plan.changelogs import (
    changelog_ids,
    changelog_path,
    each_changelog,
    living_changelog_ids,
    remove_changelog_hints,
    write_changelog_hints,
)
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.references import Root, RootKind, lines
from morrow.writers.expiry.snapshots import AT_ONCE, at_most, due_until, now_millis, retained
from morrow.writers.expiry.unneeded import MOST_TRIES, remove_expired_changelogs
from morrow.writers.rollback.retired import finish_retired


def expire_changelogs(
    metadata: TableMetadata,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than_millis: int | None = None,
    max_deletes: int | None = None,
) -> int:
    """Remove old changelogs of a branch. What is not given is as the options of the table say.

    Args, as those of `expire_snapshots`: changelogs are counted together with the snapshots after them.

    Returns: how many changelogs were removed.

    Raises: as `expire_snapshots`.
    """
    finish_retired(metadata)
    options = parse_expire_options(metadata.latest_schema().options, where=metadata.where)
    retention = retained(options.changelogs, retain_max, retain_min, metadata.where)
    young = older_than_millis if older_than_millis is not None else now_millis() - retention.millis
    limit = at_most(max_deletes, options.limit, metadata.where)

    def due(ids: Sequence[int], latest: int) -> list[int]:
        pinned = Consumers(metadata).least()
        found = due_until(lambda some: each_changelog(metadata, some), retention, young, limit, ids[0], latest, pinned)
        return [changelog_id for changelog_id in ids[:-1] if changelog_id < found]

    return _expire(metadata, due)


def expire_all_changelogs(metadata: TableMetadata) -> int:
    """Remove all changelogs of a branch, whatever their age and whoever reads them; returns how many there were.

    Raises: as `expire_changelogs`.
    """
    finish_retired(metadata)
    return _expire(metadata, lambda ids, _: list(ids))


def _expire(metadata: TableMetadata, choose: Callable[[Sequence[int], int], list[int]]) -> int:
    """Remove the changelogs chosen from the living ones and the newest snapshot, and those an interrupted run left."""
    removed = 0
    for tries in range(1, MOST_TRIES + 1):
        try:
            for count in _remove(metadata, choose):
                removed += count
            break
        except NotFound:
            if tries == MOST_TRIES:
                raise
    return removed


def _remove(metadata: TableMetadata, choose: Callable[[Sequence[int], int], list[int]]) -> Iterator[int]:
    latest, living = metadata.latest_snapshot(), living_changelog_ids(metadata)
    if latest is None or not living:
        return
    chosen = choose(living, latest.id)
    stay = living[len(chosen) :]
    if chosen and stay:
        write_changelog_hints(metadata, earliest=stay[0])
    gone = [changelog_id for changelog_id in changelog_ids(metadata) if not stay or changelog_id < stay[0]]
    there = lines(metadata)
    for start in range(0, len(gone), AT_ONCE):
        found = [one for one in each_changelog(metadata, gone[start : start + AT_ONCE]) if one is not None]
        if found:
            remove_expired_changelogs(metadata, [Root(metadata, RootKind.CHANGELOG, one) for one in found], there)
            metadata.store.delete_many([changelog_path(metadata, one.id) for one in found])
            yield len(found)
    if not stay:
        remove_changelog_hints(metadata)
