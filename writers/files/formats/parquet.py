"""Parquet data files as Java Paimon writes them: its types, its field ids, and a checksum for every page.

Arrow writes each row group as a separate file in memory, so that several threads can do it, and the footers are merged
into one. The merge also turns columns of 12 fixed bytes into INT96, since Arrow's own option for INT96 applies to all
timestamps of the file.

The encodings of columns are chosen by a sample of their values. A dictionary is used if values repeat. Arrow would try
a dictionary for all columns, and write half a megabyte of it for unique numbers (keys, sequence numbers) before it
gives up, which makes files slower and larger. Unique numbers are stored as differences (DELTA_BINARY_PACKED) if these
are small, otherwise plainly.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import read_fixed_values, read_validity
from morrow.engine.format.map_shredding import SharedKeys, SharedUse, build_physical_type, find_shared_widths
from morrow.engine.format.parquet_metadata import INT96_WIDTH, MAGIC, Part, merge_footers
from morrow.engine.format.variant import decode
from morrow.engine.format.variant_shredding import build_group_type, infer_shredding_type, parse_shredding_types, shred
from morrow.engine.library_versions import BYTES, PARQUET_PROPERTIES, TEXT, WRITES_UTC_TIMES, export_series
from morrow.engine.names import clear_pattern_name, col, get_series
from morrow.engine.options.declared.features import (
    VARIANT_INFER_SHREDDING_SCHEMA,
    VARIANT_SHREDDING_MAX_INFER_BUFFER_ROW,
    VARIANT_SHREDDING_MAX_SCHEMA_DEPTH,
    VARIANT_SHREDDING_MAX_SCHEMA_WIDTH,
    VARIANT_SHREDDING_MIN_FIELD_CARDINALITY_RATIO,
    VARIANT_SHREDDING_SCHEMA,
)
from morrow.engine.options.declared.files import (
    PARQUET_BLOCK_SIZE,
    PARQUET_COMPRESSION,
    PARQUET_COMPRESSION_CODEC_ZSTD_LEVEL,
    PARQUET_ENABLE_DICTIONARY,
    PARQUET_PAGE_SIZE,
    PARQUET_WRITER_VERSION,
)
from morrow.engine.structs import replace
from morrow.engine.units import NANOS_PER_DAY
from morrow.readers.casts.dtypes import cast_layout, list_offsets, make_null_mask
from morrow.writers.files.encoders import Block, EncoderOptions, FieldPlace, FileLayout, FileWriter, encode_one_by_one

# Schemas of Parquet files: Paimon types, and the Arrow arrays to write for them.
#
# ================  =======================================================================================
# Paimon            Parquet
# ================  =======================================================================================
# TINYINT SMALLINT  INT32, INT(8) and INT(16)
# DECIMAL(p, s)     INT32 up to precision 9, INT64 up to 18, then the fewest bytes that hold it
# TIME              INT32, milliseconds
# TIMESTAMP, LTZ    INT64 of milliseconds up to precision 3, of microseconds up to 6, then INT96
# ARRAY, VECTOR     3 levels ``list`` and ``element``; MAP and MULTISET ``key_value`` with ``key`` and ``value``
# VARIANT           a group of two required BINARYs with the ids 0 and 1
# ================  =======================================================================================
#
# Every column and every part of a column has a field id.
#

FIELD_ID = "PARQUET:field_id"

JULIAN_DAY_OF_EPOCH = 2_440_588


def to_stored_field(field: t.DataField, where: str) -> pa.Field:
    """Return the Arrow field with which to write a column.

    Nanosecond timestamps have 12 bytes. Text and bytes at the top level are views, as in Polars (Arrow's writer does
    not accept views in nested columns).

    Raises `Unsupported`: Java Paimon does not write this type to Parquet either.
    """
    return _build_field(field.name, field.type, field.id, FieldPlace(field.id, where))


def has_nanos(type_: t.DataType) -> bool:
    """Return whether a column has timestamps finer than microseconds, at any depth."""
    if isinstance(type_, (t.TimestampType, t.LocalZonedTimestampType)):
        return type_.precision > t.ARROW_MICROS_PRECISION
    if isinstance(type_, t.RowType):
        return any(has_nanos(member.type) for member in type_.fields)
    return any(has_nanos(getattr(type_, part)) for part in ("element", "key", "value") if hasattr(type_, part))


def _build_field(name: str, type_: t.DataType, field_id: int, at: FieldPlace) -> pa.Field:
    if isinstance(type_, t.TimeType) and not WRITES_UTC_TIMES:
        raise Unsupported("a column of TIME in Parquet files with pyarrow 22", where=at.where, hint="install another")
    make = _STORED.get(type(type_))
    arrow = type_.arrow() if make is None else make(type_, at)
    return pa.field(name, arrow, type_.nullable, {FIELD_ID: str(field_id)})


def _build_text(_: t.DataType, at: FieldPlace) -> pa.DataType:
    return pa.string() if at.nested else TEXT


def _build_bytes(_: t.DataType, at: FieldPlace) -> pa.DataType:
    return pa.binary() if at.nested else BYTES


def _build_timestamp(type_: Any, _: FieldPlace) -> pa.DataType:
    if type_.precision > t.ARROW_MICROS_PRECISION:
        return pa.binary(INT96_WIDTH)
    unit = "ms" if type_.precision <= t.ARROW_MILLIS_PRECISION else "us"
    return pa.timestamp(unit, "UTC" if isinstance(type_, t.LocalZonedTimestampType) else None)


def _build_array(type_: Any, at: FieldPlace) -> pa.DataType:
    inside = at.inside
    return pa.list_(_build_field("element", type_.element, inside.element_id, inside))


def _build_map(type_: Any, at: FieldPlace) -> pa.DataType:
    inside = at.inside
    key = _build_field("key", type_.key.with_nullable(False), inside.key_id, inside)
    return pa.map_(key, _build_field("value", type_.value, inside.element_id, inside))


def _build_multiset(type_: Any, at: FieldPlace) -> pa.DataType:
    return _build_map(t.MapType(key=type_.element, value=t.IntType(nullable=False)), at)


def _build_row(type_: Any, at: FieldPlace) -> pa.DataType:
    return pa.struct([_build_field(f.name, f.type, f.id, at.member(f.id)) for f in type_.fields])


def _build_variant(type_: Any, _: FieldPlace) -> pa.DataType:
    return pa.struct([member.with_metadata({FIELD_ID: str(i)}) for i, member in enumerate(type_.arrow())])


_STORED: Mapping[type[t.DataType], Callable[[Any, FieldPlace], pa.DataType]] = {
    **dict.fromkeys((t.CharType, t.VarCharType), _build_text),
    **dict.fromkeys((t.BinaryType, t.VarBinaryType, t.BlobType), _build_bytes),
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), _build_timestamp),
    **dict.fromkeys((t.ArrayType, t.VectorType), _build_array),
    t.MapType: _build_map,
    t.MultisetType: _build_multiset,
    t.RowType: _build_row,
    t.VariantType: _build_variant,
}


# --- values ---


def to_stored_array(array: pa.Array, type_: pa.DataType, *, nanos: bool) -> pa.Array:
    """Return the values of a column in the type of its stored field; `nanos` is the result of `has_nanos` for it.

    Raises `pa.ArrowInvalid`, `pa.ArrowNotImplementedError`: the values do not have this type.
    """
    return _finish_array(cast_layout(array, _to_arrow_type(type_) if nanos else type_), type_)


def _to_arrow_type(type_: pa.DataType) -> pa.DataType:
    """Return the type with timestamps instead of INT96."""
    if is_int96(type_):
        return pa.timestamp("ns")
    if pa.types.is_map(type_):
        return pa.map_(_to_arrow_field(type_.key_field), _to_arrow_field(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(_to_arrow_field(type_.value_field))
    if pa.types.is_struct(type_):
        return pa.struct([_to_arrow_field(member) for member in type_])
    return type_


def _to_arrow_field(field: pa.Field) -> pa.Field:
    return field.with_type(_to_arrow_type(field.type))


def is_int96(type_: pa.DataType) -> bool:
    """Return whether this type of a stored field represents INT96."""
    return bool(pa.types.is_fixed_size_binary(type_) and type_.byte_width == INT96_WIDTH)


def is_text(type_: pa.DataType) -> bool:
    """Return whether this is the type of the stored field of a text column."""
    return bool(type_ == TEXT)


def _finish_array(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the array with INT96 instead of timestamps, and with placeholders in required members of null rows."""
    if is_int96(type_):
        return _to_int96(array)
    if pa.types.is_map(type_):
        key, value = _finish_array(array.keys, type_.key_type), _finish_array(array.items, type_.item_type)
        return pa.MapArray.from_arrays(list_offsets(array), key, value, type=type_, mask=make_null_mask(array))
    if pa.types.is_list(type_):
        values = _finish_array(array.values, type_.value_type)
        return pa.ListArray.from_arrays(list_offsets(array), values, type_, mask=make_null_mask(array))
    if pa.types.is_struct(type_):
        members = [_finish_member(array, i, member) for i, member in enumerate(type_)]
        return pa.StructArray.from_arrays(members, fields=list(type_), mask=make_null_mask(array)) if members else array
    return array


