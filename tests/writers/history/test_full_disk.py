"""Freeing space works in a store without space and on a full disk."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import StorageError
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.tables.table import Table
from morrow.writers.history.snapshot_expiry import expire_all_changelogs
from tests.support.faulty_store import Fault, FaultKind, FaultyStore
from tests.support.written import new_table, rows

ROWS = 20_000
Free = Callable[[morrow.Table], object]


def filled(folder: Path, **options: object) -> morrow.Table:
    """Make five snapshots that each replace all rows, with tags on two of them and an old orphan file."""
    table = new_table(folder, "dt STRING, a BIGINT", by=["dt"], options=options)
    for number in range(5):
        table.overwrite(pl.DataFrame({"dt": ["x"] * ROWS, "a": range(number, number + ROWS)}), dynamic=False)
    table.tags.create("v2", 2)
    table.tags.create("v3", 3)
    orphan = Path(table.path, "dt=x/bucket-0/data-orphan.parquet")
    orphan.write_bytes(os.urandom(50_000))
    os.utime(orphan, (1, 1))
    return table


def expire(table: morrow.Table) -> int:
    return table.expire_snapshots(retain_max=1, retain_min=1, older_than=int(time.time() * 1000) + 1000)


FREE: dict[str, Free] = {
    "expire": expire,
    "orphans": lambda table: table.remove_orphan_files(dry_run=False),
    "rollback": lambda table: table.rollback(snapshot=4),
    "tag": lambda table: (expire(table), table.tags.delete("v2")),
}


def size(table: morrow.Table) -> int:
    return sum(path.stat().st_size for path in Path(table.path).rglob("*") if path.is_file())


@pytest.mark.parametrize("with_hint", [False, True])
@pytest.mark.parametrize("what", FREE)
def test_in_a_store_without_room(tmp_path: Path, what: str, with_hint: bool) -> None:
    table = filled(tmp_path)
    if with_hint:
        table.expire_snapshots(retain_max=4, retain_min=4)
    store = FaultyStore(LocalStore(), Fault(0, FaultKind.NO_SPACE, lasting=True))
    full, before, expected = Table(TableMetadata(store, table.path)), size(table), rows(table)
    if what == "rollback":
        expected = rows(table, snapshot=4)

    FREE[what](full)
    assert size(table) < before
    check_whole(table, what, expected)


def check_whole(table: morrow.Table, what: str, expected: object) -> None:
    """Check that the rows and tags are intact, and that all operations work again once there is space."""
    assert rows(table) == expected
    if what != "tag":
        assert len(rows(table, tag="v2")) == ROWS
    assert len(rows(table, tag="v3")) == ROWS
    if what in ("expire", "tag"):
        assert [snapshot.id for snapshot in table.snapshots()] == [5]
    table.append(pl.DataFrame({"dt": ["y"], "a": [-1]}))
    expire(table)
    table.tags.delete("v3")
    table.remove_orphan_files(older_than=int(time.time() * 1000), dry_run=False)
    with suppress(morrow.errors.TagNotFound):
        table.tags.delete("v2")
    assert rows(table) == [("x", *row[1:]) for row in expected] + [("y", -1)]  # type: ignore[attr-defined]  # rows
    left = [path for path in Path(table.path).rglob("data-*") if path.is_file()]
    assert len(left) == len(table.scan().plan.files)


OUTLIVED = {
    "changelog-producer": "input",
    "snapshot.num-retained.min": 1,
    "snapshot.num-retained.max": 50,
    "changelog.num-retained.min": 1,
    "changelog.num-retained.max": 50,
    "bucket": 1,
}


def with_changelogs(folder: Path) -> morrow.Table:
    """Make changelogs 1 and 2 and snapshots 3 to 6: each replaces all rows, and 6 compacts them."""
    table = new_table(folder, "a BIGINT, b STRING", keys=["a"], options={**OUTLIVED, "changelog.num-retained.max": 60})
    for number in range(5):
        table.upsert(pl.DataFrame({"a": range(ROWS), "b": [f"{number}-{i}" for i in range(ROWS)]}))
    table.compact(full=True)
    table.expire_snapshots(retain_max=4, retain_min=4, older_than=int(time.time() * 1000) + 1000)
    return table


@pytest.mark.parametrize("what", ["expire", "changelogs"])
def test_changelogs_that_outlive_snapshots_in_a_store_without_room(tmp_path: Path, what: str) -> None:
    table = with_changelogs(tmp_path)
    store = FaultyStore(LocalStore(), Fault(0, FaultKind.NO_SPACE, lasting=True))
    full, before, expected = Table(TableMetadata(store, table.path)), size(table), rows(table)
    changes = table.changes(2, 5, mode="changelog").to_polars().rows()
    later = int(time.time() * 1000) + 1000
    if what == "expire":
        assert full.expire_snapshots(retain_max=1, retain_min=1, older_than=later) == 3
    else:
        assert full.expire_changelogs(retain_max=4, retain_min=4, older_than=later) == 1
    assert size(table) < before
    assert rows(table) == expected
    assert table.changes(2, 5, mode="changelog").to_polars().rows() == changes
    folder = Path(table.path, "changelog")
    left = sorted(int(path.name.removeprefix("changelog-")) for path in folder.glob("changelog-*"))
    assert left == ([1, 2, 3, 4, 5] if what == "expire" else [2])

    table.upsert(pl.DataFrame({"a": [-1], "b": ["new"]}))  # there is space again
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=later + 5000)
    expire_all_changelogs(table._metadata)
    table.remove_orphan_files(older_than=int(time.time() * 1000), dry_run=False)
    assert rows(table) == [(-1, "new"), *expected]
    data = [path for path in Path(table.path).rglob("data-*") if path.is_file()]
    assert len(data) == len(table.scan().plan.files)
    assert len(list(Path(table.path).rglob("bucket-*/changelog-*"))) == 1  # the newest snapshot's


def test_what_needs_room_changes_nothing(tmp_path: Path) -> None:
    table = filled(tmp_path)
    store = FaultyStore(LocalStore(), Fault(0, FaultKind.NO_SPACE, lasting=True))
    full, expected = Table(TableMetadata(store, table.path)), rows(table)
    for change in (
        lambda: full.drop_partition({"dt": "x"}),
        lambda: full.tags.create("v"),
        lambda: full.append([{"dt": "z", "a": 1}]),
    ):
        with pytest.raises(StorageError, match="No space left on device"):
            change()
    assert rows(table) == expected
    assert len(table.snapshots()) == 5


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 6 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", place], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no disk can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def fill(folder: Path) -> None:
    """Fill the disk to its last byte."""
    with (folder / "filling").open("wb", buffering=0) as file:
        for piece in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * piece)
            except OSError as error:
                assert error.errno == errno.ENOSPC


@pytest.mark.parametrize("what", FREE)
def test_on_a_full_disk(disk: Path, what: str) -> None:
    table = filled(disk)
    before = rows(table, snapshot=4) if what == "rollback" else rows(table)
    fill(disk)
    with pytest.raises(StorageError, match="No space left on device; make room"):
        table.append(pl.DataFrame({"dt": ["y"] * ROWS, "a": range(ROWS)}))

    FREE[what](table)
    (disk / "filling").unlink()
    check_whole(table, what, before)
