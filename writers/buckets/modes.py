"""The modes of buckets, from the option ``bucket`` and the keys of the table."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.buckets.cross_partition import CrossPartitionRouter
from morrow.writers.buckets.dynamic import DynamicRouter
from morrow.writers.buckets.fixed import FixedRouter
from morrow.writers.buckets.router import Router
from morrow.writers.buckets.single import SingleRouter
from morrow.writers.target import WriteTarget

DYNAMIC_BUCKET = -1
POSTPONE_BUCKET = -2
UNAWARE_BUCKET = 0
"""All files of a table without buckets lie in bucket 0."""


class BucketMode(StrEnum):
    """How rows of a table find their bucket."""

    UNAWARE = "unaware"
    """Append tables with ``bucket`` = -1: there are no buckets."""
    FIXED = "fixed"
    """``bucket`` > 0: by the hash of the bucket key."""
    DYNAMIC = "dynamic"
    """Keyed tables with ``bucket`` = -1: buckets fill up one after the other, hash indexes remember who is where."""
    CROSS_PARTITION = "cross-partition"
    """The same where the primary key lacks a partition key: a key may have to move between partitions."""
    POSTPONE = "postpone"
    """``bucket`` = -2: rows wait in bucket -2 until compaction gives them one."""


def bucket_mode(target: WriteTarget) -> BucketMode:
    """The mode of a table.

    Raises:
        InvalidArgument: an option ``bucket`` that no mode has.
    """
    bucket = target.options.bucket
    if bucket == POSTPONE_BUCKET and target.keyed:
        return BucketMode.POSTPONE
    if bucket == DYNAMIC_BUCKET:
        if not target.keyed:
            return BucketMode.UNAWARE
        return BucketMode.CROSS_PARTITION if target.schema.cross_partition else BucketMode.DYNAMIC
    if bucket < 1:
        allowed = "-2 (postpone), -1 (dynamic) or at least 1" if target.keyed else "-1 (no buckets) or at least 1"
        raise InvalidArgument(f"{target.where}: the option 'bucket' = {bucket}; it is {allowed}")
    return BucketMode.FIXED


def router_for(target: WriteTarget, snapshot: Snapshot | None, *, overwrite: bool = False) -> Router:
    """The router of a table.

    Args:
        snapshot: the state that rows are added to, whose keys may already have buckets.
        overwrite: the state does not count.
    """
    return _ROUTERS[bucket_mode(target)](target, None if overwrite else snapshot)


_ROUTERS: dict[BucketMode, Callable[[WriteTarget, Snapshot | None], Router]] = {
    BucketMode.UNAWARE: lambda target, _: SingleRouter(target.partition_fields, UNAWARE_BUCKET),
    BucketMode.FIXED: lambda target, _: FixedRouter(target),
    BucketMode.DYNAMIC: DynamicRouter,
    BucketMode.CROSS_PARTITION: CrossPartitionRouter,
    BucketMode.POSTPONE: lambda target, _: SingleRouter(target.partition_fields, POSTPONE_BUCKET),
}
