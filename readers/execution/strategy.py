"""Strategy of reading sections (whole, together, prefetched, or by masked scans), and counts without reading.

A scan with masks reads the keys first and then the rows. If all rows are wanted and nothing is cached yet, a section
with overlapping files is cheaper to read whole: keys and values are read in one pass, and the live rows are found in
memory. The resulting masks are cached, so the next read is a masked scan.

From remote stores, files are fetched whole if a read wants most of their bytes, and decoded as they arrive.

Rows of sections are counted by metadata and masks, and full reads are checked against those counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import msgspec
import numpy as np
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.io.store import FileStore
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import DataFile, DeletionRef, ScanPlan, Section, SectionKind
from morrow.engine.polars_threads import open_threads
from morrow.readers.casts.dtypes import estimate_width
from morrow.readers.execution.joined_sections import find_joinable, read_joined_rows
from morrow.readers.execution.section_frames import scan_section
from morrow.readers.files.file_frames import list_written_fields
from morrow.readers.files.prefetch import FetchedStore, open_fetched_store
from morrow.readers.files.streaming import translate_section_errors
from morrow.readers.masks import Mask, compute_live_masks
from morrow.readers.masks.live_rows import (
    Live,
    find_known_masks,
    find_live_rows,
    keep_merged,
    read_first,
    split_rows,
    to_masks,
)
from morrow.readers.masks.packed_keys import find_cuts, slice_frames
from morrow.readers.masks.section_keys import SectionKeys, order_by_age
from morrow.readers.merges.version_masks import is_folded, scan_masks

PART_WORKERS = 2
"""Number of parts of a section processed at once."""

MAX_WHOLE_ROWS = 1 << 22
"""Maximum stored rows of a section to read it whole: all of them are in memory together."""


SECTION_WORKERS = 2
"""Number of sections read at once."""

MIN_THREADED_ROWS = 1 << 16
"""Minimum rows to use threads: for fewer rows, two threads that alternate in the interpreter are slower than one."""

T = TypeVar("T")


def read_at_once(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, held: float
) -> tuple[list[pl.DataFrame], list[Section]]:
    """Return the rows of the sections that are best read whole, up to about `held` bytes, and the other sections.

    Every row of the plan must be wanted. Small sections are read together, all others one by one. From a remote store,
    files that are not large are fetched whole, including files of sections without overlaps.
    """
    if not store.is_local:
        return _read_fetched_at_once(plan, sections, store, held)
    joined = find_joinable(plan, sections, store) if plan.read_columns else []
    together = {id(section) for section in joined}
    merging = [s for s in sections if s.kind is SectionKind.MERGE and id(s) not in together]
    candidates = [*joined, *merging]
    reached = accumulate(estimate_bytes(plan, section) for section in candidates)
    chosen = {id(section) for section, end in zip(candidates, reached) if end <= held}
    frames = read_joined_rows(plan, [section for section in joined if id(section) in chosen], store)
    merged = [section for section in merging if id(section) in chosen]
    rows = sum(section.row_count for section in merged)
    threads = SECTION_WORKERS if rows >= MIN_THREADED_ROWS or not store.is_local else 1
    found = _map_parts(lambda section: read_whole_section(plan, section, store), merged, threads=threads)
    chosen -= {id(section) for section, frame in zip(merged, found) if frame is None}
    frames += [frame for frame in found if frame is not None]
    return frames, [section for section in sections if id(section) not in chosen]


def _read_fetched_at_once(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, held: float
) -> tuple[list[pl.DataFrame], list[Section]]:
    """Read as `read_at_once` does from a remote store: keys and values of overlapping files are fetched together."""
    kinds = (SectionKind.RAW, SectionKind.MERGE)
    worth = [s for s in sections if s.kind in kinds and all(is_fetched(plan, file) for file in s.files)]
    reached = accumulate(estimate_bytes(plan, s, keys=s.kind is SectionKind.MERGE) for s in worth)
    chosen = [section for section, end in zip(worth, reached) if end <= held] if plan.read_columns else []
    with open_fetched_store(store) as source:
        masked, merging = list[Section](), list[Section]()
        for section in chosen:
            folds = is_folded(plan, section)
            known = section.kind is SectionKind.RAW or (
                not folds and find_known_masks(plan, section, store) is not None
            )
            (masked if known else merging).append(section)
            if known or (_is_read_whole(plan, section) and not (folds and _is_known(plan, section, store))):
                source.expect(section.files)
        frames = read_fetched_rows(plan, masked, source)

        def fetched(section: Section) -> FileStore:
            source.expect(section.files)
            return source

        def merged(section: Section) -> pl.DataFrame | None:
            found = read_whole_section(plan, section, store, fetched)
            source.drop(section.files)
            return found

        found = _map_parts(merged, merging, threads=SECTION_WORKERS)
    done = {id(section) for section in masked}
    done |= {id(section) for section, frame in zip(merging, found) if frame is not None}
    return [*frames, *(frame for frame in found if frame is not None)], [s for s in sections if id(s) not in done]


def estimate_bytes(plan: ScanPlan, section: Section, *, keys: bool = True) -> int:
    """Estimate the bytes that `read_whole_section` reads: the plan's columns and, if `keys`, the key columns."""
    key = () if plan.merge is None or not keys else plan.merge.key
    return section.row_count * sum(
        estimate_width(plan.schema.by_name[name].type) for name in {*plan.read_columns, *key}
    )


