"""Routing of all rows of a partition to one bucket: append tables without buckets, and postponed rows."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from morrow.engine.format.types import DataField
from morrow.writers.buckets.router import StatelessRouter


class SingleRouter(StatelessRouter):
    """Routes by partition only."""

    def __init__(self, partition_fields: Sequence[DataField], bucket: int) -> None:
        super().__init__(partition_fields)
        self._bucket = bucket

    def buckets(self, rows: pl.DataFrame) -> int:  # noqa: ARG002 - rows do not matter here
        return self._bucket
