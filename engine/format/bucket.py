"""Bucket functions, which assign a row to a bucket of its partition.

default   |hash of the BinaryRow of the bucket keys % buckets|, the sign of `%` that of the hash
mod       floor modulus of a single INT or BIGINT key
hive      Hive's hash of the key values: 31 * hash + hash of the next value, sign bit cleared, % buckets
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.arrow_buffers import Column, as_arrow, byte_spans, fixed_values, validity, wide_values
from morrow.engine.format.binary_row_encode import hash_rows
from morrow.engine.format.murmur import waves
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
    SmallIntType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)

MAX_INT = 2**31 - 1
HIVE_FACTOR = 31
FLOAT_NAN = 0x7FC00000
DOUBLE_NAN = 0x7FF8000000000000

Buckets: TypeAlias = npt.NDArray[np.int32]
Hashes: TypeAlias = npt.NDArray[np.uint32]
Limbs: TypeAlias = npt.NDArray[np.uint64]


def bucket_of(
    columns: Sequence[Column], types: Sequence[DataType], num_buckets: int, function: str = "default"
) -> Buckets:
    """Returns the bucket (0 to `num_buckets` - 1) of each row.

    Args:
        columns: the bucket key columns, in the order of the option ``bucket-key`` (else of the primary key).
        types: their Paimon types; columns are cast to them.
        num_buckets: the buckets of the partition, at least 1.
        function: the option ``bucket-function.type``: default, mod or hive.

    Raises:
        InvalidArgument: no column, fewer than 1 bucket, or keys that the function does not accept.
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


def _default(columns: Sequence[Column], types: Sequence[DataType], num_buckets: int) -> Buckets:
    hashes = hash_rows(columns, types).astype(np.int64)
    return np.abs(np.fmod(hashes, num_buckets)).astype(np.int32)


def _mod(columns: Sequence[Column], types: Sequence[DataType], num_buckets: int) -> Buckets:
    if len(types) != 1 or not isinstance(types[0], (IntType, BigIntType)):
        names = ", ".join(map(str, types))
        raise InvalidArgument(f"the bucket function mod takes one INT or BIGINT key, not ({names})")
    dtype = "<i4" if isinstance(types[0], IntType) else "<i8"
    keys = fixed_values(as_arrow(columns[0], types[0]), dtype).astype(np.int64)
    buckets: Buckets = np.mod(keys, num_buckets).astype(np.int32)
    return buckets


def _hive(columns: Sequence[Column], types: Sequence[DataType], num_buckets: int) -> Buckets:
    total = np.zeros(len(columns[0]), np.uint32)
    for column, kind in zip(columns, types, strict=True):
        if type(kind) not in _HIVE_HASHES:
            raise Unsupported(f"{kind} as a key of the bucket function hive", hint="use bucket-function.type=default")
        array = as_arrow(column, kind)
        hashes = _HIVE_HASHES[type(kind)](array, kind)
        total = total * np.uint32(HIVE_FACTOR) + np.where(validity(array), hashes, np.uint32(0))
    buckets: Buckets = ((total & np.uint32(MAX_INT)).astype(np.int64) % num_buckets).astype(np.int32)
    return buckets


def _hive_int(dtype: str) -> Callable[[pa.Array, DataType], Hashes]:
    def hashes(array: pa.Array, _: DataType) -> Hashes:
        values: Hashes = fixed_values(array, dtype).astype(np.int32).view(np.uint32)
        return values

    return hashes


def _hive_boolean(array: pa.Array, _: DataType) -> Hashes:
    flags: Hashes = np.asarray(array.fill_null(False)).astype(np.uint32)
    return flags


def _fold(values: npt.NDArray[np.int64]) -> Hashes:
    """Returns Java's hash of a long: the xor of its halves."""
    bits = values.view(np.uint64)
    folded: Hashes = ((bits ^ bits >> np.uint64(32)) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return folded


def _hive_bigint(array: pa.Array, _: DataType) -> Hashes:
    return _fold(fixed_values(array, "<i8"))


def _hive_float(array: pa.Array, _: DataType) -> Hashes:
    values = fixed_values(array, "<f4")
    bits = np.where(np.isnan(values), np.uint32(FLOAT_NAN), values.view(np.uint32))
    return np.where(values == 0, np.uint32(0), bits)


def _hive_double(array: pa.Array, _: DataType) -> Hashes:
    values = fixed_values(array, "<f8")
    bits = np.where(np.isnan(values), np.int64(DOUBLE_NAN), values.view(np.int64))
    return _fold(np.where(values == 0, np.int64(0), bits))


def _hive_bytes(array: pa.Array, _: DataType) -> Hashes:
    buffer, begin, length = byte_spans(array)
    signed = buffer.view(np.int8)
    hashes = np.zeros(len(array), np.uint32)
    for at, rows in waves(length):
        step = signed[begin[rows] + at].astype(np.int32).view(np.uint32)
        hashes[rows] = hashes[rows] * np.uint32(HIVE_FACTOR) + step
    return hashes


def _hive_decimal(array: pa.Array, kind: DataType) -> Hashes:
    """Returns Java's hash of a BigDecimal without trailing zeros: 31 * hash of the unscaled integer + scale."""
    assert isinstance(kind, DecimalType)
    words = wide_values(array)
    negative = words[:, 1] < 0
    limbs = _magnitude(words, negative)
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


def _magnitude(words: npt.NDArray[np.int64], negative: npt.NDArray[np.bool_]) -> Limbs:
    """Returns 128-bit absolute values as four 32-bit limbs, most significant first (n x 4)."""
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


_FUNCTIONS: dict[str, Callable[[Sequence[Column], Sequence[DataType], int], Buckets]] = {
    "default": _default,
    "mod": _mod,
    "hive": _hive,
}

_HIVE_HASHES: dict[type[DataType], Callable[[pa.Array, DataType], Hashes]] = {
    BooleanType: _hive_boolean,
    TinyIntType: _hive_int("i1"),
    SmallIntType: _hive_int("<i2"),
    IntType: _hive_int("<i4"),
    BigIntType: _hive_bigint,
    FloatType: _hive_float,
    DoubleType: _hive_double,
    DecimalType: _hive_decimal,
    CharType: _hive_bytes,
    VarCharType: _hive_bytes,
    BinaryType: _hive_bytes,
    VarBinaryType: _hive_bytes,
    DateType: _hive_int("<i4"),
    TimeType: _hive_int("<i4"),
}
