"""The local file system as a file store."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from morrow.engine.errors import FileMissing, MorrowError, StorageError, UnclearOutcome, Unsupported
from morrow.engine.io import durability
from morrow.engine.io.store import FileStatus

NANOS_PER_MILLI = 1_000_000

NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})
"""How file systems say that they have no hard links (exFAT, and some that are mounted over a network)."""

WHAT_TO_DO: Mapping[int | None, str] = {
    errno.ENOSPC: "make room on the disk and try again",
    errno.EDQUOT: "make room within the quota and try again",
    errno.EROFS: "mount the file system for writing",
    errno.EACCES: "give this user the permission, or run as one who has it",
    errno.EPERM: "give this user the permission, or run as one who has it",
    errno.EIO: "check the disk before writing to it again",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}
"""Error number -> the second half of the message."""


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

    def create(self, path: str, data: bytes) -> bool:
        target = Path(path)
        try:
            durability.make_folder(target.parent)
            return durability.create_file(target, data)
        except durability.Unclear as error:
            raise UnclearOutcome(
                f"{path}: {error.strerror}, and whether the file was created is not known; look for it"
            ) from error
        except OSError as error:
            if error.errno in NO_LINKS and error.filename2 is not None:
                raise Unsupported(
                    "creating a file only where none is, without hard links,",
                    where=path,
                    hint="keep the table on a file system that has them (ext4, XFS, APFS, NTFS, NFS) "
                    "or in an object store",
                ) from error
            raise _unwritten(error, path) from error

    def write(self, path: str, data: bytes) -> None:
        target = Path(path)
        with _writing(path):
            durability.make_folder(target.parent)
            durability.replace_file(target, data)

    @contextmanager
    def output(self, path: str) -> Iterator[BinaryIO]:
        target = Path(path)
        with _writing(path):
            durability.make_folder(target.parent)
            stream = target.open("xb")
            try:
                with stream:
                    yield stream
                    stream.flush()
                    durability.sync_descriptor(stream.fileno())
                durability.sync_folder(target.parent)
            except BaseException:
                with suppress(OSError):
                    target.unlink()
                raise

    def local_target(self, path: str) -> str | None:
        with _writing(path):
            durability.make_folder(Path(path).parent)
        return path

    def sync(self, paths: Sequence[str]) -> None:
        for path in paths:
            with _writing(path):
                durability.sync_file(Path(path))
        for folder in dict.fromkeys(Path(path).parent for path in paths):
            with _writing(str(folder)):
                durability.sync_folder(folder)

    def delete(self, path: str) -> bool:
        try:
            Path(path).unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _explained(error, path) from error
        return True

    def discard(self, paths: Sequence[str]) -> None:
        for path in paths:
            with suppress(OSError):
                Path(path).unlink()

    def delete_folder(self, folder: str) -> None:
        target = Path(folder)
        with _writing(folder):
            while target.is_dir():
                # Others may be removing the same files.
                with suppress(FileNotFoundError):
                    shutil.rmtree(target)
                    durability.sync_folder(target.parent)

    def make_folder(self, folder: str) -> None:
        with _writing(folder):
            durability.make_folder(Path(folder))

    def move_folder(self, source: str, target: str) -> None:
        before, after = Path(source), Path(target)
        with _writing(source):
            durability.make_folder(after.parent)
            before.rename(after)
            for parent in {before.parent, after.parent}:
                durability.sync_folder(parent)


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


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except MorrowError:
        raise
    except OSError as error:
        raise _unwritten(error, path) from error


def _explained(error: OSError, path: str) -> FileMissing | StorageError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return FileMissing(path)
    return _unwritten(error, path)


def _unwritten(error: OSError, path: str) -> StorageError:
    what_to_do = WHAT_TO_DO.get(error.errno, "check the path and its permissions")
    return StorageError(f"{path}: {error.strerror or error}; {what_to_do}")
