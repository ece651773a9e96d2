"""``write.merge-schema``: columns of written rows are added to the table before the write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from morrow.engine.errors import AlreadyExists, CommitConflict, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.options.declared.connectors import WRITE_MERGE_SCHEMA_EXPLICIT_CAST
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.sections import decode_key_bounds
from morrow.engine.schema.schema_changes import AddColumn, Path, SchemaChange, SetType, can_cast, format_path
from morrow.spark.types import drop_not_null
from morrow.tables.alteration import Alteration

MAX_TRIES = 10
"""The maximum attempts to add columns while others change the schema."""


@dataclass(frozen=True)
class Evolution:
    """The changes that a write may make to the table's columns, besides adding columns.

    Args:
        widens: change a column to the data's type if this type can hold all old values (``type-widening``).
        casts: change it even if casts may lose values (``explicit-cast``).
    """

    widens: bool = False
    casts: bool = False


def extend_schema(metadata: TableMetadata, columns: Sequence[t.DataField], how: Evolution) -> None:
    """Add missing columns, and members of columns, to the table, nullable and at the end, and change types.

    Other types stay unchanged: written values are cast to them, or refused.

    `columns`: the columns of the data, under the table's names if the table has them.

    Raises:
        Unsupported: a type that cannot be changed to the data's. InvalidArgument: a type that would lose stored
            values. Others: as `Alteration`.
    """
    for _ in range(MAX_TRIES):
        changes = find_changes(metadata, columns, how)
        _check_keys(metadata, [change for change in changes if isinstance(change, SetType)])
        try:
            if changes:
                Alteration(metadata)(*changes)
            return
        except AlreadyExists:  # another process has added the column meanwhile
            continue
    raise CommitConflict(f"{metadata.where}: others change the schema all the time; try again later")


def _check_keys(metadata: TableMetadata, changes: Sequence[SetType]) -> None:
    """Check that metadata and buckets of wider key columns stay valid: the bytes of negative integers would change.

    Raises `Unsupported`: a key column has a negative integer.
    """
    schema = metadata.latest_schema()
    keys = schema.trimmed_primary_keys if schema.primary_keys else ()
    wider = [each.path[0] for each in changes if len(each.path) == 1 and each.path[0] in keys]
    snapshot = metadata.latest_snapshot() if wider else None
    if snapshot is None:
        return
    bounds = decode_key_bounds(metadata, schema, read_live_entries(metadata, snapshot, schema).frame)
    for name, found in zip(keys, bounds, strict=True):
        least = found.min() if name in wider and found.dtype.is_integer() else None
        if isinstance(least, int) and least < 0:
            raise Unsupported(
                f"widening the key column {name!r}, which has negative values,",
                where=metadata.where,
                hint="cast the data, or create a table with the wider type",
            )


def find_changes(metadata: TableMetadata, columns: Sequence[t.DataField], how: Evolution) -> list[SchemaChange]:
    """Return the schema changes that `extend_schema` would make. Raises as `extend_schema`."""
    known = metadata.latest_schema().by_name
    changes: list[SchemaChange] = []
    for column in drop_not_null(columns):
        if column.name in known:
            changes += _merge_types((column.name,), known[column.name].type, column.type, how, metadata.where)
        else:
            changes.append(AddColumn((column.name,), column.type, column.description))
    return changes


def _merge_types(
    path: Path, stored: t.DataType, data: t.DataType, how: Evolution, where: str
) -> Iterator[SchemaChange]:
    if isinstance(stored, t.RowType) and isinstance(data, t.RowType):
        members = {field.name: field.type for field in stored.fields}
        for number, field in enumerate(data.fields, 1):
            inner = (*path, field.name)
            if field.name in members:
                yield from _merge_types(inner, members[field.name], field.type, how, where)
            elif field.name == f"col{number}":
                raise InvalidArgument(
                    f"{where}: {format_path(inner)} is a name that Spark has made up for a value of struct(...); "
                    "name the "
                    "members by named_struct(...)"
                )
            else:
                yield AddColumn(inner, field.type, field.description)
    elif isinstance(stored, t.ArrayType) and isinstance(data, t.ArrayType):
        yield from _merge_types((*path, "element"), stored.element, data.element, how, where)
    elif isinstance(stored, t.MapType) and isinstance(data, t.MapType):
        yield from _merge_types((*path, "value"), stored.value, data.value, how, where)
    elif (how.widens or how.casts) and stored.text() != data.text():
        wanted = _widen_type(path, stored, data, how, where)
        if wanted.text() != stored.text():
            lossy = how.casts and not isinstance(stored, (t.CharType, t.VarCharType))
            yield SetType(path, wanted.with_nullable(stored.nullable), lossy=lossy, widens_keys=True)


def _widen_type(path: Path, stored: t.DataType, data: t.DataType, how: Evolution, where: str) -> t.DataType:
    """Return the type of a column that will hold these data: with explicit casts their type, as in Paimon, otherwise
    its own type if it can hold them."""
    if isinstance(stored, t.DecimalType) and isinstance(data, t.DecimalType):
        if stored.scale == data.scale:
            return max(stored, data, key=lambda kind: kind.precision)
    elif stored.keyword == data.keyword:
        return max(stored, data, key=_size)
    elif how.casts and can_cast(stored, data, explicit=True):
        return data
    elif can_cast(data, stored, explicit=False):
        return stored
    elif can_cast(stored, data, explicit=False):
        return data
    is_cast = not how.casts and can_cast(stored, data, explicit=True)
    hint = f"cast the data, or set {WRITE_MERGE_SCHEMA_EXPLICIT_CAST}" if is_cast else "cast the data"
    raise Unsupported(f"changing {format_path(path)} from {stored} to the data's {data}", where=where, hint=hint)


def _size(kind: t.DataType) -> int:
    return int(getattr(kind, "length", getattr(kind, "precision", 0)))
