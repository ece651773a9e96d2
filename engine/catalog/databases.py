"""Databases with properties: what catalogs store about a database besides the names of its tables.

Properties are strings by name. All clients of a catalog agree on the meaning of three of them: `COMMENT`, `OWNER`, and
`LOCATION`, the folder that contains the tables. The filesystem catalog stores no properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol, cast

from morrow.engine.arguments import check_mapping, check_text, check_texts
from morrow.engine.catalog.names import checked_name, make_no_database_error
from morrow.engine.catalog.protocol import Catalog
from morrow.engine.errors import AlreadyExists, InvalidArgument, Unsupported
from morrow.engine.redaction import is_secret
from morrow.engine.units import format_count

COMMENT = "comment"
OWNER = "owner"
LOCATION = "location"
HINT = "catalogs with metastore=rest, jdbc or hive keep them; a folder of databases cannot"


@dataclass(frozen=True)
class Database:
    """A database. Fields that the catalog does not report are null; `properties` has all properties without a field."""

    name: str
    comment: str | None = None
    owner: str | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


class Named(Protocol):
    """The part of a catalog that looks up database names."""

    @property
    def title(self) -> str: ...
    def has_database(self, name: str) -> bool: ...


class PropertyCatalog(Protocol):
    """A catalog that stores properties of databases."""

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a database with these properties, as `Catalog.create_database` does.

        Raises `Unsupported`: a property that the catalog does not store, such as a location; nothing was created.
        """

    def database_properties(self, name: str) -> dict[str, str]:
        """Return the properties of a database, including comment, owner and location. Raises `DatabaseNotFound`."""

    def alter_database(self, name: str, properties: Mapping[str, str], removed: Iterable[str]) -> None:
        """Set some properties of a database and remove others if they exist.

        Raises:
            DatabaseNotFound: the database does not exist.
            Unsupported: a property that the catalog does not change; nothing was changed.
        """


def find_database(catalog: Catalog, name: str) -> Database:
    """Return a database with the properties that the catalog reports. Raises `DatabaseNotFound`."""
    if hasattr(catalog, "database_properties"):
        told = cast(PropertyCatalog, catalog).database_properties(name)
    elif catalog.has_database(name):
        told = {}
    else:
        raise make_no_database_error(catalog.title, name, catalog.databases())
    rest = {key: value for key, value in sorted(told.items()) if key not in (COMMENT, OWNER, LOCATION)}
    return Database(name, told.get(COMMENT) or None, told.get(OWNER), told.get(LOCATION), rest)


def create_database(catalog: Catalog, name: str, properties: Mapping[str, str], *, ignore_if_exists: bool) -> None:
    """Create a database. Raises as `Catalog.create_database`, and `Unsupported` if properties are not stored."""
    if not properties:
        catalog.create_database(name, ignore_if_exists=ignore_if_exists)
        return
    require_properties(catalog, f"a database with {_format_names(properties)}").create_database(
        name, ignore_if_exists=ignore_if_exists, properties=properties
    )


def require_properties(catalog: Catalog, what: str) -> PropertyCatalog:
    """Return the catalog if it stores properties of databases. Raises `Unsupported` otherwise."""
    if not has_properties(catalog):
        folder = "Cannot specify location for a database when using fileSystem catalog. " if LOCATION in what else ""
        raise Unsupported(what, where=catalog.title, hint=folder + HINT)
    return cast(PropertyCatalog, catalog)


def has_properties(catalog: Catalog) -> bool:
    """Return whether a catalog stores properties of databases."""
    return hasattr(catalog, "alter_database") and hasattr(catalog, "database_properties")


def check_properties(given: Mapping[str, object] | None, comment: str | None = None) -> dict[str, str]:
    """Return properties as strings, including the comment.

    Raises:
        InvalidArgument: an invalid name or value.
        Unsupported: the name of a secret, since everyone can read properties.
    """
    found: dict[str, str] = {}
    for key, value in check_mapping(given, "properties").items():
        if not check_text(key, "the name of a property").strip():
            raise InvalidArgument("the name of a property of a database is empty")
        if is_secret(key):
            hint = "a catalog is given secrets by its options"
            raise Unsupported(f"the property {key!r} of a database, which keeps no secrets,", hint=hint)
        if not isinstance(value, (str, int, float)):
            raise InvalidArgument(f"the property {key!r} of a database is text, not {value!r}")
        found[key] = str(value).lower() if isinstance(value, bool) else check_text(str(value), f"the property {key!r}")
    if comment is not None:
        if COMMENT in found:
            raise InvalidArgument("the comment of a database is given twice")
        found[COMMENT] = check_text(comment, "the comment of a database")
    return found


def alter_database(catalog: Catalog, name: str, properties: Mapping[str, str], removed: str | Sequence[str]) -> None:
    """Change properties of a database. Raises as `PropertyCatalog.alter_database`, and `InvalidArgument`."""
    gone = check_texts(removed, "unset")
    if both := sorted(set(properties) & set(gone)):
        raise InvalidArgument(f"the property {both[0]!r} of the database {name} is set and unset at once")
    if not properties and not gone:
        raise InvalidArgument(f"no change of the database {name} was asked for")
    able = require_properties(catalog, f"{_format_names((*properties, *gone))} of the database {name!r}")
    able.alter_database(name, properties, gone)


def refuse(where: str, properties: Iterable[str], reserved: Mapping[str, str]) -> None:
    """Raise `Unsupported` for a property that the catalog reserves, and suggest a remedy."""
    for key in properties:
        if key in reserved:
            raise Unsupported(f"the property {key!r} of a database", where=where, hint=reserved[key])


def check_empty(where: object, name: str, tables: Sequence[str], views: Sequence[str] | None = None) -> None:
    """Raise `InvalidArgument` if a database has tables or views; `views` is None if the catalog has no views."""
    held = [*tables, *(views or ())]
    if held:
        counts = format_count(len(tables), "table") + (
            "" if views is None else f" and {format_count(len(views), 'view')}"
        )
        raise InvalidArgument(
            f"{where}: the database {name!r} holds {counts} ({', '.join(held[:5])}); "
            "drop them first, or pass cascade=True"
        )


def refuse_renaming(catalog: Named, new_name: str) -> NoReturn:
    """Refuse to rename a database: the catalog cannot do so in one step. Raises `AlreadyExists`, `Unsupported`."""
    if catalog.has_database(checked_name("database", new_name)):
        raise AlreadyExists(f"{catalog.title}: there is a database {new_name!r} already")
    raise Unsupported("renaming a database", where=catalog.title, hint="rename its tables one by one")


def _format_names(keys: Iterable[str]) -> str:
    names = list(keys)
    return f"the propert{'y' if len(names) == 1 else 'ies'} {', '.join(names)}"
