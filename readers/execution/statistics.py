"""Counts and bounds of columns, from metadata alone if it has them exactly, or measured on rows for ANALYZE.

Metadata has the row count of a file if the file is read as it is (see `find_plain_files`). If versions of keys lie in
several files, it has the bounds of the key columns. For files without a deletion
vector it also has null counts and bounds, which are exact for numbers, dates and booleans in the type that is read.
(Bounds of text may be cut, bounds of floats leave out NaN, and some formats round bounds of timestamps.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.manifest_entries import ColumnFacts, ColumnStats
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.store import FileStore
from morrow.engine.names import ROW, col
from morrow.engine.plan.file_statistics import PlainFiles, find_plain_files
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.manifests import guard_planning
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import read_value_stats
from morrow.engine.plan.scan_plan import ScanPlan, ScanRequest
from morrow.engine.structs import replace
from morrow.readers.casts.java_strings import format_values
from morrow.readers.execution import execute
from morrow.readers.expressions import polars as expressions

BOUNDED = (t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.DecimalType, t.DateType)
"""Types whose bounds in statistics are values of the file."""

ORDERED = (*BOUNDED, t.CharType, t.VarCharType)
"""Types of partition keys that are compared and grouped like their values."""

NESTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType)
"""Types whose nulls are not counted by all formats."""


class Summing(StrEnum):
    """The kind of an aggregate."""

    COUNT = "count"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class Summary:
    """An aggregate: COUNT of all rows, COUNT of non-null values of `column`, or the least or greatest of its values."""

    summing: Summing
    column: str | None = None


def is_of_partitions(filter: Filter, schema: TableSchema) -> bool:
    """Return whether a filter depends on partition columns only, so that it keeps or drops whole partitions."""
    return not filter.residuals and filter.columns <= set(schema.partition_keys)


def list_result_fields(
    schema: TableSchema, summaries: Sequence[Summary], groups: Sequence[str] = ()
) -> list[t.DataField]:
    """Return the columns of `summarize`: ``g0``, ``g1`` ... for groups, ``s0``, ``s1`` ... for aggregates."""
    fields = [(f"g{i}", schema.by_name[name].type) for i, name in enumerate(groups)]
    for i, each in enumerate(summaries):
        counts = each.summing is Summing.COUNT or each.column is None
        kind = t.BigIntType(nullable=False) if counts else schema.by_name[str(each.column)].type.with_nullable(True)
        fields.append((f"s{i}", kind))
    return [t.DataField(number, name, kind) for number, (name, kind) in enumerate(fields)]


def summarize(
    metadata: TableMetadata, request: ScanRequest, summaries: Sequence[Summary], groups: Sequence[str] = ()
) -> pl.DataFrame | None:
    """Return aggregates of the rows of a scan; None if metadata does not give all of them exactly.

    Args:
        metadata: the table.
        request: the rows; its columns do not matter.
        summaries: the aggregates to compute.
        groups: the partition keys to group rows by; if empty, there is one group, even without rows.

    Returns: a row for each group, columns `list_result_fields`.

    Raises `CorruptFile`, `FileMissing`, `SnapshotExpired`, `UnsafePath`, `Unsupported`: as planning does.
    """
    schema = request.schema
    if not is_of_partitions(request.filter, schema) or request.limit is not None:
        return None
    if request.extra or request.options.other_branch is not None or request.options.skips_files:
        return None
    if not all(name in schema.partition_keys and _is(schema, name, ORDERED) for name in groups):
        return None
    if not all(_is_exact(each, schema) for each in summaries):
        return None
    wanted = list(dict.fromkeys(each.column for each in summaries if each.column is not None))
    if request.snapshot is None:
        files: pl.DataFrame | None = _make_no_files(schema, wanted)
    else:
        with guard_planning(metadata, request.snapshot):
            found = find_plain_files(metadata, request)
            if (
                found is not None
                and found.merged
                and (groups or not all(_is_of_keys(each, schema) for each in summaries))
            ):
                return None
            files = None if found is None else _list_files(metadata, request, found, wanted)
    if files is None or not all(_is_answered(each, files, schema, wanted) for each in summaries):
        return None
    return _compute_aggregates(files, schema, summaries, groups, wanted)


def _is(schema: TableSchema, name: str, kinds: tuple[type, ...]) -> bool:
    return isinstance(schema.by_name[name].type, kinds)


def _is_exact(summary: Summary, schema: TableSchema) -> bool:
    name = summary.column
    if name is None:
        return summary.summing is Summing.COUNT
    if name not in schema.by_name:
        return False
    if summary.summing is Summing.COUNT:
        return name in schema.partition_keys or not _is(schema, name, NESTED)
    return _is(schema, name, ORDERED if name in schema.partition_keys else BOUNDED)


def _is_of_keys(summary: Summary, schema: TableSchema) -> bool:
    """Return whether an aggregate over all versions of keys equals the aggregate over one version of each key."""
    return summary.summing is not Summing.COUNT and summary.column in schema.primary_keys


# Files: a frame with a row for each, columns ``live`` (its rows), ``p0``, ``p1`` ... (values of the partition), and for
# the wanted columns ``low0``, ``high0`` and ``count0`` ..., null if unknown, or if the file lacks values.


def _make_no_files(schema: TableSchema, wanted: Sequence[str]) -> pl.DataFrame:
    columns: dict[str, pl.DataType] = {"live": pl.Int64()}
    for i, name in enumerate(schema.partition_keys):
        columns[f"p{i}"] = t.to_polars_dtype(schema.by_name[name].type)
    for i, name in enumerate(wanted):
        kind = t.to_polars_dtype(schema.by_name[name].type)
        columns |= {f"low{i}": kind, f"high{i}": kind, f"count{i}": pl.Int64()}
    return pl.DataFrame(schema=columns)


def _list_files(
    metadata: TableMetadata, request: ScanRequest, found: PlainFiles, wanted: Sequence[str]
) -> pl.DataFrame:
    schema, entries = request.schema, found.entries
    live = entries["_ROW_COUNT"] - found.dead
    columns = {"stored": entries["_PARTITION"], "live": live}
    stored = [name for name in wanted if name not in schema.partition_keys]
    bounds = _find_bounds(metadata, schema, entries, stored)
    for i, name in enumerate(wanted):
        if name in bounds:
            low, high, nulls = bounds[name]
            whole = found.dead == 0
            columns |= {
                f"low{i}": _mask_values(whole, low),
                f"high{i}": _mask_values(whole, high),
                f"count{i}": _mask_values(whole, entries["_ROW_COUNT"] - nulls),
            }
    partitions = _decode_partitions(request, entries["_PARTITION"], metadata.where)
    files = pl.DataFrame(columns).join(partitions, on="stored").filter(pl.col("live") > 0)
    for i, name in enumerate(wanted):
        if name in schema.partition_keys:
            value = pl.col(f"p{schema.partition_keys.index(name)}")
            count = pl.when(value.is_null()).then(0).otherwise(pl.col("live"))
            files = files.with_columns(value.alias(f"low{i}"), value.alias(f"high{i}"), count.alias(f"count{i}"))
    return files


def _mask_values(mask: pl.Series, values: pl.Series) -> pl.Series:
    """Return the values with null for every row whose mask is false."""
    return values.set(~mask, None)


def _decode_partitions(request: ScanRequest, stored: pl.Series, where: str) -> pl.DataFrame:
    """Return the partitions that the filter keeps: ``stored``, and the values ``p0``, ``p1`` ..."""
    schema = request.schema
    distinct = stored.unique(maintain_order=True)
    keys = [schema.by_name[name] for name in schema.partition_keys]
    values = decode_columns(distinct, [key.type for key in keys], where=where)
    frame = pl.DataFrame([distinct.alias("stored"), *(value.alias(f"p{i}") for i, value in enumerate(values))])
    if request.filter.predicate == ALWAYS:
        return frame
    # The filter is tested on the values of the partition: statistics would only show which partitions may match.
    numbers = pl.int_range(len(distinct), dtype=pl.UInt32, eager=True).alias(ROW)
    named = pl.DataFrame([numbers, *(value.alias(key.name) for key, value in zip(keys, values))])
    return frame[expressions.filter_by_predicate(request.filter.predicate, keys, named.lazy()).collect()[ROW]]


def _find_bounds(
    metadata: TableMetadata, schema: TableSchema, entries: pl.DataFrame, wanted: Sequence[str]
) -> Mapping[str, tuple[pl.Series, pl.Series, pl.Series]]:
    """Return the least value, greatest value and null count of each wanted column in each file; null if unknown."""
    if not wanted:
        return {}
    rows = entries.with_row_index(ROW)
    parts = [
        _find_schema_bounds(metadata, int(str(schema_id)), schema, group, wanted)
        for (schema_id,), group in rows.group_by(["_SCHEMA_ID"], maintain_order=True)
    ]
    frame = pl.concat(parts).sort(ROW) if parts else None
    found = {}
    for i, name in enumerate(wanted):
        empty = pl.Series([], dtype=t.to_polars_dtype(schema.by_name[name].type))
        none = empty, empty, pl.Series([], dtype=pl.Int64)
        found[name] = none if frame is None else (frame[f"low{i}"], frame[f"high{i}"], frame[f"nulls{i}"])
    return found


def _find_schema_bounds(
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
    found = read_value_stats(entries, types, list(alike.values()), where=metadata.where).columns
    columns = [entries[ROW]]
    for i, name in enumerate(wanted):
        of_file = found[alike[name]] if name in alike else ColumnStats(None, None, None)
        kind = t.to_polars_dtype(schema.by_name[name].type)
        columns += [
            _fill_unknown(of_file.minimum, kind, entries.height).alias(f"low{i}"),
            _fill_unknown(of_file.maximum, kind, entries.height).alias(f"high{i}"),
            _fill_unknown(of_file.null_count, pl.Int64(), entries.height).alias(f"nulls{i}"),
        ]
    return pl.DataFrame(columns)


def _fill_unknown(values: pl.Series | None, dtype: pl.DataType, count: int) -> pl.Series:
    return pl.Series([None], dtype=dtype).new_from_index(0, count) if values is None else values.cast(dtype)


# Aggregates over files


def _is_answered(summary: Summary, files: pl.DataFrame, schema: TableSchema, wanted: Sequence[str]) -> bool:
    """Return whether every file's metadata gives its part of an aggregate."""
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


