"""Maintenance by writers after commits, as in Java: tags, expiry of partitions, consumers, snapshots and changelogs,
and marks of partitions that are done.

It runs in the thread of the commit, whatever ``snapshot.expire.execution-mode`` says: it is complete when the commit
returns. The commit is durable by then, so failures are logged, and maintenance is tried again after the next one.
Inactive consumers expire, so that they no longer pin snapshots.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TypeAlias

from morrow.engine.errors import InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.format.paths import DATABASE_SUFFIX, unescape_path_name
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.store import start_request
from morrow.engine.options import Options
from morrow.engine.options.declarations import parse_names
from morrow.engine.options.declared.connectors import (
    PARTITION_END_INPUT_TO_DONE,
    PARTITION_MARK_DONE_ACTION,
    PARTITION_MARK_DONE_ACTION_HTTP_PARAMS,
    PARTITION_MARK_DONE_ACTION_HTTP_URL,
)
from morrow.engine.options.declared.maintenance import CONSUMER_EXPIRATION_TIME
from morrow.engine.options.retention import Retention, parse_expire_options
from morrow.engine.plan.changelogs import list_living_changelog_ids, read_changelog_or_none
from morrow.engine.plan.consumers import CONSUMER_PREFIX
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.redaction import get_logger, redact_text
from morrow.engine.structs import replace
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage, make_append_changes
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.history.automatic_tags import find_tag_actions as tags_after_commit
from morrow.writers.history.automatic_tags import needs_empty_snapshot
from morrow.writers.history.iceberg_metadata import publish_quietly
from morrow.writers.history.partition_expiry import PartitionExpiry
from morrow.writers.history.tags import SUCCESS_SUFFIX as SUCCESS_FILE
from morrow.writers.history.tags import write_success_at
from morrow.writers.target import WriteTarget

AfterCommit: TypeAlias = Callable[[Snapshot], None]
Action: TypeAlias = Callable[[Snapshot], object]

log = get_logger(__name__)


def commit_with_maintenance(target: WriteTarget) -> TableCommit:
    """Return a `TableCommit` that runs the maintenance that the table's options ask for."""
    return TableCommit(target, AutomaticMaintenance(target))


def commit_compaction(target: WriteTarget) -> TableCommit:
    """Return a `TableCommit` for a compaction that was asked for.

    It also runs the maintenance of a ``write-only`` table, as Java's dedicated compaction jobs do.
    """
    return commit_with_maintenance(replace(target, write=replace(target.write, write_only=False)))


