"""The hash codes of one partition's keys with their buckets, and the assignment of buckets to new ones.

The bucket of a key must never change, or its versions would not be merged: assignments are kept in the HASH index files
of the buckets. New keys fill the buckets that have room, in order of their number, then new buckets.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import Unsupported
from morrow.engine.format.hash_index import HashCodes

MOST_BUCKETS = 2**15 - 2
"""The greatest bucket number of a dynamic table: Java keeps them as shorts."""

Assigned = npt.NDArray[np.int16]


class HashCodeBuckets:
    """Hash code -> bucket, for one partition and one assigner.

    Args:
        room: rows per bucket (``dynamic-bucket.target-row-num``).
        most: the most buckets of a partition, -1 for no limit (``dynamic-bucket.max-buckets``).
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
        """Takes the codes of an index file; `mine` marks those that this assigner owns."""
        if bucket % self._step == self._first % self._step and len(hashes):
            self._count(bucket, len(hashes))
        self._add(hashes[mine], np.full(int(mine.sum()), bucket, np.int16))

    def assign(self, hashes: HashCodes) -> Assigned:
        """Returns the bucket of each code, assigning one to new codes."""
        # Each code once and in order: looking up a million codes at random misses the processor's cache each time.
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
            buckets[arrived] = self._given(codes[arrived])
            self._add(codes[new], buckets[new])
            self._changed.update(np.unique(buckets[new]).tolist())
        given: Assigned = buckets[row]
        return given

    def take_changed(self) -> dict[int, HashCodes]:
        """Returns all codes of each bucket that got new ones since the last call."""
        changed, self._changed = sorted(self._changed), set()
        return {bucket: self._hashes[self._buckets == bucket] for bucket in changed}

    def codes_of(self, bucket: int) -> HashCodes:
        """Returns all codes of one bucket."""
        codes: HashCodes = self._hashes[self._buckets == bucket]
        return codes

    def _add(self, hashes: HashCodes, buckets: Assigned) -> None:
        joined = np.concatenate([self._hashes, hashes])
        order = np.argsort(joined, kind="stable")
        self._hashes = joined[order]
        self._buckets = np.concatenate([self._buckets, buckets])[order]

    def _given(self, codes: HashCodes) -> Assigned:
        """Returns buckets for new codes, in their order."""
        count = len(codes)
        parts: list[Assigned] = []
        for bucket in sorted(self._counts):
            taken = min(count, max(self._room - self._counts[bucket], 0))
            if taken:
                parts.append(self._filled(bucket, taken))
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
            parts.append(self._filled(made, taken))
            count -= taken
        return np.concatenate(parts)

    def _filled(self, bucket: int, count: int) -> Assigned:
        self._count(bucket, count)
        return np.full(count, bucket, np.int16)

    def _count(self, bucket: int, rows: int) -> None:
        self._counts[bucket] = self._counts.get(bucket, 0) + rows

    def _new_bucket(self) -> int | None:
        last = (MOST_BUCKETS if self._most == -1 else self._most) - 1
        while self._lowest in self._counts:
            self._lowest += self._step
        if self._lowest <= last:
            return self._lowest
        if self._most == -1 or not self._counts:
            raise Unsupported(
                f"more than {last} dynamic buckets in a partition", hint="raise dynamic-bucket.target-row-num"
            )
        return None
