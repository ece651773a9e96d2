"""The tasks of a read: they read sections, and return rows, merged rows or masks in the Arrow types for Spark.

The driver makes the masks of small sections. Tasks make the masks of large sections, and return them as bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.io.store import FileStore
from morrow.engine.names import FILE_PATH, POSITION, ROW_BUCKET, ROW_INDEX, cols
from morrow.engine.plan.manifests import guard_read
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution import execute
from morrow.readers.execution.execute import MASK_WORKERS
from morrow.readers.execution.section_frames import filter_frame
from morrow.readers.execution.strategy import scan_masks
from morrow.readers.files.file_frames import collect_batches, scan_files, translate_file_errors
from morrow.readers.masks import Mask, compute_live_masks
from morrow.readers.masks.live_rows import find_known_masks, mask_bytes
from morrow.readers.masks.section_cache import SECTIONS, make_cache_key, pack_mask, unpack_mask
from morrow.readers.merges.version_masks import find_known_version_masks
from morrow.spark.job.execution import is_local
from morrow.spark.job.sections import ScanJob, run_sections
from morrow.spark.job.tasks import Run, Work
from morrow.spark.job.wire import extract_units
from morrow.spark.sessions import count_cores, is_connect
from morrow.spark.types import drop_not_null, to_spark_rows, to_travel_schema
from morrow.spark.versions import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Placed: TypeAlias = tuple[pa.Table, pa.Scalar, pa.Array]
"""Rows, the path of their file, and their positions in it."""

PLACE_FIELDS = (pa.field(FILE_PATH, pa.string()), pa.field(ROW_INDEX, pa.int64()), pa.field(ROW_BUCKET, pa.int32()))


def scan(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of sections."""
    schema, store = _make_schema(job.plan), job.store.store()
    for plan in job.plans_of(extract_units(units)):
        for batch in execute.to_batches(plan, store):
            yield to_spark_rows(batch, schema)


