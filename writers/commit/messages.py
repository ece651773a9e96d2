"""Messages of writers, and the counts of rows that they change.

Messages go from the writing process to the committing one. A commit turns them into changes: manifest entries of writes
and of compactions. The changes of an overwrite replace all files and index files of the chosen partitions.

    with count_rows_of(Operation.UPDATE) as tally:
        table.update({"amount": "0"}, "id = 1")
    tally.updated  # 1

The snapshots of the operation record the tally (`record_operation`). If an operation is repeated after a conflict, its
rows are counted again from zero.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal, ParamSpec, TypeAlias, TypeVar

import msgspec
import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.binary_row import Value, decode_columns, decode_rows, is_same_value
from morrow.engine.format.manifest_entries import (
    DELETION_VECTORS_INDEX,
    DataFileMeta,
    EntryKind,
    IndexEntry,
    IndexFileMeta,
    ManifestEntry,
    drop_value_stats,
    index_entries_of,
    to_entries,
    to_entry_frame,
)
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import DURATION, ROWS_DELETED, ROWS_INSERTED, ROWS_UPDATED, Snapshot
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.sections import number_buckets, rank_keys
from morrow.writers.commit.manifests import read_live_entries
from morrow.writers.target import WriteTarget

Args = ParamSpec("Args")
Result = TypeVar("Result")


class Operation(StrEnum):
    """Names of operations in snapshots: Paimon's ``Snapshot.Operation``."""

    WRITE = "WRITE"
    OVERWRITE = "OVERWRITE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"
    UPDATE = "UPDATE"
    MERGE = "MERGE"


@dataclass
class Tally:
    """An operation and its numbers of rows. None: not counted, as when whole partitions are dropped."""

    operation: Operation | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    began: float = field(default_factory=time.monotonic)

    def get_counts(self) -> dict[str, int | None]:
        """Return the arguments of `count` that add these counts to another tally."""
        return {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}

    def properties(self) -> dict[str, str]:
        """Return the properties of the operation's snapshots: counts of rows, and milliseconds since its start."""
        duration = round((time.monotonic() - self.began) * 1000)
        counts = {ROWS_INSERTED: self.inserted, ROWS_UPDATED: self.updated, ROWS_DELETED: self.deleted}
        return {DURATION: str(duration), **{name: str(rows) for name, rows in counts.items() if rows is not None}}


_current: ContextVar[Tally | None] = ContextVar("morrow_tally", default=None)


@contextmanager
def count_rows_of(operation: Operation | None = None) -> Iterator[Tally]:
    """Count the rows of the operations in a block, on this thread. Inside another such block, that one keeps
    counting."""
    outer = _current.get()
    if outer is not None:
        outer.operation = outer.operation or operation
        yield outer
        return
    tally = Tally(operation)
    token = _current.set(tally)
    try:
        yield tally
    finally:
        _current.reset(token)


def record_operation(operation: Operation) -> Callable[[Callable[Args, Result]], Callable[Args, Result]]:
    """Decorate a function as an operation that its snapshots record."""

    def decorate(function: Callable[Args, Result]) -> Callable[Args, Result]:
        @functools.wraps(function)
        def run(*args: Args.args, **kwargs: Args.kwargs) -> Result:
            with count_rows_of(operation):
                return function(*args, **kwargs)

        return run

    return decorate


def find_running_tally() -> Tally | None:
    """Return the tally of the operation that runs on this thread, None if there is none."""
    return _current.get()


def begin_tally() -> None:
    """Reset the counts before another attempt."""
    if (tally := _current.get()) is not None:
        tally.inserted = tally.updated = tally.deleted = None


def count(*, inserted: int | None = None, updated: int | None = None, deleted: int | None = None) -> None:
    """Add rows to the counts."""
    tally = _current.get()
    if tally is None:
        return
    for name, rows in (("inserted", inserted), ("updated", updated), ("deleted", deleted)):
        if rows is not None:
            setattr(tally, name, (getattr(tally, name) or 0) + rows)


BATCH_COMMIT_IDENTIFIER = 2**63 - 1
"""Commit identifier of batch writes, which are never repeated (Java's Long.MAX_VALUE)."""


class CommitMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Files written in one bucket and not committed yet; `partition` is a BinaryRow (arity first).

    The first group becomes the APPEND snapshot of the commit, the second (``compact_*``) its COMPACT snapshot.
    `deleted_index_files` and `compact_deleted_index_files` are the index files that the new ones replace.
    `compact_seen` are the names of the files above level 0 that the bucket had when keys were looked up for its
    compaction (None: no keys were looked up). `based_on` identifies, by its delta manifest list, the snapshot whose
    greatest sequence number the rows continue (None: unknown). `routed_on` identifies the snapshot that was read to
    assign keys to buckets one by one ("": a table without snapshots; None: buckets are computed from the hash).
    `compact_numbered_from` is the least sequence number that compaction has assigned to rows without one. `planned_on`
    is the id of the snapshot whose rows new columns were computed from (None: the commit has a premise).
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    compact_new_index_files: tuple[IndexFileMeta, ...] = ()
    compact_deleted_index_files: tuple[IndexFileMeta, ...] = ()
    compact_seen: tuple[str, ...] | None = None
    based_on: str | None = None
    routed_on: str | None = None
    compact_numbered_from: int | None = None
    planned_on: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written."""
        groups = (getattr(self, name) for name in self.__struct_fields__[3:-5])
        return not any(groups)


def drop_repeated_indexes(messages: Iterable[CommitMessage]) -> list[CommitMessage]:
    """Return messages in which each deleted index file is named once: several writers of a bucket may name it."""
    seen: set[str] = set()
    found = []
    for message in messages:
        files = tuple(file for file in message.deleted_index_files if file.file_name not in seen)
        seen.update(file.file_name for file in files)
        found.append(msgspec.structs.replace(message, deleted_index_files=files))
    return found


@dataclass(frozen=True)
class LookupFiles:
    """Names of a bucket's files above level 0 in which a compaction looked up keys, and of the files it changed."""

    partition: bytes
    bucket: int
    files: frozenset[str]
    removed: frozenset[str]
    added: frozenset[str]

    @classmethod
    def by(cls, message: CommitMessage) -> LookupFiles | None:
        """Return the lookup of a message's compaction, None if it looked up nothing."""
        if message.compact_seen is None:
            return None
        removed = frozenset(file.file_name for file in message.compact_before)
        added = frozenset(file.file_name for file in message.compact_after if file.level > 0)
        return cls(message.partition, message.bucket, frozenset(message.compact_seen), removed, added)


@dataclass(frozen=True)
class FirstSequenceNumber:
    """Least sequence number that a compaction assigned to rows of a bucket."""

    partition: bytes
    bucket: int
    number: int


@dataclass(frozen=True)
class Changes:
    """The entries of one snapshot, and the conditions that the previous snapshot must meet."""

    files: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    index: tuple[IndexEntry, ...] = ()
    looked_at: tuple[LookupFiles, ...] = ()
    numbered_from: tuple[FirstSequenceNumber, ...] = ()
    planned_on: int | None = None

    @cached_property
    def entries(self) -> pl.DataFrame:
        """The entries of `files` as a frame, columns of `decode_manifest`."""
        return to_entry_frame(self.files)

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.changelog or self.index)

    @property
    def partitions(self) -> frozenset[bytes]:
        """The partitions whose rows change."""
        vectors = (entry.partition for entry in self.index if entry.file.index_type == DELETION_VECTORS_INDEX)
        return frozenset([*(entry.partition for entry in self.files), *vectors])

    @property
    def adds_columns(self) -> bool:
        """Whether files hold columns of rows that have ids already, and so need the files of these rows."""
        return any(entry.kind == EntryKind.ADD and entry.file.first_row_id is not None for entry in self.files)

    @property
    def replaces_rows(self) -> bool:
        """Whether rows are removed, by deleted files or deletion vectors, so that the changes are more than an
        append."""
        return any(entry.kind == EntryKind.DELETE for entry in self.files) or any(
            entry.file.index_type == DELETION_VECTORS_INDEX for entry in self.index
        )


