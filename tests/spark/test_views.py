"""`morrow.spark.attach`: a warehouse as temporary views for ``spark.sql``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    InvalidArgument,
    TableNotFound,
    UnsafePath,
    Unsupported,
)
from morrow.engine.io.local import LocalStore
from morrow.scans.table_scan import Scan
from morrow.spark import call
from morrow.spark.procedures import parse_table_argument
from morrow.spark.reading.read import to_dataframe
from morrow.spark.views import Access, attach, detach, list_attached
from tests.support.memory_catalog import MemoryCatalog
from tests.support.written import new_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def behind_a_link(table: morrow.Table) -> Path:
    """Replace the data folder by a link to its new place outside of the table, and return that place."""
    inside = Path(table.path, "bucket-0")
    outside = Path(table.path).parents[2] / "outside"
    shutil.move(inside, outside)
    inside.symlink_to(outside)
    return outside


@pytest.fixture
def warehouse(tmp_path: Path, spark: SparkSession) -> Iterator[Path]:
    """Make ``db.orders`` with the rows 1 and 2, and ``db.items`` with one row."""
    new_table(tmp_path, "id BIGINT, item STRING", keys=["id"], name="orders").append({"id": [1, 2], "item": ["a", "b"]})
    new_table(tmp_path, "item STRING, price INT", name="items").append({"item": ["a"], "price": [10]})
    yield tmp_path
    for name in list(list_attached(spark)):
        detach(spark, name)


def views(spark: SparkSession) -> set[str]:
    return {row.viewName for row in spark.sql("SHOW VIEWS").collect()}


def test_tables_are_views(spark: SparkSession, warehouse: Path) -> None:
    names = attach(spark, warehouse)
    assert names == {"db.items": "pm_db_items", "db.orders": "pm_db_orders"}
    joined = spark.sql("SELECT id, price FROM pm_db_orders LEFT JOIN pm_db_items USING (item) ORDER BY id")
    assert [tuple(row) for row in joined.collect()] == [(1, 10), (2, None)]


def test_attaching_again_shows_the_newest_tables(spark: SparkSession, warehouse: Path) -> None:
    catalog = morrow.Catalog(warehouse)
    attach(spark, warehouse)
    catalog.table("db.orders").upsert({"id": [2, 3], "item": ["c", "d"]})
    catalog.drop_table("db.items")
    new_table(warehouse, "id INT", name="new").append({"id": [1]})
    assert spark.table("pm_db_orders").count() == 2  # as before

    assert attach(spark, warehouse) == {"db.new": "pm_db_new", "db.orders": "pm_db_orders"}
    assert sorted(map(tuple, spark.table("pm_db_orders").collect())) == [(1, "a"), (2, "c"), (3, "d")]
    assert views(spark) == {"pm_db_new", "pm_db_orders"}

    # After a rollback and another write, the table has a snapshot with the same id and other rows.
    catalog.table("db.orders").rollback(1)
    catalog.table("db.orders").upsert({"id": [7], "item": ["e"]})
    catalog.table("db.new").alter.rename_column("id", "number")
    spark.catalog.dropTempView("pm_db_new")
    attach(spark, warehouse)
    assert sorted(map(tuple, spark.table("pm_db_orders").collect())) == [(1, "a"), (2, "b"), (7, "e")]
    assert spark.table("pm_db_new").columns == ["number"]


def test_views_have_the_storage_options_of_the_last_time(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old credentials may have expired, even if the table is unchanged."""
    made = []

    def reading(scan: Scan, spark: SparkSession) -> DataFrame:
        made.append(scan)
        return to_dataframe(scan, spark)

    monkeypatch.setattr("morrow.spark.views.to_dataframe", reading)
    for token, count in (("old", 1), ("new", 2), ("new", 2)):
        attach(spark, warehouse, tables="db.items", storage_options={"token": token})
        assert list_attached(spark)["pm"].access.storage_options == {"token": token}
        assert len(made) == count


def test_what_is_trusted_and_verified_is_so_in_views_and_procedures(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path / "wh", "id BIGINT", name="t")
    table.append({"id": [1, 2]})
    outside = behind_a_link(table)
    with pytest.raises(UnsafePath, match="is a link"):
        attach(spark, tmp_path / "wh", tables="db.t")
    with pytest.raises(InvalidArgument, match="verify='all'"):
        attach(spark, tmp_path / "wh", verify="all")  # type: ignore[arg-type]  # on purpose
    try:
        view = attach(spark, tmp_path / "wh", allowed_roots=outside, verify="pages")["db.t"]
        assert spark.table(view).count() == 2
        (found,) = list_attached(spark).values()
        assert found.access == Access(None, (str(outside),), "pages")
        assert parse_table_argument(spark, "pm.db.t", None, None).allowed_roots == (str(outside),)
    finally:
        detach(spark)


