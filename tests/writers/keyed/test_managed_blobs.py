"""BLOB columns of tables with a primary key: packs of values, and references of data files to them."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.blobs import decode_descriptor, decode_references

COLUMNS = "id INT, n STRING, pic BLOB, gallery ARRAY<BLOB>, named MAP<INT, BLOB>"


def make_table(path: Path, **options: Any) -> morrow.Table:
    catalog = morrow.Catalog(path / "lake")
    catalog.create_database("db")
    given = {"bucket": "1"} | {name.replace("_", "-"): value for name, value in options.items()}
    return catalog.create_table("db.t", COLUMNS, primary_keys=["id"], options=given)


def row(id: int, n: str | None, pic: object, gallery: object = None, named: object = None) -> dict[str, Any]:
    return {"id": id, "n": n, "pic": pic, "gallery": gallery, "named": named}


def read(table: morrow.Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def list_packs(table: morrow.Table) -> set[str]:
    return {path.name for path in Path(table.path).rglob("*.managed.blob")}


@pytest.mark.parametrize(
    ("engine", "first"),
    [
        ("deduplicate", row(1, None, b"P", [b"G"], [(2, None)])),
        ("partial-update", row(1, "a", b"P", [b"G"], [(2, None)])),
        ("first-row", row(1, "a", b"p", [b"g", None], [(1, b"x")])),
    ],
)
def test_versions_are_merged_before_blobs_are_read(tmp_path: Path, engine: str, first: dict[str, Any]) -> None:
    table = make_table(tmp_path, merge_engine=engine)
    table.upsert([row(1, "a", b"p", [b"g", None], {1: b"x"}), row(2, "b", None, [], {})])
    table.upsert([row(1, None, io.BytesIO(b"P"), [b"G"], {2: None}), row(3, None, b"q")])
    expected = [first, row(2, "b", None, [], []), row(3, None, b"q")]

    assert read(table) == expected
    assert [blob["pic"] and bytes(blob["pic"]) for blob in sorted(table.scan().rows(), key=lambda r: r["id"])] == [
        each["pic"] for each in expected
    ]
    packs = list_packs(table)
    table.compact()
    assert read(table) == expected
    assert list_packs(table) == packs, "compaction copies no value"
    assert table.scan().verify() > 0


def test_each_data_file_names_the_packs_of_its_rows(tmp_path: Path) -> None:
    table = make_table(tmp_path, write_only="true")
    table.upsert([row(1, "a", b"p", [b"g"])])
    table.upsert([row(2, "b", None)])
    table.delete("id = 1")

    found = {}
    for file in table.scan().plan.files:
        found[file.max_sequence] = decode_references(Path(f"{file.path}.blobref").read_bytes(), file.path)
    assert [len(packs) for _, packs in sorted(found.items())] == [2, 0, 0]
    assert {Path(pack).name for packs in found.values() for pack in packs} == list_packs(table)
    described = table.with_options({"blob-as-descriptor": "true"}).scan(["pic"], snapshot=1).to_polars().item()
    assert Path(decode_descriptor(described, "t").uri).name in list_packs(table)


def test_packs_stay_with_tags_and_references_go_with_files(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.upsert([row(1, "a", b"p")])
    table.tags.create("first")
    table.upsert([row(1, "a", b"q")])
    table.compact()
    table.expire_snapshots(retain_max=1, retain_min=1)

    assert table.scan(["pic"], tag="first").to_polars().item() == b"p"
    assert table.scan(["pic"]).to_polars().item() == b"q"
    data = {path.name for path in Path(table.path).rglob("*.parquet")}
    assert {path.name.removesuffix(".blobref") for path in Path(table.path).rglob("*.blobref")} == data


def test_packs_that_no_row_names_are_orphans(tmp_path: Path) -> None:
    """A snapshot, a tag and a branch each need one pack."""
    table = make_table(tmp_path)
    for value in (b"gone", b"branch", b"tag", b"new"):
        table.upsert([row(1, "a", value)])
        table.compact(full=True)
        table.tags.create(value.decode())
    table.branches.create("kept", tag="branch")
    for name in ("gone", "branch", "new"):
        table.tags.delete(name)
    table.expire_snapshots(retain_max=1, retain_min=1)
    named = list_packs(table)
    found = table.remove_orphan_files(dt.timedelta(0), dry_run=False)
    assert len(found.paths) == 1
    assert list_packs(table) == named - {Path(found.paths[0]).name}

    assert [table.scan(["pic"], **at).to_polars().item() for at in ({}, {"tag": "tag"})] == [b"new", b"tag"]
    assert table.on_branch("kept").scan(["pic"]).to_polars().item() == b"branch"
    for lost in Path(table.path).rglob("*.blobref"):
        lost.unlink()
    with pytest.raises(morrow.MorrowError, match="blobref"):
        table.remove_orphan_files(dt.timedelta(0), dry_run=False)
    assert list_packs(table) == named - {Path(found.paths[0]).name}


def test_a_failed_write_leaves_no_pack(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    with pytest.raises(morrow.MorrowError, match="absent"):
        table.upsert([row(1, "a", b"p"), row(2, "b", tmp_path / "absent")])
    assert list_packs(table) == set()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"merge_engine": "aggregation"}, "'merge-engine' = aggregation"),
        ({"changelog_producer": "input"}, "'changelog-producer' = input"),
        ({"bucket": "-2"}, "'bucket' = -2"),
    ],
)
def test_options_that_blobs_do_not_go_with(tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        make_table(tmp_path, **options)
