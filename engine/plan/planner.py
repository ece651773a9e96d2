"""Makes the plan of a read: snapshot, live files, pruning, sections.

The way of a plan: manifests whose partitions may match -> live entries -> buckets that may hold the key -> files whose
key statistics may match -> sections -> value statistics and file indexes on the sections that need no merge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row import Value, decode_columns, decode_rows
from morrow.engine.format.schema import SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.merge.registry import merge_spec
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import TableOptions
from morrow.engine.plan.data_files import check_vectors, data_files, partition_values
from morrow.engine.plan.entries import LiveEntries, live_entries
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import bucket_mask, index_mask, key_mask, projected, value_mask
from morrow.engine.plan.scan_plan import PruneStep, ScanPlan, Section, SectionKind
from morrow.engine.plan.sections import key_ranks, section_ids

GROUP, SECTION = "__group", "__section"


@dataclass(frozen=True)
class ScanRequest:
    """What a caller wants: output columns in order, a parsed filter, a limit; snapshot and schema are resolved.

    `travelled` says that the caller asked for this snapshot. Partitions `left_out` (as stored) are not read.
    """

    schema: TableSchema
    options: TableOptions
    snapshot: Snapshot | None
    columns: tuple[str, ...]
    filter: Filter
    limit: int | None = None
    travelled: bool = False
    left_out: frozenset[bytes] = field(default=frozenset(), repr=False)


def make_plan(metadata: TableMetadata, request: ScanRequest) -> ScanPlan:
    """Plan a read.

    Raises:
        Unsupported: a merge engine, option or format that Morrow does not read.
        CorruptFile, FileMissing, UnsafePath: metadata that cannot be trusted.
    """
    spec = merge_spec(request.schema, request.options, where=metadata.where)
    plan = ScanPlan(
        table=metadata.where,
        schema=request.schema,
        columns=request.columns,
        filter=request.filter,
        sections=(),
        snapshot=request.snapshot,
        merge=spec,
        limit=request.limit,
        file_options=request.options.raw,
    )
    if request.snapshot is None:
        return plan
    steps: list[PruneStep] = []
    entries = _visible_entries(metadata, request, steps)
    entries = _keyed(metadata, request, entries, steps)
    frame, kinds = _sectioned(metadata, request, spec, entries)
    frame, kinds = _prune_raw(metadata, request, frame, kinds, steps)
    return _assembled(metadata, request, plan, frame, kinds, steps)


def _visible_entries(metadata: TableMetadata, request: ScanRequest, steps: list[PruneStep]) -> pl.DataFrame:
    """Live entries of matching partitions, without the files that batch reads must not see."""
    assert request.snapshot is not None
    partition_part = projected(request.filter.predicate, frozenset(request.schema.partition_keys))
    live: LiveEntries = live_entries(metadata, request.snapshot, request.schema, partition_part)
    steps.append(PruneStep("manifests by partition", live.manifests_read, live.manifests))
    frame = live.frame
    check_vectors(metadata, request.options, request.snapshot, frame)
    if request.left_out:
        frame = frame.filter(~pl.col("_PARTITION").is_in(list(request.left_out)))
    if request.schema.primary_keys:
        # Postponed rows have no bucket yet; in bucket -2 they wait for compaction.
        visible = pl.col("_BUCKET") >= 0
        if request.options.skips_level_zero:
            visible &= pl.col("_LEVEL") > 0
        frame = frame.filter(visible)
        steps.append(PruneStep("files visible to batch reads", frame.height, live.files))
    return frame


def _keyed(metadata: TableMetadata, request: ScanRequest, frame: pl.DataFrame, steps: list[PruneStep]) -> pl.DataFrame:
    """Files whose bucket and key statistics may match: all versions of a key share its key columns."""
    if request.filter.predicate == ALWAYS or not frame.height:
        return frame
    kept = frame.filter(bucket_mask(request.schema, request.options, request.filter.predicate, frame))
    if kept.height < frame.height:
        steps.append(PruneStep("files by bucket", kept.height, frame.height))
    if request.schema.primary_keys and kept.height:
        matching = kept.filter(key_mask(metadata, request.schema, request.filter.predicate, kept))
        steps.append(PruneStep("files by key range", matching.height, kept.height))
        kept = matching
    return kept


def _sectioned(
    metadata: TableMetadata, request: ScanRequest, spec: MergeSpec | None, frame: pl.DataFrame
) -> tuple[pl.DataFrame, Mapping[int, SectionKind]]:
    """The frame with a section number per file, and the kinds of the sections that are not RAW."""
    if spec is None:
        if request.options.data_evolution and frame.height:
            return _stitched(frame)
        return _raw(frame), {}
    if request.options.skips_level_zero or not frame.height:
        return _raw(frame), {}
    keys = _key_bounds(metadata, request.schema, frame)
    low, high = key_ranks(*keys)
    frame = frame.with_columns(pl.Series("__low", low), pl.Series("__high", high)).sort(
        "_PARTITION", "_BUCKET", "__low"
    )
    groups = frame.select(pl.struct("_PARTITION", "_BUCKET").rle_id()).to_series().cast(pl.Int64).to_numpy()
    sections = section_ids(groups, frame["__low"].to_numpy(), frame["__high"].to_numpy())
    sizes = np.bincount(sections)
    merged = sizes[sections] > 1
    # Files that overlap nothing are raw, all those of a bucket together; their section numbers follow the merged ones.
    numbers = np.where(merged, sections, len(sizes) + groups)
    kinds = {int(number): SectionKind.MERGE for number in np.unique(numbers[merged])}
    return frame.with_columns(pl.Series(SECTION, numbers)), kinds


def _raw(frame: pl.DataFrame) -> pl.DataFrame:
    """One RAW section per bucket."""
    numbered = frame.sort("_PARTITION", "_BUCKET", maintain_order=True)
    return numbered.with_columns(pl.struct("_PARTITION", "_BUCKET").rle_id().cast(pl.Int64).alias(SECTION))


def _stitched(frame: pl.DataFrame) -> tuple[pl.DataFrame, Mapping[int, SectionKind]]:
    """Files that share row ids hold different columns of the same rows: they are one STITCH section."""
    ordered = frame.sort("_PARTITION", "_BUCKET", "_FIRST_ROW_ID", maintain_order=True)
    groups = ordered.select(pl.struct("_PARTITION", "_BUCKET").rle_id()).to_series().cast(pl.Int64).to_numpy()
    first = ordered["_FIRST_ROW_ID"].fill_null(-1).to_numpy()
    last = first + np.maximum(ordered["_ROW_COUNT"].to_numpy(), 1) - 1
    sections = section_ids(groups, first, last)
    return ordered.with_columns(pl.Series(SECTION, sections)), {int(s): SectionKind.STITCH for s in np.unique(sections)}


def _key_bounds(
    metadata: TableMetadata, schema: TableSchema, frame: pl.DataFrame
) -> tuple[Sequence[pl.Series], Sequence[pl.Series]]:
    types = [schema.by_name[name].type for name in schema.trimmed_primary_keys]
    for schema_id in frame["_SCHEMA_ID"].unique():
        written = metadata.schema(schema_id)
        ids = {f.id: f.type.with_nullable(True) for f in written.fields}
        for name, kind in zip(schema.trimmed_primary_keys, types):
            if ids.get(schema.by_name[name].id) != kind.with_nullable(True):
                raise Unsupported(f"a primary key column whose type was changed ({name!r})", where=metadata.where)
    minima = decode_columns(frame["_MIN_KEY"], types, where=metadata.where)
    return minima, decode_columns(frame["_MAX_KEY"], types, where=metadata.where)


def _prune_raw(
    metadata: TableMetadata,
    request: ScanRequest,
    frame: pl.DataFrame,
    kinds: Mapping[int, SectionKind],
    steps: list[PruneStep],
) -> tuple[pl.DataFrame, Mapping[int, SectionKind]]:
    """In raw sections a file without a matching row is not needed; in merges it may hide another file's row."""
    if request.filter.predicate == ALWAYS or not frame.height:
        return frame, kinds
    raw = ~frame[SECTION].is_in(list(kinds))
    for name, mask_of in (("raw files by statistics", value_mask), ("raw files by index", index_mask)):
        candidates = frame.filter(raw)
        if not candidates.height:
            break
        mask = mask_of(metadata, request.schema, request.options, request.filter.predicate, candidates)
        if mask is None:
            continue
        steps.append(PruneStep(name, int(mask.sum()), candidates.height))
        frame = pl.concat([frame.filter(~raw), candidates.filter(mask)])
        raw = ~frame[SECTION].is_in(list(kinds))
    return frame, kinds


