"""The `FileStore` protocol, which engine, readers and writers use, and streams over its files.

A path is a string with ``/`` between its segments, absolute within its store: a local absolute path, or the key
inside a bucket. One store serves one root (a file system, a bucket); `resolve` picks it for a user's location.

When a write method returns, its change is durable: it survives a loss of power. When one raises, it left nothing that
a reader can see, except for `UnclearOutcome`.

A stream for reading requests ranges of the file when they are needed. A stream for writing passes its bytes on to
a function.
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
    """One entry of a folder listing: last path segment, size in bytes, modification time in epoch milliseconds."""

    name: str
    size: int
    modified_millis: int
    is_dir: bool = False


Walk: TypeAlias = Iterator[list[tuple[str, FileStatus]]]
"""Lists of paths, each with its status."""


def has_urls(store: object) -> bool:
    """Return whether Polars can open what `FileStore.url` gives; it is handed the bytes of files otherwise."""
    return bool(getattr(store, "has_urls", True))


def get_url_options(store: FileStore) -> Mapping[str, str]:
    """Return the options with which Polars opens what `FileStore.url` gives."""
    found: Mapping[str, str] = getattr(store, "url_options", store.storage_options)
    return found


def write_hint(store: FileStore, path: str, data: bytes) -> None:
    """Replace a hint, which saves a search: a loss of power may leave the one before, or an empty file.

    A local disk is not asked to wait for it; a store without `write_hint` writes it as any other file.
    """
    getattr(store, "write_hint", store.write)(path, data)


class FileStore(Protocol):
    """Reads and writes of whole files, ranges and folders.

    Every method raises `StorageError` for any other failure. Methods that write make missing folders.
    """

    def read(self, path: str) -> bytes:
        """Return the whole file. Raises `FileMissing`."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return `length` bytes from `start`; fewer only at the end of the file. Raises `FileMissing`."""

    def open(self, path: str) -> BinaryIO:
        """Return a seekable stream for readers that fetch what they need. Raises `FileMissing`."""

    def size(self, path: str) -> int | None:
        """Return the size in bytes, None when there is no such file."""

    def exists(self, path: str) -> bool:
        """Return whether a file (not a folder) exists."""

    def list(self, folder: str) -> list[FileStatus]:
        """Return the files and folders directly in `folder`, unordered; empty when there is no such folder."""

    def walk(self, folder: str) -> Walk:
        """Yield all that is below `folder` with its path, `WALKED_AT_ONCE` at a time; nothing when it does not exist.

        Folders, where the store has any, come after their contents. Links to elsewhere are left out. Files created or
        removed meanwhile may be among them or not; memory does not grow with the number of files.
        """

    def is_dir(self, folder: str) -> bool:
        """Return whether the folder exists (object stores: whether anything has that prefix)."""

    def url(self, path: str) -> str:
        """Return what Polars and DuckDB open: the path itself on a local disk, ``s3://bucket/key`` elsewhere."""

    @property
    def is_local(self) -> bool:
        """Whether `url` is a path of this machine."""

    @property
    def checks_pages(self) -> bool:
        """Whether the page checksums of data files are checked before they are read."""

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Credentials and endpoint for Polars, empty on a local disk. Never printed."""

    def create(self, path: str, data: bytes) -> bool:
        """Create a whole file where none exists: atomic among all processes, and durable.

        Returns True if this very call created the file, False if there is one, created by another call, which is left
        as it was. Readers never see a part of it. Raises `UnclearOutcome` when the store does not tell whether it was
        created, and `Unsupported` when it cannot create atomically.
        """

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file under a name that no other writer uses, or replace a hint; atomic and durable."""

    def output(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a stream into a new file under a name that no other writer uses.

        The file is durable when the block ends; there is no file when it raises.
        """

    def local_target(self, path: str) -> str | None:
        """Return where a writer in native code may write this new file by itself, its folder made; then call `sync`.

        None where such writers cannot be used: use `output`.
        """

    def sync(self, paths: Sequence[str]) -> None:
        """Make files written through `local_target` durable, syncing each folder once."""

    def delete(self, path: str) -> bool:
        """Remove a file; return False when there was none."""

    def delete_many(self, paths: Sequence[str]) -> None:
        """Remove files, durably; ignore those that are gone already.

        Raises:
            StorageError: some could not be removed. All the others were.
        """

    def move(self, source: str, target: str) -> None:
        """Rename a file, durably; a file of the new name is replaced.

        Atomic on a file system; in an object store both names exist for a moment. Raises `FileMissing`.
        """

    def remove_empty_folder(self, folder: str) -> bool:
        """Remove an empty folder; does nothing and return False where it is not empty or does not exist.

        Object stores, whose folders end with their last file, always return False.
        """

    def discard(self, paths: Sequence[str]) -> None:
        """Remove files that no reader will look for, at once if the store can. Ignores errors: the files stay then."""

    def delete_folder(self, folder: str) -> None:
        """Remove a folder and everything in it; does nothing when there is none."""

    def make_folder(self, folder: str) -> None:
        """Make a folder with its parents, durably; does nothing when it exists."""

    def move_folder(self, source: str, target: str) -> None:
        """Rename a folder, atomically and durably; the target must not exist.

        Raises `Unsupported` where that takes many steps: in object stores.
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
    """A stream whose bytes go to `write`, which returns how many it has taken; closing it closes nothing else."""

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
