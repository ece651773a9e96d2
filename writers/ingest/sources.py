"""Sources of rows: supported inputs as a stream of Arrow tables or Polars frames with the same columns.

Columns of pandas may represent another type, since pandas lacks dates and nullable integers.

Arrow misreads some timestamps in Parquet files from other writers. It reads INT96 as nanoseconds, which wrap around
outside of 1677 to 2262: 9999-12-31 becomes a day of 1816. Spark 2 and Hive count days before 1582-10-15 in the Julian
calendar, which is only visible in the footer's metadata.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import FileMissing, InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.blob_values import register_blob, to_blob
from morrow.engine.format.blobs import BlobView, is_blob_type
from morrow.engine.format.variant import encode, encode_json
from morrow.engine.library_versions import CASTS_VIEWS, estimate_bytes
from morrow.engine.schema.columns import check_extension, check_polars_schema
from morrow.engine.units import NANOS_PER_MICRO, NANOS_PER_MILLI
from morrow.readers.expressions.sql import to_morrow_error
from morrow.readers.files.file_frames import collect_batches
from morrow.writers.ingest.validation import check_frame, check_objects, check_table, find_mixed_types

if TYPE_CHECKING:
    import pyarrow.dataset as ds

Piece: TypeAlias = pa.Table | pl.DataFrame

MIN_GATHERED_ROWS = 1 << 17
"""Batches of a stream are joined up to this number of rows, since each step costs time per batch and column."""

MAX_PIECE_ROWS = 1 << 20
"""Maximum rows of a piece (about `MAX_PIECE_BYTES`). Data in memory is also processed in pieces."""
MAX_PIECE_BYTES = 64 << 20

LIBRARY_CALLS = {
    "deltalake": "; for a Delta table, call Catalog.import_table",
    "pyiceberg": "; for an Iceberg table, pass table.scan().to_arrow_batch_reader(), or call Catalog.import_table",
    "pyspark": "; for a DataFrame of Spark, use morrow.spark.write",
}
"""How tables of other libraries are passed, by the library's name."""
PATH_CALLS = {".parquet": "parquet", ".json": "ndjson", ".ndjson": "ndjson", ".arrow": "ipc", ".feather": "ipc"}
"""The formats of Polars by a file's suffix; others are read as CSV."""
PANDAS_NULLS = ("NaTType", "NAType")
"""The types of ``pandas.NaT`` and ``pandas.NA``, which mean null."""
INDEX_COLUMN = "__index_level_"
"""Prefix of the columns in which pandas passes a frame's index to Arrow. They are not data."""


@dataclass(frozen=True)
class Source:
    """Rows to write: the names of their columns, known before the first row, and the rows in pieces."""

    names: tuple[str, ...]
    pieces: Iterator[Piece]


def open_source(data: object, fields: Sequence[t.DataField] = ()) -> Source:
    """Return the rows to write from any supported input.

    Args:
        data: anything with ``__arrow_c_stream__`` (Arrow, Polars, DuckDB relations, pandas, scans of Morrow), a Polars
            LazyFrame, an Arrow dataset, a list of dicts, or a dict of columns; or an iterator or list of such tables,
            all with the same columns. Streams and iterators are read once, batch by batch.
        fields: the columns of the table, to convert Python values: Python lacks narrow floats, and its dicts may be
            structs or maps.

    Raises:
        InvalidArgument: an unsupported object, values of several types in one column, or columns with the same name.
    """
    source = _open_source(data, {field.name: field.type for field in fields})
    twice = sorted({name for name in source.names if source.names.count(name) > 1})
    if twice:
        raise InvalidArgument(f"the data has several columns {twice[0]!r}; give each column a name of its own")
    return source


