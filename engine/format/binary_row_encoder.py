"""Encoders of BinaryRow: columns to rows and to their hash codes, and single rows value by value.

The layout is in `morrow.engine.format.binary_row`. Rows consist of 8-byte words, so all rows of a batch are one int64
buffer. Variable-length values are copied word by word for all rows at once: the loops below run over the words of the
longest value, never over rows. A null wide DECIMAL or TIMESTAMP still has a zeroed variable part, as in the rows
that Paimon projects for partitions and bucket keys; hash codes and partition bytes depend on it.

For a single row, setting up columns would take longer than writing the values. `encode_value_row` writes the same
bytes for this case.

Hash codes are 32-bit Murmur3 over many byte strings of different lengths at once. uint32 arithmetic wraps as in Java.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import (
    Bytes,
    Column,
    Ints,
    find_byte_spans,
    read_fixed_values,
    read_validity,
    read_wide_values,
    to_arrow_array,
)
from morrow.engine.format.binary_row import (
    DECIMAL_WIDTH,
    HEADER_BITS,
    INLINE_MARK,
    MAX_COMPACT_DECIMAL_PRECISION,
    MAX_COMPACT_TIMESTAMP_PRECISION,
    MAX_INLINE_LENGTH,
    SLOT_WIDTH,
    Value,
    compute_bit_set_width,
    compute_fixed_width,
)
from morrow.engine.units import NANOS_PER_MILLI

SEED = 42
WORD_WIDTH = 4

UInts: TypeAlias = npt.NDArray[np.uint32]


def iterate_waves(sizes: Ints) -> Iterator[tuple[int, Ints]]:
    """Walk ragged lists in parallel: yield (0, lists with an element 0), (1, lists with an element 1) and so on.

    The work is proportional to the sum of all sizes, since lists that have ended are not visited again.
    """
    active = np.flatnonzero(sizes > 0)
    wave = 0
    while len(active):
        yield wave, active
        wave += 1
        active = active[sizes[active] > wave]


def hash_words(words: UInts, begin: Ints, count: Ints) -> npt.NDArray[np.int32]:
    """Return the hash of each string ``words[begin[i]:begin[i] + count[i]]`` of 4-byte little-endian words."""
    hashes = np.full(len(begin), SEED, np.uint32)
    for at, active in iterate_waves(count):
        hashes[active] = _mix_word(hashes[active], words[begin[active] + at])
    return _finish_hashes(hashes ^ (count * WORD_WIDTH).astype(np.uint32)).view(np.int32)


def hash_bytes(data: npt.NDArray[np.uint8], begin: Ints, size: Ints) -> npt.NDArray[np.int32]:
    """Return the hash of each string ``data[begin[i]:begin[i] + size[i]]``.

    Whole words are hashed first, then each remaining byte as a signed word. The loops run over the words of the longest
    string, never over strings. uint32 arithmetic wraps as in Java.
    """
    hashes = np.full(len(begin), SEED, np.uint32)
    for at, active in iterate_waves(size // WORD_WIDTH):
        first = begin[active] + WORD_WIDTH * at
        word = sum(data[first + i].astype(np.uint32) << np.uint32(8 * i) for i in range(WORD_WIDTH))
        hashes[active] = _mix_word(hashes[active], np.asarray(word, np.uint32))
    for at, active in iterate_waves(size % WORD_WIDTH):
        left = data[begin[active] + size[active] // WORD_WIDTH * WORD_WIDTH + at]
        hashes[active] = _mix_word(hashes[active], left.view(np.int8).astype(np.int32).view(np.uint32))
    return _finish_hashes(hashes ^ size.astype(np.uint32)).view(np.int32)


def hash_name(data: bytes) -> int:
    """Return the standard Murmur3 hash of one string, with seed 0, unsigned: the remaining bytes are one word."""
    words = np.frombuffer(data[: len(data) // WORD_WIDTH * WORD_WIDTH], "<u4")
    mixed = np.zeros(1, np.uint32)
    for at in range(len(words)):
        mixed = _mix_word(mixed, words[at : at + 1])
    left = np.array([int.from_bytes(data[len(words) * WORD_WIDTH :], "little")], np.uint32)
    return int(_finish_hashes(mixed ^ _scramble_word(left) ^ np.uint32(len(data)))[0])


def _mix_word(hashes: UInts, words: UInts) -> UInts:
    """Mix one word into each hash."""
    mixed: UInts = _rotate_words(hashes ^ _scramble_word(words), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return mixed


def _scramble_word(words: UInts) -> UInts:
    scrambled: UInts = _rotate_words(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return scrambled


def _finish_hashes(hashes: UInts) -> UInts:
    """Apply the final mix, after which every bit of a hash depends on every bit of its string."""
    hashes = (hashes ^ hashes >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ hashes >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    mixed: UInts = hashes ^ hashes >> np.uint32(16)
    return mixed


def _rotate_words(words: UInts, bits: int) -> UInts:
    rotated: UInts = words << np.uint32(bits) | words >> np.uint32(32 - bits)
    return rotated


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
        """Return Paimon's hash code of each row: 32-bit Murmur3 over its 4-byte words, seed 42."""
        return hash_words(self.words.view("<u4"), self.edges[:-1] * 2, np.diff(self.edges) * 2)


