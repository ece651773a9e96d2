"""``morrow system``, and system tables at the end of a path."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Run

Table = Callable[[str], Path]


def test_the_names(run: Run, table: Table) -> None:
    names = [line.split()[0] for line in run("system", table("pk_big")).lines[2:-1]]
    assert {"snapshots", "files", "audit_log", "ro", "all_tables"} <= set(names)


def test_rows_narrowed(run: Run, table: Table) -> None:
    done = run(
        "system",
        table("tags_basic"),
        "snapshots",
        "-c",
        "snapshot_id,commit_kind",
        "-w",
        "snapshot_id > 4",
        "-f",
        "csv",
    )
    assert done.lines == ["snapshot_id,commit_kind", "5,COMPACT", "6,APPEND"]


def test_a_table_shows_the_first_rows(run: Run, table: Table) -> None:
    assert run("system", table("pk_big"), "audit_log").lines[-1].startswith("20 rows shown, there are more")


def test_time_travel_and_branches(run: Run, table: Table) -> None:
    first = run("system", table("pk_big"), "files", "--snapshot", "1", "-c", "bucket", "-f", "json").lines
    newest = run("system", table("pk_big"), "files", "-c", "bucket", "-f", "json").lines
    assert 0 < len(first) < len(newest)
    main = run("system", table("branches"), "schemas", "-c", "schema_id", "-f", "csv").lines
    assert run("system", f"{table('branches')}$branch_main$schemas", "-c", "schema_id", "-f", "csv").lines == main


def test_a_path_may_name_one(run: Run, table: Table) -> None:
    rows = run("read", f"{table('system_tables_pk')}$audit_log", "-w", "rowkind = '-D'", "-n", "2", "-f", "json").lines
    assert [json.loads(row)["rowkind"] for row in rows] == ["-D", "-D"]
    assert run("system", f"{table('tags_basic')}$tags", "-c", "tag_name", "-f", "csv").lines[0] == "tag_name"


def test_a_warehouse(run: Run, table: Table) -> None:
    done = run("system", table("pk_big").parents[1], "all_tables", "-c", "database_name,table_name", "-f", "csv")
    assert done.lines == ["database_name,table_name", "db,t"]


def test_what_is_wrong_is_said(run: Run, table: Table) -> None:
    for arguments, message in (
        (("system", table("pk_big"), "snapshot"), "did you mean 'snapshots'"),
        (("system", f"{table('pk_big')}$tags", "files"), "names the system table tags already"),
        (("explain", f"{table('pk_big')}$tags"), "is a system table: this command is for tables"),
        (("read", f"{table('pk_big')}$branch_a", "--branch", "b"), "names the branch 'a' already"),
        (("system", table("pk_big").parents[1], "all_tables", "--snapshot", "1"), "have no past"),
    ):
        done = run(*arguments)
        assert done.code == 1
        assert message in done.err
