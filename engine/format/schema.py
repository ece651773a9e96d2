"""Schema files: ``schema/schema-<id>``, JSON, one per version of the table's schema.

Source: the format specification, section Schema; format versions 1-3 differ only in defaults for old tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa

from morrow.engine.arguments import is_name
from morrow.engine.errors import OTHER_WRITER, ColumnNotFound, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.metadata_json import build_from_json, format_json, parse_object, refuse_slips
from morrow.engine.names import KEY_PREFIX
from morrow.engine.redaction import clean_text, escape_to_line, format_columns, hide_secrets, suggest_name

NEWEST_SCHEMA_VERSION = 3
PAIMON_07_SCHEMA_VERSION = 1
PAIMON_08_SCHEMA_VERSION = 2

MEMBERS = (
    *("version", "id", "fields", "highestFieldId", "partitionKeys", "primaryKeys", "options", "comment", "timeMillis"),
)
"""The members of a schema file, in their order."""

SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
LEVEL = "_LEVEL"
ROW_ID = "_ROW_ID"
ROWKIND = "rowkind"
"""The first column of change rows, as in Paimon's table ``$audit_log`` and in its Spark reader."""

SYSTEM_NAMES = (SEQUENCE_NUMBER, VALUE_KIND, LEVEL, ROWKIND, ROW_ID)
"""Reserved column names, in addition to names that begin with ``_KEY_``."""

KEY_FIELD_ID_START = (2**31 - 1) // 2
"""The field id of ``_KEY_x`` is this number plus the id of x."""

SYSTEM_FIELD_ID_START = (2**31 - 1) // 2
"""Ids from this number on belong to system columns: keys, sequence numbers, row ids."""

SEQUENCE_NUMBER_FIELD = t.DataField(2**31 - 2, SEQUENCE_NUMBER, t.BigIntType(nullable=False))
VALUE_KIND_FIELD = t.DataField(2**31 - 3, VALUE_KIND, t.TinyIntType(nullable=False))
ROWKIND_FIELD = t.DataField(2**31 - 5, ROWKIND, t.VarCharType())
ROW_ID_FIELD = t.DataField(2**31 - 6, ROW_ID, t.BigIntType(nullable=False))
TRACKED = (ROW_ID_FIELD, SEQUENCE_NUMBER_FIELD)
"""Columns that rows of tables with row tracking have in addition to the table's columns."""
STORED_TRACKED = (ROW_ID_FIELD, t.DataField(SEQUENCE_NUMBER_FIELD.id, SEQUENCE_NUMBER, t.BigIntType()))
"""`TRACKED` in data files: a row of the file's own snapshot has no sequence number."""

MAX_SHOWN = 40
"""Maximum number of columns in the repr of a schema."""


def find_member(fields: Sequence[t.DataField], name: str) -> tuple[t.DataField, ...] | None:
    """Return the path of ``column.member.member``, or of a column with this very name; None if there is none."""
    for field in fields:
        if field.name == name:
            return (field,)
    for field in fields:
        if isinstance(field.type, t.RowType) and name.startswith(f"{field.name}."):
            below = find_member(field.type.fields, name.removeprefix(f"{field.name}."))
            if below is not None:
                return (field, *below)
    return None


