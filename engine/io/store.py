"""The file store that the engine and the readers are written against.

A path is a string with ``/`` between its segments, absolute within its store: a local absolute path, or the key
inside a bucket. One store serves one root (a file system, a bucket); `resolve` picks it from what a user typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True)
class FileStatus:
    """One entry of a folder listing: last path segment, size in bytes, modification time in epoch milliseconds."""

    name: str
    size: int
    modified_millis: int
    is_dir: bool = False


class FileStore(Protocol):
    """Reads of whole files, ranges and folders. Every method raises `StorageError` for what it cannot explain."""

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
