"""Sections that Spark reads itself: its vectorised scan of files, with Morrow's masks.

If Morrow lists the files, masks are a filter: the values of partitions and the first bits of masks are constants of
the files, so that one scan reads all files with the same column names. Conditions on partition columns skip
files before they are opened, including conditions found by a join at run time. Otherwise masks are a small relation
that is broadcast, with 64 rows per BIGINT, and joined on the file and the row index.
Spark's ORC reader does not return the row index: each ORC file with a mask is read whole, and rows are counted
(`WholeFiles.java`). Conditions cannot be pushed below the count, so if partitions may be skipped, Spark requests
the scan when it plans a query, and gets a scan of the remaining partitions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from morrow.engine.errors import SnapshotExpired
from morrow.engine.format.paths import TablePaths
from morrow.engine.format.row_kinds import INSERT, UPDATE_AFTER
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.names import FILE, FIRST_BIT, KEY_HERE, MASK, ROW_HERE
from morrow.engine.plan.manifests import KEEP_ROWS
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.masks.section_cache import pack_mask
from morrow.spark import expressions
from morrow.spark.jvm.file_scans import Scanning, keep_files
from morrow.spark.reading.choice import ORC, read_fields
from morrow.spark.reading.file_scans import (
    FileScan,
    MaskedFile,
    Place,
    Words,
    group_alike,
    group_by_mask,
    is_masked,
    name_of,
    size_of,
)
from morrow.spark.reading.task_rows import apply_filters, select_sections
from morrow.spark.types import drop_not_null, make_empty_frame, to_spark_schema
from morrow.spark.versions import from_arrow, has_row_position_joins

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WORD_BITS = 64

ROW = "_metadata.row_index"
SIZE, NAME = "_metadata.file_size", "_metadata.file_name"
"""The columns that identify files. A join by size takes half the time of a join by name."""

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
"""An option of the Parquet library, which by default does not verify checksums."""


def scan_frame(plan: ScanPlan, scan: FileScan, spark: SparkSession, *, checks_pages: bool = False) -> DataFrame:
    """Return the live rows of a scan that the filter keeps, columns `plan.columns`, by joining masks.

    With `checks_pages`, Spark verifies the checksums of the pages that it reads; a mismatch fails its job.
    """
    reader = spark.read.options(**READ_OPTIONS).schema(to_spark_schema(drop_not_null(scan.fields)))
    if scan.folders:
        reader = reader.option("basePath", scan.folders.base)
    frame = keep_files(reader.option(CHECKS_PAGES, str(checks_pages).lower()).parquet(*scan.paths), spark)
    return finish_scan(plan, scan, _join_masks(frame, scan, spark) if is_masked(scan.files) else frame)


def finish_scan(plan: ScanPlan, scan: FileScan, frame: DataFrame) -> DataFrame:
    """Apply the filter to the live rows of a scan, and select the columns `plan.columns`."""
    from pyspark.sql.functions import expr

    if plan.filter.predicate != ALWAYS:
        columns = _find_columns(plan, scan, plan.filter.columns)
        frame = frame.where(
            expressions.compile_predicate(plan.filter.predicate, plan.schema.fields, columns.__getitem__)
        )
    if scan.drops:
        frame = frame.where(expr(f"{VALUE_KIND} IN ({INSERT}, {UPDATE_AFTER})"))
    # Often the columns already match, and every call into the JVM costs time. If a column is missing, another column
    # that the filter reads may be stored under its name.
    if scan.columns == plan.columns and None not in scan.names:
        return frame
    columns = _find_columns(plan, scan, plan.columns)
    return frame.select([columns[name].alias(name) for name in plan.columns])


def _find_columns(plan: ScanPlan, scan: FileScan, wanted: Iterable[str]) -> dict[str, Column]:
    """Return the sources of columns in the scan: columns of the files, or constants."""
    from pyspark.sql.functions import col, date_from_unix_date

    names = {field.name: name for field, name in zip(read_fields(plan), scan.names)}
    constants = scan.constants
    days = scan.folders.days if scan.folders else frozenset()
    columns = {}
    for name in wanted:
        stored = names.get(name, name)
        if name in constants or stored is None:
            columns[name] = expressions.make_literal(constants.get(name), plan.schema.by_name[name].type, name)
        else:
            column = col(expressions.quote_name(stored))
            columns[name] = date_from_unix_date(column) if name in days else column
    return columns


def _join_masks(frame: DataFrame, scan: FileScan, spark: SparkSession) -> DataFrame:
    from pyspark.sql.functions import broadcast, expr

    by_size = len({size_of(each) for each in scan.files}) == len(scan.files)
    key, identity = (size_of, SIZE) if by_size else (name_of, NAME)
    relation = broadcast(mask_relation([key(each) for each in scan.files], list(map(mask_words, scan.files)), spark))
    if has_row_position_joins(spark):
        return frame.join(relation, expr(_is_live(identity, ROW)), "left_semi")
    wide = frame.select("*", expr(f"{identity} AS {KEY_HERE}"), expr(f"{ROW} AS {ROW_HERE}"))
    return wide.join(relation, expr(_is_live(KEY_HERE, ROW_HERE)), "left_semi").drop(KEY_HERE, ROW_HERE)


def _is_live(key: str, row: str) -> str:
    """Return the SQL condition that a row's bit is set in the mask of its file."""
    word, bit = f"get({MASK}, CAST(shiftright({row}, 6) AS INT))", f"CAST({row} & {WORD_BITS - 1} AS INT)"
    return f"{key} = {FILE} AND (shiftright({word}, {bit}) & 1) = 1"


