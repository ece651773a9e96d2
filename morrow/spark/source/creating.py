"""The table that rows are written to: the one that is there, or one made after the DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from morrow.engine.errors import AlreadyExists, InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.options.parsing import names
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema.committing import create_first_schema
from morrow.engine.schema.creating import PARTITION_OPTION, PRIMARY_KEY_OPTION, new_schema
from morrow.spark.source.options import Options
from morrow.spark.source.schemas import metadata_of
from morrow.writers.spark.types import paimon_fields

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FIELDS_PREFIX = "fields."
"""Of options that name columns, whose case Spark does not keep."""


def ensure_table(given: Mapping[str, str], schema: StructType, *, must_be_new: bool = False) -> None:
    """Make the table of the options, with the DataFrame's columns, unless it is there.

    Raises:
        AlreadyExists: it is there, and must be new.
        InvalidArgument, ColumnNotFound: options that no table can have, or that the table which is there has not.
        Unsupported: a type or option that Morrow does not handle.
    """
    options = Options(given)
    sink = options.sink()
    metadata = metadata_of(options.place())
    if metadata.schema_ids():
        if must_be_new:
            raise AlreadyExists(f"{metadata.where}: there is a table; add to it by .mode('append')")
        _check_options(metadata.latest_schema(), sink.table, metadata.where)
        return
    try:
        create_first_schema(metadata, _first_schema(metadata, schema, sink.table, sink.kinds))
    except AlreadyExists:  # another process was faster
        if must_be_new:
            raise
        _check_options(metadata.latest_schema(), sink.table, metadata.where)


def _first_schema(
    metadata: TableMetadata, schema: StructType, options: Mapping[str, str], kinds: str | None
) -> TableSchema:
    columns = tuple(field for field in paimon_fields(schema) if field.name != kinds)
    return new_schema(columns, options=_in_case(options, [field.name for field in columns]), where=metadata.where)


def _in_case(options: Mapping[str, str], columns: list[str]) -> dict[str, str]:
    """The options with the names of columns in them as the columns have them."""
    spelled = {name.lower(): name for name in columns}
    restored = {}
    for key, value in options.items():
        if key.startswith(FIELDS_PREFIX):
            column, dot, rest = key.removeprefix(FIELDS_PREFIX).partition(".")
            named = ",".join(spelled.get(name, name) for name in column.split(","))
            restored[f"{FIELDS_PREFIX}{named}{dot}{rest}"] = value
        else:
            restored[key] = value
    return restored


def _check_options(schema: TableSchema, given: Mapping[str, str], where: str) -> None:
    """Options of a write are the table's: those that differ would not be heeded."""
    known = {key.lower(): value for key, value in schema.options.items()}
    keys = {PRIMARY_KEY_OPTION: schema.primary_keys, PARTITION_OPTION: schema.partition_keys}
    for name, value in given.items():
        same = names(value) == keys[name] if name in keys else known.get(name) == value
        if not same:
            has = ",".join(keys[name]) if name in keys else known.get(name)
            raise InvalidArgument(
                f"{where}: the option {name!r} is {has!r} for this table, not {value!r}; leave it out of the write, "
                "or alter the table first"
            )
