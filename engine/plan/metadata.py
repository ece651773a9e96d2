"""The metadata of one table on disk: schemas, snapshots, tags and branches, found and read on demand.

LATEST is only a hint: a snapshot whose file exists is committed, whatever the hint says. The table begins at EARLIEST
if that snapshot exists, as in Java: expiry sets it before it removes the files of older snapshots.

In a remote store the search for the newest schema and snapshot begins where the last search of this process ended.
The snapshot found there is read again, together with possible successors. So nothing is used from memory without a
check, and one round of requests suffices unless another process has committed. If snapshots follow LATEST, they are
read, as ids are consecutive.
"""

from __future__ import annotations

import errno
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeVar

import polars as pl

from morrow.engine.arguments import is_name
from morrow.engine.errors import (
    BranchNotFound,
    CorruptFile,
    FileMissing,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    StorageError,
    TableNotFound,
    TagNotFound,
)
from morrow.engine.format.paths import (
    CHANGELOG_PREFIX,
    DATABASE_SUFFIX,
    EARLIEST,
    LATEST,
    MAIN_BRANCH,
    TablePaths,
    parse_file_id,
    parse_numbered,
    to_store_path,
)
from morrow.engine.format.schema import TableSchema, parse_schema
from morrow.engine.format.snapshot import FIRST_SNAPSHOT_ID, Snapshot, Tag, parse_snapshot, parse_tag
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.resolve import confine
from morrow.engine.io.store import FileStore, call_both, read_each, start_request
from morrow.engine.options import TableOptions, parse_options
from morrow.engine.plan.owner import FILES, Owned, TableOwner
from morrow.engine.redaction import redact_text, suggest_name
from morrow.engine.structs import replace

SCHEMA_PREFIX = "schema-"
SNAPSHOT_PREFIX = "snapshot-"

MAX_CACHED_ENTRIES = 3000
"""The limit of cached metadata files and plans. A commit adds about six of 20 KB; the next one makes them obsolete."""
FRAME_BYTES, COLUMN_BYTES = 512, 1280
"""The memory that a frame and each of its columns take in addition to their values."""

METADATA_CACHE: ByteCache[object] = ByteCache(256 << 20, max_entries=MAX_CACHED_ENTRIES)
"""Decoded metadata files (manifests, schemas) of all tables, their plans, and the starts of the next searches for the
newest snapshot; dropped by ``morrow.clear_caches()``."""


def estimate_frame_bytes(frame: pl.DataFrame) -> int:
    """Return the approximate memory of a frame; for a small frame, most of it is overhead."""
    return int(frame.estimated_size()) + FRAME_BYTES + COLUMN_BYTES * frame.width


T = TypeVar("T")


