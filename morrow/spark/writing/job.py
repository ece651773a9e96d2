"""One write as a Spark job: checked before it starts, rows distributed by bucket, committed once by the driver.

Messages are the result of the job. Spark returns the result of one attempt of each task, even if it ran
several: only these are committed. The attempt log finds the files of the other attempts, which are removed.
The bucket mode decides the distribution. If SQL can build the BinaryRow of a key, Spark computes its bucket itself
and no row passes through Python. Paimon hashes the bytes of a BinaryRow (`morrow.engine.format.binary_row`): header
and null bits, a slot of 8 bytes for each field, then values too long for their slots, in whole words. The hash is
Murmur3 with seed 42, as is Spark's ``hash`` of a BINARY of whole words. Columns have names that need no quotes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.binary_row import (
    HEADER_BITS,
    INLINE_MARK,
    MAX_INLINE_LENGTH,
    SLOT_WIDTH,
    compute_bit_set_width,
    compute_fixed_width,
)
from morrow.engine.format.schema import ROW_ID
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import FILE_PATH, TASK
from morrow.engine.options.declared.connectors import SINK_PARALLELISM
from morrow.engine.plan.filter import Filter
from morrow.spark.job.execution import map_rows, shuffle_by_task
from morrow.spark.job.tasks import Work
from morrow.spark.job.wire import RESULT, TableAccess, collect_results
from morrow.spark.sessions import count_cores
from morrow.spark.types import to_arrow_schema
from morrow.spark.versions import spread_rows
from morrow.spark.writing.tasks import NumberJob, UpdateJob, WriteJob
from morrow.writers.append.row_level import list_anchors
from morrow.writers.buckets.modes import BucketMode, determine_bucket_mode
from morrow.writers.buckets.routers import FixedRouter, postpone_rows
from morrow.writers.commit import messages as tally
from morrow.writers.commit.attempt_log import AttemptLog
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.committer import SnapshotLog
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage, Partitions, drop_repeated_indexes
from morrow.writers.commit.premise import Premise, guard_read
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.ingest.conversion import convert_rows
from morrow.writers.operations.overwrite import build_key_premise, replace_matching
from morrow.writers.operations.partition_filters import PartitionSpec, is_in_partition
from morrow.writers.operations.write_session import (
    check_identifier,
    clean_up_on_failure,
    commit_once,
    is_full_compaction_due,
    plan_where,
)
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Replaced: TypeAlias = 'PartitionSpec | Filter | Literal["dynamic"]'
"""The target of an overwrite: partitions with these values (none: the table), partitions that match a condition, or the
partitions of the rows."""

DELETED = "-D"


@dataclass(frozen=True)
class Commit:
    """The settings of the commit of a write; see `Writer.commit`.

    Args:
        identifier: compared with the commit user's earlier commits, so that nothing is committed twice.
        replaced: an overwrite; None: an append.
    """

    identifier: int | None = None
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    replaced: Replaced | None = None
    within: PartitionSpec = field(default_factory=dict)
    """The partitions that may contain the rows of a dynamic overwrite."""
    premise: Premise | None = None
    """The state that the rows were derived from. If it has changed, the commit is a conflict."""

    @property
    def number(self) -> int:
        return BATCH_COMMIT_IDENTIFIER if self.identifier is None else self.identifier


def write(rows: DataFrame, target: WriteTarget, kinds: str | None, commit: Commit) -> Snapshot | None:
    """Write the rows of a DataFrame in one commit.

    Returns: the last snapshot created, or None if there was nothing to commit or it had been committed before.

    Raises:
        ColumnNotFound, InvalidArgument, Unsupported: columns, types, values or row kinds that the table rejects.
        CommitConflict, UnclearOutcome: as `Writer.commit`. Spark's own errors, if a task failed too often.
    """
    check_identifier(commit.number)
    target = target if commit.identifier is None else postpone_rows(target)
    check(rows, target, kinds)
    if is_committed(target, commit.identifier):
        return None
    once = partial(_write, rows, target, kinds, commit)
    # Two writers may assign different buckets or partitions to a key; the later commit is refused and retried. (Rows
    # with a premise are derived again by the caller.)
    given_one_by_one = determine_bucket_mode(target) in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)
    return retry_on_conflict(target, once) if given_one_by_one and commit.premise is None else once()


def _write(rows: DataFrame, target: WriteTarget, kinds: str | None, commit: Commit) -> Snapshot | None:
    with tally.count_rows_of(tally.Operation.DELETE) if kinds == DELETED else nullcontext():
        return _write_once(rows, target, kinds, commit)


def _write_once(rows: DataFrame, target: WriteTarget, kinds: str | None, commit: Commit) -> Snapshot | None:
    overwrite = commit.replaced is not None
    compact = not overwrite and is_full_compaction_due(target, commit.identifier)
    messages = write_files(rows, target, kinds, overwrite=overwrite, compact=compact)
    if kinds is not None and commit.premise is not None:  # otherwise some of the keys may be missing
        files = (file for message in messages for file in message.new_files)
        tally.count(deleted=sum(file.delete_row_count or 0 for file in files))
    return commit_messages(target, messages, commit)


def check(rows: DataFrame, target: WriteTarget, kinds: str | None) -> None:
    """Refuse a DataFrame whose schema has errors, before any job.

    Raises as `writers.ingest.conversion`, and `Unsupported` for types that Paimon does not have.
    """
    empty = to_arrow_schema(rows.schema).empty_table()
    for _ in convert_rows(target, empty, kinds=kinds):
        pass


def write_files(
    rows: DataFrame,
    target: WriteTarget,
    kinds: str | None,
    *,
    overwrite: bool = False,
    compact: bool = False,
    adds: bool = False,
) -> list[CommitMessage]:
    """Write the files of these rows in one Spark job, without committing them; remove all other files of the job."""
    attempt_log = AttemptLog(target.store, target.metadata.root)
    job = WriteJob(TableAccess.of(target, attempt_log.folder), tuple(rows.columns), kinds, overwrite, compact, adds)
    placed = shuffle_rows(rows.toDF(*job.numbers), target, job).drop(TASK)
    return collect_results(attempt_log, lambda: map_rows(placed, Work.WRITE, job, RESULT))


def update_files(rows: DataFrame, target: WriteTarget, premise: Premise) -> list[CommitMessage]:
    """Write files with new versions of tracked rows in one Spark job, as `write_files`.

    `rows`: columns for the operation, columns of the table, then those of `list_places` and `list_carried`.
    """
    attempt_log = AttemptLog(target.store, target.metadata.root)
    job = UpdateJob(TableAccess.of(target, attempt_log.folder), tuple(rows.columns[1:]), premise.read, premise.filter)
    if target.options.data_evolution:
        placed = shuffle_by_task(rows, *_number_groups(rows, target, premise))
    else:
        placed = rows.repartition(_count_tasks(rows, target), FILE_PATH)
    numbered = placed.toDF(*(f"c{number}" for number in range(len(rows.columns))))
    found = collect_results(attempt_log, lambda: map_rows(numbered, Work.UPDATE, job, RESULT))
    return drop_repeated_indexes(found)


def _number_groups(rows: DataFrame, target: WriteTarget, premise: Premise) -> tuple[str, int]:
    """Return SQL for the task of the row ids of each group of files, and the number of tasks."""
    with guard_read(target.metadata, premise.read):
        plan = plan_where(target, premise.read, premise.filter)
    starts = sorted({file.first_row_id or 0 for file in list_anchors(plan)})
    step = math.ceil(len(starts) / _count_tasks(rows, target)) or 1
    bounds = starts[step::step]
    numbers = ", ".join(f"{bound}L" for bound in bounds)
    return f"size(filter(array({numbers}), bound -> bound <= {ROW_ID}))" if bounds else "0", len(bounds) + 1


def commit_messages(target: WriteTarget, messages: Sequence[CommitMessage], commit: Commit) -> Snapshot | None:
    """Commit the messages of a job, and maintain the table as its options say: tags, expiry.

    On failure their files are removed, unless the outcome is unclear.
    """
    commits = commit_with_maintenance(target)
    if is_committed(target, commit.identifier):  # committed by another driver while the job ran
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
            premise=build_key_premise(target, messages, partitions, premise),
        )

    with clean_up_on_failure(commits, messages, commit.number):
        if isinstance(commit.replaced, Filter):
            return replace_matching(target, messages, commit.replaced, replaced)
        return replaced(partitions=_find_replaced(target, messages, commit))


def is_committed(target: WriteTarget, identifier: int | None) -> bool:
    """Return whether the commit user has committed this identifier. Identifiers grow, as in `filter_and_commit`."""
    if identifier is None:
        return False
    newest = SnapshotLog(target.metadata).latest_of(target.commit_user)
    return newest is not None and identifier <= newest.commit_identifier


def _find_replaced(
    target: WriteTarget, messages: Sequence[CommitMessage], commit: Commit
) -> Literal["all"] | list[PartitionSpec] | list[bytes]:
    assert not isinstance(commit.replaced, Filter)
    if commit.replaced != "dynamic":
        return [commit.replaced] if commit.replaced else "all"
    partitions = list(dict.fromkeys(message.partition for message in messages))
    for partition in partitions:
        if not is_in_partition(target, partition, commit.within):
            values = dict(zip(target.schema.partition_keys, target.partition_values(partition)))
            raise InvalidArgument(
                f"{target.where}: the data has rows of the partition {values}, which is not in {dict(commit.within)}"
            )
    return partitions


def shuffle_rows(rows: DataFrame, target: WriteTarget, job: WriteJob) -> DataFrame:
    """Shuffle the rows, with numbered columns, so that no two tasks write to one bucket. May add a column `TASK`.

    =================  ====================================================================================
    fixed buckets      by partition and bucket
    dynamic buckets    by partition: one task assigns the buckets of a partition
    cross-partition    all rows to one task, which knows the place of every key
    postponed          by key, so that one task has all versions of a key
    partition's own    by partition: one task writes all buckets of a partition
    no buckets         evenly, by Spark's rebalance: partitions are kept together, large ones are divided
    =================  ====================================================================================
    """
    return _SHUFFLES[determine_bucket_mode(target)](rows, target, job)


def _shuffle_by_bucket(rows: DataFrame, target: WriteTarget, job: WriteJob) -> DataFrame:
    tasks = _count_tasks(rows, target)
    if not target.partition_fields:
        tasks = min(tasks, target.options.bucket) if determine_bucket_mode(target) is BucketMode.FIXED else 1
    return rows.repartition(1) if tasks == 1 else _shuffle_by_number(rows, target, job, tasks)


def _shuffle_by_key(rows: DataFrame, target: WriteTarget, job: WriteJob) -> DataFrame:
    return rows.repartition(_count_tasks(rows, target), *job.numbered(target.schema.primary_keys))


def _spread_evenly(rows: DataFrame, target: WriteTarget, job: WriteJob) -> DataFrame:
    return spread_rows(rows, job.numbered(target.schema.partition_keys))


def _gather_rows(rows: DataFrame, _target: WriteTarget, _job: WriteJob) -> DataFrame:
    return rows.repartition(1)


def _shuffle_by_number(rows: DataFrame, target: WriteTarget, job: WriteJob, tasks: int) -> DataFrame:
    """Repartition by task numbers: as in Java, the buckets of a partition go to consecutive tasks."""
    number = _build_number_sql(rows, target, job)
    if number is None:
        rows, number = _add_numbers(rows, job, tasks), TASK
    return shuffle_by_task(rows, number, tasks)


def _build_number_sql(rows: DataFrame, target: WriteTarget, job: WriteJob) -> str | None:
    """Return SQL for a number shared by rows of one partition and bucket; None if Spark cannot compute it."""
    called = dict(zip(job.columns, job.numbers))
    bucket: str | None = "0"
    if determine_bucket_mode(target) is BucketMode.FIXED:
        bucket = build_bucket_sql(FixedRouter(target), called, rows.schema)
    fields = target.partition_fields
    if bucket is None or any(f.name not in called or f.default_value is not None for f in fields):
        return None
    if not fields:
        return bucket
    return f"(CAST(hash({', '.join(called[f.name] for f in fields)}) AS BIGINT) + {bucket})"


def _add_numbers(rows: DataFrame, job: WriteJob, tasks: int) -> DataFrame:
    """Return the rows with their task numbers, computed in Python, in the column `TASK`."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    columns = StructType([*rows.schema.fields, StructField(TASK, IntegerType())])
    return map_rows(rows, Work.NUMBER, NumberJob(job, tasks), columns)


