"""Rows as CSV and JSON can be read back, and no value is rounded or mistaken for null."""

from __future__ import annotations

import datetime as dt
import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from morrow.cli.arguments import Format
from morrow.cli.output import write_rows
from morrow.engine.errors import InvalidArgument
from morrow.writers.ingest.text_files import CsvOptions, infer_csv_schema, infer_json_schema, read_csv, read_json

AT = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)
UTC = AT.replace(tzinfo=dt.UTC)
DEEP = pa.struct(
    [
        ("q'u~/", pa.map_(pa.int32(), pa.list_(pa.binary()))),
        ("t", pa.timestamp("us", "UTC")),
        ("c", pa.decimal128(38, 2)),
        ("m", pa.time32("ms")),
        ("f", pa.float64()),
    ]
)
SCHEMA = pa.schema(
    [
        *(
            ("id", pa.int64()),
            ("bo", pa.bool_()),
            ("i8", pa.int8()),
            ("f", pa.float32()),
            ("dec", pa.decimal128(38, 5)),
        ),
        *(("day", pa.date32()), ("time", pa.time32("ms")), ("ts", pa.timestamp("ns")), ("s", pa.string())),
        *(("b", pa.binary()), ("B", pa.binary()), ("l", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int8()))),
        *(("tz", pa.timestamp("us", "UTC")), ('de"e/p', pa.list_(DEEP))),
    ]
)
LARGE = Decimal("123456789012345678901234567890123.67890")
INNER = {"q'u~/": [(1, [b"\x01", None])], "t": UTC, "c": Decimal("1.20"), "m": dt.time(3, 4), "f": float("inf")}
ROWS = pa.Table.from_pylist(
    [
        {"id": 2**63 - 1, "bo": True, "i8": -128, "f": float("-inf"), "dec": LARGE, "day": dt.date(1, 1, 1)}
        | {"time": dt.time(1, 2, 3, 4000), "ts": AT, "tz": UTC, "s": 'a"b\n,c\r\\', "b": b"\x00\xff", "l": [1, None]}
        | {"m": [("k", 1), ("z", None)], 'de"e/p': [INNER, None], "B": b"b"},
        {"id": 2, "s": "", "b": b"", "l": [], "m": [], 'de"e/p': []},
        {"id": 3},
        *({"id": 4, "s": text} for text in ("null", "NA", "NaN", " ", "N/A")),
    ],
    SCHEMA,
)


def test_round_trips(tmp_path: Path) -> None:
    text, lines = tmp_path / "t.csv", tmp_path / "a*[1]?.json"
    write_rows(SCHEMA, ROWS.to_batches(), Format.CSV, text)
    write_rows(SCHEMA, ROWS.to_batches(), Format.JSON, lines)

    assert pa.concat_tables(read_csv(text, SCHEMA)).equals(ROWS)
    assert pa.concat_tables(read_json(lines, SCHEMA)).equals(ROWS)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"i8": 1.5}', "'1.5'"),
        ('{"i8": 128}', "128"),
        ('{"dec": 1234567890123456789.123}', "write it as text"),
        ('{"de\\"e/p": [{"f": 1, "g": 2}]}', "there is no member g"),
        ('{"m": [["k"]]}', "no pair of key and value"),
        ('{"s": {"a": 1}}', "a single value is wanted"),
        ('{"b": "zz"}', "hex"),
        ('{"id": 1}\n3', "no object: 3"),
        ('{"id": 1, "id": 2}', "a member is named twice"),
        ('{"id": 1', "Malformed JSON"),
        ('[{"id": 1}]', "one JSON array"),
    ],
)
def test_what_is_no_value_of_its_column(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "t.json").write_text(line)
    with pytest.raises(InvalidArgument, match=problem):
        list(read_json(tmp_path / "t.json", SCHEMA))


def test_cells_that_are_no_values(tmp_path: Path) -> None:
    for cell in ("zz", '"[1.5]"', '"{""a"":1}"'):
        (tmp_path / "t.csv").write_text(f"id,l\n1,{cell}\n")
        with pytest.raises(InvalidArgument, match=r"t\.csv: "):
            list(read_csv(tmp_path / "t.csv", SCHEMA))


def test_what_the_table_lacks_is_read_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"id": 1, "more": "x"}\n{"id": 2}\n')
    (tmp_path / "t.csv").write_text("id,more\n")
    assert pa.concat_tables(read_json(tmp_path / "t.json", SCHEMA)).to_pylist() == [
        {"id": 1, "more": "x"},
        {"id": 2, "more": None},
    ]
    assert pa.concat_tables(read_csv(tmp_path / "t.csv", SCHEMA)).column_names == ["id", "more"]


# `morrow import` into a new table: columns of CSV and JSON files lose none of their values.