@dataclass(frozen=True)
class MetadataFiles:
    """The schemas and snapshots of the table at `root` in `store`, on `branch`.

    The newest snapshot and schema are not kept between calls: each call asks the store. Files are written or removed
    only below the table's folder or below `allowed_roots`, which the caller named. The table's own options and links
    may lead elsewhere, and nothing is changed there (see `confine`). `owner` is the catalog's side of the table, if the
    catalog commits.
    """

    store: FileStore
    root: str
    branch: str = MAIN_BRANCH
    allowed_roots: tuple[str, ...] = field(default=())
    owner: TableOwner = field(default=FILES, compare=False, repr=False)
    dynamic: tuple[tuple[str, str], ...] = ()
    """Options that reads and writes use instead of the stored ones, for this object only."""
    known: Mapping[int, TableSchema] = field(default_factory=dict, compare=False, repr=False)
    """Recently read schemas by id, for one plan or commit; they are not read again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", confine(self.store, (self.root, *self.removable_roots)))

    @property
    def removable_roots(self) -> tuple[str, ...]:
        """The `allowed_roots` that lie in the table's store, as paths within it."""
        found = (to_store_path(self.store, root) for root in self.allowed_roots if root)
        return tuple(root for root in found if root is not None)

    @cached_property
    def paths(self) -> TablePaths:
        return TablePaths(self.root, self.branch)

    @cached_property
    def where(self) -> str:
        url = redact_text(self.store.url(self.root))  # the rest of the URL identifies the table
        return url if self.branch == MAIN_BRANCH else f"{url} (branch {self.branch})"

    # Schemas

    def schema_ids(self) -> list[int]:
        """Return the ids of all schema files, ascending."""
        return list_ids(self.store, self.paths.schema_dir, SCHEMA_PREFIX)

    def schema(self, schema_id: int) -> TableSchema:
        """Return the schema with this id; schemas never change, so it is read once.

        Raises `FileMissing`: no such schema file. `CorruptFile`, `Unsupported`: as `parse_schema`.
        """
        if schema_id in self.known:
            return self.known[schema_id]
        path = self.paths.schema(schema_id)
        found = self._parse(path, parse_schema)
        if found.id != schema_id:
            raise CorruptFile(path, f"it says that it is schema {found.id}")
        return found

    def schemas(self) -> list[TableSchema]:
        """Return all schemas, oldest first."""
        return [self.schema(schema_id) for schema_id in self.schema_ids()]

    # Snapshots

    def snapshot_ids(self) -> list[int]:
        """Return the ids of all snapshot files, ascending; files before `earliest_snapshot_id` may be about to go."""
        return list_ids(self.store, self.paths.snapshot_dir, SNAPSHOT_PREFIX)

    def living_snapshot_ids(self) -> list[int]:
        """Return the ids of the snapshots from `earliest_snapshot_id` on, ascending."""
        ids = self.snapshot_ids()
        hint = self.hint(EARLIEST)
        at = 0 if hint is None else bisect_left(ids, hint)
        return ids[at:] if ids[at : at + 1] == [hint] else ids

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot with this id.

        Raises `SnapshotExpired`: the snapshot was removed. `SnapshotNotFound`: it never existed.
        """
        found = self.snapshot_or_none(snapshot_id)
        if found is not None:
            return found
        ids = self.snapshot_ids()
        if not ids:
            raise SnapshotNotFound(f"{self.where}: there is no snapshot {snapshot_id}; the table has no snapshots")
        if 1 <= snapshot_id < ids[0]:
            raise SnapshotExpired(
                f"{self.where}: snapshot {snapshot_id} has expired; the snapshots are {ids[0]} to {ids[-1]}, "
                "tags keep older states (see Table.tags)"
            )
        raise SnapshotNotFound(
            f"{self.where}: there is no snapshot {snapshot_id}; the snapshots are {ids[0]} to {ids[-1]}"
        )

    def earliest_snapshot_id(self) -> int | None:
        """Return the id of the oldest snapshot that is not being removed, None if there is none."""
        first = self.paths.snapshot(FIRST_SNAPSHOT_ID)
        if self.store.is_local:
            hint, has_first = self.hint(EARLIEST), None
        else:
            hint, has_first = call_both(self.store, partial(self.hint, EARLIEST), partial(self.store.exists, first))
        if hint is not None and (has_first if hint == FIRST_SNAPSHOT_ID and has_first else self._has_snapshot(hint)):
            return hint
        # A table without the hint usually still has its first snapshot: one look-up avoids listing a long history.
        if self.store.exists(first) if has_first is None else has_first:
            return FIRST_SNAPSHOT_ID
        return next(iter(self.snapshot_ids()), None)

    def _has_snapshot(self, snapshot_id: int) -> bool:
        return self.store.exists(self.paths.snapshot(snapshot_id))

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield all living snapshots, oldest first; snapshots that expire during iteration are left out."""
        return filter(None, self.each_snapshot(self.living_snapshot_ids()))

    def each_snapshot(self, ids: Sequence[int]) -> Iterator[Snapshot | None]:
        """Yield these snapshots in order, None for each that does not exist."""
        return read_each(self.store, self.snapshot_or_none, ids)

    def snapshot_or_none(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot with this id, or None if its file does not exist."""
        return self._snapshot_at(self.paths.snapshot(snapshot_id), snapshot_id)

    def changelog_or_none(self, snapshot_id: int) -> Snapshot | None:
        """Return the changelog of an expired snapshot, which has a snapshot's contents; None if there is none."""
        path = f"{self.paths.branch_root}/changelog/{CHANGELOG_PREFIX}{snapshot_id}"
        return self._snapshot_at(path, snapshot_id)

    def _snapshot_at(self, path: str, snapshot_id: int) -> Snapshot | None:
        try:
            found = parse_snapshot(self.store.read(path), path)
        except FileMissing:
            return None
        if found.id != snapshot_id:
            raise CorruptFile(path, f"it says that it is snapshot {found.id}")
        return found

    def hint(self, name: str) -> int | None:
        """Return the id in the hint LATEST or EARLIEST of the snapshots, None without the hint."""
        return read_hint(self.store, f"{self.paths.snapshot_dir}/{name}")

    def _parse(self, path: str, parse: Callable[[bytes, str], T]) -> T:
        """Parse a small file once. The cache key contains its bytes, in case the table is re-created."""
        data = self.store.read(path)
        key = (self.store.url(path), data)
        return METADATA_CACHE.get_or_make(key, lambda: (parse(data, path), 4 * len(data)))  # type: ignore[return-value]  # heterogeneous cache


TAG_PREFIX = "tag-"
BRANCH_PREFIX = "branch-"


@dataclass(frozen=True)
class TableMetadata(MetadataFiles):
    """The metadata of a table: its files, and the newest schema, snapshot, tags and branches."""

    def on_branch(self, branch: str) -> TableMetadata:
        """Return the same table on another branch.

        Raises `BranchNotFound`: the table lacks the branch. `InvalidArgument`, `UnsafePath`: not a valid branch name.
        """
        if not isinstance(branch, str) or not branch.strip():
            raise InvalidArgument(f"{branch!r} is not a branch name")
        other = self.at_branch(branch)
        if branch != MAIN_BRANCH and not self.store.is_dir(other.paths.schema_dir):
            names = [MAIN_BRANCH, *self.branch_names()]
            if branch in names:
                raise BranchNotFound(
                    f"{self.store.url(other.paths.branch_root)}: the folder of branch {branch!r} has no schema; "
                    f"a crash in the creation of a branch leaves one: table.branches.delete({branch!r})"
                )
            known, hint = ", ".join(names), suggest_name(branch, names)
            raise BranchNotFound(
                f"{self.store.url(self.root)}: there is no branch {branch!r}; {hint}the branches are {known}"
            )
        return other

    def at_branch(self, branch: str) -> TableMetadata:
        """Return the same table on another branch, which need not exist."""
        return TableMetadata(self.store, self.root, branch, self.allowed_roots, self.owner, self.dynamic)

    def knowing(self, schema: TableSchema) -> TableMetadata:
        """Return the same table for one plan or commit, with this schema already read."""
        return replace(self, known={**self.known, schema.id: schema})

    # The newest state

    def latest_schema(self) -> TableSchema:
        """Return the newest schema. Raises `TableNotFound`: the folder does not exist or holds no schema."""
        found = find_newest_schema(self)
        if found is None:
            there = self.store.is_dir(self.root)
            what = "holds no Paimon schema (schema/schema-<id>)" if there else "does not exist, or is not a folder"
            tables = list_tables_below(self.store, self.root) if there else []
            hint = f"its tables are {', '.join(tables)}" if tables else "such as warehouse/db.db/table"
            near = "" if there else suggest_folder(self.store, self.root)
            raise TableNotFound(f"{self.where}: the folder {what}; {near}give the folder of a table: {hint}")
        return found

    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest committed snapshot, None if nothing was committed."""
        return find_newest_snapshot(self)

    def newest_options(self) -> dict[str, str]:
        """Return the options of the newest schema, with the `dynamic` ones instead of stored ones, as text."""
        return {**self.latest_schema().options, **dict(self.dynamic)}

    def options(self, schema: TableSchema) -> TableOptions:
        """Return the options of this schema, with the `dynamic` ones instead of stored ones, parsed and checked.

        Raises: as `parse_options`.
        """
        options = {**schema.options, **dict(self.dynamic)}
        key = ("options", self.where, tuple(options.items()))
        return METADATA_CACHE.get_or_make(key, lambda: (parse_options(options, where=self.where), _OPTIONS_BYTES))  # type: ignore[return-value]  # heterogeneous cache

    # Tags and branches

    def tag_names(self) -> list[str]:
        """Return the names of all tags, sorted."""
        listed = self.store.list(self.paths.tag_dir)
        return sorted(
            status.name.removeprefix(TAG_PREFIX)
            for status in listed
            if status.name.startswith(TAG_PREFIX) and not status.is_dir
        )

    def tag(self, name: str) -> Tag:
        """Return the tag of this name.

        Raises `TagNotFound`: the tag does not exist. `InvalidArgument`: not a valid tag name.
        """
        if not is_name(name) or not name.strip() or any(c in name for c in "/\\"):
            raise InvalidArgument(f"{name!r} is not a tag name")
        found = self._tag_or_none(name)
        if found is None:
            names = self.tag_names()
            known, hint = ", ".join(names) or "none", suggest_name(name, names)
            raise TagNotFound(f"{self.where}: there is no tag {name!r}; {hint}the tags are: {known}")
        return found

    def _tag_or_none(self, name: str) -> Tag | None:
        path = self.paths.tag(name)
        try:
            return parse_tag(self.store.read(path), name, path)
        except FileMissing:
            return None

    def tags(self) -> list[Tag]:
        """Return all tags by the id of their snapshot, then by name; tags deleted meanwhile are left out."""
        found = (tag for tag in read_each(self.store, self._tag_or_none, self.tag_names()) if tag is not None)
        return sorted(found, key=lambda tag: (tag.snapshot.id, tag.name))

    def branch_names(self) -> list[str]:
        """Return the names of all branches except main, sorted."""
        listed = self.store.list(self.paths.branches_dir)
        return sorted(
            s.name.removeprefix(BRANCH_PREFIX) for s in listed if s.name.startswith(BRANCH_PREFIX) and s.is_dir
        )


_OPTIONS_BYTES = 4096
"""The approximate memory of parsed options in bytes."""
_SNAPSHOT_BYTES = 2048
"""The approximate memory of a cached snapshot in bytes."""
SEARCH_STEPS = (4, 16, 64)
"""The numbers of snapshots read at once above one that is not the newest. If all exist, the folder is listed."""


def find_newest_schema(metadata: MetadataFiles) -> TableSchema | None:
    """Return the schema with the greatest id; None if there is none."""
    if metadata.store.is_local:
        ids = metadata.schema_ids()
        return metadata.schema(ids[-1]) if ids else None
    key = ("newest schema", metadata.store.url(metadata.paths.schema_dir))
    known = METADATA_CACHE.get(key)
    guessed = start_request(metadata.store, partial(metadata.schema, known)) if isinstance(known, int) else None
    ids = metadata.schema_ids()
    if not ids:
        return None
    METADATA_CACHE.put(key, ids[-1], _SNAPSHOT_BYTES)
    return guessed() if guessed is not None and ids[-1] == known else metadata.schema(ids[-1])


REPLACING_SCHEMA = "replacing-schema"
"""The property of a snapshot that replaces a table: the schema file that its writer creates next."""


def find_newest_snapshot(metadata: MetadataFiles) -> Snapshot | None:
    """Return the newest committed snapshot, None if nothing was committed.

    If it replaces the table, and its writer was killed before it created the schema, the schema is created.
    """
    found = _search_newest_snapshot(metadata)
    if found is not None and REPLACING_SCHEMA in found.properties:
        path = metadata.paths.schema(found.schema_id)
        if not metadata.store.exists(path):
            metadata.store.create(path, found.properties[REPLACING_SCHEMA].encode())
    return found


def _search_newest_snapshot(metadata: MetadataFiles) -> Snapshot | None:
    if Owned.SNAPSHOTS in metadata.owner.owns:
        return metadata.owner.latest_snapshot(metadata.branch)
    if metadata.store.is_local:
        return _search_by_hint(metadata, metadata.hint(LATEST))
    key = _make_snapshot_key(metadata)
    known = METADATA_CACHE.get(key)
    found = _search_from(metadata, known) if isinstance(known, Snapshot) else None
    found = found or _search_by_hint(metadata, metadata.hint(LATEST))
    if found is not None:
        METADATA_CACHE.put(key, found, _SNAPSHOT_BYTES)
    return found


def remember_snapshot(metadata: MetadataFiles, snapshot: Snapshot) -> None:
    """Let the next search begin at this snapshot."""
    if not metadata.store.is_local:
        METADATA_CACHE.put(_make_snapshot_key(metadata), snapshot, _SNAPSHOT_BYTES)


def get_last_seen(metadata: MetadataFiles) -> Snapshot | None:
    """Return the snapshot at which the next search in a remote store begins; it may no longer be the newest."""
    known = METADATA_CACHE.get(_make_snapshot_key(metadata))
    return known if isinstance(known, Snapshot) else None


def _make_snapshot_key(metadata: MetadataFiles) -> tuple[str, str]:
    return "newest snapshot", metadata.store.url(metadata.paths.snapshot_dir)


def _search_from(metadata: MetadataFiles, known: Snapshot) -> Snapshot | None:
    """Return the newest snapshot if `known` still exists and few follow; None if another search has to find it."""
    there, following = call_both(
        metadata.store, partial(metadata.snapshot_or_none, known.id), partial(metadata.snapshot_or_none, known.id + 1)
    )
    if there != known:  # rolled back, expired, or of another table of that name
        return None
    return known if following is None else _search_above(metadata, following)


def _search_above(metadata: MetadataFiles, known: Snapshot) -> Snapshot | None:
    """Return the newest snapshot, searching upwards from an existing one; None if many follow."""
    for count in SEARCH_STEPS:
        for found in metadata.each_snapshot(range(known.id + 1, known.id + 1 + count)):
            if found is None:
                return known
            known = found
    return None


def _search_by_hint(metadata: MetadataFiles, hint: int | None) -> Snapshot | None:
    """Return the newest snapshot: the hint's if it exists and none follows, otherwise the last in the folder."""
    if hint is not None:
        following = metadata.paths.snapshot(hint + 1)
        if metadata.store.is_local:
            found = None if metadata.store.exists(following) else metadata.snapshot_or_none(hint)
        else:
            found, after = call_both(
                metadata.store, partial(metadata.snapshot_or_none, hint), partial(metadata.snapshot_or_none, hint + 1)
            )
            found = None if found is None else found if after is None else _search_above(metadata, after)
        if found is not None:
            return found
    ids = metadata.snapshot_ids()
    for snapshot_id in reversed(ids):
        if (found := metadata.snapshot_or_none(snapshot_id)) is not None:
            return found
    if ids:  # not a table without snapshots: they were just removed, or cannot be read
        what_to_do = "it is listed, and not there; the table may have been dropped while it was read: open it again"
        raise FileMissing(metadata.store.url(metadata.paths.snapshot(ids[-1])), hint=what_to_do)
    return None


MAX_SHOWN_TABLES = 20
"""The limit of tables that a message names."""
MAX_SEARCHED_FOLDERS = 100
"""The limit of folders searched for tables."""


def read_hint(store: FileStore, path: str) -> int | None:
    """Return the id in a hint file; None if it does not exist, is not a file, or does not hold an id."""
    try:
        return parse_file_id(store.read(path).strip())
    except FileMissing:
        return None
    except StorageError as error:
        if error.errno == errno.EISDIR:
            return None
        raise


def list_ids(store: FileStore, folder: str, prefix: str) -> list[int]:
    """Return the ids in the names of the folder's files that begin with `prefix`, ascending."""
    found = (parse_numbered(status.name, prefix) for status in store.list(folder) if not status.is_dir)
    return sorted(number for number in found if number is not None)


def _list_folders(store: FileStore, folder: str) -> list[str]:
    return sorted(each.name for each in store.list(folder) if each.is_dir)


def _join_path(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else name  # a bucket's own root is empty


def suggest_folder(store: FileStore, root: str) -> str:
    """Return ``did you mean 'orders'? `` for a missing folder, from its sibling folders or the databases."""
    parent, _, name = root.rstrip("/").rpartition("/")
    above, _, database = parent.rpartition("/")
    try:
        if beside := _list_folders(store, parent):
            return suggest_name(name, beside)
        return suggest_name(database, [each for each in _list_folders(store, above) if each.endswith(DATABASE_SUFFIX)])
    except StorageError:  # readers may lack access to the parent folder
        return ""


def list_tables_below(store: FileStore, root: str) -> list[str]:
    """Return the first tables of the folder if it is a database or a warehouse, as paths within it."""
    folders = _list_folders(store, root)
    inner = [name for name in folders if name.endswith(DATABASE_SUFFIX)][:MAX_SEARCHED_FOLDERS]
    below = [f"{name}/{each}" for name in inner for each in _list_folders(store, _join_path(root, name))]
    places = (*folders, *below)[:MAX_SEARCHED_FOLDERS]
    found = [name for name in places if store.is_dir(TablePaths(_join_path(root, name)).schema_dir)]
    return found if len(found) <= MAX_SHOWN_TABLES else [*found[:MAX_SHOWN_TABLES], "..."]
