"""``morrow append``, ``overwrite``, ``import``, ``export``, ``delete`` and ``compact``."""

from __future__ import annotations

import datetime as dt
import zipfile
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import morrow
from morrow.cli.app import app
from tests.cli.conftest import Run
from tests.support.command_line import CliRunner
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
        (None, "", "there is no such file or folder"),
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


# Imports


MICROS = pa.timestamp("us")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.csv",
            "zip,id,price,day,at,ok\n01730,12345678901234567891,1.10,2024-01-01,2024-01-01 10:00:00Z,True\n",
            {"zip": "01730", "id": Decimal("12345678901234567891"), "price": Decimal("1.10"), "ok": True}
            | {"day": dt.date(2024, 1, 1), "at": dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC)},
        ),
        (
            "a.json",
            '{"id": 123456789012345678901234567890, "zip": "01730", "day": "2024-01-01"}\n',
            {"id": Decimal("123456789012345678901234567890"), "zip": "01730", "day": dt.date(2024, 1, 1)},
        ),
    ],
)
def test_rows_are_those_of_the_file(run: Run, tmp_path: Path, name: str, text: str, expected: dict[str, Any]) -> None:
    (tmp_path / name).write_text(text)
    assert run("import", tmp_path / "warehouse/db.db/t", tmp_path / name).code == 0
    assert morrow.open(tmp_path / "warehouse/db.db/t").to_arrow().to_pylist() == [expected]


def test_a_file_that_cannot_be_read_leaves_no_table(run: Run, tmp_path: Path) -> None:
    from pyarrow import orc

    orc.write_table(pa.table({"at": pa.array([dt.datetime(9999, 12, 31)], MICROS)}), tmp_path / "a.orc")
    done = run("import", tmp_path / "warehouse/db.db/t", tmp_path / "a.orc")
    assert done.code == 1
    assert "the data cannot be read: ORC timestamp" in done.err
    assert not (tmp_path / "warehouse/db.db/t").exists()


def test_parquet_is_imported_with_its_timestamps(run: Run, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    end = dt.datetime(9999, 12, 31)
    pq.write_table(
        pa.table({"at": pa.array([end], MICROS)}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True
    )
    for command in ("import", "append"):
        assert run(command, tmp_path / "warehouse/db.db/t", tmp_path / "a.parquet").code == 0
    assert morrow.open(tmp_path / "warehouse/db.db/t").to_arrow()["at"].to_pylist() == [end] * 2
    done = run("import", tmp_path / "warehouse/db.db/t", tmp_path / "a.parquet")
    assert done.out == "nothing to do: 1 file imported before\n"


SEMICOLONS = "zip;n\n01730;1\n00501;NA\n"
FORM = ("--delimiter", ";", "--null", "NA")


def test_import_with_the_form_of_csv(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "wh/db.db/t"
    (tmp_path / "a.csv").write_text(SEMICOLONS)
    assert "give the delimiter, such as ';'" in run("import", place, tmp_path / "a.csv").err
    keyed = ("--primary-key", "zip,n", "--partition-by", "n", "--set", "bucket=1", "--comment", "codes")
    done = run("import", place, tmp_path / "*.csv", "--delimiter", ";", *keyed, "--dry-run")
    assert done.lines[1:6] == ["CREATE TABLE `db`.`t` (", "  `zip` STRING,", "  `n` STRING,", *done.lines[4:6]]
    assert not place.exists()
    assert run("import", place, tmp_path / "*.csv", *FORM, "-k", "zip").out == "snapshot 1 (APPEND): 2 stored rows\n"
    table = morrow.open(place)
    assert (table.primary_keys, rows(table)) == (("zip",), [("00501", None), ("01730", 1)])
    assert "with other partition columns" in run("append", place, tmp_path / "a.csv", *FORM, "--partition-by", "n").err
    assert run("append", place, tmp_path / "a.csv", *FORM, "-k", "zip").code == 0
    (tmp_path / "a.csv").write_text(SEMICOLONS + "9;9\n")
    changed = run("import", place, tmp_path / "a.csv", *FORM)
    assert "was imported into this table before, and has changed since" in changed.err


def test_rows_from_standard_input(tmp_path: Path) -> None:
    def run_with(text: str, *words: object) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words], input=text, catch_exceptions=False)
        return result.stdout + result.stderr

    place = tmp_path / "wh/db.db/t"
    assert "1 stored rows" in run_with("zip,n\n01,1\n", "import", place, "-", "--format", "csv")
    assert "2 stored rows" in run_with('{"zip": "02", "n": 2}\n', "append", place, "-")
    more = '{"zip": "03", "more": "007"}\n'
    assert "columns that the table does not have: 'more'" in run_with(more, "append", place, "-")
    assert "3 stored rows" in run_with(more, "append", place, "-", "--schema-mode", "merge")
    assert "the ending says no format" in run_with("zip,n\n01,1\n", "append", place, "-")
    assert rows(morrow.open(place)) == [("01", 1, None), ("02", 2, None), ("03", None, "007")]


def test_export_to_excel_names_the_command_that_installs_it(run: Run, table: morrow.Table, tmp_path: Path) -> None:
    if find_spec("xlsxwriter") is None:
        assert "run: pip install 'morrow[excel]'" in run("export", table.path, tmp_path / "a.xlsx").err
        assert not (tmp_path / "a.xlsx").exists()
    else:
        table.append(pl.DataFrame(ROWS, table.schema.names, orient="row"))
        assert run("export", table.path, tmp_path / "a.xlsx").err == f"2 rows written to {tmp_path}/a.xlsx\n"
        assert zipfile.is_zipfile(tmp_path / "a.xlsx")


def test_export_of_nulls_above_members_that_are_not_null(run: Run, tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "id INT, r ROW<a INT NOT NULL>, v VARIANT")
    table.append([{"id": 1, "r": None, "v": None}, {"id": 2, "r": {"a": 1}, "v": "{}"}])
    assert run("export", table.path, tmp_path / "a.parquet").err == f"2 rows written to {tmp_path}/a.parquet\n"
    assert pq.read_table(tmp_path / "a.parquet")["r"].to_pylist() == [None, {"a": 1}]
