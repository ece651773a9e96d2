"""Streams that end early raise errors, although Polars ends them silently when it panics."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.readers.files.streaming import END, collect_batches, collect_frames


@pytest.fixture
def unreadable(golden_root: Path) -> Path:
    """Return a table whose newest snapshot Java cannot read either: a file lacks a value that its column requires."""
    return golden_root / "versions" / "1.0.1" / "pu_random_seqgroup" / "warehouse" / "db.db" / "t"


def first_file(table: Path) -> str:
    scan = morrow.open(table).scan()
    return max((file for file in scan.plan.files), key=lambda file: file.row_count == 135).path


def test_a_panic_ends_no_stream_quietly(unreadable: Path) -> None:
    frame = pl.scan_parquet(first_file(unreadable)).select("k0")
    with pytest.raises(pl.exceptions.ComputeError, match="broke off"):
        list(collect_batches(frame))


@pytest.mark.parametrize("face", ["to_batches", "to_arrow", "dataset", "to_duckdb"])
def test_no_face_loses_rows_to_a_panic(unreadable: Path, face: str) -> None:
    scan = morrow.open(unreadable).scan(["k0"])
    faces = {
        "to_batches": lambda: list(scan.to_batches()),
        "to_arrow": scan.to_arrow,
        "dataset": lambda: scan.dataset().to_table(),
        "to_duckdb": lambda: scan.to_duckdb().fetchall(),
    }
    with pytest.raises(Exception, match=r"data-.*parquet"):
        faces[face]()


def test_rows_come_as_they_are_in_batches(tmp_path: Path) -> None:
    rows = pl.DataFrame({"a": range(10), END: ["x"] * 10, "c": [[1]] * 10, "d": [{"e": None}] * 10})
    rows.write_parquet(tmp_path / "f")
    found = list(collect_batches(pl.scan_parquet(tmp_path / "f"), 3))
    assert pl.concat(found).equals(rows)
    assert max(batch.height for batch in found) == 3
    assert list(collect_batches(rows.lazy().filter(pl.lit(False)))) == []


def test_data_to_write_that_breaks_off(tmp_path: Path, unreadable: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", schema="k0 INT")
    with pytest.raises(pl.exceptions.ComputeError):
        table.append(pl.scan_parquet(first_file(unreadable)).select("k0"))
    assert table.snapshots() == []


def test_many_frames_are_collected_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    collect_all = pl.collect_all
    monkeypatch.setattr(pl, "collect_all", lambda given, **how: asked.append(len(given)) or collect_all(given, **how))
    frames = [pl.LazyFrame({"n": [i]}) for i in range(300)]
    for stream in (False, True):
        found = collect_frames(frames, stream=stream)
        assert [frame["n"][0] for frame in found] == list(range(300))
    assert asked == [128, 128, 44] * 2
    assert collect_frames([]) == []
