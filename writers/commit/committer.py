"""Creation of a snapshot on top of the newest one, with retries if other commits were faster, and cleanup on failure.

The snapshot files of a table are a log. A snapshot is committed when its file exists. The file is created only if it
does not exist, so only one of several committers gets each id. The newest snapshot is read without listing the folder.
Hints are written last and may be wrong: they only save a listing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from morrow.engine.errors import (
    CommitConflict,
    FileMissing,
    MorrowError,
    NotFound,
    SnapshotExpired,
    StorageError,
    UnclearOutcome,
)
from morrow.engine.format.paths import LATEST
from morrow.engine.format.snapshot import COMPACT, FIRST_SNAPSHOT_ID, OVERWRITE, Snapshot, format_snapshot
from morrow.engine.io.store import call_both, start_request, write_hint
from morrow.engine.plan import metadata as newest
from morrow.engine.plan.manifests import is_same_commit
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace
from morrow.writers.commit.chain_partitions import list_replaced_partitions, open_snapshot_branch
from morrow.writers.commit.commit_lock import hold_commit_lock
from morrow.writers.commit.manifests import BaseEntries, ManifestWriter
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, Changes, make_overwrite_changes
from morrow.writers.commit.premise import Routes
from morrow.writers.commit.snapshot_metadata import Delta, NothingMerged, Preparer, SequenceNumbering, SnapshotRequest
from morrow.writers.target import WriteTarget

RETRY_JITTER = 0.2

log = get_logger(__name__)


class Committer:
    """Creator of successive snapshots of one table, which caches metadata between commits."""

    def __init__(self, target: WriteTarget) -> None:
        self.target = target
        self.log = SnapshotLog(target.metadata)
        self.manifests = ManifestWriter(target)
        self.base = BaseEntries(target.metadata, target.schema)
        self.preparer = Preparer(target, self.manifests, self.base)
        self.routes = Routes(target)
        self.found = False

    def create(self, request: SnapshotRequest) -> Snapshot:
        """Create the snapshot, with as many tries as ``commit.max-retries`` and ``commit.timeout`` allow.

        Afterwards `found` is true if another process had already made the same commit.

        Raises:
            CommitConflict: the snapshot cannot follow the newest one, or other commits were faster each time; no file
                is left.
            UnclearOutcome: it is unknown whether the snapshot exists; its manifests stay.
        """
        tries, began = _Tries(self, request), time.monotonic()
        try:
            created = self._try(tries)
        except BaseException:
            tries.discard()
            raise
        self.found = tries.found
        self.log.hint(created)
        _log_snapshot(self.target.where, created, time.monotonic() - began)
        replaced = list_replaced_partitions(self.target, request.kind, tries.changes)
        if replaced:
            self._drop_whole_partitions(created, replaced)
        return created

    def _drop_whole_partitions(self, created: Snapshot, partitions: list[bytes]) -> None:
        """Drop partitions from the snapshot branch of a chain table.

        Every error becomes an `UnclearOutcome`: after another error, callers would delete the files of the valid
        commit.
        """
        try:
            branch = open_snapshot_branch(self.target)
            drop = make_overwrite_changes(branch, Changes(), partitions)
            Committer(branch).create(SnapshotRequest(OVERWRITE, BATCH_COMMIT_IDENTIFIER, drop, True))
        except MorrowError as error:
            named = [self.target.partition_values(stored) for stored in partitions]
            raise UnclearOutcome(
                f"{self.target.where}: snapshot {created.id} is committed, but the snapshot branch still has the "
                f"partitions {named}, which reads prefer; drop them there ({error})"
            ) from error

    def _try(self, tries: _Tries) -> Snapshot:
        write = self.target.write
        deadline = None if write.commit_timeout is None else time.monotonic() + write.commit_timeout.total_seconds()
        for retry in range(write.commit_retries + 1):
            tries.ahead()
            with hold_commit_lock(self.target.metadata):
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


def _log_snapshot(where: str, snapshot: Snapshot, seconds: float) -> None:
    rows = snapshot.delta_record_count
    change = "" if rows is None else f", {rows:+,} stored rows"
    verb = "compacted, in snapshot" if snapshot.commit_kind == COMPACT else "committed snapshot"
    log.info("%s: %s %d (%s)%s, in %.2f s", where, verb, snapshot.id, snapshot.commit_kind, change, seconds)


class _Tries:
    """Attempts to create one snapshot, and the metadata files that they have written."""

    def __init__(self, committer: Committer, request: SnapshotRequest) -> None:
        self._committer = committer
        self._request = request
        self._delta: Delta | None = None
        self._lasting: list[str] = []
        self._before = request.known
        self._looks_back = request.recognised
        self.found = False
        self.changes = Changes()

    def ahead(self) -> None:
        """Do slow work that depends little on the newest snapshot before the commit lock is taken.

        On a local disk, this includes writing manifests that are the same on top of any snapshot.
        """
        log, changes, preparer = self._committer.log, self._request.changes, self._committer.preparer
        if isinstance(changes, SequenceNumbering):
            with suppress(FileMissing, SnapshotExpired):  # the next try raises them again, and handles them
                changes.ahead(log.latest() if self._looks_back else log.known())
        elif isinstance(changes, Changes) and self._delta is None and self._is_settled:
            self.discard()
            self._delta = preparer.delta(changes, None, self._lasting, kind=self._request.kind)
            self._committer.manifests.sync_files()

    @property
    def _is_settled(self) -> bool:
        """Whether the delta is independent of the newest snapshot, cannot conflict with it, and the store is local."""
        committer = self._committer
        return committer.preparer.lasting and not self._request.check and committer.target.store.is_local

    def once(self) -> Snapshot | None:
        """Make one try on top of the newest snapshot; return None if another committer took the next id.

        The first try prepares its snapshot on top of the newest known one while it checks that no newer one exists. If
        one does, the snapshot is prepared again.
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
            self._delta = None  # its files may be missing
            if look is not None and isinstance(error, MorrowError) and look() != latest:
                return self.once()
            if isinstance(error, (FileMissing, SnapshotExpired)) and log.latest() != latest:
                return None  # the newest snapshot has expired while it was read
            raise
        if look is not None and look() != latest:
            self._committer.manifests.discard(written)
            return self.once()
        if not self._add(snapshot, written):
            return None
        self._committer.base.committed(snapshot, latest, delta.entries)
        return snapshot

    def discard(self) -> None:
        """Remove the files written for all tries."""
        self._committer.manifests.discard(self._lasting)
        self._lasting = []

    def _written_delta(self, latest: Snapshot | None, written: list[str]) -> Delta:
        changes = self._request.changes
        self.changes = known = changes if isinstance(changes, Changes) else changes(latest)
        preparer = self._committer.preparer
        preparer.check(self._request, known, latest)
        if not preparer.lasting:
            return preparer.delta(known, latest, written, kind=self._request.kind)
        if self._delta is None or self._delta.changes is not known:
            self.discard()
            self._delta = preparer.delta(known, latest, self._lasting, kind=self._request.kind)
        return self._delta

    def _add(self, snapshot: Snapshot, written: list[str]) -> bool:
        """Create the snapshot. Its metadata files are only removed if it certainly does not exist."""
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
        """Return the snapshot of the same user, identifier and kind: the same commit, made by another process."""
        if self._request.identifier == BATCH_COMMIT_IDENTIFIER:  # not an identity: all batch commits share it
            return None
        own = (self._committer.target.commit_user, self._request.identifier, self._request.kind)
        for snapshot in self._committer.log.between(self._before, latest):
            if (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) == own:
                return snapshot
        return None


