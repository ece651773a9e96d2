"""Many small partitions in one scan have the same rows as partitions read one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import CorruptFile
from morrow.engine.io.local import LocalStore
from morrow.readers.execution import section_reads, strategy
from tests.support.profile import every
from tests.support.written import new_table

TABLES: dict[str, tuple[bool, dict[str, object]]] = {
    "append": (False, {"deletion-vectors.enabled": True}),
    "keyed": (True, {"bucket": 1}),
    "folded": (
        True,
        {"bucket": 1, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": True},
    ),
}
FILTERS = (None, "v < 50", "p = 'p3'", "q = 0.0 AND v > 30", "p <> 'p1' OR v = 4", "p || v = 'p12'", "q = 'nan'")


def many(path: Path, kind: str) -> morrow.Table:
    """Make fifteen partitions with deleted rows; some have one more column."""
    keyed, options = TABLES[kind]
    schema = "id INT, p STRING, q DOUBLE, v INT"
    table = new_table(path, schema, keys=["id", "p", "q"] if keyed else [], by=["p", "q"], options=options)
    rows = pl.DataFrame({"id": range(300)}).select(
        pl.col("id").cast(pl.Int32),
        p="p" + (pl.col("id") % 5).cast(pl.String),
        q=pl.when(pl.col("id") % 4 == 0).then(-0.0).when(pl.col("id") % 4 == 1).then(0.0).otherwise(float("nan")),
        v=(pl.col("id") % 97).cast(pl.Int32),
    )
    table.append(rows)
    table.delete("v < 10")
    table.alter.add_column("w", "INT")
    table.append(rows.filter(pl.col("id") % 7 == 0).with_columns(w=pl.lit(1, pl.Int32)))
    return table


@pytest.mark.parametrize("kind", TABLES)
def test_as_one_by_one(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy, "MIN_READ_SECTIONS", 10**9)  # would otherwise read full scans
    table = many(tmp_path, kind)
    asked = [*((None, filter) for filter in FILTERS), (["q", "p"], None), (["v"], "p > 'p2'")]
    for columns, filter in asked if kind == "keyed" else asked[::2]:
        found = []
        for least in (1, 10**9):
            monkeypatch.setattr(strategy, "MIN_SCANNED_SECTIONS", least)
            scan = table.scan(columns, filter)
            rows = scan.to_polars()
            assert scan.count() == rows.height
            found.append(sorted(map(repr, rows.rows())))
        assert found[0] == found[1], (columns, filter)
        assert found[0]


def test_a_limit_opens_no_more_partitions_than_it_needs(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, p INT", by=["p"])
    table.append({"id": list(range(40)), "p": list(range(40))})
    kept = table.scan().plan.sections[:3]
    for path in Path(table.path).glob("p=*/bucket-0/*"):
        if str(path) not in {file.path for section in kept for file in section.files}:
            path.unlink()
    assert table.scan(limit=3).to_polars().height == 3


def test_footers_are_counted_without_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Footers are read without Python streams: one for each of thousands of files would cost more than their rows."""
    table = morrow.Catalog(tmp_path).create_table("db.many", schema="id INT, p INT", partition_keys=["p"])
    table.append({"id": list(range(40)), "p": list(range(40))})
    opened: list[str] = []
    inner = LocalStore.open

    def counted(self: LocalStore, path: str) -> BinaryIO:
        opened.append(path)
        return inner(self, path)

    monkeypatch.setattr(LocalStore, "open", counted)
    assert table.scan().to_polars().sort("id").rows() == [(i, i) for i in range(40)]
    assert [path for path in opened if path.endswith(".parquet")] == []


# Many small sections that are read together have the same rows as one by one, at first and when cached.

KEYED: dict[str, tuple[list[str], dict[str, Any]]] = {
    "the newest counts": (["id", "t", "p"], {}),
    "a sequence field": (["id", "t", "p"], {"sequence.field": "s", "ignore-delete": True}),
    "the first counts": (["id", "t", "p"], {"merge-engine": "first-row", "write-only": False}),
    "no key": ([], {"bucket": -1}),
}
NAMES = [None, "", "🙂" * 9, "a", "a\0", "x" * 99]


def many_joined_reads(path: Path, kind: str) -> morrow.Table:
    """Make four partitions and two buckets of several files in two schemas, with deleted rows if possible."""
    key, options = KEYED[kind]
    schema = "id BIGINT, t STRING, p DATE, s INT, v INT"
    options = {"bucket": 2 if "id" in key else 1, "write-only": True, **options}
    table = new_table(path, schema, keys=key, by=["p"], options=options)
    rows = pl.DataFrame({"id": range(200)}).select(
        "id",
        t=pl.Series([NAMES[1 + i % 5] for i in range(200)]),
        p=(pl.col("id") % 4).cast(pl.Int32).cast(pl.Date),
        s=(pl.col("id") * 37 % 11).cast(pl.Int32),
        v=(pl.col("id") % 97).cast(pl.Int32),
    )
    write = table.upsert if key and options.get("merge-engine") != "first-row" else table.append
    for number in range(3):
        part = rows.filter(pl.col("id") % (number + 1) == 0)
        write(
            part.with_columns(
                s=pl.when(pl.col("id") % 5 > 0).then((pl.col("s") * number) % 7), v=pl.lit(number, pl.Int32)
            )
        )
    if kind == "the newest counts":
        table.delete("id % 10 = 3")
    table.alter.add_column("w", "INT")
    write(rows.head(50).with_columns(w=pl.lit(1, pl.Int32)))
    return table


@pytest.mark.parametrize("kind", KEYED)
def test_as_one_by_one_joined_reads(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = many_joined_reads(tmp_path, kind)
    for columns in every(2, (None, ["w", "p"], ["p"])):
        found = []
        for least in (10**9, 1):
            monkeypatch.setattr(strategy, "MIN_READ_SECTIONS", least)
            for cold in (True, False):
                for read in (
                    lambda scan: scan.to_polars(),
                    lambda scan: scan.lazy().collect(),
                    lambda scan: pl.from_arrow(pa.Table.from_batches(scan.to_batches(), scan.schema)),
                ):
                    if cold:
                        morrow.clear_caches()
                    rows = read(table.scan(columns))
                    assert table.scan().count() == rows.height
                    found.append(sorted(map(repr, rows.rows())))
        assert all(each == found[0] for each in found), columns
        assert found[0]


def test_masks_of_many_sections_come_from_one_scan_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = many_joined_reads(tmp_path, "the newest counts")
    expected = [table.scan().count(), table.scan(filter="v > 0").to_polars().height]
    scans = []
    read = section_reads.read_files_at_once
    monkeypatch.setattr(section_reads, "read_files_at_once", lambda *a: scans.append(len(a[1])) or read(*a))
    morrow.clear_caches()

    assert [table.scan().count(), table.scan(filter="v > 0").to_polars().height] == expected
    assert len(scans) == 2  # of files of both schemas
    assert sum(scans) == sum(len(s.files) for s in table.scan().plan.sections if s.kind == "merge")


def test_a_file_with_other_rows_than_its_entry_says_is_named(tmp_path: Path) -> None:
    table = many_joined_reads(tmp_path, "no key")
    files = [section.files[0] for section in table.scan().plan.sections]
    first, second = (Path(file.path) for file in files[:2])
    swapped = first.read_bytes(), second.read_bytes()
    assert files[0].row_count != files[1].row_count or len(swapped[0]) != len(swapped[1])
    first.write_bytes(swapped[1])
    second.write_bytes(swapped[0])

    with pytest.raises(CorruptFile):
        table.scan().to_polars()
