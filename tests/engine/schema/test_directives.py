"""Columns that comments declare as vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import InvalidArgument


def test_a_comment_makes_an_array_a_vector(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    columns = "id INT, v ARRAY<FLOAT> COMMENT '__VECTOR_FIELD; 3; of products'"
    table = catalog.create_table("db.t", schema=columns)
    assert table._newest.column("v").type.text() == "VECTOR<FLOAT, 3>"
    assert table._newest.column("v").description == "of products"
    assert table.options["vector-field"] == "v"

    table.alter.add_column("w", "ARRAY<DOUBLE>", comment="__VECTOR_FIELD;2")
    table.alter.rename_column("v", "x")
    table = catalog.table("db.t")
    assert table._newest.column("w").type.text() == "VECTOR<DOUBLE, 2>"
    assert table.options["vector-field"] == "x,w"

    table.alter.drop_column("x")
    table.alter.drop_column("w")
    assert "vector-field" not in catalog.table("db.t").options


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ("v ARRAY<FLOAT> COMMENT '__VECTOR_FIELD'", "is not a directive"),
        ("v ARRAY<FLOAT> COMMENT '__VECTOR_FIELD;0'", "is not a directive"),
        ("v ARRAY<FLOAT> COMMENT '__VECTORS;3'", "is not a directive"),
        ("v INT COMMENT '__VECTOR_FIELD;3'", "declare an ARRAY"),
    ],
)
def test_directives_that_declare_no_vector(column: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        morrow.Catalog(tmp_path).create_table("db.t", schema=f"id INT, {column}")


def test_options_make_an_array_a_vector(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    options = {"vector-field": "v", "field.v.vector-dim": "3"}
    table = catalog.create_table("db.t", schema="id INT, v ARRAY<FLOAT> NOT NULL", options=options)
    assert str(table._newest.column("v")) == "`v` VECTOR<FLOAT, 3> NOT NULL"
    table.append([{"id": 1, "v": [1.0, 2.0, 3.0]}])
    assert table.to_arrow()["v"].to_pylist() == [[1.0, 2.0, 3.0]]

    table.alter.drop_column("v")
    assert not catalog.table("db.t").options.keys() & options.keys()


@pytest.mark.parametrize(
    ("column", "length", "problem"),
    [
        ("v FLOAT", "3", "The type of vector field 'v' must be array, but is float"),
        ("v ARRAY<FLOAT>", None, "When setting 'vector-field', you must also set 'field.v.vector-dim'"),
        ("v ARRAY<FLOAT>", "", "Expected an integer for 'field.v.vector-dim', but got empty value"),
        ("v ARRAY<FLOAT>", "abc", "Expected an integer for 'field.v.vector-dim', but got: abc"),
    ],
)
def test_options_that_declare_no_vector(column: str, length: str | None, problem: str, tmp_path: Path) -> None:
    options = {"vector-field": "v", **({} if length is None else {"field.v.vector-dim": length})}
    with pytest.raises(InvalidArgument, match=problem):
        morrow.Catalog(tmp_path).create_table("db.t", schema=f"id INT, {column}", options=options)
