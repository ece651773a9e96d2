"""The layout of ORC files: tail, stripes, compressed chunks, and the protobuf messages in them.

Layout, read from the end::

    "ORC"                 3 bytes
    stripe*               index streams, data streams, stripe footer
    metadata              statistics of stripes
    footer                chunks; protobuf Footer (types, stripes)
    postscript            protobuf PostScript (length of the footer, codec), never compressed
    length                1 byte: of the postscript

If the file is compressed, streams and footers consist of chunks: 3 bytes little-endian, twice the length plus one if
the chunk is stored uncompressed, then the chunk.

Messages are parsed without a schema. A message is a sequence of fields, each a key ``number << 3 | wire type`` and a
value: a varint (wire type 0), 8 bytes (1), a length and that many bytes (2), or 4 bytes (5).
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import BinaryIO, TypeAlias

import cramjam

from morrow.engine.errors import CorruptFile, Unsupported

CHUNK_HEADER_BYTES = 3
LZ4_LENGTH_BYTES = 4
MAX_CHUNK_BYTES = 1 << 23
"""Maximum size of a chunk, whose length has 23 bits, regardless of the size in the postscript."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf."""
VARINT_MAX_BYTES = 10

LONG, TIMESTAMP, DECIMAL, TIMESTAMP_INSTANT = 4, 9, 14, 18
"""Kinds of types: values of ``Type.kind``."""
MAX_PRECISION = 38
SECONDARY = 5
"""The value of ``Stream.kind`` for the nanoseconds of timestamps."""
DIRECT_V2 = 2
"""A value of ``ColumnEncoding.kind``: integers in run-length encoding version 2."""

GAP_BYTES = 1 << 15
"""Maximum gap in bytes between streams that are read with one request."""

Name = tuple[int, int]
"""Column and kind of a stream."""
Message = dict[int, list[int | bytes]]
"""A protobuf message: field number -> its values, in order."""


@dataclass(frozen=True)
class OrcType:
    """One node of the type tree. Children are node numbers; the children of a struct also have names."""

    kind: int
    children: tuple[int, ...]
    names: tuple[str, ...] = ()
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Stripe:
    """The footer of a stripe.

    Attributes:
        rows: number of rows.
        streams: first byte and end of each stream by (column, kind).
        encodings: the encoding of each column.
        dictionaries: the number of entries of each column's dictionary.
        zone: the time zone of the writer.
        names_zone: whether the stripe itself specifies the zone.
    """

    streams: dict[tuple[int, int], tuple[int, int]]
    encodings: tuple[int, ...]
    zone: str
    rows: int = 0
    dictionaries: tuple[int, ...] = ()
    names_zone: bool = False


