"""``morrow sql``: DuckDB over Paimon tables."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import morrow
from morrow.cli.app import app
from morrow.cli.queries import STATEMENTS, Completer, run_shell
from tests.cli.conftest import Run
from tests.support.command_line import CliRunner
from tests.support.terminals import on_terminal

Table = Callable[[str], Path]
SHOWN = [words.removeprefix("SHOW ").lower() for words in STATEMENTS if words.startswith("SHOW ")]


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
        (("FROM query",), "query does not exist"),  # a variable of the program, not a table
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


def test_statements_come_from_standard_input(table: Table) -> None:
    warehouse = table("pk_big").parent.parent
    text = "SELECT 1\n  AS x;\n;\nSELECT count(*) > 0 AS y FROM db.t\n"

    done = CliRunner().invoke(app, ["--warehouse", str(warehouse), "sql", "-f", "csv"], input=text)
    alone = CliRunner().invoke(app, ["sql", str(warehouse), "-f", "csv"], input=text)
    wrong = CliRunner().invoke(app, ["sql"], input="SELECT no;\nSELECT 1;\n")

    assert (done.exit_code, done.stdout) == (0, "x\n1\ny\ntrue\n")
    assert (alone.exit_code, alone.stdout) == (0, done.stdout)
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "no" in wrong.stderr
    assert CliRunner().invoke(app, ["sql"], input="exit\nSELECT no;\n").exit_code == 0


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("SELECT 1 AS x; SELECT 2 AS x;\n", ["x", "1", "x", "2"]),
        ("SELECT 'a;\nb' AS x; -- done\n", ["x", '"a;', 'b"']),
        ("SELECT 1 -- one;\n + 1 AS x;", ["x", "2"]),
        ('SELECT $$a;\nb;$$ AS "x;"\n;', ["x;", '"a;', 'b;"']),
        ("/* none; */\n-- here;\n;;\n", []),
    ],
)
def test_a_semicolon_ends_a_statement_where_no_string_or_comment_holds_it(text: str, lines: list[str]) -> None:
    done = CliRunner().invoke(app, ["sql", "-f", "csv"], input=text)
    assert (done.exit_code, done.stdout.splitlines(), done.stderr) == (0, lines, "")


def test_an_open_string_at_the_end_of_the_input_is_an_error() -> None:
    done = CliRunner().invoke(app, ["sql"], input="SELECT 1;\nSELECT 'a;\n")
    assert done.exit_code == 1
    assert "unterminated" in done.stderr


def test_a_script_says_in_which_line_the_statement_begins_that_failed() -> None:
    done = CliRunner().invoke(
        app, ["sql", "-f", "csv"], input="-- head\n\nSELECT 1 AS x;\nSELECT\n no;\nSELECT 2 AS x;\n"
    )

    assert (done.exit_code, done.stdout) == (1, "x\n1\n")
    assert "morrow: the statement of line 4: " in done.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-- a comment\nSELECT 41 + 1 AS x;\n", ["x", "42"]),
        ("/* a comment;\nof two lines */\n.exit\nSELECT 1;\n", []),
        ("SELECT 1 AS x; /* open;\nand closed */\nSELECT 2 AS x;\n", ["x", "1", "x", "2"]),
        (".schema db.t\n", ["col_name,data_type,comment", "id,INT,", "n,STRING,"]),
        (".tables\n", ["db.t"]),
    ],
)
def test_what_is_typed_on_a_terminal(tmp_path: Path, text: str, shown: list[str]) -> None:
    morrow.Catalog(tmp_path / "lake").create_table("db.t", "id INT, n STRING")
    typed = f"{text}.exit\n".encode()
    done = on_terminal("sql", tmp_path / "lake", "-f", "csv", typed=typed, XDG_STATE_HOME=str(tmp_path), TERM="dumb")

    written = [line for line in done.shown.splitlines() if not line.startswith(("morrow> ", "   ...> "))]
    assert (done.code, [line for line in written if line not in ("", ".exit", *text.splitlines())]) == (0, shown), done


def test_the_end_of_a_terminal_runs_nothing_that_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter(["SELECT 1;", "DELETE FROM db.t"])
    ran: list[str] = []

    def typed(_: str) -> str:
        for line in lines:
            return line
        raise EOFError  # Ctrl-D

    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("morrow.cli.queries.begin_editing", lambda *_: None)
    run_shell(ran.append, None, [])

    assert ran == ["SELECT 1"]


def test_what_has_failed_on_a_line_of_a_terminal_stops_what_follows_there(tmp_path: Path) -> None:
    typed = b"SELECT 1 AS a; SELECT no; SELECT 2 AS a;\nSELECT 3 AS a;\n.exit\n"
    done = on_terminal("sql", "-f", "csv", typed=typed, XDG_STATE_HOME=str(tmp_path), TERM="dumb")

    lines = done.shown.splitlines()
    assert ("1" in lines, "2" in lines, "3" in lines) == (True, False, True)


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("COPY (SELECT 1 AS a) TO '{}/a.csv'", ["rows_copied", "1"]),
        ("CREATE TABLE t AS SELECT 1 AS a; UPDATE t SET a = 2", ["rows_updated", "1"]),
        ("CREATE TABLE t (a INT)", ["done", '"created in memory, until the command ends"']),
        ('SELECT 1 AS "Count"', ["Count", "1"]),
    ],
)
def test_statements_without_a_warehouse_say_what_they_did(
    run: Run, tmp_path: Path, query: str, lines: list[str]
) -> None:
    assert run("sql", query.format(tmp_path), "-f", "csv").lines == lines


def test_words_that_are_no_sql_are_told_apart(tmp_path: Path) -> None:
    done = on_terminal("sql", typed=b".tabels\n.schema\n.help\n.exit\n", XDG_STATE_HOME=str(tmp_path), TERM="dumb")

    assert "there is no .tabels; did you mean '.tables'? " in done.err
    assert ".schema takes TABLE: write .schema TABLE" in done.err
    assert ".tables [DATABASE]  All tables, as db.table." in done.shown


def test_what_is_completed(tmp_path: Path) -> None:
    lake = morrow.Catalog(tmp_path)
    table = lake.create_table("shop.orders", 'amount INT, "odd name" INT')
    table.append({"amount": [1], "odd name": [2]})
    table.tags.create("opening")
    offers = Completer(lake, ["people"]).offers

    assert offers("sel", "sel") == ["select"]
    assert offers("sh", "FROM sh") == ["shop.", *(f"show {of}" for of in SHOWN)]
    assert offers("shop.o", "FROM shop.o") == ["shop.orders"]
    assert offers("am", "SELECT am FROM shop.orders") == ["amount"]
    assert offers("o.", "SELECT o. FROM shop.orders o") == ["o.amount", 'o."odd name"']
    assert offers("'o", "FROM shop.orders VERSION AS OF 'o") == ["'opening'"]
    assert offers(".sch", ".sch") == [".schema"]
    assert offers("peo", "FROM peo") == ["people"]
    lake.drop_table("shop.orders")
    assert offers("am", "SELECT am FROM shop.orders") == []


def test_explain_is_text(tmp_path: Path) -> None:
    lake = morrow.Catalog(tmp_path)
    lake.create_table("shop.orders", "id INT, amount INT")

    done = CliRunner().invoke(app, ["sql", str(tmp_path), "EXPLAIN DELETE FROM shop.orders WHERE id = 1"])

    assert done.stdout.splitlines()[0].startswith("DELETE shop.orders: the rows are read by")
    assert done.stdout.splitlines()[1].startswith("Scan of ")


def test_on_a_terminal_an_error_does_not_end_the_talk(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"SELECT no;\nSELECT 42 AS answer;\nexit\n")
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"}

    command = [sys.executable, "-m", "morrow", "sql", "-f", "csv"]
    done = subprocess.run(
        command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True, env=environment, check=False
    )

    written = os.read(ours, 65_536)
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, b"answer\r\n42\r\n" in written) == (0, True), (done.stderr, written)
    assert done.stderr.count("morrow: ") == 1
    assert "leaked" not in done.stderr  # DuckDB's binding leaks objects that remain at the end of the process
    assert "SELECT 42 AS answer;" in (tmp_path / "morrow" / "history").read_text()
