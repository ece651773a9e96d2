"""Keys that a file's own statistics tell: numbers without gaps, as many as there are rows, need not be decoded.

Files of tables with keys are sorted, and hold a key once. Where the greatest key of a row group less its least is one
less than its rows, its keys are all numbers between them.
"""

from __future__ import annotations

from itertools import pairwise

import polars as pl

from morrow.engine.format.types import BigIntType, DataField, IntType, SmallIntType, TinyIntType
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.masks.key_ranges import row_groups

NUMBERS = (TinyIntType, SmallIntType, IntType, BigIntType)
WORTH_ROWS = 1 << 17
"""Keys of fewer rows are decoded as fast as a footer is read."""


def told_keys(file: DataFile, key: DataField, stored_name: str, store: FileStore) -> pl.Series | None:
    """Returns the keys of all rows of a file whose only key column is `key`; None where statistics do not tell them.

    Raises:
        CorruptFile, FileMissing, StorageError: the footer cannot be read, or has another number of rows than metadata.
    """
    if file.row_count < WORTH_ROWS or not isinstance(key.type, NUMBERS) or store.checks_pages:
        return None
    groups = row_groups(0, file, stored_name, store)
    if groups is None or any(group.high - group.low + 1 != group.rows for group in groups):
        return None
    if any(later.low <= earlier.high for earlier, later in pairwise(groups)):
        return None
    dtype = polars_dtype(key.type)
    found = [pl.int_range(group.low, group.high + 1, eager=True).cast(dtype) for group in groups]
    return pl.concat(found, rechunk=True).alias(key.name) if found else None
