"""Scans: their arguments, the forms of their rows, and refused arguments."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import morrow
import morrow.duckdb
from morrow.engine.errors import ColumnNotFound, InvalidArgument, SnapshotNotFound, TableNotFound, TagNotFound
from morrow.scans import table_scan
from morrow.scans.table_scan import Scan
from tests.support.table_factory import TableFactory

TIMES = (1_700_000_000_000, 1_700_086_400_000)
"""Commit times of the snapshots: 2023-11-14 and 2023-11-15, 22:13:20 UTC."""


@pytest.fixture
def factory(tmp_path: Path) -> TableFactory:
    """Snapshot 1, with tag v1, has the ids 1 to 3 with amounts 10, 20, null; snapshot 2 updates order 2 to 25."""
    factory = TableFactory(tmp_path / "orders", [("id", "INT"), ("amount", "DECIMAL(10, 2)"), ("v", "STRING")], ["id"])
    factory.write_file(pa.table({"id": [1, 2, 3], "amount": [Decimal(10), Decimal(20), None], "v": ["a", "b", "<c>"]}))
    factory.commit()
    factory.write_file(pa.table({"id": [2], "amount": [Decimal(25)], "v": ["b"]}))
    factory.commit()
    for number, millis in enumerate(TIMES, 1):
        file = factory.path / "snapshot" / f"snapshot-{number}"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"timeMillis": millis, "watermark": number * 100}))
    (factory.path / "tag").mkdir()
    (factory.path / "tag" / "tag-v1").write_text((factory.path / "snapshot" / "snapshot-1").read_text())
    return factory


@pytest.fixture
def table(factory: TableFactory) -> morrow.Table:
    return morrow.open(factory.path)


def ids(scan: morrow.Scan) -> list[int]:
    return sorted(scan.to_arrow()["id"].to_pylist())


# --- columns, filter, limit ---


def test_columns_come_in_the_order_asked_for(table: morrow.Table) -> None:
    scan = table.scan(columns=["v", "id"])
    assert scan.schema.names == scan.to_arrow().column_names == scan.to_polars().columns == ["v", "id"]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (["nothing"], ColumnNotFound, "no column 'nothing'; the columns are id, amount, v"),
        (["ID"], ColumnNotFound, "'ID'"),
        (["id", "id"], InvalidArgument, "twice"),
        ("id", InvalidArgument, r"write columns=\['id'\]"),
        ([1], InvalidArgument, "names"),
        ([["id"]], InvalidArgument, "names"),
        (5, InvalidArgument, "names"),
    ],
)
def test_columns_that_cannot_be(table: morrow.Table, columns: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        table.scan(columns=columns)


@pytest.mark.parametrize(
    "condition",
    ["amount > 10 AND id < 5", pl.col("amount") > 10, pc.field("amount") > Decimal(10)],
    ids=["SQL", "Polars", "Arrow"],
)
def test_filters_in_three_languages(table: morrow.Table, condition: Any) -> None:
    assert ids(table.scan(filter=condition)) == [2]


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        ("nothing = 1", ColumnNotFound, "nothing"),
        ("id >", InvalidArgument, "id >"),
        ("sum(id) > 1", InvalidArgument, "aggregate"),
        (["id", "=", 1], InvalidArgument, "list"),
    ],
)
def test_filters_that_cannot_be(table: morrow.Table, condition: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"(?i){message}"):
        table.scan(filter=condition)


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True])
def test_limits_that_cannot_be(table: morrow.Table, limit: Any) -> None:
    with pytest.raises(InvalidArgument, match="limit must be a number of rows"):
        table.scan(limit=limit)


READS: dict[str, Callable[[morrow.Scan], int]] = {
    "to_arrow": lambda scan: int(scan.to_arrow().num_rows),
    "to_polars": lambda scan: scan.to_polars().height,
    "lazy": lambda scan: scan.lazy().collect().height,
    "to_batches": lambda scan: sum(batch.num_rows for batch in scan.to_batches()),
    "to_reader": lambda scan: int(scan.to_reader().read_all().num_rows),
    "to_pandas": lambda scan: len(scan.to_pandas()),
    "to_duckdb": lambda scan: len(scan.to_duckdb(duckdb.connect()).fetchall()),
    "count": lambda scan: scan.count(),
    "dataset": lambda scan: int(scan.dataset().to_table().num_rows),
}


@pytest.mark.parametrize("read", sorted(READS))
@pytest.mark.parametrize(("limit", "rows"), [(None, 3), (0, 0), (2, 2), (99, 3)])
def test_every_form_has_the_same_rows(table: morrow.Table, read: str, limit: int | None, rows: int) -> None:
    assert READS[read](table.scan(limit=limit)) == rows


@pytest.mark.parametrize("rows", [0, -1, 1.5, True])
def test_batches_hold_at_least_a_row(table: morrow.Table, rows: Any) -> None:
    for read in (table.scan().to_batches, table.scan().to_reader):
        with pytest.raises(InvalidArgument, match="batch_rows"):
            read(rows)


# --- time travel ---

BETWEEN = "2023-11-15T00:00:00"


@pytest.mark.parametrize(
    "travel",
    [
        {"as_of": 1},
        {"as_of": "v1"},
        {"as_of": dt.datetime(2023, 11, 15)},
        {"as_of": dt.datetime(2023, 11, 15, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))},
        {"as_of": dt.date(2023, 11, 15)},
        {"snapshot": 1},
        {"tag": "v1"},
        {"timestamp": TIMES[0]},
        {"timestamp": TIMES[1] - 1},
        {"timestamp": BETWEEN},
        {"timestamp": dt.datetime(2023, 11, 15)},
        {"watermark": 100},
    ],
    ids=str,
)
def test_ways_to_the_first_snapshot(table: morrow.Table, travel: dict[str, Any]) -> None:
    scan = table.scan(filter="id = 2", **travel)
    assert scan.snapshot_id == 1
    assert [str(v) for v in scan.to_arrow()["amount"].to_pylist()] == ["20.00"]


def test_the_newest_snapshot_otherwise(table: morrow.Table) -> None:
    assert (
        table.scan().snapshot_id == table.scan(as_of=2).snapshot_id == table.scan(timestamp=TIMES[1]).snapshot_id == 2
    )


@pytest.mark.parametrize(
    ("travel", "error", "message"),
    [
        ({"snapshot": 9}, SnapshotNotFound, "9"),
        ({"as_of": "v9"}, TagNotFound, "v9"),
        ({"snapshot": 1, "tag": "v1"}, InvalidArgument, "only one of snapshot, tag"),
        ({"snapshot": "1"}, InvalidArgument, "snapshot must be an int"),
        ({"as_of": True}, InvalidArgument, "not True"),
        ({"timestamp": "some day"}, InvalidArgument, "some day"),
    ],
)
def test_snapshots_that_cannot_be(
    table: morrow.Table, travel: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        table.scan(**travel)


def test_time_travel_has_the_columns_of_its_time(table: morrow.Table, factory: TableFactory) -> None:
    factory.alter(fields=[("id", "INT"), ("amount", "DECIMAL(10, 2)")])
    factory.commit()
    assert table.scan().schema.names == ["id", "amount"]
    assert table.scan(snapshot=1).schema.names == ["id", "amount", "v"]
    with pytest.raises(ColumnNotFound, match="v"):
        table.scan(columns=["v"])


# --- forms ---


def test_arrow_has_exactly_the_schema(table: morrow.Table) -> None:
    scan = table.scan()
    assert scan.schema == pa.schema([
        pa.field("id", pa.int32(), nullable=False), ("amount", pa.decimal128(10, 2)), ("v", pa.string()),
    ])  # fmt: skip
    assert scan.to_arrow().schema == scan.schema
    assert scan.to_reader().schema == scan.schema


def test_pandas_columns_are_backed_by_arrow(table: morrow.Table) -> None:
    frame = table.scan().to_pandas()
    assert frame.dtypes.to_dict() == {
        "id": pd.ArrowDtype(pa.int32()),
        "amount": pd.ArrowDtype(pa.decimal128(10, 2)),
        "v": pd.ArrowDtype(pa.string()),
    }
    assert frame["amount"].isna().sum() == 1


def test_the_lazy_frame_is_lazy(table: morrow.Table) -> None:
    frame = table.scan().lazy()
    assert isinstance(frame, pl.LazyFrame)
    assert sorted(frame.filter(pl.col("id") > 1).select("id").collect()["id"]) == [2, 3]


def test_a_scan_is_an_arrow_stream(table: morrow.Table) -> None:
    scan = table.scan(["id"])
    assert sorted(pl.DataFrame(scan)["id"]) == [1, 2, 3]
    assert sorted(pa.table(scan)["id"].to_pylist()) == [1, 2, 3]
    assert pa.RecordBatchReader.from_stream(scan).read_all().num_rows == 3
    with duckdb.connect() as connection:
        connection.register("s", scan)
        assert connection.sql("SELECT sum(id) FROM s").fetchall() == [(6,)]
        assert connection.sql("SELECT sum(id) FROM s").fetchall() == [(6,)]


def test_a_narrowed_scan(table: morrow.Table) -> None:
    scan = table.scan(["id", "amount"], filter="id > 1", snapshot=1)
    narrowed = scan.narrowed(["id"], "amount IS NOT NULL")
    assert (narrowed.snapshot_id, ids(narrowed)) == (1, [2])
    for columns, condition in ((["v"], None), (None, "v = 'b'")):
        with pytest.raises(ColumnNotFound, match="v"):
            scan.narrowed(columns, condition)


# --- descriptions of scans ---


def test_the_plan_is_made_once_and_keeps_its_snapshot(table: morrow.Table, factory: TableFactory) -> None:
    scan = table.scan()
    assert scan.plan is scan.plan
    factory.write_file(pa.table({"id": [9], "amount": [Decimal(1)], "v": ["x"]}))
    factory.commit()
    assert ids(scan) == [1, 2, 3]


def test_repr(table: morrow.Table, factory: TableFactory) -> None:
    scan = table.scan(["id"], filter="id > 1", limit=5, tag="v1")
    assert repr(scan) == f"Scan({str(factory.path)!r}, columns=['id'], filter='id > 1', limit=5, snapshot=1)"


def test_html_is_the_explained_plan_escaped(table: morrow.Table) -> None:
    html = table.scan(filter="v = '<c>'")._repr_html_()
    assert "&lt;c&gt;" in html
    assert "<c>" not in html


def test_explain_names_files_masks_and_pushed_predicates(table: morrow.Table) -> None:
    text = table.scan(["id"], filter="amount > 10 AND length(v) % 2 = 1", limit=7).explain()
    for said in (
        "snapshot   2",
        "columns    id",
        "pushed     amount > 10",
        "after      ",
        "limit      7",
        "2 files masked",
    ):
        assert said in text


def test_a_table_without_a_snapshot(tmp_path: Path) -> None:
    scan = morrow.open(TableFactory(tmp_path / "empty", [("x", "INT")]).path).scan()
    assert scan.snapshot_id is None
    assert (scan.count(), scan.to_arrow().num_rows, scan.to_polars().height) == (0, 0, 0)
    assert "no committed data" in scan.explain()


# Scans are cached for the next query until the table changes, and never show an old snapshot.


def kept(table: morrow.Table) -> Scan | None:
    """Cache a scan of the table, and look it up."""
    table_scan.cache_scan(table.path, table.scan())
    return table_scan.find_cached_scan(table.path)


def test_a_scan_is_given_until_rows_columns_or_options_change(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT")
    for change in (
        lambda: table.append({"id": [1]}),
        lambda: table.alter.add_column("v", "INT"),
        lambda: table.alter.set_options({"read.batch-size": "7"}),
        lambda: table.append({"id": [2]}),
        lambda: table.rollback(1),
    ):
        scan = kept(table)
        assert scan is not None and table_scan.find_cached_scan(table.path) is scan
        change()
        assert table_scan.find_cached_scan(table.path) is None
    assert kept(table) is not None
    morrow.clear_caches()
    assert table_scan.find_cached_scan(table.path) is None


def test_scans_that_other_things_decide_of_are_not_kept(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT")
    table.append({"id": [1]})
    table.tags.create("v1")
    table.branches.create("dev")
    assert kept(morrow.open(table.path, branch="dev")) is None
    table.alter.set_options({"scan.tag-name": "v1"})
    assert kept(morrow.open(table.path)) is None


def test_queries_see_each_commit_and_the_table_of_that_name(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table("db.t", schema="id INT")
    with duckdb.connect() as connection:
        query = f"SELECT count(*), sum(id) FROM paimon_scan('{table.path}')"
        morrow.duckdb.install(connection)
        for number in range(1, 4):
            table.append({"id": [number]})
            relation = connection.sql(query)
            assert relation.fetchall() == [(number, sum(range(number + 1)))] == connection.sql(query).fetchall()
        relation = connection.sql(query)
        table.append({"id": [4]})
        assert relation.fetchall() == [(4, 10)]  # the relation was bound before the commit and runs now
        catalog.drop_table("db.t")
        with pytest.raises(duckdb.Error, match="does not exist"):
            connection.sql(query)
        catalog.create_table("db.t", schema="id INT").append({"id": [9]})
        assert connection.sql(query).fetchall() == [(1, 9)]
        shutil.rmtree(table.path)
        with pytest.raises(TableNotFound):
            table_scan.find_cached_scan((table.path, (), None))
