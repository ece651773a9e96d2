"""Time travel: the snapshot of a read by id, tag, time, watermark or version text; the newest one by default.

Source: the tags seed document and ``scan.*`` options of the specification. A time before all living snapshots falls
back to the newest tag at or before it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypedDict, Unpack

import msgspec

from morrow.engine.errors import InvalidArgument, SnapshotNotFound, TagNotFound
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.options.declared.scans import (
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
    SCAN_WATERMARK,
)
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.snapshot_search import first_reaching, last_until

MOST_DIGITS = 19
SNAPSHOT_VERSION_PREFIX = "snapshot."
WATERMARK_VERSION_PREFIX = "watermark-"
ISO_DATE = r"\d{4}-\d{2}-\d{2}"

AsOf: TypeAlias = int | str | dt.datetime | dt.date
Time: TypeAlias = int | str | dt.datetime | dt.date


class Travel(msgspec.Struct, frozen=True):
    """A state of a table: of `branch` (None: the branch that is open), at most one of the other members.

    All None means the newest snapshot. `version` is text that is resolved with the table, see `at_version`. Times are
    epoch milliseconds in UTC; commits at or before a time are visible.
    """

    snapshot: int | None = None
    tag: str | None = None
    millis: int | None = None
    watermark: int | None = None
    version: str | None = None
    branch: str | None = None

    @property
    def is_latest(self) -> bool:
        """Whether the newest snapshot of the branch is asked for."""
        return self == Travel(branch=self.branch)

    def of_branch(self, metadata: TableMetadata) -> tuple[TableMetadata, Travel]:
        """Returns the branch of the table, and the travel within it. Raises `BranchNotFound`."""
        if self.branch is None:
            return metadata, self
        return metadata.on_branch(self.branch), msgspec.structs.replace(self, branch=None)


NOW = Travel()
"""The newest snapshot of the branch that is open."""


class TravelArguments(TypedDict, total=False):
    """The arguments by which every read of a table selects its state: `travel_of` interprets them."""

    as_of: AsOf | None
    snapshot: int | None
    tag: str | None
    timestamp: Time | None
    watermark: int | None
    version: str | None
    branch: str | None


def travel_of(**at: Unpack[TravelArguments]) -> Travel:
    """Returns the state that the arguments of a scan ask for.

    Besides `branch`, at most one of them: `snapshot` is an id, `tag` a name, `timestamp` a time, `watermark` epoch
    milliseconds. `version` is text: the name of a tag, an id, ``snapshot.<id>``, ``watermark-<millis>`` or an ISO time.
    `as_of` is a snapshot id, a time, or text as `version`.

    Raises:
        InvalidArgument: more than one is given, or a value of the wrong kind.
        TypeError: an unknown argument.
    """
    _check_known(at)
    branch = at.get("branch")
    given = {name: value for name, value in at.items() if value is not None and name != "branch"}
    if len(given) > 1:
        raise InvalidArgument(f"give only one of {', '.join(given)}")
    if branch is not None and not isinstance(branch, str):
        raise InvalidArgument(f"branch must be text, not {branch!r}")
    if not given:
        return Travel(branch=branch)
    name, value = given.popitem()
    return msgspec.structs.replace(_ARGUMENTS[name](name, value), branch=branch)


def _check_known(at: Mapping[str, object]) -> None:
    known = TravelArguments.__annotations__
    for name in at.keys() - known:
        from difflib import get_close_matches

        near = get_close_matches(name, known, 1)
        raise TypeError(f"a read has no argument {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _number_argument(name: str, value: object) -> Travel:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"{name} must be an int, not {value!r}")
    return Travel(snapshot=value) if name == "snapshot" else Travel(watermark=value)


def _text_argument(name: str, value: object) -> Travel:
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text, not {value!r}")
    return Travel(tag=value) if name == "tag" else Travel(version=value)


def _as_of(value: AsOf) -> Travel:
    if isinstance(value, bool) or not isinstance(value, (int, str, dt.datetime, dt.date)):
        raise InvalidArgument(f"as_of must be a snapshot id, a tag name or a time, not {value!r}")
    if isinstance(value, int):
        return Travel(snapshot=value)
    if isinstance(value, str):
        return Travel(version=value)
    return Travel(millis=to_millis(value))


_ARGUMENTS: Mapping[str, Callable[[str, Any], Travel]] = {
    "as_of": lambda _, value: _as_of(value),
    "snapshot": _number_argument,
    "tag": _text_argument,
    "timestamp": lambda _, value: Travel(millis=to_millis(value)),
    "watermark": _number_argument,
    "version": _text_argument,
}


def _number(text: str) -> int | None:
    """Parses a count in plain digits; returns None for anything else (``str.isdigit`` takes superscripts too)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < MOST_DIGITS else None


def travel_of_options(options: Mapping[str, str]) -> Travel:
    """Returns the state that the ``scan.*`` options stored with a table ask for.

    Raises:
        InvalidArgument: more than one is set, or a value that is not a number where one is needed.
    """
    if len(options) > 1:
        raise InvalidArgument(f"only one of the options {', '.join(options)} may be set")
    if not options:
        return Travel()
    [(key, value)] = options.items()
    return _OPTIONS[key](key, value)


def _number_option(key: str, value: str) -> int:
    number = _number(value.strip())
    if number is None:
        raise InvalidArgument(f"the option {key!r} has the value {value!r}, which is no number")
    return number


