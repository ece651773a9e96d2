"""Secrets of stores: in no pickle and no repr, and found again on the other side."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.io import secrets
from morrow.engine.io.secrets import StorageOptions
from morrow.spark.job.sections import ScanJob
from morrow.spark.job.table import TableAccess
from morrow.spark.writing.work import WriteJob
from morrow.writers.target import WriteTarget
from tests.support.s3_server import s3_server
from tests.support.written import rows

ID, SECRET = "c4n4ry-of-the-id", "c4n4ry/of+the=secret"
CREDENTIALS = {"aws_access_key_id": ID, "aws_secret_access_key": SECRET}


@pytest.fixture
def options() -> Iterator[dict[str, str]]:
    with s3_server() as found:
        yield {**found, **CREDENTIALS}


@pytest.fixture
def table(options: dict[str, str]) -> morrow.Table:
    made = morrow.Catalog("s3://lake/wh", storage_options=options).create_table("db.t", schema="a INT")
    made.append([{"a": 1}])
    return made


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process: what this one has kept is not known."""
    monkeypatch.setattr(secrets, "_held", {})
    monkeypatch.setattr(secrets, "_resolver", None)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", secrets.ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)


def pickled(table: morrow.Table, options: dict[str, str]) -> dict[str, bytes]:
    """Pickles all that a user, or Spark, may pickle."""
    target = WriteTarget.of(table._metadata)
    scan = table.scan(filter="a > 0")
    made: dict[str, Any] = {
        "catalog": morrow.Catalog("s3://lake/wh", storage_options=options),
        "table": table,
        "scan": scan,
        "plan": scan.plan,
        "changes": table.changes(),
        "branch": table.on_branch("main"),
        "tags": table.tags,
        "job": ScanJob.of(scan.plan, scan.store),
        "write job": WriteJob(TableAccess.of(target), ("a",)),
        "options": StorageOptions(options),
    }
    return {name: pickle.dumps(value) for name, value in made.items()}


def test_no_pickle_and_no_repr_has_them(table: morrow.Table, options: dict[str, str]) -> None:
    for name, data in pickled(table, options).items():
        assert b"c4n4ry" not in data, name
        assert "c4n4ry" not in repr(pickle.loads(data)), name
    for made in (table, table._metadata, table._metadata.store, table._metadata.store.storage_options, table.scan()):
        assert "c4n4ry" not in repr(made) + str(vars(made).get("storage_options", ""))


def test_this_process_finds_them_again(table: morrow.Table) -> None:
    again = pickle.loads(pickle.dumps(table))
    assert rows(again) == [(1,)]
    assert rows(copy.deepcopy(again)) == [(1,)]


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.usefixtures("elsewhere")
def test_what_is_missing_is_told(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(table)
    monkeypatch.setattr(secrets, "_held", {})
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr("morrow.engine.io.objects.ObjectStore._asked", refused)
    with pytest.raises(StorageError, match="aws_access_key_id, aws_secret_access_key were left out"):
        pickle.loads(data)._metadata.store.read("x")


def refused(self: Any, *_: object) -> None:
    raise StorageError(self._what_to_do())


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("by", ["environment", "resolver", "named resolver"])
def test_others_find_them(table: morrow.Table, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    data = pickle.dumps(table)
    monkeypatch.setattr(secrets, "_held", {})
    asked: list[str] = []
    if by == "environment":
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name.upper(), value)
    elif by == "resolver":
        morrow.secrets.register(lambda url: (asked.append(url), CREDENTIALS)[1])
    else:
        monkeypatch.setenv("MORROW_SECRETS", "tests.engine.io.test_secrets:found")
    assert rows(pickle.loads(data)) == [(1,)]
    assert asked == (["s3://lake"] if by == "resolver" else [])


def found(_url: str) -> dict[str, str]:
    return CREDENTIALS


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("named", ["nowhere", "no.such.module:f", "tests.engine.io.test_secrets:ID", "os:nothing"])
def test_a_resolver_that_is_none(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    data = pickle.dumps(StorageOptions(CREDENTIALS, "s3://lake"))
    monkeypatch.setattr(secrets, "_held", {})
    monkeypatch.setenv("MORROW_SECRETS", named)
    with pytest.raises(InvalidArgument, match="MORROW_SECRETS"):
        pickle.loads(data)
    with pytest.raises(InvalidArgument):
        morrow.secrets.register("x")
    morrow.secrets.register(lambda _: {"a": 1})
    with pytest.raises(InvalidArgument, match="mapping of text"):
        pickle.loads(data)


def test_passwords_in_urls_and_proxies_are_secrets() -> None:
    options = StorageOptions({"proxy_url": "http://u:c4n4ry-1@proxy:1", "token": "c4n4ry-2"}, "https://u:c4n4ry-3@h")
    data = pickle.dumps(options)
    assert b"c4n4ry" not in data
    assert "c4n4ry" not in repr(options)
    assert pickle.loads(data) == options


def test_tables_in_memory_do_not_pickle() -> None:
    table = morrow.Catalog("memory:///wh").create_table("db.t", schema="a INT")
    with pytest.raises(Unsupported, match="pickling a table in memory"):
        pickle.dumps(table)
