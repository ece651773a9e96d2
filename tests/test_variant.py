"""VARIANT columns in Python and SQL: dicts and JSON in, Python values and parts out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import morrow
import morrow.variant
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import VariantType

ROWS = [
    {"id": 1, "v": {"a": 1, "b": [1, 2.5, {"c": "x"}]}},
    {"id": 2, "v": {"a": Decimal("1.50"), "b": None}},
    {"id": 3, "v": None},
    {"id": 4, "v": {"a": "text", "d": dt.date(2020, 1, 1)}},
]


@pytest.fixture
def catalog(tmp_path: Path) -> morrow.Catalog:
    catalog = morrow.Catalog(tmp_path)
    catalog.create_table("db.t", schema="id INT, v VARIANT").append(ROWS)
    return catalog


def test_python_values(catalog: morrow.Catalog) -> None:
    scan = catalog.table("db.t").scan()
    assert scan.to_dicts() == ROWS
    assert morrow.variant.to_python(scan.to_arrow()["v"]) == [row["v"] for row in ROWS]
    assert scan.to_pandas(variants="python")["v"].tolist() == [row["v"] for row in ROWS]
    json = ['{"a":1,"b":[1,2.5,{"c":"x"}]}', '{"a":1.5,"b":null}', None, '{"a":"text","d":"2020-01-01"}']
    assert scan.to_pandas(variants="json")["v"].tolist()[:2] == json[:2]
    assert morrow.variant.to_json(scan.to_polars()["v"]).to_pylist() == json
    assert morrow.variant.get_text(scan.to_arrow()["v"], "$.b[2].c").to_pylist() == ["x", None, None, None]
    assert morrow.variant.is_null(morrow.variant.get(scan.to_arrow()["v"], "$.b")).to_pylist() == [
        *(False, True, False, False)
    ]


def test_every_form_of_input(tmp_path: Path) -> None:
    """JSON text, objects of Python, structs and lists of Arrow, bytes of variants: all become the same values."""
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT, v VARIANT")
    ids = pa.array([1, 2], pa.int32())
    value = {"a": [1, "x"]}
    table.append([{"id": 1, "v": value}, {"id": 2, "v": '{"a": [1, "x"]}'}])
    table.append(pa.table({"id": ids, "v": ['{"a": [1, "x"]}'] * 2}))
    table.append(pa.table({"id": ids, "v": morrow.variant.parse_json(['{"a": [1, "x"]}'] * 2)}))
    table.append(pd.DataFrame({"id": pd.array([1, 2], "int32"), "v": [value, value]}))
    table.append(
        {"id": [1, 2], "v": [{"value": each, "metadata": m} for each, m in [morrow.variant.encode(value)] * 2]}
    )
    assert [row["v"] for row in table.scan().to_dicts()] == [value] * 10

    table.overwrite(pl.DataFrame({"id": [1, 2], "v": [{"n": 1, "m": [True]}, None]}, schema_overrides={"id": pl.Int32}))
    assert [row["v"] for row in table.scan().to_dicts()] == [{"n": 1, "m": [True]}, None]


def test_variants_within_rows_and_arrays(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT, r ROW<w VARIANT, s STRING>, a ARRAY<VARIANT>")
    rows = [
        {"id": 1, "r": {"w": {"z": None}, "s": "q"}, "a": [1, {"x": 2}, None]},
        {"id": 2, "r": None, "a": None},
        {"id": 3, "r": {"w": None, "s": "x"}, "a": []},
    ]
    table.append(rows)
    assert table.scan().to_dicts() == rows


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("hello", "'hello' is not JSON"),
        ('{"a":1,"a":2}', "has the member 'a' twice"),
        ({1: 2}, "the name 1 of a member"),
        (object(), "a object in a VARIANT"),
    ],
)
def test_values_that_no_variant_holds(catalog: morrow.Catalog, value: object, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        catalog.table("db.t").append([{"id": 9, "v": value}])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT variant_get(v, '$.a', 'string') FROM db.t ORDER BY id", ["1", "1.5", None, "text"]),
        ("SELECT v:b[2].c::string FROM db.t ORDER BY id", ["x", None, None, None]),
        ("SELECT t.v:a::string FROM db.t AS t WHERE t.v:a::string <> '1' ORDER BY id", ["1.5", "text"]),
        ("SELECT try_variant_get(v, '$.a', 'int') FROM db.t ORDER BY id", [1, 1, None, None]),
        ("SELECT is_variant_null(v:b) FROM db.t ORDER BY id", [False, True, False, False]),
        ("SELECT variant_get(parse_json('{\"a\": [1, 2]}'), '$.a', 'array<int>')", [[1, 2]]),
        ("SELECT variant_get(parse_json('{\"a\": 1.75}'), '$.a', 'decimal(4, 1)')", [Decimal("1.8")]),
        ("SELECT variant_get(v, '$.d', 'date') FROM db.t WHERE id = 4", [dt.date(2020, 1, 1)]),
        ("SELECT try_parse_json('{x') IS NULL", [True]),
        ("SELECT 'v:a' || id::text FROM db.t WHERE id = 1", ["v:a1"]),
        ("SELECT x: id FROM db.t WHERE id = 1", [1]),
        ("SELECT {a: id} FROM db.t WHERE id = 1", [{"a": 1}]),
        ("SELECT [1, 2, 3][id:id] FROM db.t WHERE id = 2", [[2]]),
    ],
)
def test_queries(catalog: morrow.Catalog, query: str, expected: list[object]) -> None:
    assert [row[0] for row in catalog.sql(query).fetchall()] == expected


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT parse_json('{x')", "is not JSON"),
        ("SELECT variant_get(v, '$.a', 'int') FROM db.t", "Could not convert string 'text' to INT32"),
        ("SELECT variant_get(v, 'a', 'int') FROM db.t", "'a' is not a path"),
        ("SELECT variant_get(v, '$.a', 'nope nope') FROM db.t", "is not a type"),
        ("SELECT variant_get(v, '$.a', 'int', 3) FROM db.t", "takes 1 to 3 arguments, not 4"),
    ],
)
def test_queries_that_fail(catalog: morrow.Catalog, query: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        catalog.sql(query).fetchall()


def test_statements(catalog: morrow.Catalog) -> None:
    catalog.sql("DELETE FROM db.t WHERE id > 0")
    catalog.sql("INSERT INTO db.t SELECT 1, parse_json('{\"k\": [1]}')")
    catalog.sql("INSERT INTO db.t VALUES (2, '{\"k\": 5}')")
    catalog.sql("INSERT INTO db.t SELECT 3, {'k': 1.5::DOUBLE}")
    catalog.sql("UPDATE db.t SET v = parse_json('[9]') WHERE id = 2")
    rows = sorted(catalog.table("db.t").scan().to_dicts(), key=lambda row: row["id"])
    assert [row["v"] for row in rows] == [{"k": [1]}, [9], {"k": 1.5}]


def test_the_variant_of_duckdb(catalog: morrow.Catalog) -> None:
    """DuckDB has a type of its own since version 2: it is written, and `to_duckdb_variant` gives it."""
    duckdb = pytest.importorskip("duckdb", minversion="2.0")
    assert duckdb
    query = "SELECT variant_extract(x, 'a')::VARCHAR, typeof(x) FROM (SELECT to_duckdb_variant(v) AS x FROM db.t) AS q"
    assert ("text", "VARIANT") in catalog.sql(query).fetchall()
    catalog.sql("INSERT INTO db.t SELECT 7, {'k': 1}::VARIANT")
    assert catalog.table("db.t").scan(filter="id = 7").to_dicts() == [{"id": 7, "v": {"k": 1}}]


VARIANTS = VariantType().arrow()
WRAPPED: dict[str, tuple[pa.DataType, Callable[[Any], Any]]] = {
    "VARIANT": (VARIANTS, lambda value: value),
    "ROW<a VARIANT>": (pa.struct([("a", VARIANTS)]), lambda value: {"a": value}),
    "ARRAY<VARIANT>": (pa.list_(VARIANTS), lambda value: [None, value]),
    "MAP<STRING, VARIANT>": (pa.map_(pa.string(), VARIANTS), lambda value: [("a", value)]),
}
BROKEN: dict[str, tuple[bytes, bytes]] = {
    "object without members": (b"\xff\xff", b"\x01\0\0"),
    "nothing": (b"", b""),
    "text cut off": (b"\x15a", b"\x01\0\0"),
    "text that is not UTF-8": (b"\x05\xff", b"\x01\0\0"),
    "other version": (b"\x0c\x01", b"\x02\0\0"),
    "other type": (b"\xfc", b"\x01\0\0"),
    "member without a name": (b"\x02\x01\x00\x00\x02\x0c\x01", b"\x01\0\0"),
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_bytes_that_are_no_variant_are_refused(tmp_path: Path, kind: str) -> None:
    arrow, wrap = WRAPPED[kind]
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=f"v {kind}")
    sound = dict(zip(("value", "metadata"), morrow.variant.encode({"a": [1, None, "x"]})))
    for value, metadata in BROKEN.values():
        rows = [wrap(sound), None, wrap({"value": value, "metadata": metadata}), wrap(sound)]
        with pytest.raises(InvalidArgument, match="column 'v', row 2: its bytes are not VARIANT"):
            table.append(pa.table({"v": pa.array(rows, arrow)}))
    table.append(pa.table({"v": pa.array([wrap(sound), None], arrow)}))
    assert table.to_arrow()["v"].to_pylist() == pa.array([wrap(sound), None], arrow).to_pylist()


@pytest.mark.parametrize("rows", [1, 50])
def test_values_that_no_variant_holds_are_refused(tmp_path: Path, rows: int) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="v VARIANT")
    deep: Any = 1
    for _ in range(900):
        deep = {"a": deep}
    for value in ("1e400", '{"a": [-1e999]}', '{"a":' * 499 + "1" + "}" * 499):
        with pytest.raises(InvalidArgument, match=r"beyond DOUBLE|nested deeper"):
            table.append({"v": [value] * rows})
    with pytest.raises(InvalidArgument, match="nested deeper"):
        table.append([{"v": deep}] * rows)


def test_other_values_and_types_that_are_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table("db.t", schema="v INT")
    value: Any = 1
    for _ in range(600):
        value = {"a": value}
    (tmp_path / "deep.json").write_text('{"a":' * 600 + "1" + "}" * 600)
    calls: list[Callable[[], object]] = [
        lambda: table.append([{"v": value}]),
        lambda: catalog.create_table("db.u", schema="v " + "ROW<a " * 600 + "INT" + ">" * 600),
        lambda: catalog.import_table([{"v": value}], "db.u"),
        lambda: catalog.import_table(tmp_path / "deep.json", "db.u"),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match="nested deeper than Python can follow"):
            call()
