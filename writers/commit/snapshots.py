"""The snapshot files of a table as a log: reads the newest without listing the folder, and appends the next one.

A snapshot is committed when its file exists. The file is created only if none exists, so one of several committers gets
each id. Hints are written last and may be wrong: they only save a listing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from morrow.engine.errors import FileMissing, NotFound, StorageError, UnclearOutcome
from morrow.engine.format.paths import LATEST
from morrow.engine.format.snapshot import FIRST_SNAPSHOT_ID, Snapshot, snapshot_json
from morrow.engine.io.ahead import ahead, together
from morrow.engine.io.store import write_hint
from morrow.engine.plan import newest
from morrow.engine.plan.in_flight import is_same_commit
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned

UNCLEAR_TRIES = 5
UNCLEAR_WAIT_SECONDS = 0.1
"""Pause before a request to a store that gave no answer is repeated; doubled each time."""


class SnapshotLog:
    """The snapshots of one table, as one committer sees them."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self.newest: Snapshot | None = None
        """The newest snapshot that is known; others may have followed it."""
        self._hinting: Callable[[], None] | None = None

    def go_on_from(self, snapshot: Snapshot | None) -> None:
        """Has the search for the newest snapshot begin here, where none is known yet."""
        self.newest = self.newest or snapshot

    def known(self) -> Snapshot | None:
        """Returns the newest snapshot that is known, which others may have followed; asks for it the first time."""
        return self.newest or self.latest()

    def begin(self) -> tuple[Snapshot | None, Callable[[], Snapshot | None] | None]:
        """Returns the newest snapshot, and None; or the newest that is known, and what waits for `latest`.

        The latter in a store far away: what is written for a snapshot is written while the question is under way.
        """
        if self.newest is None or self._metadata.store.is_local or Owned.SNAPSHOTS in self._metadata.owner.owns:
            return self.latest(), None
        return self.newest, ahead(self._metadata.store, self.latest)

    def latest(self) -> Snapshot | None:
        """Returns the newest snapshot, None when there is none yet.

        The search goes up id by id from the newest known one: ids have no gaps above a snapshot that exists.
        """
        known = self.newest
        if Owned.SNAPSHOTS in self._metadata.owner.owns:
            self.newest = self._metadata.latest_snapshot()
            return self.newest
        if known is None:
            self.newest = self._metadata.latest_snapshot()
            return self.newest
        is_there, is_passed = together(
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
            # Where it has expired meanwhile, the committer was suspended for long.
            self.newest = self._metadata.snapshot_or_none(newest) or self._metadata.latest_snapshot()
        return self.newest

    def _exists(self, snapshot_id: int) -> bool:
        return self._metadata.store.exists(self._metadata.paths.snapshot(snapshot_id))

    def _still_there(self, snapshot: Snapshot) -> bool:
        """Returns whether the snapshot is unchanged: it may have expired, or have been rolled back."""
        try:
            return self._metadata.snapshot(snapshot.id) == snapshot
        except NotFound:
            return False

    def between(self, after: Snapshot | None, until: Snapshot) -> Iterator[Snapshot]:
        """Yields the snapshots after `after` up to `until`, without those that have expired."""
        for snapshot_id in range(after.id + 1 if after else FIRST_SNAPSHOT_ID, until.id):
            try:
                yield self._metadata.snapshot(snapshot_id)
            except NotFound:
                continue
        if after is None or until.id > after.id:
            yield until

    def latest_of(self, user: str) -> Snapshot | None:
        """Returns the newest snapshot of this commit user; None when there is none, or all have expired."""
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
        """Creates the snapshot file; returns False when another snapshot has this id. True means it is durable.

        Where the catalog owns snapshots, it commits: on top of the one that `latest` returned.

        Raises:
            UnclearOutcome: the store did not tell in any of the tries whether the file exists.
            StorageError: the file does not exist.
        """
        path = self._metadata.paths.snapshot(snapshot.id)
        data = snapshot_json(snapshot)
        base, owner = self.newest, self._metadata.owner
        owned = Owned.SNAPSHOTS in owner.owns
        wait, unclear = UNCLEAR_WAIT_SECONDS, False
        for tries_left in reversed(range(UNCLEAR_TRIES)):
            try:
                # The same bytes under the same name: whichever of several tries succeeds, the commit is the same.
                if owned:
                    if owner.commit_snapshot(self._metadata.branch, base, snapshot):
                        break
                    # An earlier try may have been the commit, which others have followed since.
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
                    raise _unclear(path, error) from error
            time.sleep(wait)
            wait *= 2
        self.newest = snapshot
        newest.remember(self._metadata, snapshot)
        owner.snapshot_committed(self._metadata.branch, snapshot)
        return True

    def _was_added(self, snapshot: Snapshot) -> bool:
        """Returns whether an earlier try with an unclear outcome is the commit. Raises `UnclearOutcome` as `add`."""
        there = self._metadata.snapshot_or_none(snapshot.id)
        if there is None:
            latest = self._metadata.latest_snapshot()
            if latest is not None and latest.id > snapshot.id:
                where = f"{self._metadata.where}: snapshot {snapshot.id}"
                raise UnclearOutcome(f"{where} has expired; whether it was this commit is not known")
        return there is not None and is_same_commit(there, snapshot)

    def _is_own(self, path: str, data: bytes, snapshot: Snapshot) -> bool:
        """Returns whether an earlier try with an unclear outcome created the existing file."""
        try:
            own = self._metadata.store.read(path) == data
        except FileMissing:
            return False
        except StorageError as error:
            raise _unclear(path, error) from error
        if own:
            self._metadata.store.sync([path])
            self.newest = snapshot
            self._metadata.owner.snapshot_committed(self._metadata.branch, snapshot)
        return own

    def hint(self, snapshot: Snapshot) -> None:
        """Writes the LATEST hint, in a store far away while `settle` has not been called.

        Without it readers list the folder, so a failure is ignored.
        A snapshot that was rolled back already gets no hint: Java trusts a hint to a missing snapshot.
        """
        if Owned.SNAPSHOTS in self._metadata.owner.owns:
            return
        self.settle()
        write = self._hint_and_look if not self._metadata.store.is_local else self._look_and_hint
        self._hinting = ahead(self._metadata.store, partial(write, snapshot))

    def settle(self) -> None:
        """Waits until the last hint is written."""
        hinting, self._hinting = self._hinting, None
        if hinting is not None:
            hinting()

    def _look_and_hint(self, snapshot: Snapshot) -> None:
        with suppress(StorageError):
            if self._exists(snapshot.id):
                self._write_hint(snapshot)

    def _hint_and_look(self, snapshot: Snapshot) -> None:
        """Writes the hint and looks at the same time; a hint that should not be there is removed."""
        with suppress(StorageError):
            is_there, _ = together(
                self._metadata.store, partial(self._exists, snapshot.id), partial(self._write_hint, snapshot)
            )
            if not is_there:
                self._metadata.store.discard([self._hint_path])

    def _write_hint(self, snapshot: Snapshot) -> None:
        write_hint(self._metadata.store, self._hint_path, str(snapshot.id).encode())

    @property
    def _hint_path(self) -> str:
        return f"{self._metadata.paths.snapshot_dir}/{LATEST}"


def _unclear(path: str, error: StorageError) -> UnclearOutcome:
    return UnclearOutcome(
        f"{path}: whether the snapshot was committed is not known ({error}); look for it, or repeat the commit with "
        "filter_and_commit and the same identifier"
    )
