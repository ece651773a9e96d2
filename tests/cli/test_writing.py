"""``morrow append``, ``overwrite``, ``delete`` and ``compact``."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

import morrow
from tests.cli.conftest import Run
from tests.support.written import new_table, rows


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Make an empty table with a primary key, partitioned by day."""
    schema = "id BIGINT, d DATE, m DECIMAL(10, 2), s STRING"
    return new_table(tmp_path, schema, keys=["id", "d"], by=["d"], options={"bucket": 1, "write-only": True})


DAY = dt.date(2024, 5, 14)
ROWS = [(1, DAY, Decimal("1.50"), "a"), (2, DAY, None, None)]
CSV = "s,id,d,m\na,1,2024-05-14,1.5\n,2,2024-05-14,\n"
JSON = '{"id": 1, "d": "2024-05-14", "m": "1.50", "s": "a"}\n{"id": 2, "d": "2024-05-14", "m": null, "s": null}\n'


@pytest.mark.parametrize(("name", "text"), [("rows.csv", CSV), ("rows.jsonl", JSON)])
def test_append_text(run: Run, table: morrow.Table, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    done = run("append", table.path, tmp_path / name)
    assert (done.code, done.out) == (0, "snapshot 1 (APPEND): 2 stored rows\n")
    assert rows(table) == ROWS


def test_append_a_column_of_kinds(run: Run, table: morrow.Table, tmp_path: Path) -> None:
    table.append(pl.DataFrame(ROWS, table.schema.names, orient="row"))
    file = tmp_path / "changes.parquet"
    pl.DataFrame({"op": ["-D"], "id": [1], "d": [DAY], "m": [Decimal(0)], "s": [""]}).write_parquet(file)
    assert run("append", table.path, file, "--kinds", "op").code == 0
    assert rows(table) == ROWS[1:]


def test_overwrite(run: Run, table: morrow.Table, tmp_path: Path) -> None:
    table.append({"id": [8, 9], "d": [DAY, DAY + dt.timedelta(1)], "m": [None] * 2, "s": [None] * 2})
    (tmp_path / "rows.csv").write_text(CSV)
    run("overwrite", "--yes", table.path, tmp_path / "rows.csv")
    assert [row[0] for row in rows(table)] == [1, 2, 9]
    run("overwrite", "--yes", table.path, tmp_path / "rows.csv", "--whole")
    assert rows(table) == ROWS


def test_delete(run: Run, table: morrow.Table) -> None:
    table.append(pl.DataFrame(ROWS, table.schema.names, orient="row"))
    run("delete", "--yes", table.path, "--filter", "m > 1")
    assert rows(table) == ROWS[1:]
    assert run("delete", "--yes", table.path, "-w", "id = 99").out == "nothing to do\n"


def test_compact(run: Run, table: morrow.Table) -> None:
    for row in ROWS:
        table.append(pl.DataFrame([row], table.schema.names, orient="row"))
    assert run("compact", table.path, "--full", "-w", "d < '2024-01-01'").out == "nothing to do\n"
    assert run("compact", table.path, "--full").out == "snapshot 3 (COMPACT): 2 stored rows\n"
    assert rows(table) == ROWS


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("rows.csv", "id,s\n1,x\n", "the data lacks the primary key column d"),
        ("rows.csv", "id,d,m,s\nx,2024-05-14,1,a\n", "x"),
        ("rows.xls", "", "the ending says no format"),
        (None, "", "there is no such file"),
    ],
)
def test_what_is_refused(
    run: Run, table: morrow.Table, tmp_path: Path, name: str | None, text: str, problem: str
) -> None:
    if name:
        (tmp_path / name).write_text(text)
    done = run("append", table.path, tmp_path / (name or "missing.csv"))
    assert done.code == 1
    assert problem in done.err
    assert list(table.snapshots()) == []
