"""The argument `table` of procedures: a folder or URL, or a name in a warehouse."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.catalogs.catalog import Catalog
from morrow.engine.catalog.names import MARK, object_name
from morrow.engine.errors import InvalidArgument
from morrow.engine.io.resolve import resolve
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.values import replace
from morrow.spark.views import attached_catalogs
from morrow.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    """The catalog, where `morrow.spark.attach` knows it."""

    @property
    def catalog(self) -> Catalog | None:
        """The catalog in which the name stands; None for a folder."""
        if self.warehouse is None or self.attached is not None:
            return self.attached
        return Catalog(self.warehouse, storage_options=self.storage_options)

    def metadata(self) -> TableMetadata:
        """Returns the table's metadata. Raises `TableNotFound`, `DatabaseNotFound`, `BranchNotFound`."""
        if self.catalog is None:
            metadata = TableMetadata(*resolve(self.name, self.storage_options), allowed_roots=self.allowed_roots)
        else:
            metadata = replace(self.catalog.table(self.name)._metadata, allowed_roots=self.allowed_roots)
        metadata.latest_schema()  # a folder without a table is an error now
        return metadata if self.branch is None else metadata.on_branch(self.branch)

    @property
    def table(self) -> Table:
        """The table as a `Table`. Raises as `metadata`."""
        return Table(self.metadata())

    def path(self) -> str:
        """Returns the folder of the table, for jobs that work on folders.

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
        """The database whose tables are all meant, written ``db.*``; else None."""
        database, dot, table = self.name.rpartition(".")
        return database if self.warehouse is not None and dot and table == ALL_TABLES else None

    def each(self) -> list[TableArgument]:
        """Returns the tables meant: this one, or all of a database."""
        database = self.of_database
        if database is None:
            return [self]
        assert self.catalog is not None  # `of_database` stands in one
        names = self.catalog.tables(database)
        return [replace(self, name=f"{database}.{name}", branch=None) for name in names]


def table_argument(
    spark: SparkSession,
    given: object,
    warehouse: str | os.PathLike[str] | None,
    storage_options: Mapping[str, str] | None,
) -> TableArgument:
    """Parses the argument `table`. Text with a ``/`` is a folder or URL, and so is an `os.PathLike`; other text is
    ``database.table`` in the warehouse, or ``name.database.table`` in one that `morrow.spark.attach` knows as `name`.
    Either may end in ``$branch_<name>``; parts of names may be in backticks.

    Raises:
        InvalidArgument: another form, or a name without a known warehouse.
    """
    if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
        raise InvalidArgument(f"table is the folder or name of a table, not {given!r}")
    text = os.fspath(given)
    named = object_name(text.replace("`", "") if _is_name(given) else text)
    if named.system is not None:
        raise InvalidArgument(f"{text!r} is a system table; name the table itself")
    if not _is_name(given):
        return TableArgument(named.table, None, named.branch, storage_options)
    parts = _parts(text)
    if warehouse is not None:
        return TableArgument(".".join(parts), os.fspath(warehouse), named.branch, storage_options)
    catalogs = attached_catalogs(spark)
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


def catalog_argument(
    warehouse: str | os.PathLike[str] | None, storage_options: Mapping[str, str] | None
) -> TableArgument:
    """Returns the place of a procedure that names no table: only its catalog."""
    return TableArgument("", None if warehouse is None else os.fspath(warehouse), None, storage_options)


def _is_name(given: object) -> bool:
    return isinstance(given, str) and "/" not in given and os.sep not in given


def _parts(text: str) -> list[str]:
    """Splits a name into its parts, without the branch."""
    parts = [quoted.replace("``", "`") or plain for quoted, plain in PARTS.findall(text)]
    return [*parts[:-1], parts[-1].split(MARK)[0]]
