"""Encoder of row files (`morrow.engine.format.row_layout`): columns of many rows at a time.

Each column first says how many bytes each of its values takes. Then the place of every value is known, and each column
fills its values in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import (
    Bools,
    Bytes,
    Ints,
    find_byte_spans,
    read_fixed_values,
    read_validity,
    read_wide_values,
)
from morrow.engine.format.binary_row import (
    DECIMAL_WIDTH,
    MAX_COMPACT_DECIMAL_PRECISION,
    MAX_COMPACT_TIMESTAMP_PRECISION,
    build_array,
)
from morrow.engine.format.binary_row_encoder import compute_twos_complement_length, iterate_waves, to_big_endian
from morrow.engine.format.row_layout import (
    DEFAULT_BLOCK_BYTES,
    MAX_VARINT_BYTES,
    OFFSET_BYTES,
    VARINT_BITS,
    WIDTHS,
    BlockIndex,
    count_bitmap_bytes,
    encode_end,
)
from morrow.engine.units import NANOS_PER_MILLI
from morrow.readers.casts.dtypes import to_arrow_array
from morrow.writers.files.encoders import Block, EncoderOptions, FileLayout, FileWriter, encode_one_by_one

PIECE_BYTES = 1 << 22
"""Approximate bytes of rows that are encoded at a time. Copies of bytes need eight times as much memory."""

Fill: TypeAlias = Callable[[Bytes, Ints], None]
"""Writes the values that are not null to their places in an output."""


class RowEncoder:
    """An `Encoder` of row files. Each of its blocks consists of several blocks of the file."""

    head = b""

    def __init__(self, layout: FileLayout, options: EncoderOptions) -> None:
        self._fields = layout.fields
        self._codec = pa.Codec("zstd", options.write.zstd_level)
        self._block_bytes = options.write.block_size or DEFAULT_BLOCK_BYTES

    def block(self, frame: pl.DataFrame) -> Block:
        pieces = max(int(frame.estimated_size()) // PIECE_BYTES, 1)
        step = max(-(-frame.height // pieces), 1)
        encoded = [block for at in range(0, frame.height, step) for block in self._encode(frame[at : at + step])]
        body = b"".join(block for block, _, _ in encoded)
        compressed = np.array([len(block) for block, _, _ in encoded], np.int64)
        numbers = (np.array([each[place] for each in encoded], np.int64) for place in (1, 2))
        return Block(frame.height, len(body), body, BlockIndex(compressed, *numbers))

    def _encode(self, frame: pl.DataFrame) -> Iterator[tuple[bytes, int, int]]:
        """Yield compressed blocks, their uncompressed sizes and their rows."""
        columns = [to_arrow_array(each, field.type) for each, field in zip(frame.iter_columns(), self._fields)]
        kinds = [field.type for field in self._fields]
        sizes, fill = _encode_members(columns, kinds, np.ones(frame.height, np.bool_))
        starts = np.concatenate([[0], np.cumsum(sizes)])
        output = np.zeros(int(starts[-1]) + DECIMAL_WIDTH, np.uint8)  # values may be stored from the last byte on
        fill(output, starts[:-1])
        taken = starts[1:] + OFFSET_BYTES * np.arange(1, frame.height + 1)
        first = 0
        while first < frame.height:
            base = int(starts[first]) + OFFSET_BYTES * first
            last = int(np.searchsorted(taken, base + self._block_bytes - OFFSET_BYTES)) + 1
            last = min(max(last, first + 1), frame.height)
            rows = output[starts[first] : starts[last]].tobytes()
            offsets = (starts[first:last] - starts[first]).astype("<i4").tobytes()
            block = rows + offsets + (last - first).to_bytes(OFFSET_BYTES, "little")
            yield self._codec.compress(block, asbytes=True), len(block), last - first
            first = last

    def blocks(self, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
        return encode_one_by_one(self, frame, heights)

    def foot(self, blocks: Sequence[Block]) -> bytes:
        return encode_end([block.details for block in blocks])


def _encode(array: pa.Array, kind: t.DataType, parents: Bools | None = None) -> tuple[Ints, Fill]:
    """Return the bytes of each value, 0 for null, and a function that writes the values; `parents` are not null."""
    valid = read_validity(array)
    if parents is not None:
        valid = valid & parents
    return ENCODERS[type(kind)](array, kind, valid)


def _store(output: Bytes, at: Ints, values: Any) -> None:
    width = values.dtype.itemsize
    first = output[:width].view(values.dtype)
    np.lib.stride_tricks.as_strided(first, (len(output) - width + 1,), (1,))[at] = values


def _fill_fixed(values: Any, valid: Bools) -> tuple[Ints, Fill]:
    def fill(output: Bytes, at: Ints) -> None:
        _store(output, at[valid], values[valid])

    return values.dtype.itemsize * valid.astype(np.int64), fill


def _encode_fixed(array: pa.Array, kind: t.DataType, valid: Bools) -> tuple[Ints, Fill]:
    return _fill_fixed(read_fixed_values(array, WIDTHS[type(kind)]), valid)


def _encode_booleans(array: pa.Array, _: t.DataType, valid: Bools) -> tuple[Ints, Fill]:
    bits, end = array.buffers()[1], array.offset + len(array)
    values = np.unpackbits(np.frombuffer(bits, np.uint8), count=end, bitorder="little") if bits else np.zeros(end, "u1")
    return _fill_fixed(values[array.offset :], valid)


def _encode_varints(values: Ints, valid: Bools) -> tuple[Ints, Fill]:
    counts = np.where(valid, 1, 0)
    for place in range(1, MAX_VARINT_BYTES):
        counts += valid & (values >> (VARINT_BITS * place) > 0)

    def fill(output: Bytes, at: Ints) -> None:
        for place, active in iterate_waves(counts):
            more = np.where(counts[active] > place + 1, 0x80, 0)
            output[at[active] + place] = values[active] >> (VARINT_BITS * place) & 0x7F | more

    return counts, fill


def _encode_spans(data: Bytes, begin: Ints, sizes: Ints, valid: Bools) -> tuple[Ints, Fill]:
    sizes = np.where(valid, sizes, 0)
    heads, fill_heads = _encode_varints(sizes, valid)

    def fill(output: Bytes, at: Ints) -> None:
        fill_heads(output, at)
        rows = np.repeat(np.arange(len(sizes)), sizes)
        within = np.arange(len(rows)) - (np.cumsum(sizes) - sizes)[rows]
        output[(at + heads)[rows] + within] = data[begin[rows] + within]

    return heads + sizes, fill


def _encode_bytes(array: pa.Array, _: t.DataType, valid: Bools) -> tuple[Ints, Fill]:
    narrow = array.cast(pa.large_string()).cast(pa.large_binary()) if pa.types.is_string(array.type) else array
    return _encode_spans(*find_byte_spans(narrow.cast(pa.large_binary())), valid)


def _encode_decimals(array: pa.Array, kind: t.DecimalType, valid: Bools) -> tuple[Ints, Fill]:
    words = read_wide_values(array)
    if kind.precision <= MAX_COMPACT_DECIMAL_PRECISION:
        return _fill_fixed(words[:, 0], valid)
    digits = to_big_endian(words)
    sizes = compute_twos_complement_length(digits)
    return _encode_spans(digits.ravel(), DECIMAL_WIDTH * np.arange(1, len(words) + 1) - sizes, sizes, valid)


def _encode_timestamps(array: pa.Array, kind: Any, valid: Bools) -> tuple[Ints, Fill]:
    ticks = read_fixed_values(array, "<i8")
    per_milli = {"s": 0, "ms": 1, "us": 1_000, "ns": NANOS_PER_MILLI}[array.type.unit]
    millis, rest = np.divmod(ticks, per_milli) if per_milli else (ticks * 1_000, np.zeros_like(ticks))
    if kind.precision <= MAX_COMPACT_TIMESTAMP_PRECISION:
        return _fill_fixed(millis, valid)
    nanos = rest * (NANOS_PER_MILLI // max(per_milli, 1))
    return _join([_fill_fixed(millis, valid), _encode_varints(nanos, valid)])


def _join(parts: Sequence[tuple[Ints, Fill]]) -> tuple[Ints, Fill]:
    """Return values that consist of parts, one after the other."""

    def fill(output: Bytes, at: Ints) -> None:
        for sizes, fill_part in parts:
            fill_part(output, at)
            at = at + sizes

    return np.sum([sizes for sizes, _ in parts], axis=0, dtype=np.int64), fill


def _fill_bits(nulls: Bools, rows: Ints, numbers: Any) -> Fill:
    """Return a function that sets the null bits of members or elements: their row, and their number there."""

    def fill(output: Bytes, at: Ints) -> None:
        bits = np.left_shift(1, numbers & 7).astype(np.uint8)
        np.bitwise_or.at(output, (at[rows] + (numbers >> 3))[nulls], bits[nulls])

    return fill


def _encode_members(members: Sequence[pa.Array], kinds: Sequence[t.DataType], valid: Bools) -> tuple[Ints, Fill]:
    present = [read_validity(member) & valid for member in members]
    parts = [_encode(member, kind, valid) for member, kind in zip(members, kinds)]

    def fill_bits(output: Bytes, at: Ints) -> None:
        for number, held in enumerate(present):
            output[at[valid & ~held] + (number >> 3)] |= 1 << (number & 7)

    return _join([((len(members) + 7) // 8 * valid.astype(np.int64), fill_bits), *parts])


def _encode_rows(array: pa.Array, kind: t.RowType, valid: Bools) -> tuple[Ints, Fill]:
    members = [array.field(number) for number in range(len(kind.fields))]
    return _encode_members(members, [field.type for field in kind.fields], valid)


def _encode_variants(array: pa.Array, _: t.DataType, valid: Bools) -> tuple[Ints, Fill]:
    names = ("value", "metadata")
    return _join([_encode_bytes(array.field(name), t.VarBinaryType(), valid) for name in names])


def _encode_elements(values: pa.Array, kind: t.DataType, edges: Ints, valid: Bools) -> tuple[Ints, Fill]:
    sizes = np.where(valid, np.diff(edges), 0)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    firsts = np.cumsum(sizes) - sizes
    numbers = np.arange(len(rows)) - firsts[rows]
    places = edges[:-1][rows] + numbers
    if len(places) != len(values):  # slices, and values below a null
        values = values.take(build_array(pa.int64(), places, np.ones(len(places), np.bool_)))
    widths, fill_values = _encode(values, kind)
    before = np.concatenate([[0], np.cumsum(widths)])
    bitmap = count_bitmap_bytes(sizes)
    fill_bits = _fill_bits(~read_validity(values), rows, numbers)

    def fill_elements(output: Bytes, at: Ints) -> None:
        fill_values(output, at[rows] + before[:-1] - before[firsts[rows]])

    totals = before[firsts + sizes] - before[firsts]
    return _join([_encode_varints(sizes, valid), (bitmap, fill_bits), (totals, fill_elements)])


def _read_edges(array: pa.Array) -> Ints:
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).astype(np.int64)


def _encode_arrays(array: pa.Array, kind: t.ArrayType, valid: Bools) -> tuple[Ints, Fill]:
    return _encode_elements(array.values, kind.element, _read_edges(array), valid)


def _encode_maps(array: pa.Array, kind: Any, valid: Bools) -> tuple[Ints, Fill]:
    key, value = (kind.element, t.IntType()) if isinstance(kind, t.MultisetType) else (kind.key, kind.value)
    edges = _read_edges(array)
    members = ((array.keys, key), (array.items, value))
    return _join([_encode_elements(each, member, edges, valid) for each, member in members])


def _encode_vectors(array: pa.Array, kind: t.VectorType, valid: Bools) -> tuple[Ints, Fill]:
    elements = array.values.slice(array.offset * kind.length, len(array) * kind.length)
    rows = np.repeat(valid, kind.length)
    widths, fill_values = _encode(elements, kind.element, rows)
    step = np.dtype(WIDTHS[type(kind.element)]).itemsize * np.arange(kind.length)

    def fill(output: Bytes, at: Ints) -> None:
        fill_values(output, (at[:, None] + step).ravel())

    totals = widths.reshape(-1, kind.length).sum(axis=1)
    return _join([_encode_varints(np.where(valid, kind.length, 0), valid), (totals, fill)])


ENCODERS: Mapping[type[t.DataType], Callable[[pa.Array, Any, Bools], tuple[Ints, Fill]]] = {
    **dict.fromkeys(WIDTHS, _encode_fixed),
    t.BooleanType: _encode_booleans,
    **dict.fromkeys((t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType, t.BlobType), _encode_bytes),
    t.DecimalType: _encode_decimals,
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), _encode_timestamps),
    t.VariantType: _encode_variants,
    t.RowType: _encode_rows,
    t.ArrayType: _encode_arrays,
    **dict.fromkeys((t.MapType, t.MultisetType), _encode_maps),
    t.VectorType: _encode_vectors,
}

WRITER = FileWriter(RowEncoder)
