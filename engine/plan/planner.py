"""The planner of reads: snapshot, live files, pruning, sections.

The steps: manifests whose partitions may match -> live entries -> buckets that may hold the key -> files whose key
statistics may match -> sections -> value statistics and file indexes on the sections that need no merge.

Statistics are most of the metadata. Another process that decodes manifests for the planner sends its entries without
them. It replaces statistics by columns: the masks of pruning and the dates of ORC files (`decode_outlined`). All other
steps are left to the planner, which sees every entry of the matching partitions.

Paimon counts days in the proleptic Gregorian calendar. Other readers of ORC interpret days before October 1582, when
the Julian calendar ended, as Julian dates, and so get another date. Statistics show which files have only later dates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np
import polars as pl

from morrow.engine.format.file_formats import is_dedicated_file
from morrow.engine.format.manifest_entries import make_empty_frame
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.engines import describe_merge
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.names import (
    BUCKET_MATCHES,
    BUCKET_NUMBER,
    KEYS_MATCH,
    MODERN_DATES,
    ROW,
    SECTION,
    VALUES_MATCH,
    VECTOR,
)
from morrow.engine.options import TableOptions
from morrow.engine.plan.data_files import (
    DESCRIBED,
    DeletionVectors,
    attach_vectors,
    build_data_files,
    build_deletion_refs,
    check_needs_no_merge,
    check_snapshot_numbers,
    decode_partition_values,
    describe_data_files,
    list_allowed_roots,
    list_file_columns,
    list_readable_roots,
)
from morrow.engine.plan.entries import (
    RESOLVED,
    Decoded,
    LiveEntries,
    count_listed_entries,
    count_rows,
    filter_partitions,
    read_live_entries,
    split_manifests,
)
from morrow.engine.plan.filter import NO_FILTER, Filter
from morrow.engine.plan.key_directory import DIRECTORY_COLUMNS, MAX_DIRECTORY_FILES, KeyDirectory
from morrow.engine.plan.manifests import guard_planning, list_manifests, read_manifest_entries
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.engine.plan.predicate import (
    ALWAYS,
    Predicate,
    combine_predicates,
    find_columns,
    iterate_leaves,
    split_conjuncts,
)
from morrow.engine.plan.pruning import (
    add_modern_dates,
    is_without_statistics,
    mask_by_bucket,
    mask_by_index,
    mask_by_key,
    mask_by_row_id,
    mask_by_value,
    project_predicate,
)
from morrow.engine.plan.scan_plan import DataFile, PackedFiles, PruneStep, ScanPlan, ScanRequest, Section, SectionKind
from morrow.engine.plan.sections import (
    KEY_BOUNDS,
    Sectioned,
    check_columns,
    divide_entries,
    find_schema_ids,
    group_by_section,
    mask_holders,
)
from morrow.engine.polars_threads import filter_rows, select_columns
from morrow.engine.structs import replace

if TYPE_CHECKING:
    from morrow.engine.plan.global_indexes import IndexSearch

STORED = ("_PARTITION", "_BUCKET", "_FILE_NAME", "_EXTERNAL_PATH", *DESCRIBED)
NEEDED = (*STORED, *KEY_BOUNDS)
"""Columns of entries that a plan is made from, without the statistics that filters use."""
ASSEMBLED = (*STORED, MODERN_DATES, SECTION, BUCKET_NUMBER, VECTOR)
"""Columns of entries that the files and sections of a plan are made from."""
MAX_OBJECT_FILES = 1 << 17
"""The limit of files that a plan holds as objects; beyond it they are packed.

