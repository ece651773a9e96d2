"""Sections that a commit has changed, by what is known of them from before.

Which rows of a key count depends on the versions of that key alone. So where a section shares most of its files with
one that is known, only keys that have rows in files which came or went are decided anew: their rows in all files of the
section are found by fingerprint (`file_keys`). Two keys of one fingerprint are then both decided anew; that is all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import MorrowError
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.masks.bits import uniform
from morrow.readers.masks.file_keys import (
    KEY_CACHE,
    ROW_BYTES,
    FileKeys,
    Fingerprints,
    Positions,
    all_positions,
    file_keys,
    positions,
)
from morrow.readers.masks.folder import Entry
from morrow.readers.masks.ordering import comparable
from morrow.readers.masks.section_keys import SectionKeys, oldest_first

_Value = TypeVar("_Value")

WORTHWHILE = 8
"""A section is refreshed where files of at most one in so many of its rows came or went: with more, all of it is read
anew as soon."""
OFTEN = 64
"""Values go into the cache folder again when files of one in so many rows came or went."""
REMEMBERED = 4
"""Sections of one bucket that are remembered, those read last."""
FILE_BYTES = 400
"""Memory of one file of a remembered section, about."""

KNOWN_SECTIONS: ByteCache[tuple[Section, ...]] = ByteCache(32 << 20)
"""Sections with masks in the cache, by bucket, those read last first."""


class Changed(msgspec.Struct, frozen=True, dict=True):
    """What differs between a section and the `base`, which is known.

    For each file of `keys.files`: `rows` are those whose keys are to be decided anew, `frames` their deciding columns,
    none of them where nobody needs any. `wanted` has the fingerprints of these keys, ascending, `places` for each of
    the rows which one is its own; None where it may be that of another key. `before` is each file's number
    in the base; None where the file came since: all of its rows are in `rows`.
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
        """`places` where these and the order of the files decide alone."""
        return None if self.keys.age or self.keys.with_kind else self.places

    def newest(self) -> list[npt.NDArray[np.bool_]] | None:
        """Returns for the rows of each file whether they are the newest of their key; None where more decides it."""
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
        """`frames`, keys as `SectionKeys.packing` has them."""
        decided = self.keys.deciding(self.frame)
        return [decided[end - height : end] for height, end in zip(self.heights, accumulate(self.heights))]

    @property
    def size(self) -> int:
        """Memory in bytes."""
        held = (self.wanted, *self.rows, *(self.places or ()))
        return sum(each.nbytes for each in held) + sum(int(frame.estimated_size()) for frame in self.frames)


_KEPT: ByteCache[Section] = ByteCache(8 << 20)
"""The section of each bucket whose values were given to the cache folder last."""

CHANGES: ByteCache[Changed] = ByteCache(32 << 20)
"""What has changed between two sections: masks and merged rows of several queries follow from it."""


def remember(place: Hashable, section: Section, entry: Entry | None = None) -> None:
    """Remembers that values of this section are in a cache under `place`; in the cache folder, too, as `entry`."""
    if section.cut is not None:
        return
    key = _bucket(place, section)
    others = tuple(known for known in KNOWN_SECTIONS.get(key) or () if known != section)
    kept = (section, *others)[:REMEMBERED]
    KNOWN_SECTIONS.put(key, kept, FILE_BYTES * sum(len(each.files) for each in kept))
    if entry is not None:
        entry.keep_sections([tuple(each.files) for each in kept])


def forget_kept() -> None:
    """Forgets what was given to the cache folder, which may have lost it."""
    _KEPT.clear()


def is_worth_keeping(place: Hashable, section: Section) -> bool:
    """Returns whether the cache folder should have values of this section: much differs from the last one it got."""
    key = _bucket(place, section)
    last = _KEPT.get(key)
    if last is not None and _differing(last, section) * OFTEN < section.row_count:
        return False
    _KEPT.put(key, section, FILE_BYTES * len(section.files))
    return True


def _bucket(place: Hashable, section: Section) -> Hashable:
    return place, section.partition_row, section.bucket


def in_cache(
    place: Hashable,
    section: Section,
    cache: ByteCache[_Value],
    kept: Callable[[], _Value | None],
    size: Callable[[_Value], int],
) -> _Value | None:
    """Returns the values of a section from a cache whose keys are place and section, or from the cache folder.

    Args:
        kept: reads them from the folder. It is not called where few rows differ from a state whose values are in the
            cache: they follow from those sooner.
        size: their bytes in memory.
    """
    found = cache.get((place, section))
    if found is None and not _is_near(place, section, cache) and (found := kept()) is not None:
        cache.put((place, section), found, size(found))
        remember(place, section)
    return found


def _is_near(place: Hashable, section: Section, cache: ByteCache[_Value]) -> bool:
    """Returns whether values of a state from which few rows differ are in the cache."""
    return section.cut is None and any(
        _differing(base, section) * WORTHWHILE <= section.row_count and cache.get((place, base)) is not None
        for base in KNOWN_SECTIONS.get(_bucket(place, section)) or ()
        if base != section
    )


