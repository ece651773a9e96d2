"""Values that violate their Arrow type or fit no Paimon type: the error names column, member, row and value."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from tests.support.written import new_table

LATIN = pa.Array.from_buffers(pa.string(), 3, pa.array([b"Riga", b"M\xf6lln", b"Oslo"]).buffers())
WIDE = pa.array([Decimal("1.25"), Decimal("12345678.90")]).cast(pa.decimal128(5, 2), safe=False)
FAR = pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32())
CLOCK = pa.Array.from_buffers(pa.time64("us"), 2, [None, pa.py_buffer(np.array([0, -1], np.int64))])
NAIVE = dt.datetime(2024, 5, 1, 12)
AWARE = NAIVE.replace(tzinfo=dt.timezone(dt.timedelta(hours=8)))
MAP = pa.map_(pa.string(), pa.int32())
LONGER = r"it has more digits than its type"


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("STRING", LATIN, r"column 'v', row 1: b'M\\xf6lln' is not a valid string: it is not in UTF-8"),
        ("STRING", LATIN.cast(pa.large_string()), r"'v', row 1: b'M\\xf6lln'"),
        ("STRING", pa.DictionaryArray.from_arrays([0, 1], LATIN), r"'v', row 1: b'M\\xf6lln'"),
        ("STRING", pa.DictionaryArray.from_arrays([0, 7], ["a"], safe=False), r"'v', row 1: the Arrow array is not"),
        ("ARRAY<STRING>", pa.ListArray.from_arrays([0, 1, 3], LATIN), r"'v.element', row 1: b'M\\xf6lln'"),
        ("ROW<a STRING>", pa.StructArray.from_arrays([LATIN], ["a"]), r"'v.a', row 1: b'M\\xf6lln'"),
        ("DECIMAL(5, 2)", WIDE, rf"'v', row 1: Decimal\('12345678.90'\) is not a valid .*{LONGER}"),
        ("DECIMAL(5, 2)", pl.Series(WIDE), rf"'v', row 1: .*{LONGER}"),
        ("ARRAY<DECIMAL(5, 2)>", pa.ListArray.from_arrays([0, 2], WIDE), rf"'v.element', row 0: .*{LONGER}"),
        ("DATE", FAR, r"'v', row 1: .* is outside of the years 1 to 9999"),
        ("DATE", pl.Series(FAR), r"'v', row 1: .* is outside of the years 1 to 9999"),
        ("ROW<a DATE>", pa.StructArray.from_arrays([FAR], ["a"]), r"'v.a', row 1: .* the years 1 to 9999"),
        ("ARRAY<DATE>", pa.ListArray.from_arrays([0, 0, 2], FAR), r"'v.element', row 1: .* the years 1 to 9999"),
        ("TIMESTAMP(3)", pa.array([2**62], pa.int64()).cast(pa.timestamp("ms")), r"'v', row 0: .* the years 1 to"),
        ("TIME(3)", CLOCK, r"'v', row 1: -1 time64\[us\] .* is not a time of day"),
        ("MAP<STRING, INT>", pa.array([[], [("a", 1), ("b", 5), ("a", 2)]], MAP), r"'v', row 1: .*twice"),
        (
            "ARRAY<MAP<STRING, INT>>",
            pa.array([[], [[("a", 1)], [("a", 1), ("a", 2)]]], pa.list_(MAP)),
            r"'v.element', row 1: .*twice",
        ),
        ("TIMESTAMP(6)", [NAIVE, AWARE], r"column 'v' .* has a zone, which would be dropped"),
        ("TIMESTAMP_LTZ(6)", [AWARE, NAIVE], r"column 'v' .* has no zone, unlike others"),
        ("ARRAY<TIMESTAMP(6)>", [[NAIVE], [NAIVE, AWARE]], r"column 'v' .* has a zone, which would be dropped"),
        ("TIME(3)", [AWARE.timetz()], r"column 'v' .* has a zone, which would be dropped"),
        ("DATE", [NAIVE.date(), NAIVE], r"column 'v' .* is a datetime among values of date32"),
        ("DATE", [NAIVE.date(), 3], r"column 'v' .* is a int among values of date32"),
        ("TIME(3)", [NAIVE.time(), 3], r"column 'v' .* is a int among values of time64"),
        ("DOUBLE", [0.5, True], r"column 'v' .* is a bool among values of double"),
        ("BYTES", [b"a", "a"], r"column 'v' .* is a str among values of binary"),
        ("TIMESTAMP(6)", pd.Series([NAIVE, AWARE], dtype=object), r"column 'v'.* has a zone, which would be dropped"),
    ],
)  # fmt: skip
def test_values_of_no_type_are_refused(tmp_path: Path, kind: str, values: object, message: str) -> None:
    table = new_table(tmp_path, f"v {kind}")
    data = pd.DataFrame({"v": values}) if isinstance(values, pd.Series) else {"v": values}
    with pytest.raises(InvalidArgument, match=message):
        table.append(pl.DataFrame(data) if isinstance(values, pl.Series) else data)
    assert table.scan().count() == 0


def test_rows_are_counted_across_chunks_batches_and_tables(tmp_path: Path) -> None:
    table = new_table(tmp_path, "v STRING")
    good = pa.table({"v": ["a", "b"]})
    bad = pa.table({"v": LATIN})
    for data in (pa.concat_tables([good, bad]), iter([good, bad]), pa.concat_tables([good, bad]).to_reader(1)):
        with pytest.raises(InvalidArgument, match="row 3: b'M"):
            table.append(data)


@pytest.mark.parametrize("literal", ["TIME '24:00:00'", "'infinity'::DATE", "'-infinity'::TIMESTAMP"])
def test_values_of_sql_that_no_type_has_are_refused(tmp_path: Path, literal: str) -> None:
    kind = "TIME(3)" if "TIME " in literal else "DATE" if "DATE" in literal else "TIMESTAMP(6)"
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table("db.t", f"id INT, v {kind}")
    table.append([{"id": 1}])
    for write in (
        lambda: table.append(duckdb.sql(f"SELECT 2::INT AS id, {literal} AS v")),
        lambda: catalog.sql(f"INSERT INTO db.t VALUES (2, {literal})").fetchall(),
        lambda: table.update({"v": literal}),
    ):
        with pytest.raises(InvalidArgument, match="column 'v', row 0"):
            write()
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "v": None}]


def test_a_null_count_that_lies_is_refused(tmp_path: Path) -> None:
    sound = pa.array([1, None, 3], pa.int32())
    lying = pa.Array.from_buffers(pa.int32(), 3, sound.buffers(), null_count=2)
    with pytest.raises(InvalidArgument, match="column 'v': the Arrow array is not valid"):
        new_table(tmp_path, "v INT").append(pa.table({"v": lying}))