class TableSchema(msgspec.Struct, frozen=True, dict=True):
    """One version of a table's schema: columns, keys and options, immutable."""

    id: int
    fields: tuple[t.DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = msgspec.field(default_factory=dict)
    comment: str | None = None
    time_millis: int | None = None
    version: int = NEWEST_SCHEMA_VERSION

    def __hash__(self) -> int:
        return hash((self.id, self.fields, self.time_millis))

    def __repr__(self) -> str:
        """Return id, columns, keys and options, without secrets."""
        columns = ", ".join(f"{escape_to_line(f.name)} {f.type}" for f in self.fields[:MAX_SHOWN])
        more = f", ... and {len(self.fields) - MAX_SHOWN:,} more" if len(self.fields) > MAX_SHOWN else ""
        keys = f"primary_keys={self.primary_keys}, partition_keys={self.partition_keys}"
        return clean_text(f"TableSchema(id={self.id}, [{columns}{more}], {keys}, options={hide_secrets(self.options)})")

    @cached_property
    def by_name(self) -> Mapping[str, t.DataField]:
        return {f.name: f for f in self.fields}

    @cached_property
    def layout(self) -> str:
        """Id, columns and key, for cache keys: a restored table may reuse a schema id for other columns."""
        return repr((self.id, self.fields, self.primary_keys))

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary keys without the partition keys, by which rows are ordered within a bucket."""
        trimmed = tuple(key for key in self.primary_keys if key not in self.partition_keys)
        return trimmed or self.primary_keys

    @cached_property
    def row_keys(self) -> tuple[str, ...]:
        """The columns that identify a row of a keyed table: the primary key and all other partition keys.

        With fixed or postponed buckets, each partition may have a row with the same primary key.
        """
        lacking = (key for key in self.partition_keys if key not in self.primary_keys)
        return (*self.primary_keys, *lacking) if self.primary_keys else ()

    @property
    def cross_partition(self) -> bool:
        """Whether a key may move between partitions, because the primary key lacks a partition key."""
        return bool(self.primary_keys) and any(key not in self.primary_keys for key in self.partition_keys)

    def column(self, name: str) -> t.DataField:
        """Return a column by name. Raises `ColumnNotFound` for an unknown name."""
        try:
            return self.by_name[name]
        except KeyError:
            hint = suggest_name(str(name), self.by_name)  # the caller's name may be of any type
            raise ColumnNotFound(f"there is no column {name!r}; {hint}{format_columns(self.by_name)}") from None

    @cached_property
    def key_fields(self) -> tuple[t.DataField, ...]:
        """The ``_KEY_x`` columns that primary-key data files carry (unless in thin mode)."""
        return tuple(make_key_field(self.by_name[name]) for name in self.trimmed_primary_keys)

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema of the table's columns; comments become field metadata."""
        return t.to_arrow_schema(self.fields)


def make_key_field(column: t.DataField) -> t.DataField:
    """Return the ``_KEY_`` copy of a primary-key column in a data file."""
    return t.DataField(column.id + KEY_FIELD_ID_START, KEY_PREFIX + column.name, column.type.with_nullable(False))


def parse_schema(data: bytes, path: str) -> TableSchema:
    """Read a schema file.

    Raises:
        CorruptFile: not JSON, or a required member is missing or ill-typed.
        Unsupported: a schema version or a type that Morrow does not know.
    """
    node = parse_object(data, path)
    refuse_slips(node, MEMBERS, path)
    if "timeMillis" not in node and not set(MEMBERS).issuperset(node):
        # An optional member is missing and there is an unknown one: this is a damaged name.
        strange = next(name for name in node if name not in MEMBERS)
        raise Unsupported(f"the member {strange!r} in a schema without 'timeMillis'", where=path, hint=OTHER_WRITER)
    version = node.get("version", PAIMON_07_SCHEMA_VERSION)
    if not isinstance(version, int) or version > NEWEST_SCHEMA_VERSION:
        raise Unsupported(f"schema version {version}", where=path, hint="upgrade Morrow")
    return build_from_json(path, lambda n: _build_schema(n, version, path), node)


def _build_schema(node: Mapping[str, Any], version: int, path: str) -> TableSchema:
    fields = tuple(t.from_json_field(f, where=path) for f in node["fields"])
    # Every version of Paimon writes the members that are accessed by [], and cannot read a schema without them.
    options = {str(key): str(value) for key, value in dict(node["options"] or {}).items()}
    # Before version 2 an absent bucket meant 1, before version 3 an absent format meant ORC.
    if version <= PAIMON_07_SCHEMA_VERSION:
        options.setdefault("bucket", "1")
    if version <= PAIMON_08_SCHEMA_VERSION:
        options.setdefault("file.format", "orc")
    schema = TableSchema(
        id=int(node["id"]),
        fields=fields,
        highest_field_id=int(node["highestFieldId"]),
        partition_keys=tuple(map(str, node["partitionKeys"] or ())),
        primary_keys=tuple(map(str, node["primaryKeys"] or ())),
        options=options,
        comment=node.get("comment"),
        time_millis=node.get("timeMillis"),
        version=version,
    )
    for what, values in (("name", [f.name for f in fields]), ("id", [f.id for f in fields])):
        if len(set(values)) < len(values):
            raise ValueError(f"two fields have the same {what}")
    for name in (*schema.partition_keys, *schema.primary_keys):
        if name not in schema.by_name:
            raise ValueError(f"the key column {name!r} is not among the fields")
    _check_ids(schema)
    return schema


def refuse_unreadable(schema: TableSchema, where: str) -> None:
    """Raise `Unsupported` for columns with the names of system columns, and for keys without a column.

    Java refuses both, but schemas that are not used for reading may have them. A column ``rowkind`` does not cause
    conflicts in data files; code that adds a column of row kinds refuses it.
    """
    if schema.primary_keys and set(schema.primary_keys) <= set(schema.partition_keys):
        raise Unsupported(
            f"a primary key ({', '.join(schema.primary_keys)}) of which all columns are partition keys",
            where=where,
            hint="copy its rows into a table with another key by the program that wrote it",
        )
    for name, field in schema.by_name.items():
        if not is_name(f"{name} {field.type}"):
            hint = "Arrow ends names there; rename the column in the engine that made it"
            raise Unsupported(f"the column {name!r}, in a name of which is a NUL character", where=where, hint=hint)
        if name.startswith(KEY_PREFIX) or (name in SYSTEM_NAMES and name != ROWKIND):
            raise Unsupported(
                f"the column name {name!r}",
                where=where,
                hint="it is one of Paimon's own; Table.alter renames the column",
            )


def _check_ids(schema: TableSchema) -> None:
    """Check the field ids, which are assigned in order and never reused: `highest_field_id` is the last assigned id.

    Raises:
        ValueError: an id is not assigned yet; or, in the first schema of a table, where all fields still exist, the
            last id is missing.
    """
    own = [f.id for f in schema.fields if f.id < SYSTEM_FIELD_ID_START]
    highest = max(own, default=-1)
    if highest > schema.highest_field_id:
        raise ValueError(f"a field has the id {highest}, but the highest is said to be {schema.highest_field_id}")
    # Java includes the ids of nested fields, other writers do not.
    nested = [i for f in schema.fields for i in list_nested_field_ids(f.type)]
    if schema.id == 0 and schema.highest_field_id not in (highest, max(nested, default=-1)):
        raise ValueError(f"the field with the highest id, {schema.highest_field_id}, is missing")


def format_schema(schema: TableSchema) -> bytes:
    """Return the schema file of `schema`, as Java prints it; `parse_schema` reads it back.

    Options keep their order. A schema without a time gets the year 1970, as in Java.
    """
    node: dict[str, Any] = {
        "version": schema.version,
        "id": schema.id,
        "fields": [t.to_json_field(f) for f in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": schema.partition_keys,
        "primaryKeys": schema.primary_keys,
        "options": schema.options,
    }
    if schema.comment is not None:
        node["comment"] = schema.comment
    node["timeMillis"] = schema.time_millis or 0
    return format_json(node)


def list_nested_field_ids(data_type: t.DataType) -> tuple[int, ...]:
    """Return the field ids of all ROW members inside a type, depth first."""
    if isinstance(data_type, t.RowType):
        return tuple(i for f in data_type.fields for i in (f.id, *list_nested_field_ids(f.type)))
    if isinstance(data_type, (t.ArrayType, t.MultisetType)):
        return list_nested_field_ids(data_type.element)
    if isinstance(data_type, t.MapType):
        return list_nested_field_ids(data_type.key) + list_nested_field_ids(data_type.value)
    return ()
