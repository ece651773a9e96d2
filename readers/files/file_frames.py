"""Data files as lazy frames in the columns of a plan, and streams of batches from them.

Schema evolution matches columns and nested members by field id. A file's columns are read by their names in the
file's schema, then renamed, moved and cast. Columns that the file does not have are null. (Default values are
written with rows; reading never fills them in.)

Virtual columns are computed. ``rowkind`` comes from ``_VALUE_KIND``; rows of append tables are insertions. In append
tables, ``_ROW_ID`` is the file's first row id plus the row's number in the file, and ``_SEQUENCE_NUMBER`` is the
snapshot that wrote the file. A file with rows taken over from other files stores both columns.

If Polars panics, its streams end early without an error. So a sentinel row is appended: a stream that ends without
it has lost rows. Polars reports errors of queries over many files, but not always the file: the query is repeated
file by file to find it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy

import numpy as np
import polars as pl

from morrow.engine.errors import CorruptFile, MorrowError, StorageError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.binary_row import Value
from morrow.engine.format.file_formats import BLOB, PARQUET, get_format
from morrow.engine.format.map_shredding import has_shared_maps
from morrow.engine.format.row_kinds import INSERT, NAMES, build_rowkind
from morrow.engine.format.schema import (
    ROW_ID_FIELD,
    ROWKIND_FIELD,
    SEQUENCE_NUMBER_FIELD,
    STORED_TRACKED,
    SYSTEM_FIELD_ID_START,
    TRACKED,
    VALUE_KIND_FIELD,
    make_key_field,
)
from morrow.engine.io.store import FileStore
from morrow.engine.library_versions import STREAMS_IN_SOURCES
from morrow.engine.names import POSITION, col, cols, find_free_name, reserve_name
from morrow.engine.options import Options
from morrow.engine.options.declared.files import DATA_FILE_THIN_MODE
from morrow.engine.plan.manifests import guard_read
from morrow.engine.plan.predicate import translate_predicate
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.engine.polars_threads import is_in_source
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.files import FileSource, check_place, scan, translate_errors, verify
from morrow.readers.files.registry import find_file_reader

SURVIVING = t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.DecimalType, t.BooleanType, t.DateType, t.TimeType
"""Types whose values can always be cast to the types that the column may be changed to."""
_POSITION_FIELD = t.DataField(-1, POSITION, t.BigIntType(nullable=False))


def scan_files(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    fields: Sequence[t.DataField],
    store: FileStore,
    *,
    position: bool = False,
    live: pl.Series | None = None,
) -> pl.LazyFrame:
    """Return rows of `files` (of one schema, format and set of written columns) with exactly `fields`, as stored.

    Versions are not merged and nothing is masked. Partition columns are constants of the section and are not read.
    With `position` the column `POSITION` is added, which counts through all the files. Columns that no file holds
    (`list_virtual_columns`) are computed here; columns that depend on the file require one file at a time.

    `live` marks the rows of the files that count, if the caller drops the other rows. Values of dropped rows become
    null if they do not survive a change of type.
    """
    made = list_virtual_columns(plan, fields)
    if not made:
        return _scan_stored(plan, section, files, fields, store, live, position=position)
    stored = list_inputs(plan, files[0], fields)
    # If no column is read, positions give the row count.
    numbered = position or need_positions(plan, fields) or not stored
    frame = _scan_stored(plan, section, files, stored, store, live, position=numbered)
    names = [*(field.name for field in fields), *([POSITION] if position else [])]
    return frame.with_columns(make(plan, files[0], field, pl.col(POSITION)) for field in made).select(cols(names))


def _scan_stored(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    fields: Sequence[t.DataField],
    store: FileStore,
    live: pl.Series | None,
    *,
    position: bool,
) -> pl.LazyFrame:
    constants = dict(zip(plan.schema.partition_keys, section.partition))
    wanted = tuple(field for field in fields if field.name not in constants)
    written = list_written_fields(plan, files[0])
    read = select_file_columns(written, wanted)
    failing = [] if live is None else _find_failing(read, wanted)
    numbered = position or bool(failing)
    # A scan without columns still needs the row count: the positions give it.
    counted = numbered or not read
    sources = [make_source(file, plan, store) for file in files]
    if store.checks_pages:
        from morrow.readers.files.page_checksums import check_pages

        check_pages(sources, {field.name for field in read})
    # Positions that only count rows need not continue from file to file, so row counts are not checked.
    groups = [[source] for source in sources] if counted and not numbered else [sources]
    frames = [scan(group, read, position=POSITION if counted else None) for group in groups]
    frame = frames[0] if len(frames) == 1 else pl.concat(frames)
    if failing:
        is_live = pl.lit(live).gather(pl.col(POSITION))
        frame = frame.with_columns(pl.when(is_live).then(col(name)).alias(name) for name in failing)
    kept = (*wanted, _POSITION_FIELD) if counted else wanted
    frame = _project_files(plan, files, frame, (*read, _POSITION_FIELD) if counted else read, kept)
    literals = [to_constant(constants[field.name], field) for field in fields if field.name in constants]
    names = [*(field.name for field in fields), *([POSITION] if position else [])]
    return frame.with_columns(literals).select(cols(names)) if literals or counted else frame


def list_stored_columns(
    plan: ScanPlan, section: Section, file: DataFile, fields: Sequence[t.DataField]
) -> tuple[t.DataField, ...]:
    """Return the columns of the file from which `scan_files` makes these columns, by their names in the file."""
    constants = dict(zip(plan.schema.partition_keys, section.partition))
    wanted = [field for field in list_inputs(plan, file, fields) if field.name not in constants]
    return select_file_columns(list_written_fields(plan, file), wanted)


def _find_failing(read: Sequence[t.DataField], fields: Sequence[t.DataField]) -> list[str]:
    """Return the columns of a file whose values may not survive the change of their type."""
    types = {field.id: field.type for field in fields}
    changed = (each for each in read if not t.has_same_values(each.type, types[each.id]))
    return [field.name for field in changed if not isinstance(field.type, SURVIVING)]


def read_files_at_once(
    plan: ScanPlan, files: Sequence[DataFile], fields: Sequence[t.DataField], store: FileStore
) -> tuple[pl.DataFrame, Sequence[int]]:
    """Read `files` (of one schema, format and set of written columns) of any sections, with exactly `fields`.

    The format must have a `read_each`. `fields` must not contain partition columns or any of `list_virtual_columns`.

    Returns: the rows of one file after another, and the number of rows of each file.
    """
    written = list_written_fields(plan, files[0])
    read = select_file_columns(written, fields)
    sources = [make_source(file, plan, store) for file in files]
    if store.checks_pages:
        from morrow.readers.files.page_checksums import check_pages

        check_pages(sources, {field.name for field in read})
    read_each = find_file_reader(files[0].format, files[0].path).read_each
    assert read_each is not None
    rows, heights = read_each(sources, read)
    if not read:
        rows = pl.DataFrame(height=sum(heights))
        absent = [pl.lit(None, dtype=to_polars_dtype(field.type)).alias(field.name) for field in fields]
        return rows.with_columns(absent), heights
    return _project_files(plan, files, rows.lazy(), read, fields).collect(), heights


def _project_files(
    plan: ScanPlan,
    files: Sequence[DataFile],
    frame: pl.LazyFrame,
    read: Sequence[t.DataField],
    fields: Sequence[t.DataField],
) -> pl.LazyFrame:
    """Convert columns of files of one schema to the columns of the plan; see `project`."""
    # With several files, the file of a value is unknown here: `translate_file_errors` finds it.
    where = files[0].path if len(files) == 1 else plan.table
    return project(frame, read, fields, where=where, schemas=(files[0].schema_id, plan.schema.id))


def to_constant(value: Value | None, field: t.DataField) -> pl.Expr:
    """Return a partition's value as a column."""
    dtype = to_polars_dtype(field.type)
    if isinstance(value, float):
        # Use a series: Polars treats the scalars 0.0 and -0.0 as one literal, and gives all partitions the first.
        return pl.lit(pl.Series([value], dtype=dtype)).first().alias(field.name)
    if isinstance(value, np.datetime64):
        # Python's datetime lacks nanoseconds: use their count since the epoch.
        return pl.lit(int(value.astype(np.int64))).cast(dtype).alias(field.name)
    return pl.lit(value, dtype=dtype).alias(field.name)


