"""Encoder of BinaryRow: columns to rows and to their hash codes, for buckets, partitions and keys.

The layout is in `morrow.engine.format.binary_row`. Rows consist of 8-byte words, so all rows of a batch are one int64
buffer. Variable-length values are copied one word of every value at a time: the loops below run over the words of the
longest value, never over rows. A null wide DECIMAL or TIMESTAMP still has a zeroed variable part, as in the rows
that Paimon projects for partitions and bucket keys; hash codes and partition bytes depend on it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.arrow_buffers import (
    Bytes,
    Column,
    Ints,
    as_arrow,
    byte_spans,
    fixed_values,
    validity,
    wide_values,
)
from morrow.engine.format.binary_row import HEADER_BITS, Value, bit_set_width, fixed_width
from morrow.engine.format.binary_row_slots import (
    DECIMAL_WIDTH,
    INLINE_MARK,
    MAX_COMPACT_DECIMAL_PRECISION,
    MAX_COMPACT_TIMESTAMP_PRECISION,
    MAX_INLINE_LENGTH,
    SLOT_WIDTH,
)
from morrow.engine.format.murmur import hash_words, waves
from morrow.engine.format.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from morrow.engine.units import NANOS_PER_MILLI

HASH_BATCH = 1 << 16
"""The number of rows hashed at a time: their words and temporaries stay in the processor's cache."""


@dataclass(frozen=True)
class EncodedRows:
    """Rows without their arity, back to back: row i is ``words[edges[i]:edges[i + 1]]`` (int64, little-endian)."""

    words: Ints
    edges: Ints

    def row(self, index: int) -> bytes:
        return self.words[self.edges[index] : self.edges[index + 1]].tobytes()

    def hash_codes(self) -> npt.NDArray[np.int32]:
        """Returns Paimon's hash code of each row: 32-bit Murmur3 over its 4-byte words, seed 42."""
        return hash_words(self.words.view("<u4"), self.edges[:-1] * 2, np.diff(self.edges) * 2)


@dataclass(frozen=True)
class _Encoded:
    """One encoded column: a slot for each row, without the offset of its variable part, and the variable parts.

    That of row i has ``sizes[i]`` words; ``words(rows, w)`` is word `w` of those of `rows`, which must have one.
    """

    slots: Ints
    sizes: Ints | None = None
    words: Callable[[Ints, int], Ints] | None = None


def encode_columns(columns: Sequence[Column], types: Sequence[DataType]) -> EncodedRows:
    """Encodes columns of equal length into rows with the header INSERT.

    Values are cast to `types` first. Up to precision 3, timestamps are truncated to milliseconds.

    Raises:
        InvalidArgument: a column does not fit its type, or lengths differ.
        Unsupported: a nested value.
    """
    arrays = [as_arrow(column, kind) for column, kind in zip(columns, types, strict=True)]
    count = len(arrays[0]) if arrays else 0
    if any(len(array) != count for array in arrays):
        raise InvalidArgument(f"columns of different lengths {[len(array) for array in arrays]} do not make rows")
    encoded = [_ENCODERS.get(type(kind), _only_nulls)(array, kind) for array, kind in zip(arrays, types, strict=True)]
    fixed_words = fixed_width(len(types)) // 8
    row_words = np.full(count, fixed_words, np.int64)
    for column in encoded:
        if column.sizes is not None:
            row_words += column.sizes
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(row_words)])
    words = np.zeros(int(edges[-1]), np.int64)
    begin = edges[:-1]
    _write_null_bits(words, begin, arrays)
    cursor = np.full(count, fixed_words, np.int64)
    for i, column in enumerate(encoded):
        slots = column.slots
        if column.sizes is not None and column.words is not None:
            slots = np.where(column.sizes > 0, slots | cursor * 8 << 32, slots)
            for word, active in waves(column.sizes):
                words[begin[active] + cursor[active] + word] = column.words(active, word)
            cursor = cursor + column.sizes
        words[begin + bit_set_width(len(types)) // 8 + i] = slots
    return EncodedRows(words, edges)


def encode_row(values: Sequence[Value], types: Sequence[DataType]) -> bytes:
    """Encodes one row as metadata stores it, arity first. None is null.

    Raises:
        InvalidArgument: a value does not fit its type.
        Unsupported: a nested value.
    """
    columns = [_literal(value, kind) for value, kind in zip(values, types, strict=True)]
    row = encode_columns(columns, types).row(0) if columns else bytes(fixed_width(0))
    return struct.pack(">i", len(types)) + row


def hash_rows(columns: Sequence[Column], types: Sequence[DataType]) -> npt.NDArray[np.int32]:
    """Returns Paimon's hash code of each row of `columns`, as `encode_columns(...).hash_codes()` in bounded memory."""
    if not columns:
        raise InvalidArgument("a row without columns has no hash: name at least one bucket key")
    batches = range(0, max(len(columns[0]), 1), HASH_BATCH)
    parts = (encode_columns([c.slice(at, HASH_BATCH) for c in columns], types).hash_codes() for at in batches)
    return np.concatenate(list(parts))


def _literal(value: Value, kind: DataType) -> pa.Array:
    target = kind.arrow()
    try:
        if isinstance(value, np.datetime64):
            return pa.array(np.array([value], "datetime64[ns]"))
        if pa.types.is_timestamp(target):
            return pa.array([value], pa.timestamp("us", target.tz))
        return pa.array([value], target)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InvalidArgument(f"{value!r} does not fit {kind}: {error}") from error


def _write_null_bits(words: Ints, begin: Ints, arrays: Sequence[pa.Array]) -> None:
    for i, array in enumerate(arrays):
        if array.null_count:
            word, bit = divmod(HEADER_BITS + i, 64)
            words[begin[~validity(array)] + word] |= np.uint64(1 << bit).astype(np.int64)


def _plain(dtype: str, unsigned: str) -> Callable[[pa.Array, DataType], _Encoded]:
    """Returns the encoder of a type whose slot begins with its value; the rest of the slot is zero."""

    def encode(array: pa.Array, _: DataType) -> _Encoded:
        return _Encoded(fixed_values(array, dtype).view(unsigned).astype(np.int64))

    return encode


def _boolean(array: pa.Array, _: DataType) -> _Encoded:
    return _Encoded(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64))


