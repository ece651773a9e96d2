"""The work of the tasks that list folders: hashes and matches names where they are found."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.io.resolve import resolve
from morrow.engine.io.store import FileStatus
from morrow.writers.cleaning.listing import Listed, files_of, listed_in, together
from morrow.writers.cleaning.places import Place, piece_of

PROBE = "data-00000000-0000-0000-0000-000000000000-0.parquet"
"""A name whose hash is compared with the driver's: results of processes that hash differently are refused."""
_LISTED = pa.schema(
    [("hashes", pa.binary()), ("strays", pa.binary()), ("empty", pa.list_(pa.string())), ("check", pa.int64())]
)
_PATHS = pa.schema([("files", pa.binary())])


@dataclass(frozen=True)
class Folder:
    """A folder that is listed with its whole subtree: the number of its place, its path, and its own status."""

    place: int
    path: str
    status: FileStatus


@dataclass(frozen=True)
class ListingJob:
    """The common part of all tasks, and the folders of each, without a store's secrets: see `morrow.secrets`."""

    location: str
    storage_options: Mapping[str, str] = field(repr=False)
    places: tuple[Place, ...]
    before_millis: int
    tasks: tuple[tuple[Folder, ...], ...] = field(repr=False)

    def pieces(self, folder: Folder) -> Iterator[pl.DataFrame]:
        """Yields the subtree of a folder, then the folder itself, in the order of walks."""
        store = resolve(self.location or "/", self.storage_options)[0]
        # Object stores have no folders, so none is empty.
        own = [(folder.path, folder.status)] if store.is_local else []
        walk = self.places[folder.place].walk(store, self.before_millis, folder.path)
        yield from chain(walk, [piece_of(own, self.before_millis)])


def listed(job: ListingJob, number: int) -> Iterator[pa.RecordBatch]:
    """Yields the contents of the folders of one task, in one row of `LISTED`."""
    found = together(
        listed_in(job.places[folder.place], job.pieces(folder), job.before_millis) for folder in job.tasks[number]
    )
    row = {
        "hashes": found.hashes.to_numpy().tobytes(),
        "strays": packed(found.strays),
        "empty": found.empty,
        "check": probe(),
    }
    yield pa.RecordBatch.from_pylist([row], _LISTED)


def paths(job: ListingJob, number: int, hashes: bytes) -> Iterator[pa.RecordBatch]:
    """Yields the old files whose names have these hashes, in rows of `PATHS`."""
    wanted = hashes_of(hashes)
    for folder in job.tasks[number]:
        for piece in job.pieces(folder):
            found = files_of(job.places[folder.place], piece, wanted)
            if found.height:
                yield pa.RecordBatch.from_pylist([{"files": packed(found)}], _PATHS)


def taken(rows: Sequence[tuple[bytes, bytes, Sequence[str]]]) -> Listed:
    """Returns the listing by tasks, from the first three columns of their rows."""
    return together(Listed(hashes_of(hashes), unpacked(strays), list(empty)) for hashes, strays, empty in rows)


def probe() -> int:
    """Returns the hash of `PROBE` in this process, as a number that Spark has a type for."""
    return int(pl.Series([PROBE]).hash().reinterpret(signed=True)[0])


def hashes_of(data: bytes) -> pl.Series:
    """Returns hashes, 8 bytes each, as UInt64."""
    return pl.Series(np.frombuffer(data, np.uint64), dtype=pl.UInt64)


def packed(frame: pl.DataFrame) -> bytes:
    """Returns a frame as Arrow IPC."""
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="lz4")
    return buffer.getvalue()


def unpacked(data: bytes) -> pl.DataFrame:
    """Returns the frame from the bytes of `packed`."""
    return pl.read_ipc(io.BytesIO(data))
