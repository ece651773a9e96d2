"""Removal of orphan files of large tables: Spark tasks list folders, the driver decides which files are orphans.

The driver lists folder by folder from the top until there are enough for all tasks. Tasks return hashes of names,
8 bytes a file, and the few entries that may be orphans, so the driver needs as much memory as the local
cleaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import Unsupported
from morrow.engine.io.store import FileStatus, FileStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.spark.job.execution import run_tasks
from morrow.spark.job.sections import TASKS_PER_CORE, spread_units
from morrow.spark.job.tasks import Run, Work
from morrow.spark.job.wire import StoreAccess, decode_frame, decode_value, encode_frame, encode_value, extract_units
from morrow.spark.sessions import count_cores
from morrow.writers.history.file_listing import (
    COLUMNS,
    NAME,
    FolderListing,
    ListedFiles,
    Listing,
    Place,
    combine_listings,
    find_listed_files,
    list_old_files,
    to_piece,
)
from morrow.writers.history.orphan_files import OrphanFiles
from morrow.writers.history.orphan_files import remove_orphan_files as remove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_FOLDERS = 256
"""The minimum number of partition and bucket folders for a job: fewer are listed before a job would start."""
LEAF = re.compile(r"bucket-.*|manifest|index|statistics|snapshot|changelog|schema|tag|consumer|branch|\..*")
"""Names of folders that the driver does not list. Other folders are partitions, or contain them."""
FOLDERS_PER_TASK = 4


def remove_orphan_files(
    spark: SparkSession,
    metadata: TableMetadata,
    *,
    older_than_millis: int | None = None,
    dry_run: bool = True,
    parallelism: int | None = None,
    distributed: bool | None = None,
) -> OrphanFiles:
    """Find files without a reference, and remove them.

    Args:
        parallelism: the maximum number of listing tasks; None: a few for each core.
        distributed: whether tasks list; None: from `MIN_FOLDERS` on.
        Others: as for `cleaning.orphans.remove_orphan_files`.

    Raises: as that function. Spark's own errors, if a task failed too often; nothing was removed then.
    """

    def listing(store: FileStore, places: Sequence[Place], before_millis: int) -> Listing:
        local = FolderListing(store, places, before_millis)
        if distributed is False:
            return local
        tasks = parallelism or TASKS_PER_CORE * count_cores(spark)
        made = SparkListing(spark, store, tuple(places), before_millis, tasks)
        return made if distributed or len(made.top.folders) >= MIN_FOLDERS else local

    return remove(metadata, older_than_millis=older_than_millis, dry_run=dry_run, listing=listing)


@dataclass(frozen=True)
class Top:
    """The driver's listing: its pieces by the number of their place, and the folders left to tasks."""

    pieces: tuple[tuple[int, pl.DataFrame], ...]
    folders: tuple[Folder, ...]


@dataclass(frozen=True)
class SparkListing:
    """A `Listing` by Spark tasks."""

    spark: SparkSession
    store: FileStore
    places: tuple[Place, ...]
    before_millis: int
    tasks: int

    @cached_property
    def top(self) -> Top:
        """The driver's listing: it lists partition folders, level by level, until there are enough for the tasks."""
        pieces: list[tuple[int, pl.DataFrame]] = []
        wanted = max(self.tasks * FOLDERS_PER_TASK, MIN_FOLDERS)
        known: list[Folder] = []
        level = [Folder(place, one.root, FileStatus("", 0, 0, is_dir=True)) for place, one in enumerate(self.places)]
        while level and len(known) + len(level) < wanted:
            inner: list[Folder] = []
            for folder in level:
                found = list(self._list(folder.path))
                pieces.append((folder.place, self._piece(found)))
                below = [Folder(folder.place, path, status) for path, status in found if status.is_dir]
                known += [one for one in below if LEAF.fullmatch(one.status.name)]
                inner += [one for one in below if not LEAF.fullmatch(one.status.name)]
            level = inner
        return Top(tuple(pieces), (*known, *level))

    def listed(self) -> ListedFiles:
        rows = self._run(Work.LIST, LISTED)
        if any(row.check != probe() for row in rows):
            raise Unsupported(
                "listing folders by executors that hash names in another way than the driver",
                where=self.store.url(self.places[0].root),
                hint="give all of them the same version of Polars, or list locally (distributed=False)",
            )
        here = [self._of_top(place) for place in range(len(self.places))]
        return combine_listings(
            [*here, combine_task_listings([(bytes(row.hashes), bytes(row.strays), row.empty) for row in rows])]
        )

    def paths(self, hashes: pl.Series) -> pl.DataFrame:
        rows = self._run(Work.FIND, PATHS, hashes.to_numpy().tobytes())
        here = [find_listed_files(self.places[place], piece, hashes) for place, piece in self.top.pieces]
        found = pl.concat([pl.DataFrame(schema=COLUMNS), *here, *(decode_frame(bytes(row.files)) for row in rows)])
        # Whatever tasks return, only files that match this process's own hashes are removed.
        return found.filter(pl.col(NAME).hash().is_in(hashes.implode()))

    def _of_top(self, place: int) -> ListedFiles:
        """Return the driver's own listing of a place. For other folders, tasks report whether they are empty."""
        found = list_old_files(self.places[place], (p for at, p in self.top.pieces if at == place), self.before_millis)
        theirs = {folder.path for folder in self.top.folders}
        return ListedFiles(found.hashes, found.strays, [path for path in found.empty if path not in theirs])

    def _list(self, folder: str) -> Iterator[tuple[str, FileStatus]]:
        """Yield the contents of a folder, without symbolic links, as `walk` does."""
        for status in self.store.list(folder):
            path = f"{folder.rstrip('/')}/{status.name}"
            if not (self.store.is_local and Path(path).is_symlink()):
                yield path, status

    def _piece(self, found: Sequence[tuple[str, FileStatus]]) -> pl.DataFrame:
        # Object stores do not have empty folders.
        kept = [(path, status) for path, status in found if self.store.is_local or not status.is_dir]
        return to_piece(kept, self.before_millis)

    def _run(self, work: Work, columns: str, hashes: bytes = b"") -> list[Any]:
        """Run tasks to which the folders are distributed in turn; return their rows."""
        job = ListingJob(StoreAccess.of(self.store), self.places, self.before_millis, hashes)
        groups = spread_units(self.top.folders, lambda _: 0, self.tasks)
        units = [[encode_value(folder) for folder in group] for group in groups]
        return run_tasks(self.spark, work, job, units, columns).collect() if units else []