class OrcLayout:
    """The parsed layout of an ORC file, which reads only the necessary parts of the file.

    `unnamed_zone` is the writer's zone for stripes that do not specify one, since they lack TIMESTAMP columns.
    At most `most_bytes` are decompressed, if given.

    Raises:
        CorruptFile: an invalid layout.
        Unsupported: the LZO codec.
    """

    def __init__(self, stream: BinaryIO, where: str, unnamed_zone: str = "UTC", most_bytes: int | None = None) -> None:
        self.stream, self.where, self.unnamed_zone, self.most_bytes = stream, where, unnamed_zone, most_bytes
        self.size = stream.seek(0, io.SEEK_END)
        script_end = self.size - 1
        script_start = script_end - self._range(script_end, self.size)[0] if self.size else -1
        self.script = self._range(script_start, script_end)
        postscript = self._message(self.script)
        codec = _get_integer(postscript, 2)
        if codec not in CODECS:
            raise Unsupported(f"the ORC codec number {codec}", where=where)
        self.codec = codec
        self.chunk_bytes = min(_get_integer(postscript, 3) or MAX_CHUNK_BYTES, MAX_CHUNK_BYTES)
        self.footer_start = script_start - _get_integer(postscript, 1)
        self.footer = self.unpacked(self._range(self.footer_start, script_start))
        message = self._message(self.footer)
        self.types = tuple(self._type(node) for node in _get_messages(message, 4))
        self.stripes = tuple(self._message(node) for node in _get_messages(message, 3))
        rows, claimed = _get_integer(message, 6), sum(_get_integer(stripe, 5) for stripe in self.stripes)
        if rows != claimed:
            raise CorruptFile(where, f"its stripes have {claimed} rows where its footer says {rows}")
        self.rows = rows

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.types[0].names if self.types else ()

    def stripe_rows(self, number: int) -> int:
        """Return the number of rows of a stripe."""
        return _get_integer(self.stripes[number], 5)

    def stripe(self, number: int) -> Stripe:
        """Return the footer of a stripe."""
        info = self.stripes[number]
        offset, footer_length = _get_integer(info, 1), _get_integer(info, 4)
        end = offset + _get_integer(info, 2) + _get_integer(info, 3)
        message = self._message(self.unpacked(self._range(end, end + footer_length)))
        streams = {}
        for node in _get_messages(message, 1):
            stream = self._message(node)
            length = _get_integer(stream, 3)
            name = (_get_integer(stream, 2), _get_integer(stream, 1))
            if name in streams:
                raise CorruptFile(self.where, f"a stripe has the stream {name[1]} of column {name[0]} twice")
            streams[name] = (offset, offset + length)
            offset += length
        if offset != end:
            raise CorruptFile(self.where, f"the streams of a stripe end {offset - end} bytes after its footer begins")
        columns = [self._message(node) for node in _get_messages(message, 2)]
        encodings = tuple(_get_integer(column, 1) for column in columns)
        dictionaries = tuple(_get_integer(column, 2) for column in columns)
        zones = _get_messages(message, 3)
        zone = zones[0].decode("utf-8", "replace") if zones else self.unnamed_zone
        return Stripe(streams, encodings, zone, _get_integer(info, 5), dictionaries, bool(zones))

    def stream_bytes(self, stripe: Stripe, column: int, kind: int) -> bytes:
        """Return a stream, decompressed; empty if the stripe lacks this stream."""
        return self.unpacked(self._range(*stripe.streams.get((column, kind), (0, 0))))

    def ranges(self, places: Mapping[Name, tuple[int, int]]) -> dict[Name, bytes]:
        """Return the bytes of each range (first byte and end), in file order; nearby ranges are read at once."""
        found: dict[Name, bytes] = {}
        group: list[Name] = []
        ordered = sorted(places, key=lambda name: places[name])
        for name, following in zip_longest(ordered, ordered[1:]):
            group.append(name)
            if following is not None and places[following][0] - places[name][1] <= GAP_BYTES:
                continue
            start = places[group[0]][0]
            data = self._range(start, places[name][1])
            found |= {each: data[places[each][0] - start : places[each][1] - start] for each in group}
            group = []
        return found

    def unpacked(self, packed: bytes) -> bytes:
        """Return the bytes of a stream or footer, decompressed."""
        if not self.codec:
            return packed
        chunks: list[bytes] = []
        at = 0
        while at < len(packed):
            header = int.from_bytes(packed[at : at + CHUNK_HEADER_BYTES], "little")
            at += CHUNK_HEADER_BYTES
            chunk = packed[at : at + (header >> 1)]
            at += header >> 1
            if at > len(packed):
                raise CorruptFile(self.where, f"an ORC chunk ends {at - len(packed)} bytes after its stream")
            try:
                chunks.append(chunk if header & 1 else CODECS[self.codec](chunk, self.chunk_bytes))
            except (cramjam.DecompressionError, zlib.error) as error:
                raise CorruptFile(self.where, f"an ORC chunk is damaged ({error})") from error
            self._count(len(chunks[-1]))
        return b"".join(chunks)

    def _count(self, size: int) -> None:
        if self.most_bytes is not None:
            self.most_bytes -= size
            if self.most_bytes < 0:
                raise CorruptFile(self.where, "it decompresses to more than a file of its size can hold")

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
        for number, value in _parse_checked_fields(data, self.where):
            message.setdefault(number, []).append(value)
        return message

    def _type(self, node: bytes) -> OrcType:
        message = self._message(node)
        children: list[int] = []
        for value in message.get(2, []):  # packed or one by one
            children += _parse_packed(value, self.where) if isinstance(value, bytes) else [value]
        kind, precision = _get_integer(message, 1), _get_integer(message, 5) if 5 in message else MAX_PRECISION
        if kind == DECIMAL and not _get_integer(message, 6) <= precision <= MAX_PRECISION:
            raise CorruptFile(self.where, f"a decimal of {precision} digits")  # Arrow would crash the process
        names = tuple(name.decode("utf-8", "replace") for name in _get_messages(message, 3))
        return OrcType(kind, tuple(children), names, precision, _get_integer(message, 6))


