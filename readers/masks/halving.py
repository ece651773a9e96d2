"""Sorted files cut at one key, so that their two parts are processed at once."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from morrow.engine.format.types import DataField
from morrow.engine.names import series
from morrow.readers.masks.key_ranges import RANGED_TYPES

WORTH_CUTTING = 1 << 19
"""Rows of a section from which on it is processed in several parts."""
SAMPLED = 1 << 10
"""One key in so many rows is sampled to find the middle."""


def cuts(frames: Sequence[pl.DataFrame], key: DataField) -> list[int] | None:
    """Returns the row at which to cut each file, so that the parts before and behind share no key.

    The first key column `key` may be packed: equal keys are then equal words, which go to the same part. None where a
    cut does not pay, or where the keys turn out not to be sorted.
    """
    if sum(frame.height for frame in frames) < WORTH_CUTTING:
        return None
    keys = [series(frame, key.name) for frame in frames]
    if not isinstance(key.type, RANGED_TYPES) or any(each.null_count() for each in keys):
        return None  # texts that packing does not distinguish are null
    sample = pl.concat([each.gather_every(SAMPLED) for each in keys]).sort()
    pivot = sample[len(sample) // 2]
    rows = [int(each.search_sorted(pivot, side="left")) for each in keys]
    apart = all((each[:row] < pivot).all() and (each[row:] >= pivot).all() for each, row in zip(keys, rows))
    return rows if apart else None


def halves(frames: Sequence[pl.DataFrame], rows: Sequence[int] | None) -> list[list[pl.DataFrame]]:
    """Returns the rows of the files before and behind the cuts; all in one part for None."""
    if rows is None:
        return [list(frames)]
    return [[frame[:row] for frame, row in zip(frames, rows)], [frame[row:] for frame, row in zip(frames, rows)]]
