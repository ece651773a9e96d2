"""Removal and renames of branches.

Removal: the folder of the branch is moved to a name that no reader lists (`retired`), so the branch is gone at once;
then the files that only the branch needs are removed (Java leaves them to the orphan files cleaning); then the folder.
In an object store, where folders cannot be moved, its snapshots are retired one by one, the newest first, then its tags
and changelogs; then the files are removed, and the folder last. Removing the branch again completes a killed removal.

Renaming: the folder is moved. In an object store it is copied, schemas first, and the old one is deleted: a killed
rename leaves both branches; they share all files, and either can be removed.
"""

from __future__ import annotations

from morrow.engine.errors import AlreadyExists, Unsupported
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.writers.history.branches.names import branch_folder, check_new_name, check_unused, existing_folder
from morrow.writers.history.tombstones import finish_removals, retire, root_files


def delete_branch(metadata: TableMetadata, name: str) -> None:
    """Removes a branch with the files that only it needs.

    Raises:
        BranchNotFound: there is none of this name.
        InvalidArgument: the main branch, or one that an option of the table names.
        StorageError: the branch, or some files, still exist; any maintenance or another call continues.
    """
    folder = existing_folder(metadata, name)
    check_unused(metadata, name, "removed")
    if Owned.BRANCHES in metadata.owner.owns:
        metadata.owner.delete_branch(name)
        return
    metadata.owner.refuse(Owned.SCHEMAS | Owned.SNAPSHOTS | Owned.TAGS, "the removal of a branch")
    finish_removals(metadata)
    try:
        retire(metadata, folder)
    except Unsupported:
        _emptied(metadata.at_branch(name))
        metadata.store.delete_folder(folder)
    finish_removals(metadata)


def _emptied(branch: TableMetadata) -> None:
    """Removes all snapshots, tags and changelogs of a branch with the files that only they need."""
    for path, _ in root_files(branch):
        retire(branch, path)
    finish_removals(branch)


def rename_branch(metadata: TableMetadata, name: str, new_name: str) -> None:
    """Renames a branch.

    Raises:
        BranchNotFound: there is none of this name. AlreadyExists: there is one of the new name.
        InvalidArgument: the main branch, one that an option of the table names, or an invalid name for a branch.
        StorageError: the branch has its old name, in an object store perhaps both.
    """
    folder = existing_folder(metadata, name)
    check_new_name(new_name)
    check_unused(metadata, name, "renamed")
    target = branch_folder(metadata, new_name)
    if metadata.store.is_dir(target):
        raise AlreadyExists(f"{metadata.where}: there is a branch {new_name!r} already")
    if Owned.BRANCHES in metadata.owner.owns:
        metadata.owner.rename_branch(name, new_name)
        return
    metadata.owner.refuse(Owned.SCHEMAS | Owned.SNAPSHOTS | Owned.TAGS, "a rename of a branch")
    finish_removals(metadata)
    try:
        metadata.store.move_folder(folder, target)
    except Unsupported:
        _copied(metadata, folder, target)
        metadata.store.delete_folder(folder)


def _copied(metadata: TableMetadata, source: str, target: str) -> None:
    """Copies the folder of a branch: schemas before the files that need them."""
    found = [pair for piece in metadata.store.walk(source) for pair in piece]
    inner = [path.removeprefix(source) for path, status in found if not status.is_dir]
    for path in sorted(inner, key=lambda path: (not path.startswith("/schema/"), path)):
        metadata.store.write(target + path, metadata.store.read(source + path))
