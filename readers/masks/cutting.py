"""Sorted files cut at the same keys, so that their parts are processed apart, several at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import polars as pl

from morrow.engine.format.types import DataField
from morrow.engine.names import series
from morrow.readers.masks.key_ranges import RANGED_TYPES

WORTH_CUTTING = 1 << 19
"""Rows of a section from which on it is processed in several parts."""
SAMPLED = 1 << 10
"""One key in so many rows is sampled to find where to cut."""

Cuts = list[list[int]]
"""For each file the rows at which it is cut."""


def cuts(frames: Sequence[pl.DataFrame], key: DataField, count: int = 2) -> Cuts | None:
    """Returns where to cut each file into so many parts, or fewer, that share no key.

    The first key column `key` may be packed: equal keys are then equal words, which go to the same part. None where a
    cut does not pay, or where the keys turn out not to be sorted.
    """
    if sum(frame.height for frame in frames) < WORTH_CUTTING:
        return None
    keys = [series(frame, key.name) for frame in frames]
    if not isinstance(key.type, RANGED_TYPES) or any(each.null_count() for each in keys):
        return None  # texts that packing does not distinguish are null
    sample = pl.concat([each.gather_every(SAMPLED) for each in keys]).sort()
    pivots = sample[[len(sample) * number // count for number in range(1, count)]].unique(maintain_order=True)
    found = [each.search_sorted(pivots, side="left").to_list() for each in keys]
    bounds = [None, *pivots.to_list(), None]
    return found if all(_lie_between(bounds, each, ends) for each, ends in zip(keys, found)) else None


def pieces(frames: Sequence[pl.DataFrame], rows: Cuts | None) -> list[list[pl.DataFrame]]:
    """Returns the rows of the files part by part; all in one for None."""
    if rows is None:
        return [list(frames)]
    cut = [_between(frame.height, ends) for frame, ends in zip(frames, rows)]
    return [[frame[start:end] for frame, (start, end) in zip(frames, part)] for part in zip(*cut)]


def _between(height: int, ends: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise([0, *ends, height]))


def _lie_between(bounds: Sequence[Any], keys: pl.Series, ends: Sequence[int]) -> bool:
    """Returns whether the keys of each part lie between its bounds: from the lower one on, below the upper one."""
    for (start, end), (low, high) in zip(_between(len(keys), ends), pairwise(bounds)):
        part = keys[start:end]
        if len(part) and (_before(part.min(), low) or (high is not None and not _before(part.max(), high))):
            return False
    return True


def _before(key: Any, bound: Any) -> bool:
    return bound is not None and bool(key < bound)
