"""Excerpts of Parquet files: the pages that hold some rows, as small Parquet files in memory.

A column chunk is a sequence of pages: a dictionary, if it has one, and data pages. An excerpt repeats pages below a new
footer, so that any reader of Parquet decodes it. Columns whose pages begin at the same rows share an excerpt.

Decompression takes most of the time of reading a few rows, and most of it goes into dictionaries. Pages are therefore
decompressed here, and the dictionaries of row groups are remembered. A dictionary is left out if no chosen page uses
it.

The offset index of a chunk lists its pages. Without an index, the page headers are read one after another on a local
disk. Columns with repeated values are left out then: their pages of version 1 do not count rows. Page tables
are remembered.

    ColumnChunk     3 meta_data   4 offset_index_offset: i64   5 offset_index_length: i32
    OffsetIndex     1 page_locations: list<PageLocation>
    PageLocation    1 offset: i64   2 compressed_page_size: i32, with the header   3 first_row_index: i64
    SchemaElement   3 repetition_type   4 name   5 num_children

Nothing is reported here: no excerpt is made of a file with unexpected bytes, and another reader examines the file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from itertools import accumulate
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.format.file_formats import PARQUET
from morrow.engine.format.parquet_metadata import (
    COLUMNS,
    DATA_OFFSET,
    DICTIONARY_OFFSET,
    END,
    FALSE,
    GROUP_ROWS,
    I32,
    I64,
    LIST,
    METADATA,
    PAGE_STORED,
    PAGE_UNCOMPRESSED,
    ROW_GROUPS,
    ROWS,
    STORED,
    STRUCT,
    TRUE,
    Items,
    Struct,
    ThriftError,
    count_rows,
    decode_thrift,
    decode_thrift_from,
    encode_members,
    encode_thrift,
)
from morrow.engine.io.store import FileStore
from morrow.engine.plan.sections import find_distinct
from morrow.readers.files.page_checksums import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DETAILS,
    DICTIONARY_PAGE,
    ENCRYPTION,
    HEADER_LEVELS,
    MAGIC,
    PageHeader,
    ReadRange,
    open_ranges,
    read_footer,
)
from morrow.readers.files.source import FileSource

MAX_FOOTER_BYTES = 1 << 17
"""Maximum size of a footer that is decoded here, since Python takes 0.2 ms for a kilobyte. Files with a longer footer
are read without excerpts."""
MAX_EXCERPT_BYTES = 16 << 20
"""Maximum bytes of pages in memory for one read of a file. More bytes are read as fast without excerpts."""
MAX_LOCAL_BYTES = 4 << 20
"""As `MAX_EXCERPT_BYTES`, for files on a local disk: a scan of them skips the other pages faster."""
FOOTER_FACTOR = 40
"""Approximate memory of a decoded footer, as a multiple of its size."""
PAGE_ENTRY_BYTES = 200
"""Approximate memory of a page in a page table."""
HEADER_BYTES = 1 << 10
"""Bytes that are read to decode a page header; a longer header is read again with `MAX_HEADER_BYTES`."""
MAX_HEADER_BYTES = 1 << 16
"""Maximum bytes of a page header, which statistics with long text need. A chunk with longer headers is left out."""
REQUESTS = 16
"""Maximum ranges of a remote file that are requested at once."""

SCHEMA, VERSION, CREATOR = 2, 1, 6
"""Thrift field ids of ``FileMetaData``."""
REPETITION, NAME, CHILDREN = 3, 4, 5
"""Thrift field ids of ``SchemaElement``."""
REPEATED = 2
CHUNK_START, GROUP_BYTES = 2, 2
"""Thrift field ids: ``file_offset`` of ``ColumnChunk``, ``total_byte_size`` of ``RowGroup``."""
INDEX_OFFSET, INDEX_LENGTH = 4, 5
LOCATION_OFFSET, LOCATION_SIZE, LOCATION_ROW = 1, 2, 3
TYPE, ENCODINGS, PATH, CODEC, VALUES, UNPACKED = 1, 2, 3, 4, 5, 6
"""Thrift field ids of ``ColumnMetaData``."""
DICTIONARY_ENCODINGS = frozenset((2, 8))
CODECS = {0: None, 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
"""Arrow's names of codecs. Files with other codecs, such as the LZ4 of Hadoop, are read without excerpts."""
PAGE_CRC, V2_DEFINITION_BYTES, V2_REPETITION_BYTES, V2_COMPRESSED = 4, 5, 6, 7
"""Thrift field ids of ``PageHeader`` (the first) and of ``DataPageHeaderV2``."""
LENGTH_BYTES = 4
"""Bytes of the length of a footer, and of the levels of a page."""

