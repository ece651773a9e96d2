"""A store that creates files under a lock where it cannot create them atomically by itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, cast

from morrow.engine.errors import FileMissing, StorageError, UnclearOutcome, Unsupported
from morrow.engine.io.store import FileStore

Lock: TypeAlias = Callable[[], AbstractContextManager[Callable[[], None]]]
"""Holds the lock within the block; what it gives raises `StorageError` where the lock may have been lost."""


class LockedStore:
    """A `FileStore` as `inner`, but for `create`, which all writers of the table do under the same lock."""

    def __init__(self, inner: FileStore, lock: Lock) -> None:
        self.inner, self.lock = inner, lock

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # looked up by pickle and copy before there is a store
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LockedStore) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash(self.inner)

    def create(self, path: str, data: bytes) -> bool:
        """Creates a file as `FileStore.create`: by the store itself, or else under the lock."""
        with self.lock() as check:
            try:
                return self.inner.create(path, data)
            except Unsupported:
                if self.inner.exists(path):
                    return False
                check()
                return self._written(path, data)

    def _written(self, path: str, data: bytes) -> bool:
        try:
            self.inner.write(path, data)
        except StorageError as error:
            try:
                if self.inner.read(path) == data:
                    return True
            except (FileMissing, StorageError):
                pass
            raise UnclearOutcome(f"{path}: {error}; whether the file was created is not known, look for it") from error
        return True


def locked(store: FileStore, lock: Lock) -> FileStore:
    """Returns the store with creation under a lock."""
    return cast(FileStore, LockedStore(store, lock))
