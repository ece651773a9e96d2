"""Data files as lazy frames in the columns of the plan's schema: scan, evolve, add the partition's values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from morrow.engine.format.binary_row import Value
from morrow.engine.format.file_formats import file_format
from morrow.engine.format.schema import SYSTEM_FIELD_ID_START
from morrow.engine.format.type_equality import same_values
from morrow.engine.format.types import (
    BigIntType,
    BooleanType,
    DataField,
    DateType,
    DecimalType,
    IntType,
    SmallIntType,
    TimeType,
    TinyIntType,
)
from morrow.engine.io.store import FileStore
from morrow.engine.names import POSITION, col, cols
from morrow.engine.options import Options
from morrow.engine.options.declared.files import DATA_FILE_THIN_MODE
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.casts.evolution import file_columns, project
from morrow.readers.files import FileSource, check_place, scan, verify
from morrow.readers.files.registry import file_reader
from morrow.readers.files.virtual_columns import TRACKED, made_from, make, need_positions, virtual_columns

SURVIVING = TinyIntType, SmallIntType, IntType, BigIntType, DecimalType, BooleanType, DateType, TimeType
"""Types all of whose values can be cast to those that they may become."""
_POSITION_FIELD = DataField(-1, POSITION, BigIntType(nullable=False))


def file_frame(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    fields: Sequence[DataField],
    store: FileStore,
    *,
    position: bool = False,
    live: pl.Series | None = None,
) -> pl.LazyFrame:
    """Returns rows of `files` (of one schema, format and set of written columns) with exactly `fields`, as stored.

    Versions are not merged and nothing is masked. Partition columns are constants of the section and are not read.
    With `position` the column `POSITION` is added, which counts through all the files. Columns that no file holds
    (`virtual_columns`) are made here; those that depend on the file require one file at a time.

    `live` tells which rows of the files count, if the caller drops the others: values of those need not survive the
    changes of their types since, and are null.
    """
    made = virtual_columns(plan, fields)
    if not made:
        return _stored_frame(plan, section, files, fields, store, live, position=position)
    stored = made_from(plan, files[0], fields)
    # Where no column is read, positions give the row count.
    numbered = position or need_positions(plan, fields) or not stored
    frame = _stored_frame(plan, section, files, stored, store, live, position=numbered)
    names = [*(field.name for field in fields), *([POSITION] if position else [])]
    return frame.with_columns(make(plan, files[0], field, pl.col(POSITION)) for field in made).select(cols(names))


def _stored_frame(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    fields: Sequence[DataField],
    store: FileStore,
    live: pl.Series | None,
    *,
    position: bool,
) -> pl.LazyFrame:
    constants = dict(zip(plan.schema.partition_keys, section.partition))
    wanted = tuple(field for field in fields if field.name not in constants)
    written = written_fields(plan, files[0])
    read = file_columns(written, wanted)
    failing = [] if live is None else _failing(read, wanted)
    numbered = position or bool(failing)
    # A scan of no columns still needs the row count: the positions give it.
    counted = numbered or not read
    sources = [source_of(file, plan, store) for file in files]
    if store.checks_pages:
        from morrow.readers.files.page_checks import check_pages

        check_pages(sources, {field.name for field in read})
    # Positions that only count rows need not continue from file to file, so no file's row count has to be checked.
    groups = [[source] for source in sources] if counted and not numbered else [sources]
    frames = [scan(group, read, position=POSITION if counted else None) for group in groups]
    frame = frames[0] if len(frames) == 1 else pl.concat(frames)
    if failing:
        is_live = pl.lit(live).gather(pl.col(POSITION))
        frame = frame.with_columns(pl.when(is_live).then(col(name)).alias(name) for name in failing)
    kept = (*wanted, _POSITION_FIELD) if counted else wanted
    frame = _evolved(plan, files, frame, (*read, _POSITION_FIELD) if counted else read, kept)
    literals = [constant_of(constants[field.name], field) for field in fields if field.name in constants]
    names = [*(field.name for field in fields), *([POSITION] if position else [])]
    return frame.with_columns(literals).select(cols(names)) if literals or counted else frame


def _failing(read: Sequence[DataField], fields: Sequence[DataField]) -> list[str]:
    """Return the columns of a file whose values may not survive the change of their type."""
    types = {field.id: field.type for field in fields}
    changed = (each for each in read if not same_values(each.type, types[each.id]))
    return [field.name for field in changed if not isinstance(field.type, SURVIVING)]


def files_at_once(
    plan: ScanPlan, files: Sequence[DataFile], fields: Sequence[DataField], store: FileStore
) -> tuple[pl.DataFrame, Sequence[int]]:
    """Reads `files` (of one schema, format and set of written columns) of any sections, with exactly `fields`.

    The format must have a `read_each`; `fields` are no columns of partitions and none of `virtual_columns`.

    Returns: the rows of one file after another, and how many each has.
    """
    written = written_fields(plan, files[0])
    read = file_columns(written, fields)
    sources = [source_of(file, plan, store) for file in files]
    if store.checks_pages:
        from morrow.readers.files.page_checks import check_pages

        check_pages(sources, {field.name for field in read})
    read_each = file_reader(files[0].format, files[0].path).read_each
    assert read_each is not None
    rows, heights = read_each(sources, read)
    if not read:
        rows = pl.DataFrame(height=sum(heights))
        absent = [pl.lit(None, dtype=polars_dtype(field.type)).alias(field.name) for field in fields]
        return rows.with_columns(absent), heights
    return _evolved(plan, files, rows.lazy(), read, fields).collect(), heights


def _evolved(
    plan: ScanPlan,
    files: Sequence[DataFile],
    frame: pl.LazyFrame,
    read: Sequence[DataField],
    fields: Sequence[DataField],
) -> pl.LazyFrame:
    """Returns columns of the files, which are of one schema, as those of the plan; see `project`."""
    # Of several files nobody knows which one a value is from: `reading_files` finds it.
    where = files[0].path if len(files) == 1 else plan.table
    return project(frame, read, fields, where=where, schemas=(files[0].schema_id, plan.schema.id))


def constant_of(value: Value | None, field: DataField) -> pl.Expr:
    """Returns a partition's value as a column."""
    dtype = polars_dtype(field.type)
    if isinstance(value, float):
        # As a series: Polars treats the scalars 0.0 and -0.0 as one literal, and gives all partitions the first.
        return pl.lit(pl.Series([value], dtype=dtype)).alias(field.name)
    if isinstance(value, np.datetime64):
        # Nanoseconds, which Python's datetime does not have: by their count since the epoch.
        return pl.lit(int(value.astype(np.int64))).cast(dtype).alias(field.name)
    return pl.lit(value, dtype=dtype).alias(field.name)


