"""Facts about the rows of a read from manifests alone: bounds of keys and columns, counts, estimates.

Verification compares the recorded facts with the files. Counts answer a query without reading data, if no file needs a
merge. Query planners request estimates before a read is planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from morrow.engine.format.binary_row import Value, decode_columns, read_arities
from morrow.engine.format.manifest_entries import decode_column_stats
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataType
from morrow.engine.names import ROW, VECTOR
from morrow.engine.plan.data_files import (
    DeletionVectors,
    attach_vectors,
    build_data_files,
    build_deletion_refs,
    decode_partition_values,
    list_file_columns,
)
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import guard_planning
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import read_visible_entries, resolve_merge
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import has_misplaced_keys, mask_changed_keys, project_predicate
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, ScanRequest, SectionKind
from morrow.engine.plan.sections import divide_entries, find_distinct
from morrow.engine.structs import replace


@dataclass(frozen=True)
class Bounds:
    """Statistics of a column of one file: one value each, None if unknown."""

    minimum: pl.Series | None = None
    maximum: pl.Series | None = None
    null_count: int | None = None


@dataclass(frozen=True)
class FileFacts:
    """A live data file and the contents of its manifest entry.

    `schema` is the schema the file was written with. `first_key` and `last_key` have one value for each column of its
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


def read_file_facts(metadata: TableMetadata, plan: ScanPlan) -> tuple[ScanPlan, list[FileFacts]]:
    """Return the files of one part of a plan, and the plan with the columns of all of them.

    A plan without a filter covers all live files, including files that batch reads do not see yet: level 0 in tables
    that look up deletion vectors or first rows, and postponed rows.

    Raises `CorruptFile`, `Unsupported`, `FileMissing`, `UnsafePath`: metadata that cannot be trusted.
    """
    if plan.snapshot is None:
        return plan, []
    asked = metadata.branch
    if plan.branch != asked:  # of a fallback branch, only partitions that main lacks count
        metadata = metadata.on_branch(plan.branch)
    options = metadata.options(metadata.latest_schema())
    live = read_live_entries(metadata, plan.snapshot, plan.schema).frame
    frame, vectors = attach_vectors(metadata, options, plan.snapshot, live)
    deletions = build_deletion_refs(metadata, plan.schema, options, vectors, frame)
    files = build_data_files(metadata, plan.schema, options, frame, deletions)
    if plan.filter.predicate != ALWAYS or plan.branch != asked:
        planned = {file.path for file in plan.files}
        kept = [number for number, file in enumerate(files) if file.path in planned]
        frame, files = frame[kept], [files[number] for number in kept]
    plan = replace(
        plan, file_fields={i: list_file_columns(metadata.schema(i)) for i in frame["_SCHEMA_ID"].unique().to_list()}
    )
    return plan, _describe_files(metadata, plan.schema, frame, files)


def _describe_files(
    metadata: TableMetadata, schema: TableSchema, frame: pl.DataFrame, files: Sequence[DataFile]
) -> list[FileFacts]:
    numbered = frame.with_row_index(ROW)
    partitions = decode_partition_values(schema, frame, where=metadata.where)
    found: dict[int, FileFacts] = {}
    for (schema_id,), group in numbered.group_by(["_SCHEMA_ID"], maintain_order=True):
        written = metadata.schema(int(str(schema_id)))
        value_types = {each.name: each.type for each in written.fields}
        key_types = {name: value_types[name] for name in written.trimmed_primary_keys}
        covered = group.select(pl.coalesce("_VALUE_STATS_COLS", "_WRITE_COLS")).to_series()
        values = _read_bounds(group["_VALUE_STATS"], covered, value_types, metadata.where)
        keys = _read_bounds(group["_KEY_STATS"], None, key_types, metadata.where)
        low, high = (_decode_keys(group[name], key_types, metadata.where) for name in ("_MIN_KEY", "_MAX_KEY"))
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


def _decode_keys(rows: pl.Series, types: Mapping[str, DataType], where: str) -> list[pl.Series]:
    """Return the key columns; empty without a key, or if files were written without one."""
    if not types or (pl.Series(read_arities(rows, where=where)) == 0).any():
        return []
    return decode_columns(rows, list(types.values()), where=where)


