"""Encoders of manifest lists, manifests and index manifests, with the schemas of Paimon 1.4.

`manifest.format` selects Avro (Java's default), Parquet or ORC, `manifest.compression` the codec. Whole columns are
encoded at once, so merging the manifests of a large table takes as long as reading them.

The Avro and Arrow schemas are derived from one description, a record of members; a nullable member is wrapped in
`Nullable`. In Parquet and ORC every member has a field id: its position in its record (``_VERSION`` comes before the
first and has -1). Items of a list have a number derived from the list's id.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.avro_encoder import encode_container, wrap_block
from morrow.engine.format.manifest_entries import FILE_COLUMNS

FILE, TIME = "_FILE", "_CREATION_TIME"
MAX_SINGLE_ROWS = 100
"""Maximum number of rows that fastavro encodes one by one, which is faster than making columns of few rows."""


def encode_manifest(entries: pl.DataFrame, format: str, codec: str) -> bytes:
    """Encode a manifest file with these entries, a frame as `decode_manifest` returns it.

    Raises:
        Unsupported: an unknown `format` (``manifest.format``) or `codec` (``manifest.compression``).
        InvalidArgument: a column is missing, or a required column has nulls.
    """
    there = set(entries.columns)
    missing = [name for name in FILE_COLUMNS if name not in there]
    if missing:
        raise InvalidArgument(f"the column {missing[0]!r} of the manifest is missing")
    return _encode(entries, MANIFEST, format, codec)


def encode_manifest_list(manifests: pl.DataFrame, format: str, codec: str) -> bytes:
    """Encode a manifest list from a frame as `decode_manifest_list` returns it. Raises as `encode_manifest`."""
    return _encode(manifests, MANIFEST_LIST, format, codec)


def encode_index_manifest(entries: pl.DataFrame, format: str, codec: str) -> bytes:
    """Encode an index manifest from a frame as `decode_index_manifest` returns it. Raises as `encode_manifest`."""
    return _encode(entries, INDEX_MANIFEST, format, codec)


def _encode(frame: pl.DataFrame, schema: StoredSchema, format: str, codec: str) -> bytes:
    encode = ENCODERS.get(format)
    if encode is None:
        raise Unsupported(f"the manifest format {format!r}", hint=f"known are {', '.join(ENCODERS)}")
    return encode(frame, schema, codec.lower())


def _encode_avro(frame: pl.DataFrame, schema: StoredSchema, codec: str) -> bytes:
    name = _find_codec(codec, AVRO_CODECS, "Avro")
    if 0 < frame.height <= MAX_SINGLE_ROWS:
        return wrap_block(schema.avro, name, frame.height, _encode_rows(_to_rows(frame, schema), schema.avro))
    return encode_container(_to_table(frame, schema), schema.avro, name)


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


def _to_rows(frame: pl.DataFrame, schema: StoredSchema) -> list[dict[str, Any]]:
    """Return the rows as in Avro files: times are numbers, and the members of ``_FILE`` are nested."""
    missing = [field.name for field in schema.arrow if field.name not in frame.columns and field.name != FILE]
    if missing:
        raise InvalidArgument(f"the column {missing[0]!r} of the metadata file is missing")
    rows = frame.to_dicts()
    if schema is not MANIFEST:
        return rows
    times = frame[TIME].cast(pl.Int64)
    files = ({**row, TIME: time} for row, time in zip(rows, times))
    return [{**row, FILE: file} for row, file in zip(rows, files)]


def _to_table(frame: pl.DataFrame, schema: StoredSchema) -> pa.Table:
    # One chunk per column: Arrow cannot combine several chunks of lists without elements exported by Polars.
    columns = {column.name: column.to_arrow() for column in frame.iter_columns()}
    if schema is MANIFEST:
        columns[FILE] = pa.StructArray.from_arrays([columns.pop(name) for name in FILE_COLUMNS], list(FILE_COLUMNS))
    return pa.table(columns)


def _encode_parquet(frame: pl.DataFrame, schema: StoredSchema, codec: str) -> bytes:
    sink = io.BytesIO()
    compression = _find_codec(codec, PARQUET_CODECS, "Parquet")
    stored = _cast_table(_to_table(frame, schema), schema)
    pq.write_table(stored, sink, compression=compression, store_schema=False, use_dictionary=False)
    return sink.getvalue()


def _encode_orc(frame: pl.DataFrame, schema: StoredSchema, codec: str) -> bytes:
    sink = io.BytesIO()
    stored = _cast_table(_to_table(frame, schema), schema)
    orc.write_table(stored, sink, compression=_find_codec(codec, ORC_CODECS, "ORC"))
    return sink.getvalue()


def _find_codec(codec: str, known: Mapping[str, str], format: str) -> str:
    if codec not in known:
        raise Unsupported(f"the {format} codec {codec!r} of manifests", hint=f"known are {', '.join(known)}")
    return known[codec]


def _cast_table(table: pa.Table, schema: StoredSchema) -> pa.Table:
    """Return the columns in the exact types of the stored schema."""
    missing = [field.name for field in schema.arrow if field.name not in table.column_names]
    if missing:
        raise InvalidArgument(f"the column {missing[0]!r} of the metadata file is missing")
    return pa.table([_cast_column(_combine_chunks(table[f.name]), f) for f in schema.arrow], schema=schema.arrow)


def _cast_column(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.null_count and not field.nullable:
        raise InvalidArgument(f"the column {field.name!r} holds a null, for which the format has no place")
    kind = field.type
    if pa.types.is_struct(kind):
        by_name = dict(zip((f.name for f in column.type), column.flatten(), strict=True))
        missing = column.is_null() if column.null_count else None
        members = [_cast_column(_fill_nulls(by_name[f.name], f, missing), f) for f in kind]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=missing)
    if pa.types.is_list(kind):
        lengths = pc.fill_null(pc.list_value_length(column).cast(pa.int32()), 0).to_numpy(zero_copy_only=False)
        edges = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
        items = _cast_column(column.flatten(), kind.value_field)
        missing = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), items, type=kind, mask=missing)
    return column.cast(kind)


def _fill_nulls(column: pa.Array, field: pa.Field, missing: pa.Array | None) -> pa.Array:
    """Fill NOT NULL members of null structs with an arbitrary value, which will not be read."""
    if missing is None or field.nullable or pa.types.is_nested(field.type):
        return column
    return pc.if_else(missing, pa.scalar(0).cast(column.type) if pa.types.is_integer(column.type) else "", column)


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


ENCODERS: Mapping[str, Callable[[pl.DataFrame, StoredSchema, str], bytes]] = {
    "avro": _encode_avro,
    "parquet": _encode_parquet,
    "orc": _encode_orc,
}
"""Encoders by ``manifest.format``."""

AVRO_CODECS: Mapping[str, str] = {
    **{name: name for name in ("zstd", "snappy", "deflate", "bzip2", "null")},
    "zstandard": "zstd",
    "none": "null",
    "uncompressed": "null",
}
"""The codecs that Java reads without extra libraries, so not xz."""
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

NAMESPACE = "org.apache.paimon.avro.generated"
VERSION_FIELD_ID = -1
LIST_ITEM_ID_START = (2**31 - 1) // 4
LIST_ITEM_ID_STEP = 1 << 10
"""Field ids of list items: start + step * id of the list + depth (1 if the list is not in a list)."""


@dataclass(frozen=True)
class Record:
    """A record: its members by name."""

    members: Mapping[str, Shape]


@dataclass(frozen=True)
class Items:
    """A list of items of one shape."""

    item: Shape


@dataclass(frozen=True)
class Nullable:
    """A nullable value."""

    of: Shape


Shape: TypeAlias = "str | Record | Items | Nullable"
"""``tinyint``, ``int``, ``bigint``, ``string``, ``bytes``, ``timestamp`` (milliseconds, no zone), or nested shapes."""

_AVRO: Mapping[str, Any] = {
    "tinyint": "int",
    "int": "int",
    "bigint": "long",
    "string": "string",
    "bytes": "bytes",
    "timestamp": {"type": "long", "logicalType": "timestamp-millis"},
}
_ARROW: Mapping[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "timestamp": pa.timestamp("ms"),
}

_SIMPLE_STATS = Record(
    {"_MIN_VALUES": "bytes", "_MAX_VALUES": "bytes", "_NULL_COUNTS": Nullable(Items(Nullable("bigint")))}
)


@dataclass(frozen=True)
class StoredSchema:
    """The schema of one kind of metadata file."""

    record: Record

    @cached_property
    def avro(self) -> bytes:
        """The schema text of Avro files, byte for byte as Java writes it."""
        return json.dumps(_build_avro_record("record", self.record, NAMESPACE), separators=(",", ":")).encode()

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema of Parquet and ORC files, with field ids."""
        return pa.schema(_build_arrow_fields(self.record, VERSION_FIELD_ID))


