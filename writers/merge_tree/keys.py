"""Stored keys (BinaryRows) in the order of the primary key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from morrow.engine.format.binary_row import Value, decode_row
from morrow.engine.format.types import DataField
from morrow.writers.merge_tree.levels import KeyOrder
from morrow.writers.target import WriteTarget

KEPT_KEYS = 1 << 14
"""Decoded keys that are kept: two for each file of a bucket."""


def trimmed_key(target: WriteTarget) -> tuple[DataField, ...]:
    """The columns that files are sorted by: the primary key without the partition columns."""
    schema = target.schema
    return tuple(schema.by_name[n] for n in schema.primary_keys if n not in schema.partition_keys)


def key_order_of(fields: Sequence[DataField], *, where: str) -> KeyOrder:
    """A function that makes of a stored key a tuple which compares as Paimon compares keys."""
    types = [field.type for field in fields]

    @lru_cache(KEPT_KEYS)
    def order(key: bytes) -> tuple[Any, ...]:
        return tuple(map(_comparable, decode_row(key, types, where=where)))

    return order


def _comparable(value: Value) -> Any:
    """Text by its bytes, and floats by their bits: NaN is the greatest value, -0.0 is 0.0."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return math.inf, 1
    return value, 0
