"""The local file system as a file store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from morrow.engine.errors import FileMissing, StorageError
from morrow.engine.io.store import FileStatus

NANOS_PER_MILLI = 1_000_000


class LocalStore:
    """Files of this machine; paths are absolute."""

    is_local = True
    storage_options: Mapping[str, str] = {}

    def read(self, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise _explained(error, path) from error

    def read_range(self, path: str, start: int, length: int) -> bytes:
        with self.open(path) as stream:
            try:
                stream.seek(start)
                return stream.read(length)
            except OSError as error:
                raise _explained(error, path) from error

    def open(self, path: str) -> BinaryIO:
        try:
            return Path(path).open("rb")
        except OSError as error:
            raise _explained(error, path) from error

    def size(self, path: str) -> int | None:
        try:
            return Path(path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _explained(error, path) from error

    def exists(self, path: str) -> bool:
        return Path(path).is_file()

    def list(self, folder: str) -> list[FileStatus]:
        try:
            with os.scandir(folder) as entries:
                return [_status(entry) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _explained(error, folder) from error

    def is_dir(self, folder: str) -> bool:
        return Path(folder).is_dir()

    def url(self, path: str) -> str:
        return path


def _status(entry: os.DirEntry[str]) -> FileStatus:
    stat = entry.stat()
    return FileStatus(entry.name, stat.st_size, stat.st_mtime_ns // NANOS_PER_MILLI, entry.is_dir())


def _explained(error: OSError, path: str) -> FileMissing | StorageError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return FileMissing(path)
    return StorageError(f"{path}: {error.strerror or error}; check the path and its permissions")
