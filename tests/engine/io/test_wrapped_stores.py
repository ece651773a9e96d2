"""A confined store changes nothing outside of its roots, despite names with dots and links."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore

from morrow.engine.errors import UnsafePath
from morrow.engine.io.local import LocalStore
from morrow.engine.io.object_store import ObjectStore
from morrow.engine.io.resolve import confine
from morrow.engine.io.store import FileStore


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
