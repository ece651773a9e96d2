"""Masks in the form that tasks return: bits, by the paths of files."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.readers.masks import Mask

MASK_SCHEMA = pa.schema([("file", pa.string()), ("mask", pa.binary())])
"""Path of a file and its mask as bits, the first row in the lowest one; null where every row is live."""
MASK_COLUMNS = "file STRING, mask BINARY"


def packed(mask: Mask) -> bytes | None:
    """Returns a mask as bits."""
    return None if mask is None else np.packbits(mask.to_numpy(), bitorder="little").tobytes()


def unpacked(bits: bytes | None, rows: int) -> Mask:
    """Returns the mask of so many rows that was `packed`."""
    if bits is None:
        return None
    return pl.Series(np.unpackbits(np.frombuffer(bits, np.uint8), count=rows, bitorder="little").view(bool))
