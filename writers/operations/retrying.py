"""Retries of operations that meet a conflict, on the newest snapshot.

From the second try on the operation holds the commit lock, so that others of this machine that commit to the table wait
for it: an operation that takes longer to compute than others take to commit would never succeed. A compaction, which
may take long and changes no row, makes nobody wait.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

from morrow.engine.errors import CommitConflict
from morrow.writers.commit.commit_lock import commit_locked
from morrow.writers.target import WriteTarget

Done = TypeVar("Done")


def retried(
    target: WriteTarget,
    attempt: Callable[[], Done],
    *,
    locks: bool = True,
    most: int | None = None,
    after: type[CommitConflict] = CommitConflict,
) -> Done:
    """Calls `attempt` again as long as it meets conflicts.

    Args:
        locks: hold the commit lock from the second try on.
        most: the most retries, no more than ``commit.max-retries``; None: as many as that.
        after: the conflicts that a second try may settle.

    Raises:
        CommitConflict: each try met one (``commit.max-retries``, ``commit.timeout``). Others: as `attempt`.
    """
    write = target.write
    deadline = None if write.commit_timeout is None else time.monotonic() + write.commit_timeout.total_seconds()
    retries = write.commit_retries if most is None else min(most, write.commit_retries)
    for done in range(retries + 1):
        try:
            with commit_locked(target.metadata) if done and locks else nullcontext():
                return attempt()
        except after:
            if done == retries or (deadline is not None and time.monotonic() > deadline):
                raise
        wait = min(write.commit_max_wait, write.commit_min_wait * 2**done)
        time.sleep(wait.total_seconds() * random.uniform(0.5, 1.5))
    raise AssertionError("the last try returns or raises")
