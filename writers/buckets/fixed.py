"""Routing to a fixed number of buckets, by the bucket function of the bucket key, or to a single one."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.bucket import bucket_of
from morrow.engine.format.types import DataField
from morrow.engine.names import series
from morrow.writers.buckets.router import Buckets, StatelessRouter
from morrow.writers.target import WriteTarget


class FixedRouter(StatelessRouter):
    """Routes by ``bucket-function.type`` over ``bucket-key``, else over the primary key without partition keys.

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
        columns = [series(rows, f.name) for f in self.keys]
        return bucket_of(columns, [f.type for f in self.keys], self.count, self.function)


class SingleRouter(StatelessRouter):
    """Routes by partition only: append tables without buckets, and postponed rows."""

    def __init__(self, partition_fields: Sequence[DataField], bucket: int) -> None:
        super().__init__(partition_fields)
        self._bucket = bucket

    def buckets(self, rows: pl.DataFrame) -> int:  # noqa: ARG002 - rows do not matter here
        return self._bucket
