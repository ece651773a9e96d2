"""Purge: removal of all rows of a table with all of its history, for good or before it is filled anew.

Java's ``purge_files`` does this and then removes every file that the empty table does not name, including uncommitted
files of running writers. Here those are kept until they reach the age of orphan files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.paths import EARLIEST, LATEST, MAIN_BRANCH
from morrow.engine.options.expiring import parse_expire_options
from morrow.engine.plan.changelogs import changelog_folder, changelog_ids, changelog_path
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.commit import TableCommit
from morrow.writers.history.branches.changing import delete_branch
from morrow.writers.history.branches.names import check_unused
from morrow.writers.history.cleaning.orphans import OrphanFiles, oldest_kept_millis, remove_orphan_files
from morrow.writers.history.expiry.snapshots import expire_snapshots
from morrow.writers.history.tags.deletion import delete_tags
from morrow.writers.history.tombstones import finish_removals, retire
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class Purged:
    """The result of a purge: names of removed branches, tags and consumers, numbers of removed snapshots and of
    changelogs (including those made of these snapshots), orphan files."""

    branches: tuple[str, ...]
    tags: tuple[str, ...]
    consumers: tuple[str, ...]
    changelogs: int
    snapshots: int
    orphans: OrphanFiles


def purge(metadata: TableMetadata, *, older_than_millis: int | None = None) -> Purged:
    """Removes all rows and their history: branches, tags, consumers, changelogs, all snapshots but a new, empty one.

    Schemas and options stay. The next call completes an interrupted one. The rows cannot be restored.

    Args:
        older_than_millis: orphan files older than this go too, as in `remove_orphan_files`; None: older than a day.

    Raises:
        InvalidArgument: `metadata` is of another branch than main, an option of the table names one of its branches or
            has a wrong value, or a moment that is not past; nothing was removed.
        Unsupported: a table that Morrow does not write; nothing was removed.
        CommitConflict: other commits were faster each time. StorageError: a file could not be removed; call again.
    """
    branches = metadata.branch_names()
    target = _checked(metadata, branches, older_than_millis)
    finish_removals(metadata)
    for branch in branches:
        delete_branch(metadata, branch)
    tags = delete_tags(metadata, metadata.tag_names())
    known = Consumers(metadata)
    consumers = [name for name in known.all() if known.delete(name)]
    if metadata.latest_snapshot() is not None:
        TableCommit(target).truncate()
    now = time.time_ns() // 1_000_000
    snapshots = expire_snapshots(metadata, retain_max=1, retain_min=1, older_than_millis=now)
    changelogs = _remove_changelogs(metadata)  # including those that expiry made of snapshots
    orphans = remove_orphan_files(metadata, older_than_millis=older_than_millis, dry_run=False)
    return Purged(tuple(branches), tuple(tags), tuple(consumers), changelogs, snapshots, orphans)


def _checked(metadata: TableMetadata, branches: Sequence[str], older_than_millis: int | None) -> WriteTarget:
    """Returns the target through which to empty the table. Raises errors that would interrupt a purge beforehand."""
    if metadata.branch != MAIN_BRANCH:
        raise InvalidArgument(f"{metadata.where}: a purge removes all branches; call it on the main branch")
    for branch in branches:
        check_unused(metadata, branch, "removed")
    parse_expire_options(metadata.latest_schema().options, where=metadata.where)
    oldest_kept_millis(older_than_millis)
    return WriteTarget.of(metadata)


def _remove_changelogs(metadata: TableMetadata) -> int:
    ids = changelog_ids(metadata)
    for changelog_id in ids:
        retire(metadata, changelog_path(metadata, changelog_id))
    finish_removals(metadata)
    for hint in (EARLIEST, LATEST):
        metadata.store.delete(f"{changelog_folder(metadata)}/{hint}")
    return len(ids)
