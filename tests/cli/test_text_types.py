"""`morrow import` into a table that does not exist: columns of CSV and JSON files lose nothing of their values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.cli.text_types import csv_schema, json_schema
from morrow.engine.errors import InvalidArgument
from tests.cli.conftest import Run

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
    assert csv_schema(file) == pa.schema([("id", pa.string()), ("v", expected)])


def test_all_rows_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("morrow.cli.text_types.BLOCK_BYTES", 1 << 10)
    file = tmp_path / "a.csv"
    file.write_text("n,d,e\n" + "1,1.5,\n" * 1000 + "01,1.50,\n")
    assert csv_schema(file).types == [pa.string(), pa.string(), pa.null()]


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
    assert json_schema(file).field("v").type == expected


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
        json_schema(file)


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
