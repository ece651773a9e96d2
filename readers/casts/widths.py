"""About how many bytes values take."""

from __future__ import annotations

import polars as pl

from morrow.engine.format.types import DataType
from morrow.readers.casts.dtypes import polars_dtype

WIDTHS: dict[type[pl.DataType], int] = {
    **dict.fromkeys((pl.Boolean, pl.Int8), 1),
    pl.Int16: 2,
    **dict.fromkeys((pl.Int32, pl.Float32, pl.Date), 4),
    **dict.fromkeys((pl.Int64, pl.Float64, pl.Datetime, pl.Time), 8),
    pl.Decimal: 16,
}
"""Bytes of a value by its dtype."""

VARIABLE_BYTES = 40
"""About how many bytes a value of a type of no fixed width takes."""


def width_of(type_: DataType) -> int:
    """Returns about how many bytes a value of this type takes in memory."""
    return WIDTHS.get(type(polars_dtype(type_)), VARIABLE_BYTES)
