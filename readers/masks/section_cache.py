"""The cache of sections in memory and in a folder, and masks as bits.

All values in memory share the bound of `SECTIONS`. Those of large sections are in the cache folder, too, where other
processes find them. `SectionValues` looks up one kind of values in both places, and the section of an earlier snapshot
from which they can be derived.

The name of an entry of the folder covers everything that its value depends on: the merge, the schema and the files.
Files are identified by their metadata and, on a local disk, by their file system attributes. Reads that check pages do
not use the folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.format import arrow_buffers
from morrow.engine.format.arrow_buffers import make_series, to_series
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.cache_folder import CacheFolder, compute_digest, find_cache_folder, store_entry
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.masks.section_keys import KeyRange, SectionKeys


def pack_mask(mask: pl.Series | None) -> bytes | None:
    """Return a mask as bits."""
    return None if mask is None else np.packbits(mask.to_numpy(), bitorder="little").tobytes()


def unpack_mask(bits: bytes | None, rows: int) -> pl.Series | None:
    """Return the mask of `rows` rows that `pack_mask` packed."""
    if bits is None:
        return None
    return to_series(pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bits)]))


def make_uniform_mask(value: bool, rows: int) -> pl.Series:
    """Return a mask of `rows` rows with the same value; `pl.repeat` would run a query."""
    data = np.full(-(-rows // 8), 255 * value, np.uint8)
    return to_series(pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(data)]))


Rows = npt.NDArray[np.bool_]


def to_mask(rows: Rows, *, absent: bool) -> pl.Series | None:
    """Return the rows as a mask; None if all rows are `absent`."""
    return None if (rows.all() if absent else not rows.any()) else make_series(rows)


class MaskBuilder:
    """A builder of one boolean per row of each file, `blank` until it is set; threads may set disjoint ranges at once.

    The mask of a file whose rows are all `absent` is None.
    """

    def __init__(self, keys: SectionKeys, *, blank: bool, absent: bool) -> None:
        self._blank, self._absent = blank, absent
        self._heights = [file.row_count for file in keys.files]
        self._left = Counter(number for part in keys.ranges for number in part.files)
        self._rows: dict[int, Rows] = {}
        self._masks: dict[int, pl.Series | None] = {}
        self._lock = Lock()

    def put(self, number: int, places: slice | npt.NDArray[np.integer], values: Rows) -> None:
        """Set the values of rows of one file."""
        with self._lock:
            if number not in self._rows:
                self._rows[number] = np.full(self._heights[number], self._blank)
            rows = self._rows[number]
        rows[places] = values

    def done(self, part: KeyRange) -> None:
        """Finish a range: files that no unfinished range touches are packed to bits."""
        with self._lock:
            self._left.subtract(part.files)
            ended = {number: self._rows.pop(number) for number in part.files if not self._left[number]}
        for number, rows in ended.items():
            self._masks[number] = to_mask(rows, absent=self._absent)

    def masks(self) -> list[pl.Series | None]:
        """Return a mask for each file, oldest first."""
        return [self._masks[i] if i in self._masks else self._make_untouched(n) for i, n in enumerate(self._heights)]

    def _make_untouched(self, height: int) -> pl.Series | None:
        return None if self._blank == self._absent else make_uniform_mask(self._blank, height)


SECTIONS: ByteCache[Any] = ByteCache(768 << 20)
"""Values of all tables' sections, by the kind of value and everything it depends on; `capacity` can be set, in
bytes. Data files are immutable, so a value is never stale. It is dropped with the newest file of its section."""

MIN_CACHED_ROWS = 1 << 17
"""Minimum rows of a section or file in the folder; reading smaller ones is as fast as reading the folder."""
MAX_FRAME_BYTES = 96 << 20
"""Maximum memory of a frame in the folder; larger frames are not saved."""
MIN_ROWS_PER_CHANGE = 8
"""Derive values only if at most 1/8 of a section's rows are in added or removed files. Beyond that, reading all of it
again is as fast."""
MAX_SECTIONS_PER_BUCKET = 4
"""Maximum number of remembered sections per bucket, the most recently read."""
FILE_BYTES = 400
"""Approximate memory of one file of a remembered section."""
SMALL_FRAME_BYTES = 1024
"""Memory of an entry of a few rows besides their values: a frame of some columns, an array, and the key."""

FAILURES = (*arrow_buffers.IPC_ERRORS, msgspec.MsgspecError)
"""Errors raised by intact values that another version has written."""

_Value = TypeVar("_Value")
Bits = list[bytes | None]
_BITS = msgspec.msgpack.Decoder(Bits)
_FILES = msgspec.msgpack.Decoder(list[tuple[DataFile, ...]])


class Entry(msgspec.Struct, frozen=True):
    """The name of a cached value in the cache folder."""

    folder: CacheFolder
    key: bytes

    def masks(self, rows: Sequence[int]) -> tuple[pl.Series | None, ...] | None:
        """Return masks with these numbers of rows; None if they are not cached."""
        found = self._decode(_BITS.decode)
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
        return self._decode(arrow_buffers.deserialize_frame)

    def keep_frame(self, frame: pl.DataFrame) -> None:
        if frame.estimated_size() <= MAX_FRAME_BYTES:
            self._keep(lambda: arrow_buffers.serialize_frame(frame))

    def sections(self) -> list[tuple[DataFile, ...]]:
        """Return the files of each known section; empty if no section is known."""
        return self._decode(_FILES.decode) or []

    def keep_sections(self, sections: Sequence[tuple[DataFile, ...]]) -> None:
        self._keep(lambda: msgspec.msgpack.encode(sections))

    def _keep(self, make: Callable[[], bytes]) -> None:
        store_entry(self.folder, self.key, make)

    def _decode(self, decode: Callable[[arrow_buffers.IpcBytes], _Value]) -> _Value | None:
        data = self.folder.get(self.key)
        if data is None:
            return None
        try:
            return decode(data)
        except FAILURES:
            self.folder.discard(self.key)
            return None


class _Known(msgspec.Struct, frozen=True):
    """The sections of a bucket with cached values, the latest read first, and the last one saved to the folder."""

    sections: tuple[Section, ...]
    saved: Section | None


class SectionValues(msgspec.Struct, Generic[_Value], frozen=True):
    """One kind of values of the sections of a table, in memory and in the cache folder.

    `parts` is what a value depends on, in addition to the table's place, the columns of its schema and the section.
    `stored` is what distinguishes values of this kind in the folder; None if they are not stored there. Values are
    saved again once 1/`rows_per_save` of the rows are in files added or removed since the last save.
    """

    kind: str
    plan: ScanPlan
    store: FileStore
    parts: tuple[object, ...]
    stored: tuple[object, ...] | None
    rows_per_save: int
    measure: Callable[[_Value], int]
    load: Callable[[Entry, Section], _Value | None]
    save: Callable[[Entry, _Value], None]

    def find(self, section: Section) -> _Value | None:
        """Return the value of a section from memory, or from the folder; None if it is in neither.

        The folder is not asked if memory has the value of a similar section, since deriving it is faster.
        """
        found: _Value | None = SECTIONS.get(self._key(section))
        if found is None and not self._is_near(section):
            entry = self._find_entry(section)
            found = None if entry is None else self.load(entry, section)
            if found is not None:
                SECTIONS.put(self._key(section), found, self.measure(found), of=section.newest_file)
                self._remember(section, saved=False)
        return found

    def keep(self, section: Section, value: _Value) -> _Value:
        """Cache the value of a section; save it if it differs much from the last one saved."""
        SECTIONS.put(self._key(section), value, self.measure(value), of=section.newest_file)
        entry = self._find_entry(section) if self._is_worth_saving(section) else None
        self._remember(section, saved=entry is not None)
        if entry is not None:
            self.save(entry, value)
        return value

    def find_nearest(self, section: Section) -> tuple[Section, _Value] | None:
        """Return the section with a cached value from which the fewest rows differ, and its value.

        Returns None if too many rows differ. The folder names sections that this process has not seen. Sections that
        are cut are never remembered, since each read may cut them elsewhere.
        """
        if section.cut is not None:
            return None
        known = SECTIONS.get(self._bucket(section))
        sections = self._load_known(section) if known is None else known.sections
        differing = ((_count_differing_rows(base, section), number) for number, base in enumerate(sections))
        for rows, number in sorted(differing):
            if rows * MIN_ROWS_PER_CHANGE > section.row_count:
                break
            found = self.find(sections[number]) if sections[number] != section else None
            if found is not None:
                return sections[number], found
        return None

    def _key(self, section: Section) -> Hashable:
        return make_cache_key(self.kind, self.plan, self.store, *self.parts, section)

    def _bucket(self, section: Section) -> Hashable:
        return make_cache_key(self.kind, self.plan, self.store, *self.parts, section.partition_row, section.bucket)

    def _is_near(self, section: Section) -> bool:
        """Return whether memory has the value of a section from which few rows differ."""
        known = None if section.cut is not None else SECTIONS.get(self._bucket(section))
        return known is not None and any(
            _count_differing_rows(base, section) * MIN_ROWS_PER_CHANGE <= section.row_count
            and SECTIONS.get(self._key(base)) is not None
            for base in known.sections
            if base != section
        )

    def _is_worth_saving(self, section: Section) -> bool:
        known = SECTIONS.get(self._bucket(section))
        if known is None or known.saved is None:
            return True
        return _count_differing_rows(known.saved, section) * self.rows_per_save >= section.row_count

    def _remember(self, section: Section, *, saved: bool) -> None:
        if section.cut is not None:
            return
        key = self._bucket(section)
        known = SECTIONS.get(key) or _Known((), None)
        others = (other for other in known.sections if other != section)
        kept = (section, *others)[:MAX_SECTIONS_PER_BUCKET]
        files = sum(len(each.files) for each in (*kept, known.saved or section))
        value = _Known(kept, section if saved else known.saved)
        SECTIONS.put(key, value, FILE_BYTES * files, of=section.newest_file)
        if saved and (entry := self._find_bucket_entry(section)) is not None:
            entry.keep_sections([tuple(each.files) for each in kept])

    def _find_entry(self, section: Section) -> Entry | None:
        if self.stored is None:
            return None
        return find_entry(self.plan, section, section.files, self.store, self.kind, *self.stored)

    def _find_bucket_entry(self, section: Section) -> Entry | None:
        folder = None if self.stored is None else _open_folder(section, self.store, section.row_count)
        if folder is None:
            return None
        place = _identify_table(self.plan, section, self.store)
        return Entry(folder, compute_digest(*place, "bucket", self.kind, *(self.stored or ())))

    def _load_known(self, section: Section) -> list[Section]:
        entry = self._find_bucket_entry(section)
        return [msgspec.structs.replace(section, files=files) for files in ([] if entry is None else entry.sections())]


def make_cache_key(kind: str, plan: ScanPlan, store: FileStore, *parts: object) -> Hashable:
    """Return the key of a value in `SECTIONS` that depends on `parts`, on the table's place and on its columns.

    Values from files whose checksums were not checked must not serve reads that require the check.
    """
    return kind, store.url(plan.table), store.checks_pages, plan.schema.layout, *parts


def _count_differing_rows(base: Section, section: Section) -> int:
    return sum(file.row_count for file in {*base.files} ^ {*section.files})


def find_entry(
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
