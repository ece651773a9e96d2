"""The columns of a read, before it is planned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from morrow.engine.catalog.names import object_name
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.io.resolve import resolve
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import travel_of
from morrow.scans.making import make_scan
from morrow.scans.table_scan import Scan
from morrow.spark.source.by_catalog import unpacked
from morrow.spark.source.option_values import Place
from morrow.spark.source.options import Options
from morrow.spark.types.to_spark import spark_schema, without_not_null

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def metadata_of(place: Place) -> TableMetadata:
    """Returns the metadata of the table at a place, which may not exist yet.

    Raises:
        BranchNotFound: no such branch.
        InvalidArgument: two branches are named. Unsupported: a system table.
    """
    name = object_name(place.path)
    if name.system is not None:
        raise Unsupported(
            f"the system table {name.system!r} in a stream or a write of format('morrow')",
            hint="read it with morrow.spark.read",
        )
    branch = name.branch_or(place.branch)
    if place.by_catalog is not None:
        metadata = unpacked(place.by_catalog).metadata()
    else:
        metadata = TableMetadata(*resolve(name.table, place.storage_options, place.verify))
    return metadata if branch is None else metadata.on_branch(branch)


def scan_of(options: Options) -> Scan:
    """Returns the scan of the options of a batch read; raises as `Table.scan`."""
    asked = options.read()
    metadata = metadata_of(options.place())
    return make_scan(metadata, columns=asked.columns, filter=asked.filter, travel=travel_of(**asked.travel))


def as_spark_schema(fields: Sequence[DataField]) -> StructType:
    """Returns columns as this source yields them: nullable throughout, as Spark's columns of files are."""
    return spark_schema(without_not_null(fields))


def check_schema(given: StructType, fields: Sequence[DataField]) -> None:
    """Checks that a user's schema is that of the read. Raises `InvalidArgument`."""
    check_same(given, as_spark_schema(fields))


def check_same(given: StructType, known: StructType) -> None:
    """Checks as `check_schema`, against a Spark schema."""
    if [(f.name, f.dataType.simpleString()) for f in given] != [(f.name, f.dataType.simpleString()) for f in known]:
        raise InvalidArgument(
            f"the schema of the table is {known.simpleString()}, not {given.simpleString()}; "
            "leave .schema(...) out, and choose columns by .option('columns', ...)"
        )
