"""ORC data files as Java Paimon writes them: its types with lengths, and the field id of every node of the type tree.

================  =======================================================================================
Paimon            ORC
================  =======================================================================================
STRING            STRING; VARCHAR(n) and CHAR(n) keep their lengths
BINARY, BYTES     BINARY
TIME              INT, milliseconds
TIMESTAMP         TIMESTAMP, written in UTC
TIMESTAMP_LTZ     TIMESTAMP_INSTANT. (With ``orc.timestamp-ltz.legacy.type``, the default, Java shifts these by the
                  zone of its machine. Here that zone is UTC, so both settings give the same bytes.)
MULTISET          MAP with INT values
================  =======================================================================================

Arrow writes each block as a separate file in memory, so that several threads can do it. `orc_stripes` merges their
tails into one, with the types above. The type tree is protobuf messages in the order of the tree's nodes (parents
first):

    Type    1 kind   2 subtypes (packed node numbers)   3 fieldNames   4 maximumLength   5 precision   6 scale
            7 attributes (StringPair: 1 key, 2 value)

Every node but the root has its field id as the attribute ``paimon.id``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.orc as orc

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.orc_file import Field, encode_message, encode_varint, make_field
from morrow.engine.library_versions import export_series
from morrow.engine.options.declared.files import ORC_COMPRESS, ORC_DICTIONARY_KEY_THRESHOLD, ORC_STRIPE_SIZE
from morrow.readers.casts.dtypes import cast_layout
from morrow.writers.files.encoders import (
    MAX_BLOCK_ROWS,
    Block,
    EncoderOptions,
    FieldPlace,
    FileLayout,
    FileWriter,
    encode_one_by_one,
)
from morrow.writers.files.formats.orc_stripes import (
    MAGIC,
    find_early_times,
    has_timestamps,
    merge_tails,
    replace_times,
    split_tail,
)

CODECS: Mapping[str, str] = {
    **{name: name for name in ("zstd", "snappy", "lz4", "zlib")},
    "none": "uncompressed",
    "uncompressed": "uncompressed",
}
ORC_BATCH_ROWS = 1 << 16
MAX_FAST_LEVEL = 1
"""Maximum zstd level that is written as fast. Arrow supports two levels of zstd: fast, and zstd's default."""
STRIPE_BYTES = 1 << 40
"""Stripe size for Arrow. Larger than any block, so that a block is one stripe."""
ONE_ENTRY = 4 * MAX_BLOCK_ROWS


