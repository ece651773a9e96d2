"""DLF signatures: the examples in Java's tests, and requests whose signature a server checks."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import morrow
from morrow.engine.catalog.rest.client import Key, Request, quote_parameter, sign_sha1, sign_sha256
from morrow.engine.errors import StorageError
from tests.support.rest_server import rest_server

KEY = Key("access-key-id", "access-key-secret", "securityToken")
TIME = dt.datetime(2023, 12, 3, 12, 12, 12, tzinfo=dt.UTC)


def test_a_signature_is_javas() -> None:
    body = '{"name":"database","options":{"a":"b"}}'
    request = Request("POST", "/v1/paimon/databases", {"k2": "v2", "k1": "v1"}, body)
    headers = sign_sha256(request, KEY, "cn-hangzhou", TIME)
    assert headers["Authorization"] == (
        "DLF4-HMAC-SHA256 Credential=access-key-id/20231203/cn-hangzhou/DlfNext/aliyun_v4_request,"
        "Signature=c72caf1d40b55b1905d891ee3e3de48a2f8bebefa7e39e4f277acc93c269c5e3"
    )
    assert {name: headers[name] for name in ("x-dlf-date", "x-dlf-security-token", "x-dlf-version")} == {
        "x-dlf-date": "20231203T121212Z",
        "x-dlf-security-token": "securityToken",
        "x-dlf-version": "v1",
    }


def test_the_open_api_has_a_signature_of_its_own() -> None:
    request = Request("GET", "/v1/a+b/databases", {"maxResults": "10", "pattern": ""}, "")
    headers = sign_sha1(request, Key("id", "secret"), "dlfnext.cn-beijing.aliyuncs.com", TIME, "once")
    assert headers["Date"] == "Sun, 03 Dec 2023 12:12:12 GMT"
    assert headers["Authorization"].startswith("acs id:")
    assert ("Content-MD5" in headers, "x-acs-security-token" in headers) == (False, False)
    other = sign_sha1(Request("GET", request.path, {}, ""), Key("id", "secret"), headers["Host"], TIME, "once")
    assert other["Authorization"] != headers["Authorization"]


@pytest.mark.parametrize(("text", "expected"), [("a b/ü~*", "a+b%2F%C3%BC%7E*"), ("t$branch_x", "t%24branch_x")])
def test_paths_are_written_as_java_writes_them(text: str, expected: str) -> None:
    assert quote_parameter(text) == expected


def test_every_request_to_dlf_is_signed_with_the_key_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    key = {"AccessKeyId": "me", "AccessKeySecret": "hush-hush", "SecurityToken": "for now"}
    ends = (dt.datetime.now(dt.UTC) + dt.timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    file.write_text(json.dumps({**key, "Expiration": ends}))
    seen: set[str] = set()

    def lets_in(method: str, path: str, query: dict[str, str], body: str, headers: Mapping[str, str]) -> bool:
        time = dt.datetime.strptime(headers["x-dlf-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
        current = Key("me", json.loads(file.read_text())["AccessKeySecret"], "for now")
        request = Request(method, urlsplit(path).path, query, body)
        seen.add(current.secret)
        return headers["Authorization"] == sign_sha256(request, current, "cn-x", time)["Authorization"]

    with rest_server(tmp_path, lets_in=lets_in) as server:
        options = {"metastore": "rest", "uri": server.url, "warehouse": "l ä", "token.provider": "dlf"}
        catalog = morrow.open_catalog({**options, "dlf.region": "cn-x", "dlf.token-path": str(file)})
        for name in ("a", "b ü", "c"):
            catalog.create_database(name)
        file.write_text(json.dumps({**key, "AccessKeySecret": "renewed-hush", "Expiration": ends}))
        assert catalog.databases() == ["a", "b ü", "c"]
        assert seen == {"hush-hush", "renewed-hush"}
        file.write_text('{"AccessKeySecret": "never-told"')
        with pytest.raises(StorageError, match="there is no key of DLF") as caught:
            catalog.databases()
        assert "never-told" not in str(caught.value)
