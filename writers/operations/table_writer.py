"""Writer of a table, which checks rows, routes them to the writers of their buckets, and bounds memory.

At the end, the files of the buckets are written and described, several at a time if they are small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
import polars as pl

from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument, MorrowError, SnapshotExpired
from morrow.engine.format.file_formats import get_format
from morrow.engine.format.manifest_entries import IndexFileMeta
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import CharType, DataField
from morrow.engine.io.store import start_request
from morrow.engine.names import get_series
from morrow.engine.plan.manifests import list_manifests
from morrow.writers.buckets.modes import BucketMode, determine_bucket_mode, make_router
from morrow.writers.buckets.routers import (
    BucketState,
    PartitionBucketsRouter,
    Router,
    restore_buckets,
    set_bucket_count,
)
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.premise import guard_read, identify_version
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.data_files import FileKind, Placement
from morrow.writers.history.partition_expiry import make_partition_check
from morrow.writers.ingest.conversion import NULL, Missing, convert_rows
from morrow.writers.ingest.validation import Kinds
from morrow.writers.keyed.writer import MergeTreeWriter
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from morrow.writers.append.writer import AppendWriter


class TableWriter:
    """Writer of rows to uncommitted files. Not thread-safe.

    Buckets are restored from the newest snapshot at the first write. Later writes continue from this state, even after
    `prepare_commit`, until `forget` is called because another writer has committed.

    Args:
        overwrite: the rows replace the contents of the table.
        base: the newest snapshot, if it was just read.
        columns: the only columns of the rows and of their files, in the table's order and with its partition columns
            (None: all); for tables with data evolution.
    """

    def __init__(
        self,
        target: WriteTarget,
        *,
        overwrite: bool = False,
        base: Snapshot | None = None,
        columns: tuple[DataField, ...] | None = None,
    ) -> None:
        self.target = target
        self._columns = columns
        self._begun = base
        self._reading: Callable[[], object] | None = None
        self._overwrite = overwrite
        self._mode = determine_bucket_mode(target)
        self._check_partition = make_partition_check(target)
        self._base: _Base | None = None
        self._continued: Snapshot | None = None
        self._writers: dict[Placement, BucketWriter] = {}
        self._totals: dict[Placement, int] = {}
        self._sizes: dict[Placement, int] = {}
        self._held = 0
        self._goes_on = False

    def write(self, data: object, kinds: Kinds = None, missing: Missing = NULL) -> int:
        """Take rows and return their number; see `convert_rows` for accepted data and errors.

        After an error the writer can only be aborted (`abort`).
        """
        columns = None if self._columns is None else [field.name for field in self._columns]
        return self.write_frames(convert_rows(self.target, data, columns=columns, kinds=kinds, missing=missing))

    def write_frames(self, frames: Iterator[pl.DataFrame]) -> int:
        """Take checked rows, as frames from `writers.ingest.conversion`.

        Raises:
            CommitConflict: others have changed the table, and the base snapshot has expired.
            InvalidArgument: a CHAR key with trailing blanks, which ORC files do not keep.
        """
        taken = 0
        for rows in frames:
            check_blanks(self.target, rows)
            with self._on_base():
                routed = list(self._restored_base().router.route(rows))
                self._open([place for place, _ in routed])
                for place, part in routed:
                    self._writers[place].write(part)
                    self._bound_memory(place)
            taken += rows.height
        return taken

    def compact(self, places: Sequence[Placement], *, full: bool) -> None:
        """Compact these buckets, including newly written rows."""
        self._restored_base()
        self._open(places)
        for place in places:
            self._writers[place].compact(full)

    def compact_written(self) -> None:
        """Fully compact the buckets that rows were written to since the last `prepare_commit`."""
        for place in self._sizes:
            self._writers[place].compact(full=True)

    def prepare_commit(self, *, wait_compaction: bool = True) -> list[CommitMessage]:
        """Return the changes since the last call as messages for `TableCommit`, without unchanged buckets."""
        messages: list[CommitMessage] = []
        try:
            finish_buckets(self.target, list(self._writers.values()), messages, wait_compaction=wait_compaction)
            indexes = self._base.router.index_files() if self._base is not None else {}
        except BaseException:
            # Writers that have handed over their files no longer track them.
            TableCommit(self.target).abort(messages)
            raise
        self._sizes, self._held = {}, 0
        if self._reading is not None:
            with suppress(MorrowError):  # the commit raises it again
                self._reading()
            self._reading = None
        completed = [
            _complete(message, self._totals[place], indexes.get(place), self._routed_on)
            for place, message in zip(self._writers, messages)
        ]
        self._let_go()
        return [message for message in completed if not message.is_empty]

    def _let_go(self) -> None:
        """Drop the writers that cannot continue, so that their buckets are restored again."""
        for place, writer in list(self._writers.items()):
            if isinstance(writer, MergeTreeWriter) and writer.overtaken:
                self._writers.pop(place).close()
                self._goes_on = True

    @property
    def base(self) -> Snapshot | None:
        """The snapshot from which buckets were restored; None before the first write or if the table has none."""
        return None if self._base is None else self._base.snapshot

    @property
    def _routed_on(self) -> str | None:
        given = self.places_keys and not self._overwrite
        return identify_version(self._continued or self.base) if given else None

    @property
    def places_keys(self) -> bool:
        """Whether buckets are assigned key by key, so that the router has state."""
        return self._mode in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)

    def go_on_from(self, snapshot: Snapshot) -> None:
        """Make this snapshot the base: only this writer's commits came since, so its state is still valid."""
        self._continued = snapshot

    def forget(self) -> None:
        """Restore buckets again at the next write, because other commits have changed the table."""
        self.close()
        self._base, self._continued, self._goes_on = None, None, False

    def close(self) -> None:
        """Drop buffered rows, and delete files that no prepared message names."""
        writers, self._writers = self._writers, {}
        self._totals, self._sizes, self._held = {}, {}, 0
        for writer in writers.values():
            with suppress(MorrowError):  # an undeletable file becomes an orphan; the original error matters more
                writer.close()

    def _restored_base(self) -> _Base:
        if self._base is None:
            snapshot, self._begun = self._begun or self.target.metadata.latest_snapshot(), None
            if snapshot is not None and self._mode is BucketMode.UNAWARE and not self.target.store.is_local:
                # The commit needs them, so they are read while rows are written.
                self._reading = start_request(
                    self.target.store, partial(list_manifests, self.target.metadata, snapshot)
                )
            with guard_read(self.target.metadata, snapshot):
                self._base = _Base(snapshot, make_router(self.target, snapshot, overwrite=self._overwrite))
        return self._base

    @contextmanager
    def _on_base(self) -> Iterator[None]:
        """Turn missing files into a conflict if the base has expired, for a block that reads the base."""
        try:
            yield
        except (FileMissing, SnapshotExpired):
            with guard_read(self.target.metadata, self.base):
                raise

    def _open(self, places: Sequence[Placement]) -> None:
        """Create writers for buckets without one, in one pass over the manifests."""
        new = [place for place in dict.fromkeys(places) if place not in self._writers]
        if not new:
            return
        for partition in {place.partition for place in new}:
            self._check_partition(partition)
        # Overwritten files are ignored, and so are all existing files in a table without buckets.
        alone = self._overwrite or self._mode is BucketMode.UNAWARE
        # After its own commit, a writer may open buckets that were changed since. Its base may even have expired.
        goes_on = bool(self._writers) or self._goes_on
        snapshot = self.target.metadata.latest_snapshot() if goes_on and not alone else self.base
        states = restore_buckets(
            self.target, None if alone else snapshot, new, adds_rows=self._mode is BucketMode.FIXED
        )
        for place in new:
            state = states[place]
            self._check_total(place, state)
            target = self._bucketed(place, state)
            self._totals[place] = target.options.bucket
            if self._columns is None:
                self._writers[place] = _WRITERS[self._mode](target, place, state)
            else:
                self._writers[place] = _make_append_writer(target, place, state, self._columns)

    def _bucketed(self, place: Placement, state: BucketState) -> WriteTarget:
        """Return the table with the number of buckets of this partition."""
        router = self._restored_base().router
        if not isinstance(router, PartitionBucketsRouter):
            return self.target
        count = router.total_buckets(place.partition)
        if state.total_buckets not in (None, count):
            raise CommitConflict(
                f"{self.target.where}: a partition got {state.total_buckets} buckets while rows were written to "
                f"{count}; these rows were not committed: write them with a new writer"
            )
        return set_bucket_count(self.target, count)

    def _check_total(self, place: Placement, state: BucketState) -> None:
        """Check the number of buckets of a partition, which stays the same until the partition is overwritten."""
        now = self.target.options.bucket
        if state.total_buckets is None or state.total_buckets == now or now == POSTPONE_BUCKET:
            return
        target = self.target
        values = zip(target.schema.partition_keys, target.partition_values(place.partition))
        partition = ", ".join(f"{name}={value!r}" for name, value in values)
        what = f"the partition {partition}" if partition else "the table"
        raise InvalidArgument(
            f"{target.where}: {what} was written with {state.total_buckets} buckets and the option 'bucket' is "
            f"{now} now; rescale it first with Table.rescale"
        )

    def _bound_memory(self, written: Placement) -> None:
        """Keep the buffers of all buckets within ``write-buffer-size`` by spilling the fullest."""
        self._measure(written)
        while self._held > self.target.write.write_buffer:
            fullest = max(self._sizes, key=lambda place: self._sizes[place])
            before = self._sizes[fullest]
            self._writers[fullest].spill()
            if self._measure(fullest) >= before:
                return

    def _measure(self, place: Placement) -> int:
        size = self._writers[place].buffered_bytes
        self._held += size - self._sizes.get(place, 0)
        self._sizes[place] = size
        return size


