"""BLOB columns of a plan: references while rows are chosen, values once the rows are known.

Sections hold references in BLOB columns, so that filters, masks and limits read no blob. Columns in blob files have
references to records (`REFERENCE`), which come from the index of a blob file. Of all files with a row, the newest
without a placeholder counts. Other columns hold descriptors and views in their data files. `resolve_frame` replaces the
references of output rows by values, or by descriptors if ``blob-as-descriptor`` is set.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from morrow.engine.errors import ColumnNotFound, FileMissing, Unsupported
from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.blob_layout import PLACEHOLDER_LENGTH, Numbers
from morrow.engine.format.blob_values import BlobPlaces
from morrow.engine.format.blobs import (
    decode_descriptors,
    decode_views,
    is_blob_type,
    list_descriptors,
    map_members,
    to_binary,
)
from morrow.engine.format.file_formats import BLOB, is_dedicated_file
from morrow.engine.format.paths import DATABASE_SUFFIX, check_segment
from morrow.engine.format.types import ArrayType, BlobType, DataField, MapType, to_polars_dtype
from morrow.engine.io.store import FileStore
from morrow.engine.library_versions import register_source
from morrow.engine.names import cols
from morrow.engine.options import Options
from morrow.engine.options.declared.features import (
    BLOB_AS_DESCRIPTOR,
    BLOB_DESCRIPTOR_FIELD,
    BLOB_VIEW_FIELD,
    BLOB_VIEW_RESOLVE_ENABLED,
)
from morrow.engine.plan.filter import NO_FILTER
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import make_plan
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, ScanRequest, Section
from morrow.engine.structs import replace
from morrow.readers.files.file_frames import collect_batches, make_source, scan_files
from morrow.readers.files.source import check_rows, translate_errors

REFERENCE = np.dtype([("file", "<u4"), ("offset", "<i8"), ("size", "<i8")])
"""A record of a blob file: the number of the file in `ScanPlan.blob_files`, and the record's place there."""
REFERENCE_ROWS = 1 << 16
"""Rows of a frame of references."""
INLINE_BYTES = 1 << 16
"""Estimated bytes of the value of a descriptor."""
MAX_RESOLVED_BYTES = 64 << 20
"""Approximate bytes of values that are read for one frame, unless a single value is larger."""


def list_blob_columns(plan: ScanPlan, names: Sequence[str]) -> list[DataField]:
    """Return the columns among `names` for which sections hold references that must be resolved."""
    found = (plan.schema.by_name[name] for name in names)
    return [field for field in found if is_blob_type(field.type) and not _is_left(plan, field)]


def is_in_blob_files(plan: ScanPlan, field: DataField) -> bool:
    """Return whether the column has files of its own."""
    if plan.schema.primary_keys or not is_blob_type(field.type):
        return False
    return field.name not in _list_inline_columns(plan)


def to_stored_dtype(plan: ScanPlan, field: DataField) -> pl.DataType:
    """Return the dtype of the column in frames of sections."""
    return pl.Binary() if is_in_blob_files(plan, field) else to_polars_dtype(field.type)


def gives_descriptors(plan: ScanPlan) -> bool:
    """Return whether the plan's rows have descriptors instead of blobs."""
    return Options(plan.file_options).get(BLOB_AS_DESCRIPTOR)


def _list_inline_columns(plan: ScanPlan) -> tuple[str, ...]:
    options = Options(plan.file_options)
    return (*options.get(BLOB_DESCRIPTOR_FIELD), *options.get(BLOB_VIEW_FIELD))


def _is_left(plan: ScanPlan, field: DataField) -> bool:
    """Return whether the stored references are what a read returns."""
    options = Options(plan.file_options)
    if field.name in options.get(BLOB_VIEW_FIELD):
        return not options.get(BLOB_VIEW_RESOLVE_ENABLED)
    return gives_descriptors(plan) and not is_in_blob_files(plan, field)


