"""Bucket functions, which assign a row to a bucket, and HASH index files of dynamic buckets.

default   |hash of the BinaryRow of the bucket keys % buckets|, the sign of `%` that of the hash
mod       floor modulus of a single INT or BIGINT key
hive      Hive's hash of the key values: 31 * hash + hash of the next value, sign bit cleared, % buckets

A HASH index file holds the hash codes of all keys in one bucket of a table with dynamic buckets:

bytes    a sequence of big-endian 4-byte integers, each the hash code of a trimmed primary key, without repetition;
         in no particular order. The number of integers is the row count of the index manifest entry.

Source: the format specification, section Index, "Dynamic Bucket Index".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import (
    Column,
    find_byte_spans,
    read_fixed_values,
    read_validity,
    read_wide_values,
    to_arrow_array,
)
from morrow.engine.format.binary_row_encoder import hash_rows, iterate_waves

MAX_INT = 2**31 - 1
HIVE_FACTOR = 31
FLOAT_NAN = 0x7FC00000
DOUBLE_NAN = 0x7FF8000000000000

Buckets: TypeAlias = npt.NDArray[np.int32]
Hashes: TypeAlias = npt.NDArray[np.uint32]
Limbs: TypeAlias = npt.NDArray[np.uint64]


def compute_buckets(
    columns: Sequence[Column], types: Sequence[t.DataType], num_buckets: int, function: str = "default"
) -> Buckets:
    """Return the bucket (0 to `num_buckets` - 1) of each row.

    Args:
        columns: the bucket key columns, in the order of the option ``bucket-key`` (or else the primary key).
        types: their Paimon types; columns are cast to them.
        num_buckets: the number of buckets of the partition, at least 1.
        function: the option ``bucket-function.type``: default, mod or hive.

    Raises:
        InvalidArgument: no columns, fewer than 1 bucket, or keys that the function does not accept.
        Unsupported: an unknown function, or a key type that it cannot hash.
    """
    if num_buckets < 1:
        raise InvalidArgument(f"a table of fixed buckets has at least 1, not {num_buckets}")
    if not columns:
        raise InvalidArgument("rows without bucket key columns have no bucket: set the option bucket-key")
    if function not in _FUNCTIONS:
        known = ", ".join(sorted(_FUNCTIONS))
        raise Unsupported(f"the bucket function {function!r}", hint=f"bucket-function.type is one of {known}")
    return _FUNCTIONS[function](columns, types, num_buckets)


def _default(columns: Sequence[Column], types: Sequence[t.DataType], num_buckets: int) -> Buckets:
    hashes = hash_rows(columns, types).astype(np.int64)
    return np.abs(np.fmod(hashes, num_buckets)).astype(np.int32)


def _compute_mod_buckets(columns: Sequence[Column], types: Sequence[t.DataType], num_buckets: int) -> Buckets:
    if len(types) != 1 or not isinstance(types[0], (t.IntType, t.BigIntType)):
        names = ", ".join(map(str, types))
        raise InvalidArgument(f"the bucket function mod takes one INT or BIGINT key, not ({names})")
    dtype = "<i4" if isinstance(types[0], t.IntType) else "<i8"
    keys = read_fixed_values(to_arrow_array(columns[0], types[0]), dtype).astype(np.int64)
    buckets: Buckets = np.mod(keys, num_buckets).astype(np.int32)
    return buckets


def _compute_hive_buckets(columns: Sequence[Column], types: Sequence[t.DataType], num_buckets: int) -> Buckets:
    total = np.zeros(len(columns[0]), np.uint32)
    for column, kind in zip(columns, types, strict=True):
        if type(kind) not in _HIVE_HASHES:
            raise Unsupported(f"{kind} as a key of the bucket function hive", hint="use bucket-function.type=default")
        array = to_arrow_array(column, kind)
        hashes = _HIVE_HASHES[type(kind)](array, kind)
        total = total * np.uint32(HIVE_FACTOR) + np.where(read_validity(array), hashes, np.uint32(0))
    buckets: Buckets = ((total & np.uint32(MAX_INT)).astype(np.int64) % num_buckets).astype(np.int32)
    return buckets


def _make_hive_int_hash(dtype: str) -> Callable[[pa.Array, t.DataType], Hashes]:
    def hashes(array: pa.Array, _: t.DataType) -> Hashes:
        values: Hashes = read_fixed_values(array, dtype).astype(np.int32).view(np.uint32)
        return values

    return hashes


def _hash_hive_boolean(array: pa.Array, _: t.DataType) -> Hashes:
    flags: Hashes = np.asarray(array.fill_null(False)).astype(np.uint32)
    return flags


def _fold(values: npt.NDArray[np.int64]) -> Hashes:
    """Return Java's hash of a long: the xor of its halves."""
    bits = values.view(np.uint64)
    folded: Hashes = ((bits ^ bits >> np.uint64(32)) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return folded


def _hash_hive_bigint(array: pa.Array, _: t.DataType) -> Hashes:
    return _fold(read_fixed_values(array, "<i8"))


def _hash_hive_float(array: pa.Array, _: t.DataType) -> Hashes:
    values = read_fixed_values(array, "<f4")
    bits = np.where(np.isnan(values), np.uint32(FLOAT_NAN), values.view(np.uint32))
    return np.where(values == 0, np.uint32(0), bits)


def _hash_hive_double(array: pa.Array, _: t.DataType) -> Hashes:
    values = read_fixed_values(array, "<f8")
    bits = np.where(np.isnan(values), np.int64(DOUBLE_NAN), values.view(np.int64))
    return _fold(np.where(values == 0, np.int64(0), bits))


def _hash_hive_bytes(array: pa.Array, _: t.DataType) -> Hashes:
    buffer, begin, length = find_byte_spans(array)
    signed = buffer.view(np.int8)
    hashes = np.zeros(len(array), np.uint32)
    for at, rows in iterate_waves(length):
        step = signed[begin[rows] + at].astype(np.int32).view(np.uint32)
        hashes[rows] = hashes[rows] * np.uint32(HIVE_FACTOR) + step
    return hashes


def _hash_hive_decimal(array: pa.Array, kind: t.DataType) -> Hashes:
    """Return Java's hash of a BigDecimal without trailing zeros: 31 * hash of the unscaled integer + scale."""
    assert isinstance(kind, t.DecimalType)
    words = read_wide_values(array)
    negative = words[:, 1] < 0
    limbs = _compute_magnitude(words, negative)
    scale = np.full(len(words), kind.scale, np.int64)
    for _ in range(kind.scale):
        shorter, remainder = _divide_by_ten(limbs)
        exact = (remainder == 0) & (scale > 0)
        if not exact.any():
            break
        limbs = np.where(exact[:, None], shorter, limbs)
        scale = scale - exact
    hashes = np.zeros(len(words), np.uint32)
    for limb in limbs.T:
        hashes = hashes * np.uint32(HIVE_FACTOR) + limb.astype(np.uint32)
    hashes = np.where(negative, np.uint32(0) - hashes, hashes)
    hashed = hashes * np.uint32(HIVE_FACTOR) + scale.astype(np.uint32)
    nonzero: Hashes = np.where((limbs == 0).all(axis=1), np.uint32(0), hashed)
    return nonzero


def _compute_magnitude(words: npt.NDArray[np.int64], negative: npt.NDArray[np.bool_]) -> Limbs:
    """Return 128-bit absolute values as four 32-bit limbs, most significant first (n x 4)."""
    flipped = np.where(negative[:, None], ~words, words)
    limbs = np.ascontiguousarray(flipped).view("<u4").reshape(-1, 4)[:, ::-1].astype(np.uint64)
    carry = negative.astype(np.uint64)
    for i in (3, 2, 1, 0):
        limbs[:, i] += carry
        carry = limbs[:, i] >> np.uint64(32)
        limbs[:, i] &= np.uint64(0xFFFFFFFF)
    return limbs


def _divide_by_ten(limbs: Limbs) -> tuple[Limbs, Limbs]:
    quotient = np.empty_like(limbs)
    remainder = np.zeros(len(limbs), np.uint64)
    for i in range(4):
        quotient[:, i], remainder = np.divmod(remainder << np.uint64(32) | limbs[:, i], np.uint64(10))
    return quotient, remainder


_FUNCTIONS: dict[str, Callable[[Sequence[Column], Sequence[t.DataType], int], Buckets]] = {
    "default": _default,
    "mod": _compute_mod_buckets,
    "hive": _compute_hive_buckets,
}

_HIVE_HASHES: dict[type[t.DataType], Callable[[pa.Array, t.DataType], Hashes]] = {
    t.BooleanType: _hash_hive_boolean,
    t.TinyIntType: _make_hive_int_hash("i1"),
    t.SmallIntType: _make_hive_int_hash("<i2"),
    t.IntType: _make_hive_int_hash("<i4"),
    t.BigIntType: _hash_hive_bigint,
    t.FloatType: _hash_hive_float,
    t.DoubleType: _hash_hive_double,
    t.DecimalType: _hash_hive_decimal,
    t.CharType: _hash_hive_bytes,
    t.VarCharType: _hash_hive_bytes,
    t.BinaryType: _hash_hive_bytes,
    t.VarBinaryType: _hash_hive_bytes,
    t.DateType: _make_hive_int_hash("<i4"),
    t.TimeType: _make_hive_int_hash("<i4"),
}

HASH_INDEX_TYPE = "HASH"
HASH_DTYPE = ">i4"
HASH_WIDTH = 4

HashCodes: TypeAlias = npt.NDArray[np.int32]


def encode_hash_index(hashes: HashCodes) -> bytes:
    """Return the bytes of an index file; `hashes` must be distinct."""
    return hashes.astype(HASH_DTYPE).tobytes()


def decode_hash_index(data: bytes, *, where: str, row_count: int | None = None) -> HashCodes:
    """Return the hash codes in an index file.

    Raises `CorruptFile`: the length is not a multiple of 4, or contradicts `row_count` of the index manifest.
    """
    if len(data) % HASH_WIDTH:
        raise CorruptFile(where, f"{len(data)} bytes, which are not whole {HASH_WIDTH}-byte hash codes")
    if row_count is not None and len(data) != row_count * HASH_WIDTH:
        raise CorruptFile(where, f"{len(data)} bytes where the index manifest counts {row_count} hash codes")
    return np.frombuffer(data, HASH_DTYPE).astype(np.int32)
