"""Rows as DuckDB takes them fastest: an Arrow stream whose text and bytes are Arrow views.

Polars and DuckDB hold a text as a view, 16 bytes with its first characters and where the rest lies. Arrow's plain
strings lie one after another instead: to make them from views copies every character, a third of what a full read
takes. DuckDB scans views as they are. It asks that a stream's types mean what the dataset declared, not that they
are laid out alike: plain strings are declared, for DuckDB pushes no filter into a dataset that declares views.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

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
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers import execute
from morrow.readers.blame import reading_files
from morrow.readers.dtypes import to_arrow_table

VIEWS: dict[type[DataType], pa.DataType] = {
    CharType: pa.string_view(),
    VarCharType: pa.string_view(),
    BinaryType: pa.binary_view(),
    VarBinaryType: pa.binary_view(),
}
"""Types of columns that cross as views; within nested types they are laid out plainly."""

NUMBERS = (
    *(BooleanType, TinyIntType, SmallIntType, IntType, BigIntType, FloatType, DoubleType, DecimalType),
    *(DateType, TimeType, TimestampType, LocalZonedTimestampType),
)
"""Types of values of one width."""

BATCH_VALUES = 1 << 20
LONG_VALUE = 8
"""Values of a batch at most, where one of text, bytes or a nested type counts as so many: each batch has a cost of its
own, which is felt where columns are few. Batches may always have `execute.BATCH_ROWS` rows."""


def view_reader(plan: ScanPlan, store: FileStore) -> pa.RecordBatchReader:
    """The plan's rows as an Arrow stream with text and bytes as views, in bounded memory.

    Raises (while it is read):
        CorruptFile, FileMissing, Unsupported, StorageError: as reading does.
    """
    if not plan.columns or plan.limit is not None:
        return execute.batch_reader(plan, store)
    layout = ViewLayout.of(plan.fields)
    batches = (batch for frame in _frames(plan, store) for batch in layout.table(frame).to_batches())
    return pa.RecordBatchReader.from_batches(layout.schema, batches)


@dataclass(frozen=True)
class ViewLayout:
    """Columns in Arrow: `viewed` as views, the `plain` ones as `arrow_schema` has them; `schema` is of both."""

    schema: pa.Schema
    viewed: tuple[str, ...]
    plain: tuple[DataField, ...]

    @classmethod
    def of(cls, fields: Sequence[DataField]) -> ViewLayout:
        types = [VIEWS.get(type(field.type)) or field.type.arrow() for field in fields]
        schema = pa.schema([pa.field(f.name, kind, f.type.nullable) for f, kind in zip(fields, types)])
        viewed = tuple(field.name for field in fields if type(field.type) in VIEWS)
        return cls(schema, viewed, tuple(field for field in fields if field.name not in viewed))

    def table(self, frame: pl.DataFrame) -> pa.Table:
        """A frame in Morrow's representation as an Arrow table of `schema`; text and bytes are not copied."""
        columns: dict[str, pa.ChunkedArray] = {}
        if self.viewed:
            views = frame.select(self.viewed).to_arrow(compat_level=pl.CompatLevel.newest())
            columns.update(zip(self.viewed, views.columns))
        if self.plain:
            table = to_arrow_table(frame, self.plain)
            columns.update(zip(table.column_names, table.columns))
        return pa.Table.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)


def _frames(plan: ScanPlan, store: FileStore) -> Iterator[pl.DataFrame]:
    """The rows of all parts, a group of sections at a time."""
    weight = sum(1 if type(field.type) in NUMBERS else LONG_VALUE for field in plan.fields)
    rows = max(execute.BATCH_ROWS, BATCH_VALUES // weight)
    for part in plan.parts:
        read = tuple(part.schema.by_name[name] for name in part.read_columns)
        for sections in _groups(part.sections):
            group = replace(part, sections=sections, fallback=None)
            with reading_files(group, sections, read, store):
                frame = execute.lazy(group, store)
                yield from frame.collect_batches(chunk_size=rows, maintain_order=True, lazy=True, engine="streaming")


def _groups(sections: Iterable[Section]) -> Iterator[tuple[Section, ...]]:
    """Neighbouring sections that one query reads, within the bounds of `execute`."""
    sections = tuple(sections)
    starts = accumulate((section.row_count for section in sections), initial=0)

    def group(each: tuple[int, tuple[Section, int]]) -> tuple[int, int]:
        index, (_, start) = each
        return index // execute.MOST_GROUPED, start // execute.GROUP_ROWS

    for _, found in groupby(enumerate(zip(sections, starts)), key=group):
        yield tuple(section for _, (section, _) in found)
