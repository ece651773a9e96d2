"""The REST catalog against a server in this process: conformance, paging, faults, credentials and secrets."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.catalog import settings
from morrow.engine.catalog.protocol import Catalog
from morrow.engine.catalog.rest import client as client_module
from morrow.engine.catalog.settings import Settings
from morrow.engine.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidArgument,
    MorrowError,
    StorageError,
    TableNotFound,
    UnclearOutcome,
    Unsupported,
)
from morrow.testing import CatalogTests
from morrow.writers.commit import committer
from tests.support.rest_server import CUT_AFTER, CUT_BEFORE, GARBAGE, Done, Refused, RestServer, rest_server

TOKEN = "bearer-of-tests"
SCHEMA: dict[str, Any] = {"schema": "id INT NOT NULL, v STRING", "primary_keys": "id", "options": {"bucket": 1}}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_WAIT", 0.001)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path) as served:
        served.lets_in = lambda *request: request[-1].get("Authorization") == f"Bearer {TOKEN}"
        yield served


def options(server: RestServer) -> dict[str, str]:
    return {
        "metastore": "rest",
        "uri": server.url,
        "warehouse": "läke/1 ",
        "token.provider": "bear",
        "token": TOKEN,
    }


def opened(server: RestServer, **more: str) -> morrow.Catalog:
    return morrow.open_catalog({**options(server), **more})


class TestRest(CatalogTests):
    @pytest.fixture
    def catalog(self, server: RestServer) -> Catalog:
        return settings.open_catalog(Settings.of(options(server)))


def test_clients_write_the_files_of_an_external_table(server: RestServer, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    given = {**SCHEMA, "options": {"path": str(folder)}}
    table = opened(server).create_table("db.t", **given)
    table.upsert({"id": [1], "v": ["a"]})
    table.tags.create("v1")
    table.branches.create("dev", tag="v1")
    branch = opened(server).table("db.t", branch="dev")
    branch.alter.add_column("m", "INT")
    table.alter.add_column("n", "INT")
    table.upsert({"id": [2], "v": ["b"], "n": [3]})
    assert sorted(table.scan().to_polars().rows()) == [(1, "a", None), (2, "b", 3)]
    assert [field.name for field in branch.schema] == ["id", "v", "m"]
    with pytest.raises(Unsupported, match="a fast-forward in the catalog"):
        table.branches.fast_forward("dev")
    table.rollback(tag="v1")
    assert opened(server).table("db.t").count() == 1

    shutil.rmtree(folder / "schema")  # Java's clients write no schema until they change it
    again = opened(server).table("db.t")
    assert ([field.name for field in again.schema], len(again.schemas())) == (["id", "v", "n"], 1)


def test_branches_of_tags_and_rollback_are_the_servers(server: RestServer) -> None:
    table = opened(server).create_table("db.t", **SCHEMA)
    table.upsert({"id": [1], "v": ["a"]})
    table.tags.create("v 1ü", time_retained=dt.timedelta(hours=2))
    table.upsert({"id": [2], "v": ["b"]})
    assert [(tag.name, tag.time_retained) for tag in table.tags] == [("v 1ü", dt.timedelta(hours=2))]

    table.branches.create("dev", tag="v 1ü")
    branch = opened(server).table("db.t", branch="dev")
    branch.upsert({"id": [3], "v": ["c"]})
    branch.alter.add_column("n", "INT")
    assert sorted(branch.scan().to_polars()["id"]) == [1, 3]
    table.branches.rename("dev", "Dev 2")
    assert list(table.branches) == ["Dev 2"]
    table.rollback(tag="v 1ü")
    assert table.scan().to_polars()["id"].to_list() == [1]
    table.branches.fast_forward("Dev 2")
    assert sorted(table.scan().to_polars()["id"]) == [1, 3]
    table.branches.delete("Dev 2")
    with pytest.raises(Unsupported, match="make a tag of it"):
        table.branches.create("x", snapshot=1)
    assert {path.rsplit("/", 1)[-1] for method, path in server.asked if method == "POST"} >= {"commit", "forward"}


def test_every_change_of_a_schema_arrives(server: RestServer) -> None:
    table = opened(server).create_table("db.t", schema="id INT NOT NULL, v STRING, r STRUCT<a INT>, d DECIMAL(5, 2)")
    alter = table.alter
    alter.add_column("n", "MAP<STRING, ARRAY<INT>>", comment="it's", after="id")
    alter.rename_column("v", 'w "ü" $')
    alter.set_type("d", "DECIMAL(9, 2)")
    alter.set_comment("d", None)
    alter.set_options({"snapshot.num-retained.max": "40"})
    alter.unset_options("snapshot.num-retained.max")
    alter.drop_column("r")
    found = opened(server).table("db.t")
    assert [str(each.name) for each in found.schemas()[-1].fields] == ["id", "n", 'w "ü" $', "d"]
    assert str(found.schemas()[-1].by_name["d"].type) == "DECIMAL(9, 2)"


def test_commits_tell_what_they_change_in_partitions(server: RestServer) -> None:
    table = opened(server).create_table(
        "db.t", schema="id INT, d DATE, p STRING", partition_keys=["d", "p"], options={"bucket": -1}
    )
    table.append({"id": [1, 2, 3], "d": [dt.date(2024, 1, 2)] * 2 + [None], "p": ["a/ü=", "a/ü=", " "]})
    table.delete("id = 3")
    first, second = (body["statistics"] for body in server.bodies if body and "statistics" in body)
    told = sorted((each["spec"]["d"], each["spec"]["p"], each["recordCount"], each["fileCount"]) for each in first)
    assert told == [("19724", "a/ü=", 2, 1), ("__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__", 1, 1)]
    assert [(each["recordCount"], each["fileCount"], each["totalBuckets"]) for each in second] == [(-1, -1, -1)]
    assert set(first[0]) == {
        *("spec", "recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime", "totalBuckets")
    }
    assert all(isinstance(each["lastFileCreationTime"], int) and each["fileSizeInBytes"] > 0 for each in first)


def test_the_server_hears_of_partitions_that_are_done(server: RestServer) -> None:
    options = {"partition.mark-done-action": "mark-event,done-partition"}
    table = opened(server).create_table("db.t", schema="id INT, p STRING", partition_keys=["p"], options=options)
    table.append({"id": [1], "p": ["a/ü"]})
    assert table.mark_partition_done({"p": "a/ü"}) == []
    assert [path.rpartition("/t/")[2] for _, path in server.asked[-2:]] == ["partitions/mark", "partitions"]
    assert server.bodies[-2:] == [
        {"specs": [{"p": "a/ü"}]},
        {"partitionSpecs": [{"p": "a/ü.done"}], "ignoreIfExists": True},
    ]


# Pages, faults, races


def test_lists_come_in_pages(server: RestServer) -> None:
    catalog = opened(server)
    for number in range(5):
        catalog.create_table(f"db{number}.t", schema="id INT")
        catalog.create_table(f"db.t{number}", schema="id INT")
    server.views["db"] = ["v3", "v1", "v2"]
    assert catalog.databases() == ["db", "db0", "db1", "db2", "db3", "db4"]
    assert catalog.tables("db") == [f"t{number}" for number in range(5)]
    assert catalog._catalog.views("db") == ["v1", "v2", "v3"]  # type: ignore[attr-defined]  # of REST catalogs
    assert catalog._catalog.functions("db") == []  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match="5 tables and 3 views"):
        catalog.drop_database("db")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (lambda page: ["a", f"n{page}"], "more than 20 pages of databases"),
        (lambda _: ["a", "b"], "a page of databases again"),
    ],
)
def test_lists_that_never_end_are_errors(
    server: RestServer, monkeypatch: pytest.MonkeyPatch, names: Callable[[int], list[str]], message: str
) -> None:
    catalog, pages = opened(server), itertools.count()
    monkeypatch.setattr(client_module, "MAX_PAGES", 20)
    answer = lambda *_: (200, {"databases": names(page := next(pages)), "nextPageToken": f"t{page}"})  # noqa: E731
    monkeypatch.setattr(RestServer, "answer", answer)
    with pytest.raises(StorageError, match=message):
        catalog.databases()


def test_a_name_that_shifts_to_the_next_page_is_told_once(server: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = opened(server)
    pages = [{"databases": ["a", "b"], "nextPageToken": "1"}, {"databases": ["b", "c"]}]
    monkeypatch.setattr(RestServer, "answer", lambda *_: (200, pages.pop(0)))
    assert catalog.databases() == ["a", "b", "c"]


LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
FAULTS = [[(503, {"Retry-After": "0"}), CUT_AFTER], [CUT_AFTER, CUT_BEFORE, (429, {})], [CUT_AFTER], [CUT_AFTER] * 3]


@pytest.mark.parametrize("faults", FAULTS if LONG else FAULTS[:2])
def test_what_was_ordered_is_done_once_whatever_happens_to_answers(server: RestServer, faults: list[Any]) -> None:
    catalog = opened(server)

    def troubled(order: Any) -> Any:
        server.faults = list(faults)
        found = order()
        server.faults = []
        return found

    troubled(lambda: catalog.create_database("db"))
    table = troubled(lambda: catalog.create_table("db.t", **SCHEMA))
    server.faults = []
    for number in range(2):
        _trouble_commits(server, faults)
        table.upsert({"id": [number], "v": ["x"]})
    assert [each.id for each in table.snapshots()] == [1, 2]
    assert not server.trouble[0]
    for order in (
        lambda: table.tags.create("a"),
        lambda: table.branches.create("b", tag="a"),
        lambda: table.alter.add_column("n", "INT"),
        lambda: table.tags.delete("a"),
        lambda: table.branches.delete("b"),
        lambda: table.rollback(snapshot=1),
        lambda: catalog.rename_table("db.t", "db.u"),
        lambda: catalog.drop_table("db.u"),
        lambda: catalog.drop_database("db"),
    ):
        _trouble_orders(server, faults)
        order()
        assert not server.trouble[0]
    assert catalog.databases() == []


def _trouble_commits(server: RestServer, faults: list[Any]) -> None:
    server.trouble = ([*faults], lambda _, path: path.endswith("/commit"))


def _trouble_orders(server: RestServer, faults: list[Any]) -> None:
    server.trouble = ([*faults], lambda method, _: method != "GET")


def test_a_commit_that_others_were_faster_than_is_prepared_anew(server: RestServer) -> None:
    one, other = (opened(server) for _ in range(2))
    table = one.create_table("db.t", **SCHEMA)
    with table.writer() as writer:
        writer.write({"id": [1], "v": ["mine"]})
        other.table("db.t").upsert({"id": [2], "v": ["theirs"]})
    assert sorted(table.scan().to_polars()["id"]) == [1, 2]


def test_a_server_without_an_answer_leaves_a_commit_unclear(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "UNCLEAR_WAIT_SECONDS", 0.001)
    table = opened(server).create_table("db.t", **SCHEMA)
    server.trouble = ([CUT_BEFORE] * 1000, lambda _, path: path.endswith("/commit"))
    with pytest.raises(UnclearOutcome, match="whether it was done is not known"):
        table.upsert({"id": [1], "v": ["x"]})
    server.trouble = ([], lambda *_: False)
    table.upsert({"id": [2], "v": ["y"]})
    assert table.scan().to_polars()["id"].to_list() == [2]


@pytest.mark.parametrize("fault", [GARBAGE, Done(500), Done(502), Done(504)], ids=str)
def test_a_commit_that_was_done_keeps_its_files_whatever_the_answer_says(server: RestServer, fault: Any) -> None:
    table = opened(server).create_table("db.t", **SCHEMA)
    server.trouble = ([fault], lambda _, path: path.endswith("/commit"))
    table.upsert({"id": [1], "v": ["x"]})
    server.trouble = ([CUT_AFTER, (401, {})], lambda _, path: path.endswith("/commit"))
    table.upsert({"id": [2], "v": ["y"]})
    assert not server.trouble[0]
    server.trouble = ([fault], lambda method, _: method == "POST")
    if fault != GARBAGE:
        table.alter.add_column("n", "INT")
        assert (table.schema.names, server.trouble[0]) == (["id", "v", "n"], [])
    morrow.clear_caches()
    assert sorted(table.scan().to_polars()["id"]) == [1, 2]
    assert [each.id for each in table.snapshots()] == [1, 2]


@pytest.mark.parametrize("own", [{"timeMillis": 5}, {"serverSays": "x"}], ids=str)
def test_a_commit_is_known_again_whatever_the_server_adds_to_it(
    server: RestServer, monkeypatch: pytest.MonkeyPatch, own: dict[str, Any]
) -> None:
    monkeypatch.setattr(committer, "UNCLEAR_WAIT_SECONDS", 0.001)
    table = opened(server).create_table("db.t", schema="id INT")
    answer = RestServer.answer

    def changed(self: RestServer, method: str, path: str, query: Any, body: Any) -> Any:
        changes = path.endswith("/commit") and body["baseSnapshotUuid"] != "of the server"
        return answer(self, method, path, query, {**body, "snapshot": body["snapshot"] | own} if changes else body)

    monkeypatch.setattr(RestServer, "answer", changed)
    for number, faults in enumerate(([CUT_AFTER], [Done(502)])):
        _trouble_commits(server, faults)
        table.append({"id": [number]})
    assert [each.id for each in table.snapshots()] == [1, 2]
    assert sorted(opened(server).table("db.t").scan().to_polars()["id"]) == [0, 1]


@pytest.mark.parametrize("code", [400, 404, 409, 501])
def test_a_commit_that_nobody_tells_of_keeps_its_files(
    server: RestServer, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(committer, "UNCLEAR_WAIT_SECONDS", 0.001)
    table = opened(server).create_table("db.t", schema="id INT")
    table.append({"id": [0]})
    answer, sent = RestServer.answer, list[str]()

    def forgets(self: RestServer, method: str, path: str, query: Any, body: Any) -> Any:
        if sent and "/snapshot" in path:
            return code, {"code": code, "message": "no", "resourceType": "TABLE"}
        found = answer(self, method, path, query, body)
        if path.endswith("/commit"):
            sent.append(path)
            return 502, {"code": 502, "message": "gateway"}
        return found

    with monkeypatch.context() as patched:
        patched.setattr(RestServer, "answer", forgets)
        with pytest.raises(UnclearOutcome, match="whether the snapshot was committed is not known"):
            table.append({"id": [1]})
    morrow.clear_caches()
    assert sorted(opened(server).table("db.t").scan().to_polars()["id"]) == [0, 1]


def test_an_order_that_a_gateway_answers_may_be_done(server: RestServer) -> None:
    catalog = opened(server)
    server.faults = [Done(502)]
    with pytest.raises(StorageError, match=r"gateway \(502\); whether it was done is not known$"):
        catalog.create_database("db")
    server.faults = [Done(502)]
    with pytest.raises(StorageError, match=r"gateway \(502\)$"):
        catalog.databases()
    assert catalog.databases() == ["db"]


def test_servers_that_fail_are_named_in_a_line(server: RestServer) -> None:
    catalog = opened(server)
    for faults, message in (
        ([(503, {"Retry-After": "3600"})], r"busy \(503\)"),
        ([(500, {})], r"busy \(500\)"),
        ([(501, {})], "is not supported"),
        ([(302, {"Location": "http://u:hush@127.0.0.1:1/"})], r"redirects to 127.0.0.1:1: set .* \(302\)"),
        ([GARBAGE], "the answer is not a JSON object"),
        ([CUT_BEFORE] * 6, "check the option 'uri' and the server"),
    ):
        server.faults = list(faults)
        with pytest.raises(MorrowError, match=message) as caught:
            catalog.databases()
        assert "\n" not in str(caught.value)
        assert server.url in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1:9", "nobody.invalid"])
def test_where_no_server_is_the_error_comes_at_once(
    server: RestServer, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(client_module, "FIRST_WAIT", 0.5)
    monkeypatch.setattr(client_module.time, "sleep", waits.append)
    with pytest.raises(StorageError, match=f"http://{host}/.*; check the option 'uri' and the server"):
        morrow.open_catalog({**options(server), "uri": host})
    assert len(waits) == client_module.MAX_CONNECTIONS - 1
    assert sum(waits) < 2


def test_a_server_that_was_there_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with rest_server(tmp_path) as gone:
        catalog = opened(gone)
        assert catalog.databases() == []
    gone.faults = [CUT_BEFORE]  # cuts the open connection
    waits: list[float] = []
    monkeypatch.setattr(client_module.time, "sleep", waits.append)
    with pytest.raises(StorageError, match="check the option 'uri' and the server"):
        catalog.databases()
    assert len(waits) == client_module.MAX_TRIES - 1


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        *(({"databases": names}, "databases") for names in (5, True, "abc", {"a": 1}, [1], [None], [["a"]])),
        *(({"databases": ["db"], "nextPageToken": token}, "databases") for token in ([], {"a": 1}, 1.5, 7)),
        *(({"schema": schema, "path": "/nowhere"}, "table") for schema in (5, "abc", [1], {"partitionKeys": 5})),
        *(({"path": path}, "table") for path in (None, 5, "", [])),
        *((answer, "function") for answer in ({"inputParams": 5}, {"definitions": {"duckdb": {"type": 1}}})),
        ({"definitions": {"duckdb": {"type": "sql", "definition": 1.5}}}, "function"),
    ],
    ids=str,
)
def test_answers_of_another_shape_are_errors(
    server: RestServer, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], order: str
) -> None:
    catalog = opened(server)
    catalog.create_table("db.t", schema="id INT")
    monkeypatch.setattr(RestServer, "answer", lambda *_: (200, answer))
    orders: dict[str, Any] = {
        "databases": catalog.databases,
        "table": lambda: catalog.table("db.t").to_polars(),
        "function": lambda: catalog.sql("SELECT db.f(1)").fetchall(),
    }
    with pytest.raises(MorrowError) as caught:
        orders[order]()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pause", ["nan", "-1", "0", "Thu, 01 Jan 1970 00:00:00 GMT", "soon", ""])
def test_whatever_a_busy_server_says_of_its_pause(
    server: RestServer, monkeypatch: pytest.MonkeyPatch, pause: str
) -> None:
    monkeypatch.setattr(client_module, "FIRST_WAIT", 0.001)
    catalog = opened(server)
    server.faults = [(503, {"Retry-After": pause})]
    assert catalog.databases() == []


def test_tables_that_are_not_paimons_own_are_refused(server: RestServer) -> None:
    catalog = opened(server)
    catalog.create_table("db.t", **SCHEMA)
    server.databases["db"]["t"].options = {"type": "format-table", "file.format": "csv"}
    with pytest.raises(Unsupported, match="a table of the type 'format-table'"):
        catalog.table("db.t")


def test_another_table_of_the_name_is_not_written_to(server: RestServer) -> None:
    catalog = opened(server)
    table = catalog.create_table("db.t", **SCHEMA)
    catalog.drop_table("db.t")
    catalog.create_table("db.t", **SCHEMA)
    with pytest.raises((TableNotFound, StorageError, CommitConflict)):
        table.upsert({"id": [1], "v": ["lost"]})
    assert catalog.table("db.t").snapshots() == []


# Configuration and authentication


def test_the_server_sets_defaults_and_overrides(server: RestServer) -> None:
    server.config = {
        "defaults": {"table-default.bucket": "3", "table-default.file.format": "orc"},
        "overrides": {"table-default.file.format": "parquet", "secret-of-server": "s3cr3t-0f-server"},
    }
    catalog = opened(server, **{"table-default.bucket": "2"})
    table = catalog.create_table("db.t", schema="id INT NOT NULL", primary_keys="id")
    assert (table.options["bucket"], table.options["file.format"]) == ("2", "parquet")
    assert ("GET", "/v1/a+b%2F%C3%BC/databases/db/tables/t") in server.asked
    assert "s3cr3t-0f-server" not in str(catalog.system("catalog_options").to_polars())


def test_headers_go_with_every_request(server: RestServer) -> None:
    seen: list[str | None] = []
    server.lets_in = lambda *request: bool(seen.append(request[-1].get("X-Team"))) or True
    opened(server, **{"header.X-Team": "lake"}).databases()
    assert set(seen) == {"lake"}


def test_credentials_are_lent_and_renewed(server: RestServer) -> None:
    lent: list[float] = []

    def token() -> dict[str, Any]:
        lent.append(time.time())
        return {"token": {"fs.oss.accessKeySecret": "lent-s3cret"}, "expiresAtMillis": (time.time() + 0.2) * 1000}

    server.token = token
    server.config = {"defaults": {"data-token.enabled": "true"}}
    catalog = opened(server)
    table = catalog.create_table("db.t", **SCHEMA)
    table.upsert({"id": [1], "v": ["a"]})
    assert table.scan().count() == 1
    count = len(lent)
    time.sleep(0.11)
    copy = pickle.loads(pickle.dumps(table))
    assert (table.scan().count(), copy.scan().count()) == (1, 1)
    assert len(lent) > count
    assert b"lent-s3cret" not in pickle.dumps(table)


def test_credentials_that_cannot_be_renewed_serve_until_they_end(server: RestServer) -> None:
    lent: list[float] = []

    def token() -> dict[str, Any]:
        lent.append(time.time())
        if len(lent) > 1:
            raise Refused(500)
        return {"token": {}, "expiresAtMillis": (lent[0] + 0.6) * 1000}

    server.token = token
    catalog = opened(server, **{"data-token.enabled": "true"})
    catalog.create_table("db.t", **SCHEMA)
    lent.clear()
    table = catalog.table("db.t")
    assert table.scan().count() == 0
    time.sleep(0.35)
    assert (table.scan().count(), len(lent)) == (0, 2)  # the second read asked for them again, once
    time.sleep(0.3)
    with pytest.raises(StorageError, match="refused"):
        table.scan().count()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        *(({"token": token, "expiresAtMillis": 1}, "returns no credentials") for token in (None, 5, ["x"])),
        *(
            ({"token": {}, "expiresAtMillis": end}, "have no expiry time")
            for end in ("soon", None, -1, 10**400, float("nan"))
        ),
    ],
    ids=lambda given: str(given)[:40],
)
def test_credentials_of_another_shape_are_errors(server: RestServer, answer: dict[str, Any], message: str) -> None:
    opened(server).create_table("db.t", **SCHEMA)
    server.token = lambda: answer
    with pytest.raises(StorageError, match=message):
        opened(server, **{"data-token.enabled": "true"}).table("db.t").scan().count()


@pytest.mark.parametrize("prefix", [".", ".."])
def test_a_prefix_that_leads_elsewhere_is_refused(server: RestServer, prefix: str) -> None:
    server.prefix = prefix
    with pytest.raises(StorageError, match="is not a prefix of paths"):
        opened(server).databases()
    assert {path for _, path in server.asked} == {"/v1/config"}


def test_no_secret_is_told(server: RestServer) -> None:
    catalog = opened(server)
    table = catalog.create_table("db.t", **SCHEMA)
    told = [repr(catalog), repr(table), str(catalog.system("catalog_options").to_polars()), repr(catalog._catalog)]
    told += [str(table._metadata), repr(vars(catalog._catalog)), repr(table._metadata.owner)]
    assert TOKEN not in "".join(told)
    for thing in (catalog, table, table.scan()):
        assert TOKEN.encode() not in pickle.dumps(thing)
    assert pickle.loads(pickle.dumps(catalog)).tables("db") == ["t"]

    server.lets_in = lambda *_: False
    with pytest.raises(StorageError, match=r"who are you\?.*check token.provider") as caught:
        catalog.databases()
    assert "sent-back-secret" not in str(caught.value)


def test_a_fork_asks_for_itself(server: RestServer) -> None:
    catalog = opened(server)
    catalog.create_database("db")
    pid = os.fork()
    if pid == 0:
        os._exit(0 if catalog.databases() == ["db"] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert catalog.databases() == ["db"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"token.provider": ""}, "needs the option 'token.provider'"),
        ({"token.provider": "basic"}, "known are bear and dlf"),
        ({"token": ""}, "needs the option 'token'"),
        ({"token.provider": "dlf"}, "names no region|needs the option 'dlf.access-key-id'"),
        ({"dlf.token-path": "/nope", "token.provider": "dlf", "dlf.region": "x"}, "/nope: there is no key of DLF"),
        ({"tokn": "x"}, "did you mean 'token'"),
        ({"uri": "https://me:hunter22@host"}, "has no user and password"),
        ({"dlf.signing-algorithm": "md5"}, "known values: default, openapi"),
    ],
)
def test_what_is_wrong_is_said(server: RestServer, given: dict[str, str], message: str) -> None:
    with pytest.raises(MorrowError, match=message):
        opened(server, **given)


def test_no_name_leads_to_another_thing(server: RestServer) -> None:
    catalog = opened(server)
    table = catalog.create_table("db.t", **SCHEMA)
    table.upsert({"id": [1], "v": ["a"]})
    table.tags.create("v1")
    for order in (
        lambda: catalog.drop_table("db..."),
        lambda: catalog.drop_table("db.."),
        lambda: catalog.drop_database(".."),
        lambda: catalog.drop_database(".", cascade=True),
        lambda: catalog.table("..t"),
        lambda: table.tags.delete(".."),
        lambda: table.branches.delete(".."),
    ):
        with pytest.raises(MorrowError):
            order()
    odd = "ü %2F/?#&=+ 'x\"; ~\tz"
    for name in (odd, "a.b", "*", "tables"):
        catalog.create_table(f"db.{name}", **SCHEMA).upsert({"id": [1], "v": [name]})
        assert catalog.table(f"db.{name}").scan().to_polars()["v"].to_list() == [name]
    assert catalog.tables("db") == sorted(["t", odd, "a.b", "*", "tables"])
    catalog.drop_table(f"db.{odd}")
    assert (len(catalog.tables("db")), table.scan().count()) == (4, 1)


def test_an_existing_database_and_table_are_told(server: RestServer) -> None:
    catalog = opened(server)
    catalog.create_table("db.t", **SCHEMA)
    with pytest.raises(AlreadyExists, match=r"there is a table 'db\.t' already"):
        catalog.create_table("db.t", **SCHEMA)
    with pytest.raises(TableNotFound, match="did you mean 't'"):
        catalog.table("db.T")