MAX_UNCLEAR_TRIES = 5
UNCLEAR_WAIT_SECONDS = 0.1
"""Seconds before a request is repeated after an unclear outcome. Doubled each time."""


class SnapshotLog:
    """The snapshots of one table, as one committer sees them."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self.newest: Snapshot | None = None
        """The newest known snapshot; newer ones may exist."""
        self._hinting: Callable[[], None] | None = None

    def go_on_from(self, snapshot: Snapshot | None) -> None:
        """Begin the search for the newest snapshot here, if none is known yet."""
        self.newest = self.newest or snapshot

    def known(self) -> Snapshot | None:
        """Return the newest known snapshot, which others may have followed; ask the store the first time."""
        return self.newest or self.latest()

    def begin(self) -> tuple[Snapshot | None, Callable[[], Snapshot | None] | None]:
        """Return the newest snapshot and None, or the newest known snapshot and a function that waits for `latest`.

        In a remote store the function is returned, so that metadata can be written while the request is running.
        """
        if self.newest is None or self._metadata.store.is_local or Owned.SNAPSHOTS in self._metadata.owner.owns:
            return self.latest(), None
        return self.newest, start_request(self._metadata.store, self.latest)

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, None if there is none yet.

        The search goes up id by id from the newest known one, since ids above an existing snapshot are consecutive.
        """
        known = self.newest
        if Owned.SNAPSHOTS in self._metadata.owner.owns:
            self.newest = self._metadata.latest_snapshot()
            return self.newest
        if known is None:
            self.newest = self._metadata.latest_snapshot()
            return self.newest
        is_there, is_passed = call_both(
            self._metadata.store, partial(self._still_there, known), partial(self._exists, known.id + 1)
        )
        if not is_there:
            self.newest = self._metadata.latest_snapshot()
            return self.newest
        newest = known.id
        while is_passed:
            newest += 1
            is_passed = self._exists(newest + 1)
        if newest != known.id:
            # If it has expired meanwhile, the committer was suspended for a long time.
            self.newest = self._metadata.snapshot_or_none(newest) or self._metadata.latest_snapshot()
        return self.newest

    def _exists(self, snapshot_id: int) -> bool:
        return self._metadata.store.exists(self._metadata.paths.snapshot(snapshot_id))

    def _still_there(self, snapshot: Snapshot) -> bool:
        """Return whether the snapshot still exists, neither expired nor rolled back."""
        try:
            return self._metadata.snapshot(snapshot.id) == snapshot
        except NotFound:
            return False

    def between(self, after: Snapshot | None, until: Snapshot) -> Iterator[Snapshot]:
        """Yield the snapshots after `after` up to `until`, leaving out expired ones."""
        for snapshot_id in range(after.id + 1 if after else FIRST_SNAPSHOT_ID, until.id):
            try:
                yield self._metadata.snapshot(snapshot_id)
            except NotFound:
                continue
        if after is None or until.id > after.id:
            yield until

    def latest_of(self, user: str) -> Snapshot | None:
        """Return the newest snapshot of this commit user; None if there is none or all have expired."""
        newest = self.latest()
        for snapshot_id in range(newest.id if newest else 0, 0, -1):
            try:
                snapshot = newest if newest and snapshot_id == newest.id else self._metadata.snapshot(snapshot_id)
            except NotFound:
                return None
            if snapshot.commit_user == user:
                return snapshot
        return None

    def add(self, snapshot: Snapshot) -> bool:
        """Create the snapshot file; return False if another snapshot has this id. True means that the file is durable.

        If the catalog owns snapshots, the catalog commits the snapshot on top of the one that `latest` returned.

        Raises:
            UnclearOutcome: no try could find out whether the file exists.
            StorageError: the file does not exist.
        """
        path = self._metadata.paths.snapshot(snapshot.id)
        data = format_snapshot(snapshot)
        base, owner = self.newest, self._metadata.owner
        owned = Owned.SNAPSHOTS in owner.owns
        wait, unclear = UNCLEAR_WAIT_SECONDS, False
        for tries_left in reversed(range(MAX_UNCLEAR_TRIES)):
            try:
                # All tries write the same bytes under the same name, so the commit is the same whichever succeeds.
                if owned:
                    if owner.commit_snapshot(self._metadata.branch, base, snapshot):
                        break
                    # An earlier try may have succeeded, and newer snapshots may have followed.
                    return unclear and self._was_added(snapshot)
                if self._metadata.store.create(path, data):
                    break
                return unclear and self._is_own(path, data, snapshot)
            except UnclearOutcome:
                unclear = True
                if not tries_left:
                    raise
            except StorageError as error:
                if not unclear:
                    raise
                if not tries_left:
                    raise _make_unclear_error(path, error) from error
            time.sleep(wait)
            wait *= 2
        self.newest = snapshot
        newest.remember_snapshot(self._metadata, snapshot)
        owner.snapshot_committed(self._metadata.branch, snapshot)
        return True

    def _was_added(self, snapshot: Snapshot) -> bool:
        """Return whether an earlier try with an unclear outcome succeeded. Raises `UnclearOutcome` as `add`."""
        there = self._metadata.snapshot_or_none(snapshot.id)
        if there is None:
            latest = self._metadata.latest_snapshot()
            if latest is not None and latest.id > snapshot.id:
                where = f"{self._metadata.where}: snapshot {snapshot.id}"
                raise UnclearOutcome(f"{where} has expired; whether it was this commit is not known")
        return there is not None and is_same_commit(there, snapshot)

    def _is_own(self, path: str, data: bytes, snapshot: Snapshot) -> bool:
        """Return whether an earlier try with an unclear outcome created the existing file."""
        try:
            own = self._metadata.store.read(path) == data
        except FileMissing:
            return False
        except StorageError as error:
            raise _make_unclear_error(path, error) from error
        if own:
            self._metadata.store.sync([path])
            self.newest = snapshot
            self._metadata.owner.snapshot_committed(self._metadata.branch, snapshot)
        return own

    def hint(self, snapshot: Snapshot) -> None:
        """Write the LATEST hint. In a remote store the write runs in the background until `settle`.

        Without it readers list the folder, so a failure is ignored.
        If the snapshot was rolled back meanwhile, no hint is written, since Java trusts a hint to a missing snapshot.
        """
        if Owned.SNAPSHOTS in self._metadata.owner.owns:
            return
        self.settle()
        write = self._hint_and_look if not self._metadata.store.is_local else self._look_and_hint
        self._hinting = start_request(self._metadata.store, partial(write, snapshot))

    def settle(self) -> None:
        """Wait until the last hint is written."""
        hinting, self._hinting = self._hinting, None
        if hinting is not None:
            hinting()

    def _look_and_hint(self, snapshot: Snapshot) -> None:
        with suppress(StorageError):
            if self._exists(snapshot.id):
                self._write_hint(snapshot)

    def _hint_and_look(self, snapshot: Snapshot) -> None:
        """Write the hint and check the snapshot at the same time; remove the hint if the snapshot is gone."""
        with suppress(StorageError):
            is_there, _ = call_both(
                self._metadata.store, partial(self._exists, snapshot.id), partial(self._write_hint, snapshot)
            )
            if not is_there:
                self._metadata.store.discard([self._hint_path])

    def _write_hint(self, snapshot: Snapshot) -> None:
        write_hint(self._metadata.store, self._hint_path, str(snapshot.id).encode())

    @property
    def _hint_path(self) -> str:
        return f"{self._metadata.paths.snapshot_dir}/{LATEST}"


