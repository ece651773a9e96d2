"""Partition values that are hard to name: Java and Morrow choose the same names and read each other's partitions."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import morrow
from morrow.engine.format import types as t
from tests.interop.jvm import JavaPaimon
from tests.support.canonical import normal_rows, rows_of

TEXTS = (
    *("/", "=", "%", ":", " ", "a b", "+", "'", '"', "\\", "a/b=c%d:e f+\"'\\", "#?*[]{}^", "~`!@$&()|<>,;", "%2F"),
    *("ü", "漢字", "😀", "e\u0301", "\u00a0", "\u0085", "\u200b", "\ufeff", "\x7f", "\x00", "x\ny", "", "   ", "\t"),
    *("..", ".", "__DEFAULT_PARTITION__", "null", "_x", ".hidden", "a  ", "  a", "x" * 80, None),
)
VALUES: dict[str, tuple[Any, ...]] = {
    "STRING": TEXTS,
    "CHAR(5)": ("abc", "ab   ", "     ", "a/b", None),
    "BOOLEAN": (True, False, None),
    "TINYINT": (-128, 127, None),
    "BIGINT": (-(2**63), 2**63 - 1, 0, None),
    "FLOAT": ("NaN", "Infinity", "-Infinity", -0.0, 0.0, 1.5, 3.4e38, 1.4e-45, 1e7, 9.999e-4, 2.0**25 - 2, None),
    "DOUBLE": ("NaN", "-Infinity", -0.0, 0.0, 1.7976931348623157e308, 5e-324, 1e23, 2e23, 2.0**62 + 2**13, 0.1, None),
    "DECIMAL(10, 3)": ("0.000", "-0.001", "1234567.890", "1.100", None),
    "DECIMAL(38, 18)": ("0.000000000000000000", "-0.000000000000000001", "12345678901234567890.123456789012345678"),
    "DATE": ("1970-01-01", "1969-12-31", "0001-01-01", "9999-12-31", "1582-10-04", "1582-10-15", None),
    "TIME(3)": ("00:00:00.001", "23:59:59.999", "00:00:00.000", None),
    "TIMESTAMP(0)": ("1969-12-31T23:59:59.000000", "0001-01-01T00:00:00.000000", "9999-12-31T23:59:59.000000"),
    "TIMESTAMP(3)": ("1969-12-31T23:59:59.999000", "2024-01-31T07:00:01.000000", "1899-12-31T00:00:00.001000", None),
    "TIMESTAMP(6)": ("1969-12-31T23:59:59.999999", "1700-01-01T00:00:00.000001", "2024-01-31T07:00:00.100000", None),
    "TIMESTAMP(9)": ("1969-12-31T23:59:59.999999999", "1970-01-01T00:00:00.000000001", None),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": ("1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000000Z", None),
    "BYTES": ("616263", "2f3d", "", "20", None),
}
NAMES = {
    "legacy": {},
    "sql": {"partition.legacy-name": "false"},
    "odd default": {"partition.default-name": "a/b=%", "partition.legacy-name": "false"},
}
CASES = [
    (type_, naming, keyed)
    for type_ in VALUES
    for naming in NAMES
    for keyed in (False, True)
    if (naming != "odd default" or type_ == "STRING") and (naming != "legacy" or type_ != "BYTES")
    if not keyed or type_ in ("STRING", "DOUBLE", "DATE", "BYTES")
]


@pytest.mark.parametrize(("type_", "naming", "keyed"), CASES)
def test_both_name_and_read_them_alike(type_: str, naming: str, keyed: bool, java: JavaPaimon, tmp_path: Path) -> None:
    columns = [["id", "INT NOT NULL"], ["p", type_ + " NOT NULL" * keyed]]
    keys = ["p", "id"] if keyed else []
    options = {"bucket": "1" if keyed else "-1", **NAMES[naming]}
    values = [value for value in VALUES[type_] if not keyed or value is not None]
    rows = [[number, value] for number, value in enumerate(values)]

    java.ask(
        "create",
        warehouse=tmp_path / "java",
        table="db.t",
        columns=columns,
        primary_keys=keys,
        partition_keys=["p"],
        options=options,
    )
    java.write(tmp_path / "java/db.db/t", [["+I", *row] for row in rows])
    ours = morrow.Catalog(tmp_path / "morrow").create_table(
        "db.t", schema=dict(columns), primary_keys=keys, partition_keys=["p"], options=options
    )
    fields = tuple(ours.schemas()[-1].fields)
    ours.append(arrow(rows, fields))

    theirs = morrow.Catalog(tmp_path / "java").table("db.t")
    assert folders(ours) == folders(theirs)
    read = java.read(Path(theirs.path))
    assert sorted(read, key=json.dumps) == sorted(java.read(Path(ours.path)), key=json.dumps)
    expected = sorted(normal_rows(read, fields), key=json.dumps)
    assert len(expected) == len(rows)
    for table in (theirs, ours):
        assert sorted(rows_of(table.scan().to_arrow(), fields), key=json.dumps) == expected


def arrow(rows: list[list[Any]], fields: tuple[t.DataField, ...]) -> pa.Table:
    """Convert canonical values to Arrow."""
    arrays = []
    for number, field in enumerate(fields):
        kind, convert = field.type.arrow(), FROM_TEXT.get(type(field.type), str)
        values = [convert(row[number]) if isinstance(row[number], str) else row[number] for row in rows]
        if isinstance(field.type, (t.TimestampType, t.LocalZonedTimestampType)):
            values = [None if each is None else int(each.astype(f"M8[{kind.unit}]").astype(int)) for each in values]
        arrays.append(pa.array(values, kind))
    return pa.table(arrays, schema=t.to_arrow_schema(fields))


FROM_TEXT: dict[type[t.DataType], Any] = {
    t.FloatType: float,
    t.DoubleType: float,
    t.DecimalType: Decimal,
    t.DateType: dt.date.fromisoformat,
    t.TimeType: dt.time.fromisoformat,
    t.TimestampType: np.datetime64,
    t.LocalZonedTimestampType: lambda text: np.datetime64(text.removesuffix("Z")),
    t.VarBinaryType: bytes.fromhex,
}


def folders(table: morrow.Table) -> list[str]:
    return sorted(path.name for path in Path(table.path).iterdir() if "=" in path.name)
