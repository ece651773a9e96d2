"""Cross-partition upsert: the primary key lacks a partition key, so a key may turn up in another partition.

A key is in one partition only. What happens when a row brings it with another one is up to the merge engine:
deduplicate deletes the old row and inserts the new one, engines that fold write into the old partition, first-row keeps
the old row. Where every key is has to be read from the whole table when writing begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.data_file_meta import IndexFileMeta
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.snapshot import Snapshot
from morrow.readers.row_kinds import DELETE
from morrow.writers.buckets.key_places import KeyPlaces
from morrow.writers.buckets.router import Routed, split
from morrow.writers.files import Placement
from morrow.writers.target import WriteTarget

ORDER = "__order"
Codes = npt.NDArray[np.int64]
NOWHERE = -1


class CrossPartitionRouter:
    """Routes by where each key is already."""

    def __init__(self, target: WriteTarget, snapshot: Snapshot | None) -> None:
        assert target.merge is not None
        if target.merge.engine not in _RULES:
            raise Unsupported(f"cross-partition upsert with the merge engine {target.merge.engine}", where=target.where)
        self._rule = _RULES[target.merge.engine]
        self._fields = target.partition_fields
        self._places = KeyPlaces(target, snapshot)

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        partition = np.zeros(rows.height, np.int64)
        numbered = rows.with_columns(pl.Series(ORDER, np.arange(rows.height)))
        for place, part in split(numbered, self._fields, 0):
            partition[part[ORDER].to_numpy()] = self._places.partition_code(place.partition, part)
        ids, unique = _key_ids(rows, self._places.key_names)
        moves = self._rule(_Batch(rows, partition, ids, unique, *self._places.find(unique)), self._places)
        yield from split(moves.rows, self._fields, moves.buckets)

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        return {}


def _key_ids(rows: pl.DataFrame, names: list[str]) -> tuple[Codes, pl.DataFrame]:
    """The number of each row's key, and the keys by number."""
    unique = rows.select(names).unique(maintain_order=True)
    numbered = unique.with_row_index("__id")
    ids = rows.select(names).join(numbered, on=names, how="left", maintain_order="left")["__id"]
    return ids.to_numpy().astype(np.int64), unique


@dataclass(frozen=True)
class _Batch:
    """Incoming rows: the partition code and key number of each, and by key number the keys and where they are."""

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
    """A row whose key was elsewhere is preceded by a ``-D`` there: the new row with the old partition's columns."""
    order = np.argsort(batch.ids, kind="stable")
    ids, partition = batch.ids[order], batch.partition[order]
    first = np.concatenate([np.ones(1, bool), ids[1:] != ids[:-1]])
    before = np.where(first, batch.old_partition[ids], np.concatenate([partition[:1], partition[:-1]]))
    moves = before != partition
    bucket = batch.old_bucket[ids]
    moving = order[moves]  # in order of keys: buckets are given out in order of rows
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
    """Partition and bucket of each key: where it was, else where its first row is now."""
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


_RULES: dict[str, Callable[[_Batch, KeyPlaces], _Moved]] = {
    "deduplicate": _delete_and_insert,
    "partial-update": _write_into_old,
    "aggregation": _write_into_old,
    "first-row": _keep_old,
}
