"""Paimon's types as Spark has them, by way of Arrow."""

from __future__ import annotations

import pyarrow as pa

from morrow.engine.errors import Unsupported

SPARK_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
}

def spark_arrow(schema: pa.Schema) -> pa.Schema:
    """The Arrow schema that Spark takes for rows of this one.

    Raises:
        Unsupported: a column whose type Spark does not have (TIME). Nanoseconds become microseconds.
    """
    return pa.schema([_spark_field(field) for field in schema])


def spark_ddl(schema: pa.Schema) -> str:
    """The columns of a `spark_arrow` schema in Spark's SQL; timestamps without a zone are TIMESTAMP_NTZ."""
    return ", ".join(f"{quoted(field.name)} {_ddl(field)}" for field in schema)


def _spark_field(field: pa.Field) -> pa.Field:
    return field.with_type(_spark_type(field.type, field.name))


def _spark_type(kind: pa.DataType, name: str) -> pa.DataType:
    """The Arrow type that createDataFrame takes for `kind`."""
    if pa.types.is_time(kind):
        raise Unsupported(f"the type {kind} of column {name!r} in Spark", hint="leave the column out, or cast it first")
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([_spark_field(member) for member in kind])
    if pa.types.is_map(kind):
        return pa.map_(_spark_field(kind.key_field), _spark_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_spark_field(kind.value_field))
    return kind


def _members(kind: pa.DataType) -> list[pa.Field]:
    """Fields of the members of a nested type."""
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(i) for i in range(kind.num_fields)]


def _has_local_time(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(_has_local_time(member.type) for member in _members(kind))


def _ddl(field: pa.Field) -> str:
    """The field's type in Spark's SQL."""
    kind, members = field.type, _members(field.type)
    suffix = "" if field.nullable else " NOT NULL"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{quoted(m.name)}: {_ddl(m)}' for m in members)}>{suffix}"
    if pa.types.is_map(kind):
        return f"MAP<{', '.join(_ddl(m.with_nullable(True)) for m in members)}>{suffix}"
    if members:
        return f"ARRAY<{_ddl(members[0].with_nullable(True))}>{suffix}"
    if pa.types.is_timestamp(kind):
        return ("TIMESTAMP_NTZ" if kind.tz is None else "TIMESTAMP") + suffix
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale}){suffix}"
    if kind not in SPARK_TYPES:
        raise Unsupported(f"the type {kind} of column {field.name!r} in Spark", hint="leave the column out")
    return SPARK_TYPES[kind] + suffix


def quoted(name: str) -> str:
    """The name as an identifier of Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"
