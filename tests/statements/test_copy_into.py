"""COPY INTO of `Catalog.sql`: files are loaded once, and rows are exported."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine import errors
from morrow.engine.errors import CommitConflict, InvalidArgument, Unsupported
from tests.support.copy_cases import CASES, CSV, ID_NAME, REFUSED, Case


@pytest.fixture
def catalog(tmp_path: Path) -> morrow.Catalog:
    made = morrow.Catalog(tmp_path / "lake")
    made.create_database("db")
    return made


def rows(catalog: morrow.Catalog, statement: str) -> list[tuple[Any, ...]]:
    return sorted(catalog.sql(statement, database="db").fetchall(), key=repr)


def copy(catalog: morrow.Catalog, folder: Path, end: str, into: str = "") -> list[tuple[Any, ...]]:
    return rows(catalog, f"COPY INTO t {into} FROM '{folder}' {end}")


def plain(value: object) -> object:
    return str(value) if isinstance(value, (Decimal, dt.date)) else value


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_loads(catalog: morrow.Catalog, tmp_path: Path, case: Case) -> None:
    case.write(tmp_path / "in")
    rows(catalog, f"CREATE TABLE t ({case.columns})")
    report = copy(catalog, tmp_path / "in", case.format, case.into)
    if case.loads is not None:
        assert [row[:5] for row in report] == case.loads
    for name, _, _, _, wrong, error in report:
        assert (error is not None) == (wrong > 0)
        assert case.errors.get(name, "") in (error or "")
    assert [tuple(map(plain, row)) for row in rows(catalog, "SELECT * FROM t")] == case.rows


@pytest.mark.parametrize("end", REFUSED)
def test_refuses_wrong_statements(catalog: morrow.Catalog, tmp_path: Path, end: str) -> None:
    rows(catalog, "CREATE TABLE t (id INT)")
    kind, message = REFUSED[end]
    with pytest.raises(getattr(errors, kind), match=message.replace("(", "[(]")):
        copy(catalog, tmp_path, end)


def test_refuses_wrong_tables_and_files(catalog: morrow.Catalog, tmp_path: Path) -> None:
    rows(catalog, "CREATE TABLE t (id INT NOT NULL, tags ARRAY<STRING>)")
    (tmp_path / "a").write_text("abc,x\n")
    for into, kind, message in (
        ("(id, id)", InvalidArgument, "Duplicate columns"),
        ("(nope)", InvalidArgument, "does not exist in target table"),
        ("(tags)", InvalidArgument, "Non-nullable column 'id'"),
        ("", Unsupported, "into 'tags'"),
        ("(id)", InvalidArgument, "a: 1 of 1 rows cannot be loaded; Malformed record: abc,x; nothing was loaded"),
    ):
        with pytest.raises(kind, match=message.replace("(", "[(]")):
            copy(catalog, tmp_path / "a", CSV, into)
    with pytest.raises(InvalidArgument, match="no such file or folder"):
        copy(catalog, tmp_path / "nope", CSV, "(id)")
    with pytest.raises(Unsupported, match="no local folder"):
        rows(catalog, f"COPY INTO t (id) FROM 's3://bucket/folder' {CSV}")
    with pytest.raises(InvalidArgument, match="for a query over files write INSERT INTO"):
        rows(catalog, f"COPY INTO t FROM (SELECT 1) {CSV}")
    assert rows(catalog, "SELECT * FROM t") == []


def test_loads_each_file_once(catalog: morrow.Catalog, tmp_path: Path) -> None:
    rows(catalog, f"CREATE TABLE t ({ID_NAME})")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a").write_text("1,ann\n")
    assert copy(catalog, folder, CSV)[0][1] == "LOADED"
    (folder / "b").write_text("2,bob\n")
    assert [row[:2] for row in copy(catalog, folder, CSV)] == [("a", "SKIPPED"), ("b", "LOADED")]
    assert [row[1] for row in copy(catalog, folder, CSV + " FORCE = TRUE")] == ["LOADED", "LOADED"]
    assert rows(catalog, "SELECT count(*) FROM t") == [(4,)]
    (folder / "a").write_text("1,anna\n")  # a changed file is a new one
    assert [row[1] for row in copy(catalog, folder, CSV)] == ["LOADED", "SKIPPED"]
    rows(catalog, "TRUNCATE TABLE t")
    assert [row[1] for row in copy(catalog, folder, CSV)] == ["SKIPPED", "SKIPPED"]  # as in Java


def test_shares_the_record_of_imports(catalog: morrow.Catalog, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("id,name\n1,ann\n")
    catalog.import_table(tmp_path / "in", "db.t")
    assert copy(catalog, tmp_path / "in", "FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 1)")[0][1] == "SKIPPED"
    (tmp_path / "in/b.csv").write_text("id,name\n2,bob\n")
    assert copy(catalog, tmp_path / "in", "FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 1)")[0][:2] == ("a.csv", "SKIPPED")
    catalog.import_table(tmp_path / "in", "db.t")
    assert rows(catalog, "SELECT * FROM t") == [(1, "ann"), (2, "bob")]


def test_reads_and_writes_the_history_of_java(catalog: morrow.Catalog, tmp_path: Path) -> None:
    rows(catalog, f"CREATE TABLE t ({ID_NAME})")
    file = tmp_path / "a"
    file.write_text("1,ann\n")
    copy(catalog, file, CSV)
    folder = Path(catalog.table("db.t").path) / "copy-into/history"
    (load,) = folder.iterdir()
    assert load.name.startswith("load-") and len(load.name.split("-")[1]) == 16
    told = json.loads(load.read_text())
    assert (told["filePath"], told["fileSize"], told["rowsLoaded"], told["snapshotId"]) == (f"file:{file}", 6, 1, 1)
    assert told["lastModified"] == file.stat().st_mtime_ns // 1_000_000
    rows(catalog, "CREATE TABLE u AS SELECT * FROM t WHERE false")
    shutil.copytree(folder, Path(catalog.table("db.u").path) / "copy-into/history")
    assert rows(catalog, f"COPY INTO u FROM '{file}' {CSV}") == [("a", "SKIPPED", 0, 0, 0, None)]
    rows(catalog, "CREATE TABLE v AS SELECT * FROM t WHERE false")
    damaged = Path(catalog.table("db.v").path) / "copy-into/history" / load.name
    damaged.parent.mkdir(parents=True)
    damaged.write_text("damaged")
    assert rows(catalog, f"COPY INTO v FROM '{file}' {CSV}")[0][1] == "LOADED"


def test_a_crash_before_the_history_loads_nothing_twice(
    catalog: morrow.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(catalog, f"CREATE TABLE t ({ID_NAME})")
    (tmp_path / "a").write_text("1,ann\n")
    with monkeypatch.context() as patch:
        patch.setattr("morrow.statements.copy_into.write_history", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            copy(catalog, tmp_path / "a", CSV)
    assert copy(catalog, tmp_path / "a", CSV)[0][1] == "SKIPPED"
    assert rows(catalog, "SELECT * FROM t") == [(1, "ann")]


def test_two_loads_at_once_load_a_file_once(
    catalog: morrow.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from morrow.statements import copy_into

    rows(catalog, f"CREATE TABLE t ({ID_NAME})")
    (tmp_path / "a").write_text("1,ann\n")
    append, others = copy_into.append_parts, []

    def overtaken(*given: Any, **more: Any) -> Any:
        if not others:
            others.append(1)
            copy(catalog, tmp_path / "a", CSV)
        return append(*given, **more)

    monkeypatch.setattr(copy_into, "append_parts", overtaken)
    assert copy(catalog, tmp_path / "a", CSV) == [("a", "SKIPPED", 0, 0, 0, None)]
    assert rows(catalog, "SELECT * FROM t") == [(1, "ann")]
    assert issubclass(CommitConflict, errors.MorrowError)


def test_exports(catalog: morrow.Catalog, tmp_path: Path) -> None:
    rows(catalog, f"CREATE TABLE t ({ID_NAME})")
    rows(catalog, "INSERT INTO t VALUES (1, 'ann'), (2, 'b,b')")
    out = tmp_path / "out"

    def export(source: str, end: str) -> tuple[Any, ...]:
        (row,) = rows(catalog, f"COPY INTO '{out}' FROM {source} {end}")
        return row

    assert export("t", "FILE_FORMAT = (TYPE = CSV, HEADER = TRUE)") == (str(out), 1, 2)
    (file,) = out.iterdir()
    assert file.name.startswith("part-") and file.suffix == ".csv"
    assert file.read_text() == 'id,name\n1,ann\n2,"b,b"\n'
    with pytest.raises(InvalidArgument, match="path already exists; give OVERWRITE = TRUE"):
        export("t", CSV)
    assert export("(SELECT id FROM t WHERE id IN (1, 3))", CSV + " OVERWRITE = TRUE")[2] == 1
    assert [each.read_text() for each in out.iterdir()] == ["1\n"]
    assert (
        export("(VALUES (1, 'a'), (2, 'b'))", "FILE_FORMAT = (TYPE = JSON, COMPRESSION = GZIP) OVERWRITE = TRUE")[2]
        == 2
    )
    assert next(out.iterdir()).name.endswith(".json.gz")
    assert export("db.t", "FILE_FORMAT = (TYPE = PARQUET, COMPRESSION = GZIP) OVERWRITE = TRUE")[2] == 2
    rows(catalog, "CREATE TABLE u AS SELECT * FROM t WHERE false")
    rows(catalog, f"COPY INTO u FROM '{out}' FILE_FORMAT = (TYPE = PARQUET)")
    assert rows(catalog, "SELECT * FROM u") == [(1, "ann"), (2, "b,b")]
    (out / "mine.txt").write_text("x")
    with pytest.raises(InvalidArgument, match=r"would remove 'mine\.txt'"):
        export("t", CSV + " OVERWRITE = TRUE")
    assert (out / "mine.txt").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("()", "requires a non-empty query"),
        ("(DROP TABLE t)", "only supports read-only queries"),
        ("(INSERT INTO t VALUES (3))", "only supports read-only queries"),
        ("(FROM t INSERT INTO t SELECT *)", "only supports read-only queries"),
        ("(WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a)", "only supports read-only queries"),
    ],
)
def test_refuses_exports_of_changes(catalog: morrow.Catalog, tmp_path: Path, source: str, message: str) -> None:
    rows(catalog, "CREATE TABLE t (id INT)")
    with pytest.raises(InvalidArgument, match=message):
        rows(catalog, f"COPY INTO '{tmp_path / 'out'}' FROM {source} {CSV}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["SKIP_HEADER = 1", "NULL_IF = ('x')", "MULTI_LINE = TRUE"])
def test_refuses_options_of_imports_in_exports(catalog: morrow.Catalog, tmp_path: Path, option: str) -> None:
    with pytest.raises(InvalidArgument, match="Unsupported FILE_FORMAT options for export"):
        rows(catalog, f"COPY INTO '{tmp_path / 'out'}' FROM t FILE_FORMAT = (TYPE = CSV, {option})")
