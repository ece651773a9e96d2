"""Tags renamed, and moved to other snapshots. At no moment is a file that a tag needs without a tag."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from morrow.engine.errors import AlreadyExists, FileMissing, TagNotFound
from morrow.engine.format.snapshot import Snapshot, Tag, tag_json
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import to_millis
from morrow.writers.rollback.retired import finish_retired, retire, retired_path
from morrow.writers.tags.creation import (
    Clock,
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
from morrow.writers.tags.names import check_new_name
from morrow.writers.tags.success import remove_success, write_success

RENAMED_FROM = "renamedFrom"
"""A member that a tag has while it is being renamed; nobody else knows it."""


def rename_tag(metadata: TableMetadata, name: str, new_name: str, *, clock: Clock = utc_now) -> Tag:
    """Give a tag another name.

    First the new name is taken, by a tag that says from which it comes. Who is killed then leaves both names; doing it
    again completes it.

    Raises:
        TagNotFound: there is no tag `name`. AlreadyExists: there is a tag `new_name`.
        InvalidArgument: a name that no tag can have.
    """
    tag = metadata.tag(name)
    check_new_name(new_name, metadata.where)
    path = metadata.paths.tag(new_name)
    if not create_file(metadata, path, tag_json(_claim(tag))) and not _is_claimed(metadata, new_name, tag):
        raise AlreadyExists(f"{metadata.where}: there is a tag {new_name!r} already; choose another name")
    try:
        metadata.store.move(metadata.paths.tag(name), path)
    except FileMissing:
        retire(metadata, path)  # its files may be going
        raise TagNotFound(f"{metadata.where}: the tag {name!r} was deleted while it was renamed") from None
    if remove_success(metadata, name):
        write_success(metadata, new_name, to_millis(clock()))
    return replace(tag, name=new_name)


def _claim(tag: Tag) -> Tag:
    """What stands under the new name until the tag is moved there."""
    return replace(tag, snapshot=replace(tag.snapshot, extra={**tag.snapshot.extra, RENAMED_FROM: tag.name}))


def _is_claimed(metadata: TableMetadata, new_name: str, tag: Tag) -> bool:
    """Whether the tag of the new name is what a killed process has left of renaming this one."""
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
    """Let a tag name another snapshot (None: the newest), or stay for another time (None: for ever, as in Java).

    What only the old snapshot needs is removed.

    Raises:
        TagNotFound: there is no such tag. SnapshotNotFound, SnapshotExpired, InvalidArgument: as `create_tag`.
    """
    before = metadata.tag(name)
    found = taggable(metadata, snapshot)
    check_single_automatic(metadata, tag_options(metadata), name, found)
    tag = new_tag(name, found, time_retained, clock)
    path = metadata.paths.tag(name)
    if same_state(before.snapshot, found):
        metadata.store.write(path, tag_json(tag))
        return tag
    # The old tag is retired beforehand: as long as the name has it, whoever finishes retired files removes none of its.
    if not is_alive(metadata, before.snapshot):
        metadata.store.write(retired_path(path), tag_json(before))
    metadata.store.write(path, tag_json(tag))
    if not is_kept(metadata, found, besides=name):
        metadata.store.write(retired_path(path), tag_json(tag))  # expiry may have seen it and kept files for it
        metadata.store.write(path, tag_json(before))
        raise expired(metadata, found, name)
    finish_retired(metadata)
    return tag
