"""Data files as lazy frames in the columns of the plan's schema: scan, evolve, add the partition's values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from morrow.engine.format.binary_row import Value
from morrow.engine.format.types import BigIntType, DataField
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.dtypes import polars_dtype
from morrow.readers.evolution import file_columns, project
from morrow.readers.files import FileSource, scan, verify, verify_pages
from morrow.readers.made_columns import TRACKED, made_columns, made_from, make, need_positions

POSITION = "__morrow_position"
"""The row's 0-based position in its data file, or in several one after another, where a mask is to be applied."""

_POSITION_FIELD = DataField(-1, POSITION, BigIntType(nullable=False))


def file_frame(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    fields: Sequence[DataField],
    store: FileStore,
    *,
    position: bool = False,
) -> pl.LazyFrame:
    """Rows of `files` (all of one schema, format and set of written columns) with exactly `fields`, as stored.

    Versions are not merged and nothing is masked. Partition columns are constants of the section and are not read.
    With `position` the column `POSITION` is added, which counts through all the files. Columns that no file holds
    (`made_columns`) are made here; those that depend on the file want one file at a time.
    """
    made = made_columns(plan, fields)
    if not made:
        return _stored_frame(plan, section, files, fields, store, position=position)
    stored = made_from(plan, files[0], fields)
    # Where nothing is read, positions tell how many rows there are.
    numbered = position or need_positions(plan, fields) or not stored
    frame = _stored_frame(plan, section, files, stored, store, position=numbered)
    names = [*(field.name for field in fields), *([POSITION] if position else [])]
    return frame.with_columns(make(plan, files[0], field, pl.col(POSITION)) for field in made).select(names)


def _stored_frame(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    fields: Sequence[DataField],
    store: FileStore,
    *,
    position: bool,
) -> pl.LazyFrame:
    constants = dict(zip(plan.schema.partition_keys, section.partition))
    wanted = tuple(field for field in fields if field.name not in constants)
    written = written_fields(plan, files[0])
    read = file_columns(written, wanted)
    # A scan of no columns still has to know how many rows there are: their positions say so.
    counted = position or not read
    sources = [source_of(file, plan, store) for file in files]
    # Positions that only count rows need not go on from file to file, so no file has to be held against its row count.
    groups = [[source] for source in sources] if counted and not position else [sources]
    frames = [scan(group, read, position=POSITION if counted else None) for group in groups]
    frame = frames[0] if len(frames) == 1 else pl.concat(frames)
    kept = (*wanted, _POSITION_FIELD) if counted else wanted
    frame = project(frame, (*read, _POSITION_FIELD) if counted else read, kept, where=files[0].path)
    literals = [constant_of(constants[field.name], field) for field in fields if field.name in constants]
    names = [*(field.name for field in fields), *([POSITION] if position else [])]
    return frame.with_columns(literals).select(names) if literals or counted else frame


def constant_of(value: Value | None, field: DataField) -> pl.Expr:
    """A partition's value as a column."""
    dtype = polars_dtype(field.type)
    if isinstance(value, np.datetime64):
        # Nanoseconds, which Python's datetime does not have: by their count since the epoch.
        return pl.lit(int(value.astype(np.int64))).cast(dtype).alias(field.name)
    return pl.lit(value, dtype=dtype).alias(field.name)


def verify_file(plan: ScanPlan, file: DataFile, store: FileStore) -> None:
    """Hold one data file against its metadata and its own checksums, reading all of it.

    Raises:
        FileMissing, CorruptFile: the file is gone, truncated or damaged.
    """
    source = source_of(file, plan, store)
    verify(source, rows=True)
    if file.format == "parquet":
        verify_pages(source)


def source_of(file: DataFile, plan: ScanPlan, store: FileStore) -> FileSource:
    """The file as readers want it; on a local disk its size is checked first, which costs next to nothing."""
    columns = _stored_names(file, plan) if file.format == "csv" else ()
    source = FileSource(store, file.path, file.size, file.row_count, file.format, plan.file_options, columns)
    if store.is_local:
        verify(source)
    return source


def _stored_names(file: DataFile, plan: ScanPlan) -> tuple[str, ...]:
    """All columns of the file in their order, for formats that do not name them."""
    fields = written_fields(plan, file)
    thin = plan.file_options.get("data-file.thin-mode", "false").lower() == "true"
    keys = () if thin or not plan.schema.primary_keys else plan.schema.key_fields
    return tuple(field.name for field in (*keys, *fields))


def written_fields(plan: ScanPlan, file: DataFile) -> tuple[DataField, ...]:
    """The columns the file holds: those of its schema, or the subset that its writer wrote."""
    fields = plan.file_fields[file.schema_id]
    if file.write_columns is None:
        return fields
    return tuple(field for field in dict.fromkeys((*fields, *TRACKED)) if field.name in file.write_columns)
