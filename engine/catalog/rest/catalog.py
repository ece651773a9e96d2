"""The REST catalog: databases and tables of a server (views: `views`); rows are read from the files of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from morrow.engine.catalog.names import checked_name, table_name
from morrow.engine.catalog.rest.client import HEADER, Client, Refusal
from morrow.engine.catalog.rest.databases import RestDatabases, asked
from morrow.engine.catalog.rest.folders import RestFolders
from morrow.engine.catalog.rest.messages import identifier, kind_of, schema_of, texts, told_schema
from morrow.engine.catalog.rest.signing import OPTIONS
from morrow.engine.catalog.rest.table import RestTable, told
from morrow.engine.catalog.rest.views import DATABASE, DATABASES, RestViews
from morrow.engine.catalog.settings import WAREHOUSE, Settings
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    StorageError,
    TableNotFound,
    Unsupported,
)
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.renewed import renewed
from morrow.engine.io.resolve import resolve, unescaped
from morrow.engine.io.store import FileStore
from morrow.engine.options.declaring import honoured, idle
from morrow.engine.options.kinds import BOOL, TEXT
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.telling import did_you_mean, remember

PREFIX = honoured("prefix", TEXT, "", "Beginning of the paths of the server, which it tells itself")
DATA_TOKEN = honoured("data-token.enabled", BOOL, False, "The server lends credentials of the store")
OSS_ENDPOINT = honoured("dlf.oss-endpoint", TEXT, "", "Address of OSS in place of that in lent credentials")
CACHE = "Morrow's caches are its own"
MOST_MILLIS = 1 << 63
DECLARED = (
    *(PREFIX, DATA_TOKEN, OSS_ENDPOINT, *OPTIONS),
    idle(CACHE, "io-cache.enabled", BOOL, False, "Caches files"),
    idle(CACHE, "io-cache.whitelist-path", TEXT, "", "Files that are cached"),
    idle(CACHE, "io-cache.policy", TEXT, "", "What is cached"),
)
READABLE = ("", "table", "materialized-table")
OSS_ENDPOINT_OF_STORE = "fs.oss.endpoint"
TABLES = "tables"


def opened(settings: Settings) -> RestCatalog:
    """Returns the catalog of these settings, and of what the server adds to them.

    Raises:
        InvalidArgument: an option that is missing, unknown, or has a value of no meaning; the server does not know the
            warehouse.
        StorageError: the server does not answer, or does not let this user in.
    """
    settings.checked(DECLARED, (HEADER,))
    client = Client(settings)
    warehouse = settings.given.get(WAREHOUSE)
    with asked(client):
        said = client.config(**({WAREHOUSE.key: warehouse} if warehouse else {}))
    defaults, overrides = (texts(said.get(member)) for member in ("defaults", "overrides"))
    merged = settings.updated({**defaults, **settings.raw, **overrides})
    return RestCatalog(Client(merged, merged.given.get(PREFIX)))


@dataclass(frozen=True)
class RestCatalog(RestDatabases, RestViews, RestFolders):
    """A `Catalog` of a server."""

    client: Client

    @property
    def title(self) -> str:
        """The address of the server, and the warehouse there."""
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
        return self._listed(database, TABLES)

    def has_table(self, name: str) -> bool:
        database, table = table_name(name)
        try:
            self.client.get(DATABASES, database, TABLES, table)
        except Refusal as refusal:
            if refusal.code == 404:
                return False
            raise told(self.client, refusal) from None
        return True

    def table(self, name: str) -> TableMetadata:
        database, table = table_name(name)
        return self._opened(database, table, self._answer(database, table))

    def _answer(self, database: str, table: str) -> dict[str, Any]:
        """Returns what the server says of a table of any kind. Raises `DatabaseNotFound`, `TableNotFound`."""
        try:
            return self.client.get(DATABASES, database, TABLES, table)
        except Refusal as refusal:
            if refusal.code != 404:
                raise told(self.client, refusal) from None
            raise self._missing(database, table, refusal) from None

    def where_of(self, name: str) -> str:
        database, table = table_name(name)
        return f"{self.title}, {checked_name('database', database)}.{checked_name('table', table)}"

    def create_table(self, name: str, schema: TableSchema) -> TableMetadata:
        self.post_table(name, schema)
        return self.table(name)

    def post_table(self, name: str, schema: TableSchema) -> None:
        """Has the server make a table, and its database if it does not exist. Raises as `create_table`."""
        self.where_of(name)
        database, table = table_name(name)
        self.create_database(database, ignore_if_exists=True)
        body = {"identifier": identifier(database, table), "schema": schema_of(schema)}
        try:
            self.client.post(DATABASES, database, TABLES, body=body)
        except Refusal as refusal:
            if refusal.code != 409:
                raise told(self.client, refusal) from None
            if not (refusal.unclear and self._is_new(database, table, body["schema"])):
                raise AlreadyExists(f"{self.title}: there is a table {name!r} already") from None

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        database, table = table_name(name)
        try:
            self.client.delete(DATABASES, database, TABLES, table)
        except Refusal as refusal:
            if refusal.code != 404:
                raise told(self.client, refusal) from None
            if not (ignore_if_not_exists or refusal.unclear):
                raise self._missing(database, table, refusal) from None

    def rename_table(self, name: str, new_name: str) -> TableMetadata:
        self.where_of(new_name)
        old, new = table_name(name), table_name(new_name)
        body = {"source": identifier(*old), "destination": identifier(*new)}
        if not self.has_database(new[0]):
            raise self._no_database(new[0])
        self.table(name)  # one that is not Paimon's own is refused before anything is done
        try:
            self.client.post(TABLES, "rename", body=body)
        except Refusal as refusal:
            done = refusal.unclear and refusal.code in (404, 409) and self.has_table(new_name)
            if not (done and not self.has_table(name)):
                raise self._not_renamed(old, new, refusal) from None
        return self.table(new_name)

    # Parts

    def lent(self, database: str, table: str, location: str) -> tuple[FileStore, float]:
        """Returns the store of a table with credentials of the server, and when they end, in epoch milliseconds."""
        with asked(self.client):
            answer = self.client.get(DATABASES, database, TABLES, table, "token")
        if not isinstance(answer.get("token"), dict):
            raise StorageError(f"{self.title}: the server lends no credentials of {database}.{table}")
        token = texts(answer["token"])
        if endpoint := self.client.settings.given.get(OSS_ENDPOINT):
            token[OSS_ENDPOINT_OF_STORE] = endpoint
        remember(token)
        settings = self.client.settings.updated(token)
        ends = answer.get("expiresAtMillis")
        if not isinstance(ends, (int, float)) or not 0 <= ends < MOST_MILLIS:
            raise StorageError(f"{self.title}: the credentials of {database}.{table} do not say when they end")
        return resolve(location, settings.storage_options(location), settings.verify)[0], float(ends)

    def _opened(self, database: str, table: str, answer: Mapping[str, Any]) -> TableMetadata:
        where = f"{self.title}, {database}.{table}"
        schema = told_schema(answer, where)
        location = answer.get("path")
        if not isinstance(location, str) or not location:
            raise StorageError(f"{where}: the server does not say where the table lies")
        kind = kind_of(schema)
        if kind not in READABLE:
            hint = "Catalog.format_table and object_table open some; others are not Paimon's"
            raise Unsupported(f"a table of the type {kind!r}", where=where, hint=hint)
        settings = self.client.settings
        store, root = self._stored(database, table, location)
        found = answer.get("id")
        owner = RestTable(self.client, database, table, None if found is None else str(found), store, root)
        return TableMetadata(store, root, allowed_roots=settings.allowed_roots, owner=owner)

    def _stored(self, database: str, table: str, location: str) -> tuple[FileStore, str]:
        settings, location = self.client.settings, unescaped(location)
        if settings.given.get(DATA_TOKEN):
            return renewed(partial(self.lent, database, table, location)), resolve(location, {})[1]
        return resolve(location, settings.storage_options(location), settings.verify)

    def _is_new(self, database: str, table: str, schema: Mapping[str, Any]) -> bool:
        """Returns whether a table is the one that a request made, whose answer was lost."""
        with asked(self.client):
            answer = self.client.get(DATABASES, database, TABLES, table)
        there = told_schema(answer, f"{self.title}, {database}.{table}")
        return answer.get("schemaId") == 0 and all(
            there.get(member) == schema[member] for member in ("fields", "partitionKeys", "primaryKeys")
        )

    def _missing(self, database: str, table: str, refusal: Refusal) -> DatabaseNotFound | TableNotFound:
        if refusal.kind == DATABASE or not self.has_database(database):
            return self._no_database(database)
        tables = self.tables(database)
        known, hint = ", ".join(tables) or "none", did_you_mean(table, tables)
        return TableNotFound(
            f"{self.title}: there is no table '{database}.{table}'; {hint}the tables of {database} are: {known}"
        )

    def _not_renamed(self, old: tuple[str, str], new: tuple[str, str], refusal: Refusal) -> Exception:
        if refusal.code == 409:
            return AlreadyExists(f"{self.title}: there is a table {'.'.join(new)!r} already")
        return self._missing(*old, refusal) if refusal.code == 404 else told(self.client, refusal)
