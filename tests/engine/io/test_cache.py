"""The in-memory cache with a limit in bytes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.io import cache_folder as module
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.cache_folder import HEAD, CacheFolder, Contents, compute_digest, find_cache_folder
from morrow.engine.io.local import disable_fsync
from morrow.engine.plan.metadata import METADATA_CACHE
from morrow.readers.masks.section_cache import SECTIONS
from tests.support.written import new_table

NOISE = 6 << 20
"""Bytes by which the memory of a process varies by itself."""


def test_the_least_recently_used_value_goes_first() -> None:
    cache: ByteCache[str] = ByteCache(10)
    cache.put("a", "A", 4)
    cache.put("b", "B", 4)
    assert cache.get("a") == "A"
    cache.put("c", "C", 4)

    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ("A", None, "C")
    assert cache.held == 8


def test_a_value_that_is_too_large_is_not_kept_and_evicts_nothing() -> None:
    cache: ByteCache[str] = ByteCache(10)
    cache.put("a", "A", 10)
    cache.put("b", "B", 11)

    assert (cache.get("a"), cache.get("b"), cache.held) == ("A", None, 10)


def test_a_value_is_replaced() -> None:
    cache: ByteCache[str] = ByteCache(10)
    cache.put("a", "A", 8)
    cache.put("a", "newer", 3)

    assert (cache.get("a"), cache.held) == ("newer", 3)


def test_a_value_is_made_once() -> None:
    cache: ByteCache[str] = ByteCache(10)
    made: list[str] = []

    def make() -> tuple[str, int]:
        made.append("A")
        return "A", 1

    assert [cache.get_or_make("a", make) for _ in range(3)] == ["A"] * 3
    assert made == ["A"]
    cache.clear()
    assert (cache.get("a"), cache.held) == (None, 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=30))
def test_never_more_than_the_capacity(puts: list[tuple[int, int]]) -> None:
    cache: ByteCache[int] = ByteCache(20)
    sizes: dict[int, int] = {}
    for key, size in puts:
        cache.put(key, size, size)
        sizes[key] = size
        kept = [key for key in sizes if cache.get(key) is not None]
        assert cache.held == sum(sizes[key] for key in kept) <= 20
        assert cache.get(key) == size


def test_threads_may_share_it() -> None:
    cache: ByteCache[int] = ByteCache(100)

    def work(start: int) -> None:
        for i in range(2_000):
            key = (start * 7 + i) % 40
            assert cache.get_or_make(key, lambda key=key: (key, 5)) == key  # type: ignore[misc]  # mypy cannot infer it

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert cache.held <= 100


def test_entries_of_a_removed_file_are_dropped() -> None:
    cache: ByteCache[str] = ByteCache(10)
    cache.put("a", "A", 2, of="file")
    cache.put("b", "B", 3, of="file")
    cache.put("c", "C", 4, of="other")
    cache.put("b", "newer", 1, of="other")
    cache.discard(["file", "unheard"])
    assert (cache.get("a"), cache.get("b"), cache.get("c"), cache.held) == (None, "newer", "C", 5)


def test_expired_snapshots_leave_the_cache(tmp_path: Path) -> None:
    keeps_three = {"bucket": 1, "snapshot.num-retained.min": 1, "snapshot.num-retained.max": 3}
    table = new_table(tmp_path, "k INT NOT NULL, v INT", keys=["k"], options=keeps_three)

    def find_peak(commits: int) -> int:
        """Return the most bytes held: old manifests are merged every few commits."""
        held = []
        for number in range(commits):
            table.upsert({"k": [number % 4], "v": [number]})
            table.count("v = 1")
            held.append(METADATA_CACHE.held)
        return max(held)

    with disable_fsync():
        before = find_peak(20)
        assert find_peak(20) < 1.5 * before


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_files_of_expired_snapshots_leave_the_caches(tmp_path: Path, engine: str) -> None:
    options = {"bucket": 1, "snapshot.num-retained.min": 1, "snapshot.num-retained.max": 3, "merge-engine": engine}
    table = new_table(tmp_path, "k INT NOT NULL, v INT", keys=["k"], options=options)
    seen: set[str] = set()
    with disable_fsync():
        for number in range(12):
            table.upsert({"k": [number % 4], "v": [number]})
            table.scan().to_arrow()
            seen |= {path.name for path in Path(table.path).rglob("data-*")}
    gone = seen - {path.name for path in Path(table.path).rglob("data-*")}
    assert gone
    assert not gone & set(SECTIONS._of)
    assert seen & set(SECTIONS._of)


GROWTH = """
import gc, sys
from pathlib import Path
import morrow
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.local import disable_fsync

