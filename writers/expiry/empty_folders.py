"""Folders of buckets and partitions that have become empty."""

from __future__ import annotations

from collections.abc import Iterable

from morrow.engine.io.store import FileStore


def remove_empty_folders(store: FileStore, root: str, removed: Iterable[str]) -> None:
    """Remove the folders of removed files, and those above them, that are empty now; never the table's own.

    A writer that has just made such a folder makes it again when it puts a file there.

    Args:
        removed: paths of the files that were in them.
    """
    folders = {path.rpartition("/")[0] for path in removed}
    while folders:
        empty = {folder for folder in folders if folder.startswith(f"{root}/") and store.remove_empty_folder(folder)}
        folders = {folder.rpartition("/")[0] for folder in empty}
