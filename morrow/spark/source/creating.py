"""The target table of a write: the existing one, or a new one with the DataFrame's columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from morrow.engine.errors import AlreadyExists, InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField
from morrow.engine.options.declared.table import PARTITION, PRIMARY_KEY
from morrow.engine.options.declaring import FIELDS
from morrow.engine.options.kinds import names
from morrow.engine.options.registry import column_option
from morrow.engine.schema.committing import create_first_schema
from morrow.engine.schema.creating import new_schema
from morrow.spark.source.options import Options
from morrow.spark.source.schemas import metadata_of
from morrow.spark.source.secret_options import check_no_secrets
from morrow.spark.types.to_paimon import paimon_fields
from morrow.spark.writing.evolving import evolve
from morrow.writers.operations.overriding import OF_A_WRITE

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def ensure_table(
    given: Mapping[str, str],
    schema: StructType,
    *,
    must_be_new: bool = False,
    overwrite: bool = True,
    heeds: bool = False,
    comment: str | None = None,
    defaults: Mapping[str, str] | None = None,
) -> None:
    """Creates the table of the options, with the DataFrame's columns, unless it exists.

    `comment`, `defaults`: of a new table, and of its columns by their names.

    `heeds`: the write heeds options that the existing table has with other values, where one write can.

    Raises:
        AlreadyExists: the table exists, and must be new.
        InvalidArgument, ColumnNotFound: options that no table can have, or that the existing table does not have.
        Unsupported: a type or option that Morrow does not handle.
    """
    options = Options(given)
    sink = options.sink(overwrite=overwrite)
    others = {key: value for key, value in sink.table.items() if not (heeds and key in OF_A_WRITE)}
    metadata = metadata_of(options.place())
    if metadata.schema_ids():
        if must_be_new:
            raise AlreadyExists(f"{metadata.where}: there is a table; add to it by .mode('append')")
        _check_options(metadata.latest_schema(), others, metadata.where)
        return
    check_no_secrets(sink.table, metadata.where)
    try:
        columns = _columns(schema, sink.kinds)
        own = _in_case(sink.table, [field.name for field in columns])
        first = new_schema(columns, options=own, comment=comment, defaults=defaults, where=metadata.where)
        create_first_schema(metadata, first)
    except AlreadyExists:  # another process was faster
        if must_be_new:
            raise
        _check_options(metadata.latest_schema(), others, metadata.where)


def follow_columns(given: Mapping[str, str], schema: StructType) -> None:
    """Adds the columns of the rows to the table, if the option ``write.merge-schema`` says so. Raises as `evolve`."""
    options = Options(given)
    sink = options.sink()
    if sink.replace_where is not None:
        raise Unsupported("the option 'replaceWhere' of such a write", hint="use morrow.spark.write(replace_where=...)")
    if sink.evolution is None:
        return
    metadata, columns = metadata_of(options.place()), _columns(schema, sink.kinds)
    evolve(metadata, columns, sink.evolution)


def _columns(schema: StructType, kinds: str | None) -> tuple[DataField, ...]:
    return tuple(field for field in paimon_fields(schema) if field.name != kinds)


def _in_case(options: Mapping[str, str], columns: list[str]) -> dict[str, str]:
    """Returns the options with column names in the case of the columns, which Spark does not keep."""
    spelled = {name.lower(): name for name in columns}
    restored = {}
    for key, value in options.items():
        if (found := column_option(key)) is not None:
            named = ",".join(spelled.get(name, name) for name in found[0].split(","))
            key = f"{FIELDS}{named}.{found[1]}"
        restored[key] = value
    return restored


def _check_options(schema: TableSchema, given: Mapping[str, str], where: str) -> None:
    """Checks that the table options of a write are the table's: others would be ignored."""
    known = {key.lower(): value for key, value in schema.options.items()}
    keys = {PRIMARY_KEY.key: schema.primary_keys, PARTITION.key: schema.partition_keys}
    for name, value in given.items():
        same = names(value) == keys[name] if name in keys else known.get(name) == value
        if not same:
            has = ",".join(keys[name]) if name in keys else known.get(name)
            raise InvalidArgument(
                f"{where}: the option {name!r} is {has!r} for this table, not {value!r}; leave it out of the write, "
                "or alter the table first"
            )
