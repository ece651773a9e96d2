"""Data files of a store that is far away, fetched whole ahead of those who read them.

A scan asks for a file's footer, then for its columns, a few files at a time: each is a wait. Where all of a file is
wanted, and it is not large, its bytes are asked for at once, by its size, and many files together.
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
"""Requests under way at once."""
REQUEST_BYTES = 8 << 20
"""Bytes of one request: a larger file takes several at once, since each connection is slower than all together."""
MAX_AHEAD_BYTES = 128 << 20
"""About how many bytes are fetched, or there, before somebody has read those before them."""


class FetchedStore:
    """A store whose files come whole, each asked for when it is its turn; all else is as in `inner`.

    Polars takes the bytes in place of URLs.
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
        """Have files fetched, in this order, after those that are expected already."""
        with self._turn:
            self._waiting.update((file.path, file) for file in files if file.path not in self._asked)
            self._ask()

    def drop(self, files: Iterable[DataFile]) -> None:
        """Forget the bytes of files that were read, which makes room for those of others."""
        with self._turn:
            for file in files:
                if self._asked.pop(file.path, None) is not None:
                    self._held -= file.size
            self._ask()

    def read(self, path: str) -> bytes:
        """Return the whole file.

        Raises:
            CorruptFile: it is not as long as the metadata say. FileMissing, StorageError: as `FileStore.read`.
        """
        with self._turn:
            if path in self._waiting:  # its reader is ahead of its turn
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
    """Open a store that fetches; what nobody has read when the block ends is not asked for any more."""
    pool = ThreadPoolExecutor(MAX_REQUESTS, "morrow-fetch")
    try:
        yield FetchedStore(store, pool)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
