"""The frame of an ORC file: as much of it as exact timestamps need (`morrow.readers.files.orc_timestamps`).

Layout, read from the end::

    "ORC"                 3 bytes
    stripe*               index streams, data streams, stripe footer
    metadata              statistics of stripes
    footer                chunks; protobuf Footer (types, stripes)
    postscript            protobuf PostScript (length of the footer, codec), never compressed
    length                1 byte: of the postscript

Streams and footers are chunks when the file is compressed: 3 bytes little-endian, twice the length plus one if the
chunk is stored as it is, then the chunk.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import cramjam

from morrow.engine.errors import CorruptFile, Unsupported

CHUNK_HEADER_BYTES = 3
MAX_CHUNK_BYTES = 1 << 23
"""A length of 23 bits: no writer makes larger chunks, whatever the postscript says."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf."""
VARINT_MAX_BYTES = 10

LONG, TIMESTAMP, DECIMAL, TIMESTAMP_INSTANT = 4, 9, 14, 18
"""Type.kind."""
MAX_PRECISION = 38
SECONDARY = 5
"""Stream.kind: the nanoseconds of a timestamp."""
DIRECT_V2 = 2
"""ColumnEncoding.kind."""

Message = dict[int, list[int | bytes]]
"""A protobuf message: the values of each field number, in order."""


@dataclass(frozen=True)
class OrcType:
    """One node of the type tree; children are numbers of nodes."""

    kind: int
    children: tuple[int, ...]


@dataclass(frozen=True)
class Stripe:
    """What a stripe's footer says.

    `streams` gives first byte and end of each stream by (column, kind), `encodings` the encoding of each column,
    `zone` the time zone of the writer.
    """

    streams: dict[tuple[int, int], tuple[int, int]]
    encodings: tuple[int, ...]
    zone: str


class OrcLayout:
    """An ORC file taken apart, reading no more of it than it must.

    `unnamed_zone` stands for the writer's zone where a stripe does not name it, because it has no TIMESTAMP column.

    Raises:
        CorruptFile: a frame that makes no sense.
        Unsupported: the LZO codec.
    """

    def __init__(self, stream: BinaryIO, where: str, unnamed_zone: str = "UTC") -> None:
        self.stream, self.where, self.unnamed_zone = stream, where, unnamed_zone
        self.size = stream.seek(0, io.SEEK_END)
        script_end = self.size - 1
        script_start = script_end - self._range(script_end, self.size)[0] if self.size else -1
        self.script = self._range(script_start, script_end)
        postscript = self._message(self.script)
        codec = _integer(postscript, 2)
        if codec not in CODECS:
            raise Unsupported(f"the ORC codec number {codec}", where=where)
        self.codec = codec
        self.footer_start = script_start - _integer(postscript, 1)
        self.footer = self.unpacked(self._range(self.footer_start, script_start))
        message = self._message(self.footer)
        self.types = tuple(self._type(node) for node in _messages(message, 4))
        self.stripes = tuple(self._message(node) for node in _messages(message, 3))
        rows, claimed = _integer(message, 6), sum(_integer(stripe, 5) for stripe in self.stripes)
        if rows != claimed:
            raise CorruptFile(where, f"its stripes have {claimed} rows where its footer says {rows}")

    def relabelled(self, kinds: frozenset[int], kind: int) -> bytes:
        """The same file with every column of `kinds` declared to be of `kind`: its streams are read as such."""
        footer = bytearray()
        for number, wire, start, end, value in _fields(self.footer, self.where):
            if number == 4 and isinstance(value, bytes) and _integer(self._message(value), 1) in kinds:
                rest = b"".join(value[s:e] for n, _, s, e, _ in _fields(value, self.where) if n != 1)
                changed = _key(1, VARINT) + _varint(kind) + rest
                footer += _key(number, wire) + _varint(len(changed)) + changed
            else:
                footer += self.footer[start:end]
        packed = bytes(footer)
        if self.codec:
            pieces = [packed[i : i + MAX_CHUNK_BYTES - 1] for i in range(0, len(packed), MAX_CHUNK_BYTES - 1)]
            packed = b"".join((len(p) << 1 | 1).to_bytes(CHUNK_HEADER_BYTES, "little") + p for p in pieces)
        rest = b"".join(self.script[s:e] for n, _, s, e, _ in _fields(self.script, self.where) if n != 1)
        script = _key(1, VARINT) + _varint(len(packed)) + rest
        return b"".join([self._range(0, self.footer_start), packed, script, bytes([len(script)])])

    def stripe(self, number: int) -> Stripe:
        """The footer of a stripe."""
        info = self.stripes[number]
        offset, footer_length = _integer(info, 1), _integer(info, 4)
        end = offset + _integer(info, 2) + _integer(info, 3)
        message = self._message(self.unpacked(self._range(end, end + footer_length)))
        streams = {}
        for node in _messages(message, 1):
            stream = self._message(node)
            length = _integer(stream, 3)
            streams[_integer(stream, 2), _integer(stream, 1)] = (offset, offset + length)
            offset += length
        encodings = tuple(_integer(self._message(node), 1) for node in _messages(message, 2))
        zones = _messages(message, 3)
        return Stripe(streams, encodings, zones[0].decode("utf-8", "replace") if zones else self.unnamed_zone)

    def stream_bytes(self, stripe: Stripe, column: int, kind: int) -> bytes:
        """A stream, decompressed; empty when the stripe has none of this kind."""
        return self.unpacked(self._range(*stripe.streams.get((column, kind), (0, 0))))

    def unpacked(self, packed: bytes) -> bytes:
        """The bytes of a stream or footer, decompressed."""
        if not self.codec:
            return packed
        chunks: list[bytes] = []
        at = 0
        while at < len(packed):
            header = int.from_bytes(packed[at : at + CHUNK_HEADER_BYTES], "little")
            at += CHUNK_HEADER_BYTES
            chunk = packed[at : at + (header >> 1)]
            at += header >> 1
            try:
                chunks.append(chunk if header & 1 else CODECS[self.codec](chunk))
            except (cramjam.DecompressionError, zlib.error) as error:
                raise CorruptFile(self.where, f"an ORC chunk is damaged ({error})") from error
        return b"".join(chunks)

    def _range(self, start: int, end: int) -> bytes:
        if not 0 <= start <= end <= self.size:
            raise CorruptFile(self.where, f"truncated: bytes {start} to {end} of {self.size}")
        self.stream.seek(start)
        data = self.stream.read(end - start)
        if len(data) != end - start:
            raise CorruptFile(self.where, f"truncated: {len(data)} of {end - start} bytes at {start}")
        return data

    def _message(self, data: bytes) -> Message:
        message: Message = {}
        for number, _, _, _, value in _fields(data, self.where):
            message.setdefault(number, []).append(value)
        return message

    def _type(self, node: bytes) -> OrcType:
        message = self._message(node)
        children: list[int] = []
        for value in message.get(2, []):  # packed or one by one
            children += _packed(value, self.where) if isinstance(value, bytes) else [value]
        kind, precision = _integer(message, 1), _integer(message, 5) if 5 in message else MAX_PRECISION
        if kind == DECIMAL and precision not in range(1, MAX_PRECISION + 1):
            raise CorruptFile(self.where, f"a decimal of {precision} digits")  # Arrow would end the process
        return OrcType(kind, tuple(children))


