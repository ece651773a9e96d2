"""The columns of a read before it is planned, and the target table of a write, which may be new.

Secrets among a table's options are refused, since all readers of the table can see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from morrow.engine.catalog.names import parse_object_name
from morrow.engine.errors import AlreadyExists, InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField
from morrow.engine.io.resolve import resolve
from morrow.engine.options.declarations import FIELDS, parse_names
from morrow.engine.options.declared.table import PARTITION, PRIMARY_KEY
from morrow.engine.options.table_options import split_column_option
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import parse_travel
from morrow.engine.redaction import is_secret
from morrow.engine.schema.creation import build_first_schema
from morrow.engine.schema.evolution import create_first_schema
from morrow.scans.table_scan import Scan, make_scan
from morrow.spark.source.options import Options, Place, unpack_table
from morrow.spark.types import drop_not_null, to_paimon_fields, to_spark_schema
from morrow.spark.writing.schema_evolution import extend_schema
from morrow.writers.target import WRITE_OPTION_KEYS, with_dynamic_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def open_metadata(place: Place) -> TableMetadata:
    """Return the metadata of the table at a place. The table need not exist yet.

    Raises:
        BranchNotFound: no such branch.
        InvalidArgument: two branches are named. Unsupported: a system table.
    """
    name = parse_object_name(place.path)
    if name.system is not None:
        raise Unsupported(
            f"the system table {name.system!r} in a stream or a write of format('morrow')",
            hint="read it with morrow.spark.read",
        )
    branch = name.branch_or(place.branch)
    if place.by_catalog is not None:
        metadata = unpack_table(place.by_catalog).metadata()
    else:
        metadata = TableMetadata(*resolve(name.table, place.storage_options, place.verify))
    return metadata if branch is None else metadata.on_branch(branch)


def scan_of(options: Options) -> Scan:
    """Return the scan for the options of a batch read. Raises as `Table.scan`."""
    asked = options.read()
    metadata = with_dynamic_options(open_metadata(options.place()), asked.table)
    return make_scan(metadata, columns=asked.columns, filter=asked.filter, travel=parse_travel(**asked.travel))


def to_nullable_schema(fields: Sequence[DataField]) -> StructType:
    """Return the columns as this source yields them: all nullable, as in Spark's file scans."""
    return to_spark_schema(drop_not_null(fields))


def check_schema(given: StructType, fields: Sequence[DataField]) -> None:
    """Raise `InvalidArgument` if the schema given by a user differs from the schema of the read."""
    check_same(given, to_nullable_schema(fields))


def check_same(given: StructType, known: StructType) -> None:
    """Check as `check_schema`, with the read's schema as a Spark schema."""
    if [(f.name, f.dataType.simpleString()) for f in given] != [(f.name, f.dataType.simpleString()) for f in known]:
        raise InvalidArgument(
            f"the schema of the table is {known.simpleString()}, not {given.simpleString()}; "
            "leave .schema(...) out, and choose columns by .option('columns', ...)"
        )


def ensure_table(
    given: Mapping[str, str],
    schema: StructType,
    *,
    must_be_new: bool = False,
    overwrite: bool = True,
    heeds: bool = False,
    comment: str | None = None,
    defaults: Mapping[str, str] | None = None,
) -> TableMetadata:
    """Create the table of the options with the DataFrame's columns unless it exists; return its metadata.

    `comment`: the comment of a new table. `defaults`: the default values of its columns, by name.

    `heeds`: whether options may differ from the existing table's if a single write can override them.

    Raises:
        AlreadyExists: the table exists, and must be new.
        InvalidArgument, ColumnNotFound: options that tables do not have, or that differ from the existing table's.
        Unsupported: a type or option that Morrow does not handle.
    """
    options = Options(given)
    sink = options.sink(overwrite=overwrite)
    others = {key: value for key, value in sink.table.items() if not (heeds and key in WRITE_OPTION_KEYS)}
    metadata = open_metadata(options.place())
    if metadata.schema_ids():
        if must_be_new:
            raise AlreadyExists(f"{metadata.where}: there is a table; add to it by .mode('append')")
        _check_options(metadata.latest_schema(), others, metadata.where)
        return metadata
    check_no_secrets(sink.table, metadata.where)
    try:
        columns = _list_columns(schema, sink.kinds)
        own = _restore_case(sink.table, [field.name for field in columns])
        first = build_first_schema(columns, options=own, comment=comment, defaults=defaults, where=metadata.where)
        create_first_schema(metadata, first)
    except AlreadyExists:  # another process has created it meanwhile
        if must_be_new:
            raise
        _check_options(metadata.latest_schema(), others, metadata.where)
    return metadata


def follow_columns(given: Mapping[str, str], schema: StructType) -> None:
    """Add the columns of the rows to the table if ``write.merge-schema`` is set. Raises as `extend_schema`."""
    options = Options(given)
    sink = options.sink()
    if sink.replace_where is not None:
        raise Unsupported("the option 'replaceWhere' of such a write", hint="use morrow.spark.write(replace_where=...)")
    if sink.evolution is None:
        return
    metadata, columns = open_metadata(options.place()), _list_columns(schema, sink.kinds)
    extend_schema(metadata, columns, sink.evolution)


def _list_columns(schema: StructType, kinds: str | None) -> tuple[DataField, ...]:
    return tuple(field for field in to_paimon_fields(schema) if field.name != kinds)


def _restore_case(options: Mapping[str, str], columns: list[str]) -> dict[str, str]:
    """Return the options with column names in the case of the columns, since Spark does not keep the case."""
    spelled = {name.lower(): name for name in columns}
    restored = {}
    for key, value in options.items():
        if (found := split_column_option(key)) is not None:
            named = ",".join(spelled.get(name, name) for name in found[0].split(","))
            key = f"{FIELDS}{named}.{found[1]}"
        restored[key] = value
    return restored


def _check_options(schema: TableSchema, given: Mapping[str, str], where: str) -> None:
    """Check that the table options of a write match the table's options: different values would be ignored."""
    known = {key.lower(): value for key, value in schema.options.items()}
    keys = {PRIMARY_KEY.key: schema.primary_keys, PARTITION.key: schema.partition_keys}
    for name, value in given.items():
        same = parse_names(value) == keys[name] if name in keys else known.get(name) == value
        if not same:
            has = ",".join(keys[name]) if name in keys else known.get(name)
            raise InvalidArgument(
                f"{where}: the option {name!r} is {has!r} for this table, not {value!r}; leave it out of the write, "
                "or alter the table first"
            )


def check_no_secrets(options: Iterable[str], where: str = "") -> None:
    """Raise `Unsupported` for an option that is not a table option and looks like a secret."""
    for key in options:
        if is_secret(key):
            raise Unsupported(
                f"the option {key!r} of a table, which keeps no secrets,",
                where=where,
                hint="a catalog is given them by storage_options or options, format('morrow') by storage.<name>",
            )
