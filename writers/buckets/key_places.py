"""The place (partition and bucket) of every key of a table, and the number of keys in each bucket."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.merge.spec import Rule
from morrow.engine.names import BUCKET, PARTITION, cols
from morrow.engine.plan.filter import NO_FILTER
from morrow.engine.plan.planner import make_plan
from morrow.engine.plan.request import ScanRequest
from morrow.engine.plan.scan_plan import Section
from morrow.engine.values import replace
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.execution import execute
from morrow.writers.target import WriteTarget

NOWHERE = -1
REBUILT_SHARE = 4
"""Moved keys are kept apart until they are one part in this many of all keys."""

Codes = npt.NDArray[np.int64]


class KeyPlaces:
    """The place of each key. Partitions are coded as numbers from 0."""

    def __init__(self, target: WriteTarget, snapshot: Snapshot | None) -> None:
        self.key_names = list(target.schema.primary_keys)
        self._fields = target.partition_fields
        self._room = target.write.dynamic_bucket_rows
        self._codes: dict[bytes, int] = {}
        self._values: list[pl.DataFrame] = []
        self._counts: dict[int, dict[int, int]] = {}
        keys = {name: polars_dtype(target.schema.by_name[name].type) for name in self.key_names}
        empty = pl.DataFrame(schema={**keys, PARTITION: pl.Int64, BUCKET: pl.Int64})
        self._settled = pl.concat([empty, *self._read(target, snapshot)])
        self._moved = empty

    @property
    def partitions(self) -> list[bytes]:
        """Partitions in the order of their codes."""
        return list(self._codes)

    def partition_code(self, partition: bytes, rows: pl.DataFrame) -> int:
        """Returns the code of a partition; `rows` are some of its rows."""
        if partition not in self._codes:
            self._codes[partition] = len(self._values)
            self._values.append(rows[:1].select(cols(f.name for f in self._fields)))
        return self._codes[partition]

    def find(self, keys: pl.DataFrame) -> tuple[Codes, Codes]:
        """Returns the partition code and bucket of each key, -1 for unknown keys."""
        partition, bucket = np.full(keys.height, NOWHERE), np.full(keys.height, NOWHERE)
        for known in (self._settled, self._moved):
            if known.height:
                found = keys.join(known, on=cols(self.key_names), how="left", maintain_order="left")
                if found.height > keys.height:  # where deletions are ignored, keys that moved stayed where they were
                    found = found.filter(pl.struct(cols(self.key_names)).is_last_distinct())
                here = found[PARTITION].is_not_null().to_numpy()
                partition[here] = found[PARTITION].drop_nulls().to_numpy()
                bucket[here] = found[BUCKET].drop_nulls().to_numpy()
        return partition, bucket

    def moved(self, keys: pl.DataFrame, numbers: Codes, partition: Codes, bucket: Codes) -> None:
        """Records the new place of these keys (rows `numbers` of `keys`)."""
        places = keys[numbers].with_columns(pl.Series(PARTITION, partition), pl.Series(BUCKET, bucket))
        self._moved = _replaced(self._moved, places, self.key_names)
        if self._moved.height * REBUILT_SHARE > self._settled.height:
            self._settled = _replaced(self._settled, self._moved, self.key_names)
            self._moved = self._moved.clear()

    def take_room(self, partition: Codes) -> Codes:
        """Returns a bucket with room for each of these rows: the first that is not full, else a new one."""
        buckets = np.full(len(partition), NOWHERE)
        for code in np.unique(partition).tolist():
            rows = np.flatnonzero(partition == code)
            buckets[rows] = np.concatenate([np.full(taken, bucket) for bucket, taken in self._rooms(code, len(rows))])
        return buckets

    def give_back(self, partition: Codes, bucket: Codes) -> None:
        """Frees the room of rows that left their buckets."""
        left, count = np.unique(np.stack([partition, bucket]), axis=1, return_counts=True)
        for code, number, rows in zip(*left.tolist(), count.tolist()):
            counts = self._counts.setdefault(code, {})
            counts[number] = max(counts.get(number, 0) - rows, 0)

    def with_partition(self, rows: pl.DataFrame, partition: Codes) -> pl.DataFrame:
        """Returns the rows with the partition columns of these partitions."""
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
        """Yields the keys of each bucket of the table, with their places."""
        if snapshot is None:
            return
        # Keys on level 0 count as well, which batch reads of some tables do not see. With deletion vectors, rows marked
        # above it live elsewhere by now, and writers that compact nothing leave theirs on it.
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
            code = self.partition_code(partition, self._decoded(partition, target.where))
            self._counts.setdefault(code, {})[bucket] = keys.height
            yield keys.with_columns(pl.lit(code, pl.Int64).alias(PARTITION), pl.lit(bucket, pl.Int64).alias(BUCKET))

    def _decoded(self, partition: bytes, where: str) -> pl.DataFrame:
        """Returns the columns of a partition as one row."""
        columns = decode_columns([partition], [f.type for f in self._fields], where=where)
        return pl.DataFrame([c.cast(polars_dtype(f.type)).alias(f.name) for f, c in zip(self._fields, columns)])


def _replaced(places: pl.DataFrame, newer: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    return pl.concat([places.join(newer, on=cols(keys), how="anti"), newer]) if places.height else newer
