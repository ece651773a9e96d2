"""Stores of files: what each offers, errors of the system, and concurrent requests.

A path is a string with ``/`` between its segments, absolute within its store: a local absolute path, or the key
inside a bucket. A store has one root (a file system or a bucket); `resolve` selects the store for a user's location.

When a write method returns, its change is durable: it survives a power loss. When a write method raises, readers see
no change, except with `UnclearOutcome`.

A stream for reading requests ranges of the file on demand. A stream for writing passes its bytes to a function.

Polars, Arrow and DuckDB open files themselves. They report failures as text, often without the error number, and with
the same error types as for damaged bytes. A file without read permission must not be reported as damaged.

A local disk answers faster than a thread starts, so it is read file by file without threads.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO, Protocol, TypeAlias, TypeVar

import msgspec

from morrow.engine.errors import FileMissing, MorrowError, StorageError

PERMISSION = "give this user the permission, or run as one who has it"
MEMORY = "give the process more memory, or read fewer columns or rows at once"

WHAT_TO_DO: Mapping[int | None, str] = {
    errno.ENOSPC: "make room on the disk and try again",
    errno.EDQUOT: "make room within the quota and try again",
    errno.EFBIG: "the file system takes no larger files; choose a smaller 'target-file-size'",
    errno.EROFS: "mount the file system for writing",
    errno.EACCES: PERMISSION,
    errno.EPERM: PERMISSION,
    errno.EIO: "check the disk before writing to it again",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit of open files, or close others",
    errno.ENOMEM: MEMORY,
    errno.EISDIR: "a folder is where a file should be; move it away",
    errno.ENXIO: "something else than a file is there; move it away",
    errno.ESTALE: "the file system was changed elsewhere; mount it again and try again",
    errno.ETIMEDOUT: "the file system does not answer; try again when it does",
    errno.EHOSTDOWN: "the file system does not answer; try again when it does",
    errno.ENOTCONN: "the file system is not connected; mount it again and try again",
    errno.ELOOP: "a link leads to itself; remove it",
}
"""Error number -> second half of the message."""

NUMBER = r"\(os error (\d+)\)|\[[Ee]rrno:? (\d+)\]|Os \{ code: (\d+)"
"""The forms in which Rust, Python and Arrow print the error number."""
_WORDS = {os.strerror(number).lower(): number for number in (*filter(None, WHAT_TO_DO), errno.ENOENT)}
_KINDS: Mapping[type[OSError], int] = {
    PermissionError: errno.EACCES,
    IsADirectoryError: errno.EISDIR,
    TimeoutError: errno.ETIMEDOUT,
}


def find_error_number(error: BaseException) -> int | None:
    """Return the operating system's error number; None for other errors."""
    known = getattr(error, "errno", None) if isinstance(error, OSError) else None
    if known is None:
        known = next((number for kind, number in _KINDS.items() if isinstance(error, kind)), None)
    if known is None and (found := re.search(NUMBER, str(error))) is not None:
        known = int(next(filter(None, found.groups())))
    if known is None:
        text = str(error).lower()
        known = next((number for words, number in _WORDS.items() if words in text), None)
    return known


def is_full(error: BaseException) -> bool:
    """Return whether an error means that the disk is full or a quota is exceeded."""
    return find_error_number(error) in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def ignore_full_disk() -> Iterator[None]:
    """Ignore a full disk within the block, for optional writes such as hints."""
    try:
        yield
    except StorageError as error:
        if not is_full(error):
            raise


def to_system_error(error: BaseException, path: str) -> FileMissing | StorageError | None:
    """Return Morrow's error for an operating system error about a file; None for other errors."""
    number = find_error_number(error)
    if number in (errno.ENOENT, errno.ENOTDIR):
        return FileMissing(path)
    return (
        _make_storage_error(number, os.strerror(number), path) if number in WHAT_TO_DO and number is not None else None
    )


def to_storage_error(error: OSError, path: str) -> StorageError:
    """Return the `StorageError` for an operating system error about a file, with a remedy and the same `errno`."""
    return _make_storage_error(error.errno, str(error.strerror or error), path)


