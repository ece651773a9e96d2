"""Features of Python data sources by Spark version.

4.0   batches; streams are read without limits, and written row by row, which Morrow does not do
4.1   streams are written in Arrow batches; filters are pushed
4.2   streams have limits, and get the offset reached when asked for the newest
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import datasource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
else:
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", object)
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        SupportsTriggerAvailableNow = object

WRITES_STREAMS = hasattr(datasource, "DataSourceStreamArrowWriter")
LIMITS_STREAMS = SupportsTriggerAvailableNow is not object

__all__ = ["LIMITS_STREAMS", "WRITES_STREAMS", "DataSourceStreamArrowWriter", "SupportsTriggerAvailableNow"]
