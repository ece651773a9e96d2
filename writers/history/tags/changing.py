"""Renames of tags, and moves to other snapshots. The files that a tag needs are protected at every moment."""

from __future__ import annotations

import datetime as dt

from morrow.engine.errors import AlreadyExists, FileMissing, TagNotFound
from morrow.engine.format.snapshot import Snapshot, Tag, tag_json
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.plan.time_travel import to_millis
from morrow.engine.values import replace
from morrow.writers.history.tags.creation import (
    Clock,
    check_new_name,
    check_single_automatic,
    create_file,
    expired,
    is_alive,
    is_kept,
    new_tag,
    same_state,
    tag_options,
    taggable,
    utc_now,
)
from morrow.writers.history.tags.success import remove_success, write_success
from morrow.writers.history.tombstones import finish_removals, retire, tombstone_path

RENAMED_FROM = "renamedFrom"
"""A member of a tag's JSON while it is being renamed; known to Morrow only."""


def rename_tag(metadata: TableMetadata, name: str, new_name: str, *, clock: Clock = utc_now) -> Tag:
    """Renames a tag.

    First a tag of the new name is created, which names the old one. A killed run leaves both names; another call
    completes it.

    Raises:
        TagNotFound: there is no tag `name`. AlreadyExists: there is a tag `new_name`.
        InvalidArgument: an invalid name for a tag.
    """
    metadata.owner.refuse(Owned.TAGS, "a rename of a tag")
    tag = metadata.tag(name)
    check_new_name(new_name, metadata.where)
    path = metadata.paths.tag(new_name)
    if not create_file(metadata, path, tag_json(_claim(tag))) and not _is_claimed(metadata, new_name, tag):
        raise AlreadyExists(f"{metadata.where}: there is a tag {new_name!r} already; choose another name")
    try:
        metadata.store.move(metadata.paths.tag(name), path)
    except FileMissing:
        retire(metadata, path)  # its files may be being removed
        raise TagNotFound(f"{metadata.where}: the tag {name!r} was deleted while it was renamed") from None
    if remove_success(metadata, name):
        write_success(metadata, new_name, to_millis(clock()))
    return replace(tag, name=new_name)


def _claim(tag: Tag) -> Tag:
    """Returns the tag that holds the new name until the old one is moved there."""
    return replace(tag, snapshot=replace(tag.snapshot, extra={**tag.snapshot.extra, RENAMED_FROM: tag.name}))


def _is_claimed(metadata: TableMetadata, new_name: str, tag: Tag) -> bool:
    """Returns whether the tag of the new name was left by a killed rename of this tag."""
    try:
        there = metadata.tag(new_name).snapshot
    except TagNotFound:
        return False
    return there.extra.get(RENAMED_FROM) == tag.name and same_state(there, tag.snapshot)


def replace_tag(
    metadata: TableMetadata,
    name: str,
    snapshot: Snapshot | int | None = None,
    *,
    time_retained: dt.timedelta | None = None,
    clock: Clock = utc_now,
) -> Tag:
    """Moves a tag to another snapshot (None: the newest), or sets its retention (None: for ever, as in Java).

    Files that only the old snapshot needs are removed.

    Raises:
        TagNotFound: there is no such tag. SnapshotNotFound, SnapshotExpired, InvalidArgument: as `create_tag`.
    """
    metadata.owner.refuse(Owned.TAGS, "the replacement of a tag")
    before = metadata.tag(name)
    found = taggable(metadata, snapshot)
    check_single_automatic(metadata, tag_options(metadata), name, found)
    tag = new_tag(name, found, time_retained, clock)
    path = metadata.paths.tag(name)
    if same_state(before.snapshot, found):
        metadata.store.write(path, tag_json(tag))
        return tag
    # The old tag is retired first: as long as the name still has it, `finish_removals` removes none of its files.
    if not is_alive(metadata, before.snapshot):
        metadata.store.write(tombstone_path(path), tag_json(before))
    metadata.store.write(path, tag_json(tag))
    if not is_kept(metadata, found, besides=name):
        metadata.store.write(tombstone_path(path), tag_json(tag))  # expiry may have read it and kept files for it
        metadata.store.write(path, tag_json(before))
        raise expired(metadata, found, name)
    finish_removals(metadata)
    return tag
