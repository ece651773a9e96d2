"""What is done at once to small frames of metadata, for which Polars would wake its threads.

A table of a few files is planned in some dozen such steps: each wait for a thread takes longer than its work, and on a
busy machine a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import polars as pl

FEW = 1 << 8
"""Rows of metadata that Python goes through before Polars has begun."""


def distinct(column: pl.Series) -> pl.Series:
    """Returns each value of a column once, in any order."""
    return column[:1] if column.n_unique() == 1 else column.unique()


def kept(frame: pl.DataFrame, mask: pl.Series) -> pl.DataFrame:
    """Returns the rows for which a mask without nulls is true: the frame itself where that are all."""
    return frame if mask.all() else frame.filter(mask)


def picked(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Returns those of these columns that a frame has, in their order; no query runs."""
    there = frozenset(frame.columns)
    return frame[[name for name in names if name in there]]


def stacked(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Returns the rows of frames of one schema, at least one of them, one after another; no value is copied."""
    return reduce(pl.DataFrame.vstack, frames)
