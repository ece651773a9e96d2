"""`morrow.spark.call`: Paimon's Spark procedures by name, with their arguments and results.

The argument `table` is a folder or URL, or a name in a warehouse. Compaction and removal of orphan files may run
as Spark jobs; the driver does all others.

``migrate_table`` and ``migrate_database`` migrate tables of ``spark_catalog`` (or of its Hive metastore).

Java moves the files of the source into the new table. Here Spark reads them and writes rows, in one commit, so that
every format that Spark reads can be migrated. Then the source is dropped, or emptied if it is kept, as in Java.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from morrow.catalogs.catalog import Catalog
from morrow.engine.catalog.names import MARK, parse_object_name
from morrow.engine.errors import AlreadyExists, InvalidArgument, MorrowError, TableNotFound, Unsupported
from morrow.engine.format.file_formats import find_format
from morrow.engine.format.paths import normalize_path
from morrow.engine.io.resolve import Roots, resolve, resolve_roots
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import BUCKET
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace
from morrow.procedures.files import (
    COMPACT,
    COMPACT_DATABASE,
    MIGRATE_DATABASE,
    MIGRATE_FILE,
    MIGRATE_TABLE,
    REMOVE_ORPHAN_FILES,
    build_compaction_result,
    check_mode,
    parse_compaction,
    parse_distribution,
)
from morrow.procedures.procedure import DONE, Kind, Procedure, Rows, parse_pairs
from morrow.procedures.registry import TABLE, find_procedure
from morrow.scans.arguments import parse_time
from morrow.spark.expressions import quote_name
from morrow.spark.maintenance import commands
from morrow.spark.types import drop_not_null, to_paimon_fields
from morrow.spark.versions import from_arrow
from morrow.spark.views import list_attached
from morrow.spark.writing.write import write
from morrow.tables.table import Table
from morrow.tables.table_operations import choose_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOG = "spark_catalog"
SOURCES = ("hive", "spark")
"""The types of sources whose tables Spark's own catalog knows."""
OWN = ("paimon", "morrow")
UNAWARE = "-1"
BESIDE = "_paimon_"
"""The end of the name that a new table has until its source is gone, as in Java."""
RENAMED = ("/", "hdfs://")
"""The beginnings of folders that can be renamed."""
DETAILS = "# Detailed Table Information"

log = get_logger(__name__)


@dataclass(frozen=True)
class Source:
    """A table of ``spark_catalog``."""

    spark: SparkSession
    name: str
    """``database.table``."""

    @classmethod
    def find(cls, spark: SparkSession, text: str) -> Source:
        """Find a table by its name. Raises `InvalidArgument` and `TableNotFound`."""
        parts = text.replace("`", "").removeprefix(f"{CATALOG}.").split(".")
        if len(parts) != 2:
            raise InvalidArgument(f"migrate: the source is database.table of {CATALOG}, not {text!r}")
        found = cls(spark, ".".join(parts))
        if not spark.catalog.tableExists(found.quoted):
            raise TableNotFound(f"there is no table {found.name} in {CATALOG}")
        return found

    @property
    def quoted(self) -> str:
        return ".".join(map(quote_name, (CATALOG, *self.name.split("."))))

    def describe(self) -> dict[str, str]:
        """Return the properties that DESCRIBE EXTENDED lists, such as ``Provider`` and ``Type``."""
        rows = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.quoted}").collect()
        names = [row[0] for row in rows]
        return {row[0]: row[1] for row in rows[names.index(DETAILS) :]}  # columns come before, with any names

    def migrate(self, catalog: Catalog, target: str, options: Mapping[str, str], delete: bool) -> None:
        """Move the rows to a table, which is created if it does not exist.

        A new table that gets the folder of the source is written beside it first, and renamed when the source is gone.

        Raises:
            Unsupported: a view; or a new table in the source's folder, in a store without renames.
            InvalidArgument: a table with buckets, a source that is a Paimon table, or a target in the source's folder.
            AlreadyExists: the target has a primary key. Others: as `write`.
        """
        rows, about = self.spark.table(self.quoted), self.describe()
        if about.get("Type") == "VIEW":
            raise Unsupported(f"migrating the view {self.name}", hint="create it again in the new catalog")
        if is_paimon(about):
            raise InvalidArgument(f"migrate: {self.name} is a table of Paimon already; name a table of another format")
        if options.get(BUCKET.key, UNAWARE) != UNAWARE:
            raise InvalidArgument("Hive migrator only support unaware-bucket target table; leave the option bucket out")
        folder, final = normalize_path(about.get("Location") or "/").rstrip("/"), target
        if folder == normalize_path(catalog._catalog.where_of(target)) and delete:
            target = f"{final}{BESIDE}"
            if not folder.startswith(RENAMED):
                hint = "give another target_table"
                raise Unsupported("a migration into the source's folder in an object store", where=final, hint=hint)
        if not catalog._catalog.has_table(target):
            provider = str(about.get("Provider", "")).lower()
            own = {FILE_FORMAT.key: provider} if find_format(provider) is not None else {}
            catalog.create_table(
                target,
                schema=drop_not_null(to_paimon_fields(rows.schema)),
                partition_keys=[c.name for c in self.spark.catalog.listColumns(self.quoted) if c.isPartition],
                options={**own, BUCKET.key: UNAWARE, **options},
                comment=about.get("Comment"),
            )
        table = catalog.table(target)
        if table.primary_keys:
            raise AlreadyExists(f"{target} has a primary key; rows are migrated to tables without one")
        if folder and f"{normalize_path(table.path)}/".startswith(f"{folder}/"):
            what = f"migrate: the table {target} would lie in the folder of its source, {folder}, which is removed"
            raise InvalidArgument(f"{what}; give another target_table, and leave delete_origin out")
        write(rows, table)
        if delete:
            self.spark.sql(f"DROP TABLE {self.quoted}")
            if target != final:
                catalog.rename_table(target, final)
        elif about.get("Type") == "MANAGED":
            self.spark.sql(f"TRUNCATE TABLE {self.quoted}")


