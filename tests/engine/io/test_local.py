"""The local file system as a store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from morrow.engine.errors import FileMissing, StorageError
from morrow.engine.io.local import LocalStore
from morrow.engine.io.store import FileStatus

STORE = LocalStore()
TOO_LONG = "x" * 300
"""A name that the file system refuses with an error of its own."""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    return str(path)


def test_reading_a_file(file: str) -> None:
    assert STORE.read(file) == b"0123456789"
    assert STORE.read_range(file, 2, 3) == b"234"
    assert STORE.read_range(file, 8, 100) == b"89"
    assert STORE.read_range(file, 50, 3) == b""
    with STORE.open(file) as stream:
        stream.seek(-2, os.SEEK_END)
        assert stream.read() == b"89"


def test_what_is_there(file: str, tmp_path: Path) -> None:
    assert STORE.exists(file)
    assert not STORE.exists(str(tmp_path))
    assert STORE.size(file) == 10
    assert STORE.size(f"{file}-2") is None
    assert STORE.is_dir(str(tmp_path))
    assert not STORE.is_dir(file)
    assert not STORE.is_dir(f"{file}/below")


def test_a_folder_lists_files_and_folders(file: str, tmp_path: Path) -> None:
    os.utime(file, ns=(0, 1_700_000_000_123_999_999))
    (tmp_path / "sub").mkdir()
    listed = {status.name: status for status in STORE.list(str(tmp_path))}

    assert listed.keys() == {"f", "sub"}
    assert listed["f"] == FileStatus("f", 10, 1_700_000_000_123)
    assert listed["sub"].is_dir


def test_a_folder_that_is_not_there_is_empty(file: str, tmp_path: Path) -> None:
    assert STORE.list(str(tmp_path / "nope")) == []
    assert STORE.list(file) == []


def test_an_entry_that_vanishes_while_its_folder_is_listed_hides_no_other(file: str, tmp_path: Path) -> None:
    (tmp_path / "vanished").symlink_to(tmp_path / "nowhere")

    assert [status.name for status in STORE.list(str(tmp_path))] == [Path(file).name]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "nope")
    for read in (STORE.read, STORE.open, lambda p: STORE.read_range(p, 0, 1)):
        with pytest.raises(FileMissing, match=f"^{path}: no such file; ") as caught:
            read(path)
        assert caught.value.path == path


def test_what_cannot_be_explained_is_a_storage_error(tmp_path: Path) -> None:
    path = str(tmp_path / TOO_LONG)
    for ask in (STORE.read, STORE.open, STORE.size, STORE.exists, STORE.is_dir, STORE.list):
        with pytest.raises(StorageError, match="File name too long; check the path and its permissions"):
            ask(path)
    with pytest.raises(StorageError, match="Is a directory"):
        STORE.read(str(tmp_path))


def test_polars_and_duckdb_open_the_path_itself(file: str) -> None:
    assert STORE.url(file) == file
    assert STORE.is_local
    assert STORE.storage_options == {}


# --- writes; how they are made durable is in test_durability.py ---


def test_writing_files(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "f")
    STORE.write(path, b"1")
    STORE.write(path, b"2")
    with STORE.output(f"{path}-streamed") as stream:
        stream.write(b"ab")
        stream.write(b"c")

    assert STORE.read(path) == b"2"
    assert STORE.read(f"{path}-streamed") == b"abc"


def test_a_file_is_created_once(tmp_path: Path) -> None:
    path = str(tmp_path / "snapshot" / "snapshot-1")

    assert [STORE.create(path, b"mine"), STORE.create(path, b"yours"), STORE.create(path, b"mine")] == [
        True,
        False,
        False,
    ]
    assert STORE.read(path) == b"mine"


def test_native_writers_get_a_path_whose_folder_is_there(tmp_path: Path) -> None:
    path = str(tmp_path / "bucket-0" / "data.parquet")

    assert STORE.local_target(path) == path
    Path(path).write_bytes(b"PAR1")
    STORE.sync([path])
    with pytest.raises(StorageError, match=r"data-2.parquet: No such file or directory"):
        STORE.sync([str(tmp_path / "bucket-0" / "data-2.parquet")])


def test_removing(file: str, tmp_path: Path) -> None:
    assert [STORE.delete(file), STORE.delete(file), STORE.delete(f"{file}/below")] == [True, False, False]
    with pytest.raises(StorageError, match=r"directory|not permitted"):
        STORE.delete(str(tmp_path))

    STORE.write(str(tmp_path / "t" / "a" / "b"), b"1")
    STORE.delete_folder(str(tmp_path / "t"))
    STORE.delete_folder(str(tmp_path / "t"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_takes_no_files(file: str) -> None:
    for put in (STORE.create, STORE.write):
        with pytest.raises(StorageError, match=r"below: (Not a directory|File exists)"):
            put(f"{file}/below", b"1")


def test_discarding_never_fails(file: str, tmp_path: Path) -> None:
    STORE.discard([f"{file}-2", str(tmp_path), f"{file}/below", file])

    assert list(tmp_path.iterdir()) == []
