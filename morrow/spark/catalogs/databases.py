"""Databases: SHOW, DESCRIBE, CREATE and DROP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from morrow.engine.catalog.names import SYSTEM_DATABASE
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.readers.system.catalog_tables import NAMES
from morrow.spark.catalogs.place import Place, Question, is_database_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OWNER = "owner"
"""A property that Spark adds itself."""


def _names(place: Place, _question: Question, _rows: DataFrame | None) -> list[str]:
    return place.catalog.databases()


def _described(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, str] | None:
    """Returns the metadata of a database, None where there is none of this name."""
    name = question["database"]
    if name == SYSTEM_DATABASE:
        return {}
    if not is_database_name(name) or name not in place.catalog.databases():
        return None
    return {"location": f"{place.catalog.warehouse.rstrip('/')}/{name}.db"}


def _create(place: Place, question: Question, _rows: DataFrame | None) -> None:
    name = question["database"]
    for key in question["properties"]:
        if key != OWNER:
            raise Unsupported(f"the {key} of the database {name}", hint="a database is a folder and nothing else")
    if not is_database_name(name):
        raise InvalidArgument(f"{name!r} is no name for a database: it has none of . / \\ $")
    place.catalog.create_database(name)


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
    "drop database": _drop,
    "tables": _tables,
}
