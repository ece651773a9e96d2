"""Tags: creation, renames, moves to other snapshots, and deletion with the files that only they need.

On creation the file is written first; then its creator checks again that the snapshot has not expired. Expiry announces
the earliest snapshot that stays, then reads the tags, then deletes. So a tag written before its snapshot is announced
as expired keeps all files; a tag written later is withdrawn. The files that a tag needs are protected at every moment
of a rename or a move.

A deleted tag is gone at once. Then the files are removed that no snapshot, changelog or other tag of any branch needs.
If the snapshot of the tag is alive, all files stay, and no search for them is needed.

All tags are read after every commit. These reads are cached: the folder is listed, and only new or changed files are
read.
Success files ``tag/tag-success-file/<name>_SUCCESS`` signal to other systems that a tag exists:

    {
      "creationTime" : 1715644800000,        epoch milliseconds: when the file was made
      "modificationTime" : 1715644800000     and when it was last written
    }
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from morrow.engine.arguments import is_name
from morrow.engine.errors import (
    AlreadyExists,
    CorruptFile,
    FileMissing,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    TagNotFound,
    UnclearOutcome,
)
from morrow.engine.format.metadata_json import build_from_json, format_json, parse_object
from morrow.engine.format.paths import check_segment
from morrow.engine.format.snapshot import Snapshot, Tag, format_tag, parse_tag
from morrow.engine.io.store import FileStatus, read_each
from morrow.engine.options.retention import BY_PERIOD, TagOptions, parse_tag_options
from morrow.engine.plan.changelogs import list_living_changelog_ids
from morrow.engine.plan.manifests import is_living, is_same_commit
from morrow.engine.plan.metadata import METADATA_CACHE, TAG_PREFIX, TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.plan.time_travel import Travel, resolve_travel, to_millis
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace
from morrow.writers.history.iceberg_metadata import publish_tags
from morrow.writers.history.tag_periods import TagPeriod
from morrow.writers.history.tombstones import finish_removals, make_tombstone_path, retire_file

log = get_logger(__name__)

Clock: TypeAlias = Callable[[], dt.datetime]
"""A function that returns the current time with its zone."""

SEPARATORS = "/\\"
"""Characters not allowed in a tag's name, since they would make it a path."""


def read_utc_clock() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def read_tag_options(metadata: TableMetadata) -> TagOptions:
    """Return the table's options about tags. Raises as `parse_tag_options`."""
    return parse_tag_options(metadata.newest_options(), where=metadata.where)


def create_tag(
    metadata: TableMetadata,
    name: str,
    snapshot: Snapshot | int | None = None,
    *,
    time_retained: dt.timedelta | None = None,
    ignore_if_exists: bool = False,
    clock: Clock = read_utc_clock,
) -> Tag:
    """Create a tag, which keeps its snapshot.

    Args:
        snapshot: a snapshot, or its id; None for the newest. An expired snapshot can be tagged while another tag keeps
            it.
        time_retained: how long the tag stays; None for ``tag.default-time-retained``.
        ignore_if_exists: return an existing tag of this name, unchanged.

    Raises:
        InvalidArgument: an invalid name for a tag, or a second automatic name for one snapshot.
        AlreadyExists: a tag of this name exists. SnapshotNotFound, SnapshotExpired: the snapshot does not exist.
    """
    check_tag_name(name, metadata.where)
    if metadata.store.exists(metadata.paths.tag(name)):
        return _find_existing_tag(metadata, name, ignore_if_exists)
    options = read_tag_options(metadata)
    found = find_taggable_snapshot(metadata, snapshot)
    retained = options.time_retained if time_retained is None else time_retained
    made = put_tag(metadata, options, name, found, time_retained=retained, clock=clock)
    return made or _find_existing_tag(metadata, name, ignore_if_exists)


