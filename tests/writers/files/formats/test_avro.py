"""Avro data files: the schema is exactly Java's, and readers find the same rows."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.avro import read_container
from tests.support.hostile_names import in_avro
from tests.writers.files.targets import (
    columns,
    frame,
    path_of,
    random_columns,
    random_rows,
    read,
    target,
    versions,
    write,
    write_one,
)

AVRO = {"file.format": "avro"}


def schema_of(path: Path) -> str:
    return read_container(path.read_bytes(), where=str(path)).schema.decode()


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def test_the_schema_of_a_keyed_table(tmp_path: Path) -> None:
    table = target(tmp_path, "k DATE NOT NULL; v FLOAT", keys=["k"], options=AVRO)
    file = write_one(table, versions(frame(table, (dt.date(2024, 2, 29), 1.0))))
    assert schema_of(path_of(table, file)) == (
        '{"type":"record","name":"record","namespace":"org.apache.paimon.avro.generated","fields":['
        '{"name":"_KEY_k","type":{"type":"int","logicalType":"date"}},'
        '{"name":"_SEQUENCE_NUMBER","type":"long"},'
        '{"name":"_VALUE_KIND","type":"int"},'
        '{"name":"k","type":{"type":"int","logicalType":"date"}},'
        '{"name":"v","type":["null","float"],"default":null}]}'
    )


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("BOOLEAN", "boolean"),
        ("TINYINT", "int"),
        ("SMALLINT", "int"),
        ("DOUBLE", "double"),
        ("CHAR(3)", "string"),
        ("BYTES", "bytes"),
        ("DECIMAL(38, 10)", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}),
        ("TIME(3)", {"type": "int", "logicalType": "time-millis"}),
        ("TIMESTAMP(0)", {"type": "long", "logicalType": "timestamp-millis"}),
        ("TIMESTAMP(6)", {"type": "long", "logicalType": "timestamp-micros"}),
        ("TIMESTAMP_LTZ(3)", {"type": "long", "logicalType": "local-timestamp-millis"}),
        ("TIMESTAMP_LTZ(5)", {"type": "long", "logicalType": "local-timestamp-micros"}),
    ],
)
def test_types_are_those_of_java(kind: str, stored: Any, tmp_path: Path) -> None:
    table = target(tmp_path, f"c {kind}", options=AVRO)
    assert json.loads(schema_of(path_of(table, write_one(table, frame(table, (None,))))))["fields"] == [
        field("c", stored)
    ]


def test_nested_records_are_named_by_their_path(tmp_path: Path) -> None:
    row = t.RowType(fields=(t.DataField(5, "x", t.IntType()),))
    fields = [
        t.DataField(0, "m", t.MapType(key=t.IntType(nullable=False), value=row)),
        t.DataField(1, "s", t.MapType(key=t.VarCharType(), value=row)),
        t.DataField(2, "b", t.MultisetType(element=t.VarCharType())),
    ]
    table = target(tmp_path, fields, options=AVRO)
    member = {"name": "x", "type": ["null", "int"], "default": None}
    of_map = {"type": "record", "name": "record_m_value", "fields": [member]}
    entry = [{"name": "key", "type": "int"}, {"name": "value", "type": ["null", of_map], "default": None}]
    entries = {"type": "record", "name": "record_m", "fields": entry}
    assert json.loads(schema_of(path_of(table, write_one(table, frame(table, (None, None, None))))))["fields"] == [
        field("m", {"type": "array", "items": entries, "logicalType": "map"}),
        field("s", {"type": "map", "values": ["null", {"type": "record", "name": "record_s", "fields": [member]}]}),
        field("b", {"type": "map", "values": ["null", "int"]}),
    ]


def test_decimals_are_as_short_as_they_can_be(tmp_path: Path) -> None:
    table = target(tmp_path, "d DECIMAL(20, 2)", options=AVRO | {"file.compression": "null"})
    values = [Decimal(x) for x in ("0.00", "1.27", "1.28", "-1.28", "-1.29", "999999999999999999.99")]
    path = path_of(table, write_one(table, frame(table, *[(v,) for v in values])))
    assert [row["d"] for row in fastavro.reader(path.open("rb"))] == values
    container = read_container(path.read_bytes(), where="x")
    assert (
        bytes(container.payload(container.blocks[0]))
        .hex(" ")
        .startswith("02 02 00 02 02 7f 02 04 00 80 02 02 80 02 04")
    )


@pytest.mark.parametrize("codec", ["zstd", "snappy", "deflate", "bzip2", "xz", "null"])
def test_codecs(codec: str, tmp_path: Path) -> None:
    table = target(tmp_path, "c STRING", options=AVRO | {"file.compression": codec})
    rows = frame(table, *[("a" * 100,)] * 50)
    file = write_one(table, rows)
    container = read_container(path_of(table, file).read_bytes(), where="x")
    assert container.codec == {"zstd": "zstandard"}.get(codec, codec)
    assert_frame_equal(read(table, file), rows)


def test_blocks_are_of_64_kilobytes(tmp_path: Path) -> None:
    table = target(tmp_path, "c STRING", options=AVRO)
    path = path_of(table, write_one(table, frame(table, *[("a" * 1000,)] * 200)))
    container = read_container(path.read_bytes(), where="x")
    assert [block.rows for block in container.blocks] == [64, 64, 64, 8]


@given(data=st.data())
def test_whatever_is_written_is_read_again(data: st.DataObject) -> None:
    fields = data.draw(random_columns(usable=in_avro))
    rows = data.draw(random_rows(fields))
    with tempfile.TemporaryDirectory() as folder:
        table = target(Path(folder), fields, options=AVRO)
        file = write_one(table, rows)
        assert_frame_equal(read(table, file), rows)
        with path_of(table, file).open("rb") as stream:
            assert sum(1 for _ in fastavro.reader(stream)) == rows.height


@pytest.mark.parametrize("kind", ["TIMESTAMP(7)", "TIMESTAMP_LTZ(9)", "TIME(4)", "VARIANT"])
def test_types_that_java_does_not_write_are_refused(kind: str, tmp_path: Path) -> None:
    table = target(tmp_path, columns(f"c {kind}"), options=AVRO)
    with pytest.raises(Unsupported, match="in Avro files is not supported"):
        write(table, frame(table, (None,)))


@pytest.mark.parametrize("name", ["a b", "a.b", "1a", "a-b"])
def test_names_that_java_cannot_parse_are_refused(name: str, tmp_path: Path) -> None:
    table = target(tmp_path, [t.DataField(0, name, t.IntType())], options=AVRO)
    with pytest.raises(Unsupported, match=r"the column name .* in Avro files"):
        write(table, frame(table, (1,)))
