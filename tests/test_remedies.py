"""Remedies that refusals recommend are accepted by the table that refused, and have the desired effect."""

from __future__ import annotations

import itertools
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import morrow
from morrow.engine.errors import MorrowError
from morrow.engine.io.storage_options import ENCRYPTION_KINDS, to_store_options
from tests.support.rest_server import rest_server
from tests.support.s3_server import s3_server
from tests.support.written import new_table, rows

Call = Callable[[morrow.Table], object]


class Remedy(NamedTuple):
    """A refused call, words of its error, and the call that the error recommends."""

    refused: Call
    says: str
    then: Call


def lives_on(table: morrow.Table) -> morrow.Table:
    """Write key 1 twice."""
    table.upsert({"id": [1], "v": [1]})
    table.upsert({"id": [1], "v": [2]})
    return table


def followed(producer: str) -> Call:
    def then(table: morrow.Table) -> object:
        table.alter.set_options({"changelog-producer": producer})
        return list(table.stream(wait=0))

    return then


def with_option(option: str, call: Call) -> Call:
    def then(table: morrow.Table) -> object:
        table.alter.set_options({option: True})
        return call(table)

    return then


def deletes(table: morrow.Table) -> object:
    return table.delete("id = 1")


def retracts(table: morrow.Table) -> object:
    return table.upsert({"id": [1], "v": [2], "kind": ["-D"]}, kinds="kind")


def follows(table: morrow.Table) -> object:
    return list(table.stream(wait=0))


def overwrites(table: morrow.Table) -> object:
    return table.overwrite(table.scan(filter="id <> 1"))


def raw(table: morrow.Table) -> object:
    return table.changes(mode="raw").to_arrow()


def compared(table: morrow.Table) -> object:
    return table.changes(1, 2, mode="diff").to_arrow()


def sets_key(table: morrow.Table) -> object:
    return table.update({"id": 2}, "id = 1")


def inserts_another(table: morrow.Table) -> object:
    table.delete("id = 1")
    return table.upsert({"id": [2], "v": [2]})


def sets_back(table: morrow.Table) -> object:
    return table.update({"v": 0}, "id = 1")


VECTORS: dict[str, object] = {"deletion-vectors.enabled": True}
PARTIAL: dict[str, object] = {"merge-engine": "partial-update"}
SUMS: dict[str, object] = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
FIRST: dict[str, object] = {"merge-engine": "first-row"}
BOTH = "set 'changelog-producer' to lookup or full-compaction"
ALONE = "set 'changelog-producer' to lookup, compare"
REMOVES = "partial-update.remove-record-on-delete"
CASES: list[tuple[Mapping[str, object], Remedy]] = [
    *((PARTIAL, Remedy(follows, BOTH, followed(producer))) for producer in ("lookup", "full-compaction")),
    *((engine, Remedy(follows, ALONE, followed("lookup"))) for engine in (FIRST, PARTIAL | VECTORS, SUMS | VECTORS)),
    *((engine, Remedy(follows, "mode raw", raw)) for engine in (PARTIAL, SUMS, FIRST)),
    *((engine, Remedy(follows, "mode diff", compared)) for engine in (PARTIAL, SUMS, FIRST)),
    *((PARTIAL | more, Remedy(deletes, f"set {REMOVES}", with_option(REMOVES, deletes))) for more in ({}, VECTORS)),
    (SUMS, Remedy(deletes, "overwrite the table with the rows that stay", overwrites)),
    (FIRST, Remedy(deletes, "or overwrite", overwrites)),
    *(
        (engine, Remedy(retracts, "ignore-delete", with_option("ignore-delete", retracts)))
        for engine in (PARTIAL, FIRST)
    ),
    *((more, Remedy(sets_key, "delete the row and insert another", inserts_another)) for more in ({}, VECTORS)),
    (PARTIAL, Remedy(sets_key, "overwrite the table", overwrites)),
    ({"ignore-delete": True}, Remedy(sets_key, "overwrite the table", overwrites)),
    ({"sequence.field": "v"}, Remedy(sets_back, "overwrite the table", overwrites)),
]


@pytest.mark.parametrize(("options", "remedy"), CASES, ids=map(str, itertools.count()))
def test_what_a_refusal_recommends(tmp_path: Path, options: Mapping[str, object], remedy: Remedy) -> None:
    table = lives_on(new_table(tmp_path, "id INT, v INT", keys=["id"], options={"bucket": 1, **options}))
    with pytest.raises(MorrowError, match=re.escape(remedy.says)):
        remedy.refused(table)
    remedy.then(table)
    rows(table)


TYPES: dict[str, tuple[str, Any]] = {
    "v": ("STRING", "abc"),
    "v.x": ("ROW<x STRING>", {"x": "abc"}),
    "v.element": ("ARRAY<VARCHAR(3)>", ["abc"]),
    "v.value": ("MAP<INT, STRING>", [(1, "abc")]),
}


