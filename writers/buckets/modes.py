"""The bucket modes, determined by the option ``bucket`` and the keys of the table."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.buckets.routers import FixedRouter, PartitionBucketsRouter, Router, SingleRouter
from morrow.writers.target import WriteTarget

DYNAMIC_BUCKET = -1
UNAWARE_BUCKET = 0
"""The bucket of all files of a table without buckets."""


class BucketMode(StrEnum):
    """The way in which a table assigns rows to buckets."""

    UNAWARE = "unaware"
    """Append tables with ``bucket`` = -1, which are not divided into buckets."""
    FIXED = "fixed"
    """``bucket`` > 0: buckets by the hash of the bucket key."""
    DYNAMIC = "dynamic"
    """Keyed tables with ``bucket`` = -1: buckets are filled one by one, and hash indexes record the bucket of each
    key."""
    CROSS_PARTITION = "cross-partition"
    """As `DYNAMIC`, if the primary key lacks a partition key: keys may move between partitions."""
    POSTPONE = "postpone"
    """``bucket`` = -2: rows wait in bucket -2 until compaction assigns one."""
    PARTITION_BUCKETS = "partition-buckets"
    """As `POSTPONE`, for batch writes (see ``postpone.batch-write-fixed-bucket``): rows go to a bucket at once."""


def determine_bucket_mode(target: WriteTarget) -> BucketMode:
    """Return the mode of a table. Raises `InvalidArgument`: the option ``bucket`` is not valid for any mode."""
    bucket = target.options.bucket
    if bucket == POSTPONE_BUCKET and target.keyed:
        # If reads merge postponed rows, these are the newest: other rows would not replace them.
        fixed = target.write.postpone_fixed and not target.options.merges_postponed
        return BucketMode.PARTITION_BUCKETS if fixed else BucketMode.POSTPONE
    if bucket == DYNAMIC_BUCKET:
        if not target.keyed:
            return BucketMode.UNAWARE
        return BucketMode.CROSS_PARTITION if target.schema.cross_partition else BucketMode.DYNAMIC
    if bucket < 1:
        allowed = "-2 (postpone), -1 (dynamic) or at least 1" if target.keyed else "-1 (no buckets) or at least 1"
        raise InvalidArgument(f"{target.where}: the option 'bucket' = {bucket}; it is {allowed}")
    return BucketMode.FIXED


def make_router(target: WriteTarget, snapshot: Snapshot | None, *, overwrite: bool = False) -> Router:
    """Return the router of a table.

    Args:
        snapshot: the snapshot to which rows are added, whose keys may already have buckets.
        overwrite: ignore the snapshot.
    """
    mode = determine_bucket_mode(target)
    if mode is BucketMode.PARTITION_BUCKETS:
        return PartitionBucketsRouter(target, snapshot, overwrite=overwrite)
    return _ROUTERS[mode](target, None if overwrite else snapshot)


def _make_dynamic_router(target: WriteTarget, snapshot: Snapshot | None) -> Router:
    from morrow.writers.buckets.dynamic import DynamicRouter

    return DynamicRouter(target, snapshot)


def _make_cross_partition_router(target: WriteTarget, snapshot: Snapshot | None) -> Router:
    from morrow.writers.buckets.cross_partition import CrossPartitionRouter

    return CrossPartitionRouter(target, snapshot)


_ROUTERS: dict[BucketMode, Callable[[WriteTarget, Snapshot | None], Router]] = {
    BucketMode.UNAWARE: lambda target, _: SingleRouter(target.partition_fields, UNAWARE_BUCKET),
    BucketMode.FIXED: lambda target, _: FixedRouter(target),
    BucketMode.DYNAMIC: _make_dynamic_router,
    BucketMode.CROSS_PARTITION: _make_cross_partition_router,
    BucketMode.POSTPONE: lambda target, _: SingleRouter(target.partition_fields, POSTPONE_BUCKET),
}
