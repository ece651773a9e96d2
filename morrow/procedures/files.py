"""Procedures for files: compaction, purging, removal of orphan files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.options.tagging import time_span
from morrow.procedures.arguments import buckets_of, partitions_of
from morrow.procedures.procedure import DONE, RESULT, Call, Kind, Parameter, Procedure, Rows, condition, pairs
from morrow.scans.travelling import moment
from morrow.writers.append.sort_compaction import ORDER
from morrow.writers.operations.choosing import Chosen, check_buckets
from morrow.writers.operations.choosing import partitions_of as chosen_by
from morrow.writers.operations.compact import compact_partitions, made_anew
from morrow.writers.operations.overriding import with_options
from morrow.writers.target import WriteTarget

NO_ORDER = "none"
FULL, MINOR = "full", "minor"
DISTRIBUTED: Mapping[str, bool] = {"distributed": True, "local": False}
"""The modes of ``remove_orphan_files``; by default the size of the table decides."""
PURGED = "Success"


@dataclass(frozen=True)
class Compaction:
    """The arguments of ``compact``, checked."""

    full: bool
    partitions: Sequence[Mapping[str, object]]
    where: str | None
    order_by: list[str] | None
    strategy: str | None
    idle: dt.timedelta | None
    options: Mapping[str, str]
    buckets: Sequence[range] | None


def compaction_of(
    partitions: str | None,
    compact_strategy: str | None,
    order_strategy: str | None,
    order_by: str | None,
    where: str | None,
    options: str | None,
    partition_idle_time: str | None,
    buckets: str | None,
) -> Compaction:
    """Returns the arguments of ``compact``. Raises `InvalidArgument`."""
    how = (compact_strategy or FULL).strip().lower()
    if how not in (FULL, MINOR):
        raise InvalidArgument(f"compact: compact_strategy is 'full' or 'minor', not {compact_strategy!r}")
    if partitions is not None and where is not None:
        raise InvalidArgument("compact: give partitions or where, not both")
    order = (order_strategy or NO_ORDER).strip().lower()
    columns = [column.strip() for column in (order_by or "").split(",") if column.strip()]
    if (order == NO_ORDER) == bool(columns):
        raise InvalidArgument("compact: order_by and an order_strategy other than 'none' go together")
    if columns and (partition_idle_time is not None or buckets is not None):
        other = "partition_idle_time" if partition_idle_time is not None else "buckets"
        raise InvalidArgument(f"compact: order_by sorts whole partitions; it does not go with {other}")
    return Compaction(
        full=how == FULL,
        partitions=partitions_of(partitions),
        where=condition(where),
        order_by=columns or None,
        strategy=order if columns else None,
        idle=None if partition_idle_time is None else time_span(partition_idle_time),
        options=pairs(options, "options"),
        buckets=None if buckets is None else buckets_of(buckets),
    )


def _compact(call: Call, **arguments: str | None) -> Rows:
    how = compaction_of(**arguments)
    target = with_options(WriteTarget.of(call.metadata), how.options)
    check_buckets(target, how.buckets)

    def once() -> Snapshot | None:
        snapshot = target.metadata.latest_snapshot()
        return compact_partitions(
            target,
            snapshot,
            chosen_by(target, snapshot, Chosen(how.partitions, how.where, how.idle, how.buckets)),
            full=how.full,
            order_by=how.order_by,
            strategy=how.strategy or ORDER,
            buckets=how.buckets,
        )

    made_anew(target, once)
    return DONE


def distribution_of(mode: str | None) -> bool | None:
    """Returns whether the mode of ``remove_orphan_files`` asks for jobs; None: it is not given."""
    word = None if mode is None else mode.strip().lower()
    if word is not None and word not in DISTRIBUTED:
        raise InvalidArgument(f"remove_orphan_files: mode is 'distributed' or 'local', not {mode!r}")
    return None if word is None else DISTRIBUTED[word]


def _remove_orphan_files(
    call: Call, older_than: str | None, dry_run: bool | None, parallelism: int | None, mode: str | None
) -> Rows:
    if distribution_of(mode) or parallelism is not None:
        raise Unsupported("remove_orphan_files in jobs, without Spark", hint="leave out mode and parallelism")
    before = None if older_than is None else moment(older_than, "older_than")
    found = [table.remove_orphan_files(before, bool(dry_run)) for table in call.tables]
    return [(sum(one.count for one in found), sum(one.bytes for one in found))]


def _purge_files(call: Call) -> Rows:
    call.table.purge()
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

COMPACT = Procedure("compact", _COMPACT, RESULT, _compact, jobs=True)
REMOVE_ORPHAN_FILES = Procedure("remove_orphan_files", _ORPHANS, _ORPHAN_COLUMNS, _remove_orphan_files, jobs=True)

PROCEDURES = (COMPACT, REMOVE_ORPHAN_FILES, Procedure("purge_files", (), "result STRING", _purge_files))
