"""Purges of tables, and removal of orphan files: files that no snapshot, changelog, tag or branch names.

Killed writers leave orphan files. A running writer's files are not named by any metadata before the commit, so only
files older than a limit are examined. The limit must exceed the time that any write takes from its first file to its
commit. The order of the steps protects files of concurrent commits:

1. walk the folders, and collect the old files: hashes of names, 8 bytes per file;
2. read the names in all roots, and drop them from the collected files;
3. walk again for the paths of the remaining files, usually none;
4. before files are deleted, and again after each second, read the new roots, and drop the files that they name.

If metadata cannot be read, the run ends without removing anything.

Roots are the snapshots, tags and changelogs of all branches: all other needed files are found through them. A root that
is being removed (EARLIEST is beyond it, and expiry is running or was killed) is still read for the names in it, but its
files may be gone. The files that any other root names must exist. If they do not, it is unknown which files are needed,
and nothing may be removed. Names are random, so a file is identified by its name alone, in any folder. If two files
have the same name, both are kept. Files named by DELETE entries are kept as well, as in Java, since streaming reads of
the changes may read them.

A purge removes all rows of a table with all of its history, for good or before it is filled again. Java's
``purge_files`` does this and then removes every file that the empty table does not name, including uncommitted files of
running writers. Here those are kept until they reach the age of orphan files.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from posixpath import dirname
from typing import TypeAlias

import polars as pl

from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument, Unsupported
from morrow.engine.format.blobs import PACK_SUFFIX
from morrow.engine.format.manifest import decode_index_manifest, decode_manifest_lists, decode_outlines
from morrow.engine.format.manifest_entries import MANIFEST_LIST_COLUMNS
from morrow.engine.format.paths import EARLIEST, LATEST, MAIN_BRANCH, parse_numbered
from morrow.engine.format.snapshot import Snapshot, parse_snapshot
from morrow.engine.io.resolve import is_link
from morrow.engine.io.store import FileStatus, FileStore
from morrow.engine.names import NEEDED
from morrow.engine.options.retention import parse_expire_options
from morrow.engine.plan.changelogs import build_changelog_folder, build_changelog_path, list_changelog_ids
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.manifests import Decode, Stored, decode_files, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata, read_hint
from morrow.engine.plan.references import get_changelog_lists, get_data_lists
from morrow.engine.plan.roots import Root, RootKind
from morrow.engine.redaction import escape_to_line, get_logger
from morrow.engine.structs import replace
from morrow.engine.units import format_count
from morrow.writers.commit.attempt_log import LOG_PREFIX
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.history.branches import check_unused, delete_branch
from morrow.writers.history.file_listing import (
    COLUMNS,
    ENTRY_COLUMNS,
    NAME,
    PATH,
    SIZE,
    FolderListing,
    Listing,
    PackReferences,
    Place,
    find_places,
)
from morrow.writers.history.iceberg_metadata import publish_quietly
from morrow.writers.history.load_history import Record
from morrow.writers.history.snapshot_expiry import expire_snapshots
from morrow.writers.history.tags import delete_tags
from morrow.writers.history.tombstones import finish_removals, retire_file
from morrow.writers.target import WriteTarget

DEFAULT_AGE_MILLIS = 24 * 60 * 60 * 1000
MAX_DELETIONS_AT_ONCE = 1000
MAX_ROOTS_AGE_SECONDS = 1.0
"""Seconds for which deletions rely on the roots read last: about as long as one bulk deletion takes."""
HASH = "hash"
MAX_READ_TRIES = 10
"""How often roots are read again if some were removed during the read."""

log = get_logger(__name__)

MakeListing: TypeAlias = Callable[[FileStore, Sequence[Place], int], Listing]


@dataclass(frozen=True)
class OrphanFiles:
    """Orphan files: their paths or URLs, sorted, and their size in bytes. `removed`: whether they were removed.

    `not_looked_at` are external paths of the table that are not in ``allowed_roots``, and were not searched.
    """

    paths: tuple[str, ...]
    bytes: int
    removed: bool = False
    not_looked_at: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        done = "removed" if self.removed else "found, none removed"
        named = "".join(f"\n  {escape_to_line(path)}" for path in self.paths[:10])
        more = f"\n  ... {self.count - 10} more" if self.count > 10 else ""
        left = "".join(f"\n  not looked at: {escape_to_line(path)}" for path in self.not_looked_at)
        return f"OrphanFiles: {self.count} files, {self.bytes:,} bytes, {done}{named}{more}{left}"


def remove_orphan_files(
    metadata: TableMetadata,
    *,
    older_than_millis: int | None = None,
    dry_run: bool = True,
    listing: MakeListing = FolderListing,
) -> OrphanFiles:
    """Remove the files of the table and all its branches that no metadata names.

    Bucket and partition folders that become empty, or have been empty since that moment, are removed too.

    Args:
        older_than_millis: only files last changed before this moment (epoch milliseconds); None: a day ago. If a write
            in progress began before this moment, its files are removed. External paths are searched below
            `allowed_roots` of the table's metadata. Only this table may use them, since other tables' files cannot be
            recognized there.
        dry_run: only return the files, without removing them.
        listing: function that makes the listing of folders from the store, the places and the moment.

    Raises:
        InvalidArgument: the moment is not in the past.
        CorruptFile, FileMissing, Unsupported: metadata cannot be read; nothing was removed.
        StorageError: a file could not be removed; others were.
    """
    before = compute_cutoff_millis(older_than_millis)
    tables = list_all_branches(metadata)
    if not dry_run:
        for table in tables.values():
            finish_removals(table, abandoned_before_millis=before)
    main, (found, left) = tables[MAIN_BRANCH], find_places(tables.values())
    packs = PackReferences([main, *(table for table in tables.values() if table is not main)])
    orphans = _Cleaning(main, found, before, dry_run, listing(main.store, found, before), packs).run()
    return replace(orphans, not_looked_at=tuple(left))


def compute_cutoff_millis(older_than_millis: int | None) -> int:
    """Return the moment from which on files are kept. Raises `InvalidArgument` if it is not in the past."""
    now = time.time_ns() // 1_000_000
    if older_than_millis is None:
        return now - DEFAULT_AGE_MILLIS
    if older_than_millis > now:
        raise InvalidArgument("older_than must be past: younger files may be those of a writer that commits later")
    return older_than_millis


@dataclass
class _Cleaning:
    """A removal of orphan files. `seen`: the roots whose names have been read already."""

    table: TableMetadata
    places: Sequence[Place]
    before_millis: int
    dry_run: bool
    listing: Listing
    packs: PackReferences
    seen: frozenset[RootFile] = field(default_factory=frozenset)

    def run(self) -> OrphanFiles:
        there = self.listing.listed()
        attempt_logs = dict(_find_abandoned_attempt_logs(self.table, self.before_millis))
        strays = pl.concat([there.strays, _to_entries(attempt_logs)])
        left = self._find_unused(there.hashes.to_frame(HASH))[HASH]
        orphans = pl.concat([strays, self.listing.paths(left)]) if len(left) else strays
        found = self._remove(orphans.unique(PATH).sort(PATH))
        if not self.dry_run:
            self._remove_folders(there.empty)
            for attempt_log in attempt_logs:
                self.table.store.remove_empty_folder(attempt_log)
            self._remove_folders(found[PATH].str.replace("/[^/]*$", "").unique().to_list())
        if found.height and not self.dry_run:
            log.info("%s: removed %s that nothing named", self.table.where, format_count(found.height, "file"))
        return OrphanFiles(
            tuple(map(self.table.store.url, found[PATH])), int(found[SIZE].sum()), removed=not self.dry_run
        )

    def _find_unused(self, files: pl.DataFrame) -> pl.DataFrame:
        """Return the files (column hash) without those named by roots that were not seen before."""
        for _ in range(MAX_READ_TRIES):
            roots = list_roots(self.table)
            try:
                for names in read_used_names(roots.besides(self.seen), self.packs):
                    files = files.filter(~pl.col(HASH).is_in(names.hash().implode()))
            except FileMissing:
                # A root may have been removed while it was read. Files dropped so far are used by it or by others.
                if list_roots(self.table) == roots:
                    raise
                continue
            self.seen |= roots.files
            if self.packs.is_complete or PATH not in files.columns:
                return files
            return files.filter(~pl.col(PATH).str.ends_with(PACK_SUFFIX))
        raise CommitConflict(f"{self.table.where}: snapshots go faster than they are read; clean at a quieter time")

    def _remove(self, orphans: pl.DataFrame) -> pl.DataFrame:
        """Remove the files, except those named by roots created since; return the removed files."""
        left = orphans.with_columns(pl.col(NAME).hash().alias(HASH))
        if self.dry_run:
            return self._find_unused(left) if left.height else left
        removed, read_at = [], -math.inf
        while left.height:
            if time.monotonic() - read_at >= MAX_ROOTS_AGE_SECONDS:
                read_at = time.monotonic()
                left = self._find_unused(left)  # in all batches, since each root is read only once
            part, left = left[:MAX_DELETIONS_AT_ONCE], left[MAX_DELETIONS_AT_ONCE:]
            if part.height:
                self.table.store.delete_many(part[PATH].to_list())
            removed.append(part)
        return pl.concat(removed) if removed else left

    def _remove_folders(self, folders: Iterable[str]) -> None:
        """Remove empty bucket folders, then partition folders that become empty."""
        own = self.places[0]
        left = set(folders)
        while left:
            frame = pl.DataFrame({PATH: sorted(left)}).with_columns(folder=pl.lit(True))
            known = frame.filter(own.is_data_folder)[PATH].to_list()
            left = {dirname(path) for path in known if self.table.store.remove_empty_folder(path)}


def _to_entries(attempt_logs: Mapping[str, Sequence[FileStatus]]) -> pl.DataFrame:
    rows = [
        (f"{folder}/{entry.name}", entry.name, entry.size) for folder, files in attempt_logs.items() for entry in files
    ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _find_abandoned_attempt_logs(table: TableMetadata, before_millis: int) -> Iterator[tuple[str, list[FileStatus]]]:
    """Yield the folders of attempt logs last added to before this moment (epoch milliseconds), with their files.

    A running job adds to its log with every file that it writes, and stops when the log is gone. So a log is kept as
    long as one of its entries is younger. Uncommitted files named by the log are orphans like any others.
    """
    for folder in table.store.list(table.root):
        if not folder.is_dir or not folder.name.startswith(LOG_PREFIX):
            continue
        path = f"{table.root}/{folder.name}"
        if is_link(table.store, path):
            continue
        entries = table.store.list(path)
        if all(entry.modified_millis < before_millis for entry in entries or [folder]):
            yield path, entries


@dataclass(frozen=True)
class Purged:
    """The result of a purge: names of removed branches, tags and consumers, numbers of removed snapshots and of
    changelogs (including those made of these snapshots), orphan files."""

    branches: tuple[str, ...]
    tags: tuple[str, ...]
    consumers: tuple[str, ...]
    changelogs: int
    snapshots: int
    orphans: OrphanFiles


def purge_table(metadata: TableMetadata, *, older_than_millis: int | None = None) -> Purged:
    """Remove all rows and their history: branches, tags, consumers, changelogs, all snapshots but a new, empty one.

    Schemas and options stay. The next call completes an interrupted one. The rows cannot be restored.

    `older_than_millis`: orphan files older than this are removed too, as in `remove_orphan_files`; None: a day ago.

    Raises:
        InvalidArgument: `metadata` is not of the main branch, an option of the table names one of its branches or has a
            wrong value, or the moment is not in the past; nothing was removed.
        Unsupported: Morrow does not write this table; nothing was removed.
        CommitConflict: other commits were faster each time. StorageError: a file could not be removed; call again.
    """
    branches = metadata.branch_names()
    target = _check_purge(metadata, branches, older_than_millis)
    finish_removals(metadata)
    for branch in branches:
        delete_branch(metadata, branch)
    tags = delete_tags(metadata, metadata.tag_names())
    known = Consumers(metadata)
    consumers = [name for name in known.all() if known.delete(name)]
    Record.forget(metadata, 0)
    if metadata.latest_snapshot() is not None:
        TableCommit(target).truncate()
        publish_quietly(metadata)
    now = time.time_ns() // 1_000_000
    snapshots = expire_snapshots(metadata, retain_max=1, retain_min=1, older_than_millis=now)
    changelogs = _remove_changelogs(metadata)  # including changelogs that expiry made of snapshots
    orphans = remove_orphan_files(metadata, older_than_millis=older_than_millis, dry_run=False)
    return Purged(tuple(branches), tuple(tags), tuple(consumers), changelogs, snapshots, orphans)


def _check_purge(metadata: TableMetadata, branches: Sequence[str], older_than_millis: int | None) -> WriteTarget:
    """Return the target through which to empty the table; raise errors that would otherwise interrupt the purge."""
    if metadata.branch != MAIN_BRANCH:
        raise InvalidArgument(f"{metadata.where}: a purge removes all branches; call it on the main branch")
    for branch in branches:
        check_unused(metadata, branch, "removed")
    parse_expire_options(metadata.newest_options(), where=metadata.where)
    compute_cutoff_millis(older_than_millis)
    return WriteTarget.of(metadata)


def _remove_changelogs(metadata: TableMetadata) -> int:
    ids = list_changelog_ids(metadata)
    for changelog_id in ids:
        retire_file(metadata, build_changelog_path(metadata, changelog_id))
    finish_removals(metadata)
    for hint in (EARLIEST, LATEST):
        metadata.store.delete(f"{build_changelog_folder(metadata)}/{hint}")
    return len(ids)


WITH_HINTS = (RootKind.SNAPSHOT, RootKind.CHANGELOG)


@dataclass(frozen=True)
class RootFile:
    """A root as listed. A different size or time (epoch milliseconds) means that it was rewritten."""

    branch: str
    kind: RootKind
    path: str
    size: int
    modified_millis: int


@dataclass(frozen=True)
class RootNames:
    """The names and sizes of a root's manifest lists that must exist, and of its lists that may be gone."""

    snapshot: Snapshot
    needed: tuple[Stored, ...]
    optional: tuple[Stored, ...]
    needs_index: bool


