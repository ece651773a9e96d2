"""The local file system as a file store."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from morrow.engine.errors import FileMissing, MorrowError, StorageError, UnclearOutcome, Unsupported
from morrow.engine.io import durability
from morrow.engine.io.store import WALKED_AT_ONCE, FileStatus, Walk
from morrow.engine.io.system_errors import storage_error
from morrow.engine.units import NANOS_PER_MILLI

T = TypeVar("T")


NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})
"""Error numbers of file systems without hard links (exFAT, and some that are mounted over a network)."""

NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})
"""Error numbers for a folder that is not empty."""


class LocalStore:
    """Files of this machine; paths are absolute."""

    is_local = True
    checks_pages = False
    storage_options: Mapping[str, str] = {}

    def read(self, path: str) -> bytes:
        try:
            with open(path, "rb", buffering=0) as stream:  # noqa: PTH123  # a Path takes as long to make as this
                return stream.readall()
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
            return os.stat(path).st_size  # noqa: PTH116  # called for every data file: a Path takes longer to make
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

    def walk(self, folder: str) -> Walk:
        return _in_pieces(_below(folder), WALKED_AT_ONCE)

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
            raise storage_error(error, path) from error

    def write(self, path: str, data: bytes) -> None:
        target = Path(path)
        with _writing(path):
            durability.make_folder(target.parent)
            durability.replace_file(target, data)

    def write_hint(self, path: str, data: bytes) -> None:
        """Replaces a hint without waiting for the disk, see `store.write_hint`."""
        target = Path(path)
        with _writing(path):
            durability.make_folder(target.parent)
            durability.replace_file(target, data, lasting=False)

    @contextmanager
    def output(self, path: str) -> Iterator[BinaryIO]:
        target = Path(path)
        with _writing(path):
            durability.make_folder(target.parent)
            stream = durability.new_stream(target)
            try:
                with stream:
                    yield cast(BinaryIO, stream)
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

    def delete_many(self, paths: Sequence[str]) -> None:
        failed: list[StorageError] = []
        for path in paths:
            try:
                os.unlink(path)  # noqa: PTH108  # a Path takes longer to make than a file to remove
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                failed.append(storage_error(error, path))
        for folder in dict.fromkeys(path.rpartition("/")[0] for path in paths):
            # Another process may have removed the folder, which was empty then.
            with _writing(folder), suppress(FileNotFoundError, NotADirectoryError):
                durability.sync_folder(Path(folder))
        if failed:
            raise failed[0]

    def move(self, source: str, target: str) -> None:
        before, after = Path(source), Path(target)
        with _writing(source):
            durability.make_folder(after.parent)
        try:
            before.replace(after)
        except OSError as error:
            raise _explained(error, source) from error
        with _writing(source):
            for parent in {before.parent, after.parent}:
                durability.sync_folder(parent)

    def remove_empty_folder(self, folder: str) -> bool:
        target = Path(folder)
        try:
            target.rmdir()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno in NOT_EMPTY:
                return False
            raise _explained(error, folder) from error
        with _writing(folder), suppress(FileNotFoundError, NotADirectoryError):
            durability.sync_folder(target.parent)
        return True

    def discard(self, paths: Sequence[str]) -> None:
        for path in paths:
            with suppress(OSError):
                Path(path).unlink()

    def delete_folder(self, folder: str) -> None:
        target = Path(folder)
        with _writing(folder):
            while target.is_dir():
                # Other processes may be removing the same files.
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
    """Returns None for an entry that was removed since: the rest of the folder is still there."""
    try:
        found = entry.stat()
    except FileNotFoundError:
        return None
    return FileStatus(entry.name, found.st_size, found.st_mtime_ns // NANOS_PER_MILLI, stat.S_ISDIR(found.st_mode))


def _below(folder: str) -> Iterator[tuple[str, FileStatus]]:
    """Yields the files and folders below a folder, folders last; holds the names of the folders on the way only."""
    inner: list[tuple[str, FileStatus]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink() or (status := _status(entry)) is None:
                    continue
                if status.is_dir:
                    inner.append((entry.path, status))
                else:
                    yield entry.path, status
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _explained(error, folder) from error
    for path, status in inner:
        yield from _below(path)
        yield path, status


def _in_pieces(found: Iterator[T], most: int) -> Iterator[list[T]]:
    while piece := list(islice(found, most)):
        yield piece


def _mode_is(path: str, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(os.stat(path).st_mode)  # noqa: PTH116  # as in `size`
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
        raise storage_error(error, path) from error


def _explained(error: OSError, path: str) -> FileMissing | StorageError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return FileMissing(path)
    return storage_error(error, path)
