"""Parquet data files: their content, byte for byte if that matters, and rows that readers find again."""

from __future__ import annotations

import datetime as dt
import io
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.parquet_metadata import Part, decode_thrift, decode_thrift_from, encode_thrift, merge_footers
from morrow.readers.casts.dtypes import to_arrow_table
from tests.writers.files.targets import (
    DEEP,
    KINDS,
    frame,
    is_deep,
    path_of,
    random_columns,
    random_rows,
    read,
    target,
    versions,
    write,
    write_one,
)


def schema_of(path: Path) -> list[str]:
    """Format the Parquet schema like Arrow, one node per line."""
    text = str(pq.ParquetFile(path).schema)
    return [" ".join(line.split()) for line in text.splitlines()[2:-1] if line.strip() != "}"]


def test_keys_come_first_then_sequence_number_and_kind_then_the_columns(tmp_path: Path) -> None:
    table = target(tmp_path, "id BIGINT NOT NULL; part INT NOT NULL; name STRING", keys=["part", "id"])
    file = write_one(table, versions(frame(table, (7, 1, "a"), (8, 1, None))))
    assert schema_of(path_of(table, file)) == [
        "required int32 field_id=1073741824 _KEY_part;",
        "required int64 field_id=1073741823 _KEY_id;",
        "required int64 field_id=2147483646 _SEQUENCE_NUMBER;",
        "required int32 field_id=2147483645 _VALUE_KIND (Int(bitWidth=8, isSigned=true));",
        "required int64 field_id=0 id;",
        "required int32 field_id=1 part;",
        "optional binary field_id=2 name (String);",
    ]


def test_thin_mode_leaves_the_copies_of_the_keys_out(tmp_path: Path) -> None:
    table = target(tmp_path, "id BIGINT NOT NULL; v INT", keys=["id"], options={"data-file.thin-mode": "true"})
    file = write_one(table, versions(frame(table, (7, 1))))
    names = pq.ParquetFile(path_of(table, file)).schema_arrow.names
    assert names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "id", "v"]


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("TINYINT", "optional int32 field_id=0 c (Int(bitWidth=8, isSigned=true));"),
        ("SMALLINT", "optional int32 field_id=0 c (Int(bitWidth=16, isSigned=true));"),
        ("INT", "optional int32 field_id=0 c;"),
        ("DECIMAL(9, 2)", "optional int32 field_id=0 c (Decimal(precision=9, scale=2));"),
        ("DECIMAL(18, 0)", "optional int64 field_id=0 c (Decimal(precision=18, scale=0));"),
        ("DECIMAL(19, 3)", "optional fixed_len_byte_array(9) field_id=0 c (Decimal(precision=19, scale=3));"),
        ("DECIMAL(38, 38)", "optional fixed_len_byte_array(16) field_id=0 c (Decimal(precision=38, scale=38));"),
        ("CHAR(3)", "optional binary field_id=0 c (String);"),
        ("BINARY(3)", "optional binary field_id=0 c;"),
        ("DATE", "optional int32 field_id=0 c (Date);"),
        ("TIME(0)", "optional int32 field_id=0 c (Time(isAdjustedToUTC=true, timeUnit=milliseconds));"),
        ("TIMESTAMP(9)", "optional int96 field_id=0 c;"),
        ("TIMESTAMP_LTZ(7)", "optional int96 field_id=0 c;"),
    ],
)
def test_types_are_those_of_java(kind: str, stored: str, tmp_path: Path) -> None:
    table = target(tmp_path, f"c {kind}")
    assert schema_of(path_of(table, write_one(table, frame(table, (None,))))) == [stored]


@pytest.mark.parametrize("precision", range(7))
def test_timestamps_are_milliseconds_up_to_precision_3_then_microseconds(precision: int, tmp_path: Path) -> None:
    table = target(tmp_path, f"a TIMESTAMP({precision}); b TIMESTAMP_LTZ({precision})")
    schema = pq.ParquetFile(path_of(table, write_one(table, frame(table, (None, None))))).schema_arrow
    unit = "ms" if precision <= 3 else "us"
    assert [str(kind) for kind in schema.types] == [f"timestamp[{unit}]", f"timestamp[{unit}, tz=UTC]"]


