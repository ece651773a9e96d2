"""Maps in shared columns: written and read, metadata of files, and damage."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import morrow
from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.map_shredding import SharedColumns, SharedKeys, parse_shared_columns, rebuild_maps
from morrow.engine.options.declarations import FIELDS

SHARED = {"fields.m.map.storage-layout": "shared-shredding"}
ENTRIES = pa.large_list(pa.struct([("key", pa.string()), ("value", pa.int32())]))
MAP = t.MapType(key=t.VarCharType(False), value=t.IntType())


def to_dicts(rows: pa.Table) -> list[dict[str, Any]]:
    return [
        {name: dict(value) if isinstance(value, list) else value for name, value in row.items()}
        for row in rows.to_pylist()
    ]


@pytest.mark.parametrize("seed", range(4))
def test_maps_are_read_as_they_were_written(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr("morrow.engine.format.map_shredding.PIECE_VALUES", draw.choice([1, 100, 1 << 22]))
    keys = [f"k{number}é" for number in range(draw.choice([1, 40]))]

    def make_map(value: Any) -> dict[str, Any] | None:
        size = min(draw.choice([0, 1, 3, 30]), len(keys))
        return draw.choice([None, *[{key: draw.choice([None, value]) for key in draw.sample(keys, size)}] * 4])

    rows = [{"id": n, "m": make_map(n), "s": make_map("x" * draw.randrange(20))} for n in range(300)]
    options = SHARED | {
        "fields.s.map.storage-layout": "shared-shredding",
        "fields.s.map.shared-shredding.max-columns": draw.choice([1, 4]),
    }
    schema = "id INT, m MAP<STRING NOT NULL, INT>, s MAP<STRING NOT NULL, STRING>"
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=schema, options=options)
    table.append(rows[:200])
    table.append(rows[200:])
    assert to_dicts(table.to_arrow()) == rows
    assert to_dicts(table.scan(["s"], "id >= 100").to_arrow()) == [{"s": row["s"]} for row in rows[100:]]
    assert [row[:2] for row in table.scan().to_duckdb().fetchall()] == [(row["id"], row["m"]) for row in rows]
    table.compact()
    assert to_dicts(table.to_arrow().sort_by("id")) == rows
    assert table.doctor(data=True).healthy


def test_keyed_tables(tmp_path: Path) -> None:
    schema = "k INT, m MAP<STRING NOT NULL, INT>"
    options = SHARED | {"bucket": 1, "merge-engine": "partial-update"}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys="k", options=options)
    table.upsert([{"k": 1, "m": {"a": 1, "b": 2}}, {"k": 2, "m": {"a": 3}}])
    table.upsert([{"k": 2, "m": {"b": 4}}, {"k": 1, "m": None}])
    table.compact(full=True)
    assert to_dicts(table.to_arrow()) == [{"k": 1, "m": {"a": 1, "b": 2}}, {"k": 2, "m": {"b": 4}}]


def test_the_columns_and_metadata_of_a_file(tmp_path: Path) -> None:
    options = SHARED | {"fields.m.map.shared-shredding.max-columns": 2, "file.compression": "none"}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="m MAP<STRING NOT NULL, INT>", options=options)
    table.append([{"m": {"a": 1, "b": 2}}, {"m": None}, {"m": {"c": 3, "b": 4, "a": 5}}])
    (path,) = tmp_path.glob("db.db/t/bucket-0/*.parquet")
    assert pq.read_table(path).to_pylist() == [
        {"m": {"__field_mapping": [0, 1], "__col_0": 1, "__col_1": 2, "__overflow": None}},
        {"m": None},
        {"m": {"__field_mapping": [0, 1], "__col_0": 5, "__col_1": 4, "__overflow": [(2, 3)]}},
    ]
    metadata = {key.decode(): value.decode() for key, value in pq.read_schema(path).field("m").metadata.items()}
    prefix = "paimon.map.shared-shredding."
    assert {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith("paimon")} == {
        "paimon.map.storage-layout": "shared-shredding",
        "version": "1",
        "field-dict": '{"a":0,"b":1,"c":2}',
        "field-dict-compression": "none",
        "field-dict-original-size": "19",
        "field-columns": '{"0":[0],"1":[1]}',
        "overflow-set": "[2]",
        "num-columns": "2",
        "max-row-width": "3",
    }


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": "2"}, Unsupported),
        ({"num-columns": "x"}, CorruptFile),
        ({"field-dict": "[]"}, CorruptFile),
        ({"field-dict-compression": "lz4"}, Unsupported),
    ],
)
def test_damaged_metadata(change: dict[str, str], error: type[Exception]) -> None:
    maps = pa.array(
        [[{"key": "a", "value": 1}]], pa.large_list(pa.struct([("key", pa.string()), ("value", pa.int32())]))
    )
    keys = SharedKeys(MAP, 1)
    _, use = keys.shred(maps)
    metadata = keys.describe([use], "none")
    assert parse_shared_columns(metadata, "f") == SharedColumns(1, {0: "a"})
    prefix = b"paimon.map.shared-shredding."
    with pytest.raises(error):
        parse_shared_columns(metadata | {prefix + k.encode(): v.encode() for k, v in change.items()}, "f")
    assert parse_shared_columns({}, "f") is None


def test_a_key_without_a_name() -> None:
    maps = pa.array(
        [[{"key": "a", "value": 1}]], pa.large_list(pa.struct([("key", pa.string()), ("value", pa.int32())]))
    )
    struct, _ = SharedKeys(MAP, 1).shred(maps)
    with pytest.raises(CorruptFile, match="without a name"):
        rebuild_maps(struct, SharedColumns(1, {7: "a"}), "f")


@pytest.mark.parametrize(
    ("schema", "options", "problem"),
    [
        ("m INT", {}, "it is INT"),
        ("m MAP<INT NOT NULL, INT>", {}, "not a MAP of texts"),
        ("m MAP<STRING, INT>", {}, "keys may be null"),
        ("m MAP<STRING NOT NULL, INT>, v VARIANT", {}, "VARIANT"),
        ("m MAP<STRING NOT NULL, INT>, v MULTISET<INT>", {}, "MULTISET"),
        ("m MAP<STRING NOT NULL, INT>", {"file.format": "orc"}, "orc"),
        ("m MAP<STRING NOT NULL, INT>", {"file.compression": "snappy"}, "snappy"),
        ("m MAP<STRING NOT NULL, INT>", {f"{FIELDS}x.map.storage-layout": "shared-shredding"}, "'x'"),
    ],
)
def test_tables_that_cannot_have_shared_columns(
    schema: str, options: dict[str, str], problem: str, tmp_path: Path
) -> None:
    with pytest.raises((InvalidArgument, Unsupported), match=problem):
        morrow.Catalog(tmp_path).create_table("db.t", schema=schema, options=SHARED | options)
