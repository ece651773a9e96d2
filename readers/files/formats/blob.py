"""Reader of blob files (`morrow.engine.format.blob_layout`): records, and the members of arrays and maps in them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format import blob_layout as layout
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.blobs import encode_descriptors, is_blob_type
from morrow.engine.io.store import FileStore, read_each
from morrow.engine.library_versions import import_array
from morrow.readers.files.registry import FileReader
from morrow.readers.files.source import Chunk, FileSource

PAYLOAD_TAIL_BYTES = 4096
"""Bytes at the end of a payload that are read to find its index; a longer index takes another read."""
CHUNK_BYTES = 1 << 26
"""Bytes of values that are read at a time, unless a single value is larger."""
MAX_GAP_BYTES = 1 << 14
"""Maximum bytes between two values that are read together; a separate request takes longer."""


def decode_blob(source: FileSource, fields: Sequence[t.DataField]) -> Iterator[Chunk]:
    """Yield chunks of about 64 MiB of values."""
    if len(fields) > 1 or not all(is_blob_type(each.type) for each in fields):
        raise Unsupported("a blob file with other than one BLOB column", where=source.path)
    lengths = record_lengths(source)
    if not fields:
        yield Chunk(len(lengths), pl.DataFrame())
        return
    sizes = np.maximum(lengths, 0)
    ends = np.cumsum(sizes)
    start = 0
    while start < len(lengths):
        offset = int(ends[start] - sizes[start])
        stop = max(start + 1, int(np.searchsorted(ends, offset + CHUNK_BYTES, side="right")))
        contents = read_records(source.store, source.path, ends[start:stop] - sizes[start:stop], sizes[start:stop])
        values = decode_values(contents, fields[0].type, source.path)
        yield Chunk(stop - start, pl.DataFrame([values.alias(fields[0].name)]))
        start = stop


def read_records(store: FileStore, path: str, offsets: layout.Numbers, sizes: layout.Numbers) -> pl.Series:
    """Return the contents of records, in any order; a size of 0 is null.

    Raises `CorruptFile`: the file is truncated, or a magic number, length or checksum is wrong.
    """
    stored = make_series(sizes > 0)
    records, found = read_ranges(store, path, offsets[sizes > 0], sizes[sizes > 0]), make_series(sizes[sizes > 0])
    _check(records, found, path)
    return _spread(_slice_contents(records, found), stored)


def _slice_contents(records: pl.Series, sizes: pl.Series) -> pl.Series:
    length = pl.col("size") - layout.RECORD_OVERHEAD
    frame = pl.DataFrame({"record": records, "size": sizes})
    return frame.select(pl.col("record").bin.slice(len(layout.MAGIC), length)).to_series()


def read_ranges(store: FileStore, path: str, offsets: layout.Numbers, sizes: layout.Numbers) -> pl.Series:
    """Return the bytes of ranges of a file, in any order; neighbours are read together.

    Raises `CorruptFile`: the file is truncated.
    """
    if not len(offsets):
        return pl.Series(dtype=pl.Binary)
    order = np.lexsort((sizes, offsets))
    starts, ends = offsets[order], (offsets + sizes)[order]
    apart = (starts[1:] > ends[:-1] + MAX_GAP_BYTES) | (starts[1:] < ends[:-1])
    # A run also ends before it would be too large.
    apart |= np.diff(starts // CHUNK_BYTES) > 0
    firsts = np.concatenate([[0], np.flatnonzero(apart) + 1])
    lasts = np.append(firsts[1:], len(order))

    def read_run(run: tuple[int, int]) -> pl.Series:
        first, last = run
        begin, end = int(starts[first]), int(ends[last - 1])
        data = store.read_range(path, begin, end - begin) if end > begin else b""
        if len(data) < end - begin:
            raise CorruptFile(path, f"truncated: {len(data)} of {end - begin} bytes from {begin}")
        places = np.stack([starts[first:last], ends[first:last]], axis=1).reshape(-1) - begin
        buffers = [None, pa.py_buffer(places), pa.py_buffer(data)]
        parts = pa.Array.from_buffers(pa.large_binary(), len(places) - 1, buffers)
        return pl.Series(pl.from_arrow(parts)).gather_every(2)

    found = pl.concat(list(read_each(store, read_run, list(zip(firsts.tolist(), lasts.tolist())))))
    return found if (order[1:] > order[:-1]).all() else found.gather(np.argsort(order))


def decode_values(contents: pl.Series, kind: t.DataType, where: str) -> pl.Series:
    """Return the values of a column of this type: the contents of records, or the members of their payloads."""
    if isinstance(kind, t.BlobType):
        return contents
    payloads = contents.drop_nulls()

    def read_payload(number: int) -> tuple[Callable[[int, int], bytes], int]:
        whole = payloads[number]
        return lambda start, length: whole[start : start + length], len(whole)

    def slice_members(records: layout.Numbers, starts: layout.Numbers, sizes: layout.Numbers) -> pl.Series:
        frame = pl.DataFrame({"whole": payloads.gather(records), "start": starts, "size": sizes})
        return frame.select(pl.col("whole").bin.slice(pl.col("start"), pl.col("size"))).to_series()

    return _build_nested(contents.is_not_null(), kind, read_payload, slice_members, where)


def describe_values(
    store: FileStore, path: str, offsets: layout.Numbers, sizes: layout.Numbers, kind: t.DataType
) -> pl.Series:
    """Return descriptors instead of the values of records of a file; a size of 0 is null.

    Only the indexes of payloads are read.
    """
    stored = make_series(sizes > 0)
    starts, lengths = offsets[sizes > 0] + len(layout.MAGIC), sizes[sizes > 0] - layout.RECORD_OVERHEAD
    uri = store.url(path)
    if isinstance(kind, t.BlobType):
        return _spread(encode_descriptors(uri, starts, lengths), stored)

    def read_payload(number: int) -> tuple[Callable[[int, int], bytes], int]:
        first, size = int(starts[number]), int(lengths[number])
        return lambda start, length: store.read_range(path, first + start, length), size

    def describe_members(records: layout.Numbers, members: layout.Numbers, member_sizes: layout.Numbers) -> pl.Series:
        return encode_descriptors(uri, starts[records] + members, member_sizes)

    return _build_nested(stored, kind, read_payload, describe_members, path)


def record_lengths(source: FileSource) -> layout.Numbers:
    """Return the length of each record, -1 for null, -2 for a placeholder; checked against the size of the file.

    Raises `CorruptFile`, `Unsupported` (version), `FileMissing`.
    """
    where, size = source.path, source.size or source.store.size(source.path) or 0
    if size < layout.FOOTER_BYTES:
        raise CorruptFile(where, f"truncated: {size} bytes are too few for a blob file")
    footer = source.store.read_range(where, size - layout.FOOTER_BYTES, layout.FOOTER_BYTES)
    index_size = int.from_bytes(footer[:4], "little", signed=True)
    if len(footer) < layout.FOOTER_BYTES or not 0 <= index_size <= size - layout.FOOTER_BYTES:
        raise CorruptFile(where, f"the index of a blob file of {size} bytes cannot have {index_size}")
    if footer[4] != layout.FILE_VERSION:
        raise Unsupported(f"version {footer[4]} of blob files", where=where)
    data_size = size - layout.FOOTER_BYTES - index_size
    lengths = np.cumsum(layout.decode_zigzag_varints(source.store.read_range(where, data_size, index_size), where))
    stored = lengths[lengths >= 0]
    if (
        (lengths < layout.PLACEHOLDER_LENGTH).any()
        or (stored < layout.RECORD_OVERHEAD).any()
        or (stored > data_size).any()
    ):
        raise CorruptFile(where, "the blob index holds impossible lengths")
    if int(stored.sum()) != data_size:
        raise CorruptFile(where, f"the blob index covers {int(stored.sum())} of {data_size} bytes")
    return lengths


class _Members:
    """The members of one payload: their offsets, their sizes (-1: null), and the keys."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, kind: t.DataType, where: str) -> None:
        is_map = isinstance(kind, t.MapType)
        index_count = 2 if is_map else 1
        if size < layout.PAYLOAD_HEAD_BYTES + 4 * index_count:
            raise CorruptFile(where, f"{size} bytes are too few for a value of {kind}")
        head = read(0, layout.PAYLOAD_HEAD_BYTES)
        if head[:4] != (layout.MAP_MAGIC if is_map else layout.ARRAY_MAGIC):
            raise CorruptFile(where, f"a value of {kind} does not start with its magic number")
        if head[4] != layout.PAYLOAD_VERSION:
            raise Unsupported(f"version {head[4]} of {kind} in blob files", where=where)
        self._where, self._kind = where, kind
        count = int.from_bytes(head[5:], "little", signed=True)
        tail = read(max(size - PAYLOAD_TAIL_BYTES, 0), min(size, PAYLOAD_TAIL_BYTES))
        index_sizes = np.frombuffer(tail[-4 * index_count :], "<i4")
        total = int(index_sizes.astype(np.int64).sum())
        data_end = size - 4 * index_count - total
        self._expect((index_sizes >= 0).all() and data_end >= layout.PAYLOAD_HEAD_BYTES)
        index = tail[-4 * index_count - total : -4 * index_count]
        if len(index) < total:
            index = read(data_end, total)
        parts = [np.cumsum(layout.decode_zigzag_varints(part, where)) for part in _split(index, index_sizes)]
        self._expect(all(len(part) == count and (part >= layout.NULL_LENGTH).all() for part in parts))
        self.sizes = parts[-1]
        self.key_sizes = parts[0]
        key_bytes = int(np.maximum(self.key_sizes, 0).sum()) if is_map else 0
        stored = np.maximum(self.sizes, 0)
        first = layout.PAYLOAD_HEAD_BYTES + key_bytes
        self._expect(first + int(stored.sum()) == data_end)
        self.starts = first + np.cumsum(stored) - stored
        self.keys = read(layout.PAYLOAD_HEAD_BYTES, key_bytes) if is_map else b""

    def _expect(self, holds: object) -> None:
        if not holds:
            raise CorruptFile(self._where, f"the index of a value of {self._kind} holds impossible lengths")


