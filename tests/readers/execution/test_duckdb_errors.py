"""Errors of relations that DuckDB runs: Morrow's own errors, and KeyboardInterrupt for Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.readers.expressions.sql import run_query

ENDLESS = "SELECT sum(sin(a.range * b.range)) FROM range(100000) a, range(1000000) b"


@pytest.fixture(scope="module")
def unreadable(tmp_path_factory: pytest.TempPathFactory) -> morrow.Table:
    """Make a table that can be planned but not read: its text 'abc' has to become an INT."""
    table = morrow.Catalog(tmp_path_factory.mktemp("wh")).create_table("d.t", "id BIGINT, v STRING")
    table.append([{"id": 1, "v": "abc"}])
    table.alter.set_type("v", "INT", lossy=True)
    return table


RESULTS: dict[str, Callable[[Any], object]] = {
    "fetchall": lambda found: found.fetchall(),
    "pl": lambda found: found.pl(),
    "df": lambda found: found.df(),
    "fetchnumpy": lambda found: found.fetchnumpy(),
    "to_arrow_table": lambda found: found.to_arrow_table(),
    "to_arrow_reader": lambda found: list(found.to_arrow_reader()),
    "repr": repr,
    "show": lambda found: found.show(),
    "a step": lambda found: found.filter("v > 1").order("id").limit(1).fetchall(),
    "an aggregate": lambda found: found.aggregate("sum(v)").fetchall(),
    "materialize": lambda found: found.materialize(),
}


@pytest.mark.parametrize("result", RESULTS)
def test_results_raise_the_error_of_the_read(unreadable: morrow.Table, result: str) -> None:
    catalog = morrow.Catalog(Path(unreadable.path).parents[1])
    for relation in (catalog.sql("SELECT * FROM d.t"), unreadable.scan().to_duckdb(duckdb.connect())):
        with pytest.raises(Unsupported, match="the value 'abc' of the column 'v'"):
            RESULTS[result](relation)


@pytest.mark.parametrize("result", ["fetchall", "to_arrow_reader", "pl"])
def test_what_duckdb_cannot_compute_is_an_invalid_argument(tmp_path: Path, result: str) -> None:
    found = morrow.sql("SELECT CAST(x AS INT) FROM (VALUES ('1'), ('x')) AS t(x)", tmp_path)
    with pytest.raises(InvalidArgument, match=r"Could not convert string 'x' to INT32"):
        RESULTS[result](found)


STEPS: dict[str, Callable[[Any], object]] = {
    "filter": lambda found: found.filter("nope = 1"),
    "a wrong text": lambda found: found.filter("id = = 1"),
    "project": lambda found: found.project("nope"),
    "order": lambda found: found.order("nope"),
    "aggregate": lambda found: found.aggregate("sum(nope)"),
    "groups": lambda found: found.group_by("id").agg("sum(nope)"),
    "join": lambda found: found.join(found.set_alias("other"), "nope"),
    "union": lambda found: found.union(found.project("1, 2, 3")),
    "query": lambda found: found.query("q", "SELECT nope FROM q"),
    "max": lambda found: found.max("nope"),
    "after a step": lambda found: found.filter("id > 0").limit(1).project("nope"),
}


@pytest.mark.parametrize("step", STEPS)
def test_wrong_steps_are_invalid_arguments(unreadable: morrow.Table, step: str) -> None:
    catalog = morrow.Catalog(Path(unreadable.path).parents[1])
    for relation in (catalog.sql("SELECT id FROM d.t"), unreadable.scan(["id"]).to_duckdb(duckdb.connect())):
        with pytest.raises(InvalidArgument, match="the query: "):
            STEPS[step](relation)


def test_steps_find_the_variables_of_their_caller(unreadable: morrow.Table) -> None:
    found = unreadable.scan(["id"]).to_duckdb(duckdb.connect())
    mine = pa.table({"x": [1, 2]})
    assert found.filter("id IN (SELECT x FROM mine)").fetchall() == [(1,)]
    assert found.query("q", "SELECT count(*) FROM q JOIN mine ON id = x").fetchall() == [(1,)]
    assert found.group_by("id").agg("(SELECT max(x) FROM mine)").fetchall() == [(1, 2)]
    assert len(mine) == 2


def test_a_folder_that_is_not_there_is_no_damaged_file(unreadable: morrow.Table) -> None:
    with pytest.raises(StorageError, match=r"Cannot open file \"/nope/x\.parquet\"") as caught:
        unreadable.scan(["id"]).to_duckdb(duckdb.connect()).to_parquet("/nope/x.parquet")
    assert "verify" not in str(caught.value)


def test_relations_are_duckdbs_own(unreadable: morrow.Table) -> None:
    connection = duckdb.connect()
    numbers = unreadable.scan(["id"]).to_duckdb(connection)
    assert isinstance(numbers, duckdb.DuckDBPyRelation)
    assert connection.sql("SELECT id + 1 FROM numbers").fetchall() == [(2,)]
    assert numbers.union(numbers).fetchall() == [(1,), (1,)]
    assert list(numbers.to_arrow_reader()) == [pa.record_batch({"id": pa.array([1])})]


def test_libraries_that_pass_on_texts_get_the_message_without_causes(unreadable: morrow.Table) -> None:
    with pytest.raises(pa.ArrowInvalid, match="the value 'abc' of the column 'v'") as caught:
        pa.table(unreadable.scan())
    assert "file_errors.py" not in str(caught.value)


@pytest.mark.parametrize("condition", ["b = a + 1", "s::INT = 5"])
def test_an_engine_of_duckdb_raises_one_error_in_all_forms(tmp_path: Path, condition: str) -> None:
    table = morrow.Catalog(tmp_path).create_table("d.t", "a INT, b INT, s STRING")
    table.append([{"a": 1, "b": 2, "s": "5"}])
    table.append([{"a": 2**31 - 1, "b": 1, "s": "x"}])
    scan = table.scan(filter=condition, engine="duckdb")
    forms = (scan.to_arrow, scan.to_polars, scan.to_pandas, scan.count, lambda: list(scan.to_batches()))
    for form in (*forms, lambda: list(scan.to_batches(1))):
        with pytest.raises(Unsupported, match=r"d\.db/t: this read by DuckDB"):
            form()


def test_ctrl_c_ends_a_query_at_once_and_leaves_the_connection() -> None:
    connection = duckdb.connect()
    begun = time.monotonic()
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        run_query(connection, connection.sql(ENDLESS).fetchall)
    timer.join()
    assert time.monotonic() - begun < 20
    assert connection.sql("SELECT 1").fetchall() == [(1,)]
