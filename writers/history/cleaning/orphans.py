"""Removal of orphan files: those that no snapshot, changelog, tag or branch names, as left by killed writers.

The files of a running writer are kept by their age: nothing names them until they are committed. So only files older
than a limit are examined, which must be longer than any write takes from its first file to its commit. The files of
concurrent commits are kept by the order of the steps:

1. walk the folders, and collect the old files: hashes of names, 8 bytes per file;
2. read the names in all roots, and drop these;
3. walk again for the paths of the remaining files, usually none;
4. before files are deleted, and again when that was a second ago, read the roots that are new, and drop the files
   that they name from all that are left.

Metadata that cannot be read ends the run with nothing removed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import dirname
from typing import TypeAlias

import polars as pl

from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.io.confined import is_link
from morrow.engine.io.store import FileStatus, FileStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.telling import logger, one_line
from morrow.engine.values import replace
from morrow.engine.wording import plural
from morrow.writers.commit.attempt_log import PREFIX
from morrow.writers.history.cleaning.listing import FOUND, FolderListing, Listing
from morrow.writers.history.cleaning.places import NAME, PATH, SIZE, Place, places
from morrow.writers.history.cleaning.roots import RootFile, branches, roots_of
from morrow.writers.history.cleaning.used import used_names
from morrow.writers.history.tombstones import finish_removals

DEFAULT_AGE_MILLIS = 24 * 60 * 60 * 1000
DELETED_AT_ONCE = 1000
FRESH_SECONDS = 1.0
"""How long deletions rely on the roots that were read last: as long as one deletion of so many files may take."""
HASH = "hash"
READING_TRIES = 10
"""How often roots are read anew when some were removed meanwhile."""

log = logger(__name__)

MakeListing: TypeAlias = Callable[[FileStore, Sequence[Place], int], Listing]


@dataclass(frozen=True)
class OrphanFiles:
    """Orphan files: their paths or URLs, sorted, and their size in bytes. `removed`: whether they were removed.

    `not_looked_at` are external paths of the table that the caller did not name in ``allowed_roots``.
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
        named = "".join(f"\n  {one_line(path)}" for path in self.paths[:10])
        more = f"\n  ... {self.count - 10} more" if self.count > 10 else ""
        left = "".join(f"\n  not looked at: {one_line(path)}" for path in self.not_looked_at)
        return f"OrphanFiles: {self.count} files, {self.bytes:,} bytes, {done}{named}{more}{left}"


def remove_orphan_files(
    metadata: TableMetadata,
    *,
    older_than_millis: int | None = None,
    dry_run: bool = True,
    listing: MakeListing = FolderListing,
) -> OrphanFiles:
    """Finds the files of the table, with all its branches, that nothing names, and removes them.

    Folders of buckets and partitions that are empty then are removed too, and those that have been empty for as long.

    Args:
        older_than_millis: only files last changed before this moment (epoch milliseconds); None: a day ago. A moment
            later than the begin of a write in progress removes files of that write. External paths are searched below
            `allowed_roots` of the table's metadata. They must be this table's alone: files of others there cannot be
            told from its own.
        dry_run: only return the files, without removing them.
        listing: makes the listing of folders from the store, the places and the moment.

    Raises:
        InvalidArgument: a moment that is not past.
        CorruptFile, FileMissing, Unsupported: metadata that cannot be read; nothing was removed.
        StorageError: a file could not be removed; others were.
    """
    before = oldest_kept_millis(older_than_millis)
    tables = branches(metadata)
    if not dry_run:
        for table in tables.values():
            finish_removals(table, abandoned_before_millis=before)
    main, (found, left) = tables[MAIN_BRANCH], places(tables.values())
    orphans = _Cleaning(main, found, before, dry_run, listing(main.store, found, before)).run()
    return replace(orphans, not_looked_at=tuple(left))


def oldest_kept_millis(older_than_millis: int | None) -> int:
    """Returns the moment from which on files are kept. Raises `InvalidArgument` for one that is not past."""
    now = time.time_ns() // 1_000_000
    if older_than_millis is None:
        return now - DEFAULT_AGE_MILLIS
    if older_than_millis > now:
        raise InvalidArgument("older_than must be past: younger files may be those of a writer that commits later")
    return older_than_millis


