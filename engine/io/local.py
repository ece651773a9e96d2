"""The local file system as a file store."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
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
        return _mode_is(path, stat.S_ISREG)

    def list(self, folder: str) -> list[FileStatus]:
        try:
            with os.scandir(folder) as entries:
                return [status for entry in entries if (status := _status(entry)) is not None]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _explained(error, folder) from error

    def is_dir(self, folder: str) -> bool:
        return _mode_is(folder, stat.S_ISDIR)

    def url(self, path: str) -> str:
        return path


def _status(entry: os.DirEntry[str]) -> FileStatus | None:
    """None for an entry that is gone again: the rest of the folder is still there."""
    try:
        found = entry.stat()
    except FileNotFoundError:
        return None
    return FileStatus(entry.name, found.st_size, found.st_mtime_ns // NANOS_PER_MILLI, stat.S_ISDIR(found.st_mode))


def _mode_is(path: str, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(Path(path).stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _explained(error, path) from error


def _explained(error: OSError, path: str) -> FileMissing | StorageError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return FileMissing(path)
    return StorageError(f"{path}: {error.strerror or error}; check the path and its permissions")
