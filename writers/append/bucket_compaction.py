"""Compaction inside one fixed bucket of an append table: files adjacent in sequence numbers become one file.

Files are picked exactly as Paimon does:

* on every flush, a window of ``compaction.min.file-num`` adjacent files below twice the target size. If a file makes
  the window larger, the first file leaves the window and is not considered again;
* on request, all files except the large ones at the start of the bucket, if there are more small files than large ones.

Files are small below 70 % of the target size. With deletion vectors a requested compaction always happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource, IndexFileMeta
from morrow.engine.format.schema import STORED_TRACKED, TRACKED
from morrow.engine.format.types import DataField
from morrow.engine.options import WriteOptions
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement, delete_files, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.target import WriteTarget

LEAST_FULL_FILES = 3


def compute_small_size(options: WriteOptions) -> int:
    """Return the size in bytes below which files are compacted: output files may be a little below the target size."""
    return int(options.target_file_size * options.small_file_ratio)


@dataclass(frozen=True)
class FilePick:
    """Files to compact (empty: nothing to do), and files left for the next pick."""

    files: tuple[DataFileMeta, ...]
    waiting: tuple[DataFileMeta, ...]


def pick_window(waiting: Sequence[DataFileMeta], options: WriteOptions) -> FilePick:
    """Return the first window of adjacent files to compact. `waiting` is in the order of sequence numbers."""
    window: list[DataFileMeta] = []
    size = 0
    for taken, file in enumerate(waiting, start=1):
        window.append(file)
        size += file.file_size
        if len(window) >= options.append_min_files:
            return FilePick(tuple(window), tuple(waiting[taken:]))
        if size >= options.target_file_size * 2:
            size -= window.pop(0).file_size
    return FilePick((), tuple(window))


def pick_full(
    waiting: Sequence[DataFileMeta], options: WriteOptions, vectors: DeletionMaintainer | None
) -> tuple[DataFileMeta, ...]:
    """Return the files of a requested compaction, or none if it is not worthwhile. `waiting` is as in `pick_window`."""
    files = list(waiting)
    if options.force_rewrite_all:
        return tuple(files)
    if vectors is None and len(files) < LEAST_FULL_FILES:
        return ()
    while files and files[0].file_size >= compute_small_size(options):
        if vectors is not None and files[0].file_name in vectors:
            break
        files.pop(0)
    small = sum(file.file_size < compute_small_size(options) for file in files)
    worth_it = vectors is not None or (small > len(files) - small and len(files) >= LEAST_FULL_FILES)
    return tuple(files) if worth_it else ()


@dataclass(frozen=True)
class CompactionResult:
    """The combined result of the compactions since the last `take`."""

    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    replaced_index_files: tuple[IndexFileMeta, ...] = ()


class BucketCompaction:
    """Compactor of a bucket during a write.

    Args:
        files: the files of the bucket.
        vectors: the deletion vectors of the bucket, if the table has any.
    """

    def __init__(
        self,
        target: WriteTarget,
        place: Placement,
        files: Sequence[DataFileMeta],
        vectors: DeletionMaintainer | None,
    ) -> None:
        self._target, self._place, self._vectors = target, place, vectors
        self._waiting = list(files)
        self._before: list[DataFileMeta] = []
        self._after: list[DataFileMeta] = []

    def add(self, files: Sequence[DataFileMeta]) -> None:
        """Add new files of the bucket."""
        self._waiting += files

    def step(self) -> None:
        """Compact one window of files, if a window is full."""
        picked = pick_window(self._in_order(), self._target.write)
        self._waiting = list(picked.waiting)
        self._compact(picked.files)

    def full(self) -> None:
        """Run a requested compaction."""
        picked = pick_full(self._in_order(), self._target.write, self._vectors)
        if picked or len(self._waiting) >= LEAST_FULL_FILES:
            self._waiting = []
        self._compact(picked)

    def take(self) -> CompactionResult:
        """Return the result since the last call; write the index files."""
        changes = self._vectors.write() if self._vectors is not None else None
        done = CompactionResult(
            tuple(self._before),
            tuple(self._after),
            changes.new if changes else (),
            changes.replaced if changes else (),
        )
        self._before, self._after = [], []
        return done

    def close(self) -> None:
        """Remove the files that were not taken."""
        delete_files(self._target, self._place, self._after)
        self._before, self._after = [], []

    def _in_order(self) -> list[DataFileMeta]:
        return sorted(self._waiting, key=lambda file: file.min_sequence_number)

    def _compact(self, files: Sequence[DataFileMeta]) -> None:
        if not files:
            return
        written = rewrite_files(self._target, self._place, files, self._vectors)
        for file in files:
            if self._vectors is not None:
                self._vectors.remove(file.file_name)
        own = [file for file in files if file in self._after]
        self._before += [file for file in files if file not in own]
        self._after = [file for file in self._after if file not in own] + written
        delete_files(self._target, self._place, own)  # snapshots will never name them
        if written and written[-1].file_size < compute_small_size(self._target.write):
            self._waiting.append(written[-1])


BATCH_ROWS = 1 << 18
"""Rows read at once."""


class AppendFiles(StoredFiles):
    """Reader of data files in the table's columns, without dead rows. Tracked rows have ids and sequence numbers."""

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        return (*self.target.schema.fields, *(TRACKED if self.target.options.row_tracking else ()))

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield the live rows of all files in their order, with one batch in memory at a time.

        Raises `CorruptFile`: a file has fewer or more rows than its entry says, so a rewrite would lose rows forever.
        """
        for file in self.files:
            step = self.step(file, BATCH_ROWS)
            for start in range(0, file.row_count, max(step, 1)):
                wanted = min(step, file.row_count - start)
                is_last = start + wanted == file.row_count
                rows = self.collect([self.lazy(file).slice(start, wanted + is_last)])[0]
                if rows.height != wanted:
                    more = "more" if rows.height > wanted else "fewer"
                    problem = f"has {more} rows than the {file.row_count} that its metadata says"
                    raise CorruptFile(self._by_name[file.file_name].path, problem)
                yield self._alive(file, rows, start)


def rewrite_files(
    target: WriteTarget,
    place: Placement,
    files: Sequence[DataFileMeta],
    vectors: DeletionMaintainer | None = None,
) -> list[DataFileMeta]:
    """Write the live rows of these files to new files, whose sequence numbers begin with the first file's.

    Raises:
        CorruptFile, FileMissing: a file cannot be read. StorageError. After any error, no new file is left.
        Unsupported: a table with data evolution.
    """
    check_rewritable(target)
    rows = AppendFiles(target, place, tuple(files), vectors).frames()
    first = files[0].min_sequence_number if files else 0
    columns = list_carried_fields(target)
    return write_files(target, place, rows, level=0, source=FileSource.COMPACT, first_sequence=first, columns=columns)


def list_carried_fields(target: WriteTarget) -> tuple[DataField, ...] | None:
    """Return the columns of files with rows of other files; None: those of the table.

    With row tracking, such files hold the ids of the rows, and the snapshots that wrote them.
    """
    return (*target.schema.fields, *STORED_TRACKED) if target.options.row_tracking else None


def check_rewritable(target: WriteTarget) -> None:
    """Raise `Unsupported` for tables with data evolution, in which files hold some columns of rows."""
    if target.options.data_evolution:
        raise Unsupported("rewriting files of a table with data evolution", where=target.where)