class _Base(msgspec.Struct, frozen=True):
    """The snapshot on which the write is based."""

    snapshot: Snapshot | None
    router: Router


def _complete(
    message: CommitMessage,
    total_buckets: int,
    index: tuple[IndexFileMeta, IndexFileMeta | None] | None,
    routed_on: str | None,
) -> CommitMessage:
    """Return the message with the table's current number of buckets, the bucket's hash index, and its premises."""
    if message.total_buckets != total_buckets or routed_on is not None:
        message = msgspec.structs.replace(message, total_buckets=total_buckets, routed_on=routed_on)
    if index is None:
        return message
    new, old = index
    return msgspec.structs.replace(
        message,
        new_index_files=(*message.new_index_files, new),
        deleted_index_files=(*message.deleted_index_files, *(() if old is None else (old,))),
    )


class _MakesWriter(Protocol):
    def __call__(self, target: WriteTarget, place: Placement, state: BucketState) -> BucketWriter: ...


def _make_append_writer(
    target: WriteTarget, place: Placement, state: BucketState, columns: tuple[DataField, ...] | None = None
) -> BucketWriter:
    from morrow.writers.append.writer import AppendWriter

    return AppendWriter(target, place, state, columns)


def _make_fixed_writer(target: WriteTarget, place: Placement, state: BucketState) -> BucketWriter:
    return (MergeTreeWriter if target.keyed else _make_append_writer)(target, place, state)


