"""The file store that the engine, the readers and the writers are written against.

A path is a string with ``/`` between its segments, absolute within its store: a local absolute path, or the key
inside a bucket. One store serves one root (a file system, a bucket); `resolve` picks it from what a user typed.

What a write method has returned from is durable: it survives a loss of power. What one has raised from left nothing
that a reader can see, except for `UnclearOutcome`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol, TypeAlias

WALKED_AT_ONCE = 1000
"""Files that `FileStore.walk` hands over together."""


@dataclass(frozen=True)
class FileStatus:
    """One entry of a folder listing: last path segment, size in bytes, modification time in epoch milliseconds."""

    name: str
    size: int
    modified_millis: int
    is_dir: bool = False


Walk: TypeAlias = Iterator[list[tuple[str, FileStatus]]]
"""Pieces of paths with what is there."""


class FileStore(Protocol):
    """Reads and writes of whole files, ranges and folders.

    Every method raises `StorageError` for what it cannot explain. Missing folders are made by what writes into them.
    """

    def read(self, path: str) -> bytes:
        """The whole file. Raises `FileMissing`."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`; fewer only at the end of the file. Raises `FileMissing`."""

    def open(self, path: str) -> BinaryIO:
        """A seekable stream for readers that fetch what they need. Raises `FileMissing`."""

    def size(self, path: str) -> int | None:
        """Size in bytes, None when there is no such file."""

    def exists(self, path: str) -> bool:
        """Whether a file (not a folder) is there."""

    def list(self, folder: str) -> list[FileStatus]:
        """Files and folders directly in `folder`, unordered; empty when there is no such folder."""

    def walk(self, folder: str) -> Walk:
        """Everything below `folder` with its path, in pieces of `WALKED_AT_ONCE`; nothing when there is no such folder.

        Folders, where the store has any, come after what is in them. Links to elsewhere are left out. What comes or
        goes meanwhile may be among them or not; memory does not grow with the number of files.
        """

    def is_dir(self, folder: str) -> bool:
        """Whether the folder exists (object stores: whether anything has that prefix)."""

    def url(self, path: str) -> str:
        """What Polars and DuckDB open: the path itself on a local disk, ``s3://bucket/key`` elsewhere."""

    @property
    def is_local(self) -> bool:
        """Whether `url` is a path of this machine."""

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Credentials and endpoint for Polars, empty on a local disk. Never printed."""

    def create(self, path: str, data: bytes) -> bool:
        """Put a whole file where none is: atomic among all processes, and durable.

        True: this very call created the file. False: there is one, put by another call, and it was not touched.
        Nobody ever sees a part of it. Raises `UnclearOutcome` when the store does not tell, and `Unsupported` when
        it cannot create atomically.
        """

    def write(self, path: str, data: bytes) -> None:
        """Put a whole file of a name that is nobody else's, or replace a hint; atomic and durable."""

    def output(self, path: str) -> AbstractContextManager[BinaryIO]:
        """A stream into a new file of a name that is nobody else's.

        Durable when the block ends; there is no file when it raises.
        """

    def local_target(self, path: str) -> str | None:
        """Where a writer in native code may write this new file by itself, its folder made; then call `sync`.

        None where such writers cannot be used: take `output`.
        """

    def sync(self, paths: Sequence[str]) -> None:
        """Make files written through `local_target` durable, each folder once."""

    def delete(self, path: str) -> bool:
        """Remove a file; False when there was none."""

    def delete_many(self, paths: Sequence[str]) -> None:
        """Remove files, durably; those that are gone already are fine.

        Raises:
            StorageError: some could not be removed. All the others were.
        """

    def move(self, source: str, target: str) -> None:
        """Give a file another name, durably; a file of the new name is replaced.

        At once on a file system; in an object store both names are there for a moment. Raises `FileMissing`.
        """

    def remove_empty_folder(self, folder: str) -> bool:
        """Remove a folder in which nothing is; False, and nothing happens, where something is or there is none.

        Object stores, whose folders end with their last file, always answer False.
        """

    def discard(self, paths: Sequence[str]) -> None:
        """Remove files that nobody will look for, at once if the store can. What cannot be removed stays: no error."""

    def delete_folder(self, folder: str) -> None:
        """Remove a folder and everything in it; nothing happens when there is none."""

    def make_folder(self, folder: str) -> None:
        """Make a folder that lasts with its parents; nothing happens when it is there."""

    def move_folder(self, source: str, target: str) -> None:
        """Give a folder another name, at once and durably; the target must not be there.

        Raises `Unsupported` where that is many steps: in object stores.
        """