def make_append_changes(messages: Iterable[CommitMessage]) -> Changes:
    """Return the entries of written files and their changelog, for the APPEND snapshot."""
    files: list[ManifestEntry] = []
    changelog: list[ManifestEntry] = []
    index: list[IndexEntry] = []
    planned: list[int] = []
    for message in messages:
        planned += [] if message.planned_on is None else [message.planned_on]
        files += _make_entries(EntryKind.ADD, message, message.new_files)
        files += _make_entries(EntryKind.DELETE, message, message.deleted_files)
        changelog += _make_entries(EntryKind.ADD, message, message.changelog_files)
        index += _index(EntryKind.DELETE, message, message.deleted_index_files)
        index += _index(EntryKind.ADD, message, message.new_index_files)
    return Changes(tuple(files), tuple(changelog), tuple(index), planned_on=min(planned, default=None))


def make_compact_changes(messages: Sequence[CommitMessage]) -> Changes:
    """Return the entries of compacted files and their changelog, for the COMPACT snapshot."""
    files: list[ManifestEntry] = []
    changelog: list[ManifestEntry] = []
    index: list[IndexEntry] = []
    for message in messages:
        files += _make_entries(EntryKind.DELETE, message, message.compact_before)
        files += _make_entries(EntryKind.ADD, message, message.compact_after)
        changelog += _make_entries(EntryKind.ADD, message, message.compact_changelog)
        index += _index(EntryKind.DELETE, message, message.compact_deleted_index_files)
        index += _index(EntryKind.ADD, message, message.compact_new_index_files)
    looked_at = (LookupFiles.by(message) for message in messages)
    relied_on = tuple(each for each in looked_at if each is not None)
    numbered = tuple(
        FirstSequenceNumber(m.partition, m.bucket, m.compact_numbered_from)
        for m in messages
        if m.compact_numbered_from is not None
    )
    return Changes(tuple(files), tuple(changelog), tuple(index), relied_on, numbered)


def combine_changes(written: Changes, compaction: Changes) -> Changes:
    """Combine written files and their compaction into the entries of one snapshot, without changelogs."""
    replaced = {_place(entry) for entry in compaction.files if entry.kind == EntryKind.DELETE}
    replaced_indexes = {entry.file.file_name for entry in compaction.index if entry.kind == EntryKind.DELETE}
    new = {_place(entry) for entry in written.files}
    new_indexes = {entry.file.file_name for entry in written.index}
    return Changes(
        (
            *(entry for entry in written.files if _place(entry) not in replaced),
            *(entry for entry in compaction.files if entry.kind == EntryKind.ADD or _place(entry) not in new),
        ),
        (),
        (
            *(entry for entry in written.index if entry.file.file_name not in replaced_indexes),
            *(e for e in compaction.index if e.kind == EntryKind.ADD or e.file.file_name not in new_indexes),
        ),
    )


def _place(entry: ManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.file_name


def _make_entries(kind: EntryKind, message: CommitMessage, files: Sequence[DataFileMeta]) -> list[ManifestEntry]:
    return [ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file) for file in files]


def _index(kind: EntryKind, message: CommitMessage, files: Sequence[IndexFileMeta]) -> list[IndexEntry]:
    return [IndexEntry(kind, message.partition, message.bucket, file) for file in files]


Partitions: TypeAlias = "Literal['all'] | Sequence[bytes] | Sequence[Mapping[str, Value]]"
"""All partitions, partitions by BinaryRow, or partitions by the values of (some of) their columns."""


def make_overwrite_changes(
    target: WriteTarget, new: Changes, partitions: Partitions
) -> Callable[[Snapshot | None], Changes]:
    """Return the changes of an OVERWRITE snapshot, as a function of the snapshot that it follows.

    Raises `InvalidArgument`: a new file is outside of the partitions, or a column is not a partition key.
    """
    chosen = _make_partition_chooser(target, partitions)
    for entry in new.files:
        if entry.kind == EntryKind.ADD and not chosen({entry.partition}):
            raise InvalidArgument(
                f"{target.where}: a file for the partition {target.partition_values(entry.partition)} does not belong "
                "to the partitions to overwrite; name it too, or overwrite dynamically"
            )

    def changes(latest: Snapshot | None) -> Changes:
        if latest is None:
            return new
        gone = _delete_live_files(target, latest, partitions, chosen)
        index = read_index_entries(target.metadata, latest)
        gone_index = [] if index is None else index_entries_of(index)
        kept = chosen({entry.partition for entry in gone_index})
        return Changes(
            (*gone, *new.files),
            (),
            (
                *(
                    msgspec.structs.replace(entry, kind=EntryKind.DELETE)
                    for entry in gone_index
                    if entry.partition in kept
                ),
                *new.index,
            ),
        )

    return changes


