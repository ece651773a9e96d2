"""Views: queries that a catalog keeps under a name, among the names of its tables.

A view has a text for all engines, and may have one for each of some `dialects`: ``spark``, ``flink``, ``duckdb``. Who
runs it chooses. Members of the JSON are those of Paimon's ``ViewSchema``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from morrow.engine.catalog.protocol import Catalog
from morrow.engine.errors import StorageError, Unsupported
from morrow.engine.format.type_json import field_from_json, field_to_json
from morrow.engine.format.types import DataField


@dataclass(frozen=True)
class View:
    """A query, its columns, and its texts for engines by dialect."""

    query: str
    fields: tuple[DataField, ...]
    dialects: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


class ViewCatalog(Protocol):
    """A catalog that keeps views. Names are ``database.view``."""

    def views(self, database: str) -> list[str]:
        """Returns the names of the views of a database, sorted. Raises `DatabaseNotFound`."""

    def view(self, name: str) -> View:
        """Returns a view. Raises `DatabaseNotFound`, `TableNotFound`."""

    def create_view(self, name: str, view: View) -> None:
        """Creates a view. Raises `DatabaseNotFound`, `AlreadyExists`: there is a view or table of this name."""

    def drop_view(self, name: str) -> None:
        """Drops a view. Raises `DatabaseNotFound`, `TableNotFound`."""


def has_views(catalog: Catalog) -> bool:
    """Returns whether a catalog can keep views."""
    return all(hasattr(catalog, method) for method in ("views", "view", "create_view", "drop_view"))


def views_of(catalog: Catalog) -> ViewCatalog:
    """Returns the catalog, for its views. Raises `Unsupported` where it can have none."""
    if not has_views(catalog):
        raise Unsupported("views", where=catalog.title, hint="catalogs with metastore=rest, jdbc or hive have them")
    return cast(ViewCatalog, catalog)


def view_from_json(node: Any, where: str) -> View:
    """Returns a view of its JSON. Raises `StorageError` for one without text or columns, `Unsupported` for a type."""
    node = node if isinstance(node, dict) else {}
    query, fields = node.get("query"), node.get("fields")
    if not isinstance(query, str) or not isinstance(fields, list):
        raise StorageError(f"{where}: the catalog does not tell the text and the columns of the view")
    return View(
        query,
        tuple(field_from_json(each, where=where) for each in fields),
        _texts(node.get("dialects")),
        node.get("comment"),
        _texts(node.get("options")),
    )


def view_to_json(view: View) -> dict[str, Any]:
    """Returns the JSON of a view."""
    return {
        "fields": [field_to_json(each) for each in view.fields],
        "query": view.query,
        "dialects": dict(view.dialects),
        "comment": view.comment,
        "options": dict(view.options),
    }


def _texts(node: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in node.items() if value is not None} if isinstance(node, dict) else {}
