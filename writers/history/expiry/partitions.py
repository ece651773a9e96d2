"""Drops expired partitions, by ``partition.expiration-time``.

By ``values-time`` a partition is as old as the time in its values, by ``update-time`` as its newest file; both are
compared with the local time of this machine, as in Java. An OVERWRITE snapshot drops them: older snapshots and tags
still have their rows, and expiry of snapshots removes the files later.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.binary_row import EPOCH, Value, decode_rows
from morrow.engine.format.manifest_columns import ADD
from morrow.engine.format.partition_path import partition_path, unescape_path_name
from morrow.engine.format.snapshot import OVERWRITE, Snapshot
from morrow.engine.options.declared import history
from morrow.engine.options.declaring import AnyOption
from morrow.engine.options.expiring import UNLIMITED
from morrow.engine.options.partition_expiry import PartitionExpiryOptions, parse_partition_expiry
from morrow.engine.options.words import ExpireStrategy
from morrow.engine.plan.manifests import manifest_entries, manifests_of
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.telling import logger
from morrow.engine.units import NANOS_PER_MICRO
from morrow.engine.values import replace
from morrow.engine.wording import duration_text
from morrow.writers.commit.attempt import Committer
from morrow.writers.commit.changes import Changes
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.commit.overwriting import overwritten
from morrow.writers.commit.preparing import SnapshotRequest
from morrow.writers.history.expiry.partition_times import partition_time
from morrow.writers.target import WriteTarget

MICROSECOND = dt.timedelta(microseconds=1)
NOTHING = Changes((), (), ())

log = logger(__name__)


@dataclass(frozen=True)
class Partition:
    """A partition that holds files: its BinaryRow, its values, and when its newest file was created (local time)."""

    stored: bytes
    values: tuple[Value, ...]
    updated: dt.datetime | None


class ExpiredPartitions(list[dict[str, Any]]):
    """The values of each dropped partition by column, how many partitions are left, and what keeps them."""

    left: int
    kept_by: str

    def __init__(self, dropped: Iterable[dict[str, Any]] = (), left: int = 0, kept_by: str = "") -> None:
        """Make the result of an expiry.

        Args:
            left: how many partitions there are now.
            kept_by: the reason why the first of them stays: an argument, an option, or its age.
        """
        super().__init__(dropped)
        self.left, self.kept_by = left, kept_by

    def __repr__(self) -> str:
        return super().__repr__() + (f" ({self.left} left: {self.kept_by})" if self.kept_by else "")


def expire_partitions(
    metadata: TableMetadata,
    *,
    expiration_time: dt.timedelta | str | None = None,
    strategy: str | None = None,
    timestamp_formatter: str | None = None,
    timestamp_pattern: str | None = None,
    max_expires: int | None = None,
    batch_size: int | None = None,
    now: dt.datetime | None = None,
) -> ExpiredPartitions:
    """Drops expired partitions, the first `max_expires` of them by their values; None: all.

    Other arguments that are not given are taken from the options of the table: ``partition.expiration-time``,
    ``-strategy`` and ``-batch-size``, ``partition.timestamp-formatter`` and ``-pattern``.

    Args:
        now: the time at which ages are computed, local unless it has a zone; None is now.

    Returns: the values of each dropped partition by column, None for null; how many are left, and why.

    Raises:
        InvalidArgument: a table without partitions, no expiration time, or a value that does not parse.
        Unsupported: a letter in the formatter that Morrow does not support, or a table that Morrow does not write.
        CommitConflict: others were faster each time; partitions dropped before stay dropped.
    """
    target = WriteTarget.of(metadata)
    given: dict[AnyOption, object] = {
        history.PARTITION_EXPIRATION_TIME: _duration_text(expiration_time),
        history.PARTITION_EXPIRATION_STRATEGY: strategy,
        history.PARTITION_TIMESTAMP_FORMATTER: timestamp_formatter,
        history.PARTITION_TIMESTAMP_PATTERN: timestamp_pattern,
        history.PARTITION_EXPIRATION_MAX_NUM: max_expires,
        history.PARTITION_EXPIRATION_BATCH_SIZE: batch_size,
    }
    raw = {**target.schema.options, **{option.key: str(value) for option, value in given.items() if value is not None}}
    options = parse_partition_expiry(raw, where=target.where)
    if not target.partition_fields:
        raise InvalidArgument(f"{target.where}: the table has no partitions that could expire")
    if options.expiration_time is None:
        raise InvalidArgument(
            f"{target.where}: say how old partitions may be, with expiration_time or the option "
            f"{history.PARTITION_EXPIRATION_TIME}"
        )
    if max_expires is None:  # the option is a limit for writers
        options = replace(options, max_num=UNLIMITED)
    if now is not None and not isinstance(now, dt.datetime):
        raise InvalidArgument(f"now must be a datetime, not {now!r}")
    return PartitionExpiry(target, options).run(now if now is None or now.tzinfo is None else _local(now))


class PartitionExpiry:
    """The expiry of one table's partitions, which a writer runs after a commit when it is due."""

    def __init__(self, target: WriteTarget, options: PartitionExpiryOptions) -> None:
        """Gives the expiry a commit user of its own: a writer must notice that buckets it knows are empty now."""
        self._target = WriteTarget(target.metadata, target.schema, target.options, target.write)
        self._options = options
        # As if it had run a random time ago: otherwise jobs shorter than the interval would never expire any.
        interval = options.check_interval // dt.timedelta(seconds=1)
        self._checked = dt.datetime.now() - dt.timedelta(seconds=random.randrange(interval) if interval else 0)

    @classmethod
    def of(cls, target: WriteTarget) -> PartitionExpiry | None:
        """Returns the expiry of the table's options; None when partitions do not expire.

        Raises:
            InvalidArgument, Unsupported: as `parse_partition_expiry`.
        """
        options = parse_partition_expiry(target.schema.options, where=target.where)
        return cls(target, options) if options.expiration_time is not None and target.partition_fields else None

    def due(self, now: dt.datetime | None = None, *, identifier: int = 0) -> bool:
        """Returns whether to run now (local time without zone), after the commit of this identifier."""
        interval = self._options.check_interval
        at_end = self._options.at_end_of_input and identifier == BATCH_COMMIT_IDENTIFIER
        return not interval or at_end or (now or dt.datetime.now()) - self._checked > interval

    def run(self, now: dt.datetime | None = None) -> ExpiredPartitions:
        """Drops expired partitions; returns and raises as `expire_partitions`."""
        self._checked = now or dt.datetime.now()
        snapshot = self._target.metadata.latest_snapshot()
        if snapshot is None:
            return ExpiredPartitions()
        found = live_partitions(self._target, snapshot)
        self._warn(found)
        due = self._too_old(found, self._checked)
        old = due[: max(self._options.max_num, 0)]
        kept_by = "" if len(due) == len(found) else f"none of them is older than {self._age}"
        if len(old) < len(due):
            kept_by = f"max_expires is {len(old)}; due: {len(due) - len(old)} more"
            log.info("%s: %s", self._target.where, kept_by)
        size = self._options.batch_size if self._options.batch_size > 0 else len(old)
        committer = Committer(self._target)
        dropped = [one for i in range(0, len(old), size or 1) for one in self._drop(committer, old[i : i + size])]
        keys = self._target.schema.partition_keys
        values = [dict(zip(keys, partition.values)) for partition in dropped]
        return ExpiredPartitions(values, len(found) - len(dropped), kept_by)

    @property
    def _age(self) -> str:
        age = self._options.expiration_time
        return "" if age is None else duration_text(age)

    def _warn(self, partitions: Sequence[Partition]) -> None:
        """Warns of a partition whose values do not parse as a time."""
        if self._options.strategy is not ExpireStrategy.VALUES_TIME:
            return
        fields = self._target.partition_fields
        found = (one.values for one in partitions)
        timeless = [values for values in found if partition_time(self._options, fields, values) is None]
        if timeless:
            log.warning(
                "%s: %d partitions never expire, among them %s: their values are no time. See "
                "'partition.timestamp-pattern' and 'partition.timestamp-formatter', or set "
                "'partition.expiration-strategy' to 'update-time'",
                self._target.where,
                len(timeless),
                dict(zip(self._target.schema.partition_keys, timeless[0])),
            )

    def _drop(self, committer: Committer, batch: Sequence[Partition]) -> Sequence[Partition]:
        """Drops those of a batch that are still expired in the snapshot that the commit follows."""
        dropped: Sequence[Partition] = ()

        def changes(latest: Snapshot | None) -> Changes:
            nonlocal dropped
            found = live_partitions(self._target, latest) if latest else ()
            still = {one.stored for one in self._too_old(found, self._checked)}
            dropped = [one for one in batch if one.stored in still]
            return overwritten(self._target, NOTHING, [one.stored for one in dropped])(latest)

        committer.create(SnapshotRequest(OVERWRITE, BATCH_COMMIT_IDENTIFIER, changes, True))
        return dropped

    def _too_old(self, found: Sequence[Partition], now: dt.datetime) -> list[Partition]:
        """Returns the expired partitions, in the order of their values as texts, as in Java."""
        age = self._options.expiration_time
        try:
            before = now - (dt.timedelta.max if age is None else age)
        except OverflowError:  # nothing is that old
            return []
        is_old = _by_values if self._options.strategy is ExpireStrategy.VALUES_TIME else _by_update
        old = [one for one in found if is_old(self._target, self._options, one, before)]
        return sorted(old, key=lambda one: _texts(self._target, one))


