"""Iceberg's manifests and manifest lists (Avro), with the types, schemas and bounds of a Paimon table's columns.

A manifest names data files, or deletion vectors, one row per file; a manifest list names manifests:

    status                     0 existing, 1 added, 2 deleted
    snapshot_id                the snapshot that added, or deleted, the file
    sequence_number            the age of the rows; file_sequence_number: the age of the file
    data_file                  a record with the members below
        content                0 rows, 1 deletion vector
        file_path, file_format, partition, record_count, file_size_in_bytes
        null_value_counts, lower_bounds, upper_bounds
                               by field id: an array of records {key, value} with the logical type "map"
        referenced_data_file, content_offset, content_size_in_bytes
                               of a deletion vector: its data file, and where it lies
        first_row_id           in format version 3: the id of the file's first row; null: by the manifest list

Every member has a field id. A bound is the bytes of one value: integers, dates (days) and times (microseconds) are
little-endian, an INT of 4 bytes and a BIGINT of 8; text is UTF-8, and a decimal the shortest big-endian integer.
Frames have the members of `data_file` as columns, and partition values as they are stored, except for decimals.

Source: the specification of Iceberg's table format.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.avro import decode, decompress_container, read_container
from morrow.engine.format.avro_encoder import ZSTD_LEVEL, encode_blocks, encode_head, find_codec
from morrow.engine.format.manifest_encoder import LIST_ITEM_ID_START, LIST_ITEM_ID_STEP
from morrow.engine.format.schema import TableSchema
from morrow.engine.units import NANOS_PER_MICRO

EXISTING, ADDED, DELETED = 0, 1, 2
"""Values of ``status``."""
DATA, DELETES = 0, 1
"""Contents of manifests, and of the files in them."""
ROW_IDS_VERSION = 3
"""The format version from which rows have ids, and tables deletion vectors and timestamps in nanoseconds."""
FIRST_PARTITION_ID = 1000
MIN_TIMESTAMP_PRECISION, MAX_MICROS_PRECISION, MAX_TIME_PRECISION = 3, 6, 3

_INT, _LONG = (pl.Int32(), "<i4"), (pl.Int64(), "<i8")
_PLAIN: Mapping[type[t.DataType], tuple[str, tuple[pl.DataType, str | None]]] = {
    t.BooleanType: ("boolean", (pl.Boolean(), "u1")),
    t.TinyIntType: ("int", _INT),
    t.SmallIntType: ("int", _INT),
    t.IntType: ("int", _INT),
    t.DateType: ("date", _INT),
    t.BigIntType: ("long", _LONG),
    t.FloatType: ("float", (pl.Float32(), "<f4")),
    t.DoubleType: ("double", (pl.Float64(), "<f8")),
    t.CharType: ("string", (pl.String(), None)),
    t.VarCharType: ("string", (pl.String(), None)),
    t.BinaryType: ("binary", (pl.Binary(), None)),
    t.VarBinaryType: ("binary", (pl.Binary(), None)),
    t.TimeType: ("time", _LONG),
    t.TimestampType: ("timestamp", _LONG),
    t.LocalZonedTimestampType: ("timestamptz", _LONG),
}
"""Iceberg's name of a type, the dtype of its values here, and the numpy dtype of its bounds (None: the bytes)."""

PROMOTIONS = (("int", "long"), ("float", "double"))
"""Changes of a type after which Iceberg reads older files, besides a greater precision of decimals."""


# --- types and schemas ---


def to_iceberg_schema(schema: TableSchema, version: int, where: str) -> dict[str, Any]:
    """Return a schema as Iceberg's metadata has it.

    Raises `Unsupported`: a column of a type that Iceberg lacks in this format version.
    """
    fields = [_to_iceberg_field(field, version, where) for field in schema.fields]
    return {"type": "struct", "schema-id": schema.id, "fields": fields}


