"""Sequence numbers at commit: the rows of a commit must be newer than all rows committed before it.

A writer continues from the greatest sequence number that a bucket has when the write begins. If others have committed
to the bucket since, the writer's rows might not be newer than theirs. A committer checks this against each snapshot
that the commit may follow, and rewrites the files of such a bucket with greater numbers. Compactions of the old files
are dropped: the rows stay in level 0 until the next compaction.

Rows in the postponed bucket are without numbers, and are ordered by the creation time of their files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import polars as pl

from morrow.engine.errors import FileMissing
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.schema import SEQUENCE_NUMBER
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.options import parse_write_options
from morrow.engine.structs import replace
from morrow.readers.execution.execute import DEFAULT_BATCH_ROWS
from morrow.readers.files.file_frames import translate_file_errors
from morrow.writers.commit.base_entries import BaseEntries
from morrow.writers.commit.conflicts import AlreadyCommitted, check_buckets
from morrow.writers.commit.messages import Changes, CommitMessage, make_append_changes
from morrow.writers.commit.premise import Routes, identify_version
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement, delete_files, find_paths, write_files
from morrow.writers.target import WriteTarget

MAX_LOCKED_BYTES = 32 << 20
"""Files up to this size are rewritten under the commit lock. Larger ones are rewritten before, with a gap."""
MIN_NUMBER_GAP = 1 << 12
"""Sequence numbers left free for concurrent commits. Multiplied each time the gap was too small."""
MAX_NUMBER_GAP = 1 << 40

BUCKET = ["_PARTITION", "_BUCKET"]


@dataclass
class SequenceNumbering:
    """The APPEND changes of messages, as a function of the snapshot that they follow.

    `messages` are the resulting messages: for renumbered buckets they name other files, without a compaction.
    """

    target: WriteTarget
    base: BaseEntries
    routes: Routes
    given: Sequence[CommitMessage]
    messages: list[CommitMessage] = field(init=False)
    _changes: Changes = field(init=False)
    _rounds: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.messages = list(self.given)
        self._changes = make_append_changes(self.messages)

    def __call__(self, latest: Snapshot | None) -> Changes:
        """Return the changes on top of `latest`, renumbered in buckets that have greater sequence numbers.

        Raises:
            AlreadyCommitted: a file of the messages is in the table.
            CommitConflict: the number of buckets of a partition has changed.
            Misplaced: keys have moved since rows were assigned to buckets.
            FileMissing, CorruptFile, StorageError: files cannot be rewritten.
        """
        self._follow(latest, MIN_NUMBER_GAP * 16**self._rounds if self._rounds else 0)
        return self._changes

    def ahead(self, latest: Snapshot | None) -> None:
        """Renumber large files before this committer takes the commit lock. Raises as a call."""
        if sum(file.file_size for message in self.messages for file in message.new_files) > MAX_LOCKED_BYTES:
            self._follow(latest, MIN_NUMBER_GAP * 16 ** (self._rounds + 1))

    @property
    def changes(self) -> Changes:
        """The changes in their current numbering."""
        return self._changes

    @property
    def replaced(self) -> list[CommitMessage]:
        """The given messages that are not committed unchanged, with files to discard: rewritten and compacted ones."""
        return [
            msgspec.structs.replace(old, new_index_files=())
            for old, new in zip(self.given, self.messages, strict=True)
            if old is not new and not _is_postponed(old)
        ]

    def undo(self) -> None:
        """Remove the rewritten files after a failed commit."""
        for old, new in zip(self.given, self.messages, strict=True):
            if old is not new:
                self._discard(old, new)
        self.messages = list(self.given)

    def _follow(self, latest: Snapshot | None, gap: int) -> None:
        self.routes.check(self.given, latest)
        if latest is None or all(_is_based_on(message, latest) for message in self.messages):
            return
        there = self.base.at(latest, self._changes.partitions)
        self._check_new(there)
        check_buckets(self.target, there, self._changes.entries)
        newest = there.group_by(BUCKET).agg(pl.col("_MAX_SEQUENCE_NUMBER", "_CREATION_TIME").max())
        moved = self._moved({Placement(*row[:2]): row[2:] for row in newest.rows()}, min(gap, MAX_NUMBER_GAP))
        if not moved:
            return
        self._rounds += 1
        for number, message in enumerate(self.messages):
            by = moved.get(Placement.of(message), 0)
            if by and message.new_files:
                self._renumber(number, message, by)
        self._changes = make_append_changes(self.messages)

    def _check_new(self, there: pl.DataFrame) -> None:
        names = [
            file.file_name for message in self.given for file in (*message.new_files, *_find_rewritten_files(message))
        ]
        found = there["_FILE_NAME"].filter(there["_FILE_NAME"].is_in(names))
        if len(found):
            raise AlreadyCommitted(self.target.where, found[0])

    def _moved(self, newest: dict[Placement, tuple[int, object]], gap: int) -> dict[Placement, int]:
        """Return how much to add to the sequence numbers of each bucket (postponed rows: to the times in
        milliseconds)."""
        first: dict[Placement, int] = {}
        for message in self.messages:
            place = Placement.of(message)
            for file in message.new_files:
                own = file.creation_time if _is_postponed(message) else file.min_sequence_number
                first[place] = min(own, first.get(place, own))
        moved: dict[Placement, int] = {}
        for place, own in first.items():
            if place not in newest:
                continue
            number, created = newest[place]
            postponed = place.bucket == POSTPONE_BUCKET
            greatest = _to_millis(created) if postponed else number
            if own <= greatest:
                moved[place] = greatest + 1 - own + (0 if postponed else gap)
        return moved

    def _renumber(self, number: int, message: CommitMessage, by: int) -> None:
        if _is_postponed(message):
            later = tuple(msgspec.structs.replace(f, creation_time=f.creation_time + by) for f in message.new_files)
            self.messages[number] = msgspec.structs.replace(message, new_files=later)
            return
        place, old = Placement.of(message), self.given[number]
        new = renumber_files(self.target, place, message.new_files, by)
        try:
            changelog = renumber_files(self.target, place, message.changelog_files, by, changelog=True)
        except BaseException:
            delete_files(self.target, place, new)
            raise
        self.messages[number] = msgspec.structs.replace(
            message,
            new_files=tuple(new),
            changelog_files=tuple(changelog),
            compact_before=(),
            compact_after=(),
            compact_changelog=(),
            compact_new_index_files=(),
            compact_deleted_index_files=(),
            compact_seen=None,
            based_on=None,
        )
        if message is not old:
            self._discard(old, message)

    def _discard(self, old: CommitMessage, new: CommitMessage) -> None:
        """Remove the files of `new` that are not in `old`."""
        if _is_postponed(new):
            return
        kept = {file.file_name for file in (*old.new_files, *old.changelog_files)}
        files: list[DataFileMeta] = [f for f in (*new.new_files, *new.changelog_files) if f.file_name not in kept]
        self.target.store.discard([path for f in files for path in find_paths(self.target, Placement.of(new), f)])


def _is_based_on(message: CommitMessage, latest: Snapshot) -> bool:
    """Return whether the writer continued the numbers of exactly this snapshot, or assigned none."""
    if not message.new_files:
        return True
    return message.based_on is not None and message.based_on == identify_version(latest)


def _find_rewritten_files(message: CommitMessage) -> list[DataFileMeta]:
    """Return the files that compaction wrote, without files that it only moved to another level."""
    before = {file.file_name for file in message.compact_before}
    return [file for file in message.compact_after if file.file_name not in before]


def _is_postponed(message: CommitMessage) -> bool:
    return message.bucket == POSTPONE_BUCKET


def _to_millis(created: object) -> int:
    return int(pl.Series([created], dtype=pl.Datetime("ms")).cast(pl.Int64)[0])


def renumber_files(
    target: WriteTarget, place: Placement, files: Sequence[DataFileMeta], by: int, *, changelog: bool = False
) -> list[DataFileMeta]:
    """Copy the rows of these files to new files, with `by` added to every sequence number. Rows are streamed.

    Args:
        files: files of the bucket that no snapshot names yet; they stay unchanged.
        changelog: whether they are changelog files.

    Returns: the new files in the order of the old ones, durable.

    Raises:
        FileMissing, CorruptFile: a file cannot be read. StorageError. After any error, no new file is left.
    """
    made: list[DataFileMeta] = []
    try:
        for file in files:
            own = restore_written_schema(target, file.schema_id)
            made += write_files(
                own,
                place,
                _read_renumbered(own, place, file, by),
                level=file.level,
                source=FileSource.APPEND,
                changelog=changelog,
            )
    except BaseException:
        delete_files(target, place, made)
        raise
    return made


def restore_written_schema(target: WriteTarget, schema_id: int) -> WriteTarget:
    """Return the table at the schema with which files were written, without columns added since."""
    if schema_id == target.schema.id:
        return target
    metadata = target.metadata
    schema = metadata.schema(schema_id)
    write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
    return replace(target, schema=schema, options=metadata.options(schema), write=write)


def _read_renumbered(target: WriteTarget, place: Placement, file: DataFileMeta, by: int) -> Iterator[pl.DataFrame]:
    stored = StoredFiles(target, place, (file,))
    try:
        frame = stored.lazy(file).with_columns(pl.col(SEQUENCE_NUMBER) + by)
        with translate_file_errors(stored.plan, [stored.section], stored.fields, target.store):
            yield from frame.collect_batches(
                chunk_size=DEFAULT_BATCH_ROWS, maintain_order=True, lazy=True, engine="streaming"
            )
    except FileMissing as error:
        raise FileMissing(
            error.path, hint="a file that waits to be committed was removed; write these rows once more"
        ) from error