def _make_unclear_error(path: str, error: StorageError) -> UnclearOutcome:
    return UnclearOutcome(
        f"{path}: whether the snapshot was committed is not known ({error}); look for it, or repeat the commit with "
        "filter_and_commit and the same identifier"
    )


def compact_manifests(target: WriteTarget) -> Snapshot | None:
    """Merge the newest snapshot's small manifests and its manifests with DELETE entries, in a COMPACT snapshot.

    Returns: the snapshot, or None if no manifest is worth merging. Maintenance does not run.

    Raises:
        CommitConflict, UnclearOutcome: as `TableCommit.commit`. CorruptFile, FileMissing: a manifest cannot be read.
    """
    committer = Committer(_force_manifest_merges(target))
    if committer.log.latest() is None:
        return None
    request = SnapshotRequest(COMPACT, BATCH_COMMIT_IDENTIFIER, Changes(), check=False, only_manifests=True)
    try:
        return committer.create(request)
    except NothingMerged:
        return None
    finally:
        committer.log.settle()


def purge_manifests(target: WriteTarget) -> Snapshot:
    """Commit the newest rows in a COMPACT snapshot whose manifests name live files only, without statistics.

    Raises: as `compact_manifests`.
    """
    committer = Committer(_force_manifest_merges(target))
    request = SnapshotRequest(COMPACT, BATCH_COMMIT_IDENTIFIER, Changes(), check=False, drops_statistics=True)
    try:
        return committer.create(request)
    finally:
        committer.log.settle()


def _force_manifest_merges(target: WriteTarget) -> WriteTarget:
    """Return the table with thresholds at which all manifests that can be merged are merged."""
    return replace(target, write=replace(target.write, manifest_merge_count=1, manifest_full_compaction=1))
