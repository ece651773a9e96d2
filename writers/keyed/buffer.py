"""The sort buffer of level 0: numbers rows as they arrive, sorts them by key, and spills them when too many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.names import cols
from morrow.writers.keyed.cursors import key_ranges_of
from morrow.writers.keyed.merging import joined, merged_slices, sorted_slices
from morrow.writers.keyed.spill import SpilledRun, SpillFolder
from morrow.writers.target import WriteTarget

RUN_BYTES = 64 << 20
"""The bytes of rows of a spilled run: while it is sorted, it is in memory twice."""
BATCH_BYTES = 1 << 20
"""The bytes of a batch of a spilled run: at least one of every run is in memory while they are merged."""
AHEAD_BYTES = 16 << 20
"""The least memory of all runs together during a merge."""
MOST_RUNS = 64
MERGED_RUNS = 32
"""The adjacent runs merged into one when there are `MOST_RUNS`: those with the fewest rows."""
SLICE_ROWS = 1 << 17
"""Rows of a sorted buffer copied at once."""


class SortBuffer:
    """The rows of one bucket that are not in files yet.

    Args:
        next_number: the sequence number of the first row.
    """

    def __init__(self, target: WriteTarget, next_number: int) -> None:
        self._target = target
        self.next_number = next_number
        self._names = [*(field.name for field in target.schema.fields), SEQUENCE_NUMBER, VALUE_KIND]
        self._frames: list[pl.DataFrame] = []
        self._runs: list[SpilledRun] = []
        self._folder: SpillFolder | None = None
        self._widest = 1.0  # bytes of a row in the run with the widest rows
        self.bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._frames and not self._runs

    @property
    def is_spilled(self) -> bool:
        return bool(self._runs)

    @property
    def rows(self) -> int:
        """The number of rows in memory."""
        return sum(frame.height for frame in self._frames)

    def add(self, rows: pl.DataFrame) -> None:
        """Takes rows in their order: the table's columns and ``_VALUE_KIND``."""
        if not rows.height:
            return
        end = self.next_number + rows.height
        numbers = pl.int_range(self.next_number, end, dtype=pl.Int64, eager=True).alias(SEQUENCE_NUMBER)
        self.next_number = end
        frame = rows.with_columns(numbers, pl.col(VALUE_KIND).cast(pl.Int8)).select(cols(self._names))
        self._frames.append(frame)
        self.bytes += int(frame.estimated_size())

    def spill(self) -> None:
        """Moves the rows in memory to temporary files, as sorted runs."""
        for rows in self._pieces(RUN_BYTES):
            width = max(rows.estimated_size() / rows.height, 1)
            self._widest = max(self._widest, width)
            self._runs.append(self._spilled(sorted_slices(self._target, rows, max(int(BATCH_BYTES / width), 1))))
            if len(self._runs) >= MOST_RUNS:
                self._merge_runs()

    def _spilled(self, batches: Iterator[pl.DataFrame]) -> SpilledRun:
        if self._folder is None:
            self._folder = SpillFolder()
        return self._folder.write(batches)

    def _merge_runs(self) -> None:
        """Joins adjacent runs into one, which keeps every version and the position that gives their age."""
        rows = [run.rows for run in self._runs]
        windows = range(len(rows) - MERGED_RUNS + 1)
        first = min(windows, key=lambda start: sum(rows[start : start + MERGED_RUNS]))
        chosen = slice(first, first + MERGED_RUNS)
        merged, step = self._runs[chosen], max(int(BATCH_BYTES / self._widest), 1)
        ranges = map(pl.concat, self._ranges(merged))
        self._runs[chosen] = [
            self._spilled(batch for part in ranges for batch in sorted_slices(self._target, part, step))
        ]
        for run in merged:
            run.path.unlink()

    def _pieces(self, most_bytes: int) -> Iterator[pl.DataFrame]:
        """Yields the rows in memory, some at a time in the order of arrival; each piece is released in turn."""
        frames, self._frames, self.bytes = self._frames, [], 0
        frames.reverse()
        while frames:
            piece = [frames.pop()]
            size = piece[0].estimated_size()
            while frames and size + frames[-1].estimated_size() <= most_bytes:
                piece.append(frames.pop())
                size += piece[-1].estimated_size()
            rows = joined(piece)
            step = max(int(rows.height * most_bytes // max(size, 1)), 1)
            for start in range(0, rows.height, step):
                yield rows[start : start + step]

    def versions(self) -> Iterator[pl.DataFrame]:
        """Yields all rows by key and age, unmerged, as version frames."""
        if not self._runs:
            yield from sorted_slices(self._target, self._in_memory(), SLICE_ROWS)
            return
        self.spill()
        for parts in self._ranges(self._runs):
            yield from sorted_slices(self._target, pl.concat(parts), SLICE_ROWS)

    def merged(self) -> Iterator[pl.DataFrame]:
        """Yields one row per key by the table's merge engine, retractions included, as sorted version frames."""
        if not self._runs:
            rows = self._in_memory()
            first = self.next_number - rows.height
            yield from merged_slices(self._target, rows, SLICE_ROWS, in_order=True, first_number=first)
            return
        self.spill()
        for parts in self._ranges(self._runs):
            yield from merged_slices(self._target, pl.concat(parts), SLICE_ROWS, in_order=True)

    def _in_memory(self) -> pl.DataFrame:
        self._frames = [joined(self._frames)]
        return self._frames[0]

    def _ranges(self, runs: Sequence[SpilledRun]) -> Iterator[list[pl.DataFrame]]:
        """Yields the rows of each run in one range of keys after another."""
        ahead = max(int(AHEAD_BYTES / self._widest / len(runs)), 1)
        batches = [run.batches() for run in runs]
        return key_ranges_of(batches, self._target.schema.trimmed_primary_keys, [ahead] * len(batches))

    def clear(self) -> None:
        """Drops all rows and removes the temporary files."""
        self._frames, self._runs, self.bytes = [], [], 0
        if self._folder is not None:
            self._folder.close()
            self._folder = None
