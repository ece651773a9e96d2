"""Manifests of large tables, decoded by tasks: each task returns the entries of some manifests, without statistics.

    the manifest list ──groups of manifests──▶ tasks (`engine.plan.planner`) ──entries──▶ the driver's plan

The plan is the same as without tasks: the driver gets the same entries and applies the same checks. If tasks cannot
read a manifest, the driver reads it: maybe only the driver can reach the store, and if the table is damaged, the
driver finds the cause.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from morrow.engine.errors import MorrowError
from morrow.engine.format.schema import TableSchema
from morrow.engine.plan.entries import MAX_CACHED_ENTRIES, Decoded, count_listed_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import decode_outlined, reduce_request
from morrow.engine.plan.scan_plan import ScanRequest
from morrow.engine.redaction import get_logger
from morrow.engine.units import format_count
from morrow.readers.execution.section_pieces import pack_units
from morrow.spark.job.execution import is_local, run_tasks
from morrow.spark.job.sections import TASKS_PER_CORE
from morrow.spark.job.tasks import Run, Work
from morrow.spark.job.wire import StoreAccess, decode_frame, decode_value, encode_frame, encode_value, extract_units
from morrow.spark.sessions import count_cores, is_connect
from morrow.spark.versions import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_ENTRIES = MAX_CACHED_ENTRIES
"""The minimum manifest entries for tasks. The driver decodes fewer in about a second, the time that a job needs to
start, and caches them. It does not cache more, so every query would decode all entries again."""

MIN_TASK_BYTES = 1 << 20
"""The minimum bytes of manifests for a task: decoding fewer takes less time than starting the task."""

LISTED = ("_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES")
"""The fields of a manifest that a task needs."""

COLUMNS = "number INT, total BIGINT, entries BINARY, error BINARY"
_SCHEMA = pa.schema([("number", pa.int32()), ("total", pa.int64()), ("entries", pa.binary()), ("error", pa.binary())])
"""The row that a task returns: the number of its group, the rows of `Decoded`, its entries; or the error (pickled)."""

CONNECTED = "a client of Spark Connect plans by itself"
LOCAL = "tasks would run on its own cores"
"""The obstacle in local mode: a job costs more than it saves, since its tasks run on the driver's own cores, and each
entry is written and read an additional time."""

log = get_logger(__name__)


@dataclass(frozen=True)
class ManifestJob:
    """A table, and the request for its entries."""

    store: StoreAccess
    branch: str
    allowed_roots: tuple[str, ...]
    request: ScanRequest
    known: Mapping[int, TableSchema] = field(repr=False)

    @classmethod
    def of(cls, metadata: TableMetadata, request: ScanRequest) -> ManifestJob:
        access = StoreAccess.of(metadata.store, metadata.root)
        return cls(access, metadata.branch, metadata.allowed_roots, reduce_request(request), dict(metadata.known))

    def metadata(self) -> TableMetadata:
        store, root = self.store.opened()
        return TableMetadata(store, root, self.branch, self.allowed_roots, known=self.known)


class ManifestTasks:
    """A decoder that lets tasks of a session decode large manifests; `told` are lines that say who decoded them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.told: list[str] = []

    def __call__(self, metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded | None:
        entries = count_listed_entries(manifests)
        if entries < MIN_ENTRIES:
            return None
        found, tasks, obstacle = None, 0, _find_obstacle(self._spark)
        if obstacle is None:
            try:
                found, tasks = _decode_by_tasks(metadata, request, manifests, self._spark)
            except MorrowError as error:
                log.warning("%s: the driver decodes manifests that tasks could not: %s", metadata.where, error)
                obstacle = f"tasks could not ({error})"
        who = format_count(tasks, "task") if obstacle is None else f"the driver: {obstacle}"
        self.told.append(f"{format_count(entries, 'entry')} of {format_count(manifests.height, 'manifest')} by {who}")
        return found


def _find_obstacle(spark: SparkSession) -> str | None:
    """Return why the driver decodes all manifests itself, or None."""
    if is_connect(spark):
        return CONNECTED
    return LOCAL if is_local(spark) else None


def _decode_by_tasks(
    metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame, spark: SparkSession
) -> tuple[Decoded, int]:
    """Return the entries of manifests, and how many tasks decoded them. Raises the first error of a task."""
    listed = list(manifests.select(LISTED).iter_rows())
    limit = max(sum(size for _, size, *_ in listed) // (count_cores(spark) * TASKS_PER_CORE), MIN_TASK_BYTES)
    groups = [[encode_value(group)] for group in enumerate(pack_units(listed, lambda each: each[1], limit))]
    table = to_arrow(run_tasks(spark, Work.ENTRIES, ManifestJob.of(metadata, request), groups, COLUMNS))
    for error in table["error"].drop_null().to_pylist():
        raise pickle.loads(error)
    parts = table.select(["number", "total", "entries"]).sort_by("number").to_pylist()
    frames = [decode_frame(part["entries"]) for part in parts]
    return Decoded(pl.concat(frames, rechunk=False), sum(part["total"] for part in parts)), len(groups)


def decode_entries(job: ManifestJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the entries of each group of manifests."""
    metadata = job.metadata()
    for unit in extract_units(units):
        number, listed = decode_value(unit, tuple[int, list[tuple[str, int, int, int]]])
        manifests = pl.DataFrame(listed, dict(zip(LISTED, (pl.String, pl.Int64, pl.Int64, pl.Int64))), orient="row")
        row: dict[str, object] = {"number": number}
        try:
            found = decode_outlined(metadata, job.request, manifests)
            row |= {"total": found.rows, "entries": encode_frame(found.frame)}
        except MorrowError as error:
            row["error"] = pickle.dumps(error)
        yield pa.RecordBatch.from_pylist([row], _SCHEMA)


WORKS: Mapping[Work, Run] = {Work.ENTRIES: decode_entries}
