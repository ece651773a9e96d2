"""What the attempts of a job have written, so that files of attempts that nobody took are found and removed.

Spark runs a task again when it failed, or twice at once when it is slow, and takes the result of one attempt; the
others are not told. So each attempt writes down the path of every file *before* it makes it, as a small file in the
folder of the job: ``<table>/.morrow-write-<job>/<attempt>-<n>``. When the job has ended, the driver removes the files
of all attempts whose result it did not take, then the folder.

An attempt may outlive its job. The file ``open`` in the folder says that the job goes on; an attempt that does not find
it before it makes a file, or when the file is complete, removes the file and fails. A driver that was killed leaves the
folder: its files are orphans as of any writer.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import count
from typing import BinaryIO, cast

from morrow.engine.errors import FileMissing, StorageError
from morrow.engine.io.store import FileStore

PREFIX = ".morrow-write-"
OPEN = "open"

log = logging.getLogger(__name__)


class Ledger:
    """The driver's end. `root` is the table's folder."""

    def __init__(self, store: FileStore, root: str) -> None:
        self._store = store
        self.folder = f"{root}/{PREFIX}{uuid.uuid4()}"

    def begin(self) -> None:
        """Let attempts write."""
        self._store.write(f"{self.folder}/{OPEN}", b"")

    def close(self, taken: Collection[str]) -> int:
        """End the job: remove what attempts other than those `taken` have written. Returns how many files were named.

        What cannot be removed stays as an orphan, which is no error.
        """
        try:
            self._store.delete(f"{self.folder}/{OPEN}")
            names = [status.name for status in self._store.list(self.folder) if status.name != OPEN]
            left = [self._named(name) for name in names if name.rpartition("-")[0] not in taken]
            paths = [path for path in left if path]
            self._store.discard(paths)
            self._store.delete_folder(self.folder)
        except StorageError as error:
            log.warning("what attempts of tasks left stays there, as %s tells: %s", self.folder, error)
            return 0
        return len(paths)

    def _named(self, name: str) -> str:
        try:
            return self._store.read(f"{self.folder}/{name}").decode()
        except FileMissing:  # taken back by an attempt that has found the job closed
            return ""


class LedgerStore:
    """A `FileStore` that writes down the paths of the files that are made through it. Made by `recorded`."""

    def __init__(self, store: FileStore, folder: str, attempt: str) -> None:
        self._store, self._folder, self._attempt = store, folder, attempt
        self._numbers = count()

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # asked for by pickle and copy before there is a store
            raise AttributeError(name)
        return getattr(self._store, name)

    def write(self, path: str, data: bytes) -> None:
        entry = self._record(path)
        self._store.write(path, data)
        self._check_open(entry, path)

    def create(self, path: str, data: bytes) -> bool:
        entry = self._record(path)
        made = self._store.create(path, data)
        if made:
            self._check_open(entry, path)
        return made

    @contextmanager
    def output(self, path: str) -> Iterator[BinaryIO]:
        entry = self._record(path)
        with self._store.output(path) as stream:
            yield stream
        self._check_open(entry, path)

    def local_target(self, _path: str) -> None:
        """None: a file that native code writes is not seen to be complete, so it could not be taken back."""

    def _record(self, path: str) -> str:
        if not self._store.exists(f"{self._folder}/{OPEN}"):
            raise _over()
        entry = f"{self._folder}/{self._attempt}-{next(self._numbers)}"
        self._store.write(entry, path.encode())
        return entry

    def _check_open(self, entry: str, path: str) -> None:
        """The driver may have looked at the entry before the file was there."""
        if not self._store.exists(f"{self._folder}/{OPEN}"):
            self._store.discard([path, entry])
            raise _over()


def recorded(store: FileStore, folder: str, attempt: str) -> FileStore:
    """The store, for one attempt of a task: what it writes is written down in the ledger of this folder."""
    return cast("FileStore", LedgerStore(store, folder, attempt))


def _over() -> StorageError:
    return StorageError("the job that this attempt of a task belongs to has ended; its file was not kept")
