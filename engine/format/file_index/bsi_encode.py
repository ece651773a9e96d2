"""Encoder of the ``bsi`` index; `bsi` describes the bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import Unsupported
from morrow.engine.format.file_index.bsi import VERSION
from morrow.engine.format.file_index.keys_encode import ColumnKeys
from morrow.engine.format.file_index.rowsets_encode import write_rows, write_slices

Ints = npt.NDArray[np.int64]
LEAST = 0
"""Java starts the slices of either sign at zero, so a greater least number never saves a slice."""


def encode(keys: ColumnKeys, _options: Mapping[str, str]) -> bytes:
    """Returns the index of a column.

    Raises:
        Unsupported: the least 64-bit number, which has no absolute value in 64 bits.
    """
    numbers = keys.keys.to_numpy()
    if len(numbers) and int(numbers.min()) == np.iinfo(np.int64).min:
        raise Unsupported(f"the number {np.iinfo(np.int64).min} in a bsi index", hint="take a range-bitmap index")
    negative = numbers < 0
    return b"".join(
        [
            struct.pack(">bi", VERSION, keys.row_count),
            _slices(keys.rows[~negative], numbers[~negative], keys.row_count),
            _slices(keys.rows[negative], -numbers[negative], keys.row_count),
        ]
    )


def _slices(rows: Ints, numbers: Ints, row_count: int) -> bytes:
    if not len(rows):
        return b"\0"
    greatest = int(numbers.max())
    slices = greatest.bit_length()
    return b"".join(
        [
            struct.pack(">?bqq", True, VERSION, LEAST, greatest),
            write_rows(rows, row_count),
            slices.to_bytes(4, "big"),
            *write_slices(rows, numbers, slices, row_count),
        ]
    )
