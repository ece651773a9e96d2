"""Committers of one machine take turns, so that none prepares a snapshot whose id another is about to take.

This is courtesy, not safety: a snapshot is created only where none is, with or without it. Committers that do not queue
(other machines, other tools, tables in object stores) are met as ever, by trying again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from morrow.engine.plan.metadata import TableMetadata

try:
    import fcntl
except ImportError:  # a system without locks on folders
    fcntl = None  # type: ignore[assignment]  # checked before use

LONGEST_WAIT_SECONDS = 10.0
"""After this a committer goes on without its turn: whoever has it may have been stopped."""
POLL_SECONDS = 0.002


@contextmanager
def turn(metadata: TableMetadata) -> Iterator[None]:
    """Within the block this committer has the turn at the table, or does not care to wait any longer."""
    descriptor = _opened(metadata)
    try:
        if descriptor is not None:
            _wait(descriptor)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)  # which gives the turn back


def _opened(metadata: TableMetadata) -> int | None:
    """The folder of snapshots, None where there is none to queue at."""
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
