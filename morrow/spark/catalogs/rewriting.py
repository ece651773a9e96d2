"""Statements of Paimon's as statements that Spark parses: a CALL of a procedure that nobody else names."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import DatabaseNotFound, InvalidArgument, Unsupported
from morrow.engine.values import replace
from morrow.queries.incremental import CHANGES_BY
from morrow.spark.catalogs.place import full_name
from morrow.spark.catalogs.syntax import ALL_ANALYZED, CONSTRAINT, Statement, parsed
from morrow.spark.catalogs.words import name_of
from morrow.spark.jvm.runtime import class_name
from morrow.spark.reading.expressions import quoted
from morrow.spark.source.statements import bare, check_ignored, ignored_option, names_table_of_ours

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sql.catalog."
CLASS = "MorrowCatalog"
PROCEDURE = "morrow.statement"
SPARKS_OWN = "spark_catalog"


def rewritten(spark: SparkSession, text: str) -> str | None:
    """Returns what Spark parses in the place of a statement; None where it is not Paimon's, or of another catalog.

    Raises:
        InvalidArgument: it begins as one of Paimon's, and goes on otherwise.
        Unsupported: it has options that Spark ignores.
    """
    check_ignored(bare(text), lambda name: _is_temporary(spark, name) and names_table_of_ours(name, spark))
    statement = parsed(text)
    if statement is None:
        return None
    whose = placed_database if statement.verb == ALL_ANALYZED else placed
    catalog, name = whose(spark, statement.table)
    if not _is_ours(spark, catalog):
        return None
    if statement.verb == CONSTRAINT:
        raise Unsupported(
            "ALTER TABLE with CONSTRAINT", hint="columns of the primary key and NOT NULL are all there are"
        )
    if "source" in statement.parts:
        source = placed(spark, statement.parts["source"])
        if source[0] != catalog:
            raise Unsupported(f"CREATE TABLE LIKE a table of another catalog, {source[0]},")
        statement = replace(statement, parts={**statement.parts, "source": source[1]})
    return f"CALL {quoted(catalog)}.sys.{quoted(PROCEDURE)}('{packed(statement, name)}')"


def check_options_of_view(spark: SparkSession, view: str, options: Sequence[str]) -> None:
    """Raises `InvalidArgument` for options of a reader of a view of a Morrow table, which Spark ignores."""
    if names_table_of_ours(view, spark):
        raise ignored_option(view, options[0])


def _is_temporary(spark: SparkSession, name: str) -> bool:
    """Returns whether this is the name of a temporary view, of the session or of all."""
    session = cast("Any", spark)._jsparkSession.sessionState()
    return bool(session.catalog().isTempView(session.sqlParser().parseMultipartIdentifier(name)))


def placed(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, Sequence[str]]:
    """Returns the catalog that a name is of, and its other parts, as Spark looks names up."""
    first = parts[0]
    if len(parts) > 1 and (first == SPARKS_OWN or spark.conf.get(f"{SETTING}{first}", None) is not None):
        return first, parts[1:]
    manager = cast("Any", spark)._jsparkSession.sessionState().catalogManager()
    namespace = tuple(manager.currentNamespace()) if len(parts) == 1 else ()
    return str(manager.currentCatalog().name()), (*namespace, *parts)


def placed_database(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, Sequence[str]]:
    """Returns the catalog that the name of a database is of, and the name; those of now for what is not given."""
    if len(parts) > 1:
        return placed(spark, parts)
    manager = cast("Any", spark)._jsparkSession.sessionState().catalogManager()
    return str(manager.currentCatalog().name()), parts or tuple(manager.currentNamespace())


def _is_ours(spark: SparkSession, catalog: str) -> bool:
    return spark.conf.get(f"{SETTING}{catalog}", None) == class_name(CLASS)


def changed_rows(spark: SparkSession, function: str, arguments: Sequence[str | None]) -> dict[str, object]:
    """Returns the table that a function of changes reads, and the options that its other arguments stand for.

    Raises:
        InvalidArgument: other arguments than it takes. Unsupported: a table of another catalog.
    """
    key, count = CHANGES_BY[function]
    if len(arguments) != count + 1 or None in arguments:
        raise InvalidArgument(f"{function} takes the name of a table and {count} more, none of them null")
    name, *others = map(str, arguments)
    catalog, parts = placed(spark, name_of(name))
    if not _is_ours(spark, catalog):
        raise Unsupported(f"{function} of a table of the catalog {catalog}")
    return {"table": [catalog, *parts], "options": {key: ",".join(others)}}


def packed(statement: Statement, name: Sequence[str]) -> str:
    """Packs a statement as text that every literal can hold; the name is that of its table in the catalog."""
    told = {**asdict(statement), "table": list(name)}
    return base64.b64encode(json.dumps(told).encode()).decode("ascii")


def unpacked(text: str) -> tuple[Statement, str]:
    """Returns what `packed` has packed: the statement, and the full name of its table, or the name of its database.

    Raises `TableNotFound`, `DatabaseNotFound`.
    """
    told = json.loads(base64.b64decode(text))
    *namespace, name = told["table"]
    statement = Statement(told["verb"], tuple(told["table"]), told["parts"])
    if statement.verb != ALL_ANALYZED:
        return statement, full_name(namespace, name)
    if namespace:
        raise DatabaseNotFound(f"there is no database {'.'.join(told['table'])}")
    return statement, name