def _assembled(
    metadata: TableMetadata,
    request: ScanRequest,
    plan: ScanPlan,
    frame: pl.DataFrame,
    kinds: Mapping[int, SectionKind],
    steps: Sequence[PruneStep],
) -> ScanPlan:
    files = data_files(metadata, request.schema, request.options, request.snapshot, frame)
    values = partition_values(request.schema, frame, where=metadata.where)
    members: dict[int, list[int]] = {}
    for row, number in enumerate(frame[SECTION].to_list()):
        members.setdefault(number, []).append(row)
    buckets = frame["_BUCKET"].to_list()
    bounds = _section_bounds(metadata, request.schema, frame, kinds)
    sections = tuple(
        Section(
            kinds.get(number, SectionKind.RAW),
            values[rows[0]],
            buckets[rows[0]],
            tuple(files[row] for row in rows),
            *bounds.get(number, (None, None)),
        )
        for number, rows in members.items()
    )
    return replace(
        plan,
        sections=sections,
        steps=tuple(steps),
        file_fields={int(i): file_columns(metadata.schema(i)) for i in frame["_SCHEMA_ID"].unique()},
    )


def _section_bounds(
    metadata: TableMetadata, schema: TableSchema, frame: pl.DataFrame, kinds: Mapping[int, SectionKind]
) -> Mapping[int, tuple[tuple[Value, ...], tuple[Value, ...]]]:
    """The least and greatest key of each MERGE section."""
    if "__low" not in frame.columns:
        return {}
    types = [schema.by_name[name].type for name in schema.trimmed_primary_keys]
    ends = (
        frame.filter(pl.col(SECTION).is_in([number for number, kind in kinds.items() if kind is SectionKind.MERGE]))
        .group_by(SECTION)
        .agg(pl.col("_MIN_KEY").get(pl.col("__low").arg_min()), pl.col("_MAX_KEY").get(pl.col("__high").arg_max()))
    )
    lows = decode_rows(ends["_MIN_KEY"].to_list(), types, where=metadata.where)
    highs = decode_rows(ends["_MAX_KEY"].to_list(), types, where=metadata.where)
    return dict(zip(ends[SECTION].to_list(), zip(lows, highs)))


def file_columns(schema: TableSchema) -> tuple[DataField, ...]:
    """What data files written with this schema hold, without the ``_KEY_`` copies that reads never need."""
    if not schema.primary_keys:
        return schema.fields
    return (SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, *schema.fields)
