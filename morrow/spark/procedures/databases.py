"""Procedures for many tables that Spark may run jobs for: compaction of databases."""

from __future__ import annotations

from morrow.engine.errors import MorrowError
from morrow.engine.telling import logger
from morrow.engine.values import replace
from morrow.procedures.databases import COMPACT_DATABASE, finished
from morrow.procedures.procedure import Rows, pairs
from morrow.spark.maintenance import maintain
from morrow.spark.procedures.call import Call
from morrow.spark.procedures.tables import TableArgument
from morrow.tables.many_tables import chosen_tables

log = logger(__name__)


def _compact_database(
    call: Call,
    including_databases: str | None,
    including_tables: str | None,
    excluding_tables: str | None,
    options: str | None,
) -> Rows:
    changed = pairs(options, "options")
    done = failed = 0
    for name in list(chosen_tables(call.catalog._catalog, including_databases, including_tables, excluding_tables)):
        try:
            maintain.compact(
                call.spark,
                TableArgument(name, call.where.warehouse, storage_options=call.where.storage_options).path(),
                full=True,
                options=changed,
                distributed=call.distributed,
                storage_options=call.where.storage_options,
                allowed_roots=call.where.allowed_roots,
            )
            done += 1
        except MorrowError as error:  # as in Paimon, the others are compacted all the same
            failed += 1
            log.warning("compact_database: %s was not compacted: %s", name, error)
    return finished(done, failed)


PROCEDURES = (replace(COMPACT_DATABASE, run=_compact_database),)
