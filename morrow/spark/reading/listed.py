"""Sections that Spark reads itself, from files and masks that Morrow lists.

    files ──Spark's scan, row index and first bit──▶ filter: no mask, or its bit is set ──▶ rows

The values of partitions and the first bits of masks are constants of the files, so that one scan takes all files whose
columns are named alike. Projections and filters of Spark reach it as they reach any Parquet files; conditions on
partition columns drop files before they are opened, also those that a join finds at run time. Spark's reader of ORC
gives no row index: where masks are, each ORC file is read whole, and rows are counted (`WholeFiles.java`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from morrow.engine.errors import SnapshotExpired
from morrow.engine.format.paths import TablePaths
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.names import FIRST_BIT
from morrow.engine.plan.in_flight import KEEP_ROWS
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.spark.jvm.scanning import Scanning
from morrow.spark.reading import expressions
from morrow.spark.reading.choice import ORC
from morrow.spark.reading.counted import asked_frame, skips_partitions
from morrow.spark.reading.file_scans import FileScan, MaskedFile, Words, alike, by_mask
from morrow.spark.reading.native import CHECKS_PAGES, READ_OPTIONS, WORD_BITS, finished, mask_words
from morrow.spark.reading.places import Place
from morrow.spark.types.to_spark import spark_schema, without_not_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LEAST_SPREAD = 1 << 20
"""Bytes of masks from which they are broadcast. Smaller ones travel with the tasks, of which Spark expects no more."""

NO_MASK = -1

CACHED = "where Spark caches the table, REFRESH TABLE plans it anew"
"""What to do where it is no DataFrame of the user's that is old."""


def listed_frames(
    plan: ScanPlan,
    files: Sequence[MaskedFile],
    place: Place,
    scanning: Scanning,
    spark: SparkSession,
    *,
    checks_pages: bool,
) -> Iterator[DataFrame]:
    """Yields the live rows of the files that the filter keeps, columns `plan.columns`, in as few scans as possible."""

    def frame(plan: ScanPlan, scan: FileScan) -> DataFrame:
        return finished(plan, scan, _frame(scan, place, scanning, spark, checks_pages))

    def frames(plan: ScanPlan, files: Sequence[MaskedFile]) -> Iterator[DataFrame]:
        yield from (frame(plan, scan) for scan in _scans(plan, files))

    for scan in _scans(plan, files):
        if skips_partitions(plan, scan):
            yield asked_frame(plan, scan.files, frames, scanning, spark)
        else:
            yield frame(plan, scan)


def _scans(plan: ScanPlan, files: Sequence[MaskedFile]) -> Iterator[FileScan]:
    for (names, drops, format), some in alike(plan, files).items():
        # Of ORC files with masks Spark skips nothing: others are read apart, unless they are small.
        for group in by_mask(some) if format == ORC else [some]:
            yield FileScan(plan, tuple(group), names, drops, listed=True)


def _frame(scan: FileScan, place: Place, scanning: Scanning, spark: SparkSession, checks_pages: bool) -> DataFrame:
    """Returns the live rows of a scan, columns `scan.columns`."""
    partitions: dict[bytes, tuple[object, ...]] = {}
    for each in scan.files:
        partitions.setdefault(each.section.partition_row, each.section.partition)
    rows = {partition: number for number, partition in enumerate(partitions)}
    firsts, masks = _masks(scan.files)
    numbers = [(each.file.size, rows[each.section.partition_row], first) for each, first in zip(scan.files, firsts)]
    keys = [field for field in scan.fields if field.name in scan.found]
    places = [scan.plan.schema.partition_keys.index(field.name) for field in keys]
    folder = folder_of(scan.paths)
    described = {
        "stored": _json([field for field in scan.fields if field.name not in scan.found]),
        "constants": _json(keys),
        "partitions": [
            [expressions.constant(values[place], field.type) for place, field in zip(places, keys)]
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
        described |= _held(scan.plan, scan.plan.snapshot, place)
    packed = np.array(numbers, np.int64).tobytes()
    bits = np.concatenate(masks).tobytes() if masks else b""
    text = msgspec.json.encode(described).decode()
    return scanning.frame(spark, text, packed, bits, spread=len(bits) >= LEAST_SPREAD)


def _held(plan: ScanPlan, snapshot: Snapshot, place: Place) -> Mapping[str, str]:
    """Returns the file that is there as long as the snapshot is, and the error of queries that miss data afterwards."""
    gone = f"{SnapshotExpired.__name__}: {plan.table}: snapshot {snapshot.id} was removed since this DataFrame was made"
    anchor = place.url + TablePaths(plan.root, plan.branch).snapshot(snapshot.id)
    return {"anchor": anchor, "expired": f"{gone}; {KEEP_ROWS}; {CACHED}"}


def _masks(files: Sequence[MaskedFile]) -> tuple[list[int], list[Words]]:
    """Returns the first bit of each file, and the words of all masks one after another."""
    firsts, masks, words = [], [], 0
    for each in files:
        if each.mask is None:
            firsts.append(NO_MASK)
        else:
            firsts.append(words * WORD_BITS)
            masks.append(mask_words(each))
            words += len(masks[-1])
    return firsts, masks


def folder_of(paths: Sequence[str]) -> str:
    """Returns the beginning that all paths share, with the slash at its end."""
    shared = os.path.commonprefix([min(paths), max(paths)])  # noqa: RUF071  # names are cut off below
    return shared[: shared.rfind("/") + 1]


def _json(fields: Sequence[DataField]) -> str:
    return spark_schema(without_not_null(fields)).json()
