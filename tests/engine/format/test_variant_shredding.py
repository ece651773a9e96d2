"""Shredded VARIANT: values taken apart into columns, and rebuilt."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import morrow
import morrow.variant
from morrow.engine.errors import CorruptFile, InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.variant import decode, encode
from morrow.engine.format.variant_building import encode_values
from morrow.engine.format.variant_shredding import build_group_type, infer_shredding_type, rebuild, shred
from morrow.engine.schema.sql_columns import parse_type

SCALARS = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(38, 3)"),
    *("STRING", "BYTES", "DATE", "TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "VARIANT"),
)
NESTED = (
    "ROW<a BIGINT, b STRING, c ROW<d DOUBLE, x DECIMAL(5, 2)>, l ARRAY<INT>>",
    "ARRAY<ROW<a INT, b ARRAY<STRING>>>",
)
LEAVES = st.sampled_from(
    [
        *(
            None,
            True,
            0,
            1,
            -129,
            2**31,
            2**63 - 1,
            10**25,
            1.5,
            Decimal("1.25"),
            Decimal("3.00"),
            Decimal("99999.999"),
        ),
        *(
            "",
            "x",
            "y" * 70,
            b"z",
            dt.date(2020, 1, 1),
            dt.datetime(2020, 1, 1),
            dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        ),
    ]
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdlxz"), inner, max_size=4),
    max_leaves=10,
)


def read(array: pa.Array) -> list[Any]:
    return [None if row is None else decode(**row) for row in array.to_pylist()]


@pytest.mark.parametrize("kind", [*SCALARS, *NESTED])
@given(st.data())
def test_values_are_rebuilt(kind: str, data: st.DataObject) -> None:
    type_ = parse_type(kind, "v")
    values = data.draw(st.lists(VALUES, max_size=6))
    made = shred(encode_values(values), type_)
    made.validate(full=True)
    assert made.type == build_group_type(type_, is_top=True)
    assert read(rebuild(made)) == values
    assert read(rebuild(made.slice(1))) == values[1:]


def test_where_the_parts_are() -> None:
    kind = parse_type("ROW<a BIGINT, b STRING, l ARRAY<INT>>", "v")
    values = [{"a": 1, "b": 2, "z": True}, {"l": [1, "x"], "b": "text"}, 5, None]
    group = shred(encode_values(values), kind)
    typed, value = group.field("typed_value"), group.field("value").to_pylist()
    assert typed.field("a").field("typed_value").to_pylist()[:2] == [1, None]
    assert typed.field("b").field("typed_value").to_pylist()[:2] == [None, "text"]
    assert typed.field("b").field("value").to_pylist()[:2] == [encode(2)[0], None]
    elements = typed.field("l").field("typed_value")[1].as_py()
    assert [each["typed_value"] for each in elements] == [1, None]
    assert typed.is_valid().to_pylist() == [True, True, False, False]
    assert [each is None for each in value] == [False, True, False, True]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([{"a": 1, "b": "x"}, {"a": 2}], "ROW<a BIGINT, b STRING>"),
        ([{"a": 1}, {"a": "x"}], "ROW<a VARIANT>"),
        ([{"a": 1.5}] * 20 + [{"rare": 1}], "ROW<a DOUBLE>"),
        ([[1, 2], [Decimal("1.25")]], "ARRAY<DECIMAL(18, 2)>"),
        ([1, 10**20], "DECIMAL(38, 0)"),
        ([{"a": None}, {"a": [{"b": True}]}], "ROW<a ARRAY<ROW<b BOOLEAN>>>"),
        ([{}, 1], "VARIANT"),
        ([], "VARIANT"),
    ],
)
def test_inferred_types(values: list[object], kind: str) -> None:
    found = infer_shredding_type(values, width=300, depth=50, ratio=0.1)
    assert found.text() == kind or found.text().replace("`", "") == kind
    assert isinstance(infer_shredding_type([{"a": {"b": 1}}], width=300, depth=1, ratio=0.1), t.RowType)
    assert infer_shredding_type([{"a": 1, "b": 2}], width=1, depth=9, ratio=0.1) == t.VariantType()


def test_damaged_groups() -> None:
    group = shred(encode_values([{"a": 1, "z": 2}]), parse_type("ROW<a BIGINT>", "v"))
    metadata, value, typed = (group.field(i) for i in range(3))
    for members, problem in (
        ({"metadata": pa.array([b"\x01\x00\x00"]), "value": value, "typed_value": typed}, "lacks the name|no name"),
        ({"metadata": metadata, "value": pa.array([encode(5)[0]]), "typed_value": typed}, "is not an object"),
        ({"metadata": metadata, "value": pa.array([None], pa.binary())}, "a value is missing"),
        ({"metadata": pa.array([None], pa.binary()), "value": value}, "its metadata is null"),
        ({"value": value, "other": value}, "a column with the members other, value"),
    ):
        with pytest.raises(CorruptFile, match=problem):
            rebuild(pa.StructArray.from_arrays(list(members.values()), list(members)))


ROWS = [
    {"id": 1, "v": {"a": 1, "b": "x", "c": {"d": 1.5, "y": 2}, "l": [1, 2, 3]}},
    {"id": 2, "v": {"a": "text", "l": [1, "x"], "z": None}},
    {"id": 3, "v": None},
    {"id": 4, "v": {"a": 3}},
]
SHREDDED = json.dumps(
    {
        "type": "ROW",
        "fields": [
            {
                "id": 0,
                "name": "v",
                "type": {
                    "type": "ROW",
                    "fields": [
                        {"id": 0, "name": "a", "type": "BIGINT"},
                        {"id": 1, "name": "l", "type": {"type": "ARRAY", "element": "INT"}},
                    ],
                },
            }
        ],
    }
)

WITHOUT_IDS = re.sub(r'"id": \d+, ', "", SHREDDED)
"""The form in pypaimon's tests."""