class AutomaticMaintenance:
    """Maintenance that the options of a table ask for around commits, which keeps state between commits."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target

    @cached_property
    def actions(self) -> list[AfterCommit]:
        """The actions to call after each commit."""
        return find_maintenance_actions(self._target)

    def wants_snapshot(self) -> bool:
        """Return whether a tag is due that needs its own snapshot."""
        try:
            return needs_empty_snapshot(self._target)
        except MorrowError as error:
            log.warning("%s: whether a tag is due is not known: %s", self._target.where, error)
            return False

    def before_commit(self, newest: Snapshot | None) -> None:
        """Prefetch from a remote store what the actions will read."""
        if newest is None or self._target.store.is_local:
            return
        for action in self.actions:
            if isinstance(action, _Quiet) and isinstance(action.action, _Expiry):
                action.action.begin(newest)

    def after_commit(self, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> None:
        """Publish Iceberg metadata (``write-only`` or not), run the actions in their order, then mark the partitions
        that a batch has written (``write-only`` or not).
        """
        if self._target.write.publishes_iceberg:
            publish_quietly(self._target.metadata)
        for action in self.actions:
            action(snapshot)
        if snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER:
            _Quiet(self._target.where, lambda _: mark_written(self._target, messages))(snapshot)


def find_maintenance_actions(target: WriteTarget) -> list[AfterCommit]:
    """Return the actions to call with the last snapshot of each commit, in order; empty for ``write-only`` tables.

    The actions log a `MorrowError` as a warning instead of raising it.
    """
    if target.write.write_only:
        return []
    return [_Quiet(target.where, action) for find in _ACTIONS for action in _find_actions(find, target)]


def _find_actions(find: Callable[[WriteTarget], Iterable[Action]], target: WriteTarget) -> list[Action]:
    """Return the actions of one kind of maintenance; wrong options of this kind do not stop the other kinds."""
    try:
        return list(find(target))
    except MorrowError as error:
        log.warning("%s: a part of the maintenance after commits is left out: %s", target.where, error)
        return []


def _find_partition_actions(target: WriteTarget) -> Iterator[Action]:
    expiry = PartitionExpiry.of(target)
    if expiry is not None:
        yield _Partitions(expiry).run


def _find_consumer_actions(target: WriteTarget) -> Iterator[Action]:
    if parse_consumer_expiration(target.schema.options, where=target.where) is not None:
        yield lambda _: expire_consumers(target.metadata)


def _find_snapshot_actions(target: WriteTarget) -> Iterator[Action]:
    options = parse_expire_options(target.schema.options, where=target.where)
    yield _Expiry(options.snapshots, _Snapshots(target.metadata, options.limit))
    if options.decoupled:
        yield _Expiry(options.changelogs, _Changelogs(target.metadata, options.limit))


_ACTIONS: tuple[Callable[[WriteTarget], Iterable[Action]], ...] = (
    tags_after_commit,
    _find_partition_actions,
    _find_consumer_actions,
    _find_snapshot_actions,
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
        from morrow.writers.history.snapshot_expiry import expire_snapshots

        return expire_snapshots(self.metadata, max_deletes=self.limit)


@dataclass(frozen=True)
class _Changelogs:
    metadata: TableMetadata
    limit: int

    def earliest(self) -> Snapshot | None:
        ids = list_living_changelog_ids(self.metadata)
        return read_changelog_or_none(self.metadata, ids[0]) if ids else None

    def expire(self) -> int:
        from morrow.writers.history.snapshot_expiry import expire_changelogs

        return expire_changelogs(self.metadata, max_deletes=self.limit)


class _Expiry:
    """Expiry that runs when the earliest known root is due. Other processes only remove roots, so no due root is
    missed.

    While it is not due, a commit costs nothing here.
    """

    def __init__(self, retention: Retention, roots: _Snapshots | _Changelogs) -> None:
        self._retention, self._roots = retention, roots
        self._earliest: Snapshot | None = None
        self._looking: Callable[[], Snapshot | None] | None = None

    def begin(self, newest: Snapshot) -> None:
        """Look up the earliest root at the same time as the other requests of a commit to a remote store."""
        if self._earliest is None and self._looking is None and self._may_be_due(newest.id + 1):
            self._looking = start_request(self._roots.metadata.store, self._roots.earliest)

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
        """Return whether there may be more snapshots than the minimum that is kept: their ids begin at 1."""
        return newest_id > min(self._retention.least, self._retention.most)

    def _is_due(self, earliest: Snapshot, newest: Snapshot) -> bool:
        from morrow.writers.history.snapshot_expiry import read_clock_millis

        count = newest.id - earliest.id + 1
        is_old = earliest.time_millis < read_clock_millis() - self._retention.millis
        return count > self._retention.most or (count > self._retention.least and is_old)


def mark_written(target: WriteTarget, messages: Sequence[CommitMessage]) -> None:
    """Mark the partitions of written rows as done, if ``partition.end-input-to-done`` is set.

    Compactions mark nothing. Actions that fail are logged, and the others run.
    """
    if not target.partition_fields or not target.write.given.get(PARTITION_END_INPUT_TO_DONE):
        return
    written = sorted({each.partition for each in messages if not make_append_changes([each]).is_empty})
    folders = [target.partition_folder(partition) for partition in written]
    for action in list_mark_actions(target) if folders else ():
        try:
            find_marking(target, action)(target, folders)
        except MorrowError as error:
            log.warning("%s: %s does not mark the partitions as done: %s", target.where, action, error)


Marking: TypeAlias = Callable[[WriteTarget, Sequence[str]], object]


def list_mark_actions(target: WriteTarget) -> list[str]:
    """Return the values of ``partition.mark-done-action``."""
    return list(dict.fromkeys(parse_names(target.write.given.get(PARTITION_MARK_DONE_ACTION))))


def find_marking(target: WriteTarget, action: str) -> Marking:
    """Return the function of an action. Raises `Unsupported` for others."""
    if action not in MARKINGS:
        known = ", ".join(MARKINGS)
        what = f"{PARTITION_MARK_DONE_ACTION.key!r} = {action!r}"
        raise Unsupported(what, where=target.where, hint=f"Morrow has {known}; its other actions are classes of Java")
    return MARKINGS[action]


def mark_done(target: WriteTarget, folders: Sequence[str]) -> list[str]:
    """Mark partitions as done by all actions of the table; return the paths of the files ``_SUCCESS``.

    Args:
        target: the table.
        folders: the folders of the partitions, relative to the table.

    Raises:
        Unsupported: an action that is not possible; nothing was done. InvalidArgument: an action lacks an option.
        StorageError: a store, catalog or server refuses. CorruptFile: a file ``_SUCCESS`` is there and damaged.
    """
    actions = list_mark_actions(target)
    for marking in [find_marking(target, action) for action in actions]:
        marking(target, folders)
    return _list_success_files(target, folders) if SUCCESS_ACTION in actions else []


def _list_success_files(target: WriteTarget, folders: Iterable[str]) -> list[str]:
    return [f"{target.metadata.root}/{folder}/{SUCCESS_FILE}" for folder in folders]


def _write_success_files(target: WriteTarget, folders: Sequence[str]) -> None:
    from morrow.writers.history.snapshot_expiry import read_clock_millis

    for path in _list_success_files(target, folders):
        write_success_at(target.metadata, path, read_clock_millis())


def _parse_values(folder: str) -> dict[str, str]:
    """Return the values in the name of a partition's folder."""
    pairs = (part.partition("=") for part in folder.split("/"))
    return {unescape_path_name(key): unescape_path_name(value) for key, _, value in pairs}


