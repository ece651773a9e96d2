"""Conversion of whole columns to keys of file indexes; `keys` converts single literals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import byte_spans
from morrow.engine.format.file_index.keys import KINDS, MILLIS_PRECISION
from morrow.engine.format.file_index.ragged import Ragged, fixed, gather, side_by_side

Ints = npt.NDArray[np.int64]
_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NANOS_PER_MILLI = 1_000_000


@dataclass(frozen=True, eq=False)
class ColumnKeys:
    """The keys of a column's rows.

    Attributes:
        data_type: type of the column.
        row_count: rows, null ones included.
        rows: int64, ascending: the rows that are not null.
        keys: the keys of `rows`: Int64 (FLOAT and DOUBLE in Java's total order) or Binary.
    """

    data_type: t.DataType
    row_count: int
    rows: Ints
    keys: pl.Series

    @cached_property
    def null_rows(self) -> Ints:
        """The null rows, ascending."""
        is_null = np.ones(self.row_count, np.bool_)
        is_null[self.rows] = False
        return np.flatnonzero(is_null)

    @cached_property
    def _dictionary(self) -> tuple[pl.Series, Ints]:
        if self.keys.dtype == pl.Binary:
            distinct = self.keys.unique().sort()
            numbered = pl.DataFrame({"key": distinct, "code": pl.int_range(distinct.len(), eager=True)})
            found = pl.DataFrame({"key": self.keys}).join(numbered, on="key", how="left", maintain_order="left")
            return distinct, found["code"].to_numpy()
        values, codes = np.unique(self.keys.to_numpy(), return_inverse=True)
        return pl.Series(values), codes.astype(np.int64)

    @property
    def distinct(self) -> pl.Series:
        """The distinct keys, ascending."""
        return self._dictionary[0]

    @property
    def codes(self) -> Ints:
        """The index in `distinct` of the key of each of `rows`."""
        return self._dictionary[1]


def column_keys(column: pl.Series, data_type: t.DataType) -> ColumnKeys:
    """Returns the keys of a column.

    Args:
        column: in the dtype in which Morrow's frames hold the type.

    Raises:
        Unsupported: a type without keys, or a DECIMAL value that does not fit the 64 bits of a key.
    """
    if type(data_type) not in KINDS:
        raise Unsupported(f"a file index on a column of the type {data_type}")
    present = column.is_not_null()
    keys = _KEYS.get(type(data_type), _integers)(column.filter(present), data_type)
    return ColumnKeys(data_type, column.len(), np.flatnonzero(present.to_numpy()), keys)


def bits_of(keys: Ints, data_type: t.DataType) -> Ints:
    """Returns the keys of FLOAT and DOUBLE columns as signed IEEE bits; other keys are stored unchanged."""
    width = _FLOAT_BITS.get(type(data_type))
    return np.where(keys >= 0, keys, keys ^ ((1 << (width - 1)) - 1)) if width else keys


def stored(keys: pl.Series, data_type: t.DataType) -> Ragged:
    """Returns the stored form of keys: big-endian in the width of the type, text after its length."""
    width = KINDS[type(data_type)].width
    if width is None:
        text = spans(keys)
        return side_by_side([fixed(text.sizes, ">i4"), text])
    return fixed(bits_of(keys.to_numpy(), data_type), f">i{width}")


def spans(keys: pl.Series) -> Ragged:
    """Returns the byte strings of a Binary column without nulls."""
    array = keys.rechunk().to_arrow().cast("large_binary")
    data, begins, sizes = byte_spans(array)
    return gather(data, begins, sizes)


def _integers(column: pl.Series, _: t.DataType) -> pl.Series:
    return column.to_physical().cast(pl.Int64)


def _decimals(column: pl.Series, data_type: t.DataType) -> pl.Series:
    try:
        return _integers(column, data_type)
    except pl.exceptions.InvalidOperationError:
        problem = f"a file index on {data_type} values whose digits do not fit 64 bits"
        raise Unsupported(problem, hint="leave this column out of file-index options") from None


def _times(column: pl.Series, _: t.DataType) -> pl.Series:
    return column.to_physical() // _NANOS_PER_MILLI


def _timestamps(column: pl.Series, data_type: t.DataType) -> pl.Series:
    assert isinstance(column.dtype, pl.Datetime)
    assert isinstance(data_type, (t.TimestampType, t.LocalZonedTimestampType))
    has, wants = _PER_SECOND[column.dtype.time_unit], 1_000 if data_type.precision <= MILLIS_PRECISION else 1_000_000
    ticks = column.to_physical()
    return ticks // (has // wants) if has >= wants else ticks * (wants // has)


def _floats(code: str, width: int) -> Callable[[pl.Series, t.DataType], pl.Series]:
    def of(column: pl.Series, _: t.DataType) -> pl.Series:
        values = column.to_numpy()
        canonical = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        bits = canonical.view(code).astype(np.int64)
        return pl.Series(np.where(bits >= 0, bits, bits ^ ((1 << (width - 1)) - 1)))

    return of


def _texts(column: pl.Series, _: t.DataType) -> pl.Series:
    return column.cast(pl.Binary)


_FLOAT_BITS: Mapping[type[t.DataType], int] = {t.FloatType: 32, t.DoubleType: 64}
_KEYS: Mapping[type[t.DataType], Callable[[pl.Series, t.DataType], pl.Series]] = {
    t.FloatType: _floats("i4", 32),
    t.DoubleType: _floats("i8", 64),
    t.DecimalType: _decimals,
    t.TimeType: _times,
    t.TimestampType: _timestamps,
    t.LocalZonedTimestampType: _timestamps,
    t.CharType: _texts,
    t.VarCharType: _texts,
    t.BinaryType: _texts,
    t.VarBinaryType: _texts,
}
