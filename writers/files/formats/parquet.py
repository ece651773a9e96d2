"""Parquet data files as Java Paimon writes them: its types, its field ids, and a checksum for every page.

Arrow writes each row group as a file of its own, in memory, so that several threads can; `parquet_footer` merges their
footers into one. It also turns 12 fixed bytes that Arrow wrote into INT96; Arrow's own switch for INT96 applies to all
timestamps of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.declared.formats import (
    PARQUET_BLOCK_SIZE,
    PARQUET_COMPRESSION,
    PARQUET_COMPRESSION_CODEC_ZSTD_LEVEL,
    PARQUET_ENABLE_DICTIONARY,
    PARQUET_PAGE_SIZE,
    PARQUET_WRITER_VERSION,
)
from morrow.writers.files.encoders import Block, EncoderOptions, FileWriter, one_by_one
from morrow.writers.files.formats.parquet_encodings import FEW_ROWS, Encodings, choose, choose_each, leaf_paths
from morrow.writers.files.formats.parquet_footer import merge_footers
from morrow.writers.files.formats.parquet_types import has_nanos, is_text, stored_array, stored_field
from morrow.writers.files.layout import FileLayout

MAGIC = b"PAR1"
FIRST_VERSION = ("v1", "parquet_1_0")
"""Words of `PARQUET_WRITER_VERSION` for the encodings that every version of Java Paimon reads."""
TAIL = struct.Struct("<I4s")
"""The end of a file: the length of the footer, and the magic again."""

NEVER_CUT = 32
"""The characters up to which a bound in the statistics of a row group is a whole value, whatever a writer shortens."""

CODECS: Mapping[str, str] = {
    **{name: name for name in ("zstd", "snappy", "gzip", "brotli")},
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "none": "none",
    "uncompressed": "none",
}


class ParquetEncoder:
    """An `Encoder` of Parquet files; blocks are row groups."""

    head = MAGIC

    def __init__(self, layout: FileLayout, options: EncoderOptions) -> None:
        self._schema = pa.schema([stored_field(field, options.where) for field in layout.fields])
        self._nanos = [has_nanos(field.type) for field in layout.fields]
        self._dictionaries = options.write.given.get(PARQUET_ENABLE_DICTIONARY)
        self._differences = options.write.given.get(PARQUET_WRITER_VERSION) not in FIRST_VERSION
        places = accumulate((len(leaf_paths(stored)) for stored in self._schema), initial=0)
        texts = ((stored.name, place) for stored, place in zip(self._schema, places) if is_text(stored.type))
        self._texts = tuple(texts)
        """Text columns, and the places of their chunks in a row group."""
        self._properties = _properties(options) | {"write_statistics": self._columns_with_statistics()}

    def block(self, frame: pl.DataFrame) -> Block:
        encodings = choose(frame, self._schema, dictionaries=self._dictionaries, differences=self._differences)
        return self._block(self._table(frame), encodings)

    def blocks(self, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
        if max(heights) >= FEW_ROWS:
            return one_by_one(self, frame, heights)
        table = self._table(frame.rechunk())
        chosen = choose_each(frame, heights, self._schema, dictionaries=self._dictionaries)
        starts = accumulate(heights, initial=0)
        return [
            partial(self._block, table.slice(start, height), encodings)
            for start, height, encodings in zip(starts, heights, chosen)
        ]

    def _table(self, frame: pl.DataFrame) -> pa.Table:
        columns = [
            self._column(series, field, nanos)
            for series, field, nanos in zip(frame.iter_columns(), self._schema, self._nanos, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _block(self, table: pa.Table, encodings: Encodings) -> Block:
        rows, sink, footers = table.num_rows, pa.BufferOutputStream(), list[pq.FileMetaData]()
        properties = {**encodings.properties, **self._properties, "metadata_collector": footers}
        try:
            pq.write_table(table, sink, row_group_size=max(rows, 1), **properties)
        except pa.ArrowInvalid as error:
            raise InvalidArgument(f"the rows do not fit a Parquet file: {error}") from error
        data = memoryview(sink.getvalue())
        length, _ = TAIL.unpack(data[-TAIL.size :])
        end = len(data) - TAIL.size - length
        details, ends = bytes(data[end : end + length]), self._text_ends(footers[0])
        return Block(rows, end - len(MAGIC), data[len(MAGIC) : end], details, ends)

    def _text_ends(self, footer: pq.FileMetaData) -> dict[str, tuple[str, str]]:
        """Returns the bounds of text columns in the statistics of a row group, of short values."""
        group = footer.row_group(0)
        found = ((name, group.column(place).statistics) for name, place in self._texts)
        ends = {name: (each.min, each.max) for name, each in found if each is not None and each.has_min_max}
        return {name: both for name, both in ends.items() if max(map(len, both)) <= NEVER_CUT}

    def foot(self, blocks: Sequence[Block]) -> bytes:
        footer = merge_footers([(block.size, block.details) for block in blocks], int96=any(self._nanos))
        return footer + TAIL.pack(len(footer), MAGIC)

    def _column(self, series: pl.Series, field: pa.Field, nanos: bool) -> pa.ChunkedArray:
        level = pl.CompatLevel.newest()
        try:
            chunks = [piece.to_arrow(compat_level=level) for piece in series.get_chunks()]
            arrays = [stored_array(chunk, field.type, nanos=nanos) for chunk in chunks]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgument(f"column {field.name!r} of {series.dtype} is not {field.type}: {error}") from error
        return pa.chunked_array(arrays, field.type)

    def _columns_with_statistics(self) -> bool | list[str]:
        """Returns all columns but INT96, whose order is undefined."""
        if not any(self._nanos):
            return True
        return [path for stored in self._schema for path in leaf_paths(stored, without_int96=True)]


def _properties(options: EncoderOptions) -> dict[str, Any]:
    given, where = options.write.given, options.where
    name = given.get(PARQUET_COMPRESSION) or options.compression
    if name not in CODECS:
        hint = f"choose one of {', '.join(CODECS)}"
        raise Unsupported(f"the codec {name!r} in Parquet files", where=where, hint=hint)
    level = given.get(PARQUET_COMPRESSION_CODEC_ZSTD_LEVEL)
    return {
        "compression": CODECS[name],
        "compression_level": (options.write.zstd_level if level is None else level) if name == "zstd" else None,
        "data_page_size": given.get(PARQUET_PAGE_SIZE),
        "store_schema": False,
        "store_decimal_as_integer": True,
        "write_time_adjusted_to_utc": True,
        "write_page_checksum": True,
    }


WRITER = FileWriter(ParquetEncoder, PARQUET_BLOCK_SIZE)
