"""Time travel: the snapshot of a read by id, tag, time, watermark or version text; the newest one by default.

Source: the tags seed document and ``scan.*`` options of the specification. A time before all living snapshots falls
back to the newest tag at or before it.

A search by time or watermark reads log2(n) of n snapshots and does not list their folder. The searches follow
Java's ``SnapshotManager``, probe by probe, so that both find the same snapshot if several share a time or watermark,
or if clocks went back.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict, Unpack

import msgspec

from morrow.engine.errors import FileMissing, InvalidArgument, SnapshotNotFound, TagNotFound
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema, refuse_unreadable
from morrow.engine.format.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from morrow.engine.format.types import has_same_values
from morrow.engine.options import TableOptions
from morrow.engine.options.declarations import AnyOption
from morrow.engine.options.declared import scans
from morrow.engine.options.declared.scans import (
    SCAN_FALLBACK_BRANCH,
    SCAN_PRIMARY_BRANCH,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
    SCAN_WATERMARK,
)
from morrow.engine.plan.metadata import TableMetadata

MAX_DIGITS = 19
SNAPSHOT_VERSION_PREFIX = "snapshot."
WATERMARK_VERSION_PREFIX = "watermark-"
ISO_DATE = r"\d{4}-\d{2}-\d{2}"

AsOf: TypeAlias = int | str | dt.datetime | dt.date
Time: TypeAlias = int | str | dt.datetime | dt.date


class Travel(msgspec.Struct, frozen=True):
    """A selected snapshot of a table: the `branch` (None: the open branch), and at most one of the other members.

    If all are None, the newest snapshot is selected. `version` is text that is resolved with the table, see
    `find_at_version`. Times are epoch milliseconds in UTC; commits at or before a time are visible.
    """

    snapshot: int | None = None
    tag: str | None = None
    millis: int | None = None
    watermark: int | None = None
    version: str | None = None
    branch: str | None = None

    @property
    def is_latest(self) -> bool:
        """Whether the newest snapshot of the branch is selected."""
        return self == Travel(branch=self.branch)

    def of_branch(self, metadata: TableMetadata) -> tuple[TableMetadata, Travel]:
        """Return the branch of the table, and the travel within it. Raises `BranchNotFound`."""
        if self.branch is None:
            return metadata, self
        return metadata.on_branch(self.branch), msgspec.structs.replace(self, branch=None)


NOW = Travel()
"""The newest snapshot of the open branch."""


class TravelArguments(TypedDict, total=False):
    """The arguments by which every read of a table selects its snapshot: `parse_travel` interprets them."""

    as_of: AsOf | None
    snapshot: int | None
    tag: str | None
    timestamp: Time | None
    watermark: int | None
    version: str | None
    branch: str | None


def parse_travel(**at: Unpack[TravelArguments]) -> Travel:
    """Return the snapshot selection in the arguments of a scan.

    Besides `branch`, at most one of them: `snapshot` is an id, `tag` a name, `timestamp` a time, `watermark` epoch
    milliseconds. `version` is text: the name of a tag, an id, ``snapshot.<id>``, ``watermark-<millis>`` or an ISO time.
    `as_of` is a snapshot id, a time, or text as for `version`.

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


def _parse_number_argument(name: str, value: object) -> Travel:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"{name} must be an int, not {value!r}")
    return Travel(snapshot=value) if name == "snapshot" else Travel(watermark=value)


def _parse_text_argument(name: str, value: object) -> Travel:
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text, not {value!r}")
    return Travel(tag=value) if name == "tag" else Travel(version=value)


def _parse_as_of(value: AsOf) -> Travel:
    if isinstance(value, bool) or not isinstance(value, (int, str, dt.datetime, dt.date)):
        raise InvalidArgument(f"as_of must be a snapshot id, a tag name or a time, not {value!r}")
    if isinstance(value, int):
        return Travel(snapshot=value)
    if isinstance(value, str):
        return Travel(version=value)
    return Travel(millis=to_millis(value))


_ARGUMENTS: Mapping[str, Callable[[str, Any], Travel]] = {
    "as_of": lambda _, value: _parse_as_of(value),
    "snapshot": _parse_number_argument,
    "tag": _parse_text_argument,
    "timestamp": lambda _, value: Travel(millis=to_millis(value)),
    "watermark": _parse_number_argument,
    "version": _parse_text_argument,
}


