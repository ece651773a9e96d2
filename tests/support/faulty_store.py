"""A file store that fails at a chosen operation in a chosen way, always the same.

    store = FaultyStore(LocalStore(), Fault(7, FaultKind.NO_SPACE))
    Table(TableMetadata(store, path)).append(rows)          # its eighth file operation finds the disk full
    store.asked                                             # [..., 'create snapshot-1', ...]

Operations are counted in order: reads, listings, whole writes, opened streams, written pieces, closed streams, and
deletions. Data files are written through streams, so each piece of them is an operation.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

from morrow.engine.errors import StorageError, UnclearOutcome
from morrow.engine.io.store import FileStatus, FileStore, Walk, has_urls

T = TypeVar("T")


class FaultKind(Enum):
    """The effect of a fault on its operation."""

    KILLED_BEFORE = "killed before it is carried out"
    KILLED_MIDWAY = "killed when half of the bytes are there"
    BAD_DISK = "EIO"
    NO_SPACE = "ENOSPC for what needs room, EIO for what does not"
    SHORT_WRITE = "half of the bytes are taken, then there is no room"
    LOST = "a timeout, and it was not carried out"
    DONE = "a timeout, though it was carried out"


KILLS = (FaultKind.KILLED_BEFORE, FaultKind.KILLED_MIDWAY)
"""Kills; the files after one operation are the same as before the next one."""

ERRORS = tuple(kind for kind in FaultKind if kind not in KILLS)
ANSWERED = (FaultKind.BAD_DISK, FaultKind.NO_SPACE, FaultKind.SHORT_WRITE)
"""Errors which say that the operation was not carried out."""

READS = frozenset({"read", "open", "size", "exists", "list", "is_dir"})
HAVE_HALF = frozenset({"create", "write", "output"})
NEED_ROOM = frozenset({"create", "write", "open output", "output", "end output"})


@dataclass(frozen=True)
class Fault:
    """A fault at operation `at`, counted from 0; a `lasting` one hits every later operation, too.

    EIO counts all operations, and other kinds count those on which they have an effect of their own: operations that
    change something, or that can be half done.
    """

    at: int
    kind: FaultKind
    lasting: bool = False


@dataclass
class FaultyStore:
    """A wrapper of a store that records all operations, and may have a fault."""

    inner: FileStore
    fault: Fault | None = None
    asked: list[str] = field(default_factory=list)
    """Each operation with the name of its file."""
    failed: list[str] = field(default_factory=list)
    """The operations that met the fault."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.acts: list[str] = []
        """The kind of each operation in `asked`."""
        self.counted: list[str] = []
        """The operations in `asked` that the fault could have hit so far."""

    @property
    def is_local(self) -> bool:
        return self.inner.is_local

    @property
    def has_urls(self) -> bool:
        return has_urls(self.inner)

    @property
    def checks_pages(self) -> bool:
        return self.inner.checks_pages

    @property
    def storage_options(self) -> Mapping[str, str]:
        return self.inner.storage_options

    def url(self, path: str) -> str:
        return self.inner.url(path)

    def read(self, path: str) -> bytes:
        return self._do("read", path, lambda: self.inner.read(path))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self._do("read", path, lambda: self.inner.read_range(path, start, length))

    def open(self, path: str) -> BinaryIO:
        return self._do("open", path, lambda: self.inner.open(path))

    def size(self, path: str) -> int | None:
        return self._do("size", path, lambda: self.inner.size(path))

    def exists(self, path: str) -> bool:
        return self._do("exists", path, lambda: self.inner.exists(path))

    def list(self, folder: str) -> list[FileStatus]:
        return self._do("list", folder, lambda: self.inner.list(folder))

    def walk(self, folder: str) -> Walk:
        return self._do("list", folder, lambda: self.inner.walk(folder))

    def is_dir(self, folder: str) -> bool:
        return self._do("is_dir", folder, lambda: self.inner.is_dir(folder))

    def create(self, path: str, data: bytes) -> bool:
        return self._do("create", path, lambda: self.inner.create(path, data), half=lambda: _leave_half(path, data))

    def write(self, path: str, data: bytes) -> None:
        self._do("write", path, lambda: self.inner.write(path, data), half=lambda: _leave_half(path, data))

    @contextmanager
    def output(self, path: str) -> Iterator[BinaryIO]:
        manager = self.inner.output(path)
        stream = self._do("open output", path, manager.__enter__)
        try:
            with io.BufferedWriter(_Pieces(self, path, stream), 1) as pieces:
                yield pieces  # type: ignore[misc]  # typeshed does not call a BufferedWriter a BinaryIO
            self._do("end output", path, lambda: manager.__exit__(None, None, None))
        except BaseException as error:
            # Like the cleanup of the inner store after an error in its block; a closed stream has ended normally.
            if stream.closed:
                self.inner.delete(path)
            else:
                manager.__exit__(type(error), error, error.__traceback__)
            raise

    def local_target(self, path: str) -> str | None:
        return self.inner.local_target(path)

    def sync(self, paths: Sequence[str]) -> None:
        self._do("sync", paths[0] if paths else "", lambda: self.inner.sync(paths))

    def delete(self, path: str) -> bool:
        return self._do("delete", path, lambda: self.inner.delete(path))

    def delete_many(self, paths: Sequence[str]) -> None:
        failed: list[StorageError] = []
        for path in paths:
            try:
                self._do("delete", path, lambda path=path: self.inner.delete_many([path]))  # type: ignore[misc]  # bound now
            except StorageError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def move(self, source: str, target: str) -> None:
        self._do("move", source, lambda: self.inner.move(source, target))

    def remove_empty_folder(self, folder: str) -> bool:
        return self._do("remove folder", folder, lambda: self.inner.remove_empty_folder(folder))

    def discard(self, paths: Sequence[str]) -> None:
        for path in paths:
            with suppress(StorageError):
                self.delete(path)

    def delete_folder(self, folder: str) -> None:
        self._do("delete folder", folder, lambda: self.inner.delete_folder(folder))

    def make_folder(self, folder: str) -> None:
        self._do("make folder", folder, lambda: self.inner.make_folder(folder))

    def move_folder(self, source: str, target: str) -> None:
        self._do("move folder", source, lambda: self.inner.move_folder(source, target))

    # Faults

    def _do(self, what: str, path: str, effect: Callable[[], T], half: Callable[[], object] | None = None) -> T:
        kind = self._fault_of(what, path)
        if kind is None:
            return effect()
        if kind is FaultKind.KILLED_MIDWAY and half is not None:
            half()
        if kind is FaultKind.DONE:
            effect()
        if kind in KILLS:
            os.kill(os.getpid(), signal.SIGKILL)
        return _fail(kind, what, path)

    def _fault_of(self, what: str, path: str) -> FaultKind | None:
        """Count the operation, and return the fault that hits it, if any."""
        with self._lock:
            asked = f"{what} {Path(path).name}"
            self.asked.append(asked)
            self.acts.append(what)
            fault = self.fault
            if fault is None or not counts(fault.kind, what):
                return None
            number = len(self.counted)
            self.counted.append(asked)
            if number < fault.at or (number > fault.at and not fault.lasting):
                return None
            if fault.lasting and fault.kind is FaultKind.NO_SPACE and what not in NEED_ROOM:
                return None  # a full disk can still be read, and files can be deleted
            self.failed.append(asked)
            return fault.kind


