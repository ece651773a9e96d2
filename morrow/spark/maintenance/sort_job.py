"""The data that the driver and the tasks of a divided sort exchange."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import polars as pl

from morrow.spark.maintenance.compaction_units import CompactionJob, Held
from morrow.writers.files import Placement

RANGE, GROUP, PIECE, ROWS = "range", "group", "piece", "rows"
PIECES = f"{GROUP} int, {RANGE} int, {PIECE} bigint, {ROWS} binary"
"""Rows of a sort in the shuffle: the group of ranges that one task sorts, the range, the position in the order of the
files, and the rows themselves as Arrow IPC, which keeps every type unchanged.
"""


class SortedFile(msgspec.Struct, frozen=True, array_like=True):
    """A unit of work: a file to be sorted, the number of its part, and its own number in the order of that."""

    part: int
    number: int
    held: Held


@dataclass(frozen=True)
class SortedPart:
    """A `Divided` as sent to tasks: its place, the keys at which ranges end, and the group of each range."""

    place: Placement
    bounds: pl.DataFrame = field(repr=False)
    groups: tuple[int, ...]


@dataclass(frozen=True)
class SortJob:
    """What all tasks of a sort share."""

    compaction: CompactionJob
    parts: tuple[SortedPart, ...]
