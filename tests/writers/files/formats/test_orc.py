"""ORC data files: types with lengths and ids, timestamps of all years, and rows that readers find again."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.orc as orc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.orc_file import OrcLayout
from morrow.engine.format.orc_file import parse_fields as fields_of
from morrow.engine.io.local import LocalStore
from tests.support.written import new_table
from tests.writers.files.targets import (
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

ORC = {"file.format": "orc"}
KIND_NAMES = {4: "LONG", 3: "INT", 7: "STRING", 8: "BINARY", 9: "TIMESTAMP", 10: "LIST", 11: "MAP", 12: "STRUCT"} | {
    14: "DECIMAL",
    16: "VARCHAR",
    17: "CHAR",
    18: "TIMESTAMP_INSTANT",
    1: "BYTE",
}


def type_tree(path: Path) -> list[tuple[str, dict[str, int]]]:
    """List each node's kind, with its id, length, precision and scale if it has them."""
    layout = OrcLayout(LocalStore().open(str(path)), str(path))
    return [_node(value) for number, _, value in fields_of(layout.footer) if number == 4 and isinstance(value, bytes)]


def _node(message: bytes) -> tuple[str, dict[str, int]]:
    parts: dict[int, Any] = {number: value for number, _, value in fields_of(message)}
    found = {name: parts[n] for n, name in {4: "length", 5: "precision", 6: "scale"}.items() if n in parts}
    if 7 in parts:
        pair: dict[int, Any] = {number: value for number, _, value in fields_of(parts[7])}
        assert pair[1] == b"paimon.id"
        found["id"] = int(pair[2])
    return KIND_NAMES[parts[1]], found


def test_types_keep_their_lengths_and_have_ids(tmp_path: Path) -> None:
    schema = "id BIGINT NOT NULL; c CHAR(3); v VARCHAR(9); s STRING; b BINARY(2); d DECIMAL(20, 4); t TIME(3)"
    table = target(tmp_path, schema, keys=["id"], options=ORC)
    file = write_one(table, versions(frame(table, (1, "abc", None, None, b"\0\1", None, dt.time(1, 2, 3)))))
    assert type_tree(path_of(table, file)) == [
        ("STRUCT", {}),
        ("LONG", {"id": 1073741823}),
        ("LONG", {"id": 2147483646}),
        ("BYTE", {"id": 2147483645}),
        ("LONG", {"id": 0}),
        ("CHAR", {"id": 1, "length": 3}),
        ("VARCHAR", {"id": 2, "length": 9}),
        ("STRING", {"id": 3}),
        ("BINARY", {"id": 4}),
        ("DECIMAL", {"id": 5, "precision": 20, "scale": 4}),
        ("INT", {"id": 6}),
    ]


def test_parts_of_nested_columns_have_ids_too(tmp_path: Path) -> None:
    row = t.RowType(fields=(t.DataField(7, "x", t.ArrayType(element=t.IntType())),))
    bag = t.MultisetType(element=t.VarCharType())
    table = target(
        tmp_path, [t.DataField(2, "m", t.MapType(key=bag.element, value=row)), t.DataField(3, "b", bag)], options=ORC
    )
    base = 536870911
    assert type_tree(path_of(table, write_one(table, frame(table, (None, None))))) == [
        ("STRUCT", {}),
        ("MAP", {"id": 2}),
        ("STRING", {"id": base - 2049}),
        ("STRUCT", {"id": base + 2049}),
        ("LIST", {"id": 7}),
        ("INT", {"id": base + 7169}),
        ("MAP", {"id": 3}),
        ("STRING", {"id": base - 3073}),
        ("INT", {"id": base + 3073}),
    ]


EARLY = [
    dt.datetime(1, 1, 1),
    dt.datetime(1582, 10, 10, 0, 0, 0, 1),
    dt.datetime(1960, 1, 1, 0, 0, 0, 500),
    dt.datetime(1969, 6, 1, 0, 0, 0, 123456),
    dt.datetime(1969, 12, 31, 23, 59, 58, 999999),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999),
    dt.datetime(1969, 12, 31, 23, 59, 59, 500000),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
]


@pytest.mark.parametrize("legacy", ["true", "false"])
def test_fractions_of_seconds_before_1970(tmp_path: Path, small_blocks: int, legacy: str) -> None:
    options = ORC | {"orc.timestamp-ltz.legacy.type": legacy}
    table = target(tmp_path, "id INT; at TIMESTAMP(6); instant TIMESTAMP_LTZ(3)", options=options)
    rows = frame(table, *[(i, None if i % 3 == 0 else EARLY[i % 8], None) for i in range(3 * small_blocks)])
    rows = rows.with_columns(instant=pl.col("at").dt.cast_time_unit("ms").dt.replace_time_zone("UTC"))
    assert_frame_equal(read(table, write_one(table, rows)), rows)


def test_fractions_before_1970_inside_of_nested_columns(tmp_path: Path) -> None:
    times = t.ArrayType(
        element=t.RowType(fields=(t.DataField(3, "n", t.IntType()), t.DataField(4, "at", t.TimestampType())))
    )
    table = target(tmp_path, [t.DataField(0, "id", t.IntType()), t.DataField(1, "times", times)], options=ORC)
    some = [{"n": 1, "at": EARLY[3]}, None, {"n": None, "at": None}, {"n": 2, "at": EARLY[4]}]
    rows = frame(table, (1, some), (2, None), (3, []), (4, some[::-1]))
    assert_frame_equal(read(table, write_one(table, rows)), rows)


