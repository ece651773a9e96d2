"""Merging of the versions of keys by the table's merge engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.arrow_buffers import join_slices
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.merge.spec import MergeSpec, Rule
from morrow.engine.names import cols, select_exactly
from morrow.readers.merges.engines import fold
from morrow.readers.merges.version_masks import Rounds, Versions, order_by_count
from morrow.writers.keyed.levels import Rows, sort_rows, trim_key
from morrow.writers.target import WriteTarget

MAX_CHUNKS = 64
"""Maximum chunks of a frame that are examined one by one."""
MAX_SPREAD = 4
"""Parts of a frame are joined before rows are copied if they have at most this many times the rows."""

RETRACTS = (pl.col(VALUE_KIND) & RETRACT_BIT) != 0


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

    Raises:
        Unsupported: a retraction that the engine does not support.
    """
    return _pick_versions(target, rows, in_order=in_order).all()


def merge_slices(
    target: WriteTarget, rows: pl.DataFrame, step: int, *, in_order: bool = False, first_number: int | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the result of `merge_versions`, `step` rows at a time.

    Args:
        first_number: the ``_SEQUENCE_NUMBER`` of the first row, if the numbers of all rows are consecutive.
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
        return self.rows if self._are_all_in_order else self._gathered(self.numbers)

    def slices(self, step: int) -> Iterator[pl.DataFrame]:
        for start in range(0, len(self.numbers), step):
            if self._are_all_in_order:
                yield self.rows[start : start + step]
            else:
                yield self._gathered(self.numbers[start : start + step])

    def _gathered(self, numbers: Rows) -> pl.DataFrame:
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
    return _VersionPick(rows, _choose_versions(spec, rows, order, starts, target.where), first_number)


def _require_spec(target: WriteTarget) -> MergeSpec:
    assert target.merge is not None
    return target.merge


def _choose_versions(spec: MergeSpec, rows: pl.DataFrame, order: Rows, starts: Rows, where: str) -> Rows:
    """Return one version of every key: the first for first-row, the newest for other engines."""
    first = spec.rule is Rule.FIRST
    several = len(starts) < len(order)
    if several and (first or spec.ignore_delete) and rows.select(RETRACTS.any()).item():
        order, starts = _drop_retractions(spec, rows, order, starts, where)
    if len(starts) == len(order):
        return order
    if first:
        return order[starts]
    ends: Rows = np.append(starts[1:], len(order)) - 1
    return order[ends]


def _drop_retractions(spec: MergeSpec, rows: pl.DataFrame, order: Rows, starts: Rows, where: str) -> tuple[Rows, Rows]:
    """Return the order and the starts without the retractions of keys with several versions."""
    counts = np.diff(np.append(starts, len(order)))
    left_out = rows.select(RETRACTS).to_series().to_numpy()[order] & np.repeat(counts > 1, counts)
    if not spec.ignore_delete and left_out.any():
        raise Unsupported(
            f"a retraction (-U or -D) in the merge engine {spec.engine}",
            where=where,
            hint="'ignore-delete' = 'true' leaves retractions out",
        )
    numbers = np.repeat(np.arange(len(starts)), counts)[~left_out]
    kept = np.flatnonzero(np.diff(numbers, prepend=-1))
    return order[~left_out], kept


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
