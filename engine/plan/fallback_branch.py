"""``scan.fallback-branch`` and ``scan.primary-branch``: partitions that are read from another branch.

With the first option, the other branch is read if main lacks the partition; with the second, main is read if the other
branch lacks it. The other branch has its own schema versions, options and merge engine, but the same columns, up to
their nullability. Source: the option's description. Snapshot ids and tag names refer to main. With a past snapshot of
main, the other branch is read as of the same time.
"""

from __future__ import annotations

import msgspec

from morrow.engine.errors import InvalidArgument, SnapshotNotFound, Unsupported
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema, refuse_unreadable
from morrow.engine.format.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from morrow.engine.format.types import has_same_values, merge_nullability
from morrow.engine.options import TableOptions
from morrow.engine.options.declarations import AnyOption
from morrow.engine.options.declared.scans import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.engine.plan.planner import Outlines, make_plan
from morrow.engine.plan.predicate import iterate_leaves
from morrow.engine.plan.scan_plan import ScanPlan, ScanRequest
from morrow.engine.plan.time_travel import Travel, find_at_time, resolve_travel, resolve_version
from morrow.engine.structs import replace

PLAN_BYTES, PLAN_BYTES_PER_FILE, PLAN_BYTES_PER_LITERAL = 4096, 512, 64
"""The size in bytes that a cached plan is estimated at."""


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
    key = (metadata.store.url(metadata.root), metadata.branch, metadata.allowed_roots, shared)
    of = None if request.snapshot is None else request.snapshot.delta_manifest_list
    plan = METADATA_CACHE.get(key)
    if not isinstance(plan, ScanPlan):
        plan = _plan_branches(metadata, shared, outlines)
        METADATA_CACHE.put(key, plan, estimate_plan_bytes(plan), of=of)
    return replace(plan, columns=request.columns, limit=request.limit)


def estimate_plan_bytes(plan: ScanPlan) -> int:
    """Return the approximate memory of a plan."""
    filter = plan.filter
    files = sum(len(section.files) for section in plan.sections)
    literals = sum(len(leaf.literals) for leaf in iterate_leaves(filter.predicate))
    texts = len(filter.text) + sum(len(residual.identity or b"") for residual in filter.residuals)
    return PLAN_BYTES + PLAN_BYTES_PER_FILE * files + PLAN_BYTES_PER_LITERAL * literals + texts


def derive_readable_schema(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, snapshot: Snapshot | None, travel: Travel
) -> TableSchema:
    """Return the columns of a scan: the columns of `schema`, nullable if the fallback branch's columns are.

    Raises: as `plan_with_fallback`, and as resolving `travel` in the branch.
    """
    other = _find_other(metadata, options, snapshot, travel)
    if other is None:
        return schema
    _check_same_columns(schema, other, metadata.where)
    pairs = zip(schema.fields, other.schema.fields)
    return replace(schema, fields=tuple(replace(f, type=merge_nullability(f.type, g.type)) for f, g in pairs))


def check_main_alone(metadata: TableMetadata, request: ScanRequest) -> None:
    """Check that a change of the rows that `request` selects affects main alone.

    Rows of the fallback branch are read as rows of main, but not changed with them. A row that is written to main hides
    all rows of its partition in the branch.

    Raises:
        Unsupported: the request reads files of the fallback branch.
    """
    other = _find_other(metadata, request.options, request.snapshot, request.travel)
    if other is None:
        return
    plan = _plan_fallback(metadata, request, other)
    if plan.files:
        branch = other.metadata.branch
        raise Unsupported(
            f"a change of rows that are read from the branch {branch!r}, which {other.option} names,",
            where=metadata.where,
            hint=f"change them there, by morrow.open(path, branch={branch!r}), or choose rows of other partitions",
        )


def _plan_branches(metadata: TableMetadata, request: ScanRequest, outlines: Outlines | None) -> ScanPlan:
    other = _find_other(metadata, request.options, request.snapshot, request.travel)
    if other is None:
        return make_plan(metadata, request, outlines)
    of_branch = _plan_fallback(metadata, request, other, outlines)
    if other.is_first:
        request = replace(request, left_out=_list_partitions(other.metadata, other.snapshot, other.schema))
    return replace(make_plan(metadata, request, outlines), fallback=of_branch)


