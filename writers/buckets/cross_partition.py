"""Cross-partition upsert: the primary key lacks a partition key, so new rows of a key may be in another partition.

A key is in only one partition. If a row has a known key but another partition, the merge engine decides. If it keeps
the newest version, the old row is deleted and the new one inserted. If it combines versions, the new one is written to
the old partition. If it keeps the first version, the old row stays. The partition and bucket of every key are read from
the whole table when writing begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.manifest_entries import IndexFileMeta
from morrow.engine.format.row_kinds import DELETE
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.merge.spec import Rule
from morrow.engine.names import BUCKET, KEY_NUMBER, ORDER, PARTITION, cols, join_by_names
from morrow.engine.plan.filter import NO_FILTER
from morrow.engine.plan.planner import make_plan
from morrow.engine.plan.scan_plan import ScanRequest, Section
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.execution import execute
from morrow.writers.buckets.routers import Routed, split
from morrow.writers.files.data_files import Placement
from morrow.writers.target import WriteTarget

Codes = npt.NDArray[np.int64]
NOWHERE = -1


class CrossPartitionRouter:
    """Router by the current partition and bucket of each key."""

    def __init__(self, target: WriteTarget, snapshot: Snapshot | None) -> None:
        assert target.merge is not None
        self._move = _MOVES[target.merge.rule]
        self._fields = target.partition_fields
        self._places = KeyPlaces(target, snapshot)

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        partition = np.zeros(rows.height, np.int64)
        numbered = rows.with_columns(pl.Series(ORDER, np.arange(rows.height)))
        for place, part in split(numbered, self._fields, 0):
            partition[part[ORDER].to_numpy()] = self._places.partition_code(place.partition, part)
        ids, unique = _number_keys(rows, self._places.key_names)
        moves = self._move(_Batch(rows, partition, ids, unique, *self._places.find(unique)), self._places)
        yield from split(moves.rows, self._fields, moves.buckets)

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        return {}


def _number_keys(rows: pl.DataFrame, names: list[str]) -> tuple[Codes, pl.DataFrame]:
    """Return the number of each row's key, and the keys by number."""
    unique = rows.select(cols(names)).unique(maintain_order=True)
    numbered = unique.with_row_index(KEY_NUMBER)
    ids = join_by_names(rows.select(cols(names)), numbered, names, how="left", maintain_order="left")[KEY_NUMBER]
    return ids.to_numpy().astype(np.int64), unique


@dataclass(frozen=True)
class _Batch:
    """Incoming rows with their partition codes and key numbers, and the keys and their places by key number."""

    rows: pl.DataFrame
    partition: Codes
    ids: Codes
    keys: pl.DataFrame
    old_partition: Codes
    old_bucket: Codes


@dataclass(frozen=True)
class _Moved:
    """Rows to write in their order, and the bucket of each."""

    rows: pl.DataFrame
    buckets: npt.NDArray[np.int32]


def _delete_and_insert(batch: _Batch, places: KeyPlaces) -> _Moved:
    """Put a ``-D`` before each row whose key has moved: the new row with the old partition's columns."""
    order = np.argsort(batch.ids, kind="stable")
    ids, partition = batch.ids[order], batch.partition[order]
    first = np.concatenate([np.ones(1, bool), ids[1:] != ids[:-1]])
    before = np.where(first, batch.old_partition[ids], np.concatenate([partition[:1], partition[:-1]]))
    moves = before != partition
    bucket = batch.old_bucket[ids]
    moving = order[moves]  # in order of keys: buckets are assigned in order of rows
    given = np.full(len(order), NOWHERE)
    given[np.sort(moving)] = places.take_room(batch.partition[np.sort(moving)])
    bucket[moves] = given[moving]
    starts = np.maximum.accumulate(np.where(first | moves, np.arange(len(order)), 0))
    bucket = bucket[starts]
    leaves = moves & (before != NOWHERE)
    left_bucket = np.where(first, batch.old_bucket[ids], np.concatenate([bucket[:1], bucket[:-1]]))[leaves]
    places.give_back(before[leaves], left_bucket)
    last = np.concatenate([ids[1:] != ids[:-1], np.ones(1, bool)])
    places.moved(batch.keys, ids[last], partition[last], bucket[last])

    retracted = places.with_partition(batch.rows[order[leaves]], before[leaves])
    retracted = retracted.with_columns(pl.lit(DELETE, pl.Int8).alias(VALUE_KIND))
    buckets = np.concatenate([left_bucket, bucket])
    position = np.concatenate([order[leaves] * 2, order * 2 + 1])
    arranged = np.argsort(position, kind="stable")
    return _Moved(pl.concat([retracted, batch.rows[order]])[arranged], buckets[arranged].astype(np.int32))


