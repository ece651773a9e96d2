"""Masks for Spark's scans: made by the driver, and for large sections by tasks that return nothing else, as bits."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.readers.execution.execute import MASK_WORKERS
from morrow.readers.masks import MASK_CACHE, Mask
from morrow.readers.masks.bits import unpacked
from morrow.readers.masks.live import known_merged, mask_bytes
from morrow.readers.merges.version_masks import is_folded, known_masks, scan_masks
from morrow.spark.job.registry import Work
from morrow.spark.job.sections import run_sections
from morrow.spark.sessions import cores, is_connect
from morrow.spark.versions import to_arrow
from morrow.spark.workers import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_ROWS = 1 << 23
"""Stored rows, all sections together, whose keys the driver reads for one DataFrame; tasks read those beyond."""

ALONE_ROWS, ALONE_CORES = 1 << 26, 4
"""The same where the driver's process runs the tasks, and has so few cores that it keeps them busy itself."""

MASK_SCHEMA = pa.schema([("file", pa.string()), ("mask", pa.binary())])
"""Path of a file and its mask as bits, the first row in the lowest one; null where every row is live."""
MASK_COLUMNS = "file STRING, mask BINARY"


def _joined(one: bytes | None, other: bytes | None) -> bytes | None:
    """Returns the rows that are in either of two masks."""
    if one is None or other is None:
        return None
    return (np.frombuffer(one, np.uint8) | np.frombuffer(other, np.uint8)).tobytes()


def section_masks(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, spark: SparkSession
) -> list[tuple[Mask, ...]]:
    """Returns the result of `scan_masks` for each section.

    Raises:
        CorruptFile, FileMissing, StorageError: the files that masks come from cannot be read.
    """
    far = _far(plan, sections, store, spark)
    made = _made_by_tasks(plan, far, store, spark) if far else {}

    def masks(section: Section) -> tuple[Mask, ...]:
        return made.get(section) or _kept(plan, section, store) or scan_masks(plan, section, store)

    with ThreadPoolExecutor(MASK_WORKERS) as pool:
        return list(pool.map(masks, sections))


def is_for_driver(rows: int, spark: SparkSession) -> bool:
    """Returns whether the driver reads the keys of so many stored rows."""
    if rows <= DRIVER_ROWS:
        return True
    return rows <= ALONE_ROWS and not is_connect(spark) and is_local(spark) and cores(spark) <= ALONE_CORES


def _far(plan: ScanPlan, sections: Sequence[Section], store: FileStore, spark: SparkSession) -> list[Section]:
    """Returns the sections whose masks are left to tasks."""
    far, rows = [], 0
    for section in sections:
        if section.kind is SectionKind.MERGE and not _is_known(plan, section, store):
            rows += section.row_count
            if not is_for_driver(rows, spark):
                far.append(section)
    return far


def _is_known(plan: ScanPlan, section: Section, store: FileStore) -> bool:
    if _kept(plan, section, store) is not None:
        return True
    if is_folded(plan, section):
        return known_masks(plan, section, store) is not None
    return known_merged(plan, section, store) is not None


def _kept(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...] | None:
    """Returns masks that tasks made for an earlier read."""
    return MASK_CACHE.get(_key(plan, section, store))


def _key(plan: ScanPlan, section: Section, store: FileStore) -> Hashable:
    return "by tasks", store.url(plan.table), store.checks_pages, plan.merge, plan.schema.layout, section


def _made_by_tasks(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, spark: SparkSession
) -> dict[Section, tuple[Mask, ...]]:
    table = to_arrow(run_sections(Work.MASKS, plan, sections, store, MASK_COLUMNS, spark))
    found: dict[str, bytes | None] = {}
    for path, bits in zip(table["file"].to_pylist(), table["mask"].to_pylist()):
        # Sections that are cut give one mask for each of their pieces.
        found[path] = _joined(found[path], bits) if path in found else bits
    made = {}
    for section in sections:
        # Files without rows are in none of the pieces.
        masks = tuple(unpacked(found.get(file.path), file.row_count) for file in section.files)
        MASK_CACHE.put(_key(plan, section, store), masks, mask_bytes(masks))
        made[section] = masks
    return made
