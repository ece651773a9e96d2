"""The columns of single files that decide which versions of keys count, kept in memory: what a refresh looks up in.

A file's keys are read when a section changes for the first time, and kept up to a number of bytes. Of each row there is
a fingerprint beside: equal for equal keys, and, for single integers, the key itself, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

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
from morrow.readers.files.streaming import collected
from morrow.readers.masks.folder import of_files
from morrow.readers.masks.ordering import sortable

Fingerprints = npt.NDArray[np.integer]
Positions = npt.NDArray[np.integer]

LEAST_EVEN = 1 << 10
"""Rows of a file from which on it is worth to see whether its keys are counted up by a step: none is then searched."""
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
    def order(self) -> Positions | None:
        """The rows in the order of their fingerprints; None where the file has that order."""
        return None if self.ascending else np.argsort(self.fingerprints).astype(np.uint32)

    @cached_property
    def sorted(self) -> Fingerprints:
        """The fingerprints in their order."""
        return self.fingerprints if self.order is None else self.fingerprints.take(self.order)

    @cached_property
    def distinct(self) -> bool:
        """Whether no two rows have the same fingerprint."""
        return self.ascending or bool((self.sorted[1:] != self.sorted[:-1]).all())

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

    @property
    def size(self) -> int:
        """Memory in bytes."""
        beside = 0 if self.order is None else self.sorted.nbytes + self.order.nbytes
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
            read = collected(frames)
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
    return [_in_order_of_rows(keys, _found(keys, wanted)) for keys in files]


def all_positions(keys: FileKeys, wanted: Fingerprints) -> Hits:
    """Returns all rows of a file, whose fingerprints are all among those `wanted`, which ascend, none twice."""
    rows = np.arange(len(keys.fingerprints))
    places = rows if keys.distinct and len(rows) == len(wanted) else np.searchsorted(wanted, keys.sorted)
    if keys.order is None:
        return Hits(rows, places)
    of_rows = np.empty_like(places)
    of_rows[keys.order] = places
    return Hits(rows, of_rows)


def _in_order_of_rows(keys: FileKeys, hits: Hits) -> Hits:
    if keys.order is None:
        return hits
    rows = keys.order.take(hits.rows)
    order = np.argsort(rows)
    return Hits(rows.take(order), hits.places.take(order))


def _found(keys: FileKeys, wanted: Fingerprints) -> Hits:
    """Returns the places of fingerprints in the order of these. Both sides ascend, so searches stay in the cache."""
    ascending = keys.sorted
    if not len(ascending) or not len(wanted):
        return NO_HITS
    low = np.searchsorted(wanted, ascending[0])
    wanted = wanted[low : np.searchsorted(wanted, ascending[-1], side="right")]
    if keys.step is not None:
        offsets = wanted.astype(np.int64, copy=False) - np.int64(ascending[0])
        rows: Positions = offsets // keys.step
        there = np.flatnonzero(rows * keys.step == offsets)
        return Hits(rows.take(there), low + there)
    if len(wanted) and (len(ascending) < len(wanted) or not keys.distinct):
        places = np.minimum(np.searchsorted(wanted, ascending), len(wanted) - 1)
        there = np.flatnonzero(wanted.take(places) == ascending)
        return Hits(there, low + places.take(there))
    rows = np.searchsorted(ascending, wanted)
    there = np.flatnonzero(ascending.take(rows) == wanted)
    return Hits(rows.take(there), low + there)
