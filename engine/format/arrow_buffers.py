"""Buffers of Arrow arrays as numpy arrays, for encoders and hashes, and frames as Arrow IPC bytes.

Caches store frames as IPC bytes. A frame that is read back shares the memory of the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import DataType
from morrow.engine.library_versions import EXPORT_LEVEL, export_series

WIDE_BYTES = 16
WIDE_WORDS = 2

Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Column: TypeAlias = pl.Series | pa.Array | pa.ChunkedArray


class _ExportedArray:
    """A wrapper of an array that exposes only Arrow's C data interface."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        exported: tuple[object, object] = self._array.__arrow_c_array__(requested_schema)
        return exported


def to_series(array: pa.Array) -> pl.Series:
    """Return an array as a series without a name. Unlike `pl.from_arrow`, this does not import a large Arrow module."""
    return pl.Series(_ExportedArray(array))


def make_series(values: npt.NDArray[np.bool_] | npt.NDArray[np.integer]) -> pl.Series:
    """Return booleans or integers as a series without a name. Unlike `pl.Series`, this does not import numpy.ma.

    Integers are not copied, so the caller must not modify them afterwards.
    """
    is_bool = values.dtype == np.bool_
    kind = pa.bool_() if is_bool else pa.from_numpy_dtype(values.dtype)
    data = np.packbits(values, bitorder="little") if is_bool else np.ascontiguousarray(values)
    return to_series(pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data)]))


def join_slices(parts: Sequence[pl.Series]) -> pl.Series | None:
    """Join consecutive slices of one column without a copy; return None if they are not such slices."""
    if parts[0].dtype.is_nested() or any(part.n_chunks() != 1 for part in parts):
        return None
    arrays = [part.to_arrow(compat_level=EXPORT_LEVEL) for part in parts]
    places = [[buffer and buffer.address for buffer in array.buffers()] for array in arrays]
    follow = all(after.offset == before.offset + len(before) for before, after in pairwise(arrays))
    if not follow or not any(places[0]) or any(others != places[0] for others in places):
        return None
    last, length = arrays[-1], sum(map(len, arrays))  # the last slice's buffers extend to the end of its values
    whole = pa.Array.from_buffers(last.type, length, last.buffers(), offset=arrays[0].offset)
    return to_series(whole).cast(parts[0].dtype).alias(parts[0].name)


def to_arrow_array(column: Column, kind: DataType) -> pa.Array:
    """Return `column` as one Arrow array in the layout that the encoders expect.

    Variable-length values are large binary, timestamps keep their unit, all other values have the Arrow type of `kind`.
    """
    array = export_series(column) if isinstance(column, pl.Series) else column
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    target = kind.arrow()
    if array.type.equals(target) and not (pa.types.is_string(target) or pa.types.is_binary(target)):
        # A cast imports all functions of Arrow; and Arrow cannot cast null structs with NOT NULL members.
        return array
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(array.type):
        return array
    try:
        if pa.types.is_string(target):
            return array.cast(pa.large_string()).cast(pa.large_binary())
        return array.cast(pa.large_binary() if pa.types.is_binary(target) else target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"a column of {array.type} does not fit {kind}: {error}") from error


def read_fixed_values(array: pa.Array, dtype: str) -> npt.NDArray[Any]:
    """Return the values of a fixed-width Arrow array, 0 where null."""
    width = np.dtype(dtype).itemsize
    _, data = array.buffers()
    if data is None:
        return np.zeros(len(array), dtype)
    values = np.frombuffer(data, dtype, len(array), array.offset * width)
    return values if array.null_count == 0 else np.where(read_validity(array), values, np.zeros(1, dtype))


def read_wide_values(array: pa.Array) -> Ints:
    """Return the values of a decimal128 array as little-endian pairs of words (n x 2), 0 where null."""
    _, data = array.buffers()
    if data is None:
        return np.zeros((len(array), 2), np.int64)
    words = np.frombuffer(data, np.int64, len(array) * WIDE_WORDS, array.offset * WIDE_BYTES).reshape(-1, WIDE_WORDS)
    return words if array.null_count == 0 else np.where(read_validity(array)[:, None], words, 0)


def find_byte_spans(array: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """Return the buffer, begins and lengths (0 for null) of a large binary array."""
    _, offsets, data = array.buffers()
    edges = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8) if len(array) else np.zeros(1, np.int64)
    buffer = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return buffer, edges[:-1], np.where(read_validity(array), np.diff(edges), 0)


def read_validity(array: pa.Array) -> Bools:
    """Return a boolean per value, False where null.

    Arrow's `to_numpy` is avoided, as its first call in a process imports pandas.
    """
    bitmap, end = array.buffers()[0], array.offset + len(array)
    if bitmap is None:
        return np.full(len(array), array.null_count == 0)
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), count=end, bitorder="little")
    return bits[array.offset :].view(np.bool_)


IpcBytes = bytes | memoryview

IPC_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, ValueError, OSError)
"""Errors for undamaged bytes that another version has written."""


class _ExportedTable:
    """A wrapper of a table that exposes only Arrow's C stream interface, without conversion."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def serialize_frame(frame: pl.DataFrame) -> bytes:
    """Return a frame as bytes, uncompressed."""
    target = BytesIO()
    frame.write_ipc(target, compression="uncompressed")
    return target.getvalue()


def deserialize_frame(data: IpcBytes) -> pl.DataFrame:
    """Return the frame that `serialize_frame` wrote. Raises one of `IPC_ERRORS`."""
    from pyarrow import ipc

    return pl.DataFrame(_ExportedTable(ipc.open_file(pa.py_buffer(data)).read_all()))
