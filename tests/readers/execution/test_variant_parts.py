"""Conditions on parts of VARIANT columns, which the columns of shredded files answer."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import morrow
from morrow.engine.errors import CorruptFile, InvalidArgument

SHREDDED = {"variant.inferShreddingSchema": True}
ROWS: list[dict[str, Any]] = [
    {"id": 1, "v": {"age": 31, "name": "Ann", "of": {"year": 1990}}},
    {"id": 2, "v": {"age": 5, "name": "Bob", "of": {"year": 2020}}},
    {"id": 3, "v": {"age": "40", "name": None}},
    {"id": 4, "v": None},
    {"id": 5, "v": [1, 2]},
    {"id": 6, "v": {"name": "Cy", "of": 1}},
]


def make_table(folder: Path, *, options: dict[str, object] | None = None, **more: Any) -> morrow.Table:
    catalog = morrow.Catalog(folder)
    return catalog.create_table("db.t", "id INT, v VARIANT, s STRING", options=options, **more)


def list_ids(table: morrow.Table, condition: str) -> list[int]:
    """Return the rows of a scan, of SQL and of a count, which agree."""
    found = sorted(row["id"] for row in table.scan(["id"], filter=condition).to_dicts())
    query = f"SELECT id FROM db.t WHERE {condition} ORDER BY id"
    assert [row[0] for row in morrow.Catalog(Path(table.path).parent.parent).sql(query).fetchall()] == found
    assert table.scan(filter=condition).count() == len(found)
    return found


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("v:age::INT > 30", [1, 3]),
        ("variant_get(v, '$.age', 'int') < 30", [2]),
        ("v:age::DOUBLE BETWEEN 5 AND 31.5", [1, 2]),
        ("v:age::STRING IN ('40', '5')", [2, 3]),
        ("v:age::BIGINT IS NULL", [4, 5, 6]),
        ("v:name::STRING LIKE 'A%' OR v:age::INT = 5", [1, 2]),
        ("NOT v:name::STRING = 'Ann'", [2, 6]),
        ("v:of.year::INT >= 2000", [2]),
        ("v:of.month::INT IS NULL AND id < 3", [1, 2]),
        ("variant_get(v, '$[0]', 'int') = 1", [5]),
        ("id > 1 AND v:age::INT > 0 AND s IS NULL", [2, 3]),
        ("abs(v:age::INT) = 5", [2]),
        ("v:age IS NULL", [4, 5, 6]),
    ],
)
@pytest.mark.parametrize("options", [{}, SHREDDED])
def test_conditions(tmp_path: Path, options: dict[str, object], condition: str, expected: list[int]) -> None:
    table = make_table(tmp_path, options=options)
    table.append(ROWS[:3])
    table.append(ROWS[3:])
    assert list_ids(table, condition) == expected


def test_values_that_a_cast_refuses(tmp_path: Path) -> None:
    """A text that is not a number, and a number that the type cannot hold, are found in any column."""
    table = make_table(tmp_path, options=SHREDDED)
    table.append([{"id": 1, "v": {"a": 300}}, {"id": 2, "v": {"a": 3}}, {"id": 3, "v": {"a": "text"}}])
    assert list_ids(table, "try_variant_get(v, '$.a', 'tinyint') > 0") == [2]
    assert list_ids(table, "v:a::STRING = 'text'") == [3]
    with pytest.raises(InvalidArgument, match="'text'"):
        table.scan(filter="v:a::INT > 0").to_arrow()
    with pytest.raises(InvalidArgument, match="300"):
        table.scan(filter="v:a::STRING <> 'text' AND v:a::TINYINT > 0").to_arrow()
    assert list_ids(table, "id = 2 AND v:a::TINYINT > 0") == [2]  # other rows are dropped before


def damage(table: morrow.Table, name: str) -> None:
    """Overwrite the bytes of a leaf of the only data file."""
    (path,) = Path(table.path).glob("**/*.parquet")
    metadata = pq.read_metadata(path).row_group(0)
    (chunk,) = (metadata.column(i) for i in range(metadata.num_columns) if metadata.column(i).path_in_schema == name)
    data = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)


def test_other_columns_of_a_variant_are_not_read(tmp_path: Path) -> None:
    table = make_table(tmp_path, options=SHREDDED)
    table.append([{"id": i, "v": {"age": i, "name": f"name {i}"}} for i in range(100)])
    damage(table, "v.metadata")
    damage(table, "v.typed_value.name.typed_value")
    assert list_ids(table, "v:age::INT >= 98") == [98, 99]
    assert "columns of shredded files answer it" in table.scan(filter="v:age::INT >= 98").explain()
    with pytest.raises(CorruptFile):
        table.scan(filter="v:name::STRING = 'name 3'").to_arrow()

    damage(table, "v.typed_value.age.typed_value")
    assert list_ids(table, "v:age::INT > 100") == []  # statistics suffice
    with pytest.raises(CorruptFile):
        table.scan(filter="v:age::INT >= 98").to_arrow()


def test_tables_with_keys_and_vectors(tmp_path: Path) -> None:
    """Older versions of a key are not among the rows, whatever their variants are."""
    for number, options in enumerate([{}, {"deletion-vectors.enabled": True}, {"merge-engine": "partial-update"}]):
        made = {"bucket": 1, **SHREDDED, **options}
        table = make_table(tmp_path / str(number), options=made, primary_keys=["id"])
        table.upsert([{"id": i, "v": {"age": i}} for i in range(10)])
        table.upsert([{"id": 3, "v": {"age": 300}}, {"id": 8, "v": {"age": "12"}}])
        assert list_ids(table, "v:age::INT > 7") == [3, 8, 9]
        assert list_ids(table, "v:age::INT = 3") == []
        if number < 2:
            table.delete("v:age::INT > 200")
            assert list_ids(table, "v:age::INT > 7") == [8, 9]


def test_columns_that_were_renamed(tmp_path: Path) -> None:
    table = make_table(tmp_path, options=SHREDDED)
    table.append(ROWS)
    table.alter.rename_column("v", "w")
    table = morrow.open(table.path)
    assert sorted(row["id"] for row in table.scan(["id"], filter="w:age::INT > 30").to_dicts()) == [1, 3]


def draw_value(draw: random.Random, depth: int = 0) -> object:
    plain = (None, 1, 5, 40_000, 2**40, -7, 1.5, True, "5", "x")
    if depth == 2 or draw.random() < 0.4:
        return draw.choice(plain)
    if draw.random() < 0.2:
        return [draw_value(draw, depth + 1) for _ in range(draw.randrange(3))]
    return {name: draw_value(draw, depth + 1) for name in draw.sample(["a", "b"], draw.randrange(3))}


def find_integer(value: object, path: list[str]) -> int | None:
    """Return the part at a path as a SMALLINT, as ``try_variant_get`` gives it."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, (dict, list, bool)) or value in (None, "x"):
        return None
    number = int(float(value)) if isinstance(value, float) else int(value)  # type: ignore[call-overload]
    return number if -(2**15) <= number < 2**15 else None


