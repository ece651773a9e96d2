"""Manifests of large tables, decoded by tasks: each sends back the entries of some, without their statistics.

    the manifest list ──groups of manifests──▶ tasks (`engine.plan.outlined`) ──entries──▶ the driver's plan

The plan is the one that the driver would make alone: it sees the same entries, and checks them as ever. What tasks
cannot read, the driver reads by itself: it may be the only one that reaches the store, and where the table is damaged
it finds out what is wrong.
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
from morrow.engine.plan.entries import MANY, Decoded, named_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.outlined import asked_of, outlined
from morrow.engine.plan.request import ScanRequest
from morrow.engine.telling import logger
from morrow.engine.wording import plural
from morrow.spark.job.packing import TASKS_PER_CORE, packed
from morrow.spark.job.registry import Run, Work
from morrow.spark.job.run import run_tasks
from morrow.spark.job.wire import StoreAccess, decoded, encoded, frame_bytes, frame_of, units_in
from morrow.spark.sessions import cores, is_connect
from morrow.spark.versions import to_arrow
from morrow.spark.workers import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_ENTRIES = MANY
"""Entries of manifests from which tasks decode them. Fewer take the driver about the second in which a job begins, and
it keeps them; of more it keeps none, so that every query would decode all of them."""

LEAST_BYTES = 1 << 20
"""Bytes of manifests of a task, at least: it decodes them in less time than it takes to begin."""

LISTED = ("_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES")
"""What a task has to know of a manifest."""

COLUMNS = "number INT, total BIGINT, entries BINARY, error BINARY"
_SCHEMA = pa.schema([("number", pa.int32()), ("total", pa.int64()), ("entries", pa.binary()), ("error", pa.binary())])
"""One row of a task: the number of its group, the rows of `Decoded`, its entries; or the error (pickled)."""

CONNECTED = "a client of Spark Connect plans by itself"
LOCAL = "tasks would run on its own cores"
"""In local mode a job costs more than it saves: its tasks run on the driver's own cores, and each entry is written and
read once more on its way."""

log = logger(__name__)


@dataclass(frozen=True)
class ManifestJob:
    """A table, and what is asked of its entries."""

    store: StoreAccess
    branch: str
    allowed_roots: tuple[str, ...]
    request: ScanRequest
    known: Mapping[int, TableSchema] = field(repr=False)

    @classmethod
    def of(cls, metadata: TableMetadata, request: ScanRequest) -> ManifestJob:
        access = StoreAccess.of(metadata.store, metadata.root)
        return cls(access, metadata.branch, metadata.allowed_roots, asked_of(request), dict(metadata.known))

    def metadata(self) -> TableMetadata:
        store, root = self.store.opened()
        return TableMetadata(store, root, self.branch, self.allowed_roots, known=self.known)


class ManifestTasks:
    """Has manifests decoded by tasks of a session where they are large; `told` are lines about who decoded them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.told: list[str] = []

    def __call__(self, metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded | None:
        entries = named_entries(manifests)
        if entries < LEAST_ENTRIES:
            return None
        found, tasks, obstacle = None, 0, _obstacle(self._spark)
        if obstacle is None:
            try:
                found, tasks = _by_tasks(metadata, request, manifests, self._spark)
            except MorrowError as error:
                log.warning("%s: the driver decodes manifests that tasks could not: %s", metadata.where, error)
                obstacle = f"tasks could not ({error})"
        who = plural(tasks, "task") if obstacle is None else f"the driver: {obstacle}"
        self.told.append(f"{plural(entries, 'entry')} of {plural(manifests.height, 'manifest')} by {who}")
        return found


def _obstacle(spark: SparkSession) -> str | None:
    """Returns why the driver decodes all manifests by itself, if it does."""
    if is_connect(spark):
        return CONNECTED
    return LOCAL if is_local(spark) else None


def _by_tasks(
    metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame, spark: SparkSession
) -> tuple[Decoded, int]:
    """Returns the entries of manifests, and how many tasks decoded them. Raises the first error that a task met."""
    listed = list(manifests.select(LISTED).iter_rows())
    limit = max(sum(size for _, size, *_ in listed) // (cores(spark) * TASKS_PER_CORE), LEAST_BYTES)
    groups = [[encoded(group)] for group in enumerate(packed(listed, lambda each: each[1], limit))]
    table = to_arrow(run_tasks(spark, Work.ENTRIES, ManifestJob.of(metadata, request), groups, COLUMNS))
    for error in table["error"].drop_null().to_pylist():
        raise pickle.loads(error)
    parts = table.select(["number", "total", "entries"]).sort_by("number").to_pylist()
    frames = [frame_of(part["entries"]) for part in parts]
    return Decoded(pl.concat(frames, rechunk=False), sum(part["total"] for part in parts)), len(groups)


def entries(job: ManifestJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the entries of each group of manifests."""
    metadata = job.metadata()
    for unit in units_in(units):
        number, listed = decoded(unit, tuple[int, list[tuple[str, int, int, int]]])
        manifests = pl.DataFrame(listed, dict(zip(LISTED, (pl.String, pl.Int64, pl.Int64, pl.Int64))), orient="row")
        row: dict[str, object] = {"number": number}
        try:
            found = outlined(metadata, job.request, manifests)
            row |= {"total": found.rows, "entries": frame_bytes(found.frame)}
        except MorrowError as error:
            row["error"] = pickle.dumps(error)
        yield pa.RecordBatch.from_pylist([row], _SCHEMA)


WORKS: Mapping[Work, Run] = {Work.ENTRIES: entries}
