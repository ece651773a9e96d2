"""The facts that manifests record of data files, for verification of the files: keys, statistics, indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from morrow.engine.format.binary_row import Value, arities, decode_columns
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.stats import column_stats
from morrow.engine.format.types import DataType
from morrow.engine.names import ROW
from morrow.engine.plan.data_files import data_files, partition_values
from morrow.engine.plan.deletions import deletion_refs, with_vectors
from morrow.engine.plan.entries import live_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import file_columns
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import DataFile, ScanPlan
from morrow.engine.values import replace


@dataclass(frozen=True)
class Bounds:
    """Statistics of a column of one file: one value each, None where unknown."""

    minimum: pl.Series | None = None
    maximum: pl.Series | None = None
    null_count: int | None = None


@dataclass(frozen=True)
class FileFacts:
    """A live data file and the contents of its manifest entry.

    `schema` is the one the file was written with; `first_key` and `last_key` have one value for each column of its
    trimmed primary key, and are empty in append tables. `embedded_index` and `extra_files` locate its index.
    """

    file: DataFile
    partition: Mapping[str, Value | None]
    bucket: int
    schema: TableSchema
    first_key: tuple[pl.Series, ...] = ()
    last_key: tuple[pl.Series, ...] = ()
    keys: Mapping[str, Bounds] = field(default_factory=dict)
    values: Mapping[str, Bounds] = field(default_factory=dict)
    embedded_index: bytes | None = None
    extra_files: tuple[str, ...] = ()


def file_facts(metadata: TableMetadata, plan: ScanPlan) -> tuple[ScanPlan, list[FileFacts]]:
    """Returns the files of one part of a plan, and the plan with the columns of all of them.

    A plan without a filter stands for all live files, including those that batch reads do not see yet: level 0 in
    tables that look up deletion vectors or first rows, and postponed rows.

    Raises:
        CorruptFile, Unsupported, FileMissing, UnsafePath: metadata that cannot be trusted.
    """
    if plan.snapshot is None:
        return plan, []
    asked = metadata.branch
    if plan.branch != asked:  # of a fallback branch only the partitions count that the main one lacks
        metadata = metadata.on_branch(plan.branch)
    options = metadata.options(metadata.latest_schema())
    live = live_entries(metadata, plan.snapshot, plan.schema).frame
    frame, vectors = with_vectors(metadata, options, plan.snapshot, live)
    deletions = deletion_refs(metadata, plan.schema, options, vectors, frame)
    files = data_files(metadata, plan.schema, options, frame, deletions)
    if plan.filter.predicate != ALWAYS or plan.branch != asked:
        planned = {file.path for file in plan.files}
        kept = [number for number, file in enumerate(files) if file.path in planned]
        frame, files = frame[kept], [files[number] for number in kept]
    plan = replace(
        plan, file_fields={i: file_columns(metadata.schema(i)) for i in frame["_SCHEMA_ID"].unique().to_list()}
    )
    return plan, _described(metadata, plan.schema, frame, files)


def _described(
    metadata: TableMetadata, schema: TableSchema, frame: pl.DataFrame, files: Sequence[DataFile]
) -> list[FileFacts]:
    numbered = frame.with_row_index(ROW)
    partitions = partition_values(schema, frame, where=metadata.where)
    found: dict[int, FileFacts] = {}
    for (schema_id,), group in numbered.group_by(["_SCHEMA_ID"], maintain_order=True):
        written = metadata.schema(int(str(schema_id)))
        value_types = {each.name: each.type for each in written.fields}
        key_types = {name: value_types[name] for name in written.trimmed_primary_keys}
        covered = group.select(pl.coalesce("_VALUE_STATS_COLS", "_WRITE_COLS")).to_series()
        values = _bounds(group["_VALUE_STATS"], covered, value_types, metadata.where)
        keys = _bounds(group["_KEY_STATS"], None, key_types, metadata.where)
        low, high = (_keys(group[name], key_types, metadata.where) for name in ("_MIN_KEY", "_MAX_KEY"))
        indexes = group["_EMBEDDED_FILE_INDEX"].to_list(), group["_EXTRA_FILES"].to_list()
        for at, row in enumerate(group[ROW].to_list()):
            found[row] = FileFacts(
                files[row],
                dict(zip(schema.partition_keys, partitions[row])),
                frame["_BUCKET"][row],
                written,
                tuple(column[at : at + 1] for column in low),
                tuple(column[at : at + 1] for column in high),
                {name: each[at] for name, each in keys.items()},
                {name: each[at] for name, each in values.items()},
                indexes[0][at],
                tuple(indexes[1][at] or ()),
            )
    return [found[row] for row in range(len(files))]


def _keys(rows: pl.Series, types: Mapping[str, DataType], where: str) -> list[pl.Series]:
    """Returns the key columns; none where there is no key, or where files were written without."""
    if not types or (pl.Series(arities(rows, where=where)) == 0).any():
        return []
    return decode_columns(rows, list(types.values()), where=where)


def _bounds(
    stats: pl.Series, covered: pl.Series | None, types: Mapping[str, DataType], where: str
) -> dict[str, list[Bounds]]:
    """Returns the statistics of each column in each file."""
    fields = stats.struct
    found = column_stats(
        fields.field("_MIN_VALUES"),
        fields.field("_MAX_VALUES"),
        fields.field("_NULL_COUNTS"),
        covered,
        types,
        list(types),
        where=where,
    )
    return {
        name: [
            Bounds(_at(each.minimum, row), _at(each.maximum, row), _count(each.null_count, row))
            for row in range(len(stats))
        ]
        for name, each in found.items()
    }


def _at(values: pl.Series | None, row: int) -> pl.Series | None:
    value = None if values is None else values[row : row + 1]
    return None if value is None or value.null_count() else value


def _count(counts: pl.Series | None, row: int) -> int | None:
    return None if counts is None else counts[row]
