"""Differences between versions of Polars and of pyarrow; no other module checks their versions.

Polars:

1.40  units of timestamps are not converted while Parquet files are scanned; slices of structs with nulls are exported
      to Arrow with members of another length
1.42  Python sources can run queries by the streaming engine
1.43  timestamps and slices are right; null maps of Arrow are imported as empty ones, as before
1.44  null maps stay null
2.0   Python sources raise their own errors and have titles in plans; expressions report whether they look at one row;
      JSON has maps
2.1   128-bit integers are reinterpreted as DECIMAL

`EXPORT_LEVEL` depends on pyarrow, too: before 18, pyarrow cannot convert Polars' own layout of text.

pyarrow:

17   casts no views of text and bytes, not even to other layouts
18   casts views
21   writes views to Parquet files
22   writes TIME to Parquet files as local time
23   writes TIME as either
26   timestamps of ORC files beyond 64 bits of nanoseconds are errors; older versions return other timestamps
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from morrow.engine.errors import MorrowError, find_remembered, remember
from morrow.engine.plugins import check_libraries, parse_version
from morrow.engine.polars_threads import run_as_source

check_libraries()
ARROW_VERSION = parse_version(pa.__version__)

CASTS_VIEWS = ARROW_VERSION >= (18,)
WRITES_VIEWS = ARROW_VERSION >= (21,)
CHECKS_ORC_TIMESTAMPS = ARROW_VERSION >= (26,)


def estimate_bytes(rows: pa.Table) -> int:
    """Return the size in bytes of these rows; of all their shared buffers, if this pyarrow cannot count views."""
    try:
        return int(rows.nbytes)
    except pa.ArrowTypeError:
        return int(rows.get_total_buffer_size())


PARQUET_PROPERTIES: dict[str, Any] = {"write_time_adjusted_to_utc": True} if ARROW_VERSION >= (23,) else {}
"""Properties of Parquet writers that request the default of versions before 22: TIME in UTC."""
WRITES_UTC_TIMES = ARROW_VERSION[0] != 22
"""Whether TIME is written to Parquet files as Java Paimon does."""

TEXT, BYTES = (pa.string_view(), pa.binary_view()) if WRITES_VIEWS else (pa.large_string(), pa.large_binary())
"""The types with which Parquet columns of text and bytes are written: the layout that Polars exports fastest."""

check_libraries()
POLARS_VERSION = parse_version(pl.__version__)

CONVERTS_TIME_UNITS = EXPORTS_SLICED_STRUCTS = POLARS_VERSION >= (1, 43)
"""Whether scans of Parquet files convert units of timestamps, and whether `pl.Series.to_arrow` is right for slices."""
STREAMS_IN_SOURCES = POLARS_VERSION >= (1, 42)
"""Whether a Python source can run a query by the streaming engine; before, both wait forever."""
IMPORTS_NULL_MAPS = POLARS_VERSION >= (1, 44)
RAISES_SOURCE_ERRORS = TELLS_ROW_BY_ROW = DECODES_MAPS = POLARS_VERSION >= (2, 0)
REINTERPRETS_WIDE_INTEGERS = POLARS_VERSION >= (2, 1)

WITHIN_SOURCE = "caught exception during execution of a Python source"
"""The text with which Polars 1 begins the message of an error that a Python source raised."""

EXPORT_LEVEL = pl.CompatLevel.newest() if CASTS_VIEWS else pl.CompatLevel.oldest()
"""Polars' own layouts, which are exported without a copy, unless pyarrow cannot convert them."""

DATETIME_CASTS: Any = ["upcast", "convert-timezone"] if CONVERTS_TIME_UNITS else ["convert-timezone"]

Source: TypeAlias = Callable[[list[str] | None, pl.Expr | None, int | None, int | None], Iterator[pl.DataFrame]]


def register_source(source: Source, schema: Any, title: str | None = None, *, is_pure: bool = False) -> pl.LazyFrame:
    """Return a lazy frame over a Python source, with `title` in its plans from Polars 2 on."""
    if RAISES_SOURCE_ERRORS:
        return register_io_source(source, schema=schema, is_pure=is_pure, explain_name=title)

    def remembering(*asked: Any) -> Iterator[pl.DataFrame]:
        try:
            yield from run_as_source(source(*asked))
        except MorrowError as error:
            raise remember(error) from error.__cause__

    return register_io_source(remembering, schema=schema, is_pure=is_pure)


