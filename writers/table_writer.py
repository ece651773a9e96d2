"""Writes rows to a table: checks them, routes them to the writers of their buckets, bounds memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec
import polars as pl

from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.format.data_file_meta import IndexFileMeta
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.append.writer import AppendWriter
from morrow.writers.bucket_writer import BucketWriter
from morrow.writers.buckets import BucketMode, Router, bucket_mode, router_for
from morrow.writers.commit import TableCommit
from morrow.writers.expiry.partition_times import partition_check
from morrow.writers.files import Placement
from morrow.writers.merge_tree.writer import MergeTreeWriter
from morrow.writers.messages import CommitMessage
from morrow.writers.restored import BucketState, restored
from morrow.writers.rows import Kinds, incoming
from morrow.writers.target import WriteTarget


class TableWriter:
    """Turns rows into files that are not committed yet. Not safe for use by several threads at once.

    Buckets are restored from the newest snapshot at the first write and written on from there, also after
    `prepare_commit`, until `forget` is told that somebody else has committed.

    Args:
        overwrite: what the table holds does not count: the rows replace it.
    """

    def __init__(self, target: WriteTarget, *, overwrite: bool = False) -> None:
        self.target = target
        self._overwrite = overwrite
        self._mode = bucket_mode(target)
        self._check_partition = partition_check(target)
        self._base: _Base | None = None
        self._writers: dict[Placement, BucketWriter] = {}
        self._totals: dict[Placement, int] = {}
        self._sizes: dict[Placement, int] = {}
        self._held = 0

    def write(self, data: object, kinds: Kinds = None) -> int:
        """Take rows; see `writers.rows.incoming` for what is accepted and raised. Returns how many were taken.

        After an error the writer is of no use but to `abort`.
        """
        return self.write_frames(incoming(self.target, data, kinds=kinds))

    def write_frames(self, frames: Iterator[pl.DataFrame]) -> int:
        """Take rows that are checked already: frames as `writers.rows.incoming` gives them."""
        taken = 0
        for rows in frames:
            base = self._restored_base()
            routed = list(base.router.route(rows))
            self._open([place for place, _ in routed])
            for place, part in routed:
                self._writers[place].write(part)
                self._bound_memory(place)
            taken += rows.height
        return taken

    def compact(self, places: Sequence[Placement], *, full: bool) -> None:
        """Compact these buckets with what was written to them."""
        self._restored_base()
        self._open(places)
        for place in places:
            self._writers[place].compact(full)

    def compact_written(self) -> None:
        """Compact the buckets fully to which rows were written since the last `prepare_commit`."""
        for place in self._sizes:
            self._writers[place].compact(full=True)

    def prepare_commit(self, *, wait_compaction: bool = True) -> list[CommitMessage]:
        """What was written since the last call, as messages for `TableCommit`; buckets without news have none."""
        messages: list[CommitMessage] = []
        try:
            for writer in self._writers.values():
                messages.append(writer.prepare_commit(wait_compaction=wait_compaction))  # noqa: PERF401 - see below
            indexes = self._base.router.index_files() if self._base is not None else {}
        except BaseException:
            # The writers that have handed over their files do not know them any more.
            TableCommit(self.target).abort(messages)
            raise
        self._sizes, self._held = {}, 0
        completed = (
            _complete(message, self._totals[place], indexes.get(place))
            for place, message in zip(self._writers, messages)
        )
        return [message for message in completed if not message.is_empty]

    @property
    def base(self) -> Snapshot | None:
        """The snapshot that buckets were restored from; None before the first write, and in a table without one."""
        return None if self._base is None else self._base.snapshot

    def forget(self) -> None:
        """Restore buckets anew at the next write: the table has changed under this writer."""
        self.close()
        self._base = None

    def close(self) -> None:
        """Drop what is buffered, and files that no prepared message names."""
        writers, self._writers = self._writers, {}
        self._totals, self._sizes, self._held = {}, {}, 0
        for writer in writers.values():
            with suppress(MorrowError):  # a file that cannot be deleted is an orphan, the error at hand counts more
                writer.close()

    def _restored_base(self) -> _Base:
        if self._base is None:
            snapshot = self.target.metadata.latest_snapshot()
            self._base = _Base(snapshot, router_for(self.target, snapshot, overwrite=self._overwrite))
        return self._base

    def _open(self, places: Sequence[Placement]) -> None:
        """Make the writers of buckets that have none yet, from one pass over the manifests."""
        new = [place for place in dict.fromkeys(places) if place not in self._writers]
        if not new:
            return
        for partition in {place.partition for place in new}:
            self._check_partition(partition)
        # What is overwritten does not count, and without buckets nothing that is there does.
        alone = self._overwrite or self._mode is BucketMode.UNAWARE
        # A writer that has committed since may open buckets that were changed since: its base may even have expired.
        snapshot = self.target.metadata.latest_snapshot() if self._writers and not alone else self.base
        states = restored(self.target, None if alone else snapshot, new)
        for place in new:
            state = states[place]
            self._check_total(place, state)
            self._totals[place] = self.target.options.bucket
            self._writers[place] = _WRITERS[self._mode](self.target, place, state)

    def _check_total(self, place: Placement, state: BucketState) -> None:
        """A partition keeps its number of buckets until it is overwritten."""
        now = self.target.options.bucket
        if state.total_buckets is None or state.total_buckets == now or self._mode is BucketMode.POSTPONE:
            return
        target = self.target
        values = zip(target.schema.partition_keys, target.partition_values(place.partition))
        partition = ", ".join(f"{name}={value!r}" for name, value in values)
        what = f"the partition {partition}" if partition else "the table"
        raise InvalidArgument(
            f"{target.where}: {what} was written with {state.total_buckets} buckets and the option 'bucket' is "
            f"{now} now; rescale it first with Table.overwrite of its rows"
        )

    def _bound_memory(self, written: Placement) -> None:
        """Within ``write-buffer-size`` over all buckets: the fullest give way."""
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
    """What writing began from."""

    snapshot: Snapshot | None
    router: Router


def _complete(
    message: CommitMessage, total_buckets: int, index: tuple[IndexFileMeta, IndexFileMeta | None] | None
) -> CommitMessage:
    """The message with the number of buckets of the table now, and the hash index of the bucket."""
    if message.total_buckets != total_buckets:
        message = msgspec.structs.replace(message, total_buckets=total_buckets)
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
    from morrow.writers.merge_tree.postpone import PostponeWriter

    return PostponeWriter(target, place, state)


_WRITERS: dict[BucketMode, _MakesWriter] = {
    BucketMode.UNAWARE: AppendWriter,
    BucketMode.FIXED: _fixed,
    BucketMode.DYNAMIC: MergeTreeWriter,
    BucketMode.CROSS_PARTITION: MergeTreeWriter,
    BucketMode.POSTPONE: _postponed,
}
