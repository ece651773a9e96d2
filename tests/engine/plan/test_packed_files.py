"""The files of large plans, packed: the same files as those of a plan that holds them as objects."""

from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.plan import packed_files, planner
from morrow.engine.plan.packed_files import PackedFiles
from morrow.engine.plan.scan_plan import DataFile
from tests.support.golden import Read, reads

FILES = (
    DataFile("a/1.orc", "orc", 10, 100, 0, 0, 1, 2, None, None, None, None, ("d",)),
    DataFile("a/2.orc", "orc", 20, 200, 5, 0, 3, 4, 7, None, ("x", "y"), None, ()),
    DataFile("b/3.orc", "orc", 30, 300, 5, 1, 5, 6, None, None, None, None, ()),
)
MEMBERS = [name for name in DataFile.__struct_fields__ if name != "deletion"]


def packed() -> PackedFiles:
    rows = [[getattr(file, name) for name in MEMBERS] for file in FILES]
    rows = [[list(value) if isinstance(value, tuple) else value for value in row] for row in rows]
    kinds = {"write_columns": pl.List(pl.String), "modern_dates": pl.List(pl.String)}
    return PackedFiles.of(pl.DataFrame(rows, MEMBERS, orient="row", schema_overrides=kinds), {})


def test_they_are_a_tuple_of_files() -> None:
    files = packed()
    assert files == FILES
    assert files == FILES
    assert files != FILES[:2]
    assert hash(files) == hash(FILES)
    assert (files[0], files[-1], files[1:], files[5:], files[::-1]) == (
        *(FILES[0], FILES[-1], FILES[1:], ()),
        FILES[::-1],
    )
    assert (len(files[1:]), files[1:].row_count, files[:2].size) == (2, 500, 30)  # type: ignore[union-attr]  # slices
    assert pickle.loads(pickle.dumps(files)) == FILES
    with pytest.raises(IndexError):
        files[3]


def test_many_are_made_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_files, "AT_ONCE", 2)
    assert list(packed()) == list(FILES)


@pytest.mark.golden
@pytest.mark.parametrize(
    "read", [each for each in reads() if each.id == "latest" and each.error is None][::25], ids=str
)
def test_java_tables(golden_root: Path, monkeypatch: pytest.MonkeyPatch, read: Read) -> None:
    path = golden_root / read.case / "warehouse" / "db.db" / "t"
    morrow.clear_caches()
    here = morrow.open(path).scan().plan

    morrow.clear_caches()
    monkeypatch.setattr(planner, "MOST_OBJECTS", 0)
    scan = morrow.open(path).scan()
    assert scan.plan == here
    assert all(isinstance(each.files, PackedFiles) for part in scan.plan.parts for each in part.sections)
    assert scan.to_arrow().num_rows == sum(1 for _ in read.rows(golden_root))
