"""Overwrites of partitions, or of the whole table, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.library_versions import export_frame
from morrow.engine.names import cols
from morrow.engine.plan.filter import Filter, FilterLike
from morrow.engine.redaction import clean_text
from morrow.writers.buckets.cross_partition import KeyPlaces
from morrow.writers.buckets.modes import BucketMode, determine_bucket_mode
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.messages import CommitMessage, Operation, Partitions, record_operation
from morrow.writers.commit.premise import Premise
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.ingest.conversion import NULL, Missing, convert_rows
from morrow.writers.ingest.sources import Source, open_source
from morrow.writers.ingest.validation import Kinds
from morrow.writers.operations.append import SchemaMode, add_missing_columns
from morrow.writers.operations.expressions import Expression, evaluate_constant
from morrow.writers.operations.partition_filters import (
    PartitionSpec,
    build_partition_filter,
    filter_partitions,
    find_matching_partitions,
    is_in_partition,
    parse_partition_spec,
)
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.operations.write_session import clean_up_on_failure
from morrow.writers.target import WriteTarget

MAX_KEY_ROWS = 1 << 18
"""Maximum rows whose keys are read at a time."""


@record_operation(Operation.OVERWRITE)
def overwrite_rows(
    target: WriteTarget,
    data: object,
    partition: Mapping[str, object] | None,
    dynamic: bool | None,
    kinds: Kinds = None,
    *,
    replace_where: FilterLike | None = None,
    missing: Missing = NULL,
    schema_mode: SchemaMode = None,
) -> Snapshot | None:
    """Replace rows by new ones.

    Args:
        partition: values of (some) partition columns of all rows; the data may lack those columns.
        dynamic: True: replace only partitions for which the data has rows. False: replace all partitions that match
            `partition`, or the whole table. None: as ``dynamic-partition-overwrite``. Tables without partitions are
            replaced completely.
        replace_where: a condition on partition columns; partitions for which it is true are replaced.

    Raises:
        InvalidArgument: rows outside of `partition` or `replace_where`. Others as `convert_rows` and
            `add_missing_columns`.
    """
    condition = None
    if replace_where is not None:
        if partition is not None or dynamic is not None:
            raise InvalidArgument(
                "replace_where says which partitions are overwritten; leave partition and dynamic out"
            )
        condition = build_partition_filter(target, None, replace_where, "replace_where")
    target, data = add_missing_columns(target, data, kinds, schema_mode)
    spec = parse_partition_spec(target, partition or {})
    source = _add_partition_columns(target, open_source(data, target.schema.fields), spec)
    writer = TableWriter(target, overwrite=True)
    try:
        writer.write_frames(convert_rows(target, source, kinds=kinds, missing=missing))
        messages = writer.prepare_commit()
    finally:
        writer.close()
    return commit_overwrite(target, messages, spec, dynamic, condition=condition)


def commit_overwrite(
    target: WriteTarget,
    messages: Sequence[CommitMessage],
    spec: PartitionSpec,
    dynamic: bool | None = None,
    *,
    condition: Filter | None = None,
) -> Snapshot | None:
    """Replace rows by the files of messages, which a `TableWriter` with ``overwrite=True`` has prepared.

    Args:
        spec: the values of (some) partition columns, as `parse_partition_spec` returns them.
        dynamic: as for `overwrite_rows`.
        condition: the parsed `replace_where`.

    Raises as `overwrite_rows`; the files are then removed, unless the outcome is unclear.
    """
    commits = commit_with_maintenance(target)

    def commit(*, partitions: Partitions, premise: Premise | None = None) -> Snapshot | None:
        premise = build_key_premise(target, messages, partitions, premise)
        return commits.overwrite(messages, partitions=partitions, premise=premise)

    with clean_up_on_failure(commits, messages):
        if condition is not None:
            return replace_matching(target, messages, condition, commit)
        if target.partition_fields and (target.write.dynamic_partition_overwrite if dynamic is None else dynamic):
            _check_partitions(target, {message.partition for message in messages}, spec)
            return commit(partitions=list(dict.fromkeys(m.partition for m in messages)))
        return commit(partitions=[spec] if spec else "all")


def replace_matching(
    target: WriteTarget, messages: Sequence[CommitMessage], condition: Filter, commit: Callable[..., Snapshot | None]
) -> Snapshot | None:
    """Replace the partitions for which a condition is true by written files.

    `commit`: function that commits the messages; it takes ``partitions`` and a ``premise``.

    Raises:
        InvalidArgument: rows of a partition for which the condition is not true.
        CommitConflict: other commits created or changed such partitions each time.
    """
    written = pl.Series(list(dict.fromkeys(message.partition for message in messages)), dtype=pl.Binary)
    inside = set(filter_partitions(target, written, condition))
    outside = next((partition for partition in written if partition not in inside), None)
    if outside is not None:
        values = dict(zip(target.schema.partition_keys, target.partition_values(outside)))
        raise InvalidArgument(f"{target.where}: the data has rows of the partition {values}, not of {condition}")

    def once() -> Snapshot | None:
        newest = target.metadata.latest_snapshot()
        there = [] if newest is None else find_matching_partitions(target, newest, condition)
        partitions = list(dict.fromkeys([*there, *written]))
        return commit(partitions=partitions, premise=Premise(newest, condition)) if partitions else None

    return retry_on_conflict(target, once)


@record_operation(Operation.TRUNCATE)
def drop_partitions(target: WriteTarget, partitions: Sequence[Mapping[str, object]]) -> Snapshot | None:
    """Remove all rows of partitions with these values in (some of) their columns.

    Raises:
        InvalidArgument: no values, a value that does not fit, or a table without partitions.
        ColumnNotFound: a column is not a partition key.
    """
    specs = [parse_partition_spec(target, one) for one in partitions]
    return commit_with_maintenance(target).drop_partitions(specs)


@record_operation(Operation.TRUNCATE)
def truncate_table(target: WriteTarget) -> Snapshot | None:
    """Remove all rows."""
    return commit_with_maintenance(target).truncate()


def build_key_premise(
    target: WriteTarget, messages: Sequence[CommitMessage], partitions: Partitions, premise: Premise | None
) -> Premise | None:
    """Return the premise of an overwrite; this is `premise` if keys cannot move between partitions.

    Otherwise the premise is that the remaining partitions do not contain any written key, as in the newest snapshot.

    Raises `InvalidArgument`: a remaining partition has a written key, which would then be in two partitions.
    """
    moves = determine_bucket_mode(target) is BucketMode.CROSS_PARTITION
    keys = list(_read_keys(target, messages)) if moves and partitions != "all" else []
    if not keys:
        return premise
    newest = target.metadata.latest_snapshot() if premise is None else premise.read
    places = KeyPlaces(target, newest)
    unique = pl.concat(keys).unique()
    codes, _ = places.find(unique)
    specs = [one for one in partitions if isinstance(one, Mapping)]
    for code, partition in enumerate(places.partitions):
        here = np.flatnonzero(codes == code)
        if (
            len(here)
            and partition not in partitions
            and not any(is_in_partition(target, partition, one) for one in specs)
        ):
            values = dict(zip(target.schema.partition_keys, target.partition_values(partition)))
            raise InvalidArgument(
                f"{target.where}: the key {clean_text(str(unique.row(int(here[0]), named=True)))} is in the partition "
                f"{clean_text(str(values))}, which stays, and would be in two; delete it there, or overwrite that "
                "one, too"
            )
    return Premise(newest)


def _read_keys(target: WriteTarget, messages: Sequence[CommitMessage]) -> Iterator[pl.DataFrame]:
    """Yield the keys of the written rows, which are not committed yet."""
    for message in messages:
        stored = StoredFiles(target, Placement.of(message), message.new_files)
        for rows in stored.batches(message.new_files, MAX_KEY_ROWS):
            yield rows.select(cols(target.schema.primary_keys)).unique()


def _add_partition_columns(target: WriteTarget, source: Source, spec: PartitionSpec) -> Source:
    """Add the partition columns that the source lacks."""
    lacking = [name for name in spec if name not in source.names]
    if not lacking or not source.names:
        return source
    scalars = {
        name: evaluate_constant(Expression(f"partition {name}", spec[name]), target.schema.by_name[name])
        for name in lacking
    }

    def completed(piece: pa.Table) -> pa.Table:
        for name, scalar in scalars.items():
            piece = piece.append_column(name, pa.repeat(scalar, piece.num_rows))
        return piece

    pieces = (completed(piece if isinstance(piece, pa.Table) else export_frame(piece)) for piece in source.pieces)
    return Source((*source.names, *lacking), pieces)


def _check_partitions(target: WriteTarget, partitions: Iterable[bytes], spec: PartitionSpec) -> None:
    for partition in partitions:
        if not is_in_partition(target, partition, spec):
            values = dict(zip(target.schema.partition_keys, target.partition_values(partition)))
            raise InvalidArgument(
                f"{target.where}: the data has rows of the partition {values}, which is not in {dict(spec)}"
            )
