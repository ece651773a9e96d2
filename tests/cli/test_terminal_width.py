"""Tables in a real terminal of 60, 80, 100 and 200 columns: each column is shown completely or named, never lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

import morrow
from tests.support.terminals import on_terminal

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SNAPSHOT = ("id", "kind", "time", "delta_records", "total_records", "changelog_records", "schema_id")
KINDS = ("APPEND", "APPEND", "COMPACT", "APPEND", "APPEND", "APPEND", "APPEND")
LAST = ("watermark", "commit_identifier", "commit_user")
Table = Callable[[str], Path]


def screen(*args: object, columns: int, lines: int = 50, pager: str = "cat", **environment: str) -> list[str]:
    """Run a command on a terminal of this size, and return its lines without colours."""
    environment = {"TERM": "xterm-256color", **environment}
    done = on_terminal(*args, columns=columns, lines=lines, PAGER=pager, **environment)
    assert (done.code, done.err) == (0, "")
    return [COLOURS.sub("", line) for line in done.shown.splitlines()]


@pytest.mark.parametrize(("columns", "shown"), [(60, 4), (80, 5), (100, 6), (200, 10)])
def test_snapshots_show_ids_first_and_name_what_does_not_fit(table: Table, columns: int, shown: int) -> None:
    lines = screen("snapshots", table("pk_big"), columns=columns)

    names = [*SNAPSHOT, *LAST]
    assert lines[0].split() == names[:shown]
    assert max(map(cell_len, lines)) <= columns
    assert [line.split()[:2] for line in lines[2:9]] == [[str(7 - i), KINDS[i]] for i in range(7)]
    told = " ".join(" ".join(lines[9:]).split())
    rest = f"+{10 - shown} columns: {', '.join(names[shown:])} --vertical shows all of them " if shown < 10 else ""
    assert told == f"{rest}7 rows"


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_what_a_table_is_fits(tmp_path: Path, columns: int) -> None:
    comment = "what was ordered in all shops of the land, " * 4
    morrow.Catalog(tmp_path).create_table("db.t", "id BIGINT, v STRING", comment=comment).append({"id": [1]})

    lines = screen("describe", tmp_path / "db.db" / "t", columns=columns)

    head = next(i for i, line in enumerate(lines) if line.startswith("comment"))
    keys = next(i for i, line in enumerate(lines) if line.startswith("keys"))
    assert " ".join(line[11:] for line in lines[head:keys]) == comment
    assert max(map(cell_len, lines[head:])) <= columns


def test_a_dumb_terminal_is_as_wide_as_it_is(table: Table) -> None:
    lines = screen("snapshots", table("pk_big"), columns=200, TERM="dumb")

    wide = screen("snapshots", table("pk_big"), columns=200)
    assert [line.rstrip() for line in lines] == [line.rstrip() for line in wide]
    assert "…" not in "".join(lines)


def test_vertical_rows_lose_nothing_and_the_pager_gets_what_is_longer_than_the_screen(table: Table) -> None:
    lines = screen("snapshots", table("pk_big"), "--vertical", columns=60, lines=5, pager="sed s/^/|/")

    assert all(line.startswith("|") for line in lines)
    assert lines[0] == "|row 1"
    assert [line[1:].split()[0] for line in lines[1:11]] == [*SNAPSHOT, *LAST]
    assert len(lines) == 7 * 11 + 1

    for env, options in (({"NO_PAGER": "1"}, []), ({}, ["--no-pager"])):
        unpaged = screen(
            "snapshots", table("pk_big"), "--vertical", *options, columns=60, lines=5, pager="false", **env
        )
        assert unpaged == [line[1:] for line in lines]


@pytest.mark.parametrize("args", [("schema",), ("snapshots", "--vertical"), ("schema", "--help")])
def test_no_color_leaves_no_bold_either(table: Table, args: tuple[str, ...]) -> None:
    command, *options = args
    environment = {"columns": 100, "PAGER": "cat", "TERM": "xterm-256color"}
    plain = on_terminal(command, table("pk_big"), *options, NO_COLOR="1", **environment).shown
    bright = on_terminal(command, table("pk_big"), *options, **environment).shown
    assert "\x1b[" not in plain
    assert "\x1b[1m" in bright
    assert plain.split() == COLOURS.sub("", bright).split()


@pytest.mark.parametrize("columns", [20, 60, 100])
def test_the_help_cuts_no_name(columns: int) -> None:
    lines = screen("export", "--help", columns=columns)

    assert "…" not in "".join(lines)
    assert "--timestamp" in "".join(lines)


def test_a_hundred_columns_of_hostile_names_and_wide_letters(tmp_path: Path) -> None:
    names = ["k", "a\nb", "é `\"'$%", "漢" * 30, *(f"c{i}" for i in range(96))]
    made = morrow.Catalog(tmp_path).create_table("db.t", schema=dict.fromkeys(names, "STRING"))
    made.append([{name: f"{name}😀" for name in names} | {"k": None}, {"k": "x" * 500}])

    lines = screen("read", made.path, columns=80)
    assert max(map(cell_len, lines)) <= 80
    assert "+9" in " ".join(lines) and "c95" in " ".join(lines)
    assert lines[-1] == "2 rows"

    one = screen("read", made.path, "-n", 1, columns=80)  # a single row that is too wide is shown as a record
    assert len(one) == 102
    assert one[1].split() == ["k", "null"]
