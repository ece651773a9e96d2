"""Live masks of a section's files, from deletion vectors or from the merge of its keys.

In a merge-on-read section the newest version of each key is live; older ones are dead positions.

`split_rows` splits the rows of files by masks while they are read: a stream decodes the files once and holds no other
rows. Columns that are in memory already (keys, if masks were just computed from them) go through the stream beside the
columns of the files, and are not read again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.names import POSITION, cols
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.engine.polars_threads import open_threads
from morrow.engine.structs import replace
from morrow.readers.files.file_frames import is_file_dependent, scan_files, translate_file_errors
from morrow.readers.files.registry import is_scanned
from morrow.readers.masks.incremental import find_changed, patch_masks
from morrow.readers.masks.ordering import find_newest_of_each_key, find_unseen, is_number, sort_by_key, to_comparable
from morrow.readers.masks.section_cache import (
    FILE_BYTES,
    SECTIONS,
    Entry,
    MaskBuilder,
    SectionValues,
    make_uniform_mask,
    to_mask,
)
from morrow.readers.masks.section_keys import RANGE_WORKERS, KeyRange, SectionKeys, order_by_age

Mask: TypeAlias = pl.Series | None
"""Boolean Series, one value per row of the file, true = live; None = every row is live."""

REQUESTS = 16
"""Maximum number of deletion vectors requested at once from a remote store."""
ROWS_PER_SAVED_CHANGE = 64
"""Save masks to the cache folder again once 1/64 of the rows are in files added or removed since the last save."""


def compute_live_masks(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...]:
    """Return one mask per file of `section`, in the order of its files.

    Retractions of RAW sections are not in the masks: the scan filters them by ``_VALUE_KIND``.

    Raises `CorruptFile`: a deletion vector or data file contradicts its metadata.
    """
    if section.kind is SectionKind.MERGE:
        return find_known_masks(plan, section, store) or keep_live_masks(
            plan, section, store, compute_superseded_masks(plan, section, store)
        )
    if section.kind is SectionKind.POSTPONED:
        return (None,) * len(section.files)  # of the sections beneath, see `section_frames`
    deleted = [file for file in section.files if file.deletion is not None]
    if store.is_local or len(deleted) < 2:
        return tuple(_read_deletion_mask(file, store) for file in section.files)
    with open_threads(REQUESTS) as pool:
        masks = dict(
            zip((file.path for file in deleted), pool.map(lambda file: _read_deletion_mask(file, store), deleted))
        )
    return tuple(masks.get(file.path) for file in section.files)


def find_known_masks(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...] | None:
    """Return the masks of a MERGE section if they are cached or can be derived from cached masks; else None."""
    return find_cached_masks(plan, section, store) or _refresh_masks(plan, section, store)


def is_known(plan: ScanPlan, section: Section, store: FileStore) -> bool:
    """Return whether the masks of a MERGE section, or of a similar section, are cached; derives no masks."""
    cache = _open_cache(plan, store)
    return cache.find(section) is not None or cache.find_nearest(section) is not None


def find_cached_masks(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...] | None:
    """Return the masks of a section from memory, or from the cache folder."""
    return _open_cache(plan, store).find(section)


def keep_live_masks(plan: ScanPlan, section: Section, store: FileStore, masks: Sequence[Mask]) -> tuple[Mask, ...]:
    """Cache and return the masks of a MERGE section that a read computed, one for each file."""
    return _open_cache(plan, store).keep(section, tuple(masks))


def _refresh_masks(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...] | None:
    near = _open_cache(plan, store).find_nearest(section)
    found = None if near is None else find_changed(plan, section, near[0], store)
    if near is None or found is None:
        return None
    live = found.newest() or find_live_rows(found.keys, found.deciding, lambda: found.frames)
    return keep_live_masks(plan, section, store, patch_masks(found, near[1], live, blank=True))


def _open_cache(plan: ScanPlan, store: FileStore) -> SectionValues[tuple[Mask, ...]]:
    return SectionValues(
        "merge",
        plan,
        store,
        parts=(plan.merge,),
        stored=(),
        rows_per_save=ROWS_PER_SAVED_CHANGE,
        measure=mask_bytes,
        load=lambda entry, section: entry.masks([file.row_count for file in section.files]),
        save=Entry.keep_masks,
    )


def _read_deletion_mask(file: DataFile, store: FileStore) -> Mask:
    if file.deletion is None:
        return None

    def read() -> tuple[Mask, int]:
        mask = read_deletion(file, store)
        return mask, mask_bytes((mask,))

    key = "deletion", store.url(file.deletion.path), file.deletion.offset, file.deletion.rows, file.row_count
    mask: Mask = SECTIONS.get_or_make(key, read)
    return mask


def read_deletion(file: DataFile, store: FileStore) -> pl.Series:
    """Read the live rows of a file that has a deletion vector.

    Raises:
        CorruptFile: the vector is damaged, or its number of rows or dead rows is wrong.
        FileMissing, StorageError.
    """
    from morrow.engine.format.deletion_vectors import compute_entry_span, read_entry

    reference = file.deletion
    assert reference is not None
    if reference.rows is not None:
        first, last = reference.rows
        positions = np.arange(file.row_count)
        within = make_series((positions >= first) & (positions < last))
        if not reference.path:
            return within
        vector_of_all = replace(reference, cardinality=None, rows=None)
        return within & read_deletion(replace(file, deletion=vector_of_all), store)
    data = store.read_range(reference.path, reference.offset, compute_entry_span(reference.length))
    vector = read_entry(
        data,
        reference.offset,
        reference.length,
        where=reference.path,
        row_count=file.row_count,
        expected_cardinality=reference.cardinality,
        base=reference.offset,
    )
    return make_series(vector.live(file.row_count))


def concat_masks(files: Sequence[DataFile], masks: Sequence[Mask]) -> Mask:
    """Return one mask of all rows of the files, one file after another."""
    if all(mask is None for mask in masks):
        return None
    pieces = [make_uniform_mask(True, f.row_count) if m is None else m for f, m in zip(files, masks)]
    return pl.concat([piece.rename("") for piece in pieces])


def mask_bytes(masks: tuple[pl.Series | None, ...]) -> int:
    """Return the memory of these masks with the section that they are stored for: one bit a row, and objects."""
    return sum(FILE_BYTES + (0 if mask is None else FILE_BYTES + len(mask) // 8) for mask in masks)


T = TypeVar("T")
Live = list[npt.NDArray[np.bool_]]
Unpacked: TypeAlias = Callable[[], Sequence[pl.DataFrame]]


def compute_superseded_masks(plan: ScanPlan, section: Section, store: FileStore) -> tuple[pl.Series | None, ...]:
    """Return one live mask per file: true at the newest version of a key, unless it is a retraction that is dropped.

    Raises `CorruptFile`: a file's row count differs from its manifest entry.
    """
    keys = SectionKeys.of(plan, section, store)
    marks = MaskBuilder(keys, blank=section.cut is None, absent=True)

    def mark(part: KeyRange) -> None:
        read = RangeRows.read(keys, part)
        found = _find_live_in_parts(keys, read.frames) if part.whole else None
        live = found or find_live_rows(keys, read.frames, lambda: RangeRows.read(keys, part, packs=False).frames)
        for place, number in enumerate(part.files):
            marks.put(number, read.places[place], read.spread(place, live[place]))
        marks.done(part)

    keys.each_range(mark)
    by_file = dict(zip(order_by_age(section), marks.masks()))
    return tuple(by_file[i] for i in range(len(section.files)))


def find_places(part: KeyRange, frame: pl.DataFrame) -> slice | npt.NDArray[np.integer]:
    """Return the positions of a range's rows in their file: a slice if the file is sorted."""
    if part.whole or frame.is_empty():
        return slice(0, frame.height)
    places = frame[POSITION].to_numpy()
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places