def _split(data: bytes, sizes: npt.NDArray[np.int32]) -> Iterator[bytes]:
    ends = np.cumsum(sizes).tolist()
    return (data[end - size : end] for end, size in zip(ends, sizes.tolist()))


def _build_nested(
    stored: pl.Series,
    kind: t.DataType,
    read_payload: Callable[[int], tuple[Callable[[int, int], bytes], int]],
    make_values: Callable[[layout.Numbers, layout.Numbers, layout.Numbers], pl.Series],
    where: str,
) -> pl.Series:
    """Return the lists or maps of payloads.

    Args:
        stored: whether the row has a payload; other rows are null.
        read_payload: returns a function that reads a range of a payload, and the payload's size.
        make_values: returns the members, given the numbers of their payloads, their offsets there and their sizes.
    """
    # One call for each payload: it holds large values.
    members = [_Members(*read_payload(number), kind, where) for number in range(int(stored.sum()))]
    counts = np.array([len(each.sizes) for each in members], np.int64)
    none = np.empty(0, np.int64)
    sizes = np.concatenate([none, *(each.sizes for each in members)])
    starts = np.concatenate([none, *(each.starts for each in members)])
    records = np.repeat(np.arange(len(members)), counts)
    values = _spread(make_values(*(part[sizes >= 0] for part in (records, starts, sizes))), make_series(sizes >= 0))
    if isinstance(kind, t.MapType):
        key_sizes = np.concatenate([none, *(each.key_sizes for each in members)])
        keys = _decode_keys(b"".join(each.keys for each in members), key_sizes, kind.key, where)
        values = pl.DataFrame({"key": keys, "value": values}).to_struct()
    lists = pa.LargeListArray.from_arrays(np.concatenate([[0], np.cumsum(counts)]), values.to_arrow())
    return _spread(pl.Series(pl.from_arrow(lists), dtype=t.to_polars_dtype(kind)), stored)


