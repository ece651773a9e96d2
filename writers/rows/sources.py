"""Sources of rows: converts supported inputs to a stream of Arrow tables or Polars frames with the same columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.format import types as t
from morrow.readers.files.streaming import batches
from morrow.writers.rows.pandas_columns import table_of_pandas
from morrow.writers.rows.validation import check_frame, check_objects, check_table

Piece: TypeAlias = pa.Table | pl.DataFrame

GATHERED_ROWS = 1 << 17
"""Batches of a stream are joined up to this many rows: each step on them costs per batch and column."""

PIECE_ROWS = 1 << 20
"""The most rows of a piece, and its approximate bytes: data in memory is also processed in parts."""
PIECE_BYTES = 64 << 20

INDEX_COLUMN = "__index_level_"
"""The prefix of pandas' names for the index of a frame in Arrow, which is not data."""


@dataclass(frozen=True)
class Source:
    """Rows to write: the names of their columns, known before the first row, and the rows in pieces."""

    names: tuple[str, ...]
    pieces: Iterator[Piece]


def source_of(data: object, fields: Sequence[t.DataField] = ()) -> Source:
    """Returns the rows to write from any supported input.

    Args:
        data: anything with ``__arrow_c_stream__`` (Arrow, Polars, DuckDB relations, pandas, scans of Morrow), a Polars
            LazyFrame, an Arrow dataset, a list of dicts, or a dict of columns; or an iterator or list of such tables,
            all with the same columns. Streams and iterators are read once, batch by batch.
        fields: the columns of the table, needed for Python's values: Python has no narrow floats, and its dicts are
            structs as well as maps.

    Raises:
        InvalidArgument: another kind of object, values of several types in one column, or two columns of one name.
    """
    source = _source(data, {field.name: field.type for field in fields})
    twice = sorted({name for name in source.names if source.names.count(name) > 1})
    if twice:
        raise InvalidArgument(f"the data has several columns {twice[0]!r}; give each column a name of its own")
    return source


def is_of_pandas(data: object) -> bool:
    """Returns whether data are a DataFrame of pandas, which need not be installed."""
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def _source(data: object, types: Mapping[str, t.DataType], first_row: int = 0) -> Source:
    if isinstance(data, Source):
        return data
    if isinstance(data, pl.DataFrame):
        return Source(tuple(data.columns), _sliced(data, first_row))
    if isinstance(data, pl.LazyFrame):
        columns = tuple(data.collect_schema().names())
        return Source(columns, _of_frames(batches(data), first_row))
    if isinstance(data, pa.Table):
        return _of_table(data, first_row)
    if isinstance(data, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([data]), first_row)
    if isinstance(data, pa.RecordBatchReader):  # by Arrow's C interface the sizes of buffers would be lost
        return _of_reader(data, first_row)
    if is_of_pandas(data):
        return _of_table(_built(lambda frame: table_of_pandas(frame, types), data), first_row)
    if hasattr(data, "__arrow_c_stream__"):
        return _of_reader(_built(pa.RecordBatchReader.from_stream, data), first_row)
    if hasattr(data, "__arrow_c_array__"):
        return _of_table(pa.Table.from_batches([pa.record_batch(data)]), first_row)
    if hasattr(data, "scanner"):  # an Arrow dataset
        from morrow.writers.rows.arrow_datasets import exact_dataset

        source = _of_reader(_built(lambda dataset: exact_dataset(dataset).scanner().to_reader(), data), first_row)
        return Source(source.names, _of_files(source.pieces))
    if isinstance(data, Mapping):
        return _of_table(_of_columns(data, types))
    is_text = isinstance(data, (str, bytes))  # an empty one is no table without rows
    if isinstance(data, Sequence) and not is_text and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(name for row in data for name in row)
        if data and not names:
            raise InvalidArgument(f"the data has {len(data)} rows and no columns")
        return _of_table(_of_columns({name: [row.get(name) for row in data] for name in names}, types))
    if isinstance(data, Iterator) or (isinstance(data, Sequence) and not is_text and _is_table(data[0])):
        return _of_tables(iter(data), types)
    raise InvalidArgument(
        f"a {type(data).__name__} is no table; pass an Arrow table, a Polars or pandas DataFrame, a DuckDB relation or "
        "anything else with __arrow_c_stream__, an iterator of such tables, a list of dicts, or a dict of columns"
    )