@pytest.mark.parametrize("column", TYPES)
def test_a_type_that_values_do_not_survive_is_set_back_as_the_read_says(tmp_path: Path, column: str) -> None:
    kind, value = TYPES[column]
    table = new_table(tmp_path, f"id INT, v {kind}")
    table.append([{"id": 1, "v": value}])
    before = rows(table)
    table.alter.set_type(column, "INT", lossy=True)
    with pytest.raises(MorrowError) as caught:
        table.to_arrow()
    advice = re.search(r"table\.alter\.set_type\('(.*)', '(.*)'\)", str(caught.value))
    assert advice is not None
    assert any(advice[0].removeprefix("table") in str(finding) for finding in table.doctor(data=True).findings)
    table.alter.set_type(advice[1], advice[2])
    assert rows(table) == before


@dataclass(frozen=True)
class Catalogs:
    """A folder, an SQLite file, a REST server and an object store, in each of which there can be a catalog."""

    folder: Path
    server: str
    s3: Mapping[str, str]

    def open(self, metastore: str, **more: str) -> morrow.Catalog:
        own = {
            "filesystem": {"warehouse": f"{self.folder}/lake"},
            "jdbc": {"uri": f"jdbc:sqlite:{self.folder}/c.db", "warehouse": f"{self.folder}/jdbc"},
            "rest": {"uri": self.server, "token.provider": "bear", "token": "x"},
        }
        return morrow.open_catalog({"metastore": metastore, **own.get(metastore, {}), **more})

    def filled(self, metastore: str) -> morrow.Catalog:
        """Make the table ``db.t`` of one row."""
        return fill(self.open(metastore))

    @property
    def bucket(self) -> morrow.Catalog:
        return fill(morrow.Catalog("s3://lake/w", storage_options=self.s3))


def fill(catalog: morrow.Catalog) -> morrow.Catalog:
    catalog.create_table("db.t", schema="id INT", ignore_if_exists=True).overwrite({"id": [1]})
    return catalog


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Mapping[str, str]]]:
    with rest_server(tmp_path_factory.mktemp("served")) as server, s3_server() as s3:
        yield server.url, s3


@pytest.fixture
def catalogs(tmp_path: Path, servers: tuple[str, Mapping[str, str]]) -> Catalogs:
    return Catalogs(tmp_path, *servers)


def makes_view(catalog: morrow.Catalog) -> object:
    catalog.create_view("db.few", "SELECT id FROM t")
    return catalog.drop_view("db.few")


def keeps_comment(catalog: morrow.Catalog) -> None:
    catalog.create_database("about", comment="of tests")
    assert catalog.database("about").comment == "of tests"
    catalog.drop_database("about")


def moves_tables(catalog: morrow.Catalog) -> None:
    catalog.create_database("other")
    for name in catalog.tables("db"):
        catalog.rename_table(f"db.{name}", f"other.{name}")
    catalog.drop_database("db")
    assert rows(catalog.table("other.t")) == [(1,)]
    catalog.drop_database("other", cascade=True)


def writes_rows_into_another(catalog: morrow.Catalog) -> None:
    old = catalog.table("db.t")
    catalog.create_table("db.new", schema=old.schema).append(old.scan())
    catalog.drop_table("db.t")
    assert rows(catalog.table("db.new")) == [(1,)]


def branches_from_tag(catalog: morrow.Catalog) -> None:
    table = catalog.table("db.t")
    table.tags.create("now")
    table.branches.create("later", tag="now")
    assert rows(catalog.table("db.t", branch="later")) == [(1,)]


def is_pickled(table: morrow.Table) -> None:
    assert rows(pickle.loads(pickle.dumps(table))) == [(1,)]


class Advice(NamedTuple):
    """A call that a catalog or store refuses, words of the refusal, and the call that they recommend."""

    refused: Callable[[Catalogs], object]
    says: str
    then: Callable[[Catalogs], object]


