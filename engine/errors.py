"""The errors that Morrow raises on purpose: one tree under `MorrowError`.

The seven branches differ in what a caller should do:

* `CorruptFile`      - the bytes of the table contradict the format: restore or repair the file.
* `Unsupported`      - the table is fine, Morrow does not handle it (an option, type, engine, version).
* `CommitConflict`   - another commit was first, and cannot be reconciled: nothing was committed, try again.
* `NotFound`         - a table, snapshot, tag, branch, column or file that does not exist.
* `InvalidArgument`  - the call or its data are wrong: nothing was read or written.
* `StorageError`     - the disk or object store refused (permission, space, network): fix the cause, then try again.
* `UnsafePath`       - metadata leads outside of the table: trust the folder by `allowed_roots`, or do not read it.

Each message says what is wrong, where (table, file, option), and what to do.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

from morrow.engine.redaction import clean_text


class MorrowError(Exception):
    """The base of every error that Morrow raises on purpose. Errors pickle, so worker processes can return them.

    Their text does not contain known secrets. Tab and line break are the only terminal control characters in it.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(clean_text(arg) if isinstance(arg, str) else arg for arg in args))

    def add_note(self, note: str, /) -> None:
        super().add_note(clean_text(note))

    def _render_traceback_(self) -> list[str]:
        """Return the traceback as IPython shows it: the user's own lines and the message.

        Python's own traceback, with all lines, is printed by ``traceback.print_exception(error)``.
        """
        import traceback  # IPython alone calls this

        frames = [frame for frame in traceback.extract_tb(self.__traceback__) if not _is_library(frame.filename)]
        lines = traceback.format_list(frames) + traceback.format_exception_only(self)
        return [line for text in lines for line in text.rstrip("\n").split("\n")]

    def __reduce__(self) -> tuple[Any, ...]:
        # Restores by message and members, independent of the constructor's parameters.
        return _restore_error, (type(self), self.args, self.__dict__)


def _is_library(file: str) -> bool:
    """Return whether a file of a traceback belongs to Morrow, to another package, or to Python."""
    import sysconfig
    from pathlib import Path

    places = (str(Path(__file__).parents[1]), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))
    return file.startswith("<frozen") or any(Path(file).is_relative_to(place) for place in places)


E = TypeVar("E", bound=MorrowError)

MAX_REMEMBERED_ERRORS = 64
"""Maximum errors that `remember` holds; `find_remembered` finds no older errors."""
_remembered: deque[MorrowError] = deque(maxlen=MAX_REMEMBERED_ERRORS)


def remember(error: E) -> E:
    """Remember an error for `find_remembered`, and return it without its trace: some libraries preserve only text."""
    error = error.with_traceback(None)
    _remembered.append(error)
    return error


def find_remembered(text: str) -> MorrowError | None:
    """Return the newest remembered error whose message is in the message of another library."""
    return next((error for error in reversed(_remembered) if str(error) in text), None)


def _restore_error(kind: type[MorrowError], arguments: tuple[Any, ...], members: dict[str, Any]) -> MorrowError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
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


OTHER_WRITER = "read it by the program that wrote it"
"""The hint for bytes that Morrow does not know, but that another writer may have written on purpose."""
UNCHECKED_COMMITS = (
    "commits that did not check each other leave it, and so does damage: read an older snapshot, or roll back to one"
)
MISWRITTEN = (
    "pyarrow's ORC writer leaves it for nulls within structs, and so does damage: write the rows again as Parquet, "
    "restore the file from a backup, or read an older snapshot or tag"
)
"""The hint about members of structs whose values may be shifted."""
NOT_UTF8 = "a cast of bytes in Spark or Flink leaves it, as damage does: mend the values there, or read them there"


class CommitConflict(MorrowError):
    """A conflict with another commit that cannot be reconciled; nothing of this commit is visible."""


class InvalidArgument(MorrowError, ValueError):
    """A wrong call: an unknown column, a filter that does not parse, a bad option value."""


class AlreadyExists(InvalidArgument):
    """A database, table or column of this name that exists already; it was not touched."""


class StorageError(MorrowError, OSError):
    """An error of the file system or object store other than "no such file"."""


class UnclearOutcome(StorageError):
    """A create whose outcome is unknown: the store gave no answer, or an ambiguous one.

    The file may exist now or appear later. Look it up: if it has the caller's own content, it was created (call
    `FileStore.sync` on it before acknowledging anything). If it has other content or does not exist, it was not.
    """


class UnsafePath(MorrowError):
    """A path in metadata, or a link, that leads outside of the table; nothing there was opened, written or removed."""


class NotFound(MorrowError, LookupError):
    """Something named by the caller or by metadata that does not exist."""


class TableNotFound(NotFound):
    """A missing folder, or a folder without a Paimon schema."""


class DatabaseNotFound(NotFound):
    """A database without a folder in the warehouse."""


class FileMissing(NotFound):
    """A file that metadata names but the store does not have."""

    def __init__(
        self, path: str, *, hint: str = "the snapshot may have expired while it was read; open the table again"
    ) -> None:
        super().__init__(f"{path}: no such file; {hint}")
        self.path = path


class SnapshotNotFound(NotFound):
    """A snapshot id that does not exist, or a time with no snapshot at or before it."""


class SnapshotExpired(SnapshotNotFound):
    """A snapshot that was removed by expiry, a rollback or the deletion of its tag, and that no tag keeps."""


class TagNotFound(NotFound):
    """A tag name that does not exist."""


class BranchNotFound(NotFound):
    """A branch name that does not exist."""


class ColumnNotFound(NotFound, InvalidArgument):
    """A column that is not in the schema read."""
