"""`morrow.spark.call`: Paimon's Spark procedures by name, with their arguments and results.

The argument `table` is a folder or URL, or a name in a warehouse. Compaction and removal of orphan files may run
as Spark jobs; the driver does all others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.catalogs.catalog import Catalog
from morrow.engine.catalog.names import MARK, parse_object_name
from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.io.resolve import Roots, resolve, resolve_roots
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace
from morrow.procedures.files import (
    COMPACT,
    COMPACT_DATABASE,
    REMOVE_ORPHAN_FILES,
    build_compaction_result,
    check_mode,
    parse_compaction,
    parse_distribution,
)
from morrow.procedures.procedure import DONE, Kind, Procedure, Rows, parse_pairs
from morrow.procedures.registry import TABLE, find_procedure
from morrow.scans.arguments import parse_time
from morrow.spark import migration
from morrow.spark.maintenance import commands
from morrow.spark.versions import from_arrow
from morrow.spark.views import list_attached
from morrow.tables.table import Table
from morrow.tables.table_operations import choose_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALL_TABLES = "*"
PARTS = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


@dataclass(frozen=True)
class TableArgument:
    """The location of a table: `name` in the catalog of a warehouse, or a folder without a catalog."""

    name: str
    warehouse: str | None
    branch: str | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    allowed_roots: tuple[str, ...] = ()
    attached: Catalog | None = field(default=None, compare=False)
    """The catalog, if `morrow.spark.attach` has attached it."""

    @property
    def catalog(self) -> Catalog | None:
        """The catalog that contains the name; None for a folder."""
        if self.warehouse is None or self.attached is not None:
            return self.attached
        return Catalog(self.warehouse, storage_options=self.storage_options)

    def metadata(self) -> TableMetadata:
        """Return the table's metadata. Raises `TableNotFound`, `DatabaseNotFound`, `BranchNotFound`."""
        if self.catalog is None:
            metadata = TableMetadata(*resolve(self.name, self.storage_options), allowed_roots=self.allowed_roots)
        else:
            metadata = replace(self.catalog.table(self.name)._metadata, allowed_roots=self.allowed_roots)
        metadata.latest_schema()  # reports a folder without a table now
        return metadata if self.branch is None else metadata.on_branch(self.branch)

    @property
    def table(self) -> Table:
        """The table as a `Table`. Raises as `metadata`."""
        return Table(self.metadata())

    def path(self) -> str:
        """Return the folder of the table, for jobs that work on folders.

        Raises:
            TableNotFound, DatabaseNotFound: an unknown name. Unsupported: a table whose catalog commits.
        """
        if self.catalog is None:
            return self.name
        table = self.catalog.table(self.name)
        table._metadata.owner.refuse(~Owned.NOTHING, "a job of Spark that commits")
        return table.path

    @property
    def of_database(self) -> str | None:
        """The database, if the argument ``db.*`` means all of its tables; else None."""
        database, dot, table = self.name.rpartition(".")
        return database if self.warehouse is not None and dot and table == ALL_TABLES else None

    def each(self) -> list[TableArgument]:
        """Return the tables that the argument means: this table, or all tables of a database."""
        database = self.of_database
        if database is None:
            return [self]
        assert self.catalog is not None  # `of_database` requires a catalog
        names = self.catalog.tables(database)
        return [replace(self, name=f"{database}.{name}", branch=None) for name in names]


