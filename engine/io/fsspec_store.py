"""fsspec file systems as file stores, for locations that Morrow's own stores do not serve.

The file system object that the user passed reads and writes the files; Polars gets their bytes. fsspec cannot create a
file only if it does not exist. Therefore only its memory file system supports atomic creation here; others need the
lock of a catalog (`LockedStore`). For the local disk, Morrow's own store is used.
"""

from __future__ import annotations

import datetime as dt
import posixpath
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, BinaryIO, TypeVar, cast

from morrow.engine.errors import FileMissing, InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.io.local import LocalStore
from morrow.engine.io.storage_options import has_store
from morrow.engine.io.store import WALKED_AT_ONCE, FileStatus, FileStore, Walk
from morrow.engine.redaction import redact_error
from morrow.engine.units import MILLIS_PER_SECOND

T = TypeVar("T")

LOCAL, MEMORY = ("file", "local"), "memory"
TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
"""Names that fsspec file systems use for the modification time."""

_creating = threading.Lock()


class FsspecStore:
    """A file store on one fsspec file system. It cannot be pickled, as the file system may hold credentials."""

    is_local = False
    has_urls = False
    checks_pages = False
    storage_options: Mapping[str, str] = {}

    def __init__(self, filesystem: Any) -> None:
        self._fs = filesystem
        protocol = filesystem.protocol
        self._protocol = protocol if isinstance(protocol, str) else str(protocol[0])

    def __reduce__(self) -> Any:
        raise Unsupported(
            "pickling a table in a file system of fsspec", where=f"{self._protocol}://", hint=self._suggest_place()
        )

    def read(self, path: str) -> bytes:
        return bytes(self._ask(path, lambda: self._fs.cat_file(path)))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        with self.open(path) as stream:
            return self._ask(path, lambda: (stream.seek(start), stream.read(length))[1])

    def open(self, path: str) -> BinaryIO:
        return cast(BinaryIO, self._ask(path, lambda: self._fs.open(path, "rb")))

    def size(self, path: str) -> int | None:
        try:
            found = self._info(path)
        except FileMissing:
            return None
        return None if found["type"] == "directory" else int(found["size"] or 0)

    def exists(self, path: str) -> bool:
        return self.size(path) is not None

    def list(self, folder: str) -> list[FileStatus]:
        try:
            self._fs.invalidate_cache()  # other processes write too
            found = self._ask(folder, lambda: self._fs.ls(folder, detail=True))
        except FileMissing:
            return []
        except StorageError as error:
            if isinstance(error.__cause__, NotADirectoryError):
                return []
            raise
        own = self._fs._strip_protocol(folder)
        return [_to_file_status(each) for each in found if self._fs._strip_protocol(each["name"]) != own]

    def walk(self, folder: str) -> Walk:
        try:
            self._fs.invalidate_cache()
            found = self._ask(folder, lambda: self._fs.find(folder, detail=True))
        except FileMissing:
            return
        own = self._fs._strip_protocol(folder).rstrip("/")
        files = [
            (folder.rstrip("/") + self._fs._strip_protocol(name)[len(own) :], _to_file_status(each))
            for name, each in found.items()
        ]
        for start in range(0, len(files), WALKED_AT_ONCE):
            yield files[start : start + WALKED_AT_ONCE]

    def is_dir(self, folder: str) -> bool:
        try:
            return bool(self._info(folder)["type"] == "directory")
        except FileMissing:
            return False

    def url(self, path: str) -> str:
        return f"{self._protocol}://{path}"

    def create(self, path: str, data: bytes) -> bool:
        if self._protocol != MEMORY:
            raise Unsupported(
                "committing through fsspec",
                where=self.url(path),
                hint=f"it cannot create a file only if there is none; {self._suggest_place()}",
            )
        with _creating:
            if self.exists(path):
                return False
            self.write(path, data)
            return True

    def write(self, path: str, data: bytes) -> None:
        self._ask(path, lambda: self._parents(path))
        self._ask(path, lambda: self._fs.pipe_file(path, data))

    @contextmanager
    def output(self, path: str) -> Iterator[BinaryIO]:
        unfinished = f"{path}.{uuid.uuid4().hex}.part"
        try:
            self._ask(path, lambda: self._parents(path))
            with self._fs.open(unfinished, "wb") as stream:
                yield cast(BinaryIO, stream)
            self._ask(path, lambda: self._fs.mv(unfinished, path))
        except BaseException:
            self.discard([unfinished])
            raise

    def local_target(self, path: str) -> str | None:  # noqa: ARG002  # there is no local path
        return None

    def sync(self, paths: Sequence[str]) -> None:
        """Do nothing: durability depends on the file system."""

    def delete(self, path: str) -> bool:
        if not self.exists(path):
            return False
        self._ask(path, lambda: self._fs.rm_file(path))
        return True

    def delete_many(self, paths: Sequence[str]) -> None:
        failed: list[StorageError] = []
        for path in paths:
            try:
                with suppress(FileMissing):
                    self._ask(path, partial(self._fs.rm_file, path))
            except StorageError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def move(self, source: str, target: str) -> None:
        self._info(source)
        self._ask(target, lambda: self._parents(target))
        self._ask(source, lambda: self._fs.copy(source, target))
        self._ask(source, lambda: self._fs.rm_file(source))

    def remove_empty_folder(self, folder: str) -> bool:
        if not self.is_dir(folder) or self.list(folder):
            return False
        with suppress(StorageError, FileMissing):
            self._ask(folder, lambda: self._fs.rmdir(folder))
            return True
        return False

    def discard(self, paths: Sequence[str]) -> None:
        with suppress(StorageError):
            self.delete_many(paths)

    def delete_folder(self, folder: str) -> None:
        if not folder.strip("/"):
            raise InvalidArgument(f"{self._protocol}:// itself is not deleted; name a folder in it")
        with suppress(FileMissing):
            self._info(folder)
            self._ask(folder, lambda: self._fs.rm(folder, recursive=True))

    def make_folder(self, folder: str) -> None:
        self._ask(folder, lambda: self._fs.makedirs(folder, exist_ok=True))

    def move_folder(self, source: str, target: str) -> None:  # noqa: ARG002  # not supported
        hint = "files would be moved one by one, and readers would see a part; write the rows into a new one"
        raise Unsupported("renaming through fsspec", where=self.url(source), hint=hint)

    def _suggest_place(self) -> str:
        """Return the advice to let Morrow itself open the store, or another store."""
        if has_store(self._protocol):
            return f"open the table by its URL alone ({self._protocol}://...), without filesystem"
        return "keep the table in a folder, or at a URL that Morrow opens itself (s3://, gs://, az://, hdfs://)"

    def _parents(self, path: str) -> None:
        self._fs.makedirs(posixpath.dirname(path), exist_ok=True)

    def _info(self, path: str) -> Mapping[str, Any]:
        self._fs.invalidate_cache()
        return cast("Mapping[str, Any]", self._ask(path, lambda: self._fs.info(path)))

    def _ask(self, path: str, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except FileNotFoundError as error:
            raise FileMissing(self.url(path)) from redact_error(error)
        except MorrowError:
            raise
        except (OSError, ValueError) as error:
            raise StorageError(
                f"{self.url(path)}: {redact_error(error)}; check the file system that was given"
            ) from error


def wrap_filesystem(filesystem: object) -> FileStore:
    """Return a store for an fsspec file system. Raises `InvalidArgument` for any other object."""
    needed = ("protocol", "cat_file", "pipe_file", "ls", "info", "find")
    if isinstance(filesystem, type) or not all(hasattr(filesystem, name) for name in needed):
        raise InvalidArgument(f"filesystem is a file system of fsspec, not {type(filesystem).__name__}")
    protocol = cast(Any, filesystem).protocol
    if (protocol if isinstance(protocol, str) else protocol[0]) in LOCAL:
        return LocalStore()
    return cast(FileStore, FsspecStore(filesystem))


def _to_file_status(found: Mapping[str, Any]) -> FileStatus:
    name = found["name"].rstrip("/").rsplit("/", 1)[-1]
    time = next((found[key] for key in TIMES if found.get(key) is not None), 0)
    if isinstance(time, dt.datetime):
        time = time.timestamp()
    seconds = float(time) if isinstance(time, (int, float)) else 0.0
    is_dir = found["type"] == "directory"
    return FileStatus(name, 0 if is_dir else int(found["size"] or 0), int(seconds * MILLIS_PER_SECOND), is_dir)
