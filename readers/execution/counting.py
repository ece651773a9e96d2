"""Rows of sections counted by metadata and masks, and full reads held against those counts."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.io.store import FileStore
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import DeletionRef, ScanPlan, Section, SectionKind
from morrow.readers.execution.section_frames import section_frame
from morrow.readers.files.file_errors import reading_sections
from morrow.readers.masks import live_masks
from morrow.readers.merges.version_masks import is_folded, scan_masks


def is_complete(plan: ScanPlan) -> bool:
    """Returns whether every row is wanted."""
    return plan.limit is None and plan.filter.predicate == ALWAYS and not plan.filter.residuals


def check_complete(plan: ScanPlan, store: FileStore, rows: int) -> None:
    """Checks a full read against the manifests' row counts; masks are cached by now, so this reads nothing.

    Raises:
        CorruptFile: a data file holds more or fewer rows than its manifest entry says.
    """
    known = all(_counted(part, section) for part in plan.parts for section in part.sections)
    if is_complete(plan) and known:
        expected = sum(_section_rows(one, section, store) for one in plan.parts for section in one.sections)
        if rows != expected:
            raise CorruptFile(plan.table, f"its data files gave {rows} rows where the manifests say {expected}")


def enough(plan: ScanPlan, sections: Sequence[Section]) -> Sequence[Section]:
    """Returns the first sections that hold as many rows as the plan's limit, where metadata tell; otherwise all."""
    if plan.limit is None or plan.filter.predicate != ALWAYS or plan.filter.residuals:
        return sections
    rows = 0
    for number, section in enumerate(sections, 1):
        if section.kind is SectionKind.RAW and _counted(plan, section):
            rows += sum(file.row_count - _dead_rows(file.deletion) for file in section.files)
            if rows >= plan.limit:
                return sections[:number]
    return sections


def checked_rows(plan: ScanPlan, section: Section, store: FileStore) -> int:
    """Counts the live rows of one section, reading as little as possible.

    Deletion vectors are checked against the metadata's counts where that costs no request.
    """
    if store.is_local and _counted(plan, section) and section.kind is SectionKind.RAW:
        live_masks(plan, section, store)
    return _section_rows(plan, section, store)


def _section_rows(plan: ScanPlan, section: Section, store: FileStore) -> int:
    if section.kind is SectionKind.MERGE:
        masks = scan_masks(plan, section, store)
        unmerged = sum(f.row_count if m is None else int(m.sum()) for f, m in zip(section.files, masks))
        return unmerged + _merged_rows(plan, section, store)
    if _counted(plan, section):
        return sum(f.row_count - _dead_rows(f.deletion) for f in section.files)
    with reading_sections(plan, [section], store):
        frame = section_frame(plan, section, scan_masks(plan, section, store), store)
        return int(frame.select(pl.len()).collect().item())


def _merged_rows(plan: ScanPlan, section: Section, store: FileStore) -> int:
    if not is_folded(plan, section):
        return 0
    # Imported here: the functions of merge engines bring libraries along that other tables do not need.
    from morrow.readers.merges.sections import merged_count

    return merged_count(plan, section, store)


def _counted(plan: ScanPlan, section: Section) -> bool:
    """Returns whether metadata and masks alone give the row count of the section."""
    if section.kind is SectionKind.RAW:
        retractions = plan.drops_retractions and any(file.may_hold_retractions for file in section.files)
        return not retractions and all(f.deletion is None or f.deletion.cardinality is not None for f in section.files)
    return section.kind is SectionKind.MERGE and not is_folded(plan, section)


def _dead_rows(deletion: DeletionRef | None) -> int:
    return 0 if deletion is None or deletion.cardinality is None else deletion.cardinality