def _finish_member(array: pa.StructArray, number: int, field: pa.Field) -> pa.Array:
    member = _finish_array(array.field(number), field.type)
    if field.nullable or not array.null_count or not member.null_count:
        return member
    # Arrow's writer requires values that readers never see: take the placeholder appended at the end.
    chosen = np.where(read_validity(array), np.arange(len(array)), len(array))
    return pa.concat_arrays([member, _make_placeholder(field.type)]).take(pa.array(chosen))


def _make_placeholder(type_: pa.DataType) -> pa.Array:
    """Return a placeholder value."""
    if pa.types.is_map(type_):
        nothing = [pa.array([], type_.key_type), pa.array([], type_.item_type)]
        return pa.MapArray.from_arrays(pa.array([0, 0], pa.int32()), *nothing, type=type_)
    if pa.types.is_list(type_):
        return pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array([], type_.value_type), type_)
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays([_make_placeholder(member.type) for member in type_], fields=list(type_))
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return pa.array([b""], type_)
    width = type_.bit_width // 8 or 1
    return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(bytes(width))])


def _to_int96(array: pa.Array) -> pa.Array:
    days, nanos = np.divmod(read_fixed_values(array, "<i8"), NANOS_PER_DAY)
    values = np.empty(len(array), np.dtype([("nanos", "<i8"), ("day", "<i4")]))
    values["nanos"], values["day"] = nanos, days + JULIAN_DAY_OF_EPOCH
    valid = pa.array(read_validity(array)).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.binary(INT96_WIDTH), len(array), [valid, pa.py_buffer(values.tobytes())])


