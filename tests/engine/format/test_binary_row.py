"""BinaryRows as Java Paimon 1.4.2 writes them: decoded, encoded and hashed."""

from __future__ import annotations

import contextlib
import datetime as dt
import struct
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import CorruptFile, InvalidArgument, MorrowError, Unsupported
from morrow.engine.format.binary_row import Value, decode_columns, decode_row, read_arities
from morrow.engine.format.binary_row_encoder import encode_columns, encode_row, hash_rows
from morrow.engine.format.types import ArrayType, IntType, parse_atomic

UTC = dt.UTC

# type, value, the stored row in hexadecimal (without arity 1 and a word without null bits), Java's hash code
JAVA_FIELDS = [
    ("BOOLEAN", True, "0100000000000000", 1465514398),
    ("TINYINT", -7, "f900000000000000", 14401151),
    ("SMALLINT", -300, "d4fe000000000000", -887757019),
    ("INT", -1, "ffffffff00000000", 1133687267),
    ("BIGINT", 5000000000, "00f2052a01000000", 528244973),
    ("FLOAT", 1.5, "0000c03f00000000", -173842779),
    ("FLOAT", -0.0, "0000008000000000", 916225219),
    ("DOUBLE", -2.25, "00000000000002c0", -413435051),
    ("DECIMAL(10, 2)", Decimal("-12.30"), "32fbffffffffffff", 642718286),
    ("DECIMAL(38, 4)", Decimal("12.3000"), "030000001000000001e07800000000000000000000000000", 1450746341),
    ("DECIMAL(38, 4)", Decimal("0.0000"), "010000001000000000000000000000000000000000000000", 728486185),
    ("DECIMAL(38, 4)", Decimal("-0.0128"), "010000001000000080000000000000000000000000000000", 1196242097),
    ("DECIMAL(38, 4)", Decimal("0.0128"), "020000001000000000800000000000000000000000000000", -795104203),
    ("DECIMAL(38, 4)", Decimal("-0.0129"), "0200000010000000ff7f0000000000000000000000000000", -104809469),
    (
        "DECIMAL(38, 4)",
        Decimal("-9999999999999999999999999999999999.9999"),
        "1000000010000000b4c4b357a5793b85f675ddc000000001",
        2078814714,
    ),
    ("STRING", "", "0000000000000080", 302122119),
    ("STRING", "a", "6100000000000081", 943281246),
    ("STRING", "seven77", "736576656e373787", 1525755972),
    ("STRING", "eight888", "08000000100000006569676874383838", 217642644),
    ("STRING", "héllo wörld", "0d0000001000000068c3a96c6c6f2077c3b6726c64000000", 769328861),
    ("BYTES", b"\x00\xff\x80", "00ff800000000083", 195257662),
    ("BYTES", bytes(range(9)), "0900000010000000000102030405060708" + "00" * 7, -1876873526),
    ("DATE", dt.date(1969, 12, 31), "ffffffff00000000", 1133687267),
    ("TIME(3)", dt.time(23, 59, 59, 999000), "ff5b260500000000", -370972758),
    ("TIMESTAMP(3)", dt.datetime(1969, 12, 31, 23, 59, 59, 999000), "ffffffffffffffff", -821098432),
    ("TIMESTAMP(6)", dt.datetime(1969, 12, 31, 23, 59, 59, 999999), "583e0f0010000000ffffffffffffffff", 1236894319),
    ("TIMESTAMP(9)", np.datetime64(1_234_567, "ns"), "47940300100000000100000000000000", -310868417),
    (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        dt.datetime(2023, 11, 14, 22, 13, 20, 123456, UTC),
        "40f50600100000007b68e5cf8b010000",
        1196670069,
    ),
]

