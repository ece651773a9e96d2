"""The iteration order of Java's HashSet, in which ``collect`` with ``distinct`` leaves arrays.

A table of n buckets (a power of two, at most three quarters full) is walked from bucket 0 on; elements of one bucket
are in insertion order. An element's bucket is ``(h ^ h >>> 16) & (n - 1)`` of its ``hashCode()``, which is

=================  ==============================================================
BOOLEAN            1231 or 1237
up to 32 bits      the integer; of DATE the days, of TIME the milliseconds
BIGINT, DOUBLE     upper half ^ lower half, of a DOUBLE's bits
FLOAT              the bits
CHAR, VARCHAR      murmur3 of the UTF-8 bytes, seed 42, the last bytes one by one
DECIMAL            31 * hash of the unscaled integer + scale
TIMESTAMP, _LTZ    31 * (halves of the milliseconds ^) + nanoseconds within one
=================  ==============================================================

Buckets of nine or more elements, which Java turns into trees or avoids by a larger table, are not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import as_arrow, byte_spans
from morrow.engine.format.murmur import hash_bytes

Hashes = npt.NDArray[np.int64]
"""Hash codes as 32-bit patterns in 64-bit integers; null's is 0."""

LEAST_BUCKETS = 16
FULLEST = 0.75
WORD = 0xFFFF_FFFF


def in_hash_order(elements: pl.DataFrame, dtype: t.DataType) -> pl.DataFrame:
    """Sorts lines of ``row`` and distinct ``element``, given in insertion order, as a HashSet iterates over them."""
    spread = hash_codes(elements["element"], dtype)
    spread = spread ^ (spread >> 16)
    count = pl.len().over("row")
    doublings = (count / (FULLEST * LEAST_BUCKETS)).log(2).ceil().clip(0)
    buckets = LEAST_BUCKETS * pl.lit(2).pow(doublings).cast(pl.Int64)
    placed = elements.with_columns((pl.lit(pl.Series(spread)) & (buckets - 1)).alias("bucket"))
    return placed.sort("row", "bucket", maintain_order=True).drop("bucket")


def can_hash(dtype: t.DataType) -> bool:
    """Returns whether the order is known: bytes hash by identity, nested elements are in no set."""
    return type(dtype) in HASHES


def hash_codes(values: pl.Series, dtype: t.DataType) -> Hashes:
    """Returns ``hashCode()`` of each value."""
    return np.where(values.is_null().to_numpy(), 0, HASHES[type(dtype)](values) & WORD)


def _halves(numbers: npt.NDArray[np.int64]) -> Hashes:
    halves: Hashes = (numbers ^ (numbers >> 32)) & WORD
    return halves


def _integer(values: pl.Series) -> Hashes:
    integers: Hashes = values.to_physical().cast(pl.Int64).fill_null(0).to_numpy()
    return integers


def _boolean(values: pl.Series) -> Hashes:
    return np.where(values.fill_null(False).to_numpy(), 1231, 1237)


def _time(values: pl.Series) -> Hashes:
    return _integer(values) // 1_000_000


def _float(values: pl.Series) -> Hashes:
    floats = values.fill_null(0.0).to_numpy()
    bits = np.where(np.isnan(floats), np.float32(np.nan), floats).view(np.int32)
    return bits.astype(np.int64)


def _double(values: pl.Series) -> Hashes:
    doubles = values.fill_null(0.0).to_numpy()
    return _halves(np.where(np.isnan(doubles), np.nan, doubles).view(np.int64))


def _text(values: pl.Series) -> Hashes:
    return hash_bytes(*byte_spans(as_arrow(values, t.VarCharType()))).astype(np.int64)


def _timestamp(values: pl.Series) -> Hashes:
    nanos_per_unit = {"ms": 1_000_000, "us": 1_000, "ns": 1}[values.dtype.time_unit]  # type: ignore[attr-defined]  # Datetime
    units_per_milli = 1_000_000 // nanos_per_unit
    units = _integer(values)
    nanos = units % units_per_milli * nanos_per_unit
    return 31 * _halves(units // units_per_milli) + nanos


def _decimal(values: pl.Series) -> Hashes:
    scale = values.dtype.scale  # type: ignore[attr-defined]  # Decimal
    unscaled = values.fill_null(0).to_physical()
    magnitude = unscaled.abs()
    hashes = np.zeros(len(values), np.int64)
    for shift in (96, 64, 32, 0):  # the words of a BigInteger, the highest first
        word = (magnitude // (1 << shift)) & WORD
        hashes = (31 * hashes + word.cast(pl.Int64).to_numpy()) & WORD
    signed: Hashes = np.where((unscaled < 0).to_numpy(), -hashes, hashes)
    return 31 * signed + int(scale)


HASHES: Mapping[type[t.DataType], Callable[[pl.Series], Hashes]] = {
    t.BooleanType: _boolean,
    **dict.fromkeys((t.TinyIntType, t.SmallIntType, t.IntType, t.DateType), _integer),
    t.TimeType: _time,
    t.BigIntType: lambda values: _halves(_integer(values)),
    t.FloatType: _float,
    t.DoubleType: _double,
    **dict.fromkeys((t.CharType, t.VarCharType), _text),
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), _timestamp),
    t.DecimalType: _decimal,
}
