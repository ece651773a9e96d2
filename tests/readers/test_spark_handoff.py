"""What a Spark session is given: an Arrow table of types that it has."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import Unsupported
from morrow.readers.spark_handoff import to_spark
from tests.support.table_factory import TableFactory

UTC_MICROS = pa.timestamp("us", tz="UTC")


@dataclass
class Session:
    """Stands in for a SparkSession: keeps what it is given."""

    given: list[pa.Table] = field(default_factory=list)
    schema: str | None = None

    def createDataFrame(self, table: pa.Table, schema: str | None = None) -> str:  # noqa: N802  # Spark's name
        self.given.append(table)
        self.schema = schema
        return "a DataFrame"


def handed_over(column: pa.Array) -> pa.Array:
    session: Any = Session()
    assert to_spark(pa.table({"x": column}), session) == "a DataFrame"
    return session.given[0]["x"].combine_chunks()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None], pa.int8()),
        pa.array(["a", None]),
        pa.array([dt.date(2024, 1, 1)]),
        pa.array([dt.datetime(2024, 1, 1, 0, 0, 0, 7)], pa.timestamp("us")),
        pa.array([7], UTC_MICROS),
        pa.array([[1], None], pa.list_(pa.int32())),
        pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
    ],
    ids=lambda column: str(column.type),
)
def test_types_that_spark_has_are_handed_over_as_they_are(column: pa.Array) -> None:
    assert handed_over(column).equals(column)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1_999], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([1], pa.timestamp("ms", tz="UTC")), UTC_MICROS),
        (pa.array([b"x"], pa.large_binary()), pa.binary()),
        (pa.array([[1_999]], pa.list_(pa.timestamp("ns"))), pa.list_(pa.timestamp("us"))),
        (pa.array([{"t": 1_999}], pa.struct([("t", pa.timestamp("ns"))])), pa.struct([("t", pa.timestamp("us"))])),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.timestamp("ms"))), pa.map_(pa.string(), pa.timestamp("us"))),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_types_that_spark_lacks_become_the_nearest(column: pa.Array, kind: pa.DataType) -> None:
    assert handed_over(column).type == kind


def test_nanoseconds_are_cut_off() -> None:
    assert handed_over(pa.array([1_999, None], pa.timestamp("ns"))).cast(pa.int64()).to_pylist() == [1, None]


@pytest.mark.parametrize("kind", [pa.time32("ms"), pa.struct([("t", pa.time64("us"))]), pa.list_(pa.time32("s"))])
def test_times_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(Unsupported, match=r"column '[xt]|column 'item|column 'element"):
        handed_over(pa.array([None], kind))


def test_not_null_stays_not_null() -> None:
    session: Any = Session()
    to_spark(pa.table({"x": [1]}, schema=pa.schema([pa.field("x", pa.int64(), nullable=False)])), session)
    assert not session.given[0].schema.field("x").nullable


def test_timestamps_without_a_zone_are_no_instants() -> None:
    local = pa.timestamp("us")
    fields = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("a`b", local),
        pa.field("tz", UTC_MICROS),
        pa.field("l", pa.list_(local)),
        pa.field("m", pa.map_(pa.string(), local)),
        pa.field("s", pa.struct([("d", pa.decimal128(10, 2)), ("t", local)])),
    ]
    session: Any = Session()
    to_spark(pa.schema(fields).empty_table(), session)
    assert session.schema == (
        "`id` BIGINT NOT NULL, `a``b` TIMESTAMP_NTZ, `tz` TIMESTAMP, `l` ARRAY<TIMESTAMP_NTZ>, "
        "`m` MAP<STRING, TIMESTAMP_NTZ>, `s` STRUCT<`d`: DECIMAL(10, 2), `t`: TIMESTAMP_NTZ>"
    )


def test_a_scan_is_handed_over(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT"), ("v", "STRING")], ["id"])
    table.write_file(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    table.commit()
    session: Any = Session()
    morrow.open(table.path).scan(["v"], filter="id = 2").to_spark(session)
    assert session.given[0].to_pydict() == {"v": ["b"]}
