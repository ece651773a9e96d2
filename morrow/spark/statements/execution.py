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
from morrow.spark.catalogs.syntax import SPARK_SYNTAX
from morrow.spark.expressions import quote_name
from morrow.spark.procedures import call
from morrow.spark.statements import ddl, dml
from morrow.spark.statements.dml import evaluate_partition
from morrow.spark.statements.queries import Session, complete_path, get_current, query, use
from morrow.spark.statements.tokens import SparkWords
from morrow.spark.types import drop_not_null
from morrow.spark.versions import check_catalogs
from morrow.spark.views import Access, list_attached
from morrow.statements import statement as st
from morrow.statements.parser import parse_statement
from morrow.statements.tokens import split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from morrow.catalogs.catalog import Catalog

Rows = Sequence[tuple[Any, ...]]


def show(session: Session, statement: st.Show) -> DataFrame:
    """Execute SHOW DATABASES, TABLES, CREATE TABLE, PARTITIONS, COLUMNS, TBLPROPERTIES or TAGS."""
    if statement.what not in _SHOWN:
        known = ", ".join(what.upper() for what in _SHOWN)
        raise Unsupported(f"SHOW {statement.what.upper()} here", hint=f"it shows {known}")
    columns, execute = _SHOWN[statement.what]
    return _make_frame(session, execute(session, statement), columns)


def _show_databases(session: Session, statement: st.Show) -> Rows:
    name = ".".join(statement.name) or ddl.require_current(session)[0]
    if name not in session.places:
        raise DatabaseNotFound(f"there is no catalog {name}; there are {', '.join(session.places)}")
    return [(name,) for name in _match_names(session.places[name].catalog.databases(), statement.like)]


def _show_tables(session: Session, statement: st.Show) -> Rows:
    place, where = ddl.find_database(session, statement.name)
    return [(where, name, False) for name in _match_names(place.catalog.tables(where), statement.like)]


def _show_create_table(session: Session, statement: st.Show) -> Rows:
    place, name = session.named(statement.name)
    return [(format_create_table((place.name, *name.split(".", 1)), place.table(name)),)]


def _show_partitions(session: Session, statement: st.Show) -> Rows:
    place, name = session.named(statement.name)
    return _list_partitions(place, name, evaluate_partition(session, statement.partition or {}))


def _show_columns(session: Session, statement: st.Show) -> Rows:
    return [(name,) for name in session.table(statement.name).schema.names]


def _show_properties(session: Session, statement: st.Show) -> Rows:
    table, wanted = session.table(statement.name), statement.like
    told = {**descriptions.collect_properties(table)}
    if wanted is not None:
        told = {wanted: told.get(wanted, f"Table {table.name} does not have property: {wanted}")}
    return sorted(told.items())


def _show_tags(session: Session, statement: st.Show) -> Rows:
    return [(tag,) for tag in sorted(session.table(statement.name).tags.names)]


_SHOWN: Mapping[str, tuple[str, Callable[[Session, st.Show], Rows]]] = {
    "databases": ("namespace STRING", _show_databases),
    "tables": ("namespace STRING, tableName STRING, isTemporary BOOLEAN", _show_tables),
    "create table": ("createtab_stmt STRING", _show_create_table),
    "partitions": ("partition STRING", _show_partitions),
    "columns": ("col_name STRING", _show_columns),
    "tblproperties": ("key STRING, value STRING", _show_properties),
    "tags": ("tag STRING NOT NULL", _show_tags),
    "current database": (
        "catalog STRING, namespace STRING",
        lambda session, _: [ddl.require_current(session)],
    ),
}
"""What SHOW shows -> the columns of its rows, and the function that lists them."""


def _match_names(names: Sequence[str], pattern: str | None) -> list[str]:
    """Return the names that match a pattern with ``*`` and ``|``."""
    if pattern is None:
        return list(names)
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
        raise InvalidArgument(f"{table.path}: {unknown[0]!r} is not a partition column; there are {', '.join(keys)}")
    texts = [row for row in texts if all(row[keys.index(key)] == value for key, value in spec.items())]
    rows = ("/".join(f"{key}={'null' if value is None else value}" for key, value in zip(keys, row)) for row in texts)
    return [(row,) for row in sorted(rows)]


def describe(session: Session, statement: st.Describe) -> DataFrame:
    """List the columns of a table, and with EXTENDED its properties, or describe one column."""
    place, name = session.named(statement.table)
    table = place.table(name)
    columns = drop_not_null(table.scan().fields) if not table.primary_keys else table.scan().fields
    fields = descriptions.to_catalog_schema(columns).fields
    rows: list[tuple[str, str, str | None]] = [
        (field.name, field.dataType.simpleString(), field.metadata.get("comment")) for field in fields
    ]
    if statement.column:
        return _describe_column(session, rows, statement.column)
    if table.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [row for row in rows[: len(fields)] if row[0] in table.partition_keys]
    if statement.extended:
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


