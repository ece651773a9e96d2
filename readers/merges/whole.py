"""Sections that fold, read whole: keys first, which tell what has to be merged, then the values of all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import polars as pl

from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.masks import Mask
from morrow.readers.masks.apart import read_first, rows_apart
from morrow.readers.masks.bits import uniform
from morrow.readers.masks.cutting import cuts, pieces
from morrow.readers.masks.marks import as_mask
from morrow.readers.masks.section_keys import SectionKeys, oldest_first
from morrow.readers.merges.kept import keep, known, told, told_all
from morrow.readers.merges.merged import Merged
from morrow.readers.merges.refolding import refolded_rows
from morrow.readers.merges.rounds import Rounds
from morrow.readers.merges.section_merge import SectionMerge
from morrow.readers.merges.version_masks import Rows, VersionMasks, keep_masks, known_masks, told_apart
from morrow.readers.merges.versions import Versions, versions_of

WORKERS = 2
"""Parts of a section that are gone through at once."""

PART_ROWS = 1 << 18
"""About how many rows a part has: what is computed of them stays in the processor's cache, and in no new memory."""


def folded_whole(
    plan: ScanPlan, section: Section, store: FileStore, source: Callable[[Section], FileStore]
) -> pl.DataFrame | None:
    """Returns all rows of a section that folds, columns `plan.read_columns`, by what is known of it or of an earlier
    state; None where merged rows are cached, so that a masked scan gives the others, and where masks are and files are
    far away. `source` gives the store from which whole files are best read.
    """
    merge = SectionMerge(plan, section, plan.read_columns, store)
    if known(merge, section) is not None:
        return None
    rows = refolded_rows(merge)
    if rows is not None:
        return rows
    masks = known_masks(plan, section, store)
    if masks is None:
        return folded_section(plan, section, source(section))
    return _folded_apart(merge, masks) if store.is_local else None


def _folded_apart(merge: SectionMerge, masks: VersionMasks) -> pl.DataFrame:
    """Returns the rows of a section whose masks are known, and caches those that are merged."""
    keys = SectionKeys.of(merge.plan, merge.section, merge.store)
    single, shared = ([each[i] for i in oldest_first(merge.section)] for each in (masks.single, masks.shared))
    alone, together = rows_apart(
        keys, [(merge.names, single), ([field.name for field in merge.fields(keys)], _whole_masks(keys, shared))]
    )
    heights = [0 if mask is None else int(mask.sum()) for mask in shared]
    merged = merge.merged_runs(keys, together.rechunk(), heights)
    return pl.concat([alone, keep(merge, told_all(merge, merged)).rows])


def _whole_masks(keys: SectionKeys, masks: Sequence[Mask]) -> list[Mask]:
    """Returns masks that mark rows as those that mark live ones: None of them stands for a file without any."""
    return [uniform(False, file.row_count) if mask is None else mask for file, mask in zip(keys.files, masks)]


def folded_section(plan: ScanPlan, section: Section, store: FileStore) -> pl.DataFrame:
    """Returns all rows of a section that folds, columns `plan.read_columns`.

    The masks computed from the keys are cached for the next read, and the merged rows.
    """
    merge = SectionMerge(plan, section, plan.read_columns, store)
    keys = SectionKeys.of(plan, section, store)
    read = keys.read_whole(read_first(keys, [field.name for field in merge.values(keys)]))
    with ThreadPoolExecutor(WORKERS) as pool:
        deciding = list(pool.map(keys.deciding, read))
        rows = cuts(deciding, keys.key_fields[0], max(section.row_count // PART_ROWS, WORKERS))
        parts = list(pool.map(lambda *part: _part(keys, *part), pieces(read, rows), pieces(deciding, rows)))
        single = [as_mask(np.concatenate(each), absent=True) for each in zip(*(part.single for part in parts))]
        shared = [as_mask(np.concatenate(each), absent=False) for each in zip(*(part.shared for part in parts))]
        inputs = [field.name for field in merge.fields(keys)]
        alone, together = rows_apart(keys, [(merge.names, single), (inputs, _whole_masks(keys, shared))], read)
        together = together.rechunk()

        def merged(rounds: Rounds) -> Merged:
            versions = Versions(np.empty(0, bool), rounds)
            return told(merge, merge.merged(keys, together, versions))

        first, *others = pool.map(merged, _rounds(parts))
    keep_masks(plan, section, store, single, shared, sum(part.rounds.keys for part in parts))
    found = keep(merge, first.changed(np.empty(0, np.int64), others) if others else first)
    return pl.concat([alone, found.rows])


class _Part(msgspec.Struct, frozen=True):
    """How the keys of some rows of each file are distinguished (see `VersionMasks`), and the rounds of the shared."""

    single: list[Rows]
    shared: list[Rows]
    rounds: Rounds


def _part(keys: SectionKeys, frames: Sequence[pl.DataFrame], decided: Sequence[pl.DataFrame]) -> _Part:
    heights = [frame.height for frame in frames]
    rows, by_key = keys.keyed(decided, lambda: [keys.unpacked(frame) for frame in frames])
    levels = keys.levels(range(len(frames)), heights)
    versions = versions_of(by_key, rows.select(cols(keys.age)), keys.descending, heights, levels)
    single, shared = (np.split(told_rows, np.cumsum(heights)[:-1]) for told_rows in told_apart(keys, rows, versions))
    return _Part(single, shared, versions.rounds)


def _rounds(parts: Sequence[_Part]) -> list[Rounds]:
    """Returns the rounds of neighbouring parts together, one for each worker.

    Their rows are numbered among the shared rows of all files, one file after another.
    """
    counts = np.array([[np.count_nonzero(rows) for rows in part.shared] for part in parts])
    ends = np.cumsum(counts.T).reshape(counts.T.shape).T
    rounds = [_among_shared(part, first) for part, first in zip(parts, ends - counts)]
    each = -(-len(rounds) // WORKERS)
    return [Rounds.joined(rounds[start : start + each]) for start in range(0, len(rounds), each)]


def _among_shared(part: _Part, first: Sequence[int]) -> Rounds:
    """Returns the rounds with the numbers of rows among shared ones; `first` has those of each file's first row."""
    numbers = np.empty(sum(map(len, part.shared)), np.uint32)
    end = 0
    for rows, number in zip(part.shared, first):
        start, end = end, end + len(rows)
        left = np.flatnonzero(rows)
        numbers[start + left] = np.arange(number, number + len(left), dtype=np.uint32)
    return Rounds(numbers.take(part.rounds.rows), part.rounds.heights)