def _settle_batch(batch: _Batch, places: KeyPlaces) -> tuple[Codes, Codes]:
    """Return partition and bucket of each key: the known place, or that of its first row."""
    _, first = np.unique(batch.ids, return_index=True)
    new = batch.old_partition == NOWHERE
    partition = np.where(new, batch.partition[first], batch.old_partition)
    bucket = batch.old_bucket.copy()
    bucket[new] = places.take_room(partition[new])
    places.moved(batch.keys, np.flatnonzero(new), partition[new], bucket[new])
    return partition, bucket


def _write_into_old(batch: _Batch, places: KeyPlaces) -> _Moved:
    partition, bucket = _settle_batch(batch, places)
    wanted = partition[batch.ids]
    rows = batch.rows
    if (wanted != batch.partition).any():
        rows = places.with_partition(rows, wanted)
    return _Moved(rows, bucket[batch.ids].astype(np.int32))


def _keep_old(batch: _Batch, places: KeyPlaces) -> _Moved:
    partition, bucket = _settle_batch(batch, places)
    kept = np.flatnonzero(partition[batch.ids] == batch.partition)
    return _Moved(batch.rows[kept], bucket[batch.ids[kept]].astype(np.int32))


_MOVES: Mapping[Rule, Callable[[_Batch, KeyPlaces], _Moved]] = {
    Rule.NEWEST: _delete_and_insert,
    Rule.UPDATE: _write_into_old,
    Rule.AGGREGATE: _write_into_old,
    Rule.FIRST: _keep_old,
}

REBUILD_RATIO = 4
"""Moved keys are stored separately until they exceed 1/4 of the other keys."""


