"""Counts and bounds of columns from metadata alone: where it tells them exactly, and nowhere else.

Metadata tells how many rows of a file live if the file is read as it is (`engine.plan.plain_files`). Of files without
a deletion vector it tells nulls and bounds, too, where statistics are exact: of numbers, dates and booleans in the type
that is read. (Bounds of text may be cut, those of floats leave out NaN, some formats round those of timestamps.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from morrow.engine.format import types as t
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.polars_types import polars_dtype
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.stats import ColumnStats
from morrow.engine.format.types import DataField
from morrow.engine.names import ROW
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.in_flight import planning
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.plain_files import PlainFiles, plain_files
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.request import ScanRequest
from morrow.engine.plan.stats_pruning import value_stats
from morrow.readers.expressions import polars as expressions

BOUNDED = (t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.DecimalType, t.DateType)
"""Types whose bounds in statistics are values of the file."""

ORDERED = (*BOUNDED, t.CharType, t.VarCharType)
"""Types of partition keys that are compared and grouped as their values are."""

NESTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType)
"""Types whose nulls are not counted by all formats."""


class Summing(StrEnum):
    """What is computed of a column."""

    COUNT = "count"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class Summary:
    """An aggregate: COUNT of rows, or of those where `column` is not null; the least or greatest value of `column`."""

    summing: Summing
    column: str | None = None


def is_of_partitions(filter: Filter, schema: TableSchema) -> bool:
    """Returns whether a filter keeps or drops whole partitions."""
    return not filter.residuals and filter.columns <= set(schema.partition_keys)


def result_fields(schema: TableSchema, summaries: Sequence[Summary], groups: Sequence[str] = ()) -> list[DataField]:
    """Returns the columns of `summarised`: ``g0``, ``g1`` ... for groups, ``s0``, ``s1`` ... for aggregates."""
    fields = [(f"g{i}", schema.by_name[name].type) for i, name in enumerate(groups)]
    for i, each in enumerate(summaries):
        counts = each.summing is Summing.COUNT or each.column is None
        kind = t.BigIntType(nullable=False) if counts else schema.by_name[str(each.column)].type.with_nullable(True)
        fields.append((f"s{i}", kind))
    return [DataField(number, name, kind) for number, (name, kind) in enumerate(fields)]


def summarised(
    metadata: TableMetadata, request: ScanRequest, summaries: Sequence[Summary], groups: Sequence[str] = ()
) -> pl.DataFrame | None:
    """Returns aggregates of the rows of a scan; None where metadata does not tell all of them exactly.

    Args:
        metadata: the table.
        request: the rows; its columns do not matter.
        summaries: what is computed.
        groups: partition keys by whose values rows are grouped; without any there is one group, even of no rows.

    Returns: a row for each group, columns `result_fields`.

    Raises:
        CorruptFile, FileMissing, SnapshotExpired, UnsafePath, Unsupported: as planning does.
    """
    schema = request.schema
    if not is_of_partitions(request.filter, schema) or request.limit is not None:
        return None
    if request.extra or request.options.other_branch is not None:
        return None
    if not all(name in schema.partition_keys and _is(schema, name, ORDERED) for name in groups):
        return None
    if not all(_may_be_told(each, schema) for each in summaries):
        return None
    wanted = list(dict.fromkeys(each.column for each in summaries if each.column is not None))
    if request.snapshot is None:
        files: pl.DataFrame | None = _no_files(schema, wanted)
    else:
        with planning(metadata, request.snapshot):
            found = plain_files(metadata, request)
            files = None if found is None else _files(metadata, request, found, wanted)
    if files is None or not all(_is_told(each, files, schema, wanted) for each in summaries):
        return None
    return _aggregated(files, schema, summaries, groups, wanted)


def _is(schema: TableSchema, name: str, kinds: tuple[type, ...]) -> bool:
    return isinstance(schema.by_name[name].type, kinds)


def _may_be_told(summary: Summary, schema: TableSchema) -> bool:
    name = summary.column
    if name is None:
        return summary.summing is Summing.COUNT
    if name not in schema.by_name:
        return False
    if summary.summing is Summing.COUNT:
        return name in schema.partition_keys or not _is(schema, name, NESTED)
    return _is(schema, name, ORDERED if name in schema.partition_keys else BOUNDED)


# Files: a frame with a row for each, columns ``live`` (its rows), ``p0``, ``p1`` ... (values of the partition), and for
# the wanted columns ``low0``, ``high0`` and ``count0`` ..., null where they are not known, or where there is no value.


def _no_files(schema: TableSchema, wanted: Sequence[str]) -> pl.DataFrame:
    columns: dict[str, pl.DataType] = {"live": pl.Int64()}
    for i, name in enumerate(schema.partition_keys):
        columns[f"p{i}"] = polars_dtype(schema.by_name[name].type)
    for i, name in enumerate(wanted):
        kind = polars_dtype(schema.by_name[name].type)
        columns |= {f"low{i}": kind, f"high{i}": kind, f"count{i}": pl.Int64()}
    return pl.DataFrame(schema=columns)


def _files(metadata: TableMetadata, request: ScanRequest, found: PlainFiles, wanted: Sequence[str]) -> pl.DataFrame:
    schema, entries = request.schema, found.entries
    live = entries["_ROW_COUNT"] - found.dead
    columns = {"stored": entries["_PARTITION"], "live": live}
    stored = [name for name in wanted if name not in schema.partition_keys]
    bounds = _bounds(metadata, schema, entries, stored)
    for i, name in enumerate(wanted):
        if name in bounds:
            low, high, nulls = bounds[name]
            whole = found.dead == 0
            columns |= {
                f"low{i}": _where(whole, low),
                f"high{i}": _where(whole, high),
                f"count{i}": _where(whole, entries["_ROW_COUNT"] - nulls),
            }
    partitions = _partitions(request, entries["_PARTITION"], metadata.where)
    files = pl.DataFrame(columns).join(partitions, on="stored").filter(pl.col("live") > 0)
    for i, name in enumerate(wanted):
        if name in schema.partition_keys:
            value = pl.col(f"p{schema.partition_keys.index(name)}")
            count = pl.when(value.is_null()).then(0).otherwise(pl.col("live"))
            files = files.with_columns(value.alias(f"low{i}"), value.alias(f"high{i}"), count.alias(f"count{i}"))
    return files


def _where(mask: pl.Series, values: pl.Series) -> pl.Series:
    """Returns the values where the mask is true, null elsewhere."""
    return values.set(~mask, None)


def _partitions(request: ScanRequest, stored: pl.Series, where: str) -> pl.DataFrame:
    """Returns the partitions that the filter keeps: ``stored``, and the values ``p0``, ``p1`` ..."""
    schema = request.schema
    distinct = stored.unique(maintain_order=True)
    keys = [schema.by_name[name] for name in schema.partition_keys]
    values = decode_columns(distinct, [key.type for key in keys], where=where)
    frame = pl.DataFrame([distinct.alias("stored"), *(value.alias(f"p{i}") for i, value in enumerate(values))])
    if request.filter.predicate == ALWAYS:
        return frame
    # Tested as the values that all rows of the partition have: statistics would only tell which partitions may match.
    numbers = pl.int_range(len(distinct), dtype=pl.UInt32, eager=True).alias(ROW)
    named = pl.DataFrame([numbers, *(value.alias(key.name) for key, value in zip(keys, values))])
    return frame[expressions.where(request.filter.predicate, keys, named.lazy()).collect()[ROW]]


def _bounds(
    metadata: TableMetadata, schema: TableSchema, entries: pl.DataFrame, wanted: Sequence[str]
) -> Mapping[str, tuple[pl.Series, pl.Series, pl.Series]]:
    """Returns least value, greatest value and nulls of each wanted column in each file; null where not told."""
    if not wanted:
        return {}
    rows = entries.with_row_index(ROW)
    parts = [
        _bounds_of_schema(metadata, int(str(schema_id)), schema, group, wanted)
        for (schema_id,), group in rows.group_by(["_SCHEMA_ID"], maintain_order=True)
    ]
    frame = pl.concat(parts).sort(ROW) if parts else None
    found = {}
    for i, name in enumerate(wanted):
        empty = pl.Series([], dtype=polars_dtype(schema.by_name[name].type))
        none = empty, empty, pl.Series([], dtype=pl.Int64)
        found[name] = none if frame is None else (frame[f"low{i}"], frame[f"high{i}"], frame[f"nulls{i}"])
    return found


def _bounds_of_schema(
    metadata: TableMetadata, schema_id: int, schema: TableSchema, entries: pl.DataFrame, wanted: Sequence[str]
) -> pl.DataFrame:
    written = metadata.schema(schema_id)
    names = {field.id: field for field in written.fields}
    alike = {}
    for name in wanted:
        field = names.get(schema.by_name[name].id)
        if field is not None and field.type.with_nullable(True) == schema.by_name[name].type.with_nullable(True):
            alike[name] = field.name
    types = {field.name: field.type for field in written.fields}
    found = value_stats(entries, types, list(alike.values()), where=metadata.where).columns
    columns = [entries[ROW]]
    for i, name in enumerate(wanted):
        of_file = found[alike[name]] if name in alike else ColumnStats(None, None, None)
        kind = polars_dtype(schema.by_name[name].type)
        columns += [
            _or_unknown(of_file.minimum, kind, entries.height).alias(f"low{i}"),
            _or_unknown(of_file.maximum, kind, entries.height).alias(f"high{i}"),
            _or_unknown(of_file.null_count, pl.Int64(), entries.height).alias(f"nulls{i}"),
        ]
    return pl.DataFrame(columns)


def _or_unknown(values: pl.Series | None, dtype: pl.DataType, count: int) -> pl.Series:
    return pl.Series([None], dtype=dtype).new_from_index(0, count) if values is None else values.cast(dtype)


# What files tell together


def _is_told(summary: Summary, files: pl.DataFrame, schema: TableSchema, wanted: Sequence[str]) -> bool:
    """Returns whether every file tells its part of an aggregate."""
    if summary.column is None or summary.column in schema.partition_keys:
        return True
    i = wanted.index(summary.column)
    low, high, count = files[f"low{i}"], files[f"high{i}"], files[f"count{i}"]
    if count.null_count() or ((count < 0) | (count > files["live"])).any():
        return False
    if summary.summing is Summing.COUNT:
        return True
    told = (count == 0) | (low <= high).fill_null(False)
    return bool(told.all())


def _aggregated(
    files: pl.DataFrame, schema: TableSchema, summaries: Sequence[Summary], groups: Sequence[str], wanted: Sequence[str]
) -> pl.DataFrame:
    keys = [pl.col(f"p{schema.partition_keys.index(name)}").alias(f"g{i}") for i, name in enumerate(groups)]
    made = [_expression(each, wanted).alias(f"s{i}") for i, each in enumerate(summaries)]
    return files.group_by(keys).agg(made) if keys else files.select(made)


def _expression(summary: Summary, wanted: Sequence[str]) -> pl.Expr:
    if summary.column is None:
        return pl.col("live").sum()
    i = wanted.index(summary.column)
    if summary.summing is Summing.COUNT:
        return pl.col(f"count{i}").sum()
    there = pl.col(f"count{i}") > 0
    least, greatest = pl.col(f"low{i}").filter(there).min(), pl.col(f"high{i}").filter(there).max()
    return least if summary.summing is Summing.MIN else greatest