def test_parts_of_nested_columns_have_ids_too(tmp_path: Path) -> None:
    nested = t.ArrayType(element=t.MapType(key=t.IntType(nullable=False), value=t.ArrayType(element=t.IntType())))
    row = t.RowType(fields=(t.DataField(12, "x", t.MultisetType(element=t.VarCharType())),))
    table = target(
        tmp_path, [t.DataField(10, "a", nested), t.DataField(11, "r", row), t.DataField(13, "v", t.VariantType())]
    )
    base = 536870911
    assert schema_of(path_of(table, write_one(table, frame(table, (None, None, None))))) == [
        "optional group field_id=10 a (List) {",
        "repeated group field_id=-1 list {",
        f"optional group field_id={base + 10240 + 1} element (Map) {{",
        "repeated group field_id=-1 key_value {",
        f"required int32 field_id={base - 10240 - 2} key;",
        f"optional group field_id={base + 10240 + 2} value (List) {{",
        "repeated group field_id=-1 list {",
        f"optional int32 field_id={base + 10240 + 3} element;",
        "optional group field_id=11 r {",
        "optional group field_id=12 x (Map) {",
        "repeated group field_id=-1 key_value {",
        f"required binary field_id={base - 12288 - 1} key (String);",
        f"required int32 field_id={base + 12288 + 1} value;",
        "optional group field_id=13 v {",
        "required binary field_id=0 value;",
        "required binary field_id=1 metadata;",
    ]


def test_times_of_nanoseconds_stand_beside_others(tmp_path: Path) -> None:
    table = target(tmp_path, "a TIMESTAMP(3); b TIMESTAMP(9); c TIMESTAMP_LTZ(8); d TIMESTAMP(6)")
    early, late = -1, 1_700_000_000_123_456_789
    ticks = {"a": [5, None], "b": [early, late], "c": [late, None], "d": [7, 8]}
    rows = pl.DataFrame(ticks).cast(dict(frame(table).schema))
    file = write_one(table, rows)
    assert_frame_equal(read(table, file), rows)
    stored = pq.ParquetFile(path_of(table, file))
    assert [stored.schema.column(i).physical_type for i in range(4)] == ["INT64", "INT96", "INT96", "INT64"]
    assert [stored.metadata.row_group(0).column(i).physical_type for i in range(4)] == [
        "INT64",
        "INT96",
        "INT96",
        "INT64",
    ]
    assert stored.read().column("b").cast("int64").to_pylist() == [early, late]


def test_required_members_of_a_null_row_need_no_value(tmp_path: Path) -> None:
    inner = t.RowType(False, (t.DataField(3, "n", t.ArrayType(False, t.IntType())),))
    row = t.RowType(fields=(t.DataField(1, "x", t.VarCharType(False)), t.DataField(2, "y", inner)))
    table = target(tmp_path, [t.DataField(0, "r", row), t.DataField(4, "v", t.VariantType())])
    rows = frame(
        table, (None, None), ({"x": "a", "y": {"n": [1]}}, {"value": b"\x01", "metadata": b"\x02"}), (None, None)
    )
    assert_frame_equal(read(table, write_one(table, rows)), rows)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "none"])
def test_codecs(codec: str, tmp_path: Path) -> None:
    table = target(tmp_path, "c STRING", options={"file.compression": codec})
    rows = frame(table, *[("a" * 100,)] * 50)
    file = write_one(table, rows)
    written = pq.ParquetFile(path_of(table, file)).metadata.row_group(0).column(0).compression
    assert written == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    assert_frame_equal(read(table, file), rows)


def test_a_higher_level_makes_smaller_files(tmp_path: Path) -> None:
    rows = pl.DataFrame({"c": [f"{i * 7919 % 10007:x} {i % 13}" for i in range(20_000)]})
    sizes = [
        write_one(target(tmp_path, "c STRING", options={"file.compression.zstd-level": level}), rows).file_size
        for level in ("1", "19")
    ]
    assert sizes[1] < sizes[0]


def test_every_page_has_a_checksum(tmp_path: Path) -> None:
    table = target(tmp_path, "c STRING", options={"file.compression": "none"})
    path = path_of(table, write_one(table, frame(table, *[(f"value {i}",) for i in range(100)])))
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"value 50")] ^= 1
    path.write_bytes(damaged)
    assert pq.ParquetFile(path).read().num_rows == 100
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


def test_row_groups_are_encoded_apart_and_make_one_file(tmp_path: Path, small_blocks: int) -> None:
    table = target(tmp_path, "id INT; t TIMESTAMP(9); s STRING")
    rows = frame(table, *[(i, None, f"{i}") for i in range(10 * small_blocks + 3)])
    file = write_one(table, rows)
    metadata = pq.ParquetFile(path_of(table, file)).metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [small_blocks] * 10 + [3]
    assert metadata.num_rows == file.row_count == rows.height
    assert_frame_equal(read(table, file), rows)


