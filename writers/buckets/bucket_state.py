"""State of buckets when writing begins: their live data files and index files in the newest snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.manifest_entries import (
    DataFileMeta,
    IndexFileMeta,
    drop_value_stats,
    index_entries_of,
    to_data_files,
)
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.pruning import has_cut_keys, has_misplaced_keys
from morrow.writers.commit.base_entries import read_live_entries
from morrow.writers.files.data_files import Placement
from morrow.writers.target import WriteTarget

BUCKET = ["_PARTITION", "_BUCKET"]


@dataclass(frozen=True)
class BucketState:
    """The files of one bucket in one snapshot, in the order in which they were committed.

    `total_buckets` is the number of buckets with which the partition was written, None if the bucket is empty.
    `version` identifies the snapshot like `CommitMessage.based_on`.
    """

    files: tuple[DataFileMeta, ...] = ()
    total_buckets: int | None = None
    index_files: tuple[IndexFileMeta, ...] = ()
    snapshot_id: int | None = None
    version: str | None = None

    @property
    def max_sequence_number(self) -> int:
        """The greatest sequence number in the bucket, -1 if it is empty."""
        return max((file.max_sequence_number for file in self.files), default=-1)


class _StoredState(BucketState):
    """State that decodes its files from their entries on first use: many writers only need sequence numbers."""

    _entries: pl.DataFrame
    _drop_stats: bool

    def __init__(
        self,
        entries: pl.DataFrame,
        total_buckets: int | None,
        index_files: tuple[IndexFileMeta, ...],
        snapshot: Snapshot,
        *,
        drop_stats: bool,
    ) -> None:
        # Bypasses the frozen class, and leaves out the field `files`, which would hide the property.
        members = {
            "total_buckets": total_buckets,
            "index_files": index_files,
            "snapshot_id": snapshot.id,
            "version": snapshot.delta_manifest_list,
            "_entries": entries,
            "_drop_stats": drop_stats,
        }
        for name, value in members.items():
            object.__setattr__(self, name, value)

    @cached_property
    def files(self) -> tuple[DataFileMeta, ...]:
        files = to_data_files(self._entries)
        return tuple(map(drop_value_stats, files) if self._drop_stats else files)

    @property
    def max_sequence_number(self) -> int:
        newest = self._entries["_MAX_SEQUENCE_NUMBER"].max()
        return newest if isinstance(newest, int) else -1


def restore_buckets(
    target: WriteTarget, snapshot: Snapshot | None, places: Sequence[Placement], *, adds_rows: bool = False
) -> dict[Placement, BucketState]:
    """Return the state of each of these buckets; an empty bucket still has its partition's number of buckets.

    Raises:
        CorruptFile, FileMissing: as `engine.plan.entries.read_live_entries`. Unsupported: if the caller `adds_rows`,
            files of these partitions hold keys of other buckets, or keys that ORC changes, and the rows would not
            replace theirs.
    """
    if snapshot is None:
        return {place: BucketState() for place in places}
    partitions = {place.partition for place in places}
    frame = read_live_entries(target.metadata, snapshot, target.schema, partitions)
    if adds_rows and has_misplaced_keys(target.metadata, target.schema, target.options, frame):
        raise Unsupported(
            "writing rows to a table whose keys lie in other buckets than their hashes say",
            where=target.where,
            hint=f"pypaimon before 1.4 wrote them; move them by `table.rescale({target.options.bucket})`",
        )
    if adds_rows and has_cut_keys(target.metadata, target.schema, frame):
        raise Unsupported(
            "writing rows beside CHAR keys with trailing blanks, which ORC drops,",
            where=target.where,
            hint="copy the rows to a table with VARCHAR keys or another file.format",
        )
    totals = _count_partition_buckets(frame)
    found = _build_states(target, snapshot, _filter_buckets(frame, places), totals, partitions)
    version = snapshot.delta_manifest_list
    return {
        place: found.get(place)
        or BucketState(total_buckets=totals.get(place.partition), snapshot_id=snapshot.id, version=version)
        for place in places
    }


def _filter_buckets(frame: pl.DataFrame, places: Sequence[Placement]) -> pl.DataFrame:
    """Return the entries of these buckets from the entries of their partitions."""
    if len(places) == 1:
        return frame.filter(frame["_BUCKET"] == places[0].bucket)
    wanted = pl.DataFrame(
        {"_PARTITION": [p.partition for p in places], "_BUCKET": [p.bucket for p in places]},
        schema={"_PARTITION": pl.Binary, "_BUCKET": pl.Int32},
    )
    return frame.join(wanted.unique(), on=BUCKET, how="semi", maintain_order="left")


def count_buckets(target: WriteTarget, snapshot: Snapshot | None, partitions: Sequence[bytes]) -> dict[bytes, int]:
    """Return the number of buckets of each of these partitions, without empty ones. Raises as `restore_buckets`."""
    return (
        {}
        if snapshot is None
        else _count_partition_buckets(read_live_entries(target.metadata, snapshot, target.schema, set(partitions)))
    )


def restore_partitions(
    target: WriteTarget, snapshot: Snapshot | None, partitions: Sequence[bytes] | None
) -> dict[Placement, BucketState]:
    """Return the state of every non-empty bucket of these partitions (None: of all).

    Raises: as `restore_buckets`.
    """
    if snapshot is None:
        return {}
    kept = None if partitions is None else set(partitions)
    frame = read_live_entries(target.metadata, snapshot, target.schema, kept)
    return _build_states(target, snapshot, frame, _count_partition_buckets(frame), kept)


def filter_bucket_numbers(
    states: Mapping[Placement, BucketState], buckets: Sequence[range] | None
) -> Mapping[Placement, BucketState]:
    """Return the states of buckets with these numbers; None: all."""
    if buckets is None:
        return states
    return {place: state for place, state in states.items() if any(place.bucket in numbers for numbers in buckets)}


def _build_states(
    target: WriteTarget,
    snapshot: Snapshot,
    frame: pl.DataFrame,
    totals: Mapping[bytes, int],
    partitions: Set[bytes] | None,
) -> dict[Placement, BucketState]:
    entries = {
        Placement(partition, bucket): rows
        for (partition, bucket), rows in frame.partition_by(BUCKET, maintain_order=True, as_dict=True).items()
    }
    indexes = _read_index_files(target, snapshot, partitions)
    return {
        place: _StoredState(
            entries.get(place, frame[:0]),
            totals.get(place.partition),
            tuple(indexes.get(place, ())),
            snapshot,
            drop_stats=target.write.manifest_drop_stats,
        )
        for place in dict.fromkeys((*entries, *indexes))
    }


def _read_index_files(
    target: WriteTarget, snapshot: Snapshot, partitions: Set[bytes] | None
) -> dict[Placement, list[IndexFileMeta]]:
    frame = read_index_entries(target.metadata, snapshot)
    if frame is None:
        return {}
    frame = frame.filter(frame["_GLOBAL_INDEX"].is_null())
    if partitions is not None:
        frame = frame.filter(frame["_PARTITION"].is_in(list(partitions)))
    found: dict[Placement, list[IndexFileMeta]] = {}
    for entry in index_entries_of(frame):
        found.setdefault(Placement(entry.partition, entry.bucket), []).append(entry.file)
    return found


def _count_partition_buckets(frame: pl.DataFrame) -> dict[bytes, int]:
    """Return the number of buckets of each partition, from its newest file that is not postponed."""
    counted = frame.filter(frame["_BUCKET"] != POSTPONE_BUCKET)
    return dict(zip(counted["_PARTITION"].to_list(), counted["_TOTAL_BUCKETS"].to_list(), strict=True))
