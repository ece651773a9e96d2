"""Removal of empty folders of buckets and partitions."""

from __future__ import annotations

from collections.abc import Iterable

from morrow.engine.io.store import FileStore


def remove_empty_folders(store: FileStore, root: str, removed: Iterable[str]) -> None:
    """Removes the folders of removed files, and those above them, if they are empty; never the table's own.

    A writer that has just created such a folder creates it again when it writes a file there.

    Args:
        removed: paths of the removed files.
    """
    folders = {path.rpartition("/")[0] for path in removed}
    while folders:
        empty = {folder for folder in folders if folder.startswith(f"{root}/") and store.remove_empty_folder(folder)}
        folders = {folder.rpartition("/")[0] for folder in empty}
