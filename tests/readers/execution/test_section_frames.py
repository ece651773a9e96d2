"""Sections as frames: masked files that a filter leaves are one scan, and every row keeps its own file's mask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import CorruptFile
from morrow.readers.execution import execute, section_frames
from morrow.readers.execution.execute import lazy
from morrow.scans.table_scan import Scan
from tests.support.table_factory import TableFactory

FIELDS = [("id", "INT"), ("v", "INT")]
VECTORS = {"deletion-vectors.enabled": "true"}
FILES, ROWS = 4, 100


def with_vectors(path: Path, format: str, kinds: list[str] | None = None) -> TableFactory:
    """Writes four files in row groups of 10: file k holds ids from 100 k on, its first k rows are dead."""
    table = TableFactory(path, FIELDS, ["id"], options=VECTORS)
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        options: dict[str, Any] = {"row_group_size": 10} if format == "parquet" else {}
        rows = pa.table({"id": ids, "v": ids})
        file = table.write_file(rows, level=5, format=format, kinds=kinds, **options)
        if number:
            table.deletion_vector(file, range(number))
    table.commit("COMPACT")
    return table


LIVE = [id for id in range(FILES * ROWS) if id % ROWS >= id // ROWS]


@pytest.mark.parametrize("format", ["parquet", "orc"])
@pytest.mark.parametrize("low", [0, 5, 99, 101, 199, 200, 205, 302, 303, 390])
def test_masked_files_behind_skipped_ones(tmp_path: Path, format: str, low: int) -> None:
    """The filter skips rows, row groups or files ahead of those it keeps: positions still count them."""
    table = with_vectors(tmp_path / "t", format)
    found = morrow.open(table.path).scan(filter=f"v >= {low}").to_polars()
    assert sorted(found["id"]) == [id for id in LIVE if id >= low]


def scans(scan: Scan) -> int:
    """Counts the scans of files in the query."""
    return lazy(scan.plan, scan.store).explain().count("Parquet SCAN")


@pytest.mark.parametrize("condition", [None, "v >= 0"])
def test_each_file_has_its_own_mask_beside_retractions(tmp_path: Path, condition: str | None) -> None:
    kinds = ["+I"] * (ROWS - 1) + ["-D"]
    table = with_vectors(tmp_path / "t", "parquet", kinds)
    found = morrow.open(table.path).scan(filter=condition).to_polars()
    assert sorted(found["id"]) == [id for id in LIVE if id % ROWS != ROWS - 1]


def test_a_filter_makes_one_scan_of_all_masked_files(tmp_path: Path) -> None:
    table = morrow.open(with_vectors(tmp_path / "t", "parquet").path)

    assert scans(table.scan(filter="v >= 350")) == 1
    assert scans(table.scan(filter="v >= 0")) == 2, "the file without dead rows needs no positions"


def test_a_large_read_without_a_filter_scans_masked_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(section_frames, "SMALL_ROWS", 0)
    scan = morrow.open(with_vectors(tmp_path / "t", "parquet").path).scan()
    assert scans(scan) == FILES
    assert sorted(scan.to_polars()["id"]) == LIVE


def test_positions_stay_within_what_one_scan_can_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_frames, "POSITIONED_ROWS", 2 * ROWS)
    scan = morrow.open(with_vectors(tmp_path / "t", "parquet").path).scan(filter="v >= 0")
    assert scans(scan) == 3, "file 0 alone, file 1, files 2 and 3"
    assert sorted(scan.to_polars()["id"]) == LIVE


def test_a_footer_that_lies_about_its_rows_moves_no_other_file(tmp_path: Path) -> None:
    """The file is as large as before, and its row groups are sound: only the total is one too low."""
    table = with_vectors(tmp_path / "t", "parquet")
    scan = morrow.open(table.path).scan(filter="v >= 150")
    (file,) = (file for file in scan.plan.files if pq.read_table(file.path)["id"][0].as_py() == ROWS)
    content = Path(file.path).read_bytes()
    rows, fewer = (b"\x16" + zigzag(count) + b"\x19" for count in (ROWS, ROWS - 1))
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    at = content.index(rows, footer)
    Path(file.path).write_bytes(content[:at] + content[at:].replace(rows, fewer, 1))

    with pytest.raises(CorruptFile, match="has 99 rows where metadata says 100"):
        scan.to_polars()


def zigzag(number: int) -> bytes:
    """Encodes a Thrift integer: doubled, seven bits a byte, the lowest first."""
    return bytes([number << 1 & 0x7F | 0x80, number >> 6])


@settings(max_examples=settings().max_examples // 3)
@given(
    updates=st.lists(st.sets(st.integers(0, 79), min_size=1), max_size=5),
    low=st.integers(-1, 500),
    span=st.integers(0, 500),
)
def test_filters_of_merged_files_find_the_newest_versions(
    tmp_path_factory: pytest.TempPathFactory, updates: list[set[int]], low: int, span: int
) -> None:
    """A filter on a value column skips row groups of some files, whose keys still supersede or are superseded."""
    table = TableFactory(tmp_path_factory.mktemp("m") / "t", FIELDS, ["id"])
    table.write_file(pa.table({"id": range(80), "v": range(80)}), level=5, row_group_size=8)
    rows = {id: id for id in range(80)}
    for number, ids in enumerate(updates, start=1):
        newer = {id: 100 * number + id for id in sorted(ids)}
        table.write_file(pa.table({"id": list(newer), "v": list(newer.values())}), row_group_size=8)
        rows |= newer
    table.commit()

    scan = morrow.open(table.path).scan(filter=f"v >= {low} AND v <= {low + span}")

    expected = sorted((id, v) for id, v in rows.items() if low <= v <= low + span)
    assert sorted(scan.to_polars().rows()) == expected
    batches = execute.to_batches(scan.plan, scan._metadata.store, batch_rows=7)
    assert sorted(pl.concat([pl.DataFrame(b) for b in batches] or [scan.to_polars()]).rows()) == expected
