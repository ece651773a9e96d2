"""Chooses the encodings of the columns of a Parquet row group by a sample of their values.

A dictionary pays where values repeat. Arrow would try one everywhere, and for unique numbers (keys, sequence numbers)
write half a megabyte of dictionary before it gives up: slower to write and to read, and larger. Those are stored as
differences (DELTA_BINARY_PACKED) if the differences are small, else plainly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.names import col, series, unnamed
from morrow.writers.files.formats.parquet_types import is_int96

FEW_ROWS = 1000
"""Fewer rows are sampled whole; where no dictionary pays they are stored plainly, as Java does."""
LEAST_ROWS = 8
"""Of fewer rows a dictionary takes about as much room as it saves, and longer to make."""
SAMPLE_ROWS = 4096
REPEATING = 0.9
"""The share of distinct values in a sample from which values hardly repeat."""
SMALL_DIFFERENCES = 0.75
"""The share of the type's bits up to which differences are worth storing instead of values."""
LENGTH_WIDTH = 4
"""Bytes of the length before each plainly stored text or byte string."""
GROUP = "group"
"""The group column in frames whose other columns are numbered."""
DELTA = "DELTA_BINARY_PACKED"


@dataclass(frozen=True)
class Encodings:
    """The paths of columns with a dictionary (True: all), and the encoding of others; the rest is plain."""

    dictionary: list[str] | bool = False
    others: dict[str, str] = field(default_factory=dict)

    @property
    def properties(self) -> dict[str, Any]:
        """The encodings as arguments of Arrow's writer."""
        return {"use_dictionary": self.dictionary, "column_encoding": self.others or None}


def choose(frame: pl.DataFrame, schema: pa.Schema, *, dictionaries: bool, differences: bool = True) -> Encodings:
    """Returns the encodings of a row group with these values: without `dictionaries`, or without `differences`.

    `schema` has the same columns as `frame`, as Arrow is to write them. Parts of nested columns are not sampled.
    """
    if frame.height < LEAST_ROWS:
        return Encodings()
    if frame.height < FEW_ROWS:
        return Encodings(dictionaries and (_paying(frame, schema) or False))
    step = max(frame.height // SAMPLE_ROWS, 1)
    sample = frame[np.arange(0, frame.height, step, dtype=np.uint32)[:SAMPLE_ROWS]]
    dictionary: list[str] = []
    others: dict[str, str] = {}
    for column, stored in zip(map(unnamed, sample.iter_columns()), schema, strict=True):
        if pa.types.is_nested(stored.type):
            dictionary += leaf_paths(stored)
        elif dictionaries and column.n_unique() < REPEATING * sample.height:
            dictionary.append(stored.name)
        elif differences and _pays_as_differences(frame, stored):
            others[stored.name] = DELTA
    return Encodings(dictionaries and (dictionary or False), others)


def choose_each(
    frame: pl.DataFrame, heights: Sequence[int], schema: pa.Schema, *, dictionaries: bool
) -> list[Encodings]:
    """Returns `choose` for each of the consecutive row groups in `frame`, of these heights, below `FEW_ROWS`."""
    if not dictionaries:
        return [Encodings()] * len(heights)
    columns = _atomic(frame, schema)
    group = pl.Series(GROUP, np.repeat(np.arange(len(heights), dtype=np.uint32), heights)).set_sorted()
    measures = [expression for column in columns for expression in _measures(column)]
    measured = pl.DataFrame([group, *columns]).group_by(GROUP, maintain_order=True).agg(measures)
    return [
        Encodings(_chosen(schema, row) or False) if height >= LEAST_ROWS else Encodings()
        for row, height in zip(measured.iter_rows(named=True), heights, strict=True)
    ]


def _paying(frame: pl.DataFrame, schema: pa.Schema) -> list[str]:
    """Returns the columns that are smaller with a dictionary and its indexes than plainly."""
    # One query for all columns: small files are many.
    columns = _atomic(frame, schema)
    measured = pl.DataFrame(columns).select(expression for column in columns for expression in _measures(column))
    return _chosen(schema, dict(zip(measured.columns, measured.row(0))) if columns else {})


def _atomic(frame: pl.DataFrame, schema: pa.Schema) -> list[pl.Series]:
    """Returns the columns that are not nested, named by their numbers."""
    atomic = [i for i, stored in enumerate(schema) if not pa.types.is_nested(stored.type)]
    return [unnamed(frame.to_series(i)).alias(str(i)) for i in atomic]


def _chosen(schema: pa.Schema, measures: Mapping[str, Any]) -> list[str]:
    paths: list[str] = []
    for i, stored in enumerate(schema):
        if pa.types.is_nested(stored.type):
            paths += leaf_paths(stored)
            continue
        count, distinct = measures[f"{i} count"], measures[f"{i} distinct"]
        index_bits = max(distinct - 1, 1).bit_length()
        width = _width(stored.type, measures.get(f"{i} length"))
        if 8 * width * distinct + index_bits * count < 8 * width * count:
            paths.append(stored.name)
    return paths


def _measures(column: pl.Series) -> list[pl.Expr]:
    """Returns the number of values, the number of distinct ones, and the mean length of text and bytes."""
    values = col(column.name).drop_nulls()
    measures = [values.len().alias(f"{column.name} count"), values.n_unique().alias(f"{column.name} distinct")]
    if column.dtype in (pl.String, pl.Binary):
        length = values.str.len_bytes() if column.dtype == pl.String else values.bin.size()
        measures.append(length.mean().fill_null(0.0).alias(f"{column.name} length"))
    return measures


def _width(type_: pa.DataType, length: float | None) -> float:
    """Returns the average bytes of a plainly stored value."""
    if pa.types.is_boolean(type_):
        return 1 / 8
    return float(type_.bit_width // 8) if length is None else LENGTH_WIDTH + length


def leaf_paths(stored: pa.Field, *, without_int96: bool = False) -> list[str]:
    """Returns Arrow's paths of the leaves of a column."""
    leaves = _leaves(stored.type)
    return [".".join([stored.name, *path]) for path, type_ in leaves if not (without_int96 and is_int96(type_))]


def _leaves(type_: pa.DataType) -> list[tuple[tuple[str, ...], pa.DataType]]:
    children: Sequence[tuple[tuple[str, ...], pa.DataType]] = ()
    if pa.types.is_map(type_):
        children = [(("key_value", "key"), type_.key_type), (("key_value", "value"), type_.item_type)]
    elif pa.types.is_list(type_):
        children = [(("list", "element"), type_.value_type)]
    elif pa.types.is_struct(type_):
        children = [((member.name,), member.type) for member in type_]
    if not children:
        return [((), type_)]
    return [((*path, *rest), leaf) for path, child in children for rest, leaf in _leaves(child)]


def _pays_as_differences(frame: pl.DataFrame, stored: pa.Field) -> bool:
    """Returns whether the first values of a column are integers in Parquet, with differences of few bits."""
    if is_int96(stored.type):
        return False
    physical = series(frame, stored.name)[:SAMPLE_ROWS].to_physical()
    physical = physical.drop_nulls() if physical.null_count() else physical  # which is a query
    if not physical.dtype.is_signed_integer() or physical.dtype == pl.Int128:
        return False
    differences = np.diff(physical.to_numpy().astype(np.float64))
    if not len(differences):
        return False
    bits = 64 if physical.dtype == pl.Int64 else 32
    spread = float(differences.max() - differences.min())
    return spread < float(1 << int(SMALL_DIFFERENCES * bits))
