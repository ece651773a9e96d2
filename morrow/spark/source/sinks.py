"""Streams written to tables: by `morrow.spark.sink`, batch by batch, and by tasks of the data source.

`sink` shuffles the rows of each batch as `morrow.spark.write` does, and supports tables of every kind.
A Python data source cannot make Spark sort or distribute the rows. So each task may get rows of every bucket, and
writes its own files in them: appended files, or files of level 0. Tasks do not compact, since two tasks cannot
compact one bucket. If reads of a table wait for compaction (deletion vectors, first-row, a changelog by lookup),
the driver compacts the written buckets one after the other after the commit. Tables that assign each new key a
bucket (``bucket = -1``) need one writer that knows all keys. If a key is in the rows of several tasks, any of its
rows may win, unless the table has a ``sequence.field``.
File names contain the run, which is one write of one job. Task attempts that failed, were killed or came second leave
files in buckets that another attempt wrote too. After the commit, files of this run in these buckets are removed
unless a message names them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Literal

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.secrets import StorageOptions
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace
from morrow.spark.job.wire import decode_messages, encode_value
from morrow.spark.source.messages import BATCH_PROPERTY, QUERY_PROPERTY, Written
from morrow.spark.source.options import Options, SinkOptions
from morrow.spark.source.schemas import open_metadata
from morrow.spark.writing.job import Commit, Replaced, commit_messages
from morrow.spark.writing.schema_evolution import Evolution
from morrow.spark.writing.write import Create, write
from morrow.writers.buckets.modes import BucketMode, determine_bucket_mode
from morrow.writers.buckets.routers import postpone_rows
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.data_files import Placement
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.operations.write_session import recompact_messages
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MODES = ("append", "overwrite")


@dataclass(frozen=True)
class Sink:
    """The result of `sink`: a function of the rows and number of a batch."""

    path: str
    mode: Literal["append", "overwrite"]
    kinds: str | None
    commit_user: str | None
    create: Create | None
    branch: str | None
    storage_options: Mapping[str, str] | None = field(repr=False)
    merge_schema: bool | Evolution = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch, unless it was written before. Raises as `morrow.spark.write`."""
        write(
            batch,
            self.path,
            self.mode,
            dynamic=False if self.mode == "overwrite" else None,
            kinds=self.kinds,
            commit_user=self.commit_user or _find_query(batch),
            commit_identifier=batch_id,
            create=self.create,
            merge_schema=self.merge_schema,
            branch=self.branch,
            storage_options=self.storage_options,
        )


