"""The `Catalog` protocol, and the format tables, views and functions that a catalog may keep.

A catalog returns a table as `TableMetadata`: the store and folder of its files, and the catalog's side of the table
(`TableOwner`), which commits if the catalog does. The catalog decides where the folder is: names are not paths.

`docs/implementing.md` describes how to write a catalog; `morrow.testing.CatalogTests` tests it against this protocol.

A view has a text for all engines, and may have a text for each of several `dialects`: ``spark``, ``flink``, ``duckdb``.
The definition of a function is SQL, a lambda in a programming language, or a file with a class. The JSON members are
the ones of ``ViewSchema`` and the REST catalogs in Paimon.

`watch` registers a listener that is called when a catalog of this process creates, drops or renames a table or
database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from weakref import WeakMethod

from morrow.engine.errors import InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField, from_json_field, to_json_field
from morrow.engine.io.local import LocalStore
from morrow.engine.options.declared.files import CSV_QUOTE_CHARACTER
from morrow.engine.options.declared.table import PARTITION, PRIMARY_KEY, TYPE
from morrow.engine.plan.folder_table import FORMAT_TABLE, FolderTable
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.structs import replace


class Catalog(Protocol):
    """Databases of tables. Tables are named ``database.table``; names are case-sensitive.

    Every method raises `StorageError` if the catalog does not answer. Methods that take a table name raise
    `InvalidArgument` for names of another form. All methods are thread-safe.
    """

    @property
    def title(self) -> str:
        """The catalog's name in messages, such as a folder or URL, without secrets."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options that ``sys.catalog_options`` shows, without secrets."""

    def databases(self) -> list[str]:
        """Return the names of all databases, sorted. Raises `DatabaseNotFound` if the catalog does not exist."""

    def has_database(self, name: str) -> bool:
        """Return whether a database of this name exists."""

    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None:
        """Create a database. Raises `AlreadyExists`, and `InvalidArgument` for names that `checked_name` refuses."""

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        """Drop a database, with `cascade` its tables too.

        Raises `DatabaseNotFound`: it does not exist. `InvalidArgument`: it holds tables.
        """

    def rename_database(self, name: str, new_name: str) -> None:
        """Rename a database in one step, with all its tables.

        Raises:
            DatabaseNotFound: the old name does not exist. AlreadyExists: the new name exists.
            Unsupported: the catalog cannot rename databases; nothing was changed.
        """

    def tables(self, database: str) -> list[str]:
        """Return the names of the tables in `database`, sorted. Raises `DatabaseNotFound`."""

    def has_table(self, name: str) -> bool:
        """Return whether a table exists; also False if the database does not exist."""

    def table(self, name: str) -> TableMetadata:
        """Return the metadata of a table, on its main branch. Raises `DatabaseNotFound`, `TableNotFound`."""

    def where_of(self, name: str) -> str:
        """Return the title of a table for messages, whether or not the table exists.

        Raises `InvalidArgument`: a name that no table can have.
        """

    def create_table(self, name: str, schema: TableSchema) -> TableMetadata:
        """Create a table with this first schema, and its database if it does not exist.

        Raises `AlreadyExists`: the table exists. `InvalidArgument`: a name that no table can have.
        """

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table with its files. Raises `DatabaseNotFound`, `TableNotFound`."""

    def rename_table(self, name: str, new_name: str) -> TableMetadata:
        """Rename a table in one step, within its database or to another.

        Raises:
            DatabaseNotFound, TableNotFound: the old name does not exist. AlreadyExists: the new name exists.
            Unsupported: the catalog cannot rename tables; nothing was changed.
        """


class FolderCatalog(Protocol):
    """A catalog with tables that are folders of files. Names are ``database.table``."""

    def folder_table(self, name: str) -> FolderTable | None:
        """Return a format table or object table; None for a Paimon table. Raises as `Catalog.table`."""


def find_folder_table(catalog: Catalog, name: str, kind: str | None = None) -> FolderTable:
    """Return a format table or object table of a catalog.

    Raises:
        DatabaseNotFound, TableNotFound: it does not exist. InvalidArgument: the table is of another kind.
        Unsupported: the catalog does not support such tables.
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


def has_format_tables(catalog: Catalog) -> bool:
    """Return whether a catalog can create format tables."""
    return hasattr(catalog, "create_folder_table")


