"""The JDBC catalog over SQLite and a real PostgreSQL: the rows that Java makes, locks and secrets."""

from __future__ import annotations

import os
import pickle
import re
import sqlite3
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import accumulate, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import morrow
from morrow.engine.catalog import jdbc, jdbc_database, settings
from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.catalog.jdbc import JdbcCatalog, Locks
from morrow.engine.catalog.jdbc_database import LOCKS, CatalogRows, Database, open_database
from morrow.engine.catalog.protocol import Catalog
from morrow.engine.catalog.settings import Settings
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    InvalidArgument,
    MorrowError,
    NotFound,
    StorageError,
    TableNotFound,
    Unsupported,
)
from morrow.engine.io.local import LocalStore
from morrow.testing import CatalogTests
from tests.support.fake_mysql import make_module
from tests.support.postgres import PostgresUnavailable, postgres

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SCHEMA = {"schema": "id INT NOT NULL, v STRING", "primary_keys": "id"}


@pytest.fixture
def options(tmp_path: Path) -> dict[str, str]:
    return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db", "warehouse": f"{tmp_path}/warehouse"}


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Yield the address of a PostgreSQL server, or skip the test and say what is missing."""
    try:
        with postgres() as uri:
            yield uri
    except PostgresUnavailable as reason:
        pytest.skip(str(reason))


class TestSqlite(CatalogTests):
    @pytest.fixture
    def catalog(self, options: dict[str, str]) -> Catalog:
        return settings.open_catalog(Settings.of(options))


class TestPostgres(CatalogTests):
    __test__ = LONG  # differences from SQLite are tested below in every run

    @pytest.fixture
    def catalog(self, options: dict[str, str], server: str) -> Catalog:
        given = {**options, "uri": server, "catalog-key": uuid.uuid4().hex, "lock.enabled": "true"}
        return settings.open_catalog(Settings.of(given))


MYSQL = "jdbc:mysql://db.example.com:3307/paimon"


@pytest.fixture
def mysql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = make_module(tmp_path / "mysql.db")
    monkeypatch.setitem(sys.modules, "pymysql", module)
    return module


class TestMysql(CatalogTests):
    """MySQL's statements over a module like PyMySQL, since no server runs here."""

    @pytest.fixture
    def catalog(self, options: dict[str, str], mysql: Any) -> Catalog:  # noqa: ARG002
        return settings.open_catalog(Settings.of({**options, "uri": MYSQL, "lock.enabled": "true"}))


def test_an_address_of_mysql(options: dict[str, str], mysql: Any) -> None:
    uri = f"{MYSQL}?useUnicode=true&characterEncoding=utf-8&sslMode=REQUIRED&connectTimeout=5000&user=me"
    catalog = morrow.open_catalog({**options, "uri": uri, "jdbc.password": "hush"})
    catalog.create_database("db", properties={"a": 1, "b": 2})
    catalog.alter_database("db", {"b": 3, "c": 4})
    assert catalog.database("db").properties == {"a": "1", "b": "3", "c": "4"}
    assert mysql.calls == [
        {
            "host": "db.example.com",
            "port": 3307,
            "database": "paimon",
            "user": "me",
            "password": "hush",
            "connect_timeout": 5,
            "ssl": {"check_hostname": False},
            "autocommit": True,
            "charset": "utf8mb4",
            "client_flag": 2,
        }
    ]
    mysql.connections[0].lose()
    assert catalog.databases() == ["db"]  # a query connects again
    assert "hush" not in repr(catalog) + str(pickle.dumps(catalog._catalog))


@pytest.mark.parametrize(
    ("uri", "error", "message"),
    [
        ("jdbc:mysql://localhost", InvalidArgument, "names no database"),
        (f"{MYSQL}?sslMode=VERIFY_CA", Unsupported, "sslMode=VERIFY_CA"),
        (f"{MYSQL}?connectTimeout=soon", InvalidArgument, "milliseconds"),
        (f"{MYSQL}?nope=1", InvalidArgument, "unknown properties of MySQL: nope; known are connectTimeout"),
        ("jdbc:mysql://localhost:x/db", InvalidArgument, "the address"),
        ("jdbc:oracle:thin:@x", Unsupported, "jdbc:mysql://HOST:PORT/DATABASE"),
    ],
)
@pytest.mark.usefixtures("mysql")
def test_wrong_addresses_of_mysql(options: dict[str, str], uri: str, error: type[MorrowError], message: str) -> None:
    with pytest.raises(error, match=message):
        morrow.open_catalog({**options, "uri": uri})


