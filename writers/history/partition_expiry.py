"""Expiry of partitions, by ``partition.expiration-time``.

With ``values-time`` the age of a partition is taken from its values, with ``update-time`` from its newest file. Both
are compared with the local time of this machine, as in Java. An OVERWRITE snapshot drops the partitions: older
snapshots and tags still have their rows, and expiry of snapshots removes the files later. In a chain table, partitions
of both branches expire together, so that each remaining partition is still merged with all that it needs.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.binary_row import EPOCH, Value, decode_rows
from morrow.engine.format.manifest_entries import ADD
from morrow.engine.format.paths import partition_path, unescape_path_name
from morrow.engine.format.snapshot import OVERWRITE, Snapshot
from morrow.engine.options.declarations import AnyOption, ExpireStrategy
from morrow.engine.options.declared import maintenance
from morrow.engine.options.retention import (
    UNLIMITED,
    PartitionExpiryOptions,
    parse_partition_expiry,
    parse_partition_time,
)
from morrow.engine.plan.chains import PartitionOrder
from morrow.engine.plan.entries import list_partitions
from morrow.engine.plan.manifests import list_manifests, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace
from morrow.engine.units import NANOS_PER_MICRO, format_duration
from morrow.writers.commit.chain_partitions import open_chain
from morrow.writers.commit.committer import Committer
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, Changes, make_overwrite_changes
from morrow.writers.commit.snapshot_metadata import SnapshotRequest
from morrow.writers.target import WriteTarget

MICROSECOND = dt.timedelta(microseconds=1)
NOTHING = Changes((), (), ())

log = get_logger(__name__)


@dataclass(frozen=True)
class Partition:
    """A partition that holds files: its BinaryRow, its values, and when its newest file was created (local time)."""

    stored: bytes
    values: tuple[Value, ...]
    updated: dt.datetime | None


class ExpiredPartitions(list[dict[str, Any]]):
    """The values of each dropped partition by column, the number of remaining partitions, and the reason they stay."""

    left: int
    kept_by: str

    def __init__(self, dropped: Iterable[dict[str, Any]] = (), left: int = 0, kept_by: str = "") -> None:
        """Make the result of an expiry.

        Args:
            left: how many partitions there are now.
            kept_by: why the first of them stays: an argument, an option, or its age.
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
    """Drop expired partitions: the first `max_expires` in the order of their values, or all (None).

    Other arguments that are not given are taken from the options of the table: ``partition.expiration-time``,
    ``-strategy`` and ``-batch-size``, ``partition.timestamp-formatter`` and ``-pattern``.

    `now`: the time at which ages are computed, local unless it has a zone; None is now.

    Returns: the values of each dropped partition by column, None for null; how many partitions are left, and why.

    Raises:
        InvalidArgument: the table is not partitioned, the expiration time is missing, or a value does not parse.
        Unsupported: a letter in the formatter that Morrow does not support, or a table that Morrow does not write.
        CommitConflict: other commits were faster each time; partitions dropped before stay dropped.
    """
    target = WriteTarget.of(metadata)
    given: dict[AnyOption, object] = {
        maintenance.PARTITION_EXPIRATION_TIME: _to_duration_text(expiration_time),
        maintenance.PARTITION_EXPIRATION_STRATEGY: strategy,
        maintenance.PARTITION_TIMESTAMP_FORMATTER: timestamp_formatter,
        maintenance.PARTITION_TIMESTAMP_PATTERN: timestamp_pattern,
        maintenance.PARTITION_EXPIRATION_MAX_NUM: max_expires,
        maintenance.PARTITION_EXPIRATION_BATCH_SIZE: batch_size,
    }
    raw = {**target.schema.options, **{option.key: str(value) for option, value in given.items() if value is not None}}
    options = parse_partition_expiry(raw, where=target.where)
    if not target.partition_fields:
        raise InvalidArgument(f"{target.where}: the table has no partitions that could expire")
    if options.expiration_time is None:
        raise InvalidArgument(
            f"{target.where}: say how old partitions may be, with expiration_time or the option "
            f"{maintenance.PARTITION_EXPIRATION_TIME}"
        )
    if max_expires is None:  # the option is a limit for writers
        options = replace(options, max_num=UNLIMITED)
    if now is not None and not isinstance(now, dt.datetime):
        raise InvalidArgument(f"now must be a datetime, not {now!r}")
    return PartitionExpiry(target, options).run(now if now is None or now.tzinfo is None else _to_local(now))


