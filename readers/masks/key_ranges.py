"""Ranges of the first key column of a merge-on-read section, from row group statistics of its Parquet files.

Ranges have two uses. A section larger than memory is merged range by range, several ranges at once. And if row groups
of only one file cover a range, its keys are not read, since no row of the range can be superseded.

Dense keys are not decoded either. Files of tables with keys are sorted and hold a key once. If the greatest key of a
row group less its least is one less than its rows, its keys are all numbers between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import polars as pl

from morrow.engine.format.types import (
    BigIntType,
    CharType,
    DataField,
    DataType,
    DateType,
    IntType,
    SmallIntType,
    TinyIntType,
    VarCharType,
)
from morrow.engine.io.store import FileStore
from morrow.engine.names import col
from morrow.engine.plan.scan_plan import DataFile
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.files import FileSource, translate_errors
from morrow.readers.files.registry import find_file_reader

RANGE_ROWS = 1 << 21
"""Approximate number of rows merged at once when a section is cut; row groups are not split."""

MAX_WHOLE_ROWS = 1 << 22
"""Sections up to this many rows are merged in one piece, unless cutting saves reading."""

NUMBER_ROWS_FACTOR = 2
"""Factor on the row limits if only one number of each row is read."""

MAX_FEW_ROWS = 1 << 18
"""Sections up to this many rows are merged whole: reading their row group statistics would cost more than it saves."""

RANGED_TYPES: tuple[type[DataType], ...] = (
    *(TinyIntType, SmallIntType, IntType, BigIntType, DateType),
    *(CharType, VarCharType),
)
"""Key types whose Parquet statistics pyarrow returns as values that compare like the keys."""

MAX_MERGED_SHARE = 0.7
"""A section that could be merged whole is cut only when at most this share of its rows must be merged."""


class KeyRange(msgspec.Struct, frozen=True):
    """A range of keys whose first column is in [`low`, `high`); None is unbounded. `files` hold rows of the range.

    `column` names the key column of the bounds, if not the first.
    """

    low: Any = None
    high: Any = None
    files: tuple[int, ...] = ()
    column: str | None = None

    @property
    def whole(self) -> bool:
        """Whether the range includes all keys."""
        return self.low is None and self.high is None

    def within(self, frame: pl.LazyFrame, column: str) -> pl.LazyFrame:
        """Return the rows of the range; `column` is the first key column."""
        column = self.column or column
        if self.low is not None:
            frame = frame.filter(col(column) >= self.low)
        return frame if self.high is None else frame.filter(col(column) < self.high)


class RowGroup(msgspec.Struct, frozen=True):
    """A row group of a file (by its number) with the least and the greatest value of the first key column."""

    file: int
    rows: int
    low: Any
    high: Any


def find_key_ranges(
    files: Sequence[DataFile],
    first_key: DataField,
    stored_names: Sequence[str],
    store: FileStore,
    skip_alone: bool,
    most_rows: int | None = None,
    *,
    numbers: bool = False,
) -> list[KeyRange]:
    """Return the ranges that must be merged; rows outside of them are live.

    Args:
        stored_names: the first key column's name in each file.
        skip_alone: leave out ranges that only one file covers.
        most_rows: the approximate maximum of rows of a range when the section is cut; `RANGE_ROWS` unless given.
        numbers: only one number of each row is read, so larger sections are merged in one piece.
    """
    everything = [KeyRange(files=tuple(range(len(files))))]
    if sum(file.row_count for file in files) <= MAX_FEW_ROWS or not isinstance(first_key.type, RANGED_TYPES):
        return everything
    groups: list[RowGroup] = []
    for number, (file, name) in enumerate(zip(files, stored_names)):
        found = read_row_groups(number, file, name, store)
        if found is None:
            return everything
        groups.extend(found)
    total = sum(group.rows for group in groups)
    ranges = _cut(groups, skip_alone, RANGE_ROWS if most_rows is None else most_rows)
    # One pass over everything is cheaper than ranges that save little.
    if (
        total <= MAX_WHOLE_ROWS * (NUMBER_ROWS_FACTOR if numbers else 1)
        and _count_rows_within(ranges, groups) > total * MAX_MERGED_SHARE
    ):
        return everything
    return ranges


def _count_rows_within(ranges: Sequence[KeyRange], groups: Sequence[RowGroup]) -> int:
    """Count the rows of the row groups that any of the ranges touches."""
    return sum(
        group.rows
        for group in groups
        if any((r.high is None or group.low < r.high) and not group.high < r.low for r in ranges)
    )


def read_row_groups(number: int, file: DataFile, name: str, store: FileStore) -> list[RowGroup] | None:
    """Return the row groups of a file; None if any of them lacks statistics of the column."""
    key_bounds = find_file_reader(file.format, file.path).key_bounds
    if key_bounds is None:
        return None
    with translate_errors(file.path):
        found = key_bounds(FileSource(store, file.path, file.size, file.row_count, file.format), name)
    return None if found is None else [RowGroup(number, each.rows, each.low, each.high) for each in found]


def _cut(groups: Sequence[RowGroup], skip_alone: bool, most_rows: int) -> list[KeyRange]:
    """Return ranges between the least keys of row groups; neighbouring ranges are joined up to `most_rows`."""
    edges = sorted({group.low for group in groups})
    ranges: list[KeyRange] = []
    rows = 0
    for low, high in pairwise([*edges, None]):
        inside = [g for g in groups if (high is None or g.low < high) and not g.high < low]
        covering = tuple(sorted({g.file for g in inside}))
        starting = sum(g.rows for g in inside if not g.low < low)
        if skip_alone and len(covering) < 2:
            rows = 0
            continue
        joins = ranges and ranges[-1].high == low and rows and rows + starting <= most_rows
        if joins:
            ranges[-1] = KeyRange(ranges[-1].low, high, tuple(sorted({*ranges[-1].files, *covering})))
            rows += starting
        else:
            ranges.append(KeyRange(low, high, covering))
            rows = max(starting, 1)
    return ranges


NUMBERS = (TinyIntType, SmallIntType, IntType, BigIntType)
MIN_DENSE_ROWS = 1 << 17
"""Minimum rows of a file to derive dense keys from its footer; decoding the keys of fewer rows is as fast."""


def read_dense_keys(file: DataFile, key: DataField, stored_name: str, store: FileStore) -> pl.Series | None:
    """Return the keys of all rows of a file whose only key column is `key`; None if statistics do not determine them.

    Raises:
        CorruptFile, FileMissing, StorageError: the footer cannot be read, or its row count differs from the metadata.
    """
    if file.row_count < MIN_DENSE_ROWS or not isinstance(key.type, NUMBERS) or store.checks_pages:
        return None
    groups = read_row_groups(0, file, stored_name, store)
    if groups is None or any(group.high - group.low + 1 != group.rows for group in groups):
        return None
    if any(later.low <= earlier.high for earlier, later in pairwise(groups)):
        return None
    dtype = to_polars_dtype(key.type)
    found = [pl.int_range(group.low, group.high + 1, eager=True).cast(dtype) for group in groups]
    return pl.concat(found, rechunk=True).alias(key.name) if found else None