def _count_tasks(rows: DataFrame, target: WriteTarget) -> int:
    """Return the number of tasks: the table's setting, else the number that run at once."""
    tasks = target.options.given.get(SINK_PARALLELISM)
    if tasks is not None and tasks < 1:
        raise target.options.given.refused(SINK_PARALLELISM, "it is a number of tasks, from 1 on")
    return count_cores(rows.sparkSession) if tasks is None else tasks


_SHUFFLES: Mapping[BucketMode, Callable[[DataFrame, WriteTarget, WriteJob], DataFrame]] = {
    BucketMode.UNAWARE: _spread_evenly,
    BucketMode.FIXED: _shuffle_by_bucket,
    BucketMode.DYNAMIC: _shuffle_by_bucket,
    BucketMode.CROSS_PARTITION: _gather_rows,
    BucketMode.POSTPONE: _shuffle_by_key,
    BucketMode.PARTITION_BUCKETS: _shuffle_by_bucket,
}

NULL_SLOT = f"X'{'00' * SLOT_WIDTH}'"


@dataclass(frozen=True)
class _Part:
    """SQL for a column of a BinaryRow: its slot, given the offset of its variable part, and the variable part."""

    slot: Callable[[str], str]
    size: str | None = None
    variable: str | None = None


def build_bucket_sql(router: FixedRouter, columns: Mapping[str, str], schema: StructType) -> str | None:
    """Return SQL for the bucket of each row (INT), as `FixedRouter.buckets`; None if Spark cannot compute it.

    Args:
        columns: the names in the data, by the names of the table's columns.
        schema: the schema of the data, with the names in the data.
    """
    if router.count == 1:
        return "0"
    parts = [_build_part(field, columns.get(field.name), schema) for field in router.keys]
    known = [part for part in parts if part is not None]
    if router.function != "default" or len(known) < len(parts) or compute_bit_set_width(len(parts)) > SLOT_WIDTH:
        return None
    nullable = [(at, columns[field.name]) for at, field in enumerate(router.keys) if field.type.nullable]
    return f"abs(hash({_build_row(known, nullable)}) % {router.count})"


