"""A section of a plan as a lazy frame: file scans, the filter pushed into them, masks on top.

Because masks come from keys alone, filters on any column reach the files of merge-on-read sections too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import polars as pl

from morrow.engine.format.schema import VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.dtypes import polars_dtype
from morrow.readers.expressions import polars as expressions
from morrow.readers.file_frames import POSITION, file_frame
from morrow.readers.masks import Mask
from morrow.readers.row_kinds import RETRACT_BIT
from morrow.readers.stitch import stitched_frame

SMALL_ROWS = 1 << 23
"""Reads of up to so many stored rows may trade memory for speed."""


def section_frame(plan: ScanPlan, section: Section, masks: Sequence[Mask], store: FileStore) -> pl.LazyFrame:
    """The live rows of `section` that satisfy the pushable part of the filter, columns `plan.read_columns`."""
    fields = tuple(plan.schema.by_name[name] for name in plan.read_columns)
    if section.kind is SectionKind.STITCH:
        return filtered(plan, stitched_frame(plan, section, fields, masks, store))
    retractions = section.kind is SectionKind.RAW and bool(plan.schema.primary_keys)
    parts = [
        _scan_group(plan, section, group, mask, retractions, fields, store)
        for group, mask in _scan_groups(section.files, masks, retractions)
    ]
    return joined(plan, parts)


def joined(plan: ScanPlan, frames: Sequence[pl.LazyFrame]) -> pl.LazyFrame:
    """The rows of all frames.

    A table has no row order, and Polars is faster when it need not keep one. It then reads all files at once, so large
    reads keep the order for the sake of memory.
    """
    if len(frames) == 1:
        return frames[0]
    return pl.union(frames) if plan.stored_rows <= SMALL_ROWS else pl.concat(frames)


def empty_frame(fields: Sequence[DataField]) -> pl.LazyFrame:
    """No rows of these columns."""
    return pl.LazyFrame(schema={field.name: polars_dtype(field.type) for field in fields})


def filtered(plan: ScanPlan, frame: pl.LazyFrame) -> pl.LazyFrame:
    """The rows for which the pushable part of the plan's filter is true."""
    if plan.filter.predicate == ALWAYS:
        return frame
    return frame.filter(expressions.compile(plan.filter.predicate, plan.schema.fields))


def _scan_groups(
    files: Sequence[DataFile], masks: Sequence[Mask], retractions: bool
) -> list[tuple[list[DataFile], Mask]]:
    """Files that one scan can read: unmasked ones of the same shape together, each masked one alone."""
    groups: list[tuple[list[DataFile], Mask]] = [([f], m) for f, m in zip(files, masks) if m is not None]
    plain = [file for file, mask in zip(files, masks) if mask is None]

    def shape(file: DataFile) -> tuple[object, ...]:
        return file.schema_id, file.format, file.write_columns or (), retractions and file.may_hold_retractions

    for _, group in groupby(sorted(plain, key=shape), key=shape):
        groups.append((list(group), None))
    return groups


def _scan_group(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    mask: Mask,
    retractions: bool,
    fields: tuple[DataField, ...],
    store: FileStore,
) -> pl.LazyFrame:
    with_kind = retractions and any(file.may_hold_retractions for file in files)
    read = (*fields, VALUE_KIND_FIELD) if with_kind else fields
    whole = plan.filter.predicate == ALWAYS and plan.stored_rows <= SMALL_ROWS
    if mask is not None and fields and not with_kind and whole:
        # Every row is read in order, so the mask lies beside the rows and no position has to be made.
        return file_frame(plan, section, files, read, store).filter(pl.lit(mask))
    frame = file_frame(plan, section, files, read, store, position=mask is not None)
    # The filter comes before the mask: only then does Polars push it into the file scan and skip row groups.
    frame = filtered(plan, frame)
    if with_kind:
        frame = frame.filter((pl.col(VALUE_KIND) & RETRACT_BIT) == 0)
    if mask is not None:
        frame = frame.filter(pl.lit(mask).gather(pl.col(POSITION)))
    if with_kind or mask is not None:
        frame = frame.select(plan.read_columns)
    return frame