MICROS, DECIMAL = pa.timestamp("us"), pa.decimal128


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ("1 -5 9223372036854775807", pa.int64()),
        ("01730 00501", pa.string()),
        ("+4989123 1", pa.string()),
        ("9223372036854775808 1", DECIMAL(38, 0)),
        ("12345678901234567891 1", DECIMAL(38, 0)),
        ("9" * 39, pa.string()),
        ("1.5 2 0.1 3.0", pa.float64()),
        ("0.30000000000000004 1e-07 NaN -inf", pa.float64()),
        ("NaN", pa.float64()),
        ("1.10 2.00", DECIMAL(38, 2)),
        ("12345678901234567.89 1.00", DECIMAL(38, 2)),
        ("1.10 1.1", pa.string()),
        ("1e5 2e5", pa.string()),
        (".5 1", pa.string()),
        ("1,5 2", pa.string()),
        ("true false", pa.bool_()),
        ("True False", pa.bool_()),
        ("true TRUE", pa.string()),
        ("true 1", pa.string()),
        ("1 2 x", pa.string()),
        ("2024-02-29 0001-01-01", pa.date32()),
        ("2023-02-29", pa.string()),
        ("2024-02-29 2024-02-29T10:00:00", pa.string()),
        ("23:59:59 00:00:00", pa.time32("ms")),
        ("24:00:00", pa.string()),
        ("2024-02-29T10:00:00 9999-12-31T00:00:00", MICROS),
        ("2024-02-29T10:00:00.123456789", pa.timestamp("ns")),
        ("9999-12-31T00:00:00.123456789", pa.string()),
        ("2024-02-29T10:00:00.5 2024-02-29T10:00:00", pa.string()),
        ("2024-02-29T10:00:00Z", pa.timestamp("us", "UTC")),
        ("2024-02-29T10:00:00+02:00", pa.string()),
        ('"" 1', pa.string()),
    ],
)
def test_a_type_gives_back_each_text(tmp_path: Path, cells: str, expected: pa.DataType) -> None:
    file = tmp_path / "a.csv"
    lines = [f'"{cell}"' if "," in cell else cell for cell in cells.split()]
    file.write_text("\n".join(["id,v", *(f"x,{line}" for line in lines), "x,"]) + "\n")  # the last cell is null
    assert infer_csv_schema([file]) == pa.schema([("id", pa.string()), ("v", expected)])


def test_all_rows_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("morrow.writers.ingest.text_files.BLOCK_BYTES", 1 << 10)
    file = tmp_path / "a.csv"
    file.write_text("n,d,e\n" + "1,1.5,\n" * 1000 + "01,1.50,\n")
    assert infer_csv_schema([file]).types == [pa.string(), pa.string(), pa.null()]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('{"v": 12345678901234567891}\n{"v": 1}', DECIMAL(38, 0)),
        ('{"v": 123456789012345678901234567890}', DECIMAL(38, 0)),
        ('{"v": 0.30000000000000004}\n{"v": 1e5}', pa.float64()),
        ('{"v": "01730"}', pa.string()),
        ('{"v": "2024-01-01 00:00:00"}', MICROS),
        ('{"v": "2024-01-01"}', pa.date32()),
        ('{"v": "2024-01-01T00:00:00Z"}', pa.timestamp("us", "UTC")),
        ('{"v": ["2024-01-01 00:00:00"]}', pa.list_(pa.string())),
        ('{"v": {"t": "2024-01-01 00:00:00", "n": 1}}', pa.struct([("t", pa.string()), ("n", pa.int64())])),
    ],
)
def test_types_of_json(tmp_path: Path, lines: str, expected: pa.DataType) -> None:
    file = tmp_path / "a.json"
    file.write_text(lines + "\n")
    assert infer_json_schema([file]).field("v").type == expected


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ('{"v": 12345678901234567.89}', "12345678901234567.89"),
        ('{"v": 1.5}\n{"v": 12345678901234567}', "12345678901234567"),
        ('{"v": [0.5, 12345678901234567]}', "12345678901234567"),
        ('{"v": 1.5}\n{"v": -1e999}', "-1e999"),
        ('{"w": "12345678901234567.89", "v": {"a": 0.12345678901234567890}}', "0.12345678901234567890"),
    ],
)
def test_numbers_that_no_double_holds_are_refused(tmp_path: Path, line: str, number: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(line + "\n")
    with pytest.raises(InvalidArgument, match=f"a DOUBLE would lose digits of the number {number}; write it as text"):
        infer_json_schema([file])


def test_the_last_rows_of_json_count(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"n": 1, "o": {"a": 1}}\n' * 30_000 + '{"n": 1.5, "o": {"b": "007"}, "late": "01"}\n')
    o = pa.struct([("a", pa.int64()), ("b", pa.string())])
    found = infer_json_schema([file])
    assert found == pa.schema([("n", pa.float64()), ("o", o), ("late", pa.string())])
    assert pa.concat_tables(read_json(file, found))["late"].to_pylist()[-2:] == [None, "01"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"v": 1}\n{"v": "01"}', "'v' has values of several types; make the table first"),
        ('{"v": [[1, "a"]]}', r"'v\[\]\[\]' has values of several types"),
        ("3", "not JSON objects"),
    ],
)
def test_json_without_a_type(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "a.json").write_text(f"{line}\n")
    with pytest.raises(InvalidArgument, match=problem):
        infer_json_schema([tmp_path / "a.json"])