def mask_relation(keys: Sequence[int | str], masks: Sequence[Words], spark: SparkSession) -> DataFrame:
    """Return a relation of the keys that identify files, and the masks of these files."""
    from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

    kind = LongType() if isinstance(keys[0], int) else StringType()
    words = pa.array(masks, pa.list_(pa.int64()))
    schema = StructType([StructField(FILE, kind), StructField(MASK, ArrayType(LongType()))])
    return from_arrow(spark, pa.table({FILE: pa.array(keys), MASK: words}), schema)


def mask_words(each: MaskedFile) -> Words:
    """Convert a file's mask to BIGINTs of 64 rows each, the first row in the lowest bit."""
    bits = pack_mask(each.mask)
    if bits is None:
        return np.full(-(-each.file.row_count // WORD_BITS), -1, np.int64)
    return np.pad(np.frombuffer(bits, np.uint8), (0, -len(bits) % 8)).view(np.int64)


MIN_SPREAD_BYTES = 1 << 20
"""The minimum bytes of masks to broadcast. Smaller masks are sent with each task."""

NO_MASK = -1

CACHED = "where Spark caches the table, REFRESH TABLE plans it anew"
"""The hint for queries whose outdated plan is Spark's cached plan, not a DataFrame of the user."""


def scan_listed(
    plan: ScanPlan,
    files: Sequence[MaskedFile],
    place: Place,
    scanning: Scanning,
    spark: SparkSession,
    *,
    checks_pages: bool,
) -> Iterator[DataFrame]:
    """Yield the live rows of the files that the filter keeps, columns `plan.columns`, in as few scans as possible."""

    def frame(plan: ScanPlan, scan: FileScan) -> DataFrame:
        return finish_scan(plan, scan, _scan_files(scan, place, scanning, spark, checks_pages))

    def frames(plan: ScanPlan, files: Sequence[MaskedFile]) -> Iterator[DataFrame]:
        yield from (frame(plan, scan) for scan in _plan_scans(plan, files))

    for scan in _plan_scans(plan, files):
        if is_skipping_partitions(plan, scan):
            yield make_lazy_frame(plan, scan.files, frames, scanning, spark)
        else:
            yield frame(plan, scan)


def _plan_scans(plan: ScanPlan, files: Sequence[MaskedFile]) -> Iterator[FileScan]:
    for (names, drops, format), some in group_alike(plan, files).items():
        # Spark reads ORC files with masks without skipping, so ORC files without masks get their own scan unless small.
        for group in group_by_mask(some) if format == ORC else [some]:
            yield FileScan(plan, tuple(group), names, drops, listed=True)


def _scan_files(scan: FileScan, place: Place, scanning: Scanning, spark: SparkSession, checks_pages: bool) -> DataFrame:
    """Return the live rows of a scan, columns `scan.columns`."""
    partitions: dict[bytes, tuple[object, ...]] = {}
    for each in scan.files:
        partitions.setdefault(each.section.partition_row, each.section.partition)
    rows = {partition: number for number, partition in enumerate(partitions)}
    firsts, masks = _concat_masks(scan.files)
    numbers = [(each.file.size, rows[each.section.partition_row], first) for each, first in zip(scan.files, firsts)]
    keys = [field for field in scan.fields if field.name in scan.found]
    places = [scan.plan.schema.partition_keys.index(field.name) for field in keys]
    folder = find_folder(scan.paths)
    described = {
        "stored": _to_json([field for field in scan.fields if field.name not in scan.found]),
        "constants": _to_json(keys),
        "partitions": [
            [expressions.format_constant(values[place], field.type) for place, field in zip(places, keys)]
            for values in partitions.values()
        ],
        "folder": place.url + folder,
        "paths": [path.removeprefix(folder) for path in scan.paths],
        "first": FIRST_BIT,
        "unmasked": NO_MASK in firsts,
        "columns": scan.columns,
        "format": scan.format,
        "options": READ_OPTIONS | {CHECKS_PAGES: str(checks_pages).lower()},
    }
    if scan.plan.snapshot is not None and scan.plan.root:
        described |= _describe_anchor(scan.plan, scan.plan.snapshot, place)
    packed = np.array(numbers, np.int64).tobytes()
    bits = np.concatenate(masks).tobytes() if masks else b""
    text = msgspec.json.encode(described).decode()
    return scanning.frame(spark, text, packed, bits, spread=len(bits) >= MIN_SPREAD_BYTES)


def _describe_anchor(plan: ScanPlan, snapshot: Snapshot, place: Place) -> Mapping[str, str]:
    """Return a file that exists as long as the snapshot does, and the error for queries that miss data afterwards."""
    gone = f"{SnapshotExpired.__name__}: {plan.table}: snapshot {snapshot.id} was removed since this DataFrame was made"
    anchor = place.url + TablePaths(plan.root, plan.branch).snapshot(snapshot.id)
    return {"anchor": anchor, "expired": f"{gone}; {KEEP_ROWS}; {CACHED}"}


def _concat_masks(files: Sequence[MaskedFile]) -> tuple[list[int], list[Words]]:
    """Return the first bit of each file, and the concatenated words of all masks."""
    firsts, masks, words = [], [], 0
    for each in files:
        if each.mask is None:
            firsts.append(NO_MASK)
        else:
            firsts.append(words * WORD_BITS)
            masks.append(mask_words(each))
            words += len(masks[-1])
    return firsts, masks


def find_folder(paths: Sequence[str]) -> str:
    """Return the longest common folder of the paths, with a slash at its end."""
    shared = os.path.commonprefix([min(paths), max(paths)])  # noqa: RUF071  # the file name is cut off below
    return shared[: shared.rfind("/") + 1]


def _to_json(fields: Sequence[DataField]) -> str:
    return to_spark_schema(drop_not_null(fields)).json()


def is_skipping_partitions(plan: ScanPlan, scan: FileScan) -> bool:
    """Return whether the scan counts rows although later conditions may skip some of its partitions."""
    partitions = {each.section.partition_row for each in scan.files}
    return (
        scan.format == ORC
        and is_masked(scan.files)
        and len(partitions) > 1
        and not set(plan.schema.partition_keys).isdisjoint(plan.columns)
    )


def make_lazy_frame(
    plan: ScanPlan,
    files: Sequence[MaskedFile],
    frames: Callable[[ScanPlan, Sequence[MaskedFile]], Iterator[DataFrame]],
    scanning: Scanning,
    spark: SparkSession,
) -> DataFrame:
    """Return the rows of files, columns `plan.columns`, read lazily: `frames` yields those that a query needs."""

    def rows(numbers: tuple[int, ...], told: Sequence[Any]) -> DataFrame:
        chosen = tuple(plan.columns[number] for number in numbers)
        narrow = plan.with_columns(chosen or plan.columns[:1])
        kept = set(map(id, select_sections(apply_filters(narrow, told), [each.section for each in files])))
        left = [each for each in files if id(each.section) in kept]
        found = list(frames(narrow, left)) or [make_empty_frame(spark, to_spark_schema(drop_not_null(narrow.fields)))]
        frame = reduce(lambda one, other: one.unionAll(other), found)
        return frame if chosen else frame.select()

    size = sum(each.file.size for each in files)
    schema = to_spark_schema(drop_not_null(plan.fields)).json()
    return scanning.rows(spark, schema, size, f"MorrowScan({len(files):,} ORC files)", rows)
