"""`morrow.spark.call`: Paimon's procedures by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.io.resolve import Roots, given_roots
from morrow.spark.procedures import files, references, snapshots
from morrow.spark.procedures.procedure import Call, Procedure, Rows, suggestion
from morrow.spark.procedures.tables import table_argument
from morrow.spark.versions import from_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMESPACE = "sys."
"""The database of Paimon's procedures; optional here."""

PROCEDURES: Mapping[str, Procedure] = {
    procedure.name: procedure for procedure in (*references.PROCEDURES, *snapshots.PROCEDURES, *files.PROCEDURES)
}

NOT_HERE = frozenset(
    {
        *("alter_function", "alter_view_dialect", "compact_database", "compact_manifest", "copy", "create_function"),
        *("create_global_index", "drop_function", "drop_global_index", "mark_partition_done", "migrate_database"),
        *("migrate_table", "remove_unexisting_files", "repair", "rescale", "rewrite_file_index"),
    }
)
"""Procedures of Paimon 1.4 that Morrow does not have."""


def call(
    spark: SparkSession,
    procedure: str,
    /,
    *,
    warehouse: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
    distributed: bool | None = None,
    **arguments: object,
) -> DataFrame:
    """Calls a procedure of Paimon: ``call(spark, "create_tag", table="wh/db.db/t", tag="v1")``.

    Names, arguments and columns of the result are those of Paimon 1.4's ``CALL sys.create_tag(...)``; names ignore
    case. The work is done when this returns.

    Args:
        procedure: its name, with or without ``sys.``; `PROCEDURES` lists them.
        warehouse: the warehouse of a `table` of the form ``database.table``.
        storage_options, allowed_roots: as for `morrow.open`.
        distributed: of ``compact`` and ``remove_orphan_files``: whether executors do the work; None: if it is much.
        arguments: `table`, which is a folder or URL (with a ``/`` in it), ``database.table`` in `warehouse`, or
            ``pm.database.table`` in a catalog attached as ``pm``; and those of the procedure.

    Returns: a small DataFrame, which is held by the driver.

    Raises:
        InvalidArgument: no such procedure or argument, a missing argument, or one of a wrong type.
        Unsupported: a feature of Paimon's procedure that Morrow lacks.
        Others: as the method of `Table` that does the work.
    """
    found = procedure_named(procedure)
    if distributed is not None and not found.jobs:
        raise InvalidArgument(f"{found.name} runs no jobs: it has no argument 'distributed'")
    given = {name: value for name, value in arguments.items() if name.lower() != "table"}
    tables = [value for name, value in arguments.items() if name.lower() == "table"]
    bound = found.bound(given)
    if len(tables) != 1:
        raise InvalidArgument(f"{found.name} needs the argument 'table'; it has {found}")
    where = table_argument(spark, tables[0], warehouse, storage_options)
    where = replace(where, allowed_roots=(*where.allowed_roots, *given_roots(allowed_roots)))
    rows = found.run(Call(spark, where, distributed), **bound)
    return _frame(spark, rows, found.columns)


def _frame(spark: SparkSession, rows: Rows, columns: str) -> DataFrame:
    """Returns a DataFrame that holds its rows: made of an Arrow table, it needs no Spark task."""
    import pyarrow as pa

    names = [column.split()[0] for column in columns.split(",")]
    return from_arrow(spark, pa.table(dict(zip(names, map(list, zip(*rows))))), columns)


def procedure_named(name: str) -> Procedure:
    """Returns a procedure by its name, in any case, with or without ``sys.``.

    Raises:
        Unsupported: a procedure of Paimon's that Morrow does not have. InvalidArgument: there is none of this name.
    """
    plain = name.strip().lower().removeprefix(NAMESPACE) if isinstance(name, str) else ""
    if plain in PROCEDURES:
        return PROCEDURES[plain]
    if plain in NOT_HERE:
        raise Unsupported(f"the procedure {plain}", hint=f"there are {', '.join(sorted(PROCEDURES))}")
    close = suggestion(plain, PROCEDURES)
    raise InvalidArgument(f"there is no procedure {name!r}{close}; there are {', '.join(sorted(PROCEDURES))}")