DAMAGE = (ThriftError, KeyError, TypeError, ValueError, IndexError, AttributeError)
"""Errors of decoding unexpected bytes."""

Places = npt.NDArray[np.int64]
Span = tuple[int, int]
"""Position and length of bytes in a file."""
Remember = Callable[[Hashable, Callable[[], tuple[Any, int]]], Any]
"""Returns the remembered value of a part of the file, or the one that the function makes with its size in bytes."""
FindDecoded = Callable[[Hashable], pl.DataFrame | None]
"""Returns the rows of an excerpt by its `part`; None if they are not remembered."""


class Excerpt(msgspec.Struct, frozen=True):
    """A Parquet file of some top-level columns of a row group.

    `rows` are the positions of its rows in the file, and `part` names its pages. `data` is empty if `decoded` has the
    rows already.
    """

    part: Hashable
    columns: frozenset[str]
    data: bytes
    rows: Places
    decoded: pl.DataFrame | None = None


class ExcerptStore:
    """A store in which every file has the bytes of an excerpt; everything else is delegated to `inner`."""

    has_urls = False
    is_local = False
    checks_pages = False

    def __init__(self, inner: FileStore, data: bytes) -> None:
        self.inner, self._data = inner, data

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # looked up by pickle and copy before there is a store
            raise AttributeError(name)
        return getattr(self.inner, name)

    def read(self, _path: str) -> bytes:
        return self._data

    def open(self, _path: str) -> BinaryIO:
        return io.BytesIO(self._data)


def cut_excerpts(
    source: FileSource,
    columns: Sequence[str],
    places: Places,
    remember: Remember,
    find_decoded: FindDecoded = lambda _: None,
) -> list[list[Excerpt]] | None:
    """Return excerpts with these columns of the rows at `places` (ascending), for each row group in question.

    Returns None if the file is not suited. Pages are not checked here. Raises `FileMissing` and `StorageError`.
    """
    if source.format != PARQUET or not source.size or not len(places):
        return None
    with open_ranges(source) as read:
        return _Cut(source, read, remember, find_decoded).run(columns, places)


class _Footer(msgspec.Struct, frozen=True):
    """A decoded footer. `leaves` has for each leaf of a top-level column the greatest repetition level: 0 if a row has
    one value.

    `common` are members that an excerpt has, too; `schema` has the encoded elements of each top-level column.
    """

    common: Struct
    root: Struct
    schema: Mapping[str, list[bytes]]
    leaves: Mapping[str, dict[int, int]]
    groups: Sequence[Sequence[Struct]]
    starts: Sequence[int]

    @classmethod
    def of(cls, footer: Struct) -> _Footer:
        elements: Sequence[Struct] = footer[SCHEMA][1]
        schema: dict[str, list[bytes]] = {}
        leaves: dict[str, dict[int, int]] = {}
        at, leaf = 1, 0
        while at < len(elements):
            levels = list(_list_leaves(elements, at))
            name, end = elements[at][NAME][1].decode(), _skip_element(elements, at)
            if name in schema:
                raise ThriftError("two columns with one name")
            schema[name] = list(map(encode_thrift, elements[at:end]))
            leaves[name] = dict(enumerate(levels, leaf))
            at, leaf = end, leaf + len(levels)
        groups = [group[COLUMNS][1] for group in footer[ROW_GROUPS][1]]
        if ENCRYPTION in footer or len(schema) != elements[0][CHILDREN][1] or any(len(g) != leaf for g in groups):
            raise ThriftError("columns that the schema lacks")
        starts = list(accumulate((group[GROUP_ROWS][1] for group in footer[ROW_GROUPS][1]), initial=0))
        common = {member: footer[member] for member in (VERSION, CREATOR) if member in footer}
        return cls(common, elements[0], schema, leaves, groups, starts)


