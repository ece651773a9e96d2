"""Page checksums of Parquet files, checked before reading, once per file, column and process.

They are checked only if the store `checks_pages` (see `morrow.open`). The columns that the read touches are hashed on
several threads before any row is returned. Checksums of other formats are always checked by their decoders.

A column chunk is a sequence of pages, each a header (a Thrift struct) and a body. The header may hold a CRC-32 of the
body as it is stored, compressed; Arrow and Java write it. Headers lack a checksum: they are checked against the footer.

    PageHeader      1 type   2 uncompressed_page_size   3 compressed_page_size   4 crc
                    5 data_page_header   7 dictionary_page_header   8 data_page_header_v2: 1 num_values, encoding
                    (2 in versions 1 and of dictionaries, 4 in version 2)
    ColumnMetaData  2 encodings   3 path_in_schema   5 num_values   6, 7 total sizes, uncompressed and stored
                    9 data_page_offset   11 dictionary_page_offset   13 encoding_stats: type, encoding, count

Pages without a checksum (a writer may leave them out) are counted.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import UnsupportedOperation
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import polars as pl

from morrow.engine.errors import OTHER_WRITER, CorruptFile, FileMissing, Unsupported
from morrow.engine.format.file_formats import PARQUET
from morrow.engine.format.parquet_metadata import I32, Struct, ThriftError, decode_thrift, decode_thrift_from
from morrow.engine.io.cache import ByteCache
from morrow.readers.files.source import FileSource, translate_errors

PAGE_CACHE: ByteCache[bool] = ByteCache(16 << 20)
"""Columns of files whose checksums were correct; dropped by ``morrow.clear_caches()``."""
ENTRY_BYTES = 256
"""The size that the cache counts for one entry."""

MIN_THREADED_BYTES = 1 << 20
"""Minimum bytes of files to hash them on several threads."""
REMOTE_THREADS = 16
"""Number of files and column chunks fetched at once from remote stores."""

Identity = tuple[Hashable, ...]


def check_pages(sources: Sequence[FileSource], columns: Collection[str]) -> None:
    """Hash the pages of these top-level columns in the Parquet files among `sources`, unless done already.

    Raises:
        CorruptFile: a page, page header or footer is damaged; the error names file, column and row group.
        FileMissing, StorageError.
    """
    unknown = [each for source in sources if (each := _Unknown.of(source, columns)) is not None]
    if not unknown:
        return
    if sum(each.size for each in unknown) < MIN_THREADED_BYTES:
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
    """Hash all pages of a Parquet file, even if hashed already; skip other formats. Raises as `check_pages`."""
    found = Pages()
    if source.format != PARQUET:
        return found
    with open_ranges(source) as read:
        for chunk in read_column_chunks(source, _size(source), read):
            found += check_chunk(source, chunk, read)
    return found


@dataclass(frozen=True)
class _Unknown:
    """Columns of a file that are not hashed yet; `size` is the size of the file."""

    source: FileSource
    identity: Identity
    size: int
    columns: frozenset[str]

    @classmethod
    def of(cls, source: FileSource, columns: Collection[str]) -> _Unknown | None:
        """Return the columns that are not hashed yet; None if there are none."""
        if source.format != PARQUET or not columns:
            return None
        identity, size = _identify_file(source)
        names = frozenset(name for name in columns if not PAGE_CACHE.get((*identity, name)))
        return cls(source, identity, size, names) if names else None

    def tasks(self) -> list[_Task]:
        with open_ranges(self.source) as read:
            chunks = read_column_chunks(self.source, self.size, read)
        return [_Task(self.source, chunk) for chunk in chunks if chunk.name in self.columns]

    def remember(self) -> None:
        for name in self.columns:
            PAGE_CACHE.put((*self.identity, name), True, ENTRY_BYTES)


@dataclass(frozen=True)
class _Task:
    source: FileSource
    chunk: ColumnChunk

    def run(self) -> Pages:
        with open_ranges(self.source) as read:
            return check_chunk(self.source, self.chunk, read)


def _identify_file(source: FileSource) -> tuple[Identity, int]:
    """Return the identity and size of the file. On a local disk a touched file has another identity."""
    url = source.store.url(source.path)
    if not source.store.is_local:
        size = _size(source)
        return (url, size), size
    with translate_errors(source.path):
        status = Path(url).stat()
    return (url, status.st_size, status.st_mtime_ns, status.st_ino), status.st_size


def _size(source: FileSource) -> int:
    size = source.size or source.store.size(source.path)
    if size is None:
        raise FileMissing(source.path)
    return size


@contextmanager
def open_ranges(source: FileSource) -> Iterator[ReadRange]:
    """Open a file for reads of ranges: through one open file on a local disk, by requests elsewhere."""
    store, path = source.store, source.path
    if not store.is_local:
        yield lambda start, length: store.read_range(path, start, length)
        return
    with store.open(path) as stream, translate_errors(path):
        descriptor = None
        with suppress(UnsupportedOperation):
            descriptor = stream.fileno()

        def read(start: int, length: int) -> bytes:
            if descriptor is not None:
                return os.pread(descriptor, length, start)
            stream.seek(start)
            return stream.read(length)

        yield read


MAGIC, ENCRYPTED_MAGIC = b"PAR1", b"PARE"
ENCRYPTION = 8
"""The footer member that is present if columns are encrypted but the footer is not."""
TAIL_BYTES = 8
"""Size of the end of a file: the length of the footer, and the magic."""
FOOTER_GUESS_BYTES = 1 << 16
"""Bytes first read from the end of a file; most footers fit."""
WINDOW_BYTES = 1 << 22
"""Bytes of a column chunk held in memory at a time; a page may be larger, a page header must be smaller."""

DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)
DETAILS = {DATA_PAGE: (5, 2), DICTIONARY_PAGE: (7, 2), DATA_PAGE_V2: (8, 4)}
"""For each page type, the header member that describes the page, and the member of that struct with the encoding."""
INDEX_MEMBER = 6
HEADER_ROWS = 3
"""The member with the number of rows in the description of a page of version 2."""
CRC_MASK = 0xFFFFFFFF
HEADER_LEVELS = 2
"""The nesting depth of structs read in page headers; deeper ones are statistics, which are not needed."""
HEADER_MEMBERS = frozenset((1, 2, 3, 4))

ReadRange = Callable[[int, int], bytes]
"""Returns bytes of the file, given the first position and the length."""


@dataclass(frozen=True)
class Pages:
    """Numbers of pages hashed and of pages without a checksum."""

    checked: int = 0
    unchecked: int = 0

    def __add__(self, other: Pages) -> Pages:
        return Pages(self.checked + other.checked, self.unchecked + other.unchecked)


@dataclass(frozen=True)
class ColumnChunk:
    """The location of a column's pages in a row group, and the footer's metadata of them."""

    row_group: int
    column: str
    start: int
    size: int
    uncompressed: int
    values: int
    encodings: frozenset[int]
    counts: Counter[tuple[int, int]] | None

    @property
    def name(self) -> str:
        """The top-level column."""
        return self.column.partition("\0")[0]


def read_column_chunks(source: FileSource, size: int, read: ReadRange) -> list[ColumnChunk]:
    """Return all column chunks of the footer.

    Raises `CorruptFile`: the footer is missing or damaged. `Unsupported`: the file is encrypted.
    """
    try:
        footer = decode_thrift(read_footer(source.path, size, read))
        if ENCRYPTION in footer:
            raise Unsupported("an encrypted file", where=source.path, hint=OTHER_WRITER)
        return list(_list_chunks(footer))
    except (ThriftError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFile(source.path, f"the footer of the Parquet file is damaged ({error})") from error


def read_footer(where: str, size: int, read: ReadRange) -> bytes:
    """Return the footer. Raises `CorruptFile` and `Unsupported`."""
    start = max(size - FOOTER_GUESS_BYTES, 0)
    tail = read(start, size - start)
    if tail.endswith(ENCRYPTED_MAGIC):
        raise Unsupported("an encrypted file", where=where, hint=OTHER_WRITER)
    if size < TAIL_BYTES + len(MAGIC) or len(tail) != size - start or not tail.endswith(MAGIC):
        raise CorruptFile(where, "does not end like a Parquet file: it is truncated, or damaged")
    length = int.from_bytes(tail[-TAIL_BYTES : -len(MAGIC)], "little")
    if length > size - TAIL_BYTES - len(MAGIC):
        raise CorruptFile(where, f"a footer of {length} bytes does not fit in {size}")
    begin = size - TAIL_BYTES - length
    return tail[begin - start : -TAIL_BYTES] if begin >= start else read(begin, length)


def _list_chunks(footer: Struct) -> Iterator[ColumnChunk]:
    for number, group in enumerate(footer[4][1]):
        for chunk in group[1][1]:
            metadata: Struct = chunk[3][1]
            offsets = [metadata[field][1] for field in (9, 11) if field in metadata]
            stats = metadata[13][1] if 13 in metadata else None
            counts = None if stats is None else Counter[tuple[int, int]]()
            for each in stats or ():
                counts[each[1][1], each[2][1]] += each[3][1]  # type: ignore[index]  # there are stats, so there is a counter
            yield ColumnChunk(
                number,
                "\0".join(part.decode() for part in metadata[3][1]),
                min((offset for offset in offsets if offset > 0), default=0),
                metadata[7][1],
                metadata[6][1],
                metadata[5][1],
                frozenset(metadata[2][1]),
                counts,
            )


def check_chunk(source: FileSource, chunk: ColumnChunk, read: ReadRange) -> Pages:
    """Hash the pages of a column chunk.

    Raises `CorruptFile`: a page's checksum is wrong, or headers contradict the footer.
    """
    return _Walk(source, chunk, read).run()


class PageHeader(NamedTuple):
    """The members of a page header; `rows` is None if the header does not count rows."""

    kind: int
    uncompressed: int
    stored: int
    crc: int | None
    values: int
    encoding: int
    rows: int | None = None

    @classmethod
    def of(cls, node: Struct) -> PageHeader:
        """Decode a page header.

        Raises KeyError, ThriftError: not a page header. Nothing else checks headers, so unknown members are damage.
        """
        (one, kind), (two, uncompressed), (three, stored) = node[1], node[2], node[3]
        member, place = DETAILS.get(kind, (INDEX_MEMBER, None))
        four, crc = node.get(4, (I32, None))
        if not one == two == three == four == I32 or node.keys() - HEADER_MEMBERS != {member}:
            raise ThriftError(f"members {sorted(node)} of a page of type {kind}")
        if place is None:
            return cls(kind, uncompressed, stored, crc, 0, 0)
        details: Struct = node[member][1]
        (one, values), (two, encoding) = details[1], details[place]
        if not one == two == I32:
            raise ThriftError(f"numbers of another type in a page of type {kind}")
        rows = details[HEADER_ROWS][1] if kind == DATA_PAGE_V2 else None
        return cls(kind, uncompressed, stored, crc, values, encoding, rows)


class _Walk:
    """A pass over the pages of one column chunk, some bytes at a time."""

    def __init__(self, source: FileSource, chunk: ColumnChunk, read: ReadRange) -> None:
        self.chunk, self.read, self.path = chunk, read, source.path
        self.end = chunk.start + chunk.size
        self.window, self.first = b"", chunk.start
        self.counts: Counter[tuple[int, int]] = Counter()
        self.checked = self.unchecked = self.values = self.uncompressed = 0
        self.hashed, self.unhashed = set[int](), set[int]()

    def run(self) -> Pages:
        chunk = self.chunk
        if chunk.size < 0 or chunk.start < len(MAGIC):
            raise self._corrupt("the footer says that it lies where no column can")
        at = chunk.start
        while at < self.end:
            at = self._page(at)
        if self.values != chunk.values or self.uncompressed != chunk.uncompressed:
            raise self._corrupt(
                f"its pages have {self.values} values in {self.uncompressed} bytes, "
                f"and the footer says {chunk.values} in {chunk.uncompressed}"
            )
        if self.hashed & self.unhashed:  # a writer may leave out the checksums of one kind of page
            raise self._corrupt("some of its pages have a checksum and others have none")
        if chunk.counts is not None and chunk.counts != self.counts:
            raise self._corrupt("its pages are of other kinds or encodings than the footer says")
        return Pages(self.checked, self.unchecked)

    def _page(self, at: int) -> int:
        """Check the page at this position; return the position of the next one."""
        header, body = self._header(at)
        self.uncompressed += body - at + header.uncompressed
        if header.kind != INDEX_PAGE:
            self.counts[header.kind, header.encoding] += 1
            self.values += header.values if header.kind != DICTIONARY_PAGE else 0
        if header.encoding not in self.chunk.encodings and header.kind != INDEX_PAGE:
            raise self._corrupt("a page has an encoding that the footer does not name")
        if header.crc is None:
            self.unchecked += 1
            self.unhashed.add(header.kind)
        else:
            self.checked += 1
            self.hashed.add(header.kind)
            if self._crc(body, header.stored) != header.crc & CRC_MASK:
                raise self._corrupt("the checksum of a page is wrong")
        return body + header.stored

    def _header(self, at: int) -> tuple[PageHeader, int]:
        """Return the page header at this position, and the start of its body."""
        try:
            node, end = decode_thrift_from(self._bytes(at), at - self.first, HEADER_LEVELS)
            header, body = PageHeader.of(node), self.first + end
        except (ThriftError, KeyError, TypeError) as error:
            if self.first < at and self.first + len(self.window) < self.end:
                self._fill(at)  # the header may continue beyond the bytes in memory
                return self._header(at)
            raise self._corrupt(f"a page header is damaged ({error})") from error
        if header.uncompressed < 0 or header.values < 0 or not 0 <= header.stored <= self.end - body:
            raise self._corrupt("a page header is damaged")
        return header, body

    def _bytes(self, at: int) -> bytes:
        if not self.first <= at < self.first + len(self.window):
            self._fill(at)
        return self.window

    def _fill(self, at: int) -> None:
        length = min(WINDOW_BYTES, self.end - at)
        self.window, self.first = self.read(at, length), at
        if len(self.window) != length:
            raise self._corrupt("the file ends within it")

    def _crc(self, at: int, length: int) -> int:
        crc, end = 0, at + length
        while at < end:
            window = self._bytes(at)
            stop = min(end, self.first + len(window))
            crc = zlib.crc32(memoryview(window)[at - self.first : stop - self.first], crc)
            at = stop
        return crc

    def _corrupt(self, problem: str) -> CorruptFile:
        chunk = self.chunk
        column = chunk.column.replace("\0", ".")
        return CorruptFile(self.path, f"column {column!r} in row group {chunk.row_group}: {problem}")
