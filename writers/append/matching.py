"""Live rows of append tables that match a filter, found file by file with their positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.names import POSITION, cols
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.engine.values import replace
from morrow.readers.execution.execute import BATCH_ROWS
from morrow.readers.execution.section_frames import filtered
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_errors import reading_files
from morrow.readers.files.file_frames import file_frame
from morrow.readers.files.streaming import batches
from morrow.readers.masks import Mask
from morrow.writers.files import Placement

AT_ONCE_ROWS, AT_ONCE_FILES = 1 << 20, 64
"""The most rows, and the most files, of the files that are searched at once."""

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Found:
    """Matching live rows of a data file: the columns asked for, then their `POSITION` in the file (Int64)."""

    place: Placement
    file: DataFileMeta
    rows: pl.DataFrame

    def where(self, chosen: pl.Series | pl.Expr) -> Found:
        """Returns the rows for which a boolean is true."""
        return replace(self, rows=self.rows.filter(chosen))

    @property
    def positions(self) -> Positions:
        """The positions of the rows in their file."""
        return self.rows[POSITION].cast(pl.Int64).to_numpy()


def matching_rows(
    plan: ScanPlan, section: Section, masks: Sequence[Mask], store: FileStore
) -> Iterator[tuple[DataFile, pl.DataFrame]]:
    """Yields the live rows that match, file by file: the columns of the plan, then `POSITION`."""
    read = tuple(plan.schema.by_name[name] for name in plan.read_columns)
    frames = [_matching_frame(plan, section, file, mask, read, store) for file, mask in zip(section.files, masks)]
    with reading_files(plan, [section], read, store):
        for group in _groups(section.files):
            for number, rows in _collected(group, frames, section.files):
                if rows.height:
                    yield section.files[number], rows


def _matching_frame(
    plan: ScanPlan, section: Section, file: DataFile, mask: Mask, read: tuple[DataField, ...], store: FileStore
) -> pl.LazyFrame:
    # The filter comes before the mask: only then does Polars push it into the file scan and skip row groups.
    frame = filtered(plan, file_frame(plan, section, [file], read, store, position=True, live=mask))
    if mask is not None:
        frame = frame.filter(pl.lit(mask).gather(pl.col(POSITION)))
    # Residuals may fail on a row: they are evaluated on live rows only.
    frame = expressions.having(plan.filter.residuals, read, frame)
    return frame.select(*cols(plan.columns), POSITION)


def _groups(files: Sequence[DataFile]) -> Iterator[list[int]]:
    """Yields the indexes of neighbouring files: small files are read together, large ones alone."""
    group: list[int] = []
    rows = 0
    for number, file in enumerate(files):
        if group and (rows + file.row_count > AT_ONCE_ROWS or len(group) == AT_ONCE_FILES):
            yield group
            group, rows = [], 0
        group.append(number)
        rows += file.row_count
    if group:
        yield group


def _collected(
    group: Sequence[int], frames: Sequence[pl.LazyFrame], files: Sequence[DataFile]
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yields the rows of these files; those of a large file in batches."""
    if len(group) > 1 or files[group[0]].row_count <= AT_ONCE_ROWS:
        yield from zip(group, pl.collect_all([frames[number] for number in group]))
        return
    for number in group:
        yield from ((number, rows) for rows in batches(frames[number], BATCH_ROWS))
