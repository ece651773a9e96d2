"""The commit lock of one machine, and retries of operations after a conflict, on the newest snapshot.

The lock is advisory. It saves work, since committers of this machine do not compete for a snapshot id. It is not needed
for safety: a snapshot file is created only if it does not exist, with or without the lock. Races with committers that
do not lock (other machines, other tools, tables in object stores) are settled by retries. If a store cannot create a
file atomically, the table's catalog has a lock, which is held as well.

From the second try on, an operation holds the lock, and other committers of this machine wait for it. Otherwise an
operation that takes longer to compute than others take to commit would never succeed. A compaction does not hold the
lock, since it may take long and does not change rows.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TypeVar

from morrow.engine.errors import CommitConflict
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.target import WriteTarget

try:
    import fcntl
except ImportError:  # a system without locks on folders
    fcntl = None  # type: ignore[assignment]  # checked before use

MAX_WAIT_SECONDS = 10.0
"""Seconds after which a committer continues without the lock, since its holder may have been suspended."""
POLL_SECONDS = 0.002
_OF_THREAD = threading.local()


@contextmanager
def hold_commit_lock(metadata: TableMetadata) -> Iterator[None]:
    """Hold the commit lock of the table within the block, or continue without it after `MAX_WAIT_SECONDS`.

    The lock of the table's catalog is held too; the wait for that lock is unlimited.
    The lock is reentrant within a thread.
    """
    folder = metadata.store.url(metadata.paths.snapshot_dir)
    if folder in _find_held_folders():
        yield
        return
    descriptor = _open_folder(metadata)
    try:
        if descriptor is not None:
            _wait(descriptor)
        with metadata.owner.lock(metadata.branch):
            _find_held_folders().add(folder)
            yield
    finally:
        _find_held_folders().discard(folder)
        if descriptor is not None:
            os.close(descriptor)  # which releases the lock


def _find_held_folders() -> set[str]:
    """Return the snapshot folders whose lock this thread holds."""
    if not hasattr(_OF_THREAD, "folders"):
        _OF_THREAD.folders = set()
    folders: set[str] = _OF_THREAD.folders
    return folders


def _open_folder(metadata: TableMetadata) -> int | None:
    """Return a descriptor of the snapshot folder, None if it cannot be locked."""
    if fcntl is None or not metadata.store.is_local:
        return None
    try:
        return os.open(metadata.paths.snapshot_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None


def _wait(descriptor: int) -> None:
    deadline = time.monotonic() + MAX_WAIT_SECONDS
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


Done = TypeVar("Done")


def retry_on_conflict(
    target: WriteTarget,
    attempt: Callable[[], Done],
    *,
    locks: bool = True,
    most: int | None = None,
    after: type[CommitConflict] = CommitConflict,
) -> Done:
    """Call `attempt`, and repeat it after conflicts.

    Args:
        locks: hold the commit lock from the second try on.
        most: maximum retries, if less than ``commit.max-retries``; None: ``commit.max-retries``.
        after: the type of conflicts that a second try may resolve.

    Raises `CommitConflict`: each try had a conflict (``commit.max-retries``, ``commit.timeout``). Others: as `attempt`.
    """
    write = target.write
    deadline = None if write.commit_timeout is None else time.monotonic() + write.commit_timeout.total_seconds()
    retries = write.commit_retries if most is None else min(most, write.commit_retries)
    for done in range(retries + 1):
        try:
            with hold_commit_lock(target.metadata) if done and locks else nullcontext():
                return attempt()
        except after:
            if done == retries or (deadline is not None and time.monotonic() > deadline):
                raise
        wait = min(write.commit_max_wait, write.commit_min_wait * 2**done)
        time.sleep(wait.total_seconds() * random.uniform(0.5, 1.5))
    raise AssertionError("the last try returns or raises")
