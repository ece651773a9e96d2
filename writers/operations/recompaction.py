"""Repeated compaction after a conflict of the first one.

Tables whose batch reads see compacted files only (deletion vectors, first-row), and those with the changelog producer
lookup, compact each commit at once. When another commit writes to the same bucket or compacts it meanwhile, the rows
are committed and their compaction is not; it is then repeated on the newest snapshot, so that the next read sees the
rows.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from morrow.engine.errors import CommitConflict
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.telling import logger
from morrow.writers.buckets.restored import restored
from morrow.writers.commit import TableCommit
from morrow.writers.commit.expired_base import compacting
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.files import Placement
from morrow.writers.keyed.lookup import LookupStrategy
from morrow.writers.keyed.writer import compact_bucket

MOST_TRIES = 20
"""A faster compaction includes our files of level 0, so that seldom more than two tries are needed."""

log = logger(__name__)


def recompacted(
    commits: TableCommit,
    messages: Sequence[CommitMessage],
    done: Snapshot | None,
    identifier: int,
    *,
    several: bool = False,
) -> Snapshot | None:
    """Compacts the rows of these messages where readers see compacted files only; returns the last snapshot.

    Args:
        done: the last snapshot of the commit of `messages`, None when there was nothing to commit.
        several: there were several commits, and `commits.uncompacted` covers only the last of them.

    Raises: as commits, except for conflicts.
    """
    write = commits.target.write
    if done is None or not LookupStrategy.of(commits.target).needed:
        return done
    compacted = [Placement.of(m) for m in messages if m.compact_before or m.compact_after]
    wanted = compacted if several else list(commits.uncompacted)
    if write.lookup_wait and not write.write_only:  # an overtaken writer has compacted nothing
        left = (m for m in messages if m.new_files and not m.compact_before and m.bucket != POSTPONE_BUCKET)
        wanted += [Placement.of(m) for m in left]
    return recompacted_places(commits, wanted, done, identifier) if wanted else done


def recompacted_places(
    commits: TableCommit, wanted: Sequence[Placement], done: Snapshot, identifier: int = BATCH_COMMIT_IDENTIFIER
) -> Snapshot | None:
    """Compacts level 0 of these buckets; returns the last snapshot, or `done` when others were always faster.

    Raises: as `recompacted`.
    """
    for tries in range(MOST_TRIES):
        missing: list[CommitMessage] = []
        try:
            missing = _compacted(commits, wanted)
            if not missing:
                return commits.latest_snapshot()
            return commits.commit(missing, identifier=identifier)
        except CommitConflict:
            commits.abort(missing)
            time.sleep(commits.target.write.commit_min_wait.total_seconds() * (1 + tries) * random.random())
        except BaseException:
            commits.abort(missing)
            raise
    log.warning("%s: other commits were always faster; rows wait for the next compaction", commits.target.where)
    return done


def _compacted(commits: TableCommit, places: Sequence[Placement]) -> list[CommitMessage]:
    """Compacts those buckets that have files in level 0."""
    messages: list[CommitMessage] = []
    base = commits.target.metadata.latest_snapshot()
    try:
        with compacting(commits.target.metadata, base):
            for place, state in restored(commits.target, base, places).items():
                if any(file.level == 0 for file in state.files):
                    messages.append(compact_bucket(commits.target, place, state, full=False))
    except BaseException:
        commits.abort(messages)  # also of those before the one that failed
        raise
    return [message for message in messages if not message.is_empty]
