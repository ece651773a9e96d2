"""Deletion of tags, with the files that nothing else needs.

The tag is gone at once; its files are removed after it. They are those that no snapshot, changelog or other tag of any
branch needs, so the files of a tag whose snapshot is alive stay, and no search for them is needed.
"""

from __future__ import annotations

from collections.abc import Iterable

from morrow.engine.errors import TagNotFound
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.writers.history.tags.creation import is_alive
from morrow.writers.history.tags.success import remove_success
from morrow.writers.history.tombstones import finish_removals, retire


def delete_tag(metadata: TableMetadata, name: str, *, ignore_if_not_exists: bool = False) -> bool:
    """Deletes a tag; returns False when there was none.

    Raises:
        TagNotFound: there is none, and `ignore_if_not_exists` is false. InvalidArgument: an invalid name for a tag.
        StorageError: the tag is gone, some of its files are not; the next maintenance removes them.
    """
    try:
        metadata.tag(name)
    except TagNotFound:
        if not ignore_if_not_exists:
            raise
    return bool(delete_tags(metadata, [name]))


def delete_tags(metadata: TableMetadata, names: Iterable[str]) -> list[str]:
    """Deletes several tags, then together the files that only they need; returns the names of those that existed.

    Raises:
        InvalidArgument: an invalid name for a tag. StorageError: as `delete_tag`.
    """
    gone = [name for name in names if _given_up(metadata, name)]
    finish_removals(metadata)
    return gone


def _given_up(metadata: TableMetadata, name: str) -> bool:
    try:
        tag = metadata.tag(name)
    except TagNotFound:
        return False
    remove_success(metadata, name)
    if Owned.TAGS in metadata.owner.owns:
        return metadata.owner.delete_tag(metadata.branch, name)
    path = metadata.paths.tag(name)
    if is_alive(metadata, tag.snapshot):
        return metadata.store.delete(path)
    return retire(metadata, path)
