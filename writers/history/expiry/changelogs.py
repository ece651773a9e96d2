"""Expiry of changelogs, which outlive their snapshots, but not for ever.

The newest changelog stays, as in Java, unless all are removed: it tells readers where the snapshots begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from morrow.engine.errors import NotFound, StorageError
from morrow.engine.io.system_errors import if_there_is_room, is_full
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
from morrow.engine.plan.roots import Root, RootKind, lines
from morrow.writers.history.expiry.snapshots import AT_ONCE, Expired, at_most, due_until, now_millis, retained
from morrow.writers.history.tombstones import finish_removals, retire
from morrow.writers.history.unreferenced import MOST_TRIES, remove_expired_changelogs

NEWEST_STAYS = "the newest changelog stays"


def expire_changelogs(
    metadata: TableMetadata,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than_millis: int | None = None,
    max_deletes: int | None = None,
) -> Expired:
    """Removes old changelogs of a branch. Retention that is not given is taken from the options of the table.

    Args, as those of `expire_snapshots`: changelogs are counted together with the snapshots after them.

    Returns: how many changelogs were removed, how many are left, and why.

    Raises: as `expire_snapshots`.
    """
    finish_removals(metadata)
    options = parse_expire_options(metadata.latest_schema().options, where=metadata.where)
    retention = retained(options.changelogs, retain_max, retain_min, metadata.where)
    young = older_than_millis if older_than_millis is not None else now_millis() - retention.millis
    limit = at_most(max_deletes, metadata.where)
    left, kept_by = 0, ""

    def due(ids: Sequence[int], latest: int) -> list[int]:
        nonlocal left, kept_by
        pinned = Consumers(metadata).slowest()
        found, why = due_until(
            lambda some: each_changelog(metadata, some), retention, young, limit, ids[0], latest, pinned
        )
        gone = [changelog_id for changelog_id in ids[:-1] if changelog_id < found]
        left, kept_by = len(ids) - len(gone), NEWEST_STAYS if found > ids[-1] else why
        return gone

    return Expired(_expire(metadata, due), left, kept_by)


def expire_all_changelogs(metadata: TableMetadata) -> int:
    """Removes all changelogs of a branch, whatever their age and their consumers; returns how many there were.

    Raises: as `expire_changelogs`.
    """
    finish_removals(metadata)
    return _expire(metadata, lambda ids, _: list(ids))


def _expire(metadata: TableMetadata, choose: Callable[[Sequence[int], int], list[int]]) -> int:
    """Removes the changelogs that `choose` returns for the live ones and the newest snapshot, and those that an
    interrupted run left."""
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
    gone = [changelog_id for changelog_id in changelog_ids(metadata) if not stay or changelog_id < stay[0]]
    try:
        if chosen and stay:
            write_changelog_hints(metadata, earliest=stay[0])
    except StorageError as error:
        if not is_full(error):
            raise
        yield _retired_instead(metadata, gone, stay[0])
        return
    there = lines(metadata)
    for start in range(0, len(gone), AT_ONCE):
        found = [one for one in each_changelog(metadata, gone[start : start + AT_ONCE]) if one is not None]
        if found:
            remove_expired_changelogs(metadata, [Root(metadata, RootKind.CHANGELOG, one) for one in found], there)
            metadata.store.delete_many([changelog_path(metadata, one.id) for one in found])
            yield len(found)
    if not stay:
        remove_changelog_hints(metadata)


def _retired_instead(metadata: TableMetadata, gone: Sequence[int], first: int) -> int:
    """Removes these changelogs where the disk has no room for a hint: they are renamed, as expired snapshots are."""
    found = sum(retire(metadata, changelog_path(metadata, changelog_id)) for changelog_id in gone)
    finish_removals(metadata)
    with if_there_is_room():
        write_changelog_hints(metadata, earliest=first)
    return found
