"""Changes of fields and types at a path: everything around them stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.types import ArrayType, DataField, DataType, MapType, RowType
from morrow.engine.schema.changes import Path
from morrow.engine.telling import did_you_mean
from morrow.engine.values import replace

Fields: TypeAlias = "tuple[DataField, ...]"

ELEMENT, KEY, VALUE = "element", "key", "value"


def with_fields(fields: Fields, parent: Path, change: Callable[[Fields], Fields]) -> Fields:
    """Returns the columns with the members directly in `parent` changed (the columns themselves, if it is empty).

    Raises:
        ColumnNotFound: no such column or member. InvalidArgument: `parent` has no members.
    """
    if not parent:
        return change(fields)

    def in_row(data_type: DataType) -> DataType:
        if not isinstance(data_type, RowType):
            raise InvalidArgument(f"{shown(parent)} is {data_type}, which has no members")
        return replace(data_type, fields=change(data_type.fields))

    return with_type(fields, parent, in_row)


def with_field(fields: Fields, path: Path, change: Callable[[DataField], DataField]) -> Fields:
    """Returns the columns with the column or member at `path` changed. Raises as `with_fields`."""

    def one(members: Fields) -> Fields:
        place = index_of(members, path)
        return (*members[:place], change(members[place]), *members[place + 1 :])

    return with_fields(fields, path[:-1], one)


def with_type(fields: Fields, path: Path, change: Callable[[DataType], DataType]) -> Fields:
    """Returns the columns with the type at `path` changed, which may be that of elements or map values.

    Raises:
        ColumnNotFound: no such column or member. Unsupported: the keys of a map.
    """
    place = index_of(fields, path[:1])
    field = fields[place]
    changed = replace(field, type=_type_at(field.type, path, 1, change))
    return (*fields[:place], changed, *fields[place + 1 :])


def _type_at(data_type: DataType, path: Path, depth: int, change: Callable[[DataType], DataType]) -> DataType:
    if depth == len(path):
        return change(data_type)
    name = path[depth]
    if isinstance(data_type, ArrayType) and name == ELEMENT:
        return replace(data_type, element=_type_at(data_type.element, path, depth + 1, change))
    if isinstance(data_type, MapType) and name == VALUE:
        return replace(data_type, value=_type_at(data_type.value, path, depth + 1, change))
    if isinstance(data_type, MapType) and name == KEY:
        raise Unsupported(f"a change of the keys of {shown(path[:depth])}", hint="make a new column")
    if isinstance(data_type, RowType):
        place = index_of(data_type.fields, path[: depth + 1])
        member = data_type.fields[place]
        changed = replace(member, type=_type_at(member.type, path, depth + 1, change))
        return replace(data_type, fields=(*data_type.fields[:place], changed, *data_type.fields[place + 1 :]))
    raise ColumnNotFound(f"there is no column {shown(path)}: {shown(path[:depth])} is {data_type}")


def type_at(fields: Fields, path: Path) -> DataType:
    """Returns the type at `path`. Raises as `with_type`."""
    found: list[DataType] = []

    def note(data_type: DataType) -> DataType:
        found.append(data_type)
        return data_type

    with_type(fields, path, note)
    return found[0]


def index_of(fields: Fields, path: Path) -> int:
    """Returns the index of the field that the last segment of `path` names. Raises `ColumnNotFound`."""
    names = [field.name for field in fields]
    if path[-1] not in names:
        raise ColumnNotFound(
            f"there is no column {shown(path)}; {did_you_mean(path[-1], names)}there are {', '.join(names)}"
        )
    return names.index(path[-1])


def shown(path: Path) -> str:
    """Formats a path for messages."""
    return repr(".".join(path))
