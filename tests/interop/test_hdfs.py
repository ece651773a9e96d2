"""HDFS: the store keeps the promises of `FileStore` on a real namenode and datanode, together with Java."""

from __future__ import annotations

import multiprocessing
import pickle
import uuid
from pathlib import Path
from typing import Any

import pytest

import morrow
from bench.races import race
from morrow.engine.errors import InvalidArgument, StorageError, UnclearOutcome
from morrow.engine.io.hdfs import HdfsStore
from morrow.engine.io.store import FileStore
from morrow.testing import NAMES, StoreTests
from tests.durability.operations import OPERATIONS as INTERRUPTED
from tests.durability.stores import failing, killed, repeated
from tests.interop.jvm import JavaPaimon
from tests.isolation.history import anomalies
from tests.isolation.kinds import KINDS
from tests.isolation.racing import race as users
from tests.support.faulty_store import ERRORS, FaultKind
from tests.test_catalog_guides import HDFS, LONG, OPERATIONS, QUICK, table_of_what_was_run

pytest.importorskip("hdfs_native", reason="hdfs-native is not installed: pip install 'morrow[hdfs]'")


@pytest.fixture(scope="module")
def address(java: JavaPaimon, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Start a namenode and return its ``host:port``."""
    return f"127.0.0.1:{java.ask('hdfs', path=tmp_path_factory.mktemp('hdfs'))['port']}"


@pytest.fixture
def warehouse(address: str) -> str:
    return f"hdfs://{address}/{uuid.uuid4().hex}/lake"


class TestHdfs(StoreTests):
    @pytest.fixture
    def store(self, address: str) -> FileStore:
        return HdfsStore.of_url(f"hdfs://{address}", None)[0]

    @pytest.fixture
    def folder(self) -> str:
        return f"/folder/{uuid.uuid4().hex}"

    @pytest.mark.parametrize("name", NAMES if LONG else NAMES[2:4])
    def test_names_stay_as_they_are(self, store: FileStore, folder: str, name: str) -> None:
        super().test_names_stay_as_they_are(store, folder, name)


def test_java_and_morrow_share_a_warehouse(java: JavaPaimon, warehouse: str) -> None:
    options = {"warehouse": warehouse}
    ours = morrow.open_catalog(options)
    columns = [["id", "INT NOT NULL"], ["pt", "STRING"], ["v", "STRING"]]
    java.ask("create", catalog=options, table="db.j", columns=columns, primary_keys=["id"], options={"bucket": "1"})
    ours.create_table("db.m", schema="id INT NOT NULL, pt STRING, v STRING", primary_keys="id", options={"bucket": 1})
    for name in ("db.j", "db.m"):
        java.ask("write", catalog=options, table=name, rows=[["+I", 1, "a", "java"], ["+I", 2, "ü", "java"]])
        ours.table(name).upsert({"id": [2, 3], "pt": ["b", None], "v": ["morrow", "a:b%/ 'x'"]})
        expected = [(1, "a", "java"), (2, "b", "morrow"), (3, None, "a:b%/ 'x'")]
        assert sorted(ours.table(name).scan().to_polars().rows()) == expected
        assert sorted(tuple(row[-3:]) for row in java.ask("read", catalog=options, table=name)) == expected
        assert ours.sql(f"SELECT v FROM {name} WHERE id = 2").fetchall() == [("morrow",)]
        assert ours.table(name).remove_orphan_files(older_than="0 s", dry_run=True).paths == ()
    ours.rename_table("db.m", "db.n")
    assert sorted(java.ask("tables", catalog=options, database="db")) == ours.tables("db") == ["j", "n"]


@pytest.mark.parametrize("row", HDFS if LONG else HDFS[:1])
def test_what_the_guide_says_was_run(warehouse: str, tmp_path: Path, row: str) -> None:
    (told,) = (line for line in table_of_what_was_run() if line.startswith(f"| {row} |"))
    cells = [cell.strip() for cell in told.strip("| ").split("|")][1:]
    for (name, operation), cell in zip(OPERATIONS.items(), cells, strict=True):
        if LONG or operation in QUICK:
            place = f"{warehouse}{name}"
            opened = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/{name}.db", "lock.enabled": True}
            catalog = morrow.open_catalog({**(opened if row.startswith("JDBC") else {}), "warehouse": place})
            assert (name, cell) == (name, "yes")
            operation(catalog)


@pytest.mark.parametrize("name", [*INTERRUPTED] if LONG else ["schema change"])
def test_killed_at_what_it_asks(warehouse: str, tmp_path: Path, name: str) -> None:
    template = tmp_path / "lake" / "db.db" / name
    INTERRUPTED[name].make(str(template))
    killed(name, template, warehouse, None)


class TestLong:
    """The suites of `tests/durability` and `tests/isolation`; the thread races above always run."""

    __test__ = LONG

    @pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.name)
    @pytest.mark.parametrize("name", INTERRUPTED)
    def test_a_store_that_fails(self, warehouse: str, tmp_path: Path, name: str, kind: FaultKind) -> None:
        template = tmp_path / "lake" / "db.db" / name
        INTERRUPTED[name].make(str(template))
        failing(name, template, warehouse, None, kind)

    def test_commits_of_several_processes(self, warehouse: str) -> None:
        outcome = race("morrow", warehouse, processes=8, commits=25)
        assert (outcome.refused, outcome.lost, outcome.twice) == ({}, frozenset(), frozenset())
        assert outcome.acknowledged == len(outcome.snapshots) == 200

    @pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.name)
    def test_a_commit_that_is_repeated(self, warehouse: str, tmp_path: Path, kind: FaultKind) -> None:
        template = tmp_path / "lake" / "db.db" / "append"
        INTERRUPTED["append"].make(str(template))
        repeated(template, warehouse, None, kind)

    @pytest.mark.parametrize("name", KINDS)
    def test_users_do_what_they_like(self, warehouse: str, name: str) -> None:
        found = anomalies(users(name, warehouse, 0, seconds=30))
        assert not found, f"{name}:\n" + "\n".join(found)


def test_who_creates_a_file_is_always_known(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reply to a rename is lost: after it was done, before it was done, and if others were faster."""
    store, folder = HdfsStore.of_url(f"hdfs://{address}/{uuid.uuid4().hex}", None)
    real = store._client()

    class Cut:
        before = False

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def rename(self, *arguments: Any, **more: Any) -> None:
            if not self.before:
                real.rename(*arguments, **more)
            raise OSError("the connection was cut")

    cut = Cut()
    monkeypatch.setattr(store, "_client", lambda: cut)
    with pytest.raises(UnclearOutcome, match="the connection was cut"):
        store.create(f"{folder}/done", b"x")
    assert store.read(f"{folder}/done") == b"x"
    cut.before = True
    with pytest.raises(StorageError, match="the connection was cut"):
        store.create(f"{folder}/not", b"x")
    assert [status.name for status in store.list(folder)] == ["done"]


def test_names_that_hadoop_refuses_and_addresses_that_mean_nothing(address: str) -> None:
    store, _ = HdfsStore.of_url(f"hdfs://{address}", None)
    with pytest.raises(StorageError, match=r"InvalidPathException: Invalid path name /\.a:b") as told:
        store.write("/a:b", b"")
    assert "\n" not in str(told.value)
    with pytest.raises(InvalidArgument, match="No NameNode hosts found"):
        morrow.Catalog("hdfs:///lake", storage_options={"fs.defaultFS": "hdfs://nowhere"})
    with pytest.raises(InvalidArgument, match=r"'dfs\.replicaton' of HDFS is not known"):
        morrow.Catalog(f"hdfs://{address}/lake", storage_options={"dfs.replicaton": "1"})
    with pytest.raises(InvalidArgument, match="set HADOOP_USER_NAME"):
        morrow.Catalog(f"hdfs://bob@{address}/lake")
    with pytest.raises(InvalidArgument, match=r"'dfs\.blocksize' is a number"):
        morrow.open_catalog({"warehouse": f"hdfs://{address}/lake", "dfs.blocksize": "big"})


def test_addresses_and_users(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open stores by a name service with two namenodes, by a configured default, and with a user name."""
    pair = {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "gone,there",
        "hadoop.dfs.namenode.rpc-address.ns.gone": "127.0.0.1:1",
        "dfs.namenode.rpc-address.ns.there": address,
        "dfs.client.socket-timeout": "60000",
    }
    folder = uuid.uuid4().hex
    HdfsStore.of_url(f"hdfs://{address}", None)[0]._client().mkdirs(f"/{folder}", 0o777)
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    with pytest.raises(StorageError, match="AccessControlException: Permission denied: user=somebody"):
        HdfsStore.of_url(f"hdfs://{address}", None)[0].write("/not/here", b"")
    store, path = HdfsStore.of_url(f"hdfs://{address}/{folder}", {"dfs.replication": "1", "dfs.blocksize": "1m"})
    with store.output(f"{path}/big") as stream:
        stream.write(bytes(3 << 20))
    assert store._client().get_file_info(f"{path}/big").owner == "somebody"
    assert store._client().get_file_info(f"{path}/big").blocksize == 1 << 20

    (tmp_path / "core-site.xml").write_text(
        f"<configuration><property><name>fs.defaultFS</name><value>hdfs://{address}</value></property></configuration>"
    )
    given: list[tuple[str, dict[str, str]]] = [
        (f"hdfs://ns/{folder}", pair),
        (f"hdfs:///{folder}", {"hadoop-conf-dir": str(tmp_path)}),
        (f"HDFS://{address}//{folder}/", {}),
    ]
    for url, options in given:
        found, place = HdfsStore.of_url(url, options)
        again = pickle.loads(pickle.dumps(found))
        assert (place, again.size(f"{place}/big")) == (f"/{folder}", 3 << 20)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert HdfsStore.of_url(f"hdfs:///{folder}", None)[0].is_dir(f"/{folder}")


def test_a_forked_process_makes_a_client_of_its_own(warehouse: str) -> None:
    store, folder = HdfsStore.of_url(warehouse, None)
    store.write(f"{folder}/ours", b"1")
    child = multiprocessing.get_context("fork").Process(target=store.write, args=(f"{folder}/theirs", b"2"))
    child.start()
    child.join(30)
    assert (child.exitcode, store.read(f"{folder}/theirs")) == (0, b"2")


def test_tables_travel_to_other_processes(warehouse: str) -> None:
    table = morrow.Catalog(warehouse).create_table("db.t", schema="id INT")
    table.append({"id": [1]})
    assert pickle.loads(pickle.dumps(table)).to_polars().rows() == [(1,)]
