"""Avro data files as Java Paimon writes them: its schema, letter by letter, and its blocks of about 64 kB.

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
from morrow.engine.format.arrow_buffers import validity, wide_values
from morrow.engine.format.avro_encode import codec_name, container_head, encode_blocks
from morrow.engine.format.binary_row_encode import big_endian, twos_complement_length
from morrow.engine.format.binary_row_slots import DECIMAL_WIDTH
from morrow.engine.options.declared.formats import AVRO_CODEC
from morrow.readers.casts.dtypes import list_offsets, null_mask, to_arrow_array
from morrow.writers.files.encoders import Block, EncoderOptions, FileWriter, one_by_one
from morrow.writers.files.layout import FileLayout

NAMESPACE, RECORD = "org.apache.paimon.avro.generated", "record"
TIME_PRECISION = 3


class AvroEncoder:
    """An `Encoder` of Avro files; each of its blocks is several Avro blocks."""

    def __init__(self, layout: FileLayout, options: EncoderOptions) -> None:
        self._fields = layout.fields
        self._schema = avro_schema(layout.fields, options.where)
        self._codec = codec_name(options.write.given.get(AVRO_CODEC) or options.compression)
        self._level = options.write.zstd_level
        self._sync = uuid.uuid4().bytes
        text = json.dumps(self._schema, separators=(",", ":"), ensure_ascii=False)
        self.head = container_head(text.encode(), self._codec, self._sync)

    def block(self, frame: pl.DataFrame) -> Block:
        columns = [
            _physical(to_arrow_array(series, field.type), field.type)
            for series, field in zip(frame.iter_columns(), self._fields, strict=True)
        ]
        table = pa.Table.from_arrays(columns, [field.name for field in self._fields])
        body = encode_blocks(table, self._schema, self._codec, self._sync, self._level)
        return Block(frame.height, len(body), body)

    def blocks(self, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
        return one_by_one(self, frame, heights)

    def foot(self, blocks: Sequence[Block]) -> bytes:
        """Returns nothing: containers end with their last block."""
        del blocks
        return b""


# --- schema ---


def avro_schema(fields: Sequence[t.DataField], where: str) -> dict[str, Any]:
    """Returns the schema of a file with these columns.

    Raises:
        Unsupported: a type, or a precision of a time, that Java Paimon does not write to Avro either.
    """
    record = _record(fields, RECORD, where)
    return {"type": record["type"], "name": record["name"], "namespace": NAMESPACE, "fields": record["fields"]}


def _record(fields: Sequence[t.DataField], name: str, where: str) -> dict[str, Any]:
    members = [_member(f.name, f.type, f"{name}_{f.name}", where, defaulted=True) for f in fields]
    return {"type": "record", "name": name, "fields": members}


def _member(name: str, type_: t.DataType, record: str, where: str, *, defaulted: bool) -> dict[str, Any]:
    if not _is_name(name):
        hint = "there names are letters, digits and _, not a digit first; rename the column or choose Parquet"
        raise Unsupported(f"the column name {name!r} in Avro files", where=where, hint=hint)
    member = {"name": name, "type": _node(type_, record, where)}
    return member | {"default": None} if defaulted and type_.nullable else member


def _is_name(name: str) -> bool:
    """Returns whether Java's Avro accepts the name: letters of any script."""
    return all(c == "_" or c.isalpha() or c.isdecimal() for c in name) and not name[:1].isdecimal()


def _node(type_: t.DataType, record: str, where: str) -> Any:
    """Returns the Avro type; `record` is the name of the record for a ROW."""
    if type(type_) not in _NODES:
        raise Unsupported(f"a column of {type_} in Avro files", where=where, hint="choose Parquet for the table")
    node = _NODES[type(type_)](type_, record, where)
    return ["null", node] if type_.nullable else node


def _plain(name: str) -> Callable[[Any, str, str], Any]:
    return lambda *_: name


def _logical(name: str, logical: str, **more: int) -> dict[str, Any]:
    return {"type": name, "logicalType": logical, **more}


def _time(type_: t.TimeType, _: str, where: str) -> Any:
    return _logical("int", _checked(type_, TIME_PRECISION, where, "time-millis"))


def _timestamp(prefix: str) -> Callable[[Any, str, str], Any]:
    def node(type_: Any, _: str, where: str) -> Any:
        unit = "millis" if type_.precision <= t.ARROW_MILLIS_PRECISION else "micros"
        return _logical("long", _checked(type_, t.ARROW_MICROS_PRECISION, where, prefix + unit))

    return node