def make_source(file: DataFile, plan: ScanPlan, store: FileStore) -> FileSource:
    """Return the file as a source for readers; on a local disk its path and size are checked first, at negligible cost.

    Raises:
        UnsafePath: a link leads out of the folders in which the table's files may lie.
        FileMissing, CorruptFile: the file does not exist, or has another size.
    """
    if file.format not in (PARQUET, BLOB) and has_shared_maps(plan.file_options, _list_columns(file, plan)):
        hint = "read it by Java, or write it again as Parquet"
        raise Unsupported(f"maps in shared columns of {file.format} files", where=file.path, hint=hint)
    columns = () if get_format(file.format, file.path).stores_names else _list_columns(file, plan)
    source = FileSource(store, file.path, file.size, file.row_count, file.format, plan.file_options, columns)
    if store.is_local:
        check_place(file.path, plan.roots)
        verify(source)
    return source


def _list_columns(file: DataFile, plan: ScanPlan) -> tuple[t.DataField, ...]:
    """Return all columns of the file in their order, for formats that do not name them."""
    fields = list_written_fields(plan, file)
    if file.write_columns is not None:
        numbers = {name: number for number, name in enumerate(file.write_columns)}
        fields = tuple(sorted(fields, key=lambda field: numbers.get(field.name, -1)))
    if Options(plan.file_options).get(DATA_FILE_THIN_MODE) or not plan.schema.primary_keys:
        return fields
    by_id = {field.id: field for field in plan.file_fields[file.schema_id]}
    keys = (by_id[plan.schema.by_name[name].id] for name in plan.schema.trimmed_primary_keys)
    return (*map(make_key_field, keys), *fields)