FIRST_VERSION = ("v1", "parquet_1_0")
"""Values of `PARQUET_WRITER_VERSION` for the encodings that every version of Java Paimon reads."""
TAIL = struct.Struct("<I4s")
"""The end of a file: the length of the footer, and the magic bytes."""

MAX_WHOLE_BOUND = 32
"""Maximum characters of a bound in row group statistics that is certainly not truncated."""

CODECS: Mapping[str, str] = {
    **{name: name for name in ("zstd", "snappy", "gzip", "brotli")},
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "none": "none",
    "uncompressed": "none",
}

Uses: TypeAlias = dict[str, list[SharedUse]]
"""The keys of maps in shared columns, by column."""


class ParquetEncoder:
    """An `Encoder` of Parquet files; blocks are row groups."""

    head = MAGIC

    def __init__(self, layout: FileLayout, options: EncoderOptions) -> None:
        self._nanos = [has_nanos(field.type) for field in layout.fields]
        self._fields, self._where = layout.fields, options.where
        self._write = options.write
        self._shredded = _find_shredding_types(layout, options)
        self._widths = find_shared_widths(options.write.given.raw, layout.columns)
        infers_variants = not self._shredded and options.write.given.get(VARIANT_INFER_SHREDDING_SCHEMA)
        self._infers = bool(self._widths) or infers_variants
        self._shared: dict[str, SharedKeys] = {}
        self._codec = "none" if options.compression.lower() == "none" else "zstd"
        self._inferring = Lock()
        self._set_schema()
        self._dictionaries = options.write.given.get(PARQUET_ENABLE_DICTIONARY)
        self._differences = options.write.given.get(PARQUET_WRITER_VERSION) not in FIRST_VERSION
        self._properties = _parse_properties(options) | {"write_statistics": self._columns_with_statistics()}

    def _set_schema(self) -> None:
        """Set the types of the columns in the files."""
        physical = {name: build_physical_type(keys.kind, keys.count) for name, keys in self._shared.items()}
        changed = [replace(each, type=physical.get(each.name, each.type)) for each in self._fields]
        fields = [to_stored_field(field, self._where) for field in changed]
        self._schema = pa.schema(
            [
                stored.with_type(_number_members(build_group_type(self._shredded[stored.name], is_top=True)))
                if stored.name in self._shredded
                else stored
                for stored in fields
            ]
        )
        places = accumulate((len(list_leaf_paths(stored)) for stored in self._schema), initial=0)
        self._texts = tuple((each.name, at) for each, at in zip(self._schema, places) if is_text(each.type))
        """Text columns, and the numbers of their chunks in a row group."""

    def _infer(self, frame: pl.DataFrame) -> None:
        """Infer the columns of variants and of maps from the first rows of a writer, for all of its files."""
        if not self._infers:
            return
        with self._inferring:
            if not self._infers:
                return
            given = self._write.given
            for field in self._fields:
                if isinstance(field.type, t.MapType) and (most := self._widths.get(field.name)) is not None:
                    maps = export_series(get_series(frame, field.name).rechunk())
                    self._shared[field.name] = SharedKeys.of(field.type, maps, most)
                if isinstance(field.type, t.VariantType):
                    sample = get_series(frame, field.name).head(given.get(VARIANT_SHREDDING_MAX_INFER_BUFFER_ROW))
                    rows = [decode(row["value"], row["metadata"]) for row in sample.drop_nulls().to_list()]
                    kind = infer_shredding_type(
                        rows,
                        width=given.get(VARIANT_SHREDDING_MAX_SCHEMA_WIDTH),
                        depth=given.get(VARIANT_SHREDDING_MAX_SCHEMA_DEPTH),
                        ratio=given.get(VARIANT_SHREDDING_MIN_FIELD_CARDINALITY_RATIO),
                    )
                    if not isinstance(kind, t.VariantType):
                        self._shredded[field.name] = kind
            self._set_schema()
            self._infers = False

    def block(self, frame: pl.DataFrame) -> Block:
        self._infer(frame)
        encodings = choose(frame, self._schema, dictionaries=self._dictionaries, differences=self._differences)
        return self._block(*self._table(frame), encodings)

    def blocks(self, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
        self._infer(frame)
        if max(heights) >= MIN_SAMPLE_ROWS:
            return encode_one_by_one(self, frame, heights)
        table, uses = self._table(frame.rechunk())
        chosen = choose_each(frame, heights, self._schema, dictionaries=self._dictionaries)
        starts = accumulate(heights, initial=0)
        return [
            partial(self._block, table.slice(start, height), uses, encodings)
            for start, height, encodings in zip(starts, heights, chosen)
        ]

    def _table(self, frame: pl.DataFrame) -> tuple[pa.Table, Uses]:
        uses: Uses = {name: [] for name in self._shared}
        columns = [
            self._column(series, field, nanos, uses)
            for series, field, nanos in zip(frame.iter_columns(), self._schema, self._nanos, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=self._schema), uses

    def _block(self, table: pa.Table, uses: Uses, encodings: Encodings) -> Block:
        rows, sink, footers = table.num_rows, pa.BufferOutputStream(), list[pq.FileMetaData]()
        properties = {**encodings.properties, **self._properties, "metadata_collector": footers}
        try:
            pq.write_table(table, sink, row_group_size=max(rows, 1), **properties)
        except pa.ArrowInvalid as error:
            raise InvalidArgument(f"the rows do not fit a Parquet file: {error}") from error
        data = memoryview(sink.getvalue())
        length, _ = TAIL.unpack(data[-TAIL.size :])
        end = len(data) - TAIL.size - length
        pages = _find_pages_end(footers[0])
        part = Part(pages - len(MAGIC), bytes(data[pages:end]), bytes(data[end : end + length]))
        return Block(rows, part.size, data[len(MAGIC) : pages], (part, uses), self._text_ends(footers[0]))

    def _text_ends(self, footer: pq.FileMetaData) -> dict[str, tuple[str, str]]:
        """Return the bounds of text columns with short values from the statistics of a row group."""
        group = footer.row_group(0)
        found = ((name, group.column(place).statistics) for name, place in self._texts)
        ends = {name: (each.min, each.max) for name, each in found if each is not None and each.has_min_max}
        return {name: both for name, both in ends.items() if max(map(len, both)) <= MAX_WHOLE_BOUND}

    def foot(self, blocks: Sequence[Block]) -> bytes:
        parts = [block.details[0] for block in blocks]
        indexes, footer = merge_footers(parts, int96=any(self._nanos), arrow=self._describe_shared(blocks))
        return indexes + footer + TAIL.pack(len(footer), MAGIC)

    def _describe_shared(self, blocks: Sequence[Block]) -> bytes | None:
        """Return the encoded schema whose metadata describe the maps in shared columns; None if there are none."""
        if not self._shared:
            return None
        metadata = {
            name: keys.describe([use for block in blocks for use in block.details[1][name]], self._codec)
            for name, keys in self._shared.items()
        }
        kinds = [(each.name, _to_arrow_type(each.type), each.nullable) for each in self._schema]
        schema = pa.schema([pa.field(*each, metadata.get(each[0])) for each in kinds])
        return b64encode(schema.serialize().to_pybytes())

    def _column(self, series: pl.Series, field: pa.Field, nanos: bool, uses: Uses) -> pa.ChunkedArray:
        try:
            if (keys := self._shared.get(field.name)) is not None:
                whole = export_series(series.rechunk(), pl.CompatLevel.oldest())
                pairs = [keys.shred(piece) for piece in keys.cut(whole)]
                uses[field.name] += [use for _, use in pairs]
            chunks = [struct for struct, _ in pairs] if keys else [export_series(each) for each in series.get_chunks()]
            if field.name in self._shredded:
                chunks = [shred(chunk, self._shredded[field.name]) for chunk in chunks]
            arrays = [to_stored_array(chunk, field.type, nanos=nanos) for chunk in chunks]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgument(f"column {field.name!r} of {series.dtype} is not {field.type}: {error}") from error
        return pa.chunked_array(arrays, field.type)

    def _columns_with_statistics(self) -> bool | list[str]:
        """Return all columns except INT96, whose order is undefined."""
        if not any(self._nanos):
            return True
        return [path for stored in self._schema for path in list_leaf_paths(stored, without_int96=True)]


def _find_pages_end(footer: pq.FileMetaData) -> int:
    """Return the end of the pages of a file, where page indexes begin."""
    end = len(MAGIC)
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            end = max(end, start + chunk.total_compressed_size)
    return end


def _find_shredding_types(layout: FileLayout, options: EncoderOptions) -> dict[str, t.DataType]:
    """Return the shredding types of the VARIANT columns that the table's options name."""
    text = options.write.given.get(VARIANT_SHREDDING_SCHEMA)
    found = {} if text is None else parse_shredding_types(text, options.where)
    variants = [field.name for field in layout.columns if isinstance(field.type, t.VariantType)]
    return {name: kind for name, kind in found.items() if name in variants and not isinstance(kind, t.VariantType)}


def _number_members(type_: pa.DataType, number: int = 0) -> pa.DataType:
    """Return the type of a shredded column with field ids: members of a group are counted, as in Java.

    `number`: the id of the field of this type.
    """
    if pa.types.is_struct(type_):
        return pa.struct([_number_field(member, i, i) for i, member in enumerate(type_)])
    if pa.types.is_list(type_):
        element_id = FieldPlace(number, "").inside.element_id
        return pa.list_(_number_field(type_.value_field, element_id, number))
    return type_


def _number_field(field: pa.Field, field_id: int, number: int) -> pa.Field:
    return field.with_type(_number_members(field.type, number)).with_metadata({FIELD_ID: str(field_id)})


def _parse_properties(options: EncoderOptions) -> dict[str, Any]:
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
        **PARQUET_PROPERTIES,
        "write_page_checksum": True,
        "write_page_index": True,
    }


WRITER = FileWriter(ParquetEncoder, PARQUET_BLOCK_SIZE)

MIN_SAMPLE_ROWS = 1000
"""Minimum rows to sample. Fewer rows are examined completely, and stored plainly without a dictionary, as in Java."""
MIN_DICTIONARY_ROWS = 8
"""Minimum rows for a dictionary. For fewer rows it does not save space, and takes longer."""
SAMPLE_ROWS = 4096
MAX_DISTINCT_SHARE = 0.9
"""Maximum share of distinct values in a sample for a dictionary. Beyond it, values hardly repeat."""
MAX_DIFFERENCE_SHARE = 0.75
"""Maximum bits of differences, as a share of the type's bits, to store differences instead of values."""
LENGTH_WIDTH = 4
"""Bytes of the length before each plainly stored text or byte string."""
GROUP = "group"
"""The group column in frames whose other columns are numbered."""
DELTA = "DELTA_BINARY_PACKED"


@dataclass(frozen=True)
class Encodings:
    """Paths of columns with a dictionary (True: all), and encodings of other columns; the rest is stored plainly."""

    dictionary: list[str] | bool = False
    others: dict[str, str] = field(default_factory=dict)

    @property
    def properties(self) -> dict[str, Any]:
        """The encodings as arguments for the Parquet writer."""
        return {"use_dictionary": self.dictionary, "column_encoding": self.others or None}


def choose(frame: pl.DataFrame, schema: pa.Schema, *, dictionaries: bool, differences: bool = True) -> Encodings:
    """Return the encodings of a row group with these values, with `dictionaries` and `differences` if allowed.

    `schema` has the same columns as `frame`, in the types to write. Parts of nested columns are not sampled.
    """
    if frame.height < MIN_DICTIONARY_ROWS:
        return Encodings()
    if frame.height < MIN_SAMPLE_ROWS:
        return Encodings(dictionaries and (_find_dictionary_columns(frame, schema) or False))
    step = max(frame.height // SAMPLE_ROWS, 1)
    sample = frame[np.arange(0, frame.height, step, dtype=np.uint32)[:SAMPLE_ROWS]]
    dictionary: list[str] = []
    others: dict[str, str] = {}
    for column, stored in zip(map(clear_pattern_name, sample.iter_columns()), schema, strict=True):
        if isinstance(column.dtype, pl.Array):
            continue  # the numbers of vectors hardly repeat
        if pa.types.is_nested(stored.type):
            dictionary += list_leaf_paths(stored)
        elif dictionaries and column.n_unique() < MAX_DISTINCT_SHARE * sample.height:
            dictionary.append(stored.name)
        elif differences and _is_smaller_as_differences(frame, stored):
            others[stored.name] = DELTA
    return Encodings(dictionaries and (dictionary or False), others)


def choose_each(
    frame: pl.DataFrame, heights: Sequence[int], schema: pa.Schema, *, dictionaries: bool
) -> list[Encodings]:
    """Return `choose` for consecutive row groups in `frame` with these heights, all below `MIN_SAMPLE_ROWS`."""
    if not dictionaries:
        return [Encodings()] * len(heights)
    columns = _select_atomic(frame, schema)
    group = pl.Series(GROUP, np.repeat(np.arange(len(heights), dtype=np.uint32), heights)).set_sorted()
    measures = [expression for column in columns for expression in _measure_column(column)]
    measured = pl.DataFrame([group, *columns]).group_by(GROUP, maintain_order=True).agg(measures)
    return [
        Encodings(_choose_columns(schema, row) or False) if height >= MIN_DICTIONARY_ROWS else Encodings()
        for row, height in zip(measured.iter_rows(named=True), heights, strict=True)
    ]


def _find_dictionary_columns(frame: pl.DataFrame, schema: pa.Schema) -> list[str]:
    """Return the columns that are smaller with a dictionary than stored plainly."""
    # One query for all columns, since there are many small files.
    columns = _select_atomic(frame, schema)
    measured = pl.DataFrame(columns).select(expression for column in columns for expression in _measure_column(column))
    return _choose_columns(schema, dict(zip(measured.columns, measured.row(0))) if columns else {})


def _select_atomic(frame: pl.DataFrame, schema: pa.Schema) -> list[pl.Series]:
    """Return the columns that are not nested, named by their numbers."""
    atomic = [i for i, stored in enumerate(schema) if not pa.types.is_nested(stored.type)]
    return [clear_pattern_name(frame.to_series(i)).alias(str(i)) for i in atomic]


def _choose_columns(schema: pa.Schema, measures: Mapping[str, Any]) -> list[str]:
    paths: list[str] = []
    for i, stored in enumerate(schema):
        if pa.types.is_nested(stored.type):
            paths += list_leaf_paths(stored)
            continue
        count, distinct = measures[f"{i} count"], measures[f"{i} distinct"]
        index_bits = max(distinct - 1, 1).bit_length()
        width = _estimate_width(stored.type, measures.get(f"{i} length"))
        if 8 * width * distinct + index_bits * count < 8 * width * count:
            paths.append(stored.name)
    return paths


def _measure_column(column: pl.Series) -> list[pl.Expr]:
    """Return the number of values, the number of distinct values, and the mean length of text and bytes."""
    values = col(column.name).drop_nulls()
    measures = [values.len().alias(f"{column.name} count"), values.n_unique().alias(f"{column.name} distinct")]
    if column.dtype in (pl.String, pl.Binary):
        length = values.str.len_bytes() if column.dtype == pl.String else values.bin.size()
        measures.append(length.mean().fill_null(0.0).alias(f"{column.name} length"))
    return measures


def _estimate_width(type_: pa.DataType, length: float | None) -> float:
    """Return the average bytes of a plainly stored value."""
    if pa.types.is_boolean(type_):
        return 1 / 8
    return float(type_.bit_width // 8) if length is None else LENGTH_WIDTH + length


def list_leaf_paths(stored: pa.Field, *, without_int96: bool = False) -> list[str]:
    """Return Arrow's paths of the leaves of a column."""
    leaves = _list_leaves(stored.type)
    return [".".join([stored.name, *path]) for path, type_ in leaves if not (without_int96 and is_int96(type_))]


def _list_leaves(type_: pa.DataType) -> list[tuple[tuple[str, ...], pa.DataType]]:
    children: Sequence[tuple[tuple[str, ...], pa.DataType]] = ()
    if pa.types.is_map(type_):
        children = [(("key_value", "key"), type_.key_type), (("key_value", "value"), type_.item_type)]
    elif pa.types.is_list(type_):
        children = [(("list", "element"), type_.value_type)]
    elif pa.types.is_struct(type_):
        children = [((member.name,), member.type) for member in type_]
    if not children:
        return [((), type_)]
    return [((*path, *rest), leaf) for path, child in children for rest, leaf in _list_leaves(child)]


def _is_smaller_as_differences(frame: pl.DataFrame, stored: pa.Field) -> bool:
    """Return whether the first values of a column are integers in Parquet, with differences of few bits."""
    if is_int96(stored.type):
        return False
    physical = get_series(frame, stored.name)[:SAMPLE_ROWS].to_physical()
    physical = physical.drop_nulls() if physical.null_count() else physical  # to save a query
    if not physical.dtype.is_signed_integer() or physical.dtype == pl.Int128:
        return False
    differences = np.diff(physical.to_numpy().astype(np.float64))
    if not len(differences):
        return False
    bits = 64 if physical.dtype == pl.Int64 else 32
    spread = float(differences.max() - differences.min())
    return spread < float(1 << int(MAX_DIFFERENCE_SHARE * bits))