@pytest.mark.parametrize(
    "options",
    [
        {"variant.shreddingSchema": SHREDDED},
        {"variant.shreddingSchema": WITHOUT_IDS},
        {"variant.inferShreddingSchema": True},
    ],
    ids=["given", "without ids", "inferred"],
)
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"], ids=["append", "keyed"])
def test_tables_of_shredded_files(tmp_path: Path, options: dict[str, object], key: str) -> None:
    """Files of several layouts are read together; a later file is written with the options of its time."""
    catalog = morrow.Catalog(tmp_path)
    keyed = {"bucket": 1} if key else {}
    table = catalog.create_table("db.t", schema=f"id INT, v VARIANT{key}", options=keyed)
    write = table.upsert if key else table.append
    write([{"id": 0, "v": ["plain"]}])
    table.alter.set_options(options)
    table = catalog.table("db.t")
    (table.upsert if key else table.append)(ROWS)
    stored = [pq.read_schema(path).field("v").type for path in tmp_path.glob("db.db/t/bucket-0/*.parquet")]
    assert sorted(each.get_field_index("typed_value") >= 0 for each in stored) == [False, True]
    assert table.scan(filter="id > 0").to_dicts() == ROWS
    assert table.scan().lazy().collect().height == 5
    assert catalog.sql("SELECT id FROM db.t WHERE v:a::string = '1'").fetchall() == [(1,)]
    assert table.doctor(data=True).healthy
    ids = [path for path in tmp_path.glob("db.db/t/bucket-0/*.parquet") if "field_id=-1 element" in _show(path)]
    assert not ids, "Java reads no group without a field id"
    table.compact()
    assert sorted(row["id"] for row in catalog.table("db.t").scan().to_dicts()) == [0, 1, 2, 3, 4]


def _show(path: Path) -> str:
    return str(pq.ParquetFile(path).schema)


def test_files_of_duckdb(tmp_path: Path) -> None:
    """DuckDB shreds variants in its own way, with groups in another order."""
    duckdb = pytest.importorskip("duckdb", minversion="2.0")
    texts = ['{"a":1,"b":[1.5,null],"c":"x"}', '{"a":"y","c":"z","d":{"e":1}}', "[1,2]", "5"] * 3
    path = tmp_path / "v.parquet"
    rows = pa.table({"v": texts})
    connection = duckdb.connect()
    connection.register("given", rows)
    connection.execute(f"COPY (SELECT v::JSON::VARIANT AS v FROM given) TO '{path}'")
    column = pq.read_table(path)["v"].combine_chunks()
    assert [json.loads(each) for each in morrow.variant.to_json(rebuild(column)).to_pylist()] == list(
        map(json.loads, texts)
    )


TIME = '{"type":"ROW","fields":[{"id":0,"name":"v","type":"TIME(0)"}]}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{", "is not the JSON of a ROW"), ('"INT"', "give a ROW"), (TIME, "cannot be shredded into TIME")],
)
def test_types_into_which_nothing_is_shredded(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        morrow.Catalog(tmp_path).create_table("db.t", schema="v VARIANT", options={"variant.shreddingSchema": text})
