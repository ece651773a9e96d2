"""Folders of partitions that may have several names: the one on disk counts."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import Unsupported
from tests.support.s3_server import BUCKET, running
from tests.support.written import new_table

OF_JAVA_17, OF_JAVA_19 = "p=1.9999999999999998E23", "p=2.0E23"
BY_SQL = {"partition.legacy-name": "false"}


def folders(table: morrow.Table) -> list[str]:
    return sorted(path.name for path in Path(table.path).iterdir() if "=" in path.name)


def rows(table: morrow.Table) -> list[tuple[object, ...]]:
    return sorted(morrow.open(table.path).scan().to_polars().rows(), key=str)


def test_doubles_have_the_digits_of_java_8_to_18(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, p DOUBLE", by=["p"], options=BY_SQL)
    table.append({"id": [1, 2, 3], "p": [2e23, 2.0**63, 0.1]})
    assert folders(table) == ["p=0.1", OF_JAVA_17, "p=9.223372036854776E18"]
    assert rows(table) == [(1, 2e23), (2, 2.0**63), (3, 0.1)]


@pytest.mark.parametrize("options", [{}, BY_SQL], ids=["legacy", "sql"])
def test_a_partition_that_java_19_has_named_is_read_and_written(tmp_path: Path, options: dict[str, str]) -> None:
    table = new_table(tmp_path, "id INT, p DOUBLE", by=["p"], options=options)
    table.append({"id": [1], "p": [2e23]})
    Path(table.path, OF_JAVA_17).rename(Path(table.path, OF_JAVA_19))
    table = morrow.open(table.path)
    table.append({"id": [2], "p": [2e23]})
    assert folders(table) == [OF_JAVA_19]
    assert rows(table) == [(1, 2e23), (2, 2e23)]
    table.compact(full=True)
    table.delete("id = 1")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=dt.timedelta(0))
    assert rows(table) == [(2, 2e23)]


@pytest.mark.parametrize(
    ("options", "kind", "value", "newer", "older"),
    [
        ({}, "DOUBLE", 2e23, OF_JAVA_19, OF_JAVA_17),
        (BY_SQL, "DATE", dt.date(2024, 1, 31), "p=2024-01-31", "p=19753"),
    ],
    ids=["Java 17 and 19", "Paimon 0.9 and later"],
)
@pytest.mark.parametrize("vectors", [False, True], ids=["plain", "deletion vectors"])
def test_a_partition_in_two_folders(
    tmp_path: Path, options: dict[str, str], kind: str, value: object, newer: str, older: str, vectors: bool
) -> None:
    """Two versions have written to it, each to the folder that it names: it is read, and not written any more."""
    options = {**options, "deletion-vectors.enabled": "true"} if vectors else options
    table = new_table(tmp_path, f"id INT, p {kind}", by=["p"], options={**options, "bucket": -1})
    table.append({"id": [1, 2], "p": [value, value]})
    (first,) = folders(table)
    here, there = Path(table.path, first), Path(table.path, newer if first == older else older)
    shutil.move(here, tmp_path / "aside")
    table = morrow.open(table.path)
    table.append({"id": [3, 4], "p": [value, value]})
    table.delete("id = 4")
    here.rename(there)
    shutil.move(tmp_path / "aside", here)
    assert all(any(place.rglob("data-*")) for place in (here, there))

    morrow.clear_caches()
    table = morrow.open(table.path)
    assert rows(table) == [(n, value) for n in (1, 2, 3)]
    assert table.scan(filter="id = 3").count() == 1
    assert table.remove_orphan_files(older_than=dt.timedelta(0), dry_run=True).paths == ()
    table.delete("id = 9")
    for write in (
        lambda: table.append({"id": [5], "p": [value]}),
        lambda: table.update({"id": 6}, "id = 1"),
        lambda: table.compact(full=True),
        lambda: table.overwrite({"id": [5], "p": [value]}),
    ):
        with pytest.raises(Unsupported, match=r"writing a partition in the folders p=\S+ and p="):
            write()
    assert rows(table) == [(n, value) for n in (1, 2, 3)]
    if vectors:  # which lie elsewhere
        table.delete("id = 2 OR id = 3")
        assert rows(table) == [(1, value)]
        table.rollback(table.snapshots()[-2].id)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=dt.timedelta(0))
    assert rows(table) == [(n, value) for n in (1, 2, 3)]


def test_a_table_of_paimon_0_9_is_written_as_it_is(tmp_path: Path) -> None:
    """It has the names of old, whatever the option says."""
    day, later = dt.date(2024, 1, 31), dt.date(2024, 2, 1)
    table = new_table(tmp_path, "id INT, p DATE", keys=["p", "id"], by=["p"], options={**BY_SQL, "bucket": 1})
    table.upsert({"id": [1, 2], "p": [day, day]})
    Path(table.path, "p=2024-01-31").rename(Path(table.path, "p=19753"))
    table = morrow.open(table.path)
    table.upsert({"id": [2, 3, 4], "p": [day, day, later]})
    table.compact(full=True)
    table.delete("id = 1")
    assert folders(table) == ["p=19753", "p=2024-02-01"]
    assert rows(table) == [(2, day), (3, day), (4, later)]


@pytest.mark.parametrize("keys", [[], ["p", "id"]], ids=["append", "keyed"])
def test_bytes_have_no_legacy_name(tmp_path: Path, keys: list[str]) -> None:
    table = new_table(
        tmp_path, "id INT, p BYTES", keys=keys, by=["p"], options={**BY_SQL, "bucket": 1, "bucket-key": "id"}
    )
    table.append({"id": [1, 2], "p": [b"a/b", "ü".encode()]})
    assert folders(table) == ["p=a%2Fb", "p=ü"]
    assert rows(table) == [(1, b"a/b"), (2, "ü".encode())]


def test_folders_far_away_are_looked_for_many_at_once() -> None:
    with running() as server:
        catalog = morrow.Catalog(f"s3://{BUCKET}/w", storage_options=server.options)
        table = catalog.create_table("db.t", schema="id INT, p DATE", partition_keys=["p"], options=BY_SQL)
        days = [dt.date(1969, 12, 1) + dt.timedelta(n) for n in range(40)]
        table.append({"id": list(range(40)), "p": days})
        morrow.clear_caches()
        server.asked.clear()
        server.latency = 0.02
        plan = morrow.open(table.path, storage_options=server.options).scan().plan
        assert len(plan.files) == 40
        assert {file.path.split("/")[-3] for file in plan.files} == {f"p={day}" for day in days}
        assert server.rounds() < 12  # not 40, one after another
