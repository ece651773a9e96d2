"""Store options in Paimon's spelling; tables in memory, in OSS as S3, and in fsspec file systems."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.io.hdfs import HdfsStore
from morrow.engine.io.storage_options import parse_hadoop_options, to_store_options
from tests.support.s3_objects import Request
from tests.support.s3_server import BUCKET, running, s3_server

PROVIDER = "fs.s3a.aws.credentials.provider"
SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
ROLE = {"fs.s3a.assumed.role.arn": "arn:r", "fs.s3a.assumed.role.session.duration": "20m"}
IN_ROLE = {"aws_assumed_role_arn": "arn:r", "aws_assumed_role_duration": "20m"}
ASSUMED = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
KEYS = {"s3.access-key": "me", "s3.secret-key": "hush"}
OWN_KEYS = {"aws_access_key_id": "me", "aws_secret_access_key": "hush"}
SCHEMA = "id INT NOT NULL, v STRING"


@pytest.mark.parametrize(
    ("location", "given", "expected"),
    [
        (
            "s3://lake/w",
            {"s3.access-key": "me", "fs.s3a.secret.key": "hush", "s3a.session.token": "now", "s3.region": "eu"},
            {
                "aws_access_key_id": "me",
                "aws_secret_access_key": "hush",
                "aws_session_token": "now",
                "aws_region": "eu",
            },
        ),
        (
            "s3a://lake/w",
            {"fs.s3a.endpoint": "minio:9000", "fs.s3a.connection.ssl.enabled": "false", "s3.path-style-access": "true"},
            {"aws_endpoint_url": "http://minio:9000", "aws_virtual_hosted_style_request": "false"},
        ),
        (
            "s3://lake/w",
            {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
            {"aws_skip_signature": "true"},
        ),
        ("s3://lake/w", {PROVIDER: f"{SIMPLE}, {TEMPORARY}", **KEYS}, OWN_KEYS),
        ("s3://lake/w", {PROVIDER: f"{SIMPLE},com.amazonaws.auth.WebIdentityTokenCredentialsProvider"}, {}),
        ("s3://lake/w", {PROVIDER: ASSUMED, **KEYS, **ROLE}, {**OWN_KEYS, **IN_ROLE}),
        ("s3://lake/w", {**KEYS, **ROLE}, {**OWN_KEYS, **IN_ROLE}),
        ("s3://lake/w", {PROVIDER: f"{SIMPLE},{ASSUMED}", **KEYS, **ROLE}, OWN_KEYS),
        ("s3://lake/w", {PROVIDER: f"{TEMPORARY},{ASSUMED}", **KEYS, **ROLE}, {**OWN_KEYS, **IN_ROLE}),
        ("s3://lake/w", {PROVIDER: SIMPLE, **KEYS, **ROLE}, OWN_KEYS),
        (
            "s3://lake/w",
            {"fs.s3a.bucket.lake.assumed.role.arn": "arn:r", "fs.s3a.bucket.b.assumed.role.arn": "arn:s"},
            {"aws_assumed_role_arn": "arn:r"},
        ),
        (
            "s3://lake/w",
            {"fs.s3a.endpoint": "https://a", "fs.s3a.bucket.lake.endpoint": "https://b", "fs.s3a.threads.max": "9"},
            {"aws_endpoint_url": "https://b"},
        ),
        (
            "s3://lake/w",
            {
                "fs.s3a.encryption.algorithm": "SSE-KMS",
                "fs.s3a.encryption.key": "arn:k",
                "s3.requester.pays.enabled": "true",
            },
            {"aws_server_side_encryption": "aws:kms", "aws_sse_kms_key_id": "arn:k", "aws_request_payer": "true"},
        ),
        (
            "s3://lake/w",
            {
                "fs.s3a.server-side-encryption-algorithm": "AES256",
                "fs.s3a.proxy.host": "p",
                "fs.s3a.proxy.port": "8080",
            },
            {"aws_server_side_encryption": "AES256", "proxy_url": "http://p:8080"},
        ),
        (
            "abfss://c@account.dfs.core.windows.net/w",
            {
                "fs.azure.account.auth.type.account.dfs.core.windows.net": "OAuth",
                "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
                "fs.azure.account.oauth2.client.id": "me",
                "fs.azure.account.oauth2.client.secret.account.dfs.core.windows.net": "hush",
                "fs.azure.account.oauth2.client.endpoint": "https://login.example.com/tenant/oauth2/token",
            },
            {
                "azure_storage_account_name": "account",
                "azure_client_id": "me",
                "azure_client_secret": "hush",
                "azure_tenant_id": "tenant",
                "azure_authority_host": "https://login.example.com",
            },
        ),
        ("s3://lake/w", {"fs.oss.endpoint": "of another store", "aws_region": "eu"}, {"aws_region": "eu"}),
        (
            "oss://lake/w",
            {"fs.oss.endpoint": "oss-cn-hangzhou.aliyuncs.com", "fs.oss.accessKeyId": "me"},
            {
                "aws_endpoint_url": "https://lake.oss-cn-hangzhou.aliyuncs.com",
                "aws_region": "oss-cn-hangzhou",
                "aws_virtual_hosted_style_request": "true",
                "aws_access_key_id": "me",
            },
        ),
        (
            "gs://lake/w",
            {"fs.gs.auth.service.account.json.keyfile": "/k.json", "fs.gs.impl": "x"},
            {"google_service_account": "/k.json"},
        ),
        (
            "abfss://box@team.dfs.core.windows.net/w",
            {"fs.azure.account.key.team.dfs.core.windows.net": "hush"},
            {"azure_storage_account_name": "team", "azure_storage_account_key": "hush"},
        ),
        ("/local", {"s3.access-key": "me"}, {}),
    ],
)
def test_options_are_translated(location: str, given: dict[str, str], expected: dict[str, str]) -> None:
    assert to_store_options(given, location) == expected


@pytest.mark.parametrize(
    ("location", "given", "message"),
    [
        ("s3://b", {"s3.acces-key": "x"}, "did you mean 'access-key'"),
        ("s3://b", {"s3.path-style-access": "yes"}, "true or false"),
        ("s3://b", {"fs.s3a.assumed.role.arm": "arn:x"}, "did you mean 'assumed.role.arn'"),
        ("s3://b", {PROVIDER: "my.Own"}, "the provider Own of fs.s3a.aws.credentials.provider is not supported"),
        ("s3://b", {PROVIDER: SIMPLE}, "SimpleAWSCredentialsProvider of .* needs the options aws_access_key_id and"),
        ("s3://b", {PROVIDER: TEMPORARY, "s3.access-key": "a", "s3.secret-key": "b"}, "needs .* aws_session_token,"),
        ("s3://b", {PROVIDER: " ,"}, "names no provider"),
        ("s3://b", {PROVIDER: ASSUMED}, r"assumed\.role\.arn"),
        ("s3://b", {"fs.s3a.encryption.algorithm": "CSE-KMS"}, "known are AES256, SSE-S3, SSE-KMS"),
        ("s3://b", {"fs.s3a.encryption.key": "k"}, "counts beside encryption.algorithm only"),
        ("s3://b", {"fs.s3a.proxy.host": "p"}, "'proxy.port' is the number of a port"),
        ("oss://b", {"fs.oss.acessKeyId": "x"}, "not known"),
        ("gs://b", {"fs.gs.nope": "x"}, "not known"),
        ("abfss://c@a", {"fs.azure.nope": "x"}, "not known"),
        ("abfss://c@a", {"fs.azure.account.auth.type": "Custom"}, "SharedKey, SAS and OAuth"),
        ("abfss://c@a", {"fs.azure.account.oauth.provider.type": "x.MsiTokenProvider"}, "ClientCredsTokenProvider"),
        ("abfss://c@a", {"fs.azure.account.oauth2.client.endpoint": "tenant"}, "HOST/TENANT"),
    ],
)
def test_what_is_not_understood_is_refused(location: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(MorrowError, match=message):
        to_store_options(given, location)


@pytest.fixture(scope="module")
def paimons_names() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        endpoint = options["aws_endpoint_url"]
        keys = {"endpoint": endpoint, "accessKeyId": "user", "accessKeySecret": "secret"}
        yield {f"fs.oss.{name}": value for name, value in keys.items()} | {
            "s3.endpoint": endpoint.removeprefix("http://"),
            "s3.connection.ssl.enabled": "false",
            "s3.access-key": "user",
            "s3.secret-key": "secret",
            "s3.region": "us-east-1",
        }


@pytest.mark.parametrize("scheme", ["s3", "s3a", "oss"])
def test_tables_are_written_and_read_by_these_names(paimons_names: dict[str, str], scheme: str) -> None:
    place = f"{scheme}://{BUCKET}/{uuid.uuid4().hex}"
    table = morrow.open_catalog({"warehouse": place, **paimons_names}).create_table("db.t", schema=SCHEMA)
    table.append({"id": [1], "v": ["a"]})
    found = morrow.open(f"{place}/db.db/t", storage_options=paimons_names)
    assert found.scan().to_polars().rows() == [(1, "a")]
    assert found.scan().to_duckdb().fetchall() == [(1, "a")]


@pytest.mark.parametrize(
    ("algorithm", "key", "kept"),
    [
        ("AES256", "", {"": "AES256"}),
        ("SSE-KMS", "arn:k", {"": "aws:kms", "-aws-kms-key-id": "arn:k"}),
        ("SSE-C", "a2V5IG9mIHRoaXJ0eS10d28gYnl0ZXMsIHNlY3JldCE=", {"-customer-algorithm": "AES256"}),
    ],
)
def test_every_object_that_is_written_is_encrypted_as_asked(
    monkeypatch: pytest.MonkeyPatch, algorithm: str, key: str, kept: dict[str, str]
) -> None:
    seen: list[Request] = []
    with running() as server:
        monkeypatch.setattr(server, "trouble", seen.append)
        options = {"fs.s3a.encryption.algorithm": algorithm, "s3.requester.pays.enabled": "true"}
        options |= {"fs.s3a.encryption.key": key} if key else {}
        catalog = morrow.Catalog(f"s3://{BUCKET}/w", storage_options={**server.options, **options})
        table = catalog.create_table("db.t", schema=SCHEMA, primary_keys="id", options={"bucket": 1})
        for number in range(2):
            table.upsert({"id": [1, number], "v": ["a", "b"]})
        table.compact(full=True)
        assert sorted(table.to_polars().rows()) == [(0, "b"), (1, "b")]
    puts = [request for request in seen if request.method == "PUT"]
    assert len(puts) > 10
    for request in puts:
        for name, value in kept.items():
            assert request.headers.get(f"x-amz-server-side-encryption{name}") == value, request.key
    assert {request.headers.get("x-amz-request-payer") for request in seen} == {"requester"}
    assert key == "" or key not in repr(catalog)


def test_memory_is_shared_by_its_name() -> None:
    place = f"memory://{uuid.uuid4().hex}/w"
    table = morrow.Catalog(place).create_table("db.t", schema=SCHEMA, primary_keys="id", options={"bucket": 1})
    table.upsert({"id": [1, 2], "v": ["a", "b"]})
    table.upsert({"id": [2], "v": ["B"]})
    found = morrow.Catalog(place).table("db.t")
    assert sorted(found.scan().to_polars().rows()) == [(1, "a"), (2, "B")]
    assert found.scan(filter="id = 2").to_duckdb().fetchall() == [(2, "B")]
    assert found.scan(["v"], limit=1).to_arrow().num_rows == 1
    found.compact(full=True)
    found.delete("id = 1")
    assert morrow.sql("SELECT v FROM db.t", morrow.Catalog(place)).fetchall() == [("B",)]
    with pytest.raises(Unsupported, match="in memory"):
        pickle.dumps(found)


def test_a_filesystem_of_fsspec_is_handed_in(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    place = f"/{uuid.uuid4().hex}/w"
    memory = fsspec.filesystem("memory")
    table = morrow.Catalog(f"memory:/{place}", filesystem=memory).create_table(
        "db.t", schema=SCHEMA, primary_keys="id", options={"bucket": 1, "file.format": "orc"}
    )
    table.upsert({"id": [1, 2], "v": ["a", "b"]})
    table.alter.set_options({"file.format": "parquet"})
    table.upsert({"id": [2], "v": ["B"]})
    found = morrow.open(f"{place}/db.db/t", filesystem=memory)
    assert sorted(found.scan().to_polars().rows()) == [(1, "a"), (2, "B")]
    assert found.scan().to_duckdb().aggregate("count(*)").fetchall() == [(2,)]
    with pytest.raises(Unsupported, match="pickling"):
        pickle.dumps(found)

    local = morrow.Catalog(tmp_path / "w", filesystem=fsspec.filesystem("file")).create_table("db.t", schema=SCHEMA)
    local.append({"id": [1], "v": ["a"]})
    assert morrow.open(tmp_path / "w/db.db/t").scan().count() == 1
    for wrong, given in (("not a file system", {}), (memory, {"aws_region": "x"})):
        with pytest.raises(InvalidArgument):
            morrow.open(place, filesystem=wrong, storage_options=given or None)


# Options of Hadoop file systems, as Paimon and Hadoop spell them.


def test_a_prefix_is_left_out_and_tuning_has_no_effect() -> None:
    found = parse_hadoop_options(
        {
            "hadoop.dfs.nameservices": "ns",
            "dfs.ha.namenodes.ns": "a,b",
            "hadoop.security.authentication": "simple",
            "hadoop-conf-dir": "/etc/hadoop",
            "dfs.replication": "2",
            "dfs.blocksize": "64M",
            "dfs.client.read.shortcircuit": "true",
            "ipc.client.connect.max.retries": "3",
        }
    )
    assert found.config == {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "a,b",
        "hadoop.security.authentication": "simple",
    }
    assert (found.conf_dir, found.replication, found.block_size) == ("/etc/hadoop", 2, 64 << 20)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("dfs.replicaton", "1", "did you mean 'dfs.replication'"),
        ("dfs.encrypt.data.transfer", "true", "is not known"),
        ("dfs.replication", "0", "a number, 1 or more, not '0'"),
        ("dfs.blocksize", "1.5g", "a number, 1 or more, not '1.5g'"),
    ],
)
def test_hadoop_options_that_are_not_understood_are_refused(option: str, value: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as told:
        HdfsStore.of_url("hdfs://namenode/lake", {option: value})
    assert option in str(told.value)
    assert said in str(told.value)
