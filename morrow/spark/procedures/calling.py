"""`morrow.spark.call`: a procedure by the name that Paimon gives it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.spark.procedures import files, references, snapshots
from morrow.spark.procedures.procedure import Call, Procedure, Rows, suggestion
from morrow.spark.procedures.tables import table_argument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMESPACE = "sys."
"""What Paimon's procedures are called with; here it may be left out."""

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
    distributed: bool | None = None,
    **arguments: object,
) -> DataFrame:
    """Call a procedure of Paimon's: ``call(spark, "create_tag", table="wh/db.db/t", tag="v1")``.

    Names, arguments and columns of the result are those of Paimon 1.4's ``CALL sys.create_tag(...)``; names count in
    any case. It is done when this returns.

    Args:
        procedure: its name, with or without ``sys.``; `PROCEDURES` has all of them.
        warehouse: where a `table` of the form ``database.table`` is.
        storage_options: as for `morrow.open`.
        distributed: of ``compact`` and ``remove_orphan_files``: whether executors do the work; None: where it is much.
        arguments: `table`, which is a folder or URL (with a ``/`` in it), ``database.table`` in `warehouse`, or
            ``pm.database.table`` in a catalog that is attached as ``pm``; and those of the procedure.

    Returns: a small DataFrame, which is held by the driver.

    Raises:
        InvalidArgument: no such procedure or argument, an argument that is missing or of a wrong type.
        Unsupported: what Paimon's procedure does, and Morrow's does not.
        Others: as what the procedure does, see `Table`.
    """
    found = _procedure(procedure)
    if distributed is not None and not found.jobs:
        raise InvalidArgument(f"{found.name} runs no jobs: it has no argument 'distributed'")
    given = {name: value for name, value in arguments.items() if name.lower() != "table"}
    tables = [value for name, value in arguments.items() if name.lower() == "table"]
    bound = found.bound(given)
    if len(tables) != 1:
        raise InvalidArgument(f"{found.name} needs the argument 'table'; it has {found}")
    where = table_argument(spark, tables[0], warehouse, storage_options)
    rows = found.run(Call(spark, where, distributed), **bound)
    return _frame(spark, rows, found.columns)


def _frame(spark: SparkSession, rows: Rows, columns: str) -> DataFrame:
    """A DataFrame that holds its rows: of an Arrow table, which Spark asks no task for."""
    import pyarrow as pa

    names = [column.split()[0] for column in columns.split(",")]
    return spark.createDataFrame(pa.table(dict(zip(names, map(list, zip(*rows))))), columns)


def _procedure(name: str) -> Procedure:
    plain = name.strip().lower().removeprefix(NAMESPACE) if isinstance(name, str) else ""
    if plain in PROCEDURES:
        return PROCEDURES[plain]
    if plain in NOT_HERE:
        raise Unsupported(f"the procedure {plain}", hint=f"there are {', '.join(sorted(PROCEDURES))}")
    close = suggestion(plain, PROCEDURES)
    raise InvalidArgument(f"there is no procedure {name!r}{close}; there are {', '.join(sorted(PROCEDURES))}")
