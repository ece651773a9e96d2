"""The writer of a table: checks rows, routes them to the writers of their buckets, and bounds memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

import msgspec
import polars as pl

from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument, MorrowError, SnapshotExpired
from morrow.engine.format.data_file_meta import IndexFileMeta
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.ahead import ahead
from morrow.engine.plan.manifests import manifests_of
from morrow.writers.append.writer import AppendWriter
from morrow.writers.buckets import BucketMode, Router, bucket_mode, router_for
from morrow.writers.buckets.bucket_writer import BucketWriter
from morrow.writers.buckets.postponed import PartitionBucketsRouter, with_buckets
from morrow.writers.buckets.restored import BucketState, restored
from morrow.writers.commit import TableCommit
from morrow.writers.commit.expired_base import reading
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.routes import version_of
from morrow.writers.files import Placement
from morrow.writers.history.expiry.partition_times import partition_check
from morrow.writers.keyed.writer import MergeTreeWriter
from morrow.writers.operations.finishing import finish
from morrow.writers.rows import NULL, Kinds, Missing, incoming
from morrow.writers.target import WriteTarget


class TableWriter:
    """Turns rows into files that are not committed yet. Not safe for use by several threads at once.

    Buckets are restored from the newest snapshot at the first write; later writes continue from there, also after
    `prepare_commit`, until `forget` is called because another writer has committed.

    Args:
        overwrite: the rows replace the contents of the table.
        base: the newest snapshot, if it was just read.
    """

    def __init__(self, target: WriteTarget, *, overwrite: bool = False, base: Snapshot | None = None) -> None:
        self.target = target
        self._begun = base
        self._reading: Callable[[], object] | None = None
        self._overwrite = overwrite
        self._mode = bucket_mode(target)
        self._check_partition = partition_check(target)
        self._base: _Base | None = None
        self._continued: Snapshot | None = None
        self._writers: dict[Placement, BucketWriter] = {}
        self._totals: dict[Placement, int] = {}
        self._sizes: dict[Placement, int] = {}
        self._held = 0
        self._goes_on = False

    def write(self, data: object, kinds: Kinds = None, missing: Missing = NULL) -> int:
        """Takes rows and returns their number; see `writers.rows.incoming` for what is accepted and raised.

        After an error the writer can only be aborted (`abort`).
        """
        return self.write_frames(incoming(self.target, data, kinds=kinds, missing=missing))

    def write_frames(self, frames: Iterator[pl.DataFrame]) -> int:
        """Takes rows that are checked already: frames as `writers.rows.incoming` returns them.

        Raises:
            CommitConflict: others have changed the table, and the snapshot that writing goes on from has expired.
        """
        taken = 0
        for rows in frames:
            with self._on_base():
                routed = list(self._restored_base().router.route(rows))
                self._open([place for place, _ in routed])
                for place, part in routed:
                    self._writers[place].write(part)
                    self._bound_memory(place)
            taken += rows.height
        return taken

    def compact(self, places: Sequence[Placement], *, full: bool) -> None:
        """Compacts these buckets, including the rows written to them."""
        self._restored_base()
        self._open(places)
        for place in places:
            self._writers[place].compact(full)

    def compact_written(self) -> None:
        """Fully compacts the buckets that rows were written to since the last `prepare_commit`."""
        for place in self._sizes:
            self._writers[place].compact(full=True)

    def prepare_commit(self, *, wait_compaction: bool = True) -> list[CommitMessage]:
        """Returns the changes since the last call as messages for `TableCommit`; unchanged buckets have none."""
        messages: list[CommitMessage] = []
        try:
            finish(self.target, list(self._writers.values()), messages, wait_compaction=wait_compaction)
            indexes = self._base.router.index_files() if self._base is not None else {}
        except BaseException:
            # Writers that have handed over their files no longer track them.
            TableCommit(self.target).abort(messages)
            raise
        self._sizes, self._held = {}, 0
        if self._reading is not None:
            with suppress(MorrowError):  # the commit meets it again
                self._reading()
            self._reading = None
        completed = [
            _complete(message, self._totals[place], indexes.get(place), self._routed_on)
            for place, message in zip(self._writers, messages)
        ]
        self._let_go()
        return [message for message in completed if not message.is_empty]

    def _let_go(self) -> None:
        """Restores anew the buckets whose writers cannot continue."""
        for place, writer in list(self._writers.items()):
            if isinstance(writer, MergeTreeWriter) and writer.overtaken:
                self._writers.pop(place).close()
                self._goes_on = True

    @property
    def base(self) -> Snapshot | None:
        """The snapshot that buckets were restored from; None before the first write, and in a table without one."""
        return None if self._base is None else self._base.snapshot

    @property
    def _routed_on(self) -> str | None:
        given = self.places_keys and not self._overwrite
        return version_of(self._continued or self.base) if given else None

    @property
    def places_keys(self) -> bool:
        """Whether keys are given buckets one by one, which the router remembers."""
        return self._mode in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)

    def go_on_from(self, snapshot: Snapshot) -> None:
        """Says that the writer's own commits have led from its base to this snapshot: what it knows holds there."""
        self._continued = snapshot

    def forget(self) -> None:
        """Makes the next write restore buckets anew, because the table has changed under this writer."""
        self.close()
        self._base, self._continued, self._goes_on = None, None, False

    def close(self) -> None:
        """Drops buffered rows, and deletes files that no prepared message names."""
        writers, self._writers = self._writers, {}
        self._totals, self._sizes, self._held = {}, {}, 0
        for writer in writers.values():
            with suppress(MorrowError):  # an undeletable file becomes an orphan, the error at hand counts more
                writer.close()

    def _restored_base(self) -> _Base:
        if self._base is None:
            snapshot, self._begun = self._begun or self.target.metadata.latest_snapshot(), None
            if snapshot is not None and self._mode is BucketMode.UNAWARE and not self.target.store.is_local:
                # The commit will need them: they are read while rows are written.
                self._reading = ahead(self.target.store, partial(manifests_of, self.target.metadata, snapshot))
            with reading(self.target.metadata, snapshot):
                self._base = _Base(snapshot, router_for(self.target, snapshot, overwrite=self._overwrite))
        return self._base

    @contextmanager
    def _on_base(self) -> Iterator[None]:
        """Turns missing files into a conflict, for a block that goes on from the base, where that has expired."""
        try:
            yield
        except (FileMissing, SnapshotExpired):
            with reading(self.target.metadata, self.base):
                raise

    def _open(self, places: Sequence[Placement]) -> None:
        """Makes the writers of buckets that have none yet, from one pass over the manifests."""
        new = [place for place in dict.fromkeys(places) if place not in self._writers]
        if not new:
            return
        for partition in {place.partition for place in new}:
            self._check_partition(partition)
        # Overwritten files do not count, nor does any existing file in a table without buckets.
        alone = self._overwrite or self._mode is BucketMode.UNAWARE
        # After its own commit, a writer may open buckets that were changed since: its base may even have expired.
        goes_on = bool(self._writers) or self._goes_on
        snapshot = self.target.metadata.latest_snapshot() if goes_on and not alone else self.base
        states = restored(self.target, None if alone else snapshot, new)
        for place in new:
            state = states[place]
            self._check_total(place, state)
            target = self._bucketed(place, state)
            self._totals[place] = target.options.bucket
            self._writers[place] = _WRITERS[self._mode](target, place, state)

    def _bucketed(self, place: Placement, state: BucketState) -> WriteTarget:
        """Returns the table with the number of buckets of this partition."""
        router = self._restored_base().router
        if not isinstance(router, PartitionBucketsRouter):
            return self.target
        count = router.total_buckets(place.partition)
        if state.total_buckets not in (None, count):
            raise CommitConflict(
                f"{self.target.where}: a partition got {state.total_buckets} buckets while rows were written to "
                f"{count}; these rows were not committed: write them with a new writer"
            )
        return with_buckets(self.target, count)

    def _check_total(self, place: Placement, state: BucketState) -> None:
        """Checks the number of buckets of a partition, which stays the same until the partition is overwritten."""
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
        """Keeps all buckets together within ``write-buffer-size``: the fullest spill."""
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
    """The snapshot that writing began from."""

    snapshot: Snapshot | None
    router: Router


def _complete(
    message: CommitMessage,
    total_buckets: int,
    index: tuple[IndexFileMeta, IndexFileMeta | None] | None,
    routed_on: str | None,
) -> CommitMessage:
    """Returns the message with the table's current number of buckets, the bucket's hash index, and its premises."""
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


def _fixed(target: WriteTarget, place: Placement, state: BucketState) -> BucketWriter:
    return MergeTreeWriter(target, place, state) if target.keyed else AppendWriter(target, place, state)


def _postponed(target: WriteTarget, place: Placement, state: BucketState) -> BucketWriter:
    from morrow.writers.keyed.postpone import PostponeWriter

    return PostponeWriter(target, place, state)


_WRITERS: dict[BucketMode, _MakesWriter] = {
    BucketMode.UNAWARE: AppendWriter,
    BucketMode.FIXED: _fixed,
    BucketMode.DYNAMIC: MergeTreeWriter,
    BucketMode.CROSS_PARTITION: MergeTreeWriter,
    BucketMode.POSTPONE: _postponed,
    BucketMode.PARTITION_BUCKETS: MergeTreeWriter,
}
