"""Answers by Java's file index reader for the golden tables, compared with ours for the same data files."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from morrow.engine.format.file_index import FileIndex, read_file_index
from morrow.engine.format.types import DataType, from_json

pytestmark = pytest.mark.golden

CASES = [
    *(f"public/file_index_{n}" for n in ("added_later", "bitmap_v1", "embedded", "file", "pk_embedded", "pk_file")),
    *(f"versions/{v}/file_index_{n}" for v in ("1.0.1", "1.3.1", "2.0.0") for n in ("embedded", "file")),
]
LITERALS: dict[str, Callable[[Any], Any]] = {"DOUBLE": float, "DATE": dt.date.fromisoformat}
MATCHES: dict[str, Callable[[Any, list[Any]], bool]] = {
    "=": lambda value, literals: value == literals[0],
    "!=": lambda value, literals: value != literals[0],
    "<": lambda value, literals: value < literals[0],
    ">=": lambda value, literals: value >= literals[0],
    "IN": lambda value, literals: value in literals,
}


def file_indexes(table: Path) -> Iterator[tuple[str, FileIndex]]:
    """Yield every data file of the table with an index, embedded in a manifest or stored beside the file."""
    for manifest in table.glob("manifest/manifest-*"):
        if "manifest-list" in manifest.name:
            continue
        with manifest.open("rb") as stream:
            for entry in fastavro.reader(stream):
                assert isinstance(entry, dict)
                meta = entry["_FILE"]
                embedded = meta.get("_EMBEDDED_FILE_INDEX")
                if embedded:
                    yield meta["_FILE_NAME"], read_file_index(embedded, where=meta["_FILE_NAME"])
                for extra in meta["_EXTRA_FILES"]:
                    path = next(table.rglob(extra), None)
                    if extra.endswith(".index") and path is not None:
                        yield meta["_FILE_NAME"], read_file_index(path.read_bytes(), where=extra)


@pytest.mark.parametrize("case", CASES)
def test_probes(golden_root: Path, case: str) -> None:
    table = golden_root / case / "warehouse/db.db/t"
    schema = json.loads(max(table.glob("schema/schema-*")).read_text())
    types: dict[str, DataType] = {field["name"]: from_json(field["type"]) for field in schema["fields"]}
    indexes = dict(file_indexes(table))

    @cache
    def column(file_name: str, name: str) -> list[Any]:
        path = next(table.rglob(file_name))
        return list(pq.read_table(path, columns=[name]).column(name).to_pylist())

    probes = [json.loads(line) for line in (golden_root / case / "expected/index_probe.jsonl").read_text().splitlines()]
    asked = [probe for probe in probes if probe[1] is not None]
    assert len(asked) >= 80
    for file_name, _, name, op, texts, java_remains, java_rows in asked:
        data_type, values = types[name], column(file_name, name)
        literals = [LITERALS.get(data_type.keyword, lambda same: same)(text) for text in texts]

        result = indexes[file_name].evaluate(name, data_type, op.upper(), tuple(literals), row_count=len(values))

        may = {row for row, chosen in enumerate(result.mask(len(values))) if chosen}
        nulls = {row for row, value in enumerate(values) if value is None}
        if op == "is null":
            assert may >= nulls
        else:
            assert may - nulls >= {
                r for r in range(len(values)) if r not in nulls and MATCHES[op.upper()](values[r], literals)
            }
        assert result.is_none != java_remains
        if java_rows:
            assert may == set(java_rows) - (nulls if op == "!=" else set()), "Java's bitmap index lets nulls pass"