def _parse_number(text: str) -> int | None:
    """Parse a count in plain digits; return None for anything else (``str.isdigit`` accepts superscripts, too)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < MAX_DIGITS else None


def parse_travel_options(options: Mapping[str, str]) -> Travel:
    """Return the snapshot selection in the ``scan.*`` options stored with a table.

    Raises `InvalidArgument`: more than one is set, or a value is not a number but has to be.
    """
    if len(options) > 1:
        raise InvalidArgument(f"only one of the options {', '.join(options)} may be set")
    if not options:
        return Travel()
    [(key, value)] = options.items()
    return _OPTIONS[key](key, value)


def _parse_number_option(key: str, value: str) -> int:
    number = _parse_number(value.strip())
    if number is None:
        raise InvalidArgument(f"the option {key!r} has the value {value!r}, which is not a number")
    return number


_OPTIONS: Mapping[str, Callable[[str, str], Travel]] = {
    SCAN_TAG_NAME.key: lambda _, value: Travel(tag=value),
    SCAN_VERSION.key: lambda _, value: Travel(version=value),
    SCAN_TIMESTAMP.key: lambda _, value: Travel(millis=to_millis(value)),
    SCAN_SNAPSHOT_ID.key: lambda key, value: Travel(snapshot=_parse_number_option(key, value)),
    SCAN_TIMESTAMP_MILLIS.key: lambda key, value: Travel(millis=_parse_number_option(key, value)),
    SCAN_WATERMARK.key: lambda key, value: Travel(watermark=_parse_number_option(key, value)),
}


def to_millis(value: Time) -> int:
    """Convert a time to epoch milliseconds. Ints are unchanged; text is ISO 8601; times without a zone are in UTC.

    Raises `InvalidArgument`: text that is not an ISO 8601 time.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str, dt.datetime, dt.date)):
        raise InvalidArgument(f"a time must be milliseconds, ISO text, a datetime or a date, not {value!r}")
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        number = _parse_number(value.strip())
        if number is not None:
            return number
        try:
            value = dt.datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError as error:
            raise InvalidArgument(f"{value!r} is not a time; give ISO text such as '2024-05-14 12:00:00'") from error
    elif not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    if value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)
    return (value - dt.datetime.fromtimestamp(0, tz=dt.UTC)) // dt.timedelta(milliseconds=1)


def resolve_travel(metadata: TableMetadata, travel: Travel) -> Snapshot | None:
    """Return the snapshot to read; None if the table has none and no particular one is requested.

    Raises `SnapshotNotFound`, `SnapshotExpired`, `TagNotFound`: the requested snapshot does not exist.
    """
    if travel.version is not None:
        return find_at_version(metadata, travel.version)
    if travel.tag is not None:
        return metadata.tag(travel.tag).snapshot
    if travel.snapshot is not None:
        return _find_snapshot_or_tag(metadata, travel.snapshot)
    if travel.millis is not None:
        return find_at_time(metadata, travel.millis)
    if travel.watermark is not None:
        return find_at_watermark(metadata, travel.watermark)
    return metadata.latest_snapshot()


def find_at_version(metadata: TableMetadata, version: str) -> Snapshot:
    """Resolve a version text, as the first kind of reference that applies.

    These are: the name of a tag (in old tables it may be a number), an id, ``snapshot.<id>``, ``watermark-<millis>``,
    an ISO time.

    Raises `SnapshotNotFound`, `SnapshotExpired`, `TagNotFound`: it does not exist. InvalidArgument: not a version text.
    """
    try:
        return metadata.tag(version).snapshot
    except TagNotFound:
        travel = _parse_version(version)
        if travel is None:
            raise
    found = resolve_travel(metadata, travel)
    assert found is not None  # a particular snapshot was requested
    return found


def resolve_version(metadata: TableMetadata, travel: Travel) -> Travel:
    """Return the same selection, with its version text resolved with the table."""
    version = travel.version
    if version is None:
        return travel
    if version in metadata.tag_names():
        return Travel(tag=version)
    return _parse_version(version) or travel


