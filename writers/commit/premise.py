"""Premise of a commit: the rows from which it was computed are unchanged.

An operation that reads rows and writes results computed from them (update, merge, delete by a condition) may follow the
snapshot that it has read. It may also follow a later one, if no snapshot in between changed the rows that it read. The
premise is checked against every snapshot between the two, on each try of the commit.

If buckets are assigned key by key, a writer knows the buckets of keys from the snapshot that it read. If another commit
added keys, moved them to another partition or overwrote them, a key could end up in two buckets. `Routes` checks this
at commit. A base snapshot may also expire while a writer reads it: its files were compacted or replaced, then removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl
from msgspec import structs

from morrow.engine.errors import CommitConflict, FileMissing, NotFound, SnapshotExpired
from morrow.engine.format.manifest_entries import ADD, DELETE, DELETION_VECTORS_INDEX
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import ANALYZE, APPEND, COMPACT, FIRST_SNAPSHOT_ID, OVERWRITE, Snapshot
from morrow.engine.plan.entries import mask_partitions
from morrow.engine.plan.filter import NO_FILTER, Filter
from morrow.engine.plan.manifests import is_living, list_delta_manifests, read_index_entries, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import make_plan
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import mask_by_bucket, mask_by_key, project_predicate
from morrow.engine.plan.scan_plan import ScanRequest, list_tracked_fields
from morrow.engine.structs import replace
from morrow.readers.execution import execute
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.target import WriteTarget

ADVICE = "nothing was changed: do it again"


@dataclass(frozen=True)
class Premise:
    """The condition that the rows matching `filter` have not changed since the snapshot `read` (None: no snapshot).

    `columns` are the columns that were read or are written, besides those of the filter; None: all. With data
    evolution, others may have written other columns of the rows.
    """

    read: Snapshot | None
    filter: Filter = NO_FILTER
    columns: frozenset[str] | None = None

    def check(self, target: WriteTarget, latest: Snapshot | None) -> None:
        """Raise `CommitConflict` unless the premise still holds on `latest`."""
        read, metadata = self.read, target.metadata
        if latest == read:
            return
        try:
            if latest is None or (read is not None and (latest.id < read.id or metadata.snapshot(read.id) != read)):
                raise CommitConflict(f"{target.where}: the table was rolled back while its rows were read; {ADVICE}")
            previous = read
            for snapshot_id in range(read.id + 1 if read else FIRST_SNAPSHOT_ID, latest.id + 1):
                snapshot = metadata.snapshot(snapshot_id)
                if self._is_broken_by(target, snapshot, previous):
                    raise CommitConflict(
                        f"{target.where}: snapshot {snapshot_id} changed rows after they were read; {ADVICE}"
                    )
                previous = snapshot
        except NotFound as error:
            raise CommitConflict(
                f"{target.where}: snapshots expired while rows were read ({error}); {ADVICE}"
            ) from error

    def _is_broken_by(self, target: WriteTarget, snapshot: Snapshot, previous: Snapshot | None) -> bool:
        if snapshot.commit_kind == ANALYZE:
            return False
        frames = read_manifest_entries(target.metadata, list_delta_manifests(target.metadata, snapshot))
        entries = self._may_match(target, pl.concat(frames)) if frames else None
        if target.keyed:
            return entries is not None and self._changes_keys(target, snapshot, entries).height > 0
        if snapshot.commit_kind == COMPACT:
            return False
        if self._changes_vectors(target, snapshot, previous):
            return True
        if entries is None or not entries.height:
            return False
        if (entries["_KIND"] == DELETE).any():
            return True
        if target.options.data_evolution:
            old = (entries["_FIRST_ROW_ID"] < ((previous.next_row_id if previous else None) or 0)).fill_null(False)
            if self._reads_columns(target, entries.filter(old)):
                return True
            entries = entries.filter(~old)
        return self._matches(target, snapshot, entries)

    def _reads_columns(self, target: WriteTarget, entries: pl.DataFrame) -> bool:
        """Return whether files of columns of older rows hold columns that were read or are written."""
        if not entries.height or self.columns is None:
            return entries.height > 0
        ids = {field.id for field in target.schema.fields if field.name in self.columns | self.filter.columns}
        for (schema_id,), group in entries.group_by(["_SCHEMA_ID"]):
            fields = target.metadata.schema(int(str(schema_id))).fields
            names = {field.name for field in fields if field.id in ids}
            written = group["_WRITE_COLS"]
            if written.null_count() or not names.isdisjoint(written.explode(empty_as_null=False)):
                return True
        return False

    def _may_match(self, target: WriteTarget, entries: pl.DataFrame) -> pl.DataFrame:
        """Return the entries of partitions in which the filter may be true."""
        keys = target.schema.partition_keys
        part = project_predicate(self.filter.predicate, frozenset(keys))
        if not keys or part == ALWAYS or not entries.height:
            return entries
        return entries.filter(mask_partitions(entries, target.schema, part, target.where))

    def _changes_keys(self, target: WriteTarget, snapshot: Snapshot, entries: pl.DataFrame) -> pl.DataFrame:
        """Return the entries that may change a read of these keys. A compaction makes hidden rows visible."""
        if snapshot.commit_kind == COMPACT:
            hidden = entries["_BUCKET"] == POSTPONE_BUCKET
            if target.hides_level_zero:
                hidden |= entries["_LEVEL"] == 0
            entries = entries.filter(hidden & (entries["_KIND"] == DELETE))
        keys = project_predicate(self.filter.predicate, frozenset(target.schema.primary_keys))
        if keys == ALWAYS or not entries.height:
            return entries
        waiting = entries["_BUCKET"] < 0  # postponed: their final buckets and statistics are unknown
        known = entries.filter(~waiting)
        if known.height:
            known = known.filter(mask_by_bucket(target.metadata, target.schema, target.options, keys, known))
        if known.height:
            known = known.filter(mask_by_key(target.metadata, target.schema, keys, known))
        return pl.concat([entries.filter(waiting), known])

    def _changes_vectors(self, target: WriteTarget, snapshot: Snapshot, previous: Snapshot | None) -> bool:
        """Return whether deletion vectors of these partitions were added or removed."""
        before = None if previous is None else previous.index_manifest
        if snapshot.index_manifest == before:
            return False
        found = [
            frame.filter(frame["_INDEX_TYPE"] == DELETION_VECTORS_INDEX).select("_PARTITION", "_FILE_NAME")
            for one in (previous, snapshot)
            if one is not None and (frame := read_index_entries(target.metadata, one)) is not None
        ]
        if not found:
            return False
        changed = pl.concat(found)
        return self._may_match(target, changed.filter(~changed["_FILE_NAME"].is_duplicated())).height > 0

    def _matches(self, target: WriteTarget, snapshot: Snapshot, entries: pl.DataFrame) -> bool:
        """Return whether the filter is true for any appended row."""
        names = set(entries["_FILE_NAME"].filter(entries["_KIND"] == ADD))
        plan = make_plan(target.metadata, make_request(target, snapshot, (), self.filter))
        sections = (
            structs.replace(section, files=tuple(f for f in section.files if f.path.rpartition("/")[2] in names))
            for section in plan.sections
        )
        new = replace(plan, sections=tuple(section for section in sections if section.files), root="")
        return bool(new.sections) and execute.count(new, target.store) > 0


def make_request(target: WriteTarget, snapshot: Snapshot | None, columns: Sequence[str], filter: Filter) -> ScanRequest:
    """Return the request of these rows for an operation; columns and filter may name those of row tracking.

    Time travel options and the fallback branch are ignored: operations change the newest snapshot of this branch.
    """
    extra = list_tracked_fields(target.schema, target.options)
    return ScanRequest(target.schema, target.options, snapshot, tuple(columns), filter, extra=extra)


NO_VERSION = ""
"""The version string of a table without snapshots."""
ONE_BY_ONE = -1
"""Value of the option ``bucket`` of keyed tables that assign buckets key by key."""


class Misplaced(CommitConflict):
    """Error for rows assigned to buckets by an outdated key index. Their files still exist."""


def identify_version(snapshot: Snapshot | None) -> str:
    """Return an identity of a snapshot that differs even from a rolled back snapshot with the same id."""
    return NO_VERSION if snapshot is None else snapshot.delta_manifest_list


class Routes:
    """Snapshots that one committer has checked since rows were assigned to buckets."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target
        self._changing: tuple[str, ...] = ()
        if target.keyed and target.options.bucket == ONE_BY_ONE:
            # Within a partition, conflict checks of index files find keys that others add.
            self._changing = (OVERWRITE, APPEND) if target.schema.cross_partition else (OVERWRITE,)
        self._seen: dict[str, Snapshot] = {}

    def check(self, messages: Sequence[CommitMessage], latest: Snapshot | None) -> None:
        """Raise `Misplaced` if another commit may have changed the buckets or partitions of keys."""
        if not self._changing:
            return
        for version in {message.routed_on for message in messages if message.routed_on is not None}:
            if latest is None:
                if version != NO_VERSION:
                    raise self._conflict("was rolled back")
                continue
            for snapshot in self._since(version, latest):
                if snapshot.commit_kind in self._changing and snapshot.commit_user != self._target.commit_user:
                    raise self._conflict(f"was changed by snapshot {snapshot.id}")
            self._seen[version] = latest

    def _since(self, version: str, latest: Snapshot) -> Iterator[Snapshot]:
        """Yield the snapshots since this version that are not checked yet, the newest first."""
        seen = self._seen.get(version)
        known = {version} if seen is None else {version, identify_version(seen)}
        snapshot, metadata = latest, self._target.metadata
        while identify_version(snapshot) not in known:
            yield snapshot
            try:
                if snapshot.id == 1 and version == NO_VERSION:
                    return
                snapshot = metadata.snapshot(snapshot.id - 1)
            except NotFound as error:
                raise self._conflict(f"was rolled back, or its snapshots expired ({error}),") from error

    def _conflict(self, what: str) -> Misplaced:
        return Misplaced(
            f"{self._target.where}: the table {what} after rows were given their buckets; nothing was committed: write "
            "them again"
        )