@dataclass(frozen=True)
class _Encoded:
    """One encoded column: a slot for each row, without the offset of its variable part, and the variable parts.

    The variable part of row i has ``sizes[i]`` words. ``words(rows, w)`` returns word `w` of the variable parts of
    `rows`, each of which must have this word.
    """

    slots: Ints
    sizes: Ints | None = None
    words: Callable[[Ints, int], Ints] | None = None


def encode_columns(columns: Sequence[Column], types: Sequence[t.DataType]) -> EncodedRows:
    """Encode columns of equal length into rows with the header INSERT.

    Values are cast to `types` first. Timestamps of precision 3 or less are truncated to milliseconds.

    Raises:
        InvalidArgument: a column does not fit its type, or lengths differ.
        Unsupported: a nested value.
    """
    arrays = [to_arrow_array(column, kind) for column, kind in zip(columns, types, strict=True)]
    count = len(arrays[0]) if arrays else 0
    if any(len(array) != count for array in arrays):
        raise InvalidArgument(f"columns of different lengths {[len(array) for array in arrays]} do not make rows")
    encoded = [_ENCODERS.get(type(kind), _encode_nulls)(array, kind) for array, kind in zip(arrays, types, strict=True)]
    fixed_words = compute_fixed_width(len(types)) // 8
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
            for word, active in iterate_waves(column.sizes):
                words[begin[active] + cursor[active] + word] = column.words(active, word)
            cursor = cursor + column.sizes
        words[begin + compute_bit_set_width(len(types)) // 8 + i] = slots
    return EncodedRows(words, edges)


def encode_row(values: Sequence[Value], types: Sequence[t.DataType]) -> bytes:
    """Encode one row as metadata stores it, arity first. None is null.

    Raises:
        InvalidArgument: a value does not fit its type.
        Unsupported: a nested value.
    """
    columns = [_to_array(value, kind) for value, kind in zip(values, types, strict=True)]
    row = encode_columns(columns, types).row(0) if columns else bytes(compute_fixed_width(0))
    return struct.pack(">i", len(types)) + row


def hash_rows(columns: Sequence[Column], types: Sequence[t.DataType]) -> npt.NDArray[np.int32]:
    """Return Paimon's hash code of each row, like `encode_columns(...).hash_codes()` but in bounded memory."""
    if not columns:
        raise InvalidArgument("a row without columns has no hash: name at least one bucket key")
    batches = range(0, max(len(columns[0]), 1), HASH_BATCH)
    parts = (encode_columns([c.slice(at, HASH_BATCH) for c in columns], types).hash_codes() for at in batches)
    return np.concatenate(list(parts))


def _to_array(value: Value, kind: t.DataType) -> pa.Array:
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
            words[begin[~read_validity(array)] + word] |= np.uint64(1 << bit).astype(np.int64)


def _make_plain_encoder(dtype: str, unsigned: str) -> Callable[[pa.Array, t.DataType], _Encoded]:
    """Return the encoder of a type whose slot begins with its value; the rest of the slot is zero."""

    def encode(array: pa.Array, _: t.DataType) -> _Encoded:
        return _Encoded(read_fixed_values(array, dtype).view(unsigned).astype(np.int64))

    return encode


def _encode_boolean(array: pa.Array, _: t.DataType) -> _Encoded:
    return _Encoded(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64))


