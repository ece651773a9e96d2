"""Parquet data files, scanned by Polars.

The scan receives the dtypes of the columns. It converts while decoding (INT96 and other units of timestamps, zones,
maps to lists of key and value, narrow to wide integers) and refuses lossy conversions. There are no cast expressions
between a filter and the file, so filters reach row groups and pages.

One type needs a check of values. TIMESTAMP above precision 6 is INT96 in Paimon's Parquet files: days and nanoseconds
of a day. Arrow and Polars count nanoseconds from 1970 in 64 bits, which cover 1677-09-21 to 2262-04-11. Polars clamps
values outside of this range to the largest value, so that value is an error here, not a wrong row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.map_shredding import (
    SharedColumns,
    has_shared_maps,
    is_shareable,
    parse_shared_columns,
    rebuild_maps,
)
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.io.local import LocalStore
from morrow.engine.io.resolve import ConfinedStore
from morrow.engine.io.store import get_url_options, has_urls
from morrow.engine.library_versions import CONVERTS_TIME_UNITS, DATETIME_CASTS, export_series, import_array
from morrow.engine.names import clear_pattern_name, col, cols, reserve_name, select_exactly
from morrow.readers.casts.dtypes import cast_layout, to_polars_dtype, to_series
from morrow.readers.files.registry import FileReader, KeyBounds
from morrow.readers.files.source import FileSource, check_rows, has_timestamps, list_member_types, translate_errors

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from morrow.engine.format.variant_shredding import PartLeaves
    from morrow.engine.plan.predicate import PartCondition, VariantPart

CONVERSIONS = pl.ScanCastOptions(integer_cast="upcast", float_cast="upcast", datetime_cast=DATETIME_CASTS)
WIDENED = {VALUE_KIND: pl.Int32()}
"""Columns that are read with a wider type: pypaimon before 1.4 stores the row kind as an INT."""
FOOTER_BYTES = 1 << 16
"""Bytes at the end of a file that are requested for its footer; a longer one takes a second request."""
MICROS_PRECISION = 6
FILE = reserve_name("file")
TIME_UNITS = ("ms", "us", "ns")
PINNED_NANOS = 2**63 - 1
"""Polars' result for an INT96 timestamp that 64 bits of nanoseconds cannot hold."""


def scan_parquet(
    sources: Sequence[FileSource],
    fields: Sequence[t.DataField],
    position: str | None = None,
    *,
    file: str | None = None,
) -> pl.LazyFrame:
    """Scan Parquet files of one schema in one scan; see `morrow.readers.files.scan`.

    With `file` a last column of that name holds the URL of the row's file.
    """
    dtypes = {each.name: to_polars_dtype(each.type) for each in fields}
    varied = [each for each in fields if t.has_type(each.type, t.VectorType) or t.has_type(each.type, t.VariantType)]
    if has_shared_maps(sources[0].options, fields):
        varied += [each for each in fields if is_shareable(each.type)]
    if not CONVERTS_TIME_UNITS:
        varied += [each for each in fields if has_timestamps(each.type)]
    if varied and len(sources) > 1:
        return _scan_each(sources, fields, position, file)
    stored: dict[str, pl.DataType] = {name: dtype for name, dtype in WIDENED.items() if name in dtypes}
    shared: dict[str, SharedColumns] = {}
    if varied:
        found, shared = _find_stored_dtypes(sources[0], varied)
        stored |= found
    store = sources[0].store
    if position is not None and len(sources) > 1:
        # Polars counts rows by the footers: a wrong footer would shift the positions of all later files.
        for source in sources:
            check_rows(source, read_row_count(source))
    frame = pl.scan_parquet(
        _list_places(sources),
        schema=dtypes | stored,
        cast_options=CONVERSIONS,
        extra_columns="ignore",
        row_index_name=position,
        include_file_paths=file,
        hive_partitioning=False,
        glob=False,
        storage_options=(dict(get_url_options(store)) or None) if has_urls(store) else None,
    )
    names = [each.name for each in fields] + ([] if position is None else [position])
    if position is not None:
        frame = frame.select(cols(names))
    where = sources[0].path if len(sources) == 1 else f"{sources[0].path} or one of {len(sources) - 1} more"
    checked = [_check_column(each, where) for each in fields if _has_nanos(each.type) and each.name not in shared]
    checked += [_rebuild_maps(each, shared[each.name], where) for each in fields if each.name in shared]
    kinds = {each.name: each.type for each in varied if t.has_type(each.type, t.VariantType)}
    checked += [
        _rebuild_variants(name, kinds[name]) if name in kinds else col(name).cast(dtypes[name])
        for name in stored
        if name not in shared
    ]
    return frame.with_columns(checked) if checked else frame


