"""Migration of tables of Spark's own catalog (or of its Hive metastore) by ``migrate_table`` and ``migrate_database``.

Java moves the files of the source into the new table. Here Spark reads them and writes rows, in one commit, so that
every format that Spark reads can be migrated. Then the source is dropped, or emptied if it is kept, as in Java.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from morrow.engine.errors import AlreadyExists, InvalidArgument, MorrowError, TableNotFound, Unsupported
from morrow.engine.format.file_formats import find_format
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import BUCKET
from morrow.engine.redaction import get_logger
from morrow.procedures.files import MIGRATE_DATABASE, MIGRATE_FILE, MIGRATE_TABLE
from morrow.procedures.procedure import DONE, Rows, parse_pairs
from morrow.spark.expressions import quote_name
from morrow.spark.types import drop_not_null, to_paimon_fields
from morrow.spark.writing.write import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from morrow.catalogs.catalog import Catalog

CATALOG = "spark_catalog"
SOURCES = ("hive", "spark")
"""The types of sources whose tables Spark's own catalog knows."""
UNAWARE = "-1"
DETAILS = "# Detailed Table Information"

log = get_logger(__name__)


@dataclass(frozen=True)
class Source:
    """A table of Spark's own catalog."""

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

        Raises:
            Unsupported: a view. InvalidArgument: a table with buckets. AlreadyExists: the target has a primary key.
            Others: as `write`.
        """
        rows, about = self.spark.table(self.quoted), self.describe()
        if about.get("Type") == "VIEW":
            raise Unsupported(f"migrating the view {self.name}", hint="create it again in the new catalog")
        if options.get(BUCKET.key, UNAWARE) != UNAWARE:
            raise InvalidArgument("Hive migrator only support unaware-bucket target table; leave the option bucket out")
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
        write(rows, table)
        if delete:
            self.spark.sql(f"DROP TABLE {self.quoted}")
        elif about.get("Type") == "MANAGED":
            self.spark.sql(f"TRUNCATE TABLE {self.quoted}")


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
            Source.find(spark, f"{name}.{row.tableName}").migrate(call.catalog, f"{name}.{row.tableName}", given, True)
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
