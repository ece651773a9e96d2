"""The premise of a commit: the rows that it was computed from are unchanged.

An operation that reads rows and writes results computed from them (update, merge, delete by a condition) is right on
the snapshot that it has read, and on a later one if no snapshot in between changed what the read sees. Its premise is
checked against every snapshot between the two, on each try of the commit.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from msgspec import structs

from morrow.engine.errors import CommitConflict, NotFound
from morrow.engine.format.manifest_columns import ADD, DELETE, DELETION_VECTORS_INDEX
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import ANALYZE, COMPACT, FIRST_SNAPSHOT_ID, Snapshot
from morrow.engine.plan.entries import partition_matches
from morrow.engine.plan.filter import NO_FILTER, Filter
from morrow.engine.plan.manifests import delta_manifests_of, index_entries, manifest_entries
from morrow.engine.plan.planner import make_plan
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import bucket_mask, key_mask, projected
from morrow.engine.plan.request import ScanRequest
from morrow.engine.values import replace
from morrow.readers.execution import execute
from morrow.writers.target import WriteTarget

ADVICE = "nothing was changed: do it again"


@dataclass(frozen=True)
class Premise:
    """The condition that the rows for which `filter` is true are those of the snapshot `read` (None: no snapshot)."""

    read: Snapshot | None
    filter: Filter = NO_FILTER

    def check(self, target: WriteTarget, latest: Snapshot | None) -> None:
        """Raises `CommitConflict` unless the premise still holds on `latest`."""
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
        frames = manifest_entries(target.metadata, delta_manifests_of(target.metadata, snapshot))
        entries = self._may_match(target, pl.concat(frames)) if frames else None
        if target.keyed:
            return entries is not None and self._changes_keys(target, snapshot, entries).height > 0
        if snapshot.commit_kind == COMPACT:
            return False
        if self._changes_vectors(target, snapshot, previous):
            return True
        if entries is None or not entries.height:
            return False
        return bool((entries["_KIND"] == DELETE).any()) or self._matches(target, snapshot, entries)

    def _may_match(self, target: WriteTarget, entries: pl.DataFrame) -> pl.DataFrame:
        """Returns the entries of partitions in which the filter may be true."""
        keys = target.schema.partition_keys
        part = projected(self.filter.predicate, frozenset(keys))
        if not keys or part == ALWAYS or not entries.height:
            return entries
        return entries.filter(partition_matches(entries, target.schema, part, target.where))

    def _changes_keys(self, target: WriteTarget, snapshot: Snapshot, entries: pl.DataFrame) -> pl.DataFrame:
        """Returns the entries that may change a read of these keys. A compaction makes hidden rows visible."""
        if snapshot.commit_kind == COMPACT:
            hidden = entries["_BUCKET"] == POSTPONE_BUCKET
            if target.hides_level_zero:
                hidden |= entries["_LEVEL"] == 0
            entries = entries.filter(hidden & (entries["_KIND"] == DELETE))
        keys = projected(self.filter.predicate, frozenset(target.schema.primary_keys))
        if keys == ALWAYS or not entries.height:
            return entries
        waiting = entries["_BUCKET"] < 0  # postponed: without the buckets and statistics of other files
        known = entries.filter(~waiting)
        if known.height:
            known = known.filter(bucket_mask(target.schema, target.options, keys, known))
        if known.height:
            known = known.filter(key_mask(target.metadata, target.schema, keys, known))
        return pl.concat([entries.filter(waiting), known])

    def _changes_vectors(self, target: WriteTarget, snapshot: Snapshot, previous: Snapshot | None) -> bool:
        """Returns whether deletion vectors of these partitions were added or removed."""
        before = None if previous is None else previous.index_manifest
        if snapshot.index_manifest == before:
            return False
        found = [
            frame.filter(frame["_INDEX_TYPE"] == DELETION_VECTORS_INDEX).select("_PARTITION", "_FILE_NAME")
            for one in (previous, snapshot)
            if one is not None and (frame := index_entries(target.metadata, one)) is not None
        ]
        if not found:
            return False
        changed = pl.concat(found)
        return self._may_match(target, changed.filter(~changed["_FILE_NAME"].is_duplicated())).height > 0

    def _matches(self, target: WriteTarget, snapshot: Snapshot, entries: pl.DataFrame) -> bool:
        """Returns whether the filter is true for any appended row."""
        names = set(entries["_FILE_NAME"].filter(entries["_KIND"] == ADD))
        plan = make_plan(target.metadata, ScanRequest(target.schema, target.options, snapshot, (), self.filter))
        sections = (
            structs.replace(section, files=tuple(f for f in section.files if f.path.rpartition("/")[2] in names))
            for section in plan.sections
        )
        new = replace(plan, sections=tuple(section for section in sections if section.files), root="")
        return bool(new.sections) and execute.count(new, target.store) > 0
