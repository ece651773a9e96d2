"""The tables of a JDBC catalog in its database, and the statements about them. Names and types are Java's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from morrow.engine.catalog.jdbc.databases import Database, Duplicate
from morrow.engine.errors import AlreadyExists, InvalidArgument, StorageError

TABLES = "paimon_tables"
DATABASE_PROPERTIES = "paimon_database_properties"
TABLE_PROPERTIES = "paimon_table_properties"
VIEWS = "paimon_views"
LOCKS = "paimon_distributed_locks"

EXISTS = "exists"
MOST_NAME = 255
MOST_VALUE = 1000

_KEY = f"VARCHAR({MOST_NAME}) NOT NULL"
_VALUE = f"VARCHAR({MOST_VALUE})"
COLUMNS = {
    TABLES: f"catalog_key {_KEY}, database_name {_KEY}, table_name {_KEY}, "
    "PRIMARY KEY (catalog_key, database_name, table_name)",
    DATABASE_PROPERTIES: f"catalog_key {_KEY}, database_name {_KEY}, property_key VARCHAR({MOST_NAME}), "
    f"property_value {_VALUE}, PRIMARY KEY (catalog_key, database_name, property_key)",
    TABLE_PROPERTIES: f"catalog_key {_KEY}, database_name {_KEY}, table_name {_KEY}, property_key {_KEY}, "
    f"property_value {_VALUE}, PRIMARY KEY (catalog_key, database_name, table_name, property_key)",
    VIEWS: f"catalog_key {_KEY}, database_name {_KEY}, view_name {_KEY}, view_schema TEXT NOT NULL, "
    "PRIMARY KEY (catalog_key, database_name, view_name)",
}
LOCK_COLUMNS = (
    "lock_id VARCHAR({most}) NOT NULL, acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, "
    "expire_time_seconds BIGINT DEFAULT 0 NOT NULL, PRIMARY KEY (lock_id)"
)
OF_DATABASE = "catalog_key = ? AND database_name = ?"
OF_TABLE = f"{OF_DATABASE} AND table_name = ?"


@dataclass(frozen=True)
class CatalogRows:
    """The rows of the catalog `key` in a database: several catalogs may share one."""

    database: Database
    key: str

    def prepare(self, lock_key_length: int | None) -> None:
        """Makes the tables that are not there; that of locks where the length of their keys is given."""
        wanted = dict(COLUMNS)
        if lock_key_length is not None:
            wanted[LOCKS] = LOCK_COLUMNS.format(most=lock_key_length)
        for name, columns in wanted.items():
            if self.database.has_table(name):
                continue
            try:
                with suppress(Duplicate):  # PostgreSQL's word for another one that makes it now
                    self.database.run(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
            except StorageError:
                if not self.database.has_table(name):
                    raise

    # Databases

    def databases(self) -> list[str]:
        """Returns the names of all databases, sorted: of those that have properties, tables or views."""
        homes = (TABLES, DATABASE_PROPERTIES, VIEWS)
        union = " UNION ".join(f"SELECT database_name FROM {home} WHERE catalog_key = ?" for home in homes)
        return sorted(row[0] for row in self.database.ask(union, *[self.key] * len(homes)))

    def has_database(self, name: str) -> bool:
        homes = (TABLES, DATABASE_PROPERTIES, VIEWS)
        union = " UNION ALL ".join(f"SELECT 1 FROM {home} WHERE {OF_DATABASE}" for home in homes)
        return bool(self.database.ask(f"{union} LIMIT 1", *[self.key, name] * len(homes)))

    def add_database(self, name: str, properties: Mapping[str, str]) -> bool:
        """Adds a database with these properties; returns False where there is one."""
        if self.has_database(name):
            return False
        _check_length(name)
        _check_properties(f"property of the database {name}", properties)
        rows = [(self.key, name, key, value) for key, value in {EXISTS: "true", **properties}.items()]
        insert = f"INSERT INTO {DATABASE_PROPERTIES} VALUES {', '.join(['(?, ?, ?, ?)'] * len(rows))}"
        try:
            self.database.run(insert, *chain.from_iterable(rows))
        except Duplicate:
            return False
        return True

    def database_properties(self, name: str) -> dict[str, str]:
        """Returns the properties of a database but for the mark that it exists."""
        query = f"SELECT property_key, property_value FROM {DATABASE_PROPERTIES} WHERE {OF_DATABASE}"
        rows = self.database.ask(query, self.key, name)
        return {str(key): str(value) for key, value in rows if key != EXISTS and value is not None}

    def change_database(self, name: str, properties: Mapping[str, str], removed: Iterable[str]) -> None:
        """Sets some properties of a database, if it is still there, and removes others."""
        _check_properties(f"property of the database {name}", properties)
        rows = [(self.key, name, key, value) for key, value in properties.items()]
        if rows:
            homes = " OR ".join(
                f"EXISTS (SELECT 1 FROM {home} WHERE {OF_DATABASE})" for home in (TABLES, DATABASE_PROPERTIES, VIEWS)
            )
            self.database.run(
                f"INSERT INTO {DATABASE_PROPERTIES} (catalog_key, database_name, property_key, property_value) "
                f"SELECT * FROM (VALUES {', '.join(['(?, ?, ?, ?)'] * len(rows))}) AS given WHERE {homes} "
                "ON CONFLICT (catalog_key, database_name, property_key) "
                "DO UPDATE SET property_value = excluded.property_value",
                *chain.from_iterable(rows),
                *[self.key, name] * 3,
            )
        gone = tuple(removed)
        if gone:
            marks = ", ".join("?" * len(gone))
            query = f"DELETE FROM {DATABASE_PROPERTIES} WHERE {OF_DATABASE} AND property_key IN ({marks})"
            self.database.run(query, self.key, name, *gone)

    def remove_database(self, name: str) -> None:
        for home in (TABLES, DATABASE_PROPERTIES, TABLE_PROPERTIES, VIEWS):
            self.database.run(f"DELETE FROM {home} WHERE {OF_DATABASE}", self.key, name)

    def views(self, database: str) -> list[str]:
        """Returns the names of the views of a database, sorted."""
        rows = self.database.ask(f"SELECT view_name FROM {VIEWS} WHERE {OF_DATABASE}", self.key, database)
        return sorted(row[0] for row in rows)

    def view(self, database: str, view: str) -> str | None:
        """Returns the JSON of a view, None where there is none."""
        query = f"SELECT view_schema FROM {VIEWS} WHERE {OF_DATABASE} AND view_name = ?"
        rows = self.database.ask(query, self.key, database, view)
        return str(rows[0][0]) if rows else None

    def add_view(self, database: str, view: str, json: str) -> bool:
        """Adds a view; returns False when there is one of this name."""
        try:
            self.database.run(f"INSERT INTO {VIEWS} VALUES (?, ?, ?, ?)", self.key, database, view, json)
        except Duplicate:
            return False
        return True

    def remove_view(self, database: str, view: str) -> bool:
        """Removes a view; returns False when there was none."""
        query = f"DELETE FROM {VIEWS} WHERE {OF_DATABASE} AND view_name = ?"
        return self.database.run(query, self.key, database, view) > 0

    # Tables

    def tables(self, database: str) -> list[str]:
        """Returns the names of the tables of a database, sorted."""
        rows = self.database.ask(f"SELECT table_name FROM {TABLES} WHERE {OF_DATABASE}", self.key, database)
        return sorted(row[0] for row in rows)

    def has_table(self, database: str, table: str) -> bool:
        return bool(self.database.ask(f"SELECT 1 FROM {TABLES} WHERE {OF_TABLE}", self.key, database, table))

    def add_table(self, database: str, table: str) -> None:
        """Adds a table. Raises `AlreadyExists`."""
        try:
            self.database.run(f"INSERT INTO {TABLES} VALUES (?, ?, ?)", self.key, database, table)
        except Duplicate as error:
            raise AlreadyExists(f"{self.database.where}: there is a table {database}.{table} already") from error

    def remove_table(self, database: str, table: str) -> bool:
        """Removes a table with its properties; returns False where there is none."""
        removed = self.database.run(f"DELETE FROM {TABLES} WHERE {OF_TABLE}", self.key, database, table)
        self.database.run(f"DELETE FROM {TABLE_PROPERTIES} WHERE {OF_TABLE}", self.key, database, table)
        return removed > 0

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Renames a table with its properties. Raises `AlreadyExists`."""
        for home in (TABLES, TABLE_PROPERTIES):
            try:
                update = f"UPDATE {home} SET database_name = ?, table_name = ? WHERE {OF_TABLE}"
                self.database.run(update, *new, self.key, *old)
            except Duplicate as error:
                raise AlreadyExists(f"{self.database.where}: there is a table {'.'.join(new)} already") from error

    def set_properties(self, database: str, table: str, properties: Mapping[str, str]) -> None:
        """Replaces the properties of a table."""
        self.database.run(f"DELETE FROM {TABLE_PROPERTIES} WHERE {OF_TABLE}", self.key, database, table)
        for name, value in properties.items():
            with suppress(Duplicate):  # another one does the same
                self.database.run(
                    f"INSERT INTO {TABLE_PROPERTIES} VALUES (?, ?, ?, ?, ?)", self.key, database, table, name, value
                )


def check_properties(table: str, properties: Mapping[str, str]) -> None:
    """Raises `InvalidArgument` for options that the database has no room for."""
    _check_length(table)
    _check_properties(f"option of {table}", properties, "; open the catalog with sync-all-properties=false")


def _check_properties(what: str, properties: Mapping[str, str], hint: str = "") -> None:
    for name, value in properties.items():
        if len(name) > MOST_NAME or len(value) > MOST_VALUE:
            raise InvalidArgument(
                f"the {what}, {name[:MOST_NAME]!r}, is longer than a JDBC catalog keeps: {MOST_NAME} characters of "
                f"name and {MOST_VALUE} of value{hint}"
            )


def _check_length(name: str) -> None:
    if len(name) > MOST_NAME:
        raise InvalidArgument(f"the name {name[:40]!r}... has {len(name)} characters, a JDBC catalog keeps {MOST_NAME}")
