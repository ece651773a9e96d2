"""Keys of one long sorted run and of short ones: the usual state of a section between two compactions.

Only the short runs have to be sorted. Their keys are then looked for in the long run, which is sorted already, so the
work grows with the updates and not with the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

LONG = 2
"""The long run must have at least so many times the rows of all others."""

CLOSE = 4
"""A long run spans at most so many times its keys, for a table of them."""
FEW = 8
"""One key in so many of the long run has to be wanted, for a table."""

SAMPLED = 1 << 10
"""Wanted keys that are looked at to see whether a long run is even."""
EVEN = 8
"""A long run is even where the places of all but one in so many keys are guessed."""
NUDGE = 1e-6
"""What is added to a place that was computed as a float, which may be a little less than it is."""
ABSENT, UNKNOWN = -1, -2
BLOCK = 1 << 15
"""Keys that are looked up at a time: what is computed of them stays in the processor's cache, and in no new memory."""

Numbers = npt.NDArray[np.integer]


class LongRun(msgspec.Struct, frozen=True):
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
    ordered = others.take(sort_order)
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    distinct = ordered.take(starts)
    found = _found(keys[:length], distinct)
    return LongRun(length, sort_order + length, starts, found)


def _found(run: Numbers, wanted: Numbers) -> Numbers:
    """Returns the place of each wanted key in an ascending run, or -1."""
    sample = wanted[:: max(len(wanted) // SAMPLED, 1)]
    if len(run) < SAMPLED or np.count_nonzero(_guessed(run, sample) == UNKNOWN) * EVEN > len(sample):
        return _searched(run, wanted)
    found = _guessed(run, wanted)
    unknown = np.flatnonzero(found == UNKNOWN)
    found[unknown] = _searched(run, wanted[unknown])
    return found


def _guessed(run: Numbers, wanted: Numbers) -> Numbers:
    """Returns the places in a run as they are if its keys are the same distance apart, -2 where they are not.

    Numbers that are counted up, by one or by any step, are never searched for.
    """
    per_key = (len(run) - 1) / (int(run[-1]) - int(run[0]))
    found = np.empty(len(wanted), np.int64)
    for start in range(0, len(wanted), BLOCK):
        keys = wanted[start : start + BLOCK]
        # Keys before the first wrap around and are far behind the last.
        offsets = _unsigned(keys) - _unsigned(run[:1])
        places = np.minimum(offsets * per_key + NUDGE, len(run) - 2).astype(np.int64)
        below = run.take(places)
        between = (below < keys) & (keys < run.take(places + 1))
        found[start : start + BLOCK] = np.where(below == keys, places, np.where(between, ABSENT, UNKNOWN))
    return found


def _unsigned(keys: Numbers) -> npt.NDArray[np.uint64]:
    return (keys if keys.dtype == np.uint64 else keys.astype(np.int64, copy=False)).view(np.uint64)


def _searched(run: Numbers, wanted: Numbers) -> Numbers:
    if not len(wanted):
        return np.empty(0, np.int64)
    span = int(run[-1]) - int(run[0]) + 1
    if span > CLOSE * len(run) or len(wanted) * FEW < len(run):
        places = np.searchsorted(run, wanted)
        places[places == len(run)] = 0
        return np.where(run[places] == wanted, places, -1)
    # Keys lie close: a table of places is filled and read faster than places are searched.
    within = np.flatnonzero((wanted >= run[0]) & (wanted <= run[-1]))
    slots = _after(wanted[within], run[0])
    found = np.full(len(wanted), -1, np.int64)
    if span == len(run):
        found[within] = slots
        return found
    table = np.full(span, -1, np.int32)
    table[_after(run, run[0])] = np.arange(len(run), dtype=np.int32)
    found[within] = table.take(slots)
    return found


def _after(keys: Numbers, first: np.integer) -> Numbers:
    """Returns how far keys are from the first of them, which lies close."""
    # Differences of narrow integers do not fit into their own width, and packed keys not into a signed one.
    wide = keys if keys.dtype.kind == "u" else keys.astype(np.int64, copy=False)
    return (wide - wide.dtype.type(first)).astype(np.int64, copy=False)


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
