"""The writes of tasks, and their commit on the driver.

A Python data source cannot ask Spark to sort or distribute the rows. So each task may get rows of every bucket, and
writes its own files in them: appended files, or files of level 0. It compacts nothing, since two tasks cannot compact
one bucket. Tables whose reads wait for compaction (deletion vectors, first-row, a changelog by lookup) have the written
buckets compacted after the commit, one after the other in the driver's Python process; `morrow.spark.write` shuffles
rows by bucket and leaves that to its tasks. Tables that assign each new key a bucket (``bucket = -1``) need one writer
that knows all keys. When a key is in the rows of several tasks, any of its rows may win, unless the table has a
``sequence.field``.

File names contain the run, one write of one job. Task attempts that failed, were killed or came second leave files in
buckets that another attempt wrote too, so after the commit files of this run in those buckets are removed unless a
message names them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.telling import logger
from morrow.engine.values import replace
from morrow.spark.job.wire import encoded, messages_in
from morrow.spark.source.option_values import SinkOptions
from morrow.spark.source.options import Options
from morrow.spark.source.plain import BATCH_PROPERTY, QUERY_PROPERTY, Written
from morrow.spark.source.schemas import metadata_of
from morrow.spark.writing.job import Commit, Replaced, committed
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.buckets.postponed import waiting
from morrow.writers.commit import TableCommit
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files import Placement
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.operations.recompaction import recompacted
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.target import WriteTarget

ONE_WRITER = (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)
"""Bucket modes in which a writer has to know what all others write."""

log = logger(__name__)


def write(given: Mapping[str, str], run: str, batches: Iterator[pa.RecordBatch], *, overwrite: bool) -> Written:
    """Writes the rows of one task.

    Raises:
        InvalidArgument, ColumnNotFound: rows that the table does not accept.
        Unsupported: several tasks write to a table that takes one writer.
    """
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
    if context is not None and query is not None:
        # A writer may serve a whole query, and files that one batch committed are no leftovers of the next.
        run = f"{run}-{context.getLocalProperty(BATCH_PROPERTY)}"
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return Written(run, query, encoded([]))
    options = Options(given)
    target = _of_run(WriteTarget.of(metadata_of(options.place())), run)
    target = target if query is None else waiting(target)
    _check_alone(target, 0 if context is None else context.partitionId())
    writer = TableWriter(target, overwrite=overwrite)
    try:
        rows = pa.RecordBatchReader.from_batches(first.schema, chain([first], filled))
        writer.write(rows, options.sink().kinds)
        messages = writer.prepare_commit()
    finally:
        writer.close()
    return Written(run, query, encoded(messages))


def commit(
    given: Mapping[str, str], written: Sequence[Written | None], *, overwrite: bool, batch_id: int | None = None
) -> None:
    """Commits the writes of tasks, once: a batch of a streaming query that was committed before is recognised.

    Raises:
        CommitConflict, UnclearOutcome, StorageError: as `TableCommit.commit`.
    """
    options = Options(given)
    sink = options.sink()
    done = [one for one in written if one is not None]
    messages = [message for one in done for message in messages_in(one.messages)]
    user = sink.commit_user or next((one.query for one in done if one.query is not None), None)
    if batch_id is not None and user is None and done:
        raise InvalidArgument("the streaming query has no id; give the option 'commit-user' to commit it under")
    target = WriteTarget.of(metadata_of(options.place()), user)
    identifier = sink.commit_identifier if batch_id is None else batch_id
    request = Commit(identifier, replaced=_replaced(target, sink) if overwrite else None)
    commits = maintained(target)
    last = committed(target, messages, request)
    if last is None:
        commits.abort(messages)  # it was committed before, with other files
    _compact(commits, messages, last or commits.latest_snapshot(), request.number)
    _remove_leftovers(target, {one.run for one in done}, messages)


def abort(given: Mapping[str, str], written: Sequence[Written | None]) -> None:
    """Removes the files of finished tasks when another task failed for good.

    Spark also calls this when the commit failed, with the messages of all tasks. Then the commit has removed the files
    that are certainly uncommitted, and the others may be in a snapshot.
    """
    if None not in written:
        return
    messages = [message for one in written if one is not None for message in messages_in(one.messages)]
    if messages:
        TableCommit(WriteTarget.of(metadata_of(Options(given).place()))).abort(messages)


def _of_run(target: WriteTarget, run: str) -> WriteTarget:
    """Returns the target of a task: its files have the run in their names, and it compacts nothing."""
    named = replace(
        target.write,
        write_only=True,
        data_file_prefix=f"{target.write.data_file_prefix}{run}-",
        changelog_file_prefix=f"{target.write.changelog_file_prefix}{run}-",
    )
    return replace(target, write=named)


def _check_alone(target: WriteTarget, number: int) -> None:
    """Refuses a second task. Tasks are numbered from 0, so any other number means several."""
    mode = bucket_mode(target)
    if number and mode in ONE_WRITER:
        raise Unsupported(
            "several tasks that write to a table whose keys are given buckets one by one (bucket = -1)",
            where=target.where,
            hint="use morrow.spark.write, in streams foreachBatch(morrow.spark.sink(path)), or .coalesce(1) the rows",
        )


def _replaced(target: WriteTarget, sink: SinkOptions) -> Replaced:
    """Returns what an overwrite replaces: everything, as in Spark, unless it is dynamic."""
    return "dynamic" if sink.dynamic_overwrite and target.partition_fields else {}


def _compact(commits: TableCommit, messages: Sequence[CommitMessage], done: Snapshot | None, identifier: int) -> None:
    """Compacts the written buckets, where reads wait for that; also after a repeated commit that stopped before it."""
    if commits.target.write.write_only:
        return
    # For `recompacted` these are commits whose compaction failed.
    wanting = [msgspec.structs.replace(message, compact_before=message.new_files) for message in messages]
    recompacted(commits, wanting, done, identifier, several=True)


def _remove_leftovers(target: WriteTarget, runs: set[str], messages: Sequence[CommitMessage]) -> None:
    """Removes files of these runs, in the buckets that were written, that no message names."""
    named: dict[Placement, set[str]] = defaultdict(set)
    for message in messages:
        files = (*message.new_files, *message.changelog_files)
        named[Placement.of(message)].update(name for file in files for name in (file.file_name, *file.extra_files))
    for place, known in named.items():
        folder = target.bucket_folder(place.partition, place.bucket)
        try:
            names = [status.name for status in target.store.list(folder)]
        except StorageError as error:  # the commit stands, and these become orphan files
            log.warning("%s: what attempts of tasks left in %s stays there: %s", target.where, folder, error)
            continue
        left = [name for name in names if name not in known and any(f"{run}-" in name for run in runs)]
        target.store.discard([f"{folder}/{name}" for name in left])
