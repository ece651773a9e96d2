"""Resolution of a user's input to a store and a path."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore

from morrow.engine.errors import InvalidArgument, UnsafePath
from morrow.engine.io.local import LocalStore
from morrow.engine.io.object_store import ObjectStore
from morrow.engine.io.resolve import confine, resolve, resolve_roots
from morrow.engine.io.store import FileStore


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


# Confined stores change nothing outside of their roots, despite names with dots and links.


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """Confine a store to the folder ``t``, in which ``away`` links to ``out`` and ``near`` to ``t/bucket-0``."""
    for folder in ("t/bucket-0", "out/inner"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "f").write_bytes(b"1")
    (tmp_path / "t/away").symlink_to(tmp_path / "out")
    (tmp_path / "t/near").symlink_to(tmp_path / "t/bucket-0")
    return confine(LocalStore(), [f"{tmp_path}/t"])


def put(store: FileStore, path: str) -> None:
    with store.output(path) as stream:
        stream.write(b"2")


WRITES: dict[str, Callable[[FileStore, str], Any]] = {
    "create": lambda store, path: store.create(path, b"2"),
    "write": lambda store, path: store.write(path, b"2"),
    "output": put,
    "local target": lambda store, path: store.local_target(path),
    "folder": lambda store, path: store.make_folder(path),
}
OUTSIDE = ("out/inner/g", "t/away/inner/g", "t/../out/inner/g", "t/near/../../out/inner/g", "t2/g", "t/away/new/g")


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written_outside(store: FileStore, tmp_path: Path, write: str, path: str) -> None:
    with pytest.raises(UnsafePath, match="outside of the table's folder"):
        WRITES[write](store, f"{tmp_path}/{path}")
    assert sorted(p.name for p in (tmp_path / "out").rglob("*")) == ["f", "inner"]


@pytest.mark.parametrize("path", ["t/g", "t/near/g", "t/new/deep/g", "t/away/../t/g"])
@pytest.mark.parametrize("write", WRITES)
def test_links_within_are_followed(store: FileStore, tmp_path: Path, write: str, path: str) -> None:
    WRITES[write](store, f"{tmp_path}/{path}")


REMOVALS: dict[str, Callable[[FileStore, str], Any]] = {
    "delete": lambda store, path: store.delete(path),
    "delete many": lambda store, path: store.delete_many([path]),
    "discard": lambda store, path: store.discard([path]),
    "delete folder": lambda store, path: store.delete_folder(path.rpartition("/")[0]),
    "empty folder": lambda store, path: store.remove_empty_folder(path),
}


@pytest.mark.parametrize("path", ["out/inner/f", "t/away/inner/f", "t/../out/inner/f"])
@pytest.mark.parametrize("remove", REMOVALS)
def test_what_is_outside_stays_and_is_told(
    store: FileStore, tmp_path: Path, remove: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        REMOVALS[remove](store, f"{tmp_path}/{path}")
    assert (tmp_path / "out/inner/f").exists()
    assert "left where it is" in caplog.text


def test_the_rest_goes(store: FileStore, tmp_path: Path) -> None:
    store.delete_many([f"{tmp_path}/out/inner/f", f"{tmp_path}/t/near/f"])
    assert (tmp_path / "out/inner/f").exists()
    assert not (tmp_path / "t/bucket-0/f").exists()


def test_a_link_goes_without_what_it_leads_to(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "t/file").symlink_to(tmp_path / "out/inner/f")
    store.delete(f"{tmp_path}/t/file")
    store.delete_folder(f"{tmp_path}/t/away")
    assert sorted(p.name for p in (tmp_path / "t").iterdir()) == ["bucket-0", "near"]
    assert (tmp_path / "out/inner/f").exists()


def test_moves_stay_inside(store: FileStore, tmp_path: Path) -> None:
    for source, target in (("t/near/f", "out/f"), ("out/inner/f", "t/g"), ("t/away/inner/f", "t/g")):
        with pytest.raises(UnsafePath):
            store.move(f"{tmp_path}/{source}", f"{tmp_path}/{target}")
    with pytest.raises(UnsafePath):
        store.move_folder(f"{tmp_path}/t/away/inner", f"{tmp_path}/t/inner")
    store.move(f"{tmp_path}/t/near/f", f"{tmp_path}/t/g")
    assert (tmp_path / "t/g").read_bytes() == b"1"


def test_more_roots_and_a_root_that_is_a_link(tmp_path: Path, store: FileStore) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "t")
    both = confine(store, [f"{tmp_path}/link", f"{tmp_path}/out"])
    both.write(f"{tmp_path}/link/bucket-0/g", b"")
    both.write(f"{tmp_path}/link/away/inner/g", b"")
    assert both.delete(f"{tmp_path}/out/inner/f")
    assert pickle.loads(pickle.dumps(both)).roots == both.roots


def test_links_are_looked_for_at_every_write(tmp_path: Path, store: FileStore) -> None:
    store.write(f"{tmp_path}/t/bucket-0/g", b"2")
    (tmp_path / "t/bucket-0").rename(tmp_path / "t/old")
    (tmp_path / "t/bucket-0").symlink_to(tmp_path / "out")
    with pytest.raises(UnsafePath):
        store.write(f"{tmp_path}/t/bucket-0/g", b"2")


def test_a_root_that_leads_elsewhere_meanwhile(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    link = tmp_path / "link"
    store = confine(LocalStore(), [str(link)])
    for folder in ("one", "two", "one"):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / folder)
        store.write(f"{link}/new/{folder}", b"2")
    assert sorted(f"{p.relative_to(tmp_path)}" for p in tmp_path.glob("*/new/*") if "link" not in p.parts) == [
        "one/new/one",
        "two/new/two",
    ]


def test_object_stores_have_names_only() -> None:
    store = confine(ObjectStore(MemoryStore(), "memory://", {}), ["wh/t"])
    store.write("wh/t/a", b"")
    with pytest.raises(UnsafePath):
        store.write("wh/t2/a", b"")
    other = ObjectStore(store._bucket, "memory://", {})  # type: ignore[attr-defined]  # the wrapped store
    other.write("wh/t2/a", b"")
    store.delete_many(["wh/t2/a", "wh/t/a"])
    assert (other.exists("wh/t/a"), other.exists("wh/t2/a")) == (False, True)
