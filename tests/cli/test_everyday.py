"""Everyday use of the command line: tables of a warehouse are created, filled, compared, changed and dropped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import morrow
from tests.cli.conftest import Run
from tests.support.terminals import on_terminal

ROWS = 'id,name,n\n1,a,10\n2,"b, c",20\n3,ü,\n'


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a CSV file with three rows, and set a warehouse without tables."""
    monkeypatch.setenv("MORROW_WAREHOUSE", str(tmp_path / "wh"))
    monkeypatch.setenv("MORROW_PROFILES", str(tmp_path / "none.toml"))
    (tmp_path / "rows.csv").write_text(ROWS)
    return tmp_path / "rows.csv"


@pytest.mark.usefixtures("rows")
def test_tables_are_made_changed_and_dropped(run: Run, tmp_path: Path) -> None:
    made = run("create", "db.it's", 'id BIGINT, "a=b" STRING', "-k", "id", "--set", "bucket=1", "--comment", "x")
    assert made.code == 0, made.err
    assert run("alter", "db.it's", "--add", "c=d=DECIMAL(5, 2)", "--drop", "id", "--yes").code == 1  # all or nothing
    assert run("alter", "db.it's", "--add", "c=d=DECIMAL(5, 2)", "--drop", "a=b", "--yes").out == "schema 1\n"
    assert run("alter", "db.it's").code == 1
    assert run("alter", "db.it's", "--rename", "c").code == 1
    assert run("schema", "db.it's", "-f", "csv").lines[1:] == [
        "0,id,BIGINT NOT NULL,primary,,",
        '2,c=d,"DECIMAL(5, 2)",,,',
    ]
    assert run("create", "empty").out == "database empty\n"
    assert run("create", "empty", "--comment", "x").code == 1
    assert run("rename", "db.it's", "db.new").code == 0
    assert run("ls", "-f", "csv").lines == ["database,table", "db,new", "empty,"]
    assert run("ls", "db", "-f", "csv").lines == ["database,table", "db,new"]
    assert run("ls", "no").code == 1
    assert run("ls", tmp_path / "nowhere").code == 1
    assert run("drop", "db.new", "--dry-run").out.startswith("would drop db.new in ")
    assert run("drop", "--yes", "db").code == 1  # it contains a table
    assert run("drop", tmp_path / "wh/db.db/new", "--yes").out == "table db.new dropped\n"
    assert run("drop", "--yes", "db.new").code == 1
    assert run("drop", "--yes", "db.new", "--if-exists").out == "nothing to do\n"
    assert run("drop", "db", "--yes").out == "database db dropped\n"


