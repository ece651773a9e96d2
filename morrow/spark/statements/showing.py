"""SHOW and DESCRIBE: metadata as rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import ColumnNotFound, DatabaseNotFound, InvalidArgument, Unsupported
from morrow.spark.catalogs import described
from morrow.spark.catalogs.created import statement
from morrow.spark.catalogs.partitions import ANSWERS as PARTITIONS
from morrow.spark.catalogs.place import Place
from morrow.spark.reading.expressions import quoted
from morrow.spark.statements import databases
from morrow.spark.statements.queries import QUERIES, Session, query
from morrow.spark.statements.rows import partition
from morrow.spark.statements.text import Statement
from morrow.spark.types.to_spark import without_not_null
from morrow.statements.words import DATABASE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def show(session: Session, words: Statement) -> DataFrame:
    """SHOW DATABASES, TABLES, CREATE TABLE, PARTITIONS, COLUMNS or TBLPROPERTIES."""
    if words.one_of("DATABASES", "SCHEMAS", "NAMESPACES"):
        place = _shown_place(session, words)
        return _frame(session, [(name,) for name in _like(words, place.catalog.databases())], "namespace STRING")
    if words.has("TABLES"):
        place, where = databases.database(session, words.path() if words.one_of("IN", "FROM") else ())
        names = _like(words, place.catalog.tables(where))
        rows = [(where, name, False) for name in names]
        return _frame(session, rows, "namespace STRING, tableName STRING, isTemporary BOOLEAN")
    if words.has("CURRENT") and words.one_of(*DATABASE):
        words.end()
        return _frame(session, [databases.now(session)], "catalog STRING, namespace STRING")
    if words.has("CREATE", "TABLE"):
        place, name = session.named(words.path())
        words.end()
        text = statement((place.name, *name.split(".", 1)), place.table(name))
        return _frame(session, [(text,)], "createtab_stmt STRING")
    if words.has("PARTITIONS"):
        place, name = session.named(words.path())
        spec = partition(session, words) if words.has("PARTITION") else {}
        words.end()
        return _frame(session, _partitions(place, name, spec), "partition STRING")
    if words.has("COLUMNS"):
        words.one_of("IN", "FROM")
        path = words.path()
        if words.one_of("IN", "FROM"):
            path = (*words.path(), *path[-1:])
        table = session.table(path)
        words.end()
        return _frame(session, [(name,) for name in table.schema.names], "col_name STRING")
    if words.has("TBLPROPERTIES"):
        table = session.table(words.path())
        wanted = words.enclosed(words.property_key)[0] if words.word() == "(" else None
        words.end()
        told = {**described.properties(table)}
        if wanted is not None:
            told = {wanted: told.get(wanted, f"Table {table.name} does not have property: {wanted}")}
        return _frame(session, sorted(told.items()), "key STRING, value STRING")
    raise Unsupported(
        f"SHOW {words.word()} here", hint="there are DATABASES, TABLES, PARTITIONS, COLUMNS, TBLPROPERTIES, TAGS"
    )


def _shown_place(session: Session, words: Statement) -> Place:
    if words.one_of("IN", "FROM"):
        (name,) = words.path()
    else:
        name = databases.now(session)[0]
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


def _partitions(place: Place, name: str, spec: Mapping[str, str | None]) -> list[tuple[str]]:
    table = place.table(name)
    if not table.partition_keys:
        raise InvalidArgument(f"{table.path}: it is not partitioned")
    keys = table.partition_keys
    found = PARTITIONS["partitions"](place, {"table": name}, None)
    texts = found.selectExpr(*(f"CAST({quoted(key)} AS STRING)" for key in keys)).collect()  # type: ignore[attr-defined]
    if unknown := sorted(set(spec) - set(keys)):
        raise InvalidArgument(f"{table.path}: {unknown[0]!r} is no partition column; there are {', '.join(keys)}")
    texts = [row for row in texts if all(row[keys.index(key)] == value for key, value in spec.items())]
    rows = ("/".join(f"{key}={'null' if value is None else value}" for key, value in zip(keys, row)) for row in texts)
    return [(row,) for row in sorted(rows)]


def describe(session: Session, words: Statement) -> DataFrame:
    """DESCRIBE [TABLE] [EXTENDED] t; DESCRIBE DATABASE [EXTENDED] d."""
    if words.one_of(*DATABASE):
        return databases.describe(session, words)
    if words.has("QUERY") or words.word() in QUERIES[:4]:
        return _described_query(session, words)
    words.has("TABLE")
    extended = words.one_of("EXTENDED", "FORMATTED") is not None
    place, name = session.named(words.path())
    column = None if words.is_at_end() else words.path()
    words.end()
    table = place.table(name)
    columns = without_not_null(table.scan().fields) if not table.primary_keys else table.scan().fields
    fields = described.columns(columns).fields
    rows: list[tuple[str, str, str | None]] = [
        (field.name, field.dataType.simpleString(), field.metadata.get("comment")) for field in fields
    ]
    if column is not None:
        return _described_column(session, rows, column)
    if table.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [row for row in rows[: len(fields)] if row[0] in table.partition_keys]
    if extended:
        properties: Mapping[str, str] = described.properties(table)
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), ("Name", f"{place.name}.{name}", "")]
        rows += [(key, value, "") for key, value in sorted(properties.items())]
    return _frame(session, rows, "col_name STRING, data_type STRING, comment STRING")


def _described_column(
    session: Session, rows: Sequence[tuple[str, str, str | None]], path: tuple[str, ...]
) -> DataFrame:
    found = [row for row in rows if len(path) == 1 and row[0].casefold() == path[0].casefold()]
    if not found:
        raise ColumnNotFound(f"there is no column {'.'.join(path)}; there are {', '.join(row[0] for row in rows)}")
    told = list(zip(("col_name", "data_type", "comment"), found[0]))
    return _frame(session, told, "info_name STRING, info_value STRING")


def _described_query(session: Session, words: Statement) -> DataFrame:
    fields = query(session, words.rest()).schema.fields
    rows = [(field.name, field.dataType.simpleString(), field.metadata.get("comment")) for field in fields]
    return _frame(session, rows, "col_name STRING, data_type STRING, comment STRING")


def _frame(session: Session, rows: Sequence[tuple[Any, ...]], columns: str) -> DataFrame:
    return session.spark.createDataFrame(list(rows), columns)
