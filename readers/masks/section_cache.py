"""Entries of the cache folder for sections: masks, merged rows, keys of files, and the list of known sections.

The name of an entry covers everything that its value depends on: the merge, the schema and the files. Files are
identified by their metadata and, on a local disk, by their file system attributes. Reads that check pages do not use
the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec
import polars as pl

from morrow.engine.format import arrow_buffers
from morrow.engine.io.cache import CacheFolder, compute_digest, find_cache_folder, store_entry
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.masks.bitmasks import pack_mask, unpack_mask

MIN_CACHED_ROWS = 1 << 17
"""Minimum rows of a cached section or file; reading smaller ones is as fast as reading the folder."""
MAX_FRAME_BYTES = 96 << 20
"""Maximum memory of a cached frame; larger frames are not saved."""

FAILURES = (*arrow_buffers.IPC_ERRORS, msgspec.MsgspecError)
"""Errors raised by intact values that another version has written."""

_Value = TypeVar("_Value")
Bits = list[bytes | None]
_BITS = msgspec.msgpack.Decoder(Bits)
_FILES = msgspec.msgpack.Decoder(list[tuple[DataFile, ...]])


class Entry(msgspec.Struct, frozen=True):
    """The name of a value in the folder."""

    folder: CacheFolder
    key: bytes

    def masks(self, rows: Sequence[int]) -> tuple[pl.Series | None, ...] | None:
        """Return masks with these numbers of rows; None if they are not cached."""
        found = self._decoded(_BITS.decode)
        if found is None:
            return None
        if len(found) != len(rows) or any(b is not None and len(b) != -(-n // 8) for b, n in zip(found, rows)):
            self.folder.discard(self.key)
            return None
        return tuple(unpack_mask(bits, count) for bits, count in zip(found, rows))

    def keep_masks(self, masks: Sequence[pl.Series | None]) -> None:
        self._keep(lambda: msgspec.msgpack.encode([pack_mask(mask) for mask in masks]))

    def frame(self) -> pl.DataFrame | None:
        """Return the cached frame; None if there is none."""
        return self._decoded(arrow_buffers.deserialize_frame)

    def keep_frame(self, frame: pl.DataFrame) -> None:
        if frame.estimated_size() <= MAX_FRAME_BYTES:
            self._keep(lambda: arrow_buffers.serialize_frame(frame))

    def sections(self) -> list[tuple[DataFile, ...]]:
        """Return the files of each known section; empty if no section is known."""
        return self._decoded(_FILES.decode) or []

    def keep_sections(self, sections: Sequence[tuple[DataFile, ...]]) -> None:
        self._keep(lambda: msgspec.msgpack.encode(sections))

    def _keep(self, make: Callable[[], bytes]) -> None:
        store_entry(self.folder, self.key, make)

    def _decoded(self, decode: Callable[[arrow_buffers.IpcBytes], _Value]) -> _Value | None:
        data = self.folder.get(self.key)
        if data is None:
            return None
        try:
            return decode(data)
        except FAILURES:
            self.folder.discard(self.key)
            return None


def find_files_entry(
    plan: ScanPlan, section: Section, files: Sequence[DataFile], store: FileStore, *parts: object
) -> Entry | None:
    """Return the entry of a value made from these files of a section and from `parts`; None if it is not cached."""
    folder = _open_folder(section, store, sum(file.row_count for file in files))
    if folder is None:
        return None
    identities = [_identify_file(file, store) for file in files]
    if any(each is None for each in identities):
        return None
    return Entry(folder, compute_digest(*_identify_table(plan, section, store), identities, *parts))


def find_bucket_entry(plan: ScanPlan, section: Section, store: FileStore, *parts: object) -> Entry | None:
    """Return the entry of a bucket's known sections; None if sections like this one are not cached."""
    folder = _open_folder(section, store, section.row_count)
    return (
        None
        if folder is None
        else Entry(folder, compute_digest(*_identify_table(plan, section, store), "bucket", *parts))
    )


def is_kept(section: Section, store: FileStore) -> bool:
    """Return whether values of a section like this one are cached."""
    return _open_folder(section, store, section.row_count) is not None


def _open_folder(section: Section, store: FileStore, rows: int) -> CacheFolder | None:
    return None if store.checks_pages or section.cut is not None or rows < MIN_CACHED_ROWS else find_cache_folder()


def _identify_table(plan: ScanPlan, section: Section, store: FileStore) -> tuple[object, ...]:
    schema = plan.schema.layout, plan.schema.time_millis
    written = sorted({file.schema_id: plan.file_fields.get(file.schema_id) for file in section.files}.items())
    place = store.url(plan.table), plan.branch, section.partition_row, section.bucket
    options = sorted(plan.file_options.items())
    return *place, *schema, written, options, plan.merge, _identify_hashing()


def _identify_file(file: DataFile, store: FileStore) -> tuple[object, ...] | None:
    if not store.is_local:
        return (file,)
    try:
        status = Path(store.url(file.path)).stat()
    except OSError:
        return None
    return file, status.st_size, status.st_mtime_ns, status.st_ino


@cache
def _identify_hashing() -> tuple[object, ...]:
    """Return values that distinguish Polars versions and processors with different hashes."""
    return pl.__version__, pl.Series(["morrow"]).hash(0).to_list(), pl.Series([1]).hash(0).to_list()
