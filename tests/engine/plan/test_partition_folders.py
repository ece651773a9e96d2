"""Folders of partitions that may have several names: the one on disk counts."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import morrow
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
