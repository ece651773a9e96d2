"""Resolution of a user's input to a store and a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.io.local import LocalStore
from morrow.engine.io.resolve import resolve, resolve_roots


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/w/db.db/t", "/w/db.db/t"),
        ("/w/t/", "/w/t"),
        ("/w/a b#c?d%20e", "/w/a b#c?d%20e"),
        ("file:///w/a%20b", "/w/a b"),
        ("file:/w/t", "/w/t"),
        ("FILE:/w/t", "/w/t"),
        ("//[x", "//[x"),
    ],
)
def test_local_paths(location: str, path: str) -> None:
    store, found = resolve(location)

    assert isinstance(store, LocalStore)
    assert found == path


def test_relative_paths_start_where_the_process_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")

    assert resolve("w/t")[1] == f"{tmp_path}/w/t"
    assert resolve("~/t")[1] == "/home/me/t"
    tmp_path.rmdir()
    with pytest.raises(InvalidArgument, match="w/t: the current folder is gone; change to another"):
        resolve("w/t")


@pytest.mark.parametrize(
    ("location", "path", "url"),
    [
        ("s3://lake/w/db.db/t/", "w/db.db/t", "s3://lake/w/db.db/t"),
        ("s3://lake", "", "s3://lake/"),
        ("s3://lake/a#b?c%20d", "a#b?c%20d", "s3://lake/a#b?c%20d"),
        ("memory:///t", "t", "memory:///t"),
    ],
)
def test_urls_are_a_store_and_a_key(location: str, path: str, url: str) -> None:
    store, found = resolve(location, {"aws_region": "eu-central-1"} if location.startswith("s3") else None)

    assert found == path
    assert store.url(found) == url
    assert not store.is_local


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("", "an empty path; give the folder of a table"),
        ("/w/\0", "a path with a NUL byte"),
        ("~nobody-of-this-name/t", "home"),
        ("ftp://host/t", "cannot open ftp://host"),
        ("orders:v1", "cannot open"),
    ],
)
def test_locations_that_no_store_serves(location: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        resolve(location)


def test_an_option_that_the_store_does_not_know() -> None:
    with pytest.raises(InvalidArgument, match="'nonsense' is not valid for store 'S3'"):
        resolve("s3://lake/t", {"nonsense": "1"})


@pytest.mark.parametrize(
    ("location", "path"),
    [("file:///C:/lake/t", "C:/lake/t"), ("file:/D:/lake", "D:/lake"), ("file:///lake/t", "/lake/t")],
)
def test_drives_of_windows(monkeypatch: pytest.MonkeyPatch, location: str, path: str) -> None:
    monkeypatch.setattr("morrow.engine.io.resolve.IS_WINDOWS", True)
    found = resolve(location)[1]
    assert found == path if path.startswith("/") else found == (Path.cwd() / path).as_posix()  # here a relative folder


def test_a_drive_of_windows_is_no_url() -> None:
    assert resolve_roots("C:/lake") != ("C:/lake",)
    assert resolve_roots("s3://bucket/lake") == ("s3://bucket/lake",)
