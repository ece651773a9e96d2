"""Procedures for snapshots, consumers and partitions: rollback, expiry, consumer progress."""

from __future__ import annotations

import datetime as dt
import re

from morrow.engine.errors import InvalidArgument, SnapshotNotFound
from morrow.engine.options import Declared
from morrow.engine.options.declared import history
from morrow.engine.plan.time_travel import Time
from morrow.procedures.procedure import (
    DONE,
    RESULT,
    Call,
    Kind,
    Parameter,
    Procedure,
    Rows,
    known_options,
    required,
)
from morrow.scans.travelling import moment

ROLLED_BACK = "previous_snapshot_id BIGINT NOT NULL, current_snapshot_id BIGINT NOT NULL"
EXPIRED = "deleted_snapshots_count INT NOT NULL, left_snapshots_count INT NOT NULL, kept_by STRING NOT NULL"
"""The first column is Paimon's; the others say how many snapshots are left, and why."""
EXPIRED_PARTITIONS = "expired_partitions STRING, left_partitions_count INT NOT NULL, kept_by STRING NOT NULL"
"""The first column is Paimon's; the others say in each row how many partitions are left, and why."""
NO_EXPIRED_PARTITIONS = "No expired partitions."
SNAPSHOT_OPTIONS = (
    history.SNAPSHOT_NUM_RETAINED_MAX,
    history.SNAPSHOT_NUM_RETAINED_MIN,
    history.SNAPSHOT_TIME_RETAINED,
    history.SNAPSHOT_EXPIRE_LIMIT,
)
PARTITION_OPTIONS = (
    history.PARTITION_EXPIRATION_TIME,
    history.PARTITION_EXPIRATION_STRATEGY,
    history.PARTITION_EXPIRATION_MAX_NUM,
    history.PARTITION_TIMESTAMP_FORMATTER,
    history.PARTITION_TIMESTAMP_PATTERN,
)


def _rollback(call: Call, version: str | int | None, snapshot: int | None, tag: str | None) -> Rows:
    given = [value for value in (version, snapshot, tag) if value is not None]
    if len(given) != 1:
        raise InvalidArgument("rollback: give one of version, snapshot and tag")
    if version is not None:
        text = str(version)
        snapshot, tag = (int(text), None) if text.isascii() and text.isdigit() else (None, text)
    return _rolled_back(call, snapshot=snapshot, tag=tag)


def _rollback_to_timestamp(call: Call, timestamp: int) -> Rows:
    return _rolled_back(call, timestamp=timestamp)


def _rollback_to_watermark(call: Call, watermark: int) -> Rows:
    # The newest snapshot whose watermark is not above this; Paimon searches from the end, too.
    for snapshot in reversed(call.table.snapshots()):
        if snapshot.watermark is not None and snapshot.watermark <= watermark:
            return _rolled_back(call, snapshot=snapshot.id)
    raise SnapshotNotFound(f"{call.metadata.where}: no snapshot has a watermark up to {watermark}")


def _rolled_back(
    call: Call, *, snapshot: int | None = None, tag: str | None = None, timestamp: Time | None = None
) -> Rows:
    newest = call.metadata.latest_snapshot()
    if newest is None:
        raise SnapshotNotFound(f"{call.metadata.where}: the table has no snapshot to roll back from")
    now = call.table.rollback(snapshot=snapshot, tag=tag, timestamp=timestamp)
    return [(newest.id, now.id)]


def _expire_snapshots(
    call: Call,
    retain_max: int | None,
    retain_min: int | None,
    older_than: str | None,
    max_deletes: int | None,
    options: str | None,
) -> Rows:
    said = known_options(options, SNAPSHOT_OPTIONS, "expire_snapshots")

    def count(given: int | None, option: Declared[int]) -> int | None:
        return said.get(option) if given is None and said.has(option) else given

    age = said.get(history.SNAPSHOT_TIME_RETAINED) if said.has(history.SNAPSHOT_TIME_RETAINED) else None
    before: dt.timedelta | dt.datetime | None = age if older_than is None else moment(older_than, "older_than")
    gone = call.table.expire_snapshots(
        count(retain_max, history.SNAPSHOT_NUM_RETAINED_MAX),
        count(retain_min, history.SNAPSHOT_NUM_RETAINED_MIN),
        before,
        count(max_deletes, history.SNAPSHOT_EXPIRE_LIMIT),
    )
    return [(int(gone), gone.left, gone.kept_by)]