def _skip_element(elements: Sequence[Struct], at: int) -> int:
    """Return the end of the element at this place with all that it contains."""
    end = at + 1
    for _ in range(elements[at][CHILDREN][1] if CHILDREN in elements[at] else 0):
        end = _skip_element(elements, end)
    return end


def _list_leaves(elements: Sequence[Struct], at: int, level: int = 0) -> Iterator[int]:
    """Yield the greatest repetition level of each leaf of an element."""
    level += elements[at][REPETITION][1] == REPEATED
    children = elements[at][CHILDREN][1] if CHILDREN in elements[at] else 0
    if not children:
        yield level
    end = at + 1
    for _ in range(children):
        yield from _list_leaves(elements, end, level)
        end = _skip_element(elements, end)


class _PageTable(msgspec.Struct, frozen=True):
    """The data pages of a column chunk: bytes of pages, and the first row of each; the last entry is the row count.

    `dictionary` holds the dictionary page; its length is 0 without one.
    `kind` has the encoded members of the chunk's metadata that every excerpt repeats. `unpacked` is the size of all
    pages when decompressed, and `level` the greatest repetition level.
    """

    kind: bytes
    codec: str | None
    unpacked: int
    level: int
    dictionary: Span
    spans: Sequence[Span]
    rows: Places

    def list_spans(self, ranges: Places) -> list[Span]:
        """Return the bytes of the pages in these ranges of rows; neighbouring pages are one span."""
        found: list[Span] = []
        for first, end in np.searchsorted(self.rows, ranges).T.tolist():
            for start, length in self.spans[first:end]:
                if found and sum(found[-1]) == start:
                    found[-1] = (found[-1][0], found[-1][1] + length)
                else:
                    found.append((start, length))
        return found

    def unpack(self, data: bytes) -> Iterator[_Page]:
        """Yield the pages in these bytes, decompressed."""
        at = 0
        while at < len(data):
            node, body = decode_thrift_from(data, at, HEADER_LEVELS)
            header = PageHeader.of(node)
            at = body + header.stored
            if not (0 <= header.stored <= len(data) - body and 0 <= header.uncompressed <= self.unpacked):
                raise ThriftError("a page header that contradicts its column")
            yield _Page.of(node, header, memoryview(data)[body:at], self.codec, self.level)


class _Page(msgspec.Struct, frozen=True):
    """A decompressed page with its encoded header; `values` and `rows` are 0 for a dictionary."""

    header: bytes
    body: bytes | memoryview
    values: int
    rows: int
    encoding: int

    @classmethod
    def of(cls, node: Struct, header: PageHeader, stored: memoryview, codec: str | None, level: int) -> _Page:
        """Decompress a page; the levels of version 2 are not compressed."""
        body: bytes | memoryview = stored
        if header.kind == DATA_PAGE_V2:
            details: Struct = node[DETAILS[DATA_PAGE_V2][0]][1]
            levels = details[V2_DEFINITION_BYTES][1] + details[V2_REPETITION_BYTES][1]
            if codec is not None and details.get(V2_COMPRESSED, (TRUE, True))[1]:
                if not 0 <= levels <= min(header.stored, header.uncompressed):
                    raise ThriftError("levels beyond their page")
                values = _decompress(stored[levels:], header.uncompressed - levels, codec)
                body = b"".join((stored[:levels], values))
            details[V2_COMPRESSED] = (FALSE, False)
        elif codec is not None:
            body = _decompress(stored, header.uncompressed, codec)
        node.pop(PAGE_CRC, None)
        node[PAGE_STORED] = node[PAGE_UNCOMPRESSED] = (I32, len(body))
        encoded = encode_thrift(node)
        if header.kind == DICTIONARY_PAGE:
            return cls(encoded, body, 0, 0, header.encoding)
        rows = header.values if header.rows is None else header.rows
        if level and header.rows is None:
            length = int.from_bytes(body[:LENGTH_BYTES], "little")
            rows = count_rows(body[LENGTH_BYTES : LENGTH_BYTES + length], level.bit_length(), header.values)
        return cls(encoded, body, header.values, rows, header.encoding)

    @property
    def size(self) -> int:
        return len(self.header) + len(self.body)


