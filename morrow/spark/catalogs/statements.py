"""Statements of Paimon's that Spark does not know, done by the driver: tags, CREATE TABLE LIKE, ANALYZE TABLE."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import AlreadyExists, Unsupported
from morrow.engine.options.declared.table import PATH
from morrow.engine.options.kinds import names
from morrow.scans.scan_arguments import checked_columns
from morrow.spark.catalogs.place import Place, full_name
from morrow.spark.catalogs.rewriting import unpacked
from morrow.spark.catalogs.syntax import ALL_ANALYZED
from morrow.spark.catalogs.tables import IGNORED, PROVIDERS, check_database
from morrow.spark.maintenance.analyzing import analyzed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.engine.format.schema import TableSchema

Parts = Mapping[str, Any]


def run(place: Place, packed: str) -> DataFrame:
    """Does a statement, and returns its rows.

    Raises `TableNotFound`, and as the methods of `Table.tags` and `Catalog.create_table`.
    """

    statement, name = unpacked(packed)
    if statement.verb == "show tags":
        tags = sorted(place.table(name).tags.names)
        return place.spark.createDataFrame([(tag,) for tag in tags], "tag STRING NOT NULL")
    _DONE[statement.verb](place, name, statement.parts)
    return place.spark.range(1).limit(0).select()


def _create_tag(place: Place, name: str, parts: Parts) -> None:
    tags = place.table(name).tags
    seconds = parts.get("seconds")
    retained = None if seconds is None else dt.timedelta(seconds=seconds)
    tag, snapshot = parts["tag"], parts.get("snapshot")
    if parts["replace"] and tag in tags:  # as in Paimon, REPLACE TAG creates a missing one
        tags.replace(tag, snapshot, retained)
    else:
        tags.create(tag, snapshot, retained, ignore_if_exists=parts["if not exists"])


def _delete_tags(place: Place, name: str, parts: Parts) -> None:
    tags = place.table(name).tags
    wanted = names(parts["tags"])
    if not parts["if exists"]:
        for tag in wanted:
            tags.get(tag)  # none is deleted where one is missing
    for tag in wanted:
        tags.delete(tag, ignore_if_not_exists=True)


def _rename_tag(place: Place, name: str, parts: Parts) -> None:
    tags = place.table(name).tags
    if parts["tag"] in tags or not parts["if exists"]:
        tags.rename(parts["tag"], parts["to"])


def _create_like(place: Place, name: str, parts: Parts) -> None:
    """Creates a table with the columns, keys, partitions, options and comment of another one."""
    provider = parts.get("provider", PROVIDERS[0]).lower()
    if provider not in PROVIDERS:
        raise Unsupported(f"a table USING {provider}", hint="write USING paimon, or leave it out")
    other = next((key for key in parts["properties"] if key in IGNORED or key == "location"), None)
    if other is not None:
        raise Unsupported(f"the property {other!r} in CREATE TABLE LIKE")
    check_database(place, name.partition(".")[0])
    *namespace, source_name = parts["source"]
    source = place.table(full_name(namespace, source_name))
    options = {key: value for key, value in source.options.items() if key != PATH.key}
    try:
        place.catalog.create_table(
            name,
            schema=source._newest,
            partition_keys=source.partition_keys,
            options={**options, **parts["properties"]},
            comment=source.comment,
        )
    except AlreadyExists:
        if not parts["if not exists"]:
            raise


def _analyze(place: Place, name: str, parts: Parts) -> None:
    if parts["partition"]:
        raise Unsupported("ANALYZE TABLE of partitions", hint="analyse the whole table")
    if parts["noscan"]:
        raise Unsupported("ANALYZE TABLE with NOSCAN, which finds nothing that metadata does not tell,")
    table = place.table(name)
    schema = table._newest
    columns = (
        tuple(schema.by_name) if parts["columns"] is None else [_column(schema, each) for each in parts["columns"]]
    )
    analyzed(table._target(), checked_columns(columns), place.spark)


def _analyze_all(place: Place, database: str, parts: Parts) -> None:
    """Analyses every table of a database, in the order of their names."""
    if parts["noscan"]:
        raise Unsupported("ANALYZE TABLES with NOSCAN, which finds nothing that metadata does not tell,")
    for name in place.catalog.tables(database):
        analyzed(place.table(f"{database}.{name}")._target(), (), place.spark)


def _column(schema: TableSchema, name: str) -> str:
    """Returns the column that Spark would find by this name, in any case. Raises `ColumnNotFound`."""
    alike = [each for each in schema.by_name if each.lower() == name.lower()]
    return name if name in schema.by_name else schema.column(alike[0] if len(alike) == 1 else name).name


_DONE: Mapping[str, Callable[[Place, str, Parts], None]] = {
    "create tag": _create_tag,
    "delete tag": _delete_tags,
    "rename tag": _rename_tag,
    "create like": _create_like,
    "analyze": _analyze,
    ALL_ANALYZED: _analyze_all,
}
"""By the verb of a statement."""
