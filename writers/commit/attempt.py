"""Tries to create a snapshot on top of the newest one, again when others were faster; leaves nothing when it fails."""

from __future__ import annotations

import random
import time

from morrow.engine.errors import CommitConflict, FileMissing, MorrowError, SnapshotExpired, UnclearOutcome
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.commit.base_entries import BaseEntries
from morrow.writers.commit.changes import Changes
from morrow.writers.commit.manifests import ManifestWriter
from morrow.writers.commit.preparing import Delta, Preparer, SnapshotRequest
from morrow.writers.commit.snapshots import SnapshotLog
from morrow.writers.commit.turns import turn
from morrow.writers.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.target import WriteTarget

RETRY_JITTER = 0.2


class Committer:
    """Creates snapshots of one table, one after the other; what it knows of the table is kept between them."""

    def __init__(self, target: WriteTarget) -> None:
        self.target = target
        self.log = SnapshotLog(target.metadata)
        self.manifests = ManifestWriter(target)
        self.base = BaseEntries(target.metadata, target.schema)
        self.preparer = Preparer(target, self.manifests, self.base)

    def create(self, request: SnapshotRequest) -> Snapshot:
        """Create the snapshot, with as many tries as ``commit.max-retries`` and ``commit.timeout`` allow.

        Raises:
            CommitConflict: it cannot follow what is there, or others were faster each time; nothing of it stays.
            UnclearOutcome: the store does not tell whether it is there; its manifests stay.
        """
        tries = _Tries(self, request)
        try:
            created = self._tried(tries)
        except BaseException:
            tries.discard()
            raise
        self.log.hint(created)
        return created

    def _tried(self, tries: _Tries) -> Snapshot:
        write = self.target.write
        deadline = None if write.commit_timeout is None else time.monotonic() + write.commit_timeout.total_seconds()
        for retry in range(write.commit_retries + 1):
            with turn(self.target.metadata):
                created = tries.once()
            if created is not None:
                return created
            if deadline is not None and time.monotonic() > deadline:
                break
            if retry < write.commit_retries:
                self._wait(retry)
        raise CommitConflict(
            f"{self.target.where}: other commits were faster {retry + 1} times; commit again, or raise "
            "'commit.max-retries', 'commit.max-retry-wait' or 'commit.timeout'"
        )

    def _wait(self, retry: int) -> None:
        write = self.target.write
        shortest, longest = write.commit_min_wait.total_seconds(), write.commit_max_wait.total_seconds()
        time.sleep(min(shortest * 2**retry, longest) * (1 + RETRY_JITTER * random.random()))


class _Tries:
    """The tries at one snapshot, and the metadata files that they have written."""

    def __init__(self, committer: Committer, request: SnapshotRequest) -> None:
        self._committer = committer
        self._request = request
        self._delta: Delta | None = None
        self._lasting: list[str] = []
        self._before: Snapshot | None = None
        self._number = 0

    def once(self) -> Snapshot | None:
        """One try on top of the newest snapshot; None when another committer took the next id."""
        latest = self._committer.log.latest()
        self._number += 1
        if self._number > 1 and latest is not None and (done := self._done_by_other(latest)) is not None:
            self.discard()
            return done
        self._before = latest
        written: list[str] = []
        try:
            delta = self._written_delta(latest, written)
            snapshot = self._committer.preparer.snapshot(self._request, latest, delta, written)
        except BaseException as error:
            self._committer.manifests.discard(written)
            if isinstance(error, (FileMissing, SnapshotExpired)) and self._committer.log.latest() != latest:
                return None  # what was newest has expired while it was read
            raise
        if not self._added(snapshot, written):
            return None
        self._committer.base.committed(snapshot, latest, delta.entries)
        return snapshot

    def discard(self) -> None:
        """Remove what was written for all tries."""
        self._committer.manifests.discard(self._lasting)
        self._lasting = []

    def _written_delta(self, latest: Snapshot | None, written: list[str]) -> Delta:
        changes = self._request.changes
        known = changes if isinstance(changes, Changes) else changes(latest)
        preparer = self._committer.preparer
        preparer.check(self._request, known, latest)
        if not preparer.lasting(self._request):
            return preparer.delta(known, latest, written)
        if self._delta is None:
            self._delta = preparer.delta(known, latest, self._lasting)
        return self._delta

    def _added(self, snapshot: Snapshot, written: list[str]) -> bool:
        """Create the snapshot. What it names is removed only when it is known that it is not there."""
        lasting, self._lasting = self._lasting, []
        try:
            added = self._committer.log.add(snapshot)
        except UnclearOutcome:
            raise
        except MorrowError:
            self._committer.manifests.discard([*written, *lasting])
            raise
        if not added:
            self._lasting = lasting
            self._committer.manifests.discard(written)
        return added

    def _done_by_other(self, latest: Snapshot) -> Snapshot | None:
        """The snapshot of the same user, identifier and kind: the same commit, repeated by another process."""
        if self._request.identifier == BATCH_COMMIT_IDENTIFIER:  # no identity: every batch commit has it
            return None
        own = (self._committer.target.commit_user, self._request.identifier, self._request.kind)
        for snapshot in self._committer.log.between(self._before, latest):
            if (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) == own:
                return snapshot
        return None
