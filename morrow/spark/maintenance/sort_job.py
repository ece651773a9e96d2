"""The data that the driver and the tasks of a divided sort exchange."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl
from msgspec import msgpack

from morrow.spark.maintenance.compaction_units import CompactionJob, Held

RANGE, GROUP, PIECE, ROWS = "range", "group", "piece", "rows"
PIECES = f"{GROUP} int, {RANGE} int, {PIECE} bigint, {ROWS} binary"
"""Rows of a sort in the shuffle: the group of ranges that one task sorts, the range, the position in the order of the
files, and the rows themselves as Arrow IPC, which keeps every type unchanged.
"""


@dataclass(frozen=True)
class SortedPart:
    """A `Divided` as sent to tasks; `groups` has the number of the group of each range."""

    held: bytes = field(repr=False)
    bounds: pl.DataFrame = field(repr=False)
    groups: tuple[int, ...]


@dataclass(frozen=True)
class SortJob:
    """The common part of the tasks of a sort. `files` has the part and the number of each file that is read."""

    compaction: CompactionJob
    parts: tuple[SortedPart, ...]
    files: tuple[tuple[int, int], ...]

    def held(self, part: int) -> Held:
        return msgpack.decode(self.parts[part].held, type=Held)
