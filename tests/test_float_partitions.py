"""Float partitions: -0.0 and 0.0 are two partitions, and NaNs with different bits are different, as in Java."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import morrow
from tests.support.written import new_table

BITS = {
    "DOUBLE": (np.uint64, [0, 1 << 63, 0x7FF8 << 48, (0x7FF8 << 48) + 0x123, 0x7FF0 << 48, 0xFFF0 << 48, 0x3FF8 << 48]),
    "FLOAT": (np.uint32, [0, 1 << 31, 0x7FC0 << 16, (0x7FC0 << 16) + 0x123, 0x7F80 << 16, 0xFF80 << 16, 0x3FC0 << 16]),
}
"""0.0, -0.0, two NaNs, both infinities, and 1.5."""

KINDS: dict[str, tuple[bool, dict[str, object]]] = {
    "append": (False, {}),
    "bucketed": (False, {"bucket": 2, "bucket-key": "id"}),
    "keyed": (True, {"bucket": 2}),
    "dynamic": (True, {}),
    "vectors": (True, {"bucket": 1, "deletion-vectors.enabled": True}),
    "folded": (True, {"bucket": 1, "merge-engine": "partial-update"}),
}

CONDITIONS = ("p = 0.0", "p = -0.0", "p = 'nan'", "p <> 'nan'", "p >= 0", "p < 0", "p IN (0.0, 1.5)", "p NOT IN (-0.0)")


def values(type_: str) -> list[float]:
    dtype, bits = BITS[type_]
    found: list[float] = np.array(bits, dtype).view(dtype().dtype.str.replace("u", "f")).tolist()
    return found


def partitioned(path: Path, type_: str, kind: str) -> morrow.Table:
    """Make a table with a partition for each value, each with one row: number, value, and number again."""
    keyed, options = KINDS[kind]
    keys = ["id", "p", "q"] if keyed else []
    table = new_table(path, f"id INT, p {type_}, q STRING, v INT", keys=keys, by=["q", "p"], options=options)
    table.append(rows_of(type_))
    return table


def rows_of(type_: str) -> pa.Table:
    dtype, bits = BITS[type_]
    p = pa.array(np.array(bits, dtype).view(dtype().dtype.str.replace("u", "f")))
    number = pa.array(range(len(bits)), pa.int32())
    return pa.table({"id": number, "p": p, "q": ["x"] * len(bits), "v": number})


def found(rows: pa.Table) -> list[tuple[int, int, int]]:
    """Return each row's number, the bits of its partition value, and its value."""
    p = rows["p"].combine_chunks().to_numpy()
    return sorted(zip(rows["id"].to_pylist(), p.view(f"u{p.itemsize}").tolist(), rows["v"].to_pylist()))


@pytest.mark.parametrize(("type_", "kind"), [*(("DOUBLE", kind) for kind in KINDS), ("FLOAT", "append")])
def test_rows_keep_the_bits_of_their_partition(tmp_path: Path, type_: str, kind: str) -> None:
    table = partitioned(tmp_path, type_, kind)
    _, bits = BITS[type_]
    assert found(table.scan().to_arrow()) == [(i, b, i) for i, b in enumerate(bits)]
    assert found(pa.Table.from_batches(table.scan().to_batches())) == [(i, b, i) for i, b in enumerate(bits)]
    table.update({"v": "v + 100"})
    assert found(table.scan().to_arrow()) == [(i, b, i + 100) for i, b in enumerate(bits)]
    table.overwrite(rows_of(type_).slice(1, 3), dynamic=True)
    assert [v for *_, v in found(table.scan().to_arrow())] == [100, 1, 2, 3, 104, 105, 106]
    if kind != "folded":
        table.delete("id = 1")
        table.delete("p = 'nan'")
        assert [i for i, *_ in found(table.scan().to_arrow())] == [0, 4, 5, 6]


@pytest.mark.parametrize(("type_", "kind"), [("DOUBLE", "append"), ("FLOAT", "keyed")])
def test_filters_compare_as_sql_does(tmp_path: Path, type_: str, kind: str) -> None:
    table = partitioned(tmp_path, type_, kind)
    rows = table.scan().to_arrow()
    for condition in CONDITIONS:
        expected = sorted(duckdb.sql(f"SELECT id FROM rows WHERE {condition}").fetchall())
        scan = table.scan(["id"], condition)
        assert sorted(scan.to_polars().rows()) == expected, condition
        assert scan.count() == len(expected)
    assert rows.num_rows == len(values(type_))


@pytest.mark.parametrize(("type_", "number"), [("DOUBLE", 0), ("DOUBLE", 3), ("FLOAT", 1), ("FLOAT", 2)])
def test_a_named_partition_is_exactly_that_one(tmp_path: Path, type_: str, number: int) -> None:
    """Partition values compare as in Java: -0.0 is not 0.0, and NaN equals NaN."""
    all_values = values(type_)
    named = all_values[number]
    table = partitioned(tmp_path, type_, "append")
    table.drop_partition({"p": named})
    gone = {
        i for i, value in enumerate(all_values) if (math.isnan(value) and math.isnan(named)) or str(value) == str(named)
    }
    assert [i for i, *_ in found(table.scan().to_arrow())] == [i for i in range(7) if i not in gone]


def test_a_filter_on_a_float_bucket_key_finds_either_zero(tmp_path: Path) -> None:
    table = new_table(tmp_path, "k DOUBLE, v INT", keys=["k"], options={"bucket": 8})
    table.append({"k": [0.0, -0.0, 1.0], "v": [1, 2, 3]})
    assert sorted(table.scan(["v"], "k = 0.0").to_polars().rows()) == [(1,), (2,)]
    assert sorted(table.scan(["v"], "k IN (-0.0, 1.0)").to_polars().rows()) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("condition", ["p < 0", "p <= 1", "p = 0", "p IN (0, 1)"])
def test_a_deleted_nan_partition_is_no_damage_where_manifests_are_pruned(tmp_path: Path, condition: str) -> None:
    """The manifest that adds the file has the bounds [5, 5], and the one that deletes it has none."""
    table = new_table(tmp_path, "p DOUBLE, v INT", by=["p"])
    table.append({"p": [5.0, float("nan")], "v": [1, 2]})
    table.append({"p": [0.5], "v": [3]})
    table.drop_partition({"p": float("nan")})
    expected = [(0.5, 3)] if condition == "p <= 1" else []
    assert table.scan(filter=condition).to_polars().rows() == expected
    assert table.scan(filter=condition).count() == len(expected)