def _decompress(data: memoryview, size: int, codec: str) -> bytes:
    """Return `size` decompressed bytes. Raises ThriftError if the bytes are damaged."""
    if not size:
        return b""
    try:
        found: bytes = pa.decompress(data, size, codec, asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise ThriftError("compressed bytes that are damaged") from error
    return found


class _Cut(msgspec.Struct, frozen=True):
    source: FileSource
    read: ReadRange
    remember: Remember
    find_decoded: FindDecoded

    def run(self, columns: Sequence[str], places: Places) -> list[list[Excerpt]] | None:
        footer = self.remember("footer", self._load_footer)
        if not footer or any(name not in footer.schema for name in columns):
            return None
        ends = np.searchsorted(places, footer.starts[1:])
        found, left = [], MAX_LOCAL_BYTES if self.source.store.is_local else MAX_EXCERPT_BYTES
        for number, (start, end) in enumerate(zip((0, *ends.tolist()), ends.tolist())):
            if start == end:
                continue
            try:
                excerpts = self._cut_group(footer, number, columns, places[start:end] - footer.starts[number], left)
            except DAMAGE:
                return None
            if excerpts is None:
                return None
            left -= sum(len(each.data) for each in excerpts)
            found.append(excerpts)
        return found

    def _load_footer(self) -> tuple[_Footer | bool, int]:
        data = read_footer(self.source.path, self.source.size, self.read)
        if len(data) > MAX_FOOTER_BYTES:
            return False, PAGE_ENTRY_BYTES
        try:
            found = _Footer.of(decode_thrift(data))
        except DAMAGE:
            return False, PAGE_ENTRY_BYTES
        return found if found.starts[-1] == self.source.row_count else False, FOOTER_FACTOR * len(data)

    def _cut_group(
        self, footer: _Footer, number: int, columns: Sequence[str], places: Places, left: int
    ) -> list[Excerpt] | None:
        """Return excerpts of a row group; None if they exceed `left` bytes. `places` are positions within the group."""
        layouts = self.remember((number, *columns), partial(self._list_layouts, footer, number, columns))
        if not layouts:
            return None
        parts: list[tuple[Hashable, Sequence[str], Places]] = []
        for edges, names in layouts:
            chosen = np.array(find_distinct(np.searchsorted(edges, places, "right"))) - 1
            ranges = np.stack([edges[chosen], edges[chosen + 1]])
            parts.append(((number, ranges.tobytes(), *names), names, ranges))
        known = {part: found for part, *_ in parts if (found := self.find_decoded(part)) is not None}
        tables: dict[int, _PageTable] = {}
        spans: dict[int, list[Span]] = {}
        for name, ranges in ((name, ranges) for part, names, ranges in parts if part not in known for name in names):
            for leaf in footer.leaves[name]:
                table = self._find_table(footer, number, name, leaf)
                if table is None:
                    return None
                tables[leaf] = table
                spans[leaf] = table.list_spans(ranges)
        wanted = [span for each in spans.values() for span in each]
        if not self.source.store.is_local:  # all in one round of requests
            wanted += [table.dictionary for table in tables.values() if table.dictionary[1]]
        if sum(length for _, length in wanted) > left:
            return None
        fetched = dict(zip(wanted, self._fetch(wanted)))

        def build(part: Hashable, names: Sequence[str], ranges: Places) -> Excerpt:
            chunks, rows = [], np.concatenate([np.arange(low, high) for low, high in ranges.T])
            found = partial(Excerpt, part, frozenset(names), rows=rows + footer.starts[number])
            if part in known:
                return found(b"", decoded=known[part])
            for leaf in (leaf for name in names for leaf in footer.leaves[name]):
                table = tables[leaf]
                pages = [page for span in spans[leaf] for page in table.unpack(fetched[span])]
                dictionary = None
                if any(page.encoding in DICTIONARY_ENCODINGS for page in pages):
                    make = partial(self._load_dictionary, table, fetched)
                    dictionary = self.remember((number, leaf, "dictionary"), make)
                chunks.append(_Chunk(table.kind, dictionary, pages))
                if sum(page.rows for page in pages) != len(rows):
                    raise ThriftError("pages with other rows than their index says")
            return found(_encode_file(footer, names, chunks, len(rows)))

        return [build(*each) for each in parts]

    def _list_layouts(
        self, footer: _Footer, number: int, columns: Sequence[str]
    ) -> tuple[Sequence[tuple[Places, Sequence[str]]], int]:
        """Return the first rows of pages, and the columns whose pages begin there; empty if a column has none."""
        found: dict[bytes, tuple[Places, list[str]]] = {}
        for name in columns:
            tables = [self._find_table(footer, number, name, leaf) for leaf in footer.leaves[name]]
            starts = [table.rows for table in tables if table]
            if len(starts) < len(tables):
                return (), PAGE_ENTRY_BYTES
            edges = reduce(np.intersect1d, starts)
            found.setdefault(edges.tobytes(), (edges, []))[1].append(name)
        return tuple(found.values()), PAGE_ENTRY_BYTES + sum(edges.nbytes for edges, _ in found.values())

    def _find_table(self, footer: _Footer, number: int, name: str, leaf: int) -> _PageTable | None:
        """Return the pages of a column chunk; None if they cannot be listed."""
        found = self.remember((number, leaf), partial(self._load_table, footer, number, name, leaf))
        return found or None

    def _load_dictionary(self, table: _PageTable, fetched: Mapping[Span, bytes]) -> tuple[_Page, int]:
        span = table.dictionary
        (page,) = table.unpack(fetched[span] if span in fetched else self._fetch([span])[0])
        return page, len(page.body) + PAGE_ENTRY_BYTES

    def _fetch(self, spans: Sequence[Span]) -> list[bytes]:
        """Return bytes of the file. Raises ThriftError if the file ends within them."""
        if self.source.store.is_local or len(spans) < 2:
            found = [self.read(*span) for span in spans]
        else:
            with ThreadPoolExecutor(REQUESTS) as pool:
                found = list(pool.map(lambda span: self.read(*span), spans))
        if any(len(data) != length for data, (_, length) in zip(found, spans)):
            raise ThriftError("the file ends within a page")
        return found

    def _load_table(self, footer: _Footer, number: int, name: str, leaf: int) -> tuple[_PageTable | bool, int]:
        chunk = footer.groups[number][leaf]
        column: Struct = chunk[METADATA][1]
        offsets = [column[member][1] for member in (DATA_OFFSET, DICTIONARY_OFFSET) if member in column]
        start = min(offset for offset in offsets if offset > 0)
        end, rows = start + column[STORED][1], footer.starts[number + 1] - footer.starts[number]
        if INDEX_OFFSET in chunk:
            found = self._load_index(chunk, start, end, rows)
        elif self.source.store.is_local:
            found = self._walk(column, start, end, rows, footer.leaves[name][leaf])
        else:
            return False, PAGE_ENTRY_BYTES
        kind = encode_members({**{member: column[member] for member in (TYPE, ENCODINGS, PATH)}, CODEC: (I32, 0)})
        table = _PageTable(kind, CODECS[column[CODEC][1]], column[UNPACKED][1], footer.leaves[name][leaf], *found)
        return table, PAGE_ENTRY_BYTES * (2 + len(table.spans))

    def _load_index(self, chunk: Struct, start: int, end: int, rows: int) -> tuple[Span, list[Span], Places]:
        """Return the pages by the offset index of a chunk."""
        (data,) = self._fetch([(chunk[INDEX_OFFSET][1], chunk[INDEX_LENGTH][1])])
        found = [
            [each[member][1] for member in (LOCATION_OFFSET, LOCATION_SIZE, LOCATION_ROW)]
            for each in decode_thrift(data)[1][1]
        ]
        at, sizes, first = np.array(found, np.int64).T
        whole = np.append(at, end)
        if first[0] != 0 or at[0] < start or (sizes <= 0).any() or (whole[:-1] + sizes > whole[1:]).any():
            raise ThriftError("an offset index that contradicts its column")
        edges = np.append(first, rows)
        if (np.diff(edges) < 0).any():
            raise ThriftError("rows of an offset index that descend")
        return (start, int(at[0]) - start), list(zip(at.tolist(), sizes.tolist())), edges

    def _walk(self, column: Struct, start: int, end: int, rows: int, level: int) -> tuple[Span, list[Span], Places]:
        """Return the pages by their headers."""
        dictionary, spans, first, values, unpacked = (start, 0), list[Span](), [0], 0, 0
        at = start
        while at < end:
            header, length = self._read_header(at, end)
            size = length + header.stored
            unpacked += length + header.uncompressed
            if header.kind == DICTIONARY_PAGE and at == start:
                dictionary = (start, size)
            elif header.kind not in (DATA_PAGE, DATA_PAGE_V2):
                raise ThriftError(f"a page of type {header.kind}")
            elif level and header.rows is None:
                raise ThriftError("a page with an unknown number of rows")
            else:
                spans.append((at, size))
                values += header.values
                first.append(first[-1] + (header.values if header.rows is None else header.rows))
            at += size
        if (at, values, unpacked, first[-1]) != (end, column[VALUES][1], column[UNPACKED][1], rows):
            raise ThriftError("pages that contradict the footer")
        return dictionary, spans, np.array(first)

    def _read_header(self, at: int, end: int) -> tuple[PageHeader, int]:
        """Return the page header at this position, and its length."""
        for most in (HEADER_BYTES, MAX_HEADER_BYTES):
            data = self.read(at, min(most, end - at))
            try:
                node, length = decode_thrift_from(data, 0, HEADER_LEVELS)
            except ThriftError:
                continue
            return PageHeader.of(node), length
        raise ThriftError("a page header that does not end")


class _Chunk(msgspec.Struct, frozen=True):
    """A column chunk of an excerpt; `kind` as in its page table."""

    kind: bytes
    dictionary: _Page | None
    pages: Sequence[_Page]

    @property
    def every(self) -> Sequence[_Page]:
        return self.pages if self.dictionary is None else (self.dictionary, *self.pages)

    def describe(self, start: int) -> tuple[Struct, int]:
        """Return the chunk for the footer of a file in which it begins at `start`, and its size."""
        size = sum(page.size for page in self.every)
        first = 0 if self.dictionary is None else self.dictionary.size
        members: Struct = {
            VALUES: (I64, sum(page.values for page in self.pages)),
            UNPACKED: (I64, size),
            STORED: (I64, size),
            DATA_OFFSET: (I64, start + first),
        }
        if first:
            members[DICTIONARY_OFFSET] = (I64, start)
        metadata = self.kind + encode_members(members, CODEC) + bytes((END,))
        return {CHUNK_START: (I64, 0), METADATA: (STRUCT, metadata)}, size


def _encode_file(footer: _Footer, names: Sequence[str], chunks: Sequence[_Chunk], rows: int) -> bytes:
    """Return a file with one row group of these column chunks."""
    described, start = [], len(MAGIC)
    for each in chunks:
        chunk, size = each.describe(start)
        described.append(chunk)
        start += size
    group: Struct = {
        COLUMNS: (LIST, Items(STRUCT, described)),
        GROUP_BYTES: (I64, start),
        GROUP_ROWS: (I64, rows),
    }
    elements: list[Struct | bytes] = [{**footer.root, CHILDREN: (I32, len(names))}]
    elements += [element for name in names for element in footer.schema[name]]
    encoded = encode_thrift(
        {
            **footer.common,
            SCHEMA: (LIST, Items(STRUCT, elements)),
            ROWS: (I64, rows),
            ROW_GROUPS: (LIST, Items(STRUCT, [group])),
        }
    )
    bodies = (part for each in chunks for page in each.every for part in (page.header, page.body))
    return b"".join((MAGIC, *bodies, encoded, len(encoded).to_bytes(LENGTH_BYTES, "little"), MAGIC))