def _make_postponed_writer(target: WriteTarget, place: Placement, state: BucketState) -> BucketWriter:
    from morrow.writers.keyed.postpone_bucket import PostponeWriter

    return PostponeWriter(target, place, state)


_WRITERS: dict[BucketMode, _MakesWriter] = {
    BucketMode.UNAWARE: _make_append_writer,
    BucketMode.FIXED: _make_fixed_writer,
    BucketMode.DYNAMIC: MergeTreeWriter,
    BucketMode.CROSS_PARTITION: MergeTreeWriter,
    BucketMode.POSTPONE: _make_postponed_writer,
    BucketMode.PARTITION_BUCKETS: MergeTreeWriter,
}

MIN_PARALLEL_BUCKETS, FLUSHES = 2, 8
"""Minimum buckets (small ones if keyed) to finish files in parallel, and the number finished at once."""
MAX_WRITERS = 512
"""Maximum writers whose files are described together, and maximum described writers that wait to be finished.

In Polars, bounds of ten rows take as long as bounds of ten thousand, and a file needs a dozen bounds. So one query
computes them for the small files of many buckets.
"""
MAX_DESCRIBED_BYTES = 16 << 20
"""Maximum bytes of rows that are described together, since they are copied."""

Describing: TypeAlias = "AppendWriter | MergeTreeWriter"