# The form of CSV files.


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("a;b\n1;2,5\n", {"delimiter": ";"}, {"a": [1], "b": ["2,5"]}),
        ("a\tb\n01\t\n", {"delimiter": "\t"}, {"a": ["01"], "b": [None]}),
        ("1,x\n2,y\n", {"header": False}, {"column_1": [1, 2], "column_2": ["x", "y"]}),
        ("1,2024\n3,4\n", {"header": True}, {"1": [3], "2024": [4]}),
        ("a,b\nNA,\n1,x\n", {"null_values": ["NA"]}, {"a": [None, 1], "b": ["", "x"]}),
        ("a,b\n'1,2','NA'\n", {"quote": "'", "null_values": ["NA"]}, {"a": ["1,2"], "b": ["NA"]}),
        ('a,b\n"x,2\n', {"quote": ""}, {"a": ['"x'], "b": [2]}),
        ("a\nM\u00fcller\n", {"encoding": "latin-1"}, {"a": ["Müller"]}),
        ("a,b\n1,ä\n", {"encoding": "utf-16"}, {"a": [1], "b": ["ä"]}),
        ('a,b\n"x\ny",1\n', {}, {"a": ["x\ny"], "b": [1]}),
        ("a\n1\n\n2\n", {}, {"a": [1, None, 2]}),
        ("\ufeffa,b\n1,2\n", {}, {"a": [1], "b": [2]}),
    ],
)
def test_forms_of_csv(tmp_path: Path, text: str, options: dict[str, Any], expected: dict[str, Any]) -> None:
    file, form = tmp_path / "a.csv", CsvOptions.of(options)
    file.write_bytes(text.encode(form.encoding))
    schema = infer_csv_schema([file], form)
    assert pa.concat_tables(read_csv(file, schema, form)).to_pydict() == expected


@pytest.mark.parametrize(
    ("data", "options", "problem"),
    [
        (b"1,x\n2,y\n", {}, "the cell '1', which is not the name of a column; give header=False"),
        (b"a,2024-01-01\n", {}, "the cell '2024-01-01'"),
        (b"a,,b\n", {}, "the cell ''"),
        (b"a;b\n1;2\n", {}, "the one column 'a;b'; give the delimiter, such as ';'"),
        (b"a,a\n1,2\n", {}, "two columns 'a'"),
        (b"a\nM\xfcller\n", {}, "invalid UTF8 data; give its encoding"),
        ("a,b\n".encode("utf-16"), {}, "the file is UTF-16; give the encoding utf-16"),
        (b"a,b\n1\n", {}, "Expected 2 columns, got 1"),
        (b"", {}, "Empty CSV file"),
        (b"a\n", {"encoding": "klingon"}, "unknown encoding: klingon; the options are delimiter, header"),
        (b"a\n", {"delimiter": ";;"}, "delimiter=';;': give one ASCII character"),
        (b"a\n", {"seperator": ";"}, "unknown field `seperator`"),
        (b"a\n", {"header": "no"}, "Expected `bool | null`, got `str`"),
    ],
)
def test_csv_that_is_refused(tmp_path: Path, data: bytes, options: dict[str, Any], problem: str) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(InvalidArgument, match=problem):
        infer_csv_schema([tmp_path / "a.csv"], CsvOptions.of(options))


@pytest.mark.parametrize(
    "data", [b'n,t\n1,"one\n2,two\n', b't\n"one\n', gzip.compress(b'n,t\n1,"one\n2,two\n', mtime=0)]
)
def test_a_quote_without_end_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / ("a.csv.gz" if data.startswith(b"\x1f") else "a.csv")
    file.write_bytes(data)
    with pytest.raises(InvalidArgument, match='the cell that begins with "one has no second quote; add it'):
        list(read_csv(file, infer_csv_schema([file])))


def test_cells_of_many_lines_at_the_end_of_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("morrow.writers.ingest.text_files.BLOCK_BYTES", 1 << 10)
    file = tmp_path / "a.csv"
    file.write_text("n,t\n" + '1,"one\ntwo, three"\n' * 500)
    assert sum(block.num_rows for block in read_csv(file, infer_csv_schema([file]))) == 500
