"""``morrow read``: output formats, exit codes, and output files that are complete or absent."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from tests.cli.conftest import Run

Table = Callable[[str], Path]


def test_a_table_shows_the_first_rows_and_says_that_there_are_more(run: Run, table: Table) -> None:
    done = run("read", table("pk_big"), "--columns", "name,id")

    assert done.code == 0
    assert done.lines[0].split() == ["name", "id"]
    assert done.lines[-1] == "20 rows shown, there are more: give --limit, or another --format"
    assert len(done.lines) == 2 + 20 + 1


def test_a_table_with_a_limit_is_complete(run: Run, table: Table) -> None:
    done = run("read", table("pk_big"), "--limit", 2)

    assert done.lines[-1] == "2 rows"


def test_json_is_one_object_a_line(run: Run, table: Table) -> None:
    done = run("read", table("pk_big"), "--filter", "id < 30 AND n > 20", "--format", "json", "--columns", "id,name,n")

    expected = morrow.open(table("pk_big")).scan(["id", "name", "n"], "id < 30 AND n > 20").to_arrow().to_pylist()
    assert [json.loads(line) for line in done.lines] == expected
    assert expected


def test_csv_has_a_header_and_exact_values(run: Run, table: Table) -> None:
    done = run("read", table("append_partitioned"), "--format", "csv", "--columns", "id,v,dt")

    rows = morrow.open(table("append_partitioned")).scan(["id", "v", "dt"]).to_arrow().to_pylist()
    header, *cells = csv.reader(done.out.splitlines(keepends=True))
    assert header == ["id", "v", "dt"]
    assert cells == [["" if value is None else str(value) for value in row.values()] for row in rows]


def test_arrow_is_a_stream_of_exactly_the_rows(run: Run, table: Table) -> None:
    done = run("read", table("dv_pk"), "--format", "arrow")

    assert pa.ipc.open_stream(done.data).read_all() == morrow.open(table("dv_pk")).scan().to_arrow()


@pytest.mark.parametrize(
    ("option", "value", "scan"),
    [
        ("--snapshot", "3", {"snapshot": 3}),
        ("--tag", "first", {"tag": "first"}),
        ("--as-of", "first", {"tag": "first"}),
        ("--as-of", "3", {"snapshot": 3}),
        ("--timestamp", "2100-01-01", {}),
    ],
)
def test_a_state_of_the_past(run: Run, table: Table, option: str, value: str, scan: dict[str, object]) -> None:
    done = run("read", table("tags_basic"), option, value, "--format", "json", "--columns", "k1")

    rows = morrow.open(table("tags_basic")).scan(["k1"], **scan).to_arrow().to_pylist()
    assert sorted(json.loads(line)["k1"] for line in done.lines) == sorted(row["k1"] for row in rows)


def test_a_name_with_a_comma_is_quoted_as_in_csv(run: Run, table: Table) -> None:
    done = run("read", table("pk_big"), "--columns", '"id", "no, such"')

    assert done.code == 1
    assert "there is no column 'no, such'" in done.err


@pytest.mark.parametrize("form", ["table", "json", "csv", "arrow"])
def test_a_table_without_rows(run: Run, table: Table, form: str) -> None:
    done = run("read", table("empty_table"), "--format", form)

    assert done.code == 0


def test_a_file_takes_its_name_when_it_is_complete(run: Run, table: Table, tmp_path: Path) -> None:
    done = run("read", table("pk_big"), "--format", "arrow", "--output", tmp_path / "people.arrow")

    assert (done.code, done.data) == (0, b"")
    assert pa.ipc.open_stream(tmp_path / "people.arrow").read_all().num_rows == 16_862
    assert [path.name for path in tmp_path.iterdir()] == ["people.arrow"]


def test_a_read_that_breaks_off_leaves_no_file(run: Run, table: Table, tmp_path: Path) -> None:
    broken = tmp_path / "t"
    shutil.copytree(table("pk_big"), broken)
    last = json.loads(run("files", broken, "--format", "json").lines[-1])["path"]
    (broken / last).write_bytes(b"PAR1 no more PAR1")
    morrow.clear_caches()

    done = run("read", broken, "--format", "csv", "--output", tmp_path / "rows.csv")

    assert done.code == 1
    assert "bucket" in done.err
    assert "restore the file" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("nowhere",), 1, "does not exist"),
        (("TABLE", "--columns", "nope"), 1, "there is no column 'nope'"),
        (("TABLE", "--columns", ""), 1, "an empty list of names"),
        (("TABLE", "--snapshot", "99"), 1, "there is no snapshot 99"),
        (("TABLE", "--snapshot", "1", "--tag", "x"), 1, "give only one of"),
        (("TABLE", "--output", "no/such/folder/file"), 1, "--output"),
        (("TABLE", "--limit", "many"), 2, "--limit"),
        (("TABLE", "--format", "xml"), 2, "--format"),
        ((), 2, "TABLE"),
    ],
)
def test_errors_are_one_message_and_an_exit_code(
    run: Run, table: Table, args: tuple[str, ...], code: int, said: str
) -> None:
    done = run("read", *(table("pk_big") if arg == "TABLE" else arg for arg in args))

    assert done.code == code
    assert said in done.err
    assert "Traceback" not in done.err


def test_merged_values_are_read_like_any_others(run: Run, table: Table) -> None:
    done = run("read", table("doc_pu_sequence_group"), "--snapshot", "3", "--format", "csv")

    assert (done.code, done.out.split()) == (0, ["k,a,b,g_1,c,d,g_2", "1,2,2,2,3,3,3"])


@pytest.mark.parametrize("form", ["json", "csv", "arrow"])
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(table: Table, form: str) -> None:
    command = [sys.executable, "-m", "morrow", "read", str(table("pk_big")), "--format", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_the_command_line_starts_without_heavy_libraries() -> None:
    script = "import sys, morrow.cli.app; print(sorted({'polars', 'pyarrow', 'duckdb', 'numpy'} & sys.modules.keys()))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"


def test_every_way_of_travel(run: Run, table: Table) -> None:
    path = table("pk_big")
    newest = morrow.open(path).snapshots()[-1].id

    for option, value in (("--snapshot", newest), ("--as-of", newest), ("--timestamp", "2100-01-01")):
        assert run("read", path, option, value, "--limit", 1).lines[-1] == "1 row"
    assert (
        "no snapshot has a watermark at or after 9000000000000000" in run("read", path, "--watermark", 9 * 10**15).err
    )
