"""The columns of single files that decide which versions of keys count, kept in memory: what a refresh looks up in.

A file's keys are read when a section changes for the first time, and kept up to a number of bytes. Of each row there is
a fingerprint beside: equal for equal keys, and, for single integers, the key itself, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.types import DataField
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.store import FileStore
from morrow.engine.names import cols, unnamed
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.files.file_errors import reading_files
from morrow.readers.files.file_frames import file_frame
from morrow.readers.masks.folder import of_files
from morrow.readers.masks.grouped_rows import ROW_BYTES as GROUPED_BYTES
from morrow.readers.masks.grouped_rows import GroupedRows
from morrow.readers.masks.ordering import sortable

Fingerprints = npt.NDArray[np.integer]
Positions = npt.NDArray[np.integer]

SPARSE = 8
"""A sorted file of so many times the rows that are looked for is searched, others are gone through."""
FEW = 1 << 14
"""So few rows are searched for in any sorted file; one of so few rows stays in the cache while it is searched."""
LEAST_EVEN = 1 << 10
"""Rows of a file from which on it is worth to see whether its keys are counted up by a step: none is then searched."""
STEP = 16
"""One in so many fingerprints of a sorted file is looked through first; a power of two."""
SLOT_BITS = 20
"""Fingerprints that are looked for are first told from others by so many bits, at most: their table stays in the
cache."""
SLOTS = 4
"""Bits of that table for a fingerprint, as a power of two."""
MIXER = np.uint64(0x9E3779B97F4A7C15)
NUMBERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64)
"""Physical dtypes of keys that are fingerprints themselves."""
ROW_BYTES = 16
"""Memory of one row of one column, about, where it is only estimated."""


class FileKeys(msgspec.Struct, frozen=True, dict=True):
    """The deciding columns of all rows of a file, keys first, and the fingerprints of its keys."""

    frame: pl.DataFrame
    fingerprints: Fingerprints

    @cached_property
    def ascending(self) -> bool:
        """Whether the fingerprints ascend, none twice."""
        return bool((self.fingerprints[1:] > self.fingerprints[:-1]).all())

    @cached_property
    def sampled(self) -> Fingerprints:
        """Every `STEP`-th fingerprint, from the first on: a search in them stays in the processor's cache."""
        return np.ascontiguousarray(self.fingerprints[::STEP])

    @cached_property
    def step(self) -> int | None:
        """The distance of all neighbouring fingerprints, where it is the same and they ascend; else None."""
        numbers = self.fingerprints
        if self.hashed or len(numbers) < LEAST_EVEN:
            return None
        first, middle = int(numbers[0]), len(numbers) // 2
        step, rest = divmod(int(numbers[-1]) - first, len(numbers) - 1)
        if rest or step < 1 or step * len(numbers) > np.iinfo(np.int64).max or numbers[middle] != first + middle * step:
            return None
        return step if (np.diff(numbers) == step).all() else None

    @cached_property
    def exact(self) -> bool:
        """Whether fingerprints are the keys themselves, each of them in one row."""
        whole = self.frame.width > 0 and not self.frame.to_series(0).null_count()
        return whole and not self.hashed and self.ascending

    @property
    def hashed(self) -> bool:
        """Whether fingerprints are hashes."""
        return self.fingerprints.dtype == np.uint64

    @cached_property
    def grouped(self) -> GroupedRows:
        """The rows by their hashes."""
        return GroupedRows.of(self.fingerprints)

    @cached_property
    def lookups(self) -> Iterator[int]:
        """Counts the times that rows were looked for by hash: to group them is dearer than to go through them once."""
        return count()

    @property
    def size(self) -> int:
        """Memory in bytes."""
        beside = GROUPED_BYTES * len(self.fingerprints) if self.hashed else self.fingerprints.nbytes // STEP
        return int(self.frame.estimated_size()) + self.fingerprints.nbytes + beside + 256


KEY_CACHE: ByteCache[FileKeys] = ByteCache(256 << 20)
"""Deciding columns of files of sections that have changed; `capacity` may be set, in bytes."""


def fingerprints(keys: pl.DataFrame) -> Fingerprints:
    """Returns a number for each row, equal for equal keys, seldom so for others."""
    if keys.width == 1 and (column := unnamed(keys.to_series()).to_physical()).dtype in NUMBERS:
        return column.fill_null(0).to_numpy() if column.null_count() else column.to_numpy()
    if not keys.width:
        return np.empty(0, np.int64)
    found = np.zeros(keys.height, np.uint64)
    for column in keys.iter_columns():
        found = found * MIXER + unnamed(sortable(column)).hash(0).to_numpy()
    return found