def put_tag(
    metadata: TableMetadata,
    options: TagOptions,
    name: str,
    snapshot: Snapshot,
    *,
    time_retained: dt.timedelta | None,
    clock: Clock,
) -> Tag | None:
    """Write a new tag of any name; return None if a tag of this name exists. Raises as `create_tag`."""
    check_single_automatic(metadata, options, name, snapshot)
    tag = make_tag(name, snapshot, time_retained, clock)
    path, owned = metadata.paths.tag(name), Owned.TAGS in metadata.owner.owns
    if not (
        metadata.owner.create_tag(metadata.branch, name, format_tag(tag))
        if owned
        else create_file(metadata, path, format_tag(tag))
    ):
        return None
    if not is_kept(metadata, snapshot, besides=name):
        if owned:
            metadata.owner.delete_tag(metadata.branch, name)
        else:
            retire_file(metadata, path)  # expiry may have read it and kept files for it
        raise make_expired_error(metadata, snapshot, name)
    if options.success_file:
        write_success(metadata, name, to_millis(clock()))
    publish_tags(metadata)
    return tag


def make_tag(name: str, snapshot: Snapshot, time_retained: dt.timedelta | None, clock: Clock) -> Tag:
    """Return a tag created now. As in Java, only a tag with a retention has a creation time.

    Raises `InvalidArgument`: the tag would expire at once.
    """
    if time_retained is None:
        return Tag(name, snapshot)
    if time_retained <= dt.timedelta():
        seconds = f"{time_retained.total_seconds():g} seconds"
        raise InvalidArgument(f"the tag {name!r} cannot be retained for {seconds}; give a time that is longer")
    return Tag(name, snapshot, read_local_time(clock), time_retained)


def read_local_time(clock: Clock) -> dt.datetime:
    """Return the local time of this machine without zone, as tags store it."""
    return clock().astimezone().replace(tzinfo=None)


def find_taggable_snapshot(metadata: TableMetadata, snapshot: Snapshot | int | None) -> Snapshot:
    """Return the snapshot to tag: alive, or kept by a tag. Raises as `create_tag`."""
    if snapshot is None:
        found = metadata.latest_snapshot()
        if found is None:
            raise SnapshotNotFound(f"{metadata.where}: the table has no snapshot to tag; write something first")
        return found
    if isinstance(snapshot, Snapshot):
        found = snapshot
    elif isinstance(snapshot, int) and not isinstance(snapshot, bool):
        travelled = resolve_travel(metadata, Travel(snapshot=snapshot))
        assert travelled is not None  # only "the newest" can be None
        found = travelled
    else:
        raise InvalidArgument(f"a snapshot is given as its id, or as it comes from Table.snapshots(), not {snapshot!r}")
    if not is_kept(metadata, found):
        raise make_expired_error(metadata, found)
    return found


def find_first_since(metadata: TableMetadata, millis: int) -> Snapshot:
    """Return the first snapshot that was committed at or after a time, alive or kept by a tag.

    Raises `SnapshotNotFound`: all snapshots are older.
    """
    alive = _search_living_since(metadata, millis)
    tagged = next(
        (file.tag.snapshot for file in list_tag_files(metadata) if file.tag.snapshot.time_millis >= millis), None
    )
    candidates = [snapshot for snapshot in (alive, tagged) if snapshot is not None]
    if not candidates:
        newest = metadata.latest_snapshot()
        known = "the table has none" if newest is None else f"the newest is of {newest.time.isoformat()}"
        raise SnapshotNotFound(f"{metadata.where}: no snapshot was committed at or after {millis} ms; {known}")
    return min(candidates, key=lambda snapshot: snapshot.time_millis)


def is_kept(metadata: TableMetadata, snapshot: Snapshot, *, besides: str | None = None) -> bool:
    """Return whether the files of a snapshot stay: it is alive, or kept by a tag other than `besides`."""
    if is_living(metadata, snapshot):
        return True
    return any(
        is_same_commit(file.tag.snapshot, snapshot) for file in list_tag_files(metadata) if file.tag.name != besides
    )