def _is_table(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__") or isinstance(data, pl.LazyFrame)


def _of_tables(tables: Iterator[object], types: Mapping[str, t.DataType]) -> Source:
    first = next(tables, None)
    if first is None:
        raise InvalidArgument("the iterator has no table, and so no columns; pass at least one, even without rows")
    if not _is_table(first):
        raise InvalidArgument(
            f"an iterator of {type(first).__name__} is no table; pass one of Arrow tables, or a list of dicts"
        )
    names = _source(first, types).names

    def pieces() -> Iterator[Piece]:
        row = 0
        for number, table in enumerate(chain((first,), tables)):
            source = _source(table, types, row)
            if sorted(source.names) != sorted(names):
                raise InvalidArgument(
                    f"table {number} of the iterator has the columns {list(source.names)}, the first one {list(names)}"
                )
            # Polars' `select` takes names like ``^x$`` for patterns.
            for piece in source.pieces:
                row += len(piece)
                yield piece[[*names]] if isinstance(piece, pl.DataFrame) else piece.select([*names])

    return Source(names, pieces())


def _of_columns(columns: Mapping[str, Any], types: Mapping[str, t.DataType]) -> pa.Table:
    single = next((name for name, values in columns.items() if isinstance(values, str | int | float)), None)
    if single is not None:
        raise InvalidArgument(
            f"column {single!r} is one value, not a list of values; for one row pass a list of one dict: [{{...}}]"
        )
    made = {
        name: _built(partial(column_of, types.get(name)), values, f"the values of column {name!r} do not make one")
        for name, values in columns.items()
    }
    return _built(pa.table, made)


def column_of(kind: t.DataType | None, values: Any) -> Any:
    """Returns Python's values as Arrow infers them, except those it cannot infer. Raises as `pyarrow.array` does."""
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        return values
    if not isinstance(values, (list, tuple)) and getattr(values, "dtype", None) != np.dtype(object):
        return pa.array(values)
    is_map = isinstance(kind, (t.MapType, t.MultisetType))
    given = [None if value is None else _entries(value) for value in values] if is_map else list(values)
    made = pa.array(given)
    check_objects(given, made.type)
    if isinstance(kind, t.FloatType):
        return _narrow(made)
    if not isinstance(kind, (t.MapType, t.MultisetType)):
        return made
    is_empty = pa.types.is_list(made.type) and not made.values
    return pa.array(given, pa.list_(pa.struct([kind.arrow().key_field, kind.arrow().item_field]))) if is_empty else made


def _narrow(numbers: pa.Array) -> pa.Array:
    """Returns floats in 32 bits, unless one would become infinite."""
    if numbers.type != pa.float64():
        return numbers
    narrow = numbers.cast(pa.float32(), safe=False)
    return narrow if pc.is_inf(narrow).equals(pc.is_inf(numbers)) else numbers


def _entries(value: Any) -> list[dict[str, Any]]:
    """Returns a dict, or pairs, as entries of a map."""
    pairs = value.items() if isinstance(value, Mapping) else value
    return [dict(pair if isinstance(pair, Mapping) else zip(("key", "value"), pair, strict=True)) for pair in pairs]


def _built(make: Callable[[Any], Any], data: object, problem: str = "the data does not make a table") -> Any:
    try:
        return make(data)
    except MorrowError:
        raise
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError) as e:
        raise InvalidArgument(f"{problem}: {e}") from e


def _of_table(table: pa.Table, first_row: int = 0) -> Source:
    index = [name for name in table.column_names if _is_index(table.schema, name)]
    table = table.drop_columns(index) if index else table
    return Source(tuple(table.column_names), _sliced_table(table, first_row))


def _of_reader(reader: pa.RecordBatchReader, first_row: int) -> Source:
    schema = reader.schema
    kept = [i for i, name in enumerate(schema.names) if not _is_index(schema, name)]
    names = tuple(schema.names[i] for i in kept)

    def pieces() -> Iterator[pa.Table]:
        row = first_row
        for table in _gathered(reader, schema):
            yield from _sliced_table(table if len(kept) == len(schema) else table.select(kept), row)
            row += table.num_rows

    return Source(names, pieces())


def _of_frames(frames: Iterable[pl.DataFrame], first_row: int) -> Iterator[pl.DataFrame]:
    row = first_row
    for frame in frames:
        yield from _sliced(frame, row)
        row += frame.height


def _of_files(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yield the pieces of a dataset. Raises `InvalidArgument` if Arrow cannot read a file, such as ORC of year 9999."""
    try:
        yield from pieces
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"the dataset cannot be read: {error}") from error


def _is_index(schema: pa.Schema, name: str) -> bool:
    return name.startswith(INDEX_COLUMN) and schema.pandas_metadata is not None


def _gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= GATHERED_ROWS:
            yield pa.Table.from_batches(held, schema)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held, schema)


def _rows_of_piece(rows: int, size: float) -> int:
    return max(1, min(PIECE_ROWS, int(rows * PIECE_BYTES // max(size, 1))))


def _sliced(frame: pl.DataFrame, first_row: int) -> Iterator[pl.DataFrame]:
    check_frame(frame, first_row)
    yield from frame.iter_slices(_rows_of_piece(frame.height, frame.estimated_size())) if frame.height else ()


def _sliced_table(table: pa.Table, first_row: int) -> Iterator[pa.Table]:
    check_table(table, first_row)
    step = _rows_of_piece(table.num_rows, table.nbytes)
    yield from (table.slice(at, step) for at in range(0, table.num_rows, step))
