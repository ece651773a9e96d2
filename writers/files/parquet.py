"""Parquet data files as Java Paimon writes them: its types, its field ids, and a checksum for every page.

Each row group is written by Arrow as a file of its own, in memory, so that several threads can; `parquet_footer` makes
one footer of theirs. It also turns what Arrow wrote as 12 fixed bytes into INT96, for which Arrow has a switch, but one
that takes all timestamps of the file along.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.parsing import flag, integer, memory
from morrow.writers.files.encoders import Block, EncoderOptions
from morrow.writers.files.layout import FileLayout
from morrow.writers.files.parquet_encodings import choose, leaf_paths
from morrow.writers.files.parquet_footer import merge_footers
from morrow.writers.files.parquet_types import has_nanos, stored_array, stored_field

MAGIC = b"PAR1"
TAIL = struct.Struct("<I4s")
"""At the end of a file: the length of the footer, and the magic again."""

CODECS: Mapping[str, str] = {
    **{name: name for name in ("zstd", "snappy", "gzip", "brotli")},
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "none": "none",
    "uncompressed": "none",
}


def encoder(layout: FileLayout, options: EncoderOptions) -> ParquetEncoder:
    """Raises `Unsupported`: a codec or a column type that Parquet files do not have."""
    return ParquetEncoder(layout, options)


class ParquetEncoder:
    """See `morrow.writers.files.encoders.Encoder`; blocks are row groups."""

    head = MAGIC

    def __init__(self, layout: FileLayout, options: EncoderOptions) -> None:
        self._schema = pa.schema([stored_field(field, options.where) for field in layout.fields])
        self._nanos = [has_nanos(field.type) for field in layout.fields]
        self._dictionaries = flag(options.write.raw, "parquet.enable.dictionary", True, options.where)
        self._properties = _properties(options) | {"write_statistics": self._columns_with_statistics()}

    def block(self, frame: pl.DataFrame) -> Block:
        columns = [
            self._column(series, field, nanos)
            for series, field, nanos in zip(frame.iter_columns(), self._schema, self._nanos, strict=True)
        ]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        sink = pa.BufferOutputStream()
        encodings = choose(frame, self._schema, dictionaries=self._dictionaries)
        try:
            pq.write_table(table, sink, row_group_size=max(frame.height, 1), **encodings.properties, **self._properties)
        except pa.ArrowInvalid as error:
            raise InvalidArgument(f"the rows do not fit a Parquet file: {error}") from error
        data = memoryview(sink.getvalue())
        length, _ = TAIL.unpack(data[-TAIL.size :])
        end = len(data) - TAIL.size - length
        return Block(frame.height, end - len(MAGIC), data[len(MAGIC) : end], bytes(data[end : end + length]))

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
        """All but INT96, whose order nobody defines."""
        if not any(self._nanos):
            return True
        return [path for stored in self._schema for path in leaf_paths(stored, without_int96=True)]


def _properties(options: EncoderOptions) -> dict[str, Any]:
    raw, where = options.write.raw, options.where
    name = raw.get("parquet.compression", options.compression).strip().lower()
    if name not in CODECS:
        hint = f"choose one of {', '.join(CODECS)}"
        raise Unsupported(f"the codec {name!r} in Parquet files", where=where, hint=hint)
    level = integer(raw, "parquet.compression.codec.zstd.level", options.write.zstd_level, where)
    return {
        "compression": CODECS[name],
        "compression_level": level if name == "zstd" else None,
        "data_page_size": memory(raw, "parquet.page.size", None, where),
        "store_schema": False,
        "store_decimal_as_integer": True,
        "write_time_adjusted_to_utc": True,
        "write_page_checksum": True,
    }
