"""Tails of ORC files: merges several into one, with other types.

    "ORC"  stripes  | metadata  footer  postscript  length of the postscript (1 byte)
                    |  the tail

    PostScript      1 footerLength   2 compression (0: none)   3 compressionBlockSize   5 metadataLength
    Footer          1 headerLength   2 contentLength   3 stripes*   4 types*   6 numberOfRows   7 statistics*   ...
    Stripe          1 offset  2, 3, 4 lengths  5 numberOfRows
    Statistics      1 numberOfValues   2-9 bounds of one type   10 hasNull   11 bytesOnDisk
    Metadata        1 statistics of each stripe*

Where streams are compressed, metadata and footer are chunks: 3 bytes little-endian, twice the length plus one if the
chunk is uncompressed, then the chunk. Here they are always uncompressed.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from morrow.engine.format.orc_layout import CHUNK_HEADER_BYTES, OrcLayout
from morrow.engine.format.protobuf import Field, fields, message, numbered

MAGIC = b"ORC"
HEADER_LENGTH, CONTENT_LENGTH, STRIPES, TYPES, ROWS, STATISTICS = 1, 2, 3, 4, 6, 7
FOOTER_LENGTH, COMPRESSION, COMPRESSION_BLOCK, METADATA_LENGTH = 1, 2, 3, 5
STRIPE_OFFSET = 1
VALUES, HAS_NULL, BYTES_ON_DISK = 1, 10, 11


@dataclass(frozen=True)
class Tail:
    """Postscript, footer and metadata of a file, decompressed."""

    postscript: bytes
    footer: bytes
    metadata: bytes


def split(file: pa.Buffer) -> tuple[memoryview, Tail]:
    """Returns the stripes of a file in memory, and its tail."""
    data = memoryview(file)
    layout = OrcLayout(io.BytesIO(data), "a file in memory")
    end = layout.footer_start
    length = next((value for number, _, value in fields(layout.script) if number == METADATA_LENGTH), 0)
    assert isinstance(length, int)
    metadata = layout.unpacked(bytes(data[end - length : end]))
    return data[len(MAGIC) : end - length], Tail(layout.script, layout.footer, metadata)


def merge_tails(parts: Sequence[tuple[int, Tail]], types: Sequence[bytes]) -> bytes:
    """Returns the tail of a file that has the stripes of several files, one after another.

    Args:
        parts: the length of the stripes and the tail of each file.
        types: the nodes of the type tree, which replace those of the files.
    """
    first = parts[0][1]
    block = block_size(first)
    metadata = stored(b"".join(tail.metadata for _, tail in parts), block)
    footer = stored(message(_footer(parts, types)), block)
    lengths = {FOOTER_LENGTH: len(footer), METADATA_LENGTH: len(metadata)}
    postscript = message((n, wire, lengths.get(n, value)) for n, wire, value in fields(first.postscript))
    return b"".join([metadata, footer, postscript, bytes([len(postscript)])])


def block_size(tail: Tail) -> int:
    """Returns the bytes that fit in a chunk; 0 where nothing is compressed."""
    return integer(tail.postscript, COMPRESSION_BLOCK) if integer(tail.postscript, COMPRESSION) else 0


def stored(data: bytes, block: int) -> bytes:
    """Returns the bytes in uncompressed chunks of at most `block` bytes; unchanged if `block` is 0."""
    if not block:
        return data
    pieces = [data[at : at + block] for at in range(0, len(data), block)]
    return b"".join((len(p) << 1 | 1).to_bytes(CHUNK_HEADER_BYTES, "little") + p for p in pieces)


def integer(data: bytes, number: int) -> int:
    """Returns the integer of that number in a message, 0 where there is none."""
    return next((value for n, _, value in fields(data) if n == number and isinstance(value, int)), 0)


def _footer(parts: Sequence[tuple[int, Tail]], types: Sequence[bytes]) -> list[Field]:
    footers = [list(fields(tail.footer)) for _, tail in parts]
    stripes: list[Field] = []
    shift = 0
    for (length, _), footer in zip(parts, footers, strict=True):
        stripes += [(n, wire, _moved(value, shift)) for n, wire, value in footer if n == STRIPES]
        shift += length
    replaced = (HEADER_LENGTH, CONTENT_LENGTH, STRIPES, TYPES, ROWS, STATISTICS)
    return [
        numbered(HEADER_LENGTH, len(MAGIC)),
        numbered(CONTENT_LENGTH, len(MAGIC) + shift),
        *stripes,
        *(numbered(TYPES, node) for node in types),
        numbered(ROWS, sum(integer(tail.footer, ROWS) for _, tail in parts)),
        *_statistics(footers),
        *(field for field in footers[0] if field[0] not in replaced),
    ]


def _moved(stripe: int | bytes, shift: int) -> bytes:
    assert isinstance(stripe, bytes)
    moved = ((n, w, v + shift if n == STRIPE_OFFSET and isinstance(v, int) else v) for n, w, v in fields(stripe))
    return message(moved)


def _statistics(footers: Sequence[Sequence[Field]]) -> list[Field]:
    """Returns statistics of the whole file: counts. Bounds stay with the stripes, where readers look for them."""
    columns = [[value for n, _, value in footer if n == STATISTICS and isinstance(value, bytes)] for footer in footers]
    if len(columns) == 1:
        return [numbered(STATISTICS, column) for column in columns[0]]
    return [numbered(STATISTICS, _counts(parts)) for parts in zip(*columns, strict=True)]


def _counts(parts: Sequence[bytes]) -> bytes:
    totals = {number: sum(integer(part, number) for part in parts) for number in (VALUES, HAS_NULL, BYTES_ON_DISK)}
    totals[HAS_NULL] = min(totals[HAS_NULL], 1)
    return message(numbered(number, value) for number, value in totals.items())