def _spread(values: pl.Series, stored: pl.Series) -> pl.Series:
    """Return the values in the rows that are `stored`, and null in the others."""
    if len(values) == len(stored):
        return values
    rows = pl.DataFrame({"number": stored.cast(pl.Int64).cum_sum() - 1, "stored": stored})
    return values.gather(rows.select(pl.when("stored").then("number")).to_series())


def _decode_keys(data: bytes, sizes: layout.Numbers, kind: t.DataType, where: str) -> pl.Series:
    """Decode the keys of maps, -1 is null.

    Raises `CorruptFile`: a key has another size than its type. `Unsupported`: keys of this type.
    """
    ends = np.cumsum(np.maximum(sizes, 0))
    buffers = [None, pa.py_buffer(np.concatenate([[0], ends]).astype(np.int64)), pa.py_buffer(data)]
    stored = pl.Series(pl.from_arrow(pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)))
    raw = pl.select(pl.when(make_series(sizes >= 0)).then(stored)).to_series()
    if isinstance(kind, (t.BinaryType, t.VarBinaryType)):
        return raw
    if isinstance(kind, (t.CharType, t.VarCharType)):
        return raw.cast(pl.String)
    if isinstance(kind, t.DecimalType):
        return _decode_decimals(raw, kind)
    if type(kind) not in KEY_NUMBERS:
        raise Unsupported(f"keys of the type {kind} in blob files", where=where)
    found = raw.bin.reinterpret(dtype=KEY_NUMBERS[type(kind)])
    if found.null_count() > raw.null_count():
        raise CorruptFile(where, f"a key of a map has another size than {kind}")
    if isinstance(kind, t.TimeType):
        found = found.cast(pl.Int64) * NANOS_OF_MILLI
    return found.cast(t.to_polars_dtype(kind))


