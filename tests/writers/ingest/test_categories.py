"""Categorical and Enum of Polars and dictionaries of Arrow are written as their values, at any depth."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from tests.support.written import new_table, rows


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("dtype", [pl.Categorical(), pl.Enum(["y", "b", "a", "x"])], ids=["categorical", "enum"])
def test_in_keys_and_partitions(tmp_path: Path, format: str, dtype: pl.DataType) -> None:
    options = {"bucket": 2, "file.format": format}
    table = new_table(tmp_path, "k STRING, p STRING, v STRING", keys=["k", "p"], by=["p"], options=options)
    data = pl.DataFrame({"k": ["a", "b", "a"], "p": ["x", "y", "y"], "v": ["a", None, "b"]})
    table.upsert(data.cast(dtype))
    table.upsert(data.with_columns(v=pl.lit("x")).head(1).cast(dtype))
    assert rows(table) == [("a", "x", "x"), ("a", "y", "b"), ("b", "y", None)]


def test_within_lists_maps_and_rows(tmp_path: Path) -> None:
    table = new_table(tmp_path, "l ARRAY<STRING>, m MAP<STRING, STRING>, r ROW<a STRING, n INT>")
    entry = pl.Struct({"key": pl.Categorical, "value": pl.Categorical})
    table.append(
        pl.DataFrame(
            {
                "l": pl.Series([["a", None], None], dtype=pl.List(pl.Categorical)),
                "m": pl.Series([[{"key": "k", "value": "v"}], None], dtype=pl.List(entry)),
                "r": pl.Series([{"a": "u", "n": 1}, None], dtype=pl.Struct({"a": pl.Enum(["u"]), "n": pl.Int32})),
            }
        )
    )
    text = pa.array(["k"]).dictionary_encode()
    table.append(
        pa.table(
            {
                "l": pa.array([["a", None]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
                "m": pa.MapArray.from_arrays([0, 1], text, text),
                "r": pa.StructArray.from_arrays([text, pa.array([1], pa.int32())], ["a", "n"]),
            }
        )
    )
    assert table.scan().to_arrow().to_pylist() == [
        {"l": ["a", None], "m": [("k", "v")], "r": {"a": "u", "n": 1}},
        {"l": None, "m": None, "r": None},
        {"l": ["a", None], "m": [("k", "k")], "r": {"a": "k", "n": 1}},
    ]
