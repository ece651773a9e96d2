"""Reads sections with overlapping files whole: keys and values in one pass over the files.

A scan with masks reads the keys first and the rows again. When all rows are wanted, and nothing is cached yet, it is
cheaper to read everything once and to find the live rows in memory. The resulting masks are cached, so the next
read is a masked scan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import polars as pl

from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.readers.casts.widths import width_of
from morrow.readers.execution.fetched_reads import fetched_rows, is_fetched
from morrow.readers.execution.joined_reads import joinable, joined_rows
from morrow.readers.files.fetched import fetching
from morrow.readers.masks.apart import read_first, rows_apart
from morrow.readers.masks.cutting import cuts, pieces
from morrow.readers.masks.live import keep_merged, known_merged
from morrow.readers.masks.section_keys import SectionKeys, oldest_first
from morrow.readers.masks.superseded import Live, as_masks, live_rows
from morrow.readers.merges.version_masks import is_folded

WORKERS = 2
"""Parts of a section that are processed at once."""

MOST_ROWS = 1 << 22
"""Stored rows of a section up to which it is read at once: all of them are in memory together."""


SECTION_WORKERS = 2
"""Sections that are read at once."""

THREADED_ROWS = 1 << 16
"""Rows from which on threads pay: two that hand the interpreter to each other take longer than one, for a few."""

T = TypeVar("T")


def read_at_once(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, held: float
) -> tuple[list[pl.DataFrame], list[Section]]:
    """Returns the rows of the sections that are best read whole, up to about `held` bytes, and the other sections.

    Every row of the plan must be wanted. Small sections are read together, all others one by one. Of a store far away,
    files that are not large are fetched whole, those of sections without overlapping files as well.
    """
    if not store.is_local:
        return _fetched_at_once(plan, sections, store, held)
    joined = joinable(plan, sections, store) if plan.read_columns else []
    together = {id(section) for section in joined}
    merging = [s for s in sections if s.kind is SectionKind.MERGE and id(s) not in together]
    candidates = [*joined, *merging]
    reached = accumulate(bytes_of(plan, section) for section in candidates)
    chosen = {id(section) for section, end in zip(candidates, reached) if end <= held}
    frames = joined_rows(plan, [section for section in joined if id(section) in chosen], store)
    merged = [section for section in merging if id(section) in chosen]
    rows = sum(section.row_count for section in merged)
    threads = SECTION_WORKERS if rows >= THREADED_ROWS or not store.is_local else 1
    found = _each(lambda section: whole_section(plan, section, store), merged, threads=threads)
    chosen -= {id(section) for section, frame in zip(merged, found) if frame is None}
    frames += [frame for frame in found if frame is not None]
    return frames, [section for section in sections if id(section) not in chosen]


def _fetched_at_once(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, held: float
) -> tuple[list[pl.DataFrame], list[Section]]:
    """Does the same where each request is a wait: of a section with overlapping files, keys and values come at once."""
    kinds = (SectionKind.RAW, SectionKind.MERGE)
    worth = [s for s in sections if s.kind in kinds and all(is_fetched(plan, file) for file in s.files)]
    reached = accumulate(bytes_of(plan, s, keys=s.kind is SectionKind.MERGE) for s in worth)
    chosen = [section for section, end in zip(worth, reached) if end <= held] if plan.read_columns else []
    with fetching(store) as source:
        masked, merging = list[Section](), list[Section]()
        for section in chosen:
            folds = is_folded(plan, section)
            known = section.kind is SectionKind.RAW or (not folds and known_merged(plan, section, store) is not None)
            (masked if known else merging).append(section)
            if known or (_is_read_whole(plan, section) and not (folds and _is_known(plan, section, store))):
                source.expect(section.files)
        frames = fetched_rows(plan, masked, source)

        def fetched(section: Section) -> FileStore:
            source.expect(section.files)
            return source

        def merged(section: Section) -> pl.DataFrame | None:
            found = whole_section(plan, section, store, fetched)
            source.drop(section.files)
            return found

        found = _each(merged, merging, threads=SECTION_WORKERS)
    done = {id(section) for section in masked}
    done |= {id(section) for section, frame in zip(merging, found) if frame is not None}
    return [*frames, *(frame for frame in found if frame is not None)], [s for s in sections if id(s) not in done]


def bytes_of(plan: ScanPlan, section: Section, *, keys: bool = True) -> int:
    """Returns about how many bytes `whole_section` reads: columns of the plan and, but for scans, of the key."""
    key = () if plan.merge is None or not keys else plan.merge.key
    return section.row_count * sum(width_of(plan.schema.by_name[name].type) for name in {*plan.read_columns, *key})


def whole_section(
    plan: ScanPlan, section: Section, store: FileStore, source: Callable[[Section], FileStore] | None = None
) -> pl.DataFrame | None:
    """Returns all rows of the section, columns `plan.read_columns`, in memory; None where masked scans are cheaper.

    `source` gives the store from which whole files are best read.
    """
    if not _is_read_whole(plan, section):
        return None
    whole = (lambda _: store) if source is None else source
    if is_folded(plan, section):
        # Imported here: the functions of merge engines bring libraries along that other tables do not need.
        from morrow.readers.merges.whole import folded_whole

        return folded_whole(plan, section, store, whole)
    return None if known_merged(plan, section, store) is not None else _newest(plan, section, whole(section))


def _is_read_whole(plan: ScanPlan, section: Section) -> bool:
    merges = section.kind is SectionKind.MERGE and section.cut is None
    return merges and section.row_count <= MOST_ROWS and bool(plan.read_columns)


def _is_known(plan: ScanPlan, section: Section, store: FileStore) -> bool:
    """Returns whether a section that folds, or an earlier state of it, is known: less than all of it may be read."""
    from morrow.readers.merges.sections import is_known

    return is_known(plan, section, store)


def _newest(plan: ScanPlan, section: Section, store: FileStore) -> pl.DataFrame:
    """Returns the newest version of every key."""
    keys = SectionKeys.of(plan, section, store)
    read = keys.read_whole(read_first(keys, plan.read_columns))
    threads = WORKERS if section.row_count >= THREADED_ROWS else 1
    deciding = _each(keys.deciding, read, threads=threads)
    rows = cuts(deciding, keys.key_fields[0])

    def live(part: Sequence[pl.DataFrame], keyed: Sequence[pl.DataFrame]) -> Live:
        return live_rows(keys, keyed, lambda: [keys.unpacked(frame) for frame in part])

    parts = _each(live, pieces(read, rows), pieces(deciding, rows), threads=threads)
    masks = as_masks([np.concatenate(pieces) for pieces in zip(*parts)])
    (found,) = rows_apart(keys, [(plan.read_columns, masks)], read)
    by_file = dict(zip(oldest_first(section), masks))
    keep_merged(plan, section, store, [by_file[i] for i in range(len(section.files))])
    return found


def _each(do: Callable[..., T], *parts: Sequence[Any], threads: int) -> list[T]:
    """Returns what `do` returns for each of the parts, in their order; several at once in threads."""
    if threads == 1 or len(parts[0]) < 2:
        return list(map(do, *parts))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(do, *parts))