_OPTIONS: Mapping[str, Callable[[str, str], Travel]] = {
    SCAN_TAG_NAME.key: lambda _, value: Travel(tag=value),
    SCAN_VERSION.key: lambda _, value: Travel(version=value),
    SCAN_TIMESTAMP.key: lambda _, value: Travel(millis=to_millis(value)),
    SCAN_SNAPSHOT_ID.key: lambda key, value: Travel(snapshot=_number_option(key, value)),
    SCAN_TIMESTAMP_MILLIS.key: lambda key, value: Travel(millis=_number_option(key, value)),
    SCAN_WATERMARK.key: lambda key, value: Travel(watermark=_number_option(key, value)),
}


def to_millis(value: Time) -> int:
    """Converts a time to epoch milliseconds: an int is that already; text is ISO 8601; times without a zone are in UTC.

    Raises:
        InvalidArgument: text that is no ISO 8601 time.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str, dt.datetime, dt.date)):
        raise InvalidArgument(f"a time must be milliseconds, ISO text, a datetime or a date, not {value!r}")
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        number = _number(value.strip())
        if number is not None:
            return number
        try:
            value = dt.datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError as error:
            raise InvalidArgument(f"{value!r} is no time; give ISO text such as '2024-05-14 12:00:00'") from error
    elif not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    if value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)
    return (value - dt.datetime.fromtimestamp(0, tz=dt.UTC)) // dt.timedelta(milliseconds=1)


def resolve(metadata: TableMetadata, travel: Travel) -> Snapshot | None:
    """Returns the snapshot to read; None when the table has none and no particular one is asked for.

    Raises:
        SnapshotNotFound, SnapshotExpired, TagNotFound: the state asked for does not exist.
    """
    if travel.version is not None:
        return at_version(metadata, travel.version)
    if travel.tag is not None:
        return metadata.tag(travel.tag).snapshot
    if travel.snapshot is not None:
        return _snapshot_or_tag(metadata, travel.snapshot)
    if travel.millis is not None:
        return at_time(metadata, travel.millis)
    if travel.watermark is not None:
        return at_watermark(metadata, travel.watermark)
    return metadata.latest_snapshot()


def at_version(metadata: TableMetadata, version: str) -> Snapshot:
    """Resolves a version text as the first of these that applies: the name of a tag (in old tables it may be a number),
    an id, ``snapshot.<id>``, ``watermark-<millis>``, an ISO time.

    Raises:
        SnapshotNotFound, SnapshotExpired, TagNotFound: it does not exist. InvalidArgument: not a version text.
    """
    try:
        return metadata.tag(version).snapshot
    except TagNotFound:
        travel = _without_tag(version)
        if travel is None:
            raise
    found = resolve(metadata, travel)
    assert found is not None  # a particular one
    return found


def without_version(metadata: TableMetadata, travel: Travel) -> Travel:
    """Returns the same state, its version text replaced by what that means in the table."""
    version = travel.version
    if version is None:
        return travel
    if version in metadata.tag_names():
        return Travel(tag=version)
    return _without_tag(version) or travel


def _without_tag(version: str) -> Travel | None:
    """Parses a version text that is no tag; None for text that cannot be anything else."""
    number = _number(version.removeprefix(SNAPSHOT_VERSION_PREFIX))
    if number is not None:
        return Travel(snapshot=number)
    mark, _, digits = version.partition(WATERMARK_VERSION_PREFIX)
    number = _number(digits.removeprefix("-"))
    if number is not None and not mark:
        return Travel(watermark=-number if digits.startswith("-") else number)
    return Travel(millis=to_millis(version)) if re.match(ISO_DATE, version) else None


def _snapshot_or_tag(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """Returns the snapshot, if expired from the tag that keeps it: it is still whole there."""
    try:
        return metadata.snapshot(snapshot_id)
    except SnapshotNotFound:
        for tag in metadata.tags():
            if tag.snapshot.id == snapshot_id:
                return tag.snapshot
        raise


def at_time(metadata: TableMetadata, millis: int) -> Snapshot:
    """Returns the newest snapshot committed at or before `millis`, else the newest such tag.

    Raises:
        SnapshotNotFound: neither a snapshot nor a tag is that old.
    """
    found = last_until(metadata, millis)
    if found is not None:
        return found
    tagged = [tag.snapshot for tag in metadata.tags() if tag.snapshot.time_millis <= millis]
    if tagged:
        return max(tagged, key=lambda snapshot: (snapshot.time_millis, snapshot.id))
    oldest = next(metadata.snapshots(), None)
    since = f"the oldest snapshot is of {oldest.time.isoformat()}" if oldest else "the table has no snapshots"
    raise SnapshotNotFound(f"{metadata.where}: no snapshot or tag is at or before {_shown(millis)}; {since}")


def _shown(millis: int) -> str:
    try:
        return (dt.datetime.fromtimestamp(0, tz=dt.UTC) + dt.timedelta(milliseconds=millis)).isoformat()
    except OverflowError:
        return f"{millis} ms"


def at_watermark(metadata: TableMetadata, watermark: int) -> Snapshot:
    """Returns the oldest snapshot whose watermark is at or after `watermark` (epoch milliseconds).

    Raises:
        SnapshotNotFound: no snapshot has reached it.
    """
    found = first_reaching(metadata, watermark)
    if found is None:
        raise SnapshotNotFound(f"{metadata.where}: no snapshot has a watermark at or after {watermark}")
    return found
