"""Rows as CSV and JSON can be read back, and no value is rounded or mistaken for null."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.cli.arguments import Format
from morrow.cli.output import write_rows
from morrow.engine.errors import InvalidArgument
from morrow.writers.ingest.text_files import infer_csv_schema, infer_json_schema, read_csv, read_json
from tests.cli.conftest import Run

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
        ('{"w": "12345678901234567.89", "v": {"a": 0.12345678901234567890}}', "0.12345678901234567890"),
    ],
)
def test_numbers_that_no_double_holds_are_refused(tmp_path: Path, line: str, number: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(line + "\n")
    with pytest.raises(InvalidArgument, match=f"a DOUBLE would lose digits of the number {number}; write it as text"):
        infer_json_schema([file])


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.csv",
            "zip,id,price,day,at,ok\n01730,12345678901234567891,1.10,2024-01-01,2024-01-01 10:00:00Z,True\n",
            {"zip": "01730", "id": Decimal("12345678901234567891"), "price": Decimal("1.10"), "ok": True}
            | {"day": dt.date(2024, 1, 1), "at": dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC)},
        ),
        (
            "a.json",
            '{"id": 123456789012345678901234567890, "zip": "01730", "day": "2024-01-01"}\n',
            {"id": Decimal("123456789012345678901234567890"), "zip": "01730", "day": dt.date(2024, 1, 1)},
        ),
    ],
)
def test_rows_are_those_of_the_file(run: Run, tmp_path: Path, name: str, text: str, expected: dict[str, Any]) -> None:
    (tmp_path / name).write_text(text)
    assert run("import", tmp_path / "warehouse/db.db/t", tmp_path / name).code == 0
    assert morrow.open(tmp_path / "warehouse/db.db/t").to_arrow().to_pylist() == [expected]


def test_a_file_that_cannot_be_read_leaves_no_table(run: Run, tmp_path: Path) -> None:
    from pyarrow import orc

    orc.write_table(pa.table({"at": pa.array([dt.datetime(9999, 12, 31)], MICROS)}), tmp_path / "a.orc")
    done = run("import", tmp_path / "warehouse/db.db/t", tmp_path / "a.orc")
    assert done.code == 1
    assert "the dataset cannot be read: ORC timestamp" in done.err
    assert not (tmp_path / "warehouse/db.db/t").exists()


def test_parquet_is_imported_with_its_timestamps(run: Run, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    end = dt.datetime(9999, 12, 31)
    pq.write_table(
        pa.table({"at": pa.array([end], MICROS)}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True
    )
    for _ in range(2):
        assert run("import", tmp_path / "warehouse/db.db/t", tmp_path / "a.parquet").code == 0
    assert morrow.open(tmp_path / "warehouse/db.db/t").to_arrow()["at"].to_pylist() == [end] * 2
