"""Plans of reads from several branches: fallback branches and chain tables.

With ``scan.fallback-branch``, the other branch is read if main lacks the partition; with ``scan.primary-branch``, main
is read if the other branch lacks it. The other branch has its own schema versions, options and merge engine, but the
same columns, up to their nullability. Source: the option's description. Snapshot ids and tag names refer to main. With
a past snapshot of main, the other branch is read as of the same time.

`morrow.engine.plan.chains` describes chain tables.
"""

from __future__ import annotations

from morrow.engine.errors import Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import merge_nullability
from morrow.engine.options import TableOptions
from morrow.engine.plan.chains import Chain, find_chain, plan_chain
from morrow.engine.plan.entries import list_partitions
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.engine.plan.planner import Outlines, estimate_plan_bytes, make_plan, plan_by_directory
from morrow.engine.plan.scan_plan import ScanPlan, ScanRequest
from morrow.engine.plan.time_travel import OtherBranch, Travel, check_same_columns, find_other_branch
from morrow.engine.structs import replace


def plan_with_fallback(metadata: TableMetadata, request: ScanRequest, outlines: Outlines | None = None) -> ScanPlan:
    """Plan a read together with the partitions that only the fallback branch has; `outlines` as for `make_plan`.

    Plans are cached by snapshot and request, with any columns and limit. Plans with a fallback branch depend on two
    snapshots, and some filters cannot be compared; those plans are not cached.

    Raises:
        BranchNotFound: the option names no branch of the table.
        InvalidArgument: the branches do not have the same columns.
    """
    if request.options.other_branch is not None or not request.filter.is_identified:
        return _plan_branches(metadata, request, outlines)
    shared = replace(request, columns=(), limit=None)
    if outlines is None and (found := plan_by_directory(metadata, shared)) is not None:
        return replace(found, columns=request.columns, limit=request.limit)
    key = (metadata.store.url(metadata.root), metadata.branch, metadata.allowed_roots, shared)
    of = None if request.snapshot is None else request.snapshot.delta_manifest_list
    plan = METADATA_CACHE.get(key)
    if not isinstance(plan, ScanPlan):
        plan = _plan_branches(metadata, shared, outlines)
        METADATA_CACHE.put(key, plan, estimate_plan_bytes(plan), of=of)
    return replace(plan, columns=request.columns, limit=request.limit)


def derive_readable_schema(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, snapshot: Snapshot | None, travel: Travel
) -> TableSchema:
    """Return the columns of a scan: the columns of `schema`, nullable if the fallback branch's columns are.

    Raises: as `plan_with_fallback`, and as resolving `travel` in the branch.
    """
    for other in _list_branches(_find_others(metadata, options, snapshot, travel)):
        check_same_columns(schema, other, metadata.where)
        pairs = zip(schema.fields, other.schema.fields)
        fields = tuple(replace(f, type=merge_nullability(f.type, g.type)) for f, g in pairs)
        schema = replace(schema, fields=fields)
    return schema


def check_main_alone(metadata: TableMetadata, request: ScanRequest) -> None:
    """Check that a change of the rows that `request` selects affects main alone.

    Rows of the fallback branch are read as rows of main, but not changed with them. A row that is written to main hides
    all rows of its partition in the branch.

    Raises `Unsupported`: the request reads files of the fallback branch.
    """
    found = _find_others(metadata, request.options, request.snapshot, request.travel)
    if found is None:
        return
    if isinstance(found, Chain):
        plan = plan_chain(request, found, list_partitions(metadata, request.snapshot, request.schema))
    else:
        plan = _plan_fallback(metadata, request, found)
    read = next((part for part in plan.parts if part.files), None)
    if read is not None:
        option = next(other.option for other in _list_branches(found) if other.metadata.branch == read.branch)
        raise Unsupported(
            f"a change of rows that are read from the branch {read.branch!r}, which {option} names,",
            where=metadata.where,
            hint=f"change them there, by morrow.open(path, branch={read.branch!r}), or choose rows of other partitions",
        )


def _find_others(
    metadata: TableMetadata, options: TableOptions, snapshot: Snapshot | None, travel: Travel
) -> OtherBranch | Chain | None:
    if options.chain is not None:
        return find_chain(metadata, options, snapshot, travel)
    return find_other_branch(metadata, options, snapshot, travel)


def _list_branches(found: OtherBranch | Chain | None) -> tuple[OtherBranch, ...]:
    if isinstance(found, Chain):
        return found.snapshots, found.deltas
    return () if found is None else (found,)


def _plan_branches(metadata: TableMetadata, request: ScanRequest, outlines: Outlines | None) -> ScanPlan:
    other = _find_others(metadata, request.options, request.snapshot, request.travel)
    if other is None:
        return make_plan(metadata, request, outlines)
    if isinstance(other, Chain):
        held = list_partitions(metadata, request.snapshot, request.schema)
        return replace(make_plan(metadata, request, outlines), fallback=plan_chain(request, other, held))
    of_branch = _plan_fallback(metadata, request, other, outlines)
    if other.is_first:
        request = replace(request, left_out=list_partitions(other.metadata, other.snapshot, other.schema))
    return replace(make_plan(metadata, request, outlines), fallback=of_branch)


def _plan_fallback(
    metadata: TableMetadata, request: ScanRequest, other: OtherBranch, outlines: Outlines | None = None
) -> ScanPlan:
    check_same_columns(request.schema, other, metadata.where)
    held = frozenset[bytes]() if other.is_first else list_partitions(metadata, request.snapshot, request.schema)
    options = other.metadata.options(other.metadata.latest_schema())
    rest = replace(
        request,
        schema=other.schema,
        options=replace(options, fallback_branch=None, primary_branch=None),
        snapshot=other.snapshot,
        left_out=held,
    )
    return make_plan(other.metadata, rest, outlines)
