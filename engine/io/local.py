"""The local file system as a file store, with durable and atomic creation of files.

A file's bytes are durable once the file is synced, its name once its folder is synced. Both are needed; for a new
folder its parents are synced as well. A file that must not replace another one is written under a hidden name and then
linked: a link never replaces a file, and the linked file is complete and synced.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from morrow.engine.errors import FileMissing, MorrowError, StorageError, UnclearOutcome, Unsupported
from morrow.engine.io.store import WALKED_AT_ONCE, FileStatus, Walk, to_storage_error
from morrow.engine.units import NANOS_PER_MILLI

T = TypeVar("T")

NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})
"""Error numbers of file systems without hard links (exFAT, and some network file systems)."""

NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})
"""Error numbers for a folder that is not empty."""


class LocalStore:
    """The local file system; paths are absolute."""

    is_local = True
    checks_pages = False
    storage_options: Mapping[str, str] = {}

    def read(self, path: str) -> bytes:
        try:
            with open(path, "rb", buffering=0) as stream:  # noqa: PTH123  # creating a Path takes as long as this read
                return stream.readall()
        except OSError as error:
            raise _explain_error(error, path) from error

    def read_range(self, path: str, start: int, length: int) -> bytes:
        with self.open(path) as stream:
            try:
                stream.seek(start)
                return stream.read(length)
            except OSError as error:
                raise _explain_error(error, path) from error

    def open(self, path: str) -> BinaryIO:
        try:
            return Path(path).open("rb")
        except OSError as error:
            raise _explain_error(error, path) from error

    def size(self, path: str) -> int | None:
        try:
            return os.stat(path).st_size  # noqa: PTH116  # called for every data file: creating a Path takes longer
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _explain_error(error, path) from error

    def exists(self, path: str) -> bool:
        return _has_mode(path, stat.S_ISREG)

    def list(self, folder: str) -> list[FileStatus]:
        try:
            with os.scandir(folder) as entries:
                return [status for entry in entries if (status := _to_file_status(entry)) is not None]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _explain_error(error, folder) from error

    def walk(self, folder: str) -> Walk:
        return _split_pieces(_walk_below(folder), WALKED_AT_ONCE)

    def is_dir(self, folder: str) -> bool:
        return _has_mode(folder, stat.S_ISDIR)

    def url(self, path: str) -> str:
        return path

    def create(self, path: str, data: bytes) -> bool:
        target = Path(path)
        try:
            make_folder(target.parent)
            return create_file(target, data)
        except Unclear as error:
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
            raise to_storage_error(error, path) from error

    def write(self, path: str, data: bytes) -> None:
        target = Path(path)
        with _explain_write_errors(path):
            make_folder(target.parent)
            replace_file(target, data)

    def write_hint(self, path: str, data: bytes) -> None:
        """Replace a hint without waiting for the disk, see `store.write_hint`."""
        target = Path(path)
        with _explain_write_errors(path):
            make_folder(target.parent)
            replace_file(target, data, lasting=False)

    @contextmanager
    def output(self, path: str) -> Iterator[BinaryIO]:
        target = Path(path)
        with _explain_write_errors(path):
            make_folder(target.parent)
            stream = open_stream(target)
            try:
                with stream:
                    yield cast(BinaryIO, stream)
                    stream.flush()
                    sync_descriptor(stream.fileno())
                sync_folder(target.parent)
            except BaseException:
                with suppress(OSError):
                    target.unlink()
                raise

    def local_target(self, path: str) -> str | None:
        with _explain_write_errors(path):
            make_folder(Path(path).parent)
        return path

    def sync(self, paths: Sequence[str]) -> None:
        for path in paths:
            with _explain_write_errors(path):
                sync_file(Path(path))
        for folder in dict.fromkeys(Path(path).parent for path in paths):
            with _explain_write_errors(str(folder)):
                sync_folder(folder)

    def delete(self, path: str) -> bool:
        try:
            Path(path).unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _explain_error(error, path) from error
        return True

    def delete_many(self, paths: Sequence[str]) -> None:
        failed: list[StorageError] = []
        for path in paths:
            try:
                os.unlink(path)  # noqa: PTH108  # creating a Path takes longer than removing a file
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                failed.append(to_storage_error(error, path))
        for folder in dict.fromkeys(path.rpartition("/")[0] for path in paths):
            # Another process may have removed the empty folder.
            with _explain_write_errors(folder), suppress(FileNotFoundError, NotADirectoryError):
                sync_folder(Path(folder))
        if failed:
            raise failed[0]

    def move(self, source: str, target: str) -> None:
        before, after = Path(source), Path(target)
        with _explain_write_errors(source):
            make_folder(after.parent)
        try:
            before.replace(after)
        except OSError as error:
            raise _explain_error(error, source) from error
        with _explain_write_errors(source):
            for parent in {before.parent, after.parent}:
                sync_folder(parent)

    def remove_empty_folder(self, folder: str) -> bool:
        target = Path(folder)
        try:
            target.rmdir()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno in NOT_EMPTY:
                return False
            raise _explain_error(error, folder) from error
        with _explain_write_errors(folder), suppress(FileNotFoundError, NotADirectoryError):
            sync_folder(target.parent)
        return True

    def discard(self, paths: Sequence[str]) -> None:
        for path in paths:
            with suppress(OSError):
                Path(path).unlink()

    def delete_folder(self, folder: str) -> None:
        target = Path(folder)
        with _explain_write_errors(folder):
            while target.is_dir():
                # Other processes may be removing the same files.
                with suppress(FileNotFoundError):
                    shutil.rmtree(target)
                    sync_folder(target.parent)

    def make_folder(self, folder: str) -> None:
        with _explain_write_errors(folder):
            make_folder(Path(folder))

    def move_folder(self, source: str, target: str) -> None:
        before, after = Path(source), Path(target)
        with _explain_write_errors(source):
            make_folder(after.parent)
            before.rename(after)
            for parent in {before.parent, after.parent}:
                sync_folder(parent)


def _to_file_status(entry: os.DirEntry[str]) -> FileStatus | None:
    """Return the status of an entry, or None if the entry has since been removed."""
    try:
        found = entry.stat()
    except FileNotFoundError:
        return None
    return FileStatus(entry.name, found.st_size, found.st_mtime_ns // NANOS_PER_MILLI, stat.S_ISDIR(found.st_mode))


def _walk_below(folder: str) -> Iterator[tuple[str, FileStatus]]:
    """Yield the files and folders below a folder, each folder after its contents, in memory bounded by the depth."""
    inner: list[tuple[str, FileStatus]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink() or (status := _to_file_status(entry)) is None:
                    continue
                if status.is_dir:
                    inner.append((entry.path, status))
                else:
                    yield entry.path, status
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _explain_error(error, folder) from error
    for path, status in inner:
        yield from _walk_below(path)
        yield path, status


def _split_pieces(found: Iterator[T], most: int) -> Iterator[list[T]]:
    while piece := list(islice(found, most)):
        yield piece


def _has_mode(path: str, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(os.stat(path).st_mode)  # noqa: PTH116  # as in `size`
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _explain_error(error, path) from error


@contextmanager
def _explain_write_errors(path: str) -> Iterator[None]:
    try:
        yield
    except MorrowError:
        raise
    except OSError as error:
        raise to_storage_error(error, path) from error


def _explain_error(error: OSError, path: str) -> FileMissing | StorageError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return FileMissing(path)
    return to_storage_error(error, path)


STEADY_BYTES = 1 << 20
"""Maximum bytes of a file in memory before the system starts writing them to disk."""
SYNC_FILE_RANGE_WRITE = 2

_disabled = 0
_lasting: set[Path] = set()
"""Folders that this process knows to be durable, so that their parents are synced only once."""


@contextmanager
def disable_fsync() -> Iterator[None]:
    """Disable fsync within the block, in all threads: for benchmarks and tests, whose tables may be lost."""
    global _disabled
    _disabled += 1
    try:
        yield
    finally:
        _disabled -= 1


def sync_descriptor(descriptor: int) -> None:
    if not _disabled:
        os.fsync(descriptor)


class SteadyFile(io.FileIO):
    """A new file that the system starts writing to disk while more bytes are added, so that the final sync is short.

    Raises `FileExistsError` if the file exists.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "xb")
        self._written = self._begun = 0

    def write(self, data: Any, /) -> int:
        written = super().write(data)
        self._written += written
        waiting = self._written - self._begun
        if waiting >= STEADY_BYTES and not _disabled:
            begin = _sync_file_range()
            if begin is not None:  # its result does not matter: the final sync reports errors
                begin(self.fileno(), self._begun, waiting, SYNC_FILE_RANGE_WRITE)
            self._begun = self._written
        return written