def is_of_pandas(data: object) -> bool:
    """Return whether the data is a pandas DataFrame, without importing pandas."""
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def _open_source(data: object, types: Mapping[str, t.DataType], first_row: int = 0) -> Source:
    if isinstance(data, Source):
        return data
    if isinstance(data, pl.DataFrame):
        check_polars_schema(data.schema)
        return Source(tuple(data.columns), _slice_frame(data, first_row))
    if isinstance(data, pl.LazyFrame):
        schema = data.collect_schema()
        check_polars_schema(schema)
        return Source(tuple(schema.names()), _from_frames(collect_batches(data), first_row))
    if hasattr(data, "to_frame"):
        raise InvalidArgument(f"a {type(data).__name__} is one column, not a table; pass .to_frame() of it")
    if isinstance(data, pa.Table):
        return _from_table(data, first_row)
    if isinstance(data, pa.RecordBatch):
        return _from_table(pa.Table.from_batches([data]), first_row)
    if isinstance(data, pa.RecordBatchReader):  # Arrow's C interface would lose the sizes of buffers
        return _from_reader(data, first_row)
    if is_of_pandas(data):
        return _from_table(build_arrow(lambda frame: from_pandas(frame, types), data), first_row)
    if hasattr(data, "__arrow_c_stream__"):
        return _from_reader(build_arrow(pa.RecordBatchReader.from_stream, data), first_row)
    if hasattr(data, "__arrow_c_array__"):
        return _from_table(pa.Table.from_batches([pa.record_batch(data)]), first_row)
    if hasattr(data, "scanner"):  # an Arrow dataset
        return _from_reader(
            build_arrow(lambda dataset: to_exact_dataset(dataset).scanner().to_reader(), data), first_row
        )
    if isinstance(data, Mapping):
        return _from_table(_from_columns(data, types))
    is_text = isinstance(data, (str, bytes))  # empty text is not an empty table
    if isinstance(data, Sequence) and not is_text and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(name for row in data for name in row)
        if data and not names:
            raise InvalidArgument(f"the data has {len(data)} rows and no columns")
        return _from_table(_from_columns({name: [row.get(name) for row in data] for name in names}, types))
    if isinstance(data, Iterator) or (isinstance(data, Sequence) and not is_text and _is_table(data[0])):
        return _from_tables(iter(data), types)
    raise InvalidArgument(
        f"a {type(data).__name__} is not a table; pass an Arrow table, a Polars or pandas DataFrame, DuckDB relation, "
        "anything else with __arrow_c_stream__, an iterator of such tables, a list of dicts, or a dict of columns"
        f"{_suggest_call(data)}"
    )


def _suggest_call(data: object) -> str:
    """Return the call that makes a table of an object of another library, or of a path."""
    if isinstance(data, (str, Path)):
        return f"; for a path, pass {suggest_scan(data)}, or call Catalog.import_table"
    return LIBRARY_CALLS.get(type(data).__module__.partition(".")[0], "")


def suggest_scan(path: str | Path) -> str:
    """Return the call of Polars that opens a path."""
    return f"pl.scan_{PATH_CALLS.get(Path(path).suffix, 'csv')}({str(path)!r})"


