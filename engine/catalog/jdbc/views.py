"""Views of a JDBC catalog: rows of ``paimon_views``, whose text is JSON as Java's."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from morrow.engine.catalog.jdbc.rows import CatalogRows
from morrow.engine.catalog.names import checked_name, table_name
from morrow.engine.catalog.views import View, view_from_json, view_to_json
from morrow.engine.errors import AlreadyExists, StorageError, TableNotFound
from morrow.engine.telling import did_you_mean


class JdbcViews:
    """The methods of a JDBC catalog for views."""

    rows: CatalogRows
    title: Any
    has_table: Callable[[str], bool]
    _known: Callable[[str], None]
    _lock: Callable[[str, str], AbstractContextManager[object]]

    def views(self, database: str) -> list[str]:
        """Returns the names of the views of a database, sorted. Raises `DatabaseNotFound`."""
        self._known(database)
        return self.rows.views(database)

    def view(self, name: str) -> View:
        """Returns a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        database, view = table_name(name)
        text = self.rows.view(database, view)
        if text is None:
            raise self._without_view(database, view)
        where = f"{self.title}, {name}"
        try:
            return view_from_json(json.loads(text), where)
        except ValueError as error:
            raise StorageError(f"{where}: the view is no JSON: {error}") from error

    def create_view(self, name: str, view: View) -> None:
        """Creates a view. Raises `DatabaseNotFound`, `AlreadyExists`."""
        database, own = table_name(name)
        checked_name("view", own)
        self._known(database)
        text = json.dumps(view_to_json(view), ensure_ascii=False)
        with self._lock(database, own):
            if self.has_table(name) or not self.rows.add_view(database, own, text):
                raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already")

    def drop_view(self, name: str) -> None:
        """Drops a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        database, view = table_name(name)
        if not self.rows.remove_view(database, view):
            raise self._without_view(database, view)

    def _without_view(self, database: str, view: str) -> TableNotFound:
        views = self.views(database)
        known, hint = ", ".join(views) or "none", did_you_mean(view, views)
        return TableNotFound(
            f"{self.title}: there is no view '{database}.{view}'; {hint}the views of {database} are: {known}"
        )
