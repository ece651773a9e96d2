"""Postponed rows of tables with ``bucket`` = -2: they stay unmerged in bucket -2 until a compaction assigns buckets.

Postponed rows are without sequence numbers. They are ordered by the creation time of their file, then by their position
in it. Files are Avro without statistics. Their names begin with the writer, so that one reader replays one writer.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.names import cols
from morrow.engine.structs import replace
from morrow.writers.buckets.routers import BucketState, FixedRouter, estimate_bucket_count, set_bucket_count
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement, delete_files, write_files
from morrow.writers.files.encoders import EncoderOptions, FileLayout, make_encoder
from morrow.writers.keyed.writer import MergeTreeWriter, compact_bucket, drop_ignored_kinds
from morrow.writers.target import WriteTarget

NO_SEQUENCE = -1
"""The sequence number of all postponed rows."""
FORMAT = "avro"
MAX_WRITERS = 2**31 - 1
"""Upper bound of the random numbers that distinguish the writers of one job in file names."""
MAX_REPLAYED_ROWS = 1 << 18
"""Maximum postponed rows read at once."""


class PostponeWriter:
    """A `BucketWriter` of bucket -2, independent of the state of the bucket."""

    def __init__(self, target: WriteTarget, place: Placement, state: BucketState) -> None:  # noqa: ARG002
        self._target = _to_avro_target(target)
        self._place = place
        self._prefix = f"{target.write.data_file_prefix}-u-{target.commit_user}-s-{secrets.randbelow(MAX_WRITERS)}-w-"
        self._names = [*(field.name for field in target.schema.fields), SEQUENCE_NUMBER, VALUE_KIND]
        self._frames: list[pl.DataFrame] = []
        self._files: list[DataFileMeta] = []
        self._bytes = 0

    @property
    def buffered_bytes(self) -> int:
        return self._bytes

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows in their order: the table's columns and ``_VALUE_KIND``.

        Raises `Unsupported`: a retraction that the table's merge engine does not support.
        """
        rows = drop_ignored_kinds(self._target, rows)
        _check_retractions(self._target, rows)
        number = pl.lit(NO_SEQUENCE, pl.Int64).alias(SEQUENCE_NUMBER)
        rows = rows.with_columns(number, pl.col(VALUE_KIND).cast(pl.Int8)).select(cols(self._names))
        self._frames.append(rows)
        self._bytes += int(rows.estimated_size())

    def spill(self) -> None:
        """Write the buffered rows to files."""
        frames, self._frames, self._bytes = self._frames, [], 0
        self._files += write_files(
            self._target, self._place, frames, level=0, source=FileSource.APPEND, prefix=self._prefix
        )

    def compact(self, full: bool) -> None:
        """Do nothing: `compact_postponed` compacts postponed rows."""

    def prepare_commit(self, *, wait_compaction: bool = True) -> CommitMessage:  # noqa: ARG002
        """Write the buffered rows; return all files since the last call."""
        self.spill()
        files, self._files = self._files, []
        return CommitMessage(
            partition=self._place.partition,
            bucket=self._place.bucket,
            total_buckets=POSTPONE_BUCKET,
            new_files=tuple(files),
        )

    def close(self) -> None:
        """Drop the buffer and delete the files that were not handed over."""
        files, self._files, self._frames, self._bytes = self._files, [], [], 0
        delete_files(self._target, self._place, files)


def _to_avro_target(target: WriteTarget) -> WriteTarget:
    """Return the table with other options for files. Its own format stays if the table has types that Avro lacks."""
    plain = replace(target.write, stats_mode="none", stats_mode_per_level={}, format_per_level={})
    with suppress(Unsupported):
        options = EncoderOptions(target.write.compression, plain, target.where)
        make_encoder(FORMAT, FileLayout.of(target), options)
        return replace(target, write=replace(plain, file_format=FORMAT))
    return target


def _check_retractions(target: WriteTarget, rows: pl.DataFrame) -> None:
    """Check that there are no retractions on which the compaction would fail later."""
    spec = target.merge
    assert spec is not None
    if not spec.takes_retractions and bool(((rows[VALUE_KIND] & RETRACT_BIT) != 0).any()):
        raise Unsupported(
            f"a retraction (-U or -D) in the merge engine {spec.engine}",
            where=target.where,
            hint="'ignore-delete' = 'true' leaves retractions out",
        )


