"""Caches of values made from immutable files, in bounded memory."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class ByteCache(Generic[V]):
    """An LRU cache of values up to `capacity` bytes. Thread-safe.

    Files of a table never change, so an entry is never stale: keys are file identities (path and size), and eviction
    only limits memory. An entry may belong to a file (`of`, the file's name), and is useless after that file is
    removed.
    """

    def __init__(self, capacity: int, *, max_entries: int | None = None) -> None:
        self.capacity = capacity
        self.max_entries = max_entries
        """Further entries are evicted, since small values have an overhead larger than their size."""
        self._entries: OrderedDict[Hashable, tuple[V, int, str | None]] = OrderedDict()
        self._of: dict[str, set[Hashable]] = {}
        self._held = 0
        self._lock = threading.Lock()
        _CACHES.add(self)

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
        """Store `value` and evict the least recently used ones; a value larger than the capacity is not stored."""
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
        """Return the cached value, or else the value that `make` returns together with its size in bytes."""
        value = self.get(key)
        if value is None:
            value, size = make()
            self.put(key, value, size, of=of)
        return value

    def discard(self, files: Iterable[str]) -> None:
        """Drop the entries of removed files, by name."""
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


_CACHES: weakref.WeakSet[ByteCache[Any]] = weakref.WeakSet()


def forget_files(names: Iterable[str]) -> None:
    """Drop the entries of removed files, by name, from all caches."""
    removed = tuple(names)
    for each in tuple(_CACHES):
        each.discard(removed)