MIXED = [
    parse_atomic(text)
    for text in (
        "BOOLEAN", "INT", "DECIMAL(5, 1)", "DECIMAL(20, 1)", "STRING", "TIMESTAMP(3)", "TIMESTAMP(6)", "STRING",
    )
]  # fmt: skip
MIXED_VALUES = (
    True,
    7,
    Decimal("1.5"),
    Decimal("-1.5"),
    "a longer string",
    dt.datetime(1970, 1, 1, 0, 0, 0, 5000),
    dt.datetime(1970, 1, 1, 0, 0, 0, 5001),
    "x",
)
JAVA_MIXED_ROW = bytes.fromhex(
    "00000008"  # 8 fields
    "0000000000000000"  # header and null bits
    "0100000000000000" "0700000000000000" "0f00000000000000"  # BOOLEAN, INT, DECIMAL(5, 1)
    "0100000048000000" "0f00000058000000"  # 1 byte at 72, 15 bytes at 88
    "0500000000000000" "e803000068000000"  # TIMESTAMP(3); 1000 ns and the milliseconds at 104
    "7800000000000081"  # "x", inline
    "f1000000000000000000000000000000" "61206c6f6e67657220737472696e6700" "0500000000000000"
)  # fmt: skip
JAVA_NULL_ROW = bytes.fromhex(  # a null DECIMAL(20, 1) and TIMESTAMP(6) have variable parts, too
    "00000008" + "00ff000000000000" + "00" * 24 + "0000000048000000" + "00" * 16 + "0000000058000000" + "00" * 32
)


def java_row(field_hex: str) -> bytes:
    """Build the stored row of one non-null field."""
    return bytes.fromhex("00000001" + "00" * 8 + field_hex)


@pytest.mark.parametrize(("text", "value", "field_hex", "hash_code"), JAVA_FIELDS)
def test_one_field(text: str, value: Value, field_hex: str, hash_code: int) -> None:
    kind = parse_atomic(text)
    row = java_row(field_hex)
    (decoded,) = decode_row(row, [kind], where="manifest-1")
    assert repr(decoded) == repr(value)  # repr, since -0.0 is not 0.0 and a decimal keeps its scale
    assert encode_row([value], [kind]) == row
    assert hash_rows(decode_columns([row], [kind], where="manifest-1"), [kind]).tolist() == [hash_code]


def test_many_fields() -> None:
    assert decode_row(JAVA_MIXED_ROW, MIXED, where="m") == MIXED_VALUES
    assert encode_row(MIXED_VALUES, MIXED) == JAVA_MIXED_ROW


def test_null_fields() -> None:
    assert decode_row(JAVA_NULL_ROW, MIXED, where="m") == (None,) * 8
    assert encode_row((None,) * 8, MIXED) == JAVA_NULL_ROW


def test_null_bits_pass_the_first_word() -> None:
    types = [IntType()] * 60  # 8 header bits and 60 null bits take two words
    values = tuple(None if i % 7 == 0 or i > 54 else i for i in range(60))
    row = encode_row(values, types)
    assert row.hex().startswith("0000003c00814020100804820f00000000000000")
    assert decode_row(row, types, where="m") == values
    hashes = hash_rows([pl.Series([v], dtype=pl.Int32) for v in values], types)
    assert hashes.tolist() == [-1519446821]


def test_a_row_without_fields() -> None:
    assert encode_row((), ()) == b"\0" * 12
    assert decode_row(b"\0" * 12, (), where="m") == ()


def test_columns_come_in_their_natural_types() -> None:
    rows = pl.Series([JAVA_MIXED_ROW, None, JAVA_NULL_ROW, JAVA_MIXED_ROW])
    columns = decode_columns(rows, MIXED, where="m")
    assert [str(column.dtype) for column in columns] == [
        "Boolean", "Int32", "Decimal(precision=5, scale=1)", "Decimal(precision=20, scale=1)", "String",
        "Datetime(time_unit='ms', time_zone=None)", "Datetime(time_unit='us', time_zone=None)", "String",
    ]  # fmt: skip
    assert columns[4].to_list() == ["a longer string", None, None, "a longer string"]


def test_columns_are_picked_by_index() -> None:
    last, second = decode_columns([JAVA_MIXED_ROW], MIXED, where="m", columns=[7, 1])
    assert (last.to_list(), second.to_list()) == (["x"], [7])