def _to_iceberg_field(field: t.DataField, version: int, where: str) -> dict[str, Any]:
    node = {
        "id": field.id,
        "name": field.name,
        "required": not field.type.nullable,
        "type": _to_iceberg_type(field.type, field.id, 0, version, f"{where}: column {field.name!r}"),
    }
    return node if field.description is None else {**node, "doc": field.description}


def _to_iceberg_type(kind: t.DataType, field_id: int, depth: int, version: int, where: str) -> Any:
    def inner(of: t.DataType) -> Any:
        return _to_iceberg_type(of, field_id, depth + 1, version, where)

    step = field_id * LIST_ITEM_ID_STEP + depth + 1
    match kind:
        case t.ArrayType():
            ids = {"element-id": LIST_ITEM_ID_START + step, "element-required": not kind.element.nullable}
            return {"type": "list", **ids, "element": inner(kind.element)}
        case t.MapType() | t.MultisetType():
            key, value = (kind.key, kind.value) if isinstance(kind, t.MapType) else (kind.element, t.IntType(False))
            return {
                "type": "map",
                "key-id": LIST_ITEM_ID_START - step,
                "key": inner(key),
                "value-id": LIST_ITEM_ID_START + step,
                "value-required": not value.nullable,
                "value": inner(value),
            }
        case t.RowType():
            return {"type": "struct", "fields": [_to_iceberg_field(each, version, where) for each in kind.fields]}
    return name_iceberg_type(kind, version, where)


def name_iceberg_type(kind: t.DataType, version: int, where: str) -> str:
    """Return Iceberg's name of a type without members. Raises `Unsupported` as `to_iceberg_schema`."""
    if isinstance(kind, t.DecimalType):
        return f"decimal({kind.precision}, {kind.scale})"
    if type(kind) not in _PLAIN:
        raise Unsupported(f"the type {kind} beside Iceberg metadata, which lacks it,", where=where)
    name = _PLAIN[type(kind)][0]
    if isinstance(kind, t.TimeType) and kind.precision > MAX_TIME_PRECISION:
        hint = f"declare TIME({MAX_TIME_PRECISION})"
        raise Unsupported(f"the type {kind} beside Iceberg metadata", where=where, hint=hint)
    if not isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)):
        return name
    if kind.precision < MIN_TIMESTAMP_PRECISION or (
        kind.precision > MAX_MICROS_PRECISION and version < ROW_IDS_VERSION
    ):
        hint = "declare a precision of 3 to 6, or of 7 to 9 and set metadata.iceberg.format-version = 3"
        raise Unsupported(f"the type {kind} beside Iceberg metadata of version {version}", where=where, hint=hint)
    return f"{name}_ns" if kind.precision > MAX_MICROS_PRECISION else name


def check_partition_types(schema: TableSchema, where: str) -> None:
    """Refuse partition keys for whose values Java's Iceberg manifests deviate from Iceberg's specification.

    Java fails on manifests of the specification, and Iceberg's readers on those of Java.

    Raises `Unsupported`: a partition key of type DECIMAL or TIME, or TIMESTAMP of another precision than 4 to 6.
    """
    for name in schema.partition_keys:
        kind = schema.by_name[name].type
        stored_alike = (
            isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType))
            and MIN_TIMESTAMP_PRECISION < kind.precision <= MAX_MICROS_PRECISION
        )
        others = (t.DecimalType, t.TimeType, t.TimestampType, t.LocalZonedTimestampType)
        if isinstance(kind, others) and not stored_alike:
            what = f"the partition key {name!r} of type {kind} beside Iceberg metadata"
            raise Unsupported(what, where=where, hint="Java and Iceberg's readers store its values differently")


def can_promote(before: t.DataType, after: t.DataType) -> bool:
    """Return whether Iceberg reads values of the type `before` as `after`."""
    if isinstance(before, t.DecimalType) and isinstance(after, t.DecimalType):
        return before.scale == after.scale and before.precision <= after.precision
    if type(before) not in _PLAIN or type(after) not in _PLAIN:
        return type(before) is type(after)
    old, new = (name_iceberg_type(kind, ROW_IDS_VERSION, "") for kind in (before, after))
    return old == new or (old, new) in PROMOTIONS