def has_table_locations(catalog: Catalog) -> bool:
    """Return whether tables of a catalog may lie in any folder, given as the option ``path``."""
    return hasattr(catalog, "create_folder_table")


def has_replacement(catalog: Catalog) -> bool:
    """Return whether the catalog's server replaces tables and renames them, whatever their kind."""
    return hasattr(catalog, "replace_schema")


def create_format_table(catalog: Catalog, name: str, schema: TableSchema) -> FolderTable:
    """Create a format table with these columns, partition keys and options.

    Raises:
        DatabaseNotFound: the database does not exist. AlreadyExists: the table exists.
        InvalidArgument: a primary key, which format tables cannot have.
        Unsupported: the catalog cannot create format tables; an unknown format.
    """
    where = catalog.where_of(name)
    if not has_format_tables(catalog):
        raise Unsupported("making a format table", where=where, hint="catalogs with metastore=hive or rest make them")
    if schema.primary_keys or PRIMARY_KEY.key in schema.options:
        raise InvalidArgument(f"{where}: a format table has no primary key")
    if PARTITION.key in schema.options:
        raise InvalidArgument(f"{where}: name the partition keys of a format table as such, not by an option")
    options = {**schema.options, TYPE.key: FORMAT_TABLE}
    made = replace(schema, options=options)
    checked = FolderTable(LocalStore(), "", FORMAT_TABLE, made, where)
    _ = checked.format  # Raises for an unknown format.
    if not checked.given.get(CSV_QUOTE_CHARACTER):
        raise InvalidArgument(f"{where}: csv.quote-character must not be empty")
    found = cast(Any, catalog).create_folder_table(name, made)
    assert isinstance(found, FolderTable)
    return found


@dataclass(frozen=True)
class View:
    """A view: its query, its columns, and its query in other dialects."""

    query: str
    fields: tuple[DataField, ...]
    dialects: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


class ViewCatalog(Protocol):
    """A catalog with views. Names are ``database.view``."""

    def views(self, database: str) -> list[str]:
        """Return the names of the views of a database, sorted. Raises `DatabaseNotFound`."""

    def view(self, name: str) -> View:
        """Return a view. Raises `DatabaseNotFound`, `TableNotFound`."""

    def create_view(self, name: str, view: View) -> None:
        """Create a view. Raises `DatabaseNotFound`, and `AlreadyExists` if a view or table of this name exists."""

    def drop_view(self, name: str) -> None:
        """Drop a view. Raises `DatabaseNotFound`, `TableNotFound`."""


def has_views(catalog: Catalog) -> bool:
    """Return whether a catalog supports views."""
    return all(hasattr(catalog, method) for method in ("views", "view", "create_view", "drop_view"))


def require_views(catalog: Catalog) -> ViewCatalog:
    """Return the catalog if it supports views. Raises `Unsupported` otherwise."""
    if not has_views(catalog):
        raise Unsupported("views", where=catalog.title, hint="catalogs with metastore=rest, jdbc or hive have them")
    return cast(ViewCatalog, catalog)


def replace_view(catalog: ViewCatalog, name: str, view: View, new_name: str | None = None) -> None:
    """Replace a view by another definition, or move it to another name; other processes see no view in between.

    Raises `DatabaseNotFound`, `TableNotFound`: it does not exist. `AlreadyExists`: the new name exists.
    """
    if new_name is not None:
        catalog.create_view(new_name, view)
        catalog.drop_view(name)
        return
    before = catalog.view(name)
    catalog.drop_view(name)
    try:
        catalog.create_view(name, view)
    except MorrowError:
        catalog.create_view(name, before)
        raise


def view_from_json(node: Any, where: str) -> View:
    """Parse the JSON of a view. Raises `StorageError` if text or columns are missing, `Unsupported` for a type."""
    node = node if isinstance(node, dict) else {}
    query, fields = node.get("query"), node.get("fields")
    if not isinstance(query, str) or not isinstance(fields, list):
        raise StorageError(f"{where}: the catalog does not return the view's text and columns")
    return View(
        query,
        tuple(from_json_field(each, where=where) for each in fields),
        _to_texts(node.get("dialects")),
        node.get("comment"),
        _to_texts(node.get("options")),
    )


