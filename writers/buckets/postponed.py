"""Batch writes to tables with ``bucket`` = -2: each partition has its own number of buckets, rows go straight to them.

A partition that has buckets keeps their number; one without gets ``postpone.default-bucket-num``. An overwrite gives
that number to every partition that it writes, where the option is set. Rows already in bucket -2 stay there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from morrow.engine.format.bucket import bucket_of
from morrow.engine.format.data_file_meta import IndexFileMeta
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import BUCKET
from morrow.engine.options.declared.table import POSTPONE_DEFAULT_BUCKET_NUM
from morrow.engine.values import replace
from morrow.writers.buckets.router import Routed, split
from morrow.writers.files import Placement
from morrow.writers.target import WriteTarget


class PartitionBucketsRouter:
    """Routes by the bucket key, among the buckets of the row's partition."""

    def __init__(self, target: WriteTarget, snapshot: Snapshot | None, *, overwrite: bool) -> None:
        self._target = target
        self._snapshot = snapshot
        self._anew = overwrite and target.write.given.has(POSTPONE_DEFAULT_BUCKET_NUM)
        names = target.options.bucket_key or target.schema.trimmed_primary_keys
        self._keys = tuple(target.schema.column(name) for name in names)
        self._counts: dict[bytes, int] = {}

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        parts = list(split(rows, self._target.partition_fields, 0))
        self._learn([place.partition for place, _ in parts])
        for place, part in parts:
            count = self._counts[place.partition]
            if count == 1:
                yield place, part
                continue
            kinds = [field.type for field in self._keys]
            columns = [part[field.name] for field in self._keys]
            buckets = bucket_of(columns, kinds, count, self._target.options.bucket_function)
            numbered = part.with_columns(pl.Series(BUCKET, buckets))
            for one in numbered.partition_by(BUCKET, maintain_order=True):
                yield Placement(place.partition, one[BUCKET][0]), one.drop(BUCKET)

    def total_buckets(self, partition: bytes) -> int:
        """Returns the number of buckets of a partition."""
        self._learn([partition])
        return self._counts[partition]

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        return {}

    def _learn(self, partitions: list[bytes]) -> None:
        new = [partition for partition in partitions if partition not in self._counts]
        if new:
            # Imported here: the code that reads the counts belongs to commits, which import the bucket modes.
            from morrow.writers.buckets.restored import bucket_counts

            known = {} if self._anew else bucket_counts(self._target, self._snapshot, new)
            self._counts |= {one: known.get(one, self._target.write.postpone_buckets) for one in new}


def with_buckets(target: WriteTarget, count: int) -> WriteTarget:
    """Returns the table with this number of buckets."""
    return replace(target, options=replace(target.options, bucket=count))


def waiting(target: WriteTarget) -> WriteTarget:
    """Returns the table for a stream of commits, whose rows are postponed where ``bucket`` is -2."""
    return replace(target, write=replace(target.write, postpone_fixed=False))
