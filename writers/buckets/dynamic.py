"""Dynamic buckets: keys fill one bucket after another, and HASH index files record the bucket of each key.

The bucket of a key must never change, or its versions would not be merged. So the hash codes of a partition's keys are
recorded in the HASH index files of the buckets. New keys go to the buckets with room, in order of their number, then to
new buckets.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import StorageError, Unsupported
from morrow.engine.format.binary_row import ARITY_WIDTH
from morrow.engine.format.binary_row_encoder import EncodedRows, hash_rows
from morrow.engine.format.buckets import HASH_INDEX_TYPE, HashCodes, decode_hash_index, encode_hash_index
from morrow.engine.format.manifest_entries import IndexFileMeta, index_entries_of
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import BUCKET, HASH, get_series
from morrow.engine.plan.manifests import read_index_entries
from morrow.writers.buckets.routers import Routed, split
from morrow.writers.files.data_files import Placement
from morrow.writers.files.deletion_vectors import IndexFiles
from morrow.writers.target import WriteTarget


class DynamicRouter:
    """Router by the hash codes of primary keys, partition by partition.

    With ``dynamic-bucket.initial-buckets``, keys are spread over that number of assigners, each with separate buckets,
    as in engines that write in parallel. Otherwise there is one assigner.
    """

    def __init__(self, target: WriteTarget, snapshot: Snapshot | None) -> None:
        self._target = target
        self._keys = tuple(target.schema.by_name[name] for name in target.schema.trimmed_primary_keys)
        self._files = _index_files(target, snapshot)
        self._partitions: dict[bytes, _Partition] = {}

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        hashes = hash_rows([get_series(rows, f.name) for f in self._keys], [f.type for f in self._keys])
        hashed = rows.with_columns(pl.Series(HASH, hashes))
        for place, part in split(hashed, self._target.partition_fields, 0):
            buckets = self._partition(place.partition).assign(part[HASH].to_numpy())
            parts = part.with_columns(pl.Series(BUCKET, buckets)).partition_by(BUCKET, maintain_order=True)
            for one in parts:
                yield Placement(place.partition, one[BUCKET][0]), one.drop(HASH, BUCKET)

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        """Write and return new index files for buckets with new keys. Each holds all keys of its bucket."""
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
            self._start = abs(int(np.fmod(_hash_row(partition), self._assigners)))
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
        """Return the assigner of each hash code, by Java's rule."""
        return (self._start + np.abs(np.fmod(hashes.astype(np.int64), self._assigners))) % self._assigners


def _hash_row(row: bytes) -> int:
    """Return Paimon's hash code of a BinaryRow (arity first)."""
    words = np.frombuffer(row[ARITY_WIDTH:], "<i8")
    return int(EncodedRows(words, np.array([0, len(words)])).hash_codes()[0])


def _index_files(target: WriteTarget, snapshot: Snapshot | None) -> dict[Placement, IndexFileMeta]:
    entries = None if snapshot is None else read_index_entries(target.metadata, snapshot)
    if entries is None:
        return {}
    found = index_entries_of(entries.filter(pl.col("_INDEX_TYPE") == HASH_INDEX_TYPE))
    return {Placement(entry.partition, entry.bucket): entry.file for entry in found}


def _read(target: WriteTarget, place: Placement, file: IndexFileMeta) -> HashCodes:
    path = IndexFiles(target, place.partition, place.bucket).path(file)
    return decode_hash_index(target.store.read(path), where=path, row_count=file.row_count)


def _write(target: WriteTarget, place: Placement, hashes: HashCodes) -> IndexFileMeta:
    data = encode_hash_index(hashes)
    file = IndexFileMeta(
        index_type=HASH_INDEX_TYPE, file_name=f"index-{uuid.uuid4()}-0", file_size=len(data), row_count=len(hashes)
    )
    target.store.write(IndexFiles(target, place.partition, place.bucket).path(file), data)
    return file


MAX_BUCKET_NUMBER = 2**15 - 2
"""Maximum bucket number of a dynamic table: Java stores bucket numbers as shorts."""

Assigned = npt.NDArray[np.int16]


