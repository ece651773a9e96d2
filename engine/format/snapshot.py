"""Snapshot and tag files: ``snapshot/snapshot-<id>`` and ``tag/tag-<name>``, JSON.

A tag file is the snapshot file plus, if the tag expires, ``tagCreateTime`` (the local time of its creator: year,
month, day, hour, minute, and second and nanosecond unless they are zero) and ``tagTimeRetained`` (seconds with
nine digits). Members that Morrow does not know are kept in `extra`, so that a copied snapshot is complete.
Source: the format specification, section Snapshot.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.metadata_json import build_from_json, format_json, parse_object, refuse_slips
from morrow.engine.units import NANOS_PER_MICRO, format_duration

NEWEST_SNAPSHOT_VERSION = 3
FIRST_SNAPSHOT_ID = 1
APPEND, COMPACT, OVERWRITE, ANALYZE = "APPEND", "COMPACT", "OVERWRITE", "ANALYZE"
COMMIT_KINDS = (APPEND, COMPACT, OVERWRITE, ANALYZE)
SECOND_DIGITS = 9
"""Decimal places of ``tagTimeRetained``."""
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_KNOWN = (
    "version",
    "uuid",
    "id",
    "schemaId",
    "baseManifestList",
    "baseManifestListSize",
    "deltaManifestList",
    "deltaManifestListSize",
    "changelogManifestList",
    "changelogManifestListSize",
    "indexManifest",
    "commitUser",
    "writerVersion",
    "commitIdentifier",
    "commitKind",
    "timeMillis",
    "logOffsets",
    "totalRecordCount",
    "deltaRecordCount",
    "changelogRecordCount",
    "watermark",
    "statistics",
    "properties",
    "nextRowId",
    "operation",
    "tagCreateTime",
    "tagTimeRetained",
)
DURATION = "morrow.duration-ms"
ROWS_INSERTED = "morrow.rows-inserted"
ROWS_UPDATED = "morrow.rows-updated"
ROWS_DELETED = "morrow.rows-deleted"
OF_OPERATIONS = (DURATION, ROWS_INSERTED, ROWS_UPDATED, ROWS_DELETED)
"""Properties in which Morrow records the duration of an operation, and the number of changed rows if known."""

_KEPT = frozenset(("uuid", "writerVersion"))
"""Known members that are only copied, in `Snapshot.extra`."""


class Snapshot(msgspec.Struct, frozen=True):
    """A snapshot of the table: the root of its metadata after a commit.

    Counts are rows before merging (null in snapshots of old versions); `time_millis` is the commit time in epoch
    milliseconds; sizes are in bytes, and null if the writer did not record them.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_millis: int
    version: int = NEWEST_SNAPSHOT_VERSION
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    next_row_id: int | None = None
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    log_offsets: Mapping[str, int] = msgspec.field(default_factory=dict)
    operation: str | None = None
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def time(self) -> dt.datetime:
        """The commit time as an aware datetime in UTC."""
        return EPOCH + dt.timedelta(milliseconds=self.time_millis)

    def __hash__(self) -> int:
        return hash((self.id, self.schema_id, self.delta_manifest_list, self.time_millis))

    def __repr__(self) -> str:
        """Return the distinguishing attributes of the snapshot on one line."""
        time, records = _format_time(self.time), self.total_record_count
        return f"Snapshot(id={self.id}, commit_kind={self.commit_kind!r}, time={time!r}, total_record_count={records})"


class Tag(msgspec.Struct, frozen=True):
    """A named snapshot that expiry keeps until `time_retained` has passed since `create_time`.

    `create_time` is the local wall-clock time of the tag's creator, without a zone; `create_nanos` are its
    nanoseconds below a microsecond. Without `time_retained` the tag stays until it is deleted.
    """

    name: str
    snapshot: Snapshot
    create_time: dt.datetime | None = None
    time_retained: dt.timedelta | None = None
    create_nanos: int = 0

    def __repr__(self) -> str:
        """Return one line with the snapshot, and with creation and retention times if the tag has them."""
        shown = f"name={self.name!r}, snapshot={self.snapshot!r}"
        if self.create_time is not None:
            shown += f", create_time={_format_time(self.create_time)!r}"
        if self.time_retained is not None:
            shown += f", time_retained={format_duration(self.time_retained)!r}"
        return f"Tag({shown})"


