"""Lance, Vortex and Mosaic data files, which the libraries of these formats encode.

The libraries write whole files. The rows of a file are kept until its end, so a writer holds about as many bytes as
``target-file-size``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.plugins import require_extra
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.writers.files.encoders import Block, EncoderOptions, FileLayout, FileWriter, encode_one_by_one

Write = Callable[[pa.Table, str], None]
"""Writes a table to a new file at a path."""


class WholeFileEncoder:
    """An `Encoder` whose foot is the whole file; blocks are rows that wait for it."""

    head = b""

    def __init__(self, write: Write, layout: FileLayout, options: EncoderOptions) -> None:
        self._write, self._fields, self._where = write, layout.fields, options.where

    def block(self, frame: pl.DataFrame) -> Block:
        rows = to_arrow_table(frame, self._fields)
        rows = rows.cast(pa.schema([relax_members(field) for field in rows.schema]))
        return Block(rows.num_rows, rows.nbytes, b"", rows)

    def blocks(self, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
        return encode_one_by_one(self, frame, heights)

    def foot(self, blocks: Sequence[Block]) -> bytes:
        """Return the bytes of the file. Raises `InvalidArgument` for values that the library does not accept."""
        rows = pa.concat_tables([block.details for block in blocks])
        with tempfile.TemporaryDirectory(prefix="morrow-") as folder:
            path = Path(folder) / "rows"
            try:
                self._write(rows, str(path))
            except MorrowError:
                raise
            except (RuntimeError, ValueError) as error:  # the libraries have no classes of their own
                raise InvalidArgument(f"{self._where}: the rows do not fit the file format: {error}") from error
            return path.read_bytes()


def relax_members(field: pa.Field) -> pa.Field:
    """Return a field without nested NOT NULL, which values below a null violate, and without timestamps in seconds."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([relax_members(member).with_nullable(True) for member in kind])
    elif pa.types.is_fixed_size_list(kind):
        kind = pa.list_(relax_members(kind.value_field).with_nullable(True), kind.list_size)
    elif pa.types.is_list(kind):
        kind = pa.list_(relax_members(kind.value_field).with_nullable(True))
    elif pa.types.is_map(kind):
        kind = pa.map_(relax_members(kind.key_field), relax_members(kind.item_field).with_nullable(True))
    elif pa.types.is_timestamp(kind) and kind.unit == "s":
        kind = pa.timestamp("ms", kind.tz)
    return field.with_type(kind)


def _write_lance(rows: pa.Table, path: str) -> None:
    with require_extra("writing Lance files", "lance", "lance"):
        from lance.file import LanceFileWriter
    with LanceFileWriter(path, rows.schema) as writer:
        for batch in rows.to_batches():
            writer.write_batch(batch)


def _write_vortex(rows: pa.Table, path: str) -> None:
    with require_extra("writing Vortex files", "vortex", "vortex"):
        import vortex
    vortex.io.write(rows, path)


def _write_mosaic(rows: pa.Table, path: str) -> None:
    with require_extra("writing Mosaic files", "mosaic", "mosaic"):
        import mosaic
    with open(path, "wb") as stream:  # noqa: PTH123 - the library needs a stream of Python
        mosaic.write_table(rows, stream)


WRITERS = {
    name: FileWriter(partial(WholeFileEncoder, write))
    for name, write in (("lance", _write_lance), ("vortex", _write_vortex), ("mosaic", _write_mosaic))
}
