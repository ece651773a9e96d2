"""An advisory lock for the committers of one machine, so that none prepares a snapshot whose id another is taking.

It saves work and is not needed for safety: a snapshot file is created only if none exists, with or without the lock.
Races with committers that do not lock (other machines, other tools, tables in object stores) are settled by retries.
Where a store cannot create a file atomically, the table's catalog has a lock, which is held as well.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from morrow.engine.plan.metadata import TableMetadata

try:
    import fcntl
except ImportError:  # a system without locks on folders
    fcntl = None  # type: ignore[assignment]  # checked before use

LONGEST_WAIT_SECONDS = 10.0
"""After this a committer goes on without the lock: its holder may have been stopped."""
POLL_SECONDS = 0.002
_OF_THREAD = threading.local()


@contextmanager
def commit_locked(metadata: TableMetadata) -> Iterator[None]:
    """Holds the commit lock of the table within the block, or goes on without it after `LONGEST_WAIT_SECONDS`.

    The lock of the table's catalog is held too, however long that takes.
    The lock is reentrant within a thread.
    """
    folder = metadata.store.url(metadata.paths.snapshot_dir)
    if folder in _held():
        yield
        return
    descriptor = _opened(metadata)
    try:
        if descriptor is not None:
            _wait(descriptor)
        with metadata.owner.lock(metadata.branch):
            _held().add(folder)
            yield
    finally:
        _held().discard(folder)
        if descriptor is not None:
            os.close(descriptor)  # which releases the lock


def _held() -> set[str]:
    """Returns the snapshot folders whose lock this thread holds."""
    if not hasattr(_OF_THREAD, "folders"):
        _OF_THREAD.folders = set()
    folders: set[str] = _OF_THREAD.folders
    return folders


def _opened(metadata: TableMetadata) -> int | None:
    """Returns a descriptor of the snapshot folder, None where there is none to lock."""
    if fcntl is None or not metadata.store.is_local:
        return None
    try:
        return os.open(metadata.paths.snapshot_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None


def _wait(descriptor: int) -> None:
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    while True:
        with suppress(BlockingIOError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError:  # a file system without locks
                return
            return
        if time.monotonic() >= deadline:
            return
        time.sleep(POLL_SECONDS)