def nearest(
    place: Hashable,
    section: Section,
    entry: Callable[[], Entry | None],
    values: Callable[[Section], _Value | None],
) -> tuple[Section, _Value] | None:
    """Returns the known section from which the fewest rows differ, of those that have `values`, and these.

    None where too many rows differ. What this process does not know of the bucket the cache folder may tell, as
    `entry`. Sections that are cut are not known: each read may cut them elsewhere.
    """
    if section.cut is not None:
        return None
    known = KNOWN_SECTIONS.get(_bucket(place, section))
    if known is None:
        told = entry()
        kept = [] if told is None else told.sections()
        known = tuple(msgspec.structs.replace(section, files=files) for files in kept)
    for rows, number in sorted((_differing(base, section), number) for number, base in enumerate(known)):
        if rows * WORTHWHILE > section.row_count:
            break
        found = values(known[number]) if known[number] != section else None
        if found is not None:
            return known[number], found
    return None


def _differing(base: Section, section: Section) -> int:
    return sum(file.row_count for file in {*base.files} ^ {*section.files})


def changed(plan: ScanPlan, section: Section, base: Section, store: FileStore) -> Changed | None:
    """Finds the rows of `section` whose keys have rows in files that the base or the section alone has.

    None where that cannot be told, or costs as much as to look at all: today's way is open.

    Raises:
        CorruptFile, FileMissing, StorageError: a file of the section cannot be read.
    """
    keys = SectionKeys.of(plan, section, store)
    place = store.url(plan.table), store.checks_pages, plan.merge, plan.schema.layout, base, section
    known = CHANGES.get(place)
    if known is not None:
        return known
    found = _compared(keys, base)
    if found is not None:
        CHANGES.put(place, found, found.size)
    return found


def _compared(keys: SectionKeys, base: Section) -> Changed | None:
    plan, section, store, fields = keys.plan, keys.section, keys.store, keys.deciding_fields
    if section.row_count * ROW_BYTES * len(fields) > KEY_CACHE.capacity:
        return None
    gone = _gone(keys, [file for file in base.files if file not in {*section.files}])
    if gone is None:
        return None
    found = file_keys(plan, section, keys.files, fields, keys.spec.key, store)
    keys.check([each.frame for each in found])
    number = {file: i for i, file in enumerate(base.files)}
    before = tuple(number.get(file) for file in keys.files)
    came = [each for each, old in zip(found, before) if old is None]
    # The same files in another order have the same rows: then none is wanted.
    wanted = np.sort(np.concatenate([found[0].sorted[:0], *(each.sorted for each in (*gone, *came))]))
    wanted = wanted[np.append(True, wanted[1:] != wanted[:-1])[: len(wanted)]]
    looked = iter(positions([each for each, old in zip(found, before) if old is not None], wanted))
    hits = [all_positions(each, wanted) if old is None else next(looked) for each, old in zip(found, before)]
    rows = tuple(each.rows for each in hits)
    places = tuple(each.places for each in hits)
    exact = all(each.exact for each in (*gone, *found))
    by_order = not keys.age and not keys.with_kind
    if exact and by_order and not keys.spec.folds:
        return Changed(base, keys, before, rows, (), wanted, places)
    frames = tuple(each.frame if old is None else each.frame[taken] for each, old, taken in zip(found, before, rows))
    once = all(each.distinct for each in found)
    if exact or not by_order or not once or not _are_of_one_key(keys, frames, places, len(wanted)):
        return Changed(base, keys, before, rows, frames, wanted, places if exact else None)
    return Changed(base, keys, before, rows, frames if keys.spec.folds else (), wanted, places)


def _are_of_one_key(
    keys: SectionKeys, frames: Sequence[pl.DataFrame], places: Sequence[Positions], wanted: int
) -> bool:
    """Returns whether rows of the same fingerprint, of which there are so many, have the same key."""
    every = np.concatenate(places)
    number = np.arange(len(every))
    first = np.empty(wanted, np.int64)
    first[every[::-1]] = number[::-1]
    others = np.flatnonzero(first.take(every) != number)
    rows = comparable(pl.concat(frames, rechunk=True).select(cols(keys.spec.key)))
    return rows[others].equals(rows[first.take(every.take(others))])


def patched(
    found: Changed, known: Sequence[pl.Series | None], decided: Sequence[npt.NDArray[np.bool_]], blank: bool
) -> tuple[pl.Series | None, ...]:
    """Returns the masks of the section, in the order of its files: those of the base with what was decided anew.

    Args:
        known: the masks of the base, in the order of its files; None stands for rows that are all `blank`.
        decided: the values of `found.rows`, file by file.
    """
    oldest = oldest_first(found.keys.section)
    masks: list[pl.Series | None] = [None] * len(oldest)
    for place, file, old, rows, values in zip(oldest, found.keys.files, found.before, found.rows, decided):
        before = None if old is None else known[old]
        if before is None and (values == blank).all():
            continue
        mask = uniform(blank, file.row_count) if before is None else before.clone()
        made = mask.scatter(pl.Series(rows), pl.Series(values))  # copies the bits, which the base keeps
        masks[place] = None if (made.all() if blank else not made.any()) else made
    return tuple(masks)


def _gone(keys: SectionKeys, files: Sequence[DataFile]) -> list[FileKeys] | None:
    """Returns the keys of files that are no longer in the section; None where they cannot be read any more."""
    if any(file.schema_id not in keys.plan.file_fields for file in files):
        return None
    try:
        return file_keys(keys.plan, keys.section, files, keys.deciding_fields, keys.spec.key, keys.store)
    except MorrowError:
        return None
