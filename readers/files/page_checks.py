"""Checks Parquet files against their page checksums before reading, once per file, column and process.

Only where the store `checks_pages` (see `morrow.open`). The columns that the read touches are hashed on several threads
before any row is returned. Checksums of other formats are always checked by their decoders.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import UnsupportedOperation
from itertools import chain
from pathlib import Path

import polars as pl

from morrow.engine.errors import FileMissing
from morrow.engine.io.cache import ByteCache
from morrow.readers.files.formats.parquet_pages import ColumnChunk, Pages, ReadRange, check_chunk, column_chunks
from morrow.readers.files.source import FileSource, reading

PARQUET = "parquet"

PAGE_CACHE: ByteCache[bool] = ByteCache(16 << 20)
"""Columns of files whose checksums were correct; dropped by ``morrow.clear_caches()``."""
ENTRY_BYTES = 256
"""The size that the cache counts for one entry."""

WORTH_THREADS = 1 << 20
"""Bytes of files from which on several threads hash them."""
REMOTE_THREADS = 16
"""Files and column chunks fetched at once from remote stores."""

Identity = tuple[Hashable, ...]


def check_pages(sources: Sequence[FileSource], columns: Collection[str]) -> None:
    """Hashes the pages of these top-level columns in the Parquet files among `sources`, unless done already.

    Raises:
        CorruptFile: a page, page header or footer is damaged; the error names file, column and row group.
        FileMissing, StorageError.
    """
    unknown = [each for source in sources if (each := _Unknown.of(source, columns)) is not None]
    if not unknown:
        return
    if sum(each.size for each in unknown) < WORTH_THREADS:
        for task in chain.from_iterable(map(_Unknown.tasks, unknown)):
            task.run()
    else:
        threads = pl.thread_pool_size() if unknown[0].source.store.is_local else REMOTE_THREADS
        with ThreadPoolExecutor(threads) as pool:
            tasks = chain.from_iterable(pool.map(_Unknown.tasks, unknown))
            # Largest first: a large chunk at the end would keep a single thread busy.
            for _ in pool.map(_Task.run, sorted(tasks, key=lambda task: -task.chunk.size)):
                pass
    for each in unknown:
        each.remember()


def count_pages(source: FileSource) -> Pages:
    """Hashes all pages of a Parquet file, even those hashed already; none of other files. Raises as `check_pages`."""
    found = Pages()
    if source.format != PARQUET:
        return found
    with ranges(source) as read:
        for chunk in column_chunks(source, _size(source), read):
            found += check_chunk(source, chunk, read)
    return found


@dataclass(frozen=True)
class _Unknown:
    """Columns of a file that are not hashed yet; `size` is that of the file."""

    source: FileSource
    identity: Identity
    size: int
    columns: frozenset[str]

    @classmethod
    def of(cls, source: FileSource, columns: Collection[str]) -> _Unknown | None:
        """Returns the columns that are not hashed yet; None when there are none."""
        if source.format != PARQUET or not columns:
            return None
        identity, size = _identity(source)
        names = frozenset(name for name in columns if not PAGE_CACHE.get((*identity, name)))
        return cls(source, identity, size, names) if names else None

    def tasks(self) -> list[_Task]:
        with ranges(self.source) as read:
            chunks = column_chunks(self.source, self.size, read)
        return [_Task(self.source, chunk) for chunk in chunks if chunk.name in self.columns]

    def remember(self) -> None:
        for name in self.columns:
            PAGE_CACHE.put((*self.identity, name), True, ENTRY_BYTES)


@dataclass(frozen=True)
class _Task:
    source: FileSource
    chunk: ColumnChunk

    def run(self) -> Pages:
        with ranges(self.source) as read:
            return check_chunk(self.source, self.chunk, read)


def _identity(source: FileSource) -> tuple[Identity, int]:
    """Returns the identity and size of the file. On a local disk a touched file has another identity."""
    url = source.store.url(source.path)
    if not source.store.is_local:
        size = _size(source)
        return (url, size), size
    with reading(source.path):
        status = Path(url).stat()
    return (url, status.st_size, status.st_mtime_ns, status.st_ino), status.st_size


def _size(source: FileSource) -> int:
    size = source.size or source.store.size(source.path)
    if size is None:
        raise FileMissing(source.path)
    return size


@contextmanager
def ranges(source: FileSource) -> Iterator[ReadRange]:
    """Opens a file for reads of ranges: through one open file on a local disk, by requests elsewhere."""
    store, path = source.store, source.path
    if not store.is_local:
        yield lambda start, length: store.read_range(path, start, length)
        return
    with store.open(path) as stream, reading(path):
        descriptor = None
        with suppress(UnsupportedOperation):
            descriptor = stream.fileno()

        def read(start: int, length: int) -> bytes:
            if descriptor is not None:
                return os.pread(descriptor, length, start)
            stream.seek(start)
            return stream.read(length)

        yield read
