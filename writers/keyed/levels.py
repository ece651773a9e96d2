"""Files of one bucket as levels of sorted runs, and the order of primary keys.

A sorted run is a tuple of files in key order whose key ranges do not overlap. Level 0 holds a run per file, the newest
first; every level above it is one run. `Levels` is immutable: an update returns a new one. Primary keys, stored bounds
(BinaryRows) and the rows of a frame have the same order.
"""

from __future__ import annotations

import datetime as dt
import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.format.binary_row import EPOCH, Value, decode_row, decode_rows
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.types import DataField, DataType
from morrow.engine.names import col, cols
from morrow.engine.units import NANOS_PER_MICRO
from morrow.readers.masks.ordering import sort_by_key
from morrow.readers.masks.packed_keys import KeyPacking
from morrow.writers.target import WriteTarget

SortedRun: TypeAlias = tuple[DataFileMeta, ...]
Section: TypeAlias = tuple[SortedRun, ...]
"""Overlapping runs, in no particular order."""

KeyOrder: TypeAlias = Callable[[bytes], Any]
"""A function that converts a stored key to a value that compares as the key; see `make_key_order`."""


@dataclass(frozen=True)
class LevelRun:
    """A sorted run and the level it is at."""

    level: int
    files: SortedRun

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True)
class Levels:
    """All files of a bucket. `count` is the number of levels, which restored files may raise above the option's."""

    count: int
    level_zero: SortedRun
    runs: tuple[SortedRun, ...]
    order: KeyOrder

    @classmethod
    def of(cls, files: Iterable[DataFileMeta], count: int, order: KeyOrder, *, where: str) -> Levels:
        """Sort files into levels.

        Raises:
            InvalidArgument: fewer than two levels.
            Unsupported: files of one level overlap.
        """
        files = tuple(files)
        count = max(count, max((file.level for file in files), default=-1) + 1)
        if count < 2:
            raise InvalidArgument(f"{where}: 'num-levels' is {count}; a merge tree has at least 2 levels")
        by_level: dict[int, list[DataFileMeta]] = defaultdict(list)
        for file in files:
            by_level[file.level].append(file)
        runs = tuple(_sort_run(by_level[level], order, level, where) for level in range(1, count))
        return cls(count, tuple(sorted(by_level[0], key=_order_newest_first)), runs, order)

    @property
    def max_level(self) -> int:
        return self.count - 1

    @cached_property
    def level_runs(self) -> tuple[LevelRun, ...]:
        """Every non-empty run, the newest first."""
        zero = [LevelRun(0, (file,)) for file in self.level_zero]
        return (*zero, *(LevelRun(level, run) for level, run in enumerate(self.runs, 1) if run))

    @property
    def highest(self) -> int:
        """The highest level that holds files, -1 if there are none."""
        return max((run.level for run in self.level_runs), default=-1)

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All files, newest run first."""
        return tuple(file for run in self.level_runs for file in run.files)

    def updated(self, before: Iterable[DataFileMeta], after: Iterable[DataFileMeta], *, where: str) -> Levels:
        """Return the levels after a flush or compaction that replaced `before` by `after`."""
        gone = {(file.file_name, file.level) for file in before}
        kept = [file for file in self.files if (file.file_name, file.level) not in gone]
        return Levels.of((*kept, *after), self.count, self.order, where=where)


def _order_newest_first(file: DataFileMeta) -> tuple[int, int, int, str]:
    return -file.max_sequence_number, file.min_sequence_number, file.creation_time, file.file_name


def _sort_run(files: Sequence[DataFileMeta], order: KeyOrder, level: int, where: str) -> SortedRun:
    ordered = sorted(files, key=lambda file: order(file.min_key))
    for before, after in pairwise(ordered):
        if not order(after.min_key) > order(before.max_key):
            raise Unsupported(
                f"the overlap of {before.file_name} and {after.file_name}, both of level {level},",
                where=where,
                hint="two compactions that did not check each other leave it; read the table, and rewrite it",
            )
    return tuple(ordered)


def split_sections(files: Iterable[DataFileMeta], order: KeyOrder) -> list[Section]:
    """Split files into the smallest sets whose key ranges overlap, in key order, each in the fewest sorted runs."""
    sections: list[list[DataFileMeta]] = []
    reach: Any = None
    for file in sorted(files, key=lambda file: (order(file.min_key), order(file.max_key))):
        if not sections or order(file.min_key) > reach:
            sections.append([])
            reach = order(file.max_key)
        sections[-1].append(file)
        reach = max(reach, order(file.max_key))
    return [_assign_runs(section, order) for section in sections]


def _assign_runs(files: Sequence[DataFileMeta], order: KeyOrder) -> Section:
    """Assign each file to the run that ends first, if it ends before the file begins."""
    runs: list[list[DataFileMeta]] = []
    ends: list[tuple[Any, int]] = []
    for file in files:
        if ends and order(file.min_key) > ends[0][0]:
            number = ends[0][1]
            runs[number].append(file)
            heapq.heapreplace(ends, (order(file.max_key), number))
        else:
            heapq.heappush(ends, (order(file.max_key), len(runs)))
            runs.append([file])
    return tuple(tuple(run) for run in runs)


def list_files(sections: Iterable[Section]) -> tuple[DataFileMeta, ...]:
    """Return the files of sections, in their order."""
    return tuple(file for section in sections for run in section for file in run)


MAX_CACHED_KEYS = 1 << 14
"""Maximum decoded keys of a table that are cached: two for each file."""
MAX_CACHED_ORDERS = 8
"""Maximum tables whose decoded keys are cached."""

WORD_BITS = 64
MIN_PACKED_KEYS = 1 << 12
"""Minimum keys to pack for a sort. Fewer keys are sorted fast enough without it."""
MIN_RUN_KEYS = 1 << 10
"""Minimum average length of sorted runs at which keys only need a merge, not a sort."""

Rows: TypeAlias = npt.NDArray[np.integer]


def trim_key(target: WriteTarget) -> tuple[DataField, ...]:
    """Return the columns that files are sorted by: the primary key without the partition columns."""
    return tuple(target.schema.by_name[name] for name in target.schema.trimmed_primary_keys)


def make_key_order(fields: Sequence[DataField], *, where: str, keys: Collection[bytes] = ()) -> KeyOrder:
    """Return a function that converts a stored key to a tuple that compares as Paimon compares keys.

    `keys` are decoded together, which is a hundred times faster than one by one.
    """
    types = tuple(field.type for field in fields)
    order, known = _make_cached_order(types, where), _decode_keys({*keys}, types, where) if keys else {}

    def find(key: bytes) -> tuple[Any, ...]:
        found = known.get(key)
        return order(key) if found is None else found

    return find if known else order


@lru_cache(MAX_CACHED_ORDERS)
def _make_cached_order(types: tuple[DataType, ...], where: str) -> KeyOrder:
    """Return the order of a table; it remembers keys, since the next write meets the same files again."""

    @lru_cache(MAX_CACHED_KEYS)
    def order(key: bytes) -> tuple[Any, ...]:
        return tuple(map(_to_comparable, decode_row(key, types, where=where)))

    return order


def _decode_keys(keys: Collection[bytes], types: Sequence[DataType], where: str) -> dict[bytes, tuple[Any, ...]]:
    """Return the keys as comparable tuples; empty if a key is damaged, which is reported when it is decoded alone."""
    try:
        rows = decode_rows([*keys], types, where=where)
    except MorrowError:
        return {}
    return {key: tuple(map(_to_comparable, row)) for key, row in zip(keys, rows, strict=True)}


def _to_comparable(value: Value) -> Any:
    """Return a value that compares as in Paimon: text by its bytes, timestamps by nanoseconds.

    NaN is the greatest number and equal to itself.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (math.inf, 1) if math.isnan(value) else (value, 0)
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1) * NANOS_PER_MICRO
    return int(value.astype(np.int64)) if isinstance(value, np.datetime64) else value


