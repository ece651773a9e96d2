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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from morrow.engine.arrow_versions import PARQUET_PROPERTIES
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.names import clear_pattern_name, col, get_series
from morrow.engine.options.declared.files import (
    PARQUET_BLOCK_SIZE,
    PARQUET_COMPRESSION,
    PARQUET_COMPRESSION_CODEC_ZSTD_LEVEL,
    PARQUET_ENABLE_DICTIONARY,
    PARQUET_PAGE_SIZE,
    PARQUET_WRITER_VERSION,
)
from morrow.engine.polars_versions import export_series
from morrow.writers.files.encoders import Block, EncoderOptions, FileLayout, FileWriter, encode_one_by_one
from morrow.writers.files.formats.parquet_schema import (
    has_nanos,
    is_int96,
    is_text,
    merge_footers,
    to_stored_array,
    to_stored_field,
)

MAGIC = b"PAR1"
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


class ParquetEncoder:
    """An `Encoder` of Parquet files; blocks are row groups."""

    head = MAGIC

    def __init__(self, layout: FileLayout, options: EncoderOptions) -> None:
        self._schema = pa.schema([to_stored_field(field, options.where) for field in layout.fields])
        self._nanos = [has_nanos(field.type) for field in layout.fields]
        self._dictionaries = options.write.given.get(PARQUET_ENABLE_DICTIONARY)
        self._differences = options.write.given.get(PARQUET_WRITER_VERSION) not in FIRST_VERSION
        places = accumulate((len(list_leaf_paths(stored)) for stored in self._schema), initial=0)
        texts = ((stored.name, place) for stored, place in zip(self._schema, places) if is_text(stored.type))
        self._texts = tuple(texts)
        """Text columns, and the numbers of their chunks in a row group."""
        self._properties = _parse_properties(options) | {"write_statistics": self._columns_with_statistics()}

    def block(self, frame: pl.DataFrame) -> Block:
        encodings = choose(frame, self._schema, dictionaries=self._dictionaries, differences=self._differences)
        return self._block(self._table(frame), encodings)

    def blocks(self, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
        if max(heights) >= MIN_SAMPLE_ROWS:
            return encode_one_by_one(self, frame, heights)
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
        """Return the bounds of text columns with short values from the statistics of a row group."""
        group = footer.row_group(0)
        found = ((name, group.column(place).statistics) for name, place in self._texts)
        ends = {name: (each.min, each.max) for name, each in found if each is not None and each.has_min_max}
        return {name: both for name, both in ends.items() if max(map(len, both)) <= MAX_WHOLE_BOUND}

    def foot(self, blocks: Sequence[Block]) -> bytes:
        footer = merge_footers([(block.size, block.details) for block in blocks], int96=any(self._nanos))
        return footer + TAIL.pack(len(footer), MAGIC)

    def _column(self, series: pl.Series, field: pa.Field, nanos: bool) -> pa.ChunkedArray:
        try:
            chunks = [export_series(piece) for piece in series.get_chunks()]
            arrays = [to_stored_array(chunk, field.type, nanos=nanos) for chunk in chunks]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgument(f"column {field.name!r} of {series.dtype} is not {field.type}: {error}") from error
        return pa.chunked_array(arrays, field.type)

    def _columns_with_statistics(self) -> bool | list[str]:
        """Return all columns except INT96, whose order is undefined."""
        if not any(self._nanos):
            return True
        return [path for stored in self._schema for path in list_leaf_paths(stored, without_int96=True)]


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
