"""Rewrites of sorted runs: files are merged into files of a higher level, or moved there unchanged.

`Rewriter` only merges. Its subclasses in `morrow.writers.keyed.lookup_rewriters` override `rewrite` and `upgrade` to
handle keys that arrive at a higher level (changelogs, deletion vectors).

Runs are merged in key order, one range of keys at a time: any number of runs in bounded memory. Each run is read in
batches. The smallest of the last keys in memory bounds a range of keys that no later batch can add to; the rows below
it are taken from every run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from morrow.engine.format.arrow_buffers import join_slices
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.names import cols, select_exactly
from morrow.readers.merges.engines import fold
from morrow.readers.merges.version_masks import RETRACTS, Rounds, Versions, choose_versions, order_by_count
from morrow.writers.files.bucket_reader import RecordExpiry, StoredFiles
from morrow.writers.files.data_files import Placement, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.keyed.levels import (
    KeyOrder,
    Levels,
    Rows,
    Section,
    SortedRun,
    is_below,
    list_files,
    make_key_order,
    sort_rows,
    trim_key,
)
from morrow.writers.target import WriteTarget

# Merging of the versions of keys by the table's merge engine.

MAX_CHUNKS = 64
"""Maximum chunks of a frame that are examined one by one."""
MAX_SPREAD = 4
"""Parts of a frame are joined before rows are copied if they have at most this many times the rows."""


def join_frames(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Join the frames into one contiguous frame, from which rows are copied fastest.

    The frames are joined column by column, and joined columns are removed from `frames`, so that memory holds the rows
    only once. Slices of the same frame are not copied.
    """
    if len(frames) == 1 and max(frames[0].n_chunks("all")) == 1:
        return frames.pop()
    columns = []
    for name in frames[0].columns:
        parts = [frame[name] for frame in frames]
        whole = join_slices(parts)
        columns.append(pl.concat(parts, rechunk=True) if whole is None else whole)
        frames[:] = [frame.drop(select_exactly(name)) for frame in frames]
    frames.clear()
    return pl.DataFrame(columns)


def merge_versions(target: WriteTarget, rows: pl.DataFrame, *, in_order: bool = False) -> pl.DataFrame:
    """Return one sorted row per key, retractions included: its versions merged by the table's merge engine.

    As in Paimon, a single version stays unchanged, and a key is dropped if all its versions are ignored.

    Args:
        rows: version frames one after another. The versions of a key are ordered by the user's sequence fields, then
            by ``_SEQUENCE_NUMBER``.
        in_order: of versions of a key with equal sequence fields, the older one comes first; this saves a sort.

    Raises `Unsupported`: a retraction that the engine does not support.
    """
    return _pick_versions(target, rows, in_order=in_order).all()


