"""Reads sections with overlapping files whole: keys and values in one pass over the files.

A scan with masks reads the keys first and the rows again. When all rows are wanted, and nothing is cached yet, it is
cheaper to read everything once and to find the live rows in memory. The resulting masks are cached, so the next
read is a masked scan.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl

from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.readers.masks.live import keep_merged, known_merged
from morrow.readers.masks.section_keys import SectionKeys, oldest_first
from morrow.readers.masks.superseded import Live, live_rows
from morrow.readers.merges.version_masks import is_folded, known_masks

WORKERS = 2
"""Parts of a section that are processed at once."""

MOST_ROWS = 1 << 22
"""Stored rows of a section up to which it is read at once: all of them are in memory together."""


def whole_section(
    plan: ScanPlan, section: Section, store: FileStore, most_bytes: int | None = None
) -> pl.LazyFrame | None:
    """Returns all rows of the section, columns `plan.read_columns`, in memory; None where masked scans are cheaper.

    With `most_bytes`, only where these columns take no more, and most of the merged rows are known from before.
    """
    if section.kind is not SectionKind.MERGE or section.row_count > MOST_ROWS or not plan.read_columns:
        return None
    if section.cut is not None:
        return None
    if is_folded(plan, section):
        # Imported here: the functions of merge engines bring libraries along that other tables do not need.
        from morrow.readers.merges.sections import folded_section, refolded_section

        refolded = refolded_section(plan, section, store, sys.maxsize if most_bytes is None else most_bytes)
        if refolded is not None or most_bytes is not None:
            return refolded
        return None if known_masks(plan, section, store) is not None else folded_section(plan, section, store)
    return (
        None
        if most_bytes is not None or known_merged(plan, section, store) is not None
        else _newest(plan, section, store)
    )


def _newest(plan: ScanPlan, section: Section, store: FileStore) -> pl.LazyFrame:
    """Returns the newest version of every key."""
    keys = SectionKeys.of(plan, section, store)
    read = keys.read_whole(plan.read_columns)

    def newest(part: Sequence[pl.DataFrame]) -> tuple[Live, list[pl.DataFrame]]:
        live = live_rows(keys, [keys.deciding(frame) for frame in part], lambda: [keys.unpacked(f) for f in part])
        return live, [frame.select(cols(plan.read_columns)).filter(pl.Series(mask)) for frame, mask in zip(part, live)]

    with ThreadPoolExecutor(WORKERS) as pool:
        parts = list(pool.map(newest, keys.parts(read)))
    by_file = dict(zip(oldest_first(section), map(np.concatenate, zip(*(live for live, _ in parts)))))
    keep_merged(plan, section, store, [by_file[i] for i in range(len(section.files))])
    return pl.concat([frame for _, frames in parts for frame in frames]).lazy()
