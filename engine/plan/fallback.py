"""``scan.fallback-branch``: partitions that a branch lacks are read from another branch.

The other branch has its own schema versions, options and merge engine, but the same columns. Source: the option's
description, and Java's rule for time travel (the other branch is read as it was at the time of the snapshot).
"""

from __future__ import annotations

from dataclasses import replace

from morrow.engine.errors import InvalidArgument, SnapshotNotFound
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import same_values
from morrow.engine.plan.entries import live_entries
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.engine.plan.planner import ScanRequest, make_plan
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.plan.time_travel import at_time

PLAN_BYTES, PLAN_BYTES_PER_FILE = 4096, 512
"""What a cached plan is counted as."""


def plan_with_fallback(metadata: TableMetadata, request: ScanRequest) -> ScanPlan:
    """The plan of a read, and of the partitions that only the fallback branch has.

    The same request of the same snapshot has the same plan, so it is made once. (With a fallback branch it depends on
    two snapshots and is made each time.)

    Raises:
        BranchNotFound: the option names no branch of the table.
        InvalidArgument: the branches do not have the same columns.
    """
    if request.options.fallback_branch is not None:
        return _plan(metadata, request)
    key = (metadata.store.url(metadata.root), metadata.branch, request)
    plan = METADATA_CACHE.get_or_make(key, lambda: _sized(_plan(metadata, request)))
    assert isinstance(plan, ScanPlan)
    return plan


def _sized(plan: ScanPlan) -> tuple[ScanPlan, int]:
    return plan, PLAN_BYTES + PLAN_BYTES_PER_FILE * len(plan.files)


def _plan(metadata: TableMetadata, request: ScanRequest) -> ScanPlan:
    plan = make_plan(metadata, request)
    branch = request.options.fallback_branch
    if branch is None or metadata.branch != MAIN_BRANCH:
        return plan
    other = metadata.on_branch(branch)
    schema = other.latest_schema()
    _check_same_columns(request.schema, schema, metadata.where, branch)
    held: frozenset[bytes] = frozenset()
    if request.snapshot is not None:
        held = frozenset(
            live_entries(metadata, request.snapshot, request.schema).frame["_PARTITION"].unique().to_list()
        )
    rest = replace(
        request,
        schema=schema,
        options=replace(other.options(schema), fallback_branch=None),
        snapshot=_snapshot(other, request),
        left_out=held,
    )
    return replace(plan, fallback=make_plan(other, rest))


def _snapshot(other: TableMetadata, request: ScanRequest) -> Snapshot | None:
    if not request.travelled or request.snapshot is None:
        return other.latest_snapshot()
    try:
        return at_time(other, request.snapshot.time_millis)
    except SnapshotNotFound:
        # As Java has it: a branch younger than the snapshot is read from its beginning.
        return next(other.snapshots(), None)


def _check_same_columns(main: TableSchema, other: TableSchema, where: str, branch: str) -> None:
    same = len(main.fields) == len(other.fields) and all(
        mine.name == theirs.name and same_values(mine.type, theirs.type)
        for mine, theirs in zip(main.fields, other.fields)
    )
    if not same:
        raise InvalidArgument(
            f"{where}: the option 'scan.fallback-branch' names {branch!r}, "
            f"whose columns differ from those of {MAIN_BRANCH}"
        )
