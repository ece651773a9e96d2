"""The order of primary keys, of stored bounds (BinaryRows) and of the rows of a frame."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import MorrowError
from morrow.engine.format.binary_row import Value, decode_row, decode_rows
from morrow.engine.format.types import DataField, DataType
from morrow.engine.names import col, cols
from morrow.readers.masks.ordering import key_order
from morrow.readers.masks.packing import KeyPacking
from morrow.writers.keyed.levels import KeyOrder
from morrow.writers.target import WriteTarget

KEPT_KEYS = 1 << 14
"""The most decoded keys that are cached: two for each file of a bucket."""

WORD_BITS = 64
FEW_KEYS = 1 << 12
"""Fewer keys are sorted fast enough in any way."""
RUN_KEYS = 1 << 10
"""Keys in sorted runs of this average length need no sort, only a merge."""

Rows: TypeAlias = npt.NDArray[np.integer]


def trimmed_key(target: WriteTarget) -> tuple[DataField, ...]:
    """Returns the columns that files are sorted by: the primary key without the partition columns."""
    return tuple(target.schema.by_name[name] for name in target.schema.trimmed_primary_keys)


def key_order_of(fields: Sequence[DataField], *, where: str, keys: Iterable[bytes] = ()) -> KeyOrder:
    """Returns a function that converts a stored key to a tuple which compares as Paimon compares keys.

    `keys` are decoded together, which takes a hundredth of the time of one after the other.
    """
    types = [field.type for field in fields]
    known = _compared_together({*keys}, types, where)

    @lru_cache(KEPT_KEYS)
    def order(key: bytes) -> tuple[Any, ...]:
        found = known.get(key)
        return tuple(map(_comparable, decode_row(key, types, where=where))) if found is None else found

    return order


def _compared_together(keys: Collection[bytes], types: Sequence[DataType], where: str) -> dict[bytes, tuple[Any, ...]]:
    """Returns the keys as tuples that compare; none where one cannot be read, since its owner tells which one it is."""
    try:
        rows = decode_rows([*keys], types, where=where)
    except MorrowError:
        return {}
    return {key: tuple(map(_comparable, row)) for key, row in zip(keys, rows, strict=True)}


def _comparable(value: Value) -> Any:
    """Returns a value that compares as Paimon's: text by its bytes; NaN is the greatest number and equal to itself."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (math.inf, 1) if math.isnan(value) else (value, 0)
    return value


def sorted_rows(
    fields: Sequence[DataField], rows: pl.DataFrame, age: Sequence[str], descending: Sequence[bool]
) -> tuple[Rows, Rows]:
    """Returns row numbers by key and age, the oldest first, and the start of each key among them.

    Args:
        fields: the key columns.
        age: columns that order the versions of a key; the row number breaks ties.
        descending: whether each of them is sorted in descending order.
    """
    keys = _packed(fields, rows)
    if not age and keys.width == 1 and keys.dtypes[0].is_integer():
        found = _numbered_order(keys.to_series().to_numpy())
        if found is not None:
            return found
    return key_order(keys, rows.select(cols(age)), descending)


def _numbered_order(keys: Rows) -> tuple[Rows, Rows] | None:
    """Returns the order of integer keys, each joined with its row number into one word, which sorts without look-ups.

    None where they do not fit into 64 bits, or where the keys are sorted runs, which a stable sort only merges.
    """
    if len(keys) < FEW_KEYS:
        return None
    falls = np.count_nonzero(keys[1:] < keys[:-1])
    if not falls:
        return np.arange(len(keys), dtype=np.uint32), _starts(keys)
    if falls * RUN_KEYS < len(keys):
        return None
    least, greatest = int(keys.min()), int(keys.max())
    bits = (len(keys) - 1).bit_length()
    if (greatest - least).bit_length() + bits > WORD_BITS:
        return None
    words = keys.astype(np.uint64)
    words -= np.uint64(least % 2**WORD_BITS)
    words <<= np.uint64(bits)
    words |= np.arange(len(keys), dtype=np.uint64)
    words.sort()  # by vector instructions, which is why not by Polars on all cores
    order = (words & np.uint64((1 << bits) - 1)).astype(np.uint32)
    words >>= np.uint64(bits)
    return order, _starts(words)


def _starts(ordered: Rows) -> Rows:
    """Returns where each key starts among sorted ones."""
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return np.arange(len(ordered), dtype=np.uint32) if first.all() else np.flatnonzero(first)


def _packed(fields: Sequence[DataField], rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the keys as one number each where that is exact, else unchanged."""
    names = [field.name for field in fields]
    keys = rows.select(cols(names))
    if not rows.height:
        return keys
    low, high = (keys.select(end).row(0) for end in (pl.all().min(), pl.all().max()))
    packing = KeyPacking.of(fields, low, high)
    if packing is None:
        return keys
    packed = packing.pack(keys.select(packing.expressions), low, high)
    return keys if packed is None else pl.DataFrame({"key": packed})


def below(names: Sequence[str], bound: Sequence[Any], dtypes: pl.Schema) -> pl.Expr:
    """Returns whether the key columns `names` of a row are less than `bound`, in the order of keys."""
    less: pl.Expr = pl.lit(False)
    for name, value in reversed(list(zip(names, bound))):
        limit = pl.lit(value, dtype=dtypes[name])
        less = (col(name) < limit) | ((col(name) == limit) & less)
    return less
