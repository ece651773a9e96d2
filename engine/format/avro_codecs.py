"""The block codecs of Avro containers; none returns more than `MAX_BLOCK_BYTES`, whatever its input claims."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import TypeAlias

import cramjam
import pyarrow as pa

MAX_BLOCK_BYTES = 1 << 30
"""Largest decompressed block; Java writers close a block after 64 kB plus one row."""
CHUNK_BYTES = 1 << 20
SNAPPY_CRC_LENGTH = 4
SNAPPY_MAX_RATIO = 64
"""No snappy stream expands more: its longest copy turns 3 bytes into 64."""

Buffer: TypeAlias = bytes | memoryview


class BadBlockError(Exception):
    """A payload that its codec does not explain."""


def _zstandard(raw: memoryview) -> Buffer:
    # The frames of Java writers do not say how long they are, so the cap is held while reading.
    stream = pa.CompressedInputStream(pa.py_buffer(raw), "zstd")
    chunks: list[bytes] = []
    while (chunk := stream.read(CHUNK_BYTES)) and len(chunks) * CHUNK_BYTES < MAX_BLOCK_BYTES:
        chunks.append(chunk)
    return _finished(chunks[0] if len(chunks) == 1 else b"".join(chunks), not chunk)


def _snappy(raw: memoryview) -> Buffer:
    body, crc = raw[:-SNAPPY_CRC_LENGTH], raw[-SNAPPY_CRC_LENGTH:]
    if len(body) == 0:
        raise BadBlockError("shorter than its checksum")
    if cramjam.snappy.decompress_raw_len(body) > min(MAX_BLOCK_BYTES, SNAPPY_MAX_RATIO * len(body)):
        raise BadBlockError("claims an impossible length")
    rows = bytes(cramjam.snappy.decompress_raw(body))
    if zlib.crc32(rows) != int.from_bytes(crc, "big"):
        raise BadBlockError("wrong checksum")
    return rows


def _deflate(raw: memoryview) -> Buffer:
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    return _finished(inflater.decompress(raw, MAX_BLOCK_BYTES), inflater.eof)


def _bzip2(raw: memoryview) -> Buffer:
    decompressor = bz2.BZ2Decompressor()
    return _finished(decompressor.decompress(raw, MAX_BLOCK_BYTES), decompressor.eof)


def _xz(raw: memoryview) -> Buffer:
    decompressor = lzma.LZMADecompressor(memlimit=MAX_BLOCK_BYTES)
    return _finished(decompressor.decompress(raw, MAX_BLOCK_BYTES), decompressor.eof)


def _finished(rows: bytes, complete: bool) -> bytes:
    if not complete:
        raise BadBlockError(f"incomplete, or more than {MAX_BLOCK_BYTES} bytes")
    return rows


CODECS: dict[str, Callable[[memoryview], Buffer]] = {
    "null": lambda raw: raw,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
"""Decompression of a block by the name of the codec in the header."""

DAMAGE = (cramjam.DecompressionError, zlib.error, lzma.LZMAError, OSError, EOFError, BadBlockError)
"""What the codecs raise for damaged blocks."""