Packed files take a third of the memory, but each iteration over them costs time.
"""

Outlines: TypeAlias = Callable[[TableMetadata, ScanRequest, pl.DataFrame], Decoded | None]
"""Decodes manifests of a list in other processes, as `decode_outlined`; returns None if this process has to do it."""


def make_plan(metadata: TableMetadata, request: ScanRequest, outlines: Outlines | None = None) -> ScanPlan:
    """Plan a read; `outlines` may have manifests decoded elsewhere.

    Raises:
        Unsupported: a merge engine, option or format that Morrow does not read.
        CorruptFile, FileMissing, UnsafePath: metadata that cannot be trusted.
        SnapshotExpired: the snapshot has been removed meanwhile.
    """
    plan = _make_empty_plan(metadata, request)
    if request.snapshot is None:
        return plan
    with guard_planning(metadata, request.snapshot):
        return _plan_files(metadata, request, plan, outlines)


def plan_entries(metadata: TableMetadata, request: ScanRequest, entries: pl.DataFrame) -> ScanPlan:
    """Plan a read of these manifest entries alone, without deletion vectors. Raises as `make_plan`."""
    plan = _make_empty_plan(metadata, request)
    divided = divide_entries(metadata, request, plan.merge, add_modern_dates(metadata, entries))
    return _build_plan(metadata, request, plan, divided, None, ())


def _make_empty_plan(metadata: TableMetadata, request: ScanRequest) -> ScanPlan:
    """Return the plan of a request without files. Raises as `resolve_merge`."""
    return ScanPlan(
        table=metadata.where,
        schema=request.read_schema,
        columns=request.columns,
        filter=request.filter,
        sections=(),
        snapshot=request.snapshot,
        merge=resolve_merge(metadata, request),
        limit=request.limit,
        file_options=request.options.raw,
        root=metadata.root,
        branch=metadata.branch,
        roots=list_readable_roots(metadata, request.options),
        allowed_roots=list_allowed_roots(metadata, request.options),
    )


def resolve_merge(metadata: TableMetadata, request: ScanRequest) -> MergeSpec | None:
    """Return the merge of a key's versions into a row; None in tables without keys. Raises `Unsupported`."""
    spec = request.merge or describe_merge(request.schema, request.options, where=metadata.where)
    return replace(spec, keeps_retractions=True) if spec is not None and request.keeps_retractions else spec


def _plan_files(metadata: TableMetadata, request: ScanRequest, plan: ScanPlan, outlines: Outlines | None) -> ScanPlan:
    steps: list[PruneStep] = []
    # Statistics are most of the metadata. Only filters and dates in ORC files need them.
    by_snapshot = plan.merge is not None and plan.merge.by_snapshot
    whole = by_snapshot or request.merges_postponed
    needed = None if request.filter.predicate != ALWAYS or whole else NEEDED
    entries, vectors = read_visible_entries(metadata, request, plan.merge, steps, needed, None if whole else outlines)
    if is_without_statistics(request.schema, entries):
        steps.clear()
        entries, vectors = read_visible_entries(metadata, request, plan.merge, steps)
    if request.merges_postponed and (entries["_BUCKET"] == POSTPONE_BUCKET).any():
        return _plan_postponed(metadata, request, plan, entries, vectors, steps)
    return _plan_visible(metadata, request, plan, entries, vectors, steps)


def _plan_postponed(
    metadata: TableMetadata,
    request: ScanRequest,
    plan: ScanPlan,
    entries: pl.DataFrame,
    vectors: DeletionVectors | None,
    steps: list[PruneStep],
) -> ScanPlan:
    """Plan one section for each partition with postponed rows, and the other partitions as usual.

    As in Paimon, the rows of the buckets are merged first, then the postponed rows in the order of their files, then
    both. A version that does not match the filter may take part, so only keys and partitions prune files.
    """
    waiting = entries["_BUCKET"] == POSTPONE_BUCKET
    merged = entries["_PARTITION"].is_in(entries["_PARTITION"].filter(waiting).unique().implode())
    others = _plan_visible(metadata, request, plan, entries.filter(~merged), vectors, steps)
    keys = frozenset((*request.schema.trimmed_primary_keys, *request.schema.partition_keys))
    by_key = replace(request, filter=Filter.of_predicate(project_predicate(request.filter.predicate, keys)))
    beneath = _plan_visible(metadata, by_key, plan, entries.filter(merged & ~waiting), vectors, steps)
    files = add_modern_dates(metadata, entries.filter(waiting).sort("_CREATION_TIME", maintain_order=True))
    divided = divide_entries(metadata, request, None, files)
    postponed = _build_plan(metadata, request, plan, divided, vectors, ())
    sections = []
    for section in postponed.sections:
        under = tuple(each for each in beneath.sections if each.partition_row == section.partition_row)
        own = (*(file for each in under for file in each.files), *section.files)
        kind = SectionKind.POSTPONED
        sections.append(msgspec.structs.replace(section, kind=kind, files=own, beneath=under))
    steps.append(PruneStep("partitions with postponed rows", len(sections), entries["_PARTITION"].n_unique()))
    return replace(
        others,
        sections=(*others.sections, *sections),
        steps=tuple(steps),
        file_fields={**others.file_fields, **beneath.file_fields, **postponed.file_fields},
    )


