"""Encoders of manifest lists, manifests and index manifests, from frames as `morrow.engine.format.manifest` reads them.

`manifest.format` selects Avro (Java's default), Parquet or ORC, `manifest.compression` the codec.
Whole columns are encoded at once, so merging the manifests of a large table costs as much as reading them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.avro_encode import container_of_block, encode_container
from morrow.engine.format.manifest_columns import FILE_COLUMNS
from morrow.engine.format.manifest_schemas import INDEX_MANIFEST, MANIFEST, MANIFEST_LIST, StoredSchema

FILE, TIME = "_FILE", "_CREATION_TIME"
MAX_SINGLE_ROWS = 100
"""Rows up to which fastavro encodes them one by one: making columns of fewer rows takes longer than writing them."""


def encode_manifest(entries: pl.DataFrame, format: str, codec: str) -> bytes:
    """Encodes a manifest file of these entries, a frame as `decode_manifest` returns it.

    Raises:
        Unsupported: an unknown `format` (``manifest.format``) or `codec` (``manifest.compression``).
        InvalidArgument: a column is missing, or null where the format has no null.
    """
    there = set(entries.columns)
    missing = [name for name in FILE_COLUMNS if name not in there]
    if missing:
        raise InvalidArgument(f"the column {missing[0]!r} of the manifest is missing")
    return _encode(entries, MANIFEST, format, codec)


def encode_manifest_list(manifests: pl.DataFrame, format: str, codec: str) -> bytes:
    """Encodes a manifest list from a frame as `decode_manifest_list` returns it; raises as `encode_manifest`."""
    return _encode(manifests, MANIFEST_LIST, format, codec)


def encode_index_manifest(entries: pl.DataFrame, format: str, codec: str) -> bytes:
    """Encodes an index manifest from a frame as `decode_index_manifest` returns it; raises as `encode_manifest`."""
    return _encode(entries, INDEX_MANIFEST, format, codec)


def _encode(frame: pl.DataFrame, schema: StoredSchema, format: str, codec: str) -> bytes:
    encode = ENCODERS.get(format)
    if encode is None:
        raise Unsupported(f"the manifest format {format!r}", hint=f"known are {', '.join(ENCODERS)}")
    return encode(frame, schema, codec.lower())


def _avro(frame: pl.DataFrame, schema: StoredSchema, codec: str) -> bytes:
    name = _codec(codec, AVRO_CODECS, "Avro")
    if 0 < frame.height <= MAX_SINGLE_ROWS:
        return container_of_block(schema.avro, name, frame.height, _encode_rows(_rows(frame, schema), schema.avro))
    return encode_container(_table(frame, schema), schema.avro, name)


def _encode_rows(rows: Iterable[Mapping[str, Any]], schema: bytes) -> bytes:
    import fastavro

    out = io.BytesIO()
    try:
        for row in rows:
            fastavro.schemaless_writer(out, _parse_schema(schema), row)
    except (ValueError, TypeError) as error:
        raise InvalidArgument(f"a row does not fit the Avro schema of the metadata file: {error}") from error
    return out.getvalue()


@cache
def _parse_schema(schema: bytes) -> dict[str, Any]:
    import fastavro

    parsed = fastavro.parse_schema(json.loads(schema))
    assert isinstance(parsed, dict)
    return parsed


def _rows(frame: pl.DataFrame, schema: StoredSchema) -> list[dict[str, Any]]:
    """Returns the rows as Avro has them: times are numbers, and the members of a file are inside of it."""
    missing = [field.name for field in schema.arrow if field.name not in frame.columns and field.name != FILE]
    if missing:
        raise InvalidArgument(f"the column {missing[0]!r} of the metadata file is missing")
    rows = frame.to_dicts()
    if schema is not MANIFEST:
        return rows
    times = frame[TIME].cast(pl.Int64)
    files = ({**row, TIME: time} for row, time in zip(rows, times))
    return [{**row, FILE: file} for row, file in zip(rows, files)]


def _table(frame: pl.DataFrame, schema: StoredSchema) -> pa.Table:
    # Columns of one chunk each: of several, Arrow cannot combine Polars' exported lists without elements.
    columns = {column.name: column.to_arrow() for column in frame.iter_columns()}
    if schema is MANIFEST:
        columns[FILE] = pa.StructArray.from_arrays([columns.pop(name) for name in FILE_COLUMNS], list(FILE_COLUMNS))
    return pa.table(columns)


def _parquet(frame: pl.DataFrame, schema: StoredSchema, codec: str) -> bytes:
    sink = io.BytesIO()
    compression = _codec(codec, PARQUET_CODECS, "Parquet")
    stored = _stored(_table(frame, schema), schema)
    pq.write_table(stored, sink, compression=compression, store_schema=False, use_dictionary=False)
    return sink.getvalue()


def _orc(frame: pl.DataFrame, schema: StoredSchema, codec: str) -> bytes:
    sink = io.BytesIO()
    stored = _stored(_table(frame, schema), schema)
    orc.write_table(stored, sink, compression=_codec(codec, ORC_CODECS, "ORC"))
    return sink.getvalue()


def _codec(codec: str, known: Mapping[str, str], format: str) -> str:
    if codec not in known:
        raise Unsupported(f"the {format} codec {codec!r} of manifests", hint=f"known are {', '.join(known)}")
    return known[codec]


def _stored(table: pa.Table, schema: StoredSchema) -> pa.Table:
    """Returns the columns in the exact types of the stored schema."""
    missing = [field.name for field in schema.arrow if field.name not in table.column_names]
    if missing:
        raise InvalidArgument(f"the column {missing[0]!r} of the metadata file is missing")
    return pa.table([_shaped(_one(table[f.name]), f) for f in schema.arrow], schema=schema.arrow)


def _shaped(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.null_count and not field.nullable:
        raise InvalidArgument(f"the column {field.name!r} holds a null, for which the format has no place")
    kind = field.type
    if pa.types.is_struct(kind):
        by_name = dict(zip((f.name for f in column.type), column.flatten(), strict=True))
        missing = column.is_null() if column.null_count else None
        members = [_shaped(_filled(by_name[f.name], f, missing), f) for f in kind]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=missing)
    if pa.types.is_list(kind):
        lengths = pc.fill_null(pc.list_value_length(column).cast(pa.int32()), 0).to_numpy(zero_copy_only=False)
        edges = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
        items = _shaped(column.flatten(), kind.value_field)
        missing = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), items, type=kind, mask=missing)
    return column.cast(kind)


def _filled(column: pa.Array, field: pa.Field, missing: pa.Array | None) -> pa.Array:
    """Fills NOT NULL members of null structs with an arbitrary value, which is not read."""
    if missing is None or field.nullable or pa.types.is_nested(field.type):
        return column
    return pc.if_else(missing, pa.scalar(0).cast(column.type) if pa.types.is_integer(column.type) else "", column)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


ENCODERS: Mapping[str, Callable[[pl.DataFrame, StoredSchema, str], bytes]] = {
    "avro": _avro,
    "parquet": _parquet,
    "orc": _orc,
}
"""Encoders by ``manifest.format``."""

AVRO_CODECS: Mapping[str, str] = {
    **{name: name for name in ("zstd", "snappy", "deflate", "bzip2", "null")},
    "zstandard": "zstd",
    "none": "null",
    "uncompressed": "null",
}
"""The codecs that Java reads as it is shipped: not xz."""
PARQUET_CODECS: Mapping[str, str] = {
    **{name: name for name in ("zstd", "snappy", "gzip", "lz4", "brotli", "none")},
    "uncompressed": "none",
    "null": "none",
}
ORC_CODECS: Mapping[str, str] = {
    **{name: name for name in ("zstd", "snappy", "zlib", "lz4")},
    "none": "uncompressed",
    "null": "uncompressed",
    "uncompressed": "uncompressed",
}
