"""Dynamic buckets: keys fill bucket after bucket, and HASH index files record the bucket of each key."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import StorageError
from morrow.engine.format.binary_row_encode import EncodedRows, hash_rows
from morrow.engine.format.binary_row_slots import ARITY_WIDTH
from morrow.engine.format.data_file_meta import IndexFileMeta
from morrow.engine.format.entry_frames import index_entries_of
from morrow.engine.format.hash_index import INDEX_TYPE, HashCodes, decode_hash_index, encode_hash_index
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import BUCKET, HASH, series
from morrow.engine.plan.manifests import index_entries
from morrow.writers.buckets.hash_codes import HashCodeBuckets
from morrow.writers.buckets.router import Routed, split
from morrow.writers.files import Placement
from morrow.writers.files.deletion_vectors.index_files import IndexFiles
from morrow.writers.target import WriteTarget


class DynamicRouter:
    """Routes by the hash codes of primary keys, partition by partition.

    With ``dynamic-bucket.initial-buckets`` keys are spread over that many assigners, each with buckets of its own, as
    engines that write in parallel do; else there is one.
    """

    def __init__(self, target: WriteTarget, snapshot: Snapshot | None) -> None:
        self._target = target
        self._keys = tuple(target.schema.by_name[name] for name in target.schema.trimmed_primary_keys)
        self._files = _index_files(target, snapshot)
        self._partitions: dict[bytes, _Partition] = {}

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        hashes = hash_rows([series(rows, f.name) for f in self._keys], [f.type for f in self._keys])
        hashed = rows.with_columns(pl.Series(HASH, hashes))
        for place, part in split(hashed, self._target.partition_fields, 0):
            buckets = self._partition(place.partition).assign(part[HASH].to_numpy())
            parts = part.with_columns(pl.Series(BUCKET, buckets)).partition_by(BUCKET, maintain_order=True)
            for one in parts:
                yield Placement(place.partition, one[BUCKET][0]), one.drop(HASH, BUCKET)

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        """Writes and returns new index files of the buckets that got new keys. They hold all keys of their bucket."""
        made: dict[Placement, tuple[IndexFileMeta, IndexFileMeta | None]] = {}
        try:
            for partition, codes in self._partitions.items():
                for bucket, hashes in codes.take_changed().items():
                    place = Placement(partition, bucket)
                    made[place] = (_write(self._target, place, hashes), self._files.get(place))
        except BaseException:
            for place, (file, _) in made.items():
                with suppress(StorageError):
                    IndexFiles(self._target, place.partition, place.bucket).delete(file)
            raise
        self._files.update((place, new) for place, (new, _) in made.items())
        return made

    def _partition(self, partition: bytes) -> _Partition:
        if partition not in self._partitions:
            made = _Partition(self._target, partition)
            for place, file in self._files.items():
                if place.partition == partition:
                    made.restore(place.bucket, _read(self._target, place, file))
            self._partitions[partition] = made
        return self._partitions[partition]


class _Partition:
    """The assigners of one partition."""

    def __init__(self, target: WriteTarget, partition: bytes) -> None:
        write = target.write
        self._assigners = write.dynamic_bucket_initial or 1
        if write.dynamic_bucket_most != -1:
            self._assigners = min(self._assigners, write.dynamic_bucket_most)
        self._start = 0
        if self._assigners > 1 and target.partition_fields:
            self._start = abs(int(np.fmod(_row_hash(partition), self._assigners)))
        self._codes = [
            HashCodeBuckets(
                room=write.dynamic_bucket_rows, most=write.dynamic_bucket_most, first=number, step=self._assigners
            )
            for number in range(self._assigners)
        ]

    def restore(self, bucket: int, hashes: HashCodes) -> None:
        owner = self._owner(hashes)
        for number, codes in enumerate(self._codes):
            codes.restore(bucket, hashes, owner == number)

    def assign(self, hashes: HashCodes) -> npt.NDArray[np.int32]:
        if self._assigners == 1:
            return self._codes[0].assign(hashes).astype(np.int32)
        owner, buckets = self._owner(hashes), np.zeros(len(hashes), np.int32)
        for number, codes in enumerate(self._codes):
            mine = owner == number
            if mine.any():
                buckets[mine] = codes.assign(hashes[mine])
        return buckets

    def take_changed(self) -> dict[int, HashCodes]:
        changed = sorted({bucket for codes in self._codes for bucket in codes.take_changed()})
        return {bucket: np.concatenate([codes.codes_of(bucket) for codes in self._codes]) for bucket in changed}

    def _owner(self, hashes: HashCodes) -> npt.NDArray[np.int64]:
        """Returns the assigner of each hash code, by Java's rule."""
        return (self._start + np.abs(np.fmod(hashes.astype(np.int64), self._assigners))) % self._assigners


def _row_hash(row: bytes) -> int:
    """Returns Paimon's hash code of one row as metadata stores it."""
    words = np.frombuffer(row[ARITY_WIDTH:], "<i8")
    return int(EncodedRows(words, np.array([0, len(words)])).hash_codes()[0])


def _index_files(target: WriteTarget, snapshot: Snapshot | None) -> dict[Placement, IndexFileMeta]:
    entries = None if snapshot is None else index_entries(target.metadata, snapshot)
    if entries is None:
        return {}
    found = index_entries_of(entries.filter(pl.col("_INDEX_TYPE") == INDEX_TYPE))
    return {Placement(entry.partition, entry.bucket): entry.file for entry in found}


def _read(target: WriteTarget, place: Placement, file: IndexFileMeta) -> HashCodes:
    path = IndexFiles(target, place.partition, place.bucket).path(file)
    return decode_hash_index(target.store.read(path), where=path, row_count=file.row_count)


def _write(target: WriteTarget, place: Placement, hashes: HashCodes) -> IndexFileMeta:
    data = encode_hash_index(hashes)
    file = IndexFileMeta(
        index_type=INDEX_TYPE, file_name=f"index-{uuid.uuid4()}-0", file_size=len(data), row_count=len(hashes)
    )
    target.store.write(IndexFiles(target, place.partition, place.bucket).path(file), data)
    return file
