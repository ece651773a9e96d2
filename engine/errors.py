"""Every error Morrow raises on purpose: one tree under `MorrowError`.

Five branches answer five different questions of a caller:

* `CorruptFile`      - the bytes of the table are not what the format says: restore or repair the file.
* `Unsupported`      - the table is fine, Morrow does not handle it (an option, type, engine, version).
* `CommitConflict`   - somebody else committed first: re-read and retry.
* `NotFound`         - a table, snapshot, tag, branch, column or file that is not there.
* `InvalidArgument`  - the call is wrong: nothing was read or written.

Each message says what is wrong, where (table, file, option), and what to do.
"""

from __future__ import annotations

from typing import Any


class MorrowError(Exception):
    """Base of every error that Morrow raises on purpose. They pickle, so that they come back from worker processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By message and members, whatever the constructor takes.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[MorrowError], arguments: tuple[Any, ...], members: dict[str, Any]) -> MorrowError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(members)
    return error


class CorruptFile(MorrowError):
    """A metadata, index or data file whose bytes contradict the format or other metadata."""

    def __init__(
        self, path: str, problem: str, *, hint: str = "restore the file from a backup, or read an older snapshot or tag"
    ) -> None:
        super().__init__(f"{path}: {problem}; {hint}")
        self.path = path
        self.problem = problem


class Unsupported(MorrowError):
    """A valid table that uses something Morrow does not handle; reading on would risk wrong rows."""

    def __init__(self, feature: str, *, where: str | None = None, hint: str | None = None) -> None:
        message = f"{where}: {feature} is not supported" if where else f"{feature} is not supported"
        super().__init__(f"{message}; {hint}" if hint else message)
        self.feature = feature
        self.where = where


class CommitConflict(MorrowError):
    """A commit lost against a concurrent one; nothing of it is visible."""


class InvalidArgument(MorrowError, ValueError):
    """The call itself is wrong: an unknown column, a filter that does not parse, a bad option value."""


class AlreadyExists(InvalidArgument):
    """A database, table or column of this name is there already; it was not touched."""


class StorageError(MorrowError, OSError):
    """The file system or object store answered with an error that is not "no such file"."""


class UnclearOutcome(StorageError):
    """Whether a file was created is not known: the store gave no answer, or one that does not tell.

    The file may be there now or turn up later. Look for it: one's own file that is there was created (call
    `FileStore.sync` on it before acknowledging anything); another's, or none, was not.
    """


class UnsafePath(MorrowError):
    """A file name in metadata would lead outside the table; nothing was opened."""


class NotFound(MorrowError, LookupError):
    """Something named by the caller or by metadata is not there."""


class TableNotFound(NotFound):
    """No folder, or a folder without a Paimon schema."""


class DatabaseNotFound(NotFound):
    """No such database folder in the warehouse."""


class FileMissing(NotFound):
    """A file that metadata names is not in the store."""

    def __init__(
        self, path: str, *, hint: str = "the snapshot may have expired while it was read; open the table again"
    ) -> None:
        super().__init__(f"{path}: no such file; {hint}")
        self.path = path


class SnapshotNotFound(NotFound):
    """No snapshot has this id, or none is at or before this time."""


class SnapshotExpired(SnapshotNotFound):
    """The snapshot existed once; expiry removed it and no tag keeps it."""


class TagNotFound(NotFound):
    """No tag of this name."""


class BranchNotFound(NotFound):
    """No branch of this name."""


class ColumnNotFound(NotFound, InvalidArgument):
    """A column that the schema read does not have."""