KEY_NUMBERS: dict[type[t.DataType], Any] = {
    t.TinyIntType: pl.Int8(),
    t.SmallIntType: pl.Int16(),
    t.IntType: pl.Int32(),
    t.BigIntType: pl.Int64(),
    t.BooleanType: pl.UInt8(),
    t.DateType: pl.Int32(),
    t.TimeType: pl.Int32(),
}
NANOS_OF_MILLI = 1_000_000


def _decode_decimals(raw: pl.Series, kind: t.DecimalType) -> pl.Series:
    order: Any = "little" if kind.precision <= layout.MAX_SHORT_DIGITS else "big"
    numbers = (None if key is None else int.from_bytes(key, order, signed=True) for key in raw)
    scaled = [None if number is None else Decimal(f"{number}E-{kind.scale}") for number in numbers]
    return import_array(pa.array(scaled, kind.arrow()), t.to_polars_dtype(kind))


def _check(records: pl.Series, sizes: pl.Series, where: str) -> None:
    lengths = records.bin.slice(-layout.LENGTH_BYTES - layout.CRC_BYTES, layout.LENGTH_BYTES)
    if not (records.bin.head(len(layout.MAGIC)) == pl.Series([layout.MAGIC])).all():
        raise CorruptFile(where, "a blob record does not start with its magic number")
    if not (lengths.bin.reinterpret(dtype=pl.Int64, endianness="little") == sizes).all():
        raise CorruptFile(where, "a blob record ends with another length than the index has")
    stored = records.bin.tail(layout.CRC_BYTES).bin.reinterpret(dtype=pl.UInt32, endianness="little")
    # One call per value, not per byte: blobs are large, and the checksum must read each byte anyway.
    content = [zlib.crc32(memoryview(r)[: -layout.LENGTH_BYTES - layout.CRC_BYTES]) for r in records]
    whole = [zlib.crc32(length, crc) for length, crc in zip(lengths, content)]
    of = partial(pl.Series, dtype=pl.UInt32)
    if not ((stored == of(values=whole)) | (stored == of(values=content))).all():
        raise CorruptFile(where, "the checksum of a blob is wrong")


READER = FileReader(decode=decode_blob, row_count=lambda source: len(record_lengths(source)))