def test_unique_numbers_are_stored_as_differences_and_repeating_values_by_dictionary(tmp_path: Path) -> None:
    table = target(tmp_path, "id BIGINT; city STRING; amount DOUBLE; noise BIGINT; at TIMESTAMP(9)")
    rows = pl.DataFrame(
        {
            "id": range(5000),
            "city": [f"city {i % 7}" for i in range(5000)],
            "amount": [i * 0.37 for i in range(5000)],
            "noise": [(i * 0x9E3779B97F4A7C15 & 2**64 - 1) - 2**63 for i in range(5000)],
            "at": range(5000),
        }
    ).cast(dict(frame(table).schema))
    metadata = pq.ParquetFile(path_of(table, write_one(table, rows))).metadata.row_group(0)
    encodings = [set(metadata.column(i).encodings) - {"RLE"} for i in range(5)]
    assert encodings[0] == {"DELTA_BINARY_PACKED"}
    assert "RLE_DICTIONARY" in encodings[1]
    assert encodings[2] == encodings[3] == encodings[4] == {"PLAIN"}


@pytest.mark.parametrize(
    ("version", "encoding"), [("v1", "PLAIN"), ("PARQUET_1_0", "PLAIN"), ("v2", "DELTA_BINARY_PACKED")]
)
def test_the_first_version_has_no_differences(tmp_path: Path, version: str, encoding: str) -> None:
    table = target(tmp_path, "id BIGINT", options={"parquet.writer.version": version})
    rows = pl.DataFrame({"id": range(5000)}).cast(dict(frame(table).schema))
    metadata = pq.ParquetFile(path_of(table, write_one(table, rows))).metadata
    assert set(metadata.row_group(0).column(0).encodings) - {"RLE"} == {encoding}


def test_dictionaries_can_be_forbidden(tmp_path: Path) -> None:
    table = target(tmp_path, "city STRING", options={"parquet.enable.dictionary": "false"})
    metadata = pq.ParquetFile(path_of(table, write_one(table, frame(table, *[("a",)] * 9)))).metadata
    assert "RLE_DICTIONARY" not in metadata.row_group(0).column(0).encodings


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    names = ["a.b", "a b", "1", "ü", "Σ'\"`", "list.element", "_KEY", "a"]
    row = t.RowType(fields=(t.DataField(20, "x.y", t.TimestampType(precision=3)), t.DataField(21, "x", t.IntType())))
    fields = [t.DataField(i, name, t.TimestampType(precision=3 if i % 2 else 6)) for i, name in enumerate(names)]
    table = target(tmp_path, [*fields, t.DataField(30, "r.r", row)], options={})
    at = dt.datetime(2024, 1, 1)
    rows = frame(table, *[(*[at] * 8, {"x.y": at, "x": i}) for i in range(2000)])
    assert_frame_equal(read(table, write_one(table, rows)), rows)


@given(data=st.data())
def test_whatever_is_written_is_read_again(data: st.DataObject) -> None:
    fields = data.draw(random_columns([*KINDS, *DEEP]))
    rows = data.draw(random_rows(fields))
    with tempfile.TemporaryDirectory() as folder:
        table = target(Path(folder), fields)
        file = write_one(table, rows)
        assert_frame_equal(read(table, file), rows)
        stored = pq.ParquetFile(path_of(table, file), page_checksum_verification=True).read()
        assert stored.column_names == [f.name for f in fields]
        plain = [f.name for f in fields if not is_deep(f.type)]
        assert stored.select(plain).to_pylist() == to_arrow_table(rows, fields).select(plain).to_pylist()


def test_unknown_codecs_are_refused(tmp_path: Path) -> None:
    table = target(tmp_path, "c INT", options={"file.compression": "rar"})
    with pytest.raises(Unsupported, match="the codec 'rar' in Parquet files"):
        write(table, frame(table, (1,)))


def test_a_null_where_the_column_has_no_place_for_it_is_refused(tmp_path: Path) -> None:
    table = target(tmp_path, "id INT NOT NULL; amount DECIMAL(4, 2) NOT NULL")
    with pytest.raises(InvalidArgument, match=r"the column 'amount' is DECIMAL\(4, 2\) NOT NULL and would get a null"):
        write(table, frame(table, (1, Decimal("1.00")), (2, None)))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_values_of_another_type_are_refused(tmp_path: Path) -> None:
    table = target(tmp_path, "at TIMESTAMP(3)")
    wrong: Any = pl.DataFrame({"at": [dt.time(1)]})
    with pytest.raises(InvalidArgument, match="column 'at'"):
        write(table, wrong)


