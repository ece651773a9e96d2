"""Maintenance of a table: expiry, rollback, removal of unreferenced files, repair and examinations.

Base classes of `morrow.tables.table.Table`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import AsOf, Time, parse_travel
from morrow.engine.progress import track_calls
from morrow.scans.arguments import Age, to_epoch_millis

if TYPE_CHECKING:
    from morrow.doctor.inspection import Inspection
    from morrow.doctor.report import Report
    from morrow.engine.format.snapshot import Tag
    from morrow.engine.plan.filter import FilterLike
    from morrow.tables.history import Retained
    from morrow.writers.history.hints import RepairedHint
    from morrow.writers.history.orphan_files import OrphanFiles, Purged
    from morrow.writers.history.partition_expiry import ExpiredPartitions
    from morrow.writers.history.snapshot_expiry import Expired


class Expiring:
    """The methods of `Table` that remove old states. What a tag, branch or consumer needs stays."""

    _metadata: TableMetadata

    # Expiry

    @track_calls("expiring")
    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Age | None = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
    ) -> Expired:
        """Expire old snapshots, and remove the files that only they need. Tags, branches and consumers keep theirs.

        Args:
            retain_max: snapshots to keep at most; older ones go whatever their age (``snapshot.num-retained.max``).
            retain_min: snapshots to keep at least, whatever their age (``snapshot.num-retained.min``).
            older_than: snapshots before this moment, or of this age, go (``snapshot.time-retained``): a time, a
                timedelta, or text such as ``7 days``.
            max_deletes: snapshots to remove at most; None: all that are due. The option ``snapshot.expire.limit``
                limits writers only.
            dry_run: remove nothing.

            Retention not given defaults to the table's options; Paimon's defaults are 10 at least, and one hour.

        Returns: the number of snapshots removed (with `dry_run`: that would be). Its attribute `left` is the number
            of remaining snapshots, `kept_by` the reason why the oldest of them stays.

        Raises:
            InvalidArgument: contradictory numbers.
            StorageError: a file could not be deleted; call again.
        """
        from morrow.writers.history.snapshot_expiry import expire_snapshots

        if not isinstance(dry_run, bool):
            raise InvalidArgument(f"dry_run is True or False, not {dry_run!r}; nothing was removed")
        check_counts(retain_max=retain_max, retain_min=retain_min, max_deletes=max_deletes)
        return expire_snapshots(
            self._metadata,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_millis=to_epoch_millis(older_than),
            max_deletes=max_deletes,
            dry_run=dry_run,
        )

    @track_calls("expiring")
    def expire_changelogs(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Age | None = None,
        max_deletes: int | None = None,
    ) -> Expired:
        """Expire old changelogs of tables that keep them longer than snapshots (``changelog.num-retained.*`` and
        ``changelog.time-retained``). Arguments, result and errors as in `expire_snapshots`.
        """
        from morrow.writers.history.snapshot_expiry import expire_changelogs

        check_counts(retain_max=retain_max, retain_min=retain_min, max_deletes=max_deletes)
        return expire_changelogs(
            self._metadata,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_millis=to_epoch_millis(older_than),
            max_deletes=max_deletes,
        )

    # Rollback

    @track_calls("rolling back")
    def rollback(
        self,
        to: AsOf | Snapshot | None = None,
        *,
        snapshot: int | Snapshot | None = None,
        tag: str | None = None,
        timestamp: Time | None = None,
    ) -> Snapshot:
        """Roll back to an earlier state. Removes later snapshots and tags, with the files that only they need.

        Args:
            to: a snapshot id, one of `Table.snapshots`, the name of a tag, or a time, as ``as_of`` in `Table.scan`.
            snapshot, tag, timestamp: the same, one meaning each.

        Returns: the newest snapshot now.

        Raises:
            InvalidArgument: none of the arguments was given, or more than one.
            SnapshotNotFound, SnapshotExpired, TagNotFound: no such state; nothing was removed.
        """
        from morrow.writers.history.rollback import rollback_table

        travel = parse_travel(as_of=_get_id(to), snapshot=_get_id(snapshot), tag=tag, timestamp=timestamp)
        if travel.is_latest:
            raise InvalidArgument("say what to roll back to: a snapshot id, the name of a tag, or a time")
        # An id may have been reused since the caller looked: only the very snapshot given is meant.
        given = [value for value in (to, snapshot) if isinstance(value, Snapshot)]
        return rollback_table(self._metadata, given[0] if given else travel)

    # Partitions

    @track_calls("expiring")
    def expire_partitions(
        self,
        expiration_time: dt.timedelta | str | None = None,
        *,
        strategy: str | None = None,
        timestamp_formatter: str | None = None,
        timestamp_pattern: str | None = None,
        max_expires: int | None = None,
        now: dt.datetime | None = None,
    ) -> ExpiredPartitions:
        """Drop expired partitions. Arguments not given default to the table's options ``partition.*``.

        Args:
            expiration_time: the age, as a `timedelta` or in Paimon's form (``"7 d"``).
            strategy: ``values-time``: by the time in the partition's values; ``update-time``: by its last write.
            timestamp_formatter, timestamp_pattern: the format of times in values (``yyyyMMdd``, ``$dt $hour:00:00``).
            max_expires: partitions to drop at most; None: all that are due. The option
                ``partition.expiration-max-num`` limits writers only.
            now: the time at which ages are taken; without a zone on this machine's clock. None: the current time.

        Returns: the partitions dropped, as values by column: a list, whose attribute `left` is the number of remaining
            partitions, `kept_by` the reason why the first of them stays.

        Raises:
            InvalidArgument: no age is known, or the table has no partitions. CommitConflict: as `drop_partition`.
        """
        from morrow.writers.history.partition_expiry import expire_partitions

        return expire_partitions(
            self._metadata,
            expiration_time=expiration_time,
            strategy=strategy,
            timestamp_formatter=timestamp_formatter,
            timestamp_pattern=timestamp_pattern,
            max_expires=max_expires,
            now=now,
        )


def _get_id(value: Snapshot | Other) -> int | Other:
    return value.id if isinstance(value, Snapshot) else value


def check_counts(**counts: int | None) -> None:
    """Raise `InvalidArgument` for an argument that is no whole number."""
    for name, count in counts.items():
        if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
            raise InvalidArgument(f"{name} must be a whole number, not {count!r}")


Other = TypeVar("Other")


class Maintenance(Expiring):
    """The maintenance methods of `Table`. They never remove what a snapshot, tag, branch or consumer needs."""

    _metadata: TableMetadata

    def create_tag_from_timestamp(self, name: str, timestamp: Time, time_retained: Retained = None) -> Tag:
        """Tags the first snapshot committed at or after a time; see `Tags.create_from_timestamp`."""
        from morrow.tables.history import Tags

        return Tags(self._metadata).create_from_timestamp(name, timestamp, time_retained)

    @track_calls("looking for orphan files")
    def remove_orphan_files(self, older_than: Age | None = None, dry_run: bool = True) -> OrphanFiles:
        """Find and removes orphan files: files of killed writers that no snapshot, changelog, tag or branch names.

        Args:
            older_than: only files last changed before this moment, or of this age (default: one day), since a writer
                that has not committed yet has younger files. It must be longer than any write takes.
            dry_run: only list them.

        Raises:
            InvalidArgument: a moment that is not past.
            CorruptFile, FileMissing: metadata that cannot be read; nothing was removed.
        """
        from morrow.writers.history.orphan_files import remove_orphan_files

        if not isinstance(dry_run, bool):
            raise InvalidArgument(f"dry_run is True or False, not {dry_run!r}; nothing was removed")
        return remove_orphan_files(self._metadata, older_than_millis=to_epoch_millis(older_than), dry_run=dry_run)

    def remove_unexisting_files(self, dry_run: bool = True, *, parallelism: int | None = None) -> list[str]:
        """Remove the data files that do not exist any more from the newest state, in one commit.

        Reads of a table that has lost a file end with `FileMissing`. Afterwards they return the rows that are left; in
        a table with a primary key, older versions of keys may come back. Older snapshots stay as they are.

        Args:
            dry_run: only list them.
            parallelism: files looked for at once.

        Returns: the paths of the missing files, sorted.

        Raises:
            Unsupported: a table with data evolution. CommitConflict: others were faster each time.
        """
        from morrow.writers.operations.table_maintenance import remove_missing_files
        from morrow.writers.target import WriteTarget

        if not isinstance(dry_run, bool):
            raise InvalidArgument(f"dry_run is True or False, not {dry_run!r}; nothing was removed")
        check_counts(parallelism=parallelism)
        if parallelism is not None and parallelism < 1:
            raise InvalidArgument(f"parallelism is 1 or more, not {parallelism}; nothing was removed")
        return remove_missing_files(WriteTarget.of(self._metadata), dry_run=dry_run, parallelism=parallelism)

    def mark_partition_done(self, *partitions: Mapping[str, object]) -> list[str]:
        """Mark partitions as done, for other systems: writes a file ``_SUCCESS`` into the folder of each.

        t.mark_partition_done({"dt": "2024-05-14", "hh": 8}, {"dt": "2024-05-14", "hh": 9})

        Args:
            partitions: values of all partition columns, or of the first ones, whose folder is marked then. They need
                not have rows.

        Returns: the paths of the files. One that exists keeps its creation time.

        Raises:
            InvalidArgument: no partition, a column that is no partition column, or values that name no folder.
            Unsupported: the option ``partition.mark-done-action`` asks for something else.
        """
        from morrow.writers.operations.table_maintenance import mark_partitions_done
        from morrow.writers.target import WriteTarget

        return mark_partitions_done(WriteTarget.of(self._metadata), partitions)

    @track_calls("purging")
    def purge(self, older_than: Age | None = None) -> Purged:
        """Empty the table for good: removes rows, branches, tags, consumers, changelogs and old snapshots with their
        files.

        Schema and options stay, and so do unreferenced files younger than `older_than` (default: one day), since a
        writer may be about to commit them.

        Raises:
            InvalidArgument: the table is a branch. StorageError: a file could not be deleted; call again.
        """
        from morrow.writers.history.orphan_files import purge_table

        return purge_table(self._metadata, older_than_millis=to_epoch_millis(older_than))

    @track_calls("examining")
    def doctor(self, data: bool = False) -> Report:
        """Examine the table, and report what is wrong or dear, and what to do about it; changes nothing.

        Of all snapshots, tags and branches: schemas, manifests, and whether every file is there with its size. Of the
        newest snapshot: merge trees (files of one level do not overlap), deletion vectors. Further hints, options that
        contradict each other, orphan files, sorted runs, small files, dead rows, old snapshots.

        Args:
            data: read every data file of the newest snapshot, too: numbers of rows, statistics, the order and
                uniqueness of keys, checksums, as `Scan.verification` does.

        Returns: a report that prints as text and in notebooks; ``report.findings`` are values, ``report.healthy``
            tells whether there is no error and no warning.

        Raises:
            StorageError: the store does not answer.
        """
        from morrow.doctor.examination import examine

        if not isinstance(data, bool):
            raise InvalidArgument(f"data is True or False, not {data!r}")
        return examine(self._metadata, data=data)

    def inspect(self, where: FilterLike = None) -> Inspection:
        """Draws the table on one page of HTML: history, merge trees, partitions, costs, findings. Reads no row.

        Args:
            where: a condition whose pruning is drawn, in any form that `Table.scan` takes as its filter.

        Returns: an object that shows itself in notebooks; ``.save("report.html")`` writes the page.

        Raises:
            InvalidArgument, ColumnNotFound: a wrong condition.
        """
        from morrow.doctor.inspection import Inspection
        from morrow.scans.table_scan import make_scan

        make_scan(self._metadata, filter=where)
        return Inspection(self._metadata, where)

    def repair(self) -> list[RepairedHint]:
        """Rewrite the hints LATEST and EARLIEST where they are missing or wrong; return those changed.

        Morrow does not trust them, but Java Paimon fails on a LATEST that is too high.
        """
        from morrow.writers.history.hints import repair_hints

        return repair_hints(self._metadata)
