"""Listings of the files in a table's folders that are old enough to be orphans: names as hashes, 8 bytes per file.

`FolderListing` walks the folders in this process; the tasks of `morrow.spark.maintenance.listing` do it elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from morrow.engine.io.store import FileStore
from morrow.engine.progress import advance
from morrow.writers.history.cleaning.places import MODIFIED, NAME, PATH, SIZE, Place

FOUND = {PATH: pl.String, NAME: pl.String, SIZE: pl.Int64}


@dataclass(frozen=True)
class Listed:
    """Hashes of the names of all old files (UInt64), old strays (columns `FOUND`), and old folders that are empty."""

    hashes: pl.Series
    strays: pl.DataFrame
    empty: Sequence[str]


class Listing(Protocol):
    """A listing of the old files in some places."""

    def listed(self) -> Listed:
        """Returns the old files, strays and empty folders. Raises `StorageError`."""

    def paths(self, hashes: pl.Series) -> pl.DataFrame:
        """Returns the old files whose names have these hashes, columns `FOUND`. Raises `StorageError`."""


@dataclass(frozen=True)
class FolderListing:
    """A listing that walks the folders of its places in this process."""

    store: FileStore
    places: Sequence[Place]
    before_millis: int

    def listed(self) -> Listed:
        return together(
            listed_in(place, place.walk(self.store, self.before_millis), self.before_millis) for place in self.places
        )

    def paths(self, hashes: pl.Series) -> pl.DataFrame:
        found = [
            files_of(place, piece, hashes)
            for place in self.places
            for piece in place.walk(self.store, self.before_millis)
        ]
        return pl.concat([pl.DataFrame(schema=FOUND), *found])


def listed_in(place: Place, pieces: Iterable[pl.DataFrame], before_millis: int) -> Listed:
    """Collects the old files in the pieces of a walk. A folder is empty when none of the pieces has an entry in it."""
    hashes, strays, folders = [pl.Series(dtype=pl.UInt64)], [pl.DataFrame(schema=FOUND)], []
    parents = pl.Series(dtype=pl.String)
    for piece in pieces:
        advance(files=piece.height)
        old = piece.filter("old")
        hashes.append(old.filter(place.is_file)[NAME].hash())
        strays.append(old.filter(place.is_stray).select(FOUND.keys()))
        folders.append(piece.filter(place.is_data_folder).select(PATH, MODIFIED))
        parents = pl.concat([parents, piece[PATH].str.replace("/[^/]*$", "")]).unique()
    empty: list[str] = []
    if folders:
        unused = pl.col(MODIFIED) < before_millis, ~pl.col(PATH).is_in(parents.implode())
        empty = pl.concat(folders).filter(*unused)[PATH].to_list()
    return Listed(pl.concat(hashes).unique(), pl.concat(strays), empty)


def together(parts: Iterable[Listed]) -> Listed:
    """Combines the listings of several parts of the folders."""
    found = list(parts)
    hashes = [pl.Series(dtype=pl.UInt64), *(part.hashes for part in found)]
    strays = [pl.DataFrame(schema=FOUND), *(part.strays for part in found)]
    return Listed(pl.concat(hashes).unique(), pl.concat(strays), [path for part in found for path in part.empty])


def files_of(place: Place, piece: pl.DataFrame, hashes: pl.Series) -> pl.DataFrame:
    """Returns the old files in a piece of a walk whose names have these hashes, columns `FOUND`."""
    old = piece.filter("old", place.is_file)
    return old.filter(pl.col(NAME).hash().is_in(hashes.implode())).select(FOUND.keys())
