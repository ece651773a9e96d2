"""Avro data files as Java Paimon writes them, with exactly its schema, and blocks of about 64 kB.

================  =======================================================================================
Paimon            Avro
================  =======================================================================================
nullable types    union of null and the type, null by default
TINYINT SMALLINT  int
DECIMAL           bytes: the unscaled value, big-endian, as short as possible
DATE, TIME        int of days, of milliseconds
TIMESTAMP         long, timestamp-millis up to precision 3, timestamp-micros up to 6
TIMESTAMP_LTZ     the same with local-timestamp (the reverse of Avro's specification)
MAP, MULTISET     map if the keys are text, else an array of records {key, value}; counts are nullable
================  =======================================================================================
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import read_validity, read_wide_values
from morrow.engine.format.avro_encoder import encode_blocks, encode_head, find_codec
from morrow.engine.format.binary_row import DECIMAL_WIDTH
from morrow.engine.format.binary_row_encoder import compute_twos_complement_length, to_big_endian
from morrow.engine.options.declared.files import AVRO_CODEC
from morrow.readers.casts.dtypes import list_offsets, make_null_mask, to_arrow_array
from morrow.writers.files.encoders import Block, EncoderOptions, FileLayout, FileWriter, encode_one_by_one

NAMESPACE, RECORD = "org.apache.paimon.avro.generated", "record"
TIME_PRECISION = 3


class AvroEncoder:
    """An `Encoder` of Avro files. Each of its blocks consists of several Avro blocks."""

    def __init__(self, layout: FileLayout, options: EncoderOptions) -> None:
        self._fields = layout.fields
        self._schema = build_avro_schema(layout.fields, options.where)
        self._codec = find_codec(options.write.given.get(AVRO_CODEC) or options.compression)
        self._level = options.write.zstd_level
        self._sync = uuid.uuid4().bytes
        text = json.dumps(self._schema, separators=(",", ":"), ensure_ascii=False)
        self.head = encode_head(text.encode(), self._codec, self._sync)

    def block(self, frame: pl.DataFrame) -> Block:
        columns = [
            _to_physical(to_arrow_array(series, field.type), field.type)
            for series, field in zip(frame.iter_columns(), self._fields, strict=True)
        ]
        table = pa.Table.from_arrays(columns, [field.name for field in self._fields])
        body = encode_blocks(table, self._schema, self._codec, self._sync, self._level)
        return Block(frame.height, len(body), body)

    def blocks(self, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
        return encode_one_by_one(self, frame, heights)

    def foot(self, blocks: Sequence[Block]) -> bytes:
        """Return empty bytes: containers end with their last block."""
        del blocks
        return b""


# --- schema ---


def build_avro_schema(fields: Sequence[t.DataField], where: str) -> dict[str, Any]:
    """Return the schema of a file with these columns.

    Raises `Unsupported`: Java Paimon does not write this type, or precision of a time, to Avro either.
    """
    record = _build_record(fields, RECORD, where)
    return {"type": record["type"], "name": record["name"], "namespace": NAMESPACE, "fields": record["fields"]}


def _build_record(fields: Sequence[t.DataField], name: str, where: str) -> dict[str, Any]:
    members = [_build_member(f.name, f.type, f"{name}_{f.name}", where, defaulted=True) for f in fields]
    return {"type": "record", "name": name, "fields": members}


def _build_member(name: str, type_: t.DataType, record: str, where: str, *, defaulted: bool) -> dict[str, Any]:
    if not _is_name(name):
        hint = "there names are letters, digits and _, not a digit first; rename the column or choose Parquet"
        raise Unsupported(f"the column name {name!r} in Avro files", where=where, hint=hint)
    member = {"name": name, "type": _build_node(type_, record, where)}
    return member | {"default": None} if defaulted and type_.nullable else member


def _is_name(name: str) -> bool:
    """Return whether Java's Avro accepts the name. Letters may be of any script."""
    return all(c == "_" or c.isalpha() or c.isdecimal() for c in name) and not name[:1].isdecimal()


def _build_node(type_: t.DataType, record: str, where: str) -> Any:
    """Return the Avro type; `record` is the name of the record for a ROW."""
    if type(type_) not in _NODES:
        raise Unsupported(f"a column of {type_} in Avro files", where=where, hint="choose Parquet for the table")
    node = _NODES[type(type_)](type_, record, where)
    return ["null", node] if type_.nullable else node


def _make_plain_builder(name: str) -> Callable[[Any, str, str], Any]:
    return lambda *_: name


def _build_logical(name: str, logical: str, **more: int) -> dict[str, Any]:
    return {"type": name, "logicalType": logical, **more}


def _build_time(type_: t.TimeType, _: str, where: str) -> Any:
    return _build_logical("int", _check_precision(type_, TIME_PRECISION, where, "time-millis"))


def _make_timestamp_builder(prefix: str) -> Callable[[Any, str, str], Any]:
    def node(type_: Any, _: str, where: str) -> Any:
        unit = "millis" if type_.precision <= t.ARROW_MILLIS_PRECISION else "micros"
        return _build_logical("long", _check_precision(type_, t.ARROW_MICROS_PRECISION, where, prefix + unit))

    return node


