"""One table's metadata on disk: schemas, snapshots, tags and branches, found and read on demand.

LATEST is only a hint: a snapshot whose file exists is committed, whatever the hint says. The table begins at EARLIEST
if that snapshot exists, as in Java: expiry sets it before it removes the files of older snapshots.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeVar

from morrow.engine.errors import (
    BranchNotFound,
    CorruptFile,
    FileMissing,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    TableNotFound,
    TagNotFound,
    Unsupported,
)
from morrow.engine.format.paths import CHANGELOG_PREFIX, EARLIEST, MAIN_BRANCH, TablePaths, in_store
from morrow.engine.format.schema import TableSchema, parse_schema
from morrow.engine.format.snapshot import FIRST_SNAPSHOT_ID, Snapshot, Tag, parse_snapshot, parse_tag
from morrow.engine.format.types import BlobType
from morrow.engine.io.ahead import each, together
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.confined import confined
from morrow.engine.io.store import FileStore
from morrow.engine.options import TableOptions, parse_options
from morrow.engine.options.declared.features import BLOB_AS_DESCRIPTOR
from morrow.engine.plan.listing import ids_in, read_hint, tables_below
from morrow.engine.plan.newest import newest_schema_of, newest_snapshot_of
from morrow.engine.plan.owner import FILES, TableOwner
from morrow.engine.telling import did_you_mean, redacted
from morrow.engine.values import replace

SCHEMA_PREFIX = "schema-"
SNAPSHOT_PREFIX = "snapshot-"
TAG_PREFIX = "tag-"
BRANCH_PREFIX = "branch-"

METADATA_CACHE: ByteCache[object] = ByteCache(256 << 20)
"""Decoded metadata files (manifests, schemas) of all tables; dropped by ``morrow.clear_caches()``."""

T = TypeVar("T")


@dataclass(frozen=True)
class TableMetadata:
    """The metadata of the table at `root` in `store`, on `branch`.

    Nothing about the newest state is kept between calls: each question is answered from the store. All that is written
    or removed through it lies below the table's folder, or below `allowed_roots`, which the caller named: the table's
    own options and links may lead elsewhere, and nothing is changed there (see `confined`). `owner` is the catalog's
    side of the table, where that commits.
    """

    store: FileStore
    root: str
    branch: str = MAIN_BRANCH
    allowed_roots: tuple[str, ...] = field(default=())
    owner: TableOwner = field(default=FILES, compare=False, repr=False)
    known: Mapping[int, TableSchema] = field(default_factory=dict, compare=False, repr=False)
    """Schemas by id that were read a moment ago, for one plan or commit: they are not read again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", confined(self.store, (self.root, *self.removable_roots)))

    @property
    def removable_roots(self) -> tuple[str, ...]:
        """The `allowed_roots` in the table's store, as paths within it."""
        found = (in_store(self.store, root) for root in self.allowed_roots if root)
        return tuple(root for root in found if root is not None)

    @cached_property
    def paths(self) -> TablePaths:
        return TablePaths(self.root, self.branch)

    def on_branch(self, branch: str) -> TableMetadata:
        """Returns the same table on another branch.

        Raises:
            BranchNotFound: the table has no such branch. InvalidArgument, UnsafePath: not a valid branch name.
        """
        if not isinstance(branch, str) or not branch.strip():
            raise InvalidArgument(f"{branch!r} is no name of a branch")
        other = self.at_branch(branch)
        if branch != MAIN_BRANCH and not self.store.is_dir(other.paths.schema_dir):
            names = [MAIN_BRANCH, *self.branch_names()]
            known, hint = ", ".join(names), did_you_mean(branch, names)
            raise BranchNotFound(
                f"{self.store.url(self.root)}: there is no branch {branch!r}; {hint}the branches are {known}"
            )
        return other

    def at_branch(self, branch: str) -> TableMetadata:
        """Returns the same table on another branch, which need not exist."""
        return TableMetadata(self.store, self.root, branch, self.allowed_roots, self.owner)

    def knowing(self, schema: TableSchema) -> TableMetadata:
        """Returns the same table for the length of one plan or commit, which has read this schema."""
        return replace(self, known={**self.known, schema.id: schema})

    # Schemas

    def schema_ids(self) -> list[int]:
        """Returns the ids of all schema files, ascending."""
        return ids_in(self.store, self.paths.schema_dir, SCHEMA_PREFIX)

    def schema(self, schema_id: int) -> TableSchema:
        """Returns the schema with this id; schemas never change, so it is read once.

        Raises:
            FileMissing: no such schema file. CorruptFile, Unsupported: as `parse_schema`.
        """
        if schema_id in self.known:
            return self.known[schema_id]
        path = self.paths.schema(schema_id)
        found = self._parsed(path, parse_schema)
        if found.id != schema_id:
            raise CorruptFile(path, f"it says that it is schema {found.id}")
        return found

    def latest_schema(self) -> TableSchema:
        """Returns the newest schema.

        Raises:
            TableNotFound: the folder does not exist or holds no schema.
        """
        found = newest_schema_of(self)
        if found is None:
            there = self.store.is_dir(self.root)
            what = "holds no Paimon schema (schema/schema-<id>)" if there else "does not exist, or is no folder"
            tables = tables_below(self.store, self.root) if there else []
            hint = f"its tables are {', '.join(tables)}" if tables else "such as warehouse/db.db/table"
            raise TableNotFound(f"{self.where}: the folder {what}; give the folder of a table: {hint}")
        return found

    def schemas(self) -> list[TableSchema]:
        """Returns all schemas, oldest first."""
        return [self.schema(schema_id) for schema_id in self.schema_ids()]

    @cached_property
    def where(self) -> str:
        url = redacted(self.store.url(self.root))  # the rest of the URL identifies the table
        return url if self.branch == MAIN_BRANCH else f"{url} (branch {self.branch})"

    def options(self, schema: TableSchema) -> TableOptions:
        """Returns the options of this schema, parsed and checked.

        Raises: as `parse_options`.
        """
        options = parse_options(schema.options, where=self.where)
        if options.given.get(BLOB_AS_DESCRIPTOR) and any(isinstance(field.type, BlobType) for field in schema.fields):
            hint = f"it gives descriptors in place of bytes; set {BLOB_AS_DESCRIPTOR} = false"
            raise Unsupported(
                f"the option {BLOB_AS_DESCRIPTOR} of a table with BLOB columns", where=self.where, hint=hint
            )
        return options

    # Snapshots

    def snapshot_ids(self) -> list[int]:
        """Returns the ids of all snapshot files, ascending; files before `earliest_snapshot_id` may be going away."""
        return ids_in(self.store, self.paths.snapshot_dir, SNAPSHOT_PREFIX)

    def living_snapshot_ids(self) -> list[int]:
        """Returns the ids of the snapshots from `earliest_snapshot_id` on, ascending."""
        ids = self.snapshot_ids()
        hint = self.hint(EARLIEST)
        at = 0 if hint is None else bisect_left(ids, hint)
        return ids[at:] if ids[at : at + 1] == [hint] else ids

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Returns the snapshot with this id.

        Raises:
            SnapshotExpired: it was committed once and has been removed. SnapshotNotFound: it never existed.
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

    def latest_snapshot(self) -> Snapshot | None:
        """Returns the newest committed snapshot, None when nothing was committed."""
        return newest_snapshot_of(self)

    def earliest_snapshot_id(self) -> int | None:
        """Returns the id of the oldest snapshot that is not being removed, None when there is none."""
        first = self.paths.snapshot(FIRST_SNAPSHOT_ID)
        if self.store.is_local:
            hint, has_first = self.hint(EARLIEST), None
        else:
            hint, has_first = together(self.store, partial(self.hint, EARLIEST), partial(self.store.exists, first))
        if hint is not None and (has_first if hint == FIRST_SNAPSHOT_ID and has_first else self._has_snapshot(hint)):
            return hint
        # A table without the hint has usually lost nothing yet: one look saves listing a long history.
        if self.store.exists(first) if has_first is None else has_first:
            return FIRST_SNAPSHOT_ID
        return next(iter(self.snapshot_ids()), None)

    def _has_snapshot(self, snapshot_id: int) -> bool:
        return self.store.exists(self.paths.snapshot(snapshot_id))

    def snapshots(self) -> Iterator[Snapshot]:
        """Yields all living snapshots, oldest first; those that expire during iteration are left out."""
        return filter(None, self.each_snapshot(self.living_snapshot_ids()))

    def each_snapshot(self, ids: Sequence[int]) -> Iterator[Snapshot | None]:
        """Yields these snapshots in order, None for one that does not exist."""
        return each(self.store, self.snapshot_or_none, ids)

    def snapshot_or_none(self, snapshot_id: int) -> Snapshot | None:
        """Returns the snapshot with this id, None when there is no such file."""
        return self._snapshot_at(self.paths.snapshot(snapshot_id), snapshot_id)

    def changelog_or_none(self, snapshot_id: int) -> Snapshot | None:
        """Returns the changelog kept of an expired snapshot, whose content is that of a snapshot; None without one."""
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
        """Returns the id in LATEST or EARLIEST of the snapshots, None where there is none."""
        return read_hint(self.store, f"{self.paths.snapshot_dir}/{name}")

    # Tags and branches

    def tag_names(self) -> list[str]:
        """Returns the names of all tags, sorted."""
        listed = self.store.list(self.paths.tag_dir)
        return sorted(
            status.name.removeprefix(TAG_PREFIX)
            for status in listed
            if status.name.startswith(TAG_PREFIX) and not status.is_dir
        )

    def tag(self, name: str) -> Tag:
        """Returns the tag of this name.

        Raises:
            TagNotFound: there is none. InvalidArgument: not a valid tag name.
        """
        if not isinstance(name, str) or not name.strip() or any(c in name for c in "/\\\0"):
            raise InvalidArgument(f"{name!r} is no name of a tag")
        found = self._tag_or_none(name)
        if found is None:
            names = self.tag_names()
            known, hint = ", ".join(names) or "none", did_you_mean(name, names)
            raise TagNotFound(f"{self.where}: there is no tag {name!r}; {hint}the tags are: {known}")
        return found

    def _tag_or_none(self, name: str) -> Tag | None:
        path = self.paths.tag(name)
        try:
            return parse_tag(self.store.read(path), name, path)
        except FileMissing:
            return None

    def tags(self) -> list[Tag]:
        """Returns all tags by the id of their snapshot, then by name; tags deleted meanwhile are left out."""
        found = (tag for tag in each(self.store, self._tag_or_none, self.tag_names()) if tag is not None)
        return sorted(found, key=lambda tag: (tag.snapshot.id, tag.name))

    def branch_names(self) -> list[str]:
        """Returns the names of all branches except main, sorted."""
        listed = self.store.list(self.paths.branches_dir)
        return sorted(
            s.name.removeprefix(BRANCH_PREFIX) for s in listed if s.name.startswith(BRANCH_PREFIX) and s.is_dir
        )

    def _parsed(self, path: str, parse: Callable[[bytes, str], T]) -> T:
        """Parses a small file once; the cache key has its bytes, so that of a re-created table is parsed anew."""
        data = self.store.read(path)
        key = (self.store.url(path), data)
        return METADATA_CACHE.get_or_make(key, lambda: (parse(data, path), 4 * len(data)))  # type: ignore[return-value]  # heterogeneous cache