def _encode_decimal(array: pa.Array, kind: t.DataType) -> _Encoded:
    assert isinstance(kind, t.DecimalType)
    unscaled = read_wide_values(array)
    if kind.precision <= MAX_COMPACT_DECIMAL_PRECISION:
        return _Encoded(np.ascontiguousarray(unscaled[:, 0]))
    digits = to_big_endian(unscaled)
    length = np.where(read_validity(array), compute_twos_complement_length(digits), 0)
    positions = np.arange(DECIMAL_WIDTH) + (DECIMAL_WIDTH - length)[:, None]
    shifted = np.take_along_axis(digits, np.minimum(positions, DECIMAL_WIDTH - 1), axis=1)
    words = np.where(positions < DECIMAL_WIDTH, shifted, 0).astype(np.uint8).view(np.int64)
    return _Encoded(length, np.full(len(array), DECIMAL_WIDTH // 8), lambda rows, word: words[rows, word])


def to_big_endian(words: Ints) -> Bytes:
    """Return the bytes (n x 16, highest first) of little-endian pairs of words (n x 2)."""
    return np.ascontiguousarray(words[:, ::-1]).byteswap().view(np.uint8).reshape(-1, DECIMAL_WIDTH)


def compute_twos_complement_length(digits: Bytes) -> Ints:
    """Return the minimum size in bytes of each big-endian two's complement integer (n x 16), with its sign bit."""
    magnitude = digits ^ np.where(digits[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    first = np.argmax(magnitude > 0, axis=1)
    leading = np.take_along_axis(magnitude, first[:, None], axis=1)[:, 0]
    length = DECIMAL_WIDTH - first + (leading >= 0x80)
    return np.where(leading == 0, 1, length).astype(np.int64)


def _encode_timestamp(array: pa.Array, kind: t.DataType) -> _Encoded:
    assert isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType))
    ticks = read_fixed_values(array, "<i8")
    per_milli = {"s": 0, "ms": 1, "us": 1_000, "ns": NANOS_PER_MILLI}[array.type.unit]
    millis, rest = (ticks * 1_000, 0 * ticks) if per_milli == 0 else np.divmod(ticks, per_milli)
    if kind.precision <= MAX_COMPACT_TIMESTAMP_PRECISION:
        return _Encoded(millis)
    nanos = rest * (NANOS_PER_MILLI // max(per_milli, 1))
    return _Encoded(nanos, np.ones(len(array), np.int64), lambda rows, _: millis[rows])


def _encode_bytes(array: pa.Array, _: t.DataType) -> _Encoded:
    buffer, begin, length = find_byte_spans(array)
    padded = np.concatenate([buffer, np.zeros(SLOT_WIDTH, np.uint8)])
    unaligned = np.lib.stride_tricks.as_strided(padded[:SLOT_WIDTH].view("<u8"), (len(padded) - SLOT_WIDTH + 1,), (1,))

    def words(rows: Ints, word: int) -> Ints:
        """Return bytes ``8 * word`` to ``8 * word + 8`` of the values of `rows`, zeros after their ends."""
        missing = np.maximum(SLOT_WIDTH * (word + 1) - length[rows], 0)
        found = unaligned[begin[rows] + SLOT_WIDTH * word]
        mask = np.uint64(0xFFFF_FFFF_FFFF_FFFF) >> (8 * np.minimum(missing, SLOT_WIDTH - 1)).astype(np.uint64)
        kept: Ints = np.where(missing < SLOT_WIDTH, found & mask, np.uint64(0)).view(np.int64)
        return kept

    inline = length <= MAX_INLINE_LENGTH
    short = words(np.arange(len(array)), 0) | (INLINE_MARK - 256 | length) << 56
    slots = np.where(read_validity(array), np.where(inline, short, length), 0)
    return _Encoded(slots, np.where(inline, 0, (length + SLOT_WIDTH - 1) // SLOT_WIDTH), words)


def _encode_nulls(array: pa.Array, kind: t.DataType) -> _Encoded:
    """Encode null slots: metadata only has nested columns as null, since they lack statistics."""
    if array.null_count < len(array):
        raise Unsupported(f"{kind} in a partition, key or bucket key", hint="use columns of atomic types")
    return _Encoded(np.zeros(len(array), np.int64))


_ENCODERS: dict[type[t.DataType], Callable[[pa.Array, t.DataType], _Encoded]] = {
    t.BooleanType: _encode_boolean,
    t.TinyIntType: _make_plain_encoder("i1", "u1"),
    t.SmallIntType: _make_plain_encoder("<i2", "<u2"),
    t.IntType: _make_plain_encoder("<i4", "<u4"),
    t.BigIntType: _make_plain_encoder("<i8", "<i8"),
    t.FloatType: _make_plain_encoder("<f4", "<u4"),
    t.DoubleType: _make_plain_encoder("<f8", "<i8"),
    t.DecimalType: _encode_decimal,
    t.CharType: _encode_bytes,
    t.VarCharType: _encode_bytes,
    t.BinaryType: _encode_bytes,
    t.VarBinaryType: _encode_bytes,
    t.DateType: _make_plain_encoder("<i4", "<u4"),
    t.TimeType: _make_plain_encoder("<i4", "<u4"),
    t.TimestampType: _encode_timestamp,
    t.LocalZonedTimestampType: _encode_timestamp,
}

PER_MILLI = {"ms": 1, "us": 1_000, "ns": NANOS_PER_MILLI}
TICKS = (pl.Date, pl.Time, pl.Datetime)
"""Types whose values are encoded from integers of their unit, since Python objects have less precision."""
EXACT = Context(prec=38)

Slot: TypeAlias = tuple[int, bytes]
"""A slot's number, without the offset of the variable part, and the variable part."""
Encode: TypeAlias = Callable[[Any, Any, Any], Slot]
"""A function from a value, its type and its dtype to a slot."""


def encode_value_row(columns: Sequence[pl.Series], types: Sequence[t.DataType], row: int = 0) -> bytes:
    """Return one row of columns as metadata stores it, arity first; the columns have the dtypes of `to_polars_dtype`.

    Raises `Unsupported`: a nested value.
    """
    nulls, slots, variable = 0, bytearray(), bytearray()
    for i, (column, kind) in enumerate(zip(columns, types, strict=True)):
        value = (column.cast(pl.Int64) if isinstance(column.dtype, TICKS) else column)[row]
        if value is None:
            nulls |= 1 << (HEADER_BITS + i)
            slot, part = 0, bytes(_find_null_width(kind))
        else:
            encode: Encode = _SLOTS.get(type(kind), _refuse_nested)
            slot, part = encode(value, kind, column.dtype)
        if part:
            slot |= (compute_fixed_width(len(types)) + len(variable)) << 32
            variable += part
        slots += (slot % (1 << 64)).to_bytes(SLOT_WIDTH, "little")
    return (
        struct.pack(">i", len(types)) + nulls.to_bytes(compute_bit_set_width(len(types)), "little") + slots + variable
    )


def _find_null_width(kind: t.DataType) -> int:
    if isinstance(kind, t.DecimalType):
        return DECIMAL_WIDTH if kind.precision > MAX_COMPACT_DECIMAL_PRECISION else 0
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)):
        return SLOT_WIDTH if kind.precision > MAX_COMPACT_TIMESTAMP_PRECISION else 0
    return 0


def _make_number_encoder(bits: int) -> Encode:
    return lambda value, _, __: (value % (1 << bits), b"")


def _make_float_encoder(form: str) -> Encode:
    return lambda value, _, __: (int.from_bytes(struct.pack(form, value), "little"), b"")


def _encode_bytes_value(value: bytes | str, _: t.DataType, __: pl.DataType) -> Slot:
    data = value.encode() if isinstance(value, str) else value
    if len(data) <= MAX_INLINE_LENGTH:
        return int.from_bytes(data, "little") | (INLINE_MARK | len(data)) << 56, b""
    return len(data), data + bytes(-len(data) % SLOT_WIDTH)


def _encode_decimal_value(value: Decimal, kind: t.DataType, _: pl.DataType) -> Slot:
    assert isinstance(kind, t.DecimalType)
    unscaled = int(value.scaleb(kind.scale, EXACT))
    if kind.precision <= MAX_COMPACT_DECIMAL_PRECISION:
        return unscaled, b""
    length = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return length, unscaled.to_bytes(length, "big", signed=True) + bytes(DECIMAL_WIDTH - length)


def _encode_timestamp_value(value: int, kind: t.DataType, dtype: pl.DataType) -> Slot:
    assert isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)) and isinstance(dtype, pl.Datetime)
    per_milli = PER_MILLI[dtype.time_unit]
    millis, rest = divmod(value, per_milli)
    if kind.precision <= MAX_COMPACT_TIMESTAMP_PRECISION:
        return millis, b""
    return rest * (NANOS_PER_MILLI // per_milli), struct.pack("<q", millis)


def _refuse_nested(_: Any, kind: t.DataType, __: pl.DataType) -> Slot:
    raise Unsupported(f"{kind} in a partition, key or bucket key", hint="use columns of atomic types")


_SLOTS: Mapping[type[t.DataType], Encode] = {
    t.BooleanType: _make_number_encoder(8),
    t.TinyIntType: _make_number_encoder(8),
    t.SmallIntType: _make_number_encoder(16),
    t.IntType: _make_number_encoder(32),
    t.BigIntType: _make_number_encoder(64),
    t.FloatType: _make_float_encoder("<f"),
    t.DoubleType: _make_float_encoder("<d"),
    t.DecimalType: _encode_decimal_value,
    **dict.fromkeys((t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType), _encode_bytes_value),
    t.DateType: _make_number_encoder(32),
    t.TimeType: lambda value, _, __: (value // NANOS_PER_MILLI, b""),
    t.TimestampType: _encode_timestamp_value,
    t.LocalZonedTimestampType: _encode_timestamp_value,
}