def _is_table(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__") or isinstance(data, pl.LazyFrame)


def _from_tables(tables: Iterator[object], types: Mapping[str, t.DataType]) -> Source:
    first = next(tables, None)
    if first is None:
        raise InvalidArgument("the iterator has no table, and so no columns; pass at least one, even without rows")
    if not _is_table(first):
        raise InvalidArgument(
            f"an iterator of {type(first).__name__} is not a table; pass one of Arrow tables, or a list of dicts"
        )
    names = _open_source(first, types).names

    def pieces() -> Iterator[Piece]:
        row = 0
        for number, table in enumerate(chain((first,), tables)):
            source = _open_source(table, types, row)
            if sorted(source.names) != sorted(names):
                raise InvalidArgument(
                    f"table {number} of the iterator has the columns {list(source.names)}, the first one {list(names)}"
                )
            # Polars' `select` reads names like ``^x$`` as patterns.
            for piece in source.pieces:
                row += len(piece)
                yield piece[[*names]] if isinstance(piece, pl.DataFrame) else piece.select([*names])

    return Source(names, pieces())


def _from_columns(columns: Mapping[str, Any], types: Mapping[str, t.DataType]) -> pa.Table:
    single = next((name for name, values in columns.items() if isinstance(values, str | int | float)), None)
    if single is not None:
        raise InvalidArgument(
            f"column {single!r} is one value, not a list of values; for one row pass a list of one dict: [{{...}}]"
        )
    made = {
        name: build_arrow(
            partial(build_column, types.get(name)), values, f"the values of column {name!r} do not make one"
        )
        for name, values in columns.items()
    }
    return build_arrow(pa.table, made)


def build_column(kind: t.DataType | None, values: Any) -> Any:
    """Convert Python values to Arrow, with the table's type where Arrow cannot infer it. Raises as `pyarrow.array`."""
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        return values
    if isinstance(values, np.ndarray) and values.ndim > 1:  # such as one embedding a row
        inner = build_column(None, values.reshape(-1, *values.shape[2:]))
        return pa.FixedSizeListArray.from_arrays(pa.array(inner), values.shape[1])
    if not isinstance(values, (list, tuple)) and getattr(values, "dtype", None) != np.dtype(object):
        return pa.array(values)
    is_map = isinstance(kind, (t.MapType, t.MultisetType))
    given = list(values)
    if kind is not None and is_blob_type(kind):
        given = [_register_blobs(kind, value) for value in given]
    if "pandas" in sys.modules:
        given = [None if type(value).__name__ in PANDAS_NULLS else value for value in given]
    if kind is not None and t.has_type(kind, t.VariantType):
        if isinstance(kind, t.VariantType) and all(value is None or isinstance(value, str) for value in given):
            return pa.array(given, pa.string())  # JSON
        given = [_encode_variants(value, kind) for value in given]
    if is_map:
        given = [None if value is None or _is_nan(value) else _to_entries(value) for value in given]
    made = _infer_array(given, nan_is_null=kind is not None and not isinstance(kind, (t.FloatType, t.DoubleType)))
    has_nanoseconds = pa.types.is_timestamp(made.type) and any(getattr(value, "nanosecond", 0) for value in given)
    if has_nanoseconds or "[ns" in str(kind and kind.arrow()):
        made = _infer_nanoseconds(given, made)
    check_objects(given, made.type)
    if isinstance(kind, t.FloatType):
        return _narrow(made)
    if not isinstance(kind, (t.MapType, t.MultisetType)):
        return made
    is_empty = pa.types.is_list(made.type) and not made.values
    return pa.array(given, pa.list_(pa.struct([kind.arrow().key_field, kind.arrow().item_field]))) if is_empty else made


def _register_blobs(kind: t.DataType, value: Any) -> Any:
    """Return a value of a BLOB column with descriptors instead of paths, streams and blobs."""
    if isinstance(kind, t.ArrayType) and isinstance(value, (list, tuple)):
        return [_register_blobs(kind.element, each) for each in value]
    if isinstance(kind, t.MapType) and isinstance(value, Mapping):
        return {key: _register_blobs(kind.value, each) for key, each in value.items()}
    if isinstance(kind, t.MapType) and isinstance(value, (list, tuple)):
        return [(key, _register_blobs(kind.value, each)) for key, each in value]
    if isinstance(value, str):
        raise InvalidArgument(
            f"{value!r} is text, no BLOB; give bytes, pathlib.Path({value!r}), or morrow.Blob.from_url({value!r})"
        )
    if isinstance(value, BlobView):
        return value.encode()
    blob = to_blob(value)
    return value if blob is None else register_blob(blob)


def _encode_variants(value: Any, kind: t.DataType) -> Any:
    """Return a Python value with the value and metadata of its variants. Text is JSON; objects may have both already.

    Raises `InvalidArgument`: see `variant.encode` and `variant.encode_json`.
    """
    if value is None or not t.has_type(kind, t.VariantType):
        return value
    if isinstance(kind, t.VariantType):
        if _is_nan(value):
            return None
        if isinstance(value, Mapping) and value.keys() == {"value", "metadata"}:
            parts = [value["value"], value["metadata"]]
        else:  # objects of other libraries: fields in PySpark, methods in pypaimon
            parts = [getattr(value, name, None) for name in ("value", "metadata")]
            parts = [part() if callable(part) else part for part in parts]
        if not all(isinstance(part, bytes) for part in parts):
            parts = list(encode_json(value) if isinstance(value, str) else encode(value))
        return dict(zip(("value", "metadata"), parts))
    if isinstance(kind, t.RowType) and isinstance(value, Mapping):
        types = {field.name: field.type for field in kind.fields}
        return {name: _encode_variants(each, types[name]) if name in types else each for name, each in value.items()}
    if isinstance(kind, t.MapType):
        pairs = value.items() if isinstance(value, Mapping) else value
        return {key: _encode_variants(each, kind.value) for key, each in pairs}
    if isinstance(kind, t.ArrayType) and isinstance(value, (list, tuple)):
        return [_encode_variants(each, kind.element) for each in value]
    return value


def _infer_array(values: list[Any], *, nan_is_null: bool) -> pa.Array:
    """Convert Python values to Arrow. NaN means null in columns that are not of floats, as in ``DataFrame.to_dict``.

    The list is changed. Raises `TypeError` for values of several types.
    """
    try:
        made = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        if nan_is_null and any(map(_is_nan, values)):
            values[:] = [None if _is_nan(value) else value for value in values]
            return _infer_array(values, nan_is_null=False)
        raise TypeError(find_mixed_types(values) or error) from error
    if nan_is_null and pa.types.is_floating(made.type):
        values[:] = [None if _is_nan(value) else value for value in values]
        return pa.array(values)
    return made


def _infer_nanoseconds(values: list[Any], made: pa.Array) -> pa.Array:
    """Convert values with timestamps of pandas again, since Arrow infers microseconds of them."""
    with suppress(pa.ArrowInvalid, OverflowError):  # years that 64-bit nanoseconds lack
        return pa.array(values, _to_nanoseconds(made.type))
    return made


def _to_nanoseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_to_nanoseconds(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_to_nanoseconds(kind.value_type)))
    return kind


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and value != value


