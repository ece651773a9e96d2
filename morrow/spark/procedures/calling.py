"""`morrow.spark.call`: Paimon's procedures by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from morrow.catalogs.catalog import Catalog
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.io.resolve import Roots, given_roots
from morrow.engine.values import replace
from morrow.procedures.procedure import Kind, Procedure, Rows
from morrow.procedures.registry import TABLE, procedure_named
from morrow.spark.procedures import databases, files
from morrow.spark.procedures.call import Call
from morrow.spark.procedures.tables import TableArgument, catalog_argument, table_argument
from morrow.spark.versions import from_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WITH_JOBS: Mapping[str, Procedure] = {
    procedure.name: procedure for module in (files, databases) for procedure in module.PROCEDURES
}
"""Those of the procedures that Spark may run jobs for."""


def call(
    spark: SparkSession,
    procedure: str,
    /,
    *,
    warehouse: str | os.PathLike[str] | Catalog | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
    distributed: bool | None = None,
    **arguments: object,
) -> DataFrame:
    """Calls a procedure of Paimon: ``call(spark, "create_tag", table="wh/db.db/t", tag="v1")``.

    Names, arguments and columns of the result are those of Paimon's ``CALL sys.create_tag(...)``; names ignore
    case. The work is done when this returns.

    Args:
        procedure: its name, with or without ``sys.``; `PROCEDURES` lists them.
        warehouse: the warehouse of a `table` of the form ``database.table``, and of procedures without a table; a
            `morrow.Catalog` that is more than a folder does the work in this process, without jobs.
        storage_options, allowed_roots: as for `morrow.open`.
        distributed: of ``compact``, ``compact_database`` and ``remove_orphan_files``: whether executors do the work;
            None: if it is much.
        arguments: `table`, which is a folder or URL (with a ``/`` in it), ``database.table`` in `warehouse`, or
            ``pm.database.table`` in a catalog attached as ``pm``; and those of the procedure.

    Returns: a small DataFrame, which is held by the driver.

    Raises:
        InvalidArgument: no such procedure or argument, a missing argument, or one of a wrong type.
        Unsupported: a feature of Paimon's procedure that Morrow lacks.
        Others: as the method of `Table` that does the work.
    """
    found = procedure_named(procedure)
    catalog = warehouse if isinstance(warehouse, Catalog) and not warehouse.is_folder else None
    if catalog is None:
        found = WITH_JOBS.get(found.name, found)
    elif distributed:
        raise Unsupported("jobs of Spark on tables of this catalog", where=catalog.warehouse, hint="leave them out")
    place = warehouse.warehouse if isinstance(warehouse, Catalog) else warehouse
    if distributed is not None and not found.jobs:
        raise InvalidArgument(f"{found.name} runs no jobs: it has no argument 'distributed'")
    tables = {name: value for name, value in arguments.items() if found.of_table and name.lower() == TABLE}
    bound = found.bound({name: value for name, value in arguments.items() if name not in tables})
    if len(tables) != found.of_table or None in tables.values():
        raise InvalidArgument(f"{found.name} needs the argument {TABLE!r}; it has {found}")

    def where(table: object = None) -> TableArgument:
        named = (
            catalog_argument(place, storage_options)
            if table is None
            else table_argument(spark, table, place, storage_options)
        )
        if catalog is not None and named.warehouse is not None:
            named = replace(named, attached=catalog)
        return replace(named, allowed_roots=(*named.allowed_roots, *given_roots(allowed_roots)))

    for parameter in found.parameters:
        if parameter.kind is Kind.TABLE and bound[parameter.python] is not None:
            bound[parameter.python] = where(bound[parameter.python])
    rows = found.run(Call(spark, where(*tables.values()), distributed), **bound)
    return _frame(spark, rows, found.columns)


def _frame(spark: SparkSession, rows: Rows, columns: str) -> DataFrame:
    """Returns a DataFrame that holds its rows: made of an Arrow table, it needs no Spark task."""
    import pyarrow as pa

    names = [column.split()[0] for column in columns.split(",")]
    values = map(list, zip(*rows)) if rows else ([] for _ in names)
    return from_arrow(spark, pa.table(dict(zip(names, values))), columns)
