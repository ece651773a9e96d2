"""The schemas in which Paimon 1.4 stores manifest lists, manifests and index manifests: Avro text and Arrow schema.

Both are derived from one description, a record of members; a nullable member is wrapped in `nullable`. In Parquet and
ORC every member has a field id: its position in its record (``_VERSION`` stands before the first: -1), and for the
items of a list a number made of the list's own id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

NAMESPACE = "org.apache.paimon.avro.generated"
VERSION_FIELD_ID = -1
LIST_ITEM_ID_START = (2**31 - 1) // 4
LIST_ITEM_ID_STEP = 1 << 10
"""Ids of list items: the start, plus the step for each id of a list, plus the depth (1: the list is not in a list)."""


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
        return json.dumps(_avro_record("record", self.record, NAMESPACE), separators=(",", ":")).encode()

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema of Parquet and ORC files, with field ids."""
        return pa.schema(_arrow_fields(self.record, VERSION_FIELD_ID))


def _avro_record(name: str, record: Record, namespace: str | None = None) -> dict[str, Any]:
    head: dict[str, Any] = {"type": "record", "name": name}
    if namespace is not None:
        head["namespace"] = namespace
    return {**head, "fields": [_avro_member(name, member, shape) for member, shape in record.members.items()]}


def _avro_member(record: str, name: str, shape: Shape) -> dict[str, Any]:
    member = {"name": name, "type": _avro_type(f"{record}_{name}", shape)}
    return {**member, "default": None} if isinstance(shape, Nullable) else member


def _avro_type(name: str, shape: Shape) -> Any:
    if isinstance(shape, Nullable):
        return ["null", _avro_type(name, shape.of)]
    if isinstance(shape, Items):
        return {"type": "array", "items": _avro_type(name, shape.item)}
    return _avro_record(name, shape) if isinstance(shape, Record) else _AVRO[shape]


def _arrow_fields(record: Record, first: int) -> Sequence[pa.Field]:
    return [_arrow_field(name, first + i, shape) for i, (name, shape) in enumerate(record.members.items())]


def _arrow_field(name: str, field_id: int, shape: Shape) -> pa.Field:
    plain = shape.of if isinstance(shape, Nullable) else shape
    if isinstance(plain, Record):
        kind: pa.DataType = pa.struct(_arrow_fields(plain, 0))
    elif isinstance(plain, Items):
        item_id = LIST_ITEM_ID_START + LIST_ITEM_ID_STEP * field_id + 1
        kind = pa.list_(_arrow_field("element", item_id, plain.item))
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
                    }
                )
            ),
        }
    )
)