def _rebuild_variants(name: str, kind: t.DataType) -> pl.Expr:
    """Return a column whose variants are shredded in the file as a column of variants."""
    dtype = to_polars_dtype(kind)

    def convert(column: pl.Series) -> pl.Series:
        from morrow.engine.format.variant_shredding import rebuild_within

        try:
            array = rebuild_within(export_series(column, pl.CompatLevel.oldest()), kind)
        except CorruptFile as error:  # Polars makes its errors again from their text, for which this class needs more
            raise pl.exceptions.ComputeError(f"{error.path} in the column {name!r}: {error.problem}") from error
        return to_series(column.name, cast_layout(array, kind.arrow()), kind)

    return col(name).map_batches(convert, return_dtype=dtype, is_elementwise=True)


def _rebuild_maps(field: t.DataField, shared: SharedColumns, where: str) -> pl.Expr:
    """Return a column of maps that the file stores in shared columns."""

    def convert(column: pl.Series) -> pl.Series:
        try:
            array = rebuild_maps(export_series(column.rechunk(), pl.CompatLevel.oldest()), shared, where)
        except CorruptFile as error:  # Polars makes its errors again from their text, for which this class needs more
            raise pl.exceptions.ComputeError(f"{error.path} in the column {field.name!r}: {error.problem}") from error
        made = to_series(column.name, array, field.type)
        return _refuse_pinned(made, field, where) if _has_nanos(field.type) else made

    dtype = to_polars_dtype(field.type)
    return col(field.name).map_batches(convert, return_dtype=dtype, is_elementwise=True)


def _find_stored_dtypes(
    source: FileSource, varied: Sequence[t.DataField]
) -> tuple[dict[str, pl.DataType], dict[str, SharedColumns]]:
    """Return dtypes for columns that this file stores otherwise: vectors, shredded variants, timestamps of other units.

    Java writes vectors as lists, pypaimon with a fixed size. Also returns the maps in shared columns.
    """
    import pyarrow.parquet as pq

    from morrow.engine.format.variant_shredding import is_shredded

    with translate_errors(source.path), source.store.open(source.path) as stream:
        arrow = pq.read_schema(stream)
    schema = {each.name: each.type for each in arrow}
    shared = {
        each.name: columns
        for each in varied
        if is_shareable(each.type) and each.name in schema
        if (columns := parse_shared_columns(arrow.field(each.name).metadata, source.path)) is not None
    }
    there = {
        each.name: to_polars_dtype(each.type) for each in varied if each.name in schema and each.name not in shared
    }
    found = {name: _to_stored_dtype(dtype, schema[name]) for name, dtype in there.items()}
    shredded = [each.name for each in varied if each.name in schema and is_shredded(schema[each.name], each.type)]
    found |= {name: import_array(pa.array([], schema[name])).dtype for name in shredded}
    found = {name: dtype for name, dtype in found.items() if dtype != there[name] or name in shredded}
    kinds = {each.name: each.type for each in varied if isinstance(each.type, t.MapType)}
    return found | {name: to_polars_dtype(each.physical(kinds[name])) for name, each in shared.items()}, shared


def _to_stored_dtype(dtype: Any, arrow: pa.DataType) -> Any:
    """Return the dtype with lists for vectors, and with coarser units of timestamps, as Arrow's type has them."""
    if isinstance(dtype, pl.Array):
        return pl.List(dtype.inner) if pa.types.is_list(arrow) else dtype
    if (
        not CONVERTS_TIME_UNITS
        and isinstance(dtype, pl.Datetime)
        and pa.types.is_timestamp(arrow)
        and arrow.unit in TIME_UNITS
    ):
        return pl.Datetime(min(dtype.time_unit, arrow.unit, key=TIME_UNITS.index), dtype.time_zone)
    if isinstance(dtype, pl.List) and (pa.types.is_list(arrow) or pa.types.is_map(arrow)):
        entries = arrow.value_type if pa.types.is_list(arrow) else pa.struct([arrow.key_field, arrow.item_field])
        return pl.List(_to_stored_dtype(dtype.inner, entries))
    if isinstance(dtype, pl.Struct) and pa.types.is_struct(arrow) and arrow.num_fields == len(dtype.fields):
        members = zip(dtype.fields, arrow, strict=True)
        return pl.Struct([pl.Field(each.name, _to_stored_dtype(each.dtype, member.type)) for each, member in members])
    return dtype


def _scan_each(
    sources: Sequence[FileSource], fields: Sequence[t.DataField], position: str | None, file: str | None
) -> pl.LazyFrame:
    """Scan files one by one, since their vectors may be stored differently."""
    frames, first = [], 0
    for source in sources:
        frame = scan_parquet([source], fields, position, file=file)
        if position is not None:
            frame = frame.with_columns(col(position) + first)
            first += read_row_count(source)
            check_rows(source, read_row_count(source))
        frames.append(frame)
    return pl.concat(frames)


