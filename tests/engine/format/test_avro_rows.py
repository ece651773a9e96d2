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
from morrow.engine.format.avro_rows import encode_rows
from morrow.engine.format.manifest_schemas import MANIFEST, MANIFEST_LIST, StoredSchema


def by_columns(table: pa.Table, record: dict[str, object]) -> bytes:
    pieces = avro_encode._members({name: table[name].combine_chunks() for name in table.column_names}, record)
    return b"".join(avro_encode._joined(pieces, table.num_rows).to_pylist())


def test_entries_have_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[tuple[pa.Table, StoredSchema]] = []
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
    for rows, schema in met:
        record = json.loads(schema.avro)
        assert encode_rows(rows, record) == by_columns(rows, record)


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
    assert encode_rows(table, RECORD) == by_columns(table, RECORD)


def test_what_does_not_fit_is_refused() -> None:
    record = {"fields": [{"name": "a", "type": "long"}]}
    with pytest.raises(InvalidArgument, match="'a' holds a null"):
        encode_rows(pa.table({"a": pa.array([None], pa.int64())}), record)
    with pytest.raises(InvalidArgument, match="'a' of the Avro schema is not there"):
        encode_rows(pa.table({"b": [1]}), record)
    with pytest.raises(Unsupported, match="the Avro type 'fixed'"):
        encode_rows(pa.table({"a": [1]}), {"fields": [{"name": "a", "type": "fixed"}]})


def test_lists_without_elements_of_polars() -> None:
    """Arrow cannot combine some of them, even one chunk."""
    item = {"type": "record", "name": "i", "fields": [{"name": "s", "type": "string"}, {"name": "n", "type": "int"}]}
    lists: dict[str, object] = {"type": "array", "items": item}
    record = {"type": "record", "name": "r", "fields": [{"name": "l", "type": ["null", lists]}]}
    made = pl.Series(
        "l", [[{"s": "x" * 40, "n": 1}] * 3, [], None], dtype=pl.List(pl.Struct({"s": str, "n": pl.Int32}))
    )
    encoded = {
        encode_rows(pa.table({"l": pl.concat([made, made]).to_frame().sample(1, seed=seed)["l"].to_arrow()}), record)
        for seed in range(20)
    }
    assert encoded == {b"\x02\x06" + (b"\x50" + b"x" * 40 + b"\x02") * 3 + b"\x00", b"\x02\x00", b"\x00"}
