"""The data source ``morrow`` in Spark's interface: thin classes over the other modules of this package.

Spark creates new instances for each step, in separate processes: schema, plan, each task, commit. Their state
is the options; steps exchange the values of `messages`. Methods import the modules, since an executor's process has
to be set up before Polars starts in it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamReader

from morrow.engine.errors import Unsupported
from morrow.spark.job.tasks import use_cores_of_task
from morrow.spark.source.messages import ALIAS, NAME, STREAMS_BY_NAME, Piece, Written
from morrow.spark.versions import (
    LIMITS_STREAMS,
    WRITES_STREAMS,
    DataSourceStreamArrowWriter,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition, WriterCommitMessage
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from morrow.spark.source.planning import BatchPlanner, StreamPlanner

RUN_BYTES = 8
"""The number of random bytes in the name of a run."""


class MorrowDataSource(DataSource):
    """The data source of ``spark.read.format("morrow")`` and similar calls; their options are in `options`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(_hide_secrets(options))

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        from morrow.spark.source.planning import find_schema

        return find_schema(self.options)

    def reader(self, schema: StructType) -> BatchReader:
        from morrow.spark.source.options import Options

        reader = PushingReader if Options(self.options).pushes_filters else BatchReader
        return reader(dict(self.options), schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        reader = StreamReader if LIMITS_STREAMS else UnlimitedStreamReader
        return reader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        if not WRITES_STREAMS:
            raise Unsupported(
                "streams into format('morrow') before Spark 4.1",
                hint="use writeStream.foreachBatch(morrow.spark.sink(...))",
            )
        return StreamWriter(dict(self.options), schema, overwrite)


class PaimonDataSource(MorrowDataSource):
    """The data source under Paimon's name."""

    @classmethod
    def name(cls) -> str:
        return ALIAS


class StreamsByName(MorrowDataSource):
    """The data source for ``readStream.table`` on a catalog's tables; the JVM requests it by name."""

    @classmethod
    def name(cls) -> str:
        return STREAMS_BY_NAME


class BatchReader(DataSourceReader):
    """A reader of one snapshot, which is chosen when the read is planned."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        from morrow.spark.source.planning import BatchPlanner

        self._planner: BatchPlanner | None = BatchPlanner.of(options, schema)

    def partitions(self) -> Sequence[Piece]:
        return self._known.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # A table without files is one empty partition.
        return partition.batches() if isinstance(partition, Piece) else iter(())

    @property
    def _known(self) -> BatchPlanner:
        assert self._planner is not None, "executors plan nothing"
        return self._planner

    def __getstate__(self) -> dict[str, Any]:
        return {"_planner": None}


class PushingReader(BatchReader):
    """A `BatchReader` that accepts Spark's filters, for a DataFrame that is used by a single query.

    Spark 4.3 reuses a reader with the filters of one query in later queries of the same DataFrame: after
    ``frame.filter("id = 1").collect()`` this reader gives ``frame.count()`` one row. So filters are left to Spark
    unless the option ``push-filters`` is set; the option ``filter`` is always safe.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        return self._known.push(filters)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that follows the table's snapshots; see `planning` for its offsets."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        from morrow.spark.source.planning import StreamPlanner

        self._planner: StreamPlanner | None = StreamPlanner.of(options, schema)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._known.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        from morrow.spark.source.options import to_spark

        return to_spark(self._known.read_limit())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        from morrow.spark.source.options import from_spark

        return self._known.latest(start, from_spark(limit))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self._known.newest()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._known.stop_at_newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Piece]:
        return self._known.partitions(start, end)

    def commit(self, end: dict[str, Any]) -> None:
        self._known.processed(end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return partition.batches() if isinstance(partition, Piece) else iter(())

    @property
    def _known(self) -> StreamPlanner:
        assert self._planner is not None, "executors plan nothing"
        return self._planner

    def __getstate__(self) -> dict[str, Any]:
        return {"_planner": None}


class UnlimitedStreamReader(StreamReader):
    """A `StreamReader` for Spark before 4.2, which requests the newest offset without passing the query's progress."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._reached: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        self._reached = self._known.initial()
        return self._reached

    def latestOffset(  # noqa: N802 - Spark's name
        self,
        start: dict[str, Any] | None = None,  # noqa: ARG002 - neither is passed
        limit: ReadLimit | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        self._known.refuse_limits()
        # Unknown after a restart; the batch is then planned from the start that Spark gives.
        return self._known.newest() if self._reached is None else self._known.latest(self._reached, None)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Piece]:
        self._reached = end
        return self._known.partitions(start, end)


class _Writer:
    """The base of both writers. Its constructor creates the table if it does not exist."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        from morrow.spark.source.schemas import ensure_table, follow_columns

        ensure_table(options, schema, overwrite=overwrite)
        follow_columns(options, schema)
        self._options = _hide_secrets(options)
        self._overwrite = overwrite
        self._run = secrets.token_hex(RUN_BYTES)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        use_cores_of_task()
        from morrow.spark.source.sinks import write_task

        return write_task(self._options, self._run, iterator, overwrite=self._overwrite)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """A writer that appends or overwrites in one commit."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        from morrow.spark.source.sinks import commit_tasks

        commit_tasks(self._options, _cast_messages(messages), overwrite=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        from morrow.spark.source.sinks import abort_tasks

        abort_tasks(self._options, _cast_messages(messages))


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """A writer that commits each micro-batch once: the commit user is the query, the identifier the batch number."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        from morrow.spark.source.options import check_stream_sink

        check_stream_sink(options)
        super().__init__(options, schema, overwrite)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        from morrow.spark.source.sinks import commit_tasks

        commit_tasks(self._options, _cast_messages(messages), overwrite=self._overwrite, batch_id=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's name
        from morrow.spark.source.sinks import abort_tasks

        abort_tasks(self._options, _cast_messages(messages))


def _hide_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without secrets, since Spark pickles them with the objects that contain them."""
    from morrow.engine.io.secrets import StorageOptions
    from morrow.spark.source.settings import PATH, STORAGE_PREFIX

    return StorageOptions(options, options.get(PATH) or "", prefix=STORAGE_PREFIX, lent=True)


def _cast_messages(messages: list[WriterCommitMessage | None]) -> list[Written | None]:
    """Cast the messages of tasks; None for tasks that failed."""
    return [message if isinstance(message, Written) else None for message in messages]