# --- codecs ---


def _decompress_zlib(chunk: bytes, most: int) -> bytes:
    unpacking = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    unpacked = unpacking.decompress(chunk, most)
    if not unpacking.eof:
        raise zlib.error("it does not end, or holds more than a chunk")
    return unpacked


def _limit_output(decompress_into: Callable[[bytes, bytearray], int]) -> Callable[[bytes, int], bytes]:
    def decompress(chunk: bytes, most: int) -> bytes:
        output = bytearray(most)
        return bytes(memoryview(output)[: decompress_into(chunk, output)])

    return decompress


def _decompress_lz4(chunk: bytes, most: int) -> bytes:
    # With a length prefix: without it, the first bytes of a block may be interpreted as a length.
    return _limit_output(cramjam.lz4.decompress_block_into)(most.to_bytes(LZ4_LENGTH_BYTES, "little") + chunk, most)


CODECS: dict[int, Callable[[bytes, int], bytes]] = {
    0: lambda chunk, _most: chunk,
    1: _decompress_zlib,
    2: _limit_output(cramjam.snappy.decompress_raw_into),
    4: _decompress_lz4,
    5: _limit_output(cramjam.zstd.decompress_into),
}
"""Functions that decompress a chunk to a maximum number of bytes, by the number of the codec in the postscript."""

# --- protobuf ---


def _parse_checked_fields(data: bytes, where: str) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message."""
    at = 0
    while at < len(data):
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
        yield key >> 3, value


def read_varint(data: bytes, at: int, where: str) -> tuple[int, int]:
    """Read a base-128 number, lowest group first; return the number and the position after it."""
    value = shift = 0
    for byte in data[at : at + VARINT_MAX_BYTES]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise CorruptFile(where, "a number of the ORC file is cut off")


def _parse_packed(data: bytes, where: str) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = read_varint(data, at, where)
        yield value


def _get_integer(message: Message, number: int) -> int:
    value = message.get(number, [0])[-1]
    return value if isinstance(value, int) else 0


def _get_messages(message: Message, number: int) -> list[bytes]:
    return [value for value in message.get(number, []) if isinstance(value, bytes)]


FIXED_WIDTHS = {FIXED64: 8, FIXED32: 4}

Field: TypeAlias = "tuple[int, int, int | bytes]"
"""A field: number, wire type, value."""


def parse_fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a valid message, in order."""
    at = 0
    while at < len(message):
        key, at = _read(message, at)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if wire == VARINT:
            value, at = _read(message, at)
        else:
            length, at = _read(message, at) if wire == BYTES else (FIXED_WIDTHS[wire], at)
            value, at = message[at : at + length], at + length
        yield number, wire, value


def encode_message(parts: Iterable[Field]) -> bytes:
    """Encode a message of these fields, the reverse of `parse_fields`."""
    return b"".join(_encode_field(*part) for part in parts)


def make_field(number: int, value: int | bytes) -> Field:
    """Return a field with an integer, or with bytes or a message."""
    return (number, VARINT if isinstance(value, int) else BYTES, value)


def encode_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode_field(number: int, wire: int, value: int | bytes) -> bytes:
    key = encode_varint(number << 3 | wire)
    if isinstance(value, int):
        return key + encode_varint(value)
    return key + (encode_varint(len(value)) if wire == BYTES else b"") + value


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
