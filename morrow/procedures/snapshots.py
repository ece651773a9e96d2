"""Procedures for snapshots, tags, branches, consumers and partitions: rollback, expiry, consumer progress."""

from __future__ import annotations

import datetime as dt
import re

from morrow.engine.errors import InvalidArgument, SnapshotNotFound, Unsupported
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import Tag
from morrow.engine.options import Declared
from morrow.engine.options.declared import maintenance
from morrow.engine.plan.time_travel import Time
from morrow.procedures.procedure import (
    DONE,
    RESULT,
    Call,
    Kind,
    Parameter,
    Procedure,
    Rows,
    make_required,
    parse_options,
)
from morrow.scans.arguments import parse_time
from morrow.tables.history import Branches

ROLLED_BACK = "previous_snapshot_id BIGINT NOT NULL, current_snapshot_id BIGINT NOT NULL"
EXPIRED = "deleted_snapshots_count INT NOT NULL, left_snapshots_count INT NOT NULL, kept_by STRING NOT NULL"
"""The first column is Paimon's; the others report the remaining snapshots and the reason."""
EXPIRED_PARTITIONS = "expired_partitions STRING, left_partitions_count INT NOT NULL, kept_by STRING NOT NULL"
"""The first column is Paimon's; the others repeat the number of remaining partitions and the reason in each row."""
NO_EXPIRED_PARTITIONS = "No expired partitions."
SNAPSHOT_OPTIONS = (
    maintenance.SNAPSHOT_NUM_RETAINED_MAX,
    maintenance.SNAPSHOT_NUM_RETAINED_MIN,
    maintenance.SNAPSHOT_TIME_RETAINED,
    maintenance.SNAPSHOT_EXPIRE_LIMIT,
)
PARTITION_OPTIONS = (
    maintenance.PARTITION_EXPIRATION_TIME,
    maintenance.PARTITION_EXPIRATION_STRATEGY,
    maintenance.PARTITION_EXPIRATION_MAX_NUM,
    maintenance.PARTITION_TIMESTAMP_FORMATTER,
    maintenance.PARTITION_TIMESTAMP_PATTERN,
)


def _rollback(call: Call, version: str | int | None, snapshot: int | None, tag: str | None) -> Rows:
    given = [value for value in (version, snapshot, tag) if value is not None]
    if len(given) != 1:
        raise InvalidArgument("rollback: give one of version, snapshot and tag")
    if version is not None:
        text = str(version)
        snapshot, tag = (int(text), None) if text.isascii() and text.isdigit() else (None, text)
    return _run_rollback(call, snapshot=snapshot, tag=tag)


def _rollback_to_timestamp(call: Call, timestamp: int) -> Rows:
    return _run_rollback(call, timestamp=timestamp)


def _rollback_to_watermark(call: Call, watermark: int) -> Rows:
    # Find the newest snapshot whose watermark is not greater, from the end as in Paimon.
    for snapshot in reversed(call.table.snapshots()):
        if snapshot.watermark is not None and snapshot.watermark <= watermark:
            return _run_rollback(call, snapshot=snapshot.id)
    raise SnapshotNotFound(f"{call.metadata.where}: no snapshot has a watermark up to {watermark}")


