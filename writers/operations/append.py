"""Rows added to a table, or put in place of those with the same key."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.operations.session import WriteSession
from morrow.writers.rows import Kinds
from morrow.writers.target import WriteTarget


def append(
    target: WriteTarget, data: object, kinds: Kinds = None, properties: Mapping[str, str] | None = None
) -> Snapshot | None:
    """Write rows in one commit; in keyed tables they meet those with the same key as the merge engine says.

    Raises: as `WriteSession.write` and `WriteSession.commit`.
    """
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
