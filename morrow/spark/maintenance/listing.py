"""Removal of orphan files of large tables: Spark tasks list folders, and the driver decides which files are orphans.

The driver lists folder after folder from the top, until there are enough for all tasks. Tasks return hashes of names,
8 bytes a file, and the few entries that may have to be removed; so the driver's memory is that of the local cleaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.io.store import FileStatus, FileStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.spark.job.packing import TASKS_PER_CORE, dealt
from morrow.spark.job.registry import Work
from morrow.spark.job.run import run_tasks
from morrow.spark.job.wire import StoreAccess, encoded, frame_of
from morrow.spark.maintenance.listing_work import LISTED, PATHS, Folder, ListingJob, probe, taken
from morrow.spark.sessions import cores
from morrow.writers.history.cleaning.listing import FOUND, FolderListing, Listed, Listing, files_of, listed_in, together
from morrow.writers.history.cleaning.orphans import OrphanFiles
from morrow.writers.history.cleaning.orphans import remove_orphan_files as remove
from morrow.writers.history.cleaning.places import NAME, Place, piece_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_FOLDERS = 256
"""The least number of partition and bucket folders that tasks list; fewer are listed faster than a job starts."""
LEAF = re.compile(r"bucket-.*|manifest|index|statistics|snapshot|changelog|schema|tag|consumer|branch|\..*")
"""Names of folders that the driver does not list; others are of partitions, or lead to them."""
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
    """Finds files that nothing names, and removes them.

    Args:
        parallelism: the most tasks that list; None: a few for each core.
        distributed: whether tasks list; None: if there are `LEAST_FOLDERS`.
        Others: as for `cleaning.orphans.remove_orphan_files`.

    Raises: as that function. Spark's own errors, when a task failed too often; nothing was removed then.
    """

    def listing(store: FileStore, places: Sequence[Place], before_millis: int) -> Listing:
        local = FolderListing(store, places, before_millis)
        if distributed is False:
            return local
        tasks = parallelism or TASKS_PER_CORE * cores(spark)
        made = SparkListing(spark, store, tuple(places), before_millis, tasks)
        return made if distributed or len(made.top.folders) >= LEAST_FOLDERS else local

    return remove(metadata, older_than_millis=older_than_millis, dry_run=dry_run, listing=listing)


@dataclass(frozen=True)
class Top:
    """The driver's listing: pieces by the number of their place, and the folders that it has not listed."""

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
        """The driver's listing: lists folders of partitions, level by level, until there are enough of them."""
        pieces: list[tuple[int, pl.DataFrame]] = []
        wanted = max(self.tasks * FOLDERS_PER_TASK, LEAST_FOLDERS)
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

    def listed(self) -> Listed:
        rows = self._run(Work.LIST, LISTED)
        if any(row.check != probe() for row in rows):
            raise Unsupported(
                "listing folders by executors that hash names in another way than the driver",
                where=self.store.url(self.places[0].root),
                hint="give all of them the same version of Polars, or list locally (distributed=False)",
            )
        here = [self._of_top(place) for place in range(len(self.places))]
        return together([*here, taken([(bytes(row.hashes), bytes(row.strays), row.empty) for row in rows])])

    def paths(self, hashes: pl.Series) -> pl.DataFrame:
        rows = self._run(Work.FIND, PATHS, hashes.to_numpy().tobytes())
        here = [files_of(self.places[place], piece, hashes) for place, piece in self.top.pieces]
        found = pl.concat([pl.DataFrame(schema=FOUND), *here, *(frame_of(bytes(row.files)) for row in rows)])
        # Only files that match this process's own hashes are removed, whatever tasks return.
        return found.filter(pl.col(NAME).hash().is_in(hashes.implode()))

    def _of_top(self, place: int) -> Listed:
        """Returns the driver's own listing; tasks report whether the folders that they list are empty."""
        found = listed_in(self.places[place], (p for at, p in self.top.pieces if at == place), self.before_millis)
        theirs = {folder.path for folder in self.top.folders}
        return Listed(found.hashes, found.strays, [path for path in found.empty if path not in theirs])

    def _list(self, folder: str) -> Iterator[tuple[str, FileStatus]]:
        """Yields the contents of a folder, without symbolic links, as walks do."""
        for status in self.store.list(folder):
            path = f"{folder.rstrip('/')}/{status.name}"
            if not (self.store.is_local and Path(path).is_symlink()):
                yield path, status

    def _piece(self, found: Sequence[tuple[str, FileStatus]]) -> pl.DataFrame:
        # Object stores have no folders, so none is empty.
        kept = [(path, status) for path, status in found if self.store.is_local or not status.is_dir]
        return piece_of(kept, self.before_millis)

    def _run(self, work: Work, columns: str, hashes: bytes = b"") -> list[Any]:
        """Returns the rows of tasks to which the folders are dealt, in turn."""
        job = ListingJob(StoreAccess.of(self.store), self.places, self.before_millis, hashes)
        groups = dealt(self.top.folders, lambda _: 0, self.tasks)
        units = [[encoded(folder) for folder in group] for group in groups]
        return run_tasks(self.spark, work, job, units, columns).collect() if units else []
