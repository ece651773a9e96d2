"""Prefetch of whole data files from a remote store, ahead of their readers.

A scan requests a file's footer, then its columns, for a few files at a time, and waits for each request. If all of a
file is wanted and the file is not large, it is requested whole by its size, many files at once.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, BinaryIO

from morrow.engine.errors import CorruptFile
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile

MAX_REQUESTS = 32
"""Maximum number of concurrent requests."""
REQUEST_BYTES = 8 << 20
"""Maximum bytes of one request: a larger file takes several requests at once, since one connection is slower."""
MAX_AHEAD_BYTES = 128 << 20
"""Approximate maximum of bytes that are requested or in memory but not read yet."""


class FetchedStore:
    """A store whose files are fetched whole, each requested in its turn; everything else is delegated to `inner`.

    Polars receives the bytes instead of URLs.
    """

    has_urls = False
    is_local = False

    def __init__(self, inner: FileStore, pool: ThreadPoolExecutor) -> None:
        self.inner = inner
        self._pool = pool
        self._turn = threading.Lock()
        self._waiting: dict[str, DataFile] = {}
        self._asked: dict[str, tuple[DataFile, list[Future[bytes]]]] = {}
        self._held = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # looked up by pickle and copy before there is a store
            raise AttributeError(name)
        return getattr(self.inner, name)

    def expect(self, files: Iterable[DataFile]) -> None:
        """Queue files to fetch, in this order, after the files that are already queued."""
        with self._turn:
            self._waiting.update((file.path, file) for file in files if file.path not in self._asked)
            self._ask()

    def drop(self, files: Iterable[DataFile]) -> None:
        """Forget the bytes of files that were read, to make room for other files."""
        with self._turn:
            for file in files:
                if self._asked.pop(file.path, None) is not None:
                    self._held -= file.size
            self._ask()

    def read(self, path: str) -> bytes:
        """Return the whole file.

        Raises:
            CorruptFile: its length differs from the metadata. FileMissing, StorageError: as `FileStore.read`.
        """
        with self._turn:
            if path in self._waiting:  # it is read before its turn
                self._ask_for(self._waiting.pop(path))
            asked = self._asked.get(path)
        if asked is None:
            return self.inner.read(path)
        file, parts = asked
        data = parts[0].result() if len(parts) == 1 else b"".join(part.result() for part in parts)
        if len(data) != file.size:
            raise CorruptFile(path, f"{len(data)} bytes long where its metadata says {file.size}")
        return data

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return (
            self.read(path)[start : start + length] if self._has(path) else self.inner.read_range(path, start, length)
        )

    def open(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read(path)) if self._has(path) else self.inner.open(path)

    def _has(self, path: str) -> bool:
        with self._turn:
            return path in self._asked or path in self._waiting

    def _ask(self) -> None:
        while self._waiting and self._held < MAX_AHEAD_BYTES:
            self._ask_for(self._waiting.pop(next(iter(self._waiting))))

    def _ask_for(self, file: DataFile) -> None:
        self._held += file.size
        self._asked[file.path] = file, self._parts(file)

    def _parts(self, file: DataFile) -> list[Future[bytes]]:
        if file.size <= REQUEST_BYTES:
            return [self._pool.submit(self.inner.read, file.path)]
        starts = range(0, file.size, REQUEST_BYTES)
        return [
            self._pool.submit(self.inner.read_range, file.path, s, min(REQUEST_BYTES, file.size - s)) for s in starts
        ]


@contextmanager
def open_fetched_store(store: FileStore) -> Iterator[FetchedStore]:
    """Open a store that prefetches files; pending requests are cancelled when the block ends."""
    pool = ThreadPoolExecutor(MAX_REQUESTS, "morrow-fetch")
    try:
        yield FetchedStore(store, pool)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
