"""Databases: USE, CREATE, ALTER, COMMENT ON, DESCRIBE and DROP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from morrow.engine.catalog.databases import COMMENT, LOCATION, OWNER
from morrow.engine.errors import DatabaseNotFound, InvalidArgument
from morrow.spark.catalogs.databases import ANSWERS
from morrow.spark.catalogs.place import Place
from morrow.spark.statements.current import current, full_database
from morrow.spark.statements.queries import Session
from morrow.spark.statements.text import Statement
from morrow.statements.parsing_alterations import text_or_null
from morrow.statements.parsing_databases import changes_of, properties_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = {COMMENT: "Comment", LOCATION: "Location", OWNER: "Owner"}
"""Spark's words for properties, in its order."""


def database(session: Session, path: tuple[str, ...]) -> tuple[Place, str]:
    """Returns the warehouse and the database that a name is of. Raises `DatabaseNotFound`."""
    path = full_database(session, path)
    place = session.place(path)
    if place is None or len(path) != 2:
        raise DatabaseNotFound(f"there is no database {'.'.join(path)}; they are named catalog.database")
    return place, path[1]


def now(session: Session) -> tuple[str, str]:
    """Returns the current catalog and database. Raises `InvalidArgument` where they are Spark's."""
    found = current(session)
    if found is None:
        raise InvalidArgument(f"of which catalog? Name one, or USE one of {', '.join(session.places)}")
    return found


def create(session: Session, words: Statement) -> None:
    ignores = words.has("IF", "NOT", "EXISTS")
    place, name = database(session, words.path())
    properties = properties_of(words)
    place.catalog.create_database(name, properties=properties, ignore_if_exists=ignores)


def alter(session: Session, words: Statement) -> None:
    place, name = database(session, words.path())
    properties, removed = changes_of(words)
    words.end()
    changes = [*properties.items(), *((key, None) for key in removed)]
    ANSWERS["alter database"](place, {"database": name, "changes": changes}, None)


def comment(session: Session, words: Statement) -> None:
    place, name = database(session, words.path())
    words.need("IS")
    text = text_or_null(words) or ""
    words.end()
    ANSWERS["alter database"](place, {"database": name, "changes": [(COMMENT, text)]}, None)


def drop(session: Session, words: Statement) -> None:
    ignores = words.has("IF", "EXISTS")
    place, name = database(session, words.path())
    cascade = words.has("CASCADE")
    words.has("RESTRICT")
    words.end()
    place.catalog.drop_database(name, cascade=cascade, ignore_if_not_exists=ignores)


def describe(session: Session, words: Statement) -> DataFrame:
    extended = words.has("EXTENDED")
    place, name = database(session, words.path())
    words.end()
    told: Any = ANSWERS["database"](place, {"database": name}, None)
    if not isinstance(told, Mapping):
        raise DatabaseNotFound(f"there is no database {place.name}.{name}")
    rows = [("Catalog Name", place.name), ("Namespace Name", name)]
    rows += [(word, told[key]) for key, word in SHOWN.items() if told.get(key)]
    if extended:
        others = ", ".join(f"({key},{value})" for key, value in sorted(told.items()) if key not in SHOWN)
        rows.append(("Properties", f"({others})" if others else ""))
    return session.spark.createDataFrame(rows, "info_name STRING, info_value STRING")