def scan_references(
    plan: ScanPlan, field: DataField, files: Sequence[DataFile], first: int, rows: int, store: FileStore
) -> pl.LazyFrame:
    """Return the references of `rows` consecutive row ids from `first` as a lazy frame of one column.

    `files`: the blob files of the column, with any of these row ids.
    """

    def generate(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        found = _find_references(plan, files, first, rows, store)
        for start in range(0, rows if n_rows is None else min(rows, n_rows), REFERENCE_ROWS):
            stop = min(start + REFERENCE_ROWS, rows if n_rows is None else n_rows)
            part = found[start:stop]
            column = to_binary(part.view(np.uint8).reshape(len(part), REFERENCE.itemsize))
            frame = pl.DataFrame({field.name: column.set(make_series(part["size"] <= 0), None)})
            frame = frame if with_columns is None else frame.select(cols(with_columns))
            yield frame if predicate is None else frame.filter(predicate)

    return register_source(generate, {field.name: pl.Binary()}, f"blobs of {field.name}")


def _find_references(
    plan: ScanPlan, files: Sequence[DataFile], first: int, rows: int, store: FileStore
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return the reference to each row's newest value, skipping placeholders; a size of 0 or less is null."""
    from morrow.readers.files.formats import blob as records

    found = np.zeros(rows, REFERENCE)
    found["size"] = PLACEHOLDER_LENGTH
    numbers = {path: number for number, path in enumerate(plan.blob_files)}
    for file in sorted(files, key=lambda file: -file.max_sequence):
        open_rows = found["size"] == PLACEHOLDER_LENGTH
        begin = (file.first_row_id or 0) - first
        low, high = max(begin, 0), min(begin + file.row_count, rows)
        if low >= high or not open_rows[low:high].any():
            continue
        source = make_source(file, plan, store)
        with translate_errors(file.path):
            lengths = records.record_lengths(source)
            check_rows(source, len(lengths))
        ends = np.cumsum(np.maximum(lengths, 0))
        here = slice(low - begin, high - begin)
        new = np.zeros(high - low, REFERENCE)
        new["file"], new["size"] = numbers[file.path], lengths[here]
        new["offset"] = (ends - np.maximum(lengths, 0))[here]
        found[low:high] = np.where(open_rows[low:high], new, found[low:high])
    return found


def estimate_blob_bytes(plan: ScanPlan, section: Section) -> int:
    """Estimate the bytes of the values that a read of the section returns."""
    names = {field.name for field in list_blob_columns(plan, plan.columns)}
    if not names or gives_descriptors(plan):
        return 0
    files = (file for file in section.files if file.format == BLOB and not names.isdisjoint(file.write_columns or ()))
    inline = any(not is_in_blob_files(plan, plan.schema.by_name[name]) for name in names)
    return sum(file.size for file in files) + section.row_count * INLINE_BYTES * inline


def resolve_lazily(plan: ScanPlan, frame: pl.LazyFrame, names: Sequence[str], store: FileStore) -> pl.LazyFrame:
    """Return the rows of a frame of sections with the values of its columns `names`, read as rows are used."""
    fields = list_blob_columns(plan, names)
    if not fields:
        return frame
    schema = frame.collect_schema()
    resolved = {field.name for field in fields}
    kinds = {field.name: to_polars_dtype(field.type) for field in fields}

    def generate(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = frame if with_columns is None else frame.select(cols(with_columns))
        wanted = wanted if n_rows is None else wanted.head(n_rows)
        late = predicate
        if predicate is not None and not resolved & {*predicate.meta.root_names()}:
            wanted, late = wanted.filter(predicate), None
        for batch in collect_batches(wanted):
            for rows in _cut(plan, batch, fields):
                found = resolve_frame(plan, rows, fields, store)
                yield found if late is None else found.filter(late)

    return register_source(generate, {**schema, **kinds}, f"blobs of {plan.table}")


def resolve_frame(plan: ScanPlan, rows: pl.DataFrame, fields: Sequence[DataField], store: FileStore) -> pl.DataFrame:
    """Return rows of sections with values, or descriptors, in the BLOB columns among `fields`.

    Raises:
        CorruptFile, FileMissing, StorageError. UnsafePath: a descriptor names a file outside of the allowed roots.
    """
    present = [field for field in fields if field.name in rows.columns]
    values = (_resolve_column(plan, field, rows[field.name], store).alias(field.name) for field in present)
    return rows.with_columns(values)


def _cut(plan: ScanPlan, rows: pl.DataFrame, fields: Sequence[DataField]) -> Iterator[pl.DataFrame]:
    """Yield the rows in frames whose values take about `MAX_RESOLVED_BYTES`."""
    sizes = np.zeros(rows.height, np.int64)
    for field in fields:
        if field.name in rows.columns and not gives_descriptors(plan):
            sizes += _estimate_sizes(plan, field, rows[field.name])
    ends = np.cumsum(sizes)
    start = 0
    while start < rows.height:
        limit = int(ends[start]) + MAX_RESOLVED_BYTES
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield rows[start:stop]
        start = stop


def _estimate_sizes(plan: ScanPlan, field: DataField, column: pl.Series) -> Numbers:
    if column.dtype == pl.Binary and is_in_blob_files(plan, field):
        return _decode_references(column)["size"].astype(np.int64)
    if column.dtype != pl.Binary:
        counts = column.list.len().fill_null(0).to_numpy()
        owners = np.repeat(np.arange(len(column)), counts)
        return np.bincount(owners, _read_lengths(list_descriptors(column, field.type)), len(column)).astype(np.int64)
    return _read_lengths(column)


def _read_lengths(descriptors: pl.Series) -> Numbers:
    lengths = descriptors.bin.tail(8).bin.reinterpret(dtype=pl.Int64).fill_null(0)
    return lengths.clip(0, MAX_RESOLVED_BYTES).to_numpy()


def _decode_references(column: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return the references of a column; a size of 0 is null."""
    filled = column.fill_null(bytes(REFERENCE.itemsize)).rechunk()
    return np.frombuffer(b"".join(filled), REFERENCE) if len(filled) else np.zeros(0, REFERENCE)


def _resolve_column(plan: ScanPlan, field: DataField, column: pl.Series, store: FileStore) -> pl.Series:
    if is_in_blob_files(plan, field):
        return column if column.dtype != pl.Binary or not len(column) else _resolve_records(plan, field, column, store)
    return map_members(column, field.type, lambda values: _resolve_inline(plan, field, values, store))


def _resolve_records(plan: ScanPlan, field: DataField, column: pl.Series, store: FileStore) -> pl.Series:
    from morrow.readers.files.formats import blob as records

    references, paths = _decode_references(column), plan.blob_files
    if not paths:  # no row has a value: pypaimon writes files without the column
        return records.decode_values(column, field.type, plan.table)

    def resolve(number: int, rows: Numbers) -> pl.Series:
        path = paths[number]
        places = references["offset"][rows], references["size"][rows]
        with translate_errors(path):
            if gives_descriptors(plan):
                return records.describe_values(store, path, *places, field.type)
            return records.decode_values(records.read_records(store, path, *places), field.type, path)

    return _resolve_groups(references["file"].astype(np.int64), resolve)


def _resolve_groups(groups: Numbers, resolve: Callable[[int, Numbers], pl.Series]) -> pl.Series:
    """Return the values of all rows, resolved by group."""
    numbers, counts = np.unique(groups, return_counts=True)
    if len(numbers) == 1:
        return resolve(int(numbers[0]), np.arange(len(groups)))
    order = np.argsort(groups, kind="stable")
    parts = np.split(order, np.cumsum(counts)[:-1])
    found = pl.concat([resolve(int(number), rows) for number, rows in zip(numbers, parts)])
    return found.gather(np.argsort(order))


def _resolve_inline(plan: ScanPlan, field: DataField, column: pl.Series, store: FileStore) -> pl.Series:
    """Return the values that descriptors and views name."""
    places = make_places(plan, store)
    if field.name in Options(plan.file_options).get(BLOB_VIEW_FIELD):
        column = _find_viewed(places, column, MAX_VIEWS)
        if gives_descriptors(plan):
            return column
    found = decode_descriptors(column, f"{plan.table}, column {field.name}")
    names = found["uri"].drop_nulls().unique(maintain_order=True).to_list()
    numbers = _number(found["uri"], names)
    offsets, lengths = found["offset"].fill_null(0).to_numpy(), found["length"].fill_null(0).to_numpy()

    def resolve(number: int, rows: Numbers) -> pl.Series:
        if number < 0:
            return pl.Series([None], dtype=pl.Binary).new_from_index(0, len(rows))
        return _read_descriptors(places, names[number], offsets[rows], lengths[rows])

    return _resolve_groups(numbers, resolve) if len(column) else column


def _number(values: pl.Series, known: Sequence[object]) -> Numbers:
    """Return the number of each value among the known ones, -1 for null."""
    if not known:
        return np.full(len(values), -1)
    return values.replace_strict(known, list(range(len(known))), default=-1, return_dtype=pl.Int64).to_numpy()


def _read_descriptors(places: BlobPlaces, uri: str, offsets: Numbers, lengths: Numbers) -> pl.Series:
    """Return ranges of one file.

    Raises `UnsafePath`, `FileMissing`, `StorageError`. `CorruptFile`: the file ends before a range.
    """
    from morrow.readers.files.formats import blob as records

    store, path = places.locate(uri)
    if (lengths < 0).any():
        size = store.size(path)
        if size is None:
            raise FileMissing(path)
        lengths = np.where(lengths < 0, np.maximum(size - offsets, 0), lengths)
    return records.read_ranges(store, path, offsets, lengths)


def make_places(plan: ScanPlan, store: FileStore) -> BlobPlaces:
    """Return the places of the files that descriptors of this table may name."""
    views = any(name in plan.schema.by_name for name in Options(plan.file_options).get(BLOB_VIEW_FIELD))
    # Views name values of other tables of the warehouse.
    own = posixpath.dirname(posixpath.dirname(plan.root)) if views else plan.root
    roots = (store.url(own), *plan.allowed_roots)
    return BlobPlaces(store, plan.root, plan.table, roots, plan.file_options)


MAX_VIEWS = 8
"""Maximum length of a chain of views of views; a longer chain may be a cycle."""


def _find_viewed(places: BlobPlaces, column: pl.Series, left: int) -> pl.Series:
    """Return the descriptors of the values that views name.

    Tables are found in the warehouse of the table that has the views.

    Raises:
        TableNotFound, ColumnNotFound. Unsupported: a row that does not exist, or views of views beyond `MAX_VIEWS`.
    """
    if not left:
        raise Unsupported(f"views of views of blobs, more than {MAX_VIEWS}", where=places.where)
    found = decode_views(column, places.where)
    names = found["table"].drop_nulls().unique(maintain_order=True).to_list()

    def resolve(number: int, rows: Numbers) -> pl.Series:
        if number < 0:
            return pl.Series([None], dtype=pl.Binary).new_from_index(0, len(rows))
        table = _open_viewed(places, names[number])
        result = pl.Series([None], dtype=pl.Binary).new_from_index(0, len(rows))
        field_ids = found["field_id"].gather(rows)
        for field_id in field_ids.unique():
            at = (field_ids == field_id).arg_true()
            result = result.scatter(at, _read_viewed(table, field_id, found["row_id"].gather(rows).gather(at), left))
        return result

    return _resolve_groups(_number(found["table"], names), resolve) if len(column) else column


def _open_viewed(places: BlobPlaces, name: str) -> TableMetadata:
    database, dot, table = name.partition(".")
    warehouse, folder = posixpath.split(posixpath.dirname(places.root))
    if not dot or not folder.endswith(DATABASE_SUFFIX):
        raise Unsupported(f"a view of {name} outside of a warehouse", where=places.where, hint="copy the tables to one")
    segments = [check_segment(part, places.where) for part in (database + DATABASE_SUFFIX, table)]
    return TableMetadata(places.store, posixpath.join(warehouse, *segments), allowed_roots=places.roots[1:])


def _read_viewed(table: TableMetadata, field_id: int, row_ids: pl.Series, left: int) -> pl.Series:
    """Return the descriptors of the values of one column in these rows."""
    schema, snapshot = table.latest_schema(), table.latest_snapshot()
    field = next((field for field in schema.fields if field.id == field_id), None)
    if field is None or not isinstance(field.type, BlobType):
        raise ColumnNotFound(f"{table.where}: there is no BLOB column with the id {field_id}, which views name")
    options = table.options(schema)
    plan = make_plan(table, ScanRequest(schema, options, snapshot, (field.name,), NO_FILTER))
    places = make_places(plan, table.store)
    ids, values = row_ids.to_numpy(), pl.Series([None], dtype=pl.Binary).new_from_index(0, len(row_ids))
    seen = np.zeros(len(ids), bool)
    for section in plan.sections:
        first, rows = find_row_range(section)
        at = np.flatnonzero((ids >= first) & (ids < first + rows))
        if not len(at):
            continue
        seen[at] = True
        holding = [f for f in section.files if field.name in (f.write_columns or schema.by_name)]
        values = values.scatter(at, _read_descriptions(plan, section, field, holding, ids[at] - first, table.store))
    if not seen.all():
        raise Unsupported(
            f"a view of the row {ids[~seen][0]} of {table.where}, which has no such row",
            where=places.where,
            hint="delete the rows with such views",
        )
    if field.name in options.given.get(BLOB_VIEW_FIELD):
        return _find_viewed(places, values, left - 1)
    return values


def _read_descriptions(
    plan: ScanPlan, section: Section, field: DataField, files: Sequence[DataFile], rows: Numbers, store: FileStore
) -> pl.Series:
    """Return the stored references of some rows of a section as descriptors or views."""
    from morrow.readers.files.formats import blob as records

    first, count = find_row_range(section)
    if is_in_blob_files(plan, field):
        found = _find_references(plan, [file for file in files if file.format == BLOB], first, count, store)[rows]

        def describe(number: int, some: Numbers) -> pl.Series:
            places = found["offset"][some], np.maximum(found["size"][some], 0)
            return records.describe_values(store, plan.blob_files[number], *places, field.type)

        return _resolve_groups(found["file"].astype(np.int64), describe)
    newest = max(files, key=lambda file: file.max_sequence)
    with translate_errors(newest.path):
        return scan_files(plan, section, [newest], [field], store).collect()[field.name].gather(rows)


def find_row_range(section: Section) -> tuple[int, int]:
    """Return the first row id and the number of rows, taken from the files that are not dedicated to a column."""
    whole = [file for file in section.files if not is_dedicated(file)] or list(section.files)
    return whole[0].first_row_id or 0, whole[0].row_count


def is_dedicated(file: DataFile) -> bool:
    """Return whether a file holds a column of BLOBs, or the vectors alone."""
    return is_dedicated_file(posixpath.basename(file.path))


def ask_descriptors(plan: ScanPlan) -> ScanPlan:
    """Return the plan with descriptors instead of blobs."""
    fallback = None if plan.fallback is None else ask_descriptors(plan.fallback)
    return replace(plan, file_options={**plan.file_options, BLOB_AS_DESCRIPTOR.key: "true"}, fallback=fallback)


def to_blobs(plan: ScanPlan, rows: Iterable[dict[str, Any]], store: FileStore) -> Iterator[dict[str, Any]]:
    """Yield as dicts the rows of a plan that returns descriptors, with a `Blob` in place of each descriptor.

    Raises `UnsafePath`: a descriptor names a file outside of the allowed roots.
    """
    options = Options(plan.file_options)
    views = () if options.get(BLOB_VIEW_RESOLVE_ENABLED) else options.get(BLOB_VIEW_FIELD)
    blobs = [field for field in plan.fields if is_blob_type(field.type) and field.name not in views]
    places = make_places(plan, store)
    for row in rows:
        yield {**row, **{field.name: _to_blob(field, row[field.name], places) for field in blobs}} if blobs else row


def _to_blob(field: DataField, value: Any, places: BlobPlaces) -> Any:
    if value is None:
        return None
    if isinstance(field.type, ArrayType):
        return [None if one is None else places.find(one) for one in value]
    if isinstance(field.type, MapType):
        pairs = value.items() if isinstance(value, dict) else value
        found = [(key, None if one is None else places.find(one)) for key, one in pairs]
        return dict(found) if isinstance(value, dict) else found
    return places.find(value)
