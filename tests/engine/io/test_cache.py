"""The cache bounded in bytes."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.io.cache import ByteCache
from morrow.engine.io.durability import fsync_disabled
from morrow.engine.plan.metadata_files import METADATA_CACHE
from tests.support.written import new_table

NOISE = 6 << 20
"""Bytes by which the memory of a process varies, whatever it keeps."""


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

    def held_after(commits: int) -> int:
        for number in range(commits):
            table.upsert({"k": [number % 4], "v": [number]})
            table.count("v = 1")
        return METADATA_CACHE.held

    with fsync_disabled():
        before = held_after(10)
        assert held_after(10) < 1.5 * before


GROWTH = """
import gc, sys
from pathlib import Path
import morrow
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.durability import fsync_disabled

morrow.use_cache_folder(False)
few = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 3}
options = {"bucket": 1, **({"write-only": True} if sys.argv[2] == "all" else few)}
catalog = morrow.Catalog(sys.argv[1])
table = catalog.create_table("d.t", "k INT NOT NULL, v INT", primary_keys="k", options=options)
caches = [each for each in gc.get_objects() if type(each) is ByteCache]

def state(first, commits):
    with fsync_disabled():
        for number in range(first, first + commits):
            table.upsert({"k": [number % 50], "v": [number]})
            if number % 5 == 0:
                table.count("v = 3")
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096, sum(each.held for each in caches)

(before, held_before), (after, held) = state(0, 40), state(40, 100)
print(after - before, held - held_before)
"""
"""Prints the bytes of memory by which a process grows in 100 commits, and those that its caches count."""


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
