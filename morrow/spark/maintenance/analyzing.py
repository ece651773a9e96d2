"""Statistics of columns, measured by Spark: what ANALYZE TABLE commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

from morrow.engine.format import types as t
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.table_statistics import ColumnFacts
from morrow.engine.format.types import DataField
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.values import replace
from morrow.readers.execution.measuring import facts_of, has_length
from morrow.spark.reading.distributed import to_dataframe
from morrow.spark.reading.expressions import quoted
from morrow.spark.versions import to_arrow
from morrow.writers.operations.analyze import analyze
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


def analyzed(target: WriteTarget, columns: Sequence[str], spark: SparkSession) -> Snapshot | None:
    """Measures the newest snapshot in one job of Spark's, and commits the result; otherwise as `Table.analyze`."""

    def measure(plan: ScanPlan, fields: Sequence[DataField]) -> tuple[int, Mapping[str, ColumnFacts]]:
        names = tuple(field.name for field in fields) or tuple(plan.columns[:1])
        rows = to_dataframe(replace(plan, columns=names), target.store, spark)
        if not fields:
            return rows.count(), {}
        asked = [each for i, field in enumerate(fields) for each in _asked(field, i)]
        found = pl.DataFrame(to_arrow(rows.agg(*asked)))
        # All instants are text in UTC, whatever the zone of the session.
        found = found.with_columns(cs.datetime(time_zone="*").dt.convert_time_zone("UTC"))
        count = int(found["rows"].item())
        return count, {field.name: facts_of(field, i, count, found) for i, field in enumerate(fields)}

    return analyze(target, columns, measure)


def _asked(field: DataField, i: int) -> list[Column]:
    from pyspark.sql import functions

    column = functions.col(quoted(field.name))
    asked = [
        functions.count(column).alias(f"count{i}"),
        functions.approx_count_distinct(column).alias(f"distinct{i}"),
    ]
    if i == 0:
        asked.insert(0, functions.count(functions.lit(1)).alias("rows"))
    if not has_length(field):
        return [*asked, functions.min(column).alias(f"min{i}"), functions.max(column).alias(f"max{i}")]
    is_bytes = isinstance(field.type, (t.BinaryType, t.VarBinaryType))
    length = functions.octet_length(column) if is_bytes else functions.char_length(column)
    return [
        *asked,
        functions.ceil(functions.avg(length)).alias(f"average{i}"),
        functions.max(length).alias(f"longest{i}"),
    ]
