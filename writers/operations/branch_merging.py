"""Merging: a branch gets the data files that another branch has and it lacks, in one APPEND snapshot.

As in Java, both must be tables without a primary key to which rows were only ever appended, with their whole history:
then the rows of the files of both are the rows of both. Data files are shared by all branches, so none is copied.
"""

from __future__ import annotations

import msgspec

from morrow.engine.errors import InvalidArgument, SnapshotNotFound, Unsupported
from morrow.engine.format.data_file_meta import DataFileMeta, ManifestEntry
from morrow.engine.format.entry_frames import entries_of
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import ANALYZE, APPEND, FIRST_SNAPSHOT_ID, Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.commit.base_entries import IDENTITY, live_in_partitions
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.history.branches.names import existing_folder
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.target import WriteTarget


def merge_branch(metadata: TableMetadata, name: str) -> Snapshot | None:
    """Merges the branch `name` into the branch that `metadata` is on; see `Branches.merge`."""
    if name != MAIN_BRANCH:
        existing_folder(metadata, name)
    if name == metadata.branch:
        raise InvalidArgument(f"{metadata.where}: the branch {name!r} cannot be merged into itself")
    into, source = WriteTarget.of(metadata), WriteTarget.of(metadata.on_branch(name))
    newest = [_checked(target) for target in (source, into)]
    if into.options.row_tracking != source.options.row_tracking:
        raise InvalidArgument(f"{into.where}: only one of the branches tracks rows ('row-tracking.enabled')")
    if into.schema.fields != source.schema.fields:
        raise InvalidArgument(f"{into.where}: the branches have other columns: {name!r} cannot be merged")
    files = _lacking(source, into, *newest)
    _check_schemas(source, into, {entry.file.schema_id for entry in files})
    messages = [_message(entry, into.options.row_tracking) for entry in files]
    # Not by a function that removes the files of a failed commit: these belong to the other branch.
    return maintained(into).commit(messages, check_append_files=True) if messages else None


def _checked(target: WriteTarget) -> Snapshot:
    """Returns the newest snapshot of a branch to which rows were only appended, since its first snapshot."""
    if target.keyed:
        raise Unsupported("merging branches of a table with a primary key", where=target.where, hint="fast-forward")
    if target.options.data_evolution:
        raise Unsupported("merging branches with data evolution", where=target.where)
    ids = target.metadata.living_snapshot_ids()
    if not ids:
        raise SnapshotNotFound(f"{target.where}: the branch has no snapshot")
    if ids != list(range(FIRST_SNAPSHOT_ID, ids[-1] + 1)):
        raise InvalidArgument(
            f"{target.where}: the branch does not begin with snapshot {FIRST_SNAPSHOT_ID}, or one is missing: whether "
            "rows were only appended is not known"
        )
    newest: Snapshot | None = None
    for newest in target.metadata.each_snapshot(ids):
        if newest is None or newest.commit_kind not in (APPEND, ANALYZE):
            what = "has expired" if newest is None else f"{newest.id} is {newest.commit_kind}"
            raise InvalidArgument(f"{target.where}: a snapshot {what}; branches with appended rows alone are merged")
    assert newest is not None
    return newest


def _lacking(source: WriteTarget, into: WriteTarget, of_source: Snapshot, of_into: Snapshot) -> list[ManifestEntry]:
    there = live_in_partitions(into.metadata, of_into, into.schema, None).select(IDENTITY)
    files = live_in_partitions(source.metadata, of_source, source.schema, None)
    return entries_of(files.join(there, on=IDENTITY, how="anti", nulls_equal=True, maintain_order="left"))


def _check_schemas(source: WriteTarget, into: WriteTarget, ids: set[int]) -> None:
    known = set(into.metadata.schema_ids())
    for schema_id in sorted(ids):
        if schema_id not in known or source.metadata.schema(schema_id) != into.metadata.schema(schema_id):
            raise InvalidArgument(
                f"{into.where}: it has not the schema {schema_id} of the branch {source.metadata.branch!r}, with which "
                "files were written"
            )


def _message(entry: ManifestEntry, tracked: bool) -> CommitMessage:
    file: DataFileMeta = msgspec.structs.replace(entry.file, first_row_id=None) if tracked else entry.file
    return CommitMessage(
        partition=entry.partition, bucket=entry.bucket, total_buckets=entry.total_buckets, new_files=(file,)
    )
