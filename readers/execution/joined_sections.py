"""Scans many small sections as one: thousands of partitions with a file each cost little more than their files.

A scan per section would cost Polars more than the reading. Files of one shape are scanned together, whatever their
partition; the position of a row identifies its file, and so the values of its partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import msgspec
import numpy as np
import polars as pl

from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.names import POSITION, cols
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import projected
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.execution.section_frames import SMALL_ROWS, filtered, section_frame
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_frames import file_frame
from morrow.readers.files.registry import is_scanned
from morrow.readers.files.virtual_columns import virtual_columns
from morrow.readers.masks import Mask, long_mask

LEAST_SECTIONS = 8
"""Fewer are scanned one by one, so that later filters of users on partitions can prune them."""

MOST_ROWS = 1 << 17
"""Stored rows of a section that is scanned with others: for larger ones a scan of their own costs next to nothing."""

Masked = tuple[Section, tuple[Mask, ...]]


def section_frames(plan: ScanPlan, sections: Iterable[Masked], store: FileStore) -> list[pl.LazyFrame]:
    """Returns the live rows of sections that satisfy the pushable part of the filter, columns `plan.read_columns`."""
    all_sections = list(sections)
    joined = [each for each in all_sections if _is_small(each[0])] if _joins(plan, store) else []
    if len(joined) < LEAST_SECTIONS:
        return [section_frame(plan, section, masks, store) for section, masks in all_sections]
    small = {id(section) for section, _ in joined}
    others = [section_frame(plan, s, masks, store) for s, masks in all_sections if id(s) not in small]
    return [*(_joined(plan, group, store) for group in _groups(plan, joined)), *others]


def _joins(plan: ScanPlan, store: FileStore) -> bool:
    """Returns whether sections of this plan are scanned together.

    Positions through several files depend on their row counts, which would take requests to remote stores; and a limit
    should stop at the first files.
    """
    limited = plan.limit is not None and plan.filter.predicate == ALWAYS
    fields = [plan.schema.by_name[name] for name in plan.read_columns]
    return store.is_local and not limited and bool(fields) and not virtual_columns(plan, fields)


def _is_small(section: Section) -> bool:
    whole = section.kind in (SectionKind.RAW, SectionKind.MERGE) and section.row_count <= MOST_ROWS
    return whole and all(is_scanned(file.format, file.path) for file in section.files)


class _Member(msgspec.Struct, frozen=True):
    """A file with its mask, and the number of its section's partition among those of the group."""

    file: DataFile
    mask: Mask
    section: Section
    with_kind: bool


def _groups(plan: ScanPlan, sections: Sequence[Masked]) -> Iterator[list[_Member]]:
    """Groups files of one shape, so many that their rows are numbered cheaply."""
    members = [
        _Member(file, mask, section, _holds_retractions(plan, section, file))
        for section, masks in sections
        for file, mask in zip(section.files, masks, strict=True)
    ]

    def shape(member: _Member) -> tuple[object, ...]:
        return member.file.format, member.file.schema_id, member.file.write_columns or (), member.with_kind

    for _, alike in groupby(sorted(members, key=shape), key=shape):
        group: list[_Member] = []
        rows = 0
        for member in alike:
            if group and rows + member.file.row_count > SMALL_ROWS:
                yield group
                group, rows = [], 0
            group.append(member)
            rows += member.file.row_count
        yield group


def _holds_retractions(plan: ScanPlan, section: Section, file: DataFile) -> bool:
    return section.kind is SectionKind.RAW and plan.drops_retractions and file.may_hold_retractions


def _joined(plan: ScanPlan, group: Sequence[_Member], store: FileStore) -> pl.LazyFrame:
    fields = [plan.schema.by_name[name] for name in plan.read_columns]
    keys = [field for field in fields if field.name in plan.schema.partition_keys]
    stored = [field for field in fields if field.name not in plan.schema.partition_keys]
    files = [member.file for member in group]
    mask = long_mask(files, [member.mask for member in group])
    with_kind = group[0].with_kind
    read = [*stored, VALUE_KIND_FIELD] if with_kind else stored
    numbered = bool(keys) or mask is not None
    frame = file_frame(plan, group[0].section, files, read, store, position=numbered, live=mask)
    # Conditions on columns of files are pushed into the scans; the whole filter is tested where all columns are
    # present.
    partial = projected(plan.filter.predicate, frozenset(field.name for field in stored))
    if partial != ALWAYS:
        frame = frame.filter(expressions.compile(partial, plan.schema.fields))
    if with_kind:
        frame = frame.filter((pl.col(VALUE_KIND) & RETRACT_BIT) == 0)
    if mask is not None:
        frame = frame.filter(pl.lit(mask).gather(pl.col(POSITION)))
    if keys:
        frame = filtered(plan, frame.with_columns(_partition_columns(plan, group, keys)))
    return frame.select(cols(plan.read_columns))


def _partition_columns(plan: ScanPlan, group: Sequence[_Member], keys: Sequence[DataField]) -> Iterator[pl.Expr]:
    """Yields the partition's values of each row, looked up by its position."""
    rows = list(dict.fromkeys(member.section.partition_row for member in group))
    number = {row: i for i, row in enumerate(rows)}
    numbers = np.array([number[member.section.partition_row] for member in group], np.uint32)
    of_position = pl.lit(pl.Series(np.repeat(numbers, [member.file.row_count for member in group])))
    names = plan.schema.partition_keys
    types = [plan.schema.by_name[name].type for name in names]
    wanted = [names.index(field.name) for field in keys]
    for field, values in zip(keys, decode_columns(rows, types, where=plan.table, columns=wanted)):
        column = pl.lit(values.cast(polars_dtype(field.type)).alias(""))
        yield column.gather(of_position.gather(pl.col(POSITION))).alias(field.name)