def _build_avro_record(name: str, record: Record, namespace: str | None = None) -> dict[str, Any]:
    head: dict[str, Any] = {"type": "record", "name": name}
    if namespace is not None:
        head["namespace"] = namespace
    return {**head, "fields": [_build_avro_member(name, member, shape) for member, shape in record.members.items()]}


def _build_avro_member(record: str, name: str, shape: Shape) -> dict[str, Any]:
    member = {"name": name, "type": _build_avro_type(f"{record}_{name}", shape)}
    return {**member, "default": None} if isinstance(shape, Nullable) else member


def _build_avro_type(name: str, shape: Shape) -> Any:
    if isinstance(shape, Nullable):
        return ["null", _build_avro_type(name, shape.of)]
    if isinstance(shape, Items):
        return {"type": "array", "items": _build_avro_type(name, shape.item)}
    return _build_avro_record(name, shape) if isinstance(shape, Record) else _AVRO[shape]


def _build_arrow_fields(record: Record, first: int) -> Sequence[pa.Field]:
    return [_build_arrow_field(name, first + i, shape) for i, (name, shape) in enumerate(record.members.items())]


def _build_arrow_field(name: str, field_id: int, shape: Shape) -> pa.Field:
    plain = shape.of if isinstance(shape, Nullable) else shape
    if isinstance(plain, Record):
        kind: pa.DataType = pa.struct(_build_arrow_fields(plain, 0))
    elif isinstance(plain, Items):
        item_id = LIST_ITEM_ID_START + LIST_ITEM_ID_STEP * field_id + 1
        kind = pa.list_(_build_arrow_field("element", item_id, plain.item))
    else:
        assert isinstance(plain, str)
        kind = _ARROW[plain]
    ids = {"PARQUET:field_id": str(field_id), "paimon.id": str(field_id)}
    return pa.field(name, kind, nullable=isinstance(shape, Nullable), metadata=ids)


