"""Catalogs that keep format tables and object tables beside Paimon's own."""

from __future__ import annotations

from typing import Protocol, cast

from morrow.engine.catalog.protocol import Catalog
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.local import LocalStore
from morrow.engine.options.declared.table import PARTITION, PRIMARY_KEY, TYPE
from morrow.engine.plan.folder_table import FORMAT_TABLE, FolderTable
from morrow.engine.values import replace


class FolderCatalog(Protocol):
    """A catalog that keeps tables which are folders of files. Names are ``database.table``."""

    def folder_table(self, name: str) -> FolderTable | None:
        """Returns a format table or object table; None for one of Paimon's own. Raises as `Catalog.table`."""


def folder_table(catalog: Catalog, name: str, kind: str | None = None) -> FolderTable:
    """Returns a format table or object table of a catalog.

    Raises:
        DatabaseNotFound, TableNotFound. InvalidArgument: the table is of another kind.
        Unsupported: the catalog has no such tables.
    """
    if not hasattr(catalog, "folder_table"):
        hint = "catalogs with metastore=hive or rest have them"
        raise Unsupported("format tables and object tables", where=catalog.title, hint=hint)
    found = cast(FolderCatalog, catalog).folder_table(name)
    if found is None:
        raise InvalidArgument(f"{catalog.title}: {name!r} is a table of Paimon's own; open it with Catalog.table")
    if kind is not None and found.kind != kind:
        raise InvalidArgument(f"{found.where} is of the type {found.kind}, not {kind}")
    return found


def create_format_table(catalog: Catalog, name: str, schema: TableSchema) -> FolderTable:
    """Creates a format table with these columns, partition keys and options.

    Raises:
        DatabaseNotFound, AlreadyExists. InvalidArgument: a primary key, which such a table has not.
        Unsupported: the catalog makes no such tables; a format that they do not have.
    """
    where = catalog.where_of(name)
    if not hasattr(catalog, "create_folder_table"):
        raise Unsupported("making a format table", where=where, hint="catalogs with metastore=hive or rest make them")
    if schema.primary_keys or PRIMARY_KEY.key in schema.options:
        raise InvalidArgument(f"{where}: a format table has no primary key")
    if PARTITION.key in schema.options:
        raise InvalidArgument(f"{where}: name the partition keys of a format table as such, not by an option")
    options = {**schema.options, TYPE.key: FORMAT_TABLE}
    made = replace(schema, options=options)
    _ = FolderTable(LocalStore(), "", FORMAT_TABLE, made, where).format  # Raises for an unknown one.
    found = catalog.create_folder_table(name, made)
    assert isinstance(found, FolderTable)
    return found