class PartitionExpiry:
    """Expiry of a table's partitions, which a writer runs after a commit when it is due."""

    def __init__(self, target: WriteTarget, options: PartitionExpiryOptions) -> None:
        """Give the expiry its own commit user, so that writers notice that buckets became empty."""
        self._target = WriteTarget(target.metadata, target.schema, target.options, target.write)
        self._options = options
        # Assume that it ran a random time ago: otherwise jobs shorter than the interval would never expire partitions.
        interval = options.check_interval // dt.timedelta(seconds=1)
        self._checked = dt.datetime.now() - dt.timedelta(seconds=random.randrange(interval) if interval else 0)

    @classmethod
    def of(cls, target: WriteTarget) -> PartitionExpiry | None:
        """Return the expiry that the table's options configure; None if partitions do not expire.

        Raises `InvalidArgument`, `Unsupported`: as `parse_partition_expiry`.
        """
        options = parse_partition_expiry(target.schema.options, where=target.where)
        return cls(target, options) if options.expiration_time is not None and target.partition_fields else None

    @property
    def is_by_values(self) -> bool:
        """Whether the values of a partition give its age."""
        return self._options.strategy is ExpireStrategy.VALUES_TIME

    def due(self, now: dt.datetime | None = None, *, identifier: int = 0) -> bool:
        """Return whether the expiry is due at `now` (local time without zone), after the commit of this identifier."""
        interval = self._options.check_interval
        at_end = self._options.at_end_of_input and identifier == BATCH_COMMIT_IDENTIFIER
        return not interval or at_end or (now or dt.datetime.now()) - self._checked > interval

    def run(self, now: dt.datetime | None = None) -> ExpiredPartitions:
        """Drop expired partitions; return and raise as `expire_partitions`."""
        self._checked = now or dt.datetime.now()
        if self._target.options.is_chain_table:
            return self._run_chain()
        snapshot = self._target.metadata.latest_snapshot()
        if snapshot is None:
            return ExpiredPartitions()
        found = list_live_partitions(self._target, snapshot)
        self._warn(found)
        due = self.find_old(found, self._checked)
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

    def _run_chain(self) -> ExpiredPartitions:
        """Drop old partitions of both branches of a chain table; see `_choose_segments`."""
        where, strategy = self._target.where, self._options.strategy
        if strategy is not ExpireStrategy.VALUES_TIME or self._target.options.chain is None:
            raise Unsupported(
                f"expiry of partitions of a chain table without branches, or by {strategy.value},",
                where=where,
                hint=f"set both branches, and {maintenance.PARTITION_EXPIRATION_STRATEGY} to values-time",
            )
        chain = open_chain(self._target)
        branches = (chain.deltas, chain.snapshots)
        held = [list_partitions(each.metadata, each.snapshot, each.schema) for each in branches]
        everything = sorted(held[0] | held[1])
        order = PartitionOrder(chain, everything, self._options)
        chosen = self._choose_segments(order, held[0], held[1])
        for branch, partitions in zip(branches, chosen):
            target = WriteTarget.of(branch.metadata)
            size = self._options.batch_size if self._options.batch_size > 0 else len(partitions)
            # Later changes are dropped first: a commit that drops changes drops the whole partition of their time, too.
            for start in range(0, len(partitions), size or 1):
                _drop_from_branch(target, partitions[start : start + size])
        gone = set(chosen[0]) | set(chosen[1])
        names = self._target.schema.partition_keys
        values = [dict(zip(names, self._target.partition_values(stored))) for stored in everything if stored in gone]
        kept_by = "the newest whole partition that is old, and all after it, stay in each chain"
        return ExpiredPartitions(values, len(everything) - len(gone), kept_by)

    def _choose_segments(
        self, order: PartitionOrder, deltas: Iterable[bytes], snapshots: Iterable[bytes]
    ) -> tuple[list[bytes], list[bytes]]:
        """Return the partitions of the delta branch to drop, newest first, and those of the snapshot branch.

        A segment is a partition of the snapshot branch and the changes up to the next one. The
        newest old partition of the snapshot branch stays, since later changes are merged with it. Changes before the
        first segment are dropped with it. As in Java, ``partition.expiration-max-num`` counts segments of a chain.
        """
        before = self._find_limit(self._checked)
        periods = order.sort(deltas)
        dropped: tuple[list[bytes], list[bytes]] = ([], [])
        for group, anchors in order.sort(snapshots).items():
            times = [(order.read_time(stored), stored) for _, stored in anchors]
            old = [
                (time, stored) for time, stored in times if time is not None and before is not None and time < before
            ]
            if old != sorted(old):
                raise Unsupported(
                    "partitions of a chain table whose values and times are in different orders",
                    where=order.where,
                    hint="choose a format of times whose text sorts by time, such as yyyyMMdd",
                )
            number = min(len(old) - 1, self._options.max_num)
            if number < 1:
                continue
            end = old[number][0]
            dropped[1].extend(stored for _, stored in old[:number])
            found = [(order.read_time(stored), stored) for _, stored in periods.get(group, ())]
            dropped[0].extend(stored for time, stored in reversed(found) if time is not None and time < end)
        return dropped

    def _find_limit(self, now: dt.datetime) -> int | None:
        """Return the time before which partitions expire, in nanoseconds since the epoch; None if none is that old."""
        age = self._options.expiration_time
        try:
            return _to_nanos(now - (dt.timedelta.max if age is None else age))
        except OverflowError:
            return None

    @property
    def _age(self) -> str:
        age = self._options.expiration_time
        return "" if age is None else format_duration(age)

    def _warn(self, partitions: Sequence[Partition]) -> None:
        """Warn of a partition whose values do not parse as a time."""
        if not self.is_by_values:
            return
        fields = self._target.partition_fields
        found = (one.values for one in partitions)
        timeless = [values for values in found if parse_partition_time(self._options, fields, values) is None]
        if timeless:
            log.warning(
                "%s: %d partitions never expire, among them %s: their values are not times. See "
                "'partition.timestamp-pattern' and 'partition.timestamp-formatter', or set "
                "'partition.expiration-strategy' to 'update-time'",
                self._target.where,
                len(timeless),
                dict(zip(self._target.schema.partition_keys, timeless[0])),
            )

    def _drop(self, committer: Committer, batch: Sequence[Partition]) -> Sequence[Partition]:
        """Drop the partitions of a batch that are still expired in the snapshot that the commit follows."""
        dropped: Sequence[Partition] = ()

        def changes(latest: Snapshot | None) -> Changes:
            nonlocal dropped
            found = list_live_partitions(self._target, latest) if latest else ()
            still = {one.stored for one in self.find_old(found, self._checked)}
            dropped = [one for one in batch if one.stored in still]
            return make_overwrite_changes(self._target, NOTHING, [one.stored for one in dropped])(latest)

        committer.create(SnapshotRequest(OVERWRITE, BATCH_COMMIT_IDENTIFIER, changes, True))
        return dropped

    def find_old(self, found: Sequence[Partition], now: dt.datetime) -> list[Partition]:
        """Return the expired partitions, sorted by the text of their values, as in Java."""
        age = self._options.expiration_time
        try:
            before = now - (dt.timedelta.max if age is None else age)
        except OverflowError:  # nothing is that old
            return []
        is_old = _is_expired_by_values if self.is_by_values else _is_expired_by_update
        old = [one for one in found if is_old(self._target, self._options, one, before)]
        return sorted(old, key=lambda one: _join_texts(self._target, one))


