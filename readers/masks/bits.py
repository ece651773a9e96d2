"""Masks as bits, the first row in the lowest one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.format.arrow_buffers import polars_series


def packed(mask: pl.Series | None) -> bytes | None:
    """Returns a mask as bits."""
    return None if mask is None else np.packbits(mask.to_numpy(), bitorder="little").tobytes()


def unpacked(bits: bytes | None, rows: int) -> pl.Series | None:
    """Returns the mask of so many rows that was `packed`."""
    if bits is None:
        return None
    return polars_series(pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bits)]))


def uniform(value: bool, rows: int) -> pl.Series:
    """Returns the mask of so many rows that all have this value; `pl.repeat` runs a query for it."""
    data = np.full(-(-rows // 8), 255 * value, np.uint8)
    return polars_series(pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(data)]))
