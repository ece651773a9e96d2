"""SHOW and DESCRIBE: metadata as rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import DatabaseNotFound, InvalidArgument, Unsupported
from morrow.spark.catalogs import described
from morrow.spark.catalogs.created import statement
from morrow.spark.catalogs.databases import ANSWERS as DATABASES
from morrow.spark.catalogs.partitions import ANSWERS as PARTITIONS
from morrow.spark.catalogs.place import Place
from morrow.spark.reading.expressions import quoted
from morrow.spark.statements.queries import Session
from morrow.spark.statements.tables import database
from morrow.spark.statements.text import Statement
from morrow.spark.types.to_spark import without_not_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def show(session: Session, words: Statement) -> DataFrame:
    """SHOW DATABASES, TABLES, CREATE TABLE, PARTITIONS, COLUMNS or TBLPROPERTIES."""
    if words.one_of("DATABASES", "SCHEMAS", "NAMESPACES"):
        place = _shown_place(session, words)
        return _frame(session, [(name,) for name in _like(words, place.catalog.databases())], "namespace STRING")
    if words.has("TABLES"):
        words.one_of("IN", "FROM")
        place, where = database(session, words.path())
        names = _like(words, place.catalog.tables(where))
        rows = [(where, name, False) for name in names]
        return _frame(session, rows, "namespace STRING, tableName STRING, isTemporary BOOLEAN")
    if words.has("CREATE", "TABLE"):
        place, name = session.named(words.path())
        words.end()
        text = statement((place.name, *name.split(".", 1)), place.table(name))
        return _frame(session, [(text,)], "createtab_stmt STRING")
    if words.has("PARTITIONS"):
        place, name = session.named(words.path())
        words.end()
        return _frame(session, _partitions(place, name), "partition STRING")
    if words.has("COLUMNS"):
        words.one_of("IN", "FROM")
        table = session.table(words.path())
        words.end()
        return _frame(session, [(name,) for name in table.schema.names], "col_name STRING")
    if words.has("TBLPROPERTIES"):
        table = session.table(words.path())
        words.end()
        return _frame(session, sorted(described.properties(table).items()), "key STRING, value STRING")
    raise Unsupported(
        f"SHOW {words.word()} here", hint="there are DATABASES, TABLES, PARTITIONS, COLUMNS, TBLPROPERTIES, TAGS"
    )


def _shown_place(session: Session, words: Statement) -> Place:
    if not words.one_of("IN", "FROM"):
        raise words.unexpected("IN and the name of a catalog")
    (name,) = words.path()[:1]
    if name not in session.places:
        raise DatabaseNotFound(f"there is no catalog {name}; there are {', '.join(session.places)}")
    return session.places[name]


def _like(words: Statement, names: Sequence[str]) -> list[str]:
    """Takes ``LIKE 'pattern'``, of ``*`` and ``|``; returns the names that it is true of."""
    if words.is_at_end():
        return list(names)
    words.has("LIKE")
    pattern = words.text_if_any()
    if pattern is None:
        raise words.unexpected("a pattern")
    words.end()
    parts = (re.escape(part.strip()).replace(r"\*", ".*") for part in pattern.split("|"))
    wanted = re.compile("|".join(parts), re.IGNORECASE)
    return [name for name in names if wanted.fullmatch(name)]


def _partitions(place: Place, name: str) -> list[tuple[str]]:
    table = place.table(name)
    if not table.partition_keys:
        raise InvalidArgument(f"{table.path}: it is not partitioned")
    keys = table.partition_keys
    found = PARTITIONS["partitions"](place, {"table": name}, None)
    texts = found.selectExpr(*(f"CAST({quoted(key)} AS STRING)" for key in keys)).collect()  # type: ignore[attr-defined]
    rows = ("/".join(f"{key}={'null' if value is None else value}" for key, value in zip(keys, row)) for row in texts)
    return [(row,) for row in sorted(rows)]


def describe(session: Session, words: Statement) -> DataFrame:
    """DESCRIBE [TABLE] [EXTENDED] t; DESCRIBE DATABASE [EXTENDED] d."""
    if words.one_of("DATABASE", "SCHEMA", "NAMESPACE"):
        return _described_database(session, words)
    words.has("TABLE")
    extended = words.has("EXTENDED")
    place, name = session.named(words.path())
    words.end()
    table = place.table(name)
    columns = without_not_null(table.scan().fields) if not table.primary_keys else table.scan().fields
    fields = described.columns(columns).fields
    rows: list[tuple[str, str, str | None]] = [
        (field.name, field.dataType.simpleString(), field.metadata.get("comment")) for field in fields
    ]
    if table.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [row for row in rows[: len(fields)] if row[0] in table.partition_keys]
    if extended:
        properties: Mapping[str, str] = described.properties(table)
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), ("Name", f"{place.name}.{name}", "")]
        rows += [(key, value, "") for key, value in sorted(properties.items())]
    return _frame(session, rows, "col_name STRING, data_type STRING, comment STRING")


def _described_database(session: Session, words: Statement) -> DataFrame:
    words.has("EXTENDED")
    place, name = database(session, words.path())
    words.end()
    told = DATABASES["database"](place, {"database": name}, None)
    if not isinstance(told, Mapping):
        raise DatabaseNotFound(f"there is no database {place.name}.{name}")
    location = [("Location", told["location"])] if "location" in told else []
    rows = [("Catalog Name", place.name), ("Namespace Name", name), *location]
    return _frame(session, rows, "info_name STRING, info_value STRING")


def _frame(session: Session, rows: Sequence[tuple[Any, ...]], columns: str) -> DataFrame:
    return session.spark.createDataFrame(list(rows), columns)