class HashCodeBuckets:
    """Map from hash codes to buckets, for one partition and one assigner.

    Args:
        room: rows per bucket (``dynamic-bucket.target-row-num``).
        most: maximum buckets of a partition, -1 for no limit (``dynamic-bucket.max-buckets``).
        step: buckets are numbered `first`, `first` + `step`, ...: several assigners share a partition.
    """

    def __init__(self, *, room: int, most: int = -1, first: int = 0, step: int = 1) -> None:
        self._room, self._most, self._first, self._step = room, most, first, step
        self._lowest = first
        self._hashes = np.zeros(0, np.int32)
        self._buckets = np.zeros(0, np.int16)
        self._counts: dict[int, int] = {}
        self._changed: set[int] = set()

    def restore(self, bucket: int, hashes: HashCodes, mine: npt.NDArray[np.bool_]) -> None:
        """Add the codes of an index file; `mine` marks the codes that this assigner owns."""
        if bucket % self._step == self._first % self._step and len(hashes):
            self._count(bucket, len(hashes))
        self._add(hashes[mine], np.full(int(mine.sum()), bucket, np.int16))

    def assign(self, hashes: HashCodes) -> Assigned:
        """Return the bucket of each code; assign buckets to new codes."""
        # Look up each code once and in order: random lookups of a million codes miss the processor's cache each time.
        codes, first, row = np.unique(hashes, return_index=True, return_inverse=True)
        at = np.searchsorted(self._hashes, codes)
        known = np.zeros(len(codes), bool)
        inside = at < len(self._hashes)
        known[inside] = self._hashes[at[inside]] == codes[inside]
        buckets = np.zeros(len(codes), np.int16)
        buckets[known] = self._buckets[at[known]]
        new = np.flatnonzero(~known)
        if len(new):
            arrived = new[np.argsort(first[new])]
            buckets[arrived] = self._assign(codes[arrived])
            self._add(codes[new], buckets[new])
            self._changed.update(np.unique(buckets[new]).tolist())
        given: Assigned = buckets[row]
        return given

    def take_changed(self) -> dict[int, HashCodes]:
        """Return all codes of each bucket that got new codes since the last call."""
        changed, self._changed = sorted(self._changed), set()
        return {bucket: self._hashes[self._buckets == bucket] for bucket in changed}

    def codes_of(self, bucket: int) -> HashCodes:
        """Return all codes of one bucket."""
        codes: HashCodes = self._hashes[self._buckets == bucket]
        return codes

    def _add(self, hashes: HashCodes, buckets: Assigned) -> None:
        joined = np.concatenate([self._hashes, hashes])
        order = np.argsort(joined, kind="stable")
        self._hashes = joined[order]
        self._buckets = np.concatenate([self._buckets, buckets])[order]

    def _assign(self, codes: HashCodes) -> Assigned:
        """Return buckets for new codes, in their order."""
        count = len(codes)
        parts: list[Assigned] = []
        for bucket in sorted(self._counts):
            taken = min(count, max(self._room - self._counts[bucket], 0))
            if taken:
                parts.append(self._fill(bucket, taken))
                count -= taken
        while count:
            made = self._new_bucket()
            if made is None:
                # Every bucket is full and no more are allowed, so any will do. Java picks at random; picking by the
                # code makes independent writers agree.
                full = np.array(sorted(self._counts), np.int16)
                parts.append(full[codes[-count:] % len(full)])
                break
            taken = min(count, self._room)
            parts.append(self._fill(made, taken))
            count -= taken
        return np.concatenate(parts)

    def _fill(self, bucket: int, count: int) -> Assigned:
        self._count(bucket, count)
        return np.full(count, bucket, np.int16)

    def _count(self, bucket: int, rows: int) -> None:
        self._counts[bucket] = self._counts.get(bucket, 0) + rows

    def _new_bucket(self) -> int | None:
        last = (MAX_BUCKET_NUMBER if self._most == -1 else self._most) - 1
        while self._lowest in self._counts:
            self._lowest += self._step
        if self._lowest <= last:
            return self._lowest
        if self._most == -1 or not self._counts:
            raise Unsupported(
                f"more than {last} dynamic buckets in a partition", hint="raise dynamic-bucket.target-row-num"
            )
        return None
