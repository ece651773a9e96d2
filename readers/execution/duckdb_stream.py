"""Rows in DuckDB's fastest input format: an Arrow stream with text and bytes as Arrow views.

Polars and DuckDB store text as views: 16 bytes with the first characters and a pointer to the rest. Arrow's plain
strings are contiguous instead: converting views to them copies every character, a third of the time of a full read.
DuckDB scans views directly. It requires that a stream's types have the declared meaning, not the declared layout: the
dataset declares plain strings, because DuckDB pushes no filter into a dataset that declares views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa

from morrow.engine.format.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.values import replace
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution import execute
from morrow.readers.execution.counting import check_complete
from morrow.readers.files.file_errors import reading_files

VIEWS: dict[type[DataType], pa.DataType] = {
    CharType: pa.string_view(),
    VarCharType: pa.string_view(),
    BinaryType: pa.binary_view(),
    VarBinaryType: pa.binary_view(),
}
"""Types of columns that are passed as views; within nested types they have the plain layout."""

NUMBERS = (
    *(BooleanType, TinyIntType, SmallIntType, IntType, BigIntType, FloatType, DoubleType, DecimalType),
    *(DateType, TimeType, TimestampType, LocalZonedTimestampType),
)
"""Types of values of one width."""

BATCH_VALUES = 1 << 20
LONG_VALUE = 8
"""Values of a batch at most, where one of text, bytes or a nested type counts as so many: each batch has a cost of its
own, which matters where columns are few. Batches may always have `execute.BATCH_ROWS` rows."""


def view_reader(plan: ScanPlan, store: FileStore) -> pa.RecordBatchReader:
    """Returns the plan's rows as an Arrow stream with text and bytes as views, in bounded memory.

    Raises (while it is read):
        CorruptFile, FileMissing, Unsupported, StorageError: as reading does.
    """
    if not plan.columns or plan.limit is not None:
        return execute.batch_reader(plan, store)
    fields, schema = plan.fields, view_schema(plan.fields)
    batches = (batch for frame in _frames(plan, store) for batch in view_table(frame, fields, schema).to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def view_schema(fields: Sequence[DataField]) -> pa.Schema:
    """Returns `arrow_schema` with views for columns of text and bytes, and without comments."""
    types = [VIEWS.get(type(field.type)) or field.type.arrow() for field in fields]
    return pa.schema([pa.field(field.name, kind, field.type.nullable) for field, kind in zip(fields, types)])


def view_table(frame: pl.DataFrame, fields: Sequence[DataField], schema: pa.Schema) -> pa.Table:
    """Converts a frame in Morrow's representation to an Arrow table of `schema`, the `view_schema` of `fields`.

    Columns that Polars holds in that layout already, as most are, are neither copied nor inspected.
    """
    # Of a slice of nested text Polars may hand over views without their buffer, which Arrow refuses.
    dtypes = frame.schema
    flat = [name for name in schema.names if not dtypes[name].is_nested()]
    own = frame.select(cols(flat)).to_arrow(compat_level=pl.CompatLevel.newest())
    kept = {name for name in flat if own.schema.field(name).type == schema.field(name).type}
    others = [field for field in fields if field.name not in kept]
    converted = to_arrow_table(frame, others) if others else own
    columns = [own[name] if name in kept else converted[name] for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


def _frames(plan: ScanPlan, store: FileStore) -> Iterator[pl.DataFrame]:
    """Yields the rows of all parts, a group of sections at a time."""
    weight = sum(1 if type(field.type) in NUMBERS else LONG_VALUE for field in plan.fields)
    rows = max(execute.BATCH_ROWS, BATCH_VALUES // weight)
    for part in plan.parts:
        read = tuple(part.schema.by_name[name] for name in part.read_columns)
        for sections in execute.groups(part.sections):
            group = replace(part, sections=tuple(sections), fallback=None)
            with reading_files(group, sections, read, store):
                count = 0
                for frame in execute.frames(group, store, rows):
                    count += frame.height
                    yield frame
                check_complete(group, store, count)