class KeyPlaces:
    """Partition and bucket of each key. Partitions are coded as numbers from 0."""

    def __init__(self, target: WriteTarget, snapshot: Snapshot | None) -> None:
        self.key_names = list(target.schema.primary_keys)
        self._fields = target.partition_fields
        self._room = target.write.dynamic_bucket_rows
        self._codes: dict[bytes, int] = {}
        self._values: list[pl.DataFrame] = []
        self._counts: dict[int, dict[int, int]] = {}
        keys = {name: to_polars_dtype(target.schema.by_name[name].type) for name in self.key_names}
        empty = pl.DataFrame(schema={**keys, PARTITION: pl.Int64, BUCKET: pl.Int64})
        self._settled = pl.concat([empty, *self._read(target, snapshot)])
        self._moved = empty

    @property
    def partitions(self) -> list[bytes]:
        """The partitions in the order of their codes."""
        return list(self._codes)

    def partition_code(self, partition: bytes, rows: pl.DataFrame) -> int:
        """Return the code of a partition; `rows` are some of its rows."""
        if partition not in self._codes:
            self._codes[partition] = len(self._values)
            self._values.append(rows[:1].select(cols(f.name for f in self._fields)))
        return self._codes[partition]

    def find(self, keys: pl.DataFrame) -> tuple[Codes, Codes]:
        """Return the partition code and bucket of each key, -1 for unknown keys."""
        partition, bucket = np.full(keys.height, NOWHERE), np.full(keys.height, NOWHERE)
        for known in (self._settled, self._moved):
            if known.height:
                found = join_by_names(keys, known, self.key_names, how="left", maintain_order="left")
                if found.height > keys.height:  # if deletions are ignored, moved keys stay in the old partition too
                    found = found.filter(pl.struct(cols(self.key_names)).is_last_distinct())
                here = found[PARTITION].is_not_null().to_numpy()
                partition[here] = found[PARTITION].drop_nulls().to_numpy()
                bucket[here] = found[BUCKET].drop_nulls().to_numpy()
        return partition, bucket

    def moved(self, keys: pl.DataFrame, numbers: Codes, partition: Codes, bucket: Codes) -> None:
        """Record the new place of these keys (rows `numbers` of `keys`)."""
        places = keys[numbers].with_columns(pl.Series(PARTITION, partition), pl.Series(BUCKET, bucket))
        self._moved = _replace_rows(self._moved, places, self.key_names)
        if self._moved.height * REBUILD_RATIO > self._settled.height:
            self._settled = _replace_rows(self._settled, self._moved, self.key_names)
            self._moved = self._moved.clear()

    def take_room(self, partition: Codes) -> Codes:
        """Return a bucket with room for each of these rows: the first that is not full, or a new one."""
        buckets = np.full(len(partition), NOWHERE)
        for code in np.unique(partition).tolist():
            rows = np.flatnonzero(partition == code)
            buckets[rows] = np.concatenate([np.full(taken, bucket) for bucket, taken in self._rooms(code, len(rows))])
        return buckets

    def give_back(self, partition: Codes, bucket: Codes) -> None:
        """Free the room of rows that left their buckets."""
        left, count = np.unique(np.stack([partition, bucket]), axis=1, return_counts=True)
        for code, number, rows in zip(*left.tolist(), count.tolist()):
            counts = self._counts.setdefault(code, {})
            counts[number] = max(counts.get(number, 0) - rows, 0)

    def with_partition(self, rows: pl.DataFrame, partition: Codes) -> pl.DataFrame:
        """Return the rows with the partition columns of these partitions."""
        if not rows.height:
            return rows
        values = pl.concat(self._values)[partition]
        return rows.with_columns(values.get_columns())

    def _rooms(self, code: int, wanted: int) -> Iterator[tuple[int, int]]:
        counts = self._counts.setdefault(code, {})
        bucket = 0
        while wanted:
            taken = min(wanted, max(self._room - counts.get(bucket, 0), 0))
            if taken:
                counts[bucket] = counts.get(bucket, 0) + taken
                wanted -= taken
                yield bucket, taken
            bucket += 1

    def _read(self, target: WriteTarget, snapshot: Snapshot | None) -> Iterator[pl.DataFrame]:
        """Yield the keys of each bucket of the table, with their places."""
        if snapshot is None:
            return
        # Keys in level 0 count as well, although batch reads of some tables do not see them. With deletion vectors,
        # keys of rows marked as dead above level 0 are elsewhere, and writers that do not compact leave rows in level
        # 0.
        merge = target.merge
        if merge is not None and merge.hides_level_zero:
            rule = Rule.NEWEST if merge.rule is Rule.FIRST else merge.rule
            merge = replace(merge, rule=rule, hides_level_zero=False)
        request = ScanRequest(target.schema, target.options, snapshot, tuple(self.key_names), NO_FILTER, merge=merge)
        plan = make_plan(target.metadata, request)
        buckets: dict[tuple[bytes, int], list[Section]] = {}
        for section in plan.sections:
            buckets.setdefault((section.partition_row, section.bucket), []).append(section)
        for (partition, bucket), sections in buckets.items():
            keys = execute.to_polars(replace(plan, sections=tuple(sections)), target.store)
            code = self.partition_code(partition, self._decode(partition, target.where))
            self._counts.setdefault(code, {})[bucket] = keys.height
            yield keys.with_columns(pl.lit(code, pl.Int64).alias(PARTITION), pl.lit(bucket, pl.Int64).alias(BUCKET))

    def _decode(self, partition: bytes, where: str) -> pl.DataFrame:
        """Return the columns of a partition as one row."""
        columns = decode_columns([partition], [f.type for f in self._fields], where=where)
        return pl.DataFrame([c.cast(to_polars_dtype(f.type)).alias(f.name) for f, c in zip(self._fields, columns)])


def _replace_rows(places: pl.DataFrame, newer: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    return pl.concat([join_by_names(places, newer, keys, how="anti"), newer]) if places.height else newer
