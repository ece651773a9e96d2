"""Rows of a Spark DataFrame as Arrow, and what Spark should give for a scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from morrow.readers.spark.types import as_spark, travel_schema, without_not_null
from morrow.scan import Scan
from tests.support.canonical import assert_same_rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def arrow_of(frame: DataFrame) -> pa.Table:
    """All rows, in Spark's own Arrow types. Variants are collected: `toArrow` cannot take one that is null."""
    from pyspark.sql.types import VariantType

    if not any(isinstance(field.dataType, VariantType) for field in frame.schema):
        return frame.toArrow()
    columns = zip(*frame.collect(), strict=True)
    return pa.table({name: [_member(value) for value in column] for name, column in zip(frame.columns, columns)})


def _member(value: Any) -> Any:
    is_variant = hasattr(value, "metadata") and hasattr(value, "value")
    return {"value": bytes(value.value), "metadata": bytes(value.metadata)} if is_variant else value


def assert_reads_alike(frame: DataFrame, scan: Scan, set_columns: tuple[str, ...] = ()) -> None:
    """The frame has the rows that Morrow reads in this process, as Spark has them: nanoseconds are cut off."""
    fields = without_not_null(scan.plan.fields)
    expected = as_spark(scan.to_arrow(), travel_schema(fields))
    assert_same_rows(rows_of(arrow_of(frame), fields), rows_of(expected, fields), fields, set_columns)
