"""Overwrites: partitions, or the whole table, are replaced in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.binary_row import Value
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.commit import TableCommit
from morrow.writers.operations.expressions import Expression, constant
from morrow.writers.operations.session import cleaned_up
from morrow.writers.rows import Kinds, incoming
from morrow.writers.rows.sources import Source, source_of
from morrow.writers.table_writer import TableWriter
from morrow.writers.target import WriteTarget


def overwrite(
    target: WriteTarget,
    data: object,
    partition: Mapping[str, object] | None,
    dynamic: bool | None,
    kinds: Kinds = None,
) -> Snapshot | None:
    """Replace rows by others.

    Args:
        partition: values of (some) partition columns: rows are of these partitions; the data may lack those columns.
        dynamic: True: only partitions that the data has rows of are replaced. False: all partitions of `partition` are,
            or the whole table. None: as ``dynamic-partition-overwrite`` says. Tables without partitions are replaced.

    Raises:
        InvalidArgument: rows of another partition than `partition`, and as `incoming`.
    """
    spec = partition_spec(target, partition or {})
    if dynamic is None:
        dynamic = target.write.dynamic_partition_overwrite
    source = _with_partition(target, source_of(data), spec)
    writer = TableWriter(target, overwrite=True)
    commits = TableCommit(target)
    try:
        writer.write_frames(incoming(target, source, kinds=kinds))
        messages = writer.prepare_commit()
    finally:
        writer.close()
    with cleaned_up(commits, messages):
        if target.partition_fields and dynamic:
            _check_partitions(target, {message.partition for message in messages}, spec)
            return commits.overwrite(messages, partitions=list(dict.fromkeys(m.partition for m in messages)))
        return commits.overwrite(messages, partitions=[spec] if spec else "all")


def drop_partitions(target: WriteTarget, partitions: Sequence[Mapping[str, object]]) -> Snapshot | None:
    """Remove all rows of partitions with these values in (some of) their columns.

    Raises:
        InvalidArgument: no values, a value that does not fit, or a table without partitions.
        ColumnNotFound: a column that is no partition key.
    """
    specs = [partition_spec(target, one) for one in partitions]
    return TableCommit(target).drop_partitions(specs)


def truncate(target: WriteTarget) -> Snapshot | None:
    """Remove all rows."""
    return TableCommit(target).truncate()


def partition_spec(target: WriteTarget, partition: Mapping[str, object]) -> dict[str, Value]:
    """Values of partition columns as `TableCommit` compares them; text stands for the value it spells.

    Raises:
        InvalidArgument: a column that is no partition key, a value that does not fit its type.
    """
    keys = target.schema.partition_keys
    spec: dict[str, Value] = {}
    for name, value in partition.items():
        if name not in keys:
            raise InvalidArgument(
                f"{target.where}: {name!r} is no partition column; they are: {', '.join(keys) or 'none'}"
            )
        spec[name] = _value(target, name, value)
    return spec


def _value(target: WriteTarget, name: str, value: object) -> Value:
    from morrow.engine.format.binary_row import decode_row
    from morrow.engine.format.binary_row_encode import encode_row

    field = target.schema.by_name[name]
    if value is None:
        return None  # type: ignore[return-value]  # the partition of nulls
    if isinstance(value, str) and not pa.types.is_string(field.type.arrow()):
        value = _spelled(value, name, target)
    scalar = constant(Expression(f"partition {name}", value), field)
    row = encode_row([scalar.as_py()], [field.type])
    return decode_row(row, [field.type], where=target.where)[0]  # type: ignore[return-value]


def _spelled(text: str, name: str, target: WriteTarget) -> object:
    from morrow.engine.format.types import VarCharType
    from morrow.readers.casts import arrow_cast

    kind = target.schema.by_name[name].type
    where = f"{target.where}, partition column {name!r}"
    return arrow_cast(pa.array([text]), VarCharType(), kind, where=where)[0].as_py()


def _with_partition(target: WriteTarget, source: Source, spec: Mapping[str, Value]) -> Source:
    """The source with the partition columns that it lacks."""
    lacking = [name for name in spec if name not in source.names]
    if not lacking:
        return source
    scalars = {name: constant(Expression(f"partition {name}", spec[name]), target.schema.by_name[name]) for name in lacking}

    def completed(piece: pa.Table) -> pa.Table:
        for name, scalar in scalars.items():
            piece = piece.append_column(name, pa.repeat(scalar, piece.num_rows))
        return piece

    pieces = (completed(piece if isinstance(piece, pa.Table) else piece.to_arrow()) for piece in source.pieces)
    return Source((*source.names, *lacking), pieces)


def _check_partitions(target: WriteTarget, partitions: set[bytes], spec: Mapping[str, Value]) -> None:
    keys = target.schema.partition_keys
    for partition in partitions:
        values = dict(zip(keys, target.partition_values(partition)))
        if any(values[name] != value for name, value in spec.items()):
            raise InvalidArgument(
                f"{target.where}: the data has rows of the partition {values}, which is not in {dict(spec)}"
            )
