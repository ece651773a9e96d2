"""One table's metadata on disk: schemas, snapshots, tags and branches, found and read on demand.

LATEST is a hint only: a snapshot file that exists is committed, whatever it says. EARLIEST, when its snapshot exists,
is where the table begins, as in Java: expiry sets it before it removes the files of older snapshots.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from morrow.engine.errors import (
    BranchNotFound,
    FileMissing,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    TableNotFound,
    TagNotFound,
)
from morrow.engine.format.paths import MAIN_BRANCH, TablePaths
from morrow.engine.format.schema import TableSchema, parse_schema
from morrow.engine.format.snapshot import FIRST_SNAPSHOT_ID, Snapshot, Tag, parse_snapshot, parse_tag
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.store import FileStore
from morrow.engine.options import TableOptions, parse_options

SCHEMA_PREFIX = "schema-"
SNAPSHOT_PREFIX = "snapshot-"
TAG_PREFIX = "tag-"
BRANCH_PREFIX = "branch-"
CHANGELOG_PREFIX = "changelog-"
HINT_DIGITS = 20

READERS = 32
"""Small files that are read at once where each takes a request; a local disk answers before a thread has started."""
MOST_AHEAD = 512
"""How many of them are read before the caller asks: few at first, for some callers want only the first."""

METADATA_CACHE: ByteCache[object] = ByteCache(256 << 20)
"""Decoded metadata files (manifests, schemas) of all tables; dropped by ``morrow.clear_caches()``."""

T = TypeVar("T")
K = TypeVar("K")


@dataclass(frozen=True)
class TableMetadata:
    """Reads metadata of the table at `root` in `store`, on `branch`.

    Nothing about the newest state is kept between calls: each question is answered from the store.
    """

    store: FileStore
    root: str
    branch: str = MAIN_BRANCH
    allowed_roots: tuple[str, ...] = field(default=())

    @cached_property
    def paths(self) -> TablePaths:
        return TablePaths(self.root, self.branch)

    def on_branch(self, branch: str) -> TableMetadata:
        """The same table on another branch.

        Raises:
            BranchNotFound: the table has no such branch. InvalidArgument, UnsafePath: a name that none can have.
        """
        if not isinstance(branch, str) or not branch.strip():
            raise InvalidArgument(f"{branch!r} is no name of a branch")
        other = TableMetadata(self.store, self.root, branch, self.allowed_roots)
        if branch != MAIN_BRANCH and not self.store.is_dir(other.paths.schema_dir):
            known = ", ".join([MAIN_BRANCH, *self.branch_names()])
            raise BranchNotFound(
                f"{self.store.url(self.root)}: there is no branch {branch!r}; the branches are {known}"
            )
        return other

    # Schemas

    def schema_ids(self) -> list[int]:
        """Ids of all schema files, ascending."""
        return _ids(self.store, self.paths.schema_dir, SCHEMA_PREFIX)

    def schema(self, schema_id: int) -> TableSchema:
        """The schema with this id; schemas never change, so it is read once.

        Raises:
            FileMissing: no such schema file. CorruptFile, Unsupported: as `parse_schema`.
        """
        return self._parsed(self.paths.schema(schema_id), parse_schema)

    def latest_schema(self) -> TableSchema:
        """The newest schema.

        Raises:
            TableNotFound: the folder does not exist or holds no schema.
        """
        ids = self.schema_ids()
        if not ids:
            there = self.store.is_dir(self.root)
            what = "holds no Paimon schema (schema/schema-<id>)" if there else "does not exist, or is no folder"
            raise TableNotFound(
                f"{self.where}: the folder {what}; give the folder of a table, such as warehouse/db.db/table"
            )
        return self.schema(ids[-1])

    def schemas(self) -> list[TableSchema]:
        """All schemas, oldest first."""
        return [self.schema(schema_id) for schema_id in self.schema_ids()]

    @cached_property
    def where(self) -> str:
        url = self.store.url(self.root)
        return url if self.branch == MAIN_BRANCH else f"{url} (branch {self.branch})"

    def options(self, schema: TableSchema) -> TableOptions:
        """The options of this schema, parsed and checked."""
        return parse_options(schema.options, where=self.where)

    # Snapshots

    def snapshot_ids(self) -> list[int]:
        """Ids of all snapshot files, ascending; the files of those before `earliest_snapshot_id` may be going."""
        return _ids(self.store, self.paths.snapshot_dir, SNAPSHOT_PREFIX)

    def living_snapshot_ids(self) -> list[int]:
        """Ids of the snapshots from `earliest_snapshot_id` on, ascending."""
        ids = self.snapshot_ids()
        hint = self._hint("EARLIEST")
        at = 0 if hint is None else bisect_left(ids, hint)
        return ids[at:] if ids[at : at + 1] == [hint] else ids

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot with this id.

        Raises:
            SnapshotExpired: it was committed once and has been removed. SnapshotNotFound: it never was.
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
        """The newest committed snapshot, None when nothing was committed."""
        hint = self._hint("LATEST")
        # The hint is right when its snapshot exists and no newer one does; otherwise the folder decides.
        newest = hint is not None and not self.store.exists(self.paths.snapshot(hint + 1))
        if hint is not None and newest and (found := self.snapshot_or_none(hint)) is not None:
            return found
        for snapshot_id in reversed(self.snapshot_ids()):
            if (found := self.snapshot_or_none(snapshot_id)) is not None:
                return found
        return None

    def earliest_snapshot_id(self) -> int | None:
        """The oldest snapshot that is not being removed, None when there is none."""
        hint = self._hint("EARLIEST")
        if hint is not None and self.store.exists(self.paths.snapshot(hint)):
            return hint
        # A table without the hint has lost nothing yet, as a rule: one look saves the listing of a long history.
        if self.store.exists(self.paths.snapshot(FIRST_SNAPSHOT_ID)):
            return FIRST_SNAPSHOT_ID
        return next(iter(self.snapshot_ids()), None)

    def snapshots(self) -> Iterator[Snapshot]:
        """All living snapshots, oldest first; those that expire while this runs are left out."""
        found = self.each_snapshot(self.living_snapshot_ids())
        return (snapshot for snapshot in found if snapshot is not None)

    def each_snapshot(self, ids: Sequence[int]) -> Iterator[Snapshot | None]:
        """These snapshots one after another, None for one that is not there."""
        return self.each(self.snapshot_or_none, ids)

    def each(self, read: Callable[[K], T], names: Sequence[K]) -> Iterator[T]:
        """`read` of each name in order, some ahead of the caller and several at once where that is quicker."""
        if self.store.is_local or len(names) < 2:
            yield from map(read, names)
            return
        start, ahead = 0, READERS
        with ThreadPoolExecutor(READERS) as pool:
            while start < len(names):
                yield from pool.map(read, names[start : start + ahead])
                start, ahead = start + ahead, min(2 * ahead, MOST_AHEAD)

    def snapshot_or_none(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot with this id, None when there is no such file."""
        path = self.paths.snapshot(snapshot_id)
        try:
            return parse_snapshot(self.store.read(path), path)
        except FileMissing:
            return None

    def changelog_or_none(self, snapshot_id: int) -> Snapshot | None:
        """The changelog that is kept of an expired snapshot, whose content is that of a snapshot; None without one."""
        path = f"{self.paths.branch_root}/changelog/{CHANGELOG_PREFIX}{snapshot_id}"
        try:
            return parse_snapshot(self.store.read(path), path)
        except FileMissing:
            return None

    def _hint(self, name: str) -> int | None:
        """The id in a hint file, None when it is absent or no plausible id."""
        try:
            text = self.store.read(f"{self.paths.snapshot_dir}/{name}").strip()
        except FileMissing:
            return None
        return int(text) if text.isascii() and text.isdigit() and len(text) < HINT_DIGITS else None

    # Tags and branches

    def tag_names(self) -> list[str]:
        """Names of all tags, sorted."""
        listed = self.store.list(self.paths.tag_dir)
        return sorted(
            status.name.removeprefix(TAG_PREFIX)
            for status in listed
            if status.name.startswith(TAG_PREFIX) and not status.is_dir
        )

    def tag(self, name: str) -> Tag:
        """The tag of this name.

        Raises:
            TagNotFound: there is none. InvalidArgument: a name that no tag can have.
        """
        if not isinstance(name, str) or not name.strip() or any(c in name for c in "/\\\0"):
            raise InvalidArgument(f"{name!r} is no name of a tag")
        found = self._tag_or_none(name)
        if found is None:
            known = ", ".join(self.tag_names()) or "none"
            raise TagNotFound(f"{self.where}: there is no tag {name!r}; the tags are: {known}")
        return found

    def _tag_or_none(self, name: str) -> Tag | None:
        path = self.paths.tag(name)
        try:
            return parse_tag(self.store.read(path), name, path)
        except FileMissing:
            return None

    def tags(self) -> list[Tag]:
        """All tags by the id of their snapshot, then by name; those that are deleted while this runs are left out."""
        found = (tag for tag in self.each(self._tag_or_none, self.tag_names()) if tag is not None)
        return sorted(found, key=lambda tag: (tag.snapshot.id, tag.name))

    def branch_names(self) -> list[str]:
        """Names of all branches except main, sorted."""
        listed = self.store.list(self.paths.branches_dir)
        return sorted(
            s.name.removeprefix(BRANCH_PREFIX) for s in listed if s.name.startswith(BRANCH_PREFIX) and s.is_dir
        )

    def _parsed(self, path: str, parse: Callable[[bytes, str], T]) -> T:
        """Parse a small file once; its bytes are in the key, so that of a table made anew is parsed anew."""
        data = self.store.read(path)
        key = (self.store.url(path), data)
        return METADATA_CACHE.get_or_make(key, lambda: (parse(data, path), 4 * len(data)))  # type: ignore[return-value]  # heterogeneous cache


def _ids(store: FileStore, folder: str, prefix: str) -> list[int]:
    suffixes = (s.name.removeprefix(prefix) for s in store.list(folder) if s.name.startswith(prefix) and not s.is_dir)
    return sorted(int(suffix) for suffix in suffixes if suffix.isascii() and suffix.isdigit())