def test_nanoseconds_count_upwards_before_1970(tmp_path: Path) -> None:
    table = target(tmp_path, "at TIMESTAMP(6)", options=ORC)
    path = path_of(table, write_one(table, frame(table, (EARLY[3],))))
    layout = OrcLayout(LocalStore().open(str(path)), str(path))
    # A single direct run with 40 bits per value; nanoseconds are shifted left by 3 bits.
    assert layout.stream_bytes(layout.stripe(0), 1, 5) == bytes.fromhex("7800") + (123456000 << 3).to_bytes(5, "big")


def test_what_orc_cannot_tell_apart_is_refused(tmp_path: Path) -> None:
    table = target(tmp_path, "at TIMESTAMP(6)", options=ORC)
    with pytest.raises(InvalidArgument, match=r"column 'at'.*the last second before 1970"):
        write(table, frame(table, (dt.datetime(1969, 12, 31, 23, 59, 59, 500001),)))


def test_nulls_of_rows_in_later_stripes(tmp_path: Path, small_blocks: int) -> None:
    row = t.RowType(fields=(t.DataField(1, "x", t.IntType()), t.DataField(2, "y", t.VarCharType())))
    table = target(tmp_path, [t.DataField(0, "r", row)], options=ORC)
    rows = frame(table, *[(None if i % 2 else {"x": i if i % 3 else None, "y": "y"},) for i in range(3 * small_blocks)])
    file = write_one(table, rows)
    assert orc.ORCFile(path_of(table, file)).nstripes == 3
    assert_frame_equal(read(table, file), rows)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "lz4", "zlib", "none"])
def test_codecs(codec: str, tmp_path: Path, small_blocks: int) -> None:
    table = target(tmp_path, "c STRING; at TIMESTAMP(6)", options=ORC | {"file.compression": codec})
    rows = frame(table, *[("a" * 1000, EARLY[3])] * (2 * small_blocks))
    file = write_one(table, rows)
    expected = {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    assert orc.ORCFile(path_of(table, file)).compression == expected
    assert_frame_equal(read(table, file), rows)


def test_wide_tails_are_cut_into_chunks(tmp_path: Path) -> None:
    table = target(tmp_path, "; ".join(f"a_long_column_name_{i} BIGINT" for i in range(2000)), options=ORC)
    rows = frame(table, tuple(range(2000)))
    assert_frame_equal(read(table, write_one(table, rows)), rows)


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    names = ["a.b", "a b", "1", "ü", "Σ'\"`", "list.element", "_KEY", "a"]
    row = t.RowType(fields=(t.DataField(20, "x.y", t.TimestampType(precision=3)), t.DataField(21, "x", t.IntType())))
    fields = [t.DataField(i, name, t.TimestampType(precision=3 if i % 2 else 6)) for i, name in enumerate(names)]
    table = target(tmp_path, [*fields, t.DataField(30, "r.r", row)], options=ORC)
    at = dt.datetime(2024, 1, 1)
    rows = frame(table, *[(*[at] * 8, {"x.y": at, "x": i}) for i in range(2000)])
    assert_frame_equal(read(table, write_one(table, rows)), rows)


@given(data=st.data())
def test_whatever_is_written_is_read_again(data: st.DataObject) -> None:
    fields = data.draw(random_columns())
    rows = data.draw(random_rows(fields).filter(_holds_no_lost_time))
    with tempfile.TemporaryDirectory() as folder:
        table = target(Path(folder), fields, options=ORC)
        assert_frame_equal(read(table, write_one(table, rows)), rows)


def _holds_no_lost_time(rows: pl.DataFrame) -> bool:
    lost = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    return not any(column.dtype == pl.Datetime("us") and (column == lost).any() for column in rows.iter_columns())


@pytest.mark.parametrize("kind", [t.VariantType(), t.VectorType(element=t.FloatType(), length=3)])
def test_types_that_java_does_not_write_are_refused(kind: t.DataType, tmp_path: Path) -> None:
    table = target(tmp_path, [t.DataField(0, "c", kind)], options=ORC)
    with pytest.raises(Unsupported, match="in ORC files is not supported"):
        write(table, frame(table, (None,)))


def test_unknown_codecs_are_refused(tmp_path: Path) -> None:
    table = target(tmp_path, "c INT", options=ORC | {"file.compression": "gzip"})
    with pytest.raises(Unsupported, match="the codec 'gzip' in ORC files"):
        write(table, frame(table, (1,)))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("ARRAY<ROW<a ROW<b DOUBLE>>>", [{"a": None}, {"a": {"b": 1.0}}]),
        ("ARRAY<ROW<a ARRAY<ROW<b STRING>>>>", [{"a": None}, {"a": [None, {"b": "z"}]}]),
    ],
)
def test_nulls_that_pyarrow_writes_as_other_values_are_refused(tmp_path: Path, kind: str, value: Any) -> None:
    table = new_table(tmp_path, f"v {kind}", options=ORC)
    table.append([{"v": None}, {"v": []}, {"v": [value[1]] if kind.count("ARRAY") == 1 else [{"a": []}]}])
    before = table.scan().to_dicts()
    with pytest.raises(Unsupported, match=r"column 'v': an ORC file with such nulls .* set 'file.format' = 'parquet'"):
        table.append([{"v": value}])
    assert table.scan().to_dicts() == before