class OrcEncoder:
    """An `Encoder` of ORC files; blocks are stripes."""

    head = MAGIC

    def __init__(self, layout: FileLayout, options: EncoderOptions) -> None:
        self._fields = layout.fields
        self._types = build_type_tree(layout.fields, options.where)
        self._schema = pa.schema([pa.field(field.name, _to_stored_type(field.type)) for field in layout.fields])
        self._properties = _parse_properties(options)
        if any(map(has_timestamps, self._schema.types)):
            # With a single entry per row index, which points to the beginning of streams, streams can be replaced.
            self._properties["row_index_stride"] = ONE_ENTRY

    def block(self, frame: pl.DataFrame) -> Block:
        columns = [
            self._column(series, field) for series, field in zip(frame.iter_columns(), self._fields, strict=True)
        ]
        early = find_early_times(columns, self._schema.names)
        sink = pa.BufferOutputStream()
        # Arrow allocates a whole batch for every column.
        with orc.ORCWriter(sink, batch_size=min(max(frame.height, 1), ORC_BATCH_ROWS), **self._properties) as writer:
            writer.write(pa.Table.from_arrays(columns, schema=self._schema))
        body, tail = replace_times(sink.getvalue(), early) if early else split_tail(sink.getvalue())
        return Block(frame.height, len(body), body, tail)

    def blocks(self, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
        return encode_one_by_one(self, frame, heights)

    def foot(self, blocks: Sequence[Block]) -> bytes:
        return merge_tails([(block.size, block.details) for block in blocks], self._types)

    def _column(self, series: pl.Series, field: t.DataField) -> pa.ChunkedArray:
        stored, level = self._schema.field(field.name).type, pl.CompatLevel.oldest()
        try:
            chunks = [cast_layout(export_series(c, level), field.type.arrow()) for c in series.get_chunks()]
            chunks = [_compact(chunk if chunk.type.equals(stored) else chunk.cast(stored)) for chunk in chunks]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgument(f"column {field.name!r} of {series.dtype} is not {field.type}: {error}") from error
        return pa.chunked_array(chunks, stored)


def _parse_properties(options: EncoderOptions) -> dict[str, Any]:
    given, where = options.write.given, options.where
    name = given.get(ORC_COMPRESS) or options.compression
    if name not in CODECS:
        hint = f"choose one of {', '.join(CODECS)}"
        raise Unsupported(f"the codec {name!r} in ORC files", where=where, hint=hint)
    return {
        "compression": CODECS[name],
        "compression_strategy": "speed" if options.write.zstd_level <= MAX_FAST_LEVEL else "compression",
        # As in Java, text is dictionary-encoded if its distinct values are less than this share of its rows.
        "dictionary_key_size_threshold": given.get(ORC_DICTIONARY_KEY_THRESHOLD),
        "stripe_size": STRIPE_BYTES,
    }


def _to_stored_type(type_: t.DataType) -> pa.DataType:
    """Return the Arrow type that Arrow's ORC writer accepts."""
    if isinstance(type_, t.TimeType):
        return pa.int32()
    if isinstance(type_, t.ArrayType):
        return pa.list_(_to_stored_type(type_.element))
    if isinstance(type_, t.MapType):
        return pa.map_(_to_stored_type(type_.key), _to_stored_type(type_.value))
    if isinstance(type_, t.MultisetType):
        return pa.map_(_to_stored_type(type_.element), pa.int32())
    if isinstance(type_, t.RowType):
        return pa.struct([pa.field(member.name, _to_stored_type(member.type)) for member in type_.fields])
    return type_.arrow()


def _compact(array: pa.Array) -> pa.Array:
    """Copy nested arrays to offset 0: Arrow's writer ignores the offset of nulls in struct members."""
    return pa.concat_arrays([array, array[:0]]) if pa.types.is_nested(array.type) else array


WRITER = FileWriter(OrcEncoder, ORC_STRIPE_SIZE)

KIND, SUBTYPES, FIELD_NAMES, MAXIMUM_LENGTH, PRECISION, SCALE, ATTRIBUTES = range(1, 8)
ID_ATTRIBUTE = b"paimon.id"

BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, BINARY, TIMESTAMP, LIST, MAP, STRUCT = range(13)
DECIMAL, DATE, VARCHAR, CHAR, TIMESTAMP_INSTANT = range(14, 19)

KINDS: Mapping[type[t.DataType], int] = {
    t.BooleanType: BOOLEAN,
    t.TinyIntType: BYTE,
    t.SmallIntType: SHORT,
    t.IntType: INT,
    t.BigIntType: LONG,
    t.FloatType: FLOAT,
    t.DoubleType: DOUBLE,
    t.BinaryType: BINARY,
    t.VarBinaryType: BINARY,
    t.BlobType: BINARY,
    t.DateType: DATE,
    t.TimeType: INT,
    t.TimestampType: TIMESTAMP,
    t.LocalZonedTimestampType: TIMESTAMP_INSTANT,
}


def build_type_tree(columns: Sequence[t.DataField], where: str) -> tuple[bytes, ...]:
    """Return the type nodes of a file with these columns.

    Raises:
        Unsupported: Java Paimon does not write this type to ORC either.
    """
    nodes: list[bytes] = []
    _add_struct(nodes, columns, FieldPlace(-1, where), [])
    return tuple(nodes)


def _add(nodes: list[bytes], type_: t.DataType, node_id: int, at: FieldPlace) -> None:
    """Add the nodes of one type, with `node_id` as field id of the topmost node."""
    pair = encode_message([make_field(1, ID_ATTRIBUTE), make_field(2, str(node_id).encode())])
    attributes = [make_field(ATTRIBUTES, pair)]
    if isinstance(type_, t.RowType):
        _add_struct(nodes, type_.fields, at, attributes)
    elif type(type_) in _CHILDREN:
        kind, children = _CHILDREN[type(type_)](type_, at.inside)
        _add_parent(nodes, kind, [partial(_add, nodes, child, id_, at.inside) for child, id_ in children], attributes)
    else:
        nodes.append(encode_message([*_build_atomic(type_, at.where), *attributes]))


def _add_struct(nodes: list[bytes], members: Sequence[t.DataField], at: FieldPlace, rest: list[Field]) -> None:
    names = [make_field(FIELD_NAMES, member.name.encode()) for member in members]
    add = [partial(_add, nodes, f.type, f.id, at.member(f.id)) for f in members]
    _add_parent(nodes, STRUCT, add, [*names, *rest])


def _add_parent(nodes: list[bytes], kind: int, children: Sequence[Callable[[], None]], rest: list[Field]) -> None:
    """Add the node, which lists the numbers of its children, then the nodes of its children."""
    own = len(nodes)
    nodes.append(b"")
    numbers = b""
    for add in children:
        numbers += encode_varint(len(nodes))
        add()
    nodes[own] = encode_message([make_field(KIND, kind), make_field(SUBTYPES, numbers), *rest])


def _add_map(type_: t.MapType, inside: FieldPlace) -> tuple[int, list[tuple[t.DataType, int]]]:
    return MAP, [(type_.key, inside.key_id), (type_.value, inside.element_id)]


_CHILDREN: Mapping[type[t.DataType], Callable[[Any, FieldPlace], tuple[int, list[tuple[t.DataType, int]]]]] = {
    t.ArrayType: lambda array, inside: (LIST, [(array.element, inside.element_id)]),
    t.MapType: _add_map,
    t.MultisetType: lambda bag, inside: _add_map(t.MapType(key=bag.element, value=t.IntType()), inside),
}
"""By nested type: the ORC kind, and type and id of each child."""


def _build_atomic(type_: t.DataType, where: str) -> list[Field]:
    if isinstance(type_, t.DecimalType):
        return [make_field(KIND, DECIMAL), make_field(PRECISION, type_.precision), make_field(SCALE, type_.scale)]
    if isinstance(type_, t.CharType):
        return [make_field(KIND, CHAR), make_field(MAXIMUM_LENGTH, type_.length)]
    if isinstance(type_, t.VarCharType):
        bounded = type_.length != t.MAX_LENGTH
        length = [make_field(MAXIMUM_LENGTH, type_.length)] if bounded else []
        return [make_field(KIND, VARCHAR if bounded else STRING), *length]
    if type(type_) not in KINDS:
        raise Unsupported(f"a column of {type_} in ORC files", where=where, hint="choose Parquet for the table")
    return [make_field(KIND, KINDS[type(type_)])]
