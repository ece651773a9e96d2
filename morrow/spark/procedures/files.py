"""Procedures for files: compaction, purging, removal of orphan files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.tagging import time_span
from morrow.spark.maintenance import maintain
from morrow.spark.procedures.procedure import (
    DONE,
    RESULT,
    Call,
    Kind,
    Parameter,
    Procedure,
    Rows,
    condition,
    moment,
    pairs,
)
from morrow.spark.procedures.tables import table_of

NO_ORDER = "none"
FULL, MINOR = "full", "minor"
DISTRIBUTED: Mapping[str, bool] = {"distributed": True, "local": False}
"""The modes of ``remove_orphan_files``; by default the size of the table decides."""
PURGED = "Success"
BUCKETS = re.compile(r"([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?")


def _compact(
    call: Call,
    partitions: str | None,
    compact_strategy: str | None,
    order_strategy: str | None,
    order_by: str | None,
    where: str | None,
    options: str | None,
    partition_idle_time: str | None,
    buckets: str | None,
) -> Rows:
    how = (compact_strategy or FULL).strip().lower()
    if how not in (FULL, MINOR):
        raise InvalidArgument(f"compact: compact_strategy is 'full' or 'minor', not {compact_strategy!r}")
    if partitions is not None and where is not None:
        raise InvalidArgument("compact: give partitions or where, not both")
    order = (order_strategy or NO_ORDER).strip().lower()
    columns = [column.strip() for column in (order_by or "").split(",") if column.strip()]
    if (order == NO_ORDER) == bool(columns):
        raise InvalidArgument("compact: order_by and an order_strategy other than 'none' go together")
    maintain.compact(
        call.spark,
        call.where.path(),
        full=how == FULL,
        partition=partitions_of(partitions),
        where=condition(where),
        order_by=columns or None,
        strategy=order if columns else None,
        idle=None if partition_idle_time is None else time_span(partition_idle_time),
        options=pairs(options, "options"),
        buckets=None if buckets is None else buckets_of(buckets),
        distributed=call.distributed,
        branch=call.where.branch,
        storage_options=call.where.storage_options,
        allowed_roots=call.where.allowed_roots,
    )
    return DONE


def partitions_of(text: str | None) -> list[dict[str, object]]:
    """Parses ``dt=1,hh=2;dt=3`` as values of partition columns; quotes around a value are removed.

    Raises `InvalidArgument`.
    """
    parts = [pairs(part, "partitions") for part in (text or "").split(";") if part.strip()]
    return [{key: _unquoted(value) for key, value in part.items()} for part in parts]


def buckets_of(text: str) -> tuple[range, ...]:
    """Parses ``0-3,7`` as ranges of bucket numbers. Raises `InvalidArgument`."""
    found = []
    for part in text.split(","):
        match = BUCKETS.fullmatch(part.strip())
        if match is None or int(match[1]) > int(match[2] or match[1]):
            raise InvalidArgument(f"compact: buckets are numbers such as '0-3,7', not {text!r}")
        found.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(found)


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _remove_orphan_files(
    call: Call, older_than: str | None, dry_run: bool | None, parallelism: int | None, mode: str | None
) -> Rows:
    word = None if mode is None else mode.strip().lower()
    if word is not None and word not in DISTRIBUTED:
        raise InvalidArgument(f"remove_orphan_files: mode is 'distributed' or 'local', not {mode!r}")
    distributed = call.distributed if word is None else DISTRIBUTED[word]
    if distributed is False and parallelism is not None:
        raise Unsupported("remove_orphan_files with parallelism in the mode 'local'", hint="leave one of them out")
    before = None if older_than is None else moment(older_than, "older_than")
    count = size = 0
    for one in call.where.each():
        found = maintain.remove_orphan_files(
            call.spark,
            one.path(),
            before,
            bool(dry_run),
            parallelism=parallelism,
            distributed=distributed,
            storage_options=one.storage_options,
            allowed_roots=one.allowed_roots,
        )
        count, size = count + found.count, size + found.bytes
    return [(count, size)]


def _purge_files(call: Call) -> Rows:
    table_of(call.where).purge()
    return [(PURGED,)]


_COMPACT = tuple(
    Parameter(name)
    for name in (
        *("partitions", "compact_strategy", "order_strategy", "order_by", "where", "options", "partition_idle_time"),
        "buckets",
    )
)
_ORPHANS = (
    *(Parameter("older_than"), Parameter("dry_run", Kind.BOOLEAN), Parameter("parallelism", Kind.INT)),
    Parameter("mode"),
)
_ORPHAN_COLUMNS = "deletedFileCount BIGINT, deletedFileTotalLenInBytes BIGINT"

PROCEDURES = (
    Procedure("compact", _COMPACT, RESULT, _compact, jobs=True),
    Procedure("remove_orphan_files", _ORPHANS, _ORPHAN_COLUMNS, _remove_orphan_files, jobs=True),
    Procedure("purge_files", (), "result STRING", _purge_files),
)
