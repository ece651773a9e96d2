"""Hidden columns: the partition and the bucket of a row, the file and the position where it lies, and its row id.

They have the names that Java Paimon gives them in Spark. Partitions are structs of columns that are there anyway;
buckets, files and positions are added by tasks; row ids are columns of the read itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from morrow.engine.errors import Unsupported
from morrow.engine.format.schema import ROW_ID_FIELD, SEQUENCE_NUMBER_FIELD, TableSchema
from morrow.engine.format.types import BigIntType, DataField, IntType, RowType, VarCharType
from morrow.engine.io.store import FileStore
from morrow.engine.names import FILE_PATH, ROW_BUCKET, ROW_INDEX, ROW_PARTITION
from morrow.engine.options import TableOptions
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.scan_plan import ScanPlan, SectionKind
from morrow.engine.values import replace
from morrow.scans.table_scan import Scan, planned_with
from morrow.spark.job.registry import Work
from morrow.spark.job.sections import run_sections
from morrow.spark.jvm.scanning import scanning
from morrow.spark.reading import distributed
from morrow.spark.reading.manifests import ManifestTasks
from morrow.spark.types.to_spark import spark_schema, without_not_null
from morrow.writers.buckets.modes import DYNAMIC_BUCKET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = frozenset((FILE_PATH, ROW_INDEX, ROW_PARTITION, ROW_BUCKET, ROW_ID_FIELD.name, SEQUENCE_NUMBER_FIELD.name))

PLACES = (FILE_PATH, ROW_INDEX)
"""Those that tell a row from all others, of tables whose rows lie in one place each."""


def row_id(schema: TableSchema, options: TableOptions) -> tuple[str, ...]:
    """Return the columns by which Spark changes rows of a keyed table: the key, and the partition if it tells rows
    of one key apart. Spark takes no columns that may be null, which the struct of the partition never is.
    """
    is_apart = schema.cross_partition and options.bucket != DYNAMIC_BUCKET
    return (*schema.primary_keys, *((ROW_PARTITION,) if is_apart else ()))


def hidden_fields(schema: TableSchema, options: TableOptions) -> tuple[DataField, ...]:
    """Returns the hidden columns of a table: a name that is one of its own columns, in whatever case, stands for that.

    All are nullable but those by which Spark changes rows: row ids are null in files older than the tracking.
    """
    is_nullable = bool(schema.primary_keys)
    is_id = ROW_PARTITION in row_id(schema, options)
    keys = tuple(schema.by_name[name] for name in schema.partition_keys)
    found = [
        DataField(-1, FILE_PATH, VarCharType(nullable=is_nullable)),
        DataField(-1, ROW_INDEX, BigIntType(nullable=is_nullable)),
        DataField(-1, ROW_PARTITION, RowType(fields=keys)),
        DataField(-1, ROW_BUCKET, IntType()),
    ]
    if options.row_tracking and not schema.primary_keys:
        found += [ROW_ID_FIELD, SEQUENCE_NUMBER_FIELD]
    taken = {name.casefold() for name in schema.by_name}
    nullable = [*found[:2], *without_not_null(found[2:])]
    if is_id:
        nullable[2] = replace(nullable[2], type=nullable[2].type.with_nullable(False))
    return tuple(field for field in nullable if field.name.casefold() not in taken)


def to_dataframe(scan: Scan, columns: Sequence[str], spark: SparkSession) -> DataFrame:
    """Returns columns of a scan's rows, hidden ones among them, in this order.

    Raises:
        Unsupported: places of rows that are merged from several files. Others: as `distributed.to_dataframe`.
    """
    request = scan.request
    hidden = {f.name: f for f in hidden_fields(request.schema, request.options) if f.name in columns}
    tracked = tuple(field for field in (ROW_ID_FIELD, SEQUENCE_NUMBER_FIELD) if field.name in hidden)
    keys = request.schema.partition_keys if ROW_PARTITION in hidden else ()
    stored = dict.fromkeys([*(name for name in columns if name not in hidden), *keys, *(f.name for f in tracked)])
    some = tuple(stored) or tuple(request.schema.by_name)[:1]  # rows without columns are still rows
    wide = scan.adapted(lambda each: replace(each, columns=some, extra=(*each.extra, *tracked)))
    wide = planned_with(wide, ManifestTasks(spark))
    if hidden.keys() <= {ROW_PARTITION, *(field.name for field in tracked)}:
        rows, names = distributed.to_dataframe(wide.plan, wide.store, spark), some
    else:
        rows = _with_places(wide.plan, wide.store, spark, placed=not hidden.keys().isdisjoint(PLACES))
        names = (*some, FILE_PATH, ROW_INDEX, ROW_BUCKET)
    chosen = _chosen(rows, names, columns, keys if ROW_PARTITION in hidden else None)
    return distributed.not_writable(chosen, scanning(spark))


def _chosen(rows: DataFrame, names: Sequence[str], columns: Sequence[str], keys: Sequence[str] | None) -> DataFrame:
    """Returns columns of rows with these names, and the partition of its keys, if there are any."""
    from pyspark.sql.functions import col, struct

    # By number: Spark takes names that differ in case for one.
    numbers = {name: str(number) for number, name in enumerate(names)}
    found = {name: col(number).alias(name) for name, number in numbers.items()}
    if keys is not None:
        found[ROW_PARTITION] = struct([col(numbers[key]).alias(key) for key in keys]).alias(ROW_PARTITION)
    return rows.toDF(*numbers.values()).select([found[name] for name in columns])


def _with_places(plan: ScanPlan, store: FileStore, spark: SparkSession, *, placed: bool) -> DataFrame:
    """Returns rows with `FILE_PATH`, `ROW_INDEX` and `ROW_BUCKET`; `placed`: the first two have to be known."""
    from pyspark.sql.types import IntegerType, LongType, StringType

    columns = spark_schema(without_not_null(plan.fields)).add(FILE_PATH, StringType()).add(ROW_INDEX, LongType())
    columns = columns.add(ROW_BUCKET, IntegerType())
    with in_flight(plan, store):
        parts = [part for part in plan.parts if part.sections]
        if placed and any(each.kind is not SectionKind.RAW for part in parts for each in part.sections):
            raise Unsupported(
                f"{FILE_PATH} and {ROW_INDEX} of rows that are made of several files",
                where=plan.table,
                hint="compact the table fully, or give it deletion vectors",
            )
        frames = [run_sections(Work.PLACES, part, part.sections, store, columns, spark) for part in parts]
    frame = reduce(lambda left, right: left.unionAll(right), frames or [spark.createDataFrame([], columns)])
    return frame if plan.limit is None else frame.limit(plan.limit)
