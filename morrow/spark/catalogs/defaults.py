"""Default values of columns: literals of Spark's SQL as the text that Paimon stores."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.schema.defaults import checked_default, default_text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

CURRENT = "CURRENT_DEFAULT"
"""Where Spark has the default value of a column, in SQL."""
WRAPPERS = (exp.Cast, exp.Neg, exp.Paren)
CONSTANTS = (exp.Literal, exp.Boolean, exp.Null)


def defaults_in(spark: SparkSession, schema: StructType, fields: Mapping[str, t.DataField]) -> dict[str, str]:
    """Returns the text of the defaults that columns have, by their names. Raises as `default_text`."""
    given = {f.name: f.metadata[CURRENT] for f in schema.fields if CURRENT in f.metadata}
    found = {name: default_text(spark, sql, fields[name].type, name) for name, sql in given.items()}
    return {name: text for name, text in found.items() if text is not None}


def default_text(spark: SparkSession, sql: str, kind: t.DataType, column: str) -> str | None:
    """Returns the text that Paimon stores for a default value in Spark's SQL; None for NULL.

    Raises:
        Unsupported: no literal: Paimon stores a value, and no expression. A type that has no default values.
        Others: Spark's own, where it is no value of the type.
    """
    from morrow.spark.types.to_spark import spark_type

    if not _is_literal(sql):
        raise Unsupported(f"the default value {sql} of the column {column!r}", hint="give a literal")
    type_name = spark_type(kind, column).simpleString()
    value = spark.sql(f"SELECT CAST(({sql}) AS {type_name})").collect()[0][0]
    if value is None:
        return None
    text = _text(value, kind, column)
    return checked_default(kind, text, column)


def _text(value: Any, kind: t.DataType, column: str) -> str:
    if isinstance(kind, (t.CharType, t.VarCharType)):
        return f"'{value}'"  # with the quotes that Java's readers take away
    if isinstance(kind, t.LocalZonedTimestampType) and isinstance(value, dt.datetime):
        return default_text_of(value.astimezone(dt.UTC), column)  # from the clock of this process, as PySpark gives it
    if isinstance(value, (bytes, bytearray, list, dict, tuple)):
        raise Unsupported(f"a default value of the type {kind.text()}", where=f"the column {column!r}")
    return default_text_of(value, column)


def _is_literal(sql: str) -> bool:
    try:
        found: Any = sqlglot.parse_one(sql, read="spark")
    except SqlglotError:
        return False
    while isinstance(found, WRAPPERS):
        found = found.this
    return isinstance(found, CONSTANTS)