def plan_visible_entries(metadata: TableMetadata, request: ScanRequest, entries: pl.DataFrame) -> ScanPlan:
    """Plan a read of these visible entries alone, without deletion vectors, and prune them.

    Files may hold other values of partition columns than their entries name, so these columns prune no files.

    Raises as `make_plan`.
    """
    plan, keys = _make_empty_plan(metadata, request), request.schema.partition_keys
    parts = split_conjuncts(request.filter.predicate)
    kept = [part for part in parts if find_columns(part).isdisjoint(keys)]
    pruning = replace(request, filter=replace(request.filter, predicate=combine_predicates(*kept)))
    return _plan_visible(metadata, pruning, plan, entries, None, [])


def _plan_visible(
    metadata: TableMetadata,
    request: ScanRequest,
    plan: ScanPlan,
    entries: pl.DataFrame,
    vectors: DeletionVectors | None,
    steps: list[PruneStep],
) -> ScanPlan:
    entries = add_modern_dates(metadata, _prune_by_key(metadata, request, entries, steps))
    if request.filter.predicate == ALWAYS:
        # Sorting entries copies all their other columns.
        entries = select_columns(entries, (*ASSEMBLED, *KEY_BOUNDS))
    divided = divide_entries(metadata, request, plan.merge, entries)
    # Statistics, keys and indexes of all files are most of the metadata, and are no longer needed.
    divided, search = _search_indexes(metadata, request, divided, steps)
    divided = msgspec.structs.replace(
        divided, frame=select_columns(_prune_raw(metadata, request, divided, steps), ASSEMBLED)
    )
    del entries
    plan = _build_plan(metadata, request, plan, divided, vectors, steps)
    return plan if search is None else search.narrow_plan(plan)


def _search_indexes(
    metadata: TableMetadata, request: ScanRequest, divided: Sectioned, steps: list[PruneStep]
) -> tuple[Sectioned, IndexSearch | None]:
    """Drop files whose rows do not match according to global indexes; return the matching row ids, too."""
    frame, snapshot = divided.frame, request.snapshot
    has_indexes = request.options.row_tracking and snapshot is not None and snapshot.index_manifest is not None
    if not request.searches_indexes or not has_indexes or request.filter.predicate == ALWAYS or not frame.height:
        return divided, None
    from morrow.engine.plan.global_indexes import search_indexes  # few tables have an index

    assert snapshot is not None
    search = search_indexes(metadata, request.schema, request.options, snapshot, request.filter.predicate, frame)
    if search is None:
        return divided, None
    keep = search.mask_files(frame)
    if SectionKind.STITCH in divided.kinds.values():
        keep = frame[SECTION].is_in(frame[SECTION].filter(keep).unique().implode())
    steps.append(PruneStep(f"files by global index ({', '.join(search.used)})", int(keep.sum()), frame.height))
    return msgspec.structs.replace(divided, frame=frame.filter(keep)), search


def read_visible_entries(
    metadata: TableMetadata,
    request: ScanRequest,
    spec: MergeSpec | None,
    steps: list[PruneStep],
    columns: Collection[str] | None = None,
    outlines: Outlines | None = None,
) -> tuple[pl.DataFrame, DeletionVectors | None]:
    """Return the live entries of matching partitions that batch reads may see, and their deletion vectors.

    The entries have at least these `columns`; without `columns`, all of them. If they come from `outlines`, they have
    the columns `NEEDED`.
    """
    assert request.snapshot is not None
    elsewhere = None if outlines is None else lambda manifests: outlines(metadata, request, manifests)
    partition_part = project_predicate(request.filter.predicate, frozenset(request.schema.partition_keys))
    live: LiveEntries = read_live_entries(
        metadata, request.snapshot, request.schema, partition_part, columns, elsewhere
    )
    steps.append(PruneStep("manifests by partition", live.manifests_read, live.manifests))
    frame, vectors = attach_vectors(metadata, request.options, request.snapshot, live.frame)
    if request.left_out:
        frame = frame.filter(~pl.col("_PARTITION").is_in(list(request.left_out)))
    if spec is not None:
        if spec.by_snapshot:
            check_snapshot_numbers(metadata, frame)
        # Postponed rows are not yet in buckets; they wait in bucket -2 for compaction.
        visible = frame["_BUCKET"] >= 0
        postponed = frame["_BUCKET"] == POSTPONE_BUCKET
        if request.options.waits_for_vectors:
            check_needs_no_merge(metadata, request.snapshot, frame, visible & (frame["_LEVEL"] >= request.least_level))
        least_level = max(request.least_level, int(spec.hides_level_zero))
        if least_level:
            visible &= frame["_LEVEL"] >= least_level
        if request.merges_postponed:
            visible |= postponed
        frame = filter_rows(frame, visible)
        steps.append(PruneStep("files visible to batch reads", frame.height, live.files))
    return frame, vectors


