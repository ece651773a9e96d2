"""Pieces of plans: sections are cut at keys, files at rows, and neighbours are read together."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import morrow
from morrow.engine.plan.scan_plan import ScanPlan, SectionKind
from morrow.readers.execution import execute, section_pieces
from morrow.readers.execution.section_pieces import (
    cut_section,
    divide_pieces,
    join_pieces,
    list_pieces,
    slice_pieces,
)
from tests.support.table_factory import TableFactory


def merging(path: Path, rows: int = 2, engine: str = "partial-update") -> TableFactory:
    """Return a table of two versions of each key: the second has the values 10, 11, ..."""
    table = TableFactory(path / "t", [("id", "INT"), ("v", "INT")], ["id"], options={"merge-engine": engine})
    for first in (0, 10):
        ids = pa.array(range(rows), pa.int32())
        table.write_file(pa.table({"id": ids, "v": pa.array(range(first, first + rows), pa.int32())}))
    table.commit()
    return table


def read(plans: tuple[ScanPlan, ...], scan: morrow.Scan) -> pl.DataFrame:
    return pl.concat([execute.to_polars(plan, scan.store) for plan in plans])


def test_a_section_that_cannot_be_read_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of the section reports the error."""
    monkeypatch.setattr(section_pieces, "MIN_CUT_ROWS", 1)
    scan = morrow.open(merging(tmp_path).path).scan()
    (section,) = scan.plan.sections
    Path(section.files[0].path).unlink()
    assert cut_section(scan.plan, section, scan.store, 4) == [section]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_versions_of_a_key_are_in_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    monkeypatch.setattr(section_pieces, "MIN_CUT_ROWS", 1)
    scan = morrow.open(merging(tmp_path, 20, engine).path).scan()
    pieces = list_pieces(scan.plan, scan.store, rows_each=10)
    found = [read(join_pieces([piece]), scan) for piece in pieces]
    assert len(found) == 4
    assert sorted(chain(*(rows["id"] for rows in found))) == [*range(20)]
    assert pl.concat(found).sort("id")["v"].to_list() == [*range(10, 30)]


def test_files_are_cut_at_any_row_and_merged_keys_at_none(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")])
    for first in (0, 7):
        table.write_file(pa.table({"id": pa.array(range(first, first + 7), pa.int32())}))
    table.commit()
    scan = morrow.open(table.path).scan()
    groups = divide_pieces(list_pieces(scan.plan, scan.store), 3)
    assert [read(join_pieces(group), scan)["id"].to_list() for group in groups] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7, 8],
        [9, 10, 11, 12, 13],
    ]


@given(first=st.integers(0, 12), count=st.integers(0, 12), groups=st.integers(1, 20))
def test_slices_skip_deleted_rows(
    first: int, count: int, groups: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = TableFactory(
        tmp_path_factory.mktemp("t") / "t", [("id", "INT")], options={"deletion-vectors.enabled": "true"}
    )
    for start in (0, 6):
        ids = pa.array(range(start, start + 6), pa.int32())
        file = table.write_file(pa.table({"id": ids}))
    table.deletion_vector(file, [1, 4])
    table.commit()
    scan = morrow.open(table.path).scan()
    rows = scan.to_polars()
    pieces = slice_pieces(list_pieces(scan.plan, scan.store), first, first + count, scan.store)
    assert pieces is not None
    found = [read(join_pieces(group), scan) for group in divide_pieces(pieces, groups)]
    assert pl.concat([rows.clear(), *found]).equals(rows[first : first + count])


def test_merged_rows_have_no_known_positions(tmp_path: Path) -> None:
    scan = morrow.open(merging(tmp_path).path).scan()
    pieces = list_pieces(scan.plan, scan.store)
    assert [piece.section.kind for piece in pieces] == [SectionKind.MERGE]
    assert slice_pieces(pieces, 0, 1, scan.store) is None
