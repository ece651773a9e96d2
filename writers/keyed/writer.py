"""Writer of one bucket of a keyed table, which buffers rows, flushes them to level 0, compacts, and makes messages.

The sort buffer numbers rows as they arrive and sorts them by key. Writes larger than memory spill sorted runs to
temporary files.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.ipc

from morrow.engine.errors import FileMissing, InvalidArgument
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.row_kinds import RETRACT_BIT, UPDATE_BEFORE
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.io.store import translate_system_errors
from morrow.engine.library_versions import export_frame
from morrow.engine.names import cols
from morrow.engine.options.declarations import ChangelogProducer
from morrow.engine.structs import replace
from morrow.writers.buckets.routers import BucketState
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files.blob_files import PackWriter
from morrow.writers.files.data_files import (
    MIN_DESCRIBED_ROWS,
    Placement,
    PreparedRows,
    delete_files,
    write_files,
    write_prepared,
)
from morrow.writers.files.deletion_vectors import DeletionMaintainer, IndexChanges
from morrow.writers.keyed.compaction import Compactor, LookupStrategy, make_strategy
from morrow.writers.keyed.lookup_rewriters import FirstRowRewriter, FullCompactionRewriter, LookupRewriter
from morrow.writers.keyed.rewriter import (
    CompactResult,
    Rewriter,
    iterate_key_ranges,
    join_frames,
    merge_slices,
    sort_slices,
)
from morrow.writers.target import WriteTarget

log = logging.getLogger(__name__)

MAX_SMALL_BYTES = 1 << 20
"""Maximum bytes, in files and in memory, of a bucket that is finished in parallel with others."""


class MergeTreeWriter:
    """A `BucketWriter` of a keyed table. Once `overtaken`, it no longer compacts, and a new writer has to continue.

    Args:
        state: the state of the bucket in the base snapshot.
        ignore_previous: start as if the bucket were empty, because the commit will replace its files.
    """

    def __init__(
        self, target: WriteTarget, place: Placement, state: BucketState, *, ignore_previous: bool = False
    ) -> None:
        self._target = target
        self._place = place
        previous = BucketState() if ignore_previous else state
        self._total_buckets = target.options.bucket if state.total_buckets is None else state.total_buckets
        self._buffer = SortBuffer(target, previous.max_sequence_number + 1)
        self._prepared: PreparedRows | None = None
        self._packs = PackWriter(target, place) if target.managed_blobs else None
        self._vectors = (
            DeletionMaintainer(target, place.partition, place.bucket, previous.index_files)
            if target.write.deletion_vectors
            else None
        )
        self._compactor = None if target.write.write_only else self._new_compactor(previous.files)
        self._done = _Done()
        self._seen = self._looked_at()
        self._based_on = None if ignore_previous else state.version
        self._handed_over: set[str] = set()
        self.overtaken = False

    def _new_compactor(self, files: Iterable[DataFileMeta]) -> Compactor:
        target = self._target
        lookup = LookupStrategy.of(target)
        kind = _choose_rewriter(target, lookup)
        return Compactor(
            target, files, kind(target, self._place, self._vectors), make_strategy(target.write, lookup=lookup.needed)
        )

    @property
    def buffered_bytes(self) -> int:
        return self._buffer.bytes

    @property
    def is_small(self) -> bool:
        """Whether the bucket's rows, written and buffered, are few enough to process several buckets in memory."""
        files = () if self._compactor is None else self._compactor.levels.files
        held = self.buffered_bytes + sum(file.file_size for file in files)
        return held <= MAX_SMALL_BYTES and not self._buffer.is_spilled

    @property
    def partition(self) -> bytes:
        return self._place.partition

    def few_rows(self) -> pl.DataFrame | None:
        """Return the merged rows of the next flush if they are few and in memory; None otherwise or without rows.

        Raises: as `merge_versions`.
        """
        if self._buffer.is_spilled or not 0 < self._buffer.rows < MIN_DESCRIBED_ROWS:
            return None
        merged = list(self._buffer.merged())
        return pl.concat(merged) if merged else None

    def prepare(self, prepared: PreparedRows) -> None:
        """Set how `few_rows` are flushed, unless more rows arrive."""
        self._prepared = prepared

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows in their order: the table's columns and ``_VALUE_KIND``."""
        self._prepared = None
        kept = drop_ignored_kinds(self._target, rows)
        self._buffer.add(kept if self._packs is None else self._packs.externalize(kept))
        if self._buffer.bytes > self._target.write.write_buffer:
            self.spill()

    def spill(self) -> None:
        """Write the buffer to temporary files, or to level 0 if spilling is disabled."""
        if self._target.write.spillable:
            self._buffer.spill()
        else:
            self._flush()
            self._compact(full=False)

    def compact(self, full: bool) -> None:
        """Flush, then compact. Raises `InvalidArgument`: a full compaction of a table that is ``write-only``."""
        if full and self._compactor is None:
            raise InvalidArgument(
                f"{self._target.where}: 'write-only' = 'true' leaves compaction to dedicated jobs; "
                "compact the table itself, or write without that option"
            )
        self._flush()
        self._compact(full)

    def prepare_commit(self, *, wait_compaction: bool = True) -> CommitMessage:
        """Flush, compact as the options say, and return all changes since the last call.

        `wait_compaction`: False postpones compaction, unless there are too many sorted runs.
        """
        if self._packs is not None:
            self._packs.finish()
        self._flush()
        if wait_compaction or self._never_waits or self._is_crowded:
            self._compact(full=False)
        changes = self._vector_changes()
        seen, self._seen = self._seen, self._looked_at()
        based_on, self._based_on = self._based_on, None  # from now on other writers may change the bucket too
        self._handed_over |= {file.file_name for file in self._done.own}
        done, self._done = self._done, _Done()  # nothing may fail from here on: `close` does not know these files
        return CommitMessage(
            partition=self._place.partition,
            bucket=self._place.bucket,
            total_buckets=self._total_buckets,
            new_files=tuple(done.new),
            changelog_files=tuple(done.changelog),
            compact_before=tuple(done.before.values()),
            compact_after=tuple(done.after.values()),
            compact_changelog=tuple(done.compact_changelog),
            compact_new_index_files=changes.new,
            compact_deleted_index_files=changes.replaced,
            compact_seen=seen if done.before or done.after else None,
            based_on=based_on,
        )

    def close(self) -> None:
        """Drop the buffer, and delete the files that were not handed over."""
        self._buffer.clear()
        if self._packs is not None:
            self._packs.abort()
        done, self._done = self._done, _Done()
        delete_files(self._target, self._place, done.own)

    def _vector_changes(self) -> IndexChanges:
        """Write the changes of deletion vectors by compactions."""
        vectors = self._vectors
        if vectors is None or self._compactor is None or not vectors.changed:
            return IndexChanges()
        # Java Paimon keeps the vectors of files that a full compaction rewrites individually.
        live = {file.file_name for file in self._compactor.levels.files}
        for name in set(vectors) - live:
            vectors.remove(name)
        return vectors.write()

    def _looked_at(self) -> tuple[str, ...] | None:
        """Return the files in which later compactions look up keys, None if they do not look up keys."""
        if self._compactor is None or not LookupStrategy.of(self._target).needed:
            return None
        return tuple(file.file_name for run in self._compactor.levels.runs for file in run)

    @property
    def _never_waits(self) -> bool:
        """Whether the options ask for a compaction at every commit."""
        write = self._target.write
        return write.force_compact or (write.lookup_wait and LookupStrategy.of(self._target).needed)

    @property
    def _is_crowded(self) -> bool:
        return self._compactor is not None and self._compactor.sorted_runs > self._target.write.run_stop_trigger + 1

    def _flush(self) -> None:
        """Write the buffered rows to level 0, and to the changelog if that has the input."""
        if self._buffer.is_empty:
            return
        if self._target.write.changelog_producer is ChangelogProducer.INPUT:
            self._done.changelog += write_files(
                self._target,
                self._place,
                self._buffer.versions(),
                level=0,
                source=FileSource.APPEND,
                changelog=True,
            )
        files = self._written()
        self._buffer.clear()
        self._done.new += files
        if self._compactor is not None:
            self._compactor.add(files)

    def _written(self) -> list[DataFileMeta]:
        """Write the buffered rows, one per key, to level 0."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            return write_prepared(self._target, self._place, prepared, FileSource.APPEND)
        return write_files(self._target, self._place, self._buffer.merged(), level=0, source=FileSource.APPEND)

    def _compact(self, full: bool) -> None:
        try:
            result = None if self._compactor is None else self._compactor.compact(full)
        except FileMissing as error:
            if error.path.rpartition("/")[2] not in self._handed_over:
                raise
            # The commit has rewritten a file of this writer with other sequence numbers.
            log.info("%s: compaction is left to a later writer: %s", self._target.where, error)
            self._compactor, self.overtaken = None, True
            return
        if result is not None:
            delete_files(self._target, self._place, self._done.add(result))


class _Done:
    """The changes since the last commit was prepared. Compacted files are identified by name and level."""

    def __init__(self) -> None:
        self.new: list[DataFileMeta] = []
        self.changelog: list[DataFileMeta] = []
        self.before: dict[str, DataFileMeta] = {}
        self.after: dict[tuple[str, int], DataFileMeta] = {}
        self.compact_changelog: list[DataFileMeta] = []

    def add(self, result: CompactResult) -> list[DataFileMeta]:
        """Add a compaction; return files to delete, which were both created and replaced within this commit.

        A file that was only moved to another level is the file of the previous snapshot, and stays.
        """
        stays = {file.file_name for file in result.after}
        unneeded = []
        for file in result.before:
            if self.after.pop((file.file_name, file.level), None) is None:
                self.before[file.file_name] = file
            elif file.file_name not in self.before and file.file_name not in stays:
                unneeded.append(file)
        self.after.update(((file.file_name, file.level), file) for file in result.after)
        self.compact_changelog += result.changelog
        return unneeded

    @property
    def own(self) -> list[DataFileMeta]:
        """All written files that are not in a snapshot yet."""
        written = [file for file in self.after.values() if file.file_name not in self.before]
        return [*self.new, *self.changelog, *written, *self.compact_changelog]


def drop_ignored_kinds(target: WriteTarget, rows: pl.DataFrame) -> pl.DataFrame:
    """Drop rows of the kinds that the table ignores (``ignore-delete``, ``ignore-update-before``)."""
    if target.options.ignore_delete:
        return rows.filter((pl.col(VALUE_KIND) & RETRACT_BIT) == 0)
    if target.write.ignore_update_before:
        return rows.filter(pl.col(VALUE_KIND) != UPDATE_BEFORE)
    return rows


def compact_bucket(target: WriteTarget, place: Placement, state: BucketState, *, full: bool) -> CommitMessage:
    """Compact one bucket without writing rows to it, even if the table is ``write-only``."""
    target = replace(target, write=replace(target.write, write_only=False))
    writer = MergeTreeWriter(target, place, state)
    try:
        writer.compact(full)
        return writer.prepare_commit()
    finally:
        writer.close()


MAX_RUN_BYTES = 64 << 20
"""Bytes of rows of a spilled run. During the sort they are in memory twice."""
BATCH_BYTES = 1 << 20
"""Bytes of a batch of a spilled run. During a merge, at least one batch of every run is in memory."""
MIN_AHEAD_BYTES = 16 << 20
"""Minimum memory of all runs together during a merge."""
MAX_RUNS = 64
MERGED_RUNS = 32
"""Number of adjacent runs, with the fewest rows, that are merged into one when there are `MAX_RUNS`."""
SLICE_ROWS = 1 << 17
"""Rows of a sorted buffer copied at once."""


class SortBuffer:
    """The rows of one bucket that are not in files yet.

    Args:
        next_number: the sequence number of the first row.
    """

    def __init__(self, target: WriteTarget, next_number: int) -> None:
        self._target = target
        self.next_number = next_number
        self._names = [*(field.name for field in target.schema.fields), SEQUENCE_NUMBER, VALUE_KIND]
        self._frames: list[pl.DataFrame] = []
        self._runs: list[SpilledRun] = []
        self._folder: SpillFolder | None = None
        self._widest = 1.0  # bytes of a row in the run with the widest rows
        self.bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._frames and not self._runs

    @property
    def is_spilled(self) -> bool:
        return bool(self._runs)

    @property
    def rows(self) -> int:
        """The number of rows in memory."""
        return sum(frame.height for frame in self._frames)

    def add(self, rows: pl.DataFrame) -> None:
        """Take rows in their order: the table's columns and ``_VALUE_KIND``."""
        if not rows.height:
            return
        end = self.next_number + rows.height
        numbers = pl.int_range(self.next_number, end, dtype=pl.Int64, eager=True).alias(SEQUENCE_NUMBER)
        self.next_number = end
        frame = rows.with_columns(numbers, pl.col(VALUE_KIND).cast(pl.Int8)).select(cols(self._names))
        self._frames.append(frame)
        self.bytes += int(frame.estimated_size())

    def spill(self) -> None:
        """Move the rows in memory to temporary files, as sorted runs."""
        for rows in self._pieces(MAX_RUN_BYTES):
            width = max(rows.estimated_size() / rows.height, 1)
            self._widest = max(self._widest, width)
            self._runs.append(self._spill(sort_slices(self._target, rows, max(int(BATCH_BYTES / width), 1))))
            if len(self._runs) >= MAX_RUNS:
                self._merge_runs()

    def _spill(self, batches: Iterator[pl.DataFrame]) -> SpilledRun:
        if self._folder is None:
            self._folder = SpillFolder()
        return self._folder.write(batches)

    def _merge_runs(self) -> None:
        """Join adjacent runs into one, keeping every version and its position, which gives its age."""
        rows = [run.rows for run in self._runs]
        windows = range(len(rows) - MERGED_RUNS + 1)
        first = min(windows, key=lambda start: sum(rows[start : start + MERGED_RUNS]))
        chosen = slice(first, first + MERGED_RUNS)
        merged, step = self._runs[chosen], max(int(BATCH_BYTES / self._widest), 1)
        ranges = map(pl.concat, self._ranges(merged))
        self._runs[chosen] = [self._spill(batch for part in ranges for batch in sort_slices(self._target, part, step))]
        for run in merged:
            run.path.unlink()

    def _pieces(self, most_bytes: int) -> Iterator[pl.DataFrame]:
        """Yield the rows in memory in pieces, in the order of arrival; each piece is released in turn."""
        frames, self._frames, self.bytes = self._frames, [], 0
        frames.reverse()
        while frames:
            piece = [frames.pop()]
            size = piece[0].estimated_size()
            while frames and size + frames[-1].estimated_size() <= most_bytes:
                piece.append(frames.pop())
                size += piece[-1].estimated_size()
            rows = join_frames(piece)
            step = max(int(rows.height * most_bytes // max(size, 1)), 1)
            for start in range(0, rows.height, step):
                yield rows[start : start + step]

    def versions(self) -> Iterator[pl.DataFrame]:
        """Yield all rows by key and age, unmerged, as version frames."""
        if not self._runs:
            yield from sort_slices(self._target, self._in_memory(), SLICE_ROWS)
            return
        self.spill()
        for parts in self._ranges(self._runs):
            yield from sort_slices(self._target, pl.concat(parts), SLICE_ROWS)

    def merged(self) -> Iterator[pl.DataFrame]:
        """Yield one row per key by the table's merge engine, retractions included, as sorted version frames."""
        if not self._runs:
            rows = self._in_memory()
            first = self.next_number - rows.height
            yield from merge_slices(self._target, rows, SLICE_ROWS, in_order=True, first_number=first)
            return
        self.spill()
        for parts in self._ranges(self._runs):
            yield from merge_slices(self._target, pl.concat(parts), SLICE_ROWS, in_order=True)

    def _in_memory(self) -> pl.DataFrame:
        self._frames = [join_frames(self._frames)]
        return self._frames[0]

    def _ranges(self, runs: Sequence[SpilledRun]) -> Iterator[list[pl.DataFrame]]:
        """Yield the rows of each run in one range of keys after another."""
        ahead = max(int(MIN_AHEAD_BYTES / self._widest / len(runs)), 1)
        batches = [run.batches() for run in runs]
        return iterate_key_ranges(batches, self._target.schema.trimmed_primary_keys, [ahead] * len(batches))

    def clear(self) -> None:
        """Drop all rows and remove the temporary files."""
        self._frames, self._runs, self.bytes = [], [], 0
        if self._folder is not None:
            self._folder.close()
            self._folder = None


CODEC = "lz4"


@dataclass(frozen=True)
class SpilledRun:
    """One sorted run in an Arrow IPC file of many small batches, oldest version of a key first."""

    path: Path
    rows: int

    def batches(self) -> Iterator[pl.DataFrame]:
        """Yield the rows, with one batch in memory at a time."""
        with pa.OSFile(str(self.path)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                frame = pl.from_arrow(reader.get_batch(number))
                assert isinstance(frame, pl.DataFrame)
                yield frame


class SpillFolder:
    """A temporary folder with the spilled runs of one writer; `close` removes it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="morrow-spill-")
        self._runs = 0

    def write(self, batches: Iterable[pl.DataFrame]) -> SpilledRun:
        """Write one run. Raises `StorageError` on failure."""
        path = Path(self._folder.name) / f"{self._runs}.arrow"
        self._runs += 1
        rows = 0
        writer: pa.ipc.RecordBatchFileWriter | None = None
        options = pa.ipc.IpcWriteOptions(compression=CODEC)
        with translate_system_errors(self._folder.name), pa.OSFile(str(path), "wb") as sink:
            for frame in batches:
                rows += frame.height
                for batch in export_frame(frame, pl.CompatLevel.oldest()).to_batches():
                    if writer is None:
                        writer = pa.ipc.new_file(sink, batch.schema, options=options)
                    writer.write_batch(batch)
            if writer is not None:
                writer.close()
        return SpilledRun(path, rows)

    def close(self) -> None:
        self._folder.cleanup()


def _choose_rewriter(target: WriteTarget, lookup: LookupStrategy) -> type[Rewriter]:
    if target.write.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        return FullCompactionRewriter
    if lookup.first_row:
        return FirstRowRewriter
    return LookupRewriter if lookup.needed else Rewriter