def _compute_aggregates(
    files: pl.DataFrame, schema: TableSchema, summaries: Sequence[Summary], groups: Sequence[str], wanted: Sequence[str]
) -> pl.DataFrame:
    keys = [pl.col(f"p{schema.partition_keys.index(name)}").alias(f"g{i}") for i, name in enumerate(groups)]
    made = [_build_expression(each, wanted).alias(f"s{i}") for i, each in enumerate(summaries)]
    return files.group_by(keys).agg(made) if keys else files.select(made)


def _build_expression(summary: Summary, wanted: Sequence[str]) -> pl.Expr:
    if summary.column is None:
        return pl.col("live").sum()
    i = wanted.index(summary.column)
    if summary.summing is Summing.COUNT:
        return pl.col(f"count{i}").sum()
    there = pl.col(f"count{i}") > 0
    least, greatest = pl.col(f"low{i}").filter(there).min(), pl.col(f"high{i}").filter(there).max()
    return least if summary.summing is Summing.MIN else greatest


MAX_EXACT_ROWS = 1 << 20
"""Maximum stored rows for which distinct values are counted exactly."""

TEXTS = (t.CharType, t.VarCharType)
BYTES = (t.BinaryType, t.VarBinaryType)
TIMESTAMPS = (t.TimestampType, t.LocalZonedTimestampType)
NANO_DIGITS = 9
LONG_DECIMAL = 18
"""Maximum digits of a DECIMAL of 8 bytes; beyond this it takes 16 bytes."""

