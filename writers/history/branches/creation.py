"""Creation of branches: copies of schemas, of a tag and of a snapshot. Data, manifests and indexes are shared.

On a local disk the branch is built under another name (``branch/creating-<32 hex>``) and then renamed, so its creation
is atomic. An object store cannot move folders: there the oldest schema is created first, and only if none exists, so
that one of several callers creates the branch; then follow the other schemas, the tag, and the snapshot. A run killed
before the snapshot leaves a branch without rows, to be deleted and created again.

Then the creator re-checks the source. Expiry, rollback and tag deletion first hide the states that they remove and then
read what the branches need: either they find the branch, or its creator finds that they were faster, and removes it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from morrow.engine.errors import AlreadyExists, InvalidArgument, SnapshotExpired, StorageError
from morrow.engine.format.paths import TablePaths
from morrow.engine.format.snapshot import Snapshot, snapshot_json
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.writers.history.branches.names import branch_folder, check_new_name
from morrow.writers.history.tags.creation import is_kept, taggable, without_lost_changelog
from morrow.writers.history.tombstones import CREATING, finish_removals


def create_branch(
    metadata: TableMetadata,
    name: str,
    *,
    tag: str | None = None,
    snapshot: int | Snapshot | None = None,
    ignore_if_exists: bool = False,
) -> None:
    """Creates a branch of the branch that `metadata` is on.

    Args:
        tag: the branch begins with the state of this tag, and has the tag too.
        snapshot: the branch begins with this snapshot (or its id), which is alive or kept by a tag. Without tag and
            snapshot it begins empty.
        ignore_if_exists: do nothing when there is a branch of this name.

    Raises:
        InvalidArgument: an invalid name for a branch (``main``, blank, only digits), or both a tag and a snapshot.
        AlreadyExists: there is a branch of this name.
        TagNotFound, SnapshotNotFound, SnapshotExpired: there is no such tag or snapshot; no branch was created.
    """
    folder = branch_folder(metadata, name)
    if ignore_if_exists and metadata.store.is_dir(folder):
        return
    check_new_name(name)
    if tag is not None and snapshot is not None:
        raise InvalidArgument("a branch begins with a tag or with a snapshot; give one of them")
    if metadata.store.is_dir(folder):
        raise AlreadyExists(f"{metadata.where}: there is a branch {name!r} already")
    owner = metadata.owner
    if Owned.BRANCHES not in owner.owns:
        owner.refuse(Owned.SCHEMAS | Owned.SNAPSHOTS | Owned.TAGS, "the creation of a branch")
        finish_removals(metadata)
    begin = None if tag is None and snapshot is None else _source(metadata, tag, snapshot)
    if Owned.BRANCHES in owner.owns:
        made = owner.create_branch(metadata.branch, name, tag=tag, snapshot=begin)
    else:
        made = _made(metadata, name, _contents(metadata, tag, begin))
    if not made and not ignore_if_exists:
        raise AlreadyExists(f"{metadata.where}: there is a branch {name!r} already")
    if Owned.BRANCHES in owner.owns:
        return
    if begin is not None and not is_kept(metadata, begin):
        metadata.store.delete_folder(folder)
        raise SnapshotExpired(f"{metadata.where}: snapshot {begin.id} was removed while a branch was made of it")
    if begin is not None and (without := without_lost_changelog(metadata, begin)) != begin:
        # Checked now: a snapshot alive at the start may have expired before expiry could find the branch.
        path = TablePaths(metadata.root, name).snapshot(begin.id)
        metadata.store.write(path, snapshot_json(without))


def _source(metadata: TableMetadata, tag: str | None, snapshot: int | Snapshot | None) -> Snapshot:
    return taggable(metadata, snapshot) if tag is None else metadata.tag(tag).snapshot


def _contents(metadata: TableMetadata, tag: str | None, begin: Snapshot | None) -> Mapping[str, bytes]:
    """Returns the files of the branch by their path in it, in the order in which to write them."""
    last = metadata.latest_schema().id if begin is None else begin.schema_id
    files = {
        f"schema/schema-{i}": metadata.store.read(metadata.paths.schema(i)) for i in metadata.schema_ids() if i <= last
    }
    if begin is not None:
        if tag is not None:
            files[f"tag/tag-{tag}"] = metadata.store.read(metadata.paths.tag(tag))
        files[f"snapshot/snapshot-{begin.id}"] = snapshot_json(without_lost_changelog(metadata, begin))
    return files


def _made(metadata: TableMetadata, name: str, files: Mapping[str, bytes]) -> bool:
    """Writes the branch; returns False when another process created one of this name meanwhile."""
    store, folder = metadata.store, TablePaths(metadata.root, name).branch_root
    if not store.is_local:
        first, *others = files
        if not store.create(f"{folder}/{first}", files[first]):
            return False
        for path in others:
            store.write(f"{folder}/{path}", files[path])
        return True
    aside = f"{metadata.paths.branches_dir}/{CREATING}{uuid.uuid4().hex}"
    try:
        for path, data in files.items():
            store.write(f"{aside}/{path}", data)
        store.move_folder(aside, folder)
    except StorageError:
        if not store.is_dir(folder):
            raise
        return False
    finally:
        store.delete_folder(aside)
    return True