def parse_snapshot(data: bytes, path: str) -> Snapshot:
    """Read a snapshot file.

    Raises:
        CorruptFile: not JSON, or a required member is missing or ill-typed.
        Unsupported: a snapshot version newer than Morrow.
    """
    return build_from_json(path, lambda n: _build_snapshot(n, path), parse_object(data, path))


def format_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot file, byte for byte as Java prints it: without null and empty members, with `extra`."""
    return format_json(to_snapshot_members(snapshot))


def to_snapshot_members(snapshot: Snapshot) -> dict[str, Any]:
    """Return the members of a snapshot file in their order."""
    members = {
        "version": snapshot.version,
        "id": snapshot.id,
        "schemaId": snapshot.schema_id,
        "baseManifestList": snapshot.base_manifest_list,
        "baseManifestListSize": snapshot.base_manifest_list_size,
        "deltaManifestList": snapshot.delta_manifest_list,
        "deltaManifestListSize": snapshot.delta_manifest_list_size,
        "changelogManifestList": snapshot.changelog_manifest_list,
        "changelogManifestListSize": snapshot.changelog_manifest_list_size,
        "indexManifest": snapshot.index_manifest,
        "commitUser": snapshot.commit_user,
        "commitIdentifier": snapshot.commit_identifier,
        "commitKind": snapshot.commit_kind,
        "timeMillis": snapshot.time_millis,
        "logOffsets": dict(snapshot.log_offsets) or None,
        "totalRecordCount": snapshot.total_record_count,
        "deltaRecordCount": snapshot.delta_record_count,
        "changelogRecordCount": snapshot.changelog_record_count,
        "watermark": snapshot.watermark,
        "statistics": snapshot.statistics,
        "properties": dict(snapshot.properties) or None,
        "nextRowId": snapshot.next_row_id,
        "operation": snapshot.operation,
        **snapshot.extra,
    }
    return {name: value for name, value in members.items() if value is not None}


def parse_tag(data: bytes, name: str, path: str) -> Tag:
    """Read a tag file. Raises as `parse_snapshot`."""

    def build(node: Mapping[str, Any]) -> Tag:
        created, retained = node.get("tagCreateTime"), node.get("tagTimeRetained")
        time, nanos = (None, 0) if created is None else _parse_local_time(created)
        return Tag(
            name,
            _build_snapshot(node, path),
            create_time=time,
            time_retained=None if retained is None else _to_timedelta(float(retained)),
            create_nanos=nanos,
        )

    return build_from_json(path, build, parse_object(data, path))


def format_tag(tag: Tag) -> bytes:
    """Return a tag file, byte for byte as Java prints it."""
    members = to_snapshot_members(tag.snapshot)
    if tag.create_time is not None:
        members["tagCreateTime"] = _to_time_parts(tag.create_time, tag.create_nanos)
    if tag.time_retained is not None:
        members["tagTimeRetained"] = _to_seconds(tag.time_retained)
    return format_json(members)


def _build_snapshot(node: Mapping[str, Any], path: str) -> Snapshot:
    version = int(node.get("version") or 1)
    if version > NEWEST_SNAPSHOT_VERSION:
        raise Unsupported(f"snapshot version {version}", where=path, hint="upgrade Morrow")
    refuse_slips(node, _KNOWN, path)
    if node["commitKind"] not in COMMIT_KINDS:
        raise Unsupported(
            f"the kind of commit {node['commitKind']!r}", where=path, hint=f"known: {', '.join(COMMIT_KINDS)}"
        )
    snapshot = Snapshot(
        version=version,
        id=int(node["id"]),
        schema_id=int(node["schemaId"]),
        base_manifest_list=str(node["baseManifestList"]),
        base_manifest_list_size=_get_int(node, "baseManifestListSize"),
        delta_manifest_list=str(node["deltaManifestList"]),
        delta_manifest_list_size=_get_int(node, "deltaManifestListSize"),
        changelog_manifest_list=_get_text(node, "changelogManifestList"),
        changelog_manifest_list_size=_get_int(node, "changelogManifestListSize"),
        index_manifest=_get_text(node, "indexManifest"),
        commit_user=str(node["commitUser"]),
        commit_identifier=int(node["commitIdentifier"]),
        commit_kind=str(node["commitKind"]),
        time_millis=int(node["timeMillis"]),
        log_offsets=dict(node.get("logOffsets") or {}),
        total_record_count=_get_int(node, "totalRecordCount"),
        delta_record_count=_get_int(node, "deltaRecordCount"),
        changelog_record_count=_get_int(node, "changelogRecordCount"),
        watermark=_get_int(node, "watermark"),
        statistics=_get_text(node, "statistics"),
        properties={str(k): str(v) for k, v in dict(node.get("properties") or {}).items()},
        next_row_id=_get_int(node, "nextRowId"),
        operation=_get_text(node, "operation"),
        extra={key: value for key, value in node.items() if key not in _KNOWN or key in _KEPT},
    )
    if snapshot.changelog_record_count and snapshot.changelog_manifest_list is None:
        raise CorruptFile(path, f"it counts {snapshot.changelog_record_count} changes and names no list of them")
    _ = snapshot.time  # refuse an impossible time here, not when it is displayed
    return snapshot


def _format_time(time: dt.datetime) -> str:
    """Return ``2024-05-14 12:00:00.123``, followed by `` UTC`` if the time has a zone, which is always UTC."""
    clock = time.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    return clock if time.tzinfo is None else f"{clock} UTC"


def _get_int(node: Mapping[str, Any], name: str) -> int | None:
    value = node.get(name)
    return None if value is None else int(value)


def _get_text(node: Mapping[str, Any], name: str) -> str | None:
    value = node.get(name)
    return None if value is None else str(value)


def _parse_local_time(parts: Any) -> tuple[dt.datetime, int]:
    """Read ``[year, month, day, hour, minute, second, nanosecond]`` (Jackson drops trailing zeros), or ISO text.

    Returns: the time, and its nanoseconds below a microsecond.
    """
    if isinstance(parts, str):
        time = dt.datetime.fromisoformat(parts)
        return (time if time.tzinfo is None else time.astimezone().replace(tzinfo=None)), 0
    year, month, day, hour, minute, second, nanos = (list(parts) + [0] * 7)[:7]
    micros, below = divmod(nanos, NANOS_PER_MICRO)
    return dt.datetime(year, month, day, hour, minute, second, micros), below


def _to_time_parts(time: dt.datetime, below: int) -> list[int]:
    parts = [time.year, time.month, time.day, time.hour, time.minute]
    nanos = time.microsecond * NANOS_PER_MICRO + below
    if time.second or nanos:
        parts.append(time.second)
    return [*parts, nanos] if nanos else parts


def _to_timedelta(seconds: float) -> dt.timedelta:
    """Return a timedelta. Java durations that exceed Python's maximum become this maximum."""
    return dt.timedelta(seconds=seconds) if seconds < dt.timedelta.max.total_seconds() else dt.timedelta.max


def _to_seconds(span: dt.timedelta) -> Decimal:
    micros = span // dt.timedelta(microseconds=1)
    digits = 1 if not micros else SECOND_DIGITS
    return Decimal(micros).scaleb(-6).quantize(Decimal(1).scaleb(-digits))