def sort_rows(
    fields: Sequence[DataField], rows: pl.DataFrame, age: Sequence[str], descending: Sequence[bool]
) -> tuple[Rows, Rows]:
    """Return row numbers by key and age, the oldest first, and the start of each key among them.

    Args:
        fields: the key columns.
        age: columns that order the versions of a key; the row number breaks ties.
        descending: whether each age column is sorted in descending order.
    """
    keys = _pack_keys(fields, rows)
    if not age and keys.width == 1 and keys.dtypes[0].is_integer():
        found = _sort_numbered(keys.to_series().to_numpy())
        if found is not None:
            return found
    return sort_by_key(keys, rows.select(cols(age)), descending)


def _sort_numbered(keys: Rows) -> tuple[Rows, Rows] | None:
    """Return the order of integer keys, by sorting words that join a key and its row number.

    Returns None if they do not fit into 64 bits, or if the keys are sorted runs, which a stable sort only merges.
    """
    if len(keys) < MIN_PACKED_KEYS:
        return None
    falls = np.count_nonzero(keys[1:] < keys[:-1])
    if not falls:
        return np.arange(len(keys), dtype=np.uint32), _find_starts(keys)
    if falls * MIN_RUN_KEYS < len(keys):
        return None
    least, greatest = int(keys.min()), int(keys.max())
    bits = (len(keys) - 1).bit_length()
    if (greatest - least).bit_length() + bits > WORD_BITS:
        return None
    words = keys.astype(np.uint64)
    words -= np.uint64(least % 2**WORD_BITS)
    words <<= np.uint64(bits)
    words |= np.arange(len(keys), dtype=np.uint64)
    words.sort()  # NumPy sorts with vector instructions, faster than Polars on all cores
    order = (words & np.uint64((1 << bits) - 1)).astype(np.uint32)
    words >>= np.uint64(bits)
    return order, _find_starts(words)


def _find_starts(ordered: Rows) -> Rows:
    """Return the first index of each distinct key among sorted keys."""
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return np.arange(len(ordered), dtype=np.uint32) if first.all() else np.flatnonzero(first)


def _pack_keys(fields: Sequence[DataField], rows: pl.DataFrame) -> pl.DataFrame:
    """Return the keys as one number each if that is exact, else unchanged."""
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


def is_below(names: Sequence[str], bound: Sequence[Any], dtypes: pl.Schema) -> pl.Expr:
    """Return whether the key columns `names` of a row are less than `bound`, in the order of keys."""
    less: pl.Expr = pl.lit(False)
    for name, value in reversed(list(zip(names, bound))):
        limit = pl.lit(value, dtype=dtypes[name])
        less = (col(name) < limit) | ((col(name) == limit) & less)
    return less
