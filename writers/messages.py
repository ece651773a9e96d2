"""What a writer did in one bucket: plain data that travels from the writing process to the one that commits."""

from __future__ import annotations

import msgspec

from morrow.engine.format.data_file_meta import DataFileMeta, IndexFileMeta

BATCH_COMMIT_IDENTIFIER = 2**63 - 1
"""The commit identifier of batch writes, which are never repeated (Java's Long.MAX_VALUE)."""


class CommitMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Files written in one bucket and not committed yet; `partition` is a BinaryRow (arity first).

    The first group becomes the APPEND snapshot of the commit, the second (``compact_*``) its COMPACT snapshot.
    `deleted_index_files` and `compact_deleted_index_files` are those that the new ones replace. `compact_seen` are the
    files above level 0, by name, that the bucket had when keys were looked up for its compaction (None: none were).
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

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written."""
        groups = (getattr(self, name) for name in self.__struct_fields__[3:-1])
        return not any(groups)
