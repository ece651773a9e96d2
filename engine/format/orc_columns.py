"""Decoder of ORC metadata files, because Arrow's reader ends the process for some damage and ORC has no checksums.

Every stream must hold exactly as many values as the rows need, every length must fit, every dictionary index must have
an entry, and text must be UTF-8. Only the types of manifests are supported: TINYINT, INT, BIGINT, STRING, BINARY,
TIMESTAMP, lists and structs, integers in run-length encoding version 2.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.orc_layout import SECONDARY, OrcLayout, OrcType, Stripe
from morrow.engine.format.orc_rle import Bits, Signed, decode_bits, decode_bytes, decode_whole
from morrow.engine.format.orc_zones import offsets, orc_epoch_seconds
from morrow.engine.units import MILLIS_PER_SECOND, NANOS_PER_MILLI

PRESENT, DATA, LENGTH, DICTIONARY_DATA = range(4)
"""Stream.kind."""
DIRECT, DICTIONARY, DIRECT_V2, DICTIONARY_V2 = range(4)
"""ColumnEncoding.kind."""
BYTE, SHORT, INT, LONG, STRING, BINARY, TIMESTAMP, LIST, STRUCT = 1, 2, 3, 4, 7, 8, 9, 10, 12
"""Type.kind."""
MOST_DEPTH = 16
ZEROS_BITS = 3
"""Low bits of a nanosecond value: how many decimal zeros were cut off, less one (0 = none)."""


def read_orc(data: bytes, where: str, most_bytes: int) -> pa.Table:
    """Reads the rows of an ORC file as a table, decompressing no more than `most_bytes`.

    Raises:
        CorruptFile: any part of the file contradicts another.
        Unsupported: a type or encoding that metadata files do not use.
    """
    layout = OrcLayout(io.BytesIO(data), where, most_bytes=most_bytes)
    if not layout.types or layout.types[0].kind != STRUCT:
        raise CorruptFile(where, "the rows of the ORC file are no structs")
    schema = _arrow(layout.types, 0, 0, where)
    rows = [layout.stripe(number) for number in range(len(layout.stripes))]
    if sum(stripe.rows for stripe in rows) > len(data):
        raise CorruptFile(where, f"it claims more rows than its {len(data)} bytes can name files")
    parts = [_Columns(layout, stripe).column(0, stripe.rows, 0) for stripe in rows]
    if not parts:  # pyarrow before 26 makes no table of them
        return pa.schema(list(schema)).empty_table()
    return pa.Table.from_struct_array(pa.chunked_array(parts, schema))


@dataclass(frozen=True)
class _Columns:
    """The columns of one stripe."""

    layout: OrcLayout
    stripe: Stripe

    def column(self, node: int, count: int, depth: int) -> pa.Array:
        """Decodes the column `node` of the type tree, for `count` rows (of a member: where its struct is not null)."""
        where = self.layout.where
        kind = self.layout.types[node].kind
        if depth > MOST_DEPTH or kind not in _DECODERS:
            raise Unsupported(f"an ORC column of kind {kind} in a metadata file", where=where)
        present = np.ones(count, np.bool_)
        if (node, PRESENT) in self.stripe.streams:
            present = decode_bits(self.stream(node, PRESENT), count, where)
        return _DECODERS[kind](self, node, present, depth)

    def stream(self, node: int, kind: int) -> bytes:
        return self.layout.stream_bytes(self.stripe, node, kind)

    def integers(self, node: int, kind: int, count: int, *, signed: bool) -> Signed:
        values = decode_whole(self.stream(node, kind), count, self.layout.where, signed=signed)
        if not signed and (values < 0).any():
            raise CorruptFile(self.layout.where, "an ORC length beyond 63 bits")
        return values

    def encoding(self, node: int, *known: int) -> int:
        encoding = self.stripe.encodings[node] if node < len(self.stripe.encodings) else -1
        if encoding not in known:
            raise Unsupported(f"the ORC encoding {encoding} in a metadata file", where=self.layout.where)
        return encoding

    def corrupt(self, problem: str) -> CorruptFile:
        return CorruptFile(self.layout.where, problem)


def _spread(values: npt.NDArray[np.int64], present: Bits) -> npt.NDArray[np.int64]:
    """Returns the values spread to the rows that are present; 0 elsewhere."""
    if present.all():
        return values
    out = np.zeros(len(present), values.dtype)
    out[present] = values
    return out


def _bits(present: Bits) -> pa.Buffer | None:
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def _whole(columns: _Columns, node: int, present: Bits, _depth: int) -> pa.Array:
    columns.encoding(node, DIRECT_V2)
    values = columns.integers(node, DATA, int(present.sum()), signed=True)
    kind = _ATOMS[columns.layout.types[node].kind]
    limit = 1 << (kind.bit_width - 1)
    if kind.bit_width < 64 and ((values < -limit) | (values >= limit)).any():
        raise columns.corrupt(f"a number beyond {kind}")
    return pa.array(_spread(values, present), mask=~present).cast(kind)


def _byte(columns: _Columns, node: int, present: Bits, _depth: int) -> pa.Array:
    columns.encoding(node, DIRECT)
    values = decode_bytes(columns.stream(node, DATA), int(present.sum()), columns.layout.where).view(np.int8)
    return pa.array(_spread(values.astype(np.int64), present), mask=~present).cast(pa.int8())


def _timestamp(columns: _Columns, node: int, present: Bits, _depth: int) -> pa.Array:
    columns.encoding(node, DIRECT_V2)
    where, zone, count = columns.layout.where, columns.stripe.zone, int(present.sum())
    seconds = columns.integers(node, DATA, count, signed=True)
    if (np.abs(seconds) >> 40).any():
        raise columns.corrupt("a timestamp that no calendar has")
    stored = columns.integers(node, SECONDARY, count, signed=False)
    zeros = stored & ((1 << ZEROS_BITS) - 1)
    nanos = (stored >> ZEROS_BITS) * 10 ** np.where(zeros > 0, zeros + 1, 0)
    if ((nanos < 0) | (nanos >= MILLIS_PER_SECOND * NANOS_PER_MILLI)).any():
        raise columns.corrupt("a timestamp with more nanoseconds than a second has")
    instants = seconds + orc_epoch_seconds(zone, where)
    clock = (instants + offsets(instants, zone, where)) * MILLIS_PER_SECOND + nanos // NANOS_PER_MILLI
    return pa.array(_spread(clock, present), mask=~present).cast(pa.timestamp("ms"))


def _text(columns: _Columns, node: int, present: Bits, _depth: int) -> pa.Array:
    kind, count = _ATOMS[columns.layout.types[node].kind], int(present.sum())
    if columns.encoding(node, DIRECT_V2, DICTIONARY_V2) == DIRECT_V2:
        lengths = columns.integers(node, LENGTH, count, signed=False)
        return _checked(
            _cut(columns, columns.stream(node, DATA), _spread(lengths, present), kind, _bits(present)), columns
        )
    size = columns.stripe.dictionaries[node]
    data = columns.stream(node, DICTIONARY_DATA)
    entries = _cut(columns, data, columns.integers(node, LENGTH, size, signed=False), kind, None)
    numbers = columns.integers(node, DATA, count, signed=False)
    if (numbers >= size).any():
        raise columns.corrupt(f"a number of a dictionary of {size} entries that is not below that")
    if numbers.size and int(np.diff(np.asarray(entries.buffers()[1]).view(np.int64)).max()) * count > MOST_TEXT:
        raise columns.corrupt("a dictionary that would be written out to more than a metadata file holds")
    return _checked(entries, columns).take(pa.array(_spread(numbers, present), mask=~present))


MOST_TEXT = 1 << 28
"""The most bytes of a column after its dictionary is expanded."""


def _cut(columns: _Columns, data: bytes, lengths: Signed, kind: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
    """Cuts `data` into consecutive values of these lengths, which add up to all of it."""
    if (lengths > len(data)).any() or int(lengths.sum()) != len(data):
        raise columns.corrupt(f"lengths that do not add up to the {len(data)} bytes of their values")
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return pa.Array.from_buffers(kind, len(lengths), [validity, pa.py_buffer(edges), pa.py_buffer(data)])


def _checked(array: pa.Array, columns: _Columns) -> pa.Array:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise columns.corrupt(f"text that is no UTF-8 ({error})") from error
    return array


def _list(columns: _Columns, node: int, present: Bits, depth: int) -> pa.Array:
    columns.encoding(node, DIRECT_V2)
    lengths = columns.integers(node, LENGTH, int(present.sum()), signed=False)
    if (lengths > columns.layout.size << 16).any() or int(lengths.sum()) > columns.layout.size << 16:
        raise columns.corrupt("a list longer than the file can hold")
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(_spread(lengths, present))])
    (child,) = columns.layout.types[node].children
    items = columns.column(child, int(edges[-1]), depth + 1)
    kind = pa.large_list(items.type)
    return pa.Array.from_buffers(kind, len(present), [_bits(present), pa.py_buffer(edges)], children=[items])


def _struct(columns: _Columns, node: int, present: Bits, depth: int) -> pa.Array:
    type_, count = columns.layout.types[node], int(present.sum())
    members = [columns.column(child, count, depth + 1) for child in type_.children]
    if count < len(present):  # members are stored only for rows that have the struct
        places = np.zeros(len(present), np.int64)
        places[present] = np.arange(count)
        members = [member.take(pa.array(places, mask=~present)) for member in members]
    fields = [pa.field(name, member.type) for name, member in zip(type_.names, members, strict=True)]
    return pa.Array.from_buffers(pa.struct(fields), len(present), [_bits(present)], children=members)


_ATOMS: dict[int, pa.DataType] = {
    BYTE: pa.int8(),
    SHORT: pa.int16(),
    INT: pa.int32(),
    LONG: pa.int64(),
    STRING: pa.large_string(),
    BINARY: pa.large_binary(),
    TIMESTAMP: pa.timestamp("ms"),
}

_DECODERS: dict[int, Callable[[_Columns, int, Bits, int], pa.Array]] = {
    BYTE: _byte,
    SHORT: _whole,
    INT: _whole,
    LONG: _whole,
    STRING: _text,
    BINARY: _text,
    TIMESTAMP: _timestamp,
    LIST: _list,
    STRUCT: _struct,
}


def _arrow(types: tuple[OrcType, ...], node: int, depth: int, where: str) -> pa.DataType:
    """Returns the Arrow type of a node, after checks: a tree of known kinds, lists of one item, distinct names."""
    if not 0 <= node < len(types) or depth > MOST_DEPTH:
        raise CorruptFile(where, "the types of the ORC file are no tree")
    type_ = types[node]
    if type_.kind in _ATOMS:
        return _ATOMS[type_.kind]
    if any(child <= node for child in type_.children):
        raise CorruptFile(where, "the types of the ORC file are no tree")
    members = [_arrow(types, child, depth + 1, where) for child in type_.children]
    if type_.kind == LIST and len(members) == 1:
        return pa.large_list(members[0])
    if type_.kind == STRUCT and members and len(type_.names) == len(members) == len(set(type_.names)):
        return pa.struct([pa.field(name, member) for name, member in zip(type_.names, members)])
    raise Unsupported(f"an ORC column of kind {type_.kind} in a metadata file", where=where)
