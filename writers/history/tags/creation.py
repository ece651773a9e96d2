"""Creation of tags: the file is written first; then its creator re-checks that the snapshot has not expired.

Expiry announces the earliest snapshot that stays, then reads the tags, then deletes. So a tag written before its
snapshot is announced as expired keeps all files; a tag written later is withdrawn.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TypeAlias

from morrow.engine.arguments import is_name
from morrow.engine.errors import (
    AlreadyExists,
    FileMissing,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    UnclearOutcome,
)
from morrow.engine.format.snapshot import Snapshot, Tag, tag_json
from morrow.engine.options.tagging import BY_PERIOD, TagOptions, parse_tag_options
from morrow.engine.plan.changelogs import living_changelog_ids
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.plan.time_travel import Travel, resolve, to_millis
from morrow.engine.values import replace
from morrow.writers.history.tags.listing import tag_files
from morrow.writers.history.tags.periods import TagPeriod
from morrow.writers.history.tags.success import SUCCESS_FOLDER, write_success
from morrow.writers.history.tombstones import retire

Clock: TypeAlias = Callable[[], dt.datetime]
"""Returns the current time, with its zone."""

SEPARATORS = "/\\"
"""Characters that would make a tag's name a path."""


def utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def tag_options(metadata: TableMetadata) -> TagOptions:
    """Returns the table's options about tags. Raises as `parse_tag_options`."""
    return parse_tag_options(metadata.latest_schema().options, where=metadata.where)


def create_tag(
    metadata: TableMetadata,
    name: str,
    snapshot: Snapshot | int | None = None,
    *,
    time_retained: dt.timedelta | None = None,
    ignore_if_exists: bool = False,
    clock: Clock = utc_now,
) -> Tag:
    """Creates a tag, which keeps its snapshot.

    Args:
        snapshot: a snapshot, or its id; None for the newest. An expired one can get another tag while a tag keeps it.
        time_retained: how long the tag stays; None for ``tag.default-time-retained``.
        ignore_if_exists: return an existing tag of this name, unchanged.

    Raises:
        InvalidArgument: an invalid name for a tag, or a second automatic name for one snapshot.
        AlreadyExists: there is such a tag. SnapshotNotFound, SnapshotExpired: there is no such snapshot.
    """
    check_new_name(name, metadata.where)
    if metadata.store.exists(metadata.paths.tag(name)):
        return _there_already(metadata, name, ignore_if_exists)
    options = tag_options(metadata)
    found = taggable(metadata, snapshot)
    retained = options.time_retained if time_retained is None else time_retained
    made = put_tag(metadata, options, name, found, time_retained=retained, clock=clock)
    return made or _there_already(metadata, name, ignore_if_exists)


def put_tag(
    metadata: TableMetadata,
    options: TagOptions,
    name: str,
    snapshot: Snapshot,
    *,
    time_retained: dt.timedelta | None,
    clock: Clock,
) -> Tag | None:
    """Writes a new tag of any name; returns None when there is one of this name. Raises as `create_tag`."""
    check_single_automatic(metadata, options, name, snapshot)
    tag = new_tag(name, snapshot, time_retained, clock)
    path, owned = metadata.paths.tag(name), Owned.TAGS in metadata.owner.owns
    if not (
        metadata.owner.create_tag(metadata.branch, name, tag_json(tag))
        if owned
        else create_file(metadata, path, tag_json(tag))
    ):
        return None
    if not is_kept(metadata, snapshot, besides=name):
        if owned:
            metadata.owner.delete_tag(metadata.branch, name)
        else:
            retire(metadata, path)  # expiry may have read it and kept files for it
        raise expired(metadata, snapshot, name)
    if options.success_file:
        write_success(metadata, name, to_millis(clock()))
    return tag


def new_tag(name: str, snapshot: Snapshot, time_retained: dt.timedelta | None, clock: Clock) -> Tag:
    """Returns a tag created now. As in Java, only a tag with a retention has a creation time.

    Raises:
        InvalidArgument: the tag would expire at once.
    """
    if time_retained is None:
        return Tag(name, snapshot)
    if time_retained <= dt.timedelta():
        seconds = f"{time_retained.total_seconds():g} seconds"
        raise InvalidArgument(f"the tag {name!r} cannot be retained for {seconds}; give a time that is longer")
    return Tag(name, snapshot, local_time(clock), time_retained)


def local_time(clock: Clock) -> dt.datetime:
    """Returns the local time of this machine without zone, as in tags."""
    return clock().astimezone().replace(tzinfo=None)


def taggable(metadata: TableMetadata, snapshot: Snapshot | int | None) -> Snapshot:
    """Returns the snapshot to tag: alive, or kept by a tag. Raises as `create_tag`."""
    if snapshot is None:
        found = metadata.latest_snapshot()
        if found is None:
            raise SnapshotNotFound(f"{metadata.where}: the table has no snapshot to tag; write something first")
        return found
    if isinstance(snapshot, Snapshot):
        found = snapshot
    elif isinstance(snapshot, int) and not isinstance(snapshot, bool):
        travelled = resolve(metadata, Travel(snapshot=snapshot))
        assert travelled is not None  # only "the newest" can be none
        found = travelled
    else:
        raise InvalidArgument(f"a snapshot is given as its id, or as it comes from Table.snapshots(), not {snapshot!r}")
    if not is_kept(metadata, found):
        raise expired(metadata, found)
    return found


