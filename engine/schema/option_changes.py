"""Changes of options in a table with snapshots: those that would corrupt existing rows are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from morrow.engine.errors import InvalidArgument
from morrow.engine.options import Declared, Options
from morrow.engine.options.declared import columns, compaction, merging, table
from morrow.engine.options.registry import IMMUTABLE, present_key, resolved

Check = Callable[[Options, Options], None]
UNAWARE_OR_DYNAMIC = table.BUCKET.default


def check_set_option(options: Mapping[str, str], key: str, value: str, where: str) -> None:
    """Checks the new value of one option; `options` are those of the current schema.

    Raises:
        InvalidArgument: the change is refused.
    """
    before = resolved(options)
    key = present_key(key)
    if before.get(key) == value:
        return
    if key not in CHECKS:
        _check_mutable(key, where)
    else:
        CHECKS[key](Options(before, where), Options({**before, key: value}, where))


def check_remove(options: Mapping[str, str], key: str, where: str) -> None:
    """Checks the removal of one option. Raises `InvalidArgument`."""
    before = resolved(options)
    key = present_key(key)
    _check_mutable(key, where)
    if key == table.BUCKET.key:
        raise InvalidArgument(f"{where}: the option {table.BUCKET} cannot be removed from a table that has snapshots")
    if key in CHECKS:
        after = {name: value for name, value in before.items() if present_key(name) != key}
        CHECKS[key](Options(before, where), Options(after, where))


def _check_mutable(key: str, where: str) -> None:
    if key in IMMUTABLE:
        raise InvalidArgument(f"{where}: the option {key!r} cannot be changed in a table that has snapshots")


def _bucket(before: Options, after: Options) -> None:
    old, new = before.get(table.BUCKET), after.get(table.BUCKET)
    if old != new and UNAWARE_OR_DYNAMIC in (old, new):
        raise InvalidArgument(
            f"{before.where}: the option {table.BUCKET} cannot change from {old} to {new} in a table that has "
            "snapshots: -1 puts rows into buckets by other means than a number does"
        )


def _deletion_vectors(before: Options, after: Options) -> None:
    enabled, modifiable = merging.DELETION_VECTORS_ENABLED, merging.DELETION_VECTORS_MODIFIABLE
    if before.get(modifiable):
        return
    if before.get(enabled) != after.get(enabled):
        raise InvalidArgument(
            f"{before.where}: the option {enabled} cannot be changed in a table that has snapshots: rows that wait for "
            f"a compaction would be lost or doubled; compact the table fully, then set {modifiable} = true before this"
        )


def _stays_true(option: Declared[bool]) -> Check:
    def check(before: Options, after: Options) -> None:
        if before.get(option) and not after.get(option):
            raise InvalidArgument(f"{before.where}: the option {option} cannot change from true to false")

    return check


def _clustering(before: Options, _: Options) -> None:
    if before.has(compaction.PK_CLUSTERING_OVERRIDE):
        raise InvalidArgument(
            f"{before.where}: {compaction.CLUSTERING_COLUMNS} cannot be changed where "
            f"{compaction.PK_CLUSTERING_OVERRIDE} is set"
        )


def _remove_record(before: Options, after: Options) -> None:
    """Accept deletions from now on if the table holds none: it refused them, rather than ignore or retract them."""
    option = merging.PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE
    groups = any(key.endswith(f".{columns.SEQUENCE_GROUP.suffix}") for key in before.raw)
    if not after.get(option) or before.get(merging.IGNORE_DELETE) or groups:
        _check_mutable(option.key, before.where)


CHECKS: Mapping[str, Check] = {
    merging.PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key: _remove_record,
    table.BUCKET.key: _bucket,
    merging.DELETION_VECTORS_ENABLED.key: _deletion_vectors,
    merging.IGNORE_DELETE.key: _stays_true(merging.IGNORE_DELETE),
    merging.IGNORE_UPDATE_BEFORE.key: _stays_true(merging.IGNORE_UPDATE_BEFORE),
    compaction.CLUSTERING_COLUMNS.key: _clustering,
}
"""Option -> the check of its change, given the options before and after."""
