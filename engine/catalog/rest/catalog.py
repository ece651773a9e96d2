"""The REST catalog: databases, tables, views and functions of a server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from morrow.engine.catalog.databases import LOCATION, OWNER, check_empty, refuse_renaming
from morrow.engine.catalog.names import checked_name, make_missing_error, make_no_database_error, table_name
from morrow.engine.catalog.protocol import (
    Function,
    View,
    function_to_json,
    parse_function,
    view_from_json,
    view_to_json,
)
from morrow.engine.catalog.rest.client import HEADER, OPTIONS, Client, Refusal
from morrow.engine.catalog.rest.table import (
    ExternalRestTable,
    RestPartitions,
    RestTable,
    change_of,
    find_table_type,
    read_schema,
    to_error,
    to_first_schema,
    to_identifier,
    to_schema_json,
    to_texts,
)
from morrow.engine.catalog.settings import WAREHOUSE, Settings
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    InvalidArgument,
    StorageError,
    TableNotFound,
    Unsupported,
)
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import from_json_field
from morrow.engine.io.resolve import resolve, unescape_location
from morrow.engine.io.store import FileStore
from morrow.engine.io.temporary_credentials import make_renewed_store
from morrow.engine.options.declarations import BOOL, TEXT, Options, declare_honoured, declare_idle
from morrow.engine.options.declared.connectors import METASTORE_PARTITIONED_TABLE
from morrow.engine.plan.folder_table import FORMAT_TABLE, OBJECT_TABLE, FolderTable
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.redaction import register_secrets
from morrow.engine.schema.evolution import commit_schema
from morrow.engine.schema.schema_changes import SchemaChange

TOLD = (LOCATION, OWNER, "createdBy", "createdAt", "updatedBy", "updatedAt")
"""Members of an answer, besides its options, that clients show as properties."""


class RestDatabases:
    """The methods of a REST catalog for databases."""

    client: Client
    title: Any
    tables: Callable[[str], list[str]]
    views: Callable[[str], list[str]]
    drop_table: Callable[..., None]
    _no_database: Callable[[str], DatabaseNotFound]

    def databases(self) -> list[str]:
        with translate_refusals(self.client):
            return sorted(self.client.pages(DATABASES, DATABASES))

    def has_database(self, name: str) -> bool:
        try:
            self.client.get(DATABASES, name)
        except Refusal as refusal:
            if refusal.code == 404:
                return False
            raise to_error(self.client, refusal) from None
        return True

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        body = {"name": checked_name("database", name), "options": dict(properties or {})}
        try:
            self.client.post(DATABASES, body=body)
        except Refusal as refusal:
            if refusal.code != 409:
                raise to_error(self.client, refusal) from None
            if not (ignore_if_exists or refusal.unclear):
                raise AlreadyExists(f"{self.title}: there is a database {name!r} already") from None

    def database_properties(self, name: str) -> dict[str, str]:
        try:
            answer = self.client.get(DATABASES, name)
        except Refusal as refusal:
            raise self._without(name, refusal) from None
        beside = {key: str(answer[key]) for key in TOLD if answer.get(key) is not None}
        return {**to_texts(answer.get("options")), **beside}

    def alter_database(self, name: str, properties: Mapping[str, str], removed: Iterable[str]) -> None:
        body = {"removals": list(removed), "updates": dict(properties)}
        try:
            self.client.post(DATABASES, name, body=body)
        except Refusal as refusal:
            raise self._without(name, refusal) from None

    def _without(self, name: str, refusal: Refusal) -> Exception:
        return self._no_database(name) if refusal.code == 404 else to_error(self.client, refusal)

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        if ignore_if_not_exists and not self.has_database(name):
            return
        tables, views = self.tables(name), self.views(name)
        if not cascade:
            check_empty(self.title, name, tables, views)
        for table in tables:
            self.drop_table(f"{name}.{table}", ignore_if_not_exists=True)
        with translate_refusals(self.client, gone=True):
            self.client.delete(DATABASES, name)

    def rename_database(self, name: str, new_name: str) -> None:
        if not self.has_database(name):
            raise self._no_database(name)
        refuse_renaming(self, new_name)


@contextmanager
def translate_refusals(client: Client, *, gone: bool = False) -> Iterator[None]:
    """Turn refusals within the block into errors; with `gone`, a missing object was removed by an earlier attempt."""
    try:
        yield
    except Refusal as refusal:
        if not (gone and refusal.code == 404 and refusal.unclear):
            raise to_error(client, refusal) from None


class RestFolders:
    """The methods of a REST catalog for format tables and object tables."""

    client: Client
    title: Any
    post_table: Callable[[str, TableSchema], None]
    _answer: Callable[[str, str], dict[str, Any]]
    _resolve_store: Callable[[str, str, str], tuple[FileStore, str]]

    def create_folder_table(self, name: str, schema: TableSchema) -> FolderTable:
        """Create a format table with the options of its schema. Raises as `create_table`."""
        self.post_table(name, schema)
        found = self.folder_table(name)
        if found is None:
            raise StorageError(f"{self.title}, {name}: the server made a table of Paimon's own of a format table")
        return found

    def folder_table(self, name: str) -> FolderTable | None:
        """Return a format table or object table; None for a Paimon table. Raises as `table`."""
        database, table = table_name(name)
        answer = self._answer(database, table)
        where = f"{self.title}, {name}"
        schema = read_schema(answer, where)
        kind = find_table_type(schema)
        if kind not in (FORMAT_TABLE, OBJECT_TABLE):
            return None
        location = answer.get("path")
        if not isinstance(location, str) or not location:
            raise StorageError(f"{where}: the server does not say where the table lies")
        fields = tuple(from_json_field(each, where=where) for each in schema.get("fields") or ())
        keys, options = tuple(map(str, schema.get("partitionKeys") or ())), to_texts(schema.get("options"))
        made = TableSchema(0, fields, len(fields), keys, (), options, schema.get("comment"))
        stored = self._resolve_store(database, table, location)
        keeps = bool(keys) and Options(options, where).get(METASTORE_PARTITIONED_TABLE)
        return FolderTable(
            *stored, kind, made, where, False, RestPartitions(self.client, database, table) if keeps else None
        )


DATABASES, VIEWS, FUNCTIONS = "databases", "views", "functions"
DATABASE = "DATABASE"
FUNCTION_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9._-]+")


class RestViews:
    """The methods of a REST catalog for views and functions."""

    client: Client
    title: Any
    has_table: Callable[[str], bool]
    has_database: Callable[[str], bool]
    databases: Callable[[], list[str]]

    def views(self, database: str) -> list[str]:
        """Return the names of the views of a database, sorted; empty if the server does not support views."""
        return self._list_names(database, VIEWS, optional=True)

    def functions(self, database: str) -> list[str]:
        """Return the names of the functions of a database, sorted; empty if the server does not support functions."""
        return self._list_names(database, FUNCTIONS, optional=True)

    def function(self, name: str) -> Function:
        """Return a function. Raises `DatabaseNotFound`, or `TableNotFound` if the function does not exist."""
        database, function = table_name(name)
        try:
            answer = self.client.get(DATABASES, database, FUNCTIONS, function)
        except Refusal as refusal:
            raise self._without_function(database, function, refusal) from None
        return parse_function(answer, f"{self.title}, {name}")

    def create_function(self, name: str, function: Function) -> None:
        """Create a function. Raises `DatabaseNotFound`, `AlreadyExists`, `InvalidArgument`."""
        database, own = table_name(name)
        if not FUNCTION_NAME.fullmatch(own):
            raise InvalidArgument(f"{own!r} is not a function name: give letters, digits and . _ -, not digits alone")
        body = {"name": own, **function_to_json(function)}
        self._create(database, FUNCTIONS, body, f"function {name!r}", lambda: self.function(name) == function)

    def alter_function(self, name: str, changes: Sequence[Mapping[str, Any]]) -> None:
        """Apply changes. Raises `DatabaseNotFound`, `TableNotFound`, `AlreadyExists`."""
        database, function = table_name(name)
        try:
            self.client.post(DATABASES, database, FUNCTIONS, function, body={"changes": list(changes)})
        except Refusal as refusal:
            raise self._without_function(database, function, refusal) from None

    def drop_function(self, name: str) -> None:
        """Drop a function. Raises `DatabaseNotFound`, `TableNotFound`."""
        database, function = table_name(name)
        try:
            self.client.delete(DATABASES, database, FUNCTIONS, function)
        except Refusal as refusal:
            if not (refusal.code == 404 and refusal.unclear):
                raise self._without_function(database, function, refusal) from None

    def _without_function(self, database: str, function: str, refusal: Refusal) -> Exception:
        if refusal.code != 404 or refusal.kind == "DEFINITION":
            return to_error(self.client, refusal)
        return make_missing_error(self.title, "function", database, function, self.functions(database))

    def view(self, name: str) -> View:
        """Return a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        database, view = table_name(name)
        try:
            answer = self.client.get(DATABASES, database, VIEWS, view)
        except Refusal as refusal:
            raise self._without_view(database, view, refusal) from None
        return view_from_json(answer.get("schema"), f"{self.title}, {name}")

    def create_view(self, name: str, view: View) -> None:
        """Create a view. Raises `DatabaseNotFound`, `AlreadyExists`."""
        database, own = table_name(name)
        body = {"identifier": to_identifier(database, checked_name("view", own)), "schema": view_to_json(view)}
        if self.has_table(name):
            raise AlreadyExists(f"{self.title}: there is a table {name!r} already")
        self._create(database, VIEWS, body, f"view {name!r}", lambda: self.view(name) == view)

    def drop_view(self, name: str) -> None:
        """Drop a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        database, view = table_name(name)
        try:
            self.client.delete(DATABASES, database, VIEWS, view)
        except Refusal as refusal:
            if not (refusal.code == 404 and refusal.unclear):
                raise self._without_view(database, view, refusal) from None

    def _without_view(self, database: str, view: str, refusal: Refusal) -> Exception:
        if refusal.code != 404:
            return to_error(self.client, refusal)
        if refusal.kind == DATABASE or not self.has_database(database):
            return self._no_database(database)
        return make_missing_error(self.title, "view", database, view, self.views(database))

    def _create(
        self, database: str, what: str, body: Mapping[str, Any], named: str, is_same: Callable[[], bool]
    ) -> None:
        try:
            self.client.post(DATABASES, database, what, body=body)
        except Refusal as refusal:
            if refusal.code == 404:
                raise self._no_database(database) from None
            if refusal.code != 409:
                raise to_error(self.client, refusal) from None
            if not (refusal.unclear and is_same()):
                raise AlreadyExists(f"{self.title}: there is a {named} already") from None

    def _list_names(self, database: str, what: str, *, optional: bool = False) -> list[str]:
        try:
            return sorted(self.client.pages(what, DATABASES, database, what))
        except Refusal as refusal:
            if refusal.code == 404 and (refusal.kind == DATABASE or not optional):
                raise self._no_database(database) from None
            if optional and refusal.code in (404, 405, 501):
                return []
            raise to_error(self.client, refusal) from None

    def _no_database(self, name: str) -> DatabaseNotFound:
        return make_no_database_error(self.title, name, self.databases())


PREFIX = declare_honoured("prefix", TEXT, "", "Beginning of the paths of the server, which it tells itself")
DATA_TOKEN = declare_honoured("data-token.enabled", BOOL, False, "The server lends credentials of the store")
OSS_ENDPOINT = declare_honoured("dlf.oss-endpoint", TEXT, "", "Address of OSS in place of that in lent credentials")
CACHE = "Morrow's caches are its own"
MAX_MILLIS = 1 << 63
DECLARED = (
    *(PREFIX, DATA_TOKEN, OSS_ENDPOINT, *OPTIONS),
    declare_idle(CACHE, "io-cache.enabled", BOOL, False, "Caches files"),
    declare_idle(CACHE, "io-cache.whitelist-path", TEXT, "", "Files that are cached"),
    declare_idle(CACHE, "io-cache.policy", TEXT, "", "What is cached"),
)
READABLE = ("", "table", "materialized-table")
OSS_ENDPOINT_OF_STORE = "fs.oss.endpoint"
TABLES = "tables"


def open_catalog(settings: Settings) -> RestCatalog:
    """Return the catalog for these settings, with the options that the server adds.

    Raises:
        InvalidArgument: an option is missing, unknown, or has an invalid value; the server does not know the warehouse.
        StorageError: the server does not answer, or refuses this user.
    """
    settings.checked(DECLARED, (HEADER,))
    client = Client(settings)
    warehouse = settings.given.get(WAREHOUSE)
    with translate_refusals(client):
        said = client.config(**({WAREHOUSE.key: warehouse} if warehouse else {}))
    defaults, overrides = (to_texts(said.get(member)) for member in ("defaults", "overrides"))
    merged = settings.updated({**defaults, **settings.raw, **overrides})
    return RestCatalog(Client(merged, merged.given.get(PREFIX)))


@dataclass(frozen=True)
class RestCatalog(RestDatabases, RestViews, RestFolders):
    """A `Catalog` on a REST server."""

    client: Client

    @property
    def title(self) -> str:
        """The address of the server, and the warehouse."""
        warehouse = self.client.settings.given.get(WAREHOUSE)
        return f"{self.client.where} ({warehouse})" if warehouse else self.client.where

    @property
    def settings(self) -> Settings:
        """The options of the catalog and its server."""
        return self.client.settings

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the catalog and its server without secrets."""
        return self.client.settings.public

    # Tables

    def tables(self, database: str) -> list[str]:
        return self._list_names(database, TABLES)

    def has_table(self, name: str) -> bool:
        database, table = table_name(name)
        try:
            self.client.get(DATABASES, database, TABLES, table)
        except Refusal as refusal:
            if refusal.code == 404:
                return False
            raise to_error(self.client, refusal) from None
        return True

    def table(self, name: str) -> TableMetadata:
        database, table = table_name(name)
        return self._open_table(database, table, self._answer(database, table))

    def _answer(self, database: str, table: str) -> dict[str, Any]:
        """Return the server's answer about a table of any kind. Raises `DatabaseNotFound`, `TableNotFound`."""
        try:
            return self.client.get(DATABASES, database, TABLES, table)
        except Refusal as refusal:
            if refusal.code != 404:
                raise to_error(self.client, refusal) from None
            raise self._missing(database, table, refusal) from None

    def where_of(self, name: str) -> str:
        database, table = table_name(name)
        return f"{self.title}, {checked_name('database', database)}.{checked_name('table', table)}"

    def create_table(self, name: str, schema: TableSchema) -> TableMetadata:
        self.post_table(name, schema)
        return self.table(name)

    def post_table(self, name: str, schema: TableSchema) -> None:
        """Create a table on the server, and its database if it does not exist. Raises as `create_table`."""
        self.where_of(name)
        database, table = table_name(name)
        self.create_database(database, ignore_if_exists=True)
        body = {"identifier": to_identifier(database, table), "schema": to_schema_json(schema)}
        try:
            self.client.post(DATABASES, database, TABLES, body=body)
        except Refusal as refusal:
            if refusal.code != 409:
                raise to_error(self.client, refusal) from None
            if not (refusal.unclear and self._is_new(database, table, body["schema"])):
                raise AlreadyExists(f"{self.title}: there is a table {name!r} already") from None

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        database, table = table_name(name)
        try:
            self.client.delete(DATABASES, database, TABLES, table)
        except Refusal as refusal:
            if refusal.code != 404:
                raise to_error(self.client, refusal) from None
            if not (ignore_if_not_exists or refusal.unclear):
                raise self._missing(database, table, refusal) from None

    def rename_table(self, name: str, new_name: str) -> TableMetadata:
        self.table(name)  # refuse a table that is not a Paimon table, before anything is changed
        self.move_table(name, new_name)
        return self.table(new_name)

    def replace_schema(self, name: str, schema: TableSchema) -> None:
        """Replace a table by an empty one, which keeps its folder and its snapshots. Raises as `table`."""
        database, table = table_name(name)
        try:
            self.client.post(DATABASES, database, TABLES, table, "replace", body={"schema": to_schema_json(schema)})
        except Refusal as refusal:
            raise (
                self._missing(database, table, refusal) if refusal.code == 404 else to_error(self.client, refusal)
            ) from None

    def alter_folder_table(self, name: str, changes: Sequence[SchemaChange]) -> None:
        """Change the options or the comment of a format table. Raises as `table`."""
        database, table = table_name(name)
        try:
            body = {"changes": [change_of(each) for each in changes]}
            self.client.post(DATABASES, database, TABLES, table, body=body)
        except Refusal as refusal:
            raise to_error(self.client, refusal) from None

    def move_table(self, name: str, new_name: str) -> None:
        """Rename a table of any kind. Raises as `rename_table`."""
        self.where_of(new_name)
        old, new = table_name(name), table_name(new_name)
        body = {"source": to_identifier(*old), "destination": to_identifier(*new)}
        if not self.has_database(new[0]):
            raise self._no_database(new[0])
        try:
            self.client.post(TABLES, "rename", body=body)
        except Refusal as refusal:
            done = refusal.unclear and refusal.code in (404, 409) and self.has_table(new_name)
            if not (done and not self.has_table(name)):
                raise self._not_renamed(old, new, refusal) from None

    # Helpers

    def lent(self, database: str, table: str, location: str) -> tuple[FileStore, float]:
        """Return the store of a table with the server's credentials, and their expiry in epoch milliseconds."""
        with translate_refusals(self.client):
            answer = self.client.get(DATABASES, database, TABLES, table, "token")
        if not isinstance(answer.get("token"), dict):
            raise StorageError(f"{self.title}: the server returns no credentials for {database}.{table}")
        token = to_texts(answer["token"])
        if endpoint := self.client.settings.given.get(OSS_ENDPOINT):
            token[OSS_ENDPOINT_OF_STORE] = endpoint
        register_secrets(token)
        settings = self.client.settings.updated(token)
        ends = answer.get("expiresAtMillis")
        if not isinstance(ends, (int, float)) or not 0 <= ends < MAX_MILLIS:
            raise StorageError(f"{self.title}: the credentials of {database}.{table} have no expiry time")
        return resolve(location, settings.storage_options(location), settings.verify)[0], float(ends)

    def _open_table(self, database: str, table: str, answer: Mapping[str, Any]) -> TableMetadata:
        where = f"{self.title}, {database}.{table}"
        schema = read_schema(answer, where)
        location = answer.get("path")
        if not isinstance(location, str) or not location:
            raise StorageError(f"{where}: the server does not say where the table lies")
        kind = find_table_type(schema)
        if kind not in READABLE:
            hint = "Catalog.format_table and object_table open some; others are not Paimon's"
            raise Unsupported(f"a table of the type {kind!r}", where=where, hint=hint)
        settings = self.client.settings
        store, root = self._resolve_store(database, table, location)
        found = answer.get("id")
        is_external = answer.get("isExternal") is True
        make_owner = ExternalRestTable if is_external else RestTable
        owner = make_owner(self.client, database, table, None if found is None else str(found), store, root)
        metadata = TableMetadata(store, root, allowed_roots=settings.allowed_roots, owner=owner)
        if is_external and not metadata.schema_ids():
            commit_schema(metadata, to_first_schema(answer, where))
        return metadata

    def _resolve_store(self, database: str, table: str, location: str) -> tuple[FileStore, str]:
        settings, location = self.client.settings, unescape_location(location)
        if settings.given.get(DATA_TOKEN):
            return make_renewed_store(partial(self.lent, database, table, location)), resolve(location, {})[1]
        return resolve(location, settings.storage_options(location), settings.verify)

    def _is_new(self, database: str, table: str, schema: Mapping[str, Any]) -> bool:
        """Return whether a table was created by a request of this client whose answer was lost."""
        with translate_refusals(self.client):
            answer = self.client.get(DATABASES, database, TABLES, table)
        there = read_schema(answer, f"{self.title}, {database}.{table}")
        return answer.get("schemaId") == 0 and all(
            there.get(member) == schema[member] for member in ("fields", "partitionKeys", "primaryKeys")
        )

    def _missing(self, database: str, table: str, refusal: Refusal) -> DatabaseNotFound | TableNotFound:
        if refusal.kind == DATABASE or not self.has_database(database):
            return self._no_database(database)
        return make_missing_error(self.title, "table", database, table, self.tables(database))

    def _not_renamed(self, old: tuple[str, str], new: tuple[str, str], refusal: Refusal) -> Exception:
        if refusal.code == 409:
            return AlreadyExists(f"{self.title}: there is a table {'.'.join(new)!r} already")
        return self._missing(*old, refusal) if refusal.code == 404 else to_error(self.client, refusal)
