"""Sorted files cut at the same keys, so that their parts are processed apart, several at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import polars as pl

from morrow.engine.format.types import DataField, DecimalType
from morrow.engine.names import series
from morrow.readers.masks.packing import INTEGERS, TEXTS

WORTH_CUTTING = 1 << 19
"""Rows of a section from which on it is processed in several parts."""
CUT_TYPES = (*INTEGERS, *TEXTS, DecimalType)
"""Types of keys that Polars orders as files are sorted."""
SAMPLED = 1 << 10
"""One key in so many rows is sampled to find where to cut."""

Cuts = list[list[int]]
"""For each file the rows at which it is cut."""


def cuts(frames: Sequence[pl.DataFrame], key: DataField, count: int = 2) -> Cuts | None:
    """Returns where to cut each file into so many parts, or fewer, that share no key.

    The first key column `key` may be packed: equal keys are then equal words, which go to the same part. None where a
    cut does not pay, or where the keys turn out not to be sorted.
    """
    if sum(frame.height for frame in frames) < WORTH_CUTTING or not isinstance(key.type, CUT_TYPES):
        return None
    keys = [series(frame, key.name).to_physical() for frame in frames]
    if any(each.null_count() or not each.is_sorted() for each in keys):
        return None  # texts that packing does not distinguish are null
    sample = pl.concat([each.gather_every(SAMPLED) for each in keys]).sort()
    pivots = sample[[len(sample) * number // count for number in range(1, count)]].unique(maintain_order=True)
    return [each.search_sorted(pivots, side="left").to_list() for each in keys]


def pieces(frames: Sequence[pl.DataFrame], rows: Cuts | None) -> list[list[pl.DataFrame]]:
    """Returns the rows of the files part by part; all in one for None."""
    if rows is None:
        return [list(frames)]
    cut = [_between(frame.height, ends) for frame, ends in zip(frames, rows)]
    return [[frame[start:end] for frame, (start, end) in zip(frames, part)] for part in zip(*cut)]


def _between(height: int, ends: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise([0, *ends, height]))
