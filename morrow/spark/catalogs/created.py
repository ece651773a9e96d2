"""SHOW CREATE TABLE: the statement that makes a table, in words that every version of Spark and Java Paimon take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from morrow.engine.format import types as t
from morrow.engine.telling import without_secrets
from morrow.spark.catalogs import described
from morrow.spark.catalogs.place import Place, Question
from morrow.spark.reading.expressions import quoted
from morrow.spark.types.to_spark import default_sql, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.tables.table import Table

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
BARE = (t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.DecimalType)
"""Types whose values are literals as they are written."""
NOT_SHOWN = ("provider", "location", "is_managed_location", "comment")


def statement(name: Sequence[str], table: Table) -> str:
    """Returns the statement; options in the order of their keys."""
    columns = ",\n  ".join(_column(field) for field in table.scan().fields)
    parts = [f"CREATE TABLE {'.'.join(map(_name, name))} (\n  {columns})", f"USING {described.PROVIDER}"]
    if table.partition_keys:
        parts.append(f"PARTITIONED BY ({', '.join(map(_name, table.partition_keys))})")
    if table.comment is not None:
        parts.append(f"COMMENT {text_literal(table.comment)}")
    own: Mapping[str, str] = without_secrets(described.properties(table))
    options = [f"{text_literal(key)} = {text_literal(own[key])}" for key in sorted(own) if key not in NOT_SHOWN]
    if options:
        parts.append("TBLPROPERTIES (\n  " + ",\n  ".join(options) + ")")
    return "\n".join([*parts, ""])


def _column(field: t.DataField) -> str:
    said = [_name(field.name), sql_type(field.type)]
    if not field.type.nullable:
        said.append("NOT NULL")
    if field.default_value is not None:
        said.append(f"DEFAULT {_default(field)}")
    if field.description is not None:
        said.append(f"COMMENT {text_literal(field.description)}")
    return " ".join(said)


def sql_type(kind: t.DataType) -> str:
    """Returns a type as Spark's SQL writes it. Raises `Unsupported` for one that Spark does not have."""
    if isinstance(kind, t.RowType):
        return f"STRUCT<{', '.join(f'{_name(field.name)}: {_member(field)}' for field in kind.fields)}>"
    if isinstance(kind, t.ArrayType):
        return f"ARRAY<{sql_type(kind.element)}>"
    if isinstance(kind, t.MapType):
        return f"MAP<{sql_type(kind.key)}, {sql_type(kind.value)}>"
    if isinstance(kind, (t.CharType, t.VarCharType)) and kind.length < t.VarCharType().length:
        return f"{'CHAR' if isinstance(kind, t.CharType) else 'VARCHAR'}({kind.length})"
    return spark_type(kind, "").simpleString().upper()


def _member(field: t.DataField) -> str:
    comment = "" if field.description is None else f" COMMENT {text_literal(field.description)}"
    return sql_type(field.type) + ("" if field.type.nullable else " NOT NULL") + comment


def _default(field: t.DataField) -> str:
    found = default_sql(field, spark_type(field.type, field.name))
    literal = found.removeprefix("CAST(").rpartition(" AS ")[0]
    if isinstance(field.type, BARE):
        return literal.strip("'")
    return literal if isinstance(field.type, (t.CharType, t.VarCharType)) else found


def _name(name: str) -> str:
    return name if PLAIN.fullmatch(name) else quoted(name)


def text_literal(text: str) -> str:
    """Returns a text as Spark's SQL writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _asked(place: Place, question: Question, _rows: DataFrame | None) -> str:
    name = question["table"]
    return statement((place.name, *name.split(".", 1)), place.table(name))


ANSWERS = {"show create": _asked}