def list_partition_fields(schema: TableSchema) -> list[dict[str, Any]]:
    """Return the fields of the partition spec: the partition keys, each with its identity."""
    return [
        {"name": name, "transform": "identity", "source-id": schema.by_name[name].id, "field-id": number}
        for number, name in enumerate(schema.partition_keys, FIRST_PARTITION_ID)
    ]


# --- values ---


def to_stored_values(values: pl.Series, kind: t.DataType) -> pl.Series:
    """Return values of a column as Iceberg stores them: numbers of days, micro- or nanoseconds; decimals as they are.

    Accepts values as Polars holds them, or already stored ones.
    """
    if isinstance(kind, t.DecimalType):
        return values.cast(pl.Decimal(kind.precision, kind.scale))
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)) and values.dtype.is_temporal():
        values = values.dt.cast_time_unit("ns" if kind.precision > MAX_MICROS_PRECISION else "us").to_physical()
    elif values.dtype == pl.Time:
        values = values.to_physical() // NANOS_PER_MICRO
    return values.to_physical().cast(_PLAIN[type(kind)][1][0])


def encode_bounds(values: pl.Series, kind: t.DataType) -> pl.Series:
    """Return the bytes of each value, null for null."""
    stored = to_stored_values(values, kind)
    if isinstance(kind, t.DecimalType):
        return _encode_decimals(stored, None)
    width = _PLAIN[type(kind)][1][1]
    if width is None:
        return stored.cast(pl.Binary)
    data = np.ascontiguousarray(stored.fill_null(0 if stored.dtype != pl.Boolean else False).to_numpy().astype(width))
    cells = pa.Array.from_buffers(pa.binary(data.itemsize), len(data), [None, pa.py_buffer(data)])
    found = pl.Series(pl.from_arrow(cells.cast(pa.large_binary())), dtype=pl.Binary)
    return found.zip_with(stored.is_not_null(), pl.Series([None], dtype=pl.Binary).new_from_index(0, len(found)))


def decode_bound(data: bytes | None, kind: t.DataType) -> Any:
    """Decode a bound to the stored value (for a decimal, the unscaled integer); None for null."""
    if data is None:
        return None
    if isinstance(kind, t.DecimalType):
        return int.from_bytes(data, "big", signed=True)
    dtype, width = _PLAIN[type(kind)][1]
    if width is None:
        return data.decode() if dtype == pl.String else data
    # A type may have become wider since.
    return (
        np.frombuffer(data, f"<f{len(data)}")[0].item()
        if dtype.is_float()
        else int.from_bytes(data, "little", signed=width != "u1")
    )


