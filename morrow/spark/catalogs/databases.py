"""Databases: SHOW, DESCRIBE, CREATE, ALTER and DROP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from morrow.engine.catalog.databases import COMMENT, LOCATION, OWNER, keeps_properties
from morrow.engine.catalog.names import SYSTEM_DATABASE
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.telling import without_secrets
from morrow.readers.system.catalog_tables import NAMES
from morrow.spark.catalogs.place import Place, Question, is_database_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _names(place: Place, _question: Question, _rows: DataFrame | None) -> list[str]:
    return place.catalog.databases()


def _described(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, str] | None:
    """Returns the metadata of a database, None where there is none of this name."""
    name = question["database"]
    if name == SYSTEM_DATABASE:
        return {}
    if not is_database_name(name) or name not in place.catalog.databases():
        return None
    found = place.catalog.database(name)
    own = {COMMENT: found.comment, OWNER: found.owner, LOCATION: found.location}
    told = {key: value for key, value in own.items() if value is not None}
    return {**without_secrets(found.properties), **told}


def _create(place: Place, question: Question, _rows: DataFrame | None) -> None:
    name = question["database"]
    if not is_database_name(name):
        raise InvalidArgument(f"{name!r} is no name for a database: it has none of . / \\ $")
    given = dict(question["properties"])
    if not keeps_properties(place.catalog._catalog):
        given.pop(OWNER, None)  # Spark adds it itself
    place.catalog.create_database(name, properties=given)


def _alter(place: Place, question: Question, _rows: DataFrame | None) -> None:
    name = question["database"]
    if name == SYSTEM_DATABASE:
        raise Unsupported(f"ALTER DATABASE of {SYSTEM_DATABASE}, the database of the catalog's own tables,")
    set_, removed = dict[str, str](), dict[str, None]()
    for key, value in question["changes"]:  # the last one of a property counts
        set_.pop(key, None)
        removed.pop(key, None)
        if value is None:
            removed[key] = None
        else:
            set_[key] = value
    place.catalog.alter_database(name, set_, unset=tuple(removed))


def _drop(place: Place, question: Question, _rows: DataFrame | None) -> None:
    if question["database"] == SYSTEM_DATABASE:
        raise Unsupported(f"dropping {SYSTEM_DATABASE}, the database of the catalog's own tables,")
    place.catalog.drop_database(question["database"], cascade=question["cascade"])


def _tables(place: Place, question: Question, _rows: DataFrame | None) -> list[str]:
    if question["database"] == SYSTEM_DATABASE:
        return list(NAMES)
    return place.catalog.tables(question["database"])


ANSWERS = {
    "databases": _names,
    "database": _described,
    "create database": _create,
    "alter database": _alter,
    "drop database": _drop,
    "tables": _tables,
}
