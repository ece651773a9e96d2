"""Appends and upserts of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from morrow.engine.errors import CommitConflict, InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.values import replace
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.commit.tally import Operation, recorded
from morrow.writers.operations.growing import READ_AGAIN, SchemaMode, grown
from morrow.writers.operations.retrying import retried
from morrow.writers.operations.session import Overtaken, WriteSession
from morrow.writers.rows import NULL, Kinds, Missing
from morrow.writers.target import WriteTarget


@recorded(Operation.WRITE)
def append(
    target: WriteTarget,
    data: object,
    kinds: Kinds = None,
    properties: Mapping[str, str] | None = None,
    *,
    missing: Missing = NULL,
    schema_mode: SchemaMode = None,
) -> Snapshot | None:
    """Writes rows in one commit; in keyed tables the merge engine combines them with rows of the same key.

    Raises: as `WriteSession.write`, `WriteSession.commit` and `growing.grown`.
    """
    target, data = grown(target, data, kinds, schema_mode)
    begun = iter([target.begun])  # tried again, it looks again
    target = replace(target, begun=None)

    def once() -> Snapshot | None:
        return _append(target, next(begun, None), data, kinds, properties, missing)

    if not isinstance(data, READ_AGAIN) or isinstance(kinds, Iterator):  # streams are read once
        return once()
    return retried(target, once, after=_settled_by_rewriting(target))


def _settled_by_rewriting(target: WriteTarget) -> type[CommitConflict]:
    """Returns the conflicts that are settled by writing the rows again.

    Those are all where buckets depend on earlier commits: two writers may put one key into two buckets, or two
    partitions, and the later commit is refused. Elsewhere a commit settles what it can by itself.
    """
    depends = bucket_mode(target) in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)
    return CommitConflict if depends else Overtaken


def _append(
    target: WriteTarget,
    begun: Snapshot | None,
    data: object,
    kinds: Kinds,
    properties: Mapping[str, str] | None,
    missing: Missing,
) -> Snapshot | None:
    session = WriteSession(target, base=begun)
    try:
        session.write(data, kinds, missing)
        return session.commit(properties=properties)
    finally:
        session.abort()


def upsert(
    target: WriteTarget,
    data: object,
    kinds: Kinds = None,
    properties: Mapping[str, str] | None = None,
    *,
    missing: Missing = NULL,
    schema_mode: SchemaMode = None,
) -> Snapshot | None:
    """Appends rows to a keyed table; see `append`.

    Raises:
        InvalidArgument: the table has no primary key.
    """
    if not target.keyed:
        raise InvalidArgument(f"{target.where}: it has no primary key to upsert by; use Table.append or Table.merge")
    return append(target, data, kinds, properties, missing=missing, schema_mode=schema_mode)