def _prune_by_key(
    metadata: TableMetadata, request: ScanRequest, frame: pl.DataFrame, steps: list[PruneStep]
) -> pl.DataFrame:
    """Return files whose bucket and key statistics may match: all versions of a key share its key columns."""
    if request.filter.predicate == ALWAYS or not frame.height:
        return frame
    kept = frame.filter(mask_by_bucket(metadata, request.schema, request.options, request.filter.predicate, frame))
    if kept.height < frame.height:
        steps.append(PruneStep("files by bucket", kept.height, frame.height))
    if request.schema.primary_keys and kept.height:
        matching = kept.filter(mask_by_key(metadata, request.schema, request.filter.predicate, kept))
        steps.append(PruneStep("files by key range", matching.height, kept.height))
        kept = matching
    return kept


def _prune_raw(
    metadata: TableMetadata,
    request: ScanRequest,
    sectioned: Sectioned,
    steps: list[PruneStep],
) -> pl.DataFrame:
    """Drop files without a matching row from raw sections; in a merge, such a file may hide another file's row."""
    frame, kinds = sectioned.frame, sectioned.kinds
    if request.filter.predicate == ALWAYS or not frame.height:
        return frame
    raw = ~frame[SECTION].is_in(list(kinds))
    if SectionKind.STITCH in kinds.values():
        return _prune_groups(metadata, request, frame, steps)
    tests = (
        ("raw files by row id", mask_by_row_id),
        ("raw files by statistics", mask_by_value),
        ("raw files by index", mask_by_index),
    )
    for name, mask_of in tests:
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


def _prune_groups(
    metadata: TableMetadata, request: ScanRequest, frame: pl.DataFrame, steps: list[PruneStep]
) -> pl.DataFrame:
    """Drop sections of files with the same row ids that have no matching row.

    A part of the filter is tested on the newest file that holds its columns: older values are not read.
    """
    args = metadata, request.schema, request.options
    for name, mask_of in (("files by row id", mask_by_row_id), ("files by statistics", mask_by_value)):
        before = frame.height
        if mask_of is mask_by_row_id:
            mask = mask_by_row_id(*args, request.filter.predicate, frame)
            if mask is None:
                continue
            frame = frame.filter(frame[SECTION].is_in(frame[SECTION].filter(mask).unique().implode()))
        elif VALUES_MATCH not in frame.columns:  # otherwise another process tested the whole filter on each file
            for part in split_conjuncts(request.filter.predicate):
                holders = _find_newest_holders(metadata, request.schema, find_columns(part), frame)
                gone = pl.concat([_find_excluded(part, holders, test, args) for test in (mask_by_value, mask_by_index)])
                frame = frame.filter(~frame[SECTION].is_in(gone.implode()))
        steps.append(PruneStep(name, frame.height, before))
    return frame


def _find_excluded(
    part: Predicate,
    holders: pl.DataFrame,
    mask_of: Callable[..., pl.Series | None],
    args: tuple[TableMetadata, TableSchema, TableOptions],
) -> pl.Series:
    """Return the sections whose file cannot have a matching row."""
    mask = mask_of(*args, part, holders) if holders.height else None
    return holders[SECTION].clear() if mask is None else holders[SECTION].filter(~mask)


