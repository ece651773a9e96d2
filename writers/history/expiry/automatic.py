"""Maintenance by writers after commits, as in Java: tags, and expiry of partitions, consumers, snapshots, changelogs.

It runs in the thread of the commit, whatever ``snapshot.expire.execution-mode`` says: it is complete when the commit
returns. The commit is durable by then, so failures are logged, and maintenance is tried again after the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from morrow.engine.errors import MorrowError
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.ahead import ahead
from morrow.engine.options.expiring import Retention, parse_expire_options
from morrow.engine.plan.changelogs import changelog_or_none, living_changelog_ids
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.telling import logger
from morrow.writers.commit import TableCommit
from morrow.writers.history.expiry.changelogs import expire_changelogs
from morrow.writers.history.expiry.consumers import consumer_expiration_time, expire_consumers
from morrow.writers.history.expiry.partitions import PartitionExpiry
from morrow.writers.history.expiry.snapshots import expire_snapshots, now_millis
from morrow.writers.history.tags.automatic import after_commit as tags_after_commit
from morrow.writers.history.tags.automatic import forces_snapshot
from morrow.writers.target import WriteTarget

AfterCommit: TypeAlias = Callable[[Snapshot], None]
Action: TypeAlias = Callable[[Snapshot], object]

log = logger(__name__)


def maintained(target: WriteTarget) -> TableCommit:
    """Returns commits to a table with the maintenance that its options ask for."""
    return TableCommit(target, AutomaticMaintenance(target))


class AutomaticMaintenance:
    """The maintenance that the options of a table ask for around commits; it keeps state from commit to commit."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target

    @cached_property
    def actions(self) -> list[AfterCommit]:
        """The actions to call after each commit."""
        return after_commit(self._target)

    def wants_snapshot(self) -> bool:
        """Returns whether a tag is due that needs a snapshot of its own."""
        try:
            return forces_snapshot(self._target)
        except MorrowError as error:
            log.warning("%s: whether a tag is due is not known: %s", self._target.where, error)
            return False

    def before_commit(self, newest: Snapshot | None) -> None:
        """Begins to ask a store far away what the actions will need to know."""
        if newest is None or self._target.store.is_local:
            return
        for action in self.actions:
            if isinstance(action, _Quiet) and isinstance(action.action, _Expiry):
                action.action.begin(newest)

    def after_commit(self, snapshot: Snapshot) -> None:
        """Runs the actions in their order."""
        for action in self.actions:
            action(snapshot)


def after_commit(target: WriteTarget) -> list[AfterCommit]:
    """Returns the actions to call with the last snapshot of each commit, in order; none for ``write-only`` tables.

    None of them raises a `MorrowError`: it is logged as a warning.
    """
    if target.write.write_only:
        return []
    return [_Quiet(target.where, action) for find in _ACTIONS for action in _found(find, target)]


def _found(find: Callable[[WriteTarget], Iterable[Action]], target: WriteTarget) -> list[Action]:
    """Returns the actions of one kind of maintenance; a wrong option of it does not stop the other kinds."""
    try:
        return list(find(target))
    except MorrowError as error:
        log.warning("%s: a part of the maintenance after commits is left out: %s", target.where, error)
        return []


def _partitions(target: WriteTarget) -> Iterator[Action]:
    expiry = PartitionExpiry.of(target)
    if expiry is not None:
        yield _Partitions(expiry).run


def _consumers(target: WriteTarget) -> Iterator[Action]:
    if consumer_expiration_time(target.schema.options, where=target.where) is not None:
        yield lambda _: expire_consumers(target.metadata)


def _snapshots(target: WriteTarget) -> Iterator[Action]:
    options = parse_expire_options(target.schema.options, where=target.where)
    yield _Expiry(options.snapshots, _Snapshots(target.metadata, options.limit))
    if options.decoupled:
        yield _Expiry(options.changelogs, _Changelogs(target.metadata, options.limit))


_ACTIONS: tuple[Callable[[WriteTarget], Iterable[Action]], ...] = (
    tags_after_commit,
    _partitions,
    _consumers,
    _snapshots,
)
"""The kinds of maintenance, in the order in which they run."""


@dataclass(frozen=True)
class _Quiet:
    """An action that logs its errors."""

    where: str
    action: Action

    def __call__(self, snapshot: Snapshot) -> None:
        try:
            self.action(snapshot)
        except MorrowError as error:
            log.warning("%s: snapshot %d is committed; cleaning up after it failed: %s", self.where, snapshot.id, error)


@dataclass(frozen=True)
class _Partitions:
    expiry: PartitionExpiry

    def run(self, snapshot: Snapshot) -> None:
        if self.expiry.due(identifier=snapshot.commit_identifier):
            self.expiry.run()


@dataclass(frozen=True)
class _Snapshots:
    metadata: TableMetadata
    limit: int

    def earliest(self) -> Snapshot | None:
        earliest = self.metadata.earliest_snapshot_id()
        return None if earliest is None else self.metadata.snapshot_or_none(earliest)

    def expire(self) -> int:
        return expire_snapshots(self.metadata, max_deletes=self.limit)


@dataclass(frozen=True)
class _Changelogs:
    metadata: TableMetadata
    limit: int

    def earliest(self) -> Snapshot | None:
        ids = living_changelog_ids(self.metadata)
        return changelog_or_none(self.metadata, ids[0]) if ids else None

    def expire(self) -> int:
        return expire_changelogs(self.metadata, max_deletes=self.limit)


class _Expiry:
    """Expiry that runs when the earliest known root is due. Others can only have removed that one, so none is missed.

    While it is not due, a commit costs nothing here.
    """

    def __init__(self, retention: Retention, roots: _Snapshots | _Changelogs) -> None:
        self._retention, self._roots = retention, roots
        self._earliest: Snapshot | None = None
        self._looking: Callable[[], Snapshot | None] | None = None

    def begin(self, newest: Snapshot) -> None:
        """Looks for the earliest root, with what else a commit asks a store far away."""
        if self._earliest is None and self._looking is None and self._may_be_due(newest.id + 1):
            self._looking = ahead(self._roots.metadata.store, self._roots.earliest)

    def __call__(self, newest: Snapshot) -> None:
        looking, self._looking = self._looking or self._roots.earliest, None
        if not self._may_be_due(newest.id):
            return
        if self._earliest is None:
            self._earliest = looking()
        if self._earliest is not None and self._is_due(self._earliest, newest):
            self._roots.expire()
            self._earliest = None

    def _may_be_due(self, newest_id: int) -> bool:
        """Returns whether there may be more snapshots than are kept in any case: their ids begin at 1."""
        return newest_id > min(self._retention.least, self._retention.most)

    def _is_due(self, earliest: Snapshot, newest: Snapshot) -> bool:
        count = newest.id - earliest.id + 1
        is_old = earliest.time_millis < now_millis() - self._retention.millis
        return count > self._retention.most or (count > self._retention.least and is_old)
