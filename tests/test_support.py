"""Test helpers: canonical values, BinaryRows, deletion vectors, and unpacking of the golden tables."""

from __future__ import annotations

import datetime as dt
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from morrow.engine.format import types as t
from morrow.engine.format.types import parse_atomic
from tests.support import golden
from tests.support.binary_row import binary_rows
from tests.support.canonical import assert_same_rows, normal_rows, values_of
from tests.support.deletion_vectors import index_file, vector
from tests.support.profile import choose_cases
from tests.support.variant import variant_json

TEXT_MAP = t.MapType(key=t.VarCharType(nullable=False), value=t.IntType())


@pytest.mark.parametrize(
    ("kind", "value", "canonical"),
    [
        (parse_atomic("FLOAT"), float("nan"), "NaN"),
        (parse_atomic("DOUBLE"), float("-inf"), "-Infinity"),
        (parse_atomic("DECIMAL(10, 2)"), Decimal("-1.50"), "-1.50"),
        (parse_atomic("BYTES"), b"\x00\xff", "00ff"),
        (parse_atomic("DATE"), dt.date(1969, 12, 31), "1969-12-31"),
        (parse_atomic("TIME(3)"), dt.time(23, 0, 1, 2000), "23:00:01.002"),
        (parse_atomic("TIMESTAMP(0)"), dt.datetime(1969, 12, 31, 23, 59, 59), "1969-12-31T23:59:59.000000"),
        (parse_atomic("TIMESTAMP(9)"), dt.datetime(2024, 1, 2, 3, 4, 5, 6), "2024-01-02T03:04:05.000006000"),
        (
            parse_atomic("TIMESTAMP_LTZ(3)"),
            dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
            "2024-01-02T00:00:00.000000Z",
        ),
        (t.ArrayType(element=t.IntType()), [1, None], [1, None]),
        (TEXT_MAP, [("b", 1), ("a", None)], [["a", None], ["b", 1]]),
        (t.RowType(fields=(t.DataField(0, "x", t.DateType()),)), {"x": dt.date(2024, 1, 2)}, ["2024-01-02"]),
    ],
    ids=str,
)
def test_canonical_values(kind: t.DataType, value: Any, canonical: Any) -> None:
    array = pa.array([None, value, None], kind.arrow())
    assert values_of(array, kind) == [None, canonical, None]
    assert values_of(array.slice(1), kind) == [canonical, None]


def test_a_map_without_a_map_type() -> None:
    pairs = pa.array([[{"key": "k", "value": 1}], None])
    assert values_of(pairs, TEXT_MAP) == [[["k", 1]], None]


def test_a_difference_shows_what_is_missing_and_what_is_extra() -> None:
    fields = [t.DataField(0, "id", t.IntType())]
    with pytest.raises(AssertionError, match=r"2 rows for 2: 1 missing, 1 extra\n.*\nmissing: \[2\]\nextra: \[3\]"):
        assert_same_rows([[1], [3]], [[1], [2]], fields)


def test_multisets_count() -> None:
    with pytest.raises(AssertionError, match="1 missing, 0 extra"):
        assert_same_rows([[1]], [[1], [1]], [t.DataField(0, "id", t.IntType())])


def test_floats_of_golden_files_have_32_bits() -> None:
    assert normal_rows([[0.1]], [t.DataField(0, "f", t.FloatType())]) == [[0.10000000149011612]]


@pytest.mark.parametrize(
    ("kind", "value", "row"),
    [
        # Copied from Java's manifests: arity, header and null bits, the field's 8 bytes, the variable part.
        ("DATE", dt.date(2024, 1, 1), "00000001 0000000000000000 0b4d000000000000"),
        ("STRING", "x=1", "00000001 0000000000000000 783d310000000083"),
        ("STRING", "2024-01-01", "00000001 0000000000000000 0a00000010000000 323032342d30312d3031000000000000"),
        ("DECIMAL(15, 2)", Decimal("-9999999999999.99"), "00000001 0000000000000000 0180395b8172fcff"),
        ("TIMESTAMP(3)", dt.datetime(1970, 1, 1, 0, 0, 1), "00000001 0000000000000000 e803000000000000"),
        ("INT", None, "00000001 0001000000000000 0000000000000000"),
    ],
)
def test_binary_rows(kind: str, value: Any, row: str) -> None:
    parsed = parse_atomic(kind)
    assert binary_rows([pa.array([value], parsed.arrow())], [parsed], 1) == [bytes.fromhex(row)]


def test_deletion_vectors_are_framed_as_java_frames_them() -> None:
    content, ranges = index_file({"a": vector([3], wide=False), "b": vector([3], wide=True)})
    narrow = "00000016 5e43f2d0 3a300000 01000000 0000 0000 10000000 0300"
    wide = "00000022 d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0000 10000000 0300"
    assert content[:27] == bytes.fromhex("01" + narrow)
    assert content[31:69] == bytes.fromhex(wide)
    assert ranges == [
        {"f0": "a", "f1": 1, "f2": 22, "_CARDINALITY": 1},
        {"f0": "b", "f1": 31, "f2": 42, "_CARDINALITY": 1},
    ]


def test_variants_become_json() -> None:
    metadata = bytes.fromhex("01 02 00 01 02 61 62")  # the names a and b
    value = bytes.fromhex("02 02 00 01 00 02 04 0c01 0578")  # an object with an int8 1 in a and a short string x in b
    assert variant_json(value, metadata) == '{"a":1,"b":"x"}'


def test_golden_tables_are_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "case.json").write_text("{}")
    with tarfile.open(tmp_path / "tables.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "case.json", "public/x/case.json")
    monkeypatch.setattr(golden, "ARCHIVE", tmp_path / "tables.tar.xz")
    root = golden.unpack(tmp_path / "cache")
    (root / "mark").touch()
    assert (root / "public" / "x" / "case.json").read_text() == "{}"
    assert golden.unpack(tmp_path / "cache") == root
    assert (root / "mark").exists()
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [root.name]


def test_every_nth_case_and_each_value_that_cases_share() -> None:
    assert choose_cases(3, [{"row": row} for row in range(7)]) == {0, 3, 6}
    crossed = [{"row": row, "mode": mode} for row in range(2) for mode in range(3)]
    assert choose_cases(6, crossed) == {0, 1, 2, 3}
    assert choose_cases(1, crossed) == set(range(6))