def open_stream(path: Path) -> io.BufferedWriter:
    """Open a new `SteadyFile` with a buffer; large writes are not copied."""
    file = SteadyFile(path)
    return io.BufferedWriter(file, getattr(os.fstat(file.fileno()), "st_blksize", io.DEFAULT_BUFFER_SIZE))


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's function that starts writing part of a file without waiting; None on other systems."""
    import ctypes  # not needed by processes that only read

    try:
        found = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError, TypeError):
        return None
    found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return cast("Callable[[int, int, int, int], int]", found)


def sync_file(path: Path) -> None:
    _sync_path(path, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    if os.name == "posix":  # other systems cannot open folders, and journal their changes
        _sync_path(folder, os.O_RDONLY | os.O_DIRECTORY)


def make_folder(folder: Path) -> None:
    """Create a folder with its parents, durably.

    An existing folder may have just been created by a process that has not synced it yet, so it is synced here too,
    once per process.
    """
    if _disabled:
        folder.mkdir(parents=True, exist_ok=True)
        return
    if folder in _lasting and folder.is_dir():
        return
    parent = folder.parent
    if parent == folder:
        return
    if folder.is_dir():
        # This user may lack permission for folders above the table, which Morrow has not created.
        with suppress(PermissionError):
            make_folder(parent)
            sync_folder(parent)
    else:
        make_folder(parent)
        with suppress(FileExistsError):
            folder.mkdir()
        sync_folder(parent)
    _lasting.add(folder)


def create_file(path: Path, data: bytes) -> bool:
    """Create a file if it does not exist; return False if it exists.

    Raises:
        OSError: nothing was created.
        Unclear: the file may or may not exist, now or after a power loss.
    """
    if os.path.lexists(path):
        return False
    hidden = _write_hidden(path, data)
    try:
        created = _link_file(hidden, path)
    finally:
        # Only the final name counts; a remaining hidden file is an orphan, not a reason to fail.
        with suppress(OSError):
            hidden.unlink()
    if created:
        try:
            sync_folder(path.parent)
        except OSError as error:
            raise Unclear(error.errno, error.strerror) from error
    return created


def replace_file(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Write a file and replace an existing file of this name: readers see either the old or the new bytes.

    Unless `lasting`, nothing waits for the disk: a power loss may leave the old file or an empty one.
    """
    hidden = _write_hidden(path, data, lasting=lasting)
    try:
        hidden.replace(path)
    except OSError:
        with suppress(OSError):
            hidden.unlink()
        raise
    if lasting:
        sync_folder(path.parent)


class Unclear(OSError):
    """An error of the file system after which it is unknown whether a file was created, or is durable."""


def _link_file(hidden: Path, path: Path) -> bool:
    try:
        os.link(hidden, path)
    except OSError as error:
        # A network file system repeats a request whose answer was lost, and then fails because its own link exists.
        try:
            if path.samefile(hidden):
                return True
        except FileNotFoundError:
            raise error from None
        except OSError:
            raise Unclear(error.errno, error.strerror) from error
        if isinstance(error, FileExistsError):
            return False
        raise
    return True


def _write_hidden(path: Path, data: bytes, *, lasting: bool = True) -> Path:
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with hidden.open("xb") as stream:
            stream.write(data)
            if lasting:
                stream.flush()
                sync_descriptor(stream.fileno())
    except OSError:
        with suppress(OSError):
            hidden.unlink()
        raise
    return hidden


def _sync_path(path: Path, flags: int) -> None:
    if _disabled:
        return
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