def _list_places(sources: Sequence[FileSource]) -> list[str] | list[bytes]:
    """Return the inputs for Polars: URLs, or the bytes of files in a store that Polars does not support."""
    if has_urls(sources[0].store):
        return [source.store.url(source.path) for source in sources]
    return [source.store.read(source.path) for source in sources]


def _read_each(sources: Sequence[FileSource], fields: Sequence[t.DataField]) -> tuple[pl.DataFrame, list[int]]:
    rows = scan_parquet(sources, fields, file=FILE).collect()
    # Files without rows are not among them, and neighbours have different names.
    lengths = iter(rows[FILE].rle().struct.field("len"))
    heights = [next(lengths, 0) if source.row_count else 0 for source in sources]
    if heights != [source.row_count for source in sources] or sum(heights) != rows.height:
        for source in sources:
            check_rows(source, read_row_count(source))
        raise CorruptFile(sources[0].path, f"it and {len(sources) - 1} more files gave rows that none of them has")
    return rows.drop(select_exactly(FILE)), heights


def read_row_count(source: FileSource) -> int:
    """Return the row count of the footer.

    Raises `FileMissing`, `CorruptFile`, `StorageError`: the footer cannot be read.
    """
    import pyarrow.parquet as pq  # imports all file systems of Arrow

    store = source.store.inner if isinstance(source.store, ConfinedStore) else source.store
    if type(store) is LocalStore:
        with translate_errors(source.path):
            # Straight from the disk: for thousands of files, a Python stream costs four times as much.
            return int(pq.read_metadata(source.path).num_rows)
    with translate_errors(source.path), store.open(source.path) as stream:
        return int(pq.ParquetFile(stream).metadata.num_rows)


def _read_stored_names(source: FileSource) -> list[str]:
    import pyarrow.parquet as pq

    with source.store.open(source.path) as stream:
        return list(pq.read_schema(stream).names)


def _read_key_bounds(source: FileSource, name: str) -> list[KeyBounds] | None:
    """Return the bounds of a top-level column in each row group; None if any row group lacks them."""
    metadata = _read_footer(source)
    check_rows(source, metadata.num_rows)
    # By path: a member of a struct may have the key's name.
    paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    if paths.count(name) != 1:
        return None
    groups = []
    for index in range(metadata.num_row_groups):
        row_group = metadata.row_group(index)
        statistics = row_group.column(paths.index(name)).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        groups.append(KeyBounds(row_group.num_rows, statistics.min, statistics.max))
    return groups