def list_written_fields(plan: ScanPlan, file: DataFile) -> tuple[t.DataField, ...]:
    """Return the columns that the file holds: all columns of its schema, or the subset that its writer wrote."""
    fields = plan.file_fields[file.schema_id]
    if file.write_columns is None:
        return fields
    # If writers record the columns of a keyed table's file, they leave out the columns of the merge.
    merged = [field for field in fields if field.id >= SYSTEM_FIELD_ID_START]
    return tuple(
        field
        for field in dict.fromkeys((*fields, *STORED_TRACKED))
        if field.name in file.write_columns or field in merged
    )


__all__ = ["project", "select_file_columns", "translate_predicate"]

Fields = Sequence[t.DataField]


def select_file_columns(file_fields: Fields, read_fields: Fields) -> tuple[t.DataField, ...]:
    """Return the columns of the file that the read needs, in file order; nested columns are read whole."""
    wanted = {field.id for field in read_fields}
    return tuple(field for field in file_fields if field.id in wanted)


def project(
    frame: pl.LazyFrame,
    file_fields: Fields,
    read_fields: Fields,
    *,
    where: str | None = None,
    zone: str = "UTC",
    schemas: tuple[int, int] | None = None,
) -> pl.LazyFrame:
    """Select `read_fields`, in their order, from a frame of `file_fields` (in Morrow's dtypes, by name).

    Unchanged and renamed columns are plain columns, through which Polars pushes projections and filters into the scan;
    a column whose type changed costs only its own cast.

    Args:
        frame: the file's rows; columns that the read does not need may be absent.
        where: the name in errors, such as the file.
        zone: the session's zone, for casts of TIMESTAMP_LTZ.
        schemas: the ids of the schemas of the file and of the read, for errors.

    Raises:
        Unsupported: a type changed in a way that Java Paimon cannot read either. (A value that cannot be cast fails
            when the query runs.)
    """
    by_id = {field.id: field for field in file_fields}
    columns = [_project_column(by_id.get(field.id), field, where, zone, schemas) for field in read_fields]
    if any(field.id in by_id for field in read_fields):
        return frame.select(columns)
    # Literals alone would yield one row: keep the height of the file.
    return frame.with_columns(columns).select(cols(field.name for field in read_fields))