def _check_precision(type_: Any, most: int, where: str, logical: str) -> str:
    if type_.precision > most:
        raise Unsupported(f"a column of {type_} in Avro files", where=where, hint=f"precision goes up to {most}")
    return logical


def _build_array(type_: Any, record: str, where: str) -> Any:
    return {"type": "array", "items": _build_node(type_.element, record, where)}


def _build_map(type_: t.MapType, record: str, where: str) -> Any:
    if isinstance(type_.key, (t.CharType, t.VarCharType)):
        return {"type": "map", "values": _build_node(type_.value, record, where)}
    members = [
        _build_member("key", type_.key, f"{record}_key", where, defaulted=False),
        _build_member("value", type_.value, f"{record}_value", where, defaulted=True),
    ]
    return {"type": "array", "items": {"type": "record", "name": record, "fields": members}, "logicalType": "map"}


def _to_map_type(type_: t.MultisetType) -> t.MapType:
    return t.MapType(key=type_.element, value=t.IntType())


_NODES: Mapping[type[t.DataType], Callable[[Any, str, str], Any]] = {
    t.BooleanType: _make_plain_builder("boolean"),
    **dict.fromkeys((t.TinyIntType, t.SmallIntType, t.IntType), _make_plain_builder("int")),
    t.BigIntType: _make_plain_builder("long"),
    t.FloatType: _make_plain_builder("float"),
    t.DoubleType: _make_plain_builder("double"),
    **dict.fromkeys((t.CharType, t.VarCharType), _make_plain_builder("string")),
    **dict.fromkeys((t.BinaryType, t.VarBinaryType, t.BlobType), _make_plain_builder("bytes")),
    t.DecimalType: lambda d, *_: _build_logical("bytes", "decimal", precision=d.precision, scale=d.scale),
    t.DateType: lambda *_: _build_logical("int", "date"),
    t.TimeType: _build_time,
    t.TimestampType: _make_timestamp_builder("timestamp-"),
    t.LocalZonedTimestampType: _make_timestamp_builder("local-timestamp-"),
    **dict.fromkeys((t.ArrayType, t.VectorType), _build_array),
    t.MapType: _build_map,
    t.MultisetType: lambda m, record, where: _build_map(_to_map_type(m), record, where),
    t.RowType: lambda r, record, where: _build_record(r.fields, record, where),
}


# --- values ---


def _to_physical(array: pa.Array, type_: t.DataType) -> pa.Array:
    """Convert values to the Arrow types from which Avro's types are encoded."""
    convert = _PHYSICAL.get(type(type_))
    return array if convert is None else convert(array, type_)


def _to_ticks(array: pa.Array, _: t.DataType) -> pa.Array:
    unit = array.type.unit
    return (array.cast(pa.timestamp("ms", array.type.tz)) if unit == "s" else array).view(pa.int64())


def _encode_decimals(array: pa.Array, _: t.DataType) -> pa.Array:
    digits = to_big_endian(read_wide_values(array))
    lengths = np.where(read_validity(array), compute_twos_complement_length(digits), 0)
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    data = digits[np.arange(DECIMAL_WIDTH) >= DECIMAL_WIDTH - lengths[:, None]]
    buffers = [_build_validity(array), pa.py_buffer(edges), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(array), buffers)


def _build_validity(array: pa.Array) -> pa.Buffer | None:
    return pa.array(read_validity(array)).buffers()[1] if array.null_count else None


def _to_list(array: pa.Array, type_: Any) -> pa.Array:
    if isinstance(type_, t.VectorType):
        array = array.cast(pa.list_(array.type.value_field))
    values = _to_physical(array.values, type_.element)
    return pa.ListArray.from_arrays(list_offsets(array), values, mask=make_null_mask(array))


def _to_entries(array: pa.Array, type_: Any) -> pa.Array:
    members = [_to_physical(array.keys, type_.key), _to_physical(array.items, type_.value)]
    entries = pa.StructArray.from_arrays(members, ["key", "value"])
    return pa.ListArray.from_arrays(list_offsets(array), entries, mask=make_null_mask(array))


def _to_struct(array: pa.Array, type_: t.RowType) -> pa.Array:
    members = [_to_physical(array.field(i), member.type) for i, member in enumerate(type_.fields)]
    return pa.StructArray.from_arrays(members, [member.name for member in type_.fields], mask=make_null_mask(array))


_PHYSICAL: Mapping[type[t.DataType], Callable[[pa.Array, Any], pa.Array]] = {
    t.DecimalType: _encode_decimals,
    **dict.fromkeys((t.DateType, t.TimeType), lambda array, _: array.view(pa.int32())),
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), _to_ticks),
    **dict.fromkeys((t.ArrayType, t.VectorType), _to_list),
    t.MapType: _to_entries,
    t.MultisetType: lambda array, type_: _to_entries(array, _to_map_type(type_)),
    t.RowType: _to_struct,
}

WRITER = FileWriter(AvroEncoder)
