"""Merges sorted runs of data files in key order, one range of keys at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import polars as pl

from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.writers.files import Placement
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.files.stored import StoredFiles
from morrow.writers.keyed.cursors import key_ranges_of
from morrow.writers.keyed.keys import key_order_of, trimmed_key
from morrow.writers.keyed.levels import KeyOrder, Section, SortedRun, files_of
from morrow.writers.keyed.merging import RETRACTS, merged_slices
from morrow.writers.target import WriteTarget

WHOLE_BYTES = 384 << 20
"""The most memory of neighbouring sections that are merged in one piece."""
RANGE_BYTES = 128 << 20
"""The memory of the heads of the runs of a larger section."""
UNPACKED = 3
"""The approximate upper bound of the ratio of rows' memory to the size of their files."""
LEAST_BATCH = 1 << 12
MOST_BATCH = 1 << 20
"""The most rows of a run that are read at once: a power of two, so that batches end where row groups of a file do."""
VALUE_BYTES = 12
"""The approximate memory of a value that is not long."""
REFILLED = 4
"""A run is read further when less than one in this many rows of a batch are left."""
SLICE_ROWS = 1 << 18
"""Merged rows copied at once."""


def sorted_merge(
    target: WriteTarget,
    place: Placement,
    sections: Sequence[Section],
    *,
    vectors: DeletionMaintainer | None = None,
    drop_deletes: bool,
) -> Iterator[pl.DataFrame]:
    """Yields the merged rows of the files as sorted version frames by ascending key ranges, a few in memory at once.

    Args:
        sections: files whose key ranges overlap only within a section, sections in key order.
        vectors: the deletion vectors of the bucket, whose dead rows are left out.
        drop_deletes: whether remaining retractions are dropped.

    Raises:
        CorruptFile, FileMissing: a data file that cannot be read. Unsupported: as `merge_versions`.
    """
    files = StoredFiles(target, place, files_of(sections), vectors)
    order = key_order_of(trimmed_key(target), where=target.where)
    for group in _groups(sections, len(files.fields)):
        by_age = _by_age(group, order)
        for parts in _key_ranges(files, by_age or _runs(group), group):
            # A single run needs no merge.
            merged = (
                parts
                if len(parts) == 1
                else merged_slices(target, pl.concat(parts), SLICE_ROWS, in_order=by_age is not None)
            )
            yield from (rows.filter(~RETRACTS) for rows in merged) if drop_deletes else merged


def versions_by_range(
    target: WriteTarget,
    place: Placement,
    sections: Sequence[Section],
    *,
    vectors: DeletionMaintainer | None = None,
) -> Iterator[pl.DataFrame]:
    """Yields all live rows of the files, by ascending key ranges: unmerged version frames with the column `RUN_LEVEL`.

    All rows of a key are in one frame, in no particular order. Arguments and errors as for `sorted_merge`.
    """
    files = StoredFiles(target, place, files_of(sections), vectors, leveled=True)
    order = key_order_of(trimmed_key(target), where=target.where)
    for group in _groups(sections, len(files.fields)):
        runs = _by_age(group, order) or _runs(group)
        yield from map(pl.concat, _key_ranges(files, runs, group))


def _groups(sections: Iterable[Section], columns: int) -> Iterator[list[Section]]:
    """Yields neighbouring sections together as long as they are small."""
    group: list[Section] = []
    for section in sections:
        if group and not _is_small([*group, section], columns):
            yield group
            group = []
        group.append(section)
    if group:
        yield group


def _is_small(sections: Sequence[Section], columns: int) -> bool:
    return _memory(files_of(sections), columns) <= WHOLE_BYTES


def _memory(files: Sequence[DataFileMeta], columns: int) -> int:
    """Returns the approximate memory of the rows of files, in bytes."""
    return sum(max(file.file_size * UNPACKED, file.row_count * columns * VALUE_BYTES) for file in files)


def _by_age(group: Sequence[Section], order: KeyOrder) -> list[SortedRun] | None:
    """Returns the files as sorted runs, each newer than those before it; None if sequence numbers must be compared."""
    levels: dict[int, list[DataFileMeta]] = defaultdict(list)
    for file in files_of(group):
        levels[file.level].append(file)
    runs: list[SortedRun] = [(file,) for file in levels.pop(0, ())]
    runs += [tuple(sorted(run, key=lambda file: order(file.min_key))) for run in levels.values()]
    runs.sort(key=_first_number)
    disjoint = all(_last_number(older) < _first_number(newer) for older, newer in pairwise(runs))
    return runs if disjoint else None


def _runs(group: Iterable[Section]) -> list[SortedRun]:
    """Returns the runs of sections; those of sections that do not overlap are joined."""
    return [run for section in group for run in section]


def _first_number(run: SortedRun) -> int:
    return min(file.min_sequence_number for file in run)


def _last_number(run: SortedRun) -> int:
    return max(file.max_sequence_number for file in run)


def _key_ranges(
    files: StoredFiles, runs: Sequence[SortedRun], group: Sequence[Section]
) -> Iterator[list[pl.DataFrame]]:
    """Yields the rows of the runs, all at once or by ascending key ranges; in the order of the runs."""
    if _is_small(group, len(files.fields)):
        yield files.whole([file for run in runs for file in run])
        return
    # Runs of very different lengths get equal shares: the longest then decides how far a range reaches.
    share = RANGE_BYTES // len(runs)
    rows = [_batch_rows(run, share, len(files.fields)) for run in runs]
    batches = [files.batches(run, most) for run, most in zip(runs, rows)]
    ahead = [max(most // REFILLED, 1) for most in rows]
    yield from key_ranges_of(batches, files.target.schema.trimmed_primary_keys, ahead)


def _batch_rows(run: SortedRun, most_bytes: int, columns: int) -> int:
    rows = most_bytes * sum(file.row_count for file in run) // max(_memory(run, columns), 1)
    return min(max(1 << max(rows.bit_length() - 1, 0), LEAST_BATCH), MOST_BATCH)
