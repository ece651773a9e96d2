"""Stores whose credentials the server lends for a while: made anew before they expire."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from morrow.engine.errors import StorageError
from morrow.engine.io.store import FileStore
from morrow.engine.units import MILLIS_PER_SECOND

Lend: TypeAlias = Callable[[], tuple[FileStore, float]]
"""Returns a store, and when its credentials end, in epoch milliseconds."""

SAFE_SECONDS = 3600.0
"""Credentials are renewed so long before they end, or after half of their life where that is short."""


class RenewedStore:
    """A `FileStore` that is whichever was lent last. It is pickled without credentials: the other side asks anew."""

    def __init__(self, lend: Lend) -> None:
        self._lend = lend
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._store: FileStore | None = None
        self._until = self._ends = 0.0

    def __getstate__(self) -> Any:
        return self._lend

    def __setstate__(self, lend: Any) -> None:
        self._lend = lend
        self._start()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # looked up by pickle and copy before there is a store
            raise AttributeError(name)
        return getattr(self._current(), name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RenewedStore) and self._lend == other._lend

    def __hash__(self) -> int:
        return hash(self._lend)

    def _current(self) -> FileStore:
        with self._lock:
            now = time.time()
            if self._store is None or now >= self._ends:
                self._renew(now)
            elif now >= self._until:
                try:
                    self._renew(now)
                except StorageError:  # those at hand are good yet
                    self._until = now + (self._ends - now) / 2
            return cast(FileStore, self._store)

    def _renew(self, now: float) -> None:
        self._store, ends = self._lend()
        self._ends = ends / MILLIS_PER_SECOND
        left = self._ends - now
        self._until = now + max(left - SAFE_SECONDS, left / 2)


def renewed(lend: Lend) -> FileStore:
    """Returns a store with credentials that are renewed."""
    return cast(FileStore, RenewedStore(lend))
