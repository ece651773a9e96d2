"""Views and functions of a catalog: listed, created, dropped. `Catalog.sql` reads views, and calls functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.arguments import mapping, text
from morrow.engine.catalog.names import table_name
from morrow.engine.catalog.views import View, views_of
from morrow.engine.errors import AlreadyExists, TableNotFound, Unsupported

if TYPE_CHECKING:
    from morrow.engine.catalog.functions import Function
    from morrow.engine.catalog.protocol import Catalog as CatalogProtocol


class CatalogViews:
    """The methods of `morrow.Catalog` for views and functions."""

    _catalog: CatalogProtocol

    def views(self, database: str) -> list[str]:
        """Returns the names of the views of a database, sorted. Raises `DatabaseNotFound`, `Unsupported`."""
        return views_of(self._catalog).views(database)

    def view(self, name: str) -> View:
        """Returns the view ``database.view``: its text, its texts for other engines, its columns.

        Raises:
            DatabaseNotFound, TableNotFound. Unsupported: a catalog without views.
        """
        return views_of(self._catalog).view(name)

    def create_view(
        self,
        name: str,
        query: str,
        *,
        dialects: Mapping[str, str] | None = None,
        comment: str | None = None,
        options: Mapping[str, object] | None = None,
        ignore_if_exists: bool = False,
    ) -> View:
        """Creates the view ``database.view`` of a query, which other engines of the catalog may read as well.

        Args:
            query: SQL as `Catalog.sql` runs it; names without a database are those of the view's own. Its columns are
                found now.
            dialects: the query as other engines write it: ``{"spark": "SELECT ...", "flink": "SELECT ..."}``.
            comment, options: kept with the view.
            ignore_if_exists: return the existing view, whatever its query.

        Raises:
            AlreadyExists: there is a table or view of this name. InvalidArgument: the query.
            DatabaseNotFound, TableNotFound: it reads what is not there. Unsupported: a catalog without views.
        """
        catalog = views_of(self._catalog)
        database, _ = table_name(name)
        if ignore_if_exists and name.partition(".")[2] in catalog.views(database):
            return catalog.view(name)
        from morrow.engine.schema.creating import new_schema

        rows = cast(Any, self).sql(text(query, "query"), database=database)
        made = new_schema(rows.limit(0).to_arrow_table().schema, where=name)
        given = {key: text(value, "a text of a dialect") for key, value in mapping(dialects, "dialects").items()}
        settings = {key: str(value) for key, value in mapping(options, "options").items()}
        view = View(query, made.fields, given, comment, settings)
        try:
            catalog.create_view(name, view)
        except AlreadyExists:
            if not ignore_if_exists:
                raise
        return catalog.view(name)

    def drop_view(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drops a view. Raises `DatabaseNotFound`, `TableNotFound`, and `Unsupported`: a catalog without views."""
        try:
            views_of(self._catalog).drop_view(name)
        except TableNotFound:
            if not ignore_if_not_exists:
                raise

    def functions(self, database: str) -> list[str]:
        """Returns the names of the functions that a REST server keeps in a database, sorted.

        Raises:
            DatabaseNotFound. Unsupported: a catalog without functions.
        """
        self._check_functions()
        return cast("list[str]", cast("Any", self._catalog).functions(database))

    def function(self, name: str) -> Function:
        """Returns the function ``database.name`` of a REST server; `Catalog.sql` calls those that are defined in SQL.

        Raises:
            DatabaseNotFound. TableNotFound: no such function. Unsupported: a catalog without functions.
        """
        self._check_functions()
        return cast("Function", cast("Any", self._catalog).function(name))

    def _check_functions(self) -> None:
        if not hasattr(self._catalog, "functions"):
            hint = "catalogs with metastore=rest have them"
            raise Unsupported("functions", where=self._catalog.title, hint=hint)