def first_since(metadata: TableMetadata, millis: int) -> Snapshot:
    """Returns the first snapshot that was committed at or after a time, alive or kept by a tag.

    Raises:
        SnapshotNotFound: all are older.
    """
    alive = _first_living_since(metadata, millis)
    tagged = next((file.tag.snapshot for file in tag_files(metadata) if file.tag.snapshot.time_millis >= millis), None)
    candidates = [snapshot for snapshot in (alive, tagged) if snapshot is not None]
    if not candidates:
        newest = metadata.latest_snapshot()
        known = "the table has none" if newest is None else f"the newest is of {newest.time.isoformat()}"
        raise SnapshotNotFound(f"{metadata.where}: no snapshot was committed at or after {millis} ms; {known}")
    return min(candidates, key=lambda snapshot: snapshot.time_millis)


def is_kept(metadata: TableMetadata, snapshot: Snapshot, *, besides: str | None = None) -> bool:
    """Returns whether the files of a snapshot stay: it is alive, or kept by a tag of another name than `besides`."""
    if is_alive(metadata, snapshot):
        return True
    return any(same_state(file.tag.snapshot, snapshot) for file in tag_files(metadata) if file.tag.name != besides)


def is_alive(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Returns whether it is a snapshot of the table, and not announced as expired."""
    there = metadata.snapshot_or_none(snapshot.id)
    if there is None or not same_state(there, snapshot):
        return False
    earliest = metadata.earliest_snapshot_id()
    return earliest is not None and earliest <= snapshot.id


def without_lost_changelog(metadata: TableMetadata, snapshot: Snapshot) -> Snapshot:
    """Returns the snapshot, without its changelog if it has expired: tags keep rows, but expiry removed the changelog
    files."""
    if snapshot.changelog_manifest_list is None or is_alive(metadata, snapshot):
        return snapshot
    kept = metadata.changelog_or_none(snapshot.id)
    if kept is not None and same_state(kept, snapshot) and snapshot.id in living_changelog_ids(metadata):
        return snapshot
    return replace(
        snapshot, changelog_manifest_list=None, changelog_manifest_list_size=None, changelog_record_count=None
    )


def same_state(one: Snapshot, other: Snapshot) -> bool:
    """Returns whether two snapshots are one commit. Other members may differ: Java drops unknown ones from tags."""
    return (one.id, one.base_manifest_list, one.delta_manifest_list) == (
        other.id,
        other.base_manifest_list,
        other.delta_manifest_list,
    )


def expired(metadata: TableMetadata, snapshot: Snapshot, name: str | None = None) -> SnapshotExpired:
    """Returns the error for a snapshot that has expired and cannot be tagged."""
    meanwhile = "" if name is None else f" while the tag {name!r} was made"
    return SnapshotExpired(
        f"{metadata.where}: snapshot {snapshot.id} has expired{meanwhile}, and no tag keeps it; take a newer one"
    )


def check_single_automatic(metadata: TableMetadata, options: TagOptions, name: str, snapshot: Snapshot) -> None:
    """Checks that a snapshot gets one automatic tag at most, as in Java: automatic tags continue after the last one.

    Raises:
        InvalidArgument: `name` would be the second.
    """
    period = TagPeriod.of(options)
    if options.creation not in BY_PERIOD or not period.is_automatic(name):
        return
    for file in tag_files(metadata):
        other = file.tag.name
        if file.tag.snapshot.id == snapshot.id and other != name and period.is_automatic(other):
            raise InvalidArgument(
                f"{metadata.where}: snapshot {snapshot.id} has the automatic tag {other!r}; {name!r} is named as if "
                "it were automatic too, choose another name"
            )


def _first_living_since(metadata: TableMetadata, millis: int) -> Snapshot | None:
    """Searches like Java, probe by probe, so that it finds the same of several snapshots of one time."""
    ids = metadata.living_snapshot_ids()
    low, high, found = 0, len(ids) - 1, None
    if not ids or metadata.snapshot(ids[-1]).time_millis < millis:
        return None
    while low <= high:
        middle = (low + high) // 2
        snapshot = metadata.snapshot(ids[middle])
        if snapshot.time_millis < millis:
            low = middle + 1
            continue
        found, high = snapshot, middle - 1
        if snapshot.time_millis == millis:
            break
    return found


def create_file(metadata: TableMetadata, path: str, data: bytes) -> bool:
    """Creates a file; returns False when there is one. After an unclear outcome it reads back what exists."""
    try:
        return metadata.store.create(path, data)
    except UnclearOutcome:
        try:
            own = metadata.store.read(path) == data
        except FileMissing:
            own = False
        if not own:
            raise
        metadata.store.sync([path])
        return True


def _there_already(metadata: TableMetadata, name: str, ignore: bool) -> Tag:
    if ignore:
        return metadata.tag(name)
    raise AlreadyExists(f"{metadata.where}: there is a tag {name!r} already; replace it, or choose another name")


def check_new_name(name: str, where: str) -> None:
    """Raises `InvalidArgument` for an invalid name of a new tag of the table at `where`."""
    problem = _problem(name)
    if problem is not None:
        raise InvalidArgument(f"{where}: a tag cannot be called {name!r}: {problem}")


def _problem(name: str) -> str | None:
    if not is_name(name) or not name.strip():
        return "give it a name, without NUL and halves of characters"
    if name.strip().removeprefix("-").isdecimal():
        return "a number means a snapshot; put letters into the name"
    if any(character in name for character in SEPARATORS) or name.strip() in (".", ".."):
        return "it would be a path; leave out / and \\"
    if name == SUCCESS_FOLDER:
        return "its file would stand where success files are kept; choose another name"
    return None
