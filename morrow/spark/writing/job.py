"""One write as a Spark job: checked before it starts, written by tasks, committed once by the driver.

Messages come back as the result of the job. Spark takes the result of one attempt of each task, even if it ran several:
only those are committed. The attempt log finds the files of the other attempts, which are removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import TASK
from morrow.engine.plan.filter import Filter
from morrow.spark.job.registry import Work
from morrow.spark.job.results import RESULT, collected
from morrow.spark.job.run import mapped
from morrow.spark.job.table import TableAccess
from morrow.spark.types.to_paimon import arrow_schema
from morrow.spark.writing.partitioning import shuffled
from morrow.spark.writing.work import WriteJob
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.buckets.postponed import waiting
from morrow.writers.commit.attempt_log import AttemptLog
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.commit.overwriting import Partitions
from morrow.writers.commit.premise import Premise
from morrow.writers.commit.snapshots import SnapshotLog
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.operations.committing import check_identifier, cleaned_up, commit_once
from morrow.writers.operations.overwrite import keys_stay, replace_matching
from morrow.writers.operations.partitions import PartitionSpec, is_in
from morrow.writers.operations.retrying import retried
from morrow.writers.operations.session import full_compaction_is_due
from morrow.writers.rows import incoming
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Replaced: TypeAlias = 'PartitionSpec | Filter | Literal["dynamic"]'
"""The target of an overwrite: partitions of these values (none: the table), those for which a condition is true, or the
partitions of the rows."""


@dataclass(frozen=True)
class Commit:
    """The settings of the commit of a write; see `Writer.commit`.

    Args:
        identifier: looked up among the commit user's earlier commits, so that nothing is committed twice.
        replaced: an overwrite; None: an append.
    """

    identifier: int | None = None
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    replaced: Replaced | None = None
    within: PartitionSpec = field(default_factory=dict)
    """The partitions that the rows of a dynamic overwrite may belong to."""
    premise: Premise | None = None
    """The state that the rows were derived from; a change of it is a conflict."""

    @property
    def number(self) -> int:
        return BATCH_COMMIT_IDENTIFIER if self.identifier is None else self.identifier


def write(rows: DataFrame, target: WriteTarget, kinds: str | None, commit: Commit) -> Snapshot | None:
    """Writes the rows of a DataFrame in one commit.

    Returns: the last snapshot created; None when there was nothing to commit, or it had been committed before.

    Raises:
        ColumnNotFound, InvalidArgument, Unsupported: columns, types, values or row kinds that the table rejects.
        CommitConflict, UnclearOutcome: as `Writer.commit`. Spark's own errors, when a task failed too often.
    """
    check_identifier(commit.number)
    target = target if commit.identifier is None else waiting(target)
    check(rows, target, kinds)
    if was_committed(target, commit.identifier):
        return None
    once = partial(_write, rows, target, kinds, commit)
    # Two writers may assign different buckets or partitions to a key; the later commit is refused and retried. (Rows
    # with a premise are derived anew by the caller.)
    given_one_by_one = bucket_mode(target) in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)
    return retried(target, once) if given_one_by_one and commit.premise is None else once()


def _write(rows: DataFrame, target: WriteTarget, kinds: str | None, commit: Commit) -> Snapshot | None:
    overwrite = commit.replaced is not None
    compact = not overwrite and full_compaction_is_due(target, commit.identifier)
    messages = written(rows, target, kinds, overwrite=overwrite, compact=compact)
    return committed(target, messages, commit)


def check(rows: DataFrame, target: WriteTarget, kinds: str | None) -> None:
    """Refuses, before any job, errors in the schema of a DataFrame. Raises as `writers.rows.incoming`, and
    `Unsupported` for types that Paimon does not have.
    """
    empty = arrow_schema(rows.schema).empty_table()
    for _ in incoming(target, empty, kinds=kinds):
        pass


def written(
    rows: DataFrame,
    target: WriteTarget,
    kinds: str | None,
    *,
    overwrite: bool = False,
    compact: bool = False,
    adds: bool = False,
) -> list[CommitMessage]:
    """Writes the files of these rows, not committed yet; nothing else stays of the job. Runs one Spark job."""
    attempt_log = AttemptLog(target.store, target.metadata.root)
    job = WriteJob(TableAccess.of(target, attempt_log.folder), tuple(rows.columns), kinds, overwrite, compact, adds)
    placed = shuffled(rows.toDF(*job.numbers), target, job).drop(TASK)
    return collected(attempt_log, lambda: mapped(placed, Work.WRITE, job, RESULT))


def committed(target: WriteTarget, messages: Sequence[CommitMessage], commit: Commit) -> Snapshot | None:
    """Commits the messages of a job, and maintains the table as its options say: tags, expiry.

    On failure their files are removed, unless the outcome is unclear.
    """
    commits = maintained(target)
    if was_committed(target, commit.identifier):  # by another driver, while the job ran
        commits.abort(messages)
        return None
    commits.check_first(messages)
    if commit.replaced is None:
        return commit_once(
            commits,
            messages,
            commit.number,
            watermark=commit.watermark,
            properties=commit.properties,
            repeats=commit.identifier is not None,
            premise=commit.premise,
        )

    def replaced(*, partitions: Partitions, premise: Premise | None = None) -> Snapshot | None:
        return commits.overwrite(
            messages,
            partitions=partitions,
            identifier=commit.number,
            watermark=commit.watermark,
            properties=commit.properties,
            premise=keys_stay(target, messages, partitions, premise),
        )

    with cleaned_up(commits, messages, commit.number):
        if isinstance(commit.replaced, Filter):
            return replace_matching(target, messages, commit.replaced, replaced)
        return replaced(partitions=_replaced(target, messages, commit))


def was_committed(target: WriteTarget, identifier: int | None) -> bool:
    """Returns whether the target's commit user has committed this identifier: they grow, as in `filter_and_commit`."""
    if identifier is None:
        return False
    newest = SnapshotLog(target.metadata).latest_of(target.commit_user)
    return newest is not None and identifier <= newest.commit_identifier


def _replaced(
    target: WriteTarget, messages: Sequence[CommitMessage], commit: Commit
) -> Literal["all"] | list[PartitionSpec] | list[bytes]:
    assert not isinstance(commit.replaced, Filter)
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