def leave_out_expired(target: WriteTarget, snapshot: Snapshot, partitions: Sequence[bytes] | None) -> list[bytes]:
    """Return the partitions (None: all) whose values are not older than ``partition.expiration-time``.

    As in Java, the strategy update-time leaves none out. Raises as `PartitionExpiry.of`.
    """
    found = list_live_partitions(target, snapshot)
    expiry, old = PartitionExpiry.of(target), set[bytes]()
    if expiry is not None and expiry.is_by_values:
        old = {one.stored for one in expiry.find_old(found, dt.datetime.now())}
    chosen = [one.stored for one in found] if partitions is None else partitions
    return [stored for stored in chosen if stored not in old]


def list_live_partitions(target: WriteTarget, snapshot: Snapshot) -> list[Partition]:
    """Return the partitions that hold files, unordered. Deleted files that manifests still name count as updates too.

    Raises `CorruptFile`, `FileMissing`: as `engine.plan.entries.read_live_entries`.
    """
    frames = read_manifest_entries(target.metadata, list_manifests(target.metadata, snapshot))
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


def _is_expired_by_values(
    target: WriteTarget, options: PartitionExpiryOptions, one: Partition, before: dt.datetime
) -> bool:
    time = parse_partition_time(options, target.partition_fields, one.values)
    return time is not None and time < _to_nanos(before)


