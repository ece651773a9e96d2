"""`morrow.spark.sql`: statements over ``pm.db.t``, also without a reachable JVM, and on Spark 3.5.

This module executes SHOW, DESCRIBE and CALL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import ColumnNotFound, DatabaseNotFound, InvalidArgument, Unsupported
from morrow.engine.io.resolve import Roots, resolve_roots
from morrow.procedures.procedure import Kind
from morrow.procedures.registry import find_procedure
from morrow.queries.incremental import CHANGES_BY
from morrow.spark.catalogs import descriptions
from morrow.spark.catalogs.descriptions import format_create_table
from morrow.spark.catalogs.partitions import ANSWERS as PARTITIONS
from morrow.spark.catalogs.questions import Place
from morrow.spark.catalogs.registration import catalog as make_catalog
from morrow.spark.expressions import quote_name
from morrow.spark.procedures import call
from morrow.spark.statements import ddl, dml
from morrow.spark.statements.dml import parse_partition
from morrow.spark.statements.queries import QUERIES, Session, complete_path, get_current, query, use
from morrow.spark.statements.tokens import Statement
from morrow.spark.types import drop_not_null
from morrow.spark.versions import check_catalogs
from morrow.spark.views import Access, list_attached
from morrow.statements.tokens import DATABASE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from morrow.catalogs.catalog import Catalog


def show(session: Session, words: Statement) -> DataFrame:
    """Execute SHOW DATABASES, TABLES, CREATE TABLE, PARTITIONS, COLUMNS or TBLPROPERTIES."""
    if words.one_of("DATABASES", "SCHEMAS", "NAMESPACES"):
        place = _parse_place(session, words)
        return _make_frame(
            session, [(name,) for name in _filter_like(words, place.catalog.databases())], "namespace STRING"
        )
    if words.has("TABLES"):
        place, where = ddl.find_database(session, words.path() if words.one_of("IN", "FROM") else ())
        names = _filter_like(words, place.catalog.tables(where))
        rows = [(where, name, False) for name in names]
        return _make_frame(session, rows, "namespace STRING, tableName STRING, isTemporary BOOLEAN")
    if words.has("CURRENT") and words.one_of(*DATABASE):
        words.end()
        return _make_frame(session, [ddl.require_current(session)], "catalog STRING, namespace STRING")
    if words.has("CREATE", "TABLE"):
        place, name = session.named(words.path())
        words.end()
        text = format_create_table((place.name, *name.split(".", 1)), place.table(name))
        return _make_frame(session, [(text,)], "createtab_stmt STRING")
    if words.has("PARTITIONS"):
        place, name = session.named(words.path())
        spec = parse_partition(session, words) if words.has("PARTITION") else {}
        words.end()
        return _make_frame(session, _list_partitions(place, name, spec), "partition STRING")
    if words.has("COLUMNS"):
        words.one_of("IN", "FROM")
        path = words.path()
        if words.one_of("IN", "FROM"):
            path = (*words.path(), *path[-1:])
        table = session.table(path)
        words.end()
        return _make_frame(session, [(name,) for name in table.schema.names], "col_name STRING")
    if words.has("TBLPROPERTIES"):
        table = session.table(words.path())
        wanted = words.enclosed(words.property_key)[0] if words.word() == "(" else None
        words.end()
        told = {**descriptions.collect_properties(table)}
        if wanted is not None:
            told = {wanted: told.get(wanted, f"Table {table.name} does not have property: {wanted}")}
        return _make_frame(session, sorted(told.items()), "key STRING, value STRING")
    raise Unsupported(
        f"SHOW {words.word()} here", hint="there are DATABASES, TABLES, PARTITIONS, COLUMNS, TBLPROPERTIES, TAGS"
    )


def _parse_place(session: Session, words: Statement) -> Place:
    if words.one_of("IN", "FROM"):
        (name,) = words.path()
    else:
        name = ddl.require_current(session)[0]
    if name not in session.places:
        raise DatabaseNotFound(f"there is no catalog {name}; there are {', '.join(session.places)}")
    return session.places[name]


def _filter_like(words: Statement, names: Sequence[str]) -> list[str]:
    """Parse ``LIKE 'pattern'`` with ``*`` and ``|``; return the names that match."""
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


def _list_partitions(place: Place, name: str, spec: Mapping[str, str | None]) -> list[tuple[str]]:
    table = place.table(name)
    if not table.partition_keys:
        raise InvalidArgument(f"{table.path}: it is not partitioned")
    keys = table.partition_keys
    found = PARTITIONS["partitions"](place, {"table": name}, None)
    texts = found.selectExpr(*(f"CAST({quote_name(key)} AS STRING)" for key in keys)).collect()  # type: ignore[attr-defined]
    if unknown := sorted(set(spec) - set(keys)):
        raise InvalidArgument(f"{table.path}: {unknown[0]!r} is no partition column; there are {', '.join(keys)}")
    texts = [row for row in texts if all(row[keys.index(key)] == value for key, value in spec.items())]
    rows = ("/".join(f"{key}={'null' if value is None else value}" for key, value in zip(keys, row)) for row in texts)
    return [(row,) for row in sorted(rows)]


def describe(session: Session, words: Statement) -> DataFrame:
    """Execute DESCRIBE [TABLE] [EXTENDED] t or DESCRIBE DATABASE [EXTENDED] d."""
    if words.one_of(*DATABASE):
        return ddl.describe_database(session, words)
    if words.has("QUERY") or words.word() in QUERIES[:4]:
        return _describe_query(session, words)
    words.has("TABLE")
    extended = words.one_of("EXTENDED", "FORMATTED") is not None
    place, name = session.named(words.path())
    column = None if words.is_at_end() else words.path()
    words.end()
    table = place.table(name)
    columns = drop_not_null(table.scan().fields) if not table.primary_keys else table.scan().fields
    fields = descriptions.to_catalog_schema(columns).fields
    rows: list[tuple[str, str, str | None]] = [
        (field.name, field.dataType.simpleString(), field.metadata.get("comment")) for field in fields
    ]
    if column is not None:
        return _describe_column(session, rows, column)
    if table.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [row for row in rows[: len(fields)] if row[0] in table.partition_keys]
    if extended:
        properties: Mapping[str, str] = descriptions.collect_properties(table)
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), ("Name", f"{place.name}.{name}", "")]
        rows += [(key, value, "") for key, value in sorted(properties.items())]
    return _make_frame(session, rows, "col_name STRING, data_type STRING, comment STRING")


def _describe_column(session: Session, rows: Sequence[tuple[str, str, str | None]], path: tuple[str, ...]) -> DataFrame:
    found = [row for row in rows if len(path) == 1 and row[0].casefold() == path[0].casefold()]
    if not found:
        raise ColumnNotFound(f"there is no column {'.'.join(path)}; there are {', '.join(row[0] for row in rows)}")
    told = list(zip(("col_name", "data_type", "comment"), found[0]))
    return _make_frame(session, told, "info_name STRING, info_value STRING")


def _describe_query(session: Session, words: Statement) -> DataFrame:
    fields = query(session, words.rest()).schema.fields
    rows = [(field.name, field.dataType.simpleString(), field.metadata.get("comment")) for field in fields]
    return _make_frame(session, rows, "col_name STRING, data_type STRING, comment STRING")


def _make_frame(session: Session, rows: Sequence[tuple[Any, ...]], columns: str) -> DataFrame:
    return session.spark.createDataFrame(list(rows), columns)


CALLED = "sys"


def call_procedure(session: Session, words: Statement) -> DataFrame:
    """Execute CALL pm.sys.procedure(...)."""
    path = complete_path(session, words.path())
    place = session.place(path)
    if place is None or len(path) != 3 or path[1].lower() != CALLED:
        raise InvalidArgument(f"there is no procedure {'.'.join(path)}; write CALL catalog.sys.procedure(...)")
    found = find_procedure(path[2])
    own = [parameter.name for parameter in found.parameters]
    names = ["table", *own] if found.of_table else own
    given: dict[str, object] = {}
    for number, text in enumerate(words.expressions()):
        part = Statement(text)
        name = names[number] if number < len(names) else ""
        if part.word(1) == "=>" or (part.word(1) == "=" and part.word(2) == ">"):
            name = part.name()
            part.has("=>") or (part.has("=") and part.has(">"))
        if not name or name in given:
            raise InvalidArgument(f"{found.name}: an argument too many; it has {found}")
        given[name] = session.spark.sql(f"SELECT {part.rest()}").collect()[0][0]
    words.end()
    tables = {"table", *(p.name for p in found.parameters if p.kind is Kind.TABLE)}
    arguments = {
        name: _qualify_table(session, place, str(value)) if name.lower() in tables else value
        for name, value in given.items()
        if value is not None
    }
    return call(
        session.spark,
        found.name,
        warehouse=place.catalog,
        storage_options=place.access.storage_options,
        allowed_roots=place.access.allowed_roots,
        **arguments,  # type: ignore[arg-type]  # the procedure checks its arguments
    )


def _qualify_table(session: Session, place: Place, name: str) -> str:
    """Return the name of a table without the catalog, in the current database if it names none."""
    now = get_current(session)
    if "." not in name and now is not None and now[0] == place.name:
        return f"{now[1]}.{name}"
    return name.removeprefix(f"{place.name}.")


STATEMENTS: Mapping[str, Callable[[Session, Statement], DataFrame | None]] = {
    "INSERT": dml.insert,
    "DELETE": dml.delete_rows,
    "UPDATE": dml.update_rows,
    "MERGE": dml.merge_rows,
    "TRUNCATE": dml.truncate,
    "CREATE": ddl.create_table,
    "REPLACE": ddl.replace_table,
    "DROP": ddl.drop_table,
    "ALTER": ddl.alter_table,
    "COMMENT": ddl.set_comment,
    "CALL": call_procedure,
    "SHOW": show,
    "DESCRIBE": describe,
    "DESC": describe,
}
"""Functions that execute a statement, by its first word."""
OF_SESSIONS = ("SET", "RESET", "ADD", "LIST", "CLEAR", "DECLARE")
"""First words of statements that name no table, even if a warehouse is current."""
ELSEWHERE = (("SHOW", "CATALOGS"), ("SHOW", "FUNCTIONS"), ("DROP", "VIEW"), ("DROP", "TEMPORARY"))
"""Statements about objects that only Spark has."""


def sql(
    spark: SparkSession,
    text: str,
    *,
    warehouse: str | os.PathLike[str] | Catalog | None = None,
    catalog: str = "pm",
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
) -> DataFrame:
    """Run a statement that names tables as ``pm.db.orders``, over Spark Connect and on Spark 3.5 too.

        morrow.spark.sql(spark, "SELECT * FROM pm.db.orders VERSION AS OF 3", warehouse="warehouse").show()

    In a session with a JVM and Spark 4 this is ``spark.sql`` with `morrow.spark.catalog`. Elsewhere queries are Spark's
    own over DataFrames of the tables, each read at one state; INSERT INTO and OVERWRITE, DELETE, UPDATE, MERGE INTO,
    CREATE and DROP of tables and databases, ALTER TABLE, CALL, SHOW and DESCRIBE are the calls of this package. Spark
    runs all statements that do not name a warehouse's table.

    Args:
        spark: the session.
        text: one statement.
        warehouse: the folder or URL of the warehouse that the statement calls `catalog`, or a `morrow.Catalog`. Without
            it, names refer to `morrow.spark.catalog` and `morrow.spark.attach`.
        catalog: its name in the statement.
        storage_options, allowed_roots: as for `morrow.open`, with a `warehouse`.

    Returns: the rows; an empty DataFrame without columns for statements that return nothing.

    Raises:
        Unsupported: a statement that requires the catalog in the JVM.
        InvalidArgument: a syntax error. Others: as the call that does the work, and Spark's own errors.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgument(f"a statement must be text, not {text!r}")
    access = Access(storage_options, resolve_roots(allowed_roots))
    if _has_catalogs(spark):
        if warehouse is not None:
            make_catalog(
                spark,
                catalog,
                warehouse=warehouse,
                storage_options=storage_options,
                allowed_roots=allowed_roots,
            )
        return spark.sql(text)
    places = {
        name: Place(spark, name, attached.catalog, attached.access)
        for name, attached in list_attached(spark).items()
        if attached.catalog is not None
    }
    if warehouse is not None:
        places[catalog] = Place(spark, catalog, access.catalog(warehouse), access)
    return run(Session(spark, places), text)


