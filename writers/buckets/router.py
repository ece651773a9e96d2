"""What routes rows, and the split of a frame by partition and bucket that all routers share."""

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
from morrow.writers.files import Placement

BUCKET = "__bucket"

Routed: TypeAlias = tuple[Placement, pl.DataFrame]
Buckets: TypeAlias = npt.NDArray[np.int32]


class Router(Protocol):
    """Tells incoming rows apart by partition and bucket. Frames are those of `writers.rows.incoming`."""

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        """The rows of each bucket, in their order."""
        ...

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        """New index files since the last call, written now, each with the one it replaces."""
        ...


class StatelessRouter:
    """A router whose answer depends on the row alone. Subclasses say `buckets`."""

    def __init__(self, partition_fields: Sequence[DataField]) -> None:
        self._partition_fields = tuple(partition_fields)

    def buckets(self, rows: pl.DataFrame) -> Buckets | int:
        """The bucket of each row, or that of all."""
        raise NotImplementedError

    def route(self, rows: pl.DataFrame) -> Iterator[Routed]:
        yield from split(rows, self._partition_fields, self.buckets(rows))

    def index_files(self) -> Mapping[Placement, tuple[IndexFileMeta, IndexFileMeta | None]]:
        return {}


def split(rows: pl.DataFrame, partition_fields: Sequence[DataField], buckets: Buckets | int) -> Iterator[Routed]:
    """The rows of each partition and bucket, in their order, the buckets in order of their first row."""
    names = [f.name for f in partition_fields]
    if isinstance(buckets, int):
        if not names:
            yield Placement(partition_row(rows[:1], ()), buckets), rows
            return
        parts = rows.partition_by(names, maintain_order=True)
        for partition, part in zip(partition_rows([part[:1] for part in parts], partition_fields), parts):
            yield Placement(partition, buckets), part
        return
    numbered = rows.with_columns(pl.Series(BUCKET, buckets))
    parts = numbered.partition_by([*names, BUCKET], maintain_order=True)
    for partition, part in zip(partition_rows([part[:1] for part in parts], partition_fields), parts):
        yield Placement(partition, part[BUCKET][0]), part.drop(BUCKET)


def partition_rows(firsts: Sequence[pl.DataFrame], partition_fields: Sequence[DataField]) -> list[bytes]:
    """The partitions of frames of one row each, as metadata stores them (BinaryRow, arity first)."""
    if not partition_fields or not firsts:
        return [partition_row(first, ()) for first in firsts]
    names = [f.name for f in partition_fields]
    return encoded_rows(pl.concat([first.select(names) for first in firsts]), partition_fields)


def partition_row(first: pl.DataFrame, partition_fields: Sequence[DataField]) -> bytes:
    """The partition of a frame of one row."""
    if not partition_fields:
        return struct.pack(">i", 0) + bytes(fixed_width(0))
    return encoded_rows(first, partition_fields)[0]


def encoded_rows(rows: pl.DataFrame, fields: Sequence[DataField]) -> list[bytes]:
    """BinaryRows (arity first) of a few rows."""
    encoded = encode_columns([rows[f.name] for f in fields], [f.type for f in fields])
    arity = struct.pack(">i", len(fields))
    return [arity + encoded.row(i) for i in range(rows.height)]