def _build_row(parts: Sequence[_Part], nullable: Sequence[tuple[int, str]]) -> str:
    bits = " | ".join(f"IF({column} IS NULL, shiftleft(1L, {HEADER_BITS + at}), 0L)" for at, column in nullable)
    pieces = [_build_word(bits) if bits else NULL_SLOT]
    variable, begin = [], str(compute_fixed_width(len(parts)))
    for part in parts:
        pieces.append(part.slot(begin))
        if part.size is not None and part.variable is not None:
            variable.append(part.variable)
            begin = f"{begin} + {part.size}"
    return f"concat({', '.join(pieces + variable)})"


def _build_part(field: t.DataField, column: str | None, schema: StructType) -> _Part | None:
    """Return the part of a field; None for a type without SQL in `_PARTS`, a missing column, or replaced nulls."""
    made = _PARTS.get(type(field.type))
    if made is None or column is None or field.default_value is not None:
        return None
    given, build = made
    return build(column) if type(schema[column].dataType).__name__ in given else None


def _build_word(value: str) -> str:
    """Return SQL for the 8 bytes of a BIGINT, the lowest first."""
    moved = (f"shiftleft(shiftright({value}, {at}) & 255L, {56 - at})" for at in range(0, 64, 8))
    return f"unhex(lpad(hex({' | '.join(moved)}), 16, '0'))"