def test_a_catalog_that_is_no_folder(spark: SparkSession, tmp_path: Path) -> None:
    catalog = morrow.Catalog.over(MemoryCatalog(LocalStore(), str(tmp_path)))
    table = catalog.create_table("db.t", schema="id BIGINT")
    table.append({"id": [1, 2]})

    view = attach(spark, catalog)["db.t"]
    try:
        assert spark.table(view).count() == 2
        call(spark, "create_tag", table="pm.db.t", tag="v1")
        assert table.tags.names == ("v1",)
        with pytest.raises(Unsupported, match="a job of Spark that commits"):
            call(spark, "compact", table="pm.db.t")
        with pytest.raises(InvalidArgument, match="a Catalog has its storage_options"):
            attach(spark, catalog, storage_options={"a": "b"})
    finally:
        detach(spark)


def test_a_tag_of_the_options_is_looked_into(spark: SparkSession, warehouse: Path) -> None:
    table = new_table(warehouse, "id INT", name="tagged")
    for number in (1, 2):
        table.append({"id": [number]})
    table.tags.create("shown", snapshot=1)
    table.alter.set_options({"scan.tag-name": "shown"})
    attach(spark, warehouse, tables="db.tagged")
    assert spark.table("pm_db_tagged").count() == 1
    table.tags.replace("shown", snapshot=2)
    attach(spark, warehouse, tables="db.tagged")
    assert spark.table("pm_db_tagged").count() == 2


def test_a_fallback_branch_is_looked_into(spark: SparkSession, warehouse: Path) -> None:
    table = new_table(warehouse, "id INT, dt STRING", by=["dt"], name="fallback")
    table.branches.create("other")
    table.alter.set_options({"scan.fallback-branch": "other"})
    attach(spark, warehouse, tables="db.fallback")
    table.on_branch("other").append({"id": [1], "dt": ["a"]})
    attach(spark, warehouse, tables="db.fallback")
    assert [tuple(row) for row in spark.table("pm_db_fallback").collect()] == [(1, "a")]


def test_some_tables_and_branches(spark: SparkSession, warehouse: Path) -> None:
    table = morrow.Catalog(warehouse).table("db.orders")
    table.branches.create("dev", snapshot=1)
    table.on_branch("dev").upsert({"id": [9], "item": ["z"]})
    assert attach(spark, warehouse, "wh", databases="db").keys() == {"db.items", "db.orders"}
    names = attach(spark, warehouse, as_="wh", tables=["db.orders$branch_dev"])
    assert names == {"db.orders$branch_dev": "wh_db_orders$branch_dev"}
    assert spark.sql("SELECT max(id) FROM `wh_db_orders$branch_dev`").collect()[0][0] == 9
    assert views(spark) == {"wh_db_orders$branch_dev"}
    with pytest.raises(TableNotFound):
        attach(spark, warehouse, as_="wh", tables=["db.orders", "db.none"])
    with pytest.raises(DatabaseNotFound):
        attach(spark, warehouse, as_="wh", databases=["none"])
    with pytest.raises(InvalidArgument, match="is a system table"):
        attach(spark, warehouse, as_="wh", tables=["db.orders$snapshots"])
    assert views(spark) == {"wh_db_orders$branch_dev"}  # as before


def test_two_catalogs(spark: SparkSession, warehouse: Path) -> None:
    attach(spark, warehouse, as_="one")
    attach(spark, warehouse, as_="two", tables="db.items")
    detach(spark, "one")
    assert views(spark) == {"two_db_items"}
    with pytest.raises(InvalidArgument, match="nothing is attached as 'one'; attached are: two"):
        detach(spark, "one")


def test_names_that_two_tables_would_have(spark: SparkSession, tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    for name in ("a.b_c", "a_b.c", "x.T", "x.t"):
        catalog.create_table(name, schema="id INT")
    with pytest.raises(InvalidArgument, match=r"a\.b_c and a_b\.c would both be the view pm_a_b_c"):
        attach(spark, tmp_path, databases=["a", "a_b"])
    with pytest.raises(InvalidArgument, match=r"x\.T and x\.t would both be"):  # Spark ignores case
        attach(spark, tmp_path, tables=["x.T", "x.t"])
    with pytest.raises(InvalidArgument, match="as_ is what the names of views begin with"):
        attach(spark, tmp_path, as_=" ")
    assert views(spark) == set()


def test_views_of_others_stay(spark: SparkSession, warehouse: Path) -> None:
    spark.range(3).createOrReplaceTempView("PM_db_Orders")
    try:
        with pytest.raises(AlreadyExists, match="there is a temporary view pm_db_orders already"):
            attach(spark, warehouse)
        assert spark.table("pm_db_orders").count() == 3
    finally:
        spark.catalog.dropTempView("pm_db_orders")


def test_a_table_that_cannot_be_read_is_left_out(spark: SparkSession, warehouse: Path) -> None:
    path = Path(new_table(warehouse, "id INT", keys=["id"], name="strange").path) / "schema" / "schema-0"
    path.write_text(re.sub(r'"options" : \{\s*\}', '"options" : {"merge-engine": "no-such-engine"}', path.read_text()))
    names = attach(spark, warehouse)
    assert set(names) == {"db.items", "db.orders"}
    assert set(names.skipped) == {"db.strange"}
    with pytest.raises(Unsupported, match="no-such-engine"):
        attach(spark, warehouse, tables=["db.orders", "db.strange"])
