"""A cache bounded in bytes for values made from immutable files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

V = TypeVar("V")


class ByteCache(Generic[V]):
    """Least recently used values up to `capacity` bytes; safe between threads.

    Files of a table never change, so an entry is never stale: keys are file identities (path and size), and eviction
    is only about memory. An entry may be `of` a file by its name: it is of no use when that file is removed.
    """

    def __init__(self, capacity: int, *, max_entries: int | None = None) -> None:
        self.capacity = capacity
        self.max_entries = max_entries
        """Entries beyond are evicted: small ones cost the allocator more than they hold."""
        self._entries: OrderedDict[Hashable, tuple[V, int, str | None]] = OrderedDict()
        self._of: dict[str, set[Hashable]] = {}
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

    def put(self, key: Hashable, value: V, size: int, *, of: str | None = None) -> None:
        """Keeps `value`, evicting the least recently used; a value larger than the capacity is not kept."""
        with self._lock:
            if key in self._entries:
                self._drop(key)
            if size > self.capacity:
                return
            self._entries[key] = (value, size, of)
            self._held += size
            if of is not None:
                self._of.setdefault(of, set()).add(key)
            while self._held > self.capacity or len(self._entries) > (self.max_entries or len(self._entries)):
                self._drop(next(iter(self._entries)))

    def get_or_make(self, key: Hashable, make: Callable[[], tuple[V, int]], *, of: str | None = None) -> V:
        """Returns the cached value, or the one that `make` returns with its size in bytes."""
        value = self.get(key)
        if value is None:
            value, size = make()
            self.put(key, value, size, of=of)
        return value

    def discard(self, files: Iterable[str]) -> None:
        """Drop the entries of files with these names, which were removed."""
        with self._lock:
            for name in files:
                for key in tuple(self._of.get(name, ())):
                    self._drop(key)

    def _drop(self, key: Hashable) -> None:
        _, size, of = self._entries.pop(key)
        self._held -= size
        if of is not None:
            self._of[of].discard(key)
            if not self._of[of]:
                del self._of[of]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._of.clear()
            self._held = 0
