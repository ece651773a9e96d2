"""Predicates as Spark columns, in the form that its Parquet scan pushes into files; typed literals; quoted names.

Spark orders floats as the predicate tree does: NaN equals itself and is greatest, -0.0 equals 0.0. Parquet's statistics
leave NaN out and its dictionaries tell the zeros apart, so conditions on floats are kept out of the files.
"""

from __future__ import annotations

import base64
import datetime as dt
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from morrow.engine.errors import ColumnNotFound
from morrow.engine.format import types as t
from morrow.engine.plan.predicate import And, Leaf, Op, Predicate
from morrow.spark.types.to_spark import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

FLOATS = (t.FloatType, t.DoubleType)
PLAIN = (bool, int, float, str, bytes)
"""Python values that Spark takes as they are."""

Where = Callable[[str], "Column"]
"""From the name of a column in the predicate to the column."""


def compile(predicate: Predicate, fields: Sequence[t.DataField], where: Where) -> Column:
    """Returns a boolean column, true exactly for the rows that `predicate` keeps (false or null for the others).

    Raises:
        ColumnNotFound: the predicate names a column that `fields` lacks.
    """
    return _compiled(predicate, {field.name: field.type for field in fields}, where)


def literal(value: object, kind: t.DataType, name: str) -> Column:
    """Returns a constant of the Spark type of `kind`; `value` is None or Morrow's value of that type.

    Raises:
        Unsupported: a type that Spark does not have; the message names `name`.
    """
    from pyspark.sql.functions import lit

    # Dates, times and decimals as text, which Spark casts without loss; instants name their zone.
    plain = value if value is None or isinstance(value, PLAIN) else _text(value, kind)
    return lit(plain).cast(spark_type(kind, name))


def constant(value: object, kind: t.DataType) -> str | None:
    """Returns the text of a value, as `FileScans` takes it: bytes in Base64, instants in UTC."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value).lower() if isinstance(value, bool) else _text(value, kind)


def quoted(name: str) -> str:
    """Quotes a name for Spark's SQL, whatever its characters."""
    return "`" + name.replace("`", "``") + "`"


def _text(value: object, kind: t.DataType) -> str:
    if isinstance(value, np.datetime64) and isinstance(kind, t.LocalZonedTimestampType):
        return f"{value}Z"  # in UTC, which NumPy does not state
    return value.isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)


def _compiled(predicate: Predicate, kinds: Mapping[str, t.DataType], where: Where) -> Column:
    from pyspark.sql.functions import lit

    if isinstance(predicate, Leaf):
        if predicate.column not in kinds:
            raise ColumnNotFound(
                f"filter: column {predicate.column!r} is not among the columns read: {', '.join(kinds)}"
            )
        return _leaf(predicate, kinds[predicate.column], where(predicate.column))
    children = [_compiled(child, kinds, where) for child in predicate.children]
    join = operator.and_ if isinstance(predicate, And) else operator.or_
    while len(children) > 1:  # in pairs: a thousand conditions nest ten deep
        pairs = [join(left, right) for left, right in zip(children[::2], children[1::2], strict=False)]
        children = pairs + children[len(pairs) * 2 :]
    return children[0] if children else lit(isinstance(predicate, And))


def _leaf(leaf: Leaf, kind: t.DataType, column: Column) -> Column:
    from pyspark.sql.functions import nanvl

    # The same value, but no longer a column of a file.
    operand = nanvl(column, column) if isinstance(kind, FLOATS) else column
    return _LEAVES[leaf.op](operand, [literal(value, kind, leaf.column) for value in leaf.literals])


Build = Callable[[Any, list[Any]], "Column"]


def _compared(compare: Callable[[Any, Any], Any]) -> Build:
    return lambda column, literals: compare(column, literals[0])


_LEAVES: Mapping[Op, Build] = {
    Op.EQ: _compared(operator.eq),
    Op.NE: _compared(operator.ne),
    Op.LT: _compared(operator.lt),
    Op.LE: _compared(operator.le),
    Op.GT: _compared(operator.gt),
    Op.GE: _compared(operator.ge),
    Op.IN: lambda column, literals: column.isin(literals),
    Op.NOT_IN: lambda column, literals: ~column.isin(literals),
    Op.IS_NULL: lambda column, _: column.isNull(),
    Op.IS_NOT_NULL: lambda column, _: column.isNotNull(),
    Op.STARTS_WITH: lambda column, literals: column.startswith(literals[0]),
    Op.NOT_STARTS_WITH: lambda column, literals: ~column.startswith(literals[0]),
}