def describe_query(session: Session, statement: st.DescribeQuery) -> DataFrame:
    fields = query(session, statement.query).schema.fields
    rows = [(field.name, field.dataType.simpleString(), field.metadata.get("comment")) for field in fields]
    return _make_frame(session, rows, "col_name STRING, data_type STRING, comment STRING")


def _make_frame(session: Session, rows: Sequence[tuple[Any, ...]], columns: str) -> DataFrame:
    return session.spark.createDataFrame(list(rows), columns)


CALLED = "sys"


def call_procedure(session: Session, statement: st.CallProcedure) -> DataFrame:
    """Execute CALL pm.sys.procedure(...)."""
    path = complete_path(session, statement.procedure)
    place = session.place(path)
    if place is None or len(path) != 3 or path[1].lower() != CALLED:
        raise InvalidArgument(f"there is no procedure {'.'.join(path)}; write CALL catalog.sys.procedure(...)")
    found = find_procedure(path[2])
    own = [parameter.name for parameter in found.parameters]
    names = ["table", *own] if found.of_table else own
    given: dict[str, object] = {}
    for number, argument in enumerate(statement.arguments):
        name = argument.name or (names[number] if number < len(names) else "")
        if not name or name in given:
            raise InvalidArgument(f"{found.name}: an argument too many; it has {found}")
        given[name] = session.spark.sql(f"SELECT {argument.value}").collect()[0][0]
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


def explain(session: Session, statement: st.Explain) -> DataFrame:
    """Return Spark's plan of a query."""
    if not isinstance(statement.statement, st.Query):
        raise Unsupported(f"EXPLAIN of {statement.statement.kind} here", hint="there is EXPLAIN of queries")
    return query(session, f"EXPLAIN {statement.mode or ''} {statement.statement.text.strip()}")


EXECUTORS: Mapping[type[st.Statement], Callable[[Session, Any], DataFrame | None]] = {
    st.Query: lambda session, statement: query(session, statement.text),
    st.Explain: explain,
    st.Insert: dml.insert,
    st.Delete: dml.delete_rows,
    st.Update: dml.update_rows,
    st.MergeInto: dml.merge_rows,
    st.Truncate: dml.truncate,
    st.CreateDatabase: ddl.create_database,
    st.AlterDatabase: ddl.alter_database,
    st.DropDatabase: ddl.drop_database,
    st.CreateTable: ddl.create_table,
    st.CreateTableLike: ddl.create_table_like,
    st.DropTable: ddl.drop_table,
    st.RenameTable: ddl.rename_table,
    st.AlterTable: ddl.alter_table,
    st.CommentColumn: ddl.set_column_comment,
    st.DropPartitions: ddl.drop_partitions,
    st.AddPartitions: ddl.add_partitions,
    st.CreateTag: ddl.run_on_table,
    st.DeleteTags: ddl.run_on_table,
    st.RenameTag: ddl.run_on_table,
    st.Analyze: ddl.run_on_table,
    st.AnalyzeTables: ddl.analyze_tables,
    st.CallProcedure: call_procedure,
    st.Show: show,
    st.Describe: describe,
    st.DescribeDatabase: ddl.describe_database,
    st.DescribeQuery: describe_query,
}
"""Class of a statement -> the function that executes it."""
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
    if SparkWords(text).comes("CREATE", "CATALOG"):
        raise Unsupported("CREATE CATALOG in Spark", hint="call morrow.spark.catalog(spark, name, warehouse=...)")
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
    words = SparkWords(text)
    is_use = words.comes("USE") or words.comes("SET", "CATALOG")
    if not is_use and not _has_tables(session, text) and (get_current(session) is None or _is_of_spark(words)):
        return session.spark.sql(text)
    statements = split(text, SPARK_SYNTAX)
    if len(statements) != 1:
        raise InvalidArgument(f"{words}: one statement is expected, not {len(statements)}")
    statement = parse_statement(statements[0])
    if isinstance(statement, st.Use):
        return _make_empty(session) if use(session, statement) else session.spark.sql(text)
    execute = EXECUTORS.get(type(statement))
    if execute is None:
        raise Unsupported(f"{statement.kind} here", hint=f"there are {', '.join(each.kind for each in EXECUTORS)}")
    found = execute(session, statement)
    return _make_empty(session) if found is None else found


def _make_empty(session: Session) -> DataFrame:
    return session.spark.range(1).limit(0).select()


def _is_of_spark(words: SparkWords) -> bool:
    return words.word() in OF_SESSIONS or any(words.comes(*begin) for begin in ELSEWHERE)


def _has_tables(session: Session, text: str) -> bool:
    """Return whether a statement names a warehouse anywhere, or a function of changes."""
    return any(path[0] in session.places or path[0].lower() in CHANGES_BY for _, path in SparkWords(text).paths())