def _build_number_part(value: str, bits: int) -> Callable[[str], _Part]:
    """Return a builder of a slot that begins with an integer of this many bits, followed by zeros."""
    mask = f" & {(1 << bits) - 1}L" if bits < 64 else ""

    def part(column: str) -> _Part:
        word = _build_word(f"(CAST({value.format(column)} AS BIGINT){mask})")
        return _Part(lambda _: f"coalesce({word}, {NULL_SLOT})")

    return part


def _build_bytes_part(column: str) -> _Part:
    """Return the part for bytes. The slot contains a few bytes and their number, or the number and offset."""
    length, data = f"octet_length({column})", f"CAST({column} AS BINARY)"
    is_long, words = f"{length} > {MAX_INLINE_LENGTH}", f"({length} + 7 & -8)"
    inline = f"concat(rpad({data}, {MAX_INLINE_LENGTH}, X'00'), unhex(hex({length} | {INLINE_MARK % 256})))"

    def slot(begin: str) -> str:
        place = _build_word(f"(CAST({length} AS BIGINT) | shiftleft(CAST({begin} AS BIGINT), 32))")
        return f"CASE WHEN {column} IS NULL THEN {NULL_SLOT} WHEN {is_long} THEN {place} ELSE {inline} END"

    return _Part(slot, f"IF({is_long}, {words}, 0)", f"IF({is_long}, rpad({data}, {words}, X'00'), X'')")


_INTEGERS = ("ByteType", "ShortType", "IntegerType", "LongType")
_PARTS: Mapping[type[t.DataType], tuple[Sequence[str], Callable[[str], _Part]]] = {
    t.BooleanType: (("BooleanType",), _build_number_part("{}", 8)),
    t.TinyIntType: (_INTEGERS, _build_number_part("{}", 8)),
    t.SmallIntType: (_INTEGERS, _build_number_part("{}", 16)),
    t.IntType: (_INTEGERS, _build_number_part("{}", 32)),
    t.BigIntType: (_INTEGERS, _build_number_part("{}", 64)),
    t.DateType: (("DateType",), _build_number_part("unix_date({})", 32)),
    t.VarCharType: (("StringType", "VarcharType"), _build_bytes_part),
    t.VarBinaryType: (("BinaryType",), _build_bytes_part),
}
"""By type in the table: the Spark types whose values need no conversion, and the builder of their part of a row."""
