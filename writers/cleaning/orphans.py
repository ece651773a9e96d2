"""Files that nobody needs: those that no snapshot, changelog, tag or branch names, as killed writers leave them.

What keeps a running writer's files is their age: they are named by nothing until they are committed. So only files
older than a limit are looked at, which must be longer than any write takes from its first file to its commit. What
others commit meanwhile is kept by the order of things:

1. walk the folders, and remember what is old: hashes of names, 8 bytes a file;
2. read what all roots name, and forget that;
3. walk again for the paths of what is left, which is nothing as a rule;
4. before each deletion look for roots that came since, and forget what they name.

Whatever cannot be read ends the run with nothing removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import dirname
from typing import TypeAlias

import polars as pl

from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.io.store import FileStatus, FileStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.cleaning.ledgers import abandoned_ledgers
from morrow.writers.cleaning.listing import FOUND, FolderListing, Listing
from morrow.writers.cleaning.places import NAME, PATH, SIZE, Place, places
from morrow.writers.cleaning.roots import RootFile, branches, roots_of
from morrow.writers.cleaning.used import used_names
from morrow.writers.rollback.retired import finish_retired

DEFAULT_AGE_MILLIS = 24 * 60 * 60 * 1000
DELETED_AT_ONCE = 1000
HASH = "hash"
READING_TRIES = 10
"""How often roots are read anew because some have gone meanwhile."""

MakeListing: TypeAlias = Callable[[FileStore, Sequence[Place], int], Listing]


@dataclass(frozen=True)
class OrphanFiles:
    """Orphan files: their paths or URLs, sorted, and their size in bytes. `removed`: they are gone now."""

    paths: tuple[str, ...]
    bytes: int
    removed: bool = False

    @property
    def count(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        done = "removed" if self.removed else "found, none removed"
        shown = "".join(f"\n  {path}" for path in self.paths[:10])
        more = f"\n  ... {self.count - 10} more" if self.count > 10 else ""
        return f"OrphanFiles: {self.count} files, {self.bytes:,} bytes, {done}{shown}{more}"


def remove_orphan_files(
    metadata: TableMetadata,
    *,
    older_than_millis: int | None = None,
    dry_run: bool = True,
    listing: MakeListing = FolderListing,
) -> OrphanFiles:
    """Find the files of the table, with all its branches, that nothing names, and remove them.

    Folders of buckets and partitions that are empty then go too, and those that have been empty for as long.

    Args:
        older_than_millis: only files last changed before this moment (epoch milliseconds); None: a day ago. A moment
            closer than the longest write in progress takes that write's files away. External paths must be this
            table's alone: files of others there cannot be told from its own.
        dry_run: only tell which they are.
        listing: how folders are listed, made of the store, the places and the moment.

    Raises:
        InvalidArgument: a moment that is not past.
        CorruptFile, FileMissing, Unsupported: metadata that cannot be read; nothing was removed.
        StorageError: a file could not be removed; others were.
    """
    before = oldest_kept_millis(older_than_millis)
    tables = branches(metadata)
    if not dry_run:
        for table in tables.values():
            finish_retired(table, abandoned_before_millis=before)
    main, found = tables[MAIN_BRANCH], places(tables.values())
    return _Cleaning(main, found, before, dry_run, listing(main.store, found, before)).run()


def oldest_kept_millis(older_than_millis: int | None) -> int:
    """The moment from which on files are left alone. Raises `InvalidArgument` for one that is not past."""
    now = time.time_ns() // 1_000_000
    if older_than_millis is None:
        return now - DEFAULT_AGE_MILLIS
    if older_than_millis > now:
        raise InvalidArgument("older_than must be past: younger files may be those of a writer that commits later")
    return older_than_millis


@dataclass
class _Cleaning:
    """One run. `seen`: the roots whose files are known to be used."""

    table: TableMetadata
    places: Sequence[Place]
    before_millis: int
    dry_run: bool
    listing: Listing
    seen: frozenset[RootFile] = field(default_factory=frozenset)

    def run(self) -> OrphanFiles:
        there = self.listing.listed()
        ledgers = dict(abandoned_ledgers(self.table, self.before_millis))
        strays = pl.concat([there.strays, _entries(ledgers)])
        left = self._unused(there.hashes.to_frame(HASH))[HASH]
        orphans = pl.concat([strays, self.listing.paths(left)]) if len(left) else strays
        orphans = orphans.unique(PATH).sort(PATH)
        done = [self._removed(orphans[i : i + DELETED_AT_ONCE]) for i in range(0, orphans.height, DELETED_AT_ONCE)]
        found = pl.concat(done) if done else orphans
        if not self.dry_run:
            self._remove_folders(there.empty)
            for ledger in ledgers:
                self.table.store.remove_empty_folder(ledger)
            self._remove_folders(found[PATH].str.replace("/[^/]*$", "").unique().to_list())
        return OrphanFiles(
            tuple(map(self.table.store.url, found[PATH])), int(found[SIZE].sum()), removed=not self.dry_run
        )

    def _unused(self, files: pl.DataFrame) -> pl.DataFrame:
        """Those of the rows (column hash, of names) that no root names which was not seen before."""
        for _ in range(READING_TRIES):
            roots = roots_of(self.table)
            try:
                for names in used_names(roots.besides(self.seen)):
                    files = files.filter(~pl.col(HASH).is_in(names.hash().implode()))
            except FileMissing:
                # A root may have been given up while it was read. What was dropped so far is used by it or by others.
                if roots_of(self.table) == roots:
                    raise
                continue
            self.seen |= roots.files
            return files
        raise CommitConflict(f"{self.table.where}: snapshots go faster than they are read; clean at a quieter time")

    def _removed(self, orphans: pl.DataFrame) -> pl.DataFrame:
        """Remove those of the files that no root names which came since; returns them."""
        orphans = self._unused(orphans.with_columns(pl.col(NAME).hash().alias(HASH)))
        if not self.dry_run and orphans.height:
            self.table.store.delete_many(orphans[PATH].to_list())
        return orphans

    def _remove_folders(self, folders: Iterable[str]) -> None:
        """Remove empty folders of buckets, then those of partitions that they leave empty."""
        own = self.places[0]
        left = set(folders)
        while left:
            frame = pl.DataFrame({PATH: sorted(left)}).with_columns(folder=pl.lit(True))
            known = frame.filter(own.is_data_folder)[PATH].to_list()
            left = {dirname(path) for path in known if self.table.store.remove_empty_folder(path)}


def _entries(ledgers: Mapping[str, Sequence[FileStatus]]) -> pl.DataFrame:
    rows = [(f"{folder}/{entry.name}", entry.name, entry.size) for folder, files in ledgers.items() for entry in files]
    return pl.DataFrame(rows, schema=FOUND, orient="row")