def is_living_version(metadata: TableMetadata, snapshot_id: int, version: str) -> bool:
    """Return whether the snapshot with this id and version (see `identify_version`) exists and is not expiring."""
    earliest = metadata.earliest_snapshot_id()
    there = metadata.snapshot_or_none(snapshot_id)
    return there is not None and identify_version(there) == version and earliest is not None and earliest <= snapshot_id


@contextmanager
def guard_compaction(metadata: TableMetadata, base: Snapshot | None) -> Iterator[None]:
    """Turn a file missing from `base` into a conflict, for a block that compacts the files of `base`.

    Raises `CommitConflict`: a file is missing because the snapshot has expired.
    """
    with _guard_base(metadata, base, "compacted: others have compacted its files; nothing was changed, compact again"):
        yield


@contextmanager
def guard_read(metadata: TableMetadata, base: Snapshot | None) -> Iterator[None]:
    """Turn a file missing from `base` into a conflict, for a block that reads rows of `base` and commits nothing.

    A block that commits as well might have committed before the error, and must not be repeated.

    Raises `CommitConflict`: a file is missing because the snapshot has expired.
    """
    with _guard_base(metadata, base, "read: others have changed the table; nothing was changed, do it again"):
        yield


@contextmanager
def _guard_base(metadata: TableMetadata, base: Snapshot | None, what: str) -> Iterator[None]:
    try:
        yield
    except (FileMissing, SnapshotExpired) as error:
        if base is None or is_living(metadata, base):
            raise
        raise CommitConflict(f"{metadata.where}: snapshot {base.id} expired while it was {what}") from error
