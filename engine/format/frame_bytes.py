"""Frames as bytes of Arrow's IPC format, for caches: what is read back shares memory with the bytes."""

from __future__ import annotations

from io import BytesIO

import polars as pl
import pyarrow as pa

Bytes = bytes | memoryview

FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, ValueError, OSError)
"""What bytes that nobody has damaged raise where another version has written them."""


class _Exported:
    """Record batches as other libraries take them, through Arrow's C interface alone: nothing is converted."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def frame_bytes(frame: pl.DataFrame) -> bytes:
    """Returns a frame as bytes, uncompressed."""
    target = BytesIO()
    frame.write_ipc(target, compression="uncompressed")
    return target.getvalue()


def frame_of(data: Bytes) -> pl.DataFrame:
    """Returns the frame that `frame_bytes` wrote. Raises: one of `FAILURES`."""
    from pyarrow import ipc

    return pl.DataFrame(_Exported(ipc.open_file(pa.py_buffer(data)).read_all()))
