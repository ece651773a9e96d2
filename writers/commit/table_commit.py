"""Atomic commits to one table: either all messages of a commit become visible at once, or none.

The files of messages that were not committed are removed. Maintenance of the table runs around its commits.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument, StorageError, UnclearOutcome
from morrow.engine.format.binary_row import Value
from morrow.engine.format.manifest_entries import DataFileMeta, IndexFileMeta, TableStatistics, encode_statistics
from morrow.engine.format.paths import check_segment
from morrow.engine.format.snapshot import ANALYZE, APPEND, COMPACT, OVERWRITE, Snapshot
from morrow.engine.io.store import read_each
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace
from morrow.writers.commit.committer import Committer
from morrow.writers.commit.messages import (
    BATCH_COMMIT_IDENTIFIER,
    Changes,
    CommitMessage,
    Partitions,
    combine_changes,
    make_append_changes,
    make_compact_changes,
    make_overwrite_changes,
    upgrade_levels,
)
from morrow.writers.commit.premise import Premise
from morrow.writers.commit.snapshot_metadata import AnyChanges, SequenceNumbering, SnapshotRequest
from morrow.writers.files.data_files import Placement, find_paths
from morrow.writers.target import WriteTarget

NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})

log = get_logger(__name__)


class TableCommit:
    """Commits of one user to one table. Not thread-safe; each thread may have its own."""

    def __init__(self, target: WriteTarget, maintenance: Maintenance | None = None) -> None:
        self.target = target
        self._maintenance = maintenance or NoMaintenance()
        self._committer = Committer(target)
        self._files = MessageFiles(target)
        self.uncompacted: list[Placement] = []

    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot of the table. If one is known already, this takes two small reads."""
        return self._committer.log.latest()

    def known_snapshot(self) -> Snapshot | None:
        """Return the newest known snapshot; ask the store if none is known."""
        return self._committer.log.known()

    def go_on_from(self, snapshot: Snapshot | None) -> None:
        """Let the first commit search for newer snapshots from this one on."""
        self._committer.log.go_on_from(snapshot)

    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        watermark: int | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
        check_append_files: bool = False,
        keep_empty: bool | None = None,
        premise: Premise | None = None,
    ) -> Snapshot | None:
        """Commit the written files (an APPEND snapshot), then the compacted ones (a COMPACT snapshot).

        Written files that replace rows (deleted files, deletion vectors) make an OVERWRITE snapshot instead. In keyed
        tables the rows become newer than all rows committed before. If others added rows to a bucket since its writer
        read it, the files of the messages are rewritten with greater sequence numbers.
        A compaction that conflicts with another one, or with such rows, is dropped with its files after the rows are
        committed, and is left to a later compaction. `uncompacted` names these buckets.

        Args:
            identifier: number of the commit for this commit user, which identifies a repeated commit.
            watermark: watermark of the rows, epoch milliseconds; the snapshot keeps the greatest so far.
            check_append_files: check appended files for conflicts too.
            keep_empty: create a snapshot even if there is nothing to commit (None: if ``commit.force-create-snapshot``
                is set, or a numbered commit has to carry a tag that is due).
            premise: the rows that the messages were computed from; a change to them is a conflict.

        Returns:
            The last snapshot created (see its `commit_kind`), None if there was nothing to commit.

        Raises:
            CommitConflict: nothing was committed; call `abort`.
            UnclearOutcome: the store gave no answer. Call `filter_and_commit` with the same identifier later.
            AlreadyCommitted: files of the messages are already in the table.
        """
        recognised = identifier != BATCH_COMMIT_IDENTIFIER
        known = self.latest_snapshot() if recognised else None
        common = CommonAttributes(identifier, watermark, properties, recognised, known, premise)
        return self._commit(messages, common, check_append_files=check_append_files, keep_empty=keep_empty)

    def _commit(
        self,
        messages: Sequence[CommitMessage],
        common: CommonAttributes,
        *,
        check_append_files: bool,
        keep_empty: bool | None,
    ) -> Snapshot | None:
        self.uncompacted = []
        self._maintenance.before_commit(self._committer.log.newest)
        written, compaction = make_append_changes(messages), make_compact_changes(messages)
        last: Snapshot | None = None
        if keep_empty is None:
            keep_empty = written.is_empty and self._keeps_empty(compaction, common.identifier)
        if not written.is_empty or keep_empty:
            kind = OVERWRITE if written.replaces_rows else APPEND
            check = check_append_files or kind == OVERWRITE or written.adds_columns
            if self.target.keyed and any(message.new_files for message in messages):
                last, messages = self._create_numbered(kind, messages, common, check=check)
                compaction = make_compact_changes(messages)
            else:
                last = self._committer.create(common.request(kind, written, check=check))
        if not compaction.is_empty:
            last = self._compact(messages, compaction, last, common)
        return self._done(last, messages)

    def _create_numbered(
        self, kind: str, messages: Sequence[CommitMessage], common: CommonAttributes, *, check: bool
    ) -> tuple[Snapshot, Sequence[CommitMessage]]:
        """Create the snapshot of the written files; return it and the messages after renumbering."""
        changes = SequenceNumbering(self.target, self._committer.base, self._committer.routes, messages)
        try:
            created = self._committer.create(common.request(kind, changes, check=check))
        except UnclearOutcome:
            raise
        except BaseException:
            changes.undo()
            raise
        if self._committer.found:
            changes.undo()
            return created, messages
        replaced = changes.replaced
        self.abort(replaced)
        self.uncompacted += [
            Placement.of(message) for message in replaced if message.compact_before or message.compact_after
        ]
        return created, changes.messages

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        *,
        partitions: Partitions,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        watermark: int | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
        premise: Premise | None = None,
    ) -> Snapshot | None:
        """Replace partitions by the written files, in an OVERWRITE snapshot (then COMPACT, as in `commit`).

        If batch reads see only compacted files, both are one snapshot. (Java makes two, and shows neither the old nor
        the new rows in between.) Changelog files of the messages are not committed.

        Args:
            partitions: "all", BinaryRows, or mappings of (some) partition columns to values. For a dynamic overwrite
                pass the partitions of the messages; an empty sequence then replaces nothing.
            premise: as for `commit`.

        Raises:
            InvalidArgument: a new file lies outside of the partitions. CommitConflict, UnclearOutcome: as `commit`.
        """
        self.uncompacted = []
        common = CommonAttributes(identifier, watermark, properties, premise=premise)
        written, compaction = make_append_changes(messages), make_compact_changes(messages)
        compacts = bool(compaction.files or compaction.index)
        waits = compacts and self.target.hides_level_zero
        if waits:
            # Between two snapshots the old rows would be gone and the new ones not yet visible.
            new, compacts = combine_changes(written, compaction), False
        else:
            new = Changes(written.files if compacts else upgrade_levels(self.target, written.files), (), written.index)
        last: Snapshot | None = None
        if partitions == "all" or partitions:
            changes = make_overwrite_changes(self.target, new, partitions)
            last = self._committer.create(common.request(OVERWRITE, changes, check=True))
        if compacts:
            last = self._compact(messages, Changes(compaction.files, (), compaction.index), last, common)
        for message in messages:
            self._files.remove(message, (*message.changelog_files, *message.compact_changelog), ())
            if waits:
                after = {file.file_name for file in message.compact_after}
                replaced = [f for f in message.compact_before if f.file_name not in after]
                self._files.remove(message, replaced, message.compact_deleted_index_files)
        return self._done(last, messages)

    def rewrite(self, messages: Sequence[CommitMessage], premise: Premise | None = None) -> Snapshot:
        """Commit compacted files that lack some rows of the files before, in an OVERWRITE snapshot without statistics.

        Raises `CommitConflict`, `UnclearOutcome`: as `commit`.
        """
        self.uncompacted = []
        self._maintenance.before_commit(self._committer.log.newest)
        request = CommonAttributes(BATCH_COMMIT_IDENTIFIER, None, NO_PROPERTIES, premise=premise).request(
            OVERWRITE, make_compact_changes(messages), check=True
        )
        made = self._committer.create(replace(request, drops_statistics=True))
        self._done(made, messages)
        return made

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

    def analyze(self, statistics: TableStatistics) -> Snapshot:
        """Commit statistics of the table, in an ANALYZE snapshot of the same rows.

        Raises `CommitConflict`, `UnclearOutcome`: as `commit`; after a conflict no file is left.
        """
        name = f"stat-{uuid.uuid4()}-0"
        path = self.target.metadata.paths.statistics(name)
        self.target.store.write(path, encode_statistics(statistics))
        request = SnapshotRequest(ANALYZE, BATCH_COMMIT_IDENTIFIER, Changes(), check=False, statistics=name)
        try:
            created = self._committer.create(request)
        except UnclearOutcome:
            raise
        except BaseException:
            self.target.store.discard([path])
            raise
        self._done(created)
        return created

    def filter_and_commit(
        self,
        batches: Mapping[int, Sequence[CommitMessage]],
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
        check_append_files: bool = True,
        premise: Premise | None = None,
    ) -> int:
        """Commit the batches, by identifier, that this commit user has not committed yet; return their number.

        Identifiers of a user grow, so every batch up to the identifier of its newest snapshot is committed.

        Raises:
            FileMissing: a file of a batch is gone, so the batch can no longer be committed.
            CommitConflict, UnclearOutcome: as `commit`.
        """
        known = self.latest_snapshot() if batches else None
        newest = self._committer.log.latest_of(self.target.commit_user) if batches else None
        waiting = sorted(i for i in batches if newest is None or i > newest.commit_identifier)
        for identifier in waiting:
            self._files.check_there(batches[identifier])
        for identifier in waiting:
            common = CommonAttributes(
                identifier, watermark, properties, identifier != BATCH_COMMIT_IDENTIFIER, known, premise
            )
            self._commit(batches[identifier], common, check_append_files=check_append_files, keep_empty=None)
        return len(waiting)

    def check_first(self, messages: Sequence[CommitMessage]) -> None:
        """Raise `FileMissing` if the first file of the messages is gone."""
        self._files.check_first(messages)

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of messages that will not be committed. Files that cannot be removed stay as orphans."""
        self._files.abort(messages)

    def _keeps_empty(self, compaction: Changes, identifier: int) -> bool:
        if self.target.write.force_create_snapshot:
            return True
        if identifier == BATCH_COMMIT_IDENTIFIER or not compaction.is_empty:
            return False
        return self._maintenance.wants_snapshot()

    def _compact(
        self,
        messages: Sequence[CommitMessage],
        compaction: Changes,
        written: Snapshot | None,
        common: CommonAttributes,
    ) -> Snapshot | None:
        try:
            return self._committer.create(common.request(COMPACT, compaction, check=True))
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
        self.uncompacted += [Placement.of(m) for m in messages if m.compact_before or m.compact_after]
        self._files.remove_compacted(messages)

    def _done(self, last: Snapshot | None, messages: Sequence[CommitMessage] = ()) -> Snapshot | None:
        if last is not None:
            self._maintenance.after_commit(last, messages)
        self._committer.log.settle()
        return last


@dataclass(frozen=True)
class CommonAttributes:
    """Attributes that all snapshots of one commit share."""

    identifier: int
    watermark: int | None
    properties: Mapping[str, str]
    recognised: bool = False
    known: Snapshot | None = None
    premise: Premise | None = None

    def request(self, kind: str, changes: AnyChanges, *, check: bool) -> SnapshotRequest:
        """Return the request for one snapshot. Only the first has the premise, since the second is a compaction."""
        return SnapshotRequest(
            kind,
            self.identifier,
            changes,
            check,
            self.watermark,
            self.properties,
            self.recognised,
            self.known,
            None if kind == COMPACT else self.premise,
        )


class Maintenance(Protocol):
    """Maintenance of a table around its commits, by its options; see `writers.history.commit_maintenance`."""

    def wants_snapshot(self) -> bool:
        """Return whether a stream without changes should still commit an empty snapshot."""

    def before_commit(self, newest: Snapshot | None) -> None:
        """Prepare, given the newest known snapshot if there is one."""

    def after_commit(self, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> None:
        """Run after a commit, given its last snapshot and what it committed. An error raised here does not undo it."""


class NoMaintenance:
    """Maintenance that does nothing, for tables maintained elsewhere."""

    def wants_snapshot(self) -> bool:
        return False

    def before_commit(self, newest: Snapshot | None) -> None:
        pass

    def after_commit(self, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> None:
        pass


class MessageFiles:
    """The files of messages to one table."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of messages that will not be committed. Files that cannot be removed stay as orphans."""
        for message in messages:
            written = {file.file_name for file in message.new_files}
            # A file that compaction only moved to another level belongs to the table, unless the file itself is new.
            moved = {file.file_name for file in message.compact_before} - written
            files = (*message.new_files, *message.changelog_files, *message.compact_after, *message.compact_changelog)
            self.remove(
                message,
                [file for file in files if file.file_name not in moved],
                (*message.new_index_files, *message.compact_new_index_files),
            )
            self._target.store.discard(self._new_extras(message))

    def remove_compacted(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files that only the compactions of these messages made."""
        for message in messages:
            there = {file.file_name for file in (*message.compact_before, *message.new_files)}
            files = (*message.compact_after, *message.compact_changelog)
            self.remove(
                message,
                [file for file in files if file.file_name not in there],
                message.compact_new_index_files,
            )

    def remove(self, message: CommitMessage, files: Sequence[DataFileMeta], indexes: Sequence[IndexFileMeta]) -> None:
        """Remove these files of a message. Files that cannot be removed stay as orphans."""
        self._target.store.discard([*self._data_paths(message, files), *self._index_paths(message, indexes)])

    def _new_extras(self, message: CommitMessage) -> list[str]:
        """Return the paths of new extra files of data files that already belong to the table."""
        before = {file.file_name: file.extra_files for file in message.compact_before}
        folder = self._target.bucket_folder(message.partition, message.bucket)
        return [
            f"{folder}/{check_segment(name, folder)}"
            for file in message.compact_after
            for name in file.extra_files
            if file.file_name in before and name not in before[file.file_name]
        ]

    def check_there(self, messages: Sequence[CommitMessage]) -> None:
        """Raise `FileMissing` if a file that these messages add is gone."""
        paths: list[str] = []
        for message in messages:
            files = (*message.new_files, *message.changelog_files, *message.compact_after)
            indexes = (*message.new_index_files, *message.compact_new_index_files)
            paths += (*self._data_paths(message, files), *self._index_paths(message, indexes))
        for path, there in zip(paths, read_each(self._target.store, self._target.store.exists, paths), strict=True):
            if not there:
                raise FileMissing(path, hint="a file that waits to be committed was removed; write these rows again")

    def check_first(self, messages: Sequence[CommitMessage]) -> None:
        """Raise `FileMissing` if the first file that these messages add is gone.

        If the table was dropped, all files are gone, and a table created again at this path must not name them.
        """
        for message in messages:
            for path in self._data_paths(message, message.new_files[:1]):
                if not self._target.store.exists(path):
                    raise FileMissing(
                        path,
                        hint="the table may have been dropped, and created again; open it, and write these rows again",
                    )
                return

    def _data_paths(self, message: CommitMessage, files: Sequence[DataFileMeta]) -> list[str]:
        place = Placement.of(message)
        return [path for file in files for path in find_paths(self._target, place, file)]

    def _index_paths(self, message: CommitMessage, files: Sequence[IndexFileMeta]) -> list[str]:
        in_bucket = self._target.options.index_in_data_dir
        folder = self._target.bucket_folder(message.partition, message.bucket) if in_bucket else ""
        return [
            f"{folder}/{check_segment(f.file_name, folder)}"
            if in_bucket and f.global_index is None
            else self._target.metadata.paths.index(f.file_name)
            for f in files
        ]