def source_of(file: DataFile, plan: ScanPlan, store: FileStore) -> FileSource:
    """Returns the file as readers take it; on a local disk its place and size are checked first, at negligible cost.

    Raises:
        UnsafePath: a link leads out of the folders in which the table's files may lie.
        FileMissing, CorruptFile: no such file, or one of another size.
    """
    columns = () if file_format(file.format, file.path).stores_names else _written_names(file, plan)
    source = FileSource(store, file.path, file.size, file.row_count, file.format, plan.file_options, columns)
    if store.is_local:
        check_place(file.path, plan.roots)
        verify(source)
    return source


def _written_names(file: DataFile, plan: ScanPlan) -> tuple[str, ...]:
    """Returns all columns of the file in their order, for formats that do not name them."""
    fields = written_fields(plan, file)
    thin = Options(plan.file_options).get(DATA_FILE_THIN_MODE)
    keys = () if thin or not plan.schema.primary_keys else plan.schema.key_fields
    return tuple(field.name for field in (*keys, *fields))


def written_fields(plan: ScanPlan, file: DataFile) -> tuple[DataField, ...]:
    """Returns the columns the file holds: those of its schema, or the subset that its writer wrote."""
    fields = plan.file_fields[file.schema_id]
    if file.write_columns is None:
        return fields
    # Writers that name the columns of a keyed table's file do not name those of the merge.
    merged = [field for field in fields if field.id >= SYSTEM_FIELD_ID_START]
    return tuple(
        field for field in dict.fromkeys((*fields, *TRACKED)) if field.name in file.write_columns or field in merged
    )