def _run_rollback(
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
    said = parse_options(options, SNAPSHOT_OPTIONS, "expire_snapshots")

    def count(given: int | None, option: Declared[int]) -> int | None:
        return said.get(option) if given is None and said.has(option) else given

    age = said.get(maintenance.SNAPSHOT_TIME_RETAINED) if said.has(maintenance.SNAPSHOT_TIME_RETAINED) else None
    before: dt.timedelta | dt.datetime | None = age if older_than is None else parse_time(older_than, "older_than")
    gone = call.table.expire_snapshots(
        count(retain_max, maintenance.SNAPSHOT_NUM_RETAINED_MAX),
        count(retain_min, maintenance.SNAPSHOT_NUM_RETAINED_MIN),
        before,
        count(max_deletes, maintenance.SNAPSHOT_EXPIRE_LIMIT),
    )
    return [(int(gone), gone.left, gone.kept_by)]


def _expire_changelogs(
    call: Call,
    retain_max: int | None,
    retain_min: int | None,
    older_than: str | None,
    max_deletes: int | None,
    delete_all: bool | None,
) -> Rows:
    if delete_all:
        raise Unsupported("expire_changelogs with delete_all", hint="give retain_max, or older_than")
    before = None if older_than is None else parse_time(older_than, "older_than")
    gone = call.table.expire_changelogs(retain_max, retain_min, before, max_deletes)
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
    said = parse_options(options, PARTITION_OPTIONS, "expire_partitions")
    most = (
        said.get(maintenance.PARTITION_EXPIRATION_MAX_NUM)
        if said.has(maintenance.PARTITION_EXPIRATION_MAX_NUM)
        else None
    )
    gone = call.table.expire_partitions(
        expiration_time or said.text(maintenance.PARTITION_EXPIRATION_TIME),
        strategy=expire_strategy or said.text(maintenance.PARTITION_EXPIRATION_STRATEGY),
        timestamp_formatter=timestamp_formatter or said.text(maintenance.PARTITION_TIMESTAMP_FORMATTER),
        timestamp_pattern=timestamp_pattern or said.text(maintenance.PARTITION_TIMESTAMP_PATTERN),
        max_expires=most if max_expires is None else max_expires,
    )
    named = [", ".join(f"{column}={value}" for column, value in partition.items()) for partition in gone]
    return [(text, gone.left, gone.kept_by) for text in named or [NO_EXPIRED_PARTITIONS]]


def _reset_consumer(call: Call, consumer_id: str, next_snapshot_id: int | None) -> Rows:
    consumers = call.table.consumers
    if next_snapshot_id is None:
        consumers.delete(consumer_id)
    else:
        call.metadata.snapshot(next_snapshot_id)  # raises if it does not exist
        consumers.record(consumer_id, next_snapshot_id)
    return DONE


def _clear_consumers(call: Call, including_consumers: str | None, excluding_consumers: str | None) -> Rows:
    including, excluding = (
        _compile_pattern(including_consumers or ".*"),
        _compile_pattern(excluding_consumers or "(?!)"),
    )
    consumers = call.table.consumers
    for name in consumers.all():
        if including.fullmatch(name) and not excluding.fullmatch(name):
            consumers.delete(name)
    return DONE


def _compile_pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.DOTALL)
    except re.error as error:
        raise InvalidArgument(f"{text!r} is not a valid regular expression: {error}") from error


_VERSION = (
    *(Parameter("version", Kind.VERSION), Parameter("snapshot", Kind.BIGINT, others=("snapshot_id",))),
    Parameter("tag"),
)
_AGES = (
    *(Parameter("retain_max", Kind.INT), Parameter("retain_min", Kind.INT), Parameter("older_than")),
    *(Parameter("max_deletes", Kind.INT), Parameter("options")),
)
_PARTITIONS = (
    *(
        Parameter("expiration_time"),
        Parameter("timestamp_formatter"),
        Parameter("timestamp_pattern", pattern=r".*\$.*"),
    ),
    *(Parameter("expire_strategy", pattern=r"[\w-]+"), Parameter("max_expires", Kind.INT), Parameter("options")),
)
_PARTITIONS_OF_FLINK = ("expiration_time", "timestamp_formatter", "expire_strategy", "options")
_CONSUMER = (
    make_required("consumerId", others=("consumer_id",)),
    Parameter("nextSnapshotId", Kind.BIGINT, others=("next_snapshot_id",)),
)
_CONSUMERS = (
    Parameter("includingConsumers", others=("including_consumers",)),
    Parameter("excludingConsumers", others=("excluding_consumers",)),
)
_CHANGELOGS = (*_AGES[:4], Parameter("delete_all", Kind.BOOLEAN))

SNAPSHOT_PROCEDURES = (
    Procedure("rollback", _VERSION, ROLLED_BACK, _rollback),
    Procedure("rollback_to_timestamp", (make_required("timestamp", Kind.BIGINT),), ROLLED_BACK, _rollback_to_timestamp),
    Procedure("rollback_to_watermark", (make_required("watermark", Kind.BIGINT),), ROLLED_BACK, _rollback_to_watermark),
    Procedure("expire_snapshots", _AGES, EXPIRED, _expire_snapshots, added=2),
    Procedure("expire_changelogs", _CHANGELOGS, EXPIRED, _expire_changelogs, added=2, flink=(("delete_all",),)),
    Procedure(
        *("expire_partitions", _PARTITIONS, EXPIRED_PARTITIONS, _expire_partitions),
        added=2,
        flink=(_PARTITIONS_OF_FLINK,),
    ),
    Procedure("reset_consumer", _CONSUMER, RESULT, _reset_consumer),
    Procedure("clear_consumers", _CONSUMERS, RESULT, _clear_consumers),
)

NO_EXPIRED_TAGS = "No expired tags."
TAG_COLUMNS = "tagName STRING, snapshot BIGINT, commit_time BIGINT, watermark STRING"


def _create_tag(call: Call, tag: str, snapshot: int | None, time_retained: str | None) -> Rows:
    call.table.tags.create(tag, snapshot, time_retained)
    return DONE


def _create_tag_from_timestamp(call: Call, tag: str, timestamp: int, time_retained: str | None) -> Rows:
    made = call.table.tags.create_from_timestamp(tag, timestamp, time_retained)
    return [_build_tag_row(made)]


