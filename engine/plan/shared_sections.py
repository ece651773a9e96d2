"""What two plans of one table have in common, and need not be read to tell how their rows differ.

No file of another section of a plan has a key of a section that merges, or of a file that is read as it is. So where
both plans have such a section, or such a file, with the same deletion vectors, its rows are rows of both.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from morrow.engine.plan.scan_plan import DataFile, DeletionRef, ScanPlan, Section, SectionKind
from morrow.engine.values import replace


def unshared(old: ScanPlan, new: ScanPlan) -> tuple[ScanPlan, ScanPlan]:
    """Returns both plans without the sections and files that give the same rows in both.

    The plans are of the same columns, in the same schema.
    """
    return _without(old, new), _without(new, old)


def _without(plan: ScanPlan, other: ScanPlan) -> ScanPlan:
    raw = {_rows_of(file) for file in _raw_files(other)}
    others = {section for section in other.sections if section.kind is not SectionKind.RAW}
    sections: list[Section] = []
    for section in plan.sections:
        if section.kind is not SectionKind.RAW:
            sections += [section] if section not in others else []
        elif files := tuple(file for file in section.files if _rows_of(file) not in raw):
            sections.append(msgspec.structs.replace(section, files=files))
    return replace(plan, sections=tuple(sections))


def _raw_files(plan: ScanPlan) -> Iterator[DataFile]:
    return (file for section in plan.sections if section.kind is SectionKind.RAW for file in section.files)


def _rows_of(file: DataFile) -> tuple[str, DeletionRef | None]:
    """Returns what tells a file's rows: a compaction may have moved it to another level as it is."""
    return file.path, file.deletion
