"""Which snapshot a read sees: by id, tag, time, watermark or version text; the newest one by default.

Source: the tags seed document and ``scan.*`` options of the specification. A time before all living snapshots falls
back to the newest tag at or before it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from morrow.engine.errors import InvalidArgument, SnapshotNotFound, TagNotFound
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.snapshot_search import first_reaching, last_until

MOST_DIGITS = 19
SNAPSHOT_VERSION_PREFIX = "snapshot."
WATERMARK_VERSION_PREFIX = "watermark-"
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

AsOf: TypeAlias = int | str | dt.datetime | dt.date
Time: TypeAlias = int | str | dt.datetime | dt.date


@dataclass(frozen=True)
class Travel:
    """At most one of the members is set; all None means the newest snapshot.

    `version` is text that the table gives a meaning, see `at_version`. Times are epoch milliseconds in UTC; what was
    committed at or before a time is seen.
    """

    snapshot: int | None = None
    tag: str | None = None
    millis: int | None = None
    watermark: int | None = None
    version: str | None = None

    @property
    def is_latest(self) -> bool:
        return self == Travel()


def travel_of(
    as_of: AsOf | None = None,
    *,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: Time | None = None,
    watermark: int | None = None,
    version: str | None = None,
) -> Travel:
    """What the arguments of a scan ask for.

    `as_of` is a snapshot id, a time, or text as `version`: the name of a tag, an id, ``snapshot.<id>``,
    ``watermark-<millis>`` or an ISO time.

    Raises:
        InvalidArgument: more than one is given, or a value of the wrong kind.
    """
    given: dict[str, object] = {"as_of": as_of, "snapshot": snapshot, "tag": tag, "timestamp": timestamp}
    given |= {"watermark": watermark, "version": version}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InvalidArgument(f"give only one of {', '.join(named)}")
    if as_of is not None:
        return _as_of(as_of)
    if timestamp is not None:
        return Travel(millis=to_millis(timestamp))
    for name, value in (("snapshot", snapshot), ("watermark", watermark)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise InvalidArgument(f"{name} must be an int, not {value!r}")
    for name, text in (("tag", tag), ("version", version)):
        if text is not None and not isinstance(text, str):
            raise InvalidArgument(f"{name} must be text, not {text!r}")
    return Travel(snapshot=snapshot, tag=tag, watermark=watermark, version=version)


def _as_of(value: AsOf) -> Travel:
    if isinstance(value, bool) or not isinstance(value, (int, str, dt.datetime, dt.date)):
        raise InvalidArgument(f"as_of must be a snapshot id, a tag name or a time, not {value!r}")
    if isinstance(value, int):
        return Travel(snapshot=value)
    if isinstance(value, str):
        return Travel(version=value)
    return Travel(millis=to_millis(value))


def _number(text: str) -> int | None:
    """A count in plain digits, None for anything else (``str.isdigit`` takes superscripts too)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < MOST_DIGITS else None


def travel_of_options(options: Mapping[str, str]) -> Travel:
    """What the ``scan.*`` options stored with a table ask for.

    Raises:
        InvalidArgument: several of them, or a value that is not a number where one is needed.
    """
    if len(options) > 1:
        raise InvalidArgument(f"only one of the options {', '.join(options)} may be set")
    for key, value in options.items():
        if key == "scan.tag-name":
            return Travel(tag=value)
        if key == "scan.version":
            return Travel(version=value)
        if key == "scan.timestamp":
            return Travel(millis=to_millis(value))
        number = _number(value.strip())
        if number is None:
            raise InvalidArgument(f"the option {key!r} has the value {value!r}, which is no number")
        return _NUMBERED[key](number)
    return Travel()


_NUMBERED: Mapping[str, Callable[[int], Travel]] = {
    "scan.snapshot-id": lambda number: Travel(snapshot=number),
    "scan.timestamp-millis": lambda number: Travel(millis=number),
    "scan.watermark": lambda number: Travel(watermark=number),
}


def to_millis(value: Time) -> int:
    """Epoch milliseconds of a time: an int is that already; text is ISO 8601; what has no zone is in UTC.

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
    """The snapshot to read; None when the table has none and no particular one is asked for.

    Raises:
        SnapshotNotFound, SnapshotExpired, TagNotFound: what was asked for is not there.
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
    """What a version text means, the first of these: the name of a tag (old tables have some that are numbers), an id,
    ``snapshot.<id>``, ``watermark-<millis>``, an ISO time.

    Raises:
        SnapshotNotFound, SnapshotExpired, TagNotFound: it is not there. InvalidArgument: text that is no name at all.
    """
    try:
        return metadata.tag(version).snapshot
    except TagNotFound:
        number = _number(version.removeprefix(SNAPSHOT_VERSION_PREFIX))
        if number is not None:
            return _snapshot_or_tag(metadata, number)
        mark, _, digits = version.partition(WATERMARK_VERSION_PREFIX)
        number = _number(digits.removeprefix("-"))
        if number is not None and not mark:
            return at_watermark(metadata, -number if digits.startswith("-") else number)
        if ISO_DATE.match(version):
            return at_time(metadata, to_millis(version))
        raise


def _snapshot_or_tag(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """An expired snapshot is still whole when a tag holds it."""
    try:
        return metadata.snapshot(snapshot_id)
    except SnapshotNotFound:
        for tag in metadata.tags():
            if tag.snapshot.id == snapshot_id:
                return tag.snapshot
        raise


def at_time(metadata: TableMetadata, millis: int) -> Snapshot:
    """The newest snapshot committed at or before `millis`, else the newest such tag.

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
    """The oldest snapshot whose watermark is at or after `watermark` (epoch milliseconds).

    Raises:
        SnapshotNotFound: no snapshot has come that far.
    """
    found = first_reaching(metadata, watermark)
    if found is None:
        raise SnapshotNotFound(f"{metadata.where}: no snapshot has a watermark at or after {watermark}")
    return found
