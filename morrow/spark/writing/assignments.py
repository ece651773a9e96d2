"""Assigned values as Spark columns: SQL text, columns and constants, cast as in assignments of Spark's SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.types import DataField
from morrow.spark.types import drop_not_null, format_spark_default, to_spark_type
from morrow.spark.writing.write import is_case_sensitive

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from morrow.writers.target import WriteTarget

Value: TypeAlias = object
"""Spark SQL text, a Column, or a Python value used as a constant."""

Assignments: TypeAlias = Mapping[str, Value]


def to_column(value: Value) -> Column:
    from pyspark.sql import functions

    if isinstance(value, str):
        return functions.expr(value)
    return cast("Column", value) if is_column(value) else functions.lit(value)


def is_column(value: object) -> bool:
    """Return whether a value is a Column, in a session of either kind."""
    from pyspark.sql import Column

    if isinstance(value, Column):  # from Spark 4.0 on, this includes columns of Spark Connect
        return True
    return type(value).__module__.startswith("pyspark.sql.connect.") and type(value).__name__ == "Column"


def resolve_columns(
    set: Assignments, target: WriteTarget, spark: SparkSession, more: Iterable[str] = ()
) -> dict[str, Value]:
    """Return the assignments by the names of columns, of the table and `more`. Names may be given in any case.

    Raises `ColumnNotFound`: a missing column. `InvalidArgument`: a column is set twice.
    """
    known = (*target.schema.by_name, *more)
    folded = {} if is_case_sensitive(spark) else {name.casefold(): name for name in known}
    found: dict[str, Value] = {}
    for given, value in set.items():
        name = given if given in known else folded.get(given.casefold())
        if name is None:
            raise ColumnNotFound(f"{target.where}: no column {given!r}; there are {', '.join(known)}")
        if name in found:
            raise InvalidArgument(f"{target.where}: {name!r} is set twice")
        found[name] = value
    return found


def default_of(field: DataField) -> Column:
    """Return the value of a column that an insert does not name."""
    from pyspark.sql import functions

    kind = to_spark_type(field.type, field.name)
    return (
        functions.lit(None).cast(kind)
        if field.default_value is None
        else functions.expr(format_spark_default(field, kind))
    )


def assign_columns(rows: DataFrame, fields: Mapping[str, DataField], kept: Iterable[str]) -> DataFrame:
    """Return the columns `kept`, and the values cast to the types of their columns as in assignments of Spark's SQL.

    `fields`: the target columns, by the names of the values in `rows`.

    Raises `InvalidArgument`: a value of a type that cannot be assigned to its column.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructField, StructType

    known = {field.name: field.dataType for field in rows.schema.fields}
    wanted = {name: known[name] for name in kept}
    for name, field in fields.items():
        (nullable,) = drop_not_null([field])  # the writer refuses null, and names the column
        wanted[name] = to_spark_type(nullable.type, field.name)
    try:
        made = rows.to(StructType([StructField(name, kind) for name, kind in wanted.items()]))
        assert made.select("*").schema is not None  # makes Spark Connect analyse it now
    except AnalysisException as error:
        raise InvalidArgument(_name_columns(str(error).partition("\n")[0], fields)) from error
    return made


def _name_columns(text: str, fields: Mapping[str, DataField]) -> str:
    for name, field in fields.items():
        text = text.replace(f"`{name}`", repr(field.name))
    return text
