"""A driver that `test_streaming` kills: ``python -m tests.spark.stream_driver source copy checkpoint``.

It copies a table, one snapshot per batch. In batch `FATAL`, driver and JVM are killed after the files are written and
before they are committed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from morrow.spark import register
from morrow.spark.sessions import session
from morrow.spark.source.datasource import MorrowDataSource, StreamWriter
from tests.spark.conftest import SETTINGS
from tests.support.by_source import BY_SOURCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

FATAL = 1
"""The number of the last batch."""


def copying(spark: SparkSession, source: str, copy: str, checkpoint: str) -> DataStreamWriter:
    """Build the stream without starting it."""
    changes = spark.readStream.format("morrow").options(**{"starting-snapshot": 1, "max-snapshots-per-trigger": 1})
    writer = changes.load(source).writeStream.format(BY_SOURCE).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).option("path", copy)


def dying(victims: Sequence[int]) -> type[MorrowDataSource]:
    """Return a data source that kills these processes and its own when it commits batch `FATAL`."""

    class Dying(StreamWriter):
        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
            if batchId == FATAL:
                for victim in victims:
                    os.kill(victim, signal.SIGKILL)
                os._exit(1)
            super().commit(messages, batchId)

    class DyingSource(MorrowDataSource):
        @classmethod
        def name(cls) -> str:
            return BY_SOURCE

        def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
            return Dying(dict(self.options), schema, overwrite)

    return DyingSource


def main(source: str, copy: str, checkpoint: str) -> None:
    spark = session("a stream that is killed", "local[2]", **SETTINGS)
    register(spark)
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.dataSource.register(dying([os.getpid(), gateway.proc.pid]))
    copying(spark, source, copy, checkpoint).start().awaitTermination(300)


if __name__ == "__main__":
    main(*sys.argv[1:])
