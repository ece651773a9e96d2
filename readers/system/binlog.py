"""``$binlog``: each column of a row as an array, so that an update has room for its values before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format.row_kinds import NAMES, UPDATE_AFTER, UPDATE_BEFORE
from morrow.engine.format.schema import ROWKIND, ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD
from morrow.engine.format.types import ArrayType, DataField, arrow_schema
from morrow.engine.values import replace
from morrow.readers.casts.dtypes import conform

PLAIN = (ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD)
"""Columns that are not packed."""


def packed_field(field: DataField) -> DataField:
    """Returns the column as an array, whose elements may be null."""
    return field if field in PLAIN else replace(field, type=ArrayType(element=field.type.with_nullable(True)))


def packed(rows: pa.RecordBatch, fields: Sequence[DataField], *, pairs: bool = False) -> pa.RecordBatch:
    """Packs the values of rows into arrays.

    Args:
        rows: columns by name, with their plain values; with `pairs` also ``rowkind``.
        fields: the columns of the result, as `packed_field` makes them.
        pairs: whether a -U and the +U after it become one row: its arrays hold both values, its kind is +U.
    """
    ends = _last_of_each(rows.column(ROWKIND)) if pairs else np.arange(len(rows))
    offsets = pa.array(np.append(0, ends + 1), pa.int32())
    columns = [
        rows.column(field.name).take(pa.array(ends)) if field in PLAIN else _arrays(rows, field, offsets)
        for field in fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(tuple(fields)))


def with_whole_pairs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the same rows, without a batch that ends between a -U and its +U."""
    held: pa.RecordBatch | None = None
    for each in batches:
        batch = each if held is None else pa.Table.from_batches([held, each]).combine_chunks().to_batches()[0]
        held = None
        if len(batch) and batch.column(ROWKIND)[-1].as_py() == NAMES[UPDATE_BEFORE]:
            held, batch = batch.slice(len(batch) - 1), batch.slice(0, len(batch) - 1)
        yield batch
    if held is not None:
        yield held


def _last_of_each(kinds: pa.Array) -> npt.NDArray[np.integer]:
    """Returns the numbers of the rows that end a packed row."""
    before, after = (
        pc.equal(kinds, NAMES[kind]).to_numpy(zero_copy_only=False) for kind in (UPDATE_BEFORE, UPDATE_AFTER)
    )
    return np.flatnonzero(~(before & np.append(after[1:], False)))


def _arrays(rows: pa.RecordBatch, field: DataField, offsets: pa.Array) -> pa.Array:
    kind = field.type.arrow()
    return pa.ListArray.from_arrays(offsets, conform(rows.column(field.name), kind.value_type), type=kind)
