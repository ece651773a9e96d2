"""Versions of keys: their order in rounds, and the cached masks of rows that share a key.

Round r holds the r-th oldest version of every key that has at least r versions. Keys with more versions come first, so
each round's keys are the first keys of the round before. A round aligns with the head of the state, and the rest of the
state is finished. There are at most as many rounds as files overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.io.store import FileStore
from morrow.engine.merge.spec import MergeSpec, Rule
from morrow.engine.names import cols
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.masks import Mask
from morrow.readers.masks.incremental import Changed, find_changed, patch_masks
from morrow.readers.masks.live_rows import ROWS_PER_SAVED_CHANGE, RangeRows, Unpacked, mask_bytes, process_in_parts
from morrow.readers.masks.ordering import (
    MAX_DENSE_SPAN,
    LongRun,
    SharedKeys,
    find_long_run,
    find_shared_keys,
    find_unshared,
    is_number,
    order_of_shared,
    sort_by_key,
    to_comparable,
)
from morrow.readers.masks.section_cache import Entry, MaskBuilder, SectionValues
from morrow.readers.masks.section_keys import KeyRange, SectionKeys, order_by_age

MAX_COUNTED_VERSIONS = 255
"""Maximum number of runs whose keys can be counted in a table of bytes."""


class Versions(msgspec.Struct, frozen=True):
    """The versions of keys among some rows, which are numbered from 0.

    `single[row]`: no other row has its key. `rounds` have the numbers of all other rows.
    """

    single: npt.NDArray[np.bool_]
    rounds: Rounds

    def among(self, kept: npt.NDArray[np.bool_]) -> Versions:
        """Return the versions among the rows `kept` only, renumbered; all rows of the rounds must be kept."""
        left = np.flatnonzero(kept)
        numbers = np.empty(len(kept), np.uint32)
        numbers[left] = np.arange(len(left), dtype=np.uint32)
        return Versions(self.single.take(left), Rounds(numbers.take(self.rounds.rows), self.rounds.heights))


def find_versions(
    keys: pl.DataFrame,
    age: pl.DataFrame,
    descending: Sequence[bool],
    runs: Sequence[int] | None = None,
    levels: npt.NDArray[np.integer] | None = None,
) -> Versions:
    """Find the versions of every key.

    Args:
        keys: key columns, rows of older files first.
        age: columns that order versions before the row's position does (may be empty).
        descending: sort order of each column of `age`; nulls are the oldest in either.
        runs: heights of the files that the rows come from, one after another, if no file holds a key twice.
        levels: the level of each row: of a key's rows above level 0, only the row in the lowest level counts. Rows that
            do not count are neither `single` nor in the rounds.
    """
    keys = to_comparable(keys)
    if not is_number(keys) or age.width:
        shared = find_shared_keys(keys, runs)
        if shared is not None:
            return _from_shared(shared, age, descending, runs, levels)
    elif levels is None and runs is not None:
        known = find_long_run(keys.to_series().to_numpy(), runs)
        found = _count_versions(keys.to_series().to_numpy(), runs) if known is None else _from_long_run(known)
        if found is not None:
            return found
    order, starts = sort_by_key(keys, age, descending)
    return _from_ordered(np.zeros(keys.height, bool), order, starts, levels)


RETRACTS = (pl.col(VALUE_KIND) & RETRACT_BIT) != 0
Numbers: TypeAlias = npt.NDArray[np.integer]


def choose_versions(spec: MergeSpec, rows: pl.DataFrame, order: Numbers, starts: Numbers, where: str) -> Numbers:
    """Return one version of every key: the first for first-row, the newest for other engines.

    `order`: the rows by key and age, oldest first; `starts` has each key's start among them.

    Raises `Unsupported`: a retraction that the engine does not support.
    """
    first = spec.rule is Rule.FIRST
    several = len(starts) < len(order)
    if several and (first or spec.ignore_delete) and rows.select(RETRACTS.any()).item():
        order, starts = _leave_out_retractions(spec, rows, order, starts, where)
    if len(starts) == len(order):
        return order
    if first:
        return order[starts]
    ends: Numbers = np.append(starts[1:], len(order)) - 1
    return order[ends]


def _leave_out_retractions(
    spec: MergeSpec, rows: pl.DataFrame, order: Numbers, starts: Numbers, where: str
) -> tuple[Numbers, Numbers]:
    """Return the order and the starts without the retractions of keys with several versions."""
    counts = np.diff(np.append(starts, len(order)))
    left_out = rows.select(RETRACTS).to_series().to_numpy()[order] & np.repeat(counts > 1, counts)
    if not spec.ignore_delete and left_out.any():
        raise Unsupported(
            f"a retraction (-U or -D) in the merge engine {spec.engine}",
            where=where,
            hint="'ignore-delete' = 'true' leaves retractions out",
        )
    numbers = np.repeat(np.arange(len(starts)), counts)[~left_out]
    kept = np.flatnonzero(np.diff(numbers, prepend=-1))
    return order[~left_out], kept


def find_numbered_versions(places: npt.NDArray[np.integer], keys: int) -> Versions:
    """Find the versions of numbered keys. `places` has the number of each row's key, below `keys`, older rows first."""
    counts = np.bincount(places, minlength=keys)
    single = counts.take(places) == 1
    rows = np.flatnonzero(~single)
    # Small numbers are sorted by counting them.
    by_key = places.take(rows).astype(np.min_scalar_type(max(keys, 1)))
    return Versions(single, Rounds.of_sorted(rows.take(np.argsort(by_key, kind="stable")), counts[counts > 1]))