def _make_storage_error(number: int | None, words: str, path: str) -> StorageError:
    error = StorageError(f"{path}: {words}; {WHAT_TO_DO.get(number, 'check the path and its permissions')}")
    error.errno = number
    return error


@contextmanager
def translate_system_errors(path: str, *others: type[Exception]) -> Iterator[None]:
    """Turn operating system errors into `StorageError`, for code in the block that accesses a file by itself.

    `others` are further classes, besides `OSError`, that may contain a system error. Other errors pass unchanged.
    """
    try:
        yield
    except MorrowError:
        raise
    except OSError as error:
        raise to_storage_error(error, path) if error.errno else to_system_error(error, path) or error from error
    except others as error:
        found = to_system_error(error, path)
        if found is None:
            raise
        raise found from error


WALKED_AT_ONCE = 1000
"""Number of files that `FileStore.walk` yields together."""


class FileStatus(msgspec.Struct, frozen=True):
    """An entry of a folder listing: last path segment, size in bytes, modification time in epoch milliseconds."""

    name: str
    size: int
    modified_millis: int
    is_dir: bool = False


Walk: TypeAlias = Iterator[list[tuple[str, FileStatus]]]
"""Lists of paths, each with its status."""


def has_urls(store: object) -> bool:
    """Return whether Polars can open `FileStore.url`; otherwise Polars gets the bytes of files."""
    return bool(getattr(store, "has_urls", True))


def get_url_options(store: FileStore) -> Mapping[str, str]:
    """Return the options with which Polars opens `FileStore.url`."""
    found: Mapping[str, str] = getattr(store, "url_options", store.storage_options)
    return found


def write_hint(store: FileStore, path: str, data: bytes) -> None:
    """Replace a hint file, which saves a search. A power loss may leave the previous hint or an empty file.

    On a local disk, the hint is not synced. A store without `write_hint` writes it like any other file.
    """
    getattr(store, "write_hint", store.write)(path, data)


