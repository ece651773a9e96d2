"""Avro containers: what is decoded, what is refused, and that damage raises nothing but typed errors."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import CorruptFile, MorrowError, Unsupported
from morrow.engine.format.avro import (
    decode_batches,
    decode_frame,
    decode_together,
    decompress_container,
    read_container,
)

SYNC = bytes(range(16))
CODECS = ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"]
PERSON = {
    "type": "record",
    "name": "person",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"]}],
}
PEOPLE = [{"name": "Ada", "age": 36}, {"name": "Åsa", "age": None}]


def container(schema: Any, rows: list[dict[str, Any]], codec: str = "null", **options: Any) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec=codec, sync_marker=SYNC, **options)
    return out.getvalue()


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def raw_container(schema: Any, rows: int, payload: bytes) -> bytes:
    """Build a container with one block without a codec; its count and payload need not fit together."""
    header = container(schema, [])
    zigzag = io.BytesIO()
    for number in (rows, len(payload)):
        value = number << 1
        while value >= 0x80:
            zigzag.write(bytes([value & 0x7F | 0x80]))
            value >>= 7
        zigzag.write(bytes([value]))
    return header + zigzag.getvalue() + payload + SYNC


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_gives_the_same_rows(codec: str) -> None:
    data = container(PERSON, PEOPLE * 5_000, codec)

    assert read_container(data, where="f").codec == codec
    assert read_container(data, where="f").rows == 10_000
    assert decode_frame(data, where="f").equals(pl.DataFrame(PEOPLE * 5_000, schema_overrides={"age": pl.Int32}))


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_block_is_a_corrupt_file(codec: str) -> None:
    data = bytearray(container(PERSON, PEOPLE * 200, codec))
    block = read_container(bytes(data), where="f").blocks[0]
    data[block.start : block.start + block.size] = b"\xff" * block.size

    with pytest.raises(CorruptFile, match="manifest-1"):
        decode_frame(bytes(data), where="manifest-1")


@pytest.mark.parametrize("codec", ["snappy", "zstandard", "deflate"])
def test_a_block_larger_than_one_chunk(codec: str) -> None:
    text = "x" * 5_000_000

    assert decode_frame(container(PERSON, [{"name": text, "age": 1}], codec), where="f")["name"].item() == text


@pytest.mark.parametrize(
    ("avro_type", "value", "dtype", "read"),
    [
        ("boolean", True, pl.Boolean, True),
        ("long", -(2**63), pl.Int64, -(2**63)),
        ("float", 1.5, pl.Float32, 1.5),
        ("bytes", b"\x00\xff", pl.Binary, b"\x00\xff"),
        ({"type": "fixed", "name": "f", "size": 2}, b"ab", pl.Binary, b"ab"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", pl.Int32, 1),
        ({"type": "int", "logicalType": "date"}, dt.date(1, 1, 1), pl.Date, dt.date(1, 1, 1)),
        ({"type": "int", "logicalType": "time-millis"}, dt.time(1, 2, 3, 4000), pl.Time, dt.time(1, 2, 3, 4000)),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
            Decimal("-1.25"),
            pl.Decimal(38, 2),
            Decimal("-1.25"),
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
            pl.Datetime("us"),
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
        ),
        ({"type": "string", "logicalType": "uuid"}, "x", pl.String, "x"),
        (
            {"type": "map", "values": ["null", "int"]},
            {"a": 1, "b": None},
            pl.List(pl.Struct({"key": pl.String, "value": pl.Int32})),
            [{"key": "a", "value": 1}, {"key": "b", "value": None}],
        ),
        (
            {"type": "array", "items": {"type": "map", "values": "long"}},
            [{"a": 1}, {}],
            pl.List(pl.List(pl.Struct({"key": pl.String, "value": pl.Int64}))),
            [[{"key": "a", "value": 1}], []],
        ),
    ],
)
def test_types(avro_type: Any, value: Any, dtype: Any, read: Any) -> None:
    column = decode_frame(container(record(v=avro_type), [{"v": value}]), where="f")["v"]

    assert column.dtype == dtype
    assert column.to_list() == [read]


@pytest.mark.parametrize("avro_type", ["int", {"type": "map", "values": "int"}, {**record(x="int"), "name": "inner"}])
def test_null_first_and_null_last(avro_type: Any) -> None:
    for union in (["null", avro_type], [avro_type, "null"]):
        assert decode_frame(container(record(v=union), [{"v": None}]), where="f")["v"].to_list() == [None]


def test_a_named_type_may_be_used_again() -> None:
    point = {"type": "record", "name": "point", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}
    schema = {**record(a=point, b="geo.point"), "namespace": "other"}

    frame = decode_frame(container(schema, [{"a": {"x": 1}, "b": {"x": 2}}]), where="f")

    assert frame.row(0) == ({"x": 1}, {"x": 2})


def test_rows_as_a_union_with_null_as_paimon_wrote_before_version_1() -> None:
    data = container(["null", PERSON], PEOPLE)

    assert decode_frame(data, where="f").rows() == [("Ada", 36), ("Åsa", None)]
    assert decode_frame(data, where="f", columns=["age"]).rows() == [(36,), (None,)]


def test_columns_come_in_the_order_asked_for() -> None:
    frame = decode_frame(container(PERSON, PEOPLE), where="f", columns=["age", "name"])

    assert frame.columns == ["age", "name"]


def test_a_missing_column_is_a_corrupt_file() -> None:
    with pytest.raises(CorruptFile, match=r"no column 'city'; its columns are name, age"):
        decode_frame(container(PERSON, PEOPLE), where="f", columns=["city"])


def test_batches_hold_whole_blocks() -> None:
    data = container(PERSON, PEOPLE * 5_000, "zstandard", sync_interval=1_000)

    batches = list(decode_batches(read_container(data, where="f"), 10_000, ["name"]))

    assert len(batches) > 3
    assert [rows for rows, _ in batches] == [frame.height for _, frame in batches]
    assert pl.concat([frame for _, frame in batches])["name"].to_list() == ["Ada", "Åsa"] * 5_000


def test_rewrapped_bytes_are_a_container_that_anybody_reads() -> None:
    data = decompress_container(read_container(container(PERSON, PEOPLE, "zstandard"), where="f"))

    assert list(fastavro.reader(io.BytesIO(data))) == PEOPLE


def test_no_rows() -> None:
    assert decode_frame(container(PERSON, []), where="f").shape == (0, 2)


@pytest.mark.parametrize(
    ("avro_type", "what"),
    [
        (["null", "int", "string"], "union of 3 types"),
        ("null", "the Avro type 'null'"),
        ({"type": "array", "items": record()}, "items take no bytes"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0}, "precision 39"),
    ],
)
def test_schemas_without_equivalent_are_unsupported(avro_type: Any, what: str) -> None:
    data = container(PERSON, []).replace(json.dumps(PERSON).encode(), b"")
    schema = json.dumps(record(v=avro_type)).encode()
    header = b"Obj\x01\x02\x16avro.schema" + _length(len(schema)) + schema + b"\x00" + SYNC

    assert data.startswith(b"Obj\x01")
    with pytest.raises(Unsupported, match=what):
        decode_frame(header, where="f")


def _length(value: int) -> bytes:
    value <<= 1
    return bytes([value & 0x7F | 0x80, value >> 7]) if value >= 0x80 else bytes([value])


def test_a_recursive_schema_is_unsupported() -> None:
    tree = {"type": "record", "name": "tree", "fields": [{"name": "next", "type": ["null", "tree"]}]}

    with pytest.raises(Unsupported, match="recursive"):
        decode_frame(container(tree, [{"next": None}]), where="f")


def test_an_unknown_codec_is_unsupported() -> None:
    data = container(PERSON, PEOPLE).replace(b"avro.codec\x08null", b"avro.codec\x08lzma")

    with pytest.raises(Unsupported, match="lzma"):
        read_container(data, where="f")


def test_a_block_cannot_claim_more_rows_than_bytes() -> None:
    with pytest.raises(CorruptFile, match="claims 50000000 rows in 4 bytes"):
        decode_frame(raw_container(record(v="int"), 50_000_000, b"\x02\x04\x06\x08"), where="f")


def test_an_array_cannot_claim_more_items_than_bytes() -> None:
    fifty_million_items = b"\x80\xc2\xd7\x2f\x02"

    with pytest.raises(CorruptFile):
        decode_frame(raw_container(record(v={"type": "array", "items": "int"}), 1, fifty_million_items), where="f")


@pytest.mark.parametrize("garbage", [b"", b"Obj", b"PAR1" * 10, b"Obj\x01" + b"\xff" * 40])
def test_garbage_is_a_corrupt_file(garbage: bytes) -> None:
    with pytest.raises(CorruptFile):
        read_container(garbage, where="f")


def test_the_sync_marker_is_checked() -> None:
    data = container(PERSON, PEOPLE)[:-1] + b"\x00"

    with pytest.raises(CorruptFile, match="sync marker"):
        read_container(data, where="f")


WHOLE = container(PERSON, PEOPLE * 20, "zstandard", sync_interval=100)


@given(st.integers(0, len(WHOLE) - 1))
def test_a_truncated_file_is_a_corrupt_file_or_has_fewer_whole_blocks(length: int) -> None:
    with contextlib.suppress(CorruptFile):
        assert decode_frame(WHOLE[:length], where="f").height < 40


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_raise_nothing_but_morrow_errors(changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, byte in changes:
        data[place] = byte
    try:
        decode_frame(bytes(data), where="f")
    except MorrowError as error:
        assert "f: " in str(error)


@given(st.lists(st.fixed_dictionaries({"name": st.text(), "age": st.none() | st.integers(-(2**31), 2**31 - 1)})))
def test_whatever_fastavro_writes_is_read(rows: list[dict[str, Any]]) -> None:
    assert decode_frame(container(PERSON, rows, "zstandard"), where="f").to_dicts() == rows


def test_containers_of_one_schema_are_read_together_and_each_for_itself() -> None:
    rows = b"\x02\x04\x06\x08"  # the ints 1 to 4
    three, four = (read_container(raw_container(record(v="int"), n, rows), where=f"f{n}") for n in (3, 4))

    assert decode_together([three, four])["v"].to_list() == [1, 2, 3, 1, 2, 3, 4]
    # The first lacks a row and the second has one too many: rows are never taken from another container.
    short = read_container(raw_container(record(v="long"), 2, b"\x80\x02"), where="short")
    long = read_container(raw_container(record(v="long"), 2, b"\x02\x04\x06"), where="long")
    with pytest.raises(CorruptFile):
        decode_together([short, long])