def sink(
    path: str | os.PathLike[str],
    mode: Literal["append", "overwrite"] = "append",
    *,
    kinds: str | None = None,
    commit_user: str | None = None,
    create: Create | None = None,
    merge_schema: bool | Evolution = False,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Sink:
    """Return the function for ``writeStream.foreachBatch`` that writes each batch to the table at `path` exactly once.

        orders.writeStream.foreachBatch(morrow.spark.sink("warehouse/db.db/copy"))
            .option("checkpointLocation", "...").start()

    Args:
        mode: ``append`` adds each batch (with a primary key: upserts it, which also suits the output mode ``update``);
            ``overwrite`` replaces all rows by it, as the output mode ``complete`` needs.
        commit_user: the commit user that numbers the batches; None: the id of the query, which belongs to its
            checkpoint. Use a custom name with one checkpoint only: batches of another checkpoint whose numbers
            this user has committed would be skipped as repeated.
        kinds, create, merge_schema, branch, storage_options: as for `morrow.spark.write`.

    Raises:
        InvalidArgument: an unknown mode; when a batch is written: no `commit_user`, and no query id from Spark
            (Spark Connect). Others as `morrow.spark.write`.
    """
    if mode not in MODES:
        raise InvalidArgument(f"mode={mode!r}; it is {' or '.join(MODES)}")
    options = None if storage_options is None else StorageOptions(storage_options, os.fspath(path), lent=True)
    return Sink(os.fspath(path), mode, kinds, commit_user, create, branch, options, merge_schema)


def _find_query(batch: DataFrame) -> str:
    from pyspark.errors import PySparkException

    try:
        query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
    except PySparkException:  # Spark Connect lacks a context
        query = None
    if query is None:
        raise InvalidArgument("Spark does not say which query this batch is of; name one: sink(..., commit_user=...)")
    return str(query)


ONE_WRITER = (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)
"""Bucket modes in which a single writer has to know all writes."""

log = get_logger(__name__)


def write_task(given: Mapping[str, str], run: str, batches: Iterator[pa.RecordBatch], *, overwrite: bool) -> Written:
    """Write the rows of one task.

    Raises:
        InvalidArgument, ColumnNotFound: rows that the table rejects.
        Unsupported: several tasks write to a table that supports only one writer.
    """
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
    if context is not None and query is not None:
        # A writer may serve a whole query, and files committed by one batch are not leftovers of the next.
        run = f"{run}-{context.getLocalProperty(BATCH_PROPERTY)}"
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return Written(run, query, encode_value([]))
    options = Options(given)
    target = _mark_run(WriteTarget.of(open_metadata(options.place())), run)
    target = target if query is None else postpone_rows(target)
    _check_alone(target, 0 if context is None else context.partitionId())
    writer = TableWriter(target, overwrite=overwrite)
    try:
        rows = pa.RecordBatchReader.from_batches(first.schema, chain([first], filled))
        writer.write(rows, options.sink().kinds)
        messages = writer.prepare_commit()
    finally:
        writer.close()
    return Written(run, query, encode_value(messages))


def commit_tasks(
    given: Mapping[str, str], written: Sequence[Written | None], *, overwrite: bool, batch_id: int | None = None
) -> None:
    """Commit the writes of tasks once: a batch of a streaming query that was already committed is skipped.

    Raises `CommitConflict`, `UnclearOutcome`, `StorageError`: as `TableCommit.commit`.
    """
    options = Options(given)
    sink = options.sink()
    done = [one for one in written if one is not None]
    messages = [message for one in done for message in decode_messages(one.messages)]
    user = sink.commit_user or next((one.query for one in done if one.query is not None), None)
    if batch_id is not None and user is None and done:
        raise InvalidArgument("the streaming query has no id; give the option 'commit-user' to commit it under")
    target = WriteTarget.of(open_metadata(options.place()), user)
    identifier = sink.commit_identifier if batch_id is None else batch_id
    request = Commit(identifier, replaced=_find_replaced(target, sink) if overwrite else None)
    commits = commit_with_maintenance(target)
    last = commit_messages(target, messages, request)
    if last is None:
        commits.abort(messages)  # the batch was committed before, with other files
    _compact(commits, messages, last or commits.latest_snapshot(), request.number)
    _remove_leftovers(target, {one.run for one in done}, messages)


def abort_tasks(given: Mapping[str, str], written: Sequence[Written | None]) -> None:
    """Remove the files of finished tasks after another task has finally failed.

    Spark also calls this after a failed commit, with the messages of all tasks. Then the commit has removed the files
    that are certainly uncommitted, and the remaining files may be in a snapshot.
    """
    if None not in written:
        return
    messages = [message for one in written if one is not None for message in decode_messages(one.messages)]
    if messages:
        TableCommit(WriteTarget.of(open_metadata(Options(given).place()))).abort(messages)


def _mark_run(target: WriteTarget, run: str) -> WriteTarget:
    """Return the target of a task, which adds the run to file names and does not compact."""
    named = replace(
        target.write,
        write_only=True,
        data_file_prefix=f"{target.write.data_file_prefix}{run}-",
        changelog_file_prefix=f"{target.write.changelog_file_prefix}{run}-",
    )
    return replace(target, write=named)


def _check_alone(target: WriteTarget, number: int) -> None:
    """Refuse a second task. Tasks are numbered from 0, so any other number means several."""
    mode = determine_bucket_mode(target)
    if number and mode in ONE_WRITER:
        raise Unsupported(
            "several tasks that write to a table whose keys are given buckets one by one (bucket = -1)",
            where=target.where,
            hint="use morrow.spark.write, in streams foreachBatch(morrow.spark.sink(path)), or .coalesce(1) the rows",
        )


def _find_replaced(target: WriteTarget, sink: SinkOptions) -> Replaced:
    """Return what an overwrite replaces: the whole table, as in Spark, unless it is dynamic."""
    return "dynamic" if sink.dynamic_overwrite and target.partition_fields else {}


def _compact(commits: TableCommit, messages: Sequence[CommitMessage], done: Snapshot | None, identifier: int) -> None:
    """Compact the written buckets if reads wait for that, even after a repeated commit that had not compacted."""
    if commits.target.write.write_only:
        return
    # For `recompact_messages` these are commits whose compaction failed.
    wanting = [msgspec.structs.replace(message, compact_before=message.new_files) for message in messages]
    recompact_messages(commits, wanting, done, identifier, several=True)


def _remove_leftovers(target: WriteTarget, runs: set[str], messages: Sequence[CommitMessage]) -> None:
    """Remove files of these runs from the written buckets unless a message names them."""
    named: dict[Placement, set[str]] = defaultdict(set)
    for message in messages:
        files = (*message.new_files, *message.changelog_files)
        named[Placement.of(message)].update(name for file in files for name in (file.file_name, *file.extra_files))
    for place, known in named.items():
        folder = target.bucket_folder(place.partition, place.bucket)
        try:
            names = [status.name for status in target.store.list(folder)]
        except StorageError as error:  # the commit is valid, and these become orphan files
            log.warning("%s: files of failed attempts of tasks stay in %s: %s", target.where, folder, error)
            continue
        left = [name for name in names if name not in known and any(f"{run}-" in name for run in runs)]
        target.store.discard([f"{folder}/{name}" for name in left])