def is_paimon(about: Mapping[str, str]) -> bool:
    """Return whether the properties that `Source.describe` returns show a Paimon table."""
    return about.get("Provider", "").lower() in OWN


def _check_source_type(source_type: str, procedure: str) -> None:
    if source_type.strip().lower() not in SOURCES:
        hint = f"source_type is {' or '.join(SOURCES)}, or 'parquet' for a folder of files"
        raise Unsupported(f"{procedure} from {source_type!r}", hint=hint)


def _migrate_table(
    call: Any,
    source_type: str,
    table: str,
    options: str | None,
    delete_origin: bool | None,
    target_table: Any,
    options_map: Mapping[str, str] | None,
    parallelism: int | None,
) -> Rows:
    if source_type.strip().lower() == "parquet":
        return MIGRATE_TABLE.run(
            call, source_type, table, options, delete_origin, target_table, options_map, parallelism
        )
    _check_source_type(source_type, MIGRATE_TABLE.name)
    source = Source.find(call.spark, table)
    target = source.name if target_table is None else target_table.name
    given = {**parse_pairs(options, "options"), **(options_map or {})}
    source.migrate(call.catalog, target, given, target_table is None or delete_origin is not False)
    return DONE


def _migrate_file(
    call: Any,
    source_type: str,
    source_table: str,
    target_table: Any,
    delete_origin: bool | None,
    parallelism: int | None,
) -> Rows:
    del parallelism  # Spark decides
    _check_source_type(source_type, MIGRATE_FILE.name)
    call.catalog.table(target_table.name)  # raises if it does not exist
    Source.find(call.spark, source_table).migrate(call.catalog, target_table.name, {}, delete_origin is not False)
    return DONE


def _migrate_database(
    call: Any,
    source_type: str,
    database: str,
    options: str | None,
    options_map: Mapping[str, str] | None,
    parallelism: int | None,
) -> Rows:
    del parallelism
    _check_source_type(source_type, MIGRATE_DATABASE.name)
    given = {**parse_pairs(options, "options"), **(options_map or {})}
    spark, done, failed = call.spark, 0, 0
    name = database.replace("`", "").removeprefix(f"{CATALOG}.")
    for row in spark.sql(f"SHOW TABLES IN {quote_name(CATALOG)}.{quote_name(name)}").collect():
        if row.isTemporary:
            continue
        try:
            source = Source.find(spark, f"{name}.{row.tableName}")
            if is_paimon(source.describe()):
                continue
            source.migrate(call.catalog, source.name, given, True)
            done += 1
        except (MorrowError, PySparkException) as error:  # as in Paimon, the remaining tables are migrated
            failed += 1
            log.warning("migrate_database: %s was not migrated: %s", row.tableName, error)
    return [(f"migrate database is finished, success cnt: {done} , failed cnt: {failed}",)]


RUNS: Mapping[str, Callable[..., Rows]] = {
    MIGRATE_TABLE.name: _migrate_table,
    MIGRATE_FILE.name: _migrate_file,
    MIGRATE_DATABASE.name: _migrate_database,
}
"""Functions of procedures that need Spark's own catalog, by the name of the procedure."""

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

    Raises `InvalidArgument`: another form, or a name without a known warehouse.
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
    run: Callable[..., Rows] = RUNS.get(found.name, found.run)
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
    return _to_frame(spark, rows, found.columns, found.added)


def _to_frame(spark: SparkSession, rows: Rows, columns: str, added: int) -> DataFrame:
    """Return rows without their `added` last columns, made from an Arrow table: reading them needs no Spark task."""
    import pyarrow as pa

    kept = columns.split(",")[: -added or None]
    names = [column.split()[0] for column in kept]
    values = map(list, zip(*rows)) if rows else ([] for _ in names)
    return from_arrow(spark, pa.table(dict(zip(names, values))), ",".join(kept))
