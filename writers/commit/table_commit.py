"""Commits to one table: what was written becomes visible as a whole, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from morrow.engine.errors import (
    CommitConflict,
    FileMissing,
    InvalidArgument,
    StorageError,
    UnclearOutcome,
)
from morrow.engine.format.binary_row import Value
from morrow.engine.format.data_file_meta import DataFileMeta, IndexFileMeta
from morrow.engine.format.paths import segment
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.commit.attempt import Committer
from morrow.writers.commit.changes import Changes, appended, compacted
from morrow.writers.commit.overwriting import Partitions, overwritten, upgraded
from morrow.writers.commit.preparing import OVERWRITE, SnapshotRequest
from morrow.writers.files.placement import Placement, file_path
from morrow.writers.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.target import WriteTarget

APPEND = "APPEND"
COMPACT = "COMPACT"
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})

log = logging.getLogger(__name__)


class Maintenance(Protocol):
    """What is done for a table around its commits; `writers.expiry.automatic` does what the options ask for."""

    def wants_snapshot(self) -> bool:
        """Whether a stream that brings nothing should commit an empty snapshot all the same."""

    def after_commit(self, snapshot: Snapshot) -> None:
        """Takes the last snapshot of a commit, which is durable by then: what this raises does not undo it."""


class TableCommit:
    """Commits of one user to one table. Not safe for use by several threads at once; each may have its own."""

    def __init__(self, target: WriteTarget, maintenance: Maintenance | None = None) -> None:
        self.target = target
        self._maintenance = maintenance
        self._committer = Committer(target)

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot of the table, found at the cost of two small reads once one is known."""
        return self._committer.log.latest()

    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        watermark: int | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
        check_append_files: bool = False,
        keep_empty: bool | None = None,
    ) -> Snapshot | None:
        """Commit what was written (an APPEND snapshot), then what was compacted (a COMPACT snapshot).

        Written files that replace rows (deleted files, deletion vectors) make an OVERWRITE snapshot instead.
        A compaction that meets another one is dropped with its files when the rows themselves were committed: they
        stay in the table, and a later compaction takes them.

        Args:
            identifier: numbers the commits of a commit user; with it a repeated commit is recognised.
            watermark: of the rows, epoch milliseconds; the snapshot keeps the greatest so far.
            check_append_files: look for conflicts for appended files too.
            keep_empty: create a snapshot even when there is nothing to commit (None: ``commit.force-create-snapshot``,
                or when a numbered commit has to carry a tag that is due).

        Returns:
            The last snapshot created (its `commit_kind` tells which), None when there was nothing to commit.

        Raises:
            CommitConflict: nothing was committed; call `abort`.
            UnclearOutcome: the store does not tell. Call `filter_and_commit` with the same identifier later.
        """
        written, compaction = appended(messages), compacted(messages)
        last: Snapshot | None = None
        if not written.is_empty or (self._keeps_empty(compaction, identifier) if keep_empty is None else keep_empty):
            kind = OVERWRITE if written.replaces_rows else APPEND
            check = check_append_files or kind == OVERWRITE
            last = self._create(kind, written, identifier, watermark, properties, check=check)
        if not compaction.is_empty:
            last = self._compact(messages, compaction, last, identifier, watermark, properties)
        return self._done(last)

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        *,
        partitions: Partitions,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        watermark: int | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> Snapshot | None:
        """Replace partitions by what was written, in an OVERWRITE snapshot (then COMPACT, as in `commit`).

        Changelog files of the messages are not committed.

        Args:
            partitions: "all", BinaryRows, or mappings of (some) partition columns to values. For a dynamic overwrite
                give the partitions of the messages; an empty sequence then replaces nothing.

        Raises:
            InvalidArgument: a new file lies outside of the partitions. CommitConflict, UnclearOutcome: as `commit`.
        """
        written, compaction = appended(messages), compacted(messages)
        files = written.files if compaction.files or compaction.index else upgraded(self.target, written.files)
        last: Snapshot | None = None
        if partitions == "all" or partitions:
            changes = overwritten(self.target, Changes(files, (), written.index), partitions)
            request = SnapshotRequest(OVERWRITE, identifier, changes, True, watermark, properties)
            last = self._committer.create(request)
        if compaction.files or compaction.index:
            kept = Changes(compaction.files, (), compaction.index)
            last = self._compact(messages, kept, last, identifier, watermark, properties)
        for message in messages:
            self._remove(message, (*message.changelog_files, *message.compact_changelog), ())
        return self._done(last)

    def truncate(self, *, identifier: int = BATCH_COMMIT_IDENTIFIER) -> Snapshot | None:
        """Remove all rows, in an OVERWRITE snapshot. Raises as `overwrite`."""
        return self.overwrite((), partitions="all", identifier=identifier)

    def drop_partitions(
        self, partitions: Sequence[Mapping[str, Value]], *, identifier: int = BATCH_COMMIT_IDENTIFIER
    ) -> Snapshot | None:
        """Remove all rows of partitions with these values in (some of) their columns. Raises as `overwrite`."""
        if not partitions or not all(partitions):
            raise InvalidArgument(f"{self.target.where}: name the partitions to drop, or truncate the table")
        return self.overwrite((), partitions=partitions, identifier=identifier)

    def filter_and_commit(
        self,
        batches: Mapping[int, Sequence[CommitMessage]],
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
        check_append_files: bool = True,
    ) -> int:
        """Commit the batches, by identifier, that this commit user has not committed yet; returns how many those were.

        Identifiers of a user grow, so everything up to that of its newest snapshot is committed.

        Raises:
            FileMissing: a file of a batch is gone, so that it cannot be committed any more.
            CommitConflict, UnclearOutcome: as `commit`.
        """
        newest = self._committer.log.latest_of(self.target.commit_user) if batches else None
        waiting = sorted(i for i in batches if newest is None or i > newest.commit_identifier)
        for identifier in waiting:
            self._check_there(batches[identifier])
        for identifier in waiting:
            self.commit(
                batches[identifier],
                identifier=identifier,
                watermark=watermark,
                properties=properties,
                check_append_files=check_append_files,
            )
        return len(waiting)

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of messages that will not be committed. What cannot be removed stays as an orphan."""
        for message in messages:
            written = {file.file_name for file in message.new_files}
            # A file that compaction only moved to another level belongs to the table, unless it is new itself.
            moved = {file.file_name for file in message.compact_before} - written
            files = (*message.new_files, *message.changelog_files, *message.compact_after, *message.compact_changelog)
            self._remove(
                message,
                [file for file in files if file.file_name not in moved],
                (*message.new_index_files, *message.compact_new_index_files),
            )

    def _keeps_empty(self, compaction: Changes, identifier: int) -> bool:
        if self.target.write.force_create_snapshot:
            return True
        if identifier == BATCH_COMMIT_IDENTIFIER or not compaction.is_empty:
            return False
        return self._maintenance is not None and self._maintenance.wants_snapshot()

    def _create(
        self,
        kind: str,
        changes: Changes,
        identifier: int,
        watermark: int | None,
        properties: Mapping[str, str],
        *,
        check: bool,
    ) -> Snapshot:
        request = SnapshotRequest(kind, identifier, changes, check, watermark, properties)
        return self._committer.create(request)

    def _compact(
        self,
        messages: Sequence[CommitMessage],
        compaction: Changes,
        written: Snapshot | None,
        identifier: int,
        watermark: int | None,
        properties: Mapping[str, str],
    ) -> Snapshot | None:
        try:
            return self._create(COMPACT, compaction, identifier, watermark, properties, check=True)
        except CommitConflict as conflict:
            if written is None:
                raise
            log.info("the rows were committed; their compaction was not, and is left to a later one: %s", conflict)
            self._drop_compaction(messages)
            return written
        except UnclearOutcome:
            raise
        except StorageError as failure:
            if written is None:
                raise
            self._drop_compaction(messages)
            raise StorageError(
                f"{self.target.where}: the rows were committed in snapshot {written.id}, their compaction was not "
                f"({failure}); do not write them again, compact the table"
            ) from failure

    def _drop_compaction(self, messages: Sequence[CommitMessage]) -> None:
        for message in messages:
            there = {file.file_name for file in (*message.compact_before, *message.new_files)}
            files = (*message.compact_after, *message.compact_changelog)
            self._remove(
                message,
                [file for file in files if file.file_name not in there],
                message.compact_new_index_files,
            )

    def _done(self, last: Snapshot | None) -> Snapshot | None:
        if last is not None and self._maintenance is not None:
            self._maintenance.after_commit(last)
        return last

    def _remove(self, message: CommitMessage, files: Sequence[DataFileMeta], indexes: Sequence[IndexFileMeta]) -> None:
        self.target.store.discard([*self._data_paths(message, files), *self._index_paths(message, indexes)])

    def _check_there(self, messages: Sequence[CommitMessage]) -> None:
        for message in messages:
            files = (*message.new_files, *message.changelog_files, *message.compact_after)
            indexes = (*message.new_index_files, *message.compact_new_index_files)
            for path in (*self._data_paths(message, files), *self._index_paths(message, indexes)):
                if not self.target.store.exists(path):
                    raise FileMissing(
                        path, hint="a file that waits to be committed was removed; write these rows once more"
                    )

    def _data_paths(self, message: CommitMessage, files: Sequence[DataFileMeta]) -> list[str]:
        place = Placement(message.partition, message.bucket)
        return [
            file_path(self.target, place, segment(name, self.target.where))
            for file in files
            if file.external_path is None
            for name in (file.file_name, *file.extra_files)
        ]

    def _index_paths(self, message: CommitMessage, files: Sequence[IndexFileMeta]) -> list[str]:
        if self.target.options.index_in_data_dir:
            folder = self.target.bucket_folder(message.partition, message.bucket)
            return [f"{folder}/{segment(f.file_name, folder)}" for f in files]
        return [self.target.metadata.paths.index(f.file_name) for f in files]