@pytest.mark.parametrize(
    "rows",
    [
        pl.Series([b"?", JAVA_MIXED_ROW, None])[1:],
        pa.array([b"?", JAVA_MIXED_ROW, None]).slice(1),
        pa.chunked_array([[JAVA_MIXED_ROW], [None]], pa.binary()),
        [JAVA_MIXED_ROW, None],
    ],
    ids=["polars", "arrow", "chunks", "list"],
)
def test_rows_come_in_any_binary_column(rows: pl.Series | pa.Array | list[bytes | None]) -> None:
    assert decode_columns(rows, MIXED, where="m", columns=[4])[0].to_list() == ["a longer string", None]
    assert read_arities(rows, where="m").tolist() == [8, -1]


def test_no_rows() -> None:
    assert [len(column) for column in decode_columns([], MIXED, where="m")] == [0] * 8


def test_timestamps_that_datetime_cannot_hold_keep_their_nanoseconds() -> None:
    kind = parse_atomic("TIMESTAMP(9)")
    row = java_row("47940300100000000100000000000000")
    assert decode_row(row, [kind], where="m") == (np.datetime64("1970-01-01T00:00:00.001234567", "ns"),)
    assert decode_columns([row], [kind], where="m")[0].dtype == pl.Datetime("ns")


def test_a_timestamp_outside_the_range_of_nanoseconds() -> None:
    kind = parse_atomic("TIMESTAMP(9)")
    row = encode_row([dt.datetime(9999, 12, 31)], [kind])
    with pytest.raises(Unsupported, match=r"m: a TIMESTAMP\(9\) too far from 1970"):
        decode_columns([row], [kind], where="m")
    assert decode_columns([row], [kind], where="m", unrepresentable="null")[0].to_list() == [None]


@pytest.mark.parametrize("days", [4_000_000, -2_000_000, 2**31 - 1])
def test_a_date_that_python_does_not_have(days: int) -> None:
    row = java_row(struct.pack("<q", days & 0xFFFFFFFF).hex())
    with pytest.raises(Unsupported, match="outside the years 1 to 9999"):
        decode_row(row, [parse_atomic("DATE")], where="m")


def test_nested_fields_may_only_be_null() -> None:
    types = [ArrayType(element=IntType()), IntType()]
    row = encode_row((None, 5), types)
    assert decode_row(row, types, where="m") == (None, 5)
    filled = row[:4] + b"\0" * 8 + row[12:]
    with pytest.raises(Unsupported, match="ARRAY value"):
        decode_row(filled, types, where="m")
    assert decode_columns([filled], types, where="m", columns=[1])[0].to_list() == [5]
    with pytest.raises(Unsupported, match="ARRAY<INT>"):
        encode_columns([pa.array([[1]]), pa.array([1])], types)


@pytest.mark.parametrize(
    ("text", "row", "problem"),
    [
        ("INT", b"\0\0", "too short to hold its number of fields"),
        ("INT", JAVA_MIXED_ROW, "does not have 1 fields"),
        ("INT", java_row("00")[:15], "shorter than its 16 fixed bytes"),
        ("STRING", java_row("0800000010000000" "6569676874"), "a value lies outside its row"),
        ("STRING", java_row("0800000000000000" "6569676874383838"), "a value lies outside its row"),
        ("STRING", java_row("0000000000000088"), "an inline value is over 7 bytes long"),
        ("DECIMAL(38, 4)", java_row("1100000010000000" + "00" * 17), "not 1 to 16 bytes long"),
        ("DECIMAL(20, 1)", java_row("1000000010000000" "7f" + "ff" * 15), "does not fit DECIMAL"),
        ("DECIMAL(3, 1)", java_row("e803000000000000"), "does not fit DECIMAL"),
        ("TIME(3)", java_row("005c260500000000"), "outside its day"),
        ("TIMESTAMP(6)", java_row("40420f0010000000" + "00" * 8), "more nanoseconds than a millisecond"),
        ("TIMESTAMP(6)", java_row("0000000010000000"), "a value lies outside its row"),
    ],
)  # fmt: skip
def test_corrupt_rows(text: str, row: bytes, problem: str) -> None:
    with pytest.raises(CorruptFile, match=f"manifest-1: .*{problem}"):
        decode_columns([row], [parse_atomic(text)], where="manifest-1")


