"""Files of some columns of a data-evolution table: the updated columns of all rows of a group.

A group are the files with the same row ids. An update reads the current values of the columns of all its rows, deleted
ones too, puts the new values in their places, and writes one file. Its larger sequence number makes it the source of
these columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.names import get_series
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.engine.structs import replace
from morrow.readers.execution.section_frames import stitch_columns
from morrow.readers.files.file_frames import translate_file_errors
from morrow.writers.files.data_files import Placement, write_files
from morrow.writers.target import WriteTarget

Positions = npt.NDArray[np.int64]
MAX_FILE_BYTES = 1 << 62
"""Target size of a file that holds all rows of its group."""


@dataclass
class GroupUpdate:
    """New values of columns in rows of a group, by position; `file` is one of its data files."""

    place: Placement
    file: DataFileMeta
    section: Section
    parts: list[tuple[Positions, pl.DataFrame]] = field(default_factory=list)

    def add(self, positions: Positions, rows: pl.DataFrame) -> None:
        """Set columns of rows; a row may be set several times, with different columns."""
        self.parts.append((positions, rows))

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(name for _, rows in self.parts for name in rows.columns)


def write_updated_columns(target: WriteTarget, group: GroupUpdate, plan: ScanPlan) -> list[DataFileMeta]:
    """Write the updated columns of a group to one file; `plan` is a plan that has its section.

    Raises: as reading and writing files.
    """
    fields = tuple(each for each in target.schema.fields if each.name in group.columns)
    with translate_file_errors(plan, [group.section], fields, target.store):
        old = stitch_columns(plan, group.section, fields, (), target.store).collect()
    if old.height != group.file.row_count:
        problem = f"{old.height} rows in the files of a group, not the {group.file.row_count} of its metadata"
        raise CorruptFile(group.section.files[0].path, problem)
    new = pl.DataFrame([_set_values(old, each.name, group) for each in fields])
    whole = replace(target, write=replace(target.write, target_file_size=MAX_FILE_BYTES))
    files = write_files(whole, group.place, [new], level=0, source=FileSource.APPEND, columns=fields)
    return [msgspec.structs.replace(file, first_row_id=group.file.first_row_id) for file in files]


def _set_values(old: pl.DataFrame, name: str, group: GroupUpdate) -> pl.Series:
    """Return a column with the new values."""
    stored = get_series(old, name)
    parts = [(positions, get_series(rows, name)) for positions, rows in group.parts if name in rows.columns]
    values = pl.concat([stored, *(each.cast(stored.dtype) for _, each in parts)])
    places = np.arange(old.height, dtype=np.int64)
    places[np.concatenate([positions for positions, _ in parts])] = np.arange(old.height, len(values))
    return values.gather(places).alias(name)
