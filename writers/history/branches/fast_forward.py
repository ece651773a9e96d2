"""Fast-forward: main (or the current branch) takes over the state of a branch.

From the first snapshot of the branch on, its snapshots, tags and schemas replace those of main, as in Java. Earlier
snapshots of main stay when that first snapshot was committed on top of them: most often it is one of main, which the
branch was created from. Otherwise, as when older snapshots of the branch have expired, they are removed. (Java keeps
them; but expiry takes each snapshot for the successor of the one before.) Then files that nothing needs are removed.

At every moment readers see a state of main, then one of the branch, or an error:

    1. `rewind` to the first snapshot of the branch: most often one of main, which the branch was created from
    2. retire the schemas of main that differ, the newest first, and copy those of the branch, the oldest first
    3. copy the later snapshots of the branch, the oldest first, then its tags; set the hint LATEST

The first snapshot of a branch whose older ones have expired may use a schema that differs. Main's differing schemas are
then retired before step 1: states that use them cannot be read until step 2 is done, and are not read with wrong
columns. The branch is only read, so another call completes a killed run.

Snapshots that expire in the branch while it is copied are retired in main too.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from morrow.engine.errors import CommitConflict, InvalidArgument
from morrow.engine.format.paths import EARLIEST, LATEST
from morrow.engine.format.snapshot import Snapshot, snapshot_json
from morrow.engine.plan.entries import resolved
from morrow.engine.plan.live_names import live_names
from morrow.engine.plan.manifests import manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.plan.references import KEY, named, read_lists
from morrow.engine.plan.roots import Root, RootKind
from morrow.writers.commit.commit_lock import commit_locked
from morrow.writers.history.branches.names import existing_folder
from morrow.writers.history.rollback.rewinding import retire_changelogs, rewind, write_hint
from morrow.writers.history.tags.creation import is_alive
from morrow.writers.history.tombstones import finish_removals, retire

OWNED = Owned.SCHEMAS | Owned.SNAPSHOTS | Owned.TAGS


def fast_forward(metadata: TableMetadata, name: str) -> None:
    """Replaces the branch that `metadata` is on by the branch `name`, which stays.

    Raises:
        BranchNotFound: there is no such branch.
        InvalidArgument: it has no snapshot or no schema in common, is the main branch, or the current branch.
        CommitConflict: another process committed meanwhile. StorageError: it was done in part. Call again.
    """
    existing_folder(metadata, name)
    if name == metadata.branch:
        raise InvalidArgument(f"{metadata.where}: the branch {name!r} cannot be fast-forwarded to itself")
    if Owned.BRANCHES in metadata.owner.owns:
        metadata.owner.fast_forward(metadata.branch, name)
        return
    metadata.owner.refuse(OWNED, "a fast-forward")
    branch = metadata.on_branch(name)
    snapshots = list(branch.snapshots())
    if not snapshots:
        raise InvalidArgument(f"{branch.where}: the branch has no snapshot, so there is nothing to go forward to")
    finish_removals(metadata)
    with commit_locked(metadata):
        _go_back(metadata, branch, snapshots[0])
        finish_removals(metadata)  # before ids are used again: retired snapshots still follow the existing ones
        _copy_schemas(metadata, branch)
        for snapshot in snapshots[1:]:
            _put(metadata, metadata.paths.snapshot(snapshot.id), snapshot_json(snapshot))
        _copy_tags(metadata, branch)
        write_hint(metadata, LATEST, snapshots[-1].id)
        _give_up_expired(metadata, branch, snapshots[0])
    finish_removals(metadata)


def _go_back(metadata: TableMetadata, branch: TableMetadata, first: Snapshot) -> None:
    """Makes the first snapshot of the branch the newest one, and retires schemas that differ."""
    common = min(_differing_schemas(metadata, branch), default=None)
    if common is not None and common <= min(branch.schema_ids()):
        raise InvalidArgument(f"{branch.where}: the branch has no schema in common with {metadata.where}")
    before = common is not None and first.schema_id >= common
    if before:
        _retire_schemas(metadata, branch)

    earlier = [i for i in metadata.living_snapshot_ids() if i < first.id]
    stay = earlier if is_alive(metadata, first) or _leads_to(metadata, earlier, first) else []
    of_branch = {tag.name: tag for tag in branch.tags()}
    gone = [
        tag.name
        for tag in metadata.tags()
        if tag != of_branch.get(tag.name)
        and (tag.snapshot.id >= first.id or (common is not None and tag.snapshot.schema_id >= common))
    ]
    rewind(metadata, first, stay=stay, tags=gone)
    retire_changelogs(metadata, first.id)
    if not before:
        _retire_schemas(metadata, branch)


def _leads_to(metadata: TableMetadata, earlier: Sequence[int], snapshot: Snapshot) -> bool:
    """Returns whether the last of these snapshots has the live files on top of which `snapshot` was committed."""
    before = metadata.snapshot_or_none(earlier[-1]) if earlier and earlier[-1] == snapshot.id - 1 else None
    if before is None:
        return False
    root = Root(metadata, RootKind.SNAPSHOT, snapshot)
    base = (snapshot.base_manifest_list, snapshot.base_manifest_list_size)
    found = manifest_entries(metadata, read_lists([root], [base])[base])
    names = named(resolved(pl.concat(found))).select(KEY).rows() if found else []
    return set(names) == set(live_names([Root(metadata, RootKind.SNAPSHOT, before)]).iter_rows())


def _differing_schemas(metadata: TableMetadata, branch: TableMetadata) -> list[int]:
    """Returns the ids of schemas that only one of the two has, or that differ between them; ascending."""
    ours, theirs = set(metadata.schema_ids()), set(branch.schema_ids())
    return sorted((ours ^ theirs) | {i for i in ours & theirs if metadata.schema(i) != branch.schema(i)})


def _retire_schemas(metadata: TableMetadata, branch: TableMetadata) -> None:
    for schema_id in reversed(_differing_schemas(metadata, branch)):
        retire(metadata, metadata.paths.schema(schema_id))


def _copy_schemas(metadata: TableMetadata, branch: TableMetadata) -> None:
    for schema_id in _differing_schemas(metadata, branch):
        _put(metadata, metadata.paths.schema(schema_id), metadata.store.read(branch.paths.schema(schema_id)))


def _copy_tags(metadata: TableMetadata, branch: TableMetadata) -> None:
    """Copies the tags of the branch, replacing others of their names."""
    ours = {tag.name: tag for tag in metadata.tags()}
    for tag in branch.tags():
        path = metadata.paths.tag(tag.name)
        if ours.get(tag.name) == tag:
            continue
        retire(metadata, path)
        _put(metadata, path, metadata.store.read(branch.paths.tag(tag.name)))
        if not metadata.store.exists(branch.paths.tag(tag.name)):  # deleted meanwhile, perhaps with its files
            retire(metadata, path)


def _put(metadata: TableMetadata, path: str, data: bytes) -> None:
    if not metadata.store.create(path, data) and metadata.store.read(path) != data:
        raise CommitConflict(f"{path}: another created it meanwhile; fast-forward again")


def _give_up_expired(metadata: TableMetadata, branch: TableMetadata, first: Snapshot) -> None:
    """Retires copies of snapshots before the oldest one that the branch has now: their files may be gone."""
    earliest = branch.earliest_snapshot_id()
    if earliest is None:
        raise CommitConflict(f"{branch.where}: the branch was removed while it was copied")
    if earliest > first.id:
        write_hint(metadata, EARLIEST, earliest)
        for snapshot_id in metadata.snapshot_ids():
            if snapshot_id < earliest:
                retire(metadata, metadata.paths.snapshot(snapshot_id))
