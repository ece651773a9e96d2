"""Sections that Spark reads itself: its vectorised Parquet scan, with Morrow's masks applied by a join.

    files without a mask ──Parquet scan────────────▶ rows
    files with a mask    ──Parquet scan, row index─▶ semi join with (file, mask) on the bit at the row index ─▶ rows

The masks are a small local relation that is broadcast: 64 rows to a BIGINT. Projections and filters of Spark reach the
scan as for any Parquet files. Files with the same scan settings share a scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from morrow.engine.format.row_kinds import INSERT, UPDATE_AFTER
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.names import FILE, KEY_HERE, MASK, ROW_HERE
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.masks.bits import packed
from morrow.spark.jvm.keeping import kept
from morrow.spark.reading import expressions
from morrow.spark.reading.choice import read_fields
from morrow.spark.reading.file_scans import FileScan, MaskedFile, Words, is_masked, name_of, size_of
from morrow.spark.types.to_spark import spark_schema, without_not_null
from morrow.spark.versions import from_arrow, joins_row_positions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession

WORD_BITS = 64

ROW = "_metadata.row_index"
SIZE, NAME = "_metadata.file_size", "_metadata.file_name"
"""The columns that identify files; a join by the size costs half of one by the name."""

READ_OPTIONS = {
    # A missing or damaged file is an error, whatever the session's settings.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    # Paimon counts days and ticks in the proleptic Gregorian calendar.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # Paths are file names, not patterns.
    "__globPaths__": "false",
    # Columns of ORC are found by their names.
    "orc.force.positional.evolution": "false",
}

CHECKS_PAGES = "parquet.page.verify-checksum.enabled"
"""An option of Parquet's own library, which by default verifies no checksums."""


def scan_frame(plan: ScanPlan, scan: FileScan, spark: SparkSession, *, checks_pages: bool = False) -> DataFrame:
    """Returns the live rows of a scan that the filter keeps, columns `plan.columns`; masks are joined.

    With `checks_pages` Spark verifies the checksums of the pages that it reads; a mismatch fails its job.
    """
    frame = kept(_reader(scan, spark).option(CHECKS_PAGES, str(checks_pages).lower()).parquet(*scan.paths), spark)
    return finished(plan, scan, _masked(frame, scan, spark) if is_masked(scan.files) else frame)


def finished(plan: ScanPlan, scan: FileScan, frame: DataFrame) -> DataFrame:
    """Returns the rows that the filter keeps of the live rows of a scan, columns `plan.columns`."""
    from pyspark.sql.functions import expr

    if plan.filter.predicate != ALWAYS:
        columns = _columns(plan, scan, plan.filter.columns)
        frame = frame.where(expressions.compile(plan.filter.predicate, plan.schema.fields, columns.__getitem__))
    if scan.drops:
        frame = frame.where(expr(f"{VALUE_KIND} IN ({INSERT}, {UPDATE_AFTER})"))
    # Often they are so already, and every call into the JVM costs time. Where a column is missing, another one, which
    # the filter reads, may be stored under its name.
    if scan.columns == plan.columns and None not in scan.names:
        return frame
    columns = _columns(plan, scan, plan.columns)
    return frame.select([columns[name].alias(name) for name in plan.columns])


def _reader(scan: FileScan, spark: SparkSession) -> DataFrameReader:
    reader = spark.read.options(**READ_OPTIONS).schema(spark_schema(without_not_null(scan.fields)))
    return reader.option("basePath", scan.folders.base) if scan.folders else reader


def _columns(plan: ScanPlan, scan: FileScan, wanted: Iterable[str]) -> dict[str, Column]:
    """Returns the source of columns in the scan: columns of the files, or constants."""
    from pyspark.sql.functions import col, date_from_unix_date

    names = {field.name: name for field, name in zip(read_fields(plan), scan.names)}
    constants = scan.constants
    days = scan.folders.days if scan.folders else frozenset()
    columns = {}
    for name in wanted:
        stored = names.get(name, name)
        if name in constants or stored is None:
            columns[name] = expressions.literal(constants.get(name), plan.schema.by_name[name].type, name)
        else:
            column = col(expressions.quoted(stored))
            columns[name] = date_from_unix_date(column) if name in days else column
    return columns


def _masked(frame: DataFrame, scan: FileScan, spark: SparkSession) -> DataFrame:
    from pyspark.sql.functions import broadcast, expr

    by_size = len({size_of(each) for each in scan.files}) == len(scan.files)
    key, identity = (size_of, SIZE) if by_size else (name_of, NAME)
    relation = broadcast(mask_relation([key(each) for each in scan.files], list(map(mask_words, scan.files)), spark))
    if joins_row_positions(spark):
        return frame.join(relation, expr(_is_live(identity, ROW)), "left_semi")
    wide = frame.select("*", expr(f"{identity} AS {KEY_HERE}"), expr(f"{ROW} AS {ROW_HERE}"))
    return wide.join(relation, expr(_is_live(KEY_HERE, ROW_HERE)), "left_semi").drop(KEY_HERE, ROW_HERE)


def _is_live(key: str, row: str) -> str:
    """Returns the SQL condition that the bit of a row is set in the mask of its file."""
    word, bit = f"get({MASK}, CAST(shiftright({row}, 6) AS INT))", f"CAST({row} & {WORD_BITS - 1} AS INT)"
    return f"{key} = {FILE} AND (shiftright({word}, {bit}) & 1) = 1"


def mask_relation(keys: Sequence[int | str], masks: Sequence[Words], spark: SparkSession) -> DataFrame:
    """Returns a relation of the keys that identify files, and their masks."""
    from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

    kind = LongType() if isinstance(keys[0], int) else StringType()
    words = pa.array(masks, pa.list_(pa.int64()))
    schema = StructType([StructField(FILE, kind), StructField(MASK, ArrayType(LongType()))])
    return from_arrow(spark, pa.table({FILE: pa.array(keys), MASK: words}), schema)


def mask_words(each: MaskedFile) -> Words:
    """Returns a file's mask as BIGINTs of 64 rows each, the first row in the lowest bit."""
    bits = packed(each.mask)
    if bits is None:
        return np.full(-(-each.file.row_count // WORD_BITS), -1, np.int64)
    return np.pad(np.frombuffer(bits, np.uint8), (0, -len(bits) % 8)).view(np.int64)
