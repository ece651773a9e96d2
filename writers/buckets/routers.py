"""Routers of incoming rows to partitions and buckets, and the state of the buckets when writing begins.

A router assigns a partition and a bucket to each row, and splits a frame by both. Buckets are fixed by the bucket
function of the bucket key, or there is only one.

Batch writes to tables with ``bucket`` = -2 write rows to the buckets at once: a partition that has buckets keeps their
number, a new one gets ``postpone.default-bucket-num``, or as many as its rows need. An overwrite gives the option's
number to every partition that it writes. Rows already in bucket -2 stay there.

The state of a bucket is its live data files and index files in the newest snapshot.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.binary_row import compute_fixed_width
from morrow.engine.format.binary_row_encoder import encode_columns
from morrow.engine.format.buckets import compute_buckets
from morrow.engine.format.manifest_entries import (
    DataFileMeta,
    IndexFileMeta,
    drop_value_stats,
    index_entries_of,
    to_data_files,
)
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.names import BUCKET, get_series
from morrow.engine.options.declared.table import (
    POSTPONE_BATCH_WRITE_FIXED_BUCKET_MAX_PARALLELISM,
    POSTPONE_DEFAULT_BUCKET_NUM,
    POSTPONE_TARGET_ROW_NUM_PER_BUCKET,
    POSTPONE_TARGET_SIZE_PER_BUCKET,
)
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.pruning import has_cut_keys, has_misplaced_keys, has_rehashed_keys
from morrow.engine.structs import replace
from morrow.writers.commit.manifests import read_live_entries
from morrow.writers.files.data_files import Placement
from morrow.writers.target import WriteTarget

BUCKET_KEY = ["_PARTITION", "_BUCKET"]


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
        CorruptFile, FileMissing: as `engine.plan.entries.read_live_entries`. Unsupported: files of these partitions
            hold negative keys of a narrower type; or if the caller `adds_rows`, keys of other buckets, or keys that ORC
            changes. New rows would not replace rows of these keys, and compacted files would no longer distinguish
            them.
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
    _check_hashes(target, frame)
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
    return frame.join(wanted.unique(), on=BUCKET_KEY, how="semi", maintain_order="left")


def count_buckets(target: WriteTarget, snapshot: Snapshot | None, partitions: Sequence[bytes]) -> dict[bytes, int]:
    """Return the number of buckets of each of these partitions, without empty ones. Raises as `restore_buckets`."""
    return (
        {}
        if snapshot is None
        else _count_partition_buckets(read_live_entries(target.metadata, snapshot, target.schema, set(partitions)))
    )


def restore_partitions(
    target: WriteTarget, snapshot: Snapshot | None, partitions: Sequence[bytes] | None, *, rewrites: bool = False
) -> dict[Placement, BucketState]:
    """Return the state of every non-empty bucket of these partitions (None: of all).

    `rewrites`: whether the caller rewrites the files.

    Raises: as `restore_buckets`.
    """
    if snapshot is None:
        return {}
    kept = None if partitions is None else set(partitions)
    frame = read_live_entries(target.metadata, snapshot, target.schema, kept)
    if rewrites:
        _check_hashes(target, frame)
    return _build_states(target, snapshot, frame, _count_partition_buckets(frame), kept)


def _check_hashes(target: WriteTarget, frame: pl.DataFrame) -> None:
    """Raise `Unsupported` for negative keys of a narrower type: they hash differently now, which new files hide."""
    if has_rehashed_keys(target.metadata, target.schema, target.options, frame):
        moves = f"move them by `table.rescale({target.options.bucket})`"
        raise Unsupported(
            "writing beside negative keys of a type that was widened, which have other buckets now,",
            where=target.where,
            hint=moves if target.options.bucket > 0 else "copy the rows to a new table",
        )


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
        for (partition, bucket), rows in frame.partition_by(BUCKET_KEY, maintain_order=True, as_dict=True).items()
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


Routed: TypeAlias = tuple[Placement, pl.DataFrame]
Buckets: TypeAlias = npt.NDArray[np.int32]


class Router(Protocol):
    """Router that splits incoming rows, as frames from `writers.ingest.conversion`, by partition and bucket."""

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        """Yield the rows of each bucket, in their order."""
        ...

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        """Write new index files since the last call; return each with the file that it replaces."""
        ...


class StatelessRouter:
    """Router that only depends on the row itself. Subclasses define `buckets`."""

    def __init__(self, partition_fields: Sequence[DataField]) -> None:
        self._partition_fields = tuple(partition_fields)

    def buckets(self, rows: pl.DataFrame) -> Buckets | int:
        """Return the bucket of each row, or one bucket for all."""
        raise NotImplementedError

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        yield from split(rows, self._partition_fields, self.buckets(rows))

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        return {}


def split(rows: pl.DataFrame, partition_fields: Sequence[DataField], buckets: Buckets | int) -> Iterator[Routed]:
    """Yield the rows of each partition and bucket, in their order, the buckets in order of their first row."""
    if isinstance(buckets, int):
        if not partition_fields:
            yield Placement(encode_partition_row(rows[:1], ()), buckets), rows
            return
        parts = _split_by_partition(rows, partition_fields, None)
        for partition, part in zip(_encode_partitions(parts, partition_fields), parts):
            yield Placement(partition, buckets), part
        return
    parts = _split_by_partition(rows.with_columns(pl.Series(BUCKET, buckets)), partition_fields, BUCKET)
    for partition, part in zip(_encode_partitions(parts, partition_fields), parts):
        yield Placement(partition, part.drop_in_place(BUCKET)[0]), part


def _split_by_partition(
    rows: pl.DataFrame, partition_fields: Sequence[DataField], bucket: str | None
) -> list[pl.DataFrame]:
    """Split rows by the bytes of their partition, and by a column of buckets."""
    names = [*(f.name for f in partition_fields), *([] if bucket is None else [bucket])]
    dtypes = rows.schema
    if not any(dtypes[name].is_float() for name in names):
        return rows.partition_by(names, maintain_order=True)
    # Polars groups 0.0 with -0.0, and all NaNs, but these are separate partitions.
    keys = pl.DataFrame([_to_bits(get_series(rows, name)).alias(str(i)) for i, name in enumerate(names)])
    groups = keys.with_row_index("row").group_by(keys.columns, maintain_order=True).agg("row")["row"]
    return [rows[numbers] for numbers in groups]


def _to_bits(column: pl.Series) -> pl.Series:
    """Return floats as integers of the same bits, null for null; other columns unchanged."""
    if not column.dtype.is_float():
        return column
    values = column.fill_null(0.0).to_numpy()
    bits = pl.Series(values.view(np.dtype(f"u{values.itemsize}")))
    return bits.zip_with(column.is_not_null(), pl.Series([None], dtype=bits.dtype))


def _encode_partitions(parts: Sequence[pl.DataFrame], partition_fields: Sequence[DataField]) -> list[bytes]:
    """Return the partition of each frame as a BinaryRow (arity first)."""
    if not partition_fields or not parts:
        return [encode_partition_row(part[:1], ()) for part in parts]
    firsts = pl.concat([part[:1] for part in parts])
    return encode_rows(firsts, partition_fields)


def encode_partition_row(first: pl.DataFrame, partition_fields: Sequence[DataField]) -> bytes:
    """Return the partition of a frame of one row."""
    if not partition_fields:
        return struct.pack(">i", 0) + bytes(compute_fixed_width(0))
    return encode_rows(first, partition_fields)[0]


def encode_rows(rows: pl.DataFrame, fields: Sequence[DataField]) -> list[bytes]:
    """Return the BinaryRows (arity first) of a few rows."""
    encoded = encode_columns([get_series(rows, f.name) for f in fields], [f.type for f in fields])
    arity = struct.pack(">i", len(fields))
    return [arity + encoded.row(i) for i in range(rows.height)]


class FixedRouter(StatelessRouter):
    """Router by ``bucket-function.type`` over ``bucket-key``, or else over the primary key without partition keys.

    `count` is the number of buckets of a partition, `keys` are the arguments of `function`.
    """

    def __init__(self, target: WriteTarget) -> None:
        super().__init__(target.partition_fields)
        self.count = target.options.bucket
        self.function = target.options.bucket_function
        names = target.options.bucket_key or target.schema.trimmed_primary_keys
        if not names:
            raise InvalidArgument(
                f"{target.where}: an append table of {self.count} buckets needs the option bucket-key"
            )
        self.keys = tuple(target.schema.column(name) for name in names)

    def buckets(self, rows: pl.DataFrame) -> Buckets | int:
        if self.count == 1:
            return 0
        columns = [get_series(rows, f.name) for f in self.keys]
        return compute_buckets(columns, [f.type for f in self.keys], self.count, self.function)


class SingleRouter(StatelessRouter):
    """Router by partition only, for append tables without buckets and for postponed rows."""

    def __init__(self, partition_fields: Sequence[DataField], bucket: int) -> None:
        super().__init__(partition_fields)
        self._bucket = bucket

    def buckets(self, rows: pl.DataFrame) -> int:  # noqa: ARG002 - rows do not matter here
        return self._bucket


def estimate_bucket_count(target: WriteTarget, rows: int, size: int) -> int:
    """Return the number of buckets of a partition without buckets that gets this number of rows and bytes.

    Raises `InvalidArgument`: a number of buckets, or a target of rows or bytes, that is not positive.
    """
    write = target.write
    if write.given.has(POSTPONE_DEFAULT_BUCKET_NUM):
        if write.postpone_buckets < 1:
            raise write.given.refused(POSTPONE_DEFAULT_BUCKET_NUM, "it is a positive number")
        return write.postpone_buckets
    by_rows = write.postpone_bucket_rows
    option = POSTPONE_TARGET_SIZE_PER_BUCKET if by_rows is None else POSTPONE_TARGET_ROW_NUM_PER_BUCKET
    amount, most = (size, write.postpone_bucket_bytes) if by_rows is None else (rows, by_rows)
    if most < 1:
        raise write.given.refused(option, "it is a positive number")
    return max(-(-amount // most), 1)


class PartitionBucketsRouter:
    """Router by the bucket key among the buckets of the row's partition.

    A new partition gets as many buckets as its first rows need, rounded up to a power of two as in Java.
    """

    def __init__(self, target: WriteTarget, snapshot: Snapshot | None, *, overwrite: bool) -> None:
        self._target = target
        self._snapshot = snapshot
        self._anew = overwrite and target.write.given.has(POSTPONE_DEFAULT_BUCKET_NUM)
        names = target.options.bucket_key or target.schema.trimmed_primary_keys
        self._keys = tuple(target.schema.column(name) for name in names)
        self._counts: dict[bytes, int] = {}

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        parts = list(split(rows, self._target.partition_fields, 0))
        self._learn({place.partition: part for place, part in parts})
        for place, part in parts:
            count = self._counts[place.partition]
            if count == 1:
                yield place, part
                continue
            kinds = [field.type for field in self._keys]
            columns = [part[field.name] for field in self._keys]
            buckets = compute_buckets(columns, kinds, count, self._target.options.bucket_function)
            numbered = part.with_columns(pl.Series(BUCKET, buckets))
            for one in numbered.partition_by(BUCKET, maintain_order=True):
                yield Placement(place.partition, one[BUCKET][0]), one.drop(BUCKET)

    def total_buckets(self, partition: bytes) -> int:
        """Return the number of buckets of a partition."""
        self._learn({partition: None})
        return self._counts[partition]

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        return {}

    def _learn(self, partitions: Mapping[bytes, pl.DataFrame | None]) -> None:
        new = [partition for partition in partitions if partition not in self._counts]
        if new:
            known = {} if self._anew else count_buckets(self._target, self._snapshot, new)
            self._counts |= {one: known.get(one) or self._choose_count(partitions[one]) for one in new}

    def _choose_count(self, rows: pl.DataFrame | None) -> int:
        height, size = (0, 0) if rows is None else (rows.height, int(rows.estimated_size()))
        write = self._target.write
        count, most = estimate_bucket_count(self._target, height, size), write.postpone_max_buckets
        if write.given.has(POSTPONE_DEFAULT_BUCKET_NUM):
            return count
        if most < 1:
            raise write.given.refused(POSTPONE_BATCH_WRITE_FIXED_BUCKET_MAX_PARALLELISM, "it is a positive number")
        return min(1 << (count - 1).bit_length(), most)


def set_bucket_count(target: WriteTarget, count: int) -> WriteTarget:
    """Return the table with this number of buckets."""
    return replace(target, options=replace(target.options, bucket=count))


def postpone_rows(target: WriteTarget) -> WriteTarget:
    """Return the table for a stream of commits, which postpones rows if ``bucket`` is -2."""
    return replace(target, write=replace(target.write, postpone_fixed=False))