def _read_bounds(
    stats: pl.Series, covered: pl.Series | None, types: Mapping[str, DataType], where: str
) -> dict[str, list[Bounds]]:
    """Return the statistics of each column in each file."""
    fields = stats.struct
    found = decode_column_stats(
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
            Bounds(_get_value(each.minimum, row), _get_value(each.maximum, row), _get_count(each.null_count, row))
            for row in range(len(stats))
        ]
        for name, each in found.items()
    }


def _get_value(values: pl.Series | None, row: int) -> pl.Series | None:
    value = None if values is None else values[row : row + 1]
    return None if value is None or value.null_count() else value


def _get_count(counts: pl.Series | None, row: int) -> int | None:
    return None if counts is None else counts[row]


@dataclass(frozen=True)
class PlainFiles:
    """Live entries of manifests, and the rows that each one's deletion vector removes (Int64, 0 without one).

    `merged`: whether versions of a key lie in several files. Row counts then include
    every version, and the keys are exact.
    """

    entries: pl.DataFrame
    dead: pl.Series
    merged: bool = False


def find_plain_files(metadata: TableMetadata, request: ScanRequest) -> PlainFiles | None:
    """Return the files of the partitions that may match; the request has a snapshot.

    Returns None if metadata does not show which keys are live: retractions, columns of a row in several files, or a
    deletion vector without a recorded cardinality.

    Raises `CorruptFile`, `FileMissing`, `Unsupported`, `UnsafePath`: metadata that cannot be trusted.
    """
    spec = resolve_merge(metadata, request)
    entries, vectors = read_visible_entries(metadata, request, spec, [])
    if (entries["_BUCKET"] == POSTPONE_BUCKET).any():
        return None
    divided = divide_entries(metadata, request, spec, entries)
    merged = bool(divided.kinds)
    if merged and {*divided.kinds.values()} != {SectionKind.MERGE}:
        return None
    entries = divided.frame
    if request.schema.primary_keys and not (spec is not None and spec.keeps_retractions):
        retractions = entries["_DELETE_ROW_COUNT"]
        if retractions.null_count() or (retractions > 0).any():
            return None
    dead = _count_dead_rows(entries, vectors)
    return None if dead.null_count() else PlainFiles(entries, dead, merged)


def _count_dead_rows(entries: pl.DataFrame, vectors: DeletionVectors | None) -> pl.Series:
    """Return the number of rows that deletion vectors remove; null if it was not recorded."""
    if vectors is None:
        return pl.repeat(0, entries.height, dtype=pl.Int64, eager=True)
    counts = vectors.ranges["_CARDINALITY"].cast(pl.Int64)
    numbers = entries[VECTOR]
    marked = counts.gather(numbers.clip(lower_bound=0))
    return marked.zip_with(numbers >= 0, pl.repeat(0, entries.height, dtype=pl.Int64, eager=True))


SUMMED = ("_ROW_COUNT", "_FILE_SIZE")


@dataclass(frozen=True)
class Estimate:
    """Rows and bytes of the files of the matching partitions: upper bounds for a read."""

    rows: int
    size: int


def estimate_read(metadata: TableMetadata, request: ScanRequest) -> Estimate:
    """Estimate a read. Raises as planning does."""
    if request.snapshot is None:
        return Estimate(0, 0)
    part = project_predicate(request.filter.predicate, frozenset(request.schema.partition_keys))
    with guard_planning(metadata, request.snapshot):
        frame = read_live_entries(metadata, request.snapshot, request.schema, part, SUMMED).frame
    return Estimate(*(int(frame[name].sum()) for name in SUMMED))


def count_fixed_buckets(metadata: TableMetadata, request: ScanRequest) -> int | None:
    """Return the number of buckets of all files of a read; None unless hashes of keys determine the bucket of each row.

    Files differ in their number of buckets after it was changed. Raises as planning does.
    """
    schema, options = request.schema, request.options
    if request.snapshot is None or options.bucket <= 0:
        return None
    part = project_predicate(request.filter.predicate, frozenset(schema.partition_keys))
    with guard_planning(metadata, request.snapshot):
        entries = read_live_entries(metadata, request.snapshot, schema, part).frame
    totals = find_distinct(entries["_TOTAL_BUCKETS"].to_numpy())
    if len(totals) != 1 or totals[0] < 1 or (entries["_BUCKET"] < 0).any():
        return None
    moved = mask_changed_keys(metadata, schema, options, entries).any()
    return None if moved or has_misplaced_keys(metadata, schema, options, entries) else totals[0]
