"""The planner of reads: snapshot, live files, pruning, sections.

The steps: manifests whose partitions may match -> live entries -> buckets that may hold the key -> files whose key
statistics may match -> sections -> value statistics and file indexes on the sections that need no merge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import TypeAlias

import msgspec
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.schema import SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, TableSchema
from morrow.engine.format.types import BlobType, DataField, contains
from morrow.engine.frames import kept, picked
from morrow.engine.merge.registry import merge_spec
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.names import BUCKET_NUMBER, MODERN_DATES, SECTION, VECTOR
from morrow.engine.plan.data_files import DESCRIBED, data_files, described, partition_values, readable_roots
from morrow.engine.plan.deletions import DeletionVectors, check_needs_no_merge, deletion_refs, with_vectors
from morrow.engine.plan.entries import Decoded, LiveEntries, live_entries
from morrow.engine.plan.entry_checks import check_columns
from morrow.engine.plan.in_flight import planning
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.modern_dates import lacks_statistics, with_modern_dates
from morrow.engine.plan.packed_files import PackedFiles
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import bucket_mask, index_mask, key_mask, projected, value_mask
from morrow.engine.plan.request import ScanRequest
from morrow.engine.plan.scan_plan import DataFile, PruneStep, ScanPlan, Section, SectionKind
from morrow.engine.plan.sectioned import KEY_BOUNDS, Sectioned, schema_ids_of, sectioned, together
from morrow.engine.values import replace

STORED = ("_PARTITION", "_BUCKET", "_FILE_NAME", "_EXTERNAL_PATH", *DESCRIBED)
NEEDED = (*STORED, *KEY_BOUNDS)
"""Columns of entries that a plan is made of, but for the statistics that filters ask."""
ASSEMBLED = (*STORED, MODERN_DATES, SECTION, BUCKET_NUMBER, VECTOR)
"""Columns of entries that the files and sections of a plan are made of."""
MOST_OBJECTS = 1 << 17
"""Files that a plan holds as objects; more are packed: they take a third of the memory, and a while each time they are
gone through."""


Outlines: TypeAlias = Callable[[TableMetadata, ScanRequest, pl.DataFrame], Decoded | None]
"""Has manifests of a list decoded in other processes, as `outlined` does; None where this one has to."""


def make_plan(metadata: TableMetadata, request: ScanRequest, outlines: Outlines | None = None) -> ScanPlan:
    """Plans a read; `outlines` may have manifests decoded elsewhere.

    Raises:
        Unsupported: a merge engine, option or format that Morrow does not read.
        CorruptFile, FileMissing, UnsafePath: metadata that cannot be trusted.
        SnapshotExpired: the snapshot has been removed meanwhile.
    """
    plan = _empty_plan(metadata, request)
    if request.snapshot is None:
        return plan
    with planning(metadata, request.snapshot):
        return _with_files(metadata, request, plan, outlines)


def plan_of_entries(metadata: TableMetadata, request: ScanRequest, entries: pl.DataFrame) -> ScanPlan:
    """Plans a read of these manifest entries alone, which have no deletion vectors. Raises as `make_plan`."""
    plan = _empty_plan(metadata, request)
    divided = sectioned(metadata, request, plan.merge, with_modern_dates(metadata, entries))
    return _assembled(metadata, request, plan, divided, None, ())


def _empty_plan(metadata: TableMetadata, request: ScanRequest) -> ScanPlan:
    """Returns the plan of a request without files. Raises as `spec_of`."""
    return ScanPlan(
        table=metadata.where,
        schema=request.read_schema,
        columns=request.columns,
        filter=request.filter,
        sections=(),
        snapshot=request.snapshot,
        merge=spec_of(metadata, request),
        limit=request.limit,
        file_options=request.options.raw,
        root=metadata.root,
        branch=metadata.branch,
        roots=readable_roots(metadata, request.options),
    )


def spec_of(metadata: TableMetadata, request: ScanRequest) -> MergeSpec | None:
    """Returns how versions of a key become a row; None in tables without keys. Raises `Unsupported`."""
    check_blobs(request.schema, metadata.where)
    spec = request.merge or merge_spec(request.schema, request.options, where=metadata.where)
    return replace(spec, keeps_retractions=True) if spec is not None and request.keeps_retractions else spec


def check_blobs(schema: TableSchema, where: str) -> None:
    """Raises `Unsupported` for blobs of a table with a primary key: data files hold where they lie in packs."""
    blobs = [field.name for field in schema.fields if contains(field.type, BlobType)] if schema.primary_keys else []
    if blobs:
        raise Unsupported(
            f"the BLOB column {blobs[0]!r} of a table with a primary key",
            where=where,
            hint="its files hold descriptors of blobs in *.managed.blob; read it by Paimon 2.0 or newer",
        )


def _with_files(metadata: TableMetadata, request: ScanRequest, plan: ScanPlan, outlines: Outlines | None) -> ScanPlan:
    steps: list[PruneStep] = []
    # Statistics are most of the metadata, and matter to filters, and to dates in ORC files.
    needed = None if request.filter.predicate != ALWAYS else NEEDED
    entries, vectors = visible_entries(metadata, request, plan.merge, steps, needed, outlines)
    if lacks_statistics(request.schema, entries):
        steps.clear()
        entries, vectors = visible_entries(metadata, request, plan.merge, steps)
    entries = with_modern_dates(metadata, _keyed(metadata, request, entries, steps))
    if request.filter.predicate == ALWAYS:
        # Ordering entries copies what else they have.
        entries = picked(entries, (*ASSEMBLED, *KEY_BOUNDS))
    divided = sectioned(metadata, request, plan.merge, entries)
    # Statistics, keys and indexes of all files are most of the metadata, and are not needed any more.
    divided = msgspec.structs.replace(divided, frame=picked(_prune_raw(metadata, request, divided, steps), ASSEMBLED))
    del entries
    return _assembled(metadata, request, plan, divided, vectors, steps)


def visible_entries(
    metadata: TableMetadata,
    request: ScanRequest,
    spec: MergeSpec | None,
    steps: list[PruneStep],
    columns: Collection[str] | None = None,
    outlines: Outlines | None = None,
) -> tuple[pl.DataFrame, DeletionVectors | None]:
    """Returns the live entries of matching partitions that batch reads may see, and their deletion vectors.

    The entries have at least these `columns`; without them, all. Those that come by `outlines` have `NEEDED` ones.
    """
    assert request.snapshot is not None
    elsewhere = None if outlines is None else lambda manifests: outlines(metadata, request, manifests)
    partition_part = projected(request.filter.predicate, frozenset(request.schema.partition_keys))
    live: LiveEntries = live_entries(metadata, request.snapshot, request.schema, partition_part, columns, elsewhere)
    steps.append(PruneStep("manifests by partition", live.manifests_read, live.manifests))
    frame, vectors = with_vectors(metadata, request.options, request.snapshot, live.frame)
    if request.left_out:
        frame = frame.filter(~pl.col("_PARTITION").is_in(list(request.left_out)))
    if spec is not None:
        # Postponed rows have no bucket yet; they wait in bucket -2 for compaction.
        visible = frame["_BUCKET"] >= 0
        if request.options.deletion_vectors:
            check_needs_no_merge(metadata, request.snapshot, frame, visible & (frame["_LEVEL"] >= request.least_level))
        least_level = max(request.least_level, int(spec.hides_level_zero))
        if least_level:
            visible &= frame["_LEVEL"] >= least_level
        frame = kept(frame, visible)
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


def _prune_raw(
    metadata: TableMetadata,
    request: ScanRequest,
    sectioned: Sectioned,
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
    sectioned: Sectioned,
    vectors: DeletionVectors | None,
    steps: Sequence[PruneStep],
) -> ScanPlan:
    frame, numbers, starts = together(sectioned.frame)
    files = _files(metadata, request, frame, vectors)
    first = starts[:-1]
    stored, buckets = frame["_PARTITION"][first], frame["_BUCKET"][first]
    values = partition_values(request.schema, stored.to_frame(), where=metadata.where)
    unbounded = (None, None)
    schemas = [metadata.schema(schema_id) for schema_id in schema_ids_of(frame)]
    check_columns(schemas, request.schema, frame, metadata.where)
    sections = tuple(
        Section(
            sectioned.kinds.get(number, SectionKind.RAW),
            partition,
            bucket,
            files[start:end],
            key_low=sectioned.bounds.get(number, unbounded)[0],
            key_high=sectioned.bounds.get(number, unbounded)[1],
            partition_row=partition_row,
        )
        for number, (start, end), partition, bucket, partition_row in zip(
            numbers, pairwise(starts), values, buckets, stored
        )
    )
    return replace(
        plan,
        sections=sections,
        steps=tuple(steps),
        file_fields={schema.id: file_columns(schema) for schema in schemas},
    )


def _files(
    metadata: TableMetadata, request: ScanRequest, frame: pl.DataFrame, vectors: DeletionVectors | None
) -> tuple[DataFile, ...] | PackedFiles:
    deletions = deletion_refs(metadata, request.schema, request.options, vectors, frame)
    if frame.height > MOST_OBJECTS:
        return PackedFiles.of(described(metadata, request.schema, request.options, frame), deletions)
    return tuple(data_files(metadata, request.schema, request.options, frame, deletions))


def file_columns(schema: TableSchema) -> tuple[DataField, ...]:
    """Returns the columns of data files written with this schema, without ``_KEY_`` copies, which reads never need."""
    if not schema.primary_keys:
        return schema.fields
    return (SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, *schema.fields)
