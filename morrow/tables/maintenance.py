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
    from morrow.writers.operations.erasure import Erasure


class Expiring:
    """The methods of `Table` that remove old snapshots. Snapshots that a tag, branch or consumer needs stay."""

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
        """Expire old snapshots, and remove the files that only they need. Snapshots that tags, branches or consumers
        need stay.

        Args:
            retain_max: maximum number of snapshots to keep, regardless of age (``snapshot.num-retained.max``).
            retain_min: minimum number of snapshots to keep, regardless of age (``snapshot.num-retained.min``).
            older_than: expire snapshots before this time or of this age (``snapshot.time-retained``): a time, a
                timedelta, or text such as ``7 days``.
            max_deletes: maximum number of snapshots to remove; None: all expired ones. The option
                ``snapshot.expire.limit`` limits writers only.
            dry_run: remove nothing.

            Missing arguments default to the table's options. Paimon's defaults are at least 10 snapshots, and one hour.

        Returns: the number of snapshots removed (with `dry_run`: to remove). Its attribute `left` is the number of
            remaining snapshots, and `kept_by` the reason why the oldest of them stays.

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
        """Roll back to an earlier snapshot. Later snapshots and tags are removed, with the files that only they need.

        Args:
            to: a snapshot id, one of `Table.snapshots`, the name of a tag, or a time, as ``as_of`` in `Table.scan`.
            snapshot, tag, timestamp: the same, one meaning each.

        Returns: the snapshot that is now the newest.

        Raises:
            InvalidArgument: none of the arguments was given, or more than one.
            SnapshotNotFound, SnapshotExpired, TagNotFound: the snapshot or tag does not exist; nothing was removed.
        """
        from morrow.writers.history.rollback import rollback_table

        travel = parse_travel(as_of=_get_id(to), snapshot=_get_id(snapshot), tag=tag, timestamp=timestamp)
        if travel.is_latest:
            raise InvalidArgument("say what to roll back to: a snapshot id, the name of a tag, or a time")
        # An id may have been reused since the caller read it: roll back only to the identical snapshot.
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
            strategy: ``values-time``: the age counts from the time in the partition's values; ``update-time``: from its
                last write.
            timestamp_formatter, timestamp_pattern: the format of times in values (``yyyyMMdd``, ``$dt $hour:00:00``).
            max_expires: maximum number of partitions to drop; None: all expired ones. The option
                ``partition.expiration-max-num`` limits writers only.
            now: the time from which ages are measured, in the local zone if it has none. None: the current time.

        Returns: a list of the partitions dropped, as values by column. Its attribute `left` is the number of remaining
            partitions, and `kept_by` the reason why the first of them stays.

        Raises:
            InvalidArgument: the expiration time is not set, or the table is not partitioned. CommitConflict: as
                `drop_partition`.
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
    """Raise `InvalidArgument` for an argument that is not a whole number."""
    for name, count in counts.items():
        if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
            raise InvalidArgument(f"{name} must be a whole number, not {count!r}")


Other = TypeVar("Other")


class Maintenance(Expiring):
    """The maintenance methods of `Table`. They never remove what a snapshot, tag, branch or consumer needs."""

    _metadata: TableMetadata

    def create_tag_from_timestamp(self, name: str, timestamp: Time, time_retained: Retained = None) -> Tag:
        """Tag the first snapshot committed at or after a time; see `Tags.create_from_timestamp`."""
        from morrow.tables.history import Tags

        return Tags(self._metadata).create_from_timestamp(name, timestamp, time_retained)

    @track_calls("looking for orphan files")
    def remove_orphan_files(self, older_than: Age | None = None, dry_run: bool = True) -> OrphanFiles:
        """Find and remove orphan files: files of killed writers that are in no snapshot, changelog, tag or branch.

        Args:
            older_than: only files last changed before this time, or of this age (default: one day). The age must exceed
                the duration of any write, since running writers have uncommitted files.
            dry_run: only list them.

        Raises:
            InvalidArgument: a time in the future.
            CorruptFile, FileMissing: metadata that cannot be read; nothing was removed.
        """
        from morrow.writers.history.orphan_files import remove_orphan_files

        if not isinstance(dry_run, bool):
            raise InvalidArgument(f"dry_run is True or False, not {dry_run!r}; nothing was removed")
        return remove_orphan_files(self._metadata, older_than_millis=to_epoch_millis(older_than), dry_run=dry_run)

    def remove_unexisting_files(self, dry_run: bool = True, *, parallelism: int | None = None) -> list[str]:
        """Remove missing data files from the newest snapshot's metadata, in one commit.

        Reads of a table that has lost a file raise `FileMissing`. After this call they return the remaining rows. In a
        table with a primary key, older versions of keys may reappear. Older snapshots are not changed.

        Args:
            dry_run: only list them.
            parallelism: number of files checked concurrently.

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
        """Mark partitions as done for other systems: write a file ``_SUCCESS`` into the folder of each.

        t.mark_partition_done({"dt": "2024-05-14", "hh": 8}, {"dt": "2024-05-14", "hh": 9})

        Args:
            partitions: values of all partition columns, or of the first ones to mark their common folder. A partition
                may be empty.

        Returns: the paths of the files. An existing file keeps its creation time.

        Raises:
            InvalidArgument: no partition, a column that is not a partition column, or values without a folder.
            Unsupported: the option ``partition.mark-done-action`` has an action that is not supported.
        """
        from morrow.writers.operations.table_maintenance import mark_partitions_done
        from morrow.writers.target import WriteTarget

        return mark_partitions_done(WriteTarget.of(self._metadata), partitions)

    @track_calls("purging")
    def purge(self, older_than: Age | None = None) -> Purged:
        """Empty the table permanently: remove rows, branches, tags, consumers, changelogs and old snapshots with files.

        Schema and options stay, and so do unreferenced files younger than `older_than` (default: one day), since a
        writer may be about to commit them.

        Raises:
            InvalidArgument: the table is a branch. StorageError: a file could not be deleted; call again.
        """
        from morrow.writers.history.orphan_files import purge_table

        return purge_table(self._metadata, older_than_millis=to_epoch_millis(older_than))

    @track_calls("erasing")
    def erase(
        self,
        condition: FilterLike,
        *,
        history: bool = False,
        dry_run: bool = False,
        older_than: Age | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Erasure:
        """Erase rows from the files of the table, in all branches: ``t.erase("user_id = 7", history=True)``.

        Every data file with such a row is rewritten without it, also files in which the row is deleted or superseded.
        Works with all merge engines. Changelogs record no deletion: consumers erase the rows on their side. With data
        evolution, the rows beside them get new row ids, and global indexes of their partition are dropped.

        Args:
            condition: the rows, as the filter of `scan`; every stored version of a row is tested. Give the columns
                that identify a person, best of the primary key.
            history: also delete tags that hold such rows, expire snapshots that do with those before them, and remove
                all changelogs and the unreferenced files. False: only the newest snapshot of each branch is rewritten,
                and the receipt lists what still holds such rows. Snapshots that consumers need stay.
            dry_run: change nothing, and return what holds such rows.
            older_than: with `history`, remove unreferenced files last changed before this time or of this age
                (default: one day), as `remove_orphan_files`.
            properties: stored in the snapshots of the commits. Do not name the person there.

        Returns: a receipt that prints as text. Its attribute ``complete`` is true if all remaining files were read
            and none holds such rows; otherwise ``remaining`` lists what holds them, and why. Call again to continue.

        Raises:
            ColumnNotFound, InvalidArgument: a wrong condition, also if a branch lacks its columns.
            Unsupported: a table with Iceberg metadata, or with global indexes that may be stale; nothing was changed.
            CommitConflict: others were faster each time. StorageError: a file could not be removed. Call again.
        """
        from morrow.writers.operations.erasure import erase_rows

        for name, value in {"history": history, "dry_run": dry_run}.items():
            if not isinstance(value, bool):
                raise InvalidArgument(f"{name} is True or False, not {value!r}; nothing was erased")
        if older_than is not None and not history:
            raise InvalidArgument("older_than counts only with history=True; nothing was erased")
        return erase_rows(
            self._metadata,
            condition,
            history=history,
            dry_run=dry_run,
            older_than_millis=to_epoch_millis(older_than),
            properties=properties,
        )

    @track_calls("examining")
    def doctor(self, data: bool = False) -> Report:
        """Examine the table and report errors, expensive conditions and remedies. Changes nothing.

        Checks schemas, manifests, and the existence and size of every file in all snapshots, tags and branches. Checks
        merge trees (files of one level do not overlap) and deletion vectors in the newest snapshot. Also checks hints,
        contradictory options, orphan files, sorted runs, small files, dead rows and old snapshots.

        Args:
            data: also read every data file of the newest snapshot to check row counts, statistics, the order and
                uniqueness of keys, and checksums, as `Scan.verification` does.

        Returns: a report that prints as text and in notebooks. ``report.findings`` lists the findings;
            ``report.healthy`` is true without errors and warnings.

        Raises:
            StorageError: the store does not answer.
        """
        from morrow.doctor.examination import examine

        if not isinstance(data, bool):
            raise InvalidArgument(f"data is True or False, not {data!r}")
        return examine(self._metadata, data=data)

    def inspect(self, where: FilterLike = None) -> Inspection:
        """Draw the table on one HTML page: history, merge trees, partitions, costs, findings. Reads metadata only.

        Args:
            where: a condition whose pruning is drawn, in any form of the filter of `Table.scan`.

        Returns: an object that notebooks display; ``.save("report.html")`` writes the page.

        Raises:
            InvalidArgument, ColumnNotFound: a wrong condition.
        """
        from morrow.doctor.inspection import Inspection
        from morrow.scans.table_scan import make_scan

        make_scan(self._metadata, filter=where)
        return Inspection(self._metadata, where)

    def repair(self) -> list[RepairedHint]:
        """Rewrite the hints LATEST and EARLIEST if they are missing or wrong, and return the changed ones.

        Morrow does not trust hints, but Java Paimon fails on a LATEST that is too high.
        """
        from morrow.writers.history.hints import repair_hints

        return repair_hints(self._metadata)
