"""The rows that a Spark session gets for a scan that fits the driver. These tests do not run Spark."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import DataField, parse_atomic
from morrow.spark.dataframes import to_spark
from tests.support.table_factory import TableFactory


@dataclass
class Session:
    """A fake SparkSession that records its input."""

    given: list[pa.Table] = field(default_factory=list)
    schema: Any = None

    def createDataFrame(self, table: pa.Table, schema: Any = None) -> Frame:  # noqa: N802  # Spark's name
        self.given.append(table)
        self.schema = schema
        return Frame()


class Frame:
    """A fake DataFrame."""

    def select(self, columns: str) -> str:
        return f"{columns} of a DataFrame"


def handed_over(session: Any, batches: list[pa.RecordBatch], kind: str, **options: Any) -> pa.Table:
    fields = [DataField(0, "x", parse_atomic(kind))]
    assert to_spark(batches, fields, session, where="t", **options) == "* of a DataFrame"
    return session.given[0]


def test_batches_travel_one_by_one() -> None:
    batches = [pa.record_batch({"x": pa.array([number], pa.int32())}) for number in range(3)]
    assert handed_over(Session(), batches, "INT")["x"].num_chunks == 3


def test_no_batches_are_no_rows() -> None:
    assert handed_over(Session(), [], "STRING").schema == pa.schema([("x", pa.string())])


def test_nanoseconds_are_cut_off_also_before_1970() -> None:
    batch = pa.record_batch({"x": pa.array([1_999, -1, None], pa.timestamp("ns"))})
    assert handed_over(Session(), [batch], "TIMESTAMP(9)")["x"].cast(pa.int64()).to_pylist() == [1, -1, None]


def test_not_null_stays_not_null() -> None:
    session = Session()
    handed_over(session, [pa.record_batch({"x": pa.array([1])})], "BIGINT NOT NULL")
    assert not session.schema["x"].nullable
    assert not session.given[0].schema.field("x").nullable


def test_too_many_rows_are_refused_before_all_of_them_are_read() -> None:
    read: list[int] = []

    def batches() -> Any:
        for number in range(10):
            read.append(number)
            yield pa.record_batch({"x": pa.array(range(1_000), pa.int64())})

    with pytest.raises(InvalidArgument, match=r"t: 2,000 rows and more .* morrow\.spark\.read"):
        handed_over(Session(), batches(), "BIGINT", most_bytes=10_000)
    assert read == [0, 1]


def test_a_scan_is_handed_over(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT"), ("at", "TIMESTAMP(3)")], ["id"])
    moment = dt.datetime(2024, 1, 1, 12)
    table.write_file(pa.table({"id": [1, 2], "at": pa.array([None, moment], pa.timestamp("ms"))}))
    table.commit()
    session: Any = Session()
    morrow.open(table.path).scan(["at"], filter="id = 2").to_spark(session)
    assert session.given[0].to_pydict() == {"at": [moment]}
    assert session.schema.simpleString() == "struct<at:timestamp_ntz>"
