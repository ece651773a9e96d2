"""The bytes of a table by what keeps them: each file counts once."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import morrow
from tests.support.written import new_table

KEPT = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2, "write-only": True}


def count_files(table: morrow.Table) -> list[tuple[str, str | None, str | None, int]]:
    return table.storage().select("kept_by", "name", "partition", "files").rows()


def sizes(table: morrow.Table) -> int:
    """Return the bytes of all data files in the folder of the table."""
    return sum(path.stat().st_size for path in Path(table.path).rglob("data-*")) + sum(
        path.stat().st_size for path in Path(table.path).rglob("changelog-*.*") if path.parent.name != "manifest"
    )


def test_files_of_snapshots_tags_and_branches(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT", options=KEPT)
    table.append({"id": [1]})
    table.tags.create("v1")
    table.branches.create("dev", tag="v1")
    table.on_branch("dev").append({"id": [7]})
    for n in range(2, 5):
        table.overwrite({"id": [n]})
    assert count_files(table) == [
        ("live", None, None, 1),
        ("branch", "dev", None, 2),  # the file of the tag, and its own
        ("snapshots", None, None, 1),
        ("expired snapshots", None, None, 1),
    ]
    assert table.storage()["bytes"].sum() == sizes(table)
    table.branches.delete("dev")
    assert ("tag", "v1", None, 1) in count_files(table)
    before = table.storage()
    table.expire_snapshots()
    freed = before.filter(pl.col("kept_by") == "expired snapshots")["bytes"].sum()
    assert before["bytes"].sum() - table.storage()["bytes"].sum() == freed > 0


def test_partitions_and_changelogs(tmp_path: Path) -> None:
    options = {"bucket": 1, "changelog-producer": "input"}
    table = new_table(tmp_path, "id INT, dt STRING", keys=["id", "dt"], by=["dt"], options=options)
    table.upsert({"id": [1, 1], "dt": ["a", "b/c"]})
    table.upsert({"id": [1], "dt": ["a"]})
    assert sorted(count_files(table), key=str) == [
        ("changelogs", None, "dt=a", 2),
        ("changelogs", None, "dt=b/c", 1),
        ("live", None, "dt=a", 2),
        ("live", None, "dt=b/c", 1),
    ]
    assert table.storage()["bytes"].sum() == sizes(table)


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    assert new_table(tmp_path, "id INT").storage().is_empty()
