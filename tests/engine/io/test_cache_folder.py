"""A folder of values that processes share: bounded, checked, and never in the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from morrow.engine.io import cache_folder as module
from morrow.engine.io.cache_folder import HEAD, CacheFolder, Contents, cache_folder, digest

KEY, OTHER = digest("a"), digest("b")


@pytest.fixture
def folder(tmp_path: Path) -> CacheFolder:
    return CacheFolder(tmp_path / "cache", 1 << 20)


def entry(folder: CacheFolder) -> Path:
    (found,) = folder.path.glob("*/*.entry")
    return found


def test_values_are_found_by_their_keys_and_counted(folder: CacheFolder) -> None:
    assert (folder.get(KEY), folder.contents()) == (None, Contents(0, 0, 0))
    folder.put(KEY, b"value")
    folder.put(KEY, b"other")  # the same key, from another process
    assert (folder.get(KEY), folder.get(OTHER)) == (b"other", None)
    assert CacheFolder(folder.path, 1 << 20).contents() == Contents(1, HEAD.size + 5, 1)
    folder.clear()
    assert (folder.get(KEY), folder.contents()) == (None, Contents(0, 0, 0))


def test_only_the_user_reads_what_is_kept(folder: CacheFolder) -> None:
    folder.put(KEY, b"value")
    folder.get(KEY)
    modes = {stat.S_IMODE(each.stat().st_mode) for each in folder.path.rglob("*") if each.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(each.stat().st_mode) for each in (folder.path, entry(folder).parent)} == {0o700}


@pytest.mark.parametrize("size", [module.LARGE, module.LARGE + module.SUMMED + 13])
def test_no_damage_of_a_large_value_is_believed(tmp_path: Path, size: int) -> None:
    """Its checksum is that of sums: no byte is another one, no word in another place, no zeros in a row of zeros."""
    folder = CacheFolder(tmp_path / "cache", 1 << 26)
    value = os.urandom(size - module.SUMMED) + bytes(module.SUMMED)
    folder.put(KEY, value)
    place = entry(folder)
    whole = place.read_bytes()
    assert folder.get(KEY) == value

    def swapped(one: int, other: int, width: int = 8) -> bytes:
        first, second = sorted((HEAD.size + one, HEAD.size + other))
        parts = whole[:first], whole[second : second + width], whole[first + width : second]
        return b"".join((*parts, whole[first : first + width], whole[second + width :]))

    flipped = [HEAD.size + at for at in (0, 7, module.SUMMED, size // 2, size - 1)]
    damaged = [whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :] for at in flipped]
    damaged += [swapped(0, 8), swapped(0, module.SUMMED), swapped(0, 2 * module.SUMMED, module.SUMMED)]
    for data in (*damaged, whole[:-1], whole[: -module.SUMMED], whole + b"x"):
        folder.put(KEY, value)
        place.write_bytes(data)
        assert folder.get(KEY) is None


def test_no_damage_is_believed(folder: CacheFolder) -> None:
    value = b"some bytes"
    folder.put(KEY, value)
    whole = entry(folder).read_bytes()
    damaged = [whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :] for at in range(len(whole))]
    cut = [whole[:length] for length in range(0, len(whole), 3)]
    for data in (*damaged, *cut, whole + b"x"):
        folder.put(KEY, value)
        entry(folder).write_bytes(data)
        assert folder.get(KEY) is None
        assert not list(folder.path.glob("*/*.entry"))


def test_an_entry_of_another_key_or_version_is_none(folder: CacheFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.put(KEY, b"value")
    moved = folder.path / OTHER.hex()[:2]
    moved.mkdir(exist_ok=True)
    entry(folder).rename(moved / (OTHER.hex()[2:] + ".entry"))
    assert folder.get(OTHER) is None
    folder.put(KEY, b"value")
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    assert folder.get(KEY) is None
    assert digest("a") != KEY


def test_links_and_folders_in_place_of_entries_are_not_followed(folder: CacheFolder, tmp_path: Path) -> None:
    folder.put(KEY, b"value")
    place = entry(folder)
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    assert folder.get(KEY) is None
    place.unlink()
    place.mkdir()
    assert folder.get(KEY) is None
    folder.put(KEY, b"value")
    folder.clear()


def test_the_least_recently_used_make_room(folder: CacheFolder) -> None:
    folder.capacity = 10_000
    for number in range(12):
        folder.put(digest(number), bytes(900))
        for place in folder.path.glob("*/*.entry"):  # earlier ones become older
            used = place.stat().st_mtime - 100
            os.utime(place, (used, used))
        folder.get(digest(0))
    assert folder.contents().size <= 10_000
    assert folder.get(digest(0)) is not None
    assert folder.get(digest(1)) is None
    folder.put(digest("large"), bytes(2_000))
    assert folder.get(digest("large")) is None


def test_entries_of_a_clock_that_was_ahead_go_first(folder: CacheFolder) -> None:
    folder.capacity = 10_000
    for number in range(11):
        folder.put(digest(number), bytes(850))
        place = folder._place(digest(number))
        if number == 5:
            os.utime(place, (4e9, 4e9))
    folder.put(digest(11), bytes(850))
    assert folder.get(digest(5)) is None


def test_unfinished_files_of_the_dead_are_removed(folder: CacheFolder) -> None:
    folder.put(KEY, b"value")
    left, new = (entry(folder).with_name(f"{name}.new") for name in ("left", "new"))
    left.write_bytes(b"")
    new.write_bytes(b"")
    os.utime(left, (1.0, 1.0))
    CacheFolder(folder.path, 1 << 20).put(OTHER, b"value")
    assert (left.exists(), new.exists(), folder.get(KEY)) == (False, True, b"value")


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_folder_that_others_write_or_nobody_is_no_cache(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (shared, tmp_path / "file", tmp_path / "file" / "below", tmp_path / "link", Path("/proc/none")):
        none = CacheFolder(path, 1 << 20)
        none.put(KEY, b"value")
        assert none.get(KEY) is None
    assert list(shared.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="modes and owners of files")
def test_entries_of_a_folder_that_others_may_write_are_not_used(folder: CacheFolder) -> None:
    folder.put(KEY, b"value")
    folder.path.chmod(0o777)
    assert folder.get(KEY) is None
    folder.path.chmod(0o700)
    assert (folder.get(KEY), folder.contents().hits) == (b"value", 1)
    if os.geteuid() == 0:
        os.chown(folder.path, 65534, 65534)
        assert folder.get(KEY) is None
        os.chown(folder.path, 0, 0)
        os.chown(entry(folder), 65534, 65534)
        assert folder.get(KEY) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_pipe_in_place_of_an_entry_makes_nobody_wait(folder: CacheFolder) -> None:
    folder.put(KEY, b"value")
    place = entry(folder)
    place.unlink()
    os.mkfifo(place)
    found: list[object] = []
    reading = threading.Thread(target=lambda: found.append(folder.get(KEY)), daemon=True)
    reading.start()
    reading.join(30)
    assert found == [None]


WRITER = """
import sys
from pathlib import Path
from morrow.engine.io.cache_folder import CacheFolder, digest
folder = CacheFolder(Path(sys.argv[1]), 200_000)
for turn in range(60):
    for number in range(8):
        value = bytes([number]) * 5_000
        assert folder.get(digest(number)) in (None, value)
        folder.put(digest(number), value)
