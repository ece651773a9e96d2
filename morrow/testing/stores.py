"""The conformance suite of file stores."""

from __future__ import annotations

import io
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from morrow.engine.errors import FileMissing, Unsupported
from morrow.engine.io.store import FileStatus, FileStore

SECRET_NAMES = ("secret", "token", "password", "key")
NAMES = ("plain", "with blank", "p=x%20y", "ü-日本", "a#b", "q?x", "a+b&c", "100%")
"""Names of files that a store keeps apart and gives back as they were."""
RACERS = 8


class StoreTests:
    """What Morrow asks of a `FileStore`. Subclass it with the fixture `store`; each test has an own empty folder."""

    @pytest.fixture
    def store(self) -> FileStore:
        """Returns the store to test."""
        raise NotImplementedError("give the suite a fixture 'store'")

    @pytest.fixture
    def folder(self) -> str:
        """Returns a folder of the store, as a path within it, that does not exist or is empty."""
        raise NotImplementedError("give the suite a fixture 'folder'")

    # Reading

    def test_a_file_that_does_not_exist(self, store: FileStore, folder: str) -> None:
        path = f"{folder}/nope"
        assert store.size(path) is None
        assert not store.exists(path)
        assert store.delete(path) is False
        with pytest.raises(FileMissing):
            store.read(path)
        with pytest.raises(FileMissing):
            store.open(path).read()
        with pytest.raises(FileMissing):
            store.read_range(path, 0, 1)

    def test_a_folder_that_does_not_exist(self, store: FileStore, folder: str) -> None:
        assert store.list(f"{folder}/nope") == []
        assert not store.is_dir(f"{folder}/nope")
        assert list(store.walk(f"{folder}/nope")) == []
        store.delete_folder(f"{folder}/nope")
        assert store.remove_empty_folder(f"{folder}/nope") is False

    def test_ranges_end_with_the_file(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/f", b"0123456789")
        assert store.read_range(f"{folder}/f", 2, 3) == b"234"
        assert store.read_range(f"{folder}/f", 8, 100) == b"89"
        assert store.read_range(f"{folder}/f", 50, 3) == b""
        assert store.size(f"{folder}/f") == 10

    def test_streams_seek(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/f", b"0123456789")
        with store.open(f"{folder}/f") as stream:
            assert stream.seekable()
            assert stream.seek(-3, io.SEEK_END) == 7
            assert stream.read() == b"789"
            assert stream.seek(0) == 0
            assert stream.read(4) == b"0123"

    # Listing

    def test_a_listing_has_files_and_folders(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/f", b"12")
        store.write(f"{folder}/sub/g", b"3")
        store.write(f"{folder}2/h", b"")
        found = {status.name: status for status in store.list(folder)}

        assert {(each.name, each.size, each.is_dir) for each in _sized(found.values())} == {
            ("f", 2, False),
            ("sub", 0, True),
        }
        assert found["f"].modified_millis > 0
        assert store.is_dir(folder)
        assert store.is_dir(f"{folder}/sub")
        assert not store.is_dir(f"{folder}/f")
        assert not store.is_dir(f"{folder}/su")
        assert not store.exists(f"{folder}/sub")

    def test_a_walk_finds_all_files(self, store: FileStore, folder: str) -> None:
        for path in ("a", "b/c", "b/d/e"):
            store.write(f"{folder}/{path}", b"x")
        found = [path for part in store.walk(folder) for path, status in part if not status.is_dir]
        assert sorted(found) == [f"{folder}/a", f"{folder}/b/c", f"{folder}/b/d/e"]

    @pytest.mark.parametrize("name", NAMES)
    def test_names_stay_as_they_are(self, store: FileStore, folder: str, name: str) -> None:
        store.write(f"{folder}/{name}/{name}", name.encode())
        assert store.read(f"{folder}/{name}/{name}") == name.encode()
        assert [status.name for status in store.list(folder)] == [name]
        assert [status.name for status in store.list(f"{folder}/{name}")] == [name]

    # Writing

    def test_a_file_is_written_whole_and_replaced(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/sub/f", b"one")
        assert store.read(f"{folder}/sub/f") == b"one"
        store.write(f"{folder}/sub/f", b"")
        assert (store.read(f"{folder}/sub/f"), store.exists(f"{folder}/sub/f")) == (b"", True)

    def test_a_file_is_created_once(self, store: FileStore, folder: str) -> None:
        assert store.create(f"{folder}/f", b"first") is True
        assert store.create(f"{folder}/f", b"second") is False
        assert store.read(f"{folder}/f") == b"first"

    def test_one_of_several_creators_wins(self, store: FileStore, folder: str) -> None:
        for round_ in range(5):
            path = f"{folder}/f{round_}"
            contents = [f"by {racer}".encode() * 100 for racer in range(RACERS)]
            with ThreadPoolExecutor(RACERS) as pool:
                won = list(pool.map(lambda data, path=path: store.create(path, data), contents))
            assert won.count(True) == 1
            assert store.read(path) == contents[won.index(True)]

    def test_a_stream_makes_a_file_when_it_ends(self, store: FileStore, folder: str) -> None:
        part = bytes(range(256)) * 4096
        with store.output(f"{folder}/sub/f") as stream:
            for _ in range(12):
                stream.write(part)
        assert store.size(f"{folder}/sub/f") == 12 * len(part)
        assert store.read_range(f"{folder}/sub/f", 11 * len(part) - 1, 3) == b"\xff\x00\x01"

    def test_a_stream_that_fails_makes_no_file(self, store: FileStore, folder: str) -> None:
        with suppress(ZeroDivisionError), store.output(f"{folder}/f") as stream:
            stream.write(b"half")
            raise ZeroDivisionError
        assert not store.exists(f"{folder}/f")
        assert [status.name for status in store.list(folder) if not status.is_dir] == []

    def test_writers_in_native_code(self, store: FileStore, folder: str) -> None:
        target = store.local_target(f"{folder}/sub/f")
        if target is None:
            return
        Path(target).write_bytes(b"native")
        store.sync([f"{folder}/sub/f"])
        assert store.read(f"{folder}/sub/f") == b"native"

    # Removing and renaming

    def test_files_are_removed(self, store: FileStore, folder: str) -> None:
        for name in "abcd":
            store.write(f"{folder}/{name}", b"x")
        assert store.delete(f"{folder}/a") is True
        store.delete_many([f"{folder}/{name}" for name in ("b", "nope", "c")])
        store.discard([f"{folder}/nope"])
        assert [status.name for status in store.list(folder)] == ["d"]

    def test_a_folder_is_removed_with_everything_in_it(self, store: FileStore, folder: str) -> None:
        for path in ("sub/a", "sub/b/c", "sub2/d"):
            store.write(f"{folder}/{path}", b"x")
        store.delete_folder(f"{folder}/sub")
        assert not store.is_dir(f"{folder}/sub")
        assert store.exists(f"{folder}/sub2/d")

    def test_a_folder_that_is_made_exists(self, store: FileStore, folder: str) -> None:
        store.make_folder(f"{folder}/sub/deep")
        store.make_folder(f"{folder}/sub/deep")
        assert store.is_dir(f"{folder}/sub/deep")

    def test_a_folder_with_files_is_not_removed_as_empty(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/sub/f", b"x")
        assert store.remove_empty_folder(f"{folder}/sub") is False
        assert store.exists(f"{folder}/sub/f")

    def test_a_file_is_moved_over_another(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/a", b"a")
        store.write(f"{folder}/sub/b", b"b")
        store.move(f"{folder}/a", f"{folder}/sub/b")
        assert store.read(f"{folder}/sub/b") == b"a"
        assert not store.exists(f"{folder}/a")
        with pytest.raises(FileMissing):
            store.move(f"{folder}/a", f"{folder}/sub/b")
        assert store.read(f"{folder}/sub/b") == b"a"

    def test_a_folder_is_moved_whole_or_not_at_all(self, store: FileStore, folder: str) -> None:
        for path in ("a", "b/c"):
            store.write(f"{folder}/sub/{path}", path.encode())
        try:
            store.move_folder(f"{folder}/sub", f"{folder}/other")
        except Unsupported:
            assert store.read(f"{folder}/sub/b/c") == b"b/c"
            assert not store.is_dir(f"{folder}/other")
        else:
            assert store.read(f"{folder}/other/b/c") == b"b/c"
            assert not store.is_dir(f"{folder}/sub")

    # What others are given

    def test_urls(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/f", b"x")
        url = store.url(f"{folder}/f")
        assert url.endswith("/f")
        assert store.is_local == ("://" not in url)
        assert not store.is_local or Path(url).read_bytes() == b"x"

    def test_secrets_are_not_shown(self, store: FileStore) -> None:
        options = store.storage_options.items()
        secrets = [value for name, value in options if len(value) > 8 and any(each in name for each in SECRET_NAMES)]
        assert not [secret for secret in secrets if secret in f"{store!r} {store.storage_options!r}"]


def _sized(found: Iterable[FileStatus]) -> list[FileStatus]:
    """Returns the entries with the size 0 for folders, whose size means nothing."""
    return [FileStatus(each.name, 0 if each.is_dir else each.size, 0, each.is_dir) for each in found]
