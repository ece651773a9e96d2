"""Scans that are kept for the next query: given again until the table is another, never a state that is past."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

import morrow
import morrow.duckdb
from morrow.engine.errors import TableNotFound
from morrow.scans import reopening
from morrow.scans.table_scan import Scan


def kept(table: morrow.Table) -> Scan | None:
    """Keeps a scan of the table, and asks for it."""
    reopening.keep(table.path, table.scan())
    return reopening.kept(table.path)


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
        assert scan is not None and reopening.kept(table.path) is scan
        change()
        assert reopening.kept(table.path) is None
    assert kept(table) is not None
    morrow.clear_caches()
    assert reopening.kept(table.path) is None


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
        assert relation.fetchall() == [(4, 10)]  # bound before, run now
        catalog.drop_table("db.t")
        with pytest.raises(duckdb.Error, match="does not exist"):
            connection.sql(query)
        catalog.create_table("db.t", schema="id INT").append({"id": [9]})
        assert connection.sql(query).fetchall() == [(1, 9)]
        shutil.rmtree(table.path)
        with pytest.raises(TableNotFound):
            reopening.kept((table.path, (), None))
