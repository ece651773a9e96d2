"""ORC data files as Java Paimon writes them: its types with lengths, field ids, stripes and tails.

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

Arrow writes each block as a separate file in memory, so that several threads can do it. `merge_tails` merges their
tails into one, with the types above. The type tree is protobuf messages in the order of the tree's nodes (parents
first):

    Type    1 kind   2 subtypes (packed node numbers)   3 fieldNames   4 maximumLength   5 precision   6 scale
            7 attributes (StringPair: 1 key, 2 value)

Every node but the root has its field id as the attribute ``paimon.id``.

A file ends in a tail:

    "ORC"  stripes  | metadata  footer  postscript  length of the postscript (1 byte)
                    |  the tail

    PostScript      1 footerLength   2 compression (0: none)   3 compressionBlockSize   5 metadataLength
    Footer          1 headerLength   2 contentLength   3 stripes*   4 types*   6 numberOfRows   7 statistics*   ...
    Stripe          1 offset  2, 3, 4 lengths  5 numberOfRows
    Statistics      1 numberOfValues   2-9 bounds of one type   10 hasNull   11 bytesOnDisk
    Metadata        1 statistics of each stripe*

If streams are compressed, metadata and footer are chunks: 3 bytes little-endian, twice the length plus one if the
chunk is uncompressed, then the chunk. Here they are always uncompressed.

A timestamp column is two integer streams: seconds since 2015, and nanoseconds. Writers round seconds towards zero if
there are more than 999,999 nanoseconds, and readers undo this. The nanoseconds always count upwards. Arrow's writer
writes negative nanoseconds before 1970 instead, which Java mishandles. If a column has any, this module encodes both of
its streams and drops the statistics that Arrow computed. The last second before 1970 cannot be distinguished from the
first one after it. Negative nanoseconds are kept there, since Java and Arrow read them if they are whole milliseconds.
Other times in this second are refused.

Streams here are direct runs of run-length encoding version 2: a header of 2 bytes (2 bits: 1, 5 bits: code of the
width, 9 bits: count - 1), and up to 512 big-endian values.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import Ints, read_fixed_values
from morrow.engine.format.orc_columns import ZEROS_BITS
from morrow.engine.format.orc_file import (
    CHUNK_HEADER_BYTES,
    SECONDARY,
    Field,
    OrcLayout,
    encode_message,
    encode_varint,
    make_field,
    parse_fields,
)
from morrow.engine.library_versions import export_series
from morrow.engine.options.declared.files import ORC_COMPRESS, ORC_DICTIONARY_KEY_THRESHOLD, ORC_STRIPE_SIZE
from morrow.engine.structs import replace
from morrow.engine.units import NANOS_PER_MILLI, NANOS_PER_SECOND
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

MAGIC = b"ORC"
HEADER_LENGTH, CONTENT_LENGTH, STRIPES, TYPES, ROWS, STATISTICS = 1, 2, 3, 4, 6, 7
POSTSCRIPT_FOOTER_LENGTH, COMPRESSION, COMPRESSION_BLOCK, METADATA_LENGTH = 1, 2, 3, 5
STRIPE_OFFSET_FIELD = 1
VALUES, HAS_NULL, BYTES_ON_DISK = 1, 10, 11


@dataclass(frozen=True)
class Tail:
    """Postscript, footer and metadata of a file, decompressed."""

    postscript: bytes
    footer: bytes
    metadata: bytes


def split_tail(file: pa.Buffer) -> tuple[memoryview, Tail]:
    """Return the stripes of a file in memory, and its tail."""
    data = memoryview(file)
    layout = OrcLayout(io.BytesIO(data), "a file in memory")
    end = layout.footer_start
    length = next((value for number, _, value in parse_fields(layout.script) if number == METADATA_LENGTH), 0)
    assert isinstance(length, int)
    metadata = layout.unpacked(bytes(data[end - length : end]))
    return data[len(MAGIC) : end - length], Tail(layout.script, layout.footer, metadata)


def merge_tails(parts: Sequence[tuple[int, Tail]], types: Sequence[bytes]) -> bytes:
    """Return the tail of a file with the concatenated stripes of several files.

    Args:
        parts: the length of the stripes and the tail of each file.
        types: the nodes of the type tree, which replace the type trees of the files.
    """
    first = parts[0][1]
    block = read_block_size(first)
    metadata = store_chunks(b"".join(tail.metadata for _, tail in parts), block)
    footer = store_chunks(encode_message(_merge_footers(parts, types)), block)
    lengths = {POSTSCRIPT_FOOTER_LENGTH: len(footer), METADATA_LENGTH: len(metadata)}
    postscript = encode_message((n, wire, lengths.get(n, value)) for n, wire, value in parse_fields(first.postscript))
    return b"".join([metadata, footer, postscript, bytes([len(postscript)])])


def read_block_size(tail: Tail) -> int:
    """Return the size of a chunk in bytes; 0 if the file is not compressed."""
    return read_integer(tail.postscript, COMPRESSION_BLOCK) if read_integer(tail.postscript, COMPRESSION) else 0


def store_chunks(data: bytes, block: int) -> bytes:
    """Return the bytes in uncompressed chunks of at most `block` bytes; unchanged if `block` is 0."""
    if not block:
        return data
    pieces = [data[at : at + block] for at in range(0, len(data), block)]
    return b"".join((len(p) << 1 | 1).to_bytes(CHUNK_HEADER_BYTES, "little") + p for p in pieces)


def read_integer(data: bytes, number: int) -> int:
    """Return the integer field with this number in a message, 0 if it is missing."""
    return next((value for n, _, value in parse_fields(data) if n == number and isinstance(value, int)), 0)


def _merge_footers(parts: Sequence[tuple[int, Tail]], types: Sequence[bytes]) -> list[Field]:
    footers = [list(parse_fields(tail.footer)) for _, tail in parts]
    stripes: list[Field] = []
    shift = 0
    for (length, _), footer in zip(parts, footers, strict=True):
        stripes += [(n, wire, _move_stripe(value, shift)) for n, wire, value in footer if n == STRIPES]
        shift += length
    replaced = (HEADER_LENGTH, CONTENT_LENGTH, STRIPES, TYPES, ROWS, STATISTICS)
    return [
        make_field(HEADER_LENGTH, len(MAGIC)),
        make_field(CONTENT_LENGTH, len(MAGIC) + shift),
        *stripes,
        *(make_field(TYPES, node) for node in types),
        make_field(ROWS, sum(read_integer(tail.footer, ROWS) for _, tail in parts)),
        *_merge_statistics(footers),
        *(field for field in footers[0] if field[0] not in replaced),
    ]


def _move_stripe(stripe: int | bytes, shift: int) -> bytes:
    assert isinstance(stripe, bytes)
    moved = (
        (n, w, v + shift if n == STRIPE_OFFSET_FIELD and isinstance(v, int) else v) for n, w, v in parse_fields(stripe)
    )
    return encode_message(moved)


def _merge_statistics(footers: Sequence[Sequence[Field]]) -> list[Field]:
    """Return statistics of the whole file, with counts only. Bounds are in the statistics of stripes."""
    columns = [[value for n, _, value in footer if n == STATISTICS and isinstance(value, bytes)] for footer in footers]
    if len(columns) == 1:
        return [make_field(STATISTICS, column) for column in columns[0]]
    return [make_field(STATISTICS, _merge_counts(parts)) for parts in zip(*columns, strict=True)]


def _merge_counts(parts: Sequence[bytes]) -> bytes:
    totals = {number: sum(read_integer(part, number) for part in parts) for number in (VALUES, HAS_NULL, BYTES_ON_DISK)}
    totals[HAS_NULL] = min(totals[HAS_NULL], 1)
    return encode_message(make_field(number, value) for number, value in totals.items())


DATA, ROW_INDEX = 1, 6
STREAM_KIND, STREAM_COLUMN, STREAM_LENGTH = 1, 2, 3
STRIPE_STREAMS = 1
STRIPE_OFFSET, INDEX_LENGTH, DATA_LENGTH, STRIPE_FOOTER_LENGTH = 1, 2, 3, 4
STRIPE_STATISTICS, STRIPE_COLUMNS = 1, 1
INDEX_ENTRIES, ENTRY_STATISTICS = 1, 2
TIMESTAMP_BOUNDS = 9

ORC_EPOCH = 1_420_070_400
"""2015-01-01 in UTC."""
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
MAX_RUN_VALUES = 512
DIRECT = 1
WIDTH_CODES = {5: 28, 8: 31}
"""Codes of the width of values, by their bytes."""


@dataclass(frozen=True)
class Times:
    """The non-null values of one timestamp column, as ORC stores them; `column` is its number in the file."""

    column: int
    seconds: Ints
    nanos: Ints


def find_early_times(columns: Sequence[pa.ChunkedArray], names: Sequence[str]) -> list[Times]:
    """Return the timestamp columns of a block that have fractions of seconds before 1970.

    Raises `InvalidArgument`: ORC cannot hold a time.
    """
    found: list[Times] = []
    number = 1
    for column, name in zip(columns, names, strict=True):
        for leaf, array in _walk_timestamps(column, number):
            per_second = PER_SECOND[array.type.unit]
            ticks = read_fixed_values(array, "<i8") if len(array) else np.zeros(0, np.int64)
            if ((ticks < 0) & (ticks % per_second != 0)).any():
                found.append(_convert_times(leaf, ticks, per_second, name))
        number += _count_nodes(column.type)
    return found


def replace_times(file: pa.Buffer, times: Sequence[Times]) -> tuple[bytes, Tail]:
    """Replace the timestamps in a file with one stripe; return its stripe and its tail."""
    layout = OrcLayout(io.BytesIO(memoryview(file)), "a file in memory")
    _, tail = split_tail(file)
    (stripe,) = (
        value for number, _, value in parse_fields(tail.footer) if number == STRIPES and isinstance(value, bytes)
    )
    block, columns = read_block_size(tail), {each.column for each in times}
    new = {(each.column, kind): data for each in times for kind, data in _encode_times(each).items()}
    start, index, data, footer = (
        read_integer(stripe, n) for n in (STRIPE_OFFSET, INDEX_LENGTH, DATA_LENGTH, STRIPE_FOOTER_LENGTH)
    )
    footer_at = start + index + data
    whole = bytes(memoryview(file)[start : footer_at + footer])
    streams: list[bytes] = []
    listed: list[Field] = []
    at = index_length = 0
    for number, wire, value in parse_fields(layout.unpacked(whole[index + data :])):
        if number == STRIPE_STREAMS and isinstance(value, bytes):
            column, kind, length = (read_integer(value, n) for n in (STREAM_COLUMN, STREAM_KIND, STREAM_LENGTH))
            stream = whole[at : at + length]
            at += length
            if (column, kind) in new:
                stream = store_chunks(new[column, kind], block)
            elif kind == ROW_INDEX and column in columns:
                stream = store_chunks(_remove_entry_bounds(layout.unpacked(stream)), block)
            streams.append(stream)
            index_length += len(stream) if at <= index else 0
            value = _replace_fields(value, {STREAM_LENGTH: len(stream)})
        listed.append((number, wire, value))
    stripe_footer = store_chunks(encode_message(listed), block)
    lengths = {
        INDEX_LENGTH: index_length,
        DATA_LENGTH: sum(map(len, streams)) - index_length,
        STRIPE_FOOTER_LENGTH: len(stripe_footer),
    }
    changed = [(n, w, _replace_fields(stripe, lengths) if n == STRIPES else v) for n, w, v in parse_fields(tail.footer)]
    footer_message = encode_message(_remove_bounds(changed, STATISTICS, columns))
    metadata = encode_message(
        make_field(n, encode_message(_remove_bounds(parse_fields(v), STRIPE_COLUMNS, columns)))
        for n, _, v in parse_fields(tail.metadata)
        if n == STRIPE_STATISTICS and isinstance(v, bytes)
    )
    return b"".join([*streams, stripe_footer]), replace(tail, footer=footer_message, metadata=metadata)


# --- values ---


def _convert_times(column: int, ticks: Ints, per_second: int, name: str) -> Times:
    seconds, rest = np.divmod(ticks, per_second)
    nanos = rest * (NANOS_PER_SECOND // per_second)
    cut = (seconds < 0) & (nanos >= NANOS_PER_MILLI)
    last = cut & (seconds == -1)
    lost = last & (nanos % NANOS_PER_MILLI != 0)
    if lost.any():
        raise InvalidArgument(
            f"column {name!r} has a timestamp with {int(nanos[lost][0])} nanoseconds in the last second before 1970, "
            "of which ORC files store whole milliseconds only; set 'file.format' = 'parquet', or round the timestamp"
        )
    return Times(column, seconds + cut - ORC_EPOCH, np.where(last, nanos - NANOS_PER_SECOND, nanos))


def _walk_timestamps(column: pa.Array | pa.ChunkedArray, number: int) -> Iterator[tuple[int, pa.Array]]:
    """Yield numbers and non-null values of the timestamp columns at and below a node of the type tree."""
    if not has_timestamps(column.type):
        return
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kept = array.drop_null()
    if pa.types.is_timestamp(kept.type):
        yield number, kept
        return
    for child in _list_children(kept):
        number += 1
        yield from _walk_timestamps(child, number)
        number += _count_nodes(child.type) - 1


def check_counts(tail: Tail, columns: Sequence[pa.ChunkedArray], names: Sequence[str]) -> None:
    """Check that columns with structs within nested values have as many values at each node as they have in memory.

    Arrow's writer writes more values for some nulls, and readers would read them as values of later rows.

    Raises `Unsupported`: Arrow has written other values.
    """
    counts = [
        read_integer(v, VALUES) for n, _, v in parse_fields(tail.footer) if n == STATISTICS and isinstance(v, bytes)
    ]
    number = 1
    for column, name in zip(columns, names, strict=True):
        if _nests_structs(column.type) and any(counts[node] != count for node, count in _walk_counts(column, number)):
            raise Unsupported(
                f"column {name!r}: an ORC file with such nulls within nested ROW values",
                hint="pyarrow's ORC writer would shift the values after them; set 'file.format' = 'parquet'",
            )
        number += _count_nodes(column.type)


def _nests_structs(type_: pa.DataType, *, within: bool = False) -> bool:
    below = any(_nests_structs(child, within=True) for child in _list_child_types(type_))
    return below or (within and bool(pa.types.is_struct(type_)))


def _walk_counts(column: pa.Array | pa.ChunkedArray, number: int) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the nodes at and below a node of the type tree, and their counts of non-null values."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kept = array.drop_null()
    yield number, len(kept)
    if not _list_child_types(kept.type):
        return
    for child in _list_children(kept):
        number += 1
        yield from _walk_counts(child, number)
        number += _count_nodes(child.type) - 1


def _list_children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return list(array.flatten())
    # Concatenation with an empty array drops values outside of the lists.
    joined = pa.concat_arrays([array, array[:0]])
    return [joined.keys, joined.items] if pa.types.is_map(array.type) else [joined.values]


def has_timestamps(type_: pa.DataType) -> bool:
    """Return whether a column has timestamps, at any depth."""
    return bool(pa.types.is_timestamp(type_)) or any(map(has_timestamps, _list_child_types(type_)))


def _count_nodes(type_: pa.DataType) -> int:
    return 1 + sum(map(_count_nodes, _list_child_types(type_)))


def _list_child_types(type_: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(type_):
        return [type_.key_type, type_.item_type]
    if pa.types.is_list(type_):
        return [type_.value_type]
    return [member.type for member in type_] if pa.types.is_struct(type_) else []


# --- streams ---


def _encode_times(times: Times) -> dict[int, bytes]:
    zigzag = (times.seconds << 1) ^ (times.seconds >> 63)
    return {DATA: _encode_runs(zigzag), SECONDARY: _encode_runs(times.nanos << ZEROS_BITS)}


def _encode_runs(values: Ints) -> bytes:
    """Encode the values as unsigned integers in direct runs of one width."""
    width = 5 if len(values) and int(values.min()) >= 0 and int(values.max()) < 1 << 40 else 8
    digits = values.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]
    runs = (digits[at : at + MAX_RUN_VALUES] for at in range(0, len(values), MAX_RUN_VALUES))
    return b"".join(_encode_header(width, len(run)) + run.tobytes() for run in runs)


def _encode_header(width: int, count: int) -> bytes:
    return (DIRECT << 14 | WIDTH_CODES[width] << 9 | count - 1).to_bytes(2, "big")


# --- messages ---


def _replace_fields(data: bytes, values: Mapping[int, int]) -> bytes:
    return encode_message((number, wire, values.get(number, value)) for number, wire, value in parse_fields(data))


def _remove_bounds(parts: Iterator[Field] | Sequence[Field], number: int, columns: Collection[int]) -> list[Field]:
    """Return the fields without the bounds of `columns`. Fields `number` are statistics, one per column in order."""
    out: list[Field] = []
    column = 0
    for part in parts:
        if part[0] == number:
            out.append(make_field(number, _drop_bounds(part[2])) if column in columns else part)
            column += 1
        else:
            out.append(part)
    return out


def _remove_entry_bounds(index: bytes) -> bytes:
    def entry(value: int | bytes) -> bytes:
        assert isinstance(value, bytes)
        return encode_message(
            (n, w, _drop_bounds(v) if n == ENTRY_STATISTICS else v) for n, w, v in parse_fields(value)
        )

    return encode_message(make_field(INDEX_ENTRIES, entry(value)) for _, _, value in parse_fields(index))


def _drop_bounds(statistics: int | bytes) -> bytes:
    assert isinstance(statistics, bytes)
    return encode_message(part for part in parse_fields(statistics) if part[0] != TIMESTAMP_BOUNDS)


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
        check_counts(tail, columns, self._schema.names)
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

    Raises `Unsupported`: Java Paimon does not write this type to ORC either.
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
