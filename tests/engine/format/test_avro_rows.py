"""Few rows of manifests have the bytes that columns give."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import avro_encode, manifest_encode
from morrow.engine.format.avro_rows import row_encoder
from morrow.engine.format.manifest_schemas import MANIFEST, MANIFEST_LIST, StoredSchema


def by_columns(table: pa.Table, record: dict[str, object]) -> bytes:
    pieces = avro_encode._members({name: table[name].combine_chunks() for name in table.column_names}, record)
    return b"".join(avro_encode._joined(pieces, table.num_rows).to_pylist())


def test_entries_have_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[tuple[pl.DataFrame, StoredSchema]] = []
    avro = manifest_encode._avro
    keep = {**manifest_encode.ENCODERS, "avro": lambda *given: (met.append(given[:2]), avro(*given))[1]}
    monkeypatch.setattr(manifest_encode, "ENCODERS", keep)
    columns = "id BIGINT NOT NULL, p STRING, v STRING, d DECIMAL(20, 2), f DOUBLE"
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "file-index.bloom-filter.columns": "v"}
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table(
        "db.t", schema=columns, primary_keys=["id", "p"], partition_keys=["p"], options=options
    )
    for number in range(3):
        table.append({"id": [1, number], "p": ["a", "ü"], "v": ["x", None]})
    assert {schema.avro for _, schema in met} >= {MANIFEST.avro, MANIFEST_LIST.avro}
    for frame, schema in met:
        record, table = json.loads(schema.avro), manifest_encode._table(frame, schema)
        assert row_encoder(record)(manifest_encode._rows(frame, schema)) == by_columns(table, record)


RECORD = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "a", "type": ["null", "long"]},
        {"name": "b", "type": {"type": "array", "items": "string"}},
        {"name": "c", "type": "boolean"},
        {"name": "d", "type": "double"},
        {"name": "e", "type": "float"},
        {"name": "t", "type": "long"},
    ],
}


def test_values_have_the_same_bytes() -> None:
    table = pa.table(
        {
            "a": pa.array([None, -(2**63), 2**63 - 1, 0], pa.int64()),
            "b": [["", "ä"], [], ["x" * 200], ["y"]],
            "c": [True, False, True, False],
            "d": [float("nan"), -0.0, 1e300, 5.0],
            "e": pa.array([0.5, -0.0, float("inf"), 1.0], pa.float32()),
            "t": pa.array([0, -1, 10**15, 1], pa.timestamp("us")),
        }
    )
    rows = table.set_column(5, "t", table["t"].cast(pa.int64())).to_pylist()
    assert row_encoder(RECORD)(rows) == by_columns(table, RECORD)


def test_what_does_not_fit_is_refused() -> None:
    record = {"fields": [{"name": "a", "type": "long"}]}
    with pytest.raises(InvalidArgument, match="'a' holds a null"):
        row_encoder(record)([{"a": None}])
    with pytest.raises(InvalidArgument, match="'a' of the Avro schema is not there"):
        row_encoder(record)([{"b": 1}])
    with pytest.raises(Unsupported, match="the Avro type 'fixed'"):
        row_encoder({"fields": [{"name": "a", "type": "fixed"}]})


def test_lists_without_elements_of_polars() -> None:
    item = {"type": "record", "name": "i", "fields": [{"name": "s", "type": "string"}, {"name": "n", "type": "int"}]}
    lists: dict[str, object] = {"type": "array", "items": item}
    record = {"type": "record", "name": "r", "fields": [{"name": "l", "type": ["null", lists]}]}
    made = pl.DataFrame(
        {"l": [[{"s": "x" * 40, "n": 1}] * 3, [], None]}, schema={"l": pl.List(pl.Struct({"s": str, "n": pl.Int32}))}
    )
    encode = row_encoder(record)
    assert [encode([row]) for row in made.to_dicts()] == [
        b"\x02\x06" + (b"\x50" + b"x" * 40 + b"\x02") * 3 + b"\x00",
        b"\x02\x00",
        b"\x00",
    ]