# --- codecs ---


def _inflate(chunk: bytes) -> bytes:
    return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(chunk, MAX_CHUNK_BYTES)


def _capped(decompress_into: Callable[[bytes, bytearray], int]) -> Callable[[bytes], bytes]:
    def decompress(chunk: bytes) -> bytes:
        output = bytearray(MAX_CHUNK_BYTES)
        return bytes(memoryview(output)[: decompress_into(chunk, output)])

    return decompress


CODECS: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: _inflate,
    2: _capped(cramjam.snappy.decompress_raw_into),
    4: _capped(cramjam.lz4.decompress_block_into),
    5: _capped(cramjam.zstd.decompress_into),
}

# --- protobuf ---


def _fields(data: bytes, where: str) -> Iterator[tuple[int, int, int, int, int | bytes]]:
    """Number, wire type, first byte, end and value of each field of a message."""
    at = 0
    while at < len(data):
        start = at
        key, at = read_varint(data, at, where)
        wire = key & 7
        value: int | bytes
        if wire == VARINT:
            value, at = read_varint(data, at, where)
        else:
            length, at = read_varint(data, at, where) if wire == BYTES else ({FIXED64: 8, FIXED32: 4}.get(wire, -1), at)
            if length < 0 or at + length > len(data):
                raise CorruptFile(where, "a protobuf message of the ORC frame is damaged")
            value, at = data[at : at + length], at + length
        yield key >> 3, wire, start, at, value


def read_varint(data: bytes, at: int, where: str) -> tuple[int, int]:
    """A base-128 number, lowest group first, and the place after it."""
    value = shift = 0
    for byte in data[at : at + VARINT_MAX_BYTES]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise CorruptFile(where, "a number of the ORC file is cut off")


def _packed(data: bytes, where: str) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = read_varint(data, at, where)
        yield value


def _integer(message: Message, number: int) -> int:
    value = message.get(number, [0])[-1]
    return value if isinstance(value, int) else 0


def _messages(message: Message, number: int) -> list[bytes]:
    return [value for value in message.get(number, []) if isinstance(value, bytes)]


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
