"""Sections as frames: the files that a filter keeps are one masked scan, and each row keeps its own file's mask."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import morrow
from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.filter import NO_FILTER, parse_filter
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.execution import execute, section_frames, strategy
from morrow.readers.execution.execute import to_lazy
from morrow.readers.execution.section_frames import stitch_columns
from morrow.scans.table_scan import Scan
from tests.support.table_factory import TableFactory

FIELDS = [("id", "INT"), ("v", "INT")]
VECTORS = {"deletion-vectors.enabled": "true"}
FILES, ROWS = 4, 100


def with_vectors(path: Path, format: str, kinds: list[str] | None = None) -> TableFactory:
    """Write four files in row groups of 10: file k holds ids from 100 * k on, and its first k rows are dead."""
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
    """Row positions also count the rows, row groups and files that the filter skips."""
    table = with_vectors(tmp_path / "t", format)
    found = morrow.open(table.path).scan(filter=f"v >= {low}").to_polars()
    assert sorted(found["id"]) == [id for id in LIVE if id >= low]


def scans(scan: Scan) -> int:
    """Count the file scans in the query."""
    return to_lazy(scan.plan, scan.store).explain().count("Parquet SCAN")


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
    monkeypatch.setattr(strategy, "MAX_SMALL_ROWS", 0)
    scan = morrow.open(with_vectors(tmp_path / "t", "parquet").path).scan()
    assert scans(scan) == FILES
    assert sorted(scan.to_polars()["id"]) == LIVE


def test_positions_stay_within_what_one_scan_can_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_frames, "MAX_POSITIONED_ROWS", 2 * ROWS)
    scan = morrow.open(with_vectors(tmp_path / "t", "parquet").path).scan(filter="v >= 0")
    assert scans(scan) == 3, "file 0 alone, file 1, files 2 and 3"
    assert sorted(scan.to_polars()["id"]) == LIVE


def test_a_footer_that_lies_about_its_rows_moves_no_other_file(tmp_path: Path) -> None:
    """The file has its size and its row groups are intact, but its total row count is one too low."""
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
    """Encode a Thrift integer as a zigzag varint."""
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


# Data evolution: files share a range of row ids, and every column comes from its newest file.
#
# Java's own tables of this kind are among the golden ones; the plans here are made by hand for each rule.

FIELDS_DATA_EVOLUTION = (
    t.DataField(0, "id", t.IntType()),
    t.DataField(1, "a", t.VarCharType()),
    t.DataField(2, "b", t.IntType()),
)
OLD_FIELDS = (FIELDS_DATA_EVOLUTION[0], t.DataField(1, "a_old", t.VarCharType()))


def file(
    path: Path, sequence: int, columns: dict[str, list[Any]], *, first: int = 0, schema: int = 1, **changed: Any
) -> DataFile:
    kinds = {f.name: f.type.arrow() for f in (*FIELDS_DATA_EVOLUTION, *OLD_FIELDS)}
    table = pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})
    target = path / f"data-{sequence}-{first}.parquet"
    pq.write_table(table, target)
    given = {
        "path": str(target),
        "format": "parquet",
        "size": target.stat().st_size,
        "row_count": table.num_rows,
        "level": 0,
        "schema_id": schema,
        "min_sequence": sequence,
        "max_sequence": sequence,
        "first_row_id": first,
        "write_columns": tuple(columns),
    }
    return DataFile(**(given | changed))


def planned(
    files: Sequence[DataFile], columns: Sequence[str] = ("id", "a", "b"), condition: str | None = None
) -> ScanPlan:
    schema = TableSchema(id=1, fields=FIELDS_DATA_EVOLUTION, highest_field_id=2)
    return ScanPlan(
        table="t",
        schema=schema,
        columns=tuple(columns),
        filter=NO_FILTER if condition is None else parse_filter(condition, FIELDS_DATA_EVOLUTION),
        sections=(Section(SectionKind.STITCH, (), 0, tuple(files)),),
        file_fields={0: OLD_FIELDS, 1: FIELDS_DATA_EVOLUTION},
    )


def rows(*files: DataFile, columns: Sequence[str] = ("id", "a", "b"), condition: str | None = None) -> list[Any]:
    return execute.to_polars(planned(files, columns, condition), LocalStore()).rows()


def test_columns_of_several_files_side_by_side(tmp_path: Path) -> None:
    first = file(tmp_path, 1, {"id": [1, 2], "a": ["x", "y"]})
    added = file(tmp_path, 2, {"b": [10, 20]})
    assert rows(first, added) == rows(added, first) == [(1, "x", 10), (2, "y", 20)]


def test_of_a_column_written_twice_the_newest_counts(tmp_path: Path) -> None:
    first = file(tmp_path, 1, {"id": [1, 2], "a": ["old", "old"], "b": [0, 0]})
    again = file(tmp_path, 3, {"a": ["new", None]})
    between = file(tmp_path, 2, {"a": ["x", "x"], "b": [5, 6]})
    assert rows(first, again, between) == [(1, "new", 5), (2, None, 6)]


def test_a_data_file_takes_precedence_over_newer_files_of_vectors(tmp_path: Path) -> None:
    """Java and pypaimon read so, whatever wrote the files."""
    first, newer = file(tmp_path, 1, {"id": [1], "a": ["data"]}), file(tmp_path, 2, {"a": ["vector"], "b": [5]})
    path = Path(newer.path).rename(tmp_path / "data-2.vector.parquet")
    assert rows(first, structs.replace(newer, path=str(path))) == [(1, "data", 5)]


def test_columns_are_found_by_field_id(tmp_path: Path) -> None:
    old = file(tmp_path, 1, {"id": [1], "a_old": ["renamed"]}, schema=0)
    assert rows(old, file(tmp_path, 2, {"b": [7]})) == [(1, "renamed", 7)]


def test_a_column_that_no_file_holds_is_null(tmp_path: Path) -> None:
    first, second = file(tmp_path, 1, {"id": [1, 2]}), file(tmp_path, 2, {"a": ["x", "y"]})
    assert rows(first, second) == [(1, "x", None), (2, "y", None)]


def test_rows_are_known_where_no_file_holds_any_wanted_column(tmp_path: Path) -> None:
    files = file(tmp_path, 1, {"id": [1, 2]}), file(tmp_path, 2, {"a": ["x", "y"]})
    assert rows(*files, columns=["b"]) == [(None,), (None,)]
    assert execute.count(planned(files, ["b"]), LocalStore()) == 2


def test_only_files_of_wanted_columns_are_read(tmp_path: Path) -> None:
    files = file(tmp_path, 1, {"id": [1], "a": ["x"]}), file(tmp_path, 2, {"b": [10]})
    (tmp_path / "data-2-0.parquet").unlink()
    assert rows(*files, columns=["a"]) == [("x",)]


def test_filters_see_the_stitched_row(tmp_path: Path) -> None:
    files = file(tmp_path, 1, {"id": [1, 2, 3], "a": ["x", "y", "z"]}), file(tmp_path, 2, {"b": [10, 20, None]})
    assert rows(*files, columns=["a"], condition="id > 1 AND b = 20") == [("y",)]
    assert rows(*files, columns=["id"], condition="b IS NULL") == [(3,)]


def test_masks_hide_whole_rows(tmp_path: Path) -> None:
    files = file(tmp_path, 1, {"id": [1, 2, 3], "a": ["x", "y", "z"]}), file(tmp_path, 2, {"b": [10, 20, 30]})
    plan = planned(files)
    masks = (pl.Series([True, False, True]), None)
    assert stitch_columns(plan, plan.sections[0], FIELDS_DATA_EVOLUTION, masks, LocalStore()).collect().rows() == [
        (1, "x", 10),
        (3, "z", 30),
    ]


def test_a_column_in_pieces_along_the_range(tmp_path: Path) -> None:
    whole = file(tmp_path, 1, {"id": [1, 2, 3]}, first=100)
    pieces = [file(tmp_path, 2, {"a": ["x"]}, first=100), file(tmp_path, 2, {"a": ["y", "z"]}, first=101)]
    assert rows(whole, *reversed(pieces), columns=["id", "a"]) == [(1, "x"), (2, "y"), (3, "z")]


@pytest.mark.parametrize(
    "pieces",
    [[(100, ["x"])], [(100, ["x"]), (102, ["z"])], [(101, ["y", "z"])], [(100, ["x", "y", "z", "too many"])]],
    ids=["too short", "a hole", "no beginning", "too long"],
)
def test_files_that_do_not_cover_the_same_rows(tmp_path: Path, pieces: list[tuple[int, list[str]]]) -> None:
    whole = file(tmp_path, 1, {"id": [1, 2, 3]}, first=100)
    others = [file(tmp_path, 2, {"a": values}, first=first) for first, values in pieces]
    with pytest.raises(Unsupported, match="row ids"):
        rows(whole, *others)