def _find_newest_holders(
    metadata: TableMetadata, schema: TableSchema, columns: Collection[str], frame: pl.DataFrame
) -> pl.DataFrame:
    """Return for each section the newest file that holds these columns, if one data file holds all of them."""
    if not frame.height or not columns or any(name not in schema.by_name for name in columns):
        return frame.clear()
    numbered = frame.with_row_index(ROW)
    whole = pl.Series([not is_dedicated_file(name) for name in frame["_FILE_NAME"]], dtype=pl.Boolean)
    found: pl.DataFrame | None = None
    for name in columns:
        held = numbered.filter(mask_holders(metadata, schema.by_name[name].id, frame))
        newest = held.filter(pl.col("_MAX_SEQUENCE_NUMBER") == pl.col("_MAX_SEQUENCE_NUMBER").max().over(SECTION))
        single = newest.filter(~newest[SECTION].is_duplicated()).select(SECTION, ROW)
        found = single if found is None else found.join(single, on=[SECTION, ROW], how="semi")
    assert found is not None
    return numbered.filter(whole).join(found, on=[SECTION, ROW], how="semi", maintain_order="left").drop(ROW)


def _build_plan(
    metadata: TableMetadata,
    request: ScanRequest,
    plan: ScanPlan,
    sectioned: Sectioned,
    vectors: DeletionVectors | None,
    steps: Sequence[PruneStep],
) -> ScanPlan:
    frame, numbers, starts = group_by_section(sectioned.frame)
    files = _build_files(metadata, request, frame, vectors)
    first = starts[:-1]
    stored, buckets = frame["_PARTITION"][first], frame["_BUCKET"][first]
    values = decode_partition_values(request.schema, stored.to_frame(), where=metadata.where)
    unbounded = (None, None)
    schemas = [metadata.schema(schema_id) for schema_id in find_schema_ids(frame)]
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
        file_fields={schema.id: list_file_columns(schema) for schema in schemas},
    )


def _build_files(
    metadata: TableMetadata, request: ScanRequest, frame: pl.DataFrame, vectors: DeletionVectors | None
) -> tuple[DataFile, ...] | PackedFiles:
    deletions = build_deletion_refs(metadata, request.schema, request.options, vectors, frame)
    if frame.height > MAX_OBJECT_FILES:
        return PackedFiles.of(describe_data_files(metadata, request.schema, request.options, frame), deletions)
    return tuple(build_data_files(metadata, request.schema, request.options, frame, deletions))


KEPT = tuple(sorted({*RESOLVED, *NEEDED}))
MATCHES = (BUCKET_MATCHES, KEYS_MATCH, VALUES_MATCH)


