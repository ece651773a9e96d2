"""ALTER TABLE ... TAG and SHOW TAGS: statements of Paimon's, done by the driver."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from morrow.engine.options.kinds import names
from morrow.spark.catalogs.place import Place
from morrow.spark.catalogs.rewriting import unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.table import Table


def run(place: Place, packed: str) -> DataFrame:
    """Does a statement, and returns its rows. Raises `TableNotFound`, and as the methods of `Table.tags`."""
    from pyspark.sql.types import StructType

    statement, name = unpacked(packed)
    table = place.table(name)
    if statement.verb == "show tags":
        return place.spark.createDataFrame([(tag,) for tag in sorted(table.tags.names)], "tag STRING NOT NULL")
    _CHANGES[statement.verb](table, statement.parts)
    return place.spark.createDataFrame([], StructType([]))


def _create(table: Table, parts: Mapping[str, Any]) -> None:
    seconds = parts.get("seconds")
    retained = None if seconds is None else dt.timedelta(seconds=seconds)
    name, snapshot = parts["tag"], parts.get("snapshot")
    if parts["replace"] and name in table.tags:  # as in Paimon, REPLACE TAG creates a missing one
        table.tags.replace(name, snapshot, retained)
    else:
        table.tags.create(name, snapshot, retained, ignore_if_exists=parts["if not exists"])


def _delete(table: Table, parts: Mapping[str, Any]) -> None:
    wanted = names(parts["tags"])
    if not parts["if exists"]:
        for name in wanted:
            table.tags.get(name)  # none is deleted where one is missing
    for name in wanted:
        table.tags.delete(name, ignore_if_not_exists=True)


def _rename(table: Table, parts: Mapping[str, Any]) -> None:
    if parts["tag"] in table.tags or not parts["if exists"]:
        table.tags.rename(parts["tag"], parts["to"])


_CHANGES: Mapping[str, Callable[[Table, Mapping[str, Any]], None]] = {
    "create tag": _create,
    "delete tag": _delete,
    "rename tag": _rename,
}
"""By the verb of a statement."""
