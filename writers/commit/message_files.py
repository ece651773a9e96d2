"""The files that commit messages name: where they are, whether they are still there, removed when not committed."""

from __future__ import annotations

from collections.abc import Sequence

from morrow.engine.errors import FileMissing
from morrow.engine.format.data_file_meta import DataFileMeta, IndexFileMeta
from morrow.engine.format.paths import segment
from morrow.engine.io.ahead import each
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files.placement import Placement, file_path
from morrow.writers.target import WriteTarget


class MessageFiles:
    """The files of messages to one table."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Removes the files of messages that will not be committed. Files that cannot be removed stay as orphans."""
        for message in messages:
            written = {file.file_name for file in message.new_files}
            # A file that compaction only moved to another level belongs to the table, unless it is new itself.
            moved = {file.file_name for file in message.compact_before} - written
            files = (*message.new_files, *message.changelog_files, *message.compact_after, *message.compact_changelog)
            self.remove(
                message,
                [file for file in files if file.file_name not in moved],
                (*message.new_index_files, *message.compact_new_index_files),
            )
            self._target.store.discard(self._new_extras(message))

    def remove_compacted(self, messages: Sequence[CommitMessage]) -> None:
        """Removes the files that only the compactions of these messages made."""
        for message in messages:
            there = {file.file_name for file in (*message.compact_before, *message.new_files)}
            files = (*message.compact_after, *message.compact_changelog)
            self.remove(
                message,
                [file for file in files if file.file_name not in there],
                message.compact_new_index_files,
            )

    def remove(self, message: CommitMessage, files: Sequence[DataFileMeta], indexes: Sequence[IndexFileMeta]) -> None:
        """Removes these files of a message; those that cannot be removed stay as orphans."""
        self._target.store.discard([*self._data_paths(message, files), *self._index_paths(message, indexes)])

    def _new_extras(self, message: CommitMessage) -> list[str]:
        """Returns the paths of new files beside data files that belong to the table."""
        before = {file.file_name: file.extra_files for file in message.compact_before}
        folder = self._target.bucket_folder(message.partition, message.bucket)
        return [
            f"{folder}/{segment(name, folder)}"
            for file in message.compact_after
            for name in file.extra_files
            if file.file_name in before and name not in before[file.file_name]
        ]

    def check_there(self, messages: Sequence[CommitMessage]) -> None:
        """Raises `FileMissing` where a file that these messages add is gone."""
        paths: list[str] = []
        for message in messages:
            files = (*message.new_files, *message.changelog_files, *message.compact_after)
            indexes = (*message.new_index_files, *message.compact_new_index_files)
            paths += (*self._data_paths(message, files), *self._index_paths(message, indexes))
        for path, there in zip(paths, each(self._target.store, self._target.store.exists, paths), strict=True):
            if not there:
                raise FileMissing(
                    path, hint="a file that waits to be committed was removed; write these rows once more"
                )

    def check_first(self, messages: Sequence[CommitMessage]) -> None:
        """Raises `FileMissing` where the first file that these messages add is gone.

        All of them are where the table was dropped: what another one made in its place would name files that it lacks.
        """
        for message in messages:
            for path in self._data_paths(message, message.new_files[:1]):
                if not self._target.store.exists(path):
                    raise FileMissing(
                        path,
                        hint="the table may have been dropped, and made anew; open it, and write these rows once more",
                    )
                return

    def _data_paths(self, message: CommitMessage, files: Sequence[DataFileMeta]) -> list[str]:
        place = Placement.of(message)
        return [
            file_path(self._target, place, segment(name, self._target.where))
            for file in files
            if file.external_path is None
            for name in (file.file_name, *file.extra_files)
        ]

    def _index_paths(self, message: CommitMessage, files: Sequence[IndexFileMeta]) -> list[str]:
        if self._target.options.index_in_data_dir:
            folder = self._target.bucket_folder(message.partition, message.bucket)
            return [f"{folder}/{segment(f.file_name, folder)}" for f in files]
        return [self._target.metadata.paths.index(f.file_name) for f in files]
