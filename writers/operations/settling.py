"""Compaction that is made up for when another commit came between.

Tables of which batch reads see only what was compacted (deletion vectors, first-row), and those whose changelog comes
of lookups, compact each commit at once. When somebody else compacts the same bucket meanwhile, the rows are committed
and their compaction is not; it is then done again on what the others left, so that the next read sees the rows.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence

from morrow.engine.errors import CommitConflict
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.commit import TableCommit
from morrow.writers.files import Placement
from morrow.writers.lookup import LookupStrategy
from morrow.writers.merge_tree.writer import compact_bucket
from morrow.writers.messages import CommitMessage
from morrow.writers.operations.overtaken import compacting
from morrow.writers.restored import restored

COMPACT = "COMPACT"
MOST_TRIES = 20
"""Whoever is faster takes our files of level 0 along, so that seldom more than two tries are needed."""

log = logging.getLogger(__name__)


def settled(
    commits: TableCommit,
    messages: Sequence[CommitMessage],
    done: Snapshot | None,
    identifier: int,
    *,
    several: bool = False,
) -> Snapshot | None:
    """The last snapshot, once the rows of these messages are compacted where readers wait for that.

    Args:
        done: the last snapshot of the commit of `messages`, None when there was nothing to commit.
        several: there were several commits, so that the last one does not tell what came of the others.

    Raises: what committing raises, but for conflicts.
    """
    wanted = [Placement(m.partition, m.bucket) for m in messages if m.compact_before or m.compact_after]
    if done is None or not wanted or not LookupStrategy.of(commits.target).needed:
        return done
    if done.commit_kind == COMPACT and not several:
        return done
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
    """Compactions of those buckets that have files in level 0."""
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