def list_all_branches(metadata: TableMetadata) -> dict[str, TableMetadata]:
    """Return the main branch and all others, by name.

    Raises `Unsupported`: a branch lacks a schema, so the locations of its files are unknown.
    """
    main = metadata.at_branch(MAIN_BRANCH)
    found = {MAIN_BRANCH: main}
    for name in main.branch_names():
        branch = metadata.at_branch(name)
        if branch.schema_ids():
            found[name] = branch
        elif name in main.branch_names():  # otherwise it was deleted after it was listed
            raise Unsupported(
                "a branch without a schema, whose files are not known (nothing was removed),",
                where=branch.paths.branch_root,
                hint="a crash while it was made leaves one; look at the folder, and delete it if nobody needs it",
            )
    return found


@dataclass(frozen=True)
class Roots:
    """All roots of a table, as listed, and per branch and kind the id below which roots are being removed."""

    tables: Mapping[str, TableMetadata]
    files: frozenset[RootFile]
    earliest: Mapping[tuple[str, RootKind], int]

    def besides(self, seen: frozenset[RootFile]) -> Roots:
        """Return the roots without `seen`."""
        return replace(self, files=self.files - seen)


def list_roots(metadata: TableMetadata) -> Roots:
    """Return the current roots. Raises as `list_all_branches`."""
    tables = list_all_branches(metadata)
    files = frozenset(
        RootFile(table.branch, kind, f"{folder}/{status.name}", status.size, status.modified_millis)
        for table in tables.values()
        for kind in RootKind
        for folder in (f"{table.paths.branch_root}/{kind}",)
        for status in table.store.list(folder)
        if _is_root(kind, status.name) and not status.is_dir
    )
    earliest = {(name, kind): _read_earliest(table, kind) for name, table in tables.items() for kind in WITH_HINTS}
    return Roots(tables, files, earliest)


