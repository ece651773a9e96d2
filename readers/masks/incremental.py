"""Incremental masks: a section's masks derived from the masks of an earlier snapshot.

Which rows of a key count depends on the versions of that key alone. So if a section shares most of its files with a
section whose masks are cached, only keys with rows in added or removed files are decided again. Their rows in all files
of the section are found by fingerprint. Two keys with the same fingerprint are both decided again.

A file's deciding columns are read when a section changes for the first time, and cached up to a number of bytes. Each
row has a fingerprint, which is equal for equal keys. The fingerprint of a single integer key is the key itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import MorrowError
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.names import clear_pattern_name, cols
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.files.file_frames import collect_frames, scan_files, translate_file_errors
from morrow.readers.masks.ordering import to_comparable, to_sortable
from morrow.readers.masks.section_cache import (
    FILE_BYTES,
    SECTIONS,
    SMALL_FRAME_BYTES,
    find_entry,
    make_cache_key,
    make_uniform_mask,
)
from morrow.readers.masks.section_keys import SectionKeys, order_by_age

MAX_KEY_BYTES = 256 << 20
"""Approximate maximum memory of a section's keys to derive its masks."""


class Changed(msgspec.Struct, frozen=True, dict=True):
    """The differences between a section and a known section, `base`.

    For each file of `keys.files`, `rows` are the rows whose keys are decided again, and `frames` their deciding columns
    (empty if no column is needed). `wanted` has the fingerprints of these keys in ascending order. `places` has the
    index in `wanted` of each row's fingerprint; None if different keys may share a fingerprint. `before` is each file's
    number in the base; None if the file was added since, in which case `rows` has all of its rows.
    """

    base: Section
    keys: SectionKeys
    before: tuple[int | None, ...]
    rows: tuple[Positions, ...]
    frames: tuple[pl.DataFrame, ...]
    wanted: Fingerprints
    places: tuple[Positions, ...] | None

    @property
    def heights(self) -> list[int]:
        return [len(rows) for rows in self.rows]

    @property
    def placed(self) -> tuple[Positions, ...] | None:
        """`places` if they and the order of the files suffice to decide; else None."""
        return None if self.keys.age or self.keys.with_kind else self.places

    def newest(self) -> list[npt.NDArray[np.bool_]] | None:
        """Return for each file's rows whether they are the newest of their key; None if file order does not decide."""
        if self.placed is None:
            return None
        unseen = np.ones(len(self.wanted), bool)
        newest = []
        for places in reversed(self.placed):
            newest.append(unseen.take(places))
            unseen[places] = False
        return newest[::-1]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The rows of all files."""
        return pl.concat(self.frames, rechunk=True)

    @cached_property
    def deciding(self) -> list[pl.DataFrame]:
        """`frames` with keys packed by `SectionKeys.packing`."""
        decided = self.keys.deciding(self.frame)
        return [decided[end - height : end] for height, end in zip(self.heights, accumulate(self.heights))]

    @property
    def size(self) -> int:
        """Memory in bytes."""
        held = (self.wanted, *self.rows, *(self.places or ()))
        frames = sum(int(frame.estimated_size()) + SMALL_FRAME_BYTES for frame in self.frames)
        return sum(each.nbytes for each in held) + frames + FILE_BYTES * len(self.before)


def find_changed(plan: ScanPlan, section: Section, base: Section, store: FileStore) -> Changed | None:
    """Find the rows of `section` whose keys have rows in files that the base or the section alone has.

    Returns None if they cannot be found, or if finding them costs as much as reading all keys.

    Raises `CorruptFile`, `FileMissing`, `StorageError`: a file of the section cannot be read.
    """
    keys = SectionKeys.of(plan, section, store)
    place = make_cache_key("changes", plan, store, plan.merge, base, section)
    found: Changed | None = SECTIONS.get(place)
    if found is None and (found := _compare_keys(keys, base)) is not None:
        SECTIONS.put(place, found, found.size, of=section.newest_file)
    return found


def _compare_keys(keys: SectionKeys, base: Section) -> Changed | None:
    plan, section, store, fields = keys.plan, keys.section, keys.store, keys.deciding_fields
    if keys.with_vectors or any(file.deletion is not None for file in base.files):
        return None  # a vector changes which rows count without a change of files
    if section.row_count * ROW_BYTES * len(fields) > min(MAX_KEY_BYTES, SECTIONS.capacity):
        return None
    gone = _find_removed(keys, [file for file in base.files if file not in {*section.files}])
    if gone is None:
        return None
    found = read_file_keys(plan, section, keys.files, fields, keys.spec.key, store)
    keys.check([each.frame for each in found])
    number = {file: i for i, file in enumerate(base.files)}
    before = tuple(number.get(file) for file in keys.files)
    came = [each for each, old in zip(found, before) if old is None]
    # The same files in another order have the same rows: then no key is wanted.
    wanted = np.sort(np.concatenate([found[0].sorted[:0], *(each.sorted for each in (*gone, *came))]))
    wanted = wanted[np.append(True, wanted[1:] != wanted[:-1])[: len(wanted)]]
    looked = iter(find_positions([each for each, old in zip(found, before) if old is not None], wanted))
    hits = [find_all_positions(each, wanted) if old is None else next(looked) for each, old in zip(found, before)]
    rows = tuple(each.rows for each in hits)
    places = tuple(each.places for each in hits)
    exact = all(each.exact for each in (*gone, *found))
    by_order = not keys.age and not keys.with_kind
    if exact and by_order and not keys.spec.folds:
        return Changed(base, keys, before, rows, (), wanted, places)
    frames = tuple(each.frame if old is None else each.frame[taken] for each, old, taken in zip(found, before, rows))
    once = all(each.distinct for each in found)
    if exact or not by_order or not once or not _is_one_key_each(keys, frames, places, len(wanted)):
        return Changed(base, keys, before, rows, frames, wanted, places if exact else None)
    return Changed(base, keys, before, rows, frames if keys.spec.folds else (), wanted, places)


def _is_one_key_each(
    keys: SectionKeys, frames: Sequence[pl.DataFrame], places: Sequence[Positions], wanted: int
) -> bool:
    """Return whether rows with the same fingerprint have the same key; `wanted` is the number of fingerprints."""
    every = np.concatenate(places)
    number = np.arange(len(every))
    first = np.empty(wanted, np.int64)
    first[every[::-1]] = number[::-1]
    others = np.flatnonzero(first.take(every) != number)
    rows = to_comparable(pl.concat(frames, rechunk=True).select(cols(keys.spec.key)))
    return rows[others].equals(rows[first.take(every.take(others))])


def patch_masks(
    found: Changed, known: Sequence[pl.Series | None], decided: Sequence[npt.NDArray[np.bool_]], blank: bool
) -> tuple[pl.Series | None, ...]:
    """Return the masks of the section, in the order of its files: the base's masks with the new decisions applied.

    Args:
        known: the masks of the base, in the order of its files; None stands for rows that are all `blank`.
        decided: the values of `found.rows`, file by file.
    """
    oldest = order_by_age(found.keys.section)
    masks: list[pl.Series | None] = [None] * len(oldest)
    for place, file, old, rows, values in zip(oldest, found.keys.files, found.before, found.rows, decided):
        before = None if old is None else known[old]
        if before is None and (values == blank).all():
            continue
        mask = make_uniform_mask(blank, file.row_count) if before is None else before.clone()
        made = mask.scatter(pl.Series(rows), pl.Series(values))  # copies the bits, which the base keeps
        masks[place] = None if (made.all() if blank else not made.any()) else made
    return tuple(masks)


def _find_removed(keys: SectionKeys, files: Sequence[DataFile]) -> list[FileKeys] | None:
    """Return the keys of files that are no longer in the section; None if the files can no longer be read."""
    if any(file.schema_id not in keys.plan.file_fields for file in files):
        return None
    try:
        return read_file_keys(keys.plan, keys.section, files, keys.deciding_fields, keys.spec.key, keys.store)
    except MorrowError:
        return None


Fingerprints = npt.NDArray[np.integer]
Positions = npt.NDArray[np.integer]

MIN_STEPPED_ROWS = 1 << 10
"""Minimum rows of a file to check whether its keys ascend by a constant step; keys are then computed, not searched."""
MIXER = np.uint64(0x9E3779B97F4A7C15)
NUMBERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64)
"""Physical dtypes of keys that are fingerprints themselves."""
ROW_BYTES = 16
"""Approximate memory of one value, used for estimates."""


class FileKeys(msgspec.Struct, frozen=True, dict=True):
    """The deciding columns of all rows of a file (keys first), and the fingerprints of its keys."""

    frame: pl.DataFrame
    fingerprints: Fingerprints

    @cached_property
    def ascending(self) -> bool:
        """Whether the fingerprints are strictly ascending."""
        return bool((self.fingerprints[1:] > self.fingerprints[:-1]).all())

    @cached_property
    def order(self) -> Positions | None:
        """The rows in the order of their fingerprints; None if the file has that order already."""
        return None if self.ascending else np.argsort(self.fingerprints).astype(np.uint32)

    @cached_property
    def sorted(self) -> Fingerprints:
        """The fingerprints in ascending order."""
        return self.fingerprints if self.order is None else self.fingerprints.take(self.order)

    @cached_property
    def distinct(self) -> bool:
        """Whether no two rows have the same fingerprint."""
        return self.ascending or bool((self.sorted[1:] != self.sorted[:-1]).all())

    @cached_property
    def step(self) -> int | None:
        """The constant step by which the fingerprints ascend; None if there is none."""
        numbers = self.fingerprints
        if self.hashed or len(numbers) < MIN_STEPPED_ROWS:
            return None
        first, middle = int(numbers[0]), len(numbers) // 2
        step, rest = divmod(int(numbers[-1]) - first, len(numbers) - 1)
        if rest or step < 1 or step * len(numbers) > np.iinfo(np.int64).max or numbers[middle] != first + middle * step:
            return None
        return step if (np.diff(numbers) == step).all() else None

    @cached_property
    def exact(self) -> bool:
        """Whether fingerprints are the keys themselves, and every key has one row."""
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
        return int(self.frame.estimated_size()) + self.fingerprints.nbytes + beside + SMALL_FRAME_BYTES


def compute_fingerprints(keys: pl.DataFrame) -> Fingerprints:
    """Return a number for each row: equal for equal keys, and rarely equal for different keys."""
    if keys.width == 1 and (column := clear_pattern_name(keys.to_series()).to_physical()).dtype in NUMBERS:
        return column.fill_null(0).to_numpy() if column.null_count() else column.to_numpy()
    if not keys.width:
        return np.empty(0, np.int64)
    found = np.zeros(keys.height, np.uint64)
    for column in keys.iter_columns():
        found = found * MIXER + clear_pattern_name(to_sortable(column)).hash(0).to_numpy()
    return found


def read_file_keys(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    fields: Sequence[DataField],
    key: Sequence[str],
    store: FileStore,
) -> list[FileKeys]:
    """Return the columns `fields` of each file, including the key columns `key`, from the cache or read into it.

    If `key` is empty, no fingerprints are computed.

    Raises `CorruptFile`, `FileMissing`, `StorageError`: as reading does; heights are not checked.
    """
    places = [make_cache_key("keys", plan, store, section.partition_row, tuple(fields), file) for file in files]
    found: list[FileKeys | None] = [SECTIONS.get(place) for place in places]
    entries = [
        None if known else find_entry(plan, section, [file], store, "keys", fields) for known, file in zip(found, files)
    ]

    def keep(number: int, frame: pl.DataFrame) -> None:
        whole = frame.rechunk()
        made = FileKeys(whole, compute_fingerprints(whole.select(cols(key))))
        SECTIONS.put(places[number], made, made.size, of=files[number].path.rpartition("/")[2])
        found[number] = made

    for number, entry in enumerate(entries):
        kept = None if entry is None else entry.frame()
        if kept is not None and kept.columns == [field.name for field in fields]:
            keep(number, kept)
    missing = [number for number, known in enumerate(found) if known is None]
    if missing:
        frames = [scan_files(plan, section, [files[number]], fields, store) for number in missing]
        with translate_file_errors(plan, [section], tuple(fields), store):
            read = collect_frames(frames)
        for number, frame in zip(missing, read):
            keep(number, frame)
            if (entry := entries[number]) is not None:
                entry.keep_frame(frame)
    return [known for known in found if known is not None]


class Hits(msgspec.Struct, frozen=True):
    """Rows of a file, ascending, and the index of each row's fingerprint among the wanted fingerprints."""

    rows: Positions
    places: Positions


NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.int64))


def find_positions(files: Sequence[FileKeys], wanted: Fingerprints) -> list[Hits]:
    """Return the rows of each file that have one of the fingerprints `wanted`, which are strictly ascending."""
    return [_order_by_row(keys, _find_places(keys, wanted)) for keys in files]


def find_all_positions(keys: FileKeys, wanted: Fingerprints) -> Hits:
    """Return all rows of a file; `wanted`, strictly ascending, contains all of its fingerprints."""
    rows = np.arange(len(keys.fingerprints))
    places = rows if keys.distinct and len(rows) == len(wanted) else np.searchsorted(wanted, keys.sorted)
    if keys.order is None:
        return Hits(rows, places)
    of_rows = np.empty_like(places)
    of_rows[keys.order] = places
    return Hits(rows, of_rows)


def _order_by_row(keys: FileKeys, hits: Hits) -> Hits:
    if keys.order is None:
        return hits
    rows = keys.order.take(hits.rows)
    order = np.argsort(rows)
    return Hits(rows.take(order), hits.places.take(order))


def _find_places(keys: FileKeys, wanted: Fingerprints) -> Hits:
    """Search the fingerprints in ascending order. Both sides ascend, so the searches stay in the processor's cache."""
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
