"""The work of the tasks that list folders: hashes and matches names where they are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.io.store import FileStatus, FileStore
from morrow.spark.job.registry import Run, Work
from morrow.spark.job.wire import StoreAccess, decoded, frame_bytes, frame_of, units_in
from morrow.writers.history.cleaning.listing import Listed, files_of, listed_in, together
from morrow.writers.history.cleaning.places import Place, piece_of

PROBE = "data-00000000-0000-0000-0000-000000000000-0.parquet"
"""A name whose hash is compared with the driver's: results of processes that hash differently are refused."""

LISTED = "hashes binary, strays binary, empty array<string>, check bigint"
"""The hashes of a task, 8 bytes each; strays as Arrow IPC; and the hash of `PROBE`."""
PATHS = "files binary"

_LISTED = pa.schema(
    [("hashes", pa.binary()), ("strays", pa.binary()), ("empty", pa.list_(pa.string())), ("check", pa.int64())]
)
_PATHS = pa.schema([("files", pa.binary())])


class Folder(msgspec.Struct, frozen=True, array_like=True):
    """A folder that is listed with its whole subtree: the number of its place, its path, and its own status."""

    place: int
    path: str
    status: FileStatus


@dataclass(frozen=True)
class ListingJob:
    """What all tasks share that list folders; `hashes` (8 bytes each) of the names that are sought, if any."""

    store: StoreAccess
    places: tuple[Place, ...]
    before_millis: int
    hashes: bytes = field(default=b"", repr=False)

    def pieces(self, folder: Folder, store: FileStore) -> Iterator[pl.DataFrame]:
        """Yields the subtree of a folder, then the folder itself, in the order of walks."""
        # Object stores have no folders, so none is empty.
        own = [(folder.path, folder.status)] if store.is_local else []
        walk = self.places[folder.place].walk(store, self.before_millis, folder.path)
        yield from chain(walk, [piece_of(own, self.before_millis)])


def list_folders(job: ListingJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the contents of the folders of one task, in one row of `LISTED`."""
    store = job.store.store()
    found = together(
        listed_in(job.places[folder.place], job.pieces(folder, store), job.before_millis) for folder in _folders(units)
    )
    row = {
        "hashes": found.hashes.to_numpy().tobytes(),
        "strays": frame_bytes(found.strays),
        "empty": found.empty,
        "check": probe(),
    }
    yield pa.RecordBatch.from_pylist([row], _LISTED)


def find_files(job: ListingJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the old files whose names have the job's hashes, in rows of `PATHS`."""
    store, wanted = job.store.store(), hashes_of(job.hashes)
    for folder in _folders(units):
        for piece in job.pieces(folder, store):
            found = files_of(job.places[folder.place], piece, wanted)
            if found.height:
                yield pa.RecordBatch.from_pylist([{"files": frame_bytes(found)}], _PATHS)


def _folders(units: Iterable[pa.RecordBatch]) -> list[Folder]:
    return [decoded(unit, Folder) for unit in units_in(units)]


def taken(rows: Sequence[tuple[bytes, bytes, Sequence[str]]]) -> Listed:
    """Returns the listing by tasks, from the first three columns of their rows."""
    return together(Listed(hashes_of(hashes), frame_of(strays), list(empty)) for hashes, strays, empty in rows)


def probe() -> int:
    """Returns the hash of `PROBE` in this process, as a number that Spark has a type for."""
    return int(pl.Series([PROBE]).hash().reinterpret(signed=True)[0])


def hashes_of(data: bytes) -> pl.Series:
    """Returns hashes, 8 bytes each, as UInt64."""
    return pl.Series(np.frombuffer(data, np.uint64), dtype=pl.UInt64)


WORKS: Mapping[Work, Run] = {Work.LIST: list_folders, Work.FIND: find_files}