def _is_root(kind: RootKind, name: str) -> bool:
    return name.startswith("tag-") if kind == RootKind.TAG else parse_numbered(name, f"{kind}-") is not None


def read_root_names(roots: Roots) -> Iterator[RootNames]:
    """Yield the names in these roots, leaving out roots that were removed meanwhile.

    Raises `CorruptFile`, `Unsupported`: a root that cannot be read.
    """
    for file in sorted(roots.files, key=lambda file: file.path):
        table = roots.tables[file.branch]
        try:
            snapshot = parse_snapshot(table.store.read(file.path), file.path)
        except FileMissing:
            continue
        is_going = snapshot.id < roots.earliest.get((file.branch, file.kind), 0)
        root = Root(table, file.kind, snapshot)
        # The data lists of a changelog without a changelog list may be gone. Whether it had no changes (with a
        # changelog producer) or its data files are the changelog depends on the options at that time.
        data = () if file.kind == RootKind.CHANGELOG else get_data_lists(root)
        needed = () if is_going else (*data, *get_changelog_lists(root))
        optional = tuple(one for one in _list_manifest_lists(snapshot) if one not in needed)
        yield RootNames(snapshot, needed, optional, needs_index=file.kind != RootKind.CHANGELOG and not is_going)


def _list_manifest_lists(snapshot: Snapshot) -> Iterator[Stored]:
    yield snapshot.base_manifest_list, snapshot.base_manifest_list_size
    yield snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    if snapshot.changelog_manifest_list is not None:
        yield snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size


