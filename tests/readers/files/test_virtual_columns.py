"""Row ids and snapshot numbers: of the file, or carried by it for rows that it took over; row kinds as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from morrow.engine.format import types as t
from morrow.engine.format.schema import ROW_ID_FIELD, ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD, TableSchema
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.filter import parse_filter
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.execution import execute

ID = t.DataField(0, "id", t.IntType())
ALL = (ID, ROW_ID_FIELD, SEQUENCE_NUMBER_FIELD, ROWKIND_FIELD)


def file(path: Path, columns: dict[str, list[Any]], *, first: int | None, sequence: int) -> DataFile:
    """Writes a data file that carries `columns` besides ``id``."""
    kinds = {field.name: field.type.arrow() for field in ALL}
    table = pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})
    target = path / f"data-{sequence}.parquet"
    pq.write_table(table, target)
    written = None if list(columns) == ["id"] else tuple(columns)
    size, rows = target.stat().st_size, table.num_rows
    ages = {"min_sequence": sequence, "max_sequence": sequence, "first_row_id": first, "write_columns": written}
    return DataFile(str(target), "parquet", size, rows, level=0, schema_id=0, **ages)


def rows(
    condition: str | None,
    *files: DataFile,
    kind: SectionKind = SectionKind.RAW,
    fields: Sequence[t.DataField] = ALL,
) -> list[tuple[Any, ...]]:
    plan = ScanPlan(
        table="t",
        schema=TableSchema(id=0, fields=ALL, highest_field_id=0),
        columns=tuple(field.name for field in fields),
        filter=parse_filter(condition, ALL),
        sections=(Section(kind, (), 0, files),),
        file_fields={0: (ID,)},
    )
    whole = execute.to_arrow(plan, LocalStore())
    assert pa.Table.from_batches(execute.to_batches(plan, LocalStore(), 2), whole.schema) == whole
    assert execute.count(plan, LocalStore()) == whole.num_rows
    return execute.to_polars(plan, LocalStore()).rows()


def test_rows_are_numbered_from_the_first_id_of_their_file(tmp_path: Path) -> None:
    one = file(tmp_path, {"id": [7, 8]}, first=10, sequence=1)
    two = file(tmp_path, {"id": [9]}, first=30, sequence=2)
    assert rows(None, one, two) == [(7, 10, 1, "+I"), (8, 11, 1, "+I"), (9, 30, 2, "+I")]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id > 7", [8, 9]),
        ("_ROW_ID = 11", [8]),
        ("_SEQUENCE_NUMBER > 1", [9]),
        ("rowkind = '-D'", []),
        ("id % 2 = 0", [8]),
    ],
)
def test_filters_see_them(condition: str, ids: list[int], tmp_path: Path) -> None:
    one = file(tmp_path, {"id": [7, 8]}, first=10, sequence=1)
    two = file(tmp_path, {"id": [9]}, first=30, sequence=2)
    assert [row[0] for row in rows(condition, one, two)] == ids


def test_what_a_file_carries_counts_and_its_nulls_are_filled(tmp_path: Path) -> None:
    carrying = file(tmp_path, {"id": [1, 2], "_ROW_ID": [5, None], "_SEQUENCE_NUMBER": [None, 3]}, first=20, sequence=9)
    assert rows(None, carrying) == [(1, 5, 9, "+I"), (2, 21, 3, "+I")]


def test_a_file_without_row_ids_gives_none(tmp_path: Path) -> None:
    assert rows(None, file(tmp_path, {"id": [1]}, first=None, sequence=1)) == [(1, None, 1, "+I")]


@pytest.mark.parametrize(
    ("field", "values"), [(ROW_ID_FIELD, [10, 11, 30]), (SEQUENCE_NUMBER_FIELD, [1, 1, 2]), (ROWKIND_FIELD, ["+I"] * 3)]
)
def test_nothing_else_has_to_be_read(field: t.DataField, values: list[Any], tmp_path: Path) -> None:
    one = file(tmp_path, {"id": [7, 8]}, first=10, sequence=1)
    two = file(tmp_path, {"id": [9]}, first=30, sequence=2)
    for kind in (SectionKind.RAW, SectionKind.STITCH):
        found = [row for f in (one, two) for row in rows(None, f, kind=kind, fields=[field])]
        assert found == [(value,) for value in values]
    assert rows(None, one, two, fields=[field]) == [(value,) for value in values]


def test_of_files_with_different_columns_of_the_same_rows_the_newest_tells(tmp_path: Path) -> None:
    old = file(tmp_path, {"id": [1, 2]}, first=4, sequence=1)
    new = msgspec.structs.replace(file(tmp_path, {"id": [3, 4]}, first=4, sequence=2), write_columns=("id",))
    assert rows(None, old, new, kind=SectionKind.STITCH) == [(3, 4, 2, "+I"), (4, 5, 2, "+I")]
