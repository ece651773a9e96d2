"""How the columns of a row group are encoded: by what a sample of their values looks like.

A dictionary pays where values repeat. Arrow would try one everywhere, and of unique numbers (keys, sequence numbers)
write half a megabyte of dictionary before it gives up: slower to write and to read, and larger. Those are stored as
differences (DELTA_BINARY_PACKED) if the differences are small, else plainly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.writers.files.parquet_types import is_int96

FEW_ROWS = 1000
"""So few are all looked at, and where no dictionary pays they are stored plainly, as Java does."""
SAMPLE_ROWS = 4096
REPEATING = 0.9
"""Where at least that share of a sample is distinct, values hardly repeat."""
SMALL_DIFFERENCES = 0.75
"""Differences that take at most that share of the bits of the type are worth storing instead of values."""
LENGTH_WIDTH = 4
"""Bytes before each text or byte string that is stored plainly."""
DELTA = "DELTA_BINARY_PACKED"


@dataclass(frozen=True)
class Encodings:
    """Paths of columns with a dictionary (True: all), and the encoding of others; the rest is plain."""

    dictionary: list[str] | bool = False
    others: dict[str, str] = field(default_factory=dict)

    @property
    def properties(self) -> dict[str, Any]:
        """As arguments of Arrow's writer."""
        return {"use_dictionary": self.dictionary, "column_encoding": self.others or None}


def choose(frame: pl.DataFrame, schema: pa.Schema, *, dictionaries: bool) -> Encodings:
    """The encodings of a row group with these values; without `dictionaries` none has one.

    `schema` has the same columns as `frame`, as Arrow is to write them. Parts of nested columns are not looked at.
    """
    if frame.height < FEW_ROWS:
        return Encodings(dictionaries and (_paying(frame, schema) or False))
    sample = frame.gather_every(max(frame.height // SAMPLE_ROWS, 1))[:SAMPLE_ROWS]
    dictionary: list[str] = []
    others: dict[str, str] = {}
    for column, stored in zip(sample.iter_columns(), schema, strict=True):
        if pa.types.is_nested(stored.type):
            dictionary += leaf_paths(stored)
        elif dictionaries and column.n_unique() < REPEATING * sample.height:
            dictionary.append(stored.name)
        elif not is_int96(stored.type) and _has_small_differences(frame[stored.name][:SAMPLE_ROWS]):
            others[stored.name] = DELTA
    return Encodings(dictionaries and (dictionary or False), others)


def _paying(frame: pl.DataFrame, schema: pa.Schema) -> list[str]:
    """The columns that take less room with a dictionary and its indexes than plainly."""
    paths: list[str] = []
    for column, stored in zip(frame.iter_columns(), schema, strict=True):
        if pa.types.is_nested(stored.type):
            paths += leaf_paths(stored)
            continue
        values = column.drop_nulls()
        distinct = values.n_unique()
        index_bits = max(distinct - 1, 1).bit_length()
        width = _width(values, stored.type)
        if 8 * width * distinct + index_bits * len(values) < 8 * width * len(values):
            paths.append(stored.name)
    return paths


def _width(values: pl.Series, type_: pa.DataType) -> float:
    """Bytes of a value as it is stored plainly, on average."""
    if pa.types.is_boolean(type_):
        return 1 / 8
    if values.dtype in (pl.String, pl.Binary):
        text = values if values.dtype == pl.Binary else values.cast(pl.Binary)
        return LENGTH_WIDTH + float(text.bin.size().mean() or 0)  # type: ignore[arg-type]  # a mean of integers is a float
    return float(type_.bit_width // 8)


def leaf_paths(stored: pa.Field, *, without_int96: bool = False) -> list[str]:
    """What Arrow calls the leaves of a column."""
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


def _has_small_differences(column: pl.Series) -> bool:
    """Whether these neighbouring values are integers in Parquet, with differences of few bits."""
    physical = column.to_physical().drop_nulls()
    if not physical.dtype.is_signed_integer() or physical.dtype == pl.Int128:
        return False
    differences = np.diff(physical.to_numpy().astype(np.float64))
    if not len(differences):
        return False
    bits = 64 if physical.dtype == pl.Int64 else 32
    spread = float(differences.max() - differences.min())
    return spread < float(1 << int(SMALL_DIFFERENCES * bits))