def test_rows_go_in_change_are_compared_and_go_out(run: Run, rows: Path, tmp_path: Path) -> None:
    assert run("import", "db.t", rows, "--primary-key", "id").code == 0
    assert run("import", "db.t", rows, "-k", "name").code == 1
    assert run("update", "db.t", "--set", "n=n + 1", "-w", "id = 1", "--dry-run").out == "would update 1 row\n"
    assert run("update", "db.t", "--set", "n=n + 1", "-w", "id = 1").code == 0
    assert run("delete", "db.t", "-w", "id = 2", "--dry-run").out == "would delete 1 row of t\n"
    assert run("count", "db.t").out == "3\n"
    assert run("delete", "--yes", "db.t", "-w", "id = 2").code == 0
    table = morrow.Catalog(tmp_path / "wh").table("db.t")
    table.tags.create("first", 1)
    table.branches.create("dev", tag="first")
    expected = ["rowkind,id,name,n", "-U,1,a,10", "+U,1,a,11", '-D,2,"b, c",20']
    for old in ("1", "first", "dev"):
        done = run("diff", "db.t", old, "main" if old == "dev" else "3", "-f", "csv")
        assert done.lines == expected
        assert done.err == "1 row -D\n1 row changed: n 1\n"
    assert run("diff", "db.t", "main", "dev", "-f", "csv", "-w", "id = 2").lines[1:] == ['+I,2,"b, c",20']
    assert run("diff", "db.t", "first", "dev").err == "no difference\n"
    assert "neither a snapshot id nor a tag or branch; the tags and" in run("diff", "db.t", "first", "none").err
    assert "did you mean 'first'? the tags and branches are first, main, dev" in run("diff", "db.t", "frist", "1").err
    assert run("tail", "db.t", "-n", 2, "--format", "csv").lines[-1] == "-D,2,,"  # the row as it was written
    assert run("head", "db.t", "-n", 1, "-f", "csv").lines == ["id,name,n", "1,a,11"]

    for ending in ("parquet", "arrow", "csv", "json"):
        file = tmp_path / f"out.{ending}"
        said = ("--output", file, "--snapshot", 1) if ending == "csv" else (file, "--as-of", "first")
        assert run("export", "db.t", *said).err == f"3 rows written to {file}\n"
        assert run("import", f"db.from_{ending}", file).code == 0
        assert run("count", f"db.from_{ending}").out == "3\n"
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 3
    assert run("export", "db.t", tmp_path / "out.xls").code == 1
    assert "name one file" in run("export", "db.t").err
    (tmp_path / "nothing.csv").write_text("id,v\n1,\n")
    assert "no value of v; make the table first: morrow create" in run("import", "db.m", tmp_path / "nothing.csv").err
    (tmp_path / "pairs.json").write_text('{"m": [["k", 1]]}\n')  # the form in which maps are exported
    assert "make the table first: morrow create" in run("import", "db.m", tmp_path / "pairs.json").err
    assert run("upsert", "db.t", rows).code == 0
    assert "primary key" in run("upsert", "db.from_csv", rows).err
    assert run("rollback", "db.t", "--tag", "first", "--dry-run").out.startswith("would roll t back to tag first")
    assert run("purge", "db.t", "--dry-run").out.startswith("would empty t for good, with 4 snapshots, 1 tag")
    assert run("count", "db.t").out == "3\n"


@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 1, 1), (b"y\n", 0, 0)])
def test_a_terminal_is_asked_before_a_table_is_dropped(rows: Path, answer: bytes, code: int, left: int) -> None:
    warehouse = morrow.Catalog(rows.parent / "wh")
    warehouse.create_table("db.t", schema="id INT")
    done = on_terminal("drop", "db.t", typed=answer)

    assert (done.code, len(warehouse.tables("db"))) == (code, left), done


def test_tail_follows_commits_and_changes_of_columns_until_ctrl_c(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = morrow.Catalog(tmp_path).create_table("db.log", schema="k INT, v INT")

    def commit(**row: int) -> None:
        morrow.open(log.path).append({name: [value] for name, value in row.items()})

    def grow() -> None:
        log.alter.set_type("v", "BIGINT").add_column("w", "INT")
        commit(k=3, v=1 << 40, w=7)

    def interrupt() -> None:
        raise KeyboardInterrupt

    commit(k=1, v=5)
    steps: Iterator[Callable[[], None]] = iter([lambda: commit(k=2, v=6), grow, lambda: commit(k=4), interrupt])
    clock = SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=lambda _: next(steps)())
    monkeypatch.setattr("morrow.scans.changes.time", clock)
    done = run("tail", log.path, "-f", "--format", "csv")
    assert (done.code, done.err) == (0, "")
    assert done.lines == ["rowkind,k,v", "+I,1,5", "+I,2,6", "rowkind,k,v,w", "+I,3,1099511627776,7", "+I,4,,"]


def test_tail_says_that_what_it_has_shown_was_rolled_back(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = morrow.Catalog(tmp_path).create_table("db.log", schema="k INT")
    log.append({"k": [1]})
    log.append({"k": [2]})
    steps: Iterator[Callable[[], object]] = iter([lambda: log.rollback(1), lambda: log.append({"k": [3]})])
    clock = SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=lambda _: next(steps)())
    monkeypatch.setattr("morrow.scans.changes.time", clock)
    done = run("tail", log.path, "-f", "--format", "json")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "the snapshot 2 up to which the stream has read is not there any more" in done.err