def _read_earliest(table: TableMetadata, kind: RootKind) -> int:
    """Return the id below which roots of a branch are being removed."""
    folder = f"{table.paths.branch_root}/{kind}"
    hint = read_hint(table.store, f"{folder}/{EARLIEST}") or 0
    return hint if table.store.exists(f"{folder}/{kind}-{hint}") else 0


MAX_FILES_AT_ONCE = 256
MAX_MANIFEST_BYTES_AT_ONCE = 32 << 20
MANIFEST_COLUMNS = ("_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES")


def read_used_names(roots: Roots, packs: PackReferences) -> Iterator[pl.Series]:
    """Yield the names of the files that these roots need, as String series that may repeat names; `packs` reads more.

    Memory holds the names of all manifests, and the entries of several manifests at a time.

    Raises:
        CorruptFile, Unsupported: metadata cannot be read. FileMissing: a file that a root needs is gone; the table is
            damaged, unless the root itself was removed meanwhile.
    """
    table = next(iter(roots.tables.values()))
    found = list(read_root_names(roots))
    yield pl.Series([name for one in found for name in _list_own_names(one)], dtype=pl.String)
    for frames in _read_index_files(table, found):
        yield pl.concat(frame["_FILE_NAME"] for frame in frames)
    manifests = _list_manifests(table, found)
    yield manifests["_FILE_NAME"]
    for _, piece in manifests.group_by(pl.col("_FILE_SIZE").cum_sum() // MAX_MANIFEST_BYTES_AT_ONCE, NEEDED):
        entries = [frame.select(ENTRY_COLUMNS) for frame in _read_entries(table, piece)]
        if entries:
            together = pl.concat(entries)
            yield together["_FILE_NAME"]
            yield together["_EXTRA_FILES"].explode(empty_as_null=False).drop_nulls()
            yield packs.list_names(together)


def _list_own_names(one: RootNames) -> Iterator[str]:
    yield from (name for name, _ in (*one.needed, *one.optional))
    yield from (name for name in (one.snapshot.index_manifest, one.snapshot.statistics) if name is not None)


def _read_index_files(table: TableMetadata, found: Sequence[RootNames]) -> Iterator[Sequence[pl.DataFrame]]:
    needs = [(one.snapshot.index_manifest, one.needs_index) for one in found]
    needed = {(name, None) for name, is_needed in needs if name is not None and is_needed}
    others = {(name, None) for name, _ in needs if name is not None} - needed
    yield from _read(table, needed, _decode_indexes, missing_ok=False)
    yield from _read(table, others, _decode_indexes, missing_ok=True)


def _decode_indexes(files: Sequence[tuple[bytes, str]]) -> list[pl.DataFrame]:
    return [decode_index_manifest(*file) for file in files]


def _list_manifests(table: TableMetadata, found: Sequence[RootNames]) -> pl.DataFrame:
    """Return the distinct manifests, columns `MANIFEST_COLUMNS` and __needed (whether any root needs them)."""
    needed = {stored for one in found for stored in one.needed}
    others = {stored for one in found for stored in one.optional} - needed
    known = pl.DataFrame(
        schema={**{name: MANIFEST_LIST_COLUMNS[name] for name in MANIFEST_COLUMNS}, NEEDED: pl.Boolean}
    )
    for lists, is_needed in ((needed, True), (others, False)):
        for frames in _read(table, lists, decode_manifest_lists, missing_ok=not is_needed):
            more = [frame.select(*MANIFEST_COLUMNS, pl.lit(is_needed).alias(NEEDED)) for frame in frames]
            known = pl.concat([known, *more]).unique("_FILE_NAME", keep="first", maintain_order=True)
    return known


def _read_entries(table: TableMetadata, piece: pl.DataFrame) -> Iterable[pl.DataFrame]:
    if piece[NEEDED].all():
        return read_manifest_entries(table, piece, outlines=True)
    names = set(piece.select("_FILE_NAME", "_FILE_SIZE").iter_rows())
    return itertools.chain.from_iterable(_read(table, names, decode_outlines, missing_ok=True))


def _read(
    table: TableMetadata, names: Set[Stored], decode: Decode, *, missing_ok: bool
) -> Iterator[Sequence[pl.DataFrame]]:
    """Yield the frames of files of the folder ``manifest``, up to `MAX_FILES_AT_ONCE` of them at a time."""
    # Sorted, so that errors always name the same one of several damaged files.
    files = [(table.paths.manifest(name), size) for name, size in sorted(names, key=lambda one: (one[0], one[1] or 0))]
    for start in range(0, len(files), MAX_FILES_AT_ONCE):
        found = decode_files(table, files[start : start + MAX_FILES_AT_ONCE], decode, missing_ok=missing_ok)
        if found:
            yield [*found.values()]
