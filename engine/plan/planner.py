"""The planner of reads: snapshot, live files, pruning, sections.

The steps: manifests whose partitions may match -> live entries -> buckets that may hold the key -> files whose key
statistics may match -> sections -> value statistics and file indexes on the sections that need no merge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs

from morrow.engine.errors import Unsupported
from morrow.engine.format.arrow_buffers import series_of
from morrow.engine.format.binary_row import Value, decode_columns, python_rows
from morrow.engine.format.schema import SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.merge.registry import merge_spec
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.names import BUCKET_NUMBER, SECTION, VECTOR
from morrow.engine.options import TableOptions
from morrow.engine.plan.data_files import DESCRIBED, data_files, partition_values, readable_roots
from morrow.engine.plan.deletions import DeletionVectors, deletion_refs, with_vectors
from morrow.engine.plan.entries import LiveEntries, live_entries
from morrow.engine.plan.entry_checks import check_columns, check_key_order
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.in_flight import planning
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import bucket_mask, index_mask, key_mask, projected, value_mask
from morrow.engine.plan.scan_plan import PruneStep, ScanPlan, Section, SectionKind
from morrow.engine.plan.sections import bucket_numbers, key_ranks, section_ids
from morrow.engine.plan.time_travel import Travel

KEY_BOUNDS = "_MIN_KEY", "_MAX_KEY"
ASSEMBLED = ("_PARTITION", "_BUCKET", "_FILE_NAME", "_EXTERNAL_PATH", *DESCRIBED, SECTION, BUCKET_NUMBER, VECTOR)
"""Columns of entries that the files and sections of a plan are made of."""


@dataclass(frozen=True)
class ScanRequest:
    """A caller's request: output columns in order, a parsed filter, a limit; snapshot and schema are resolved.

    `travel` is how the caller asked for this snapshot, where that matters later. `merge` overrides the table's own
    merge. Partitions `left_out` (as stored) are not read, nor are files of keyed tables below `least_level`. `extra`
    are columns beside those of the schema, which readers compute (`morrow.readers.files.virtual_columns`);
    `keeps_retractions` gives deleted keys as rows too.
    """

    schema: TableSchema
    options: TableOptions
    snapshot: Snapshot | None
    columns: tuple[str, ...]
    filter: Filter
    limit: int | None = None
    travel: Travel = field(default_factory=Travel)
    left_out: frozenset[bytes] = field(default=frozenset(), repr=False)
    least_level: int = 0
    extra: tuple[DataField, ...] = ()
    keeps_retractions: bool = False
    merge: MergeSpec | None = None

    @cached_property
    def read_schema(self) -> TableSchema:
        """`schema` with the extra columns: the columns that `columns` and `filter` may name."""
        return replace(self.schema, fields=(*self.schema.fields, *self.extra)) if self.extra else self.schema


def make_plan(metadata: TableMetadata, request: ScanRequest) -> ScanPlan:
    """Plans a read.

    Raises:
        Unsupported: a merge engine, option or format that Morrow does not read.
        CorruptFile, FileMissing, UnsafePath: metadata that cannot be trusted.
        SnapshotExpired: the snapshot has been removed meanwhile.
    """
    spec = spec_of(metadata, request)
    plan = ScanPlan(
        table=metadata.where,
        schema=request.read_schema,
        columns=request.columns,
        filter=request.filter,
        sections=(),
        snapshot=request.snapshot,
        merge=spec,
        limit=request.limit,
        file_options=request.options.raw,
        root=metadata.root,
        branch=metadata.branch,
        roots=readable_roots(metadata, request.options),
    )
    if request.snapshot is None:
        return plan
    with planning(metadata, request.snapshot):
        return _with_files(metadata, request, plan)


def spec_of(metadata: TableMetadata, request: ScanRequest) -> MergeSpec | None:
    """Returns how versions of a key become a row; None in tables without keys. Raises `Unsupported`."""
    spec = request.merge or merge_spec(request.schema, request.options, where=metadata.where)
    return replace(spec, keeps_retractions=True) if spec is not None and request.keeps_retractions else spec


def _with_files(metadata: TableMetadata, request: ScanRequest, plan: ScanPlan) -> ScanPlan:
    steps: list[PruneStep] = []
    entries, vectors = visible_entries(metadata, request, plan.merge, steps)
    entries = _keyed(metadata, request, entries, steps)
    if request.filter.predicate == ALWAYS:
        # Statistics and indexes are most of the metadata, and ordering entries copies them.
        entries = entries.select(cs.by_name(*ASSEMBLED, *KEY_BOUNDS, require_all=False))
    divided = sectioned(metadata, request, plan.merge, entries)
    # Statistics, keys and indexes of all files are most of the metadata, and are not needed any more.
    divided = replace(
        divided, frame=_prune_raw(metadata, request, divided, steps).select(cs.by_name(*ASSEMBLED, require_all=False))
    )
    del entries
    return _assembled(metadata, request, plan, divided, vectors, steps)


def visible_entries(
    metadata: TableMetadata, request: ScanRequest, spec: MergeSpec | None, steps: list[PruneStep]
) -> tuple[pl.DataFrame, DeletionVectors | None]:
    """Returns the live entries of matching partitions that batch reads may see, and their deletion vectors."""
    assert request.snapshot is not None
    partition_part = projected(request.filter.predicate, frozenset(request.schema.partition_keys))
    live: LiveEntries = live_entries(metadata, request.snapshot, request.schema, partition_part)
    steps.append(PruneStep("manifests by partition", live.manifests_read, live.manifests))
    frame, vectors = with_vectors(metadata, request.options, request.snapshot, live.frame)
    if request.left_out:
        frame = frame.filter(~pl.col("_PARTITION").is_in(list(request.left_out)))
    if spec is not None:
        # Postponed rows have no bucket yet; they wait in bucket -2 for compaction.
        visible = frame["_BUCKET"] >= 0
        least_level = max(request.least_level, int(spec.hides_level_zero))
        if least_level:
            visible &= frame["_LEVEL"] >= least_level
        frame = frame if visible.all() else frame.filter(visible)
        steps.append(PruneStep("files visible to batch reads", frame.height, live.files))
    return frame, vectors


def _keyed(metadata: TableMetadata, request: ScanRequest, frame: pl.DataFrame, steps: list[PruneStep]) -> pl.DataFrame:
    """Returns files whose bucket and key statistics may match: all versions of a key share its key columns."""
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


@dataclass(frozen=True)
class _Sectioned:
    """Entries with a section number each; within a section they are ordered by their least key.

    `kinds`: the kinds of sections other than RAW; `bounds`: the least and greatest key of each MERGE section.
    """

    frame: pl.DataFrame
    kinds: Mapping[int, SectionKind] = field(default_factory=dict)
    bounds: Mapping[int, tuple[tuple[Value, ...], tuple[Value, ...]]] = field(default_factory=dict)


def sectioned(metadata: TableMetadata, request: ScanRequest, spec: MergeSpec | None, frame: pl.DataFrame) -> _Sectioned:
    """Divides visible entries into sections."""
    if spec is None and request.options.data_evolution and frame.height:
        return _stitched(frame)
    if spec is None or spec.hides_level_zero or not frame.height:
        return _raw(frame)
    return _merged(metadata, request.schema, frame)


def _raw(frame: pl.DataFrame) -> _Sectioned:
    """Makes one RAW section per bucket."""
    groups = bucket_numbers(frame)
    order = np.argsort(groups, kind="stable")
    return _Sectioned(_in_order(frame, order, groups, groups[order]))


def _stitched(frame: pl.DataFrame) -> _Sectioned:
    """Makes one STITCH section of files that share row ids: they hold different columns of the same rows."""
    groups = bucket_numbers(frame)
    first = frame["_FIRST_ROW_ID"].fill_null(-1).to_numpy()
    last = first + np.maximum(frame["_ROW_COUNT"].to_numpy(), 1) - 1
    order = np.lexsort((first, groups))
    sections = section_ids(groups[order], first[order], last[order])
    kinds = dict.fromkeys(_distinct(sections), SectionKind.STITCH)
    return _Sectioned(_in_order(frame, order, groups, sections), kinds)


def _merged(metadata: TableMetadata, schema: TableSchema, frame: pl.DataFrame) -> _Sectioned:
    """Makes one MERGE section of files whose keys overlap, and one RAW section of all others of a bucket."""
    groups = bucket_numbers(frame)
    keys = _key_bounds(metadata, schema, frame)
    low, high = key_ranks(keys).reshape(2, -1)
    check_key_order(frame, low > high, metadata.where)
    order = np.lexsort((low, groups))
    sections = section_ids(groups[order], low[order], high[order])
    merged = np.bincount(sections)[sections] > 1
    # Raw sections are numbered after merged ones.
    numbers = np.where(merged, sections, len(sections) + np.unique(groups[order], return_inverse=True)[1])
    kinds = dict.fromkeys(_distinct(numbers[merged]), SectionKind.MERGE)
    bounds = _section_bounds(metadata, keys, order[merged], high, numbers[merged])
    return _Sectioned(_in_order(frame, order, groups, numbers), kinds, bounds)


def _in_order(
    frame: pl.DataFrame, order: npt.NDArray[np.intp], groups: npt.NDArray[np.int64], sections: npt.NDArray[np.int64]
) -> pl.DataFrame:
    """Returns `frame` in this order; `groups` belong to its rows before ordering, `sections` to the ordered rows."""
    moved = (order[1:] < order[:-1]).any()
    return (frame[series_of(order)] if moved else frame).with_columns(
        series_of(groups[order]).alias(BUCKET_NUMBER), series_of(sections).alias(SECTION)
    )


def _schema_ids(frame: pl.DataFrame) -> list[int]:
    return _distinct(frame["_SCHEMA_ID"].to_numpy())


def _distinct(values: npt.NDArray[np.integer]) -> list[int]:
    # Asked for the values alone, numpy imports its masked arrays.
    found: list[int] = np.unique(values, return_counts=True)[0].tolist()
    return found


def _key_bounds(metadata: TableMetadata, schema: TableSchema, frame: pl.DataFrame) -> Sequence[pl.Series]:
    """Returns the key columns, each with the minima of all files followed by the maxima."""
    types = [schema.by_name[name].type for name in schema.trimmed_primary_keys]
    for schema_id in _schema_ids(frame):
        written = metadata.schema(schema_id)
        ids = {f.id: f.type.with_nullable(True) for f in written.fields}
        for name, kind in zip(schema.trimmed_primary_keys, types):
            if ids.get(schema.by_name[name].id) != kind.with_nullable(True):
                raise Unsupported(f"a primary key column whose type was changed ({name!r})", where=metadata.where)
    return decode_columns(pl.concat([frame["_MIN_KEY"], frame["_MAX_KEY"]]), types, where=metadata.where)


def _section_bounds(
    metadata: TableMetadata,
    keys: Sequence[pl.Series],
    files: npt.NDArray[np.intp],
    high: npt.NDArray[np.int64],
    sections: npt.NDArray[np.int64],
) -> Mapping[int, tuple[tuple[Value, ...], tuple[Value, ...]]]:
    """Returns the least and greatest key of each MERGE section; `files` are in sections, ordered by least key."""
    if not len(files):
        return {}
    numbers, first = np.unique(sections, return_index=True)
    last = np.append(first[1:], len(files)) - 1
    greatest = files[np.lexsort((high[files], sections))[last]]
    ends = np.concatenate([files[first], len(high) + greatest])
    rows = python_rows([column[series_of(ends)] for column in keys], where=metadata.where)
    return dict(zip(numbers.tolist(), zip(rows[: len(numbers)], rows[len(numbers) :])))


def _prune_raw(
    metadata: TableMetadata,
    request: ScanRequest,
    sectioned: _Sectioned,
    steps: list[PruneStep],
) -> pl.DataFrame:
    """Drops files without a matching row from raw sections; in a merge such a file may hide another file's row."""
    frame, kinds = sectioned.frame, sectioned.kinds
    if request.filter.predicate == ALWAYS or not frame.height:
        return frame
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
    return frame


