"""One write as a Spark job: checked before it starts, written by tasks, committed once by the driver.

Messages come back as the result of the job, of which Spark takes that of one attempt of each task, whatever it ran
twice: only those are committed. The ledger finds the files of the other attempts, which are removed.
"""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from morrow.engine.errors import CommitConflict, InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.commit.snapshots import SnapshotLog
from morrow.writers.expiry.automatic import maintained
from morrow.writers.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.operations.partitions import PartitionSpec, is_in
from morrow.writers.operations.session import check_identifier, cleaned_up, commit_once, full_compaction_is_due
from morrow.writers.rows import incoming
from morrow.writers.spark.ledger import Ledger
from morrow.writers.spark.payload import WriteJob
from morrow.writers.spark.placing import shuffled
from morrow.writers.spark.results import RESULT, run
from morrow.writers.spark.tasks import TASK, WriteTasks
from morrow.writers.spark.types import arrow_schema
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Replaced: TypeAlias = 'PartitionSpec | Literal["dynamic"]'
"""What an overwrite replaces: partitions of these values (none: the table), or those that there are rows of."""


@dataclass(frozen=True)
class Commit:
    """How a write is committed; see `Writer.commit`.

    Args:
        identifier: with it the commit user's earlier commits are looked up, and what was committed is not again.
        replaced: an overwrite; None: an append.
    """

    identifier: int | None = None
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    replaced: Replaced | None = None
    within: PartitionSpec = field(default_factory=dict)
    """Of a dynamic overwrite: the partitions that rows may be of."""

    @property
    def number(self) -> int:
        return BATCH_COMMIT_IDENTIFIER if self.identifier is None else self.identifier


def write(rows: DataFrame, target: WriteTarget, kinds: str | None, commit: Commit) -> Snapshot | None:
    """Write the rows of a DataFrame in one commit.

    Returns: the last snapshot created; None when there was nothing to commit, or it was committed before.

    Raises:
        ColumnNotFound, InvalidArgument, Unsupported: columns, types, values or row kinds that the table does not take.
        CommitConflict, UnclearOutcome: as `Writer.commit`. Spark's own errors, when a task failed too often.
    """
    check_identifier(commit.number)
    check(rows, target, kinds)
    if was_committed(target, commit.identifier):
        return None
    # Two writers of dynamic buckets may give one key two buckets; the later commit is refused, and written once more.
    repeats = target.write.commit_retries if bucket_mode(target) is BucketMode.DYNAMIC else 0
    for done in range(repeats):
        try:
            return _write(rows, target, kinds, commit)
        except CommitConflict:
            wait = min(target.write.commit_max_wait, target.write.commit_min_wait * 2**done)
            time.sleep(wait.total_seconds() * random.uniform(0.5, 1.5))
    return _write(rows, target, kinds, commit)


def _write(rows: DataFrame, target: WriteTarget, kinds: str | None, commit: Commit) -> Snapshot | None:
    overwrite = commit.replaced is not None
    compact = not overwrite and full_compaction_is_due(target, commit.identifier)
    messages = written(rows, target, kinds, overwrite=overwrite, compact=compact)
    return committed(target, messages, commit)


def check(rows: DataFrame, target: WriteTarget, kinds: str | None) -> None:
    """Refuse, before any job, what the schema of a DataFrame shows. Raises as `writers.rows.incoming`, and for types
    that Paimon does not have `Unsupported`."""
    empty = arrow_schema(rows.schema).empty_table()
    for _ in incoming(target, empty, kinds=kinds):
        pass


def written(
    rows: DataFrame, target: WriteTarget, kinds: str | None, *, overwrite: bool = False, compact: bool = False
) -> list[CommitMessage]:
    """The files of these rows, not committed yet; nothing else stays of the job. Runs one Spark job."""
    ledger = Ledger(target.store, target.metadata.root)
    job = WriteJob.of(target, rows.columns, kinds=kinds, overwrite=overwrite, compact=compact, ledger=ledger.folder)
    placed = shuffled(rows.toDF(*job.numbers), target, job).drop(TASK)
    return run(ledger, lambda: placed.mapInArrow(WriteTasks(pickle.dumps(job)), RESULT))


def committed(target: WriteTarget, messages: Sequence[CommitMessage], commit: Commit) -> Snapshot | None:
    """Commit the messages of a job, and keep the table as its options say: tags, expiry.

    Without success their files are removed, unless the outcome is not clear.
    """
    commits = maintained(target)
    if was_committed(target, commit.identifier):  # by another driver, while the job ran
        commits.abort(messages)
        return None
    if commit.replaced is None:
        return commit_once(
            commits,
            messages,
            commit.number,
            watermark=commit.watermark,
            properties=commit.properties,
            repeats=commit.identifier is not None,
        )
    with cleaned_up(commits, messages, commit.number):
        return commits.overwrite(
            messages,
            partitions=_replaced(target, messages, commit),
            identifier=commit.number,
            watermark=commit.watermark,
            properties=commit.properties,
        )


def was_committed(target: WriteTarget, identifier: int | None) -> bool:
    """Whether the commit user of the target has committed this identifier: they grow, as `filter_and_commit` has it."""
    if identifier is None:
        return False
    newest = SnapshotLog(target.metadata).latest_of(target.commit_user)
    return newest is not None and identifier <= newest.commit_identifier


def _replaced(
    target: WriteTarget, messages: Sequence[CommitMessage], commit: Commit
) -> Literal["all"] | list[PartitionSpec] | list[bytes]:
    if commit.replaced != "dynamic":
        return [commit.replaced] if commit.replaced else "all"
    partitions = list(dict.fromkeys(message.partition for message in messages))
    for partition in partitions:
        if not is_in(target, partition, commit.within):
            values = dict(zip(target.schema.partition_keys, target.partition_values(partition)))
            raise InvalidArgument(
                f"{target.where}: the data has rows of the partition {values}, which is not in {dict(commit.within)}"
            )
    return partitions
