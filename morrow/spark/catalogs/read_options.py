"""Options of a read by name, which choose another state of the table, or its changes between two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.declared import scans
from morrow.engine.options.kinds import whole
from morrow.engine.options.tagging import parse_tag_options
from morrow.engine.plan.time_travel import TravelArguments
from morrow.spark.procedures.procedure import moment
from morrow.spark.source.option_names import ALIASES
from morrow.spark.source.options import Options
from morrow.table import Table
from morrow.writers.history.tags.periods import TagPeriod

TRAVELS = ("as-of", "snapshot", "tag", "timestamp", "watermark", "version")
BETWEEN, TIMES, TO_TAG = (
    scans.INCREMENTAL_BETWEEN.key,
    scans.INCREMENTAL_BETWEEN_TIMESTAMP.key,
    scans.INCREMENTAL_TO_AUTO_TAG.key,
)
MODE, AS_SNAPSHOTS = scans.INCREMENTAL_BETWEEN_SCAN_MODE.key, scans.INCREMENTAL_BETWEEN_TAG_TO_SNAPSHOT.key
SOURCES = (BETWEEN, TIMES, TO_TAG)
BESIDE = (MODE, AS_SNAPSHOTS)


def travel(given: Mapping[str, str], what: str = "the option {!r} of a read by name") -> TravelArguments:
    """Returns the state that the options name, of which errors speak as `what`.

    Raises:
        Unsupported: an option that names none. InvalidArgument: a value that is none of the option's.
    """
    other = next((key for key in given if ALIASES.get(key.lower(), key.lower()) not in TRAVELS), None)
    if other is not None:
        raise Unsupported(what.format(other), hint="set options of a table by ALTER TABLE")
    return Options(given).read().travel


def are_of_changes(given: Mapping[str, str]) -> bool:
    """Returns whether the options ask for the changes between two states."""
    return any(key.lower() in SOURCES for key in given)


def changes(table: Table, given: Mapping[str, str]) -> dict[str, Any] | None:
    """Returns the arguments of `Table.changes` that the options stand for; None: nothing has changed.

    Raises:
        Unsupported: an option of another kind. InvalidArgument: a value that is none of the option's, several sources.
        SnapshotNotFound, TagNotFound.
    """
    options = {key.lower(): value for key, value in given.items()}
    sources = [key for key in SOURCES if key in options]
    other = next((key for key in options if key not in SOURCES and key not in BESIDE), None)
    if other is not None:
        raise Unsupported(f"the option {other!r} beside {sources[0]!r}")
    if len(sources) > 1:
        raise InvalidArgument(f"{' and '.join(sources)} both say which changes are read; give one of them")
    mode = _mode(options)
    if sources[0] == TO_TAG:
        return _to_tag(table, options[TO_TAG])
    start, end = _pair(sources[0], options[sources[0]])
    if sources[0] == TIMES:
        return {"from_timestamp": _time(start), "to_timestamp": _time(end), "mode": mode}
    return _between(table, start, end, mode, as_snapshots=options.get(AS_SNAPSHOTS, "").lower() == "true")


def _mode(options: Mapping[str, str]) -> str:
    mode, flag = options.get(MODE, scans.INCREMENTAL_BETWEEN_SCAN_MODE.default), options.get(AS_SNAPSHOTS, "false")
    for option, value in (
        (scans.INCREMENTAL_BETWEEN_SCAN_MODE, mode),
        (scans.INCREMENTAL_BETWEEN_TAG_TO_SNAPSHOT, flag),
    ):
        if not option.kind.accepts(value):
            raise InvalidArgument(f"the option {option} cannot be {value!r}: it must be {option.kind.expected}")
    return mode.lower()


def _pair(key: str, text: str) -> tuple[str, str]:
    start, comma, end = text.partition(",")
    if not comma or "," in end or not start.strip() or not end.strip():
        raise InvalidArgument(f"the option {key!r} is a start and an end, such as '3,5', not {text!r}")
    return start.strip(), end.strip()


def _between(table: Table, start: str, end: str, mode: str, *, as_snapshots: bool) -> dict[str, Any] | None:
    """As in Paimon: two tags, whose states are compared, or two ids."""
    if start in table.tags and end in table.tags:
        if not as_snapshots:
            return {"from_snapshot": start, "to_snapshot": end, "mode": "diff"}
        first, last = (table.tags.get(name).snapshot.id for name in (start, end))
    else:
        ids = whole(start), whole(end)
        if ids[0] is None or ids[1] is None:
            raise InvalidArgument(
                f"{table.path}: {start!r} and {end!r} are neither two tags nor the ids of two snapshots"
            )
        first, last = ids[0], ids[1]
    return None if first == last else {"from_snapshot": first, "to_snapshot": last, "mode": mode}


def _time(text: str) -> int:
    millis = whole(text)
    return int(moment(text, "a start or an end").timestamp() * 1000) if millis is None else millis


def _to_tag(table: Table, name: str) -> dict[str, Any] | None:
    """As in Paimon: from the automatic tag before this one; nothing where one of the two is not there."""
    period = TagPeriod.of(parse_tag_options(table.options, where=table.path))
    end = period.time(name)
    if end is None:
        raise InvalidArgument(f"{table.path}: {name!r} is no name of an automatic tag of this table")
    if name not in table.tags:
        return None
    earlier = [(time, tag.name) for tag in table.tags if (time := period.time(tag.name)) is not None and time < end]
    return {"from_snapshot": max(earlier)[1], "to_snapshot": name, "mode": "diff"} if earlier else None