def _encode_decimals(values: pl.Series, size: int | None) -> pl.Series:
    """Return unscaled integers, big-endian, of `size` bytes (None: as few as possible)."""
    numbers = values.to_physical().to_list()
    found = [
        None if n is None else n.to_bytes(size or (n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True)
        for n in numbers
    ]
    return pl.Series(found, dtype=pl.Binary)


# --- Avro schemas ---

_BOUNDS = pl.List(pl.Struct({"key": pl.Int32, "value": pl.Binary}))
MANIFEST_DTYPES: Mapping[str, Any] = {
    "status": pl.Int32,
    "snapshot_id": pl.Int64,
    "sequence_number": pl.Int64,
    "file_sequence_number": pl.Int64,
    "content": pl.Int32,
    "file_path": pl.String,
    "file_format": pl.String,
    "record_count": pl.Int64,
    "file_size_in_bytes": pl.Int64,
    "null_value_counts": pl.List(pl.Struct({"key": pl.Int32, "value": pl.Int64})),
    "lower_bounds": _BOUNDS,
    "upper_bounds": _BOUNDS,
    "referenced_data_file": pl.String,
    "content_offset": pl.Int64,
    "content_size_in_bytes": pl.Int64,
    "first_row_id": pl.Int64,
}
"""The columns of manifests; tables with partition keys have a column ``partition``, a struct, too."""
LIST_DTYPES: Mapping[str, Any] = {
    "manifest_path": pl.String,
    "manifest_length": pl.Int64,
    "partition_spec_id": pl.Int32,
    "content": pl.Int32,
    "sequence_number": pl.Int64,
    "min_sequence_number": pl.Int64,
    "added_snapshot_id": pl.Int64,
    "added_files_count": pl.Int32,
    "existing_files_count": pl.Int32,
    "deleted_files_count": pl.Int32,
    "added_rows_count": pl.Int64,
    "existing_rows_count": pl.Int64,
    "deleted_rows_count": pl.Int64,
    "partitions": pl.List(
        pl.Struct(
            {
                "contains_null": pl.Boolean,
                "contains_nan": pl.Boolean,
                "lower_bound": pl.Binary,
                "upper_bound": pl.Binary,
            }
        )
    ),
    "first_row_id": pl.Int64,
}
"""The columns of manifest lists."""
_LEGACY = {f"{kind}_files_count": f"{kind}_data_files_count" for kind in ("added", "existing", "deleted")}
"""Names of Iceberg 1.4, which some readers still expect (``metadata.iceberg.manifest-legacy-version``)."""


def _member(name: str, field_id: int, kind: Any, optional: bool = False) -> dict[str, Any]:
    node = {"name": name, "type": ["null", kind] if optional else kind, "field-id": field_id}
    return {**node, "default": None} if optional else node


def _mapping(key_id: int, value: str) -> dict[str, Any]:
    members = [_member("key", key_id, "int"), _member("value", key_id + 1, value)]
    items = {"type": "record", "name": f"k{key_id}_v{key_id + 1}", "fields": members}
    return {"type": "array", "logicalType": "map", "items": items}


def _to_avro_type(kind: t.DataType, name: str) -> Any:
    if isinstance(kind, t.DecimalType):
        attributes = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return {"type": "fixed", "name": name, "size": _count_bytes(kind), **attributes}
    iceberg = name_iceberg_type(kind, ROW_IDS_VERSION, name)
    if iceberg.startswith("timestamp"):
        unit = "nanos" if iceberg.endswith("_ns") else "micros"
        zoned = isinstance(kind, t.LocalZonedTimestampType)
        return {"type": "long", "logicalType": f"timestamp-{unit}", "adjust-to-utc": zoned}
    logical = {"date": ("int", "date"), "time": ("long", "time-micros")}.get(iceberg)
    return {"type": logical[0], "logicalType": logical[1]} if logical else {"binary": "bytes"}.get(iceberg, iceberg)


def _count_bytes(kind: t.DecimalType) -> int:
    return int((10**kind.precision - 1).bit_length()) // 8 + 1


def _build_file_members(keys: Sequence[t.DataField], version: int) -> list[dict[str, Any]]:
    partition = [
        _member(field.name, number, _to_avro_type(field.type, f"p{number}"), True)
        for number, field in enumerate(keys, FIRST_PARTITION_ID)
    ]
    return [
        _member("content", 134, "int"),
        _member("file_path", 100, "string"),
        _member("file_format", 101, "string"),
        _member("partition", 102, {"type": "record", "name": "r102", "fields": partition}),
        _member("record_count", 103, "long"),
        _member("file_size_in_bytes", 104, "long"),
        _member("null_value_counts", 110, _mapping(121, "long"), True),
        _member("lower_bounds", 125, _mapping(126, "bytes"), True),
        _member("upper_bounds", 128, _mapping(129, "bytes"), True),
        _member("referenced_data_file", 143, "string", True),
        _member("content_offset", 144, "long", True),
        _member("content_size_in_bytes", 145, "long", True),
        *([_member("first_row_id", 142, "long", True)] if version >= ROW_IDS_VERSION else []),
    ]


_ENTRY_MEMBERS = [
    _member("status", 0, "int"),
    _member("snapshot_id", 1, "long", True),
    _member("sequence_number", 3, "long", True),
    _member("file_sequence_number", 4, "long", True),
]


def _build_list_schema(version: int, legacy: bool) -> dict[str, Any]:
    summary = [
        _member("contains_null", 509, "boolean"),
        _member("contains_nan", 518, "boolean", True),
        _member("lower_bound", 510, "bytes", True),
        _member("upper_bound", 511, "bytes", True),
    ]
    items = {"type": "record", "name": "r508", "fields": summary}
    counts = {"added_files_count": 504, "existing_files_count": 505, "deleted_files_count": 506}
    fields = [
        _member("manifest_path", 500, "string"),
        _member("manifest_length", 501, "long"),
        _member("partition_spec_id", 502, "int"),
        _member("content", 517, "int"),
        _member("sequence_number", 515, "long"),
        _member("min_sequence_number", 516, "long"),
        _member("added_snapshot_id", 503, "long", True),
        *(_member(_LEGACY[name] if legacy else name, number, "int") for name, number in counts.items()),
        *(_member(f"{k}_rows_count", 512 + i, "long") for i, k in enumerate(("added", "existing", "deleted"))),
        _member("partitions", 507, {"type": "array", "element-id": 508, "items": items}, True),
        *([_member("first_row_id", 520, "long", True)] if version >= ROW_IDS_VERSION else []),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}


# --- files ---


def encode_iceberg_manifest(
    entries: pl.DataFrame,
    schema: TableSchema,
    iceberg_schema: Mapping[str, Any],
    version: int,
    codec: str,
    content: int,
) -> bytes:
    """Encode a manifest of these entries, columns `MANIFEST_DTYPES`. Raises `Unsupported` for an unknown codec."""
    keys = [schema.by_name[name] for name in schema.partition_keys]
    members = _build_file_members(keys, version)
    record = {"type": "record", "name": "r2", "fields": members}
    full = {"type": "record", "name": "manifest_entry", "fields": [*_ENTRY_MEMBERS, _member("data_file", 2, record)]}
    # A record is its members one after the other: those of the file are columns. An empty partition has no bytes.
    flat = [*_ENTRY_MEMBERS, *(m for m in members if keys or m["name"] != "partition")]
    attributes = {
        "schema": json.dumps(iceberg_schema),
        "schema-id": str(iceberg_schema["schema-id"]),
        "partition-spec": json.dumps(list_partition_fields(schema)),
        "partition-spec-id": "0",
        "format-version": str(version),
        "content": "deletes" if content == DELETES else "data",
    }
    return _encode(_encode_partitions(entries, keys), full, flat, codec, attributes)


def _encode_partitions(entries: pl.DataFrame, keys: Sequence[t.DataField]) -> pl.DataFrame:
    decimals = {key.name: key.type for key in keys if isinstance(key.type, t.DecimalType)}
    if not decimals:
        return entries
    values = entries["partition"].struct.unnest()
    fixed = [_encode_decimals(values[name], _count_bytes(kind)).alias(name) for name, kind in decimals.items()]
    return entries.with_columns(values.with_columns(fixed).to_struct("partition"))


def decode_iceberg_manifest(data: bytes, schema: TableSchema, where: str) -> pl.DataFrame:
    """Decode a manifest; columns that a writer left out are null.

    Raises `CorruptFile`: damaged, or not a manifest of this table.
    """
    container = read_container(data, where=where, spread="data_file")
    keys = [schema.by_name[name] for name in schema.partition_keys]
    wanted = [*MANIFEST_DTYPES, *(["partition"] if keys else [])]
    frame = decode(
        container,
        decompress_container(container),
        container.rows,
        [name for name in container.lowered.names if name in wanted],
    )
    found = _complete(frame, MANIFEST_DTYPES, where)
    if not keys:
        return found
    values = frame["partition"].struct.unnest() if "partition" in frame.columns else pl.DataFrame()
    if values.columns != [key.name for key in keys]:
        raise CorruptFile(where, f"its partitions are of {values.columns}, the table's of {[key.name for key in keys]}")
    return found.with_columns(make_partitions([values[key.name] for key in keys], keys))


def make_partitions(values: Sequence[pl.Series], keys: Sequence[t.DataField]) -> pl.Series:
    """Return the column ``partition``: structs of the values of the partition keys."""
    columns = [to_stored_values(each, key.type).alias(key.name) for each, key in zip(values, keys, strict=True)]
    return pl.DataFrame(columns).to_struct("partition")


def encode_manifest_list(
    manifests: pl.DataFrame, version: int, codec: str, legacy: bool, snapshot_id: int, parent: int | None
) -> bytes:
    """Encode a manifest list, columns `LIST_DTYPES`. Raises `Unsupported` for an unknown codec."""
    schema = _build_list_schema(version, legacy)
    attributes = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(snapshot_id),
        "format-version": str(version),
    }
    frame = manifests.rename(_LEGACY) if legacy else manifests
    return _encode(frame, schema, schema["fields"], codec, attributes)


