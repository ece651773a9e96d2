"""Vectors in files of their own, beside the data files of tables with data evolution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import MorrowError

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "vector.file.format": "parquet"}


def test_vectors_have_files_of_their_own(tmp_path: Path) -> None:
    columns = "id INT, v VECTOR<FLOAT, 2>, s STRING, w VECTOR<DOUBLE, 1>"
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=columns, options=OPTIONS)
    rows = [{"id": i, "v": [i, i + 0.5] if i % 3 else None, "s": f"s{i}", "w": [i]} for i in range(5)]
    table.append(rows)
    table.append(rows[:2])
    assert table.to_arrow().to_pylist() == rows + rows[:2]
    files = table.system("files").to_polars()
    named = [(".vector." in path, *rest) for path, *rest in files.select("file_path", "first_row_id").rows()]
    assert sorted(named) == [(False, 0), (False, 5), (True, 0), (True, 5)]
    assert table.search("w", [1.0], 1, columns=["id"])["id"].to_list() == [1]
    assert table.scan(["s"]).to_arrow().num_rows == 7
    assert table.doctor(data=True).healthy


def test_each_data_file_has_its_vectors(tmp_path: Path) -> None:
    options = OPTIONS | {"target-file-size": "20 kb", "vector.target-file-size": "4 kb"}
    table = morrow.Catalog(tmp_path).create_table(
        "db.t", schema="id INT, v VECTOR<FLOAT, 2>, s STRING", options=options
    )
    values = np.random.default_rng(1).random((3000, 2), dtype=np.float32)
    rows = pl.DataFrame(
        {"id": np.arange(3000, dtype=np.int32), "v": values, "s": [f"{hash((i, 'x')):x}" for i in range(3000)]}
    )
    table.append(rows)
    assert len(list(tmp_path.glob("db.db/t/bucket-0/*.vector.parquet"))) > 1
    assert table.to_polars().sort("id").equals(rows)
    assert table.doctor(data=True).healthy


def test_blobs_and_vectors_have_files_of_their_own(tmp_path: Path) -> None:
    columns = "id INT, b BLOB, v VECTOR<FLOAT, 2>, c BLOB, w VECTOR<DOUBLE, 1>"
    options = OPTIONS | {
        "deletion-vectors.enabled": "true",
        "target-file-size": "4 kb",
        "blob.target-file-size": "4 kb",
    }
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=columns, options=options)
    rows = [
        {"id": i, "b": bytes([i % 256]) * (i % 40), "v": [i, -i], "c": b"c" if i % 3 else None, "w": [i]}
        for i in range(3000)
    ]
    table.append(rows[:2000])
    table.append(rows[2000:])
    table.update_rows(pa.table({"_ROW_ID": [1, 2500], "b": [b"new", None], "w": [[-1.0], [-2.0]]}))
    table.delete("id % 5 = 4")
    table.compact(full=True)
    rows[1] |= {"b": b"new", "w": [-1.0]}
    rows[2500] |= {"b": None, "w": [-2.0]}
    expected = [row for row in rows if row["id"] % 5 != 4]
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == expected
    assert table.scan(["w", "c"], filter="id = 2500").to_arrow().to_pylist() == [{"w": [-2.0], "c": b"c"}]
    assert table.doctor(data=True).healthy


@pytest.mark.parametrize("filed", [True, False])
def test_updated_vectors_stay_where_they_are(filed: bool, tmp_path: Path) -> None:
    """Readers of Paimon prefer vectors in data files to those in files of vectors, even to newer ones."""
    plain = {name: value for name, value in OPTIONS.items() if name != "vector.file.format"}
    table = morrow.Catalog(tmp_path).create_table(
        "db.t", schema="id INT, v VECTOR<FLOAT, 2>, s STRING", options=OPTIONS if filed else plain
    )
    table.append([{"id": i, "v": [i, i], "s": "a"} for i in range(3)])
    table.alter.set_options({"vector.file.format": "parquet"})
    table.update_rows(pa.table({"_ROW_ID": [1], "v": [[9.0, 9.0]], "s": ["b"]}))
    table.update({"v": "[8.0, 8.0]"}, "id = 2")
    assert table.to_arrow().to_pylist() == [
        {"id": 0, "v": [0.0, 0.0], "s": "a"},
        {"id": 1, "v": [9.0, 9.0], "s": "b"},
        {"id": 2, "v": [8.0, 8.0], "s": "a"},
    ]
    files = table.system("files").to_polars().sort("min_sequence_number")
    holding = files.filter(pl.col("write_cols").list.contains("v"))["file_path"].to_list()
    assert [".vector." in path for path in holding] == ([True] * 3 if filed else [False] * 2)
    table.compact(full=True)
    assert table.scan(["v"]).to_arrow()["v"].to_pylist() == [[0.0, 0.0], [9.0, 9.0], [8.0, 8.0]]


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        ("v VECTOR<FLOAT, 2>", OPTIONS, "a column that is neither a VECTOR"),
        ("v VECTOR<FLOAT, 2>, b BLOB", OPTIONS, "BLOB"),
        ("id INT, v VECTOR<FLOAT, 2>", {"vector.file.format": "parquet"}, "needs 'row-tracking.enabled'"),
        (
            "id INT, v VECTOR<FLOAT, 2>",
            OPTIONS | {"vector.file.format": "orc"},
            "VECTOR<FLOAT, 2> of column 'v' in orc",
        ),
        ("id INT", {"vector.file.format": "carbon"}, "the file format 'carbon'"),
    ],
)
def test_what_cannot_be(columns: str, options: dict[str, str], problem: str, tmp_path: Path) -> None:
    with pytest.raises(MorrowError, match=problem):
        morrow.Catalog(tmp_path).create_table("db.t", schema=columns, options=options)
