"""Rows added to a table, or put in place of those with the same key."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping

import polars as pl
import pyarrow as pa

from morrow.engine.errors import CommitConflict, InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.operations.session import WriteSession
from morrow.writers.rows import Kinds
from morrow.writers.target import WriteTarget


def append(
    target: WriteTarget, data: object, kinds: Kinds = None, properties: Mapping[str, str] | None = None
) -> Snapshot | None:
    """Write rows in one commit; in keyed tables they meet those with the same key as the merge engine says.

    Raises: as `WriteSession.write` and `WriteSession.commit`.
    """
    write = target.write
    repeats = write.commit_retries if _may_repeat(target, data, kinds) else 0
    for done in range(repeats):
        try:
            return _append(target, data, kinds, properties)
        except CommitConflict:
            wait = min(write.commit_max_wait, write.commit_min_wait * 2**done)
            time.sleep(wait.total_seconds() * random.uniform(0.5, 1.5))
    return _append(target, data, kinds, properties)


def _may_repeat(target: WriteTarget, data: object, kinds: Kinds) -> bool:
    """Whether a conflict is settled by writing the rows once more: their buckets depend on who wrote before.

    Two writers of dynamic buckets may give one key two buckets; the later commit is refused. Streams are read once.
    """
    dynamic = bucket_mode(target) is BucketMode.DYNAMIC
    return dynamic and isinstance(data, (pl.DataFrame, pa.Table, Mapping, list)) and not isinstance(kinds, Iterator)


def _append(target: WriteTarget, data: object, kinds: Kinds, properties: Mapping[str, str] | None) -> Snapshot | None:
    session = WriteSession(target)
    try:
        session.write(data, kinds)
        return session.commit(properties=properties)
    finally:
        session.abort()


def upsert(
    target: WriteTarget, data: object, kinds: Kinds = None, properties: Mapping[str, str] | None = None
) -> Snapshot | None:
    """`append`, of keyed tables.

    Raises:
        InvalidArgument: the table has no primary key.
    """
    if not target.keyed:
        raise InvalidArgument(f"{target.where}: it has no primary key to upsert by; use Table.append or Table.merge")
    return append(target, data, kinds, properties)
