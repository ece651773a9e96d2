"""Databases of a REST server, with their properties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from morrow.engine.catalog.databases import LOCATION, OWNER, check_empty, refuse_renaming
from morrow.engine.catalog.names import checked_name
from morrow.engine.catalog.rest.client import Client, Refusal
from morrow.engine.catalog.rest.messages import texts
from morrow.engine.catalog.rest.table import told
from morrow.engine.catalog.rest.views import DATABASES
from morrow.engine.errors import AlreadyExists, DatabaseNotFound

TOLD = (LOCATION, OWNER, "createdBy", "createdAt", "updatedBy", "updatedAt")
"""Members of an answer beside its options, which clients show as properties."""


class RestDatabases:
    """The methods of a REST catalog for databases."""

    client: Client
    title: Any
    tables: Callable[[str], list[str]]
    views: Callable[[str], list[str]]
    drop_table: Callable[..., None]
    _no_database: Callable[[str], DatabaseNotFound]

    def databases(self) -> list[str]:
        with asked(self.client):
            return sorted(self.client.pages(DATABASES, DATABASES))

    def has_database(self, name: str) -> bool:
        try:
            self.client.get(DATABASES, name)
        except Refusal as refusal:
            if refusal.code == 404:
                return False
            raise told(self.client, refusal) from None
        return True

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        body = {"name": checked_name("database", name), "options": dict(properties or {})}
        try:
            self.client.post(DATABASES, body=body)
        except Refusal as refusal:
            if refusal.code != 409:
                raise told(self.client, refusal) from None
            if not (ignore_if_exists or refusal.unclear):
                raise AlreadyExists(f"{self.title}: there is a database {name!r} already") from None

    def database_properties(self, name: str) -> dict[str, str]:
        try:
            answer = self.client.get(DATABASES, name)
        except Refusal as refusal:
            raise self._without(name, refusal) from None
        beside = {key: str(answer[key]) for key in TOLD if answer.get(key) is not None}
        return {**texts(answer.get("options")), **beside}

    def alter_database(self, name: str, properties: Mapping[str, str], removed: Iterable[str]) -> None:
        body = {"removals": list(removed), "updates": dict(properties)}
        try:
            self.client.post(DATABASES, name, body=body)
        except Refusal as refusal:
            raise self._without(name, refusal) from None

    def _without(self, name: str, refusal: Refusal) -> Exception:
        return self._no_database(name) if refusal.code == 404 else told(self.client, refusal)

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        if ignore_if_not_exists and not self.has_database(name):
            return
        tables, views = self.tables(name), self.views(name)
        if not cascade:
            check_empty(self.title, name, tables, views)
        for table in tables:
            self.drop_table(f"{name}.{table}", ignore_if_not_exists=True)
        with asked(self.client, gone=True):
            self.client.delete(DATABASES, name)

    def rename_database(self, name: str, new_name: str) -> None:
        if not self.has_database(name):
            raise self._no_database(name)
        refuse_renaming(self, new_name)


@contextmanager
def asked(client: Client, *, gone: bool = False) -> Iterator[None]:
    """Turns refusals within the block into errors; `gone`: what is not there any more was removed by an earlier try."""
    try:
        yield
    except Refusal as refusal:
        if not (gone and refusal.code == 404 and refusal.unclear):
            raise told(client, refusal) from None