morrow.use_cache_folder(False)
few = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 3}
options = {"bucket": 1, **({"write-only": True} if sys.argv[2] == "all" else few)}
catalog = morrow.Catalog(sys.argv[1])
table = catalog.create_table("d.t", "k INT NOT NULL, v INT", primary_keys="k", options=options)
caches = [each for each in gc.get_objects() if type(each) is ByteCache]

def state(first, commits):
    with disable_fsync():
        for number in range(first, first + commits):
            table.upsert({"k": [number % 50], "v": [number]})
            if number % 5 == 0:
                table.count("v = 3")
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096, sum(each.held for each in caches)

(before, held_before), (after, held) = state(0, 40), state(40, 100)
print(after - before, held - held_before)
"""
"""A script that prints by how many bytes a process grows in 100 commits, and how many its caches count."""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("snapshots", ["all", "three"])
def test_memory_of_a_process_that_commits(tmp_path: Path, snapshots: str) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", GROWTH, str(tmp_path), snapshots], capture_output=True, text=True, check=True
    ).stdout
    grown, counted = map(int, printed.split())
    if snapshots == "all":
        assert grown < 1.5 * counted + NOISE
    else:
        assert grown < NOISE


# The cache folder that processes share: bounded, checked, and never an obstacle.

KEY, OTHER = compute_digest("a"), compute_digest("b")


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
    """Changed bytes, swapped words and moved blocks of zeros are all detected by the checksum of checksums."""
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
    assert compute_digest("a") != KEY


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
        folder.put(compute_digest(number), bytes(900))
        for place in folder.path.glob("*/*.entry"):  # make the earlier entries older
            used = place.stat().st_mtime - 100
            os.utime(place, (used, used))
        folder.get(compute_digest(0))
    assert folder.contents().size <= 10_000
    assert folder.get(compute_digest(0)) is not None
    assert folder.get(compute_digest(1)) is None
    folder.put(compute_digest("large"), bytes(2_000))
    assert folder.get(compute_digest("large")) is None


def test_entries_of_a_clock_that_was_ahead_go_first(folder: CacheFolder) -> None:
    folder.capacity = 10_000
    for number in range(11):
        folder.put(compute_digest(number), bytes(850))
        place = folder._place(compute_digest(number))
        if number == 5:
            os.utime(place, (4e9, 4e9))
    folder.put(compute_digest(11), bytes(850))
    assert folder.get(compute_digest(5)) is None


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
from morrow.engine.io.cache_folder import CacheFolder, compute_digest
folder = CacheFolder(Path(sys.argv[1]), 200_000)
for turn in range(60):
    for number in range(8):
        value = bytes([number]) * 5_000
        assert folder.get(compute_digest(number)) in (None, value)
        folder.put(compute_digest(number), value)
"""


def test_processes_share_a_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "cache")]
    running = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(60) for process in running] == [0, 0]
    folder = CacheFolder(tmp_path / "cache", 200_000)
    assert [folder.get(compute_digest(number)) for number in range(8)] == [
        bytes([number]) * 5_000 for number in range(8)
    ]
    assert not list(folder.path.glob("*/*.new"))


@pytest.fixture
def chosen() -> Iterator[None]:
    yield
    module.use_folder(True)


@pytest.mark.usefixtures("chosen")
def test_the_environment_and_the_switch_say_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def place() -> Path | None:
        found = find_cache_folder()
        return None if found is None else found.path

    assert place() is None  # tests never write to the user's cache
    monkeypatch.setenv(module.SWITCH, "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert place() == tmp_path / "morrow"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert place() == Path.home() / ".cache" / "morrow"
    monkeypatch.setenv(module.FOLDER, str(tmp_path / "mine"))
    monkeypatch.setenv(module.SIZE, "12345")
    assert place() == tmp_path / "mine"
    assert (found := find_cache_folder()) is not None and found.capacity == 12345
    monkeypatch.setenv(module.SIZE, "much")
    assert (found := find_cache_folder()) is not None and found.capacity == module.CAPACITY
    module.use_folder(tmp_path / "told")
    assert place() == tmp_path / "told"
    module.use_folder(False)
    assert place() is None
    module.use_folder(True)
    monkeypatch.setenv(module.SWITCH, " OFF ")
    assert place() is None