def decode_outlined(metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded:
    """Decode manifests of a list for a plan of `request`: the entries of matching partitions, with the needed columns.

    Raises `CorruptFile`, `FileMissing`, `Unsupported`, `StorageError`: a manifest, or a schema, cannot be read.
    """
    found = [_decode_piece(metadata, request, piece) for piece in split_manifests(manifests)]
    return Decoded(pl.concat(each.frame for each in found), sum(each.rows for each in found))


def reduce_request(request: ScanRequest) -> ScanRequest:
    """Return the part of a request that concerns entries, which `decode_outlined` has to be sent."""
    asked = Filter.of_predicate(request.filter.predicate)
    return ScanRequest(request.schema, request.options, None, (), asked)


def _decode_piece(metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded:
    tells = request.filter.predicate != ALWAYS
    entries = _read_entries(metadata, manifests, outlines=not tells)
    rows = count_rows(entries)
    part = project_predicate(request.filter.predicate, frozenset(request.schema.partition_keys))
    entries = filter_partitions(entries, request.schema, part, metadata.where)
    if not tells and is_without_statistics(request.schema, entries):
        entries = filter_partitions(
            _read_entries(metadata, manifests, outlines=False), request.schema, part, metadata.where
        )
    entries = add_modern_dates(metadata, entries)
    if MODERN_DATES not in entries.columns:
        entries = entries.with_columns(pl.lit(None, pl.List(pl.String)).alias(MODERN_DATES))
    told = _evaluate_masks(metadata, request, entries) if tells else ()
    return Decoded(entries.select(*KEPT, MODERN_DATES, *told), rows)


def _read_entries(metadata: TableMetadata, manifests: pl.DataFrame, *, outlines: bool) -> pl.DataFrame:
    frames = read_manifest_entries(metadata, manifests, caches=False, outlines=outlines)
    return pl.concat(frames, rechunk=False) if frames else make_empty_frame()


def _evaluate_masks(metadata: TableMetadata, request: ScanRequest, entries: pl.DataFrame) -> list[pl.Series]:
    """Return the masks `MATCHES`. As in a plan, each is evaluated on the entries that the previous one keeps."""
    schema, options, predicate = request.schema, request.options, request.filter.predicate
    tests: tuple[Callable[[pl.DataFrame], pl.Series | None], ...] = (
        lambda rest: mask_by_bucket(metadata, schema, options, predicate, rest),
        lambda rest: mask_by_key(metadata, schema, predicate, rest) if schema.primary_keys else None,
        lambda rest: mask_by_value(metadata, schema, options, predicate, rest),
    )
    left, numbers = entries, np.arange(entries.height)
    found = []
    for name, test in zip(MATCHES, tests):
        mask = test(left) if left.height else None
        if mask is not None:
            left, numbers = left.filter(mask), numbers[mask.to_numpy()]
        flags = np.zeros(entries.height, bool)
        flags[numbers] = True
        found.append(pl.Series(name, flags))
    return found


PLAN_BYTES, PLAN_BYTES_PER_FILE, PLAN_BYTES_PER_LITERAL = 4096, 512, 64
"""Estimated memory in bytes of a cached plan: its base, and the amounts per file and per literal."""


def plan_by_directory(metadata: TableMetadata, request: ScanRequest) -> ScanPlan | None:
    """Return the plan of a filter on keys and partitions by the directory of the snapshot, which is cached.

    Returns None for other filters, and if planning without the directory reads much less metadata.
    """
    snapshot = request.snapshot
    if snapshot is None or request.merges_postponed or not is_on_keys(request.filter, request.schema):
        return None
    everything = replace(request, filter=NO_FILTER)
    key = ("directory", metadata.store.url(metadata.root), metadata.branch, metadata.allowed_roots, everything)
    found = METADATA_CACHE.get(key)
    if not isinstance(found, KeyDirectory):
        with guard_planning(metadata, snapshot):
            manifests = list_manifests(metadata, snapshot)
            by_partition = not find_columns(request.filter.predicate).isdisjoint(request.schema.partition_keys)
            if count_listed_entries(manifests) > MAX_DIRECTORY_FILES or (by_partition and manifests.height > 1):
                return None
            found = _make_directory(metadata, everything)
        METADATA_CACHE.put(key, found, found.size, of=snapshot.delta_manifest_list)
    return found.find_files(request.filter)


def _make_directory(metadata: TableMetadata, request: ScanRequest) -> KeyDirectory:
    plan, steps = _make_empty_plan(metadata, request), list[PruneStep]()
    entries, vectors = read_visible_entries(metadata, request, plan.merge, steps)
    divided = divide_entries(metadata, request, plan.merge, add_modern_dates(metadata, entries))
    plan = _build_plan(metadata, request, plan, divided, vectors, steps)
    files = tuple(_build_files(metadata, request, divided.frame, vectors))
    narrow = select_columns(divided.frame, DIRECTORY_COLUMNS)
    return KeyDirectory(metadata, request.schema, request.options, replace(plan, sections=()), narrow, files)


def estimate_plan_bytes(plan: ScanPlan) -> int:
    """Return the approximate memory of a plan."""
    filter = plan.filter
    files = sum(len(section.files) for section in plan.sections)
    literals = sum(len(leaf.literals) for leaf in iterate_leaves(filter.predicate))
    texts = len(filter.text) + sum(len(residual.identity or b"") for residual in filter.residuals)
    return PLAN_BYTES + PLAN_BYTES_PER_FILE * files + PLAN_BYTES_PER_LITERAL * literals + texts


def is_on_keys(filter: Filter, schema: TableSchema) -> bool:
    """Return whether a filter of a table with a primary key has conditions on key and partition columns alone."""
    columns = find_columns(filter.predicate)
    known = frozenset((*schema.trimmed_primary_keys, *schema.partition_keys))
    return bool(schema.primary_keys) and not filter.residuals and bool(columns) and columns <= known