def compact_postponed(
    target: WriteTarget, states: Mapping[Placement, BucketState], *, full: bool = False
) -> Iterator[CommitMessage]:
    """Assign buckets to postponed rows and compact all buckets, even if the table is ``write-only``.

    A partition keeps its number of buckets; a new one gets those of `estimate_bucket_count`. The messages contain
    only compactions: postponed files are deleted, and the written files added.

    Args:
        states: all buckets of the partitions to compact, bucket -2 included.
        full: compact every bucket into one sorted run; otherwise compact as the options say.
    """
    waiting = {place: state for place, state in states.items() if place.bucket == POSTPONE_BUCKET and state.files}
    done: set[Placement] = set()
    for place, state in waiting.items():
        partition = {p: s for p, s in states.items() if p.partition == place.partition and p.bucket >= 0}
        known = next((s.total_buckets for s in partition.values() if s.total_buckets is not None), None)
        rows, size = sum(file.row_count for file in state.files), sum(file.file_size for file in state.files)
        bucketed = _make_compacting_target(target, known or estimate_bucket_count(target, rows, size))
        for message in _replay_rows(bucketed, place, state, partition, full=full):
            done.add(Placement.of(message))
            yield message
        yield CommitMessage(
            partition=place.partition,
            bucket=place.bucket,
            total_buckets=POSTPONE_BUCKET,
            compact_before=state.files,
        )
    for place, state in states.items():
        if place.bucket >= 0 and state.files and state.total_buckets is not None and place not in done:
            yield compact_bucket(set_bucket_count(target, state.total_buckets), place, state, full=full)


def _make_compacting_target(target: WriteTarget, count: int) -> WriteTarget:
    """Return the table with this number of buckets, with compaction during writes enabled."""
    bucketed = set_bucket_count(target, count)
    return replace(bucketed, write=replace(bucketed.write, write_only=False))


def _replay_rows(
    target: WriteTarget,
    place: Placement,
    state: BucketState,
    partition: Mapping[Placement, BucketState],
    *,
    full: bool,
) -> list[CommitMessage]:
    """Write the rows of bucket -2 to their buckets."""
    router = FixedRouter(target)
    writers: dict[Placement, MergeTreeWriter] = {}
    try:
        for rows in read_postponed_rows(target, place, state.files):
            for to, part in router.route(rows):
                if to not in writers:
                    known = partition.get(to, BucketState(total_buckets=target.options.bucket))
                    writers[to] = MergeTreeWriter(target, to, known)
                writers[to].write(part)
            _bound_memory(writers.values(), target.write.write_buffer)
        messages = []
        for to, writer in writers.items():
            if full:
                writer.compact(full)
            messages.append(_to_compaction(target, to, writer.prepare_commit()))
        return messages
    finally:
        for writer in writers.values():
            writer.close()


def _bound_memory(writers: Iterable[MergeTreeWriter], most: int) -> None:
    by_size = sorted(writers, key=lambda writer: writer.buffered_bytes)
    while sum(writer.buffered_bytes for writer in by_size) > most:
        by_size.pop().spill()


def read_postponed_rows(target: WriteTarget, place: Placement, files: Iterable[DataFileMeta]) -> Iterator[pl.DataFrame]:
    """Yield the rows of postponed files in the order of their writing: the table's columns and ``_VALUE_KIND``."""
    ordered = tuple(sorted(files, key=lambda file: file.creation_time))
    stored = StoredFiles(target, place, ordered)
    for frame in stored.batches(ordered, MAX_REPLAYED_ROWS):
        yield frame.drop(SEQUENCE_NUMBER)


def _to_compaction(target: WriteTarget, place: Placement, message: CommitMessage) -> CommitMessage:
    """Return the message with all changes in the COMPACT snapshot; deletes files both created and replaced."""
    new = {file.file_name for file in message.new_files}
    replaced = {file.file_name for file in message.compact_before}
    stays = {file.file_name for file in message.compact_after}
    gone = [file for file in message.new_files if file.file_name in replaced and file.file_name not in stays]
    delete_files(target, place, gone)
    return msgspec.structs.replace(
        message,
        new_files=(),
        changelog_files=(),
        compact_before=tuple(file for file in message.compact_before if file.file_name not in new),
        compact_after=(*(f for f in message.new_files if f.file_name not in replaced), *message.compact_after),
        compact_changelog=(*message.changelog_files, *message.compact_changelog),
        compact_numbered_from=min((file.min_sequence_number for file in message.new_files), default=None),
    )
