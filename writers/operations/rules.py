"""Checks whether the merge engine of a table supports deletes and updates, as in Java."""

from __future__ import annotations

from collections.abc import Iterable

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.writers.operations.new_versions import check_assignable
from morrow.writers.target import WriteTarget


def check_deletable(target: WriteTarget) -> None:
    """Raises `Unsupported` when a ``-D`` row would not remove the row of its key."""
    if target.merge is None:
        return
    if target.options.ignore_delete:
        raise Unsupported("deleting rows of a table with ignore-delete", where=target.where)
    if target.merge.undeletable is not None:
        raise Unsupported(
            f"deleting rows of a table with the merge engine {target.merge.engine}",
            where=target.where,
            hint=target.merge.undeletable,
        )


def check_updatable(target: WriteTarget, columns: Iterable[str], operation: str) -> None:
    """Checks that these columns can be updated.

    Raises:
        Unsupported: a new version of a row would not replace its values. InvalidArgument: a column of the primary key.
    """
    if target.options.data_evolution:
        raise Unsupported(f"{operation} of a table with data-evolution.enabled", where=target.where)
    if target.merge is None:
        return
    if not target.merge.updatable:
        raise Unsupported(
            f"{operation} of a table with the merge engine {target.merge.engine}",
            where=target.where,
            hint="write new rows with Table.upsert, or overwrite",
        )
    columns = tuple(columns)
    keys = [name for name in columns if name in target.schema.primary_keys]
    if keys:
        raise InvalidArgument(
            f"{target.where}: {keys[0]!r} is part of the primary key, which cannot be updated; delete the row and "
            "insert another"
        )
    check_assignable(target, set(columns), operation)
