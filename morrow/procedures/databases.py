"""Procedures for many tables, and for tables made of others: compaction of databases, copies, migration."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.telling import logger
from morrow.procedures.procedure import (
    DONE,
    RESULT,
    Call,
    Kind,
    NamedTable,
    Parameter,
    Procedure,
    Rows,
    condition,
    pairs,
    required,
)

PARQUET = "parquet"

log = logger(__name__)


def finished(done: int, failed: int) -> Rows:
    """Returns the result of ``compact_database``."""
    return [(f"Compact database finished. Success: {done}, Failed: {failed}",)]


def _compact_database(
    call: Call,
    including_databases: str | None,
    including_tables: str | None,
    excluding_tables: str | None,
    options: str | None,
) -> Rows:
    if pairs(options, "options"):
        raise Unsupported("compact_database with options, without Spark", hint="CALL sys.compact takes them")
    found = call.catalog.compact(
        databases=including_databases, including=including_tables, excluding=excluding_tables, full=True
    )
    failed = [one for one in found if one.error is not None]
    for one in failed:  # as in Paimon, the others are compacted all the same
        log.warning("compact_database: %s was not compacted: %s", one.name, one.error)
    return finished(len(found) - len(failed), len(failed))


def _copy(_call: Call, source_table: NamedTable, target_table: NamedTable, where: str | None) -> Rows:
    if target_table.catalog is None or target_table.branch is not None:
        raise InvalidArgument("copy: target_table is database.table in a warehouse")
    target_table.catalog.copy_table(source_table.table, target_table.name, where=condition(where))
    return DONE


def _migrate_table(
    _call: Call,
    source_type: str,
    table: str,
    options: str | None,
    delete_origin: bool | None,
    target_table: NamedTable | None,
    options_map: Mapping[str, str] | None,
    parallelism: int | None,
) -> Rows:
    if source_type.strip().lower() != PARQUET:
        raise Unsupported(
            f"migrate_table from {source_type!r}",
            hint="Morrow has no Hive metastore; source_type => 'parquet' takes a folder of Parquet files as table",
        )
    if delete_origin is not False:
        raise Unsupported("migrate_table that deletes its origin", hint="files are copied: delete_origin => false")
    if parallelism is not None:
        raise Unsupported("migrate_table with parallelism", hint="leave it out")
    if target_table is None or target_table.catalog is None or target_table.branch is not None:
        raise InvalidArgument("migrate_table: target_table is database.table in a warehouse")
    given = {**pairs(options, "options"), **(options_map or {})}
    target_table.catalog.clone_parquet(table, target_table.name, options=given)
    return DONE


_DATABASES = (
    *(Parameter("including_databases"), Parameter("including_tables"), Parameter("excluding_tables")),
    Parameter("options"),
)
_COPY = (required("source_table", Kind.TABLE), required("target_table", Kind.TABLE), Parameter("where"))
_MIGRATE = (
    *(required("source_type"), required("table"), Parameter("options"), Parameter("delete_origin", Kind.BOOLEAN)),
    *(Parameter("target_table", Kind.TABLE), Parameter("options_map", Kind.MAP), Parameter("parallelism", Kind.INT)),
)

COMPACT_DATABASE = Procedure(
    "compact_database", _DATABASES, "result STRING", _compact_database, jobs=True, of_table=False
)
PROCEDURES = (
    COMPACT_DATABASE,
    Procedure("copy", _COPY, RESULT, _copy, of_table=False),
    Procedure("migrate_table", _MIGRATE, RESULT, _migrate_table, of_table=False),
)
