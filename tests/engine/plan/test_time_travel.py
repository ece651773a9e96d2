"""The snapshot that a read sees."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from morrow.engine.errors import InvalidArgument, SnapshotExpired, SnapshotNotFound, TagNotFound
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import Travel, parse_travel, parse_travel_options, resolve_travel, to_millis
from tests.support.table_factory import TableFactory

UTC = dt.UTC
NOON = dt.datetime(2024, 5, 14, 12, tzinfo=UTC)
NOON_MILLIS = 1_715_688_000_000
SECOND = 1_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> TableMetadata:
    """Make snapshots 1 to 6, one a second from noon on, with watermarks 100, none, 300, ...; 1 and 2 have expired.

    Tags: ``old`` and ``5`` keep snapshot 1, ``v2`` keeps snapshot 2, and ``v4`` keeps snapshot 4.
    """
    path = tmp_path_factory.mktemp("t")
    factory = TableFactory(path, [("id", "INT")])
    (path / "tag").mkdir()
    for i in range(6):
        factory.write_file(pa.table({"id": [i]}))
        snapshot = path / "snapshot" / f"snapshot-{factory.commit()}"
        node = json.loads(snapshot.read_text()) | {"timeMillis": NOON_MILLIS + i * SECOND}
        node |= {"watermark": 100 * (i + 1)} if i % 2 == 0 else {}
        snapshot.write_text(json.dumps(node))
    for name, snapshot_id in (("old", 1), ("5", 1), ("v2", 2), ("v4", 4)):
        (path / "tag" / f"tag-{name}").write_text((path / "snapshot" / f"snapshot-{snapshot_id}").read_text())
    for expired in (1, 2):
        (path / "snapshot" / f"snapshot-{expired}").unlink()
    return TableMetadata(LocalStore(), str(path))


def seen(table: TableMetadata, as_of: Any = None, **kwargs: Any) -> int:
    """Return the id of the snapshot that a scan with these arguments reads."""
    snapshot = resolve_travel(table, parse_travel(as_of=as_of, **kwargs))
    assert snapshot is not None
    return snapshot.id


def test_the_newest_snapshot_by_default(table: TableMetadata) -> None:
    assert parse_travel().is_latest
    assert seen(table) == 6


@pytest.mark.parametrize(
    ("as_of", "snapshot"),
    [
        (4, 4),
        ("v4", 4),
        ("5", 1),
        ("4", 4),
        ("snapshot.5", 5),
        ("watermark-201", 3),
        ("watermark--7", 3),
        (NOON + dt.timedelta(seconds=4.5), 5),
        (dt.date(2024, 5, 15), 6),
        ("2024-05-15", 6),
    ],
)
def test_as_of_takes_an_id_a_tag_a_version_or_a_time(table: TableMetadata, as_of: Any, snapshot: int) -> None:
    assert seen(table, as_of) == snapshot


@pytest.mark.parametrize(
    ("time", "snapshot"),
    [
        (NOON_MILLIS + 2 * SECOND, 3),
        (NOON_MILLIS + 3 * SECOND - 1, 3),
        (NOON_MILLIS + 3 * SECOND, 4),
        ("1715688004000", 5),
        ("2024-05-14 12:00:04", 5),
        ("2024-05-14T14:00:04.999+02:00", 5),
        ("2024-05-14T12:00:05Z", 6),
        (dt.datetime(2024, 5, 14, 12, 0, 4), 5),
        (dt.datetime(2024, 5, 14, 14, 0, 4, tzinfo=dt.timezone(dt.timedelta(hours=2))), 5),
        (dt.datetime(9999, 12, 31), 6),
    ],
)
def test_a_time_sees_what_was_committed_until_then(table: TableMetadata, time: Any, snapshot: int) -> None:
    assert seen(table, timestamp=time) == snapshot


@pytest.mark.parametrize(("seconds", "snapshot"), [(0, 1), (0.5, 1), (1, 2), (1.5, 2)])
def test_a_time_before_all_snapshots_sees_the_newest_older_tag(
    table: TableMetadata, seconds: float, snapshot: int
) -> None:
    assert seen(table, timestamp=NOON + dt.timedelta(seconds=seconds)) == snapshot


@pytest.mark.parametrize("time", [NOON_MILLIS - 1, 0, "1969-12-31", -(10**18)])
def test_a_time_before_everything(table: TableMetadata, time: Any) -> None:
    with pytest.raises(SnapshotNotFound, match=r"at or before .*; the oldest snapshot is of 2024"):
        seen(table, timestamp=time)


def test_a_tag_keeps_an_expired_snapshot(table: TableMetadata, tmp_path: Path) -> None:
    assert seen(table, snapshot=1) == 1
    assert seen(table, "snapshot.2") == 2

    untagged = TableFactory(tmp_path, [("id", "INT")])
    untagged.commit()
    untagged.commit()
    (tmp_path / "snapshot/snapshot-1").unlink()
    with pytest.raises(SnapshotExpired, match="snapshot 1 has expired"):
        seen(TableMetadata(LocalStore(), str(tmp_path)), snapshot=1)


def test_a_tag_is_read_when_all_snapshots_are_gone(tmp_path: Path) -> None:
    TableFactory(tmp_path, [("id", "INT")]).commit()
    (tmp_path / "tag").mkdir()
    (tmp_path / "snapshot/snapshot-1").rename(tmp_path / "tag/tag-last")

    assert seen(TableMetadata(LocalStore(), str(tmp_path)), snapshot=1) == 1


@pytest.mark.parametrize(("watermark", "snapshot"), [(0, 3), (300, 3), (301, 5), (500, 5)])
def test_a_watermark_sees_the_first_snapshot_that_came_so_far(
    table: TableMetadata, watermark: int, snapshot: int
) -> None:
    assert seen(table, watermark=watermark) == snapshot


def test_what_is_not_there(table: TableMetadata) -> None:
    with pytest.raises(SnapshotNotFound, match="no snapshot 7; the snapshots are 3 to 6"):
        seen(table, 7)
    with pytest.raises(TagNotFound, match="no tag 'v9'; the tags are: 5, old, v2, v4"):
        seen(table, tag="v9")
    with pytest.raises(TagNotFound, match="no tag '6'"):
        seen(table, tag="6")
    for version in ("v9", "watermark-", "snapshot.", "4.5", "x4", "٣"):
        with pytest.raises(TagNotFound, match=f"no tag '{version}'"):
            seen(table, version=version)
    with pytest.raises(SnapshotNotFound, match="no snapshot has a watermark at or after 501"):
        seen(table, watermark=501)


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    TableFactory(tmp_path, [("id", "INT")])
    empty = TableMetadata(LocalStore(), str(tmp_path))

    assert resolve_travel(empty, parse_travel()) is None
    with pytest.raises(SnapshotNotFound, match="the table has no snapshots"):
        resolve_travel(empty, parse_travel(timestamp=NOON))


@pytest.mark.parametrize(
    "arguments",
    [
        {"as_of": 1, "tag": "v1"},
        {"snapshot": 1, "timestamp": 0},
        {"as_of": True},
        {"as_of": 1.5},
        {"snapshot": "1"},
        {"snapshot": True},
        {"tag": 1},
        {"version": 1},
        {"tag": "v4", "version": "v4"},
        {"watermark": "5"},
        {"timestamp": False},
        {"timestamp": "noon"},
        {"timestamp": "--5"},
        {"timestamp": "²"},
        {"timestamp": ""},
    ],
)
def test_calls_that_mean_nothing(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        parse_travel(**arguments)


@pytest.mark.parametrize(
    ("options", "travel"),
    [
        ({}, Travel()),
        ({"scan.snapshot-id": " 4 "}, Travel(snapshot=4)),
        ({"scan.tag-name": "v4"}, Travel(tag="v4")),
        ({"scan.version": "5"}, Travel(version="5")),
        ({"scan.timestamp": "2024-05-14 12:00:00"}, Travel(millis=NOON_MILLIS)),
        ({"scan.timestamp-millis": "7"}, Travel(millis=7)),
        ({"scan.watermark": "7"}, Travel(watermark=7)),
    ],
)
def test_travel_may_be_stored_as_an_option(options: dict[str, str], travel: Travel) -> None:
    assert parse_travel_options(options) == travel


@pytest.mark.parametrize(
    "options",
    [{"scan.snapshot-id": "--5"}, {"scan.watermark": "²"}, {"scan.tag-name": "a", "scan.snapshot-id": "1"}],
)
def test_options_that_mean_nothing(options: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match="the option"):
        parse_travel_options(options)


@pytest.mark.parametrize(
    ("time", "millis"),
    [
        (-5, -5),
        (dt.date(1970, 1, 2), 86_400_000),
        ("1969-12-31T23:59:59.999", -1),
        (dt.datetime(1970, 1, 1, 0, 0, 0, 1_999), 1),
    ],
)
def test_times_are_milliseconds_in_utc(time: Any, millis: int) -> None:
    assert to_millis(time) == millis