def _create_tag_from_watermark(call: Call, tag: str, watermark: int, time_retained: str | None) -> Rows:
    tags = call.table.tags
    marked = [each for each in (*call.table.snapshots(), *(tag.snapshot for tag in tags)) if each.watermark is not None]
    found = min((each for each in marked if each.watermark >= watermark), key=lambda each: each.id, default=None)
    if found is None:
        raise SnapshotNotFound(f"{call.metadata.where}: no snapshot or tag has a watermark of at least {watermark}")
    return [_build_tag_row(tags.create(tag, found.id, time_retained))]


def _build_tag_row(tag: Tag) -> tuple[object, ...]:
    snapshot = tag.snapshot
    # Paimon's text for a missing watermark.
    watermark = "null" if snapshot.watermark is None else str(snapshot.watermark)
    return tag.name, snapshot.id, snapshot.time_millis, watermark


def _replace_tag(call: Call, tag: str, snapshot: int | None, time_retained: str | None) -> Rows:
    call.table.tags.replace(tag, snapshot, time_retained)
    return DONE


def _rename_tag(call: Call, tag: str, target_tag: str) -> Rows:
    call.table.tags.rename(tag, target_tag)
    return DONE


def _delete_tag(call: Call, tag: str) -> Rows:
    tags = call.table.tags
    for name in _split_names(tag):
        tags.delete(name, ignore_if_not_exists=True)  # as in Paimon, a missing tag is not an error
    return DONE


def _expire_tags(call: Call, older_than: str | None) -> Rows:
    gone = call.table.tags.expire(None if older_than is None else parse_time(older_than, "older_than"))
    return [(name,) for name in gone] or [(NO_EXPIRED_TAGS,)]


def _create_due_tags(call: Call) -> Rows:
    call.table.tags.create_due()
    return DONE


def _create_branch(call: Call, branch: str, tag: str | None, ignore_if_exists: bool | str | None) -> Rows:
    ignore = str(ignore_if_exists or False).strip().lower() == "true"
    call.table.branches.create(branch, tag=tag, ignore_if_exists=ignore)
    return DONE


def _delete_branch(call: Call, branch: str) -> Rows:
    branches = call.table.branches
    for name in _split_names(branch):
        branches.delete(name)
    return DONE


def _rename_branch(call: Call, from_branch: str, to_branch: str) -> Rows:
    call.table.branches.rename(from_branch, to_branch)
    return DONE


def _forward_branch(call: Call, branch: str) -> Rows:
    call.table.branches.fast_forward(branch)
    return DONE


def _merge_branch(call: Call, source_branch: str, target_branch: str | None) -> Rows:
    Branches(call.metadata.on_branch(target_branch or MAIN_BRANCH)).merge(source_branch)
    return DONE


def _split_names(text: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


_SNAPSHOT = Parameter("snapshot", Kind.BIGINT, others=("snapshot_id",))
_TAG = (make_required("tag"), _SNAPSHOT, Parameter("time_retained"))
_SINCE = (make_required("tag"), make_required("timestamp", Kind.BIGINT), Parameter("time_retained"))
_MARKED = (make_required("tag"), make_required("watermark", Kind.BIGINT), Parameter("time_retained"))
_RENAMED_TAG = (make_required("tag", others=("tagName",)), make_required("target_tag", others=("targetTagName",)))
_BRANCH = (make_required("branch"), Parameter("tag"), Parameter("ignoreIfExists", Kind.FLAG))

REFERENCE_PROCEDURES = (
    Procedure("create_tag", _TAG, RESULT, _create_tag),
    Procedure("create_tag_from_timestamp", _SINCE, TAG_COLUMNS, _create_tag_from_timestamp),
    Procedure("create_tag_from_watermark", _MARKED, TAG_COLUMNS, _create_tag_from_watermark),
    Procedure("replace_tag", _TAG, RESULT, _replace_tag),
    Procedure("rename_tag", _RENAMED_TAG, RESULT, _rename_tag),
    Procedure("delete_tag", (make_required("tag"),), RESULT, _delete_tag),
    Procedure("expire_tags", (Parameter("older_than"),), "expired_tags STRING NOT NULL", _expire_tags),
    Procedure("trigger_tag_automatic_creation", (), RESULT, _create_due_tags),
    Procedure("create_branch", _BRANCH, RESULT, _create_branch),
    Procedure("delete_branch", (make_required("branch"),), RESULT, _delete_branch),
    Procedure("rename_branch", (make_required("from_branch"), make_required("to_branch")), RESULT, _rename_branch),
    Procedure("merge_branch", (make_required("source_branch"), Parameter("target_branch")), RESULT, _merge_branch),
    Procedure("fast_forward", (make_required("branch"),), RESULT, _forward_branch),
)