def find_source_error(error: BaseException) -> MorrowError | None:
    """Return the error of a Python source that Polars 1 reports as an error of its own; None for other errors."""
    is_of_source = isinstance(error, pl.exceptions.ComputeError) and WITHIN_SOURCE in str(error)
    return find_remembered(str(error)) if is_of_source else None


def is_row_by_row(condition: pl.Expr, columns: pl.LazyFrame) -> bool | None:
    """Return whether a condition looks at one row at a time, by the plan of Polars 1; None from Polars 2 on.

    Polars moves such conditions, and no others, before a sort.
    """
    if TELLS_ROW_BY_ROW:
        return None
    schema = columns.collect_schema()
    source = register_io_source(lambda *_: iter(()), schema=schema)
    return not source.sort(schema.names()[0]).filter(condition).explain().lstrip().startswith("FILTER")


def to_decimals(unscaled: pl.Expr, dtype: pl.Decimal) -> pl.Expr:
    """Return the decimals of these unscaled 128-bit integers, which have at most 38 digits."""
    if REINTERPRETS_WIDE_INTEGERS:
        return unscaled.reinterpret(dtype=dtype)
    kind = pa.decimal128(dtype.precision, dtype.scale)

    def view(whole: pl.Series) -> pl.Series:
        return pl.Series(whole.name, pl.from_arrow(whole.to_arrow(compat_level=pl.CompatLevel.oldest()).view(kind)))

    return unscaled.cast(pl.Decimal(38, 0)).map_batches(view, return_dtype=dtype, is_elementwise=True)


def import_array(array: pa.Array | pa.ChunkedArray, dtype: pl.DataType | None = None) -> pl.Series:
    """Return an Arrow array as a series: `pl.from_arrow`, right for all versions.

    If a type is given, Arrow turns maps into lists of entries: Polars 2.1 panics for some null rows beside them.
    """
    if (dtype is not None or not IMPORTS_NULL_MAPS) and pa.types.is_nested(array.type):
        plain = _replace_maps(array.type)
        array = array if plain == array.type else array.cast(plain)
    return pl.Series(pl.from_arrow(array), dtype=dtype)


def _replace_maps(kind: pa.DataType) -> pa.DataType:
    """Return the type with lists of entries instead of maps, at any depth."""
    if pa.types.is_map(kind):
        entry = [("key", _replace_maps(kind.key_type)), ("value", _replace_maps(kind.item_type))]
        return pa.list_(pa.struct(entry))
    if pa.types.is_struct(kind):
        return pa.struct([(member.name, _replace_maps(member.type)) for member in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_replace_maps(kind.value_type), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(_replace_maps(kind.value_type))
    return kind


def export_series(series: pl.Series, level: pl.CompatLevel = EXPORT_LEVEL) -> pa.Array:
    """Return a series as an Arrow array: `pl.Series.to_arrow`, right for all versions."""
    array = series.to_arrow(compat_level=level)
    if EXPORTS_SLICED_STRUCTS or not series.dtype.is_nested() or not _has_misplaced_members(array):
        return array
    from pyarrow import ipc

    sink = BytesIO()
    series.alias("").to_frame().write_ipc(sink, compat_level=level)
    return ipc.open_file(pa.py_buffer(sink.getvalue())).read_all().column(0).combine_chunks()


def export_frame(frame: pl.DataFrame, level: pl.CompatLevel = EXPORT_LEVEL) -> pa.Table:
    """Return a frame as an Arrow table: `pl.DataFrame.to_arrow`, right for all versions."""
    if EXPORTS_SLICED_STRUCTS:
        return frame.to_arrow(compat_level=level)
    columns = [pa.chunked_array([export_series(each, level) for each in s.get_chunks()]) for s in frame.iter_columns()]
    return pa.table(columns, frame.columns) if columns else frame.to_arrow()


def to_arrow_schema(schema: pl.Schema) -> pa.Schema:
    """Return the Arrow schema of a Polars schema, which pyarrow before 18 cannot ask for it."""
    return export_frame(pl.DataFrame(schema=schema)).schema


def _has_misplaced_members(array: pa.Array) -> bool:
    """Return whether a struct or fixed-size list, at any depth, has nulls and begins behind its first value."""
    is_struct = pa.types.is_struct(array.type)
    if (is_struct or pa.types.is_fixed_size_list(array.type)) and array.offset and array.null_count:
        return True
    if is_struct:
        return any(_has_misplaced_members(array.field(number)) for number in range(array.type.num_fields))
    return pa.types.is_nested(array.type) and _has_misplaced_members(array.values)