def _add_done_partitions(target: WriteTarget, folders: Sequence[str]) -> None:
    specs = [_parse_values(folder) for folder in folders]
    target.metadata.owner.add_partitions(
        [{**spec, list(spec)[-1]: f"{list(spec.values())[-1]}{DONE_SUFFIX}"} for spec in specs]
    )


def _report_event(target: WriteTarget, folders: Sequence[str]) -> None:
    target.metadata.owner.report_done([_parse_values(folder) for folder in folders])


def _report_by_http(target: WriteTarget, folders: Sequence[str]) -> None:
    """Report each partition to a server, in Paimon's form."""
    url = target.write.given.get(PARTITION_MARK_DONE_ACTION_HTTP_URL)
    if not url or not url.startswith(("http://", "https://")):
        key = PARTITION_MARK_DONE_ACTION_HTTP_URL.key
        raise InvalidArgument(f"{target.where}: the action 'http-report' needs an address of http, the option {key!r}")
    location = target.store.url(target.metadata.root)
    database, _, table = location.rpartition("/")
    name = f"{database.rpartition('/')[2].removesuffix(DATABASE_SUFFIX)}.{table}"
    params = target.write.given.get(PARTITION_MARK_DONE_ACTION_HTTP_PARAMS)
    for folder in folders:
        _post_report(url, {"params": params, "table": name, "path": location, "partition": folder})


def _post_report(url: str, body: Mapping[str, str | None]) -> None:
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    order = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST")
    try:
        with urlopen(order, timeout=REPORT_SECONDS) as answer:
            result = json.loads(answer.read(ANSWER_BYTES)).get("result")
    except (OSError, HTTPException, ValueError, AttributeError) as error:
        problem = getattr(error, "code", None) or type(getattr(error, "reason", error)).__name__
        raise StorageError(f"{redact_text(url)}: the report of a partition failed ({problem}); call again") from None
    if str(result).upper() != REPORTED:
        raise StorageError(f"{redact_text(url)}: the report of a partition: expected {REPORTED}, got {result!r}")


DONE_SUFFIX, REPORTED, SUCCESS_ACTION = ".done", "SUCCESS", "success-file"
REPORT_SECONDS, ANSWER_BYTES = 60, 1 << 20
MARKINGS: Mapping[str, Marking] = {
    SUCCESS_ACTION: _write_success_files,
    "done-partition": _add_done_partitions,
    "mark-event": _report_event,
    "http-report": _report_by_http,
}
"""The values of ``partition.mark-done-action`` that Morrow supports."""


def expire_consumers(metadata: TableMetadata, *, older_than_millis: int | None = None) -> list[str]:
    """Remove the consumers of a branch whose file was last written before a moment.

    Args:
        older_than_millis: the moment in epoch milliseconds; None: now minus ``consumer.expiration-time`` of the newest
            schema, or nothing is removed if the option is not set.

    Returns: the names of the removed consumers, sorted.

    Raises `InvalidArgument`: the option does not parse. `StorageError`: a file could not be removed; all others were.
    """
    moment = older_than_millis
    if moment is None:
        kept = parse_consumer_expiration(metadata.newest_options(), where=metadata.where)
        if kept is None:
            return []
        moment = time.time_ns() // 1_000_000 - kept // timedelta(milliseconds=1)
    folder = f"{metadata.paths.branch_root}/consumer"
    old = [
        status.name
        for status in metadata.store.list(folder)
        if status.name.startswith(CONSUMER_PREFIX) and not status.is_dir and status.modified_millis < moment
    ]
    if old:
        metadata.store.delete_many([f"{folder}/{name}" for name in old])
    return sorted(name.removeprefix(CONSUMER_PREFIX) for name in old)


def parse_consumer_expiration(raw: Mapping[str, str], *, where: str) -> timedelta | None:
    """Return how long a consumer may be inactive; None: forever. Raises `InvalidArgument` if the option is invalid."""
    return Options(raw, where).get(CONSUMER_EXPIRATION_TIME)
