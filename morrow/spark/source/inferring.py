"""The columns of a read, which Spark infers before it is known whether the read is a batch or a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from morrow.spark.source.options import Options
from morrow.spark.source.schemas import as_spark_schema, scan_of
from morrow.spark.source.stream import StreamPlanner

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def schema_of(given: Mapping[str, str]) -> StructType:
    """Returns the schema of a read by these options. Without options of a stream it is that of a batch.

    Raises:
        TableNotFound, SnapshotNotFound, TagNotFound, BranchNotFound: no such table or state.
        ColumnNotFound, InvalidArgument: an option is wrong. Unsupported: a type that Spark does not have.
    """
    options = Options(given)
    return as_spark_schema(StreamPlanner(options).fields if options.is_stream else scan_of(options).fields)
