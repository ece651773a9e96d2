"""A cache bounded in bytes for values made from immutable files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class ByteCache(Generic[V]):
    """Least recently used values up to `capacity` bytes; safe between threads.

    Files of a table never change, so an entry is never stale: keys are file identities (path and size) and eviction
    is only about memory.
    """

    def __init__(self, capacity: int, *, max_entries: int | None = None) -> None:
        self.capacity = capacity
        self.max_entries = max_entries
        """Entries beyond are evicted: small ones cost the allocator more than they hold."""
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """The number of bytes held."""
        return self._held

    def get(self, key: Hashable) -> V | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        """Keeps `value`, evicting the least recently used; a value larger than the capacity is not kept."""
        with self._lock:
            if key in self._entries:
                self._held -= self._entries.pop(key)[1]
            if size > self.capacity:
                return
            self._entries[key] = (value, size)
            self._held += size
            while self._held > self.capacity or len(self._entries) > (self.max_entries or len(self._entries)):
                self._held -= self._entries.popitem(last=False)[1][1]

    def get_or_make(self, key: Hashable, make: Callable[[], tuple[V, int]]) -> V:
        """Returns the cached value, or the one that `make` returns with its size in bytes."""
        value = self.get(key)
        if value is None:
            value, size = make()
            self.put(key, value, size)
        return value

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._held = 0
