"""Instants as Java's system tables show them: on the wall clock of the reading machine."""

from __future__ import annotations

import time
from collections.abc import Sequence

import polars as pl

MILLIS = 1000


def wall_clock(millis: Sequence[int | None]) -> pl.Series:
    """Converts epoch milliseconds to times without zone, in this process's zone: Datetime("ms"), null stays null.

    Creation times of files and tags are stored in the writer's zone, so that all times of a table agree where its
    readers and writers share one. The offset is that of each instant, summer time or not.
    """
    offsets = {instant: _offset(instant // MILLIS) for instant in set(millis) if instant is not None}
    local = [None if instant is None else instant + offsets[instant] * MILLIS for instant in millis]
    return pl.Series(local, dtype=pl.Int64).cast(pl.Datetime("ms"))


def _offset(seconds: int) -> int:
    """Returns seconds east of UTC at this instant."""
    try:
        return time.localtime(seconds).tm_gmtoff
    except (OverflowError, OSError):  # a time outside of this machine's calendar
        return 0
