"""Masks of a merge-on-read section: the newest version of each key is live, older ones are dead positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.io.store import FileStore
from morrow.engine.names import POSITION, cols
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.masks.key_ranges import KeyRange
from morrow.readers.masks.marks import Marks, as_mask
from morrow.readers.masks.ordering import comparable, is_number, key_order, newest_of_each_key, unseen
from morrow.readers.masks.section_keys import RANGE_WORKERS, SectionKeys, oldest_first

T = TypeVar("T")
Live = list[npt.NDArray[np.bool_]]
Unpacked: TypeAlias = Callable[[], Sequence[pl.DataFrame]]


def superseded_masks(plan: ScanPlan, section: Section, store: FileStore) -> tuple[pl.Series | None, ...]:
    """Returns one live mask per file: true at the newest version of a key, unless it is a retraction that is dropped.

    Raises:
        CorruptFile: a file's row count differs from its manifest entry.
    """
    keys = SectionKeys.of(plan, section, store)
    marks = Marks(keys, blank=section.cut is None, absent=True)

    def mark(part: KeyRange) -> None:
        frames = keys.read(part, keys.packing)
        found = _live_in_parts(keys, frames) if part.whole else None
        for number, frame, rows in zip(
            part.files, frames, found or live_rows(keys, frames, lambda: keys.read(part, None))
        ):
            marks.put(number, places_of(part, frame), rows)
        marks.done(part)

    keys.each_range(mark)
    by_file = dict(zip(oldest_first(section), marks.masks()))
    return tuple(by_file[i] for i in range(len(section.files)))


def places_of(part: KeyRange, frame: pl.DataFrame) -> slice | npt.NDArray[np.integer]:
    """Returns where the rows of a range, in the order of their file, are in it: side by side, if the file is sorted."""
    if part.whole or frame.is_empty():
        return slice(0, frame.height)
    places = frame[POSITION].to_numpy()
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places


class _InexactPackingError(Exception):
    """The keys of a part cannot be packed, and are not available unpacked."""


def in_parts(
    keys: SectionKeys, frames: Sequence[pl.DataFrame], work: Callable[[Sequence[pl.DataFrame], Unpacked], T]
) -> list[T] | None:
    """Returns the result of the work for each of several parts of a whole section, processed at once.

    The parts share no key; arguments of the work as for `SectionKeys.keyed`. None where that is impossible.
    """
    parts = keys.parts(frames)
    if len(parts) == 1:
        return None

    def inexact() -> Sequence[pl.DataFrame]:
        raise _InexactPackingError

    try:
        with ThreadPoolExecutor(RANGE_WORKERS) as pool:
            return list(pool.map(lambda part: work(part, inexact), parts))
    except _InexactPackingError:
        return None


def _live_in_parts(keys: SectionKeys, frames: Sequence[pl.DataFrame]) -> Live | None:
    live = in_parts(keys, frames, lambda part, unpacked: live_rows(keys, part, unpacked))
    return None if live is None else [np.concatenate(rows) for rows in zip(*live)]


def as_masks(live: Live) -> tuple[pl.Series | None, ...]:
    """Returns the live rows of files as masks."""
    return tuple(as_mask(rows, absent=True) for rows in live)


def live_rows(keys: SectionKeys, frames: Sequence[pl.DataFrame], unpacked: Unpacked) -> Live:
    """Returns for each frame which of its rows are live; arguments as for `SectionKeys.keyed`."""
    alive = _unseen(keys, frames)
    if alive is None:
        bounds = np.cumsum([0, *(frame.height for frame in frames)])
        live = winners(keys, *keys.keyed(frames, unpacked), [frame.height for frame in frames])
        alive = [live[start:end] for start, end in pairwise(bounds)]
    return alive


def _unseen(keys: SectionKeys, frames: Sequence[pl.DataFrame]) -> Live | None:
    """Returns the live rows when the order of the files alone decides and keys are close integers; else None."""
    if keys.packing is not None or keys.age or keys.with_kind:
        # Packed keys are numbers too, but only `SectionKeys.keyed` checks that they distinguish the keys.
        return None
    by_key = [comparable(frame.select(cols(keys.spec.key))) for frame in reversed(frames)]
    if not all(map(is_number, by_key)):
        return None
    newest_first = unseen([frame.to_series().to_numpy() for frame in by_key])
    return None if newest_first is None else newest_first[::-1]


def winners(
    keys: SectionKeys, versions: pl.DataFrame, by_key: pl.DataFrame, runs: Sequence[int]
) -> npt.NDArray[np.bool_]:
    """Returns for each version whether it is live."""
    candidates: npt.NDArray[np.integer] | None = None
    if keys.with_kind and keys.spec.ignore_delete:
        counted = (versions[VALUE_KIND].to_numpy() & RETRACT_BIT) == 0
        if keys.spec.keeps_retractions:
            counted |= _alone(by_key)  # Paimon does not merge single versions, and so ignores none
        candidates = np.flatnonzero(counted)
        versions, by_key = versions[candidates], by_key[candidates]
    heights = runs if candidates is None else None
    newest = newest_of_each_key(by_key, versions.select(cols(keys.age)), keys.descending, heights)
    if keys.with_kind and not keys.spec.keeps_retractions:
        newest &= (versions[VALUE_KIND].to_numpy() & RETRACT_BIT) == 0
    if candidates is None:
        return newest
    live = np.zeros(sum(runs), bool)
    live[candidates[newest]] = True
    return live


def _alone(by_key: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Returns for each row whether no other row has its key."""
    order, starts = key_order(by_key, pl.DataFrame(), ())
    alone = np.zeros(by_key.height, bool)
    alone[order[starts[np.diff(np.append(starts, len(order))) == 1]]] = True
    return alone
