"""The iteration order of Java's `HashMap`.

Java's index writers iterate over hash maps, so their order is part of the bytes. A key lies in the bucket
``(hash ^ hash >>> 16) & (capacity - 1)`` and buckets come in ascending order. Within one, `put` adds a key behind the
present ones, `computeIfAbsent` before them. (Buckets of eight and more keys, which become trees, may differ from
Java's: readers do not depend on it.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format import types as t
from morrow.engine.format.file_index.keys_encode import bits_of, spans
from morrow.engine.format.murmur import hash_bytes

Ints = npt.NDArray[np.int64]
Value = TypeVar("Value")
LEAST_CAPACITY = 16
_TRUE_HASH, _FALSE_HASH = 1231, 1237
_LONGS = (t.BigIntType, t.DoubleType, t.TimestampType, t.LocalZonedTimestampType)


def hash_codes(keys: pl.Series, data_type: t.DataType) -> Ints:
    """Returns `hashCode()` of the keys as Java values: Integer, Long, Float, Double, Boolean or BinaryString."""
    if keys.dtype == pl.Binary:
        text = spans(keys)
        return hash_bytes(text.data, text.starts, text.sizes).astype(np.int64)
    bits = bits_of(keys.to_numpy(), data_type)
    if isinstance(data_type, t.BooleanType):
        return np.where(bits == 1, _TRUE_HASH, _FALSE_HASH)
    return bits ^ (bits.view(np.uint64) >> np.uint64(32)).view(np.int64) if isinstance(data_type, _LONGS) else bits


def map_order(hashes: Ints, came: Ints) -> Ints:
    """Returns the indexes that put keys with these hashes in map order; within a bucket, `came` ascends."""
    capacity = LEAST_CAPACITY
    while len(hashes) > capacity * 3 // 4:
        capacity *= 2
    unsigned = hashes.astype(np.uint32)
    return np.lexsort((came, (unsigned ^ unsigned >> np.uint32(16)) & np.uint32(capacity - 1)))


def in_map_order(entries: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the entries in the order of a Java map of Strings into which they were put in the given order."""
    names = list(entries)
    order = map_order(np.array([_string_hash(name) for name in names], np.int64), np.arange(len(names)))
    return {names[at]: entries[names[at]] for at in order.tolist()}


def _string_hash(text: str) -> int:
    """Returns `String.hashCode()`, which is over UTF-16 units."""
    value = 0
    for unit in np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2").tolist():
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value
