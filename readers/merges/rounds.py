"""Versions of keys in rounds: round r holds the r-th oldest version of every key with so many versions.

Keys with more versions come first, so each round's keys are the first ones of the round before: a round aligns with the
head of the state, and the rest of the state is finished. There are at most as many rounds as files overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

Step = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
"""The state after one more version: from the state and the versions of as many keys, row beside row."""


class Rounds(msgspec.Struct, frozen=True, dict=True):
    """`rows` are the numbers of the rows, one round after another; `heights` the number of keys of each round."""

    rows: npt.NDArray[np.integer]
    heights: tuple[int, ...]

    @property
    def keys(self) -> int:
        """The number of keys that have versions."""
        return self.heights[0] if self.heights else 0

    @classmethod
    def of_sorted(cls, order: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]) -> Rounds:
        """Arranges rows, given in the order of keys and age, in rounds; `counts` gives the versions of each key."""
        starts = (np.cumsum(counts) - counts)[by_falling(counts)]
        heights = heights_of(counts)
        rows = [order[starts[:height] + number] for number, height in enumerate(heights)]
        return cls(np.concatenate(rows) if rows else np.empty(0, np.int64), heights)

    @classmethod
    def joined(cls, parts: Sequence[Rounds]) -> Rounds:
        """Returns the rounds of the keys of all parts, which share none."""
        most = max((len(part.heights) for part in parts), default=0)
        # Keys of n versions are those between two heights of every round of their part.
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
        """Where each round begins in `rows`."""
        return list(accumulate(self.heights, initial=0))

    def having_more_than(self, versions: int) -> int:
        """Returns how many keys have more versions than so many."""
        return self.heights[versions] if versions < len(self.heights) else 0

    def run(self, versions: pl.DataFrame, state: pl.DataFrame, step: Step) -> pl.DataFrame:
        """Folds all rounds: one row per key, keys with more versions first.

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


def by_falling(counts: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """Returns the keys by their number of versions, most first."""
    most = int(counts.max(initial=0))
    # Small numbers of one or two bytes are sorted by counting them.
    return np.argsort((most - counts).astype(np.min_scalar_type(most)), kind="stable")


def heights_of(counts: npt.NDArray[np.integer]) -> tuple[int, ...]:
    """Counts the keys that have more than r versions, for each r."""
    exactly = np.bincount(counts, minlength=1)
    return tuple(int(height) for height in np.cumsum(exactly[::-1])[::-1][1:])
