"""Branches removed and renamed.

Removal: the folder of the branch is moved to a name that nobody lists (`retired`), so the branch is gone at once; then
the files go that only the branch needs (Java leaves them to the cleaning of orphans); then the folder. In an object
store, where folders cannot be moved, its snapshots are retired one by one, the newest first, then its tags and
changelogs, then the files go, and the folder last: a removal that was killed is completed by removing the branch again.

Renaming: the folder is moved. In an object store it is copied, schemas first, and the old one is deleted: what is
killed in between leaves both branches; they share all files, and either can be removed.
"""

from __future__ import annotations

from morrow.engine.errors import AlreadyExists, Unsupported
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.branches.names import branch_folder, check_new_name, check_unused, existing_folder
from morrow.writers.rollback.retired import finish_retired, retire, root_files


def delete_branch(metadata: TableMetadata, name: str) -> None:
    """Remove a branch with the files that only it needs.

    Raises:
        BranchNotFound: there is none of this name.
        InvalidArgument: the main branch, or one that an option of the table names.
        StorageError: the branch, or some files, are still there; any maintenance goes on, or call again.
    """
    folder = existing_folder(metadata, name)
    check_unused(metadata, name, "removed")
    finish_retired(metadata)
    try:
        retire(metadata, folder)
    except Unsupported:
        _emptied(TableMetadata(metadata.store, metadata.root, name, metadata.allowed_roots))
        metadata.store.delete_folder(folder)
    finish_retired(metadata)


def _emptied(branch: TableMetadata) -> None:
    """Remove all snapshots, tags and changelogs of a branch with the files that only they need."""
    for path, _ in root_files(branch):
        retire(branch, path)
    finish_retired(branch)


def rename_branch(metadata: TableMetadata, name: str, new_name: str) -> None:
    """Give a branch another name.

    Raises:
        BranchNotFound: there is none of this name. AlreadyExists: there is one of the new name.
        InvalidArgument: the main branch, one that an option of the table names, or no name for a branch.
        StorageError: it has its old name, in an object store perhaps both.
    """
    folder = existing_folder(metadata, name)
    check_new_name(new_name)
    check_unused(metadata, name, "renamed")
    target = branch_folder(metadata, new_name)
    if metadata.store.is_dir(target):
        raise AlreadyExists(f"{metadata.where}: there is a branch {new_name!r} already")
    finish_retired(metadata)
    try:
        metadata.store.move_folder(folder, target)
    except Unsupported:
        _copied(metadata, folder, target)
        metadata.store.delete_folder(folder)


def _copied(metadata: TableMetadata, source: str, target: str) -> None:
    """Copy what is in the folder of a branch: schemas before what needs them."""
    found = [pair for piece in metadata.store.walk(source) for pair in piece]
    inner = [path.removeprefix(source) for path, status in found if not status.is_dir]
    for path in sorted(inner, key=lambda path: (not path.startswith("/schema/"), path)):
        metadata.store.write(target + path, metadata.store.read(source + path))
