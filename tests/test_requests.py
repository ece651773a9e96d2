"""Requests to an object store, and how many of them wait for one another: bounds that reads and commits keep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from obstore.store import MemoryStore

import morrow
from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.io.objects import ObjectStore

LATENCY = 0.01
"""Seconds that each request takes here: requests that begin while another one is under way do not wait for it."""
ASKING = ("read", "read_range", "size", "list", "create", "write", "delete_many")


@dataclass
class Counted(ObjectStore):
    """An object store in memory that counts: `asked` are requests, with the time at which each began and ended."""

    asked: list[tuple[str, str, float, float]] = field(default_factory=list)

    def __init__(self) -> None:
        super().__init__(MemoryStore(), "memory://", {})
        self.asked, self._inside = [], threading.local()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return self._counted(name, found) if name in ASKING else found

    def _counted(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def ask(path: Any, *more: Any) -> Any:
            if getattr(self._inside, "is_asking", False):
                return method(path, *more)
            self._inside.is_asking = True
            begun = time.monotonic()
            time.sleep(LATENCY)
            try:
                return method(path, *more)
            finally:
                self._inside.is_asking = False
                self.asked.append((name, str(path), begun, time.monotonic()))

        return ask

    def rounds(self) -> int:
        """Finds the longest chain of requests, each of which began when the one before had ended."""
        longest: list[tuple[float, int]] = []
        for _, _, begun, ended in sorted(self.asked, key=lambda each: each[2]):
            before = max((length for end, length in longest if end <= begun), default=0)
            longest.append((ended, before + 1))
        return max((length for _, length in longest), default=0)


@pytest.fixture
def store() -> Iterator[Counted]:
    yield Counted()


@pytest.mark.parametrize(
    ("operation", "requests", "rounds"),
    [("open", 2, 2), ("open, plan and read", 11, 7), ("commit", 23, 18)],
)
def test_requests_are_few_and_do_not_wait_for_each_other(
    store: Counted, operation: str, requests: int, rounds: int
) -> None:
    catalog = morrow.Catalog.over(FilesystemCatalog(store, "lake"))
    table = catalog.create_table("db.t", schema="id INT NOT NULL, v STRING")
    table.append({"id": [1], "v": ["a"]})
    metadata = table._metadata
    morrow.clear_caches()
    store.asked.clear()
    if operation == "commit":
        table.append({"id": [2], "v": ["b"]})
    else:
        opened = morrow.Table(metadata)
        if operation != "open":
            assert opened.scan().to_polars().height == 1
    told = "\n".join(f"{name} {path}" for name, path, _, _ in store.asked)
    assert len(store.asked) <= requests, told
    assert store.rounds() <= rounds, told
