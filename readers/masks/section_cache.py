"""What the cache folder keeps of sections: masks, merged rows, keys of files, and which sections it knows.

Names are made of all that a value depends on: the files by what metadata says of them and, on a local disk, by what the
file system does; the merge, the schema. Reads that check pages take nothing from the folder and leave nothing in it.
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
"""Sections and files of fewer rows are looked through as fast as the folder is."""
MAX_FRAME_BYTES = 96 << 20
"""Frames that take more memory are not kept."""

FAILURES = (*arrow_buffers.IPC_ERRORS, msgspec.MsgspecError)
"""What values that nobody has damaged raise where another version has written them."""

_Value = TypeVar("_Value")
Bits = list[bytes | None]
_BITS = msgspec.msgpack.Decoder(Bits)
_FILES = msgspec.msgpack.Decoder(list[tuple[DataFile, ...]])


class Entry(msgspec.Struct, frozen=True):
    """The name of a value in the folder."""

    folder: CacheFolder
    key: bytes

    def masks(self, rows: Sequence[int]) -> tuple[pl.Series | None, ...] | None:
        """Return masks of so many rows each; None where they are not kept."""
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
        """Return the frame that is kept; None where there is none."""
        return self._decoded(arrow_buffers.deserialize_frame)

    def keep_frame(self, frame: pl.DataFrame) -> None:
        if frame.estimated_size() <= MAX_FRAME_BYTES:
            self._keep(lambda: arrow_buffers.serialize_frame(frame))

    def sections(self) -> list[tuple[DataFile, ...]]:
        """Return the files of the sections that are known; empty where none is."""
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
    """Return the name of what is made from these files of a section, and of `parts`; None where nothing is kept."""
    folder = _open_folder(section, store, sum(file.row_count for file in files))
    if folder is None:
        return None
    identities = [_identify_file(file, store) for file in files]
    if any(each is None for each in identities):
        return None
    return Entry(folder, compute_digest(*_identify_table(plan, section, store), identities, *parts))


def find_bucket_entry(plan: ScanPlan, section: Section, store: FileStore, *parts: object) -> Entry | None:
    """Return the name of what is known of a bucket; None where nothing is kept of sections like this one."""
    folder = _open_folder(section, store, section.row_count)
    return (
        None
        if folder is None
        else Entry(folder, compute_digest(*_identify_table(plan, section, store), "bucket", *parts))
    )


def is_kept(section: Section, store: FileStore) -> bool:
    """Return whether values of a section like this one are kept."""
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
    """Tell versions of Polars, and processors, that hash differently."""
    return pl.__version__, pl.Series(["morrow"]).hash(0).to_list(), pl.Series([1]).hash(0).to_list()
