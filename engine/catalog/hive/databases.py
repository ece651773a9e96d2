"""Databases of a metastore, and where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from morrow.engine.catalog import databases
from morrow.engine.catalog.databases import check_empty, refuse, refuse_renaming
from morrow.engine.catalog.hive.client import Gone, Metastore, Taken, thrift_types, user
from morrow.engine.catalog.hive.options import HiveOptions
from morrow.engine.catalog.hive.tables import LOCATION, Kept
from morrow.engine.errors import AlreadyExists, DatabaseNotFound, Unsupported
from morrow.engine.format.paths import DATABASE_SUFFIX
from morrow.engine.io.confined import confined
from morrow.engine.telling import did_you_mean

RESERVED = {LOCATION: "say where a database lies by its location"}
"""Parameters of databases that users do not set."""


class HiveDatabases:
    """The methods of a Hive catalog for databases."""

    metastore: Metastore
    kept: Kept
    choices: HiveOptions
    title: Any
    tables: Callable[[str], list[str]]
    views: Callable[[str], list[str]]
    drop_table: Callable[..., None]
    check_name: Callable[[str, str], None]
    resolved: Callable[[str], Any]

    def databases(self) -> list[str]:
        return sorted(self.metastore.call("get_all_databases"))

    def has_database(self, name: str) -> bool:
        try:
            self.metastore.call("get_database", name)
        except Gone:
            return False
        return True

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        self.check_name("database", name)
        given = dict(properties or {})
        refuse(self.title, given, RESERVED)
        location = given.pop(databases.LOCATION, f"{self.choices.location}/{name}{DATABASE_SUFFIX}")
        comment, owner = given.pop(databases.COMMENT, None), given.pop(databases.OWNER, user())
        made = thrift_types().Database(name, comment, location, given, ownerName=owner, ownerType=1)
        if self.kept.location_in_properties:
            made.locationUri, made.parameters = None, {**given, LOCATION: location}
        if self.has_database(name):
            if not ignore_if_exists:
                raise AlreadyExists(f"{self.title}: there is a database {name!r} already")
            return
        if self.kept.location_in_properties:
            store, root = self.resolved(location)
            store.make_folder(root)
        try:
            self.metastore.call("create_database", made)
        except Taken:
            if not ignore_if_exists:
                raise AlreadyExists(f"{self.title}: there is a database {name!r} already") from None

    def database_properties(self, name: str) -> dict[str, str]:
        return {**self._kept_properties(self._database(name)), databases.LOCATION: self.location_of_database(name)}

    def alter_database(self, name: str, properties: Mapping[str, str], removed: Iterable[str]) -> None:
        gone = frozenset(removed)
        refuse(self.title, (*properties, *gone), {**RESERVED, databases.LOCATION: "make another database there"})
        before, changed = self._database(name), self._database(name)
        kept = {**self._kept_properties(before), **properties}
        kept = {key: value for key, value in kept.items() if key not in gone}
        hidden = {key: value for key, value in (before.parameters or {}).items() if key in RESERVED}
        changed.description = kept.pop(databases.COMMENT, None)
        changed.ownerName = kept.pop(databases.OWNER, None)
        changed.parameters = {**kept, **hidden}
        self.metastore.call("alter_database", name, changed)
        there = self._kept_properties(self._database(name))
        for key in (*properties, *gone):
            if (there.get(key) or None) != (properties.get(key) or None):  # metastores of Hive 2 keep the first comment
                self.metastore.call("alter_database", name, before)
                what = f"changing the property {key!r} of the database {name!r}, which this metastore leaves as it is,"
                raise Unsupported(what, where=self.title, hint="give it when the database is created")

    def _kept_properties(self, found: Any) -> dict[str, str]:
        told = {key: value for key, value in (found.parameters or {}).items() if key not in RESERVED}
        own = {databases.COMMENT: found.description, databases.OWNER: found.ownerName}
        return {**told, **{key: value for key, value in own.items() if value is not None}}

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        if ignore_if_not_exists and not self.has_database(name):
            return
        tables, views = self.tables(name), self.views(name)
        if not cascade:
            check_empty(self.title, name, tables, views)
        location = self.location_of_database(name)
        for table in tables:
            self.drop_table(f"{name}.{table}", ignore_if_not_exists=True)
        for view in views:
            self.metastore.call("drop_table", name, view, False)
        self.metastore.call("drop_database", name, True, False)
        if self.kept.location_in_properties:
            store, root = self.resolved(location)
            confined(store, (root.rpartition("/")[0],)).delete_folder(root)

    def rename_database(self, name: str, new_name: str) -> None:
        self._database(name)
        self.check_name("database", new_name)
        refuse_renaming(self, new_name)

    def location_of_database(self, name: str) -> str:
        """Returns the folder or URL below which tables of a database are made. Raises `DatabaseNotFound`."""
        found = self._database(name)
        location = (found.parameters or {}).get(LOCATION) or found.locationUri
        return str(location).rstrip("/") if location else f"{self.choices.location}/{name}{DATABASE_SUFFIX}"

    def _database(self, name: str) -> Any:
        try:
            return self.metastore.call("get_database", name)
        except Gone:
            names = self.databases()
            known, hint = ", ".join(names) or "none", did_you_mean(name, names)
            text = f"{self.title}: there is no database {name!r}; {hint}the databases are: {known}"
            raise DatabaseNotFound(text) from None
