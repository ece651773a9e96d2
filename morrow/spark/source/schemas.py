"""The columns of a read, before it is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from morrow.engine.catalog.names import object_name
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.io.resolve import resolve
from morrow.engine.plan.metadata import TableMetadata
from morrow.readers.spark.types import spark_schema, without_not_null
from morrow.scan import Scan, make_scan
from morrow.spark.source.options import Options, Place

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def metadata_of(place: Place) -> TableMetadata:
    """The table at a place, which may not exist yet.

    Raises:
        BranchNotFound: the place is on a branch that is not there.
        InvalidArgument: two branches are named. Unsupported: it is a system table.
    """
    name = object_name(place.path)
    if name.system is not None:
        raise Unsupported(
            f"the system table {name.system!r} in the data source itself",
            hint="read it with morrow.spark.read, or by spark.read.format('morrow') in a registered session",
        )
    if name.branch is not None and place.branch is not None:
        raise InvalidArgument(f"branch={place.branch!r}, but the path names the branch {name.branch!r} already")
    store, root = resolve(name.table, place.storage_options)
    metadata, branch = TableMetadata(store, root), place.branch or name.branch
    return metadata if branch is None else metadata.on_branch(branch)


def schema_of(given: Mapping[str, str]) -> StructType:
    """The schema of a read by these options.

    Raises:
        TableNotFound, SnapshotNotFound, TagNotFound, BranchNotFound: there is nothing to read.
        ColumnNotFound, InvalidArgument: an option is wrong. Unsupported: a type that Spark does not have.
    """
    from morrow.spark.source.stream import StreamPlanner

    options = Options(given)
    # Spark asks before it says what for; without options of a stream the columns are the same.
    return as_spark_schema(StreamPlanner(options).fields if options.is_stream else scan_of(options).fields)


def scan_of(options: Options) -> Scan:
    """The scan that options of a batch read ask for; raises as `Table.scan`."""
    asked = options.read()
    metadata = metadata_of(options.place())
    return make_scan(metadata, columns=asked.columns, filter=asked.filter, **asked.travel)


def as_spark_schema(fields: Sequence[DataField]) -> StructType:
    """Columns as this source gives them: nullable all through, as Spark has those of files."""
    return spark_schema(without_not_null(fields))


def check_schema(given: StructType, fields: Sequence[DataField]) -> None:
    """A schema that the user gave can only be the one that is read. Raises `InvalidArgument`."""
    check_same(given, as_spark_schema(fields))


def check_same(given: StructType, known: StructType) -> None:
    """As `check_schema`, of a schema of Spark's."""
    if [(f.name, f.dataType.simpleString()) for f in given] != [(f.name, f.dataType.simpleString()) for f in known]:
        raise InvalidArgument(
            f"the schema of the table is {known.simpleString()}, not {given.simpleString()}; "
            "leave .schema(...) out, and choose columns by .option('columns', ...)"
        )