@pytest.mark.parametrize("seed", range(3))
def test_random_rows(tmp_path: Path, seed: int) -> None:
    """Files that are shredded differently, or not at all, give the rows of a loop."""
    draw = random.Random(seed)
    table = make_table(tmp_path)
    rows: list[dict[str, Any]] = []
    for kind in draw.sample(["BIGINT", "SMALLINT", "DECIMAL(9, 2)", "STRING", "", "ROW<a INT>"], 3):
        fields = [{"name": name, "type": kind, "id": 0} for name in ("a", "b")]
        if kind.startswith("ROW"):
            inner = {"type": "ROW", "fields": [{"name": "a", "type": "INT", "id": 0}]}
            fields = [{"name": name, "type": inner, "id": 0} for name in ("a", "b")]
        column = {"name": "v", "type": {"type": "ROW", "fields": fields if kind else []}, "id": 0}
        schema = {"type": "ROW", "fields": [column] if kind else []}
        table.alter.set_options({"variant.shreddingSchema": json.dumps(schema)})
        table = morrow.open(table.path)
        new = [{"id": len(rows) + i, "v": draw_value(draw), "s": None} for i in range(30)]
        table.append([{**row, "v": json.dumps(row["v"]) if isinstance(row["v"], str) else row["v"]} for row in new])
        rows += new
    for path in (["a"], ["b", "a"]):
        part = f"try_variant_get(v, '$.{'.'.join(path)}', 'smallint')"
        parts = {row["id"]: find_integer(row["v"], path) for row in rows}
        assert list_ids(table, f"{part} > 1") == [id for id, x in parts.items() if x is not None and x > 1]
        assert list_ids(table, f"{part} IN (-7, 5)") == [id for id, x in parts.items() if x in (-7, 5)]
        assert list_ids(table, f"{part} IS NULL AND id < 60") == [
            id for id, x in parts.items() if x is None and id < 60
        ]
