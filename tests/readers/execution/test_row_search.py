"""Searches for the nearest vectors, compared with numpy over all rows, and for words; see `test_index_search`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.readers.execution.row_search import SCORE

ROWS = 500
RANDOM = np.random.default_rng(7)
VECTORS = RANDOM.integers(-3, 4, (ROWS, 4)).astype(np.float32)
"""Small whole numbers, so that many scores are equal."""
QUERY = [1.0, -2.0, 0.5, 3.0]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> morrow.Table:
    """Return a table of three files with vectors, the same numbers as arrays, and every seventh row null."""
    catalog = morrow.Catalog(tmp_path_factory.mktemp("search"))
    made = catalog.create_table("db.t", schema="id INT, v VECTOR<FLOAT, 4>, a ARRAY<DOUBLE>, name STRING")
    rows = [
        {"id": i, "v": None if i % 7 == 0 else vector, "a": None if i % 7 == 0 else vector, "name": f"row {i}"}
        for i, vector in enumerate(VECTORS.tolist())
    ]
    for start in range(0, ROWS, 200):
        made.append(rows[start : start + 200])
    return made


def expected(metric: str, ids: list[int], k: int) -> list[tuple[int, float]]:
    x, q = VECTORS.astype(np.float64), np.array(QUERY)
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(q)
    scores = {
        "l2": 1 / (1 + ((x - q) ** 2).sum(1)),
        "inner_product": x @ q,
        "cosine": np.where(lengths == 0, 0, x @ q / np.where(lengths == 0, 1, lengths)),
    }[metric]
    found = [(i, float(scores[i])) for i in ids if i % 7]
    return sorted(found, key=lambda pair: (-round(pair[1], 12), pair[0]))[:k]


@pytest.mark.parametrize("metric", ["l2", "inner_product", "cosine"])
@pytest.mark.parametrize("column", ["v", "a"])
@pytest.mark.parametrize("k", [1, 10, ROWS])
def test_the_nearest_rows(table: morrow.Table, metric: str, column: str, k: int) -> None:
    found = table.search(column, QUERY, k, metric=metric)
    wanted = expected(metric, list(range(ROWS)), k)
    assert found.columns == ["id", "v", "a", "name", SCORE]
    assert found[SCORE].to_list() == pytest.approx([score for _, score in wanted])
    if metric != "cosine":  # its rounding distinguishes equal scores
        assert found["id"].to_list() == [i for i, _ in wanted]


def test_a_filter_and_columns(table: morrow.Table) -> None:
    found = table.search("v", np.array(QUERY), 5, filter="id >= 100 AND id < 300", columns=["name"])
    assert found.columns == ["name", SCORE]
    assert found["name"].to_list() == [f"row {i}" for i, _ in expected("l2", list(range(100, 300)), 5)]
    assert table.search("v", QUERY, 5, snapshot=1)["id"].to_list() == [
        i for i, _ in expected("l2", list(range(200)), 5)
    ]


def test_sql(table: morrow.Table) -> None:
    catalog = morrow.Catalog(Path(table.path).parent.parent)
    call = "vector_search('db.t', 'v', array(1.0, -2.0, 0.5, 3.0), 5, 'metric=inner-product')"
    found = catalog.sql(f"SELECT id, {SCORE} AS score FROM {call} ORDER BY score DESC, id").fetchall()
    assert found == expected("inner_product", list(range(ROWS)), 5)
    with pytest.raises(InvalidArgument, match=r"no option 'nprobe' of searches; choose ivf\.nprobe"):
        catalog.sql("SELECT * FROM vector_search('db.t', 'v', [1.0, 2.0, 3.0, 4.0], 5, 'nprobe=3')")


def test_nan_comes_last(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT, v VECTOR<FLOAT, 1>")
    for i, value in enumerate((float("nan"), 3.0, float("nan"), 1.0)):
        table.append(pl.DataFrame({"id": [i], "v": [[value]]}, schema_overrides={"id": pl.Int32}))
    assert table.search("v", [1.0], 3)["id"].to_list() == [3, 1, 0]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("name", QUERY, 1), "search a VECTOR, or an ARRAY of numbers"),
        (("v", [1.0], 1), r"has 1 element; the column 'v' is VECTOR<FLOAT, 4>"),
        (("a", [1.0], 1), "the column 'a' has a list of 4 elements, the query vector 1"),
        (("v", [QUERY], 1), "is not a list of finite numbers"),
        (("v", ["x"] * 4, 1), "is not a list of numbers"),
        (("v", QUERY, 0), "must be 1 or more, not 0"),
        (("v", QUERY, 1.5), "must be 1 or more, not 1.5"),
    ],
)
def test_searches_that_cannot_be(table: morrow.Table, arguments: tuple[object, ...], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        table.search(*arguments)  # type: ignore[arg-type]
    with pytest.raises(ColumnNotFound):
        table.search("nope", QUERY, 1)
    with pytest.raises(InvalidArgument, match="the metric 'hamming' is not one of l2, cosine, inner_product"):
        table.search("v", QUERY, 1, metric="hamming")


def test_vectors_in_every_result(tmp_path: Path) -> None:
    """Vectors at the top and within rows and arrays are the same in Arrow, Polars, DuckDB and files of two formats."""
    columns = "id INT, v VECTOR<FLOAT, 3>, r ROW<w VECTOR<BIGINT NOT NULL, 2>, s STRING>, a ARRAY<VECTOR<DOUBLE, 1>>"
    rows = [
        {"id": 1, "v": [1.0, 2.0, 3.0], "r": {"w": [1, 2], "s": "x"}, "a": [[1.5], None]},
        {"id": 2, "v": None, "r": None, "a": None},
        {"id": 3, "v": [4.0, 5.0, 6.0], "r": {"w": None, "s": "x"}, "a": []},
    ]
    catalog = morrow.Catalog(tmp_path)
    for name in ("parquet", "avro"):
        table = catalog.create_table(f"db.{name}", schema=columns, options={"file.format": name})
        table.append(rows[:2])
        table.append(rows[2:])
        assert table.to_arrow().to_pylist() == rows
        assert table.scan().lazy().collect().sort("id").to_dicts() == rows
        assert table.scan(["v"], "id > 1").to_arrow()["v"].to_pylist() == [None, [4.0, 5.0, 6.0]]
        assert catalog.sql(f"SELECT array_distance(v, [1, 2, 4]::FLOAT[3]) FROM db.{name} WHERE id = 1").fetchall() == [
            (1.0,)
        ]
        assert table.doctor(data=True).healthy
    table = catalog.table("db.parquet")
    assert table.scan(engine="duckdb").to_arrow().equals(table.to_arrow())


def test_what_is_no_vector_of_the_column(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT, v VECTOR<FLOAT, 2>")
    with pytest.raises(InvalidArgument, match="it has 3 elements, not 2"):
        table.append([{"id": 1, "v": [1.0, 2.0]}, {"id": 2, "v": [1.0, 2.0, 3.0]}])
    fixed = pa.array([[1.0, None]], pa.list_(pa.float32(), 2))
    for values in ([[1.0, None]], fixed):
        with pytest.raises(InvalidArgument, match="a null inside, where FLOAT NOT NULL is needed"):
            table.append(pa.table({"id": pa.array([1], pa.int32()), "v": values}))
    assert table.count() == 0


def test_vectors_in_sql(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    catalog.create_database("db")
    catalog.sql("CREATE TABLE db.t (id INT, v VECTOR<FLOAT, 2>)")
    catalog.sql("INSERT INTO db.t VALUES (1, [1.0, 2.0]), (2, [-1.0, 0.5]), (3, NULL)")
    catalog.sql("UPDATE db.t SET v = [1.5, 2.5] WHERE id = 2")
    assert sorted(catalog.sql("SELECT id, v FROM db.t").fetchall()) == [(1, (1.0, 2.0)), (2, (1.5, 2.5)), (3, None)]
    with pytest.raises(InvalidArgument, match="length 1 to array with length 2"):
        catalog.sql("INSERT INTO db.t VALUES (4, [1.0])")
