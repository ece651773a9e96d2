"""What ``paimon_scan`` leaves behind in DuckDB, and in which order things may happen."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import morrow
from morrow.readers.execution.duckdb_relation import MOST_HANDOFFS, relation
from tests.support.table_factory import TableFactory


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Table of id 1 to 3."""
    table = TableFactory(tmp_path / "t", [("id", "INT")], ["id"])
    table.write_file(pa.table({"id": [1, 2, 3]}))
    table.commit()
    return str(table.path)


def other(path: str, name: str, count: int) -> str:
    table = TableFactory(Path(path).parent / name, [("id", "INT")], ["id"])
    table.write_file(pa.table({"id": range(count)}))
    table.commit()
    return str(table.path)


def test_a_relation_over_what_is_handed_over(path: str) -> None:
    with duckdb.connect() as connection:
        assert relation(morrow.open(path).dataset(), connection).filter("id > 1").count("*").fetchall() == [(2,)]
        assert relation(pa.table({"x": [1]}), connection).fetchall() == [(1,)]


def test_many_queries_leave_a_bounded_number_of_databases(path: str) -> None:
    with duckdb.connect() as connection:
        morrow.duckdb.install(connection)
        for _ in range(300):
            connection.execute("SELECT count(*) FROM paimon_scan(?)", [path])
            assert connection.fetchall() == [(3,)]
        kept = connection.sql("FROM duckdb_databases() WHERE database_name LIKE 'morrow%'").fetchall()
    assert len(kept) <= MOST_HANDOFFS + 1


def test_several_queries_in_one_transaction(path: str) -> None:
    second = other(path, "u", 5)
    with duckdb.connect() as connection:
        morrow.duckdb.install(connection)
        connection.execute("BEGIN")
        connection.execute(f"CREATE TABLE copied AS FROM paimon_scan('{path}')")
        connection.execute(f"INSERT INTO copied FROM paimon_scan('{second}')")
        assert connection.sql(f"SELECT count(*) FROM paimon_scan('{path}')").fetchall() == [(3,)]
        connection.execute("COMMIT")
        assert connection.sql("SELECT count(*) FROM copied").fetchall() == [(8,)]


def test_cursors_in_several_threads(path: str) -> None:
    paths = [other(path, f"t{n}", n + 1) for n in range(4)]
    with duckdb.connect() as connection:
        morrow.duckdb.install(connection)

        def count(n: int) -> int:
            with connection.cursor() as cursor:
                found = cursor.execute("SELECT count(*) FROM paimon_scan(?)", [paths[n % 4]]).fetchone()
            assert found is not None
            return int(found[0])

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(count, range(40))) == [n % 4 + 1 for n in range(40)]


def test_the_current_database_of_the_caller_stays(path: str) -> None:
    with duckdb.connect() as connection:
        morrow.duckdb.install(connection)
        connection.execute("CREATE TABLE mine (x INT)")
        connection.execute(f"FROM paimon_scan('{path}')").fetchall()
        assert connection.sql("SELECT current_database(), current_schema()").fetchall() == [("memory", "main")]
        assert connection.sql("SELECT count(*) FROM mine").fetchall() == [(0,)]


def test_installing_twice(path: str) -> None:
    with duckdb.connect() as connection:
        for _ in range(2):
            morrow.duckdb.install(connection)
            assert connection.sql(f"SELECT count(*) FROM paimon_scan('{path}')").fetchall() == [(3,)]


def test_two_connections_do_not_meet(path: str) -> None:
    with duckdb.connect() as first, duckdb.connect() as second:
        morrow.duckdb.install(first)
        with pytest.raises(duckdb.CatalogException, match="paimon_scan"):
            second.sql(f"FROM paimon_scan('{path}')")


# --- a database file: the macro is temporary, the file stays as it was ---


def test_a_database_file_does_not_keep_the_macro(tmp_path: Path, path: str) -> None:
    file = str(tmp_path / "x.duckdb")
    with duckdb.connect(file) as connection:
        morrow.duckdb.install(connection)
        connection.execute(f"CREATE VIEW orders AS FROM paimon_scan('{path}')")
        assert connection.sql("SELECT count(*) FROM orders").fetchall() == [(3,)]
    with duckdb.connect(file) as connection:
        with pytest.raises(duckdb.CatalogException, match="paimon_scan"):
            connection.sql("FROM orders").fetchall()
        morrow.duckdb.install(connection)
        assert connection.sql("SELECT count(*) FROM orders").fetchall() == [(3,)]


def test_a_database_file_may_be_read_only(tmp_path: Path, path: str) -> None:
    file = str(tmp_path / "x.duckdb")
    duckdb.connect(file).close()
    with duckdb.connect(file, read_only=True) as connection:
        morrow.duckdb.install(connection)
        assert connection.sql(f"SELECT count(*) FROM paimon_scan('{path}')").fetchall() == [(3,)]


def test_each_cursor_of_a_database_file_installs_its_own(tmp_path: Path, path: str) -> None:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        morrow.duckdb.install(connection)
        with connection.cursor() as cursor:
            morrow.duckdb.install(cursor)
            assert cursor.sql(f"SELECT count(*) FROM paimon_scan('{path}')").fetchall() == [(3,)]


def test_a_closed_database_file_can_be_opened_by_another_process(tmp_path: Path, path: str) -> None:
    file = str(tmp_path / "x.duckdb")
    with duckdb.connect(file) as connection:
        morrow.duckdb.install(connection)
        connection.sql(f"FROM paimon_scan('{path}')").fetchall()
    assert run(f"import duckdb; duckdb.connect({file!r}).execute('CREATE TABLE t (x INT)')") == ""


# --- the end of the process ---


@pytest.mark.parametrize("ending", ["con.close()", "del con", "pass"], ids=["closed", "deleted", "left open"])
def test_the_process_ends_without_a_word(path: str, ending: str) -> None:
    code = f"""
        import duckdb, morrow
        con = duckdb.connect(":memory:")
        morrow.duckdb.install(con)
        assert con.sql("SELECT count(*) FROM paimon_scan({path!r})").fetchall() == [(3,)]
        {ending}
    """
    assert run(code.replace('"SELECT', "'''SELECT").replace(')")', ")''')")) == ""


def run(code: str) -> str:
    """Runs `code` in a new Python, which must end well; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
