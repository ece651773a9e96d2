"""What compaction would do now, by the choices of the writers themselves: nothing is read but metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.append.bucket_compaction import pick_full, pick_window
from morrow.writers.append.small_files import compactable, packs, vectors_of
from morrow.writers.append.writer import UNAWARE
from morrow.writers.buckets.restored import BucketState, restored_partitions
from morrow.writers.files import Placement
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.keyed.keys import key_order_of, trimmed_key
from morrow.writers.keyed.levels import Levels
from morrow.writers.keyed.lookup import LookupStrategy
from morrow.writers.keyed.picks import Picks
from morrow.writers.keyed.strategy import strategy_of
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class PlannedCompaction:
    """Files of one bucket that a compaction would rewrite or move up.

    `output_level` is null where files have no levels, and of postponed rows, which go to several buckets.
    """

    place: Placement
    files: tuple[DataFileMeta, ...]
    output_level: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)


def bucket_states(target: WriteTarget, snapshot: Snapshot | None) -> dict[Placement, BucketState]:
    """Returns the files of all buckets of a snapshot. Raises as `live_entries`."""
    return restored_partitions(target, snapshot, None)


def levels_of(target: WriteTarget, state: BucketState) -> Levels:
    """Returns the merge tree of a bucket of a keyed table. Raises `Unsupported` where files of a level overlap."""
    keys = (key for file in state.files for key in (file.min_key, file.max_key))
    order = key_order_of(trimmed_key(target), where=target.where, keys=keys)
    return Levels.of(state.files, target.write.levels, order, where=target.where)


def planned_compactions(
    target: WriteTarget, states: Mapping[Placement, BucketState], *, full: bool = False
) -> Iterator[PlannedCompaction]:
    """Yields what `Table.compact` would do first in each bucket.

    Raises:
        Unsupported: a table that Morrow does not compact, or files of one level overlap.
    """
    if not target.keyed:
        target = compactable(target)
    for place, state in states.items():
        if not state.files:
            continue
        if not target.keyed:
            yield from _of_appended(target, place, state, full)
        elif place.bucket == POSTPONE_BUCKET:
            yield PlannedCompaction(place, state.files)
        elif (found := _of_tree(target, place, state, full)) is not None:
            yield found


def _of_tree(target: WriteTarget, place: Placement, state: BucketState, full: bool) -> PlannedCompaction | None:
    has_vectors = target.write.deletion_vectors
    vectors = DeletionMaintainer(target, place.partition, place.bucket, state.index_files) if has_vectors else None
    strategy = strategy_of(target.write, lookup=LookupStrategy.of(target).needed)
    picks, levels = Picks(target.write, strategy, vectors), levels_of(target, state)
    unit = picks.full(levels) if full else picks.ordinary(levels)
    return None if unit is None or unit.changes_nothing else PlannedCompaction(place, unit.files, unit.output_level)


def _of_appended(target: WriteTarget, place: Placement, state: BucketState, full: bool) -> Iterator[PlannedCompaction]:
    vectors = vectors_of(target, place, state.index_files)
    if target.options.bucket == UNAWARE:
        for pack in packs(target, state, vectors, full):
            yield PlannedCompaction(place, pack)
        return
    ordered = sorted(state.files, key=lambda file: file.min_sequence_number)
    files = pick_full(ordered, target.write, vectors) if full else pick_window(ordered, target.write).files
    if files:
        yield PlannedCompaction(place, files)