def _expire_partitions(
    call: Call,
    expiration_time: str | None,
    timestamp_formatter: str | None,
    timestamp_pattern: str | None,
    expire_strategy: str | None,
    max_expires: int | None,
    options: str | None,
) -> Rows:
    said = known_options(options, PARTITION_OPTIONS, "expire_partitions")
    most = said.get(history.PARTITION_EXPIRATION_MAX_NUM) if said.has(history.PARTITION_EXPIRATION_MAX_NUM) else None
    gone = call.table.expire_partitions(
        expiration_time or said.text(history.PARTITION_EXPIRATION_TIME),
        strategy=expire_strategy or said.text(history.PARTITION_EXPIRATION_STRATEGY),
        timestamp_formatter=timestamp_formatter or said.text(history.PARTITION_TIMESTAMP_FORMATTER),
        timestamp_pattern=timestamp_pattern or said.text(history.PARTITION_TIMESTAMP_PATTERN),
        max_expires=most if max_expires is None else max_expires,
    )
    named = [", ".join(f"{column}={value}" for column, value in partition.items()) for partition in gone]
    return [(text, gone.left, gone.kept_by) for text in named or [NO_EXPIRED_PARTITIONS]]


def _reset_consumer(call: Call, consumer_id: str, next_snapshot_id: int | None) -> Rows:
    consumers = call.table.consumers
    if next_snapshot_id is None:
        consumers.delete(consumer_id)
    else:
        call.metadata.snapshot(next_snapshot_id)  # it must exist to be read next
        consumers.record(consumer_id, next_snapshot_id)
    return DONE


def _clear_consumers(call: Call, including_consumers: str | None, excluding_consumers: str | None) -> Rows:
    including, excluding = _pattern(including_consumers or ".*"), _pattern(excluding_consumers or "(?!)")
    consumers = call.table.consumers
    for name in consumers.all():
        if including.fullmatch(name) and not excluding.fullmatch(name):
            consumers.delete(name)
    return DONE


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.DOTALL)
    except re.error as error:
        raise InvalidArgument(f"{text!r} is no regular expression: {error}") from error


_VERSION = (Parameter("version", Kind.VERSION), Parameter("snapshot", Kind.BIGINT), Parameter("tag"))
_AGES = (
    *(Parameter("retain_max", Kind.INT), Parameter("retain_min", Kind.INT), Parameter("older_than")),
    *(Parameter("max_deletes", Kind.INT), Parameter("options")),
)
_PARTITIONS = (
    *(Parameter("expiration_time"), Parameter("timestamp_formatter"), Parameter("timestamp_pattern")),
    *(Parameter("expire_strategy"), Parameter("max_expires", Kind.INT), Parameter("options")),
)
_CONSUMER = (required("consumerId"), Parameter("nextSnapshotId", Kind.BIGINT))
_CONSUMERS = (Parameter("includingConsumers"), Parameter("excludingConsumers"))

PROCEDURES = (
    Procedure("rollback", _VERSION, ROLLED_BACK, _rollback),
    Procedure("rollback_to_timestamp", (required("timestamp", Kind.BIGINT),), ROLLED_BACK, _rollback_to_timestamp),
    Procedure("rollback_to_watermark", (required("watermark", Kind.BIGINT),), ROLLED_BACK, _rollback_to_watermark),
    Procedure("expire_snapshots", _AGES, EXPIRED, _expire_snapshots),
    Procedure("expire_partitions", _PARTITIONS, EXPIRED_PARTITIONS, _expire_partitions),
    Procedure("reset_consumer", _CONSUMER, RESULT, _reset_consumer),
    Procedure("clear_consumers", _CONSUMERS, RESULT, _clear_consumers),
)
