"""The files of one table's metadata: schemas and snapshots by their ids.

LATEST is only a hint: a snapshot whose file exists is committed, whatever the hint says. The table begins at EARLIEST
if that snapshot exists, as in Java: expiry sets it before it removes the files of older snapshots.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeVar

import polars as pl

from morrow.engine.errors import CorruptFile, FileMissing, SnapshotExpired, SnapshotNotFound
from morrow.engine.format.paths import CHANGELOG_PREFIX, EARLIEST, MAIN_BRANCH, TablePaths, in_store
from morrow.engine.format.schema import TableSchema, parse_schema
from morrow.engine.format.snapshot import FIRST_SNAPSHOT_ID, Snapshot, parse_snapshot
from morrow.engine.io.ahead import each, together
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.confined import confined
from morrow.engine.io.store import FileStore
from morrow.engine.plan.listing import ids_in, read_hint
from morrow.engine.plan.owner import FILES, TableOwner
from morrow.engine.telling import redacted

SCHEMA_PREFIX = "schema-"
SNAPSHOT_PREFIX = "snapshot-"

MAX_ENTRIES = 3000
"""Metadata files and plans in the cache. A commit leaves about six of 20 KB each, which nobody needs after the next."""
FRAME_BYTES, COLUMN_BYTES = 512, 1280
"""Memory that a frame and each of its columns take beside their values."""

METADATA_CACHE: ByteCache[object] = ByteCache(256 << 20, max_entries=MAX_ENTRIES)
"""Decoded metadata files (manifests, schemas) of all tables; dropped by ``morrow.clear_caches()``."""


def frame_bytes(frame: pl.DataFrame) -> int:
    """Return the memory that a frame takes, about: most of that of a small one is not its values."""
    return int(frame.estimated_size()) + FRAME_BYTES + COLUMN_BYTES * frame.width


T = TypeVar("T")


@dataclass(frozen=True)
class MetadataFiles:
    """The schemas and snapshots of the table at `root` in `store`, on `branch`.

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

    @cached_property
    def where(self) -> str:
        url = redacted(self.store.url(self.root))  # the rest of the URL identifies the table
        return url if self.branch == MAIN_BRANCH else f"{url} (branch {self.branch})"

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

    def schemas(self) -> list[TableSchema]:
        """Returns all schemas, oldest first."""
        return [self.schema(schema_id) for schema_id in self.schema_ids()]

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

    def _parsed(self, path: str, parse: Callable[[bytes, str], T]) -> T:
        """Parses a small file once; the cache key has its bytes, so that of a re-created table is parsed anew."""
        data = self.store.read(path)
        key = (self.store.url(path), data)
        return METADATA_CACHE.get_or_make(key, lambda: (parse(data, path), 4 * len(data)))  # type: ignore[return-value]  # heterogeneous cache