def _project_column(
    written: t.DataField | None, field: t.DataField, where: str | None, zone: str, schemas: tuple[int, int] | None
) -> pl.Expr:
    if written is None:
        return pl.lit(None, dtype=to_polars_dtype(field.type)).alias(field.name)
    column = col(written.name)
    if not t.has_same_values(written.type, field.type):
        from morrow.readers.casts import cast_expression
        from morrow.readers.casts.base import TypeChange

        change = None if schemas is None else TypeChange((field.name,), *schemas)
        place = where if change is not None else f"{where}, column {field.name}" if where else f"column {field.name}"
        column = cast_expression(column, written.type, field.type, where=place, zone=zone, change=change)
    return column if written.name == field.name else column.alias(field.name)


def list_virtual_columns(plan: ScanPlan, fields: Sequence[t.DataField]) -> tuple[t.DataField, ...]:
    """Return the columns that must be computed."""
    known: tuple[t.DataField, ...] = (ROWKIND_FIELD, *TRACKED)
    if plan.schema.primary_keys:
        by_snapshot = plan.merge is not None and plan.merge.by_snapshot
        known = (ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD) if by_snapshot else (ROWKIND_FIELD,)
    return tuple(field for field in fields if field in known)


def is_file_dependent(plan: ScanPlan, fields: Sequence[t.DataField]) -> bool:
    """Return whether a column is computed from its file's metadata, so that each file must be read separately."""
    return any(field in TRACKED for field in list_virtual_columns(plan, fields))


def need_positions(plan: ScanPlan, fields: Sequence[t.DataField]) -> bool:
    """Return whether rows must be numbered, file by file."""
    return ROW_ID_FIELD in list_virtual_columns(plan, fields)


def list_inputs(plan: ScanPlan, file: DataFile, fields: Sequence[t.DataField]) -> tuple[t.DataField, ...]:
    """Return the columns to read from the file for these columns: stored columns, and inputs of virtual columns."""
    made = list_virtual_columns(plan, fields)
    carried = [field for field in made if field in TRACKED and _is_carried(plan, file, field)]
    kinds = [VALUE_KIND_FIELD] if ROWKIND_FIELD in made and plan.schema.primary_keys else []
    return tuple(dict.fromkeys((*(field for field in fields if field not in made), *carried, *kinds)))


def make(plan: ScanPlan, file: DataFile, field: t.DataField, position: pl.Expr) -> pl.Expr:
    """Compute the column from the columns of `list_inputs`; null if the file lacks row ids.

    `position`: the row's 0-based number in the file.
    """
    if field == ROWKIND_FIELD:
        return build_rowkind() if plan.schema.primary_keys else pl.lit(NAMES[INSERT]).alias(field.name)
    if field == ROW_ID_FIELD:
        assigned = position.cast(pl.Int64) + pl.lit(file.first_row_id, dtype=pl.Int64)
    else:
        assigned = pl.lit(file.max_sequence, dtype=pl.Int64)
    value = pl.coalesce(col(field.name), assigned) if _is_carried(plan, file, field) else assigned
    return value.alias(field.name)


def _is_carried(plan: ScanPlan, file: DataFile, field: t.DataField) -> bool:
    if plan.schema.primary_keys:
        return file.snapshot_id is None
    return file.write_columns is not None and field.name in file.write_columns


END = reserve_name("end")
MAX_FRAMES_AT_ONCE = 128
"""Maximum frames (of one file each) collected together. Polars opens all of their files with a thread per file, and
warns of a deadlock at 512 threads."""


def collect_frames(frames: Sequence[pl.LazyFrame], *, stream: bool = False) -> list[pl.DataFrame]:
    """Return the rows of each frame like `pl.collect_all`, but limit how many files are open at once.

    `stream`: by Polars' streaming engine.
    """
    starts = range(0, len(frames), MAX_FRAMES_AT_ONCE)
    groups = [frames[i : i + MAX_FRAMES_AT_ONCE] for i in starts]
    return [found for some in groups for found in pl.collect_all(some, engine="streaming" if stream else "auto")]


