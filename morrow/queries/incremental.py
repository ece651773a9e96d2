"""Options for the changes between two snapshots or tags, and Paimon's table functions for the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.declarations import parse_whole
from morrow.engine.options.declared import scans
from morrow.engine.options.retention import parse_tag_options
from morrow.scans.arguments import parse_time
from morrow.tables.table import Table
from morrow.writers.history.tag_periods import TagPeriod

BETWEEN, TIMES, TO_TAG = (
    scans.INCREMENTAL_BETWEEN.key,
    scans.INCREMENTAL_BETWEEN_TIMESTAMP.key,
    scans.INCREMENTAL_TO_AUTO_TAG.key,
)
MODE, AS_SNAPSHOTS = scans.INCREMENTAL_BETWEEN_SCAN_MODE.key, scans.INCREMENTAL_BETWEEN_TAG_TO_SNAPSHOT.key
SOURCES = (BETWEEN, TIMES, TO_TAG)
BESIDE = (MODE, AS_SNAPSHOTS)
CHANGES_BY = {
    "paimon_incremental_query": (BETWEEN, 2),
    "paimon_incremental_between_timestamp": (TIMES, 2),
    "paimon_incremental_to_auto_tag": (TO_TAG, 1),
}
"""Table function -> the option that its arguments set, and their number, without the table."""


def has_change_options(given: Mapping[str, str]) -> bool:
    """Return whether the options ask for the changes between two snapshots or tags."""
    return any(key.lower() in SOURCES for key in given)


def parse_change_options(table: Table, given: Mapping[str, str]) -> dict[str, Any] | None:
    """Convert options to arguments of `Table.changes`; None if nothing has changed.

    Raises:
        Unsupported: an option of another kind. InvalidArgument: an invalid value, or several sources.
        SnapshotNotFound, TagNotFound.
    """
    options = {key.lower(): value for key, value in given.items()}
    sources = [key for key in SOURCES if key in options]
    other = next((key for key in options if key not in SOURCES and key not in BESIDE), None)
    if other is not None:
        raise Unsupported(f"the option {other!r} beside {sources[0]!r}")
    if len(sources) > 1:
        raise InvalidArgument(f"{' and '.join(sources)} both say which changes are read; give one of them")
    mode = _parse_mode(options)
    if sources[0] == TO_TAG:
        return _to_tag(table, options[TO_TAG])
    start, end = _split_pair(sources[0], options[sources[0]])
    if sources[0] == TIMES:
        return {"from_timestamp": _parse_time(start), "to_timestamp": _parse_time(end), "mode": mode}
    return _resolve_range(table, start, end, mode, as_snapshots=options.get(AS_SNAPSHOTS, "").lower() == "true")


def _parse_mode(options: Mapping[str, str]) -> str:
    mode, flag = options.get(MODE, scans.INCREMENTAL_BETWEEN_SCAN_MODE.default), options.get(AS_SNAPSHOTS, "false")
    for option, value in (
        (scans.INCREMENTAL_BETWEEN_SCAN_MODE, mode),
        (scans.INCREMENTAL_BETWEEN_TAG_TO_SNAPSHOT, flag),
    ):
        if not option.kind.accepts(value):
            raise InvalidArgument(f"the option {option} cannot be {value!r}: it must be {option.kind.expected}")
    return mode.lower()


def _split_pair(key: str, text: str) -> tuple[str, str]:
    start, comma, end = text.partition(",")
    if not comma or "," in end or not start.strip() or not end.strip():
        raise InvalidArgument(f"the option {key!r} is a start and an end, such as '3,5', not {text!r}")
    return start.strip(), end.strip()


def _resolve_range(table: Table, start: str, end: str, mode: str, *, as_snapshots: bool) -> dict[str, Any] | None:
    """Resolve a range as Paimon does: two tags to compare, or two snapshot ids."""
    if start in table.tags and end in table.tags:
        if not as_snapshots:
            return {"from_snapshot": start, "to_snapshot": end, "mode": "diff"}
        first, last = (table.tags.get(name).snapshot.id for name in (start, end))
    else:
        ids = parse_whole(start), parse_whole(end)
        if ids[0] is None or ids[1] is None:
            raise InvalidArgument(
                f"{table.path}: {start!r} and {end!r} are neither two tags nor the ids of two snapshots"
            )
        first, last = ids[0], ids[1]
    return None if first == last else {"from_snapshot": first, "to_snapshot": last, "mode": mode}


def _parse_time(text: str) -> int:
    millis = parse_whole(text)
    return int(parse_time(text, "a start or an end").timestamp() * 1000) if millis is None else millis


def _to_tag(table: Table, name: str) -> dict[str, Any] | None:
    """Resolve the range from the previous automatic tag to this one, as Paimon does; None if a tag is missing."""
    period = TagPeriod.of(parse_tag_options(table.options, where=table.path))
    end = period.time(name)
    if end is None:
        raise InvalidArgument(f"{table.path}: {name!r} is not a valid name of an automatic tag of this table")
    if name not in table.tags:
        return None
    earlier = [(time, tag.name) for tag in table.tags if (time := period.time(tag.name)) is not None and time < end]
    return {"from_snapshot": max(earlier)[1], "to_snapshot": name, "mode": "diff"} if earlier else None
