"""Expiry of old partitions, by the time in their values or by their last update."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.binary_row import Value
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField, DateType, IntType, TimestampType, VarCharType
from morrow.engine.options.retention import parse_default_time, parse_partition_expiry, parse_partition_time
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.commit.committer import Committer
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.commit.snapshot_metadata import SnapshotRequest
from morrow.writers.history.partition_expiry import PartitionExpiry, expire_partitions
from morrow.writers.target import WriteTarget
from tests.engine.format.test_date_patterns import nanos
from tests.support.written import new_table, rows

WEEK = {"partition.expiration-time": "7 d"}
NOON = dt.datetime(2024, 1, 12, 12)
"""Seven days after January 5, 12:00."""


def days(folder: Path, values: Sequence[str | None], options: Mapping[str, object] = WEEK) -> morrow.Table:
    """Make a table partitioned by `dt` with one row in each partition."""
    table = new_table(folder, "dt STRING, v INT", by=["dt"], options=options)
    table.append(pl.DataFrame({"dt": values, "v": range(len(values))}, schema={"dt": pl.String, "v": pl.Int32}))
    return table


def metadata(table: morrow.Table) -> TableMetadata:
    return table._metadata


def left(table: morrow.Table) -> list[Any]:
    return sorted({row[0] for row in rows(table)}, key=str)


def test_compactions_leave_out_expired_partitions(tmp_path: Path) -> None:
    values = ["2024-01-01", dt.date.today().isoformat()]
    table = days(tmp_path, values, WEEK | {"compaction.skip-expired-partitions": "true", "write-only": "true"})
    table.append({"dt": values, "v": [8, 9]})

    table.compact(full=True)

    files = table.system("files").to_polars()["partition"].to_list()
    assert [sum(value in each for each in files) for value in values] == [2, 1]


def test_compactions_of_write_only_tables_end_with_their_maintenance(tmp_path: Path) -> None:
    """As dedicated compaction jobs of Java do; other writers leave expiry to them."""
    values = ["2024-01-01", dt.date.today().isoformat()]
    table = days(tmp_path, values, WEEK | {"end-input.check-partition-expire": "true", "write-only": "true"})
    table.append({"dt": values, "v": [8, 9]})
    assert left(table) == values

    table.compact(full=True)

    assert left(table) == values[1:]


def test_partitions_whose_values_are_too_old_are_dropped(tmp_path: Path) -> None:
    table = days(tmp_path, ["2024-01-09", "2024-01-01", "2024-01-05", "2024-01-06"])
    before = metadata(table).latest_snapshot()

    assert expire_partitions(metadata(table), now=NOON) == [{"dt": "2024-01-01"}, {"dt": "2024-01-05"}]

    assert left(table) == ["2024-01-06", "2024-01-09"]
    dropped = metadata(table).latest_snapshot()
    assert before is not None and dropped is not None
    assert (dropped.id, dropped.commit_kind) == (before.id + 1, "OVERWRITE")
    assert expire_partitions(metadata(table), now=NOON) == []
    assert metadata(table).latest_snapshot() == dropped  # nothing to drop, so nothing is committed


def test_a_partition_of_exactly_the_age_stays(tmp_path: Path) -> None:
    table = days(tmp_path, ["2024-01-05"])
    assert expire_partitions(metadata(table), now=dt.datetime(2024, 1, 12)) == []
    assert expire_partitions(metadata(table), now=dt.datetime(2024, 1, 12, 0, 0, 0, 1)) == [{"dt": "2024-01-05"}]


def test_partitions_without_a_time_stay_and_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = days(tmp_path, ["2024-01-01", "misc", None])
    with caplog.at_level(logging.WARNING):
        assert expire_partitions(metadata(table), now=NOON) == [{"dt": "2024-01-01"}]
    assert left(table) == [None, "misc"]
    assert "2 partitions never expire" in caplog.text


def test_arguments_come_before_options(tmp_path: Path) -> None:
    table = days(tmp_path, ["20240101", "20240110"], {"partition.timestamp-formatter": "yyyy/MM/dd"})
    dropped = expire_partitions(
        metadata(table), expiration_time=dt.timedelta(days=7), timestamp_formatter="yyyyMMdd", now=NOON
    )
    assert dropped == [{"dt": "20240101"}]


def test_several_partition_columns(tmp_path: Path) -> None:
    table = new_table(tmp_path, "y INT, m INT, v INT", by=["y", "m"], options=WEEK)
    table.append(pl.DataFrame({"y": [2023, 2024, 2024], "m": [12, 1, 2], "v": [1, 2, 3]}).cast(pl.Int32))
    dropped = expire_partitions(metadata(table), timestamp_pattern="$y-$m-01", now=NOON)
    assert dropped == [{"y": 2023, "m": 12}, {"y": 2024, "m": 1}]
    assert rows(table) == [(2024, 2, 3)]


def test_the_first_by_their_values_go_first_in_commits_of_a_batch_each(tmp_path: Path) -> None:
    table = days(tmp_path, ["2023-01-03", "2023-01-01", "2023-01-02", "2023-01-04"])
    dropped = expire_partitions(metadata(table), max_expires=3, batch_size=2, now=NOON)
    assert dropped == [{"dt": "2023-01-01"}, {"dt": "2023-01-02"}, {"dt": "2023-01-03"}]
    assert (dropped.left, dropped.kept_by) == (1, "max_expires is 3; due: 1 more")
    assert repr(dropped).endswith(" (1 left: max_expires is 3; due: 1 more)")
    assert left(table) == ["2023-01-04"]
    assert [s.commit_kind for s in metadata(table).snapshots()] == ["APPEND", "OVERWRITE", "OVERWRITE"]


def test_the_limit_of_writers_does_not_stop_a_call(tmp_path: Path) -> None:
    days_of_may = [f"2023-05-{day:02}" for day in range(1, 6)]
    table = days(tmp_path, days_of_may, {**WEEK, "partition.expiration-max-num": "2"})
    assert [one["dt"] for one in expire_partitions(metadata(table), now=NOON)] == days_of_may
    assert [s.commit_kind for s in metadata(table).snapshots()] == ["APPEND", *["OVERWRITE"] * 3]


def test_by_update_time_the_newest_file_counts(tmp_path: Path) -> None:
    table = days(tmp_path, ["a", None], {})
    now = dt.datetime.now()
    week = dt.timedelta(days=7)
    assert expire_partitions(metadata(table), strategy="update-time", expiration_time=week, now=now) == []
    later = now + dt.timedelta(days=8)
    dropped = expire_partitions(metadata(table), strategy="update-time", expiration_time=week, now=later)
    assert dropped == [{"dt": None}, {"dt": "a"}]  # null sorts as __DEFAULT_PARTITION__
    assert rows(table) == []


def test_what_was_written_to_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = days(tmp_path, ["a", "b"], {})
    found_at = dt.datetime.now() + dt.timedelta(seconds=1)
    create = Committer.create

    def others_first(committer: Committer, request: SnapshotRequest) -> Snapshot:
        monkeypatch.undo()
        time.sleep(max(0.0, (found_at - dt.datetime.now()).total_seconds()))
        table.append(pl.DataFrame({"dt": ["a"], "v": [9]}, schema_overrides={"v": pl.Int32}))
        return create(committer, request)

    monkeypatch.setattr(Committer, "create", others_first)
    none = dt.timedelta(0)
    dropped = expire_partitions(metadata(table), strategy="update-time", expiration_time=none, now=found_at)
    assert dropped == [{"dt": "b"}]
    assert rows(table) == [("a", 0), ("a", 9)]


def test_keyed_tables_drop_whole_buckets(tmp_path: Path) -> None:
    table = new_table(tmp_path, "dt STRING, k INT, v INT", keys=["dt", "k"], by=["dt"], options={"bucket": "2", **WEEK})
    data = pl.DataFrame({"dt": ["2024-01-01", "2024-01-10"] * 2, "k": [1, 1, 2, 2], "v": [1, 2, 3, 4]})
    table.upsert(data.cast({"k": pl.Int32, "v": pl.Int32}))
    assert expire_partitions(metadata(table), now=NOON) == [{"dt": "2024-01-01"}]
    assert rows(table) == [("2024-01-10", 1, 2), ("2024-01-10", 2, 4)]


def test_calls_without_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="expiration_time"):
        expire_partitions(metadata(days(tmp_path, ["2024-01-01"], {})))
    flat = new_table(tmp_path, "v INT", name="flat")
    with pytest.raises(InvalidArgument, match="no partitions"):
        expire_partitions(metadata(flat), expiration_time="7 d")


@pytest.mark.parametrize(
    "arguments", [{"expiration_time": 7}, {"expiration_time": "7 d", "now": "2024-01-10"}, {"expiration_time": "-1 d"}]
)
def test_what_is_no_time_is_refused_before_anything_goes(tmp_path: Path, arguments: dict[str, Any]) -> None:
    """A plain 7 would be milliseconds."""
    table = days(tmp_path, ["2024-01-01"], {})
    with pytest.raises(InvalidArgument, match=r"expiration.time|now"):
        expire_partitions(metadata(table), **arguments)
    assert len(rows(table)) == 1


def test_an_empty_table_has_nothing_to_drop(tmp_path: Path) -> None:
    assert expire_partitions(metadata(new_table(tmp_path, "dt STRING, v INT", by=["dt"], options=WEEK))) == []


def test_a_writer_looks_once_in_an_interval_and_at_the_end_of_a_batch(tmp_path: Path) -> None:
    def expiry(**options: object) -> PartitionExpiry:
        named = {f"partition.{key.replace('_', '-')}": value for key, value in options.items()}
        end = {"end-input.check-partition-expire": named.pop("partition.at-end", "false")}
        table = new_table(tmp_path, "dt STRING", by=["dt"], options={**WEEK, **named, **end}, name=f"t{len(made)}")
        made.append(table)
        found = PartitionExpiry.of(WriteTarget.of(metadata(table)))
        assert found is not None
        return found

    made: list[morrow.Table] = []
    now = dt.datetime.now()

    hourly = expiry()
    assert not hourly.due(now)  # its first run is at a random time, so that short jobs expire partitions now and then
    assert hourly.due(now + dt.timedelta(hours=2))
    hourly.run(now + dt.timedelta(hours=2))
    assert not hourly.due(now + dt.timedelta(hours=3))
    assert not hourly.due(now, identifier=BATCH_COMMIT_IDENTIFIER)

    assert expiry(expiration_check_interval="0 s").due(now)
    assert expiry(at_end="true").due(now, identifier=BATCH_COMMIT_IDENTIFIER)
    assert not expiry(at_end="true").due(now, identifier=7)


def test_tables_whose_partitions_do_not_expire_have_no_expiry(tmp_path: Path) -> None:
    assert PartitionExpiry.of(WriteTarget.of(metadata(days(tmp_path, [], {})))) is None


def test_strict_tables_refuse_rows_of_partitions_without_a_time(tmp_path: Path) -> None:
    strict = {"partition.timestamp-format.strict": "true", "partition.timestamp-formatter": "yyyyMMdd"}
    table = days(tmp_path, ["20240101"], strict)
    with pytest.raises(InvalidArgument, match=r"dt='2024-01-02'.*timestamp-format.strict"):
        table.append(pl.DataFrame({"dt": ["2024-01-02"], "v": [1]}, schema_overrides={"v": pl.Int32}))
    assert left(table) == ["20240101"]


# The time of a partition, computed from its values like Java's PartitionTimeExtractor.

JAVA_READS = [
    ("2024-01-31", "2024-01-31T00:00"),
    ("2024-1-5", "2024-01-05T00:00"),
    ("24-1-1", "0024-01-01T00:00"),
    ("2024-13-45", "2025-02-14T00:00"),
    ("2024-02-30", "2024-03-01T00:00"),
    ("0000-00-00", "-0001-11-30T00:00"),
    ("-5-01-01", "-0005-01-01T00:00"),
    ("-0-01-01", None),
    ("2024--1-01", "2023-11-01T00:00"),
    ("12345678901-01-01", None),
    ("9999999999-01-01", None),
    ("2024-01-31 07:08:09", "2024-01-31T07:08:09"),
    ("2024-01-31 7:8:9", "2024-01-31T07:08:09"),
    ("2024-01-31 24:00:00", "2024-02-01T00:00"),
    ("2024-01-31 25:61:61", "2024-02-01T02:02:01"),
    ("2024-01-31 00:00:00.5", "2024-01-31T00:00:00.500"),
    ("2024-01-31 00:00:00.1234567890", None),
    ("2024-01-31 00:00", None),
    ("2024-01-31T00:00:00", None),
    ("2024-01-31 ", None),
    ("20240131", None),
    ("", None),
    ("19723", None),
    ("+2024-01-31", None),
]
"""Texts and the times that Java prints without a pattern and formatter (None if it throws)."""

TEXT = VarCharType(10)


@pytest.mark.parametrize(("text", "time"), JAVA_READS)
def test_without_formatter_dates_and_times_are_read_leniently(text: str, time: str | None) -> None:
    assert parse_default_time(text) == nanos(time)


@pytest.mark.parametrize(
    ("pattern", "formatter", "partition", "time"),
    [
        (None, None, {"dt": "2024-01-31", "hr": None}, "2024-01-31T00:00"),
        (None, None, {"hr": "7", "dt": "2024-01-31"}, None),
        (None, None, {"dt": None}, None),
        ("$year-$month-$day", None, {"year": "2024", "month": "1", "day": "31"}, "2024-01-31T00:00"),
        ("$year-$month-01 $h:00:00", None, {"year": "2024", "month": "1", "h": "7"}, "2024-01-01T07:00"),
        ("$dt", None, {"region": "eu", "dt": "2024-01-31"}, "2024-01-31T00:00"),
        ("$dt $hr", "yyyyMMdd HH", {"dt": "20240131", "hr": "07"}, "2024-01-31T07:00"),
        ("2024-$month-$m", None, {"month": "1", "m": "3"}, "2024-01-03T00:00"),
        ("2024-$month-$m", None, {"m": "3", "month": "1"}, "2024-01-03T00:00"),  # $month contains $m
        ("$dt", None, {"dt": "2024-01-31", "hr": None}, None),
    ],
)
def test_a_pattern_puts_values_together(
    pattern: str | None, formatter: str | None, partition: dict[str, str | None], time: str | None
) -> None:
    fields = [DataField(i, name, TEXT) for i, name in enumerate(partition)]
    assert _time(fields, [*partition.values()], pattern, formatter) == nanos(time)


@pytest.mark.parametrize(
    ("field", "value", "formatter", "time"),
    [
        (DataField(0, "d", DateType()), dt.date(2024, 1, 31), None, None),  # Java sees the days since 1970, 19753
        (DataField(0, "i", IntType()), 20240131, "yyyyMMdd", "2024-01-31T00:00"),
        (DataField(0, "t", TimestampType(3)), dt.datetime(2024, 1, 31, 7), None, None),
        (DataField(0, "t", TimestampType(3)), dt.datetime(2024, 1, 31, 7), "yyyy-MM-dd'T'HH:mm", "2024-01-31T07:00"),
    ],
)
def test_values_are_texts_as_java_prints_them(
    field: DataField, value: Value, formatter: str | None, time: str | None
) -> None:
    assert _time([field], [value], None, formatter) == nanos(time)


def _time(
    fields: Sequence[DataField], values: Sequence[Value], pattern: str | None, formatter: str | None
) -> int | None:
    given = {"partition.timestamp-pattern": pattern, "partition.timestamp-formatter": formatter}
    raw = {key: value for key, value in given.items() if value is not None}
    return parse_partition_time(parse_partition_expiry(raw, where="t"), fields, values)