def finish_buckets(
    target: WriteTarget, writers: Sequence[BucketWriter], messages: list[CommitMessage], *, wait_compaction: bool
) -> None:
    """Add each writer's message to the list. If a writer fails, the messages of finished writers are in the list."""
    describing = _select_parallel(writers)
    if describing is None:
        for writer in writers:
            messages.append(writer.prepare_commit(wait_compaction=wait_compaction))  # noqa: PERF401 - see above
        return
    done: list[Future[CommitMessage]] = []
    try:
        # Small files cost little except the wait until they are durable.
        with ThreadPoolExecutor(FLUSHES) as pool:
            try:
                for group in _group_writers(describing):
                    wait(done[:-MAX_WRITERS], return_when=FIRST_EXCEPTION)
                    if any(future.done() and future.exception() for future in done):
                        break
                    _describe_together(target, group)
                    done += [pool.submit(each.prepare_commit, wait_compaction=wait_compaction) for each in group]
                wait(done, return_when=FIRST_EXCEPTION)
            finally:
                for future in done:
                    future.cancel()
    finally:
        messages += [each.result() for each in done if not each.cancelled() and each.exception() is None]
    for future in done:
        if not future.cancelled():
            future.result()


def _select_parallel(writers: Sequence[BucketWriter]) -> list[Describing] | None:
    """Return the writers if several of them may be finished at once: appending ones, or small ones with keys."""
    if len(writers) < MIN_PARALLEL_BUCKETS:
        return None
    alike: list[Describing] = [each for each in writers if isinstance(each, MergeTreeWriter) and each.is_small]
    if not alike:
        from morrow.writers.append.writer import AppendWriter

        alike = [each for each in writers if isinstance(each, AppendWriter)]
    return alike if len(alike) == len(writers) else None


def _group_writers(writers: Sequence[Describing]) -> Iterator[list[Describing]]:
    """Yield groups of writers that are worth describing together and small enough for it."""
    group, held = list[Describing](), 0
    for writer in writers:
        if group and (len(group) >= MAX_WRITERS or held + writer.buffered_bytes > MAX_DESCRIBED_BYTES):
            yield group
            group, held = [], 0
        group.append(writer)
        held += writer.buffered_bytes
    if group:
        yield group


def _describe_together(target: WriteTarget, writers: Sequence[Describing]) -> None:
    """Prepare the next file of each writer that has few rows.

    Raises `InvalidArgument`: rows of a writer cannot be written. `Unsupported`: versions cannot be merged.
    """
    target.find_folders([writer.partition for writer in writers])
    few = [(writer, rows) for writer in writers if (rows := writer.few_rows()) is not None]
    if len(few) < 2:
        return
    kind = FileKind.of(target, 0, changelog=False)
    for (writer, _), described in zip(few, kind.describe_each([rows for _, rows in few]), strict=True):
        writer.prepare((kind, described))


def check_blanks(target: WriteTarget, rows: pl.DataFrame) -> None:
    """Raise `InvalidArgument` for a CHAR key with trailing blanks if reads would return another key.

    The other key would be sought in another bucket, and new rows of it would not replace this one.
    """
    kinds = {name: target.schema.by_name[name].type for name in target.schema.trimmed_primary_keys}
    names = [name for name, kind in kinds.items() if isinstance(kind, CharType)]
    formats = {target.write.file_format, *target.write.format_per_level.values()} if names else set[str]()
    cutting = [name for name in formats if not get_format(name, target.where).is_exact]
    for name in names if cutting else ():
        column = get_series(rows, name)
        blank = column.filter(column.str.ends_with(" "))
        if len(blank):
            raise InvalidArgument(
                f"column {name!r}: {cutting[0]} files drop trailing blanks of {kinds[name]}, and the key {blank[0]!r} "
                "has some; strip them, or create the table with VARCHAR keys or another file.format"
            )


class BucketWriter(Protocol):
    """Writer of the rows of one bucket to files. Not thread-safe."""

    @property
    def buffered_bytes(self) -> int:
        """Memory held by rows that are not in files yet."""
        ...

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows in their order: the table's columns, in keyed tables followed by ``_VALUE_KIND`` (Int8)."""
        ...

    def spill(self) -> None:
        """Free the buffer's memory by moving its rows to temporary files or data files."""
        ...

    def compact(self, full: bool) -> None:
        """Write the buffered rows, then compact: with `full` into one sorted run, otherwise as the options say."""
        ...

    def prepare_commit(self, *, wait_compaction: bool = True) -> CommitMessage:
        """Write the buffered rows, compact as the options say, and return the changes since the last call."""
        ...

    def close(self) -> None:
        """Drop buffers and temporary files, and delete data files that no prepared message names."""
        ...
