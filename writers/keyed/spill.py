"""Sorted runs in temporary files, for writes larger than memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.ipc

from morrow.engine.io.system_errors import system_errors

CODEC = "lz4"


@dataclass(frozen=True)
class SpilledRun:
    """One sorted run in an Arrow IPC file of many small batches, oldest version of a key first."""

    path: Path
    rows: int

    def batches(self) -> Iterator[pl.DataFrame]:
        """Yields the rows, with one batch in memory at a time."""
        with pa.OSFile(str(self.path)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                frame = pl.from_arrow(reader.get_batch(number))
                assert isinstance(frame, pl.DataFrame)
                yield frame


class SpillFolder:
    """A temporary folder with the spilled runs of one writer; `close` removes it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="morrow-spill-")
        self._runs = 0

    def write(self, batches: Iterable[pl.DataFrame]) -> SpilledRun:
        """Writes one run. Raises `StorageError` on failure."""
        path = Path(self._folder.name) / f"{self._runs}.arrow"
        self._runs += 1
        rows = 0
        writer: pa.ipc.RecordBatchFileWriter | None = None
        options = pa.ipc.IpcWriteOptions(compression=CODEC)
        with system_errors(self._folder.name), pa.OSFile(str(path), "wb") as sink:
            for frame in batches:
                rows += frame.height
                for batch in frame.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches():
                    if writer is None:
                        writer = pa.ipc.new_file(sink, batch.schema, options=options)
                    writer.write_batch(batch)
            if writer is not None:
                writer.close()
        return SpilledRun(path, rows)

    def close(self) -> None:
        self._folder.cleanup()