def live_partitions(target: WriteTarget, snapshot: Snapshot) -> list[Partition]:
    """Returns the partitions that hold files, unordered. Deleted files still named by manifests count as updates too.

    Raises:
        CorruptFile, FileMissing: as `engine.plan.entries.live_entries`.
    """
    frames = manifest_entries(target.metadata, manifests_of(target.metadata, snapshot))
    if not frames:
        return []
    columns = ("_PARTITION", "_KIND", "_CREATION_TIME")
    found = (
        pl.concat([frame.select(columns) for frame in frames])
        .group_by("_PARTITION")
        .agg(
            pl.when(pl.col("_KIND") == ADD).then(1).otherwise(-1).sum().alias("files"),
            pl.col("_CREATION_TIME").max().alias("updated"),
            pl.col("_CREATION_TIME").has_nulls().alias("unknown"),
        )
        .filter(pl.col("files") > 0)
    )
    stored = found["_PARTITION"].to_list()
    values = decode_rows(stored, [field.type for field in target.partition_fields], where=target.where)
    updated = found.select(pl.when(~pl.col("unknown")).then("updated")).to_series().to_list()
    return [Partition(*one) for one in zip(stored, values, updated, strict=True)]


def _by_values(target: WriteTarget, options: PartitionExpiryOptions, one: Partition, before: dt.datetime) -> bool:
    time = partition_time(options, target.partition_fields, one.values)
    return time is not None and time < (before - EPOCH) // MICROSECOND * NANOS_PER_MICRO


