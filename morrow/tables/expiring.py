"""What gives up a table's past: expiry of snapshots, changelogs and partitions, and rollback."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, TypeVar

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import AsOf, Time, travel_of
from morrow.engine.progress import watched
from morrow.scans.travelling import Age, epoch_millis

if TYPE_CHECKING:
    from morrow.writers.history.expiry.partitions import ExpiredPartitions
    from morrow.writers.history.expiry.snapshots import Expired

Other = TypeVar("Other")


class Expiring:
    """The methods of `Table` that remove old states. What a tag, branch or consumer needs stays."""

    _metadata: TableMetadata

    # Expiry

    @watched("expiring")
    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Age | None = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
    ) -> Expired:
        """Expires old snapshots, and removes the files that only they need. Tags, branches and consumers keep theirs.

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
        from morrow.writers.history.expiry.snapshots import expire_snapshots

        if not isinstance(dry_run, bool):
            raise InvalidArgument(f"dry_run is True or False, not {dry_run!r}; nothing was removed")
        check_counts(retain_max=retain_max, retain_min=retain_min, max_deletes=max_deletes)
        return expire_snapshots(
            self._metadata,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_millis=epoch_millis(older_than),
            max_deletes=max_deletes,
            dry_run=dry_run,
        )

    @watched("expiring")
    def expire_changelogs(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Age | None = None,
        max_deletes: int | None = None,
    ) -> Expired:
        """Expires old changelogs of tables that keep them longer than snapshots (``changelog.num-retained.*`` and
        ``changelog.time-retained``). Arguments, result and errors as in `expire_snapshots`.
        """
        from morrow.writers.history.expiry.changelogs import expire_changelogs

        check_counts(retain_max=retain_max, retain_min=retain_min, max_deletes=max_deletes)
        return expire_changelogs(
            self._metadata,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_millis=epoch_millis(older_than),
            max_deletes=max_deletes,
        )

    # Rollback

    @watched("rolling back")
    def rollback(
        self,
        to: AsOf | Snapshot | None = None,
        *,
        snapshot: int | Snapshot | None = None,
        tag: str | None = None,
        timestamp: Time | None = None,
    ) -> Snapshot:
        """Rolls back to an earlier state. Removes later snapshots and tags, with the files that only they need.

        Args:
            to: a snapshot id, one of `Table.snapshots`, the name of a tag, or a time, as ``as_of`` in `Table.scan`.
            snapshot, tag, timestamp: the same, one meaning each.

        Returns: the newest snapshot now.

        Raises:
            InvalidArgument: none of the arguments was given, or more than one.
            SnapshotNotFound, SnapshotExpired, TagNotFound: no such state; nothing was removed.
        """
        from morrow.writers.history.rollback.rollback import rollback

        travel = travel_of(as_of=_id(to), snapshot=_id(snapshot), tag=tag, timestamp=timestamp)
        if travel.is_latest:
            raise InvalidArgument("say what to roll back to: a snapshot id, the name of a tag, or a time")
        # An id may have been reused since the caller looked: only the very snapshot given is meant.
        given = [value for value in (to, snapshot) if isinstance(value, Snapshot)]
        return rollback(self._metadata, given[0] if given else travel)

    # Partitions

    @watched("expiring")
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
        """Drops expired partitions. Arguments not given default to the table's options ``partition.*``.

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
        from morrow.writers.history.expiry.partitions import expire_partitions

        return expire_partitions(
            self._metadata,
            expiration_time=expiration_time,
            strategy=strategy,
            timestamp_formatter=timestamp_formatter,
            timestamp_pattern=timestamp_pattern,
            max_expires=max_expires,
            now=now,
        )


def _id(value: Snapshot | Other) -> int | Other:
    return value.id if isinstance(value, Snapshot) else value


def check_counts(**counts: int | None) -> None:
    """Raises `InvalidArgument` for an argument that is no whole number."""
    for name, count in counts.items():
        if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
            raise InvalidArgument(f"{name} must be a whole number, not {count!r}")
