"""Keys of one long sorted run and of short ones: the usual state of a section between two compactions.

Only the short runs have to be sorted. Their keys are then looked for in the long run, which is sorted already, so the
work grows with the updates and not with the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LONG = 2
"""The long run must have at least so many times the rows of all others."""

Numbers = npt.NDArray[np.integer]


@dataclass(frozen=True)
class LongRun:
    """Rows ``0 .. length`` are the long run, which is the oldest. The others, by their numbers:

    `order` has them by key, the oldest first; `starts` says where each key starts in it, `found` which row of the long
    run has the key, or -1.
    """

    length: int
    order: Numbers
    starts: Numbers
    found: Numbers

    @property
    def counts(self) -> Numbers:
        """The number of rows of `order` for each key."""
        return np.diff(np.append(self.starts, len(self.order)))

    @property
    def newest(self) -> npt.NDArray[np.bool_]:
        """Whether a row is the newest of its key."""
        alive = np.zeros(self.length + len(self.order), bool)
        alive[: self.length] = True
        alive[self.found[self.found >= 0]] = False
        alive[self.order[np.append(self.starts[1:], len(self.order)) - 1]] = True
        return alive


def long_run(keys: Numbers, runs: Sequence[int]) -> LongRun | None:
    """Returns keys (a number each) of runs, the oldest first, none with a key twice; None if no run is long."""
    length = _sorted_length(keys, runs)
    others = keys[length:]
    if not len(others) or length < LONG * len(others):
        return None
    sort_order = np.argsort(others, kind="stable")
    ordered = others[sort_order]
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    distinct = ordered[starts]
    places = np.searchsorted(keys[:length], distinct)
    places[places == length] = 0
    found = np.where(keys[places] == distinct, places, -1)
    return LongRun(length, sort_order + length, starts, found)


def _sorted_length(keys: Numbers, runs: Sequence[int]) -> int:
    """Counts the rows from the first on that are in ascending order, run by run."""
    end = 0
    for height in runs:
        reached = max(end - 1, 0)
        piece = keys[reached : end + height]
        if not (piece[1:] > piece[:-1]).all():
            break
        end += height
    return end
