"""One snapshot: prepared on top of the newest one and created, and all of it again when others were faster."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import polars as pl

from morrow.engine.errors import CommitConflict, FileMissing, MorrowError, UnclearOutcome
from morrow.engine.format.entry_frames import entries_frame, index_frame
from morrow.engine.format.json_file import parse_object
from morrow.engine.format.manifest import ADD
from morrow.engine.format.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from morrow.engine.plan.entries import index_entries, manifests_of
from morrow.writers.commit.base_entries import SIMPLE_COLUMNS, BaseEntries
from morrow.writers.commit.changes import Changes
from morrow.writers.commit.conflicts import check_conflicts
from morrow.writers.commit.index_files import combined
from morrow.writers.commit.manifests import ManifestWriter
from morrow.writers.commit.merging import merged
from morrow.writers.commit.row_tracking import assigned
from morrow.writers.commit.snapshots import SnapshotLog
from morrow.writers.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.target import WriteTarget

RETRY_JITTER = 0.2


@dataclass(frozen=True)
class SnapshotRequest:
    """A snapshot to be: its changes, as a function of the newest snapshot (overwriting depends on what is there).

    `check`: whether to look for conflicts with what others committed.
    """

    kind: str
    identifier: int
    changes: Callable[[Snapshot | None], Changes]
    check: bool
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


class Committer:
    """Creates snapshots of one table, one after the other; what it knows of the table is kept between them."""

    def __init__(self, target: WriteTarget) -> None:
        self.target = target
        self.log = SnapshotLog(target.metadata)
        self._manifests = ManifestWriter(target)
        self._base = BaseEntries(target.metadata, target.schema)

    def create(self, request: SnapshotRequest) -> Snapshot:
        """Create the snapshot, with as many tries as ``commit.max-retries`` and ``commit.timeout`` allow.

        Raises:
            CommitConflict: it cannot follow what is there, or others were faster each time; nothing of it stays.
            UnclearOutcome: the store does not tell whether it is there; its manifests stay.
        """
        write = self.target.write
        deadline = None if write.commit_timeout is None else time.monotonic() + write.commit_timeout.total_seconds()
        before: Snapshot | None = None
        for retry in range(write.commit_retries + 1):
            latest = self.log.latest()
            if retry and latest is not None and (done := self._done_by_other(request, before, latest)) is not None:
                return done
            before = latest
            created = self._try(request, latest)
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

    def _done_by_other(self, request: SnapshotRequest, before: Snapshot | None, latest: Snapshot) -> Snapshot | None:
        """The snapshot of the same user, identifier and kind: the same commit, repeated by another process."""
        if request.identifier == BATCH_COMMIT_IDENTIFIER:  # no identity: every batch commit has it
            return None
        own = (self.target.commit_user, request.identifier, request.kind)
        for snapshot in self.log.between(before, latest):
            if (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) == own:
                return snapshot
        return None

    def _try(self, request: SnapshotRequest, latest: Snapshot | None) -> Snapshot | None:
        """One attempt on top of `latest`; None when another committer took the id."""
        written: list[str] = []
        try:
            snapshot, delta = self._prepared(request, latest, written)
        except BaseException:
            self._manifests.discard(written)
            raise
        # From here on nothing is removed unless it is known that the snapshot is not there.
        try:
            added = self.log.add(snapshot)
        except UnclearOutcome:
            raise
        except MorrowError:
            self._manifests.discard(written)
            raise
        if not added:
            self._manifests.discard(written)
            return None
        self._base.committed(snapshot, latest, delta)
        self.log.hint(snapshot)
        return snapshot

    def _prepared(
        self, request: SnapshotRequest, latest: Snapshot | None, written: list[str]
    ) -> tuple[Snapshot, pl.DataFrame]:
        """The snapshot with all its manifests written, and its delta entries."""
        changes = request.changes(latest)
        snapshot_id = latest.id + 1 if latest else FIRST_SNAPSHOT_ID
        next_row_id = (latest.next_row_id if latest else None) or 0
        delta = entries_frame(changes.files)
        if latest is not None and request.check:
            self._check(request, changes, latest, delta)
        if self.target.options.row_tracking:
            files, next_row_id = assigned(changes.files, snapshot_id, next_row_id)
            delta = entries_frame(files)
        write_list = partial(self._manifests.manifest_list, written=written)
        previous = manifests_of(self.target.metadata, latest) if latest else self._manifests.entries(delta[:0], written)
        base_list, base_size = write_list(merged(self.target, self._manifests, previous, written))
        delta_list, delta_size = write_list(self._manifests.entries(delta, written))
        changelog_list, changelog_size = (
            write_list(self._manifests.entries(entries_frame(changes.changelog), written))
            if changes.changelog
            else (None, None)
        )
        rows = _rows(delta)
        schema_id = self.target.metadata.schema_ids()[-1]
        snapshot = Snapshot(
            id=snapshot_id,
            schema_id=schema_id,
            base_manifest_list=base_list,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_list,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=changelog_list,
            changelog_manifest_list_size=changelog_size,
            index_manifest=self._index_manifest(changes, latest, written),
            commit_user=self.target.commit_user,
            commit_identifier=request.identifier,
            commit_kind=request.kind,
            time_millis=time.time_ns() // 1_000_000,
            total_record_count=((latest.total_record_count if latest else None) or 0) + rows,
            delta_record_count=rows,
            changelog_record_count=sum(e.file.row_count for e in changes.changelog) if changes.changelog else None,
            watermark=_later(request.watermark, latest.watermark if latest else None),
            statistics=self._statistics(latest, schema_id),
            properties=dict(request.properties),
            next_row_id=next_row_id,
        )
        return snapshot, delta

    def _check(self, request: SnapshotRequest, changes: Changes, latest: Snapshot, delta: pl.DataFrame) -> None:
        watched = self._unaware and self.target.options.deletion_vectors
        check_conflicts(
            self.target,
            self._base.at(latest, changes.partitions),
            delta.select(SIMPLE_COLUMNS),
            overwrite=request.kind == "OVERWRITE",
            base_index=index_entries(self.target.metadata, latest) if watched else None,
            delta_index=index_frame(changes.index) if watched else None,
        )

    def _index_manifest(self, changes: Changes, latest: Snapshot | None, written: list[str]) -> str | None:
        if not changes.index:
            return latest.index_manifest if latest else None
        previous = index_entries(self.target.metadata, latest) if latest else None
        return self._manifests.index_manifest(combined(previous, changes.index, unaware=self._unaware), written)

    @property
    def _unaware(self) -> bool:
        return not self.target.keyed and self.target.options.bucket == -1

    def _statistics(self, latest: Snapshot | None, schema_id: int) -> str | None:
        """Statistics hold until the schema changes."""
        if latest is None or latest.statistics is None:
            return None
        path = self.target.metadata.paths.statistics(latest.statistics)
        try:
            node = parse_object(self.target.store.read(path), path)
        except FileMissing:
            return None
        return latest.statistics if node.get("schemaId") == schema_id else None


def _rows(entries: pl.DataFrame) -> int:
    added = entries["_KIND"] == ADD
    return int(entries["_ROW_COUNT"].filter(added).sum()) - int(entries["_ROW_COUNT"].filter(~added).sum())


def _later(one: int | None, other: int | None) -> int | None:
    known = [mark for mark in (one, other) if mark is not None]
    return max(known, default=None)