def _narrow(numbers: pa.Array) -> pa.Array:
    """Convert floats to 32 bits, unless one would become infinite."""
    if numbers.type != pa.float64():
        return numbers
    narrow = numbers.cast(pa.float32(), safe=False)
    return narrow if pc.is_inf(narrow).equals(pc.is_inf(numbers)) else numbers


def _to_entries(value: Any) -> list[dict[str, Any]]:
    """Return a dict, or pairs, as entries of a map."""
    pairs = value.items() if isinstance(value, Mapping) else value
    return [dict(pair if isinstance(pair, Mapping) else zip(("key", "value"), pair, strict=True)) for pair in pairs]


def build_arrow(make: Callable[[Any], Any], data: object, problem: str = "the data does not make a table") -> Any:
    try:
        return make(data)
    except MorrowError:
        raise
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError) as e:
        raise InvalidArgument(f"{problem}: {e}") from e


def _from_table(table: pa.Table, first_row: int = 0) -> Source:
    index = [name for name in table.column_names if _is_index(table.schema, name)]
    table = table.drop_columns(index) if index else table
    _check_extensions(table.schema)
    return Source(tuple(table.column_names), _slice_table(table, first_row))


def _from_reader(reader: pa.RecordBatchReader, first_row: int) -> Source:
    schema = reader.schema
    kept = [i for i, name in enumerate(schema.names) if not _is_index(schema, name)]
    names = tuple(schema.names[i] for i in kept)
    _check_extensions(schema)

    def pieces() -> Iterator[pa.Table]:
        row = first_row
        for table in _gather_batches(_read_batches(reader), schema):
            yield from _slice_table(table if len(kept) == len(schema) else table.select(kept), row)
            row += table.num_rows

    return Source(names, pieces())


def _check_extensions(schema: pa.Schema) -> None:
    for field in schema:
        check_extension(field.type, field.name)