def parse_table_argument(
    spark: SparkSession,
    given: object,
    warehouse: str | os.PathLike[str] | None,
    storage_options: Mapping[str, str] | None,
) -> TableArgument:
    """Parse the argument `table`. Text with a ``/`` is a folder or URL, and so is an `os.PathLike`; other text is
    ``database.table`` in the warehouse, or ``name.database.table`` in one that `morrow.spark.attach` knows as `name`.
    Either may end in ``$branch_<name>``; parts of names may be in backticks.

    Raises:
        InvalidArgument: another form, or a name without a known warehouse.
    """
    if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
        raise InvalidArgument(f"table is the folder or name of a table, not {given!r}")
    text = os.fspath(given)
    named = parse_object_name(text.replace("`", "") if _is_name(given) else text)
    if named.system is not None:
        raise InvalidArgument(f"{text!r} is a system table; name the table itself")
    if not _is_name(given):
        return TableArgument(named.table, None, named.branch, storage_options)
    parts = _split_name(text)
    if warehouse is not None:
        return TableArgument(".".join(parts), os.fspath(warehouse), named.branch, storage_options)
    catalogs = list_attached(spark)
    if len(parts) < 3 or parts[0] not in catalogs:
        known = ", ".join(catalogs)
        raise InvalidArgument(
            f"{text!r}: in which warehouse? Give warehouse=..., or the folder of the table (with a '/' in it), or a "
            f"name that begins with an attached catalog ({known or 'none is attached'})"
        )
    catalog = catalogs[parts[0]]
    access = catalog.access
    warehouse = None if catalog.catalog is None else catalog.catalog.warehouse
    name = ".".join(parts[1:])
    return TableArgument(
        name, warehouse, named.branch, access.storage_options, access.allowed_roots, attached=catalog.catalog
    )


def make_catalog_argument(
    warehouse: str | os.PathLike[str] | None, storage_options: Mapping[str, str] | None
) -> TableArgument:
    """Return the argument for a procedure without a table, which needs a catalog only."""
    return TableArgument("", None if warehouse is None else os.fspath(warehouse), None, storage_options)


def _is_name(given: object) -> bool:
    return isinstance(given, str) and "/" not in given and os.sep not in given


def _split_name(text: str) -> list[str]:
    """Split a name into its parts, without the branch."""
    parts = [quoted.replace("``", "`") or plain for quoted, plain in PARTS.findall(text)]
    return [*parts[:-1], parts[-1].split(MARK)[0]]


@dataclass(frozen=True)
class Call:
    """A call of a procedure: the session, and the procedure's table or, without a table, its catalog."""

    spark: SparkSession
    where: TableArgument
    distributed: bool | None = None

    @property
    def metadata(self) -> TableMetadata:
        """The metadata of the table. Raises `TableNotFound` and similar errors."""
        return self.where.metadata()

    @property
    def catalog(self) -> Catalog:
        """The catalog of the table. Raises `InvalidArgument` for a folder."""
        found = self.where.catalog
        if found is None:
            raise InvalidArgument("in which warehouse? Give warehouse=...")
        return found

    @property
    def table(self) -> Table:
        """The table as a `Table`. Raises as `metadata`."""
        return self.where.table

    @property
    def tables(self) -> Sequence[Table]:
        """The tables that the argument means: this table, or all tables of a database."""
        return [one.table for one in self.where.each()]