def _from_shared(
    shared: SharedKeys,
    age: pl.DataFrame,
    descending: Sequence[bool],
    runs: Sequence[int] | None,
    levels: npt.NDArray[np.integer] | None,
) -> Versions:
    """Return the versions from rows that are known to share keys."""
    single = ~shared.shared
    if levels is None and runs is not None and not age.width:
        found = _count_versions(shared.ids, shared.heights(runs))
        if found is not None:
            return Versions(single, Rounds(shared.rows[found.rounds.rows].astype(np.uint32), found.rounds.heights))
    return _from_ordered(single, *order_of_shared(shared, age, descending), levels)


def _from_ordered(
    single: npt.NDArray[np.bool_],
    order: npt.NDArray[np.integer],
    starts: npt.NDArray[np.integer],
    levels: npt.NDArray[np.integer] | None,
) -> Versions:
    """Return the versions from rows in the order of key and age, and from the rows that are `single` anyway."""
    if levels is not None:
        order, starts = _drop_superseded(order, starts, levels)
    counts = np.diff(np.append(starts, len(order)))
    alone = counts == 1
    single[order[starts[alone]]] = True
    return Versions(single, Rounds.of_sorted(order[np.repeat(~alone, counts)], counts[~alone]))


def _drop_superseded(
    order: npt.NDArray[np.integer], starts: npt.NDArray[np.integer], levels: npt.NDArray[np.integer]
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """Drop rows above level 0 that are not in the lowest level of their key."""
    if not len(order):
        return order, starts
    by_key = levels[order]
    above = np.where(by_key > 0, by_key, np.iinfo(by_key.dtype).max)
    lowest = np.repeat(np.minimum.reduceat(above, starts), np.diff(np.append(starts, len(order))))
    counts = (by_key <= 0) | (by_key == lowest)
    heights = np.add.reduceat(counts, starts, dtype=np.int64)
    return order[counts], np.cumsum(heights) - heights


def _from_long_run(known: LongRun) -> Versions:
    """Return the versions if short runs update a long run: the long run's row is the oldest of its key."""
    older = known.found >= 0
    short = known.counts
    most = int(short.max(initial=0)) + 1
    counts = (short + older).astype(np.min_scalar_type(most))
    # Keys with the same number of versions keep their order, so that their gathered rows are contiguous.
    by_count = [np.flatnonzero(counts == number) for number in range(most, 0, -1)]
    several = np.concatenate(by_count[:-1] or [by_count[0][:0]])
    reaching = list(accumulate(map(len, by_count[:-1])))[::-1]
    heights = tuple(height for height in (*reaching[:1], *reaching) if height)
    single = np.zeros(known.length + len(known.order), bool)
    single[: known.length] = True
    single[known.found.take(np.flatnonzero(older))] = False
    single[known.order.take(known.starts.take(by_count[-1]))] = True
    has_older = older.take(several)
    starts = known.starts.take(several)
    before = starts - has_older
    oldest = np.where(has_older, known.found.take(several), known.order.take(starts))
    newer = [known.order.take(before[:height] + number) for number, height in enumerate(heights) if number]
    return Versions(single, Rounds(np.concatenate([oldest, *newer]).astype(np.uint32), heights))


def _count_versions(values: npt.NDArray[np.integer], runs: Sequence[int]) -> Versions | None:
    """Return the versions of integer keys that lie close, in the order of their runs; else None.

    Nothing is sorted. A table of one byte per possible key counts the runs that hold the key. A second table holds the
    index of the key among the keys with several versions. The runs are added to their rounds one after another.
    """
    if not len(values) or len(runs) > MAX_COUNTED_VERSIONS:
        return None
    least, greatest = int(values.min()), int(values.max())
    if greatest - least >= MAX_DENSE_SPAN * len(values):
        return None
    bounds = list(pairwise(np.cumsum([0, *runs])))
    # Differences of narrow integers do not fit into their own width.
    slots = [values[start:end].astype(np.int64, copy=False) - least for start, end in bounds]
    holders = np.zeros(greatest - least + 1, np.uint8)
    for run in slots:
        holders[run] += 1  # a run holds a key once, so no addition is lost
    single = [holders[run] == 1 for run in slots]
    several = np.flatnonzero(holders > 1)
    counts = holders[several]
    heights = count_heights(counts)
    place = np.empty(len(holders), np.int32)
    place[several[order_by_count(counts)]] = np.arange(len(several), dtype=np.int32)
    first = np.cumsum([0, *heights])
    rows = np.empty(first[-1], np.uint32)
    reached = np.zeros(len(several), np.uint8)
    for (start, _), run, alone in zip(bounds, slots, single):
        shared = np.flatnonzero(~alone)
        keys_held = place[run[shared]]
        number = reached[keys_held]
        rows[first[number] + keys_held] = shared + start
        reached[keys_held] = number + 1
    return Versions(np.concatenate(single), Rounds(rows, heights))


Step = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
"""Returns the state after one more version, from the state and the versions of the same keys, row by row."""


class Rounds(msgspec.Struct, frozen=True, dict=True):
    """The rounds of keys: `rows` has row numbers, one round after another, `heights` the number of keys per round."""

    rows: npt.NDArray[np.integer]
    heights: tuple[int, ...]

    @property
    def keys(self) -> int:
        """The number of keys that have versions."""
        return self.heights[0] if self.heights else 0

    @classmethod
    def of_sorted(cls, order: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]) -> Rounds:
        """Arrange rows in rounds from `order` (by key and age) and `counts`, the number of versions of each key."""
        starts = (np.cumsum(counts) - counts)[order_by_count(counts)]
        heights = count_heights(counts)
        rows = [order[starts[:height] + number] for number, height in enumerate(heights)]
        return cls(np.concatenate(rows) if rows else np.empty(0, np.int64), heights)

    @classmethod
    def joined(cls, parts: Sequence[Rounds]) -> Rounds:
        """Join the rounds of parts that share no key."""
        most = max((len(part.heights) for part in parts), default=0)
        # Keys of n versions lie between two heights in every round of their part.
        several = [
            [(part, part.having_more_than(n), part.having_more_than(n - 1)) for part in parts]
            for n in range(most, 0, -1)
        ]
        spans = [[(part, low, high) for part, low, high in each if low < high] for each in several]
        rows = [
            part.rows[part.starts[number] + low : part.starts[number] + high]
            for number in range(most)
            for each in spans[: most - number]
            for part, low, high in each
        ]
        heights = tuple(sum(part.having_more_than(number) for part in parts) for number in range(most))
        return cls(np.concatenate(rows) if rows else np.empty(0, np.int64), heights)

    @cached_property
    def starts(self) -> list[int]:
        """The index in `rows` at which each round begins."""
        return list(accumulate(self.heights, initial=0))

    def having_more_than(self, versions: int) -> int:
        """Count the keys that have more than `versions` versions."""
        return self.heights[versions] if versions < len(self.heights) else 0

    def run(self, versions: pl.DataFrame, state: pl.DataFrame, step: Step) -> pl.DataFrame:
        """Fold all rounds: one row per key, keys with more versions first.

        Args:
            versions: the inputs of `step` from the rows, in the order of `rows`.
            state: the state before the first version, one row per key.
        """
        finished: list[pl.DataFrame] = []
        start = 0
        for height in self.heights:
            if height < state.height:
                finished.append(state[height:])
                state = state[:height]
            state = step(state, versions[start : start + height])
            start += height
        return pl.concat([state, *reversed(finished)])


