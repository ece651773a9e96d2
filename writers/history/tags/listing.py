"""Cached reads of a table's tags after every commit: one listing, and reads of new or changed files only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from morrow.engine.errors import FileMissing
from morrow.engine.format.snapshot import Tag, parse_tag
from morrow.engine.io.ahead import each
from morrow.engine.io.store import FileStatus
from morrow.engine.plan.metadata import TAG_PREFIX, TableMetadata
from morrow.engine.plan.metadata_files import METADATA_CACHE

CACHED_PER_BYTE = 4
"""Bytes of memory of a parsed tag per byte of its file."""


@dataclass(frozen=True)
class TagFile:
    """A tag, and when its file was last changed, in epoch milliseconds."""

    tag: Tag
    modified_millis: int


def tag_files(metadata: TableMetadata) -> list[TagFile]:
    """Returns all tags by the id of their snapshot, then by name, without those that are deleted during the call.

    A file with the size and time of one that was read before is taken for the same: read it again before deleting it.

    Raises:
        CorruptFile: a tag file is damaged.
    """
    found = (file for file in _read(metadata) if file is not None)
    return sorted(found, key=lambda file: (file.tag.snapshot.id, file.tag.name))


def _read(metadata: TableMetadata) -> Iterator[TagFile | None]:
    def read(status: FileStatus) -> TagFile | None:
        return _tag_file(metadata, status)

    listed = metadata.store.list(metadata.paths.tag_dir)
    files = [status for status in listed if status.name.startswith(TAG_PREFIX) and not status.is_dir]
    return each(metadata.store, read, files)


def _tag_file(metadata: TableMetadata, status: FileStatus) -> TagFile | None:
    name = status.name.removeprefix(TAG_PREFIX)
    path = metadata.paths.tag(name)

    def read() -> tuple[Tag, int]:
        data = metadata.store.read(path)
        return parse_tag(data, name, path), CACHED_PER_BYTE * len(data)

    try:
        tag = METADATA_CACHE.get_or_make((metadata.store.url(path), status.size, status.modified_millis), read)
    except FileMissing:
        return None
    assert isinstance(tag, Tag)  # keys with a size and a time are those of tags
    return TagFile(tag, status.modified_millis)
