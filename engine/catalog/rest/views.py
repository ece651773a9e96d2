"""Views and functions of a REST server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from morrow.engine.catalog.functions import Function, function_from_json
from morrow.engine.catalog.names import checked_name, table_name
from morrow.engine.catalog.rest.client import Client, Refusal
from morrow.engine.catalog.rest.messages import identifier
from morrow.engine.catalog.rest.table import told
from morrow.engine.catalog.views import View, view_from_json, view_to_json
from morrow.engine.errors import AlreadyExists, DatabaseNotFound, TableNotFound
from morrow.engine.telling import did_you_mean

DATABASES, VIEWS, FUNCTIONS = "databases", "views", "functions"
DATABASE = "DATABASE"


class RestViews:
    """The methods of a REST catalog for views and functions."""

    client: Client
    title: Any
    has_table: Callable[[str], bool]
    has_database: Callable[[str], bool]
    databases: Callable[[], list[str]]

    def views(self, database: str) -> list[str]:
        """Returns the names of the views of a database, sorted; none where the server has no views."""
        return self._listed(database, VIEWS, optional=True)

    def functions(self, database: str) -> list[str]:
        """Returns the names of the functions of a database, sorted; none where the server has none."""
        return self._listed(database, FUNCTIONS, optional=True)

    def function(self, name: str) -> Function:
        """Returns a function. Raises `DatabaseNotFound`, `TableNotFound`: there is none of this name."""
        database, function = table_name(name)
        try:
            answer = self.client.get(DATABASES, database, FUNCTIONS, function)
        except Refusal as refusal:
            if refusal.code != 404:
                raise told(self.client, refusal) from None
            functions = self.functions(database)
            known, hint = ", ".join(functions) or "none", did_you_mean(function, functions)
            raise TableNotFound(
                f"{self.title}: there is no function {name!r}; {hint}the functions of {database} are: {known}"
            ) from None
        return function_from_json(answer, f"{self.title}, {name}")

    def view(self, name: str) -> View:
        """Returns a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        database, view = table_name(name)
        try:
            answer = self.client.get(DATABASES, database, VIEWS, view)
        except Refusal as refusal:
            raise self._without_view(database, view, refusal) from None
        return view_from_json(answer.get("schema"), f"{self.title}, {name}")

    def create_view(self, name: str, view: View) -> None:
        """Creates a view. Raises `DatabaseNotFound`, `AlreadyExists`."""
        database, own = table_name(name)
        body = {"identifier": identifier(database, checked_name("view", own)), "schema": view_to_json(view)}
        if self.has_table(name):
            raise AlreadyExists(f"{self.title}: there is a table {name!r} already")
        try:
            self.client.post(DATABASES, database, VIEWS, body=body)
        except Refusal as refusal:
            if refusal.code == 404:
                raise self._no_database(database) from None
            if refusal.code != 409:
                raise told(self.client, refusal) from None
            if not (refusal.unclear and self.view(name) == view):
                raise AlreadyExists(f"{self.title}: there is a view {name!r} already") from None

    def drop_view(self, name: str) -> None:
        """Drops a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        database, view = table_name(name)
        try:
            self.client.delete(DATABASES, database, VIEWS, view)
        except Refusal as refusal:
            if not (refusal.code == 404 and refusal.unclear):
                raise self._without_view(database, view, refusal) from None

    def _without_view(self, database: str, view: str, refusal: Refusal) -> Exception:
        if refusal.code != 404:
            return told(self.client, refusal)
        if refusal.kind == DATABASE or not self.has_database(database):
            return self._no_database(database)
        views = self.views(database)
        known, hint = ", ".join(views) or "none", did_you_mean(view, views)
        return TableNotFound(
            f"{self.title}: there is no view '{database}.{view}'; {hint}the views of {database} are: {known}"
        )

    def _listed(self, database: str, what: str, *, optional: bool = False) -> list[str]:
        try:
            return sorted(self.client.pages(what, DATABASES, database, what))
        except Refusal as refusal:
            if refusal.code == 404 and (refusal.kind == DATABASE or not optional):
                raise self._no_database(database) from None
            if optional and refusal.code in (404, 405, 501):
                return []
            raise told(self.client, refusal) from None

    def _no_database(self, name: str) -> DatabaseNotFound:
        databases = self.databases()
        known, hint = ", ".join(databases) or "none", did_you_mean(name, databases)
        return DatabaseNotFound(f"{self.title}: there is no database {name!r}; {hint}the databases are: {known}")