def merge(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of keys whose versions are combined."""
    # Imported here: the functions of merge engines import libraries that other tables do not need.
    from morrow.readers.merges.sections import scan_merged

    schema, store = _make_schema(job.plan), job.store.store()
    for plan, section in _decode_sections(job, units):
        read = [plan.schema.by_name[name] for name in plan.read_columns]
        with guard_read(plan, store), translate_file_errors(plan, [section], read, store):
            frame = filter_frame(plan, scan_merged(plan, section, plan.read_columns, store)).select(cols(plan.columns))
            frame = frame if plan.limit is None else frame.head(plan.limit)
            for chunk in collect_batches(frame, execute.DEFAULT_BATCH_ROWS):
                for batch in to_arrow_table(chunk, plan.fields).to_batches():
                    yield to_spark_rows(batch, schema)


def compute_masks(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of each file; for a piece of a section, only the live rows with its keys."""
    store = job.store.store()
    for plan, section in _decode_sections(job, units):
        with guard_read(plan, store):
            found = scan_masks(plan, section, store)
        for file, mask in zip(section.files, found, strict=True):
            yield pa.RecordBatch.from_pydict({"file": [file.path], "mask": [pack_mask(mask)]}, MASK_SCHEMA)


def read_places(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows with file path, position in the file (both null if several files are merged), and bucket."""
    store, rows_schema = job.store.store(), _make_schema(job.plan)
    schema = pa.schema([*rows_schema, *PLACE_FIELDS])
    for plan, section in _decode_sections(job, units):
        raw = section.kind is SectionKind.RAW
        for rows, path, positions in (
            _read_placed(plan, section, store) if raw else _read_unplaced(plan, section, store)
        ):
            placed = [
                pa.repeat(path, len(rows)),
                positions,
                pa.repeat(pa.scalar(section.bucket, pa.int32()), len(rows)),
            ]
            yield from pa.Table.from_arrays(
                [*to_spark_rows(rows, rows_schema).columns, *placed], schema=schema
            ).to_batches()


def _read_placed(plan: ScanPlan, section: Section, store: FileStore) -> Iterator[_Placed]:
    """Yield rows of files that are read separately."""
    read = [plan.schema.by_name[name] for name in plan.read_columns]
    with guard_read(plan, store):
        found = compute_live_masks(plan, section, store)
    for file, mask in zip(section.files, found, strict=True):
        kinds = [VALUE_KIND_FIELD] if plan.drops_retractions and file.may_hold_retractions else []
        with guard_read(plan, store), translate_file_errors(plan, [section], read, store):
            frame = scan_files(plan, section, [file], [*read, *kinds], store, position=True, live=mask)
            frame = filter_frame(plan, frame)
            frame = frame.filter((pl.col(VALUE_KIND) & RETRACT_BIT) == 0) if kinds else frame
            frame = frame if mask is None else frame.filter(pl.lit(mask).gather(pl.col(POSITION)))
            for chunk in collect_batches(frame.select(*cols(plan.columns), POSITION), execute.DEFAULT_BATCH_ROWS):
                rows = to_arrow_table(chunk.drop(POSITION), plan.fields)
                yield rows, pa.scalar(file.path), chunk[POSITION].cast(pl.Int64).to_arrow()


def _read_unplaced(plan: ScanPlan, section: Section, store: FileStore) -> Iterator[_Placed]:
    """Yield rows of files that are read together."""
    for batch in execute.to_batches(replace(plan, sections=(section,)), store):
        yield pa.Table.from_batches([batch]), pa.scalar(None, pa.string()), pa.nulls(len(batch), pa.int64())


def _decode_sections(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[tuple[ScanPlan, Section]]:
    """Yield each section with its plan."""
    yield from ((plan, section) for plan in job.plans_of(extract_units(units)) for section in plan.sections)


def _make_schema(plan: ScanPlan) -> pa.Schema:
    return to_travel_schema(drop_not_null(plan.fields))


WORKS: Mapping[Work, Run] = {Work.SCAN: scan, Work.MERGE: merge, Work.PLACES: read_places, Work.MASKS: compute_masks}

DRIVER_ROWS = 1 << 23
"""The maximum stored rows, over all sections, whose keys the driver reads for one DataFrame; tasks read the others."""

ALONE_ROWS, ALONE_CORES = 1 << 26, 4
"""The same maximum in local mode, with at most this number of cores, which the driver itself keeps busy."""

MASK_SCHEMA = pa.schema([("file", pa.string()), ("mask", pa.binary())])
"""The path of a file, and its mask as bits, the first row in the lowest bit; null if every row is live."""
MASK_COLUMNS = "file STRING, mask BINARY"


def _join_masks(one: bytes | None, other: bytes | None) -> bytes | None:
    """Return the union of two masks."""
    if one is None or other is None:
        return None
    return (np.frombuffer(one, np.uint8) | np.frombuffer(other, np.uint8)).tobytes()


def make_masks(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, spark: SparkSession
) -> list[tuple[Mask, ...]]:
    """Return the result of `scan_masks` for each section.

    Raises `CorruptFile`, `FileMissing`, `StorageError`: files needed for masks cannot be read.
    """
    far = _select_distributed(plan, sections, store, spark)
    made = _make_by_tasks(plan, far, store, spark) if far else {}

    def masks(section: Section) -> tuple[Mask, ...]:
        return made.get(section) or _find_cached(plan, section, store) or scan_masks(plan, section, store)

    with ThreadPoolExecutor(MASK_WORKERS) as pool:
        return list(pool.map(masks, sections))


def is_for_driver(rows: int, spark: SparkSession) -> bool:
    """Return whether the driver reads the keys of this number of stored rows."""
    if rows <= DRIVER_ROWS:
        return True
    return rows <= ALONE_ROWS and not is_connect(spark) and is_local(spark) and count_cores(spark) <= ALONE_CORES


def _select_distributed(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, spark: SparkSession
) -> list[Section]:
    """Return the sections whose masks are made by tasks."""
    far, rows = [], 0
    for section in sections:
        if section.kind is SectionKind.MERGE and not _is_cached(plan, section, store):
            rows += section.row_count
            if not is_for_driver(rows, spark):
                far.append(section)
    return far


def _is_cached(plan: ScanPlan, section: Section, store: FileStore) -> bool:
    if _find_cached(plan, section, store) is not None:
        return True
    if plan.folds(section):
        return find_known_version_masks(plan, section, store) is not None
    return find_known_masks(plan, section, store) is not None


def _find_cached(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...] | None:
    """Return cached masks that tasks made for an earlier read."""
    found: tuple[Mask, ...] | None = SECTIONS.get(make_cache_key("by tasks", plan, store, plan.merge, section))
    return found


def _make_by_tasks(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, spark: SparkSession
) -> dict[Section, tuple[Mask, ...]]:
    table = to_arrow(run_sections(Work.MASKS, plan, sections, store, MASK_COLUMNS, spark))
    found: dict[str, bytes | None] = {}
    for path, bits in zip(table["file"].to_pylist(), table["mask"].to_pylist()):
        # A cut section gives one mask for each of its pieces.
        found[path] = _join_masks(found[path], bits) if path in found else bits
    made = {}
    for section in sections:
        # Files without rows are in no piece.
        masks = tuple(unpack_mask(found.get(file.path), file.row_count) for file in section.files)
        key = make_cache_key("by tasks", plan, store, plan.merge, section)
        SECTIONS.put(key, masks, mask_bytes(masks), of=section.newest_file)
        made[section] = masks
    return made