ADVICE = [
    *(
        Advice(
            lambda at: makes_view(at.filled("filesystem")),
            "catalogs with metastore=rest, jdbc or hive have them",
            lambda at, kind=kind: makes_view(at.filled(kind)),
        )
        for kind in ("rest", "jdbc")
    ),
    *(
        Advice(
            lambda at: keeps_comment(at.filled("filesystem")),
            "catalogs with metastore=rest, jdbc or hive keep them",
            lambda at, kind=kind: keeps_comment(at.filled(kind)),
        )
        for kind in ("rest", "jdbc")
    ),
    *(
        Advice(
            lambda at, kind=kind: at.filled(kind).rename_database("db", "other"),
            "rename its tables one by one",
            lambda at, kind=kind: moves_tables(at.filled(kind)),
        )
        for kind in ("rest", "jdbc")
    ),
    *(
        Advice(
            lambda at, kind=kind: at.filled(kind).drop_database("db"),
            "drop them first, or pass cascade=True",
            lambda at, kind=kind: at.filled(kind).drop_database("db", cascade=True),
        )
        for kind in ("filesystem", "rest", "jdbc")
    ),
    Advice(
        lambda at: at.filled("rest").table("db.t").branches.create("later", snapshot=1),
        "make a tag of it, and a branch of that",
        lambda at: branches_from_tag(at.filled("rest")),
    ),
    Advice(
        lambda at: at.open("jdbc", **{"lock.enabled": "true", "lock.type": "zookeeper"}),
        "leave it out: its lock is in its database",
        lambda at: fill(at.open("jdbc", **{"lock.enabled": "true"})),
    ),
    Advice(
        lambda at: at.open("filesystem", **{"lock.enabled": "true"}),
        "leave it out where the store has conditional puts; a catalog with metastore=jdbc has a lock",
        lambda at: (at.bucket, fill(at.open("jdbc", **{"lock.enabled": "true"}))),
    ),
    Advice(
        lambda at: at.open("jdbc", uri="jdbc:oracle:thin:@host/db"),
        "write jdbc:sqlite:FILE",
        lambda at: at.filled("jdbc"),
    ),
    Advice(
        lambda at: at.open("jdbc", uri="jdbc:sqlite::memory:"),
        "name a file",
        lambda at: at.filled("jdbc"),
    ),
    *(
        Advice(
            lambda at: at.open("jdbc", uri=f"jdbc:sqlite:{at.folder}/c.db?cache=shared"),
            "name the file alone, or with ?journal_mode=WAL",
            lambda at, more=more: fill(at.open("jdbc", uri=f"jdbc:sqlite:{at.folder}/c.db{more}")),
        )
        for more in ("", "?journal_mode=WAL")
    ),
    Advice(
        lambda at: at.open("dlf"),
        "open its tables by their folders, or name them in a catalog with metastore=jdbc or metastore=rest",
        lambda at: rows(morrow.open(at.filled("filesystem").table("db.t").path)),
    ),
    Advice(lambda at: at.open("jdcb"), "did you mean 'jdbc'?", lambda at: at.filled("jdbc")),
    Advice(
        lambda at: at.bucket.rename_table("db.t", "db.new"),
        "write the rows into a new one",
        lambda at: writes_rows_into_another(at.bucket),
    ),
    Advice(
        lambda _: pickle.dumps(fill(morrow.Catalog("memory://lake")).table("db.t")),
        "keep it on a disk",
        lambda at: is_pickled(at.filled("filesystem").table("db.t")),
    ),
]


@pytest.mark.parametrize("advice", ADVICE, ids=map(str, itertools.count()))
def test_what_catalogs_and_stores_recommend(catalogs: Catalogs, advice: Advice) -> None:
    with pytest.raises(MorrowError, match=re.escape(advice.says)):
        advice.refused(catalogs)
    advice.then(catalogs)


@pytest.mark.parametrize(
    ("protocol", "says"),
    [("gs", "by its URL alone (gs://...), without filesystem"), ("sftp", "keep the table in a folder, or at a URL")],
)
def test_what_file_systems_of_others_recommend(tmp_path: Path, protocol: str, says: str) -> None:
    fsspec = pytest.importorskip("fsspec.implementations.memory", reason="fsspec is not installed")
    filesystem = type("Other", (fsspec.MemoryFileSystem,), {"protocol": protocol})()
    fill(morrow.Catalog("/lake", filesystem=fsspec.MemoryFileSystem()))
    table = morrow.Catalog("/lake", filesystem=filesystem).table("db.t")

    for refused in (lambda: table.append({"id": [2]}), lambda: pickle.dumps(table)):
        with pytest.raises(MorrowError, match=re.escape(says)):
            refused()
    is_pickled(fill(morrow.Catalog(tmp_path)).table("db.t"))


PREFIXES = {
    "s3.": "s3://lake/w",
    "fs.oss.": "oss://lake/w",
    "fs.gs.": "gs://lake/w",
    "fs.azure.": "abfss://lake@account.dfs.core.windows.net/w",
}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_names_of_options_that_stores_recommend(prefix: str) -> None:
    def translated(name: str, value: str = "true") -> str:
        try:
            to_store_options({prefix + name: value}, PREFIXES[prefix])
        except MorrowError as error:
            return str(error)
        return ""

    known = translated("unheard").partition("known are ")[2].split(", ")
    assert len(known) > 2
    assert [name for name in known if "is not known" in translated(name)] == []


@pytest.mark.parametrize(
    ("key", "location", "values"),
    [
        ("s3.server-side-encryption-algorithm", PREFIXES["s3."], tuple(ENCRYPTION_KINDS)),
        ("fs.azure.account.auth.type", PREFIXES["fs.azure."], ("SharedKey", "SAS", "OAuth")),
        ("fs.azure.account.oauth.provider.type", PREFIXES["fs.azure."], ("ClientCredsTokenProvider",)),
    ],
)
def test_values_of_options_that_stores_recommend(key: str, location: str, values: tuple[str, ...]) -> None:
    with pytest.raises(MorrowError) as caught:
        to_store_options({key: "unheard"}, location)
    for value in values:
        assert value in str(caught.value)
        to_store_options({key: value}, location)