# Thrift's compact protocol, parsed and written again without its schema.


def parquet(table: pa.Table, **options: Any) -> tuple[bytes, bytes]:
    """Write a Parquet file, and return the bytes before its footer and the footer."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    data = sink.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    return data[4 : -8 - length], data[-8 - length : -8]


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=3),
        st.one_of(
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=20, max_size=20),
            st.lists(st.one_of(st.none(), st.text(max_size=4)), min_size=20, max_size=20),
            st.lists(st.lists(st.floats(allow_nan=False), max_size=2), min_size=20, max_size=20),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([1, 7, 20]),
)
def test_footers_are_encoded_as_they_were(columns: dict[str, list[Any]], row_group: int) -> None:
    _, footer = parquet(pa.table(columns), row_group_size=row_group)
    assert encode_thrift(decode_thrift(footer)) == footer


def test_one_footer_for_the_row_groups_of_several_files() -> None:
    tables = [
        pa.table({"a": [1, 2], "b": ["x", None]}),
        pa.table({"a": [3], "b": ["y"]}),
        pa.table({"a": [4], "b": ["z"]}),
    ]
    parts = [parquet(table) for table in tables]
    _, footer = merge_footers([Part(len(body), b"", tail) for body, tail in parts], int96=False)
    bodies = b"".join(body for body, _ in parts)
    merged = b"".join([b"PAR1", bodies, footer, len(footer).to_bytes(4, "little"), b"PAR1"])
    assert pq.read_table(io.BytesIO(merged)).equals(pa.concat_tables(tables))


def test_page_indexes_of_several_row_groups(tmp_path: Path, small_blocks: int) -> None:
    """The offset index has the place and the first row of each page, the column index its least and greatest value."""
    options = {"file.format": "parquet", "parquet.page.size": "64 b", "parquet.enable.dictionary": "false"}
    table = target(tmp_path, "id BIGINT; at TIMESTAMP(9); s STRING", options=options)
    count = 3 * small_blocks + 1
    rows = frame(table, *[(i, dt.datetime(2024, 5, 14), f"{i:04}") for i in range(count)])
    data = path_of(table, write_one(table, rows)).read_bytes()
    footer = decode_thrift(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    first = 0
    for group in footer[4][1]:
        for number, chunk in enumerate(group[1][1]):
            offsets = decode_thrift(data[chunk[4][1] :][: chunk[5][1]])[1][1]
            starts = [each[3][1] for each in offsets]
            assert starts[0] == 0
            for page, (start, end) in zip(offsets, zip(starts, [*starts[1:], group[3][1]])):
                header, body = decode_thrift_from(data, page[1][1])
                assert header[5][1][1][1] == end - start
                assert body + header[3][1] - page[1][1] == page[2][1]
            if number == 1:
                assert 6 not in chunk  # INT96 has no order
            else:
                least = [
                    each.decode() if number else int.from_bytes(each, "little")
                    for each in decode_thrift(data[chunk[6][1] :][: chunk[7][1]])[2][1]
                ]
                values = [first + start for start in starts]
                assert least == ([f"{i:04}" for i in values] if number else values)
        first += group[3][1]
    assert first == count
    assert pq.ParquetFile(io.BytesIO(data)).metadata.row_group(2).column(0).has_offset_index


@pytest.mark.parametrize("width", [12, 13])
def test_only_12_bytes_without_a_meaning_become_int96(width: int) -> None:
    table = pa.table({"t": pa.array([b"\0" * width], pa.binary(width)), "d": pa.array([1], pa.decimal128(28, 2))})
    body, footer = parquet(table, write_statistics=False)
    _, changed = merge_footers([Part(len(body), b"", footer)], int96=True)
    merged = b"".join([b"PAR1", body, changed, len(changed).to_bytes(4, "little"), b"PAR1"])
    schema = pq.ParquetFile(io.BytesIO(merged)).schema
    assert [schema.column(i).physical_type for i in range(2)] == [
        "INT96" if width == 12 else "FIXED_LEN_BYTE_ARRAY",
        "FIXED_LEN_BYTE_ARRAY",
    ]
