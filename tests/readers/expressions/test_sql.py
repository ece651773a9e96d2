"""Names, literals and paths keep their meaning in SQL text whatever they contain."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarCharType,
)
from morrow.engine.plan.predicate import And, Leaf, Op, Or
from morrow.readers.execution.duckdb_relation import make_relation
from morrow.readers.expressions.sql import (
    compile,
    make_names_unique,
    quote_identifier,
    quote_literal,
    quote_path,
    quote_text,
    rename_value_members,
)
from morrow.writers.operations.merge import find_matches
from tests.support.one_duckdb import one_duckdb
from tests.support.written import new_table, renamed_by_others

FIELDS = (DataField(0, "x", IntType()), DataField(1, "dt", DateType()), DataField(2, 'a"b', VarCharType()))
NASTY = [
    "'",
    '"',
    "''",
    '""',
    "\\",
    "\\'",
    "--",
    ";",
    "/*",
    "*/",
    "\n",
    "\t",
    "$$",
    "$1",
    "?",
    "%",
    "x' OR '1'='1",
    '"; DROP TABLE t; --',
    "\u2019",
    "🙂",
]


def answer(expression: str) -> Any:
    with one_duckdb().cursor() as connection:
        return connection.execute(f"SELECT {expression}").fetchall()[0][0]


def test_a_predicate_reads_as_sql() -> None:
    predicate = And(
        (
            Leaf("x", Op.IN, (1, -2)),
            Or((Leaf("dt", Op.GE, (dt.date(2024, 1, 1),)), Leaf('a"b', Op.STARTS_WITH, ("it's",)))),
        )
    )
    assert compile(predicate, FIELDS) == (
        "(\"x\" IN (CAST('1' AS INTEGER), CAST('-2' AS INTEGER)) AND "
        "(\"dt\" >= DATE '2024-01-01' OR starts_with(\"a\"\"b\", 'it''s')))"
    )


@pytest.mark.parametrize(
    ("value", "kind", "sql"),
    [
        (True, BooleanType(), "TRUE"),
        (-128, TinyIntType(), "CAST('-128' AS TINYINT)"),
        (0.25, FloatType(), "CAST('0.25' AS FLOAT)"),
        (float("-inf"), FloatType(), "CAST('-inf' AS FLOAT)"),
        (Decimal("1E+2"), DecimalType(precision=5, scale=2), "CAST('100' AS DECIMAL(5, 2))"),
        (b"\x00'", BinaryType(length=2), "CAST('\\x00\\x27' AS BLOB)"),
        (dt.time(10, 0, 0, 1000), TimeType(), "TIME '10:00:00.001000'"),
        (dt.datetime(2024, 1, 1, 10), TimestampType(precision=3), "TIMESTAMP_MS '2024-01-01 10:00:00'"),
        (dt.datetime(2024, 1, 1, 10), TimestampType(precision=9), "TIMESTAMP_NS '2024-01-01 10:00:00'"),
        (
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            LocalZonedTimestampType(),
            "TIMESTAMPTZ '2024-01-01 00:00:00+00:00'",
        ),
    ],
)
def test_literals_carry_the_type_of_their_column(value: Any, kind: DataType, sql: str) -> None:
    assert quote_literal(value, kind) == sql
    answer(f"({sql}) IS NOT NULL")


@given(text=st.text(max_size=20) | st.lists(st.sampled_from(NASTY), max_size=4).map("".join))
@settings(max_examples=settings().max_examples)
def test_any_text_comes_back_as_it_was(text: str) -> None:
    assert answer(quote_text(text)) == text


@given(value=st.binary(max_size=20))
@settings(max_examples=settings().max_examples // 2)
def test_any_bytes_come_back_as_they_were(value: bytes) -> None:
    assert answer(quote_literal(value, BinaryType(length=20))) == value


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=10)


@given(name=names | st.lists(st.sampled_from(NASTY), min_size=1, max_size=4).map("".join), value=st.integers(-5, 5))
@settings(max_examples=settings().max_examples)
def test_any_name_stays_a_name(name: str, value: int) -> None:
    field = DataField(0, name, IntType())
    data = pa.table({name: pa.array([value, value + 1, None], pa.int32())})
    with one_duckdb().cursor() as connection:
        connection.register("data", data)
        where = compile(Leaf(name, Op.EQ, (value,)), [field])
        assert connection.execute(f"SELECT {quote_identifier(name)} FROM data WHERE {where}").fetchall() == [(value,)]


@pytest.mark.parametrize("name", ["plain", "a[b]", "a*b", "a?b", "it's", "a b", "[*?]", "ä-日本", "a{b,c}", "a\\b"])
def test_a_path_is_one_file_even_where_globs_match_others(tmp_path: Path, name: str) -> None:
    for i, other in enumerate([name, "ab", "axb", "b", "ac", "*"]):
        pl.DataFrame({"i": [i if other != name else 0]}).write_parquet(tmp_path / f"{other}.parquet")
    assert answer(f"list(i) FROM read_parquet({quote_path(str(tmp_path / name))[:-1]}.parquet')") == [0]


def test_what_cannot_be_written_is_refused() -> None:
    for name in ("", "a\0b"):
        with pytest.raises(InvalidArgument, match="cannot be written in SQL"):
            quote_identifier(name)
    with pytest.raises(Unsupported, match="literal of type ARRAY<INT>"):
        quote_literal(1, ArrayType(element=IntType()))
    with pytest.raises(ColumnNotFound, match="'y' is not among the columns read: x, dt"):
        compile(Leaf("y", Op.EQ, (1,)), FIELDS)


# Columns whose names differ only in case are not confused in DuckDB's SQL.


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
    assert make_names_unique(names) == apart


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
    arrow = make_relation(members.scan().to_arrow(), connection)
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
        find_matches(members.scan().to_arrow(), members.scan().to_arrow(), "source.r.A = target.r.A")
    assert sorted(members.scan(["id"]).to_arrow()["id"].to_pylist()) == [1, 3, 12]


def test_values_are_not_copied_and_slices_stay_slices() -> None:
    kind = pa.list_(pa.struct([("k", pa.int64()), ("K", pa.string())]))
    values = pa.array([[{"k": i, "K": str(i)}] * (i % 3) for i in range(9)] + [None], kind)
    for piece in (values, values[2:5], values[9:], values[:0]):
        apart = rename_value_members(piece)
        apart.validate(full=True)
        expected = [row and [{"k_1": each["k"], "K_2": each["K"]} for each in row] for row in piece.to_pylist()]
        assert apart.to_pylist() == expected
        assert [b and b.address for b in apart.buffers()] == [b and b.address for b in piece.buffers()]


def test_a_duckdb_that_would_end_the_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "__version__", "1.5.6")
    with pytest.raises(Unsupported, match=r"DuckDB 1\.5\.6.*pip install 'duckdb>=2'"):
        morrow.duckdb.install()