"""


def test_processes_share_a_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "cache")]
    running = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(60) for process in running] == [0, 0]
    folder = CacheFolder(tmp_path / "cache", 200_000)
    assert [folder.get(digest(number)) for number in range(8)] == [bytes([number]) * 5_000 for number in range(8)]
    assert not list(folder.path.glob("*/*.new"))


@pytest.fixture
def chosen() -> Iterator[None]:
    yield
    module.use(True)


@pytest.mark.usefixtures("chosen")
def test_the_environment_and_the_switch_say_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def place() -> Path | None:
        found = cache_folder()
        return None if found is None else found.path

    assert place() is None  # no test writes to the user's
    monkeypatch.setenv(module.SWITCH, "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert place() == tmp_path / "morrow"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert place() == Path.home() / ".cache" / "morrow"
    monkeypatch.setenv(module.FOLDER, str(tmp_path / "mine"))
    monkeypatch.setenv(module.SIZE, "12345")
    assert place() == tmp_path / "mine"
    assert (found := cache_folder()) is not None and found.capacity == 12345
    monkeypatch.setenv(module.SIZE, "much")
    assert (found := cache_folder()) is not None and found.capacity == module.CAPACITY
    module.use(tmp_path / "told")
    assert place() == tmp_path / "told"
    module.use(False)
    assert place() is None
    module.use(True)
    monkeypatch.setenv(module.SWITCH, " OFF ")
    assert place() is None