def _read_footer(source: FileSource) -> pq.FileMetaData:
    """Return the footer, by one request if the store is remote and the size of the file is known."""
    import pyarrow.parquet as pq

    from morrow.engine.format.parquet_metadata import TAIL_BYTES

    if source.store.is_local or not source.size:
        with source.store.open(source.path) as stream:
            return pq.ParquetFile(stream).metadata
    length = min(source.size, FOOTER_BYTES)
    data = source.store.read_range(source.path, source.size - length, length)
    needed = int.from_bytes(data[-TAIL_BYTES : -TAIL_BYTES // 2], "little") + TAIL_BYTES
    if len(data) < needed <= source.size:
        data = source.store.read_range(source.path, source.size - needed, needed)
    return pq.read_metadata(pa.BufferReader(data[-needed:]))


# --- conditions on parts of shredded variants ---


def _search_parts(
    source: FileSource,
    names: Mapping[str, str],
    condition: PartCondition,
    evaluate: Callable[[pl.DataFrame], npt.NDArray[np.bool_]],
) -> tuple[npt.NDArray[np.bool_], bool] | None:
    """Return the rows that may fulfil a condition on parts of variants; see `FileReader.search_parts`."""
    import pyarrow.parquet as pq

    from morrow.engine.format.variant_shredding import find_part_leaves

    with source.store.open(source.path) as stream:
        file = pq.ParquetFile(stream)
        check_rows(source, file.metadata.num_rows)
        schema = file.schema_arrow
        if any(names[part.column] not in schema.names or "." in names[part.column] for part in condition.parts):
            return None
        found = {
            part: find_part_leaves(names[part.column], schema.field(names[part.column]).type, part.path)
            for part in condition.parts
        }
        parts = {part: leaves for part, leaves in found.items() if leaves is not None}
        if len(parts) < len(condition.parts):
            return None
        wanted = {name for leaves in parts.values() for name in (leaves.typed, *leaves.others)}
        paths = [file.metadata.schema.column(i).path for i in range(file.metadata.num_columns)]
        kept, decided = [], True
        for group in range(file.num_row_groups):
            row_group = file.metadata.row_group(group)
            rows = row_group.num_rows
            chunks = {path: row_group.column(i) for i, path in enumerate(paths) if path in wanted}
            if not _may_hold_parts(parts, condition, chunks, rows):
                kept.append(np.zeros(rows, np.bool_))
                continue
            answer = _search_group(file, group, parts, evaluate, chunks)
            if answer is None:
                return None
            kept.append(answer[0])
            decided &= answer[1]
    return np.concatenate([np.zeros(0, np.bool_), *kept]), decided


def _may_hold_parts(
    parts: Mapping[VariantPart, PartLeaves], condition: PartCondition, chunks: Mapping[str, Any], rows: int
) -> bool:
    """Return whether statistics of a row group allow rows that fulfil the condition."""
    from morrow.engine.format.manifest_entries import ColumnStats
    from morrow.engine.format.variant_shredding import convert_part
    from morrow.engine.plan.pruning import StatsFrame, mask_by_stats

    columns = {}
    for part, leaves in parts.items():
        statistics = chunks[leaves.typed].statistics
        # NaN is outside of the bounds of floats.
        if statistics is None or not statistics.has_null_count or pa.types.is_floating(leaves.kind):
            continue
        if not all(_is_all_null(chunks[name], rows) for name in leaves.others):
            continue
        bounds = None
        if statistics.has_min_max:
            bounds = convert_part(pa.array([statistics.min, statistics.max], leaves.kind), part.type)
        nulls = pl.Series([statistics.null_count], dtype=pl.Int64)
        if bounds is not None and not bounds[1].any():
            ends = to_series(part.name, bounds[0], part.type)
            columns[part.name] = ColumnStats(ends[:1], ends[1:], nulls)
        elif statistics.null_count == rows:
            columns[part.name] = ColumnStats(None, None, nulls)
    return bool(mask_by_stats(condition.predicate, StatsFrame(pl.Series([rows], dtype=pl.Int64), columns))[0])


def _is_all_null(chunk: Any, rows: int) -> bool:
    return chunk.statistics is not None and chunk.statistics.has_null_count and chunk.statistics.null_count == rows


def _search_group(
    file: pq.ParquetFile,
    group: int,
    parts: Mapping[VariantPart, PartLeaves],
    evaluate: Callable[[pl.DataFrame], npt.NDArray[np.bool_]],
    chunks: Mapping[str, Any],
) -> tuple[npt.NDArray[np.bool_], bool] | None:
    """Return the rows of a row group that may fulfil the condition, and whether all of them do."""
    from morrow.engine.format.variant_shredding import decide_part

    rows = file.metadata.row_group(group).num_rows
    read = {each.typed for each in parts.values()}
    read |= {name for each in parts.values() for name in each.others if not _is_all_null(chunks[name], rows)}
    table = file.read_row_group(group, columns=sorted(read)).combine_chunks()
    undecided = np.zeros(rows, np.bool_)
    columns = []
    for part, leaves in parts.items():
        column = table.column(leaves.typed.split(".", 1)[0])
        answer = decide_part(column.combine_chunks(), part.path, part.type)
        if answer is None:
            return None
        columns.append(to_series(part.name, answer[0], part.type))
        undecided |= answer[1]
    return evaluate(pl.DataFrame(columns)) | undecided, not undecided.any()


# --- timestamps that 64 bits of nanoseconds cannot hold ---


def _has_nanos(type_: t.DataType) -> bool:
    if isinstance(type_, (t.TimestampType, t.LocalZonedTimestampType)):
        return type_.precision > MICROS_PRECISION
    return any(map(_has_nanos, list_member_types(type_)))


def _check_column(field: t.DataField, where: str) -> pl.Expr:
    dtype = to_polars_dtype(field.type)
    check = partial(_refuse_pinned, field=field, where=where)
    return col(field.name).map_batches(check, return_dtype=dtype, is_elementwise=True)


def _refuse_pinned(column: pl.Series, field: t.DataField, where: str) -> pl.Series:
    if _has_pinned(column):
        raise Unsupported(
            f"a {field.type} before 1677 or after 2262 in column {field.name!r}",
            where=where,
            hint="Arrow counts nanoseconds in 64 bits; lower the column's precision to 6 and rewrite the file",
        )
    return column


def _has_pinned(column: pl.Series) -> bool:
    column = clear_pattern_name(column)
    dtype = column.dtype
    if isinstance(dtype, pl.Struct):
        return any(map(_has_pinned, column.struct.unnest().iter_columns()))
    if isinstance(dtype, (pl.List, pl.Array)):
        return _has_pinned(column.explode(empty_as_null=False))
    return isinstance(dtype, pl.Datetime) and bool((column.to_physical() == PINNED_NANOS).any())


READER = FileReader(
    scan=scan_parquet,
    row_count=read_row_count,
    stored_names=_read_stored_names,
    read_each=_read_each,
    key_bounds=_read_key_bounds,
    search_parts=_search_parts,
)