def order_by_count(counts: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """Return the keys by their number of versions, most first."""
    most = int(counts.max(initial=0))
    # Small numbers of one or two bytes are sorted by counting them.
    return np.argsort((most - counts).astype(np.min_scalar_type(most)), kind="stable")


def count_heights(counts: npt.NDArray[np.integer]) -> tuple[int, ...]:
    """Count the keys that have more than r versions, for each r."""
    exactly = np.bincount(counts, minlength=1)
    return tuple(int(height) for height in np.cumsum(exactly[::-1])[::-1][1:])


Rows: TypeAlias = npt.NDArray[np.bool_]


class VersionMasks(msgspec.Struct, frozen=True):
    """One mask per file, in the order of the section's files.

    `single` marks rows that are the only version of their key, unless they are retractions that are dropped. `shared`
    marks rows whose key has other versions; here None means that the file lacks such rows.
    """

    single: tuple[Mask, ...]
    shared: tuple[Mask, ...]
    keys: int | None = None
    """The number of keys with several versions, if they were counted when the masks were made."""


def compute_version_masks(plan: ScanPlan, section: Section, store: FileStore) -> VersionMasks:
    """Separate the rows of a section by the number of versions of their keys; only keys are read.

    Raises `CorruptFile`: a file's row count differs from its manifest entry.
    """
    found = find_known_version_masks(plan, section, store)
    return found or keep_masks(plan, section, store, *_make_masks(SectionKeys.of(plan, section, store)))


def find_known_version_masks(plan: ScanPlan, section: Section, store: FileStore) -> VersionMasks | None:
    """Return the masks if they are cached or can be derived from cached masks of most of the section's files."""
    return _open_cache(plan, store).find(section) or _refresh_masks(plan, section, store)


def is_known(plan: ScanPlan, section: Section, store: FileStore) -> bool:
    """Return whether the masks of a section, or of a similar section, are cached; derives no masks."""
    cache = _open_cache(plan, store)
    return cache.find(section) is not None or cache.find_nearest(section) is not None


def _refresh_masks(plan: ScanPlan, section: Section, store: FileStore) -> VersionMasks | None:
    near = _open_cache(plan, store).find_nearest(section)
    found = None if near is None else find_changed(plan, section, near[0], store)
    return None if near is None or found is None else _patch_version_masks(found, near[1], ChangedVersions.of(found))


def derive_masks(found: Changed, versions: ChangedVersions) -> VersionMasks:
    """Return the masks of a changed section from the versions of its changed keys."""
    plan, section, store = found.keys.plan, found.keys.section, found.keys.store
    masks = _open_cache(plan, store)
    before = masks.find(section)
    if before is not None:
        return before
    known = masks.find(found.base)
    return (
        compute_version_masks(plan, section, store) if known is None else _patch_version_masks(found, known, versions)
    )


class ChangedVersions(msgspec.Struct, frozen=True):
    """The versions of the keys that have changed, among the rows of `Changed`, file by file.

    `single` and `shared` have the same meaning for each row as in `VersionMasks`.
    """

    versions: Versions
    single: Rows
    shared: Rows

    @classmethod
    def of(cls, found: Changed) -> ChangedVersions:
        keys = found.keys
        levels = keys.levels(range(len(keys.files)), found.heights)
        if found.placed is not None and levels is None:
            versions = find_numbered_versions(np.concatenate(found.placed), len(found.wanted))
            return cls(versions, versions.single, ~versions.single)
        rows, by_key = keys.keyed(found.deciding, lambda: found.frames)
        versions = find_versions(by_key, rows.select(cols(keys.age)), keys.descending, found.heights, levels)
        return cls(versions, *split_by_versions(keys, rows, versions))


def _patch_version_masks(found: Changed, known: VersionMasks, changes: ChangedVersions) -> VersionMasks:
    single, shared = (np.split(each, np.cumsum(found.heights)[:-1]) for each in (changes.single, changes.shared))
    masks = VersionMasks(
        patch_masks(found, known.single, single, blank=True), patch_masks(found, known.shared, shared, blank=False)
    )
    return _open_cache(found.keys.plan, found.keys.store).keep(found.keys.section, masks)


def keep_masks(
    plan: ScanPlan, section: Section, store: FileStore, single: Sequence[Mask], shared: Sequence[Mask], keys: int
) -> VersionMasks:
    """Cache masks, given for the files oldest first, and the number of keys with several versions."""
    by_file = {file: number for number, file in enumerate(order_by_age(section))}
    places = [by_file[i] for i in range(len(section.files))]
    masks = VersionMasks(tuple(single[i] for i in places), tuple(shared[i] for i in places), keys)
    return _open_cache(plan, store).keep(section, masks)


def _open_cache(plan: ScanPlan, store: FileStore) -> SectionValues[VersionMasks]:
    assert plan.merge is not None
    return SectionValues(
        "versions",
        plan,
        store,
        parts=(plan.merge.key, plan.merge.looks_up, plan.merge.keeps_retractions),
        stored=(),
        rows_per_save=ROWS_PER_SAVED_CHANGE,
        measure=lambda masks: mask_bytes((*masks.single, *masks.shared)),
        load=_load_masks,
        save=lambda entry, masks: entry.keep_masks((*masks.single, *masks.shared)),
    )


def _load_masks(entry: Entry, section: Section) -> VersionMasks | None:
    masks = entry.masks([file.row_count for file in (*section.files, *section.files)])
    files = len(section.files)
    return None if masks is None else VersionMasks(masks[:files], masks[files:])


def _make_masks(keys: SectionKeys) -> tuple[list[Mask], list[Mask], int]:
    single = MaskBuilder(keys, blank=keys.section.cut is None, absent=True)
    shared = MaskBuilder(keys, blank=False, absent=False)
    found: list[int] = []

    def mark(part: KeyRange) -> None:
        read = RangeRows.read(keys, part)
        parts = (
            process_in_parts(keys, read.frames, lambda some, unpacked: _split_range(keys, part, some, unpacked))
            if part.whole
            else None
        )
        parts = parts or [_split_range(keys, part, read.frames, lambda: RangeRows.read(keys, part, packs=False).frames)]
        found.extend(each.keys for each in parts)
        for place, number in enumerate(part.files):
            single.put(number, read.places[place], read.spread(place, np.concatenate([p.single[place] for p in parts])))
            shared.put(number, read.places[place], read.spread(place, np.concatenate([p.shared[place] for p in parts])))
        single.done(part)
        shared.done(part)

    keys.each_range(mark)
    return single.masks(), shared.masks(), sum(found)


class _RangeMasks(msgspec.Struct, frozen=True):
    """Masks of some rows of each file, and the number of their keys with several versions."""

    single: list[Rows]
    shared: list[Rows]
    keys: int


def _split_range(keys: SectionKeys, part: KeyRange, frames: Sequence[pl.DataFrame], unpacked: Unpacked) -> _RangeMasks:
    rows, by_key = keys.keyed(frames, unpacked)
    heights = [frame.height for frame in frames]
    ends = np.cumsum(heights)[:-1]
    levels = keys.levels(part.files, heights)
    by_key = to_comparable(by_key)
    counted = levels is None and is_number(by_key)
    known = find_unshared(np.split(by_key.to_series().to_numpy(), ends)[::-1]) if counted else None
    if known is not None:
        single = np.concatenate(known[0][::-1])
        shared, several = ~single, known[1]
        single = _drop_retractions(keys, rows, single)
    else:
        versions = find_versions(by_key, pl.DataFrame(), (), heights, levels)
        several = versions.rounds.keys
        single, shared = split_by_versions(keys, rows, versions)
    return _RangeMasks(np.split(single, ends), np.split(shared, ends), several)


def _drop_retractions(keys: SectionKeys, rows: pl.DataFrame, single: Rows) -> Rows:
    if VALUE_KIND not in rows.columns or keys.spec.keeps_retractions:
        return single
    kept: Rows = single & ((rows[VALUE_KIND].to_numpy() & RETRACT_BIT) == 0)
    return kept


def split_by_versions(keys: SectionKeys, rows: pl.DataFrame, versions: Versions) -> tuple[Rows, Rows]:
    """Return the live rows whose keys have one version, and the rows whose keys have several."""
    shared = np.zeros(rows.height, bool)
    shared[versions.rounds.rows] = True
    return _drop_retractions(keys, rows, versions.single), shared
