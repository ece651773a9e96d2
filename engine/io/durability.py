"""Durable and atomic creation of files on a local disk: they survive a loss of power, and appear whole or not at all.

A name is durable once its folder is synced, a file's bytes once the file is: both are needed, and for a new folder
its parents as well. A file that must not replace another one is written under a hidden name and then linked: a link
never replaces a file, and the file it makes visible is whole and synced.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

STEADY_BYTES = 1 << 20
"""The bytes of a file that wait in memory at most, until the system begins to put them on the disk."""
SYNC_FILE_RANGE_WRITE = 2

_disabled = 0
_lasting: set[Path] = set()
"""Folders that this process knows to be durable, so that each costs a sync of its parents once."""


@contextmanager
def fsync_disabled() -> Iterator[None]:
    """Disables syncing of files in the block, in all threads: for benchmarks and tests, whose tables may be lost."""
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
    """A new file whose bytes the system begins to put on the disk while more are written: its sync waits for the rest.

    Raises `FileExistsError` where there is one.
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
            if begin is not None:  # what it answers does not matter: the sync decides
                begin(self.fileno(), self._begun, waiting, SYNC_FILE_RANGE_WRITE)
            self._begun = self._written
        return written


def new_stream(path: Path) -> io.BufferedWriter:
    """Opens a new file to be written steadily, see `SteadyFile`; large pieces are not copied on the way."""
    file = SteadyFile(path)
    return io.BufferedWriter(file, getattr(os.fstat(file.fileno()), "st_blksize", io.DEFAULT_BUFFER_SIZE))


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Returns Linux' function that begins to write a part of a file and does not wait; None elsewhere."""
    import ctypes  # not for every process that reads a table

    try:
        found = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError, TypeError):
        return None
    found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return cast("Callable[[int, int, int, int], int]", found)


def sync_file(path: Path) -> None:
    _sync_path(path, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    if os.name == "posix":  # elsewhere folders cannot be opened, and their changes are journalled
        _sync_path(folder, os.O_RDONLY | os.O_DIRECTORY)


def make_folder(folder: Path) -> None:
    """Makes a folder with its parents, durably.

    An existing folder may have been made a moment ago by a process that has not synced it yet: it is synced here too,
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
        # This user may lack permission for folders above the table; those were not made by Morrow either.
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
    """Creates a file where none exists; returns False when there is one.

    Raises:
        OSError: nothing was created.
        Unclear: the file may be there, now or after a loss of power, or not.
    """
    if os.path.lexists(path):
        return False
    hidden = _written_hidden(path, data)
    try:
        created = _linked(hidden, path)
    finally:
        # Only the file of the final name counts; a hidden one that stays is an orphan and no reason to fail.
        with suppress(OSError):
            hidden.unlink()
    if created:
        try:
            sync_folder(path.parent)
        except OSError as error:
            raise Unclear(error.errno, error.strerror) from error
    return created


def replace_file(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Writes a file, replacing one of that name if there is one: readers see the old or the new bytes.

    Unless it is `lasting`, nothing waits for the disk: a loss of power may leave the old one, or an empty one.
    """
    hidden = _written_hidden(path, data, lasting=lasting)
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


def _linked(hidden: Path, path: Path) -> bool:
    try:
        os.link(hidden, path)
    except OSError as error:
        # A network file system repeats a request whose answer was lost, and then fails on its own link.
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


def _written_hidden(path: Path, data: bytes, *, lasting: bool = True) -> Path:
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