def collect_batches(frame: pl.LazyFrame, rows: int | None = None) -> Iterator[pl.DataFrame]:
    """Yield the rows of `frame` in their order, at most `rows` at a time, by Polars' streaming engine.

    Raises (while iterating):
        pl.exceptions.ComputeError: the stream ended early. Any other error that Polars raises.
    """
    if is_in_source() and not STREAMS_IN_SOURCES:
        whole_frame = frame.collect()
        yield from whole_frame.iter_slices(rows or max(whole_frame.height, 1)) if whole_frame.height else ()
        return
    end = find_free_name(END, frame.collect_schema().names())  # frames of users may have columns of any name
    marked = frame.with_columns(pl.lit(False).alias(end))
    whole = pl.concat([marked, pl.LazyFrame({end: [True]})], how="diagonal")
    complete = False
    for batch in whole.collect_batches(chunk_size=rows, maintain_order=True, lazy=True, engine="streaming"):
        complete = bool(batch.drop_in_place(end)[-1])  # `drop` is a query of its own
        found = batch[:-1] if complete else batch
        if found.height:
            yield found
    if not complete:
        raise pl.exceptions.ComputeError("reading broke off (Polars panicked, and said where on standard error)")


def select_frames(
    frames: Iterable[pl.DataFrame], columns: Sequence[str], predicate: pl.Expr | None, limit: int | None
) -> Iterator[pl.DataFrame]:
    """Yield the rows that Polars asks a source for: these columns of matching rows, `limit` rows at most."""
    for rows in frames:
        kept = (rows if predicate is None else rows.filter(predicate)).select(cols(columns))
        kept = kept if limit is None else kept.head(limit)
        yield kept
        limit = None if limit is None else limit - kept.height
        if limit == 0:
            return


@contextmanager
def translate_file_errors(
    plan: ScanPlan, sections: Sequence[Section], fields: Sequence[t.DataField], store: FileStore
) -> Iterator[None]:
    """Wrap a query over `sections` in `translate_errors`, and name the corrupt file.

    Files are read one by one only after a failure, until one fails alone.

    Raises:
        CorruptFile, FileMissing, Unsupported, StorageError: as `translate_errors`, naming the file if it is found.
        SnapshotExpired: a file is missing because the plan's snapshot was removed in the meantime.
    """
    paths = {file.path for section in sections for file in section.files}
    with guard_read(plan, store):
        try:
            with translate_errors(plan.table):
                yield
        except CorruptFile as error:
            if error.path not in paths:
                fail_alone(plan, sections, fields, store)
            raise
        except Unsupported as error:
            if str(error).startswith(f"{plan.table}: "):  # a value of one of the files; Polars drops `where`
                fail_alone(plan, sections, fields, store)
            raise
        except StorageError as error:
            if store.is_local and not any(path in str(error) for path in paths):
                _open_each(paths, store)
            raise


def translate_section_errors(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore
) -> AbstractContextManager[None]:
    """Wrap a query over the columns that the plan reads of `sections`; see `translate_file_errors`."""
    return translate_file_errors(plan, sections, tuple(plan.schema.by_name[name] for name in plan.read_columns), store)


def _open_each(paths: Iterable[str], store: FileStore) -> None:
    """Raise the store's error for the first file that cannot be opened."""
    for path in sorted(paths):
        store.open(path).close()


def fail_alone(plan: ScanPlan, sections: Sequence[Section], fields: Sequence[t.DataField], store: FileStore) -> None:
    """Read files one by one. Raises the error of the first file that cannot be read."""
    for section in sections:
        for file in section.files:
            with translate_errors(file.path):
                try:
                    frame = scan_files(plan, section, [file], fields, store)
                    for _ in collect_batches(frame):
                        pass
                except MorrowError as error:
                    # Errors about a value, from a schema evolution's cast or a decoder, do not name the file either.
                    if file.path in str(error):
                        raise
                    if isinstance(error, CorruptFile):
                        raise CorruptFile(file.path, str(error)) from error
                    told = copy(error)
                    told.args = (f"{file.path}: {str(error).removeprefix(f'{plan.table}: ')}", *error.args[1:])
                    raise told from error