def _checked(type_: Any, most: int, where: str, logical: str) -> str:
    if type_.precision > most:
        raise Unsupported(f"a column of {type_} in Avro files", where=where, hint=f"precision goes up to {most}")
    return logical


def _array(type_: Any, record: str, where: str) -> Any:
    return {"type": "array", "items": _node(type_.element, record, where)}


def _map(type_: t.MapType, record: str, where: str) -> Any:
    if isinstance(type_.key, (t.CharType, t.VarCharType)):
        return {"type": "map", "values": _node(type_.value, record, where)}
    members = [
        _member("key", type_.key, f"{record}_key", where, defaulted=False),
        _member("value", type_.value, f"{record}_value", where, defaulted=True),
    ]
    return {"type": "array", "items": {"type": "record", "name": record, "fields": members}, "logicalType": "map"}


def _as_map(type_: t.MultisetType) -> t.MapType:
    return t.MapType(key=type_.element, value=t.IntType())


_NODES: Mapping[type[t.DataType], Callable[[Any, str, str], Any]] = {
    t.BooleanType: _plain("boolean"),
    **dict.fromkeys((t.TinyIntType, t.SmallIntType, t.IntType), _plain("int")),
    t.BigIntType: _plain("long"),
    t.FloatType: _plain("float"),
    t.DoubleType: _plain("double"),
    **dict.fromkeys((t.CharType, t.VarCharType), _plain("string")),
    **dict.fromkeys((t.BinaryType, t.VarBinaryType), _plain("bytes")),
    t.DecimalType: lambda d, *_: _logical("bytes", "decimal", precision=d.precision, scale=d.scale),
    t.DateType: lambda *_: _logical("int", "date"),
    t.TimeType: _time,
    t.TimestampType: _timestamp("timestamp-"),
    t.LocalZonedTimestampType: _timestamp("local-timestamp-"),
    **dict.fromkeys((t.ArrayType, t.VectorType), _array),
    t.MapType: _map,
    t.MultisetType: lambda m, record, where: _map(_as_map(m), record, where),
    t.RowType: lambda r, record, where: _record(r.fields, record, where),
}


# --- values ---


def _physical(array: pa.Array, type_: t.DataType) -> pa.Array:
    """Returns the values in the Arrow types that Avro's own types are encoded from."""
    convert = _PHYSICAL.get(type(type_))
    return array if convert is None else convert(array, type_)


def _ticks(array: pa.Array, _: t.DataType) -> pa.Array:
    unit = array.type.unit
    return (array.cast(pa.timestamp("ms", array.type.tz)) if unit == "s" else array).view(pa.int64())


def _decimals(array: pa.Array, _: t.DataType) -> pa.Array:
    digits = big_endian(wide_values(array))
    lengths = np.where(validity(array), twos_complement_length(digits), 0)
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    data = digits[np.arange(DECIMAL_WIDTH) >= DECIMAL_WIDTH - lengths[:, None]]
    buffers = [_valid(array), pa.py_buffer(edges), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(array), buffers)


def _valid(array: pa.Array) -> pa.Buffer | None:
    return pa.array(validity(array)).buffers()[1] if array.null_count else None


def _list(array: pa.Array, type_: Any) -> pa.Array:
    if isinstance(type_, t.VectorType):
        array = array.cast(pa.list_(array.type.value_field))
    values = _physical(array.values, type_.element)
    return pa.ListArray.from_arrays(list_offsets(array), values, mask=null_mask(array))


def _entries(array: pa.Array, type_: Any) -> pa.Array:
    members = [_physical(array.keys, type_.key), _physical(array.items, type_.value)]
    entries = pa.StructArray.from_arrays(members, ["key", "value"])
    return pa.ListArray.from_arrays(list_offsets(array), entries, mask=null_mask(array))


def _struct(array: pa.Array, type_: t.RowType) -> pa.Array:
    members = [_physical(array.field(i), member.type) for i, member in enumerate(type_.fields)]
    return pa.StructArray.from_arrays(members, [member.name for member in type_.fields], mask=null_mask(array))


_PHYSICAL: Mapping[type[t.DataType], Callable[[pa.Array, Any], pa.Array]] = {
    t.DecimalType: _decimals,
    **dict.fromkeys((t.DateType, t.TimeType), lambda array, _: array.view(pa.int32())),
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), _ticks),
    **dict.fromkeys((t.ArrayType, t.VectorType), _list),
    t.MapType: _entries,
    t.MultisetType: lambda array, type_: _entries(array, _as_map(type_)),
    t.RowType: _struct,
}


WRITER = FileWriter(AvroEncoder)