class FileStore(Protocol):
    """A store of files: reads and writes of whole files, ranges and folders.

    Every method raises `StorageError` for other failures. Methods that write create missing folders.
    """

    def read(self, path: str) -> bytes:
        """Return the whole file. Raises `FileMissing`."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return `length` bytes from `start`; fewer only at the end of the file. Raises `FileMissing`."""

    def open(self, path: str) -> BinaryIO:
        """Return a seekable stream that fetches ranges on demand. Raises `FileMissing`."""

    def size(self, path: str) -> int | None:
        """Return the size in bytes; None if the file does not exist."""

    def exists(self, path: str) -> bool:
        """Return whether a file (not a folder) exists."""

    def list(self, folder: str) -> list[FileStatus]:
        """Return the files and folders directly in `folder`, unordered; empty if the folder does not exist."""

    def walk(self, folder: str) -> Walk:
        """Yield everything below `folder` with its path, in lists of `WALKED_AT_ONCE`; nothing if it does not exist.

        Folders, if the store has any, come after their contents. Links to other places are left out. Files that are
        created or removed meanwhile may or may not be included. Memory use does not depend on the number of files.
        """

    def is_dir(self, folder: str) -> bool:
        """Return whether the folder exists (object stores: whether anything has that prefix)."""

    def url(self, path: str) -> str:
        """Return the URL for Polars and DuckDB: the path itself on a local disk, else such as ``s3://bucket/key``."""

    @property
    def is_local(self) -> bool:
        """Whether `url` is a local path."""

    @property
    def checks_pages(self) -> bool:
        """Whether the page checksums of data files are verified before the files are read."""

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Credentials and endpoint for Polars; empty on a local disk. Never printed."""

    def create(self, path: str, data: bytes) -> bool:
        """Create a whole file if it does not exist, atomically among all processes and durably.

        Returns True if this very call created the file, False if the file already exists, which is left unchanged.
        Readers never see a partial file. Raises `UnclearOutcome` if it is unknown whether the file was created, and
        `Unsupported` if the store cannot create files atomically.
        """

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file under a name that no other writer uses, or replace a hint; atomic and durable."""

    def output(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a stream into a new file under a name that no other writer uses.

        The file is durable when the block ends. If the block raises, the file does not exist.
        """

    def local_target(self, path: str) -> str | None:
        """Return the path where native code may write this new file, and create its folder; call `sync` afterwards.

        None if native writers cannot be used: use `output`.
        """

    def sync(self, paths: Sequence[str]) -> None:
        """Make files written through `local_target` durable, syncing each folder once."""

    def delete(self, path: str) -> bool:
        """Remove a file; return False if it did not exist."""

    def delete_many(self, paths: Sequence[str]) -> None:
        """Remove files, durably; ignore files that do not exist.

        Raises `StorageError`: some files could not be removed; all others were.
        """

    def move(self, source: str, target: str) -> None:
        """Rename a file, durably; an existing file of the new name is replaced.

        Atomic on a file system; in an object store both names exist for a moment. Raises `FileMissing`.
        """

    def remove_empty_folder(self, folder: str) -> bool:
        """Remove an empty folder; return False if it is not empty or does not exist.

        Object stores always return False, since their folders disappear with the last file.
        """

    def discard(self, paths: Sequence[str]) -> None:
        """Remove files that readers will not look for, in one request if possible. Ignores errors: files then stay."""

    def delete_folder(self, folder: str) -> None:
        """Remove a folder and everything in it; do nothing if it does not exist."""

    def make_folder(self, folder: str) -> None:
        """Create a folder with its parents, durably; do nothing if it exists."""

    def move_folder(self, source: str, target: str) -> None:
        """Rename a folder, atomically and durably; the target must not exist.

        Raises `Unsupported` in object stores, where this takes many steps.
        """


class RangeInput(io.RawIOBase):
    """A seekable stream over ranges of one file of `size` bytes; `read_range` takes an offset and a length."""

    def __init__(self, read_range: Callable[[int, int], bytes], size: int) -> None:
        self._read_range, self._size = read_range, size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        data = self._read_range(self._position, length)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class RangeOutput(io.RawIOBase):
    """A stream that passes its bytes to `write`, which returns how many it accepted; closing it closes nothing else."""

    def __init__(self, write: Callable[[bytes], int]) -> None:
        self._write = write
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        written = self._write(bytes(data))
        self._position += written
        return written


MAX_CONCURRENT_READS = 32
"""The number of small files read at once."""
MAX_READ_AHEAD = 512
"""Maximum number of files read ahead; initially fewer, since some callers need only the first file."""

T = TypeVar("T")
K = TypeVar("K")


def read_each(store: FileStore, read: Callable[[K], T], names: Sequence[K]) -> Iterator[T]:
    """Yield `read(name)` for each name in order, and read ahead of the caller."""
    if store.is_local or len(names) < 2:
        yield from map(read, names)
        return
    start, ahead = 0, MAX_CONCURRENT_READS
    with ThreadPoolExecutor(MAX_CONCURRENT_READS) as pool:
        while start < len(names):
            yield from pool.map(read, names[start : start + ahead])
            start, ahead = start + ahead, min(2 * ahead, MAX_READ_AHEAD)


def call_both(store: FileStore, one: Callable[[], T], other: Callable[[], K]) -> tuple[T, K]:
    """Call both functions concurrently and return their results; if both fail, raise the error of `one`."""
    if store.is_local:
        return one(), other()
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(other)
        return one(), ahead.result()


def start_request(store: FileStore, ask: Callable[[], T]) -> Callable[[], T]:
    """Start a request to a remote store; return a function that waits for the answer and raises the errors of `ask`.

    For a local disk, the request is made immediately, and errors are raised immediately.
    """
    if store.is_local:
        answer = ask()
        return lambda: answer
    with_thread = ThreadPoolExecutor(1)
    asked = with_thread.submit(ask)
    with_thread.shutdown(wait=False)
    return asked.result
