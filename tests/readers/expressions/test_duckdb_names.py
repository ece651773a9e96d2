"""Columns whose names differ only in case, in DuckDB's SQL: told apart, and never one for the other."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.readers.execution.duckdb_relation import relation
from morrow.readers.expressions.duckdb_names import told_apart, values_apart
from morrow.writers.operations.joining import matches
from tests.support.written import new_table, renamed_by_others


@pytest.mark.parametrize(
    ("names", "apart"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "A", "b"], ["a_1", "A_2", "b"]),
        (["A_1", "a", "a_2", "A"], ["A_1", "a_3", "a_2", "A_4"]),
        (["é", "É", "ß", "SS"], ["é", "É", "ß", "SS"]),
        ([], []),
    ],
)
def test_names_that_duckdb_takes_for_one_get_numbers(names: list[str], apart: list[str]) -> None:
    assert told_apart(names) == apart


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    table = renamed_by_others(new_table(tmp_path, "a INT, other STRING, b INT"), {"other": "A"})
    table.append(pa.table({"a": [1, 2], "A": ["x", "y"], "b": [3, 4]}))
    return tmp_path


WRONG = ["SELECT a FROM {}", 'SELECT "A" FROM {}', "SELECT b FROM {} WHERE A = 'x'", "SELECT b FROM {} ORDER BY a"]
RIGHT = {
    "SELECT * FROM {}": [(1, "x", 3), (2, "y", 4)],
    "SELECT A_2, a_1 FROM {}": [("x", 1), ("y", 2)],
    "SELECT b FROM {} WHERE A_2 = 'y'": [(4,)],
    "SELECT a_1 FROM {} WHERE a_1 > 1 AND b < 9": [(2,)],
    "SELECT count(*) FROM {}": [(2,)],
    "SELECT count(*) FROM {} WHERE a_1 > 1": [(1,)],
}


def test_paimon_scan(warehouse: Path) -> None:
    connection = morrow.duckdb.install(duckdb.connect())
    source = f"paimon_scan('{warehouse}/db.db/t')"
    assert {query: connection.sql(query.format(source)).fetchall() for query in RIGHT} == RIGHT
    for query in WRONG:
        with pytest.raises(duckdb.BinderException, match="not found"):
            connection.sql(query.format(source))


def test_sql_of_a_catalog(warehouse: Path) -> None:
    catalog, connection = morrow.Catalog(str(warehouse)), duckdb.connect()
    assert {query: catalog.sql(query.format("db.t"), connection=connection).fetchall() for query in RIGHT} == RIGHT
    for query in WRONG:
        with pytest.raises(InvalidArgument, match="not found"):
            catalog.sql(query.format("db.t"), connection=connection)


@pytest.mark.parametrize("limit", [None, 5])
def test_relations(warehouse: Path, limit: int | None) -> None:
    relation = morrow.open(f"{warehouse}/db.db/t").scan(limit=limit).to_duckdb(duckdb.connect())
    assert relation.columns == ["a_1", "A_2", "b"]
    assert relation.filter("A_2 = 'y'").project("a_1").fetchall() == [(2,)]


# --- members of rows ---

MEMBERS = "id INT, r ROW<a INT, u STRING, x BIGINT>, l ARRAY<ROW<k INT, v INT>>, m MAP<STRING, ROW<z INT, w INT>>"
OTHERS = {"u": "A", "v": "K", "w": "Z"}
MEMBER_ROWS = [
    {"id": 1, "r": {"a": 1, "A": "x", "x": 7}, "l": [{"k": 1, "K": 2}], "m": [("y", {"z": 5, "Z": 6})]},
    {"id": 2, "r": {"a": 2, "A": "y", "x": None}, "l": [], "m": None},
    {"id": 3, "r": None, "l": None, "m": []},
]
MEMBER_RIGHT = {
    "SELECT r.a_1, r.A_2, r.x FROM {} WHERE id = 1": [(1, "x", 7)],
    "SELECT id FROM {} WHERE r.A_2 = 'y'": [(2,)],
    "SELECT id FROM {} WHERE r.a_1 > 1 AND id < 9": [(2,)],
    "SELECT id FROM {} WHERE r.x = 7": [(1,)],
    "SELECT id FROM {} WHERE r IS NULL": [(3,)],
    "SELECT l[1].k_1, l[1].K_2 FROM {} WHERE id = 1": [(1, 2)],
    "SELECT m['y'].Z_2 FROM {} WHERE id = 1": [(6,)],
    "SELECT count(*) FROM {}": [(3,)],
}
MEMBER_WRONG = [
    "SELECT r.a FROM {}",
    'SELECT r."A" FROM {}',
    "SELECT r['A'] FROM {}",
    "SELECT struct_extract(r, 'A') FROM {}",
    "SELECT id FROM {} WHERE r.A = 'y'",
    "SELECT l[1].K FROM {}",
    "SELECT list_transform(l, lambda e: e.K) FROM {}",
    "SELECT m['y'].Z FROM {}",
]


@pytest.fixture
def members(tmp_path: Path) -> morrow.Table:
    table = renamed_by_others(new_table(tmp_path, MEMBERS), OTHERS)
    table.append(pa.Table.from_pylist(MEMBER_ROWS, schema=table.scan().to_arrow().schema))
    return table


def test_members_of_rows(members: morrow.Table, tmp_path: Path) -> None:
    connection = morrow.duckdb.install(duckdb.connect())
    catalog = morrow.Catalog(str(tmp_path))
    taken = members.scan().to_duckdb(connection)
    arrow = relation(members.scan().to_arrow(), connection)
    faces = {
        "paimon_scan": lambda query: connection.sql(query.format(f"paimon_scan('{members.path}')")),
        "Catalog.sql": lambda query: catalog.sql(query.format("db.t"), connection=connection),
        "to_duckdb": lambda query: taken.query("taken", query.format("taken")),
        "a table": lambda query: arrow.query("arrow", query.format("arrow")),
    }
    for face, run in faces.items():
        assert {query: run(query).fetchall() for query in MEMBER_RIGHT} == MEMBER_RIGHT, face
        for query in MEMBER_WRONG:
            with pytest.raises((duckdb.Error, InvalidArgument), match=r"in struct|not find"):
                run(query).fetchall()
    assert members.scan().to_arrow().to_pylist() == MEMBER_ROWS  # by their own names


def test_members_in_filters(members: morrow.Table) -> None:
    for text, ids in (
        ("r.A_2 = 'y'", [2]),
        ("r.x = 7", [1]),
        ("r IS NULL OR r.a_1 = 1", [1, 3]),
        ("l[1].K_2 = 2", [1]),
    ):
        assert members.scan(["id"], text).to_arrow()["id"].to_pylist() == ids, text
    for text in ("r.A = 'y'", "r.a = 1", "r['a'] = 1", "l[1].K = 2", "m['y'].Z = 6", "struct_extract(r, 'a') = 1"):
        with pytest.raises(InvalidArgument, match="cannot evaluate"):
            members.scan(["id"], text).to_arrow()
    a = pl.col("r").struct.field("A")
    assert members.scan(["id"], a == "y").to_arrow()["id"].to_pylist() == [2]


def test_members_in_updates(members: morrow.Table) -> None:
    for where, value in (("r.A = 'y'", "id"), ("id = 2", "r.a"), ("id = 2", "l[1].K")):
        with pytest.raises(InvalidArgument):
            members.update({"id": value}, where=where)
    members.update({"id": "r.a_1 + 10"}, where="r.A_2 = 'y'")
    with pytest.raises(InvalidArgument, match="merge on"):
        matches(members.scan().to_arrow(), members.scan().to_arrow(), "source.r.A = target.r.A")
    assert sorted(members.scan(["id"]).to_arrow()["id"].to_pylist()) == [1, 3, 12]


def test_values_are_not_copied_and_slices_stay_slices() -> None:
    kind = pa.list_(pa.struct([("k", pa.int64()), ("K", pa.string())]))
    values = pa.array([[{"k": i, "K": str(i)}] * (i % 3) for i in range(9)] + [None], kind)
    for piece in (values, values[2:5], values[9:], values[:0]):
        apart = values_apart(piece)
        apart.validate(full=True)
        expected = [row and [{"k_1": each["k"], "K_2": each["K"]} for each in row] for row in piece.to_pylist()]
        assert apart.to_pylist() == expected
        assert [b and b.address for b in apart.buffers()] == [b and b.address for b in piece.buffers()]
