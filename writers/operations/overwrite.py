"""Overwrites of partitions, or of the whole table, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import cols
from morrow.engine.plan.filter import Filter, FilterLike
from morrow.engine.telling import shown
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.buckets.key_places import KeyPlaces
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.overwriting import Partitions
from morrow.writers.commit.premise import Premise
from morrow.writers.commit.tally import Operation, recorded
from morrow.writers.files import Placement
from morrow.writers.files.stored import StoredFiles
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.operations.committing import cleaned_up
from morrow.writers.operations.expressions import Expression, constant
from morrow.writers.operations.growing import SchemaMode, grown
from morrow.writers.operations.partitions import (
    PartitionSpec,
    is_in,
    matching,
    matching_partitions,
    partition_filter,
    partition_spec,
)
from morrow.writers.operations.retrying import retried
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.rows import NULL, Kinds, Missing, incoming
from morrow.writers.rows.sources import Source, source_of
from morrow.writers.target import WriteTarget

KEY_ROWS = 1 << 18
"""Rows of a file whose keys are read at a time."""


@recorded(Operation.OVERWRITE)
def overwrite(
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
    """Replaces rows by new ones.

    Args:
        partition: values of (some) partition columns of all rows; the data may lack those columns.
        dynamic: True: replaces only partitions of which the data has rows. False: replaces all partitions of
            `partition`, or the whole table. None: as ``dynamic-partition-overwrite``. Tables without partitions are
            replaced.
        replace_where: a condition on partition columns: replaces the partitions for which it is true.

    Raises:
        InvalidArgument: rows of another partition than `partition` or `replace_where` say. Others as `incoming` and
            `growing.grown`.
    """
    condition = None
    if replace_where is not None:
        if partition is not None or dynamic is not None:
            raise InvalidArgument(
                "replace_where says which partitions are overwritten; leave partition and dynamic out"
            )
        condition = partition_filter(target, None, replace_where, "replace_where")
    target, data = grown(target, data, kinds, schema_mode)
    spec = partition_spec(target, partition or {})
    if dynamic is None:
        dynamic = target.write.dynamic_partition_overwrite
    source = _with_partition(target, source_of(data, target.schema.fields), spec)
    writer = TableWriter(target, overwrite=True)
    commits = maintained(target)
    try:
        writer.write_frames(incoming(target, source, kinds=kinds, missing=missing))
        messages = writer.prepare_commit()
    finally:
        writer.close()

    def commit(*, partitions: Partitions, premise: Premise | None = None) -> Snapshot | None:
        premise = keys_stay(target, messages, partitions, premise)
        return commits.overwrite(messages, partitions=partitions, premise=premise)

    with cleaned_up(commits, messages):
        if condition is not None:
            return replace_matching(target, messages, condition, commit)
        if target.partition_fields and dynamic:
            _check_partitions(target, {message.partition for message in messages}, spec)
            return commit(partitions=list(dict.fromkeys(m.partition for m in messages)))
        return commit(partitions=[spec] if spec else "all")


def replace_matching(
    target: WriteTarget, messages: Sequence[CommitMessage], condition: Filter, commit: Callable[..., Snapshot | None]
) -> Snapshot | None:
    """Replaces the partitions for which a condition is true by written files.

    Args:
        commit: commits the messages; it takes ``partitions`` and a ``premise``.

    Raises:
        InvalidArgument: rows of a partition for which the condition is not true.
        CommitConflict: others made such partitions, or changed them, each time.
    """
    written = pl.Series(list(dict.fromkeys(message.partition for message in messages)), dtype=pl.Binary)
    inside = set(matching(target, written, condition))
    outside = next((partition for partition in written if partition not in inside), None)
    if outside is not None:
        values = dict(zip(target.schema.partition_keys, target.partition_values(outside)))
        raise InvalidArgument(f"{target.where}: the data has rows of the partition {values}, not of {condition}")

    def once() -> Snapshot | None:
        newest = target.metadata.latest_snapshot()
        there = [] if newest is None else matching_partitions(target, newest, condition)
        partitions = list(dict.fromkeys([*there, *written]))
        return commit(partitions=partitions, premise=Premise(newest, condition)) if partitions else None

    return retried(target, once)


@recorded(Operation.TRUNCATE)
def drop_partitions(target: WriteTarget, partitions: Sequence[Mapping[str, object]]) -> Snapshot | None:
    """Removes all rows of partitions with these values in (some of) their columns.

    Raises:
        InvalidArgument: no values, a value that does not fit, or a table without partitions.
        ColumnNotFound: a column that is no partition key.
    """
    specs = [partition_spec(target, one) for one in partitions]
    return maintained(target).drop_partitions(specs)


@recorded(Operation.TRUNCATE)
def truncate(target: WriteTarget) -> Snapshot | None:
    """Removes all rows."""
    return maintained(target).truncate()


def keys_stay(
    target: WriteTarget, messages: Sequence[CommitMessage], partitions: Partitions, premise: Premise | None
) -> Premise | None:
    """Returns the premise of an overwrite, `premise` where a key belongs to one partition alone.

    Where it may be in any: that no partition that stays has a key of the written rows, as the newest snapshot has it.

    Raises:
        InvalidArgument: one has: the key would be in two partitions.
    """
    moves = bucket_mode(target) is BucketMode.CROSS_PARTITION
    keys = list(_keys_of(target, messages)) if moves and partitions != "all" else []
    if not keys:
        return premise
    newest = target.metadata.latest_snapshot() if premise is None else premise.read
    places = KeyPlaces(target, newest)
    unique = pl.concat(keys).unique()
    codes, _ = places.find(unique)
    specs = [one for one in partitions if isinstance(one, Mapping)]
    for code, partition in enumerate(places.partitions):
        here = np.flatnonzero(codes == code)
        if len(here) and partition not in partitions and not any(is_in(target, partition, one) for one in specs):
            values = dict(zip(target.schema.partition_keys, target.partition_values(partition)))
            raise InvalidArgument(
                f"{target.where}: the key {shown(str(unique.row(int(here[0]), named=True)))} is in the partition "
                f"{shown(str(values))}, which stays, and would be in two; delete it there, or overwrite that one, too"
            )
    return Premise(newest)


def _keys_of(target: WriteTarget, messages: Sequence[CommitMessage]) -> Iterator[pl.DataFrame]:
    """Yields the keys of written rows that are not committed yet."""
    for message in messages:
        stored = StoredFiles(target, Placement.of(message), message.new_files)
        for rows in stored.batches(message.new_files, KEY_ROWS):
            yield rows.select(cols(target.schema.primary_keys)).unique()


def _with_partition(target: WriteTarget, source: Source, spec: PartitionSpec) -> Source:
    """Adds the partition columns that the source lacks."""
    lacking = [name for name in spec if name not in source.names]
    if not lacking or not source.names:
        return source
    scalars = {
        name: constant(Expression(f"partition {name}", spec[name]), target.schema.by_name[name]) for name in lacking
    }

    def completed(piece: pa.Table) -> pa.Table:
        for name, scalar in scalars.items():
            piece = piece.append_column(name, pa.repeat(scalar, piece.num_rows))
        return piece

    pieces = (completed(piece if isinstance(piece, pa.Table) else piece.to_arrow()) for piece in source.pieces)
    return Source((*source.names, *lacking), pieces)


def _check_partitions(target: WriteTarget, partitions: Iterable[bytes], spec: PartitionSpec) -> None:
    for partition in partitions:
        if not is_in(target, partition, spec):
            values = dict(zip(target.schema.partition_keys, target.partition_values(partition)))
            raise InvalidArgument(
                f"{target.where}: the data has rows of the partition {values}, which is not in {dict(spec)}"
            )
