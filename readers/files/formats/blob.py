"""Blob files: the values of one BLOB column, one record after the other, and an index of their lengths.

Layout (little-endian)::

    record*                 for each value that is not null:
        magic      4 bytes  CF 11 4E 58
        value
        length     8 bytes  of the whole record
        CRC-32     4 bytes  of all the bytes before it; pypaimon 1.3 to 2.0: of those before the length
    index                   zigzag varints: the first record's length, then differences from one to the next;
                            -1 is null, -2 a placeholder (the value is in another file)
    index length   4 bytes
    version        1 byte   1
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.types import BlobType, DataField
from morrow.readers.files.registry import FileReader
from morrow.readers.files.source import Chunk, FileSource

VERSION = 1
FOOTER_BYTES = 5
MAGIC = bytes.fromhex("cf114e58")
LENGTH_BYTES = 8
CRC_BYTES = 4
RECORD_OVERHEAD = len(MAGIC) + LENGTH_BYTES + CRC_BYTES
PLACEHOLDER_LENGTH = -2
MAX_VARINT_BYTES = 10
CHUNK_BYTES = 1 << 26
"""Bytes of values that are read at a time, unless a single value is larger."""

Lengths = npt.NDArray[np.int64]


def decode_blob(source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
    """Yield chunks of about 64 MiB of values."""
    if len(fields) > 1 or not all(isinstance(each.type, BlobType) for each in fields):
        raise Unsupported("a blob file with other than one BLOB column", where=source.path)
    lengths = record_lengths(source)
    if not fields:
        yield Chunk(len(lengths), pl.DataFrame())
        return
    if (lengths == PLACEHOLDER_LENGTH).any():
        raise Unsupported("a blob file with placeholders", where=source.path)
    sizes = np.maximum(lengths, 0)
    ends = np.cumsum(sizes)
    start = 0
    while start < len(lengths):
        offset = int(ends[start] - sizes[start])
        stop = max(start + 1, int(np.searchsorted(ends, offset + CHUNK_BYTES, side="right")))
        data = source.store.read_range(source.path, offset, int(ends[stop - 1]) - offset)
        values = _slice_values(data, sizes[start:stop], source.path)
        yield Chunk(stop - start, pl.DataFrame([values.alias(fields[0].name)]))
        start = stop


def record_lengths(source: FileSource) -> Lengths:
    """Return the length of each record, -1 for null, -2 for a placeholder; checked against the size of the file.

    Raises:
        CorruptFile, Unsupported (version), FileMissing.
    """
    where, size = source.path, source.size or source.store.size(source.path) or 0
    if size < FOOTER_BYTES:
        raise CorruptFile(where, f"truncated: {size} bytes are too few for a blob file")
    footer = source.store.read_range(where, size - FOOTER_BYTES, FOOTER_BYTES)
    index_size = int.from_bytes(footer[:4], "little", signed=True)
    if len(footer) < FOOTER_BYTES or not 0 <= index_size <= size - FOOTER_BYTES:
        raise CorruptFile(where, f"the index of a blob file of {size} bytes cannot have {index_size}")
    if footer[4] != VERSION:
        raise Unsupported(f"version {footer[4]} of blob files", where=where)
    data_size = size - FOOTER_BYTES - index_size
    lengths = np.cumsum(decode_zigzag_varints(source.store.read_range(where, data_size, index_size), where))
    stored = lengths[lengths >= 0]
    if (lengths < PLACEHOLDER_LENGTH).any() or (stored < RECORD_OVERHEAD).any() or (stored > data_size).any():
        raise CorruptFile(where, "the blob index holds impossible lengths")
    if int(stored.sum()) != data_size:
        raise CorruptFile(where, f"the blob index covers {int(stored.sum())} of {data_size} bytes")
    return lengths


def decode_zigzag_varints(data: bytes, where: str) -> Lengths:
    """Decode all varints of `data` at once."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    if not octets.size:
        return np.empty(0, np.int64)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if not ends.size or ends[-1] != octets.size - 1 or int((ends - starts).max()) >= MAX_VARINT_BYTES:
        raise CorruptFile(where, "a varint of the blob index is cut off")
    place = np.arange(octets.size) - np.repeat(starts, ends - starts + 1)
    groups = (octets & 0x7F).astype(np.uint64) << (place * 7).astype(np.uint64)
    raw = np.bitwise_or.reduceat(groups, starts)
    values: Lengths = (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
    return values


def _slice_values(data: bytes, sizes: Lengths, where: str) -> pl.Series:
    """Return the values of consecutive records; a size of 0 is null."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    if len(data) != offsets[-1]:
        raise CorruptFile(where, f"truncated: {len(data)} of {offsets[-1]} bytes")
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    records = pl.Series(pl.from_arrow(pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)))
    frame = pl.DataFrame({"record": records, "size": sizes})
    stored = frame.filter(pl.col("size") > 0)
    _check(stored["record"], stored["size"], where)
    value = pl.col("record").bin.slice(len(MAGIC), (pl.col("size") - RECORD_OVERHEAD).clip(0))
    return frame.select(pl.when(pl.col("size") > 0).then(value)).to_series()


def _check(records: pl.Series, sizes: pl.Series, where: str) -> None:
    lengths = records.bin.slice(-LENGTH_BYTES - CRC_BYTES, LENGTH_BYTES)
    if not (records.bin.head(len(MAGIC)) == pl.Series([MAGIC])).all():
        raise CorruptFile(where, "a blob record does not start with its magic number")
    if not (lengths.bin.reinterpret(dtype=pl.Int64, endianness="little") == sizes).all():
        raise CorruptFile(where, "a blob record ends with another length than the index has")
    stored = records.bin.tail(CRC_BYTES).bin.reinterpret(dtype=pl.UInt32, endianness="little")
    # One call per value, not per byte: blobs are large, and the checksum must read each byte anyway.
    content = [zlib.crc32(memoryview(r)[: -LENGTH_BYTES - CRC_BYTES]) for r in records]
    whole = [zlib.crc32(length, crc) for length, crc in zip(lengths, content)]
    of = partial(pl.Series, dtype=pl.UInt32)
    if not ((stored == of(values=whole)) | (stored == of(values=content))).all():
        raise CorruptFile(where, "the checksum of a blob is wrong")


READER = FileReader(decode=decode_blob, row_count=lambda source: len(record_lengths(source)))
