"""Rows as CSV and JSON: what is written is read back, and nothing is rounded or taken for null."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from morrow.cli.arguments import Format
from morrow.cli.output import write_rows
from morrow.cli.text_rows import read_csv, read_json
from morrow.engine.errors import InvalidArgument

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
    assert read_json(lines, SCHEMA).equals(ROWS)


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
        read_json(tmp_path / "t.json", SCHEMA)


def test_cells_that_are_no_values(tmp_path: Path) -> None:
    for cell in ("zz", '"[1.5]"', '"{""a"":1}"'):
        (tmp_path / "t.csv").write_text(f"id,l\n1,{cell}\n")
        with pytest.raises(InvalidArgument, match=r"t\.csv: "):
            list(read_csv(tmp_path / "t.csv", SCHEMA))


def test_what_the_table_lacks_is_read_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"id": 1, "more": "x"}\n{"id": 2}\n')
    (tmp_path / "t.csv").write_text("id,more\n")
    assert read_json(tmp_path / "t.json", SCHEMA).to_pylist() == [{"id": 1, "more": "x"}, {"id": 2, "more": None}]
    assert pa.concat_tables(read_csv(tmp_path / "t.csv", SCHEMA)).column_names == ["id", "more"]
