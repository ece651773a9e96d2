"""S3 roles: assumed at an STS by Hadoop's options, renewed in time, with secrets that are never shown."""

from __future__ import annotations

import logging
import pickle
import sys
import time
import traceback
from collections.abc import Iterator

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.io import temporary_credentials
from tests.support.s3_server import BUCKET, S3Server, running
from tests.support.sts_server import ROLE, StsServer, s3_error, sts_server

PLACE = f"s3://{BUCKET}/w"
ASSUMED = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
SCHEMA = "id INT NOT NULL, v STRING"


@pytest.fixture
def sts() -> Iterator[StsServer]:
    with sts_server() as server:
        yield server


@pytest.fixture
def s3(sts: StsServer) -> Iterator[S3Server]:
    """Start a server that accepts only credentials lent by the STS."""
    with running(trouble=sts.guard) as server:
        yield server


@pytest.fixture
def options(s3: S3Server, sts: StsServer) -> dict[str, str]:
    """Return the options of a role in Hadoop's spelling."""
    return {
        "fs.s3a.endpoint": f"http://127.0.0.1:{s3.port}",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "user",
        "fs.s3a.secret.key": "hush-hush-hush",
        "fs.s3a.aws.credentials.provider": ASSUMED,
        "fs.s3a.assumed.role.arn": ROLE,
        "fs.s3a.assumed.role.sts.endpoint": sts.url,
    }


def test_a_role_is_assumed_once_for_all_tables(options: dict[str, str], sts: StsServer) -> None:
    told = {"session.name": "nightly", "session.duration": "1h", "external.id": "x-1", "policy": "{}"}
    options |= {f"fs.s3a.assumed.role.{name}": value for name, value in told.items()}
    catalog = morrow.open_catalog({"warehouse": PLACE, **options})
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys="id", options={"bucket": 1})
    table.upsert({"id": [1, 2], "v": ["a", "b"]})
    table.upsert({"id": [2], "v": ["B"]})
    found = morrow.open(f"{PLACE}/db.db/t", storage_options=options)
    assert sorted(found.scan().to_polars().rows()) == [(1, "a"), (2, "B")]
    assert found.scan(filter="id = 2").to_duckdb().fetchall() == [(2, "B")]
    assert found.scan().lazy().select("v").collect().height == 2
    (asked,) = sts.asked
    expected = {"RoleArn": ROLE, "RoleSessionName": "nightly", "DurationSeconds": "3600", "ExternalId": "x-1"}
    assert {name: asked[name] for name in (*expected, "Policy", "key")} == {**expected, "Policy": "{}", "key": "user"}