class Unconditional(LocalStore):
    """A remote store without conditional puts, so that locks of this machine do not help."""

    is_local = False

    def create(self, path: str, data: bytes) -> bool:  # noqa: ARG002  # as all stores
        raise Unsupported("committing without conditional put", where=path)

    def move_folder(self, source: str, target: str) -> None:  # noqa: ARG002
        raise Unsupported("renaming in an object store", where=source)


class TestLockedStore(CatalogTests):
    """Commits under the lock of the catalog, on a store that cannot create objects atomically."""

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        database = open_database(Settings.of({"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}))
        rows = CatalogRows(database, "jdbc")
        rows.prepare(255)
        files = FilesystemCatalog(Unconditional(), f"{tmp_path}/warehouse")
        return JdbcCatalog(files, rows, Locks(database, "jdbc", 60, 0.05, 255), keeps_properties=True)


def rows(options: dict[str, str], table: str) -> list[Any]:
    with sqlite3.connect(options["uri"].removeprefix("jdbc:sqlite:")) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4").fetchall()


def test_the_rows_are_those_of_java(options: dict[str, str], tmp_path: Path) -> None:
    catalog = morrow.open_catalog({**options, "table-default.bucket": 2, "catalog-key": "mine"})
    catalog.create_table("db.t", **SCHEMA)
    catalog.table("db.t").alter.set_options({"snapshot.num-retained.max": 50})
    catalog.rename_table("db.t", "db.ü 'x\" %")

    assert rows({**options}, "paimon_database_properties") == [
        ("mine", "db", "exists", "true"),
        ("mine", "db", "location", f"{tmp_path}/warehouse/db.db"),
    ]
    assert rows(options, "paimon_table_properties") == [
        ("mine", "db", "ü 'x\" %", key, value)
        for key, value in (
            ("bucket", "2"),
            ("bucket-key", "id"),
            ("primary-key", "id"),
            ("snapshot.num-retained.max", "50"),
        )
    ]
    assert (tmp_path / "warehouse/db.db/ü 'x\" %/schema/schema-1").exists()
    catalog.drop_database("db", cascade=True)
    assert [rows(options, name)[:1] for name in ("paimon_table_properties", "paimon_database_properties")] == [[], []]
    assert not (tmp_path / "warehouse/db.db").exists()
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        assert connection.execute("SELECT count(*) FROM paimon_tables").fetchall() == [(0,)]


def test_properties_of_databases_are_rows_of_java(options: dict[str, str], tmp_path: Path) -> None:
    catalog = morrow.open_catalog(options)
    catalog.create_database("db", comment="all", properties={"owner": "ann", "a": "b"})
    catalog.alter_database("db", {"a": "c", "d": 1}, comment="")
    assert rows(options, "paimon_database_properties") == [
        ("jdbc", "db", key, value)
        for key, value in (
            ("a", "c"),
            ("comment", ""),
            ("d", "1"),
            ("exists", "true"),
            ("location", f"{tmp_path}/warehouse/db.db"),
            ("owner", "ann"),
        )
    ]
    assert catalog.database("db") == morrow.engine.catalog.databases.Database(
        "db", None, "ann", f"{tmp_path}/warehouse/db.db", {"a": "c", "d": "1"}
    )
    catalog.alter_database("db", unset=("a", "comment", "owner", "d"))
    assert [row[2] for row in rows(options, "paimon_database_properties")] == ["exists", "location"]
    for wrong, error, message in (
        ({"location": "/elsewhere"}, Unsupported, "the property 'location' of a database.*lie in its warehouse"),
        ({"exists": "no"}, Unsupported, "the property 'exists'.*mark of a database"),
        ({"a": "x" * 1001}, InvalidArgument, "'a', is longer than a JDBC catalog keeps"),
        ({"s3.secret-key": "x"}, Unsupported, "keeps no secrets"),
        ({"a": None}, InvalidArgument, "'a' of a database is text, not None"),
        ({" ": "x"}, InvalidArgument, "is empty"),
    ):
        for change, name in ((catalog.create_database, "new"), (catalog.alter_database, "db")):
            with pytest.raises(error, match=message):
                change(name, properties=wrong)
    with pytest.raises(Unsupported, match="'exists'"):
        catalog.alter_database("db", unset="exists")
    with pytest.raises(InvalidArgument, match="set and unset"):
        catalog.alter_database("db", {"a": 1}, unset="a")
    with pytest.raises(InvalidArgument, match="no change"):
        catalog.alter_database("db")
    assert (catalog.databases(), len(rows(options, "paimon_database_properties"))) == (["db"], 2)


def test_a_database_that_is_gone_does_not_come_back_by_its_properties(options: dict[str, str]) -> None:
    catalog = morrow.open_catalog(options)
    catalog.create_database("db")
    kept: CatalogRows = catalog._catalog.rows  # type: ignore[attr-defined]  # of JDBC catalogs
    catalog.drop_database("db")
    kept.change_database("db", {"a": "b"}, ())  # by a client that read the database before the drop
    assert catalog.databases() == []


def test_catalogs_of_one_database_know_only_their_own(options: dict[str, str], tmp_path: Path) -> None:
    one = morrow.open_catalog(options)
    one.create_table("db.t", **SCHEMA)
    other = morrow.open_catalog({**options, "catalog-key": "other", "warehouse": str(tmp_path / "elsewhere")})
    assert other.databases() == []
    with pytest.raises(DatabaseNotFound):
        other.tables("db")
    other.create_database("db")
    with pytest.raises(TableNotFound, match=r"there is no table 'db\.t'"):
        other.table("db.t")


def test_a_folder_that_the_database_does_not_know_is_no_table(options: dict[str, str]) -> None:
    morrow.Catalog(options["warehouse"]).create_table("db.t", **SCHEMA)
    catalog = morrow.open_catalog(options)
    assert catalog.databases() == []
    with pytest.raises(AlreadyExists, match="there is a table already"):
        catalog.create_table("db.t", **SCHEMA)
    assert catalog.tables("db") == []


def test_views_take_names(options: dict[str, str], tmp_path: Path) -> None:
    catalog = morrow.open_catalog(options)
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        connection.execute("INSERT INTO paimon_views VALUES ('jdbc', 'db', 'v', '{}')")
    assert (catalog.databases(), catalog.tables("db")) == (["db"], [])
    with pytest.raises(AlreadyExists):
        catalog.create_table("db.v", **SCHEMA)
    with pytest.raises(InvalidArgument, match="holds 0 tables and 1 view "):
        catalog.drop_database("db")


def test_options_that_do_not_fit_are_refused_before_anything_is_made(options: dict[str, str], tmp_path: Path) -> None:
    catalog = morrow.open_catalog(options)
    with pytest.raises(InvalidArgument, match="sync-all-properties=false"):
        catalog.create_table("db.t", **SCHEMA, options={"materialized-table.definition-query": "q" * 1001})
    with pytest.raises(InvalidArgument, match="300 characters"):
        catalog.create_database("d" * 300)
    assert (catalog.databases(), (tmp_path / "warehouse").exists()) == ([], False)


# Locks


@pytest.fixture
def database(tmp_path: Path) -> Database:
    found = open_database(Settings.of({"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}))
    CatalogRows(found, "jdbc").prepare(255)
    return found


def test_a_lock_is_held_by_one_and_may_be_taken_again(database: Database) -> None:
    held, inside, most = Locks(database, "jdbc", 30, 0.02, 255), [0], [0]

    def work(_: int) -> None:
        with held.hold("db", "t"), held.hold("db", "t"):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.005)
            inside[0] -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(12)))
    assert most == [1]
    assert database.ask(f"SELECT * FROM {LOCKS}") == []


def test_who_waits_too_long_is_told(database: Database) -> None:
    database.run(f"INSERT INTO {LOCKS} (lock_id, expire_time_seconds) VALUES ('jdbc.db.t', 1000)")
    waiting = Locks(database, "jdbc", 0.05, 0.02, 255)
    with (
        pytest.raises(StorageError, match=r"the lock jdbc\.db\.t could not be acquired in 0 s"),
        waiting.hold("db", "t"),
    ):
        raise AssertionError("two have the lock")


def test_who_waits_reads_only_and_often(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    holder, waiting = (Locks(database, "jdbc", 30, 8, 255) for _ in range(2))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 20:
            given_back()

    monkeypatch.setattr(jdbc, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    with ExitStack() as held:
        held.enter_context(holder.hold("db", "t"))
        given_back, run = held.pop_all().close, database.run
        with monkeypatch.context() as patch:
            written: list[str] = []
            patch.setattr(database, "run", lambda sql, *values: written.append(sql.split()[0]) or run(sql, *values))
            with waiting.hold("db", "t"):
                assert written == ["DELETE", "INSERT"]  # the holder deletes, the waiter inserts
    assert max(slept) <= 0.05


def test_who_has_waited_for_long_comes_first(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiter asks more often the longer it waits, and a process that gave back the lock lets others ask first."""
    holder, waiting = (Locks(database, "jdbc", 3, 8, 255) for _ in range(2))
    now, slept = [0.0], [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        slept.append(seconds)

    monkeypatch.setattr(jdbc, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now[0]))
    with (
        holder.hold("db", "t"),
        pytest.raises(StorageError, match="could not be acquired in 3 s"),
        waiting.hold("db", "t"),
    ):
        raise AssertionError("two have the lock")
    asked = [len([at for at in accumulate(slept) if i * 0.2 <= at < (i + 1) * 0.2]) for i in range(3)]
    assert slept[1] > 0.02
    assert 1.5 * asked[0] < asked[1] < asked[2] < 0.2 / 0.003 * 2

    del slept[:]
    with holder.hold("db", "t"), holder.hold("db", "other"):
        assert slept == [0.01]
    with waiting.hold("db", "t"):
        assert slept == [0.01]


def test_a_busy_file_is_asked_again(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    with closing(sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        other.execute(f"INSERT INTO {LOCKS} (lock_id) VALUES ('x')")

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 5:
                other.execute("COMMIT")

        monkeypatch.setattr(jdbc_database, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
        assert database.ask(f"SELECT lock_id FROM {LOCKS}") == [("x",)]
        assert len(slept) == 5
        assert max(slept) <= 0.02

        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr("morrow.engine.catalog.jdbc_database.BUSY_SECONDS", 0)
        with pytest.raises(StorageError, match="database is locked"):
            database.ask(f"SELECT lock_id FROM {LOCKS}")


def test_an_expired_lock_is_broken_and_its_holder_told(database: Database) -> None:
    slow, quick = (Locks(database, "jdbc", seconds, 0.02, 255) for seconds in (1.0, 30.0))
    with slow.hold("db", "t"):
        slow.check("db", "t")
        time.sleep(0.55)
        with pytest.raises(StorageError, match=r"was held for longer than .* nothing was committed"):
            slow.check("db", "t")
        database.run(f"UPDATE {LOCKS} SET acquired_at = '2020-01-01 00:00:00'")
        with quick.hold("db", "t"):
            quick.check("db", "t")


def test_the_lock_of_another_one_stays(database: Database) -> None:
    with Locks(database, "jdbc", 30, 0.02, 255).hold("db", "t"):
        database.run(f"UPDATE {LOCKS} SET acquired_at = '2030-01-01 00:00:00'")  # another process has broken our lock
    assert len(database.ask(f"SELECT * FROM {LOCKS}")) == 1


def test_a_store_without_conditions_is_refused_without_a_lock(options: dict[str, str]) -> None:
    files = FilesystemCatalog(Unconditional(), options["warehouse"])
    with pytest.raises(Unsupported, match="without conditional put"):
        morrow.Catalog.over(files).create_table("db.t", **SCHEMA)
    with pytest.raises(Unsupported, match="metastore=jdbc has a lock"):
        morrow.open_catalog({"warehouse": options["warehouse"], "lock.enabled": "true"})


def test_a_table_that_is_renamed_while_others_write_loses_no_row(options: dict[str, str]) -> None:
    given = {**options, "lock.enabled": "true", "lock-acquire-timeout": "30 s", "lock-check-max-sleep": "10 ms"}
    # No name is used twice: a late writer may have recreated the folder of an old name.
    names = [f"db.t{number}" for number in range(5)]
    morrow.open_catalog(given).create_table(names[0], **SCHEMA, options={"bucket": 1})

    def rename(_: int) -> list[int]:
        catalog = morrow.open_catalog(given)
        for old, new in pairwise(names):
            catalog.rename_table(old, new)
        return []

    def write(worker: int) -> list[int]:
        catalog, done = morrow.open_catalog(given), []
        for row in range(worker * 10, worker * 10 + 3):
            for name in names:
                try:
                    catalog.table(name).upsert({"id": [row], "v": ["x"]})
                except (NotFound, StorageError):  # another process has just renamed it
                    continue
                done.append(row)
                break
        return done

    with ThreadPoolExecutor(3) as pool:
        found = [pool.submit(rename, 0), pool.submit(write, 1), pool.submit(write, 2)]
        written = [row for each in found for row in each.result()]
    rows = morrow.open_catalog(given).table(names[-1]).to_polars()["id"].to_list()
    assert written
    assert set(written) <= set(rows)


# Addresses and secrets


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"uri": "jdbc:oracle://host/db"}, r"jdbc:sqlite:FILE, jdbc:postgresql"),
        ({"uri": ""}, "needs the option 'uri'"),
        ({"uri": "jdbc:sqlite::memory:"}, "name a file"),
        ({"uri": "jdbc:sqlite:/nope/nope/x.db"}, "unable to open database file; check the option 'uri'"),
        ({"warehouse": ""}, "needs the option 'warehouse'"),
        ({"catalog-kye": "x"}, "did you mean 'catalog-key'"),
        ({"lock.type": "hive"}, "lock.type='hive'"),
        ({"lock-acquire-timeout": "soon"}, "a time span"),
        ({"metastore": "hvie"}, "known are .*jdbc"),
        ({"uri": "jdbc:postgresql://h/d?password=hunter22&nope=1"}, "(unknown properties of PostgreSQL: nope|psycopg)"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(options: dict[str, str], given: dict[str, str], message: str) -> None:
    with pytest.raises(MorrowError, match=message) as caught:
        morrow.open_catalog({**options, **given})
    assert "\n" not in str(caught.value)
    assert "hunter22" not in str(caught.value)


def test_no_secret_is_told(options: dict[str, str], server: str) -> None:
    bare, secret = server.partition("?")[0], "s3cret-word"
    for given in ({"uri": server}, {"uri": bare, "jdbc.user": "morrow", "jdbc.password": secret}):
        catalog = morrow.open_catalog({**options, **given})
        table = catalog.create_table(f"db.t{len(given)}", **SCHEMA)
        told = [repr(catalog), str(catalog.system("catalog_options").to_polars()), repr(table), catalog.warehouse]
        assert secret not in "".join(told)
        for pickled in (pickle.dumps(catalog), pickle.dumps(table)):
            assert secret.encode() not in pickled
        assert pickle.loads(pickle.dumps(catalog)).tables("db") == catalog.tables("db")
    with pytest.raises(StorageError) as caught:
        morrow.open_catalog({**options, "uri": bare, "jdbc.user": "morrow", "jdbc.password": "another-word"})
    assert re.search("password authentication failed", str(caught.value))
    assert "another-word" not in str(caught.value)


def test_a_connection_that_has_ended_is_made_again(options: dict[str, str], server: str) -> None:
    catalog = morrow.open_catalog({**options, "uri": server, "catalog-key": uuid.uuid4().hex})
    catalog.create_database("db")
    import psycopg

    with psycopg.connect(server.removeprefix("jdbc:"), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    assert catalog.databases() == ["db"]
    pid = os.fork()
    if pid == 0:  # a fork inherits its parent's connection, and must not use it
        os._exit(0 if catalog.databases() == ["db"] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert catalog.databases() == ["db"]