def read_whole_section(
    plan: ScanPlan, section: Section, store: FileStore, source: Callable[[Section], FileStore] | None = None
) -> pl.DataFrame | None:
    """Return all rows of the section, columns `plan.read_columns`, in memory; None if masked scans are cheaper.

    `source` returns the store from which whole files are best read.
    """
    if not _is_read_whole(plan, section):
        return None
    whole = (lambda _: store) if source is None else source
    if is_folded(plan, section):
        # Imported here: the functions of merge engines import libraries that other tables do not need.
        from morrow.readers.merges.sections import fold_whole

        return fold_whole(plan, section, store, whole)
    return None if find_known_masks(plan, section, store) is not None else _read_newest(plan, section, whole(section))


def _is_read_whole(plan: ScanPlan, section: Section) -> bool:
    merges = section.kind is SectionKind.MERGE and section.cut is None
    return merges and section.row_count <= MAX_WHOLE_ROWS and bool(plan.read_columns)


def _is_known(plan: ScanPlan, section: Section, store: FileStore) -> bool:
    """Return whether a section that folds, or an earlier version of the section, is cached, so that less is read."""
    from morrow.readers.merges.sections import is_known

    return is_known(plan, section, store)


def _read_newest(plan: ScanPlan, section: Section, store: FileStore) -> pl.DataFrame:
    """Return the newest version of every key."""
    keys = SectionKeys.of(plan, section, store)
    read = keys.read_whole(read_first(keys, plan.read_columns))
    threads = PART_WORKERS if section.row_count >= MIN_THREADED_ROWS else 1
    deciding = _map_parts(keys.deciding, read, threads=threads)
    rows = find_cuts(deciding, keys.key_fields[0])

    def live(part: Sequence[pl.DataFrame], keyed: Sequence[pl.DataFrame]) -> Live:
        return find_live_rows(keys, keyed, lambda: [keys.unpacked(frame) for frame in part])

    parts = _map_parts(live, slice_frames(read, rows), slice_frames(deciding, rows), threads=threads)
    masks = to_masks([np.concatenate(pieces) for pieces in zip(*parts)])
    (found,) = split_rows(keys, [(plan.read_columns, masks)], read)
    by_file = dict(zip(order_by_age(section), masks))
    keep_merged(plan, section, store, [by_file[i] for i in range(len(section.files))])
    return found


def _map_parts(do: Callable[..., T], *parts: Sequence[Any], threads: int) -> list[T]:
    """Call `do` for each of the parts, several at once in threads, and return the results in order."""
    if threads == 1 or len(parts[0]) < 2:
        return list(map(do, *parts))
    with open_threads(threads) as pool:
        return list(pool.map(do, *parts))


def is_complete(plan: ScanPlan) -> bool:
    """Return whether every row is wanted."""
    return plan.limit is None and plan.filter.predicate == ALWAYS and not plan.filter.residuals


def check_complete(plan: ScanPlan, store: FileStore, rows: int) -> None:
    """Check a full read against the manifests' row counts; masks are cached by now, so this reads nothing.

    Raises:
        CorruptFile: a data file holds more or fewer rows than its manifest entry says.
    """
    known = all(_is_counted(part, section) for part in plan.parts for section in part.sections)
    if is_complete(plan) and known:
        expected = sum(_count_section_rows(one, section, store) for one in plan.parts for section in one.sections)
        if rows != expected:
            raise CorruptFile(plan.table, f"its data files gave {rows} rows where the manifests say {expected}")


def limit_sections(plan: ScanPlan, sections: Sequence[Section]) -> Sequence[Section]:
    """Return the first sections that together hold the plan's limit of rows, if metadata shows this; else all."""
    if plan.limit is None or plan.filter.predicate != ALWAYS or plan.filter.residuals:
        return sections
    rows = 0
    for number, section in enumerate(sections, 1):
        if section.kind is SectionKind.RAW and _is_counted(plan, section):
            rows += sum(file.row_count - _count_dead_rows(file.deletion) for file in section.files)
            if rows >= plan.limit:
                return sections[:number]
    return sections


