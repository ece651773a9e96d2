"""The changes of one commit: messages of bucket writers as manifest entries, of writes and of compactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from morrow.engine.format.data_file_meta import DataFileMeta, EntryKind, IndexEntry, IndexFileMeta, ManifestEntry
from morrow.engine.format.entry_frames import entries_frame
from morrow.engine.format.manifest_columns import DELETION_VECTORS_INDEX
from morrow.writers.commit.messages import CommitMessage


@dataclass(frozen=True)
class LookedAt:
    """The files above level 0 of a bucket, by name, in which a compaction looked up keys, and its results."""

    partition: bytes
    bucket: int
    files: frozenset[str]
    removed: frozenset[str]
    added: frozenset[str]

    @classmethod
    def by(cls, message: CommitMessage) -> LookedAt | None:
        """Returns the lookup of a message's compaction, None if it looked up nothing."""
        if message.compact_seen is None:
            return None
        removed = frozenset(file.file_name for file in message.compact_before)
        added = frozenset(file.file_name for file in message.compact_after if file.level > 0)
        return cls(message.partition, message.bucket, frozenset(message.compact_seen), removed, added)


@dataclass(frozen=True)
class NumberedFrom:
    """The least sequence number that a compaction assigned to rows of a bucket."""

    partition: bytes
    bucket: int
    number: int


@dataclass(frozen=True)
class Changes:
    """The entries of one snapshot, and the state of the table that they rely on."""

    files: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    index: tuple[IndexEntry, ...] = ()
    looked_at: tuple[LookedAt, ...] = ()
    numbered_from: tuple[NumberedFrom, ...] = ()

    @cached_property
    def entries(self) -> pl.DataFrame:
        """The entries of `files` as a frame, columns of `decode_manifest`."""
        return entries_frame(self.files)

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.changelog or self.index)

    @property
    def partitions(self) -> frozenset[bytes]:
        """The partitions whose rows change."""
        vectors = (entry.partition for entry in self.index if entry.file.index_type == DELETION_VECTORS_INDEX)
        return frozenset([*(entry.partition for entry in self.files), *vectors])

    @property
    def replaces_rows(self) -> bool:
        """Whether rows are removed, by deleted files or by deletion vectors, so that it is more than an append."""
        return any(entry.kind == EntryKind.DELETE for entry in self.files) or any(
            entry.file.index_type == DELETION_VECTORS_INDEX for entry in self.index
        )


def appended(messages: Iterable[CommitMessage]) -> Changes:
    """Returns the written files and changelog, for the APPEND snapshot."""
    files: list[ManifestEntry] = []
    changelog: list[ManifestEntry] = []
    index: list[IndexEntry] = []
    for message in messages:
        files += _entries(EntryKind.ADD, message, message.new_files)
        files += _entries(EntryKind.DELETE, message, message.deleted_files)
        changelog += _entries(EntryKind.ADD, message, message.changelog_files)
        index += _index(EntryKind.DELETE, message, message.deleted_index_files)
        index += _index(EntryKind.ADD, message, message.new_index_files)
    return Changes(tuple(files), tuple(changelog), tuple(index))


def compacted(messages: Sequence[CommitMessage]) -> Changes:
    """Returns the compacted files and changelog, for the COMPACT snapshot."""
    files: list[ManifestEntry] = []
    changelog: list[ManifestEntry] = []
    index: list[IndexEntry] = []
    for message in messages:
        files += _entries(EntryKind.DELETE, message, message.compact_before)
        files += _entries(EntryKind.ADD, message, message.compact_after)
        changelog += _entries(EntryKind.ADD, message, message.compact_changelog)
        index += _index(EntryKind.DELETE, message, message.compact_deleted_index_files)
        index += _index(EntryKind.ADD, message, message.compact_new_index_files)
    looked_at = (LookedAt.by(message) for message in messages)
    relied_on = tuple(each for each in looked_at if each is not None)
    numbered = tuple(
        NumberedFrom(m.partition, m.bucket, m.compact_numbered_from)
        for m in messages
        if m.compact_numbered_from is not None
    )
    return Changes(tuple(files), tuple(changelog), tuple(index), relied_on, numbered)


def at_once(written: Changes, compaction: Changes) -> Changes:
    """Combines written files and their compaction into the entries of one snapshot, without changelogs."""
    replaced = {_place(entry) for entry in compaction.files if entry.kind == EntryKind.DELETE}
    replaced_indexes = {entry.file.file_name for entry in compaction.index if entry.kind == EntryKind.DELETE}
    new = {_place(entry) for entry in written.files}
    new_indexes = {entry.file.file_name for entry in written.index}
    return Changes(
        (
            *(entry for entry in written.files if _place(entry) not in replaced),
            *(entry for entry in compaction.files if entry.kind == EntryKind.ADD or _place(entry) not in new),
        ),
        (),
        (
            *(entry for entry in written.index if entry.file.file_name not in replaced_indexes),
            *(e for e in compaction.index if e.kind == EntryKind.ADD or e.file.file_name not in new_indexes),
        ),
    )


def _place(entry: ManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.file_name


def _entries(kind: EntryKind, message: CommitMessage, files: Sequence[DataFileMeta]) -> list[ManifestEntry]:
    return [ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file) for file in files]


def _index(kind: EntryKind, message: CommitMessage, files: Sequence[IndexFileMeta]) -> list[IndexEntry]:
    return [IndexEntry(kind, message.partition, message.bucket, file) for file in files]