class RangeRows(msgspec.Struct, frozen=True):
    """The rows of a key range that take part in a merge: `frames` as `SectionKeys.read`, without dead rows.

    For each file, `places` has the positions of all its rows in the range, and `alive` marks those that no deletion
    vector marks as dead (None: all of them).
    """

    frames: Sequence[pl.DataFrame]
    places: Sequence[slice | npt.NDArray[np.integer]]
    alive: Sequence[npt.NDArray[np.bool_] | None]

    @classmethod
    def read(cls, keys: SectionKeys, part: KeyRange, *, packs: bool = True) -> RangeRows:
        """Read a range, with keys packed by `SectionKeys.packing` if `packs`."""
        frames = keys.read(part, keys.packing if packs else None)
        places = [find_places(part, frame) for frame in frames]
        masks = [_read_deletion_mask(keys.files[number], keys.store) for number in part.files]
        alive = [None if mask is None else mask.to_numpy()[rows] for mask, rows in zip(masks, places)]
        kept = [frame if rows is None else frame.filter(make_series(rows)) for frame, rows in zip(frames, alive)]
        return cls(kept, places, alive)

    def spread(self, place: int, values: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return the values of rows in a frame for all rows at its `places`: false for dead rows."""
        alive = self.alive[place]
        if alive is None:
            return values
        spread = np.zeros(len(alive), bool)
        spread[alive] = values
        return spread


class _InexactPackingError(Exception):
    """Error for keys of a part that cannot be packed and are not available unpacked."""


def process_in_parts(
    keys: SectionKeys, frames: Sequence[pl.DataFrame], work: Callable[[Sequence[pl.DataFrame], Unpacked], T]
) -> list[T] | None:
    """Split a whole section into parts, process them concurrently, and return the result for each part.

    The parts share no key; the arguments of `work` are as for `SectionKeys.keyed`. Returns None if the section cannot
    be split, or if the keys of a part cannot be packed.
    """
    parts = keys.parts(frames)
    if len(parts) == 1:
        return None

    def inexact() -> Sequence[pl.DataFrame]:
        raise _InexactPackingError

    try:
        with open_threads(RANGE_WORKERS) as pool:
            return list(pool.map(lambda part: work(part, inexact), parts))
    except _InexactPackingError:
        return None


def _find_live_in_parts(keys: SectionKeys, frames: Sequence[pl.DataFrame]) -> Live | None:
    live = process_in_parts(keys, frames, lambda part, unpacked: find_live_rows(keys, part, unpacked))
    return None if live is None else [np.concatenate(rows) for rows in zip(*live)]


def to_masks(live: Live) -> tuple[pl.Series | None, ...]:
    """Return the live rows of files as masks."""
    return tuple(to_mask(rows, absent=True) for rows in live)


def find_live_rows(keys: SectionKeys, frames: Sequence[pl.DataFrame], unpacked: Unpacked) -> Live:
    """Return for each frame which of its rows are live; arguments as for `SectionKeys.keyed`."""
    alive = _find_unseen(keys, frames)
    if alive is None:
        bounds = np.cumsum([0, *(frame.height for frame in frames)])
        live = find_winners(keys, *keys.keyed(frames, unpacked), [frame.height for frame in frames])
        alive = [live[start:end] for start, end in pairwise(bounds)]
    return alive


def _find_unseen(keys: SectionKeys, frames: Sequence[pl.DataFrame]) -> Live | None:
    """Return the live rows if the order of the files alone decides and keys are close integers; else None."""
    if keys.packing is not None or keys.age or keys.with_kind:
        # Packed keys are numbers too, but only `SectionKeys.keyed` checks that they distinguish the keys.
        return None
    by_key = [to_comparable(frame.select(cols(keys.spec.key))) for frame in reversed(frames)]
    if not all(map(is_number, by_key)):
        return None
    newest_first = find_unseen([frame.to_series().to_numpy() for frame in by_key])
    return None if newest_first is None else newest_first[::-1]


def find_winners(
    keys: SectionKeys, versions: pl.DataFrame, by_key: pl.DataFrame, runs: Sequence[int]
) -> npt.NDArray[np.bool_]:
    """Return for each version whether it is live."""
    candidates: npt.NDArray[np.integer] | None = None
    if keys.with_kind and keys.spec.ignore_delete:
        counted = (versions[VALUE_KIND].to_numpy() & RETRACT_BIT) == 0
        if keys.spec.keeps_retractions:
            counted |= _find_unshared(by_key)  # Paimon does not merge single versions, so it does not ignore them
        candidates = np.flatnonzero(counted)
        versions, by_key = versions[candidates], by_key[candidates]
    heights = runs if candidates is None else None
    newest = find_newest_of_each_key(by_key, versions.select(cols(keys.age)), keys.descending, heights)
    if keys.with_kind and not keys.spec.keeps_retractions:
        newest &= (versions[VALUE_KIND].to_numpy() & RETRACT_BIT) == 0
    if candidates is None:
        return newest
    live = np.zeros(sum(runs), bool)
    live[candidates[newest]] = True
    return live


def _find_unshared(by_key: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Return for each row whether no other row has its key."""
    order, starts = sort_by_key(by_key, pl.DataFrame(), ())
    alone = np.zeros(by_key.height, bool)
    alone[order[starts[np.diff(np.append(starts, len(order))) == 1]]] = True
    return alone


MIN_SPLIT_ROWS = 1 << 16
"""Minimum rows of a section to read other columns separately from the keys. Below this, one read of all columns is
faster."""


def read_first(keys: SectionKeys, names: Sequence[str]) -> list[str]:
    """Return the deciding columns among `names`: they are read first, and `split_rows` adds the others for wanted rows.

    Returns all of `names` if rows are few, or if files are remote or lack a scan of their own.
    """
    near = keys.store.is_local and all(is_scanned(file.format, file.path) for file in keys.files)
    if not near or keys.section.row_count < MIN_SPLIT_ROWS:
        return list(names)
    deciding = {field.name for field in keys.deciding_fields}
    return [name for name in names if name in deciding]


def split_rows(
    keys: SectionKeys, chosen: Sequence[tuple[Sequence[str], Sequence[Mask]]], held: Sequence[pl.DataFrame] = ()
) -> list[pl.DataFrame]:
    """Return the rows of each choice, in the order of the files.

    Args:
        chosen: for each choice its columns and a mask of every file, the oldest first; None keeps all rows of a file.
        held: columns of all rows of every file that are in memory.

    Raises `CorruptFile`: a file has more or fewer rows than masks have, or is damaged. `FileMissing`, `StorageError`.
    """
    there = frozenset(held[0].columns) if held else frozenset[str]()
    wanted = dict.fromkeys(name for names, _ in chosen for name in names)
    by_name = {field.name: field for field in (*keys.deciding_fields, *keys.plan.schema.fields)}
    fields = [by_name[name] for name in wanted if name not in there]
    if not fields:
        return [_filter_held(held, names, masks) for names, masks in chosen]
    # All choices take the same columns of the files: only then are the columns decoded once.
    scanned = [field.name for field in fields]
    columns = [[*names, *(name for name in scanned if name not in names)] for names, _ in chosen]
    parts: list[list[pl.LazyFrame]] = [[] for _ in chosen]
    with translate_file_errors(keys.plan, [keys.section], tuple(fields), keys.store):
        for group in _group_files(keys, fields):
            files = [keys.files[number] for number in group]
            frame = scan_files(keys.plan, keys.section, files, fields, keys.store)
            if len(chosen) > 1 and not is_scanned(files[0].format, files[0].path):
                frame = frame.collect().lazy()  # a decoder would run for each choice
            beside = [
                pl.concat([held[number].get_column(name) for number in group]) for name in wanted if name in there
            ]
            frame = frame.with_columns(map(pl.lit, beside)) if beside else frame
            for (_, masks), names, rows in zip(chosen, columns, parts):
                mask = concat_masks(files, [masks[number] for number in group])
                rows.append(
                    frame.select(cols(names)) if mask is None else frame.select(cols(names)).filter(pl.lit(mask))
                )
        found = pl.collect_all([pl.concat(rows) for rows in parts], engine="streaming")
    for (_, masks), each in zip(chosen, found):
        if each.height != sum(f.row_count if m is None else int(m.sum()) for f, m in zip(keys.files, masks)):
            raise CorruptFile(keys.files[0].path, f"{each.height} rows in it and others, not those of the manifests")
    # Polars copies frames of several chunks to select from them.
    return [
        each if len(names) == each.width else pl.DataFrame([each.get_column(name) for name in names])
        for (names, _), each in zip(chosen, found)
    ]


def _filter_held(held: Sequence[pl.DataFrame], names: Sequence[str], masks: Sequence[Mask]) -> pl.DataFrame:
    frames = (frame.select(cols(names)) for frame in held)
    return pl.concat([frame if mask is None else frame.filter(mask) for frame, mask in zip(frames, masks)])


def _group_files(keys: SectionKeys, fields: Sequence[DataField]) -> list[list[int]]:
    """Return groups of file numbers, one group per scan: all files together, or each file alone."""
    shapes = {(file.schema_id, file.format, file.write_columns) for file in keys.files}
    one_by_one = len(shapes) > 1 or is_file_dependent(keys.plan, fields)
    numbers = range(len(keys.files))
    return [[number] for number in numbers] if one_by_one else [list(numbers)]
