"""Snapshot and tag files of every version."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.snapshot import Snapshot, Tag, format_snapshot, format_tag, parse_snapshot, parse_tag

PATH = "t/snapshot/snapshot-5"
OLDEST: dict[str, Any] = {
    "id": 5,
    "schemaId": 0,
    "baseManifestList": "manifest-list-a-0",
    "deltaManifestList": "manifest-list-a-1",
    "changelogManifestList": None,
    "commitUser": "u",
    "commitIdentifier": 9223372036854775807,
    "commitKind": "APPEND",
    "timeMillis": 1_715_688_000_123,
}
NEWEST: dict[str, Any] = OLDEST | {
    "version": 3,
    "baseManifestListSize": 800,
    "deltaManifestListSize": 900,
    "changelogManifestList": "manifest-list-a-2",
    "changelogManifestListSize": 700,
    "indexManifest": "index-manifest-a-0",
    "logOffsets": {"0": 12},
    "totalRecordCount": 10,
    "deltaRecordCount": -2,
    "changelogRecordCount": 0,
    "watermark": -9223372036854775808,
    "statistics": "stat-a-0",
    "properties": {"k": "v"},
    "nextRowId": 77,
    "operation": "WRITE",
}


def parsed(node: Any) -> Snapshot:
    return parse_snapshot(json.dumps(node).encode(), PATH)


def test_a_snapshot_of_the_first_version_knows_little() -> None:
    assert parsed(OLDEST) == Snapshot(
        version=1,
        id=5,
        schema_id=0,
        base_manifest_list="manifest-list-a-0",
        delta_manifest_list="manifest-list-a-1",
        commit_user="u",
        commit_identifier=2**63 - 1,
        commit_kind="APPEND",
        time_millis=1_715_688_000_123,
    )


def test_a_snapshot_of_the_newest_version() -> None:
    snapshot = parsed(NEWEST)

    assert (snapshot.base_manifest_list_size, snapshot.delta_manifest_list_size) == (800, 900)
    assert (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size) == ("manifest-list-a-2", 700)
    assert (snapshot.total_record_count, snapshot.delta_record_count, snapshot.changelog_record_count) == (10, -2, 0)
    assert (snapshot.index_manifest, snapshot.statistics) == ("index-manifest-a-0", "stat-a-0")
    assert (snapshot.watermark, snapshot.next_row_id, snapshot.operation) == (-(2**63), 77, "WRITE")
    assert (snapshot.properties, snapshot.log_offsets, snapshot.extra) == ({"k": "v"}, {"0": 12}, {})


def test_the_time_is_an_instant() -> None:
    assert parsed(OLDEST).time == dt.datetime(2024, 5, 14, 12, 0, 0, 123_000, tzinfo=dt.UTC)


def test_unknown_members_are_kept() -> None:
    assert parsed(OLDEST | {"colour": {"r": 1}}).extra == {"colour": {"r": 1}}


TAG_TIMES = [
    ([2024, 5, 14, 12, 30, 15, 123_456_789], dt.datetime(2024, 5, 14, 12, 30, 15, 123_456), 789),
    ([2024, 5, 14, 12, 30, 15], dt.datetime(2024, 5, 14, 12, 30, 15), 0),
    ([2024, 5, 14, 12, 30], dt.datetime(2024, 5, 14, 12, 30), 0),
    ([2024, 5, 14, 12, 30, 0, 1], dt.datetime(2024, 5, 14, 12, 30), 1),
    ("2024-05-14T12:30:15.5", dt.datetime(2024, 5, 14, 12, 30, 15, 500_000), 0),
]


@pytest.mark.parametrize(("stored", "time", "nanos"), TAG_TIMES)
def test_a_tag_is_a_snapshot_with_a_time_of_its_own(stored: Any, time: dt.datetime, nanos: int) -> None:
    node = NEWEST | {"tagCreateTime": stored, "tagTimeRetained": 3600.5}
    tag = parse_tag(json.dumps(node).encode(), "v1", "t/tag/tag-v1")

    assert tag == Tag("v1", parsed(NEWEST), time, dt.timedelta(hours=1, milliseconds=500), nanos)


@pytest.mark.parametrize(("stored", "time", "nanos"), TAG_TIMES[:-1])
def test_the_time_of_a_tag_is_written_without_zeros_at_its_end(
    stored: list[int], time: dt.datetime, nanos: int
) -> None:
    written = format_tag(Tag("v1", parsed(NEWEST), time, dt.timedelta(hours=1, milliseconds=500), nanos))

    assert json.loads(written) == json.loads(format_snapshot(parsed(NEWEST))) | {
        "tagCreateTime": stored,
        "tagTimeRetained": 3600.5,
    }
    assert written.endswith(
        f'"tagCreateTime" : [ {str(stored)[1:-1]} ],\n  "tagTimeRetained" : 3600.500000000\n}}'.encode()
    )


def test_a_time_with_a_zone_is_that_of_the_clock_on_this_wall() -> None:
    noon = dt.datetime(2024, 5, 14, 12, tzinfo=dt.UTC)
    node = NEWEST | {"tagCreateTime": noon.isoformat()}

    assert parse_tag(json.dumps(node).encode(), "v1", PATH).create_time == noon.astimezone().replace(tzinfo=None)


@pytest.mark.parametrize(
    ("retained", "text"),
    [
        (dt.timedelta(days=1), b"86400.000000000"),
        (dt.timedelta(microseconds=1), b"0.000001000"),
        (dt.timedelta(0), b"0.0"),
        (dt.timedelta.max, b"86399999999999.999999000"),
    ],
)
def test_the_end_of_a_tag_is_written_in_seconds(retained: dt.timedelta, text: bytes) -> None:
    data = format_tag(Tag("v1", parsed(NEWEST), dt.datetime(2024, 5, 14), retained))

    assert b'"tagTimeRetained" : ' + text + b"\n}" in data
    read = parse_tag(data, "v1", PATH).time_retained
    assert read is not None
    assert abs(read - retained) < dt.timedelta(seconds=1)


def test_a_time_that_only_java_can_count_is_as_good_as_for_ever() -> None:
    node = NEWEST | {"tagTimeRetained": 9.2e15}

    assert parse_tag(json.dumps(node).encode(), "v1", PATH).time_retained == dt.timedelta.max


def test_a_tag_without_an_end() -> None:
    assert parse_tag(json.dumps(OLDEST).encode(), "v1", PATH) == Tag("v1", parsed(OLDEST))


@pytest.mark.parametrize(
    "name", ["id", "schemaId", "baseManifestList", "deltaManifestList", "commitKind", "timeMillis"]
)
def test_a_member_that_every_version_has_is_missing(name: str) -> None:
    with pytest.raises(CorruptFile, match=f"^{PATH}: the member '{name}' is missing"):
        parsed({key: value for key, value in OLDEST.items() if key != name})


@pytest.mark.parametrize(
    "change",
    [{"id": "five"}, {"timeMillis": []}, {"timeMillis": 10**18}, {"totalRecordCount": {}}, {"properties": 3}],
)
def test_a_member_of_the_wrong_type(change: dict[str, Any]) -> None:
    with pytest.raises(CorruptFile, match=f"^{PATH}: a member has the wrong type"):
        parsed(OLDEST | change)


@pytest.mark.parametrize("times", [[2024], [2024, 13, 1, 0, 0], "yesterday"])
def test_a_tag_time_that_is_none(times: Any) -> None:
    with pytest.raises(CorruptFile):
        parse_tag(json.dumps(OLDEST | {"tagCreateTime": times}).encode(), "v1", PATH)


def test_a_version_from_the_future() -> None:
    with pytest.raises(Unsupported, match="snapshot version 4 is not supported; upgrade Morrow"):
        parsed(OLDEST | {"version": 4})


def test_a_snapshot_is_printed_as_java_prints_it() -> None:
    snapshot = parsed(OLDEST | {"version": 3, "nextRowId": 0, "properties": {"k": "v"}, "watermark": 5})

    assert format_snapshot(snapshot).decode() == dedent("""\
        {
          "version" : 3,
          "id" : 5,
          "schemaId" : 0,
          "baseManifestList" : "manifest-list-a-0",
          "deltaManifestList" : "manifest-list-a-1",
          "commitUser" : "u",
          "commitIdentifier" : 9223372036854775807,
          "commitKind" : "APPEND",
          "timeMillis" : 1715688000123,
          "watermark" : 5,
          "properties" : {
            "k" : "v"
          },
          "nextRowId" : 0
        }""")


@pytest.mark.parametrize("node", [OLDEST, NEWEST, NEWEST | {"colour": {"r": 1}}], ids=["oldest", "newest", "extended"])
def test_what_is_printed_reads_back(node: dict[str, Any]) -> None:
    assert parse_snapshot(format_snapshot(parsed(node)), PATH) == parsed(node)


def test_snapshots_of_java_come_out_byte_for_byte(golden_root: Path) -> None:
    files = sorted((golden_root / "public").glob("*/warehouse/db.db/t/snapshot/snapshot-*"))

    assert len(files) > 1_000
    for file in files:
        assert format_snapshot(parse_snapshot(file.read_bytes(), str(file))) == file.read_bytes()


def test_they_are_shown_on_a_line() -> None:
    old, new = parsed(OLDEST), parsed(NEWEST)
    made = dt.datetime(2024, 5, 14, 12, 30)

    shown = "Snapshot(id=5, commit_kind='APPEND', time='2024-05-14 12:00:00.123 UTC', total_record_count={})"
    assert repr(old) == shown.format(None)
    assert repr(Tag("v1", new)) == f"Tag(name='v1', snapshot={shown.format(10)})"
    assert repr(Tag("v1", new, made, dt.timedelta(days=1))) == (
        f"Tag(name='v1', snapshot={shown.format(10)}, create_time='2024-05-14 12:30:00.000', time_retained='1 day')"
    )


def test_changes_that_are_counted_have_a_list() -> None:
    node = {
        "version": 3,
        "id": 1,
        "schemaId": 0,
        "baseManifestList": "a",
        "deltaManifestList": "b",
        "commitUser": "u",
        "commitIdentifier": 1,
        "commitKind": "APPEND",
        "timeMillis": 0,
        "changelogRecordCount": 46,
    }
    with pytest.raises(CorruptFile, match="counts 46 changes and names no list"):
        parse_snapshot(json.dumps(node).encode(), "f")
    assert parse_snapshot(json.dumps(node | {"changelogRecordCount": 0}).encode(), "f").changelog_record_count == 0