SIZES: Mapping[type[t.DataType], int] = {
    t.BooleanType: 1,
    t.TinyIntType: 1,
    t.SmallIntType: 2,
    t.IntType: 4,
    t.BigIntType: 8,
    t.FloatType: 4,
    t.DoubleType: 8,
    t.DateType: 4,
    t.TimestampType: 8,
    t.LocalZonedTimestampType: 8,
}
"""Size of a value in bytes, as Spark counts it."""
EMPTY_LENGTHS = {True: 20, False: 100}
"""The length that Spark assumes for text (True) and bytes (False) if a column has no values."""


def check_measured(fields: Sequence[t.DataField], where: str) -> None:
    """Raise `Unsupported` for a column whose type ANALYZE does not support."""
    for field in fields:
        if not isinstance(field.type, (*SIZES, *TEXTS, *BYTES, t.DecimalType)):
            raise Unsupported(f"ANALYZE of the column {field.name!r} of type {field.type}", where=where)


def has_length(field: t.DataField) -> bool:
    """Return whether values have variable length; their bounds are not measured."""
    return isinstance(field.type, (*TEXTS, *BYTES))


def measure_columns(
    plan: ScanPlan, store: FileStore, fields: Sequence[t.DataField]
) -> tuple[int, dict[str, ColumnFacts]]:
    """Measure columns of the rows of a plan: the number of rows, and statistics by name.

    Raises `CorruptFile`, `FileMissing`, `SnapshotExpired`, `Unsupported`: as reading does.
    """
    if not fields:
        return execute.count(plan, store), {}
    plan = replace(plan, columns=tuple(field.name for field in fields))
    exact = sum(part.stored_rows for part in plan.parts) <= MAX_EXACT_ROWS
    asked = [each for i, field in enumerate(fields) for each in _build_aggregates(field, i, exact)]
    with execute.translate_plan_errors(plan, store):
        found = execute.to_lazy(plan, store).select(pl.len().alias("rows"), *asked).collect(engine="streaming")
    rows = int(found["rows"].item())
    return rows, {field.name: to_column_facts(field, i, rows, found) for i, field in enumerate(fields)}