def file_keys(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    fields: Sequence[DataField],
    key: Sequence[str],
    store: FileStore,
) -> list[FileKeys]:
    """Returns the columns `fields` of each file, the keys `key` among them: from the cache, or read into it.

    Without `key` there are no fingerprints.

    Raises:
        CorruptFile, FileMissing, StorageError: as reading does; heights are not checked.
    """
    place = store.url(plan.table), store.checks_pages, plan.schema.layout, section.partition_row, tuple(fields)
    found = [KEY_CACHE.get((*place, file)) for file in files]
    entries = [
        None if known else of_files(plan, section, [file], store, "keys", fields) for known, file in zip(found, files)
    ]

    def keep(number: int, frame: pl.DataFrame) -> None:
        whole = frame.rechunk()
        made = FileKeys(whole, fingerprints(whole.select(cols(key))))
        KEY_CACHE.put((*place, files[number]), made, made.size)
        found[number] = made

    for number, entry in enumerate(entries):
        kept = None if entry is None else entry.frame()
        if kept is not None and kept.columns == [field.name for field in fields]:
            keep(number, kept)
    missing = [number for number, known in enumerate(found) if known is None]
    if missing:
        frames = [file_frame(plan, section, [files[number]], fields, store) for number in missing]
        with reading_files(plan, [section], tuple(fields), store):
            read = pl.collect_all(frames)
        for number, frame in zip(missing, read):
            keep(number, frame)
            if (entry := entries[number]) is not None:
                entry.keep_frame(frame)
    return [known for known in found if known is not None]


class Hits(msgspec.Struct, frozen=True):
    """Rows of a file, ascending, and the place of each one's fingerprint among those that were looked for."""

    rows: Positions
    places: Positions


NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.int64))


def positions(files: Sequence[FileKeys], wanted: Fingerprints) -> list[Hits]:
    """Returns the rows of each file that have one of the fingerprints `wanted`, which ascend, none twice."""
    found = [NO_HITS] * len(files)
    rest = []
    for number, keys in enumerate(files):
        sparse = len(wanted) <= FEW or len(keys.fingerprints) >= SPARSE * len(wanted)
        if sparse and keys.ascending:
            found[number] = _searched(keys, wanted)
        elif keys.hashed and len(keys.fingerprints) >= SPARSE * len(wanted) and next(keys.lookups):
            found[number] = _placed(keys, keys.grouped.found(wanted), wanted)
        else:
            rest.append(number)
    if rest:
        heights = [len(files[number].fingerprints) for number in rest]
        among = np.flatnonzero(is_among(np.concatenate([files[number].fingerprints for number in rest]), wanted))
        starts = np.cumsum([0, *heights])
        for number, start, rows in zip(rest, starts, np.split(among, np.searchsorted(among, starts[1:-1]))):
            found[number] = _placed(files[number], rows - start, wanted)
    return found


def _placed(keys: FileKeys, rows: Positions, wanted: Fingerprints) -> Hits:
    return Hits(rows, np.searchsorted(wanted, keys.fingerprints[rows]))


def _searched(keys: FileKeys, wanted: Fingerprints) -> Hits:
    """Returns the rows of those of the fingerprints `wanted` that are in a file whose fingerprints ascend."""
    ascending = keys.fingerprints
    if not len(ascending) or not len(wanted):
        return NO_HITS
    low = np.searchsorted(wanted, ascending[0])
    wanted = wanted[low : np.searchsorted(wanted, ascending[-1], side="right")]
    if keys.step is not None:
        offsets = wanted.astype(np.int64, copy=False) - np.int64(ascending[0])
        rows: Positions = offsets // keys.step
        there = rows * keys.step == offsets
    else:
        rows = np.searchsorted(ascending, wanted) if len(ascending) <= FEW else _by_sample(keys, wanted)
        there = ascending[rows] == wanted
    return Hits(rows[there], low + np.flatnonzero(there))


def _by_sample(keys: FileKeys, wanted: Fingerprints) -> Positions:
    """Returns the last row of a file whose fingerprint is not greater than each of `wanted`."""
    ascending = keys.fingerprints
    rows: Positions = (np.searchsorted(keys.sampled, wanted, side="right") - 1) * STEP
    last, step = len(ascending) - 1, STEP // 2
    while step:  # the greatest that is not greater than the wanted one
        ahead = np.minimum(rows + step, last)
        rows = np.where(ascending[ahead] <= wanted, ahead, rows)
        step //= 2
    return rows


def is_among(rows: Fingerprints, wanted: Fingerprints) -> npt.NDArray[np.bool_]:
    """Returns for each row whether its fingerprint is one of those `wanted`, which ascend."""
    found = np.zeros(len(rows), bool)
    if not len(wanted) or not len(rows):
        return found
    # Many rows deserve a large table: what it does not tell apart is searched for.
    bits = min(max(len(wanted), len(rows) >> SLOTS).bit_length() + SLOTS, SLOT_BITS)
    table = np.zeros(1 << bits, bool)
    table[_slots(wanted, bits)] = True
    likely = np.flatnonzero(table[_slots(rows, bits)])
    places = np.searchsorted(wanted, rows[likely])
    places[places == len(wanted)] = 0
    found[likely[wanted[places] == rows[likely]]] = True
    return found


def _slots(numbers: Fingerprints, bits: int) -> npt.NDArray[np.uint64]:
    return (numbers.astype(np.uint64, copy=False) * MIXER) >> np.uint64(64 - bits)
