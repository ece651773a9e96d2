"""DLF signatures: the examples in Java's tests, and requests whose signature a server checks."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import morrow
from morrow.engine.catalog.rest.client import Key, Request, _Keys, quote_parameter, sign_sha1, sign_sha256
from morrow.engine.catalog.settings import Settings
from morrow.engine.errors import InvalidArgument, StorageError
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


KEYS = {"AccessKeyId": "me", "AccessKeySecret": "hush-hush", "SecurityToken": "for now"}


@contextmanager
def serve_metadata(answers: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Serve the metadata of an ECS server; yield the address of its keys, and the paths that are asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # http.server's name
            asked.append(self.path)
            found = answers.get(self.path.rpartition("/")[2])
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write((found or "").encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/latest/meta-data/Ram/security-credentials/", asked
        server.shutdown()


def find_key(**options: str) -> Key:
    """Return the key with which a catalog of these options signs."""
    given = {"uri": "http://dlf.example.com", "token.provider": "dlf", "dlf.token-loader": "ecs", **options}
    return _Keys(Settings.of(given)).current()


@pytest.mark.parametrize("role", ["", "reader"])
def test_keys_of_an_ecs_server(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # the metadata service is not behind a proxy
    ends = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M:%SZ")
    with serve_metadata({"": "reader", "reader": json.dumps({**KEYS, "Code": "Success", "Expiration": ends})}) as (
        url,
        asked,
    ):
        given = {"dlf.token-ecs-metadata-url": url, **({"dlf.token-ecs-role-name": role} if role else {})}
        found = find_key(**given)
    assert (found.id, found.secret, found.token) == ("me", "hush-hush", "for now")
    assert [path.rpartition("/")[2] for path in asked] == (["reader"] if role else ["", "reader"])


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({}, "no answer of the metadata service .404."),
        ({"": "a\nb"}, "no role, or several"),
        ({"": ""}, "no role, or several"),
        ({"": "r", "r": '{"AccessKeySecret": "never-told"'}, "there is no key of DLF"),
        (
            {"": "r", "r": '{"AccessKeySecret": "never-told", "AccessKeyId": "a", "Expiration": "soon"}'},
            "no key of DLF",
        ),
    ],
)
def test_an_ecs_server_without_a_key(answers: dict[str, str], message: str) -> None:
    with (
        serve_metadata(answers) as (url, _),
        pytest.raises(StorageError, match=message) as caught,
    ):
        find_key(**{"dlf.token-ecs-metadata-url": url})
    assert "never-told" not in str(caught.value)


def test_no_ecs_server() -> None:
    with pytest.raises(StorageError, match=r"^http://127.0.0.1:1/: no answer.*keys of ecs are for ECS servers"):
        find_key(**{"dlf.token-ecs-metadata-url": "http://127.0.0.1:1/"})
    with pytest.raises(InvalidArgument, match="not an address of http"):
        find_key(**{"dlf.token-ecs-metadata-url": "file:///etc/passwd"})


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