def _build_aggregates(field: t.DataField, i: int, exact: bool) -> list[pl.Expr]:
    column = col(field.name)
    there = column.drop_nulls()
    countable = exact or isinstance(field.type, (t.BooleanType, t.DecimalType, *BYTES))
    asked = [
        column.count().alias(f"count{i}"),
        (there.n_unique() if countable else there.approx_n_unique()).alias(f"distinct{i}"),
    ]
    if has_length(field):
        length = column.str.len_chars() if isinstance(field.type, TEXTS) else column.bin.size()
        return [*asked, length.mean().ceil().alias(f"average{i}"), length.max().alias(f"longest{i}")]
    least, greatest = column.min(), column.max()
    if isinstance(field.type, (t.FloatType, t.DoubleType)):  # NaN is the greatest value
        least, greatest = column.fill_nan(None).min().fill_null(least), column.nan_max()
    return [*asked, least.alias(f"min{i}"), greatest.alias(f"max{i}")]


def to_column_facts(field: t.DataField, i: int, rows: int, found: pl.DataFrame) -> ColumnFacts:
    """Return the statistics of a column from one row of measurements.

    These are ``count{i}``, ``distinct{i}``, and ``average{i}`` and ``longest{i}``, or ``min{i}`` and ``max{i}``.
    """
    count = int(found[f"count{i}"].item())
    distinct = min(int(found[f"distinct{i}"].item()), count)
    if has_length(field):
        none = EMPTY_LENGTHS[isinstance(field.type, TEXTS)]
        average, longest = found[f"average{i}"].item(), found[f"longest{i}"].item()
        lengths = (none, none) if average is None else (int(average), int(longest))
        return ColumnFacts(field.id, distinct, None, None, rows - count, *lengths)
    size = _size(field.type)
    bounds = _format_bound(found[f"min{i}"], field.type), _format_bound(found[f"max{i}"], field.type)
    return ColumnFacts(field.id, distinct, *bounds, rows - count, size, size)


def _size(kind: t.DataType) -> int:
    if isinstance(kind, t.DecimalType):
        return 16 if kind.precision > LONG_DECIMAL else 8
    return SIZES[type(kind)]


def _format_bound(values: pl.Series, kind: t.DataType) -> str | None:
    """Format the single value as Java writes it into statistics; instants are in UTC."""
    if values.null_count():
        return None
    if not isinstance(kind, TIMESTAMPS):
        return str(format_values(values, kind).item())
    text = str(values.dt.to_string("%Y-%m-%d %H:%M:%S%.9f").item())
    return text[: len(text) - NANO_DIGITS + kind.precision] if kind.precision else text[: -NANO_DIGITS - 1]
