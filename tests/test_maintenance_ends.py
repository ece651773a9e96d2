"""Maintenance on request goes on to the end, or says what stays; options limit the maintenance after commits."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import morrow
from morrow.cli.app import app
from morrow.writers.history import orphan_files
from tests.support.command_line import CliRunner
from tests.support.written import new_table, rows

OPTIONS: dict[str, object] = {
    "write-only": True,
    "snapshot.expire.limit": 1,
    "partition.expiration-max-num": 1,
    "partition.expiration-batch-size": 1,
    "compaction.file-num-limit": 2,
}
COUNT = 5


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """As many snapshots and expired partitions as `COUNT`, with an expired tag each, and as many orphan files."""
    table = new_table(tmp_path, "id INT, dt STRING", by=["dt"], options=OPTIONS)
    for number in range(1, COUNT + 1):
        snapshot = table.append([{"id": number, "dt": f"2001-01-0{number}"}])
        assert snapshot is not None
        table.tags.create(f"t{number}", snapshot.id, time_retained="1 ms")
        orphan = Path(table.path) / f"dt=2001-01-0{number}/bucket-0/data-{number}.parquet"
        orphan.write_bytes(b"")
        os.utime(orphan, (0, 0))
    return table


def call(table: morrow.Table, name: str, **arguments: object) -> None:
    told = ", ".join(f"{key} => {value!r}" for key, value in {"table": "db.t", **arguments}.items())
    morrow.Catalog(Path(table.path).parent.parent).sql(f"CALL sys.{name}({told})").fetchall()


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.stderr
    return result


SNAPSHOTS: dict[str, Callable[[morrow.Table], object]] = {
    "method": lambda table: table.expire_snapshots(retain_max=1, retain_min=1),
    "CALL": lambda table: call(table, "expire_snapshots", retain_max=1, retain_min=1),
    "command": lambda table: run("expire", "--yes", table.path, "--retain-max", 1, "--retain-min", 1),
}


@pytest.mark.parametrize("face", SNAPSHOTS)
def test_snapshots(table: morrow.Table, face: str) -> None:
    SNAPSHOTS[face](table)
    assert [snapshot.id for snapshot in table.snapshots()] == [COUNT]


PARTITIONS: dict[str, Callable[[morrow.Table], object]] = {
    "method": lambda table: table.expire_partitions(dt.timedelta(days=1), timestamp_formatter="yyyy-MM-dd"),
    "CALL": lambda table: call(table, "expire_partitions", expiration_time="1 d", timestamp_formatter="yyyy-MM-dd"),
}


@pytest.mark.parametrize("face", PARTITIONS)
def test_partitions(table: morrow.Table, face: str) -> None:
    PARTITIONS[face](table)
    assert rows(table) == []


ORPHANS: dict[str, Callable[[morrow.Table], object]] = {
    "method": lambda table: table.remove_orphan_files(dry_run=False),
    "CALL": lambda table: call(table, "remove_orphan_files"),
    "command": lambda table: run("orphans", table.path, "--delete", "--yes"),
    "purge": lambda table: table.purge(),
}


@pytest.mark.parametrize("face", ORPHANS)
def test_orphan_files(table: morrow.Table, face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphan_files, "MAX_DELETIONS_AT_ONCE", 2)
    ORPHANS[face](table)
    assert table.remove_orphan_files().count == 0


TAGS: dict[str, Callable[[morrow.Table], object]] = {
    "method": lambda table: table.tags.expire(),
    "CALL": lambda table: call(table, "expire_tags"),
    "purge": lambda table: table.purge(),
}


@pytest.mark.parametrize("face", TAGS)
def test_tags(table: morrow.Table, face: str) -> None:
    TAGS[face](table)
    assert list(table.tags) == []


COMPACTIONS: dict[str, Callable[[morrow.Table], object]] = {
    "method": lambda table: table.compact(full=True),
    "CALL": lambda table: call(table, "compact"),
    "command": lambda table: run("compact", table.path, "--full"),
}


@pytest.mark.parametrize("face", COMPACTIONS)
def test_compaction_says_what_stays(tmp_path: Path, face: str, caplog: pytest.LogCaptureFixture) -> None:
    table = new_table(tmp_path, "id INT", options=OPTIONS)
    for number in range(COUNT):
        table.append([{"id": number}])
    COMPACTIONS[face](table)
    assert f"{COUNT - 2} small files stay for the next compaction: 'compaction.file-num-limit' is 2" in caplog.text