def test_text_that_is_not_utf8_is_what_spark_casts_from_bytes() -> None:
    with pytest.raises(Unsupported, match="manifest-1: a STRING that is not UTF-8"):
        decode_columns([java_row("ff00000000000081")], [parse_atomic("STRING")], where="manifest-1")


@given(at=st.integers(0, len(JAVA_MIXED_ROW) - 1), byte=st.integers(0, 255), end=st.integers(0, len(JAVA_MIXED_ROW)))
def test_damage_gives_values_or_errors_of_ours(at: int, byte: int, end: int) -> None:
    damaged = JAVA_MIXED_ROW[:at] + bytes([byte]) + JAVA_MIXED_ROW[at + 1 :]
    for data in (damaged, damaged[:end]):
        with contextlib.suppress(MorrowError):
            assert len(decode_row(data, MIXED, where="m")) == 8


VALUES = {
    "BOOLEAN": st.booleans(),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(18, 3)": st.decimals(-(10**14), 10**14, places=3),
    "DECIMAL(38, 10)": st.decimals(-(10**27), 10**27, places=10),
    "STRING": st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    "BYTES": st.binary(max_size=30),
    "DATE": st.dates(),
    "TIMESTAMP(6)": st.datetimes(),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": st.datetimes(dt.datetime(1, 1, 2), timezones=st.just(UTC)),
}
TYPES = [parse_atomic(text) for text in VALUES]


@given(st.lists(st.tuples(*(st.none() | values for values in VALUES.values())), min_size=1, max_size=8))
def test_what_is_encoded_is_decoded(rows: list[tuple[Value, ...]]) -> None:
    columns = [pa.array(values, kind.arrow()) for values, kind in zip(zip(*rows, strict=True), TYPES, strict=True)]
    encoded = encode_columns(columns, TYPES)
    stored = [struct.pack(">i", len(TYPES)) + encoded.row(i) for i in range(len(rows))]
    assert list(zip(*decode_columns(stored, TYPES, where="m"), strict=True)) == rows
    assert stored == [encode_row(row, TYPES) for row in rows]
    assert encoded.hash_codes().tolist() == [murmur(row[4:]) for row in stored]
    assert hash_rows(columns, TYPES).tolist() == encoded.hash_codes().tolist()


def murmur(data: bytes) -> int:
    """Compute 32-bit Murmur3 of whole words with seed 42, word by word."""
    mask = 0xFFFFFFFF

    def rotate(word: int, bits: int) -> int:
        return (word << bits | word >> 32 - bits) & mask

    code = 42
    for (word,) in struct.iter_unpack("<I", data):
        code ^= rotate(word * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
        code = (rotate(code, 13) * 5 + 0xE6546B64) & mask
    code ^= len(data)
    code = (code ^ code >> 16) * 0x85EBCA6B & mask
    code = (code ^ code >> 13) * 0xC2B2AE35 & mask
    code ^= code >> 16
    return code - 2**32 if code >= 2**31 else code


def test_columns_are_cast_to_the_types() -> None:
    rows = encode_columns([pl.Series([1, 2]), pl.Series(["a", "b"])], [IntType(), parse_atomic("CHAR(1)")])
    assert rows.row(1).hex() == "000000000000000002000000000000006200000000000081"


def test_columns_that_do_not_fit() -> None:
    with pytest.raises(InvalidArgument, match="does not fit INT"):
        hash_rows([pl.Series([2**40])], [IntType()])
    with pytest.raises(InvalidArgument, match=r"different lengths \[1, 2\]"):
        encode_columns([pl.Series([1]), pl.Series([1, 2])], [IntType(), IntType()])
    with pytest.raises(InvalidArgument, match="does not fit INT"):
        encode_row(["seven"], [IntType()])
