"""Data evolution: files of one range of row ids side by side, every column from its newest file.

Java's own tables of this kind are among the golden ones; here plans are made by hand to show each rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.filter import NO_FILTER, parse_filter
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.execution import execute
from morrow.readers.execution.data_evolution import stitched_frame

FIELDS = (t.DataField(0, "id", t.IntType()), t.DataField(1, "a", t.VarCharType()), t.DataField(2, "b", t.IntType()))
OLD_FIELDS = (FIELDS[0], t.DataField(1, "a_old", t.VarCharType()))


def file(
    path: Path, sequence: int, columns: dict[str, list[Any]], *, first: int = 0, schema: int = 1, **changed: Any
) -> DataFile:
    kinds = {f.name: f.type.arrow() for f in (*FIELDS, *OLD_FIELDS)}
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
    schema = TableSchema(id=1, fields=FIELDS, highest_field_id=2)
    return ScanPlan(
        table="t",
        schema=schema,
        columns=tuple(columns),
        filter=NO_FILTER if condition is None else parse_filter(condition, FIELDS),
        sections=(Section(SectionKind.STITCH, (), 0, tuple(files)),),
        file_fields={0: OLD_FIELDS, 1: FIELDS},
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
    assert stitched_frame(plan, plan.sections[0], FIELDS, masks, LocalStore()).collect().rows() == [
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


def test_blobs_rewritten_in_parts_are_refused(tmp_path: Path) -> None:
    whole = file(tmp_path, 1, {"id": [1, 2]})
    blobs = [
        file(tmp_path, 2, {"a": ["x", "y"]}, format="blob", row_count=1),
        file(tmp_path, 3, {"a": ["z"]}, format="blob"),
    ]
    with pytest.raises(Unsupported, match="rewritten in parts"):
        rows(whole, *blobs)
