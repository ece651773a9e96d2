"""Residuals see only real rows: no statistics, no rows of nulls, and no rows that are dropped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from morrow import Catalog, Scan, Table
from morrow.engine.errors import InvalidArgument
from morrow.readers.execution.execute import to_lazy
from tests.support.one_duckdb import one_duckdb
from tests.support.profile import IS_LONG

FACES: dict[str, Callable[[Table, Any], list[int]]] = {
    "arrow": lambda t, f: t.scan(filter=f).to_arrow()["id"].to_pylist(),
    "columns": lambda t, f: t.scan(["id"], filter=f).to_polars()["id"].to_list(),
    "batches": lambda t, f: [i for b in t.scan(filter=f).to_batches(1) for i in b["id"].to_pylist()],
    "limit": lambda t, f: t.scan(filter=f, limit=100).to_arrow()["id"].to_pylist(),
    "lazy": lambda t, f: t.scan(filter=f).lazy().select("id").collect()["id"].to_list(),
    "streamed": lambda t, f: t.scan(filter=f).lazy().collect(engine="streaming")["id"].to_list(),
    "dataset": lambda t, f: t.scan(filter=f).dataset().to_table(columns=["id"])["id"].to_pylist(),
    "duckdb": lambda t, f: [i for (i,) in of_duckdb(t.scan(filter=f))],
}


def of_duckdb(scan: Scan) -> list[tuple[Any, ...]]:
    with one_duckdb().cursor() as connection:
        return scan.to_duckdb(connection).project("id").fetchall()


def wanted(table: Table, condition: str) -> list[int]:
    """Let DuckDB filter all rows."""
    with one_duckdb().cursor() as connection:
        connection.register("everything", table.scan().to_arrow())
        found = connection.execute(f"SELECT id FROM everything WHERE {condition} ORDER BY id").fetchall()
    return [i for (i,) in found]


def assert_answered(table: Table, condition: str) -> None:
    expected = wanted(table, condition)
    assert {name: sorted(read(table, condition)) for name, read in FACES.items()} == dict.fromkeys(FACES, expected)
    assert table.scan(filter=condition).count() == len(expected)


KINDS = {
    "append": ((), {}),
    "merge on read": (("id",), {"bucket": "1"}),
    "deletion vectors": (("id",), {"bucket": "1", "deletion-vectors.enabled": "true"}),
}


@pytest.fixture(params=list(KINDS))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    keys, options = KINDS[request.param]
    columns = "id INT NOT NULL, kind STRING, txt STRING, a INT, b INT, r ROW<x INT NOT NULL, y STRING>"
    made = Catalog(tmp_path).create_table("db.t", schema=columns, primary_keys=keys, options=options)
    for first in (0, 10):
        made.append(
            pa.table(
                {
                    "id": pa.array([first + 1, first + 2, first + 3], pa.int32()),
                    "kind": ["num", "zzz", "num"],
                    "txt": ["12", "!!", "3"],
                    "a": pa.array([1, 2, 3], pa.int32()),
                    "b": pa.array([2, 1, 3], pa.int32()),
                    "r": pa.array([{"x": 1, "y": "a"}, None, {"x": 2, "y": None}], made.scan().schema.field("r").type),
                }
            )
        )
    return made


CONDITIONS = [
    "CASE WHEN kind = 'num' THEN CAST(txt AS INT) > 5 ELSE false END",
    "kind <> 'num' OR CAST(txt AS INT) > 5",
    "kind = 'num' AND CAST(txt AS INT) > 5",
    "upper(kind) = 'NUM' AND CAST(txt AS INT) > 5",
    "CASE WHEN a IS NULL THEN error('a row of nulls') ELSE a + b > 3 END",
    "CASE WHEN a = 1 AND b = 1 THEN error('the minima') ELSE a <= b END",
    "r.x + 1 = 2",
    "r.y = 'a' OR r IS NULL",
    "id > 1 AND random() < 2",
    "random() < 2",
]


def test_a_condition_is_not_asked_of_rows_that_are_not_there(table: Table) -> None:
    for condition in CONDITIONS if IS_LONG or not table.primary_keys else CONDITIONS[:6]:
        assert_answered(table, condition)


def test_a_condition_that_fails_on_a_row_says_so_in_duckdbs_words(table: Table) -> None:
    said = r"DuckDB cannot evaluate 'CAST\(txt AS INT\) > 5': Conversion Error: Could not convert string '!!' to INT32"
    for read in FACES.values():
        with pytest.raises((InvalidArgument, duckdb.Error, pl.exceptions.ComputeError), match="Could not convert"):
            read(table, "CAST(txt AS INT) > 5")
    with pytest.raises(InvalidArgument, match=said):
        table.scan(filter="CAST(txt AS INT) > 5").to_arrow()


def test_superseded_and_deleted_rows_are_not_asked(table: Table) -> None:
    for i in (2, 12):
        table.delete(f"id = {i}")
        table.append(
            pa.table({"id": pa.array([i], pa.int32()), "kind": ["num"], "txt": ["77"]})
            .append_column("r", pa.nulls(1, table.scan().schema.field("r").type))
            .append_column("a", pa.nulls(1, pa.int32()))
            .append_column("b", pa.nulls(1, pa.int32()))
        )
    assert_answered(table, "CAST(txt AS INT) > 5")
    table.update({"txt": "'5'"}, where="CAST(txt AS INT) = 77")
    assert wanted(table, "txt = '5'") == [2, 12]
    table.delete("CAST(txt AS INT) = 5")
    assert wanted(table, "true") == [1, 3, 11, 13]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_conditions_on_nested_columns(tmp_path: Path, file_format: str) -> None:
    schema = "id INT NOT NULL, m MAP<STRING, INT>, s MULTISET<STRING>, a ARRAY<ROW<p BIGINT, q INT>>"
    table = Catalog(tmp_path).create_table("db.t", schema=schema, options={"file.format": file_format})
    entries = pa.map_(pa.string(), pa.int32())
    table.append(
        pa.table(
            {
                "id": pa.array([1, 2, 3], pa.int32()),
                "m": pa.array([[("a", 1)], [("b", 2), ("c", 3)], None], entries),
                "s": pa.array([[("x", 2)], [], None], entries),
                "a": [[{"p": 1, "q": 1}, {"p": 1, "q": 1}], [{"p": 2, "q": 2}, {"p": 3, "q": 3}], None],
            }
        )
    )
    for condition in ("m['a'] = 1", "cardinality(m) > 1", "s['x'] = 2", "a[1] = a[2]", "NOT a[1] = a[2]", "a[1].p > 1"):
        assert_answered(table, condition)
    for expression in (pl.col("m").list.len() == 2, pc.list_value_length(pc.field("a")) + pc.field("id") == 4):
        assert FACES["arrow"](table, expression) == [2]
    table.update({"id": "id + 10"}, where="m['a'] = 1")
    table.delete("cardinality(m) = 2")
    assert sorted(table.scan(["id"]).to_polars()["id"]) == [3, 11]


POLARS = [
    pl.col("n").is_in([None, 1], nulls_equal=True),
    ~pl.col("n").is_in([None, 1], nulls_equal=True),
    pl.col("n").is_in([1, 3], nulls_equal=True),
    ~pl.col("n").is_in([1, 3], nulls_equal=True),
    pl.col("n").is_in([None, 1]),
    ~pl.col("n").is_in([None, 1]),
    pl.col("n").is_in([None], nulls_equal=True),
    pl.col("s").is_in([None, "a"], nulls_equal=True),
    pl.col("x").is_in([None, 1.5], nulls_equal=True),
    pl.col("s").str.contains_any(["a", None]),
    pl.col("n").map_elements(lambda n: n > len("a"), return_dtype=pl.Boolean),
    pl.col("n").map_batches(lambda n: n > 1, return_dtype=pl.Boolean, is_elementwise=True) & (pl.col("x") > 0),
]


def test_polars_conditions_that_polars_itself_cannot_push_into_files(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {"id": [1, 2, 3, 4], "n": [1, 2, 3, None], "s": ["a", "b", None, ""], "x": [1.5, None, 0.1, -1.0]}
    )
    table = Catalog(tmp_path).create_table("db.t", schema="id BIGINT, n BIGINT, s STRING, x DOUBLE")
    table.append(rows)
    for condition in POLARS:
        expected = rows.filter(condition)["id"].to_list()
        assert {name: read(table, condition) for name, read in FACES.items()} == dict.fromkeys(FACES, expected)


def test_what_polars_cannot_compute_is_blamed_on_the_filter(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema="id INT, s STRING")
    table.append(pl.DataFrame({"id": [1], "s": ["x"]}, schema={"id": pl.Int32, "s": pl.String}))
    with pytest.raises(InvalidArgument, match=r"Polars cannot evaluate .*conversion from `str` to `i64` failed"):
        table.scan(filter=pl.col("s").cast(pl.Int64) == 1).to_arrow()


def test_the_predicate_still_reaches_the_files_and_columns_pass(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema="id INT, s STRING, other STRING")
    table.append(pl.DataFrame({"id": [1], "s": ["x"], "other": ["y"]}, schema_overrides={"id": pl.Int32}))
    scan = table.scan(filter="id > 0 AND upper(s) = 'X'")
    plan = to_lazy(scan.plan, scan.store).select("id").explain()
    assert 'SELECTION: col("id") > 0' in plan
    assert "PROJECT 2/3 COLUMNS" in plan
