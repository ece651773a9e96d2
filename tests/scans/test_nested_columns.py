"""Members of ROW columns as columns of a scan, in every form of rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported

INFO = pa.struct([("name", pa.string()), ("geo", pa.struct([("x", pa.float64())])), ("d.t", pa.int32())])
ROWS: list[dict[str, Any]] = [
    {"id": 1, "info": {"name": "a", "geo": {"x": 1.5}, "d.t": 7}, "info.id": 10},
    {"id": 2, "info": {"name": None, "geo": None, "d.t": 8}, "info.id": 20},
    {"id": 3, "info": None, "info.id": 30},
]


@pytest.fixture(params=["keyed", "append"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> morrow.Table:
    schema = pa.schema([("id", pa.int64()), ("info", INFO), ("info.id", pa.int64())])
    keys = ["id"] if request.param == "keyed" else []
    made = morrow.Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys=keys)
    made.append(pa.Table.from_pylist(ROWS, schema))
    return made


FORMS: dict[str, Callable[[Any], list[Any]]] = {
    "to_arrow": lambda scan: list(map(tuple, map(dict.values, scan.to_arrow().to_pylist()))),
    "to_batches": lambda scan: [tuple(row.values()) for batch in scan.to_batches(2) for row in batch.to_pylist()],
    "to_reader": lambda scan: [tuple(row.values()) for row in scan.to_reader().read_all().to_pylist()],
    "stream": lambda scan: [tuple(row.values()) for row in pa.table(scan).to_pylist()],
    "to_polars": lambda scan: scan.to_polars().rows(),
    "lazy": lambda scan: scan.lazy().collect().rows(),
    "to_duckdb": lambda scan: scan.to_duckdb().fetchall(),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form(table: morrow.Table, form: str) -> None:
    scan = table.scan(["info.geo.x", "id", "info.name", "info.d.t"])
    assert [field.name for field in scan.fields] == scan.schema.names == ["x", "id", "name", "d.t"]
    assert sorted(FORMS[form](scan), key=lambda row: row[1]) == [
        (1.5, 1, "a", 7),
        (None, 2, None, 8),
        (None, 3, None, None),
    ]
    assert scan.count() == 3
    assert sorted(scan.explain().splitlines()[:1]) == sorted(table.scan(["info", "id"]).explain().splitlines()[:1])


def test_a_column_of_that_name_has_precedence(table: morrow.Table) -> None:
    assert table.to_polars(["info.id"]).columns == ["info.id"]
    assert table.to_arrow(["info", "info.name"]).schema.names == ["info", "name"]
    assert morrow.read(table.path, ["info.name"], limit=1).columns == ["name"]


def test_duckdb_reads_members(table: morrow.Table) -> None:
    assert sorted(table.scan(["info.d.t"], engine="duckdb").to_arrow()["d.t"].to_pylist(), key=str) == [7, 8, None]


@pytest.mark.parametrize(
    "condition",
    ["info.geo.x > 1", pl.col("info").struct.field("geo").struct.field("x") > 1, pc.field("info", "geo", "x") > 1],
)
def test_filters_on_members(table: morrow.Table, condition: Any) -> None:
    assert table.to_arrow(["info.name"], condition).to_pylist() == [{"name": "a"}]


@pytest.mark.parametrize("condition", [pl.col("info.name") == "a", pc.field("info.name") == "a"])
def test_filters_with_a_path_as_a_name_say_what_to_write(table: morrow.Table, condition: Any) -> None:
    with pytest.raises(ColumnNotFound, match=r"pl.col\('info'\).struct.field\('name'\), pc.field\('info', 'name'\)"):
        table.scan(filter=condition)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (["info.nam"], ColumnNotFound, "did you mean 'info.name'"),
        (["info.name.x"], ColumnNotFound, "no column 'info.name.x'"),
        (["id.x"], ColumnNotFound, "BIGINT.*no members"),
        (["nope.x"], ColumnNotFound, "no column 'nope.x'"),
        (["info.geo", "info.geo"], InvalidArgument, "twice"),
        (["info.id", "info.d.t", "info.x"], ColumnNotFound, "info.x"),
    ],
)
def test_refused_names(table: morrow.Table, columns: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        table.scan(columns)


def test_two_members_of_one_name(tmp_path: Path) -> None:
    row = "ROW<id INT>"
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=f"id INT, a {row}, b {row}")
    with pytest.raises(InvalidArgument, match=r"'a.id' and 'b.id' would both be called 'id'"):
        table.scan(["a.id", "b.id"])


def test_what_members_cannot_be(table: morrow.Table) -> None:
    scan = table.scan(["info.name"])
    for call in (scan.dataset, scan.narrowed, scan.to_sql):
        with pytest.raises(Unsupported, match="members of columns"):
            call()


def test_a_relation_without_columns(table: morrow.Table) -> None:
    assert table.scan(columns=[]).to_arrow().num_rows == 3
    with pytest.raises(Unsupported, match=r"without columns.*count\(\)"):
        table.scan(columns=[]).to_duckdb()