def count_rows(plan: ScanPlan, section: Section, store: FileStore) -> int:
    """Count the live rows of one section, reading as little as possible.

    Deletion vectors are checked against the metadata's counts if this costs no request.
    """
    if store.is_local and _is_counted(plan, section) and section.kind is SectionKind.RAW:
        compute_live_masks(plan, section, store)
    return _count_section_rows(plan, section, store)


def _count_section_rows(plan: ScanPlan, section: Section, store: FileStore) -> int:
    if section.kind is SectionKind.MERGE:
        masks = scan_masks(plan, section, store)
        unmerged = sum(f.row_count if m is None else int(m.sum()) for f, m in zip(section.files, masks))
        return unmerged + _count_merged_rows(plan, section, store)
    if _is_counted(plan, section):
        return sum(f.row_count - _count_dead_rows(f.deletion) for f in section.files)
    with translate_section_errors(plan, [section], store):
        frame = scan_section(plan, section, scan_masks(plan, section, store), store)
        return int(frame.select(pl.len()).collect().item())


def _count_merged_rows(plan: ScanPlan, section: Section, store: FileStore) -> int:
    if not is_folded(plan, section):
        return 0
    # Imported here: the functions of merge engines import libraries that other tables do not need.
    from morrow.readers.merges.sections import count_merged

    return count_merged(plan, section, store)


def _is_counted(plan: ScanPlan, section: Section) -> bool:
    """Return whether metadata and masks alone give the row count of the section."""
    if section.kind is SectionKind.RAW:
        retractions = plan.drops_retractions and any(file.may_hold_retractions for file in section.files)
        return not retractions and all(f.deletion is None or f.deletion.cardinality is not None for f in section.files)
    return section.kind is SectionKind.MERGE and not is_folded(plan, section)


def _count_dead_rows(deletion: DeletionRef | None) -> int:
    return 0 if deletion is None or deletion.cardinality is None else deletion.cardinality


DECODERS = 2
"""Number of file groups decoded at once; Polars decodes the columns of each group on all cores."""
MAX_FETCHED_BYTES = 64 << 20
"""Maximum size of a file that is fetched whole: Polars decodes row groups of a larger file while others arrive."""
MAX_SMALL_FILE_BYTES = 1 << 20
"""Size up to which a whole file arrives as fast as parts of it."""
MIN_WANTED_SHARE = 0.5
"""Approximate minimum share of wanted bytes to fetch a larger file whole."""
MAX_GROUP_BYTES, MAX_GROUP_FILES = 8 << 20, 64
"""Approximate maximum of bytes, and maximum number of files, decoded together."""

MASK_REQUESTS = 16
"""Number of sections whose masks are read at once."""

Part = tuple[Section, tuple[Mask, ...]]


def is_fetched(plan: ScanPlan, file: DataFile) -> bool:
    """Return whether a read of all rows should fetch the whole file."""
    if not 0 < file.size <= MAX_FETCHED_BYTES:
        return False
    if file.size <= MAX_SMALL_FILE_BYTES:
        return True
    written = list_written_fields(plan, file)
    read = {plan.schema.by_name[name].id for name in plan.read_columns}
    wanted = sum(estimate_width(field.type) for field in written if field.id in read)
    return wanted >= MIN_WANTED_SHARE * sum(estimate_width(field.type) for field in written)


def read_fetched_rows(plan: ScanPlan, sections: Sequence[Section], store: FetchedStore) -> list[pl.DataFrame]:
    """Return the live rows of sections that do not fold, columns `plan.read_columns`, by groups of files."""
    with open_threads(MASK_REQUESTS) as pool:  # deletion vectors arrive while files do
        masks = list(pool.map(lambda section: scan_masks(plan, section, store), sections))
    groups = list(_group_files(zip(sections, masks)))

    def rows(group: Sequence[Part]) -> pl.DataFrame:
        frames = [scan_section(plan, section, masks, store) for section, masks in group]
        found = (frames[0] if len(frames) == 1 else pl.concat(frames)).collect()
        store.drop(file for section, _ in group for file in section.files)
        return found

    with open_threads(DECODERS) as pool:
        return list(pool.map(rows, groups))


def _group_files(parts: Iterator[Part]) -> Iterator[list[Part]]:
    """Group the files of sections, in their order; a section may be divided among groups."""
    group: list[Part] = []
    size = files = 0
    for section, masks in parts:
        start = 0
        for end, file in enumerate(section.files, 1):
            size, files = size + file.size, files + 1
            if size >= MAX_GROUP_BYTES or files == MAX_GROUP_FILES:
                yield [*group, _slice_section(section, masks, start, end)]
                group, size, files, start = [], 0, 0, end
        if start < len(section.files):
            group.append(_slice_section(section, masks, start, len(section.files)))
    if group:
        yield group


def _slice_section(section: Section, masks: tuple[Mask, ...], start: int, end: int) -> Part:
    return msgspec.structs.replace(section, files=section.files[start:end]), masks[start:end]
