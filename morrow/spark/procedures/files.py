"""Procedures for files that Spark may run jobs for: compaction, removal of orphan files."""

from __future__ import annotations

from morrow.engine.errors import Unsupported
from morrow.engine.values import replace
from morrow.procedures.files import COMPACT, REMOVE_ORPHAN_FILES, compaction_of, distribution_of
from morrow.procedures.procedure import DONE, Rows
from morrow.scans.travelling import moment
from morrow.spark.maintenance import maintain
from morrow.spark.procedures.call import Call


def _compact(call: Call, **arguments: str | None) -> Rows:
    how = compaction_of(**arguments)
    maintain.compact(
        call.spark,
        call.where.path(),
        full=how.full,
        partition=how.partitions,
        where=how.where,
        order_by=how.order_by,
        strategy=how.strategy,
        idle=how.idle,
        options=how.options,
        buckets=how.buckets,
        distributed=call.distributed,
        branch=call.where.branch,
        storage_options=call.where.storage_options,
        allowed_roots=call.where.allowed_roots,
    )
    return DONE


def _remove_orphan_files(
    call: Call, older_than: str | None, dry_run: bool | None, parallelism: int | None, mode: str | None
) -> Rows:
    asked = distribution_of(mode)
    distributed = call.distributed if asked is None else asked
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


PROCEDURES = (replace(COMPACT, run=_compact), replace(REMOVE_ORPHAN_FILES, run=_remove_orphan_files))
