"""Expiry of old rows (``record-level.expire-time``): compactions of primary-key tables drop them.

The time of a row is in the column ``record-level.time-field``: seconds, or milliseconds in a BIGINT of 10^12 or more,
or a timestamp. Rows without a time stay. As in Paimon, each version of a key is dropped by its own time, before
versions are merged. Reads show old rows until a compaction rewrites their files.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.stats import decode_column_stats
from morrow.engine.format.types import BigIntType, DataField, IntType, has_same_values
from morrow.engine.names import col
from morrow.writers.target import WriteTarget

MIN_MILLIS = 10**12
"""The least BIGINT that is a time in milliseconds; smaller ones are seconds, as in Paimon."""
MILLIS_PER_SECOND = 1000


@dataclass(frozen=True)
class RecordExpiry:
    """The age in seconds at which rows expire, and the column of their time."""

    target: WriteTarget
    field: DataField
    seconds: int
    now: Callable[[], float] = time.time

    @classmethod
    def of(cls, target: WriteTarget) -> RecordExpiry | None:
        """Return the expiry of a table's rows, None if they do not expire.

        Raises:
            InvalidArgument: the options do not name a column of the table for the time.
        """
        age, name = target.write.record_expire_time, target.write.record_time_field
        if age is None:
            return None
        if name is None or name not in target.schema.by_name:
            raise InvalidArgument(
                f"{target.where}: 'record-level.time-field' is {name!r}, which is no column of the table; set it to "
                "the column with the time of a row"
            )
        return cls(target, target.schema.by_name[name], int(age.total_seconds()))

    def drop_expired(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that have not expired."""
        return rows.filter(~self._is_expired(col(self.field.name)).fill_null(False))

    def may_hold_expired(self, file: DataFileMeta) -> bool:
        """Return whether the statistics of a file show a row that has expired."""
        schema = self.target.metadata.schema(file.schema_id)
        written = next((field for field in schema.fields if field.id == self.field.id), None)
        if written is None or not has_same_values(written.type, self.field.type):
            return False
        stats, covered = file.value_stats, file.write_cols if file.value_stats_cols is None else file.value_stats_cols
        found = decode_column_stats(
            pl.Series([stats.min_values], dtype=pl.Binary),
            pl.Series([stats.max_values], dtype=pl.Binary),
            pl.Series([stats.null_counts], dtype=pl.List(pl.Int64)),
            None if covered is None else pl.Series([covered], dtype=pl.List(pl.String)),
            {field.name: field.type for field in schema.fields},
            [written.name],
            where=self.target.where,
        )[written.name].minimum
        return found is not None and found.to_frame("time").select(self._is_expired(pl.col("time"))).item() is True

    def _is_expired(self, value: pl.Expr) -> pl.Expr:
        return self._to_seconds(value) < int(self.now()) - self.seconds

    def _to_seconds(self, value: pl.Expr) -> pl.Expr:
        if isinstance(self.field.type, IntType):
            return value.cast(pl.Int64)
        if isinstance(self.field.type, BigIntType):
            return pl.when(value >= MIN_MILLIS).then(value // MILLIS_PER_SECOND).otherwise(value)
        return value.dt.epoch("s")
