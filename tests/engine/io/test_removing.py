"""Removal of many files at once, moves and walks behave alike in every store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from obstore.store import MemoryStore

from morrow.engine.errors import FileMissing, StorageError
from morrow.engine.io import store as store_module
from morrow.engine.io.local import LocalStore
from morrow.engine.io.object_store import ObjectStore
from morrow.engine.io.store import FileStore
from tests.support.faulty_store import Fault, FaultKind, FaultyStore

Files: TypeAlias = Callable[..., tuple[FileStore, str]]


@pytest.fixture(params=["disk", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """Return a store with a folder of files that hold their own names."""

    def make(*names: str) -> tuple[FileStore, str]:
        store: FileStore = LocalStore() if request.param == "disk" else ObjectStore(MemoryStore(), "memory://", {})
        root = str(tmp_path / "t") if request.param == "disk" else "t"
        for name in names:
            store.write(f"{root}/{name}", name.encode())
        return store, root

    return make


def walked(store: FileStore, folder: str) -> dict[str, int]:
    """Map the path of every file below the folder to its size."""
    found = [entry for piece in store.walk(folder) for entry in piece if not entry[1].is_dir]
    assert all(path.endswith(f"/{status.name}") for path, status in found)
    return {path.removeprefix(f"{folder}/"): status.size for path, status in found}


def test_all_files_are_removed_and_those_that_are_gone_are_fine(files: Files) -> None:
    store, root = files("a/1", "a/2", "b/1", "b/kept")
    store.delete_many([f"{root}/{name}" for name in ("a/1", "a/gone", "none/gone", "a/2", "b/1")])
    assert walked(store, root) == {"b/kept": 6}
    store.delete_many([])


def test_one_that_cannot_be_removed_does_not_save_the_others(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "last").touch()
    with pytest.raises(StorageError, match="folder"):
        LocalStore().delete_many([str(tmp_path / "folder"), str(tmp_path / "last")])
    assert not (tmp_path / "last").exists()


def test_the_faulty_store_counts_each_of_them(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        Path(path).touch()
    store = FaultyStore(LocalStore(), Fault(1, FaultKind.LOST))
    with pytest.raises(StorageError):
        store.delete_many(paths)
    assert (store.asked, store.failed) == (["delete a", "delete b", "delete c"], ["delete b"])
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_file_moves_and_replaces_what_is_there(files: Files) -> None:
    store, root = files("a", "b")
    store.move(f"{root}/a", f"{root}/b")
    store.move(f"{root}/b", f"{root}/new/c")
    assert store.read(f"{root}/new/c") == b"a"
    assert list(walked(store, root)) == ["new/c"]


def test_a_file_that_is_not_there_does_not_move(files: Files) -> None:
    store, root = files("b")
    with pytest.raises(FileMissing, match="nope"):
        store.move(f"{root}/nope", f"{root}/b")
    assert store.read(f"{root}/b") == b"b"


def test_a_walk_finds_everything_below_a_folder(files: Files) -> None:
    store, root = files("a", "x/b", "x/y/c", "xx/d")
    assert walked(store, root) == {"a": 1, "x/b": 3, "x/y/c": 5, "xx/d": 4}
    assert walked(store, f"{root}/x") == {"b": 3, "y/c": 5}
    assert walked(store, f"{root}/nope") == {}


def test_a_walk_comes_in_pieces(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("local", "object_store"):
        monkeypatch.setattr(f"{store_module.__name__.removesuffix('.store')}.{module}.WALKED_AT_ONCE", 2)
    store, root = files("a", "b", "c", "d", "e")
    assert [len(piece) for piece in store.walk(root)] == [2, 2, 1]


def test_folders_come_after_what_is_in_them_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "t" / "a" / "b").mkdir(parents=True)
    (tmp_path / "t" / "a" / "b" / "file").touch()
    (tmp_path / "t" / "link").symlink_to(tmp_path, target_is_directory=True)
    (names,) = [[path for path, _ in piece] for piece in LocalStore().walk(str(tmp_path / "t"))]
    assert [Path(path).name for path in names] == ["file", "b", "a"]


def test_only_an_empty_folder_is_removed(tmp_path: Path) -> None:
    store = LocalStore()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "empty").mkdir()
    outcomes = [store.remove_empty_folder(str(tmp_path / name)) for name in ("full", "empty", "empty", "full/file")]
    assert outcomes == [False, True, False, False]
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_a_bucket_has_no_folders_to_remove() -> None:
    assert not ObjectStore(MemoryStore(), "memory://", {}).remove_empty_folder("t")
