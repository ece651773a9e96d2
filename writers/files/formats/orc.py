"""ORC data files as Java Paimon writes them: its types, with lengths, and the field id of every node of the type tree.

================  =======================================================================================
Paimon            ORC
================  =======================================================================================
STRING            STRING; VARCHAR(n) and CHAR(n) keep their lengths
BINARY, BYTES     BINARY
TIME              INT, milliseconds
TIMESTAMP         TIMESTAMP, written in UTC
TIMESTAMP_LTZ     TIMESTAMP_INSTANT. (With ``orc.timestamp-ltz.legacy.type``, the default, Java shifts these by the
                  zone of its machine. Here that zone is UTC.)
MULTISET          MAP with INT values
================  =======================================================================================

Arrow writes each block as a file of its own, in memory, so that several threads can; `orc_footer` merges their tails
into one, with the types as above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.orc as orc

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.options.declared.formats import ORC_COMPRESS, ORC_DICTIONARY_KEY_THRESHOLD, ORC_STRIPE_SIZE
from morrow.readers.casts.dtypes import conform
from morrow.writers.files.blocks import MOST_BLOCK_ROWS
from morrow.writers.files.encoders import Block, EncoderOptions, FileWriter, one_by_one
from morrow.writers.files.formats.orc_footer import MAGIC, merge_tails, split
from morrow.writers.files.formats.orc_timestamps import early_times, holds_timestamps, with_times
from morrow.writers.files.formats.orc_types import type_tree
from morrow.writers.files.layout import FileLayout

CODECS: Mapping[str, str] = {
    **{name: name for name in ("zstd", "snappy", "lz4", "zlib")},
    "none": "uncompressed",
    "uncompressed": "uncompressed",
}
BATCH_ROWS = 1 << 16
MOST_FAST_LEVEL = 1
"""The highest fast zstd level. Arrow knows two levels of zstd: fast, and the default of zstd."""
STRIPE_BYTES = 1 << 40
"""Larger than any block, so that a block is one stripe."""
ONE_ENTRY = 4 * MOST_BLOCK_ROWS


class OrcEncoder:
    """An `Encoder` of ORC files; blocks are stripes."""

    head = MAGIC

    def __init__(self, layout: FileLayout, options: EncoderOptions) -> None:
        self._fields = layout.fields
        self._types = type_tree(layout.fields, options.where)
        self._schema = pa.schema([pa.field(field.name, _stored(field.type)) for field in layout.fields])
        self._properties = _properties(options)
        if any(map(holds_timestamps, self._schema.types)):
            # Allows streams to be replaced: the one entry of a row index points at their beginnings, however long.
            self._properties["row_index_stride"] = ONE_ENTRY

    def block(self, frame: pl.DataFrame) -> Block:
        columns = [
            self._column(series, field) for series, field in zip(frame.iter_columns(), self._fields, strict=True)
        ]
        early = early_times(columns, self._schema.names)
        sink = pa.BufferOutputStream()
        # Arrow allocates a whole batch for every column.
        with orc.ORCWriter(sink, batch_size=min(max(frame.height, 1), BATCH_ROWS), **self._properties) as writer:
            writer.write(pa.Table.from_arrays(columns, schema=self._schema))
        body, tail = with_times(sink.getvalue(), early) if early else split(sink.getvalue())
        return Block(frame.height, len(body), body, tail)

    def blocks(self, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
        return one_by_one(self, frame, heights)

    def foot(self, blocks: Sequence[Block]) -> bytes:
        return merge_tails([(block.size, block.details) for block in blocks], self._types)

    def _column(self, series: pl.Series, field: t.DataField) -> pa.ChunkedArray:
        stored, level = self._schema.field(field.name).type, pl.CompatLevel.oldest()
        try:
            chunks = [conform(c.to_arrow(compat_level=level), field.type.arrow()) for c in series.get_chunks()]
            chunks = [_compact(chunk if chunk.type.equals(stored) else chunk.cast(stored)) for chunk in chunks]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgument(f"column {field.name!r} of {series.dtype} is not {field.type}: {error}") from error
        return pa.chunked_array(chunks, stored)


def _properties(options: EncoderOptions) -> dict[str, Any]:
    given, where = options.write.given, options.where
    name = given.get(ORC_COMPRESS) or options.compression
    if name not in CODECS:
        hint = f"choose one of {', '.join(CODECS)}"
        raise Unsupported(f"the codec {name!r} in ORC files", where=where, hint=hint)
    return {
        "compression": CODECS[name],
        "compression_strategy": "speed" if options.write.zstd_level <= MOST_FAST_LEVEL else "compression",
        # As in Java: text with fewer distinct values than this share of its rows is dictionary-encoded.
        "dictionary_key_size_threshold": given.get(ORC_DICTIONARY_KEY_THRESHOLD),
        "stripe_size": STRIPE_BYTES,
    }


def _stored(type_: t.DataType) -> pa.DataType:
    """Returns the Arrow type that Arrow's ORC writer accepts."""
    if isinstance(type_, t.TimeType):
        return pa.int32()
    if isinstance(type_, t.ArrayType):
        return pa.list_(_stored(type_.element))
    if isinstance(type_, t.MapType):
        return pa.map_(_stored(type_.key), _stored(type_.value))
    if isinstance(type_, t.MultisetType):
        return pa.map_(_stored(type_.element), pa.int32())
    if isinstance(type_, t.RowType):
        return pa.struct([pa.field(member.name, _stored(member.type)) for member in type_.fields])
    return type_.arrow()


def _compact(array: pa.Array) -> pa.Array:
    """Returns nested arrays without offsets: Arrow's writer reads the nulls of a struct's member from the beginning."""
    return pa.concat_arrays([array, array[:0]]) if pa.types.is_nested(array.type) else array


WRITER = FileWriter(OrcEncoder, ORC_STRIPE_SIZE)