def _from_frames(frames: Iterable[pl.DataFrame], first_row: int) -> Iterator[pl.DataFrame]:
    row = first_row
    for frame in frames:
        yield from _slice_frame(frame, row)
        row += frame.height


def _read_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream or dataset. Raises a `MorrowError` if the stream ends in an error of its own."""
    try:
        yield from batches
    except MorrowError:
        raise
    except FileNotFoundError as error:
        raise FileMissing("the data", hint=f"read it again: {str(error).splitlines()[0]}") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"the data cannot be read: {error}") from error
    except OSError as error:  # of a file, or of a query that makes the stream
        raise to_morrow_error(error) if "Error: " in str(error) else StorageError(f"the data: {error}") from error


def _is_index(schema: pa.Schema, name: str) -> bool:
    return name.startswith(INDEX_COLUMN) and schema.pandas_metadata is not None


def _gather_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= MIN_GATHERED_ROWS:
            yield pa.Table.from_batches(held, schema)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held, schema)


def _choose_piece_rows(rows: int, size: float) -> int:
    return max(1, min(MAX_PIECE_ROWS, int(rows * MAX_PIECE_BYTES // max(size, 1))))


def _slice_frame(frame: pl.DataFrame, first_row: int) -> Iterator[pl.DataFrame]:
    check_frame(frame, first_row)
    yield from frame.iter_slices(_choose_piece_rows(frame.height, frame.estimated_size())) if frame.height else ()


def _slice_table(table: pa.Table, first_row: int) -> Iterator[pa.Table]:
    if not CASTS_VIEWS:
        _refuse_views(table)
    check_table(table, first_row)
    step = _choose_piece_rows(table.num_rows, estimate_bytes(table))
    yield from (table.slice(at, step) for at in range(0, table.num_rows, step))


def _refuse_views(table: pa.Table) -> None:
    """Raise `Unsupported` for views of text or bytes, which pyarrow before 18 neither checks nor converts."""
    for field in table.schema:
        if any(view in str(field.type) for view in ("string_view", "binary_view")):
            hint = "run: pip install 'pyarrow>=18', or pass the Polars frame or DuckDB relation itself"
            raise Unsupported(f"column {field.name!r} of {field.type} with pyarrow {pa.__version__}", hint=hint)


EXACT_INTEGERS = 1 << 53
"""Integers below this are exact in float64."""


def from_pandas(frame: Any, types: Mapping[str, t.DataType]) -> pa.Table:
    """Convert a pandas DataFrame to an Arrow table, NaN to null.

    Floats become int64 for integer columns if all are whole numbers that are exact in float64 (an integer column with
    nulls is float64 in pandas). Timestamps without zone become dates for DATE columns if all are midnight. Other
    columns keep the type that Arrow gives them.

    `types`: the columns of the table to write, by name.
    """
    for name, kind in types.items():
        if isinstance(kind, t.VariantType) and name in frame.columns and frame[name].dtype == object:
            import pandas as pd

            encoded = pd.arrays.ArrowExtensionArray(build_column(kind, frame[name].tolist()))
            frame = frame.assign(**{name: pd.Series(encoded, index=frame.index)})
    try:
        table = pa.Table.from_pandas(frame)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        for name, column in frame.items():
            if column.dtype == object and (mixed := find_mixed_types(column.tolist())):
                call = f"df[{name!r}] = df[{name!r}].astype(str)"
                raise InvalidArgument(f"column {name!r} of the DataFrame: {mixed}, such as by {call}") from None
        raise
    for name, (_, column) in zip(table.column_names, frame.items()):
        if column.dtype == object:
            _check_object_columns(name, column, table)
    for i, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        made = _convert_pandas_column(column, types.get(name))
        if made is not column:
            table = table.set_column(i, pa.field(name, made.type), made)
    return table


def _convert_pandas_column(column: pa.ChunkedArray, kind: t.DataType | None) -> pa.ChunkedArray:
    given = column.type
    if isinstance(kind, t.INTEGER_TYPES) and pa.types.is_float64(given):
        fit = pc.and_(pc.less(pc.abs(column), EXACT_INTEGERS), pc.equal(pc.floor(column), column))
        return column.cast(pa.int64()) if pc.all(fit).as_py() is not False else column
    if isinstance(kind, t.DateType) and pa.types.is_timestamp(given) and given.tz is None:
        days = column.cast(pa.date32(), safe=False)
        return days if pc.all(pc.equal(days.cast(given), column)).as_py() is not False else column
    return column


def _check_object_columns(name: str, column: Any, table: pa.Table) -> None:
    """Raise `TypeError` for values of several types in one column."""
    try:
        check_objects(column.where(column.notna(), None).tolist(), table.column(name).type)
    except TypeError as error:
        raise TypeError(f"column {name!r}: {error}") from None


INT96 = "INT96"
GREGORIAN_MILLIS = (dt.date(1582, 10, 15) - dt.date(1970, 1, 1)).days * 86_400_000
"""The first moment of the Gregorian calendar, in epoch milliseconds."""
MAX_NANOS_MILLIS = (2**63 - 1) // NANOS_PER_MILLI - 1
"""The greatest milliseconds, and negated the least, that fit into int64 nanoseconds."""
JULIAN_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
SPARK_VERSION = b"org.apache.spark.version"
LAST_JULIAN_SPARK = 2
HIVE_PROLEPTIC = b"writer.date.proleptic"


def to_exact_dataset(data: Any) -> Any:
    """Return a dataset that reads timestamps correctly: `data`, or one that reads INT96 as microseconds.

    Objects other than datasets of Parquet files are returned unchanged. The footers of all files and their INT96
    columns are read.

    Raises:
        Unsupported: INT96 values outside of 1677 to 2262 together with nanoseconds, or dates in the Julian calendar.
    """
    import pyarrow.dataset as ds

    if isinstance(data, ds.UnionDataset):
        for child in data.children:
            if to_exact_dataset(child) is not child:
                raise Unsupported(
                    "INT96 outside of 1677 to 2262 in a union of datasets", hint="append one dataset after the other"
                )
        return data
    is_parquet = isinstance(data, ds.FileSystemDataset) and isinstance(data.format, ds.ParquetFileFormat)
    if not is_parquet or data.format.read_options.coerce_int96_timestamp_unit not in (None, "ns"):
        return data
    given: dict[str, Any] = getattr(data, "_scan_options", {})
    whole = data
    if given:  # a filtered dataset, whose fragments Arrow does not expose
        whole = data.replace_schema(data.schema)
        whole._scan_options = {}
    fragments = list(whole.get_fragments())
    wide = [_is_wide(fragment) for fragment in fragments]
    if not any(wide):
        return data
    exact = [_read_in(fragment, "us") for fragment in fragments]
    types = {field.name: field.type for fragment in exact for field in fragment.physical_schema}
    columns = {name for fragment in fragments if _has_int96(fragment) for name in _find_int96_columns(fragment)}
    given_types = {f.name: f.type for fragment in fragments for f in fragment.physical_schema}
    schema = pa.schema(
        [f.with_type(types[f.name]) if f.name in columns and f.type == given_types[f.name] else f for f in data.schema]
    )
    made = ds.FileSystemDataset(exact, schema, exact[0].format, data.filesystem)
    return made.filter(given["filter"]) if "filter" in given else made


def _is_wide(fragment: ds.ParquetFileFragment) -> bool:
    """Return whether INT96 values of this file do not fit into nanoseconds. Raises as `to_exact_dataset`."""
    has_int96, is_julian = _has_int96(fragment), _is_julian(fragment.metadata.metadata or {})
    if not (has_int96 or is_julian):
        return False
    coarse = _read_in(fragment, "ms")
    int96 = _find_int96_columns(fragment) if has_int96 else []
    if is_julian:
        columns = [f.name for f in coarse.physical_schema if _has_time(f.type)]
        if _find_bounds(coarse, columns)[0] < GREGORIAN_MILLIS:
            raise Unsupported(
                "a date before 1582-10-15 in the Julian calendar, as Spark 2 and Hive write them,",
                where=fragment.path,
                hint="let Spark rewrite the file, with spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED and "
                "spark.sql.parquet.int96RebaseModeInWrite=CORRECTED",
            )
    low, high = _find_bounds(coarse, int96)
    if max(-low, high) <= MAX_NANOS_MILLIS:
        return False
    if _has_nanos(fragment, int96):
        raise Unsupported(
            "INT96 with timestamps outside of 1677 to 2262 beside others with nanoseconds",
            where=fragment.path,
            hint="let DuckDB read it, which cuts them to microseconds: "
            f"""table.append(duckdb.sql("FROM read_parquet('{fragment.path}')"))""",
        )
    return True


def _has_int96(fragment: ds.ParquetFileFragment) -> bool:
    schema = fragment.metadata.schema
    return any(schema.column(at).physical_type == INT96 for at in range(fragment.metadata.num_columns))


def _find_int96_columns(fragment: ds.ParquetFileFragment) -> list[str]:
    """Return the columns whose type depends on the unit in which INT96 is read."""
    coarse = _read_in(fragment, "ms").physical_schema
    return [field.name for at, field in enumerate(fragment.physical_schema) if field.type != coarse.field(at).type]


def _is_julian(notes: Mapping[bytes, bytes]) -> bool:
    if any(key in notes for key in JULIAN_KEYS) or notes.get(HIVE_PROLEPTIC) == b"false":
        return True
    major = notes.get(SPARK_VERSION, b"").partition(b".")[0]
    return major.isdigit() and int(major) <= LAST_JULIAN_SPARK


def _read_in(fragment: ds.ParquetFileFragment, unit: str) -> ds.ParquetFileFragment:
    """Return the same rows of a file, with INT96 read in this unit."""
    import pyarrow.dataset as ds

    dictionaries = fragment.format.read_options.dictionary_columns
    options = ds.ParquetReadOptions(dictionary_columns=dictionaries, coerce_int96_timestamp_unit=unit)
    return ds.ParquetFileFormat(read_options=options).make_fragment(
        fragment.path or fragment.buffer,
        fragment.filesystem,
        fragment.partition_expression,
        row_groups=[group.id for group in fragment.row_groups],
    )


def _find_bounds(fragment: ds.ParquetFileFragment, columns: Sequence[str]) -> tuple[int, int]:
    """Return the least and the greatest moment in these columns in epoch milliseconds, 0 if there are none."""
    low = high = 0
    for moments in _read_moments(fragment, columns):
        found = pc.min_max(moments.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()))
        if found["min"].is_valid:
            low, high = min(low, found["min"].as_py()), max(high, found["max"].as_py())
    return low, high


def _has_nanos(fragment: ds.ParquetFileFragment, columns: Sequence[str]) -> bool:
    """Return whether a moment is not a whole microsecond. Both products wrap around, but their difference does not."""
    micros = _read_moments(_read_in(fragment, "us"), columns)
    for nanos, whole in zip(_read_moments(fragment, columns), micros, strict=True):
        wrapped = pc.multiply(whole.cast(pa.int64()), NANOS_PER_MICRO)
        if pc.any(pc.not_equal(nanos.cast(pa.int64()), wrapped)).as_py():
            return True
    return False


def _read_moments(fragment: ds.ParquetFileFragment, columns: Sequence[str]) -> Iterator[pa.Array]:
    if columns:
        for batch in fragment.to_batches(columns=list(columns)):
            yield from _walk_leaves(batch.columns)


def _walk_leaves(arrays: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """Yield the dates and timestamps in arrays, including those of members and items."""
    for array in arrays:
        if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
            yield array
        elif pa.types.is_map(array.type):
            yield from _walk_leaves([array.keys, array.items])
        elif pa.types.is_struct(array.type):
            yield from _walk_leaves(array.flatten())
        elif pa.types.is_nested(array.type):
            yield from _walk_leaves([array.flatten()])


def _has_time(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_time(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))
