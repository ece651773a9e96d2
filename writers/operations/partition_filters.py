"""Selection of partitions by conditions or values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.arguments import check_instance, check_mapping
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.binary_row import Value, decode_columns, decode_row, is_same_value
from morrow.engine.format.binary_row_encoder import encode_row
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import PARTITION
from morrow.engine.options import Options
from morrow.engine.options.declared.connectors import METASTORE_PARTITIONED_TABLE
from morrow.engine.plan.filter import NO_FILTER, Filter, FilterLike, combine_filters, parse_filter
from morrow.engine.plan.predicate import And, Leaf, Op, Or
from morrow.engine.plan.predicate import Value as Literal
from morrow.readers.casts import cast_array
from morrow.readers.expressions import polars as expressions
from morrow.writers.commit.manifests import read_live_entries
from morrow.writers.commit.premise import guard_read
from morrow.writers.operations.expressions import Expression, evaluate_constant
from morrow.writers.target import WriteTarget

PartitionSpec = Mapping[str, "Value | None"]
"""Values of some partition columns, as decoded from metadata."""

AnyOf: TypeAlias = "Mapping[str, object] | Sequence[Mapping[str, object]] | None"
"""Values of partition columns. With several mappings, a partition matches any of them. None: all partitions."""


def build_partition_filter(target: WriteTarget, partition: AnyOf, where: FilterLike, what: str) -> Filter:
    """Return the filter for partitions with the values of `partition` for which `where` is true.

    `what`: the operation, for messages.

    Raises `InvalidArgument`: a column is not a partition column, or a value or condition does not fit.
    """
    filter = parse_filter(where, target.schema.fields)
    others = sorted(filter.columns - set(target.schema.partition_keys))
    if others:
        raise InvalidArgument(
            f"{what}: {others[0]!r} is not a partition column; Only partition predicate is supported: "
            f"whole partitions are changed, so `where` can only be "
            f"about {', '.join(target.schema.partition_keys) or 'partition columns, and there are none'}"
        )
    if partition is None:
        return filter
    found = check_instance(partition, (Mapping, list, tuple), f"the partition of {what}")
    given = [found] if isinstance(found, Mapping) else found
    specs = [check_instance(one, Mapping, f"a partition of {what}") for one in given]
    if not specs:
        raise InvalidArgument(f"{what}: an empty list names no partition; leave it out for all of them")
    return combine_filters(_build_any_filter(target, specs), filter)


def _build_any_filter(target: WriteTarget, partitions: Sequence[Mapping[str, object]]) -> Filter:
    specs = [parse_partition_spec(target, one) for one in partitions]
    if not all(specs):
        return NO_FILTER  # no values are given
    columns = frozenset(name for spec in specs for name in spec)
    predicate = Or(tuple(And(tuple(_build_predicate(name, value) for name, value in spec.items())) for spec in specs))
    return Filter(predicate, (), columns, str(predicate))


def _build_predicate(name: str, value: Value | None) -> Leaf:
    return Leaf(name, Op.IS_NULL) if value is None else Leaf(name, Op.EQ, (cast(Literal, value),))


def list_partitions(target: WriteTarget, filter: Filter = NO_FILTER) -> pl.DataFrame:
    """Return the partitions that currently hold files: a row per partition, with the partition columns."""
    snapshot = target.metadata.latest_snapshot()
    stored = pl.Series(find_matching_partitions(target, snapshot, filter) if snapshot else [], dtype=pl.Binary)
    values = decode_columns(stored, [field.type for field in target.partition_fields], where=target.where)
    return pl.DataFrame([value.alias(field.name) for value, field in zip(values, target.partition_fields)])


def find_greatest_partition(target: WriteTarget) -> str:
    """Return the greatest value of the first partition column as text (``max_pt``). Raises `InvalidArgument`."""
    if not target.partition_fields:
        raise InvalidArgument(f"{target.where}: it is not partitioned, so that there is no max_pt")
    values = list_partitions(target).to_series(0)
    found = values.max()
    if found is None:
        raise InvalidArgument(f"{target.where}: no partition has rows, so that there is no max_pt")
    return str(pl.Series([found], dtype=values.dtype).cast(pl.String)[0])


def find_matching_partitions(target: WriteTarget, snapshot: Snapshot, filter: Filter) -> list[bytes]:
    """Return the partitions (BinaryRows) that hold files and for which a filter on partition columns is true.

    Raises `CommitConflict`: others have changed the table, and the snapshot has expired.
    """
    with guard_read(target.metadata, snapshot):
        stored = read_live_entries(target.metadata, snapshot, target.schema, None)["_PARTITION"].unique().sort()
    return filter_partitions(target, stored, filter)


def filter_partitions(target: WriteTarget, stored: pl.Series, filter: Filter) -> list[bytes]:
    """Return the partitions (BinaryRows) for which a filter on partition columns is true."""
    fields = target.partition_fields
    columns = decode_columns(stored, [f.type for f in fields], where=target.where)
    frame = pl.DataFrame([*(c.alias(f.name) for c, f in zip(columns, fields)), stored.alias(PARTITION)]).lazy()
    return expressions.filter_rows(filter, fields, frame).collect()[PARTITION].to_list()


def parse_partition_spec(target: WriteTarget, partition: Mapping[str, object]) -> PartitionSpec:
    """Convert given values of partition columns to decoded ones. Text is parsed as a value of the column's type.

    Raises `InvalidArgument`: a column is not a partition key, or a value does not fit its type.
    """
    partition = check_mapping(partition, f"{target.where}: partition")
    keys = target.schema.partition_keys
    unknown = [name for name in partition if name not in keys]
    if unknown:
        raise InvalidArgument(
            f"{target.where}: Partition keys [{unknown[0]}] are invalid: "
            f"{unknown[0]!r} is not a partition column; they are: {', '.join(keys) or 'none'}"
        )
    return {name: _parse_value(target, target.schema.by_name[name], value) for name, value in partition.items()}


def check_new_partitions(target: WriteTarget, partitions: Sequence[Mapping[str, object]]) -> None:
    """Check the partitions that ADD PARTITION names. As in Paimon, it changes nothing: a partition exists once it has
    rows.

    Raises:
        InvalidArgument: as `parse_partition_spec`; a partition column without a value.
        Unsupported: a table whose metastore lists partitions.
    """
    for partition in partitions:
        found = parse_partition_spec(target, partition)
        if missing := [key for key in target.schema.partition_keys if key not in found]:
            raise InvalidArgument(f"{target.where}: ADD PARTITION needs a value of the partition column {missing[0]!r}")
    if Options(target.schema.options, target.where).get(METASTORE_PARTITIONED_TABLE):
        hint = "write rows; the commit registers their partitions"
        raise Unsupported("ADD PARTITION of a table with metastore.partitioned-table", where=target.where, hint=hint)


def is_in_partition(target: WriteTarget, partition: bytes, spec: PartitionSpec) -> bool:
    """Return whether a partition has these values."""
    values = dict(zip(target.schema.partition_keys, target.partition_values(partition)))
    return all(is_same_value(values[name], value) for name, value in spec.items())


def _parse_value(target: WriteTarget, field: t.DataField, given: object) -> Value | None:
    if given is None:
        return None
    if isinstance(given, str) and not isinstance(field.type, (t.CharType, t.VarCharType)):
        where = f"{target.where}, partition column {field.name!r}"
        try:
            given = cast_array(pa.array([given]), t.VarCharType(), field.type, where=where)[0].as_py()
        except Unsupported as error:
            raise InvalidArgument(f"{where}: {given!r} spells no {field.type}: {error}") from error
    value = _to_python(evaluate_constant(Expression(f"partition {field.name}", given), field))
    return decode_row(encode_row([value], [field.type]), [field.type], where=target.where)[0]


def _to_python(found: pa.Scalar) -> Any:
    """Return a value for `encode_row`, with nanoseconds, which `datetime` lacks."""
    has_nanoseconds = pa.types.is_timestamp(found.type) and found.type.unit == "ns" and found.is_valid
    return np.datetime64(found.value, "ns") if has_nanoseconds else found.as_py()
