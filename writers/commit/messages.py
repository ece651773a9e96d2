"""Commit messages: plain data about the files written in one bucket, from the writing process to the committing one."""

from __future__ import annotations

import msgspec

from morrow.engine.format.data_file_meta import DataFileMeta, IndexFileMeta

BATCH_COMMIT_IDENTIFIER = 2**63 - 1
"""The commit identifier of batch writes, which are never repeated (Java's Long.MAX_VALUE)."""


class CommitMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Files written in one bucket and not committed yet; `partition` is a BinaryRow (arity first).

    The first group becomes the APPEND snapshot of the commit, the second (``compact_*``) its COMPACT snapshot.
    `deleted_index_files` and `compact_deleted_index_files` are the index files that the new ones replace.
    `compact_seen` are the names of the files above level 0 that the bucket had when keys were looked up for its
    compaction (None: no keys were looked up). `based_on` names the snapshot, by its delta manifest list, whose
    greatest sequence number the rows continue (None: not known); `routed_on` names the snapshot by which keys were
    assigned to buckets one by one ("": a table without snapshots; None: buckets follow from the hash).
    `compact_numbered_from` is the least sequence number that compaction has assigned to rows without one.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    compact_new_index_files: tuple[IndexFileMeta, ...] = ()
    compact_deleted_index_files: tuple[IndexFileMeta, ...] = ()
    compact_seen: tuple[str, ...] | None = None
    based_on: str | None = None
    routed_on: str | None = None
    compact_numbered_from: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written."""
        groups = (getattr(self, name) for name in self.__struct_fields__[3:-4])
        return not any(groups)
