"""The columns of a new table, from any description of them, and their ids.

Arrow schemas (and objects that export one), SQL text, mappings of names to types, and fields of another table are
first read as `Column` values; `numbered` then turns them into fields with ids as Paimon assigns them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)
from morrow.engine.schema.arrow_types import COMMENT, paimon_type
from morrow.engine.schema.sql import Column, Columns, parse_columns, parse_type
from morrow.engine.values import replace

if TYPE_CHECKING:
    import polars as pl

TypeLike: TypeAlias = "str | DataType | pa.DataType | pl.DataType | type"
SchemaLike: TypeAlias = object
"""SQL text, an Arrow schema or an object that exports one, fields, a `TableSchema`, or a mapping of names to types.

The types of a mapping are SQL text, or types of Arrow, Polars or Python.
"""


def columns_of(schema: SchemaLike) -> Columns:
    """Reads a description of columns.

    Raises:
        InvalidArgument: not a description of columns, SQL that does not parse, or an Arrow type that no Paimon type
            holds without loss.
        Unsupported: a type that is not in the specification.
    """
    if isinstance(schema, str):
        return parse_columns(schema)
    if isinstance(schema, TableSchema):
        return Columns(tuple(map(_column_of_field, schema.fields)), schema.primary_keys)
    if (arrow := _arrow_schema(schema)) is not None:
        return Columns(tuple(map(_column_of_arrow, arrow)))
    if isinstance(schema, Mapping):
        return Columns(tuple(_column(name, kind) for name, kind in schema.items()))
    if isinstance(schema, Iterable):
        return Columns(tuple(map(_column_of_item, schema)))
    raise _no_schema(schema)


def type_of(kind: object, column: str) -> DataType:
    """Reads one type from SQL, Arrow, Polars, Python or itself; `column` goes into errors. Raises as `columns_of`."""
    if isinstance(kind, str):
        return parse_type(kind, column)
    if isinstance(kind, DataType):
        return kind
    if isinstance(kind, pa.DataType):
        return paimon_type(kind, column)
    if (polars := _polars_type(kind)) is not None:
        return paimon_type(polars, column)
    raise InvalidArgument(
        f"the column {column!r} has the type {kind!r}; give SQL text such as 'BIGINT NOT NULL', or a type of pyarrow, "
        "Polars or Python"
    )


def _polars_type(kind: object) -> pa.DataType | None:
    """Returns the Arrow type of a Polars type, or of a Python type as Polars takes it; None for anything else."""
    import polars as pl

    if not isinstance(kind, (type, pl.DataType)) or kind in (pl.Object, pl.Unknown, object):
        return None
    if isinstance(kind, type) and issubclass(kind, pl.Datetime):
        kind = kind()  # of the class alone, Polars knows no unit
    try:
        return pa.schema(pl.Schema({"": kind})).field(0).type
    except (TypeError, ValueError, pl.exceptions.PolarsError, pa.ArrowInvalid):
        return None


def numbered(columns: Sequence[Column], next_id: int = 0) -> tuple[tuple[DataField, ...], int]:
    """Returns fields with ids from `next_id` on, and the highest id assigned (`next_id` - 1 when there is none).

    A column takes its id before the members inside its type do; a member takes its id after those inside its type.
    """
    ids = itertools.count(next_id)
    fields = tuple(
        DataField(next(ids), c.name, numbered_type(c.type, ids), description=c.comment, default_value=c.default)
        for c in columns
    )
    return fields, next(ids) - 1


def numbered_type(data_type: DataType, ids: Iterator[int]) -> DataType:
    """Returns the type with new ids for all members of its rows."""
    if isinstance(data_type, RowType):
        return replace(data_type, fields=tuple(_numbered_member(f, ids) for f in data_type.fields))
    if isinstance(data_type, MapType):
        key = numbered_type(data_type.key, ids)
        return replace(data_type, key=key, value=numbered_type(data_type.value, ids))
    if isinstance(data_type, (ArrayType, VectorType, MultisetType)):
        return replace(data_type, element=numbered_type(data_type.element, ids))
    return data_type


def _numbered_member(member: DataField, ids: Iterator[int]) -> DataField:
    inner = numbered_type(member.type, ids)
    return replace(member, id=next(ids), type=inner)


def _column(name: object, kind: object) -> Column:
    if not isinstance(name, str):
        raise InvalidArgument(f"the column name {name!r} is no text")
    if isinstance(kind, str):
        # The text may continue after the type: "INT NOT NULL COMMENT 'pieces' DEFAULT 1".
        (column,) = parse_columns(f"{_quoted(name)} {kind}", only=name).columns
        return column
    return Column(name, type_of(kind, name))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _column_of_field(field: DataField) -> Column:
    return Column(field.name, field.type, field.description, field.default_value)


def _column_of_arrow(field: pa.Field) -> Column:
    comment = (field.metadata or {}).get(COMMENT)
    kind = paimon_type(field.type, field.name).with_nullable(field.nullable)
    return Column(field.name, kind, None if comment is None else comment.decode())


ITEMS: tuple[tuple[type, Callable[..., Column]], ...] = (
    (Column, lambda column: column),
    (DataField, _column_of_field),
    (pa.Field, _column_of_arrow),
)


def _column_of_item(item: object) -> Column:
    for kind, read in ITEMS:
        if isinstance(item, kind):
            return read(item)
    if isinstance(item, tuple) and len(item) == 2:  # a pair of a name and a type
        return _column(*item)
    raise _no_schema(item)


def _arrow_schema(schema: object) -> pa.Schema | None:
    if isinstance(schema, pa.Schema):
        return schema
    if hasattr(schema, "collect_schema"):  # a lazy frame of Polars
        schema = schema.collect_schema()
    if hasattr(schema, "__arrow_c_schema__"):
        return pa.schema(schema)
    if hasattr(schema, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(schema).schema
    found = getattr(schema, "schema", None)  # a pyarrow table, dataset or reader
    return found if isinstance(found, pa.Schema) else None


def _no_schema(schema: object) -> InvalidArgument:
    return InvalidArgument(
        f"{type(schema).__name__} describes no columns; give a pyarrow or Polars schema, SQL text such as "
        "'id BIGINT NOT NULL, name STRING', or a mapping of names to types"
    )
