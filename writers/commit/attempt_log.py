"""Log of the files that task attempts write, used to remove the files of failed and duplicate attempts.

Spark repeats a failed task, may run a slow task twice at once, and takes the result of one attempt without notifying
the others. So each attempt logs the path of every file *before* it creates the file, as a small file in the folder of
the job: ``<table>/.morrow-write-<job>/<attempt>-<n>``. When the job has ended, the driver removes the files of all
attempts whose result it did not take, then the folder.

An attempt may outlive its job. The file ``open`` in the folder means that the job is running. An attempt looks for it
before and after it writes a file; if ``open`` is missing, the attempt removes its file and fails. A killed driver
leaves the folder behind. Its files are then orphans.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import count
from typing import BinaryIO, cast

from morrow.engine.errors import FileMissing, StorageError
from morrow.engine.io.store import FileStore
from morrow.engine.redaction import get_logger

LOG_PREFIX = ".morrow-write-"
OPEN = "open"

log = get_logger(__name__)


class AttemptLog:
    """The driver's side of the log. `root` is the table's folder."""

    def __init__(self, store: FileStore, root: str) -> None:
        self._store = store
        self.folder = f"{root}/{LOG_PREFIX}{uuid.uuid4()}"

    def begin(self) -> None:
        """Allow attempts to write."""
        self._store.write(f"{self.folder}/{OPEN}", b"")

    def close(self, taken: Collection[str]) -> int:
        """End the job: remove the files of attempts not in `taken`; return the number of logged files.

        Files that cannot be removed stay as orphans, which is not an error.
        """
        try:
            self._store.delete(f"{self.folder}/{OPEN}")
            names = [status.name for status in self._store.list(self.folder) if status.name != OPEN]
            left = [self._read_name(name) for name in names if name.rpartition("-")[0] not in taken]
            paths = [path for path in left if path]
            self._store.discard(paths)
            self._store.delete_folder(self.folder)
        except StorageError as error:
            log.warning("files of failed attempts of tasks stay in %s: %s", self.folder, error)
            return 0
        return len(paths)

    def _read_name(self, name: str) -> str:
        try:
            return self._store.read(f"{self.folder}/{name}").decode()
        except FileMissing:  # removed by an attempt that found the job closed
            return ""


class AttemptLogStore:
    """A `FileStore` that logs the paths of the files created through it. See `log_attempt_files`."""

    def __init__(self, store: FileStore, folder: str, attempt: str) -> None:
        self._store, self._folder, self._attempt = store, folder, attempt
        self._numbers = count()

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # requested by pickle and copy before there is a store
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
        """Return None: native code does not report the end of a file, so the file could not be removed."""

    def _record(self, path: str) -> str:
        if not self._store.exists(f"{self._folder}/{OPEN}"):
            raise _make_ended_error()
        entry = f"{self._folder}/{self._attempt}-{next(self._numbers)}"
        self._store.write(entry, path.encode())
        return entry

    def _check_open(self, entry: str, path: str) -> None:
        """Check that the job is running: the driver may have read the log entry before the file existed."""
        if not self._store.exists(f"{self._folder}/{OPEN}"):
            self._store.discard([path, entry])
            raise _make_ended_error()


def log_attempt_files(store: FileStore, folder: str, attempt: str) -> FileStore:
    """Return the store for one attempt of a task, which logs its files in the attempt log of this folder."""
    return cast("FileStore", AttemptLogStore(store, folder, attempt))


def _make_ended_error() -> StorageError:
    return StorageError("the job that this attempt of a task belongs to has ended; its file was not kept")
