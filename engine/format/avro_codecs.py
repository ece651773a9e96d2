"""The block codecs of Avro containers; none returns more bytes than its caller allows, whatever its input claims."""

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
MAX_XZ_MEMORY = 1 << 27
"""Memory limit of xz; the dictionary of its highest level takes half of it."""
CHUNK_BYTES = 1 << 20
SNAPPY_CRC_LENGTH = 4
SNAPPY_MAX_RATIO = 64
"""The greatest expansion of a snappy stream, whose longest copy turns 3 bytes into 64."""

Buffer: TypeAlias = bytes | memoryview


class BadBlockError(Exception):
    """A payload that its codec cannot decompress."""


def _zstandard(raw: memoryview, most: int) -> Buffer:
    # The frames of Java writers do not tell their length, so the cap is enforced while reading.
    stream = pa.CompressedInputStream(pa.py_buffer(raw), "zstd")
    chunks: list[bytes] = []
    size = 0
    while (chunk := stream.read(CHUNK_BYTES)) and size <= most:
        chunks.append(chunk)
        size += len(chunk)
    return _finished(chunks[0] if len(chunks) == 1 else b"".join(chunks), not chunk, most)


def _snappy(raw: memoryview, most: int) -> Buffer:
    body, crc = raw[:-SNAPPY_CRC_LENGTH], raw[-SNAPPY_CRC_LENGTH:]
    if len(body) == 0:
        raise BadBlockError("shorter than its checksum")
    if cramjam.snappy.decompress_raw_len(body) > min(most, SNAPPY_MAX_RATIO * len(body)):
        raise BadBlockError("claims an impossible length")
    rows = bytes(cramjam.snappy.decompress_raw(body))
    if zlib.crc32(rows) != int.from_bytes(crc, "big"):
        raise BadBlockError("wrong checksum")
    return rows


def _deflate(raw: memoryview, most: int) -> Buffer:
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    return _finished(inflater.decompress(raw, most), inflater.eof, most)


def _bzip2(raw: memoryview, most: int) -> Buffer:
    decompressor = bz2.BZ2Decompressor()
    return _finished(decompressor.decompress(raw, most), decompressor.eof, most)


def _xz(raw: memoryview, most: int) -> Buffer:
    decompressor = lzma.LZMADecompressor(memlimit=MAX_XZ_MEMORY)
    return _finished(decompressor.decompress(raw, most), decompressor.eof, most)


def _finished(rows: bytes, complete: bool, most: int) -> bytes:
    if not complete or len(rows) > most:
        raise BadBlockError(f"incomplete, or more than {most} bytes")
    return rows


CODECS: dict[str, Callable[[memoryview, int], Buffer]] = {
    "null": lambda raw, _most: raw,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
"""Functions that decompress a block to a maximum number of bytes, by the name of the codec in the header."""

DAMAGE = (cramjam.DecompressionError, zlib.error, lzma.LZMAError, OSError, EOFError, BadBlockError)
"""The errors that the codecs raise for damaged blocks."""