def _parse_version(version: str) -> Travel | None:
    """Parse a version text that is not a tag; return None if it is not a version."""
    number = _parse_number(version.removeprefix(SNAPSHOT_VERSION_PREFIX))
    if number is not None:
        return Travel(snapshot=number)
    mark, _, digits = version.partition(WATERMARK_VERSION_PREFIX)
    number = _parse_number(digits.removeprefix("-"))
    if number is not None and not mark:
        return Travel(watermark=-number if digits.startswith("-") else number)
    return Travel(millis=to_millis(version)) if re.match(ISO_DATE, version) else None


def _find_snapshot_or_tag(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """Return the snapshot; if it has expired, from the tag that keeps it unchanged."""
    try:
        return metadata.snapshot(snapshot_id)
    except SnapshotNotFound:
        for tag in metadata.tags():
            if tag.snapshot.id == snapshot_id:
                return tag.snapshot
        raise


def find_at_time(metadata: TableMetadata, millis: int) -> Snapshot:
    """Return the newest snapshot committed at or before `millis`, otherwise the newest such tag.

    Raises `SnapshotNotFound`: neither a snapshot nor a tag is that old.
    """
    found = find_last_until(metadata, millis)
    if found is not None:
        return found
    tagged = [tag.snapshot for tag in metadata.tags() if tag.snapshot.time_millis <= millis]
    if tagged:
        return max(tagged, key=lambda snapshot: (snapshot.time_millis, snapshot.id))
    oldest = next(metadata.snapshots(), None)
    since = f"the oldest snapshot is of {oldest.time.isoformat()}" if oldest else "the table has no snapshots"
    raise SnapshotNotFound(f"{metadata.where}: no snapshot or tag is at or before {_format_millis(millis)}; {since}")


def _format_millis(millis: int) -> str:
    try:
        return (dt.datetime.fromtimestamp(0, tz=dt.UTC) + dt.timedelta(milliseconds=millis)).isoformat()
    except OverflowError:
        return f"{millis} ms"


def find_at_watermark(metadata: TableMetadata, watermark: int) -> Snapshot:
    """Return the oldest snapshot whose watermark is at or after `watermark` (epoch milliseconds).

    Raises `SnapshotNotFound`: no snapshot has reached it.
    """
    found = find_first_reaching(metadata, watermark)
    if found is None:
        raise SnapshotNotFound(f"{metadata.where}: no snapshot has a watermark at or after {watermark}")
    return found


NO_WATERMARK = -(2**63)
"""The watermark that Flink writes before its first watermark."""

Search: TypeAlias = Callable[[Sequence[int]], Snapshot | None]


def find_last_until(metadata: TableMetadata, millis: int) -> Snapshot | None:
    """Return the newest living snapshot committed at or before epoch milliseconds; None if all are younger."""

    def search(ids: Sequence[int]) -> Snapshot | None:
        if not ids or _read_present(metadata, ids[0]).time_millis > millis:
            return None
        found, low, high = None, 0, len(ids) - 1
        while low <= high:
            middle = (low + high) // 2
            snapshot = _read_present(metadata, ids[middle])
            if snapshot.time_millis > millis:
                high = middle - 1
                continue
            found, low = snapshot, middle + 1
            if snapshot.time_millis == millis:
                break
        return found

    return _search_living(metadata, search)


def find_first_reaching(metadata: TableMetadata, watermark: int) -> Snapshot | None:
    """Return the oldest living snapshot whose watermark reaches `watermark` (epoch milliseconds); None without one.

    Snapshots inherit their watermark, so all snapshots after the first watermark have one. To find the first, all
    snapshots before it are read.
    """

    def search(ids: Sequence[int]) -> Snapshot | None:
        if not ids or _read_present(metadata, ids[-1]).watermark == NO_WATERMARK:
            return None
        low, first = _find_first_marked(metadata, ids)
        if first is None or _get_watermark(first) >= watermark:
            return first
        found, high = None, len(ids) - 1
        while low <= high:
            middle, snapshot = _find_last_marked(metadata, ids, low, (low + high) // 2)
            if snapshot is None or _get_watermark(snapshot) < watermark:
                low = (low + high) // 2 + 1
                continue
            found, high = snapshot, middle - 1
            if snapshot.watermark == watermark:
                break
        return found

    return _search_living(metadata, search)


def _find_first_marked(metadata: TableMetadata, ids: Sequence[int]) -> tuple[int, Snapshot | None]:
    """Return the first snapshot with a watermark, and its index in `ids`."""
    for at, snapshot in enumerate(metadata.each_snapshot(ids)):
        if snapshot is None:
            raise _Vanished(ids[at])
        if snapshot.watermark is not None:
            return at, snapshot
    return len(ids), None


def _find_last_marked(metadata: TableMetadata, ids: Sequence[int], low: int, at: int) -> tuple[int, Snapshot | None]:
    """Return the last snapshot with a watermark from `low` to `at`, and its index in `ids`."""
    for place in range(at, low - 1, -1):
        snapshot = _read_present(metadata, ids[place])
        if snapshot.watermark is not None:
            return place, snapshot
    return low, None


def _get_watermark(snapshot: Snapshot) -> int:
    assert snapshot.watermark is not None
    return snapshot.watermark


class _Vanished(Exception):  # never leaves this module
    """A snapshot that a search read does not exist; the argument is its id."""


def _read_present(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    found = metadata.snapshot_or_none(snapshot_id)
    if found is None:
        raise _Vanished(snapshot_id)
    return found


def _search_living(metadata: TableMetadata, search: Search) -> Snapshot | None:
    """Run `search` on the ids of the living snapshots.

    The ids are all numbers from the earliest to the newest, which take two small reads. The folder is listed only if
    one of them is missing, lost or expired meanwhile, and again if more have expired.
    """
    newest, earliest = metadata.latest_snapshot(), metadata.earliest_snapshot_id()
    if newest is None or earliest is None:
        return None
    ids: Sequence[int] = range(earliest, newest.id + 1)
    while True:
        try:
            return search(ids)
        except _Vanished as missing:
            before, ids = ids, metadata.living_snapshot_ids()
            if ids == before:  # listed, but missing
                raise FileMissing(metadata.paths.snapshot(missing.args[0])) from None


class OtherBranch(msgspec.Struct, frozen=True):
    """Another branch as a scan reads it; `option` names it."""

    metadata: TableMetadata
    snapshot: Snapshot | None
    schema: TableSchema
    option: AnyOption

    @property
    def is_first(self) -> bool:
        """Whether partitions are looked up in this branch before main."""
        return self.option is SCAN_PRIMARY_BRANCH


def find_other_branch(
    metadata: TableMetadata, options: TableOptions, snapshot: Snapshot | None, travel: Travel
) -> OtherBranch | None:
    named = options.other_branch
    option: AnyOption = SCAN_FALLBACK_BRANCH if (options.fallback_branch or "").strip() else SCAN_PRIMARY_BRANCH
    if named is None or metadata.branch != MAIN_BRANCH:
        return None
    found = open_branch(metadata, named, option, snapshot, travel)
    is_absent = found.snapshot is None and snapshot is not None and not travel.is_latest
    return None if is_absent else found


def open_branch(
    metadata: TableMetadata, name: str, option: AnyOption, snapshot: Snapshot | None, travel: Travel
) -> OtherBranch:
    """Return a branch at the time of main's snapshot, or at the requested time; without both, its newest state.

    Its snapshot is None if it had none yet.
    """
    other = metadata.on_branch(name)
    if travel.is_latest or (snapshot is None and resolve_version(metadata, travel).millis is None):
        found = other.latest_snapshot()
    else:
        found = _find_snapshot(metadata, other, snapshot, travel)
    # As in main, a past snapshot is read with its own columns.
    past = found is not None and not travel.is_latest
    schema = other.schema(found.schema_id) if found is not None and past else other.latest_schema()
    refuse_unreadable(schema, other.where)
    return OtherBranch(other, found, schema, option)


def resolve_main(metadata: TableMetadata, options: TableOptions, travel: Travel) -> Snapshot | None:
    """Return the result of `resolve_travel`, but None if main of a chain table had no snapshot at the requested time.

    Raises as `resolve_travel`.
    """
    millis = resolve_version(metadata, travel).millis
    if options.chain is None or millis is None or metadata.branch in options.chain:
        return resolve_travel(metadata, travel)
    return _find_at_time(metadata, metadata, millis)


def _find_snapshot(
    main: TableMetadata, other: TableMetadata, snapshot: Snapshot | None, travel: Travel
) -> Snapshot | None:
    """Return the branch's snapshot at the time of main's snapshot, or at the requested time.

    None if the branch had no snapshot yet. A watermark is looked up in both branches.

    Raises:
        SnapshotNotFound: no snapshot of the branch has reached the watermark, or its snapshots of then have expired.
    """
    asked = resolve_version(main, travel)
    if asked.watermark is not None:
        return resolve_travel(other, asked)
    if asked.millis is not None:
        return _find_at_time(main, other, asked.millis)
    assert snapshot is not None
    return _find_at_time(main, other, snapshot.time_millis)


def _find_at_time(main: TableMetadata, other: TableMetadata, millis: int) -> Snapshot | None:
    """Return the branch's snapshot at a time; None if it had none yet.

    Raises `SnapshotNotFound`: its snapshots of then have expired.
    """
    try:
        return find_at_time(other, millis)
    except SnapshotNotFound:
        first = next(other.snapshots(), None)
        if first is None or first.id == FIRST_SNAPSHOT_ID or _is_of(main, first):
            return None
        raise


def _is_of(main: TableMetadata, first: Snapshot) -> bool:
    """Return whether the first snapshot of a branch, with which it began, is a snapshot of main."""
    same = [main.snapshot_or_none(first.id), *(tag.snapshot for tag in main.tags() if tag.snapshot.id == first.id)]
    return any(each is not None and each.time_millis == first.time_millis for each in same)


def check_same_columns(main: TableSchema, found: OtherBranch, where: str) -> None:
    other = found.schema
    same = len(main.fields) == len(other.fields) and all(
        mine.name == theirs.name and has_same_values(mine.type, theirs.type)
        for mine, theirs in zip(main.fields, other.fields)
    )
    if not same:
        raise InvalidArgument(
            f"{where}: the option {found.option} names {found.metadata.branch!r}, "
            f"whose columns differ from those of {MAIN_BRANCH}"
        )


MILLIS, TIMESTAMP = scans.SCAN_TIMESTAMP_MILLIS, scans.SCAN_TIMESTAMP
SNAPSHOT, TAG, WATERMARK = scans.SCAN_SNAPSHOT_ID, scans.SCAN_TAG_NAME, scans.SCAN_WATERMARK
FILE_TIME, CREATION_TIME = scans.SCAN_FILE_CREATION_TIME_MILLIS, scans.SCAN_CREATION_TIME_MILLIS
BETWEEN, BETWEEN_TIMES = scans.INCREMENTAL_BETWEEN, scans.INCREMENTAL_BETWEEN_TIMESTAMP
TO_TAG = scans.INCREMENTAL_TO_AUTO_TAG

EVERY_START = (MILLIS, FILE_TIME, TIMESTAMP, SNAPSHOT, TAG, BETWEEN_TIMES, BETWEEN, TO_TAG)


@dataclass(frozen=True)
class Start:
    """The options required by a start mode: exactly one of `one_of` (if any), none of `none_of`."""

    one_of: tuple[AnyOption, ...] = ()
    none_of: tuple[AnyOption, ...] = ()


START_MODES = {
    "from-timestamp": Start((MILLIS, TIMESTAMP), (SNAPSHOT, FILE_TIME, TAG, BETWEEN_TIMES, BETWEEN, TO_TAG)),
    "from-snapshot": Start((SNAPSHOT, TAG, WATERMARK), (MILLIS, TIMESTAMP, FILE_TIME, BETWEEN_TIMES, BETWEEN, TO_TAG)),
    "incremental": Start((BETWEEN, BETWEEN_TIMES, TO_TAG), (SNAPSHOT, MILLIS, FILE_TIME, TIMESTAMP, TAG)),
    "from-snapshot-full": Start((SNAPSHOT,), (MILLIS, TIMESTAMP, FILE_TIME, TAG, BETWEEN_TIMES, BETWEEN, TO_TAG)),
    "from-file-creation-time": Start((FILE_TIME,), (SNAPSHOT, MILLIS, TAG, BETWEEN_TIMES, BETWEEN, TO_TAG)),
}
IMPLIED = (
    ((MILLIS, TIMESTAMP), "from-timestamp"),
    ((SNAPSHOT, TAG, WATERMARK), "from-snapshot"),
    ((FILE_TIME,), "from-file-creation-time"),
    ((CREATION_TIME,), "from-creation-timestamp"),
    ((BETWEEN, BETWEEN_TIMES), "incremental"),
)
"""The start mode if ``scan.mode`` is not set: the first line with an option that is set."""
