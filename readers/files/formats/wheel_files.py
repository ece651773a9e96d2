"""Lance, Vortex and Mosaic data files, which the libraries of these formats decode.

The libraries are extras (``pip install 'morrow[lance]'``). They read from paths of the local disk: a file of another
store is copied to a temporary file first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, MorrowError
from morrow.engine.format.types import DataField
from morrow.engine.io.local import LocalStore
from morrow.engine.io.resolve import ConfinedStore
from morrow.engine.plugins import require_extra
from morrow.readers.casts.dtypes import to_series
from morrow.readers.files.registry import FileReader
from morrow.readers.files.source import Chunk, FileSource

MAX_BATCH_ROWS = 65_536
"""Maximum rows of a chunk."""

Batches = Callable[[str, list[str] | None], Iterable[pa.RecordBatch]]
"""Yields the columns of these names (None: all) of the file at a path."""


@contextmanager
def open_path(source: FileSource) -> Iterator[str]:
    """Give the file a path on the local disk."""
    store = source.store.inner if isinstance(source.store, ConfinedStore) else source.store
    if isinstance(store, LocalStore):
        yield source.path
        return
    with tempfile.NamedTemporaryFile(suffix=f".{source.format}") as copy:
        copy.write(source.store.read(source.path))
        copy.flush()
        yield copy.name


def _decode(read: Batches, source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
    with open_path(source) as path, _translate(source.path):
        for batch in read(path, [field.name for field in fields] or None):
            columns = [to_series(field.name, _join(batch, field.name), field.type) for field in fields]
            yield Chunk(batch.num_rows, pl.DataFrame(columns))


def _join(batch: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    column = batch.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


@contextmanager
def _translate(path: str) -> Iterator[None]:
    """Raise `CorruptFile` for errors of the libraries, which have no classes of their own."""
    try:
        yield
    except MorrowError:
        raise
    except (RuntimeError, ValueError) as error:
        lines = str(error).strip().splitlines()
        raise CorruptFile(path, lines[0] if lines else type(error).__name__) from error


def _read_lance(path: str, names: list[str] | None) -> Iterable[pa.RecordBatch]:
    with require_extra("reading Lance files", "lance", "lance"):
        from lance.file import LanceFileReader
    batches: Iterable[pa.RecordBatch] = (
        LanceFileReader(path, columns=names).read_all(batch_size=MAX_BATCH_ROWS).to_batches()
    )
    return batches


def _read_vortex(path: str, names: list[str] | None) -> Iterable[pa.RecordBatch]:
    with require_extra("reading Vortex files", "vortex", "vortex"):
        import vortex
    batches: Iterable[pa.RecordBatch] = vortex.open(path).scan(names, batch_size=MAX_BATCH_ROWS).to_arrow()
    return batches


def _read_mosaic(path: str, names: list[str] | None) -> Iterable[pa.RecordBatch]:
    with require_extra("reading Mosaic files", "mosaic", "mosaic"):
        from mosaic import MosaicReader
    with open(path, "rb") as stream:  # noqa: PTH123 - faster than a Path
        size = stream.seek(0, 2)

        def read_at(offset: int, length: int) -> bytes:
            stream.seek(offset)
            return stream.read(length)

        reader: Any = MosaicReader.from_input_file(read_at, size)
        if names is not None:
            reader.project(names)
        for group in range(reader.num_row_groups):
            yield reader.read_row_group(group)


READERS = {
    name: FileReader(decode=partial(_decode, read))
    for name, read in (("lance", _read_lance), ("vortex", _read_vortex), ("mosaic", _read_mosaic))
}
