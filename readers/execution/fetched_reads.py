"""Sections of stores that are far away read whole: their files are fetched at once, and decoded as they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import polars as pl

from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.casts.widths import width_of
from morrow.readers.execution.section_frames import section_frame
from morrow.readers.files.fetched import FetchedStore
from morrow.readers.files.file_frames import written_fields
from morrow.readers.masks import Mask
from morrow.readers.merges.version_masks import scan_masks

DECODERS = 2
"""Groups of files that are decoded at once; Polars decodes the columns of each on all cores."""
LARGEST = 64 << 20
"""Bytes of a file up to which it is fetched whole: of a larger one, Polars decodes row groups while others arrive."""
SMALL = 1 << 20
"""Bytes of a file that arrive as fast as some of them."""
WORTH = 0.5
"""The part of a file's bytes that a read must want, about, of larger files."""
GROUP_BYTES, GROUP_FILES = 8 << 20, 64
"""Files that are decoded together: up to about so many bytes, and so many."""

REQUESTS = 16
"""Sections whose masks are read at once."""

Part = tuple[Section, tuple[Mask, ...]]


def is_fetched(plan: ScanPlan, file: DataFile) -> bool:
    """Returns whether a read of all rows best takes the whole file."""
    if not 0 < file.size <= LARGEST:
        return False
    if file.size <= SMALL:
        return True
    written = written_fields(plan, file)
    read = {plan.schema.by_name[name].id for name in plan.read_columns}
    wanted = sum(width_of(field.type) for field in written if field.id in read)
    return wanted >= WORTH * sum(width_of(field.type) for field in written)


def fetched_rows(plan: ScanPlan, sections: Sequence[Section], store: FetchedStore) -> list[pl.DataFrame]:
    """Returns the live rows of the sections, none of which folds, columns `plan.read_columns`, by groups of files."""
    with ThreadPoolExecutor(REQUESTS) as pool:  # their deletion vectors come while files do
        masks = list(pool.map(lambda section: scan_masks(plan, section, store), sections))
    groups = list(_groups(zip(sections, masks)))

    def rows(group: Sequence[Part]) -> pl.DataFrame:
        frames = [section_frame(plan, section, masks, store) for section, masks in group]
        found = (frames[0] if len(frames) == 1 else pl.concat(frames)).collect()
        store.drop(file for section, _ in group for file in section.files)
        return found

    with ThreadPoolExecutor(DECODERS) as pool:
        return list(pool.map(rows, groups))


def _groups(parts: Iterator[Part]) -> Iterator[list[Part]]:
    """Groups the files of sections, in their order; a section may be divided among groups."""
    group: list[Part] = []
    size = files = 0
    for section, masks in parts:
        start = 0
        for end, file in enumerate(section.files, 1):
            size, files = size + file.size, files + 1
            if size >= GROUP_BYTES or files == GROUP_FILES:
                yield [*group, _part(section, masks, start, end)]
                group, size, files, start = [], 0, 0, end
        if start < len(section.files):
            group.append(_part(section, masks, start, len(section.files)))
    if group:
        yield group


def _part(section: Section, masks: tuple[Mask, ...], start: int, end: int) -> Part:
    return msgspec.structs.replace(section, files=section.files[start:end]), masks[start:end]