class Clock:
    """A clock that tests put forward."""

    ahead = 0.0

    def __init__(self) -> None:
        self.real = time.time

    def __call__(self) -> float:
        return self.real() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Set the time of this process, of S3 and of the STS."""
    made = Clock()
    monkeypatch.setattr(time, "time", made)
    return made


def test_credentials_are_asked_for_anew_before_they_end(options: dict[str, str], sts: StsServer, clock: Clock) -> None:
    sts.life = 1800
    table = morrow.open_catalog({"warehouse": PLACE, **options}).create_table("db.t", schema=SCHEMA)
    for minutes, count in ((0, 1), (14, 1), (16, 2), (17, 2), (40, 3), (300, 4)):
        clock.ahead = 60.0 * minutes
        table.append({"id": [minutes], "v": ["x"]})
        assert (minutes, len(sts.asked)) == (minutes, count)
    assert table.scan().to_polars()["id"].sort().to_list() == [0, 14, 16, 17, 40, 300]


def test_lent_credentials_serve_while_sts_refuses(options: dict[str, str], sts: StsServer, clock: Clock) -> None:
    table = morrow.open_catalog({"warehouse": PLACE, **options}).create_table("db.t", schema=SCHEMA)
    sts.refuses = (403, "AccessDenied", f"User is not authorized to perform sts:AssumeRole on {ROLE}")
    clock.ahead = 3000
    assert table.scan().count() == 0
    clock.ahead = 3700
    with pytest.raises(StorageError, match=r"role/reader was not assumed: .*\(AccessDenied\).*; check the role,"):
        table.scan().count()
    sts.refuses = None
    assert table.scan().count() == 0


def test_secrets_are_nowhere(
    options: dict[str, str], sts: StsServer, s3: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "morrow")
    catalog = morrow.open_catalog({"warehouse": PLACE, **options})
    table = catalog.create_table("db.t", schema=SCHEMA)
    table.append({"id": [1], "v": ["a"]})
    store, scan = table._metadata.store, table.scan()
    lazy = scan.lazy()
    seen = [repr(each) for each in (catalog, table, store, store.storage_options, scan, scan.plan)]
    seen += [str(scan.explain()), caplog.text, lazy.explain(), str(catalog.sql("FROM sys.catalog_options"))]
    pickles = [pickle.dumps(each) for each in (catalog, table, scan, store)]
    s3.trouble = lambda _request: s3_error(403, "SignatureDoesNotMatch")
    with pytest.raises(StorageError) as told:
        table.scan().to_polars()
    seen += [str(told.value), "".join(traceback.format_exception(told.value))]
    for secret in ("hush-hush-hush", *sts.secrets):
        assert not [text for text in seen if secret in text]
        assert not [data for data in pickles if secret.encode() in data]


def test_pickles_assume_the_role_again(options: dict[str, str], sts: StsServer) -> None:
    table = morrow.open_catalog({"warehouse": PLACE, **options}).create_table("db.t", schema=SCHEMA)
    table.append({"id": [1], "v": ["a"]})
    data = pickle.dumps(table)
    temporary_credentials._cached.clear()
    assert pickle.loads(data).to_polars().rows() == [(1, "a")]
    assert len(sts.asked) == 2
    table = morrow.open(table.path, storage_options=options, verify="pages")
    assert pickle.loads(pickle.dumps(table))._metadata.store.checks_pages


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fs.s3a.assumed.role.session.duration": "1m"}, "from 15m to 12h, not '1m'"),
        ({"fs.s3a.assumed.role.sesion.name": "x"}, "did you mean 'assumed.role.session.name'"),
        ({"fs.s3a.assumed.role.arn": ""}, "needs the storage option 'aws_assumed_role_arn'"),
        ({"fs.s3a.assumed.role.credentials.provider": ASSUMED}, "AssumedRoleCredentialProvider cannot give those that"),
        (
            {"fs.s3a.assumed.role.credentials.provider": "my.Own"},
            "the provider Own of fs.s3a.assumed.role.cre",
        ),
        ({"fs.s3a.assumed.role.session.name": "x"}, r"the role arn:\S+ was not assumed: .*RoleSessionName"),
    ],
)
def test_what_makes_no_role_is_refused(options: dict[str, str], given: dict[str, str], message: str) -> None:
    with pytest.raises((InvalidArgument, Unsupported, StorageError), match=message) as told:
        morrow.open_catalog({"warehouse": PLACE, **options, **given}).create_table("db.t", schema=SCHEMA)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "answer", ["<html>a gateway</html>", "", "{}", "<AssumeRoleResponse><AssumeRoleResult/></AssumeRoleResponse>"]
)
def test_an_sts_that_is_none(options: dict[str, str], sts: StsServer, answer: str) -> None:
    sts.answers = answer
    with pytest.raises(StorageError, match=r"no STS answers there|answered without credentials"):
        morrow.open_catalog({"warehouse": PLACE, **options}).databases()


def test_an_sts_that_is_not_there(options: dict[str, str]) -> None:
    options["fs.s3a.assumed.role.sts.endpoint"] = "http://127.0.0.1:1"
    began = time.monotonic()
    with pytest.raises(StorageError, match="Could not connect to the endpoint"):
        morrow.open_catalog({"warehouse": PLACE, **options}).databases()
    assert time.monotonic() - began < 20


def test_boto3_is_named_where_it_is_missing(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(Unsupported, match=r"without boto3 is not supported; run: pip install 'morrow\[aws\]'"):
        morrow.open_catalog({"warehouse": PLACE, **options})


def test_keys_of_the_environment_assume_a_role(
    options: dict[str, str], sts: StsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    del options["fs.s3a.access.key"], options["fs.s3a.secret.key"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    morrow.open_catalog({"warehouse": PLACE, **options}).create_database("a")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    with pytest.raises(MorrowError, match="InvalidClientTokenId"):
        morrow.open_catalog({"warehouse": PLACE, **options}).databases()
    assert [asked["key"] for asked in sts.asked] == ["user", "somebody"]


def test_the_role_of_the_machine(options: dict[str, str], sts: StsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", sts.url)
    given = {name: options[f"fs.s3a.{name}"] for name in ("endpoint", "endpoint.region")}
    provider = {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"}
    options = {f"fs.s3a.{name}": value for name, value in {**given, **provider}.items()}
    table = morrow.open_catalog({"warehouse": PLACE, **options}).create_table("db.t", schema=SCHEMA)
    table.append({"id": [1], "v": ["a"]})
    assert table.scan().to_polars().rows() == [(1, "a")]
    assert {asked["Action"] for asked in sts.asked} == {"metadata"}
