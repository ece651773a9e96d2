"""Data files of Lance, Vortex and Mosaic, by the libraries of these formats.

Each case needs its library: ``pip install 'morrow[lance,mosaic,vortex]'``.
"""

from __future__ import annotations

import datetime as dt
import importlib
from decimal import Decimal
from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import CorruptFile

MODULES = {"lance": "lance.file", "vortex": "vortex", "mosaic": "mosaic"}
COLUMNS = (
    "id INT NOT NULL, b BOOLEAN, t TINYINT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(10, 2), s STRING, x BYTES, "
    "day DATE, ts TIMESTAMP(0), us TIMESTAMP(6), z TIMESTAMP_LTZ(3), a ARRAY<INT>, p MAP<STRING, INT>"
)
NESTED = ", r ROW<i INT NOT NULL, s STRING>, v VECTOR<FLOAT NOT NULL, 2>, j VARIANT"
ROW = {
    "id": 1,
    "b": True,
    "t": 1,
    "l": 2**40,
    "f": 1.5,
    "d": 0.1,
    "m": Decimal("1.25"),
    "s": "é",
    "x": b"\0",
    "day": dt.date(2020, 1, 1),
    "ts": dt.datetime(2020, 1, 1),
    "us": dt.datetime(2020, 1, 1, 0, 0, 0, 1),
    "z": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    "a": [1, None],
    "p": [("k", 1)],
}
MORE = {"r": {"i": 1, "s": "x"}, "v": [1.0, 2.0], "j": {"a": 1}}


@pytest.fixture(params=MODULES)
def form(request: pytest.FixtureRequest) -> str:
    """Return a format whose library is installed."""
    try:
        importlib.import_module(MODULES[request.param])
    except ModuleNotFoundError:
        pytest.skip(f"run: pip install 'morrow[{request.param}]'")
    return str(request.param)


def test_values_are_read_again(form: str, tmp_path: Path) -> None:
    nested = "" if form == "mosaic" else NESTED
    row = ROW | ({} if form == "mosaic" else MORE)
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=COLUMNS + nested, options={"file.format": form})
    nulls = dict.fromkeys(row) | {"id": 2}
    table.append([{**row, "p": dict(row["p"])}, nulls])
    table.append([nulls | {"id": 3, "s": "x"}])
    names = {path.suffix for path in tmp_path.glob("db.db/t/bucket-0/*")}
    assert names == {f".{form}"}
    assert table.scan().to_dicts() == [row, nulls, nulls | {"id": 3, "s": "x"}]
    assert table.scan(["s"], "id > 2").to_arrow().to_pylist() == [{"s": "x"}]
    assert table.count("s = 'x'") == 1
    assert table.scan(["id"], limit=1).to_arrow().num_rows == 1
    assert table.doctor(data=True).healthy
    table.delete("id = 1")
    assert sorted(table.to_polars()["id"].to_list()) == [2, 3]


def test_keyed_tables_and_later_columns(form: str, tmp_path: Path) -> None:
    options = {"bucket": 1, "file.format": form}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="k INT, v INT", primary_keys="k", options=options)
    table.upsert({"k": [1, 2], "v": [1, 2]})
    table.alter.add_column("w", "STRING")
    table = morrow.open(tmp_path / "db.db/t")
    table.upsert([{"k": 2, "v": 3, "w": "x"}])
    rows = [{"k": 1, "v": 1, "w": None}, {"k": 2, "v": 3, "w": "x"}]
    assert table.to_polars().sort("k").to_dicts() == rows
    table.compact(full=True)
    assert table.to_polars().sort("k").to_dicts() == rows
    assert table.doctor(data=True).healthy


def test_damaged_files(form: str, tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT", options={"file.format": form})
    table.append([{"id": i} for i in range(100)])
    (path,) = tmp_path.glob("db.db/t/bucket-0/*")
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(CorruptFile, match=path.name):
        table.to_polars()