@dataclass
class _Cleaning:
    """One run of the cleaning. `seen`: the roots whose files are known to be used."""

    table: TableMetadata
    places: Sequence[Place]
    before_millis: int
    dry_run: bool
    listing: Listing
    seen: frozenset[RootFile] = field(default_factory=frozenset)

    def run(self) -> OrphanFiles:
        there = self.listing.listed()
        attempt_logs = dict(_abandoned_attempt_logs(self.table, self.before_millis))
        strays = pl.concat([there.strays, _entries(attempt_logs)])
        left = self._unused(there.hashes.to_frame(HASH))[HASH]
        orphans = pl.concat([strays, self.listing.paths(left)]) if len(left) else strays
        found = self._removed(orphans.unique(PATH).sort(PATH))
        if not self.dry_run:
            self._remove_folders(there.empty)
            for attempt_log in attempt_logs:
                self.table.store.remove_empty_folder(attempt_log)
            self._remove_folders(found[PATH].str.replace("/[^/]*$", "").unique().to_list())
        if found.height and not self.dry_run:
            log.info("%s: removed %s that nothing named", self.table.where, plural(found.height, "file"))
        return OrphanFiles(
            tuple(map(self.table.store.url, found[PATH])), int(found[SIZE].sum()), removed=not self.dry_run
        )

    def _unused(self, files: pl.DataFrame) -> pl.DataFrame:
        """Drops the rows (column hash, of names) that a root not seen before names; returns the others."""
        for _ in range(READING_TRIES):
            roots = roots_of(self.table)
            try:
                for names in used_names(roots.besides(self.seen)):
                    files = files.filter(~pl.col(HASH).is_in(names.hash().implode()))
            except FileMissing:
                # A root may have been removed while it was read. Files dropped so far are used by it or by others.
                if roots_of(self.table) == roots:
                    raise
                continue
            self.seen |= roots.files
            return files
        raise CommitConflict(f"{self.table.where}: snapshots go faster than they are read; clean at a quieter time")

    def _removed(self, orphans: pl.DataFrame) -> pl.DataFrame:
        """Removes the files that no root created since names; returns them."""
        left = orphans.with_columns(pl.col(NAME).hash().alias(HASH))
        if self.dry_run:
            return self._unused(left) if left.height else left
        removed, read_at = [], -math.inf
        while left.height:
            if time.monotonic() - read_at >= FRESH_SECONDS:
                read_at = time.monotonic()
                left = self._unused(left)  # of all of them: a root is read once
            part, left = left[:DELETED_AT_ONCE], left[DELETED_AT_ONCE:]
            if part.height:
                self.table.store.delete_many(part[PATH].to_list())
            removed.append(part)
        return pl.concat(removed) if removed else left

    def _remove_folders(self, folders: Iterable[str]) -> None:
        """Removes empty folders of buckets, then those of partitions that become empty."""
        own = self.places[0]
        left = set(folders)
        while left:
            frame = pl.DataFrame({PATH: sorted(left)}).with_columns(folder=pl.lit(True))
            known = frame.filter(own.is_data_folder)[PATH].to_list()
            left = {dirname(path) for path in known if self.table.store.remove_empty_folder(path)}


def _entries(attempt_logs: Mapping[str, Sequence[FileStatus]]) -> pl.DataFrame:
    rows = [
        (f"{folder}/{entry.name}", entry.name, entry.size) for folder, files in attempt_logs.items() for entry in files
    ]
    return pl.DataFrame(rows, schema=FOUND, orient="row")


def _abandoned_attempt_logs(table: TableMetadata, before_millis: int) -> Iterator[tuple[str, list[FileStatus]]]:
    """Yields the folders of attempt logs last added to before this moment (epoch milliseconds), with their files.

    A running job adds to its log with every file that it writes, and stops when the log is gone: a log is kept as long
    as one of its entries is young. Files that it names and no commit does are orphans like others.
    """
    for folder in table.store.list(table.root):
        if not folder.is_dir or not folder.name.startswith(PREFIX):
            continue
        path = f"{table.root}/{folder.name}"
        if is_link(table.store, path):
            continue
        entries = table.store.list(path)
        if all(entry.modified_millis < before_millis for entry in entries or [folder]):
            yield path, entries
