"""Creation of a snapshot on top of the newest one: retried when others were faster, cleaned up on failure."""

from __future__ import annotations

import random
import time
from contextlib import suppress

from morrow.engine.errors import CommitConflict, FileMissing, MorrowError, SnapshotExpired, UnclearOutcome
from morrow.engine.format.snapshot import COMPACT, Snapshot
from morrow.engine.telling import logger
from morrow.writers.commit.base_entries import BaseEntries
from morrow.writers.commit.changes import Changes
from morrow.writers.commit.commit_lock import commit_locked
from morrow.writers.commit.manifests import ManifestWriter
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.commit.numbering import Numbered
from morrow.writers.commit.preparing import Delta, Preparer, SnapshotRequest
from morrow.writers.commit.routes import Routes
from morrow.writers.commit.snapshots import SnapshotLog
from morrow.writers.target import WriteTarget

RETRY_JITTER = 0.2

log = logger(__name__)


class Committer:
    """A creator of snapshots of one table, one after the other, which keeps what it read between them."""

    def __init__(self, target: WriteTarget) -> None:
        self.target = target
        self.log = SnapshotLog(target.metadata)
        self.manifests = ManifestWriter(target)
        self.base = BaseEntries(target.metadata, target.schema)
        self.preparer = Preparer(target, self.manifests, self.base)
        self.routes = Routes(target)
        self.found = False

    def create(self, request: SnapshotRequest) -> Snapshot:
        """Creates the snapshot, with as many tries as ``commit.max-retries`` and ``commit.timeout`` allow.

        Afterwards `found` is true if another process had already made the same commit.

        Raises:
            CommitConflict: it cannot follow the newest snapshot, or others were faster each time; no file stays.
            UnclearOutcome: the store does not tell whether it exists; its manifests stay.
        """
        tries, began = _Tries(self, request), time.monotonic()
        try:
            created = self._tried(tries)
        except BaseException:
            tries.discard()
            raise
        self.found = tries.found
        self.log.hint(created)
        _tell(self.target.where, created, time.monotonic() - began)
        return created

    def _tried(self, tries: _Tries) -> Snapshot:
        write = self.target.write
        deadline = None if write.commit_timeout is None else time.monotonic() + write.commit_timeout.total_seconds()
        for retry in range(write.commit_retries + 1):
            tries.ahead()
            with commit_locked(self.target.metadata):
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


def _tell(where: str, snapshot: Snapshot, seconds: float) -> None:
    rows = snapshot.delta_record_count
    change = "" if rows is None else f", {rows:+,} stored rows"
    verb = "compacted, in snapshot" if snapshot.commit_kind == COMPACT else "committed snapshot"
    log.info("%s: %s %d (%s)%s, in %.2f s", where, verb, snapshot.id, snapshot.commit_kind, change, seconds)


class _Tries:
    """The tries to create one snapshot, and the metadata files that they have written."""

    def __init__(self, committer: Committer, request: SnapshotRequest) -> None:
        self._committer = committer
        self._request = request
        self._delta: Delta | None = None
        self._lasting: list[str] = []
        self._before = request.known
        self._looks_back = request.recognised
        self.found = False

    def ahead(self) -> None:
        """Does the slow work that depends little on which snapshot is the newest, while others may commit.

        On a local disk that is also to write the manifests of changes that are the same on top of any snapshot.
        """
        log, changes, preparer = self._committer.log, self._request.changes, self._committer.preparer
        if isinstance(changes, Numbered):
            with suppress(FileMissing, SnapshotExpired):  # a try meets them again, and can handle them
                changes.ahead(log.latest() if self._looks_back else log.known())
        elif isinstance(changes, Changes) and self._delta is None and self._is_settled:
            self.discard()
            self._delta = preparer.delta(changes, None, self._lasting)
            self._committer.manifests.sync_files()

    @property
    def _is_settled(self) -> bool:
        """Whether nothing about the newest snapshot changes or stops the delta, and the store is near."""
        committer = self._committer
        return committer.preparer.lasting and not self._request.check and committer.target.store.is_local

    def once(self) -> Snapshot | None:
        """Makes one try on top of the newest snapshot; returns None when another committer took the next id.

        The first one prepares its snapshot on top of the newest that is known, while it looks whether that is still
        the newest; if it is not, what was prepared is made anew.
        """
        log = self._committer.log
        latest, look = (log.latest(), None) if self._looks_back else log.begin()
        if self._looks_back and latest is not None and (done := self._done_by_other(latest)) is not None:
            self.found = True
            self.discard()
            return done
        self._before, self._looks_back = latest, True
        written: list[str] = []
        try:
            delta = self._written_delta(latest, written)
            snapshot = self._committer.preparer.snapshot(self._request, latest, delta, written)
            self._committer.manifests.settle()
        except BaseException as error:
            self._committer.manifests.discard(written)
            self._delta = None  # its files may not be there
            if look is not None and isinstance(error, MorrowError) and look() != latest:
                return self.once()
            if isinstance(error, (FileMissing, SnapshotExpired)) and log.latest() != latest:
                return None  # the newest snapshot has expired while it was read
            raise
        if look is not None and look() != latest:
            self._committer.manifests.discard(written)
            return self.once()
        if not self._added(snapshot, written):
            return None
        self._committer.base.committed(snapshot, latest, delta.entries)
        return snapshot

    def discard(self) -> None:
        """Removes the files written for all tries."""
        self._committer.manifests.discard(self._lasting)
        self._lasting = []

    def _written_delta(self, latest: Snapshot | None, written: list[str]) -> Delta:
        changes = self._request.changes
        known = changes if isinstance(changes, Changes) else changes(latest)
        preparer = self._committer.preparer
        preparer.check(self._request, known, latest)
        if not preparer.lasting:
            return preparer.delta(known, latest, written)
        if self._delta is None or self._delta.changes is not known:
            self.discard()
            self._delta = preparer.delta(known, latest, self._lasting)
        return self._delta

    def _added(self, snapshot: Snapshot, written: list[str]) -> bool:
        """Creates the snapshot. Its metadata files are removed only when it certainly does not exist."""
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
        """Returns the snapshot of the same user, identifier and kind: the same commit, made by another process."""
        if self._request.identifier == BATCH_COMMIT_IDENTIFIER:  # no identity: every batch commit has it
            return None
        own = (self._committer.target.commit_user, self._request.identifier, self._request.kind)
        for snapshot in self._committer.log.between(self._before, latest):
            if (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) == own:
                return snapshot
        return None
