"""The protocol of routers, and the split of a frame by partition and bucket that all routers share."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.binary_row import fixed_width
from morrow.engine.format.binary_row_encode import encode_columns
from morrow.engine.format.data_file_meta import IndexFileMeta
from morrow.engine.format.types import DataField
from morrow.engine.names import BUCKET, series
from morrow.writers.files import Placement

Routed: TypeAlias = tuple[Placement, pl.DataFrame]
Buckets: TypeAlias = npt.NDArray[np.int32]


class Router(Protocol):
    """Splits incoming rows by partition and bucket. Frames are those of `writers.rows.incoming`."""

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        """Yields the rows of each bucket, in their order."""
        ...

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        """Writes and returns new index files since the last call, each with the one it replaces."""
        ...


class StatelessRouter:
    """A router that depends on the row alone. Subclasses define `buckets`."""

    def __init__(self, partition_fields: Sequence[DataField]) -> None:
        self._partition_fields = tuple(partition_fields)

    def buckets(self, rows: pl.DataFrame) -> Buckets | int:
        """Returns the bucket of each row, or one bucket for all."""
        raise NotImplementedError

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        yield from split(rows, self._partition_fields, self.buckets(rows))

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        return {}


def split(rows: pl.DataFrame, partition_fields: Sequence[DataField], buckets: Buckets | int) -> Iterator[Routed]:
    """Yields the rows of each partition and bucket, in their order, the buckets in order of their first row."""
    if isinstance(buckets, int):
        if not partition_fields:
            yield Placement(partition_row(rows[:1], ()), buckets), rows
            return
        parts = _parts(rows, partition_fields, None)
        for partition, part in zip(_partitions(parts, partition_fields), parts):
            yield Placement(partition, buckets), part
        return
    parts = _parts(rows.with_columns(pl.Series(BUCKET, buckets)), partition_fields, BUCKET)
    for partition, part in zip(_partitions(parts, partition_fields), parts):
        yield Placement(partition, part.drop_in_place(BUCKET)[0]), part


def _parts(rows: pl.DataFrame, partition_fields: Sequence[DataField], bucket: str | None) -> list[pl.DataFrame]:
    """Splits rows by the bytes of their partition, and by a column of buckets."""
    names = [*(f.name for f in partition_fields), *([] if bucket is None else [bucket])]
    dtypes = rows.schema
    if not any(dtypes[name].is_float() for name in names):
        return rows.partition_by(names, maintain_order=True)
    # Polars groups 0.0 with -0.0, and NaNs of any bits, but these are separate partitions.
    keys = pl.DataFrame([_bits(series(rows, name)).alias(str(i)) for i, name in enumerate(names)])
    groups = keys.with_row_index("row").group_by(keys.columns, maintain_order=True).agg("row")["row"]
    return [rows[numbers] for numbers in groups]


def _bits(column: pl.Series) -> pl.Series:
    """Returns floats as integers of the same bits, null for null; other columns as they are."""
    if not column.dtype.is_float():
        return column
    values = column.fill_null(0.0).to_numpy()
    bits = pl.Series(values.view(np.dtype(f"u{values.itemsize}")))
    return bits.zip_with(column.is_not_null(), pl.Series([None], dtype=bits.dtype))


def _partitions(parts: Sequence[pl.DataFrame], partition_fields: Sequence[DataField]) -> list[bytes]:
    """Returns the partition of each of these frames, as metadata stores them (BinaryRow, arity first)."""
    if not partition_fields or not parts:
        return [partition_row(part[:1], ()) for part in parts]
    firsts = pl.concat([part[:1] for part in parts])
    return encoded_rows(firsts, partition_fields)


def partition_row(first: pl.DataFrame, partition_fields: Sequence[DataField]) -> bytes:
    """Returns the partition of a frame of one row."""
    if not partition_fields:
        return struct.pack(">i", 0) + bytes(fixed_width(0))
    return encoded_rows(first, partition_fields)[0]


def encoded_rows(rows: pl.DataFrame, fields: Sequence[DataField]) -> list[bytes]:
    """Returns the BinaryRows (arity first) of a few rows."""
    encoded = encode_columns([series(rows, f.name) for f in fields], [f.type for f in fields])
    arity = struct.pack(">i", len(fields))
    return [arity + encoded.row(i) for i in range(rows.height)]