Chosen: TypeAlias = Callable[[Set[bytes]], Set[bytes]]
"""A function that returns which of the given partitions are chosen."""


def _make_partition_chooser(target: WriteTarget, partitions: Partitions) -> Chosen:
    if partitions == "all":
        return lambda some: some
    specs = [spec for spec in partitions if isinstance(spec, Mapping)]
    rows = frozenset(row for row in partitions if isinstance(row, bytes))
    if not specs:
        return lambda some: some & rows
    keys = target.schema.partition_keys
    for spec in specs:
        if unknown := [name for name in spec if name not in keys]:
            raise InvalidArgument(f"{unknown[0]!r} is not a partition key; they are: {', '.join(keys) or 'none'}")
    types = [field.type for field in target.partition_fields]

    def of_values(some: Set[bytes]) -> Set[bytes]:
        decoded = zip(some, decode_rows(list(some), types, where=target.where), strict=True)
        return {
            row
            for row, values in decoded
            if row in rows
            or any(all(is_same_value(dict(zip(keys, values))[k], value) for k, value in spec.items()) for spec in specs)
        }

    return of_values


def _delete_live_files(
    target: WriteTarget, latest: Snapshot, partitions: Partitions, chosen: Chosen
) -> list[ManifestEntry]:
    """Return DELETE entries for the live files, including the postponed bucket only in tables with ``bucket = -2``."""
    named = partitions != "all" and all(isinstance(row, bytes) for row in partitions)
    exact = {row for row in partitions if isinstance(row, bytes)} if named else None
    frame = read_live_entries(target.metadata, latest, target.schema, exact)
    if target.options.bucket != POSTPONE_BUCKET:
        frame = frame.filter(frame["_BUCKET"] >= 0)
    if exact is None and partitions != "all":
        kept = chosen(set(frame["_PARTITION"].unique().to_list()))
        frame = frame.filter(frame["_PARTITION"].is_in(list(kept)))
    entries = [msgspec.structs.replace(entry, kind=EntryKind.DELETE) for entry in to_entries(frame)]
    if target.write.manifest_drop_stats:
        entries = [msgspec.structs.replace(e, file=drop_value_stats(e.file)) for e in entries]
    return entries


def upgrade_levels(target: WriteTarget, entries: Sequence[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """Move new level-0 files of an overwritten keyed table to the bottom level if they do not overlap in their bucket.

    Such files need no compaction (``overwrite-upgrade``).
    """
    wanted = target.keyed and target.write.overwrite_upgrade
    if not wanted or not entries or any(entry.file.level > 0 or entry.bucket < 0 for entry in entries):
        return tuple(entries)
    frame = pl.DataFrame(
        {
            "_PARTITION": [entry.partition for entry in entries],
            "_BUCKET": [entry.bucket for entry in entries],
            "low": [entry.file.min_key for entry in entries],
            "high": [entry.file.max_key for entry in entries],
        }
    )
    types = [target.schema.by_name[name].type for name in target.schema.trimmed_primary_keys]
    low, high = rank_keys(decode_columns(pl.concat([frame["low"], frame["high"]]), types, where=target.where)).reshape(
        2, -1
    )
    ordered = pl.DataFrame({"group": number_buckets(frame), "low": low, "high": high}).with_row_index("row")
    meets = ordered.sort("group", "low").with_columns(
        (pl.col("low").shift(-1) <= pl.col("high")).over("group").fill_null(False).alias("meets")
    )
    apart = meets.filter(~pl.col("meets").any().over("group"))["row"].to_list()
    lifted = set(apart)
    level = target.write.max_level
    return tuple(
        msgspec.structs.replace(entry, file=entry.file.upgraded(level)) if i in lifted else entry
        for i, entry in enumerate(entries)
    )
