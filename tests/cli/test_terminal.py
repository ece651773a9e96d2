"""On a terminal: progress on standard error, tables as wide as the screen, and no binary data."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.cli import terminal
from morrow.engine import progress as engine_progress
from morrow.engine.io.local import disable_fsync
from tests.cli.conftest import Run
from tests.support.terminals import on_terminal
from tests.support.written import data_files, new_table

Table = Callable[[str], Path]


def test_arrow_is_not_written_to_a_terminal(table: Table) -> None:
    done = on_terminal("read", table("pk_big"), "--format", "arrow")

    assert done.code == 2
    assert "not for a terminal" in done.err


def test_no_progress_where_standard_error_is_no_terminal(table: Table) -> None:
    done = on_terminal("read", table("pk_big"), "--limit", 3)

    assert (done.code, done.err) == (0, "")


def test_progress_counts_rows_and_passes_the_batches_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = [pa.record_batch({"x": range(1000)}), pa.record_batch({"x": range(500)})]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(engine_progress, "MIN_SHOWN_SECONDS", 0)
    monkeypatch.setattr(engine_progress, "REFRESH_SECONDS", 0.01)
    monkeypatch.delenv(engine_progress.SWITCH, raising=False)

    seen, told = [], ""
    for batch in terminal.count_batches(batches):
        seen.append(batch)
        until = time.monotonic() + (0 if len(seen) < 2 else 20)  # importing the display takes a while
        while "1,500 rows" not in told and time.monotonic() < until:
            time.sleep(0.02)
            told += capsys.readouterr().err
    assert seen == batches
    assert "1,500 rows" in told
    capsys.readouterr()
    assert list(terminal.count_batches(batches, shown=False)) == batches
    assert capsys.readouterr().err == ""


# Commands that delete: --dry-run shows the effect, a terminal asks for confirmation, and --yes does it. Without a
# terminal and --yes they are refused.

DELETING = {
    ("delete", "-w", "id = 1"): "delete 1 row of t",
    ("overwrite", "rows.csv"): "put the rows of rows.csv in place of the whole table, t",
    ("alter", "--drop", "v"): "drop 1 column of t: v",
    ("alter", "--drop", "v", "--add", "n=INT", "--type", "id=BIGINT", "--set", "bucket=2"): (
        "drop 1 column of t: v, make id BIGINT, add n INT, set bucket=2"
    ),
    ("tag", "one", "--delete"): "delete the tag one",
    ("branch", "dev", "--delete"): "delete the branch dev",
    ("branch", "dev", "--fast-forward"): "make main what the branch dev is, without what was committed to main since",
    ("rollback", "--snapshot", "1"): "",
    ("expire", "--retain-max", "1", "--retain-min", "1"): "remove 2 snapshots, with the files that only they need",
    ("purge",): "empty t for good, with 3 snapshots",
}


@pytest.fixture
def small_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> morrow.Table:
    with disable_fsync():
        made = new_table(tmp_path, "id INT, v STRING")
        for number in (1, 2, 3):
            made.append([{"id": number}])
        made.branches.create("dev", snapshot=2)
        made.tags.create("one", 1)
    (tmp_path / "rows.csv").write_text("id,v\n7,x\n")
    monkeypatch.chdir(tmp_path)
    return made


def state(table: morrow.Table) -> object:
    return data_files(Path(table.path)), table.schemas(), table.tags.names, table.branches.list()


def test_dry_runs_and_refusals_change_nothing(
    run: Run, small_table: morrow.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(small_table)
    for (command, *given), told in DELETING.items():
        done = run(command, small_table.path, *given, "--dry-run")
        assert done.code == 0
        assert done.out.startswith(f"would {told}"), done.out
        assert state(small_table) == before, command
    for command, *given in (("tag", "new"), ("tag", "one", "--rename", "two"), ("branch", "dev", "--rename", "x")):
        assert run(command, small_table.path, *given, "--dry-run").out.startswith("would ")
        assert state(small_table) == before

    class Terminal:
        @staticmethod
        def isatty() -> bool:
            return True

    asked: list[str] = []
    monkeypatch.setattr(terminal.typer, "confirm", lambda text, **_: asked.append(text) or False)
    monkeypatch.setattr(terminal.sys, "stdin", Terminal())
    assert [terminal.confirm("drop it", yes=True, dry_run=False), asked] == [True, []]
    for deed in DELETING.values():
        with pytest.raises(terminal.typer.Exit):
            terminal.confirm(deed, yes=False, dry_run=False)
    assert asked == [f"{deed}?" for deed in DELETING.values()]


def test_refused_where_no_terminal_can_be_asked(run: Run, small_table: morrow.Table, tmp_path: Path) -> None:
    before = state(small_table)
    for (command, *given), told in DELETING.items():
        done = run(command, small_table.path, *given)
        assert (done.code, done.out) == (1, "")
        assert f"this would {told.partition(', make')[0]}" in done.err  # questions name only what is lost
        assert "not a terminal" in done.err
        assert "--yes" in done.err
        assert state(small_table) == before, command
    warehouse = tmp_path / "shop"
    morrow.Catalog(warehouse).sql("CREATE DATABASE db; CREATE TABLE db.t AS SELECT 1 AS id; CREATE DATABASE other")
    for words in (
        *(("drop", "db.t"), ("drop", "db", "--cascade"), ("drop", "other"), ("sql", "DROP TABLE db.t")),
        *(("sql", "DELETE FROM db.t"), ("sql", "TRUNCATE TABLE db.t"), ("sql", "CALL sys.purge_files('db.t')")),
        ("sql", "CALL sys.erase('db.t', 'id = 1')"),
        *(("sql", "CREATE OR REPLACE TABLE db.t AS SELECT 2 AS id"), ("orphans", "db.t", "--delete")),
    ):
        done = run("--warehouse", warehouse, *words)
        assert done.code == 1, words
        assert "--yes" in done.err
    assert morrow.Catalog(warehouse).sql("SELECT id FROM db.t").fetchall() == [(1,)]
    assert morrow.Catalog(warehouse).databases() == ["db", "other"]


def test_what_is_idle_needs_no_answer(run: Run, small_table: morrow.Table) -> None:
    assert run("expire", small_table.path).out == "nothing to do\n"


def test_done_with_yes(run: Run, small_table: morrow.Table) -> None:
    assert run("tag", small_table.path, "one", "--delete", "--yes").out == "tag one deleted\n"
    assert run("expire", small_table.path, "-y", "--retain-max", 1, "--retain-min", 1).out == "2 snapshots removed\n"
    assert run("alter", small_table.path, "--drop", "v", "--yes").out == "schema 1\n"
    assert run("history", small_table.path, "-f", "csv").lines[1].split(",")[:1] == ["3"]


@pytest.fixture
def _logger() -> Iterator[None]:
    """Restore Morrow's logger, which the options of a command configure."""
    log = logging.getLogger("morrow")
    handlers, level = list(log.handlers), log.level
    yield
    log.handlers[:], log.level = handlers, level
    log.setLevel(level)


LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO morrow\.\S+: .+")


@pytest.mark.usefixtures("_logger")
@pytest.mark.parametrize("before", [True, False])
def test_log_levels(run: Run, small_table: morrow.Table, before: bool) -> None:
    given = ("--log-level", "info")
    words = ("delete", small_table.path, "-w", "id = 1", "--yes")
    done = run(*given, *words) if before else run(*words, *given)
    assert done.code == 0
    lines = done.err.splitlines()
    assert lines
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert run("delete", "--log-level", "loud", small_table.path, "-w", "id = 2").code == 2


@pytest.mark.usefixtures("_logger")
def test_quiet(run: Run, small_table: morrow.Table) -> None:
    assert run("expire", small_table.path).err == "3 snapshots left: retain_min keeps 10\n"
    assert run("expire", small_table.path, "--quiet").err == ""
    assert run("-q", "expire", small_table.path).out == "nothing to do\n"
    assert run("-q", "count", f"{small_table.path}/nope").err != ""  # errors are shown


def test_an_interrupted_question_is_a_no(small_table: morrow.Table) -> None:
    """Ctrl-C works although Polars, which searched the rows, has set a handler for it."""
    small_table.scan(filter="id = 1").to_polars()
    done = on_terminal("delete", small_table.path, "-w", "id = 1", asked=b"\x03")
    assert done.code == 1
    assert "delete 1 row of t? [y/N]" in done.err
    assert small_table.count() == 3


def test_statements_that_delete_are_asked_about(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = morrow.Catalog(tmp_path / "wh")
    catalog.sql("CREATE DATABASE db; CREATE TABLE db.t AS SELECT 1 AS id")
    home, asked = str(tmp_path / "wh"), list[str]()

    def may(deed: str, *, yes: bool, dry_run: bool) -> bool:
        asked.append(deed)
        if not yes:
            raise terminal.typer.Exit(1)
        return not dry_run

    monkeypatch.setattr(terminal, "confirm", may)
    for text in ("DELETE FROM db.t WHERE id = 1", "SELECT 1; DROP TABLE db.t", "CALL sys.rollback('db.t', 1)"):
        assert run("sql", home, text).code == 1
    assert asked == ["delete some rows of db.t", "drop the table db.t", "call rollback, which deletes or replaces"]
    assert run("sql", home, "INSERT INTO db.t VALUES (2)").code == 0
    assert run("sql", home, "DELETE FROM db.t WHERE id = 1", "--yes").code == 0
    assert catalog.sql("SELECT id FROM db.t").fetchall() == [(2,)]
