"""A check at commit that keys are still in the buckets known when rows were assigned to buckets.

Where buckets are assigned key by key, a writer knows the buckets of keys as of the snapshot that it read. Another
commit that adds keys, moves them to another partition or overwrites them would put a key into two places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from morrow.engine.errors import CommitConflict, NotFound
from morrow.engine.format.snapshot import APPEND, OVERWRITE, Snapshot
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.target import WriteTarget

NOTHING = ""
"""The version of a table without snapshots."""
ONE_BY_ONE = -1
"""The option ``bucket`` of keyed tables that assign buckets key by key."""


class Misplaced(CommitConflict):
    """The error for rows assigned to buckets by outdated knowledge of keys; their files are still there."""


def version_of(snapshot: Snapshot | None) -> str:
    """Returns an identity of a snapshot, different even from that of a rolled back snapshot with the same id."""
    return NOTHING if snapshot is None else snapshot.delta_manifest_list


class Routes:
    """The snapshots that one committer has checked since rows were assigned to buckets."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target
        self._changing: tuple[str, ...] = ()
        if target.keyed and target.options.bucket == ONE_BY_ONE:
            # Within a partition, keys that others add show in the index files.
            self._changing = (OVERWRITE, APPEND) if target.schema.cross_partition else (OVERWRITE,)
        self._seen: dict[str, Snapshot] = {}

    def check(self, messages: Sequence[CommitMessage], latest: Snapshot | None) -> None:
        """Raises `Misplaced` when another commit may have changed the places of keys."""
        if not self._changing:
            return
        for version in {message.routed_on for message in messages if message.routed_on is not None}:
            if latest is None:
                if version != NOTHING:
                    raise self._conflict("was rolled back")
                continue
            for snapshot in self._since(version, latest):
                if snapshot.commit_kind in self._changing and snapshot.commit_user != self._target.commit_user:
                    raise self._conflict(f"was changed by snapshot {snapshot.id}")
            self._seen[version] = latest

    def _since(self, version: str, latest: Snapshot) -> Iterator[Snapshot]:
        """Yields the snapshots since this version that were not checked yet, the newest first."""
        seen = self._seen.get(version)
        known = {version} if seen is None else {version, version_of(seen)}
        snapshot, metadata = latest, self._target.metadata
        while version_of(snapshot) not in known:
            yield snapshot
            try:
                if snapshot.id == 1 and version == NOTHING:
                    return
                snapshot = metadata.snapshot(snapshot.id - 1)
            except NotFound as error:
                raise self._conflict(f"was rolled back, or its snapshots expired ({error}),") from error

    def _conflict(self, what: str) -> Misplaced:
        return Misplaced(
            f"{self._target.where}: the table {what} after rows were given their buckets; nothing was committed: write "
            "them again"
        )