def _to_nanos(local: dt.datetime) -> int:
    return (local - EPOCH) // MICROSECOND * NANOS_PER_MICRO


def _drop_from_branch(target: WriteTarget, partitions: Sequence[bytes]) -> None:
    """Drop those of the partitions that a branch still has."""

    def changes(latest: Snapshot | None) -> Changes:
        there = list_partitions(target.metadata, latest, target.schema)
        return make_overwrite_changes(target, NOTHING, [one for one in partitions if one in there])(latest)

    Committer(target).create(SnapshotRequest(OVERWRITE, BATCH_COMMIT_IDENTIFIER, changes, True))


def _is_expired_by_update(_: WriteTarget, __: PartitionExpiryOptions, one: Partition, before: dt.datetime) -> bool:
    return one.updated is not None and _to_instant(one.updated) < _to_instant(before)


def _to_instant(local: dt.datetime) -> float:
    """Return the seconds since the epoch of a local time."""
    try:
        return local.timestamp()
    except (OverflowError, ValueError, OSError):  # out of the range of this machine's calendar
        return local.replace(tzinfo=dt.UTC).timestamp()


def _join_texts(target: WriteTarget, one: Partition) -> str:
    """Return the values, joined by commas."""
    keys, default = target.schema.partition_keys, target.options.partition_default_name
    types = [field.type for field in target.partition_fields]
    folder = partition_path(one.values, types, keys, default_name=default)
    return ",".join(unescape_path_name(part.partition("=")[2]) for part in folder.split("/"))


def _to_local(time: dt.datetime) -> dt.datetime:
    return time.astimezone().replace(tzinfo=None)


def _to_duration_text(time: dt.timedelta | str | None) -> str | None:
    if isinstance(time, dt.timedelta):
        return f"{time // MICROSECOND} micros"
    if time is None or isinstance(time, str):
        return time
    # Paimon would read a bare number as milliseconds, and all partitions would expire.
    raise InvalidArgument(f"expiration_time is a timedelta, or text such as '7 d', not {time!r}")


def make_partition_check(target: WriteTarget) -> Callable[[bytes], None]:
    """Return the check that a writer calls with each new partition (BinaryRow).

    With ``partition.timestamp-format.strict`` the check raises `InvalidArgument` for a partition that
    ``partition.timestamp-pattern`` and ``-formatter`` do not parse. If neither is set, nothing is checked.

    Raises `InvalidArgument`, `Unsupported`: as `parse_partition_expiry`, if the table is strict.
    """
    raw, fields = target.schema.options, target.partition_fields
    if not fields or not target.options.given.get(maintenance.PARTITION_TIMESTAMP_FORMAT_STRICT):
        return lambda _: None
    options = parse_partition_expiry(raw, where=target.where)

    def check(partition: bytes) -> None:
        values = target.partition_values(partition)
        if parse_partition_time(options, fields, values) is None:
            named = ", ".join(f"{field.name}={value!r}" for field, value in zip(fields, values))
            raise InvalidArgument(
                f"{target.where}: the partition {named} is not a time as {maintenance.PARTITION_TIMESTAMP_PATTERN} and "
                f"{maintenance.PARTITION_TIMESTAMP_FORMATTER} want it; correct the rows, or take off "
                f"{maintenance.PARTITION_TIMESTAMP_FORMAT_STRICT}"
            )

    return check if options.pattern is not None or options.formatter is not None else lambda _: None
