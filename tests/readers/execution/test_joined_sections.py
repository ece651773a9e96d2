"""Many small partitions in one scan: the same rows as one by one."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import polars as pl
import pytest

import morrow
from morrow.engine.io.local import LocalStore
from morrow.readers.execution import joined_reads, joined_sections
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
    """Makes fifteen partitions, in which rows were deleted and some have a column more."""
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
    monkeypatch.setattr(joined_reads, "LEAST_SECTIONS", 10**9)  # which reads full scans otherwise
    table = many(tmp_path, kind)
    asked = [*((None, filter) for filter in FILTERS), (["q", "p"], None), (["v"], "p > 'p2'")]
    for columns, filter in asked if kind == "keyed" else asked[::2]:
        found = []
        for least in (1, 10**9):
            monkeypatch.setattr(joined_sections, "LEAST_SECTIONS", least)
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
    """A stream of Python's for each of thousands of files costs more than their rows."""
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
