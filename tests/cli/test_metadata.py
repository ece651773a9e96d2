"""``morrow describe``, ``snapshots``, ``files`` and ``explain`` show metadata without reading rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import morrow
from morrow.engine.redaction import escape_to_line
from tests.cli.conftest import Run

Table = Callable[[str], Path]


def test_describe_for_eyes(run: Run, table: Table) -> None:
    done = run("describe", table("pk_big"))

    words = [line.split() for line in done.lines]
    assert ["keys", "id"] in words
    assert ["0", "id", "BIGINT", "NOT", "NULL", "primary"] in words
    assert ["bucket", "4"] in words


def test_describe_as_json_is_one_object(run: Run, table: Table) -> None:
    told = json.loads(run("describe", table("tags_basic"), "--format", "json").out)

    assert [column["name"] for column in told["columns"]] == ["k0", "k1", "v0", "v1", "v2", "v3", "v4"]
    assert told["primary_keys"] == ["k0", "k1"]
    assert told["snapshot"]["id"] == 6
    assert (told["tags"], told["branches"]) == (4, 0)


def test_describe_hides_credentials(run: Run, table: Table, tmp_path: Path) -> None:
    copy = tmp_path / "t"
    shutil.copytree(table("empty_table"), copy)
    schema = copy / "schema" / "schema-0"
    node = json.loads(schema.read_text())
    node["options"] |= {"fs.s3a.secret.key": "hunter2", "fs.oss.accessKeySecret": "hunter2", "s3.access-key": "hunter2"}
    schema.write_text(json.dumps(node))

    for form in ("table", "json", "csv"):
        done = run("describe", copy, "--format", form)
        assert done.code == 0
        assert "hunter2" not in done.out


def test_describe_a_table_without_snapshots(run: Run, table: Table) -> None:
    assert "nothing was committed" in run("describe", table("empty_table")).out
    assert json.loads(run("describe", table("empty_table"), "--format", "json").out)["snapshot"] is None


def test_snapshots_newest_first(run: Run, table: Table) -> None:
    told = [json.loads(line) for line in run("snapshots", table("pk_big"), "--format", "json", "--limit", 2).lines]

    assert [(s["id"], s["kind"], s["total_records"]) for s in told] == [(7, "APPEND", 28_192), (6, "APPEND", 21_653)]


def test_files_are_those_of_the_plan(run: Run, table: Table) -> None:
    told = [json.loads(line) for line in run("files", table("dv_pk"), "--format", "json").lines]

    assert sum(file["rows"] - file["deleted_rows"] for file in told) == morrow.open(table("dv_pk")).scan().count()
    for file in told:
        assert (table("dv_pk") / file["path"]).stat().st_size == file["size"]


def test_files_name_their_partition_and_a_filter_prunes_them(run: Run, table: Table) -> None:
    told = run("files", table("append_partitioned"), "--filter", "region = 'eu'", "--format", "json").lines

    assert told
    assert {json.loads(line)["partition"]["region"] for line in told} == {"eu"}


def test_explain_for_eyes_and_as_data(run: Run, table: Table) -> None:
    args = ("explain", table("pk_big"), "--filter", "id < 100", "--columns", "id", "--snapshot", 5)
    text, told = run(*args).out, json.loads(run(*args, "--format", "json").out)

    assert "pushed     id < 100" in text
    assert (told["snapshot"], told["columns"], told["pushed"]) == (5, ["id"], ["id < 100"])
    assert told["files"] == 4


@pytest.mark.parametrize("command", ["describe", "snapshots", "files", "explain", "du"])
@pytest.mark.parametrize("form", ["table", "json", "csv", "arrow"])
def test_every_command_takes_every_form(run: Run, table: Table, command: str, form: str) -> None:
    done = run(command, table("dv_append_partitioned_compacted"), "--format", form)

    assert done.code == 0
    assert done.data


@pytest.mark.parametrize("command", ["describe", "snapshots", "files", "explain"])
def test_a_missing_table(run: Run, command: str) -> None:
    done = run(command, "nowhere")

    assert (done.code, done.out) == (1, "")
    assert "nowhere: the folder does not exist" in done.err


def test_du_sums_the_bytes_by_what_keeps_them(run: Run, table: Table) -> None:
    path = table("dv_append_partitioned_compacted")
    told = [json.loads(line) for line in run("du", path, "--format", "json").out.splitlines()]

    assert {"live", "snapshots"} & {each["kept_by"] for each in told}
    assert sum(each["bytes"] for each in told) == morrow.open(path).storage()["bytes"].sum()


def test_what_would_steer_a_terminal_is_escaped() -> None:
    assert escape_to_line("a\x1b[31mb\nc") == "a\\x1b[31mb\\nc"
    assert escape_to_line("naïve 東") == "naïve 東"


# ``morrow system``, and system tables at the end of a path.


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