def _list_partitions(metadata: TableMetadata, snapshot: Snapshot | None, schema: TableSchema) -> frozenset[bytes]:
    """Return the partitions that have files, in stored form."""
    if snapshot is None:
        return frozenset()
    return frozenset(read_live_entries(metadata, snapshot, schema).frame["_PARTITION"].unique().to_list())


def _plan_fallback(
    metadata: TableMetadata, request: ScanRequest, other: _Other, outlines: Outlines | None = None
) -> ScanPlan:
    _check_same_columns(request.schema, other, metadata.where)
    held = frozenset[bytes]() if other.is_first else _list_partitions(metadata, request.snapshot, request.schema)
    options = other.metadata.options(other.metadata.latest_schema())
    rest = replace(
        request,
        schema=other.schema,
        options=replace(options, fallback_branch=None, primary_branch=None),
        snapshot=other.snapshot,
        left_out=held,
    )
    return make_plan(other.metadata, rest, outlines)


class _Other(msgspec.Struct, frozen=True):
    """The fallback branch as a scan reads it; `is_first` if partitions are looked up in it before main."""

    metadata: TableMetadata
    snapshot: Snapshot | None
    schema: TableSchema
    is_first: bool

    @property
    def option(self) -> AnyOption:
        """The option that names the fallback branch."""
        return SCAN_PRIMARY_BRANCH if self.is_first else SCAN_FALLBACK_BRANCH


def _find_other(
    metadata: TableMetadata, options: TableOptions, snapshot: Snapshot | None, travel: Travel
) -> _Other | None:
    named = options.other_branch
    if named is None or metadata.branch != MAIN_BRANCH:
        return None
    other = metadata.on_branch(named)
    if travel.is_latest or snapshot is None:
        found, schema = other.latest_snapshot(), other.latest_schema()
    else:
        found = _find_snapshot(metadata, other, snapshot, travel)
        if found is None:
            return None
        schema = other.schema(found.schema_id)  # as in main, a past snapshot is read with its own columns
    refuse_unreadable(schema, other.where)
    return _Other(other, found, schema, is_first=not (options.fallback_branch or "").strip())


def _find_snapshot(main: TableMetadata, other: TableMetadata, snapshot: Snapshot, travel: Travel) -> Snapshot | None:
    """Return the branch's snapshot at the time of main's snapshot, or at the requested time.

    None if the branch had no snapshot yet. A watermark is looked up in both branches.

    Raises:
        SnapshotNotFound: no snapshot of the branch has reached the watermark, or its snapshots of then have expired.
    """
    asked = resolve_version(main, travel)
    if asked.watermark is not None:
        return resolve_travel(other, asked)
    try:
        return find_at_time(other, snapshot.time_millis if asked.millis is None else asked.millis)
    except SnapshotNotFound:
        first = next(other.snapshots(), None)
        if first is None or first.id == FIRST_SNAPSHOT_ID or _is_of(main, first):
            return None
        raise


def _is_of(main: TableMetadata, first: Snapshot) -> bool:
    """Return whether the first snapshot of a branch, with which it began, is a snapshot of main."""
    same = [main.snapshot_or_none(first.id), *(tag.snapshot for tag in main.tags() if tag.snapshot.id == first.id)]
    return any(each is not None and each.time_millis == first.time_millis for each in same)


def _check_same_columns(main: TableSchema, found: _Other, where: str) -> None:
    other = found.schema
    same = len(main.fields) == len(other.fields) and all(
        mine.name == theirs.name and has_same_values(mine.type, theirs.type)
        for mine, theirs in zip(main.fields, other.fields)
    )
    if not same:
        raise InvalidArgument(
            f"{where}: the option {found.option} names {found.metadata.branch!r}, "
            f"whose columns differ from those of {MAIN_BRANCH}"
        )