MANIFEST_LIST = StoredSchema(
    Record(
        {
            "_VERSION": "int",
            "_FILE_NAME": "string",
            "_FILE_SIZE": "bigint",
            "_NUM_ADDED_FILES": "bigint",
            "_NUM_DELETED_FILES": "bigint",
            "_PARTITION_STATS": _SIMPLE_STATS,
            "_SCHEMA_ID": "bigint",
            "_MIN_BUCKET": Nullable("int"),
            "_MAX_BUCKET": Nullable("int"),
            "_MIN_LEVEL": Nullable("int"),
            "_MAX_LEVEL": Nullable("int"),
            "_MIN_ROW_ID": Nullable("bigint"),
            "_MAX_ROW_ID": Nullable("bigint"),
        }
    )
)

DATA_FILE = Record(
    {
        "_FILE_NAME": "string",
        "_FILE_SIZE": "bigint",
        "_ROW_COUNT": "bigint",
        "_MIN_KEY": "bytes",
        "_MAX_KEY": "bytes",
        "_KEY_STATS": _SIMPLE_STATS,
        "_VALUE_STATS": _SIMPLE_STATS,
        "_MIN_SEQUENCE_NUMBER": "bigint",
        "_MAX_SEQUENCE_NUMBER": "bigint",
        "_SCHEMA_ID": "bigint",
        "_LEVEL": "int",
        "_EXTRA_FILES": Items("string"),
        "_CREATION_TIME": Nullable("timestamp"),
        "_DELETE_ROW_COUNT": Nullable("bigint"),
        "_EMBEDDED_FILE_INDEX": Nullable("bytes"),
        "_FILE_SOURCE": Nullable("tinyint"),
        "_VALUE_STATS_COLS": Nullable(Items("string")),
        "_EXTERNAL_PATH": Nullable("string"),
        "_FIRST_ROW_ID": Nullable("bigint"),
        "_WRITE_COLS": Nullable(Items("string")),
    }
)

MANIFEST = StoredSchema(
    Record(
        {
            "_VERSION": "int",
            "_KIND": "tinyint",
            "_PARTITION": "bytes",
            "_BUCKET": "int",
            "_TOTAL_BUCKETS": "int",
            "_FILE": DATA_FILE,
        }
    )
)

INDEX_MANIFEST = StoredSchema(
    Record(
        {
            "_VERSION": "int",
            "_KIND": "tinyint",
            "_PARTITION": "bytes",
            "_BUCKET": "int",
            "_INDEX_TYPE": "string",
            "_FILE_NAME": "string",
            "_FILE_SIZE": "bigint",
            "_ROW_COUNT": "bigint",
            "_DELETIONS_VECTORS_RANGES": Nullable(
                Items(Nullable(Record({"f0": "string", "f1": "int", "f2": "int", "_CARDINALITY": Nullable("bigint")})))
            ),
            "_EXTERNAL_PATH": Nullable("string"),
            "_GLOBAL_INDEX": Nullable(
                Record(
                    {
                        "_ROW_RANGE_START": "bigint",
                        "_ROW_RANGE_END": "bigint",
                        "_INDEX_FIELD_ID": "int",
                        "_EXTRA_FIELD_IDS": Nullable(Items("int")),
                        "_INDEX_META": Nullable("bytes"),
                        "_SOURCE_META": Nullable("bytes"),
                    }
                )
            ),
        }
    )
)