def decode_manifest_list(data: bytes, where: str) -> pl.DataFrame:
    """Decode a manifest list. Raises `CorruptFile` if it is damaged."""
    container = read_container(data, where=where)
    frame = decode(container, decompress_container(container), container.rows, None)
    return _complete(frame.rename({old: new for new, old in _LEGACY.items()}, strict=False), LIST_DTYPES, where)


def _complete(frame: pl.DataFrame, dtypes: Mapping[str, Any], where: str) -> pl.DataFrame:
    """Return the columns of `dtypes`; a column that is missing is null."""
    try:
        return pl.DataFrame(
            [
                frame[name].cast(dtype) if name in frame.columns else pl.Series(name, [None] * frame.height, dtype)
                for name, dtype in dtypes.items()
            ]
        )
    except pl.exceptions.PolarsError as error:
        raise CorruptFile(where, f"a column has another type: {error}") from error


def _encode(
    frame: pl.DataFrame,
    schema: Mapping[str, Any],
    members: Sequence[Mapping[str, Any]],
    codec: str,
    attributes: Mapping[str, str],
) -> bytes:
    name, sync = find_codec(codec.lower()), uuid.uuid4().bytes
    # One chunk per column, as Arrow cannot combine several chunks of lists without elements.
    table = pa.table({each.name: each.rechunk().to_arrow() for each in frame.iter_columns()})
    head = encode_head(json.dumps(schema).encode(), name, sync, attributes)
    return head + encode_blocks(table, {"fields": members}, name, sync, ZSTD_LEVEL)


