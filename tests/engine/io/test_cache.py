"""The cache bounded in bytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.io.cache import ByteCache


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
