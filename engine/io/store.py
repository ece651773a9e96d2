"""The `FileStore` protocol, which engine, readers and writers use, and streams over its files.

A path is a string with ``/`` between its segments, absolute within its store: a local absolute path, or the key
inside a bucket. A store has one root (a file system or a bucket); `resolve` selects the store for a user's location.

When a write method returns, its change is durable: it survives a power loss. When a write method raises, readers see
no change, except with `UnclearOutcome`.

A stream for reading requests ranges of the file on demand. A stream for writing passes its bytes to a function.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, Protocol, TypeAlias

import msgspec

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

        Raises:
            StorageError: some files could not be removed; all others were.
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