def _decimal(array: pa.Array, kind: DataType) -> _Encoded:
    assert isinstance(kind, DecimalType)
    unscaled = wide_values(array)
    if kind.precision <= MAX_COMPACT_DECIMAL_PRECISION:
        return _Encoded(np.ascontiguousarray(unscaled[:, 0]))
    digits = big_endian(unscaled)
    length = np.where(validity(array), twos_complement_length(digits), 0)
    positions = np.arange(DECIMAL_WIDTH) + (DECIMAL_WIDTH - length)[:, None]
    shifted = np.take_along_axis(digits, np.minimum(positions, DECIMAL_WIDTH - 1), axis=1)
    words = np.where(positions < DECIMAL_WIDTH, shifted, 0).astype(np.uint8).view(np.int64)
    return _Encoded(length, np.full(len(array), DECIMAL_WIDTH // 8), lambda rows, word: words[rows, word])


def big_endian(words: Ints) -> Bytes:
    """Returns the bytes (n x 16, highest first) of little-endian pairs of words (n x 2)."""
    return np.ascontiguousarray(words[:, ::-1]).byteswap().view(np.uint8).reshape(-1, DECIMAL_WIDTH)


def twos_complement_length(digits: Bytes) -> Ints:
    """Returns the fewest bytes that hold each big-endian two's complement integer (n x 16) with its sign bit."""
    magnitude = digits ^ np.where(digits[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    first = np.argmax(magnitude > 0, axis=1)
    leading = np.take_along_axis(magnitude, first[:, None], axis=1)[:, 0]
    length = DECIMAL_WIDTH - first + (leading >= 0x80)
    return np.where(leading == 0, 1, length).astype(np.int64)


def _timestamp(array: pa.Array, kind: DataType) -> _Encoded:
    assert isinstance(kind, (TimestampType, LocalZonedTimestampType))
    ticks = fixed_values(array, "<i8")
    per_milli = {"s": 0, "ms": 1, "us": 1_000, "ns": NANOS_PER_MILLI}[array.type.unit]
    millis, rest = (ticks * 1_000, 0 * ticks) if per_milli == 0 else np.divmod(ticks, per_milli)
    if kind.precision <= MAX_COMPACT_TIMESTAMP_PRECISION:
        return _Encoded(millis)
    nanos = rest * (NANOS_PER_MILLI // max(per_milli, 1))
    return _Encoded(nanos, np.ones(len(array), np.int64), lambda rows, _: millis[rows])


def _bytes(array: pa.Array, _: DataType) -> _Encoded:
    buffer, begin, length = byte_spans(array)
    padded = np.concatenate([buffer, np.zeros(SLOT_WIDTH, np.uint8)])
    unaligned = np.lib.stride_tricks.as_strided(padded[:SLOT_WIDTH].view("<u8"), (len(padded) - SLOT_WIDTH + 1,), (1,))

    def words(rows: Ints, word: int) -> Ints:
        """Returns bytes ``8 * word`` to ``8 * word + 8`` of the values of `rows`, zeros after their ends."""
        missing = np.maximum(SLOT_WIDTH * (word + 1) - length[rows], 0)
        found = unaligned[begin[rows] + SLOT_WIDTH * word]
        mask = np.uint64(0xFFFF_FFFF_FFFF_FFFF) >> (8 * np.minimum(missing, SLOT_WIDTH - 1)).astype(np.uint64)
        kept: Ints = np.where(missing < SLOT_WIDTH, found & mask, np.uint64(0)).view(np.int64)
        return kept

    inline = length <= MAX_INLINE_LENGTH
    short = words(np.arange(len(array)), 0) | (INLINE_MARK - 256 | length) << 56
    slots = np.where(validity(array), np.where(inline, short, length), 0)
    return _Encoded(slots, np.where(inline, 0, (length + SLOT_WIDTH - 1) // SLOT_WIDTH), words)


def _only_nulls(array: pa.Array, kind: DataType) -> _Encoded:
    """Encodes null slots: nested columns have no statistics, and no other use in metadata."""
    if array.null_count < len(array):
        raise Unsupported(f"{kind} in a partition, key or bucket key", hint="use columns of atomic types")
    return _Encoded(np.zeros(len(array), np.int64))


_ENCODERS: dict[type[DataType], Callable[[pa.Array, DataType], _Encoded]] = {
    BooleanType: _boolean,
    TinyIntType: _plain("i1", "u1"),
    SmallIntType: _plain("<i2", "<u2"),
    IntType: _plain("<i4", "<u4"),
    BigIntType: _plain("<i8", "<i8"),
    FloatType: _plain("<f4", "<u4"),
    DoubleType: _plain("<f8", "<i8"),
    DecimalType: _decimal,
    CharType: _bytes,
    VarCharType: _bytes,
    BinaryType: _bytes,
    VarBinaryType: _bytes,
    DateType: _plain("<i4", "<u4"),
    TimeType: _plain("<i4", "<u4"),
    TimestampType: _timestamp,
    LocalZonedTimestampType: _timestamp,
}