def _has_catalogs(spark: SparkSession) -> bool:
    if not hasattr(spark, "_jsparkSession"):
        return False
    try:
        check_catalogs(spark)
    except Unsupported:
        return False
    return True


def run(session: Session, text: str) -> DataFrame:
    """Run a statement without a catalog in the JVM. Raises as `sql`."""
    words = Statement(text)
    if words.has("USE") or words.has("SET", "CATALOG"):
        return _make_empty(session) if use(session, words) else session.spark.sql(text)
    first = words.word()
    if not _has_tables(session, text) and (get_current(session) is None or _is_of_spark(words)):
        return session.spark.sql(text)
    if first in QUERIES:
        return query(session, text.rstrip().rstrip(";"))
    done = ddl.run_paimon_statement(session, text)
    if done is not None:
        return done
    if first not in STATEMENTS:
        raise Unsupported(f"the statement {first} here", hint=f"there are SELECT, {', '.join(STATEMENTS)}")
    words.has(first)
    found = STATEMENTS[first](session, words)
    return _make_empty(session) if found is None else found


def _make_empty(session: Session) -> DataFrame:
    return session.spark.range(1).limit(0).select()


def _is_of_spark(words: Statement) -> bool:
    return words.word() in OF_SESSIONS or any(words.comes(*begin) for begin in ELSEWHERE)


def _has_tables(session: Session, text: str) -> bool:
    """Return whether a statement names a warehouse anywhere, or a function of changes."""
    return any(path[0] in session.places or path[0].lower() in CHANGES_BY for _, path in Statement(text).paths())
