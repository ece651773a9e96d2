"""Options changed in a table that has snapshots: what would make rows that are there wrong is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from morrow.engine.errors import InvalidArgument
from morrow.engine.options.known import FORMER_KEYS
from morrow.engine.options.parsing import flag, integer
from morrow.engine.options.registry import IMMUTABLE, resolved

UNAWARE_OR_DYNAMIC = -1


def check_set_option(options: Mapping[str, str], key: str, value: str, where: str) -> None:
    """Check one option that gets a value; `options` are those of the schema there is.

    Raises:
        InvalidArgument: the change is refused.
    """
    before = resolved(options)
    key = FORMER_KEYS.get(key, key)
    if before.get(key) == value:
        return
    _check_mutable(key, where)
    if key in CHECKS:
        CHECKS[key](before, {**before, key: value}, where)


def check_remove(options: Mapping[str, str], key: str, where: str) -> None:
    """Check one option that goes back to its default. Raises `InvalidArgument`."""
    before = resolved(options)
    key = FORMER_KEYS.get(key, key)
    _check_mutable(key, where)
    if key == "bucket":
        raise InvalidArgument(f"{where}: the option 'bucket' cannot be removed from a table that has snapshots")
    if key in CHECKS:
        CHECKS[key](before, {name: value for name, value in before.items() if name != key}, where)


def _check_mutable(key: str, where: str) -> None:
    if key in IMMUTABLE:
        raise InvalidArgument(f"{where}: the option {key!r} cannot be changed in a table that has snapshots")


def _bucket(before: Mapping[str, str], after: Mapping[str, str], where: str) -> None:
    old = integer(before, "bucket", UNAWARE_OR_DYNAMIC, where)
    new = integer(after, "bucket", UNAWARE_OR_DYNAMIC, where)
    if old != new and UNAWARE_OR_DYNAMIC in (old, new):
        raise InvalidArgument(
            f"{where}: the option 'bucket' cannot change from {old} to {new} in a table that has snapshots: -1 puts "
            "rows into buckets by other means than a number does"
        )


def _deletion_vectors(before: Mapping[str, str], after: Mapping[str, str], where: str) -> None:
    key, allowing = "deletion-vectors.enabled", "deletion-vectors.modifiable"
    if flag(before, allowing, False, where):
        return
    if flag(before, key, False, where) != flag(after, key, False, where):
        raise InvalidArgument(
            f"{where}: the option {key!r} cannot be changed in a table that has snapshots: rows that wait for a "
            f"compaction would be lost or doubled; compact the table fully, then set {allowing!r} = true before this"
        )


def _stays_true(key: str) -> Callable[[Mapping[str, str], Mapping[str, str], str], None]:
    def check(before: Mapping[str, str], after: Mapping[str, str], where: str) -> None:
        if flag(before, key, False, where) and not flag(after, key, False, where):
            raise InvalidArgument(f"{where}: the option {key!r} cannot change from true to false")

    return check


def _clustering(before: Mapping[str, str], _: Mapping[str, str], where: str) -> None:
    if "pk-clustering-override" in before:
        raise InvalidArgument(f"{where}: 'clustering.columns' cannot be changed where 'pk-clustering-override' is set")


CHECKS: Mapping[str, Callable[[Mapping[str, str], Mapping[str, str], str], None]] = {
    "bucket": _bucket,
    "deletion-vectors.enabled": _deletion_vectors,
    "ignore-delete": _stays_true("ignore-delete"),
    "ignore-update-before": _stays_true("ignore-update-before"),
    "clustering.columns": _clustering,
}
"""Option -> the check of its change: options before, options after, where."""
