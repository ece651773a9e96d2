"""Pandas frames, which have fewer dtypes than a table has types."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import morrow
from morrow.engine.errors import Unsupported
from morrow.engine.format.parquet_metadata import Part, merge_footers
from morrow.writers.ingest.sources import to_exact_dataset
from tests.support.written import new_table, rows

DAY = dt.date(2024, 5, 13)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> morrow.Catalog:
    return morrow.Catalog(tmp_path_factory.mktemp("pandas"))


@pytest.fixture
def table(catalog: morrow.Catalog) -> morrow.Table:
    return catalog.create_table(
        f"db.t{len(list(catalog))}", "id BIGINT NOT NULL, n INT, d DATE", options={"file.format": "avro"}
    )


def test_integers_with_nulls_and_dates(table: morrow.Table) -> None:
    days = pd.to_datetime([DAY, None])
    table.append(pd.DataFrame({"id": [1.0, 2.0], "n": [7, np.nan], "d": days}))
    assert table.to_arrow().to_pylist() == [{"id": 1, "n": 7, "d": DAY}, {"id": 2, "n": None, "d": None}]


def test_what_is_read_is_written_again(table: morrow.Table) -> None:
    table.append(pd.DataFrame({"id": [1], "n": [np.nan], "d": [pd.Timestamp(DAY)]}))
    table.append(table.to_pandas())
    assert table.to_arrow().to_pylist() == 2 * [{"id": 1, "n": None, "d": DAY}]


REFUSED: dict[str, Callable[[], pd.DataFrame]] = {
    "a fraction": lambda: pd.DataFrame({"id": [1], "n": [1.5]}),
    "infinity": lambda: pd.DataFrame({"id": [1], "n": [np.inf]}),
    "past what a double holds exactly": lambda: pd.DataFrame({"id": [2.0**53]}),
    "a time of day": lambda: pd.DataFrame({"id": [1], "d": pd.to_datetime(["2024-05-13 12:00"])}),
    "an instant": lambda: pd.DataFrame({"id": [1], "d": pd.to_datetime([DAY]).tz_localize("UTC")}),
}


@pytest.mark.parametrize("frame", REFUSED.values(), ids=REFUSED)
def test_what_would_lose_something_is_refused(table: morrow.Table, frame: Callable[[], pd.DataFrame]) -> None:
    with pytest.raises(morrow.errors.InvalidArgument, match=r"where (BIGINT|INT|DATE).* is needed"):
        table.append(frame())
    assert table.count() == 0


# Arrow datasets of Parquet files: timestamps by other writers keep their values, or are refused.

FAR = [dt.datetime(9999, 12, 31), None, dt.datetime(1, 1, 1), dt.datetime(2024, 5, 1, 1, 2, 3, 4)]
MICROS = pa.timestamp("us")
SPARK_2, LEGACY = {"org.apache.spark.version": "2.4.8"}, {"org.apache.spark.legacyDateTime": ""}


def int96(path: Path, values: Any, name: str = "at") -> Path:
    pq.write_table(pa.table({name: values}), path, use_deprecated_int96_timestamps=True)
    return path


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (MICROS, FAR),
        (pa.list_(MICROS), [FAR, None, []]),
        (pa.struct([("q", MICROS), ("n", pa.int32())]), [{"q": FAR[0], "n": 1}]),
        (pa.map_(pa.string(), MICROS), [[("k", FAR[2])]]),
    ],
)
def test_int96_beyond_nanoseconds_are_microseconds(tmp_path: Path, kind: pa.DataType, values: list[Any]) -> None:
    file = int96(tmp_path / "a", pa.array(values, kind))
    assert to_exact_dataset(ds.dataset(file)).to_table()["at"].to_pylist() == values
    file.rename((tmp_path / "old").mkdir() or tmp_path / "old/a")
    table = morrow.Catalog(tmp_path).clone_parquet(tmp_path / "old", "db.t")
    assert table.to_arrow()["at"].to_pylist() == values


def test_others_stay_nanoseconds(tmp_path: Path) -> None:
    data = ds.dataset(int96(tmp_path / "a", pa.array([1, 2**63 - 10**7, None], pa.timestamp("ns"))))
    assert to_exact_dataset(data) is data
    assert data.schema.field("at").type == pa.timestamp("ns")
    assert to_exact_dataset(3) == 3


def test_a_dataset_that_is_appended(tmp_path: Path) -> None:
    table = new_table(tmp_path, "at TIMESTAMP(6), p INT")
    for part in (1, 2):
        (tmp_path / f"old/p={part}").mkdir(parents=True)
        int96(tmp_path / f"old/p={part}/a", pa.array(FAR[:1], MICROS))
    data = ds.dataset(tmp_path / "old", partitioning="hive")
    table.append(data.filter(ds.field("p") == 1))
    assert rows(table) == [(FAR[0], 1)]
    table.overwrite(ds.dataset(tmp_path / "old", schema=pa.schema([("at", MICROS)])))
    assert rows(table, columns=["at"]) == [(FAR[0],), (FAR[0],)]


@pytest.mark.parametrize("nanos", [1, 1000])
def test_nanoseconds_beside_them_are_refused(tmp_path: Path, nanos: int) -> None:
    file, out = tmp_path / "a", pa.BufferOutputStream()
    moments = [struct.pack("<qi", nanos, day) for day in (2440588, 5373484)]  # in 1970, and on 9999-12-31
    pq.write_table(pa.table({"at": pa.array(moments, pa.binary(12))}), out, store_schema=False)
    data = out.getvalue().to_pybytes()
    body = len(data) - int.from_bytes(data[-8:-4], "little") - 8
    _, footer = merge_footers([Part(body - 4, b"", data[body:-8])], int96=True)
    file.write_bytes(data[:body] + footer + len(footer).to_bytes(4, "little") + b"PAR1")

    if nanos == 1:
        with pytest.raises(Unsupported, match=r"INT96 with timestamps outside .*FROM read_parquet\('.*a'\)"):
            to_exact_dataset(ds.dataset(file))
    else:
        micro = dt.datetime(1970, 1, 1, microsecond=1)
        assert to_exact_dataset(ds.dataset(file)).to_table()["at"].to_pylist() == [micro, micro.replace(9999, 12, 31)]


@pytest.mark.parametrize("notes", [SPARK_2, LEGACY, {"writer.date.proleptic": "false"}])
@pytest.mark.parametrize("kind", [pa.date32(), MICROS, pa.list_(pa.date32())])
def test_days_of_the_julian_calendar_are_refused(tmp_path: Path, notes: dict[str, str], kind: pa.DataType) -> None:
    for year, is_old in ((1582, True), (1583, False)):
        moment = dt.datetime(year, 1, 1)
        value = pa.array([[moment.date()] if pa.types.is_list(kind) else moment], kind)
        pq.write_table(pa.table({"d": value}).replace_schema_metadata(notes), tmp_path / "a")
        if is_old:
            with pytest.raises(Unsupported, match=r"a: a date before 1582-10-15 .*datetimeRebaseModeInWrite=CORRECTED"):
                to_exact_dataset(ds.dataset(tmp_path / "a"))
        else:
            assert to_exact_dataset(ds.dataset(tmp_path / "a")).to_table()["d"].to_pylist() == value.to_pylist()


def test_days_of_spark_3_are_gregorian(tmp_path: Path) -> None:
    table = pa.table({"d": [dt.date(1500, 1, 1)]}).replace_schema_metadata({"org.apache.spark.version": "3.5.1"})
    pq.write_table(table, tmp_path / "a")
    assert to_exact_dataset(ds.dataset(tmp_path / "a")).to_table() == table


def test_arrays_of_two_dimensions_are_lists(tmp_path: Path) -> None:
    schema = {"id": "BIGINT", "v": "ARRAY<FLOAT>", "m": "ARRAY<ARRAY<INT>>"}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema)

    table.append({"id": [1, 2], "v": np.array([[0.5, 1], [2, 3]]), "m": np.arange(8).reshape(2, 2, 2)})

    assert table.to_polars().sort("id").rows() == [
        (1, [0.5, 1.0], [[0, 1], [2, 3]]),
        (2, [2.0, 3.0], [[4, 5], [6, 7]]),
    ]