def counts(kind: FaultKind, what: str) -> bool:
    """Check whether this kind of fault has an effect of its own on this operation."""
    if kind is FaultKind.BAD_DISK:
        return True
    if kind in (FaultKind.KILLED_MIDWAY, FaultKind.SHORT_WRITE):
        return what in HAVE_HALF
    # If opening a stream succeeds but reports an error, the store has to clean up.
    return what not in READS and not (kind is FaultKind.DONE and what == "open output")


class _Pieces(io.RawIOBase):
    """A stream that counts writes; a short write takes half and leaves the rest to the caller."""

    def __init__(self, store: FaultyStore, path: str, stream: BinaryIO) -> None:
        self._store, self._path, self._stream = store, path, stream
        self._full = False

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._stream.tell()

    def write(self, data: Any) -> int:
        piece = bytes(data)
        half = piece[: len(piece) // 2]
        if self._full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def take_half() -> None:
            self._stream.write(half)
            self._stream.flush()

        kind = self._store._fault_of("output", self._path)
        if kind is FaultKind.SHORT_WRITE and half:
            take_half()
            self._full = True
            return len(half)
        if kind is FaultKind.KILLED_MIDWAY:
            take_half()
        if kind in (None, FaultKind.DONE):
            self._stream.write(piece)
            self._stream.flush()
        if kind in KILLS:
            os.kill(os.getpid(), signal.SIGKILL)
        if kind is not None:
            number = errno.ENOSPC if kind in (FaultKind.NO_SPACE, FaultKind.SHORT_WRITE) else errno.EIO
            raise OSError(number, os.strerror(number))
        return len(piece)


def _fail(kind: FaultKind, what: str, path: str) -> NoReturn:
    if kind in (FaultKind.LOST, FaultKind.DONE):
        error = UnclearOutcome if what == "create" else StorageError
        raise error(f"{path}: operation timed out")
    number = errno.EIO if kind is FaultKind.BAD_DISK or what not in NEED_ROOM else errno.ENOSPC
    raise StorageError(f"{path}: {os.strerror(number)}; this is a test")


def _leave_half(path: str, data: bytes) -> None:
    """Leave half of a file under a hidden name, as a killed process does in a whole write."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp").write_bytes(data[: len(data) // 2])