def _compact(call: Call, **arguments: str | None) -> Rows:
    how = parse_compaction(**arguments)
    commands.compact(
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
    asked = parse_distribution(mode)
    distributed = call.distributed if asked is None else asked
    if distributed is False and parallelism is not None:
        raise Unsupported("remove_orphan_files with parallelism in the mode 'local'", hint="leave one of them out")
    before = None if older_than is None else parse_time(older_than, "older_than")
    count = size = 0
    for one in call.where.each():
        found = commands.remove_orphan_files(
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


FILE_PROCEDURES = (replace(COMPACT, run=_compact), replace(REMOVE_ORPHAN_FILES, run=_remove_orphan_files))

log = get_logger(__name__)


def _compact_database(
    call: Call,
    including_databases: str | None,
    including_tables: str | None,
    excluding_tables: str | None,
    options: str | None,
    mode: str | None,
) -> Rows:
    check_mode(mode)
    changed = parse_pairs(options, "options")
    done = failed = 0
    for name in list(choose_tables(call.catalog._catalog, including_databases, including_tables, excluding_tables)):
        try:
            commands.compact(
                call.spark,
                TableArgument(name, call.where.warehouse, storage_options=call.where.storage_options).path(),
                full=True,
                options=changed,
                distributed=call.distributed,
                storage_options=call.where.storage_options,
                allowed_roots=call.where.allowed_roots,
            )
            done += 1
        except MorrowError as error:  # as in Paimon, the remaining tables are compacted
            failed += 1
            log.warning("compact_database: %s was not compacted: %s", name, error)
    return build_compaction_result(done, failed)


DATABASE_PROCEDURES = (replace(COMPACT_DATABASE, run=_compact_database),)

WITH_JOBS: Mapping[str, Procedure] = {
    procedure.name: procedure for procedure in (*FILE_PROCEDURES, *DATABASE_PROCEDURES)
}
"""The procedures for which Spark may run jobs."""


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
    """Call a procedure of Paimon: ``call(spark, "create_tag", table="wh/db.db/t", tag="v1")``.

    Names, arguments and result columns are the same as for Paimon's ``CALL sys.create_tag(...)``; names ignore
    case. The work is done when this returns.

    Args:
        procedure: its name, with or without ``sys.``; see `PROCEDURES`.
        warehouse: the warehouse of a `table` of the form ``database.table``, and of procedures without a table; a
            `morrow.Catalog` that is more than a folder does the work in this process, without jobs.
        storage_options, allowed_roots: as for `morrow.open`.
        distributed: of ``compact``, ``compact_database`` and ``remove_orphan_files``: whether executors do the work;
            None: for large tables.
        arguments: `table`, which is a folder or URL (with a ``/`` in it), ``database.table`` in `warehouse`, or
            ``pm.database.table`` in a catalog attached as ``pm``; and the procedure's other arguments.

    Returns: a small DataFrame that the driver holds.

    Raises:
        InvalidArgument: no such procedure or argument, a missing argument, or an argument of a wrong type.
        Unsupported: a feature of Paimon's procedure that Morrow does not support.
        Others: as the method of `Table` that does the work.
    """
    found = find_procedure(procedure)
    catalog = warehouse if isinstance(warehouse, Catalog) and not warehouse.is_folder else None
    if catalog is None:
        found = WITH_JOBS.get(found.name, found)
    elif distributed:
        raise Unsupported("jobs of Spark on tables of this catalog", where=catalog.warehouse, hint="leave them out")
    run: Callable[..., Rows] = migration.RUNS.get(found.name, found.run)
    place = warehouse.warehouse if isinstance(warehouse, Catalog) else warehouse
    if distributed is not None and not found.jobs:
        raise InvalidArgument(f"{found.name} runs no jobs: it has no argument 'distributed'")
    tables = {name: value for name, value in arguments.items() if found.of_table and name.lower() == TABLE}
    bound = found.bound({name: value for name, value in arguments.items() if name not in tables})
    if len(tables) != found.of_table or None in tables.values():
        raise InvalidArgument(f"{found.name} needs the argument {TABLE!r}; it has {found}")

    def where(table: object = None) -> TableArgument:
        named = (
            make_catalog_argument(place, storage_options)
            if table is None
            else parse_table_argument(spark, table, place, storage_options)
        )
        if catalog is not None and named.warehouse is not None:
            named = replace(named, attached=catalog)
        return replace(named, allowed_roots=(*named.allowed_roots, *resolve_roots(allowed_roots)))

    for parameter in found.parameters:
        if parameter.kind is Kind.TABLE and bound[parameter.python] is not None:
            bound[parameter.python] = where(bound[parameter.python])
    rows = run(Call(spark, where(*tables.values()), distributed), **bound)
    return _to_frame(spark, rows, found.columns)


def _to_frame(spark: SparkSession, rows: Rows, columns: str) -> DataFrame:
    """Return rows as a DataFrame, made from an Arrow table so that reading it needs no Spark task."""
    import pyarrow as pa

    names = [column.split()[0] for column in columns.split(",")]
    values = map(list, zip(*rows)) if rows else ([] for _ in names)
    return from_arrow(spark, pa.table(dict(zip(names, values))), columns)
