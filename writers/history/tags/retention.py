"""Expiry of tags, as in Java: by local time since their creation."""

from __future__ import annotations

import datetime as dt

from morrow.engine.errors import TagNotFound
from morrow.engine.format.snapshot import Tag
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.units import MILLIS_PER_SECOND
from morrow.writers.history.tags.creation import Clock, local_time, utc_now
from morrow.writers.history.tags.deletion import delete_tags
from morrow.writers.history.tags.listing import tag_files


def expire_tags(metadata: TableMetadata, *, older_than: dt.datetime | None = None, clock: Clock = utc_now) -> list[str]:
    """Deletes tags whose retention has passed; returns their names.

    Args:
        older_than: delete tags created before this time (with its zone) as well. Tags without a retention are as old
            as their files.

    Raises:
        CorruptFile: a tag file is damaged; nothing was deleted. StorageError: as `delete_tag`.
    """
    now = local_time(clock)
    before = None if older_than is None else local_time(lambda: older_than)
    due = [file for file in tag_files(metadata) if _is_due(file.tag, file.modified_millis, now, before)]
    # A tag may have been replaced since it was read.
    names = [
        tag.name
        for file in due
        if (tag := _present(metadata, file.tag.name)) and _is_due(tag, file.modified_millis, now, before)
    ]
    return delete_tags(metadata, names) if names else []


def _is_due(tag: Tag, modified_millis: int, now: dt.datetime, before: dt.datetime | None) -> bool:
    created, retained = tag.create_time, tag.time_retained
    if created is None or retained is None:
        if before is None:
            return False
        created = dt.datetime.fromtimestamp(modified_millis / MILLIS_PER_SECOND)
    return (retained is not None and now - created > retained) or (before is not None and created < before)


def _present(metadata: TableMetadata, name: str) -> Tag | None:
    try:
        return metadata.tag(name)
    except TagNotFound:
        return None
