"""What may be done to the rows of a table: as in Java, its merge engine decides."""

from __future__ import annotations

from collections.abc import Iterable

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options import flag
from morrow.writers.target import WriteTarget

REMOVE_ON_DELETE = "partial-update.remove-record-on-delete"
REMOVE_ON_SEQUENCE_GROUP = "partial-update.remove-record-on-sequence-group"
AGGREGATION_REMOVE_ON_DELETE = "aggregation.remove-record-on-delete"
UPDATABLE = ("deduplicate", "partial-update")


def check_deletable(target: WriteTarget) -> None:
    """Refuse deletes. Raises `Unsupported` when a ``-D`` row would not remove the row of its key."""
    if not target.keyed:
        return
    engine, raw = target.options.merge_engine, target.options.raw
    if target.options.ignore_delete:
        raise Unsupported("deleting rows of a table with ignore-delete", where=target.where)
    if engine == "deduplicate":
        return
    if engine == "partial-update":
        if flag(raw, REMOVE_ON_DELETE, False, target.where) or REMOVE_ON_SEQUENCE_GROUP in raw:
            return
        hint = f"set {REMOVE_ON_DELETE}, or {REMOVE_ON_SEQUENCE_GROUP} when there are sequence groups"
    elif engine == "aggregation":
        if flag(raw, AGGREGATION_REMOVE_ON_DELETE, False, target.where):
            return
        hint = f"set {AGGREGATION_REMOVE_ON_DELETE}"
    else:
        hint = "drop whole partitions, or overwrite"
    raise Unsupported(f"deleting rows of a table with the merge engine {engine}", where=target.where, hint=hint)


def check_updatable(target: WriteTarget, columns: Iterable[str], operation: str) -> None:
    """Refuse updates of these columns.

    Raises:
        Unsupported: a new version of a row would not replace its values. InvalidArgument: a column of the primary key.
    """
    if target.options.data_evolution:
        raise Unsupported(f"{operation} of a table with data-evolution.enabled", where=target.where)
    if not target.keyed:
        return
    engine = target.options.merge_engine
    if engine not in UPDATABLE:
        raise Unsupported(
            f"{operation} of a table with the merge engine {engine}",
            where=target.where,
            hint=f"the engines {' and '.join(UPDATABLE)} can",
        )
    keys = [name for name in columns if name in target.schema.primary_keys]
    if keys:
        raise InvalidArgument(
            f"{target.where}: {keys[0]!r} is part of the primary key, which cannot be updated; delete the row and "
            "insert another"
        )