def drop_lost_changelog(metadata: TableMetadata, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot, without its changelog if it has expired: tags keep data files, but not changelog files."""
    if snapshot.changelog_manifest_list is None or is_living(metadata, snapshot):
        return snapshot
    kept = metadata.changelog_or_none(snapshot.id)
    if kept is not None and is_same_commit(kept, snapshot) and snapshot.id in list_living_changelog_ids(metadata):
        return snapshot
    return replace(
        snapshot, changelog_manifest_list=None, changelog_manifest_list_size=None, changelog_record_count=None
    )


def make_expired_error(metadata: TableMetadata, snapshot: Snapshot, name: str | None = None) -> SnapshotExpired:
    """Return the error for a snapshot that has expired and cannot be tagged."""
    meanwhile = "" if name is None else f" while the tag {name!r} was made"
    return SnapshotExpired(
        f"{metadata.where}: snapshot {snapshot.id} has expired{meanwhile}, and no tag keeps it; take a newer one"
    )


def check_single_automatic(metadata: TableMetadata, options: TagOptions, name: str, snapshot: Snapshot) -> None:
    """Check that a snapshot gets at most one automatic tag, as in Java: automatic tags continue after the last one.

    Raises `InvalidArgument`: `name` would be the second.
    """
    period = TagPeriod.of(options)
    if options.creation not in BY_PERIOD or not period.is_automatic(name):
        return
    for file in list_tag_files(metadata):
        other = file.tag.name
        if file.tag.snapshot.id == snapshot.id and other != name and period.is_automatic(other):
            raise InvalidArgument(
                f"{metadata.where}: snapshot {snapshot.id} has the automatic tag {other!r}; {name!r} is named as if "
                "it were automatic too, choose another name"
            )


def _search_living_since(metadata: TableMetadata, millis: int) -> Snapshot | None:
    """Search with the same probes as Java, to find the same one of several snapshots with equal times."""
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
    """Create a file; return False if it exists. After an unclear outcome the existing file is read back."""
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


def _find_existing_tag(metadata: TableMetadata, name: str, ignore: bool) -> Tag:
    if ignore:
        return metadata.tag(name)
    raise AlreadyExists(f"{metadata.where}: there is a tag {name!r} already; replace it, or choose another name")


def check_tag_name(name: str, where: str) -> None:
    """Raise `InvalidArgument` for an invalid name of a new tag of the table at `where`."""
    problem = _find_name_problem(name)
    if problem is not None:
        raise InvalidArgument(f"{where}: a tag cannot be called {name!r}: {problem}")


def _find_name_problem(name: str) -> str | None:
    if not is_name(name) or not name.strip():
        return "give it a name, without NUL and halves of characters"
    if any(character in name for character in SEPARATORS) or name.strip() in (".", ".."):
        return "it would be a path; leave out / and \\"
    if name == SUCCESS_FOLDER:
        return "its file would stand where success files are kept; choose another name"
    return None


RENAMED_FROM = "renamedFrom"
"""A member of a tag's JSON during a rename. Only Morrow knows it."""


def rename_tag(metadata: TableMetadata, name: str, new_name: str, *, clock: Clock = read_utc_clock) -> Tag:
    """Rename a tag.

    First a tag of the new name is created, which names the old one. A killed run leaves both names, and another call
    completes the rename.

    Raises:
        TagNotFound: the tag `name` does not exist. AlreadyExists: the tag `new_name` exists.
        InvalidArgument: an invalid name for a tag.
    """
    metadata.owner.refuse(Owned.TAGS, "a rename of a tag")
    tag = metadata.tag(name)
    check_tag_name(new_name, metadata.where)
    path = metadata.paths.tag(new_name)
    if not create_file(metadata, path, format_tag(_make_claim(tag))) and not _is_claimed(metadata, new_name, tag):
        raise AlreadyExists(f"{metadata.where}: there is a tag {new_name!r} already; choose another name")
    try:
        metadata.store.move(metadata.paths.tag(name), path)
    except FileMissing:
        retire_file(metadata, path)  # another process may be removing its files
        raise TagNotFound(f"{metadata.where}: the tag {name!r} was deleted while it was renamed") from None
    if remove_success(metadata, name):
        write_success(metadata, new_name, to_millis(clock()))
    publish_tags(metadata)
    return replace(tag, name=new_name)


def _make_claim(tag: Tag) -> Tag:
    """Return the placeholder that holds the new name until the old tag is moved there."""
    return replace(tag, snapshot=replace(tag.snapshot, extra={**tag.snapshot.extra, RENAMED_FROM: tag.name}))


def _is_claimed(metadata: TableMetadata, new_name: str, tag: Tag) -> bool:
    """Return whether the tag of the new name was left by a killed rename of this tag."""
    try:
        there = metadata.tag(new_name).snapshot
    except TagNotFound:
        return False
    return there.extra.get(RENAMED_FROM) == tag.name and is_same_commit(there, tag.snapshot)


def replace_tag(
    metadata: TableMetadata,
    name: str,
    snapshot: Snapshot | int | None = None,
    *,
    time_retained: dt.timedelta | None = None,
    clock: Clock = read_utc_clock,
) -> Tag:
    """Move a tag to another snapshot (None: the newest), or set its retention (None: for ever, as in Java).

    Files that only the old snapshot needs are removed.

    Raises `TagNotFound`: the tag does not exist. SnapshotNotFound, SnapshotExpired, InvalidArgument: as `create_tag`.
    """
    metadata.owner.refuse(Owned.TAGS, "the replacement of a tag")
    before = metadata.tag(name)
    found = find_taggable_snapshot(metadata, snapshot)
    check_single_automatic(metadata, read_tag_options(metadata), name, found)
    tag = make_tag(name, found, time_retained, clock)
    path = metadata.paths.tag(name)
    if is_same_commit(before.snapshot, found):
        metadata.store.write(path, format_tag(tag))
        return tag
    # The old tag is retired first. While a tag of this name still has its snapshot, `finish_removals` keeps its files.
    if not is_living(metadata, before.snapshot):
        metadata.store.write(make_tombstone_path(path), format_tag(before))
    metadata.store.write(path, format_tag(tag))
    if not is_kept(metadata, found, besides=name):
        metadata.store.write(
            make_tombstone_path(path), format_tag(tag)
        )  # expiry may have read it and kept files for it
        metadata.store.write(path, format_tag(before))
        raise make_expired_error(metadata, found, name)
    publish_tags(metadata)
    finish_removals(metadata)
    return tag


def delete_tag(metadata: TableMetadata, name: str, *, ignore_if_not_exists: bool = False) -> bool:
    """Delete a tag; return False if it did not exist.

    Raises:
        TagNotFound: the tag does not exist, and `ignore_if_not_exists` is false. InvalidArgument: an invalid name.
        StorageError: the tag is gone, but some of its files are not; the next maintenance removes them.
    """
    try:
        metadata.tag(name)
    except TagNotFound:
        if not ignore_if_not_exists:
            raise
    return bool(delete_tags(metadata, [name]))


def delete_tags(metadata: TableMetadata, names: Iterable[str]) -> list[str]:
    """Delete several tags, and the files that only they need; return the names of the tags that existed.

    If other snapshots, tags or branches are damaged, it is unknown which files they need. Then the files of the tags
    stay, and a warning is logged; maintenance removes them after the repair.

    Raises `InvalidArgument`: an invalid name for a tag. `StorageError`: as `delete_tag`.
    """
    gone = [name for name in names if _give_up_tag(metadata, name)]
    if gone:
        publish_tags(metadata)
    try:
        finish_removals(metadata)
    except (CorruptFile, FileMissing) as error:
        if not gone:
            raise
        log.warning("%s: the tags are deleted; their files stay until this is repaired: %s", metadata.where, error)
    return gone


def _give_up_tag(metadata: TableMetadata, name: str) -> bool:
    try:
        tag = metadata.tag(name)
    except TagNotFound:
        return False
    remove_success(metadata, name)
    if Owned.TAGS in metadata.owner.owns:
        return metadata.owner.delete_tag(metadata.branch, name)
    path = metadata.paths.tag(name)
    if is_living(metadata, tag.snapshot):
        return metadata.store.delete(path)
    return retire_file(metadata, path)


CACHED_PER_BYTE = 4
"""Estimated bytes of memory of a parsed tag per byte of its file."""


@dataclass(frozen=True)
class TagFile:
    """A tag, and when its file was last changed, in epoch milliseconds."""

    tag: Tag
    modified_millis: int


def list_tag_files(metadata: TableMetadata) -> list[TagFile]:
    """Return all tags by the id of their snapshot, then by name, leaving out tags deleted during the call.

    A file with the same size and time as one read before counts as unchanged: read it again before deleting it.

    Raises `CorruptFile`: a tag file is damaged.
    """
    found = (file for file in _read(metadata) if file is not None)
    return sorted(found, key=lambda file: (file.tag.snapshot.id, file.tag.name))


def _read(metadata: TableMetadata) -> Iterator[TagFile | None]:
    def read(status: FileStatus) -> TagFile | None:
        return _read_tag_file(metadata, status)

    listed = metadata.store.list(metadata.paths.tag_dir)
    files = [status for status in listed if status.name.startswith(TAG_PREFIX) and not status.is_dir]
    return read_each(metadata.store, read, files)


def _read_tag_file(metadata: TableMetadata, status: FileStatus) -> TagFile | None:
    name = status.name.removeprefix(TAG_PREFIX)
    path = metadata.paths.tag(name)

    def read() -> tuple[Tag, int]:
        data = metadata.store.read(path)
        return parse_tag(data, name, path), CACHED_PER_BYTE * len(data)

    try:
        tag = METADATA_CACHE.get_or_make((metadata.store.url(path), status.size, status.modified_millis), read)
    except FileMissing:
        return None
    assert isinstance(tag, Tag)  # keys with a size and a time belong to tags
    return TagFile(tag, status.modified_millis)


SUCCESS_FOLDER = "success-file"
"""Name of the folder of success files, which has the same prefix as tag files."""
SUCCESS_SUFFIX = "_SUCCESS"
CREATED = "creationTime"
MODIFIED = "modificationTime"


def build_success_path(metadata: TableMetadata, name: str) -> str:
    """Return the path of the success file of this tag."""
    folder = f"{metadata.paths.tag_dir}/{TAG_PREFIX}{SUCCESS_FOLDER}"
    return f"{folder}/{check_segment(name + SUCCESS_SUFFIX, folder)}"


def write_success(metadata: TableMetadata, name: str, millis: int) -> None:
    """Write the success file of a tag with the time `millis`; an existing file keeps its creation time.

    Raises `CorruptFile`: the existing file is damaged. `StorageError`: it cannot be written.
    """
    write_success_at(metadata, build_success_path(metadata, name), millis)


def write_success_at(metadata: TableMetadata, path: str, millis: int) -> None:
    """Write a success file; arguments and errors as for `write_success`."""
    created = _read_created(metadata, path)
    metadata.store.write(path, format_json({CREATED: millis if created is None else created, MODIFIED: millis}))


def remove_success(metadata: TableMetadata, name: str) -> bool:
    """Remove the success file of a tag; return False if it did not exist."""
    return metadata.store.delete(build_success_path(metadata, name))


def _read_created(metadata: TableMetadata, path: str) -> int | None:
    try:
        data = metadata.store.read(path)
    except FileMissing:
        return None
    return build_from_json(path, lambda node: int(node[CREATED]), parse_object(data, path))