def _assembled(
    metadata: TableMetadata,
    request: ScanRequest,
    plan: ScanPlan,
    sectioned: _Sectioned,
    vectors: DeletionVectors | None,
    steps: Sequence[PruneStep],
) -> ScanPlan:
    frame = sectioned.frame
    deletions = deletion_refs(metadata, request.schema, request.options, vectors, frame)
    files = data_files(metadata, request.schema, request.options, frame, deletions)
    numbers, members = _members(frame[SECTION].to_numpy())
    first = [rows[0] for rows in members]
    stored, buckets = frame["_PARTITION"].gather(first), frame["_BUCKET"].gather(first)
    values = partition_values(request.schema, stored.to_frame(), where=metadata.where)
    unbounded = (None, None)
    schemas = [metadata.schema(schema_id) for schema_id in _schema_ids(frame)]
    check_columns(schemas, request.schema, frame, metadata.where)
    sections = tuple(
        Section(
            sectioned.kinds.get(number, SectionKind.RAW),
            partition,
            bucket,
            tuple(files[row] for row in rows),
            key_low=sectioned.bounds.get(number, unbounded)[0],
            key_high=sectioned.bounds.get(number, unbounded)[1],
            partition_row=partition_row,
        )
        for number, rows, partition, bucket, partition_row in zip(numbers, members, values, buckets, stored)
    )
    return replace(
        plan,
        sections=sections,
        steps=tuple(steps),
        file_fields={schema.id: file_columns(schema) for schema in schemas},
    )


def _members(sections: npt.NDArray[np.int64]) -> tuple[list[int], list[list[int]]]:
    """Returns the numbers of sections as they first appear, and the rows of each, ascending."""
    if not len(sections):
        return [], []
    numbers, first, counts = np.unique(sections, return_index=True, return_counts=True)
    rows = np.split(np.argsort(sections, kind="stable"), np.cumsum(counts)[:-1])
    appeared = np.argsort(first, kind="stable").tolist()
    return numbers[appeared].tolist(), [rows[i].tolist() for i in appeared]


def file_columns(schema: TableSchema) -> tuple[DataField, ...]:
    """Returns the columns of data files written with this schema, without ``_KEY_`` copies, which reads never need."""
    if not schema.primary_keys:
        return schema.fields
    return (SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, *schema.fields)