def _by_update(_: WriteTarget, __: PartitionExpiryOptions, one: Partition, before: dt.datetime) -> bool:
    return one.updated is not None and _instant(one.updated) < _instant(before)


def _instant(local: dt.datetime) -> float:
    """Returns the seconds since the epoch of a local time."""
    try:
        return local.timestamp()
    except (OverflowError, ValueError, OSError):  # this machine's calendar does not reach that far
        return local.replace(tzinfo=dt.UTC).timestamp()


def _texts(target: WriteTarget, one: Partition) -> str:
    """Returns the values, joined by commas."""
    keys, default = target.schema.partition_keys, target.options.partition_default_name
    types = [field.type for field in target.partition_fields]
    folder = partition_path(one.values, types, keys, default_name=default)
    return ",".join(unescape_path_name(part.partition("=")[2]) for part in folder.split("/"))


def _local(time: dt.datetime) -> dt.datetime:
    return time.astimezone().replace(tzinfo=None)


def _duration_text(time: dt.timedelta | str | None) -> str | None:
    if isinstance(time, dt.timedelta):
        return f"{time // MICROSECOND} micros"
    if time is None or isinstance(time, str):
        return time
    # A bare number would be milliseconds to Paimon, and all partitions would go.
    raise InvalidArgument(f"expiration_time is a timedelta, or text such as '7 d', not {time!r}")