def merge_slices(
    target: WriteTarget, rows: pl.DataFrame, step: int, *, in_order: bool = False, first_number: int | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the result of `merge_versions`, `step` rows at a time.

    `first_number`: the ``_SEQUENCE_NUMBER`` of the first row, if the numbers of all rows are consecutive.
    """
    yield from _pick_versions(target, rows, in_order=in_order, first_number=first_number).slices(step)


def sort_slices(target: WriteTarget, rows: pl.DataFrame, step: int) -> Iterator[pl.DataFrame]:
    """Yield all rows, given in the order of arrival, by key and age, `step` rows at a time."""
    spec = _require_spec(target)
    order, _ = sort_rows(trim_key(target), rows, spec.sequence, [spec.descending] * len(spec.sequence))
    yield from _VersionPick(rows, order).slices(step)


@dataclass(frozen=True)
class _VersionPick:
    """Row numbers of a frame, whose rows are not copied yet.

    `first_number` is the sequence number of the first row, if the numbers of all rows are consecutive.
    """

    rows: pl.DataFrame
    numbers: Rows
    first_number: int | None = None

    @cached_property
    def _are_all_in_order(self) -> bool:
        return len(self.numbers) == self.rows.height and bool((self.numbers[1:] > self.numbers[:-1]).all())

    def all(self) -> pl.DataFrame:
        return self.rows if self._are_all_in_order else self._gather(self.numbers)

    def slices(self, step: int) -> Iterator[pl.DataFrame]:
        for start in range(0, len(self.numbers), step):
            if self._are_all_in_order:
                yield self.rows[start : start + step]
            else:
                yield self._gather(self.numbers[start : start + step])

    def _gather(self, numbers: Rows) -> pl.DataFrame:
        """Copy rows. Columns whose values are known are built again instead of being copied, which is cheaper."""
        made: dict[str, pl.Series] = {}
        if self._only_kind is not None:
            made[VALUE_KIND] = self._only_kind.new_from_index(0, len(numbers))
        if self.first_number is not None:
            made[SEQUENCE_NUMBER] = pl.Series(SEQUENCE_NUMBER, numbers.astype(np.int64) + self.first_number)
        near, places = self._near(numbers)
        copied = near.drop(list(made))[pl.Series(places.astype(np.uint32, copy=False))]
        return pl.DataFrame([made[name] if name in made else copied[name] for name in self.rows.columns])

    def _near(self, numbers: Rows) -> tuple[pl.DataFrame, Rows]:
        """Return a contiguous frame with these rows, from which copying is fast, and their row numbers in it.

        The rows are close together in each sorted run, so only these parts of the frame are joined.
        """
        if len(self._chunk_ends) < 2:
            return self.rows, numbers
        ordered = np.sort(numbers)
        pieces, height, places, shift = list[pl.DataFrame](), 0, numbers.astype(np.int64), 0
        for first, end in pairwise((0, *np.searchsorted(ordered, self._chunk_ends))):
            if first < end:
                low, high = int(ordered[first]), int(ordered[end - 1]) + 1
                places += (numbers >= low) * (height - low - shift)
                pieces.append(self.rows[low:high])
                shift = height - low
                height += high - low
        if height > MAX_SPREAD * len(numbers):
            return self.rows, numbers
        return pl.concat(pieces, rechunk=True), places

    @cached_property
    def _chunk_ends(self) -> Rows:
        """The ends of the frame's chunks; empty if there are more than `MAX_CHUNKS`."""
        lengths = self.rows.to_series(0).chunk_lengths()
        return np.cumsum(lengths if len(lengths) <= MAX_CHUNKS else [])

    @cached_property
    def _only_kind(self) -> pl.Series | None:
        """The row kind if all rows have the same one."""
        kinds = self.rows[VALUE_KIND]
        return kinds[:1] if kinds.min() == kinds.max() else None


def _pick_versions(
    target: WriteTarget, rows: pl.DataFrame, *, in_order: bool, first_number: int | None = None
) -> _VersionPick:
    spec = _require_spec(target)
    age = [*spec.sequence, *([] if in_order else [SEQUENCE_NUMBER])]
    descending = [spec.descending and name != SEQUENCE_NUMBER for name in age]
    order, starts = sort_rows(trim_key(target), rows, age, descending)
    if spec.folds and len(starts) < len(order):
        return _fold_versions(target, rows, order, starts)
    return _VersionPick(rows, choose_versions(spec, rows, order, starts, target.where), first_number)


def _require_spec(target: WriteTarget) -> MergeSpec:
    assert target.merge is not None
    return target.merge


def _fold_versions(target: WriteTarget, rows: pl.DataFrame, order: Rows, starts: Rows) -> _VersionPick:
    """Combine all versions of every key."""
    counts = np.diff(np.append(starts, len(order)))
    alone = counts == 1
    single = np.zeros(rows.height, bool)
    single[order[starts[alone]]] = True
    several = counts[~alone]
    versions = Versions(single, Rounds.of_sorted(order[np.repeat(~alone, counts)], several))
    spec = _require_spec(target)
    fields = [target.schema.by_name[column.name] for column in spec.columns]

    merged = fold(spec, fields, rows, versions, where=target.where).select(cols(rows.columns))
    if not alone.any():
        return _VersionPick(merged, _locate_folded(several))
    both = pl.concat([rows, merged])
    numbers = np.empty(len(starts), np.int64)
    numbers[alone] = order[starts[alone]]
    numbers[~alone] = rows.height + _locate_folded(several)
    return _VersionPick(both, numbers)


def _locate_folded(counts: Rows) -> Rows:
    """Return the row of each key in the fold's result, which is sorted by descending number of versions."""
    places = np.empty(len(counts), np.int64)
    places[order_by_count(counts)] = np.arange(len(counts))
    return places


@dataclass(frozen=True)
class CompactResult:
    """The files that a compaction replaced, the files it made, and the changelog it wrote."""

    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """The new files, without files that were only moved."""
        moved = {file.file_name for file in self.before}
        return (*(file for file in self.after if file.file_name not in moved), *self.changelog)

    def __add__(self, other: CompactResult) -> CompactResult:
        """Return both results, one after the other."""
        return CompactResult(self.before + other.before, self.after + other.after, self.changelog + other.changelog)


class Rewriter:
    """Rewriter that only merges. The writer sets `levels`, all current files of the bucket, before each compaction."""

    def __init__(self, target: WriteTarget, place: Placement, vectors: DeletionMaintainer | None = None) -> None:
        self.target = target
        self.place = place
        self.vectors = vectors
        self.levels: Levels | None = None

    def rewrite(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        """Merge the files of `sections` into new files at `output_level`.

        `drop_deletes`: whether retractions are dropped, because no older file can hold their keys.
        """
        before = list_files(sections)
        frames = merge_sorted(
            self.target,
            self.place,
            sections,
            vectors=self.vectors,
            drop_deletes=drop_deletes,
            expiry=RecordExpiry.of(self.target),
        )
        after = write_files(self.target, self.place, frames, level=output_level, source=FileSource.COMPACT)
        self.replaced(before)
        return CompactResult(before, tuple(after))

    def upgrade(self, output_level: int, file: DataFileMeta) -> CompactResult:
        """Move one file to `output_level` without rewriting it."""
        return CompactResult((file,), (file.upgraded(output_level),))

    def replaced(self, files: Sequence[DataFileMeta]) -> None:
        """Drop the deletion vectors of rewritten (not upgraded) files, which have been applied."""
        if self.vectors is not None:
            for file in files:
                self.vectors.remove(file.file_name)


ALL_LEVELS = 1 << 31
"""A level above all others."""
MAX_WHOLE_BYTES = 384 << 20
"""Maximum memory of neighbouring sections that are merged together."""
RANGE_BYTES = 128 << 20
"""Memory of the rows of a larger section that are merged at a time."""
UNPACKED = 3
"""Approximate upper bound of the ratio of rows' memory to the size of their files."""
MIN_BATCH_ROWS = 1 << 12
MAX_BATCH_ROWS = 1 << 20
"""Maximum rows of a run read at once. A power of two, so that batches end with row groups of a file."""
VALUE_BYTES = 12
"""Approximate memory of a value that is not long."""
REFILLED = 4
"""More rows of a run are read when less than one in this many rows of a batch are left."""
SLICE_ROWS = 1 << 18
"""Merged rows copied at once."""


def merge_sorted(
    target: WriteTarget,
    place: Placement,
    sections: Sequence[Section],
    *,
    vectors: DeletionMaintainer | None = None,
    drop_deletes: bool,
    expiry: RecordExpiry | None = None,
) -> Iterator[pl.DataFrame]:
    """Yield the merged rows of the files as sorted version frames by ascending key ranges, a few in memory at once.

    Args:
        sections: files whose key ranges overlap only within a section, sections in key order.
        vectors: the deletion vectors of the bucket, whose dead rows are left out.
        drop_deletes: whether remaining retractions are dropped.
        expiry: drops versions that have expired.

    Raises `CorruptFile`, `FileMissing`: a data file that cannot be read. `Unsupported`: as `merge_versions`.
    """
    # A newer version may expire before an older one.
    merged_below = ALL_LEVELS if expiry is None else 0
    files = StoredFiles(target, place, list_files(sections), vectors, merged_below=merged_below, expiry=expiry)
    order = make_key_order(trim_key(target), where=target.where)
    for group in _group_sections(sections, len(files.fields)):
        by_age = _order_by_age(group, order)
        for parts in _read_key_ranges(files, by_age or _join_runs(group), group):
            # A single run needs no merge.
            merged = (
                parts
                if len(parts) == 1
                else merge_slices(target, pl.concat(parts), SLICE_ROWS, in_order=by_age is not None)
            )
            yield from (rows.filter(~RETRACTS) for rows in merged) if drop_deletes else merged


def read_versions_by_range(
    target: WriteTarget,
    place: Placement,
    sections: Sequence[Section],
    *,
    vectors: DeletionMaintainer | None = None,
    merged_below: int = 0,
) -> Iterator[pl.DataFrame]:
    """Yield all live rows of the files, by ascending key ranges: unmerged version frames with the column `RUN_LEVEL`.

    Rows that have expired are left out, as in `merge_sorted` for compactions.

    All rows of a key are in one frame, in no particular order. Arguments and errors as for `merge_sorted`;
    `merged_below` as for `StoredFiles`.
    """
    expiry = RecordExpiry.of(target)
    merged_below = merged_below if expiry is None else 0
    files = StoredFiles(
        target, place, list_files(sections), vectors, leveled=True, merged_below=merged_below, expiry=expiry
    )
    order = make_key_order(trim_key(target), where=target.where)
    for group in _group_sections(sections, len(files.fields)):
        runs = _order_by_age(group, order) or _join_runs(group)
        yield from map(pl.concat, _read_key_ranges(files, runs, group))


def _group_sections(sections: Iterable[Section], columns: int) -> Iterator[list[Section]]:
    """Yield groups of neighbouring small sections, and large sections alone."""
    group: list[Section] = []
    for section in sections:
        if group and not _is_small([*group, section], columns):
            yield group
            group = []
        group.append(section)
    if group:
        yield group


def _is_small(sections: Sequence[Section], columns: int) -> bool:
    return _estimate_memory(list_files(sections), columns) <= MAX_WHOLE_BYTES


def _estimate_memory(files: Sequence[DataFileMeta], columns: int) -> int:
    """Return the approximate memory of the rows of files, in bytes."""
    return sum(max(file.file_size * UNPACKED, file.row_count * columns * VALUE_BYTES) for file in files)


def _order_by_age(group: Sequence[Section], order: KeyOrder) -> list[SortedRun] | None:
    """Return the files as sorted runs, each newer than those before it; None if sequence numbers must be compared."""
    levels: dict[int, list[DataFileMeta]] = defaultdict(list)
    for file in list_files(group):
        levels[file.level].append(file)
    runs: list[SortedRun] = [(file,) for file in levels.pop(0, ())]
    runs += [tuple(sorted(run, key=lambda file: order(file.min_key))) for run in levels.values()]
    runs.sort(key=_find_first_number)
    disjoint = all(_find_last_number(older) < _find_first_number(newer) for older, newer in pairwise(runs))
    return runs if disjoint else None


def _join_runs(group: Iterable[Section]) -> list[SortedRun]:
    """Return the runs of sections. Runs of different sections, which do not overlap, are joined."""
    return [run for section in group for run in section]


def _find_first_number(run: SortedRun) -> int:
    return min(file.min_sequence_number for file in run)


def _find_last_number(run: SortedRun) -> int:
    return max(file.max_sequence_number for file in run)


def _read_key_ranges(
    files: StoredFiles, runs: Sequence[SortedRun], group: Sequence[Section]
) -> Iterator[list[pl.DataFrame]]:
    """Yield the rows of the runs, in the order of the runs, all at once or by ascending key ranges."""
    if _is_small(group, len(files.fields)):
        yield files.whole([file for run in runs for file in run])
        return
    # Runs of very different lengths get equal shares, so the longest run determines the size of a range.
    share = RANGE_BYTES // len(runs)
    rows = [_choose_batch_rows(run, share, len(files.fields)) for run in runs]
    batches = [files.batches(run, most) for run, most in zip(runs, rows)]
    ahead = [max(most // REFILLED, 1) for most in rows]
    yield from iterate_key_ranges(batches, files.target.schema.trimmed_primary_keys, ahead)


def _choose_batch_rows(run: SortedRun, most_bytes: int, columns: int) -> int:
    rows = most_bytes * sum(file.row_count for file in run) // max(_estimate_memory(run, columns), 1)
    return min(max(1 << max(rows.bit_length() - 1, 0), MIN_BATCH_ROWS), MAX_BATCH_ROWS)


class RunCursor:
    """Cursor over one sorted run, with at least the next `ahead` rows in memory."""

    def __init__(self, batches: Iterator[pl.DataFrame], key: Sequence[str], ahead: int) -> None:
        self._batches = batches
        self._key = key
        self._ahead = ahead
        self._head = pl.DataFrame()
        self.finished = False
        self._fill()

    def _fill(self) -> None:
        while not self.finished and self.rows < self._ahead:
            self.extend()

    def extend(self) -> None:
        """Read one more batch behind the rows in memory."""
        batch = next(self._batches, None)
        if batch is None:
            self.finished = True
            return
        self._head = pl.concat([self._head, batch]) if self.rows else batch

    @property
    def rows(self) -> int:
        return self._head.height

    @property
    def last_row(self) -> pl.DataFrame:
        """The key of the last row in memory."""
        return self._head.tail(1).select(cols(self._key))

    def take(self, bound: tuple[Any, ...] | None) -> pl.DataFrame:
        """Return and remove the rows with keys below `bound`; all rows if it is None."""
        head = self._head
        count = head.height
        if bound is not None:
            count = head.select(is_below(self._key, bound, head.schema).sum()).item()
        self._head = head[count:]
        self._fill()
        return head[:count]


def iterate_key_ranges(
    runs: Sequence[Iterator[pl.DataFrame]], key: Sequence[str], ahead: Sequence[int]
) -> Iterator[list[pl.DataFrame]]:
    """Yield the rows of sorted runs by ascending ranges of keys: per range a list of frames, in the order of `runs`.

    Args:
        runs: batches of version frames sorted by `key`; a run may hold a key several times.
        ahead: the minimum number of rows of each run in memory. More rows make larger ranges.
    """
    cursors = [RunCursor(run, key, rows) for run, rows in zip(runs, ahead, strict=True)]
    while any(cursor.rows for cursor in cursors):
        unfinished = [cursor for cursor in cursors if not cursor.finished]
        bound, least = _find_least_end(unfinished, key)
        parts = [cursor.take(bound) for cursor in cursors if cursor.rows]
        parts = [part for part in parts if part.height]
        if parts:
            yield parts
        elif least is not None:
            # All rows of this run in memory have one key, which may continue in the next batch.
            least.extend()


def _find_least_end(
    unfinished: Sequence[RunCursor], key: Sequence[str]
) -> tuple[tuple[Any, ...] | None, RunCursor | None]:
    """Return the smallest last key in memory, and the run that has it."""
    if not unfinished:
        return None, None
    ends = pl.concat([cursor.last_row for cursor in unfinished])
    number = int(ends.select(pl.arg_sort_by(cols(key))).item(0, 0))
    return ends.row(number), unfinished[number]