def view_to_json(view: View) -> dict[str, Any]:
    """Return the JSON of a view."""
    return {
        "fields": [to_json_field(each) for each in view.fields],
        "query": view.query,
        "dialects": dict(view.dialects),
        "comment": view.comment,
        "options": dict(view.options),
    }


def _to_texts(node: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in node.items() if value is not None} if isinstance(node, dict) else {}


SQL = "sql"


@dataclass(frozen=True)
class Definition:
    """A function's definition for one engine: `kind` is ``sql``, ``lambda`` or ``file``; `text` is null for a file."""

    kind: str
    text: str | None = None
    members: Mapping[str, Any] = field(default_factory=dict)
    """The other JSON members: ``language``, and of a file ``className``, ``functionName`` and ``fileResources``."""


@dataclass(frozen=True)
class Function:
    """A function. `parameters` and `returns` are ordered; a scalar function returns one value."""

    parameters: tuple[DataField, ...]
    returns: tuple[DataField, ...]
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    deterministic: bool = False
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


class FunctionCatalog(Protocol):
    """A catalog with functions. Names are ``database.function``."""

    def functions(self, database: str) -> list[str]:
        """Return the names of the functions of a database, sorted. Raises `DatabaseNotFound`."""

    def function(self, name: str) -> Function:
        """Return a function. Raises `DatabaseNotFound`, or `TableNotFound` if the function does not exist."""

    def create_function(self, name: str, function: Function) -> None:
        """Create a function. Raises `DatabaseNotFound`, `AlreadyExists`, and `InvalidArgument` for a wrong name."""

    def alter_function(self, name: str, changes: Sequence[Mapping[str, Any]]) -> None:
        """Apply changes: JSON with the ``action`` and its members. Raises as `function`, and `AlreadyExists`."""

    def drop_function(self, name: str) -> None:
        """Drop a function. Raises as `function`."""


def has_functions(catalog: Catalog) -> bool:
    """Return whether a catalog supports functions."""
    return hasattr(catalog, "functions")


def require_functions(catalog: Catalog) -> FunctionCatalog:
    """Return the catalog if it supports functions. Raises `Unsupported` otherwise."""
    if not has_functions(catalog):
        raise Unsupported("functions", where=catalog.title, hint="catalogs with metastore=rest have them")
    return cast(FunctionCatalog, catalog)


def function_to_json(function: Function) -> dict[str, Any]:
    """Return the JSON of a function."""
    return {
        "inputParams": [to_json_field(each) for each in function.parameters],
        "returnParams": [to_json_field(each) for each in function.returns],
        "deterministic": function.deterministic,
        "definitions": {name: definition_to_json(each) for name, each in function.definitions.items()},
        "comment": function.comment,
        "options": dict(function.options),
    }


def definition_to_json(definition: Definition) -> dict[str, Any]:
    """Return the JSON of a definition."""
    text = {} if definition.text is None else {"definition": definition.text}
    return {"type": definition.kind, **text, **definition.members}


def parse_function(node: Any, where: str) -> Function:
    """Parse the JSON of a function.

    Raises `StorageError`: a member has the wrong type. `Unsupported`: a type that Morrow does not know.
    """
    try:
        return Function(
            tuple(from_json_field(each, where=where) for each in node.get("inputParams") or ()),
            tuple(from_json_field(each, where=where) for each in node.get("returnParams") or ()),
            {
                str(dialect): Definition(
                    str(each["type"]),
                    _check_text(each.get("definition")),
                    {key: value for key, value in each.items() if key not in ("type", "definition")},
                )
                for dialect, each in (node.get("definitions") or {}).items()
            },
            node.get("deterministic") is True,
            node.get("comment"),
            _to_texts(node.get("options")),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{where}: the catalog does not return a valid function ({error!r})") from error


def _check_text(found: Any) -> str | None:
    if not isinstance(found, (str, type(None))):
        raise TypeError(f"{found!r} is no text")
    return found


_watchers: list[WeakMethod[Callable[[str], None]]] = []


def watch(method: Callable[[str], None]) -> None:
    """Register a bound method to be called with the title of each changed catalog, as long as its object exists."""
    _watchers.append(WeakMethod(method))


def notify_watchers(title: str) -> None:
    """Call the watchers: the tables of the catalog with this title have changed."""
    for reference in list(_watchers):
        method = reference()
        if method is None:
            _watchers.remove(reference)
        else:
            method(title)