def summarize_manifest(
    entries: pl.DataFrame, schema: TableSchema, path: str, length: int, snapshot_id: int, content: int
) -> pl.DataFrame:
    """Return the row of a manifest list for a manifest of these entries, written by a snapshot."""
    counts: dict[str, int] = {}
    for name, status in (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED)):
        records = entries["record_count"].filter(entries["status"] == status)
        counts |= {f"{name}_files_count": len(records), f"{name}_rows_count": int(records.sum())}
    row = {
        "manifest_path": path,
        "manifest_length": length,
        "partition_spec_id": 0,
        "content": content,
        "sequence_number": snapshot_id,
        "min_sequence_number": entries["sequence_number"].min(),
        "added_snapshot_id": snapshot_id,
        **counts,
        "partitions": _summarize_partitions(entries, schema),
        "first_row_id": None,
    }
    return pl.DataFrame([row], schema=dict(LIST_DTYPES))


def _summarize_partitions(entries: pl.DataFrame, schema: TableSchema) -> list[dict[str, Any]]:
    summaries = []
    for name in schema.partition_keys:
        kind, values = schema.by_name[name].type, entries["partition"].struct.unnest()[name]
        has_nan = bool(values.is_nan().any()) if values.dtype.is_float() else False
        known = values.fill_nan(None) if has_nan else values
        bounds = encode_bounds(pl.Series([known.min(), known.max()], dtype=known.dtype), kind).to_list()
        summary = {"contains_null": values.null_count() > 0, "contains_nan": has_nan}
        summaries.append({**summary, "lower_bound": bounds[0], "upper_bound": bounds[1]})
    return summaries