PROBE = "data-00000000-0000-0000-0000-000000000000-0.parquet"
"""A name whose hash tasks send with their results. If it differs from the driver's hash, the results are refused."""

LISTED = "hashes binary, strays binary, empty array<string>, check bigint"
"""The row of a task: hashes of 8 bytes each, strays as Arrow IPC, empty folders, and the hash of `PROBE`."""
PATHS = "files binary"

_LISTED = pa.schema(
    [("hashes", pa.binary()), ("strays", pa.binary()), ("empty", pa.list_(pa.string())), ("check", pa.int64())]
)
_PATHS = pa.schema([("files", pa.binary())])


class Folder(msgspec.Struct, frozen=True, array_like=True):
    """A folder to list with its whole subtree: the number of its place, its path, and its own status."""

    place: int
    path: str
    status: FileStatus


@dataclass(frozen=True)
class ListingJob:
    """The data shared by all tasks that list folders; `hashes` (8 bytes each) of the names to find, if any."""

    store: StoreAccess
    places: tuple[Place, ...]
    before_millis: int
    hashes: bytes = field(default=b"", repr=False)

    def pieces(self, folder: Folder, store: FileStore) -> Iterator[pl.DataFrame]:
        """Yield the subtree of a folder, then the folder itself, in the order of `walk`."""
        # Object stores do not have empty folders.
        own = [(folder.path, folder.status)] if store.is_local else []
        walk = self.places[folder.place].walk(store, self.before_millis, folder.path)
        yield from chain(walk, [to_piece(own, self.before_millis)])


def list_folders(job: ListingJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """List the folders of one task, and yield one row of `LISTED`."""
    store = job.store.store()
    found = combine_listings(
        list_old_files(job.places[folder.place], job.pieces(folder, store), job.before_millis)
        for folder in _decode_folders(units)
    )
    row = {
        "hashes": found.hashes.to_numpy().tobytes(),
        "strays": encode_frame(found.strays),
        "empty": found.empty,
        "check": probe(),
    }
    yield pa.RecordBatch.from_pylist([row], _LISTED)


def find_files(job: ListingJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the old files whose names have the job's hashes, in rows of `PATHS`."""
    store, wanted = job.store.store(), decode_hashes(job.hashes)
    for folder in _decode_folders(units):
        for piece in job.pieces(folder, store):
            found = find_listed_files(job.places[folder.place], piece, wanted)
            if found.height:
                yield pa.RecordBatch.from_pylist([{"files": encode_frame(found)}], _PATHS)


def _decode_folders(units: Iterable[pa.RecordBatch]) -> list[Folder]:
    return [decode_value(unit, Folder) for unit in extract_units(units)]


def combine_task_listings(rows: Sequence[tuple[bytes, bytes, Sequence[str]]]) -> ListedFiles:
    """Combine the first three columns of task results to a listing."""
    return combine_listings(
        ListedFiles(decode_hashes(hashes), decode_frame(strays), list(empty)) for hashes, strays, empty in rows
    )


def probe() -> int:
    """Return the hash of `PROBE` in this process, as a signed number, which Spark supports."""
    return int(pl.Series([PROBE]).hash().reinterpret(signed=True)[0])


def decode_hashes(data: bytes) -> pl.Series:
    """Decode hashes, 8 bytes each, as UInt64."""
    return pl.Series(np.frombuffer(data, np.uint64), dtype=pl.UInt64)


WORKS: Mapping[Work, Run] = {Work.LIST: list_folders, Work.FIND: find_files}
