"""``morrow sql``: DuckDB over Paimon tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run

Table = Callable[[str], Path]


def test_paimon_scan_in_the_query(run: Run, table: Table) -> None:
    done = run("sql", f"SELECT count(*) AS n, sum(x) AS s FROM paimon_scan('{table('pk_big')}')", "--format", "json")

    assert json.loads(done.out) == {"n": 16_862, "s": 105051478.25}


def test_tables_by_name(run: Run, table: Table) -> None:
    query = 'SELECT count(*) FROM people JOIN "the events" ON people.n = "the events".w WHERE people.id < 1000'
    names = ["--table", f"people={table('pk_big')}", "--table", f"the events={table('append_partitioned')}"]

    done = run("sql", query, *names, "--format", "csv")

    assert done.lines[0] == "count_star()"
    assert int(done.lines[1]) > 0


def test_the_tables_of_a_warehouse(run: Run, table: Table) -> None:
    path = table("tags_expired_snapshots")
    warehouse, name = path.parents[1], f"{path.parent.stem}.{path.name}"
    of_tag = run("sql", warehouse, f"SELECT count(*) AS n FROM {name} VERSION AS OF 't1'", "--format", "json")
    newest = run("sql", f"SELECT count(*) AS n FROM paimon_scan('{path}')", "--format", "json")
    tags = run("sql", warehouse, f"SELECT tag_name FROM {path.parent.stem}.`{path.name}$tags`", "--format", "csv")

    assert 0 < json.loads(of_tag.out)["n"] < json.loads(newest.out)["n"]
    assert tags.lines == ["tag_name", "t1", "t2"]
    assert "there is no table" in run("sql", warehouse, f"FROM {path.parent.stem}.nope").err
    assert "quote the query" in run("sql", warehouse, "SELECT", "1").err


def test_instants_are_in_utc(run: Run) -> None:
    done = run("sql", "SELECT TIMESTAMPTZ '2024-05-14 12:00:00' AS t", "--format", "csv")

    assert done.lines == ["t", "2024-05-14T12:00:00.000000Z"]


def test_csv_tells_null_from_empty_text(run: Run) -> None:
    done = run("sql", """SELECT '' AS empty, NULL AS "null", 'a,"b"' AS quoted""", "--format", "csv")

    assert done.lines == ["empty,null,quoted", '"",,"a,""b"""']


def test_a_table_is_cut_and_a_limit_is_kept(run: Run) -> None:
    assert run("sql", "FROM range(1000)").lines[-1].startswith("20 rows shown, there are more")
    assert run("sql", "FROM range(1000)", "--limit", 30).lines[-1] == "30 rows"
    assert run("sql", "FROM range(20)").lines[-1] == "20 rows"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("SELECT 1 FROM nowhere",), "nowhere does not exist"),
        (("SELEC",), "syntax error"),
        (("FROM paimon_scan('nowhere')",), "the folder does not exist"),
        (("FROM query",), "query does not exist"),  # a variable of the program, no table
        (("SELECT 1", "--table", "people"), "write NAME=PATH"),
        (("SELECT 1", "--table", "a=x", "--table", "a=y"), "given twice"),
        (("SELECT INTERVAL 1 MONTH",), "cast the column to VARCHAR"),
    ],
)
def test_errors_are_one_message(run: Run, args: tuple[str, ...], said: str) -> None:
    done = run("sql", *args)

    assert done.code == 1
    assert said in done.err
    assert "UDF" not in done.err
