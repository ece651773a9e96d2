"""Removal of data files from the newest state that are not in the store: their rows are lost already.

Reads of a table that lacks a file end with `FileMissing`. Without its entry they return the rows that are left: in
tables with a primary key older versions of a key may come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from morrow.engine.errors import CommitConflict, Unsupported
from morrow.engine.format.data_file_meta import DataFileMeta, ManifestEntry
from morrow.engine.format.entry_frames import entries_of, without_value_stats
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.data_files import external
from morrow.writers.append.writer import UNAWARE
from morrow.writers.buckets.restored import restored
from morrow.writers.commit import TableCommit
from morrow.writers.commit.base_entries import live_in_partitions
from morrow.writers.commit.expired_base import is_living, reading
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.files import Placement, file_path
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.operations.committing import commit_once
from morrow.writers.operations.retrying import retried
from morrow.writers.target import WriteTarget

THREADS = 8
"""The files looked for at once, unless told otherwise."""


def remove_unexisting_files(target: WriteTarget, *, dry_run: bool, parallelism: int | None = None) -> list[str]:
    """Removes the entries of files that do not exist; see `Table.remove_unexisting_files`."""
    threads = THREADS if parallelism is None else parallelism

    def attempt() -> list[str]:
        snapshot = target.metadata.latest_snapshot()
        if snapshot is None:
            return []
        with reading(target.metadata, snapshot):
            missing = _missing(target, snapshot, threads)
        if missing and not is_living(target.metadata, snapshot):  # its files are removed, not lost
            what = f"snapshot {snapshot.id} expired while its files were looked for"
            raise CommitConflict(f"{target.where}: {what}; nothing was changed, do it again")
        if missing and not dry_run:
            messages = _messages(target, snapshot, [entry for entry, _ in missing])
            commit_once(maintained(target), messages, BATCH_COMMIT_IDENTIFIER)
        return sorted(target.store.url(path) for _, path in missing)

    return retried(target, attempt)


def _missing(target: WriteTarget, snapshot: Snapshot, threads: int) -> list[tuple[ManifestEntry, str]]:
    """Returns the live entries whose data file does not exist, with its path."""
    entries = entries_of(live_in_partitions(target.metadata, snapshot, target.schema, None))
    target.find_folders(entry.partition for entry in entries)
    paths = [_path(target, entry) for entry in entries]
    with ThreadPoolExecutor(threads) as pool:
        there = list(pool.map(target.store.exists, paths))
    return [(entry, path) for entry, path, exists in zip(entries, paths, there, strict=True) if not exists]


def _path(target: WriteTarget, entry: ManifestEntry) -> str:
    if entry.file.external_path is not None:
        return external(target.metadata, target.options, entry.file.external_path)
    return file_path(target, Placement.of(entry), entry.file.file_name)


def _messages(target: WriteTarget, snapshot: Snapshot, missing: Sequence[ManifestEntry]) -> list[CommitMessage]:
    """Returns the messages of `_deletions`; after an error no new file stays."""
    messages: list[CommitMessage] = []
    try:
        for message in _deletions(target, snapshot, missing):
            messages.append(message)  # noqa: PERF402  # the error path needs the messages made so far
    except BaseException:
        TableCommit(target).abort(messages)
        raise
    return messages


def _deletions(target: WriteTarget, snapshot: Snapshot, missing: Sequence[ManifestEntry]) -> Iterable[CommitMessage]:
    """Yields a message for each bucket, which deletes its missing files and their deletion vectors."""
    if target.options.data_evolution:
        raise Unsupported("remove_unexisting_files with data evolution, where files hold some columns of rows alone")
    buckets: dict[tuple[Placement, int], list[DataFileMeta]] = {}
    for entry in missing:
        buckets.setdefault((Placement.of(entry), entry.total_buckets), []).append(entry.file)
    states = restored(target, snapshot, [place for place, _ in buckets])
    for (place, total), files in buckets.items():
        rolling = not target.keyed and target.options.bucket == UNAWARE
        vectors = DeletionMaintainer(target, place.partition, place.bucket, states[place].index_files, rolling=rolling)
        for file in files:
            vectors.remove(file.file_name)
        changes = vectors.write()
        yield CommitMessage(
            partition=place.partition,
            bucket=place.bucket,
            total_buckets=total,
            deleted_files=tuple(map(without_value_stats, files) if target.write.manifest_drop_stats else files),
            new_index_files=changes.new,
            deleted_index_files=changes.replaced,
        )
