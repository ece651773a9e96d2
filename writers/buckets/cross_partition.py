"""Cross-partition upsert: the primary key lacks a partition key, so a key may turn up in another partition.

A key is in one partition only. When a row has a known key but another partition, the merge engine decides: where the
newest version wins, the old row is deleted and the new one inserted; where versions are folded, the new one goes into
the old partition; where the first version wins, the old row stays. The place of every key is read from the whole table
when writing begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.data_file_meta import IndexFileMeta
from morrow.engine.format.row_kinds import DELETE
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.merge.spec import Rule
from morrow.engine.names import KEY_NUMBER, ORDER, cols
from morrow.writers.buckets.key_places import KeyPlaces
from morrow.writers.buckets.router import Routed, split
from morrow.writers.files import Placement
from morrow.writers.target import WriteTarget

Codes = npt.NDArray[np.int64]
NOWHERE = -1


class CrossPartitionRouter:
    """Routes by the present place of each key."""

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
        ids, unique = _key_ids(rows, self._places.key_names)
        moves = self._move(_Batch(rows, partition, ids, unique, *self._places.find(unique)), self._places)
        yield from split(moves.rows, self._fields, moves.buckets)

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        return {}


def _key_ids(rows: pl.DataFrame, names: list[str]) -> tuple[Codes, pl.DataFrame]:
    """Returns the number of each row's key, and the keys by number."""
    unique = rows.select(cols(names)).unique(maintain_order=True)
    numbered = unique.with_row_index(KEY_NUMBER)
    ids = rows.select(cols(names)).join(numbered, on=cols(names), how="left", maintain_order="left")[KEY_NUMBER]
    return ids.to_numpy().astype(np.int64), unique


@dataclass(frozen=True)
class _Batch:
    """Incoming rows: the partition code and key number of each, and by key number the keys and their places."""

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
    """Puts a ``-D`` before each row whose key was elsewhere: the new row with the old partition's columns."""
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


def _settled(batch: _Batch, places: KeyPlaces) -> tuple[Codes, Codes]:
    """Returns partition and bucket of each key: the known place, else that of its first row."""
    _, first = np.unique(batch.ids, return_index=True)
    new = batch.old_partition == NOWHERE
    partition = np.where(new, batch.partition[first], batch.old_partition)
    bucket = batch.old_bucket.copy()
    bucket[new] = places.take_room(partition[new])
    places.moved(batch.keys, np.flatnonzero(new), partition[new], bucket[new])
    return partition, bucket


def _write_into_old(batch: _Batch, places: KeyPlaces) -> _Moved:
    partition, bucket = _settled(batch, places)
    wanted = partition[batch.ids]
    rows = batch.rows
    if (wanted != batch.partition).any():
        rows = places.with_partition(rows, wanted)
    return _Moved(rows, bucket[batch.ids].astype(np.int32))


def _keep_old(batch: _Batch, places: KeyPlaces) -> _Moved:
    partition, bucket = _settled(batch, places)
    kept = np.flatnonzero(partition[batch.ids] == batch.partition)
    return _Moved(batch.rows[kept], bucket[batch.ids[kept]].astype(np.int32))


_MOVES: Mapping[Rule, Callable[[_Batch, KeyPlaces], _Moved]] = {
    Rule.NEWEST: _delete_and_insert,
    Rule.UPDATE: _write_into_old,
    Rule.AGGREGATE: _write_into_old,
    Rule.FIRST: _keep_old,
}
