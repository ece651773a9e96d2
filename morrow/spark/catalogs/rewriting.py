"""Statements of Paimon's as statements that Spark parses: a CALL of a procedure that nobody else names."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from morrow.spark.catalogs.place import full_name
from morrow.spark.catalogs.syntax import Statement, parsed
from morrow.spark.jvm.runtime import class_name

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
    """
    statement = parsed(text)
    if statement is None:
        return None
    catalog, name = _place(spark, statement.table)
    if spark.conf.get(f"{SETTING}{catalog}", None) != class_name(CLASS):
        return None
    return f"CALL {_quoted(catalog)}.sys.{_quoted(PROCEDURE)}('{packed(statement, name)}')"


def _place(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, Sequence[str]]:
    """Returns the catalog that a name is of, and its other parts, as Spark looks names up."""
    first = parts[0]
    if len(parts) > 1 and (first == SPARKS_OWN or spark.conf.get(f"{SETTING}{first}", None) is not None):
        return first, parts[1:]
    manager = cast("Any", spark)._jsparkSession.sessionState().catalogManager()
    namespace = tuple(manager.currentNamespace()) if len(parts) == 1 else ()
    return str(manager.currentCatalog().name()), (*namespace, *parts)


def packed(statement: Statement, name: Sequence[str]) -> str:
    """Packs a statement as text that every literal can hold; the name is that of its table in the catalog."""
    told = {**asdict(statement), "table": list(name)}
    return base64.b64encode(json.dumps(told).encode()).decode("ascii")


def unpacked(text: str) -> tuple[Statement, str]:
    """Returns what `packed` has packed: the statement, and the full name of its table. Raises `TableNotFound`."""
    told = json.loads(base64.b64decode(text))
    *namespace, name = told["table"]
    return Statement(told["verb"], tuple(told["table"]), told["parts"]), full_name(namespace, name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
