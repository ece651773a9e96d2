"""Schema changes as values, changes of fields and types at a path, and the casts that are allowed.

Each change is one step, and a list of changes results in one new version of the schema.

A path names a column, followed by members inside it: ``("a", "b")`` is member b of the row in column a. The elements
of an array are ``element``, the values of a map ``value``.

The casts of Paimon 1.4.2 are listed as a table: a rule must allow the cast and code for it must exist. Nested types
change by their members only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.types import ArrayType, DataField, DataType, MapType, RowType, VarCharType
from morrow.engine.redaction import suggest_name
from morrow.engine.structs import replace

Path: TypeAlias = "tuple[str, ...]"


class Place(StrEnum):
    """The position of a column relative to others."""

    FIRST = "first"
    LAST = "last"
    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True)
class Position:
    """Where to put a column; `neighbour` is the column next to it, for `Place.AFTER` and `Place.BEFORE`."""

    place: Place
    neighbour: str | None = None


@dataclass(frozen=True)
class SchemaChange:
    """Base of all changes."""


@dataclass(frozen=True)
class ColumnChange(SchemaChange):
    """A change of the column or member at `path`."""

    path: Path


@dataclass(frozen=True)
class AddColumn(ColumnChange):
    """A new column or member, null in all existing rows. Without a position it is added last."""

    type: DataType
    comment: str | None = None
    position: Position | None = None


@dataclass(frozen=True)
class DropColumn(ColumnChange):
    """The removal of a column or member; its values remain in the files but are not read."""


@dataclass(frozen=True)
class RenameColumn(ColumnChange):
    """A new name for the same column. Options that name it are updated."""

    new_name: str


@dataclass(frozen=True)
class MoveColumn(ColumnChange):
    """A new position in the order of the columns."""

    position: Position


@dataclass(frozen=True)
class SetType(ColumnChange):
    """A new type: existing values are cast when they are read. Nullability stays if `keep_nullability`.

    `lossy`: the change is allowed even if the new type cannot hold all existing values. `widens_keys`: columns of the
    primary key and the bucket key may get wider types, too, whose values hash as before.
    """

    type: DataType
    keep_nullability: bool = True
    lossy: bool = False
    widens_keys: bool = False


@dataclass(frozen=True)
class SetNullable(ColumnChange):
    """A change of nullability."""

    nullable: bool


@dataclass(frozen=True)
class SetComment(ColumnChange):
    """A new comment, or none."""

    comment: str | None


@dataclass(frozen=True)
class SetDefault(ColumnChange):
    """The text of a new default value for rows written from now on, or none."""

    default: str | None


@dataclass(frozen=True)
class SetOption(SchemaChange):
    """The setting of an option."""

    key: str
    value: str


@dataclass(frozen=True)
class RemoveOption(SchemaChange):
    """The removal of an option: its default applies again."""

    key: str


@dataclass(frozen=True)
class SetTableComment(SchemaChange):
    """A new comment of the table, or none."""

    comment: str | None


Fields: TypeAlias = "tuple[DataField, ...]"

ELEMENT, KEY, VALUE = "element", "key", "value"


def replace_fields(fields: Fields, parent: Path, change: Callable[[Fields], Fields]) -> Fields:
    """Return the columns with the members directly in `parent` changed (the columns themselves, if it is empty).

    Raises `ColumnNotFound`: no such column or member. `InvalidArgument`: `parent` is not a row.
    """
    if not parent:
        return change(fields)

    def in_row(data_type: DataType) -> DataType:
        if not isinstance(data_type, RowType):
            raise InvalidArgument(f"{format_path(parent)} is {data_type}, which has no members")
        return replace(data_type, fields=change(data_type.fields))

    return replace_type(fields, parent, in_row)


def replace_field(fields: Fields, path: Path, change: Callable[[DataField], DataField]) -> Fields:
    """Return the columns with the column or member at `path` changed. Raises as `replace_fields`."""

    def one(members: Fields) -> Fields:
        place = find_index(members, path)
        return (*members[:place], change(members[place]), *members[place + 1 :])

    return replace_fields(fields, path[:-1], one)


def replace_type(fields: Fields, path: Path, change: Callable[[DataType], DataType]) -> Fields:
    """Return the columns with the type at `path` changed, which may be that of elements or map values.

    Raises `ColumnNotFound`: no such column or member. `Unsupported`: the keys of a map.
    """
    place = find_index(fields, path[:1])
    field = fields[place]
    changed = replace(field, type=_replace_type_at(field.type, path, 1, change))
    return (*fields[:place], changed, *fields[place + 1 :])


def _replace_type_at(data_type: DataType, path: Path, depth: int, change: Callable[[DataType], DataType]) -> DataType:
    if depth == len(path):
        return change(data_type)
    name = path[depth]
    if isinstance(data_type, ArrayType) and name == ELEMENT:
        return replace(data_type, element=_replace_type_at(data_type.element, path, depth + 1, change))
    if isinstance(data_type, MapType) and name == VALUE:
        return replace(data_type, value=_replace_type_at(data_type.value, path, depth + 1, change))
    if isinstance(data_type, MapType) and name == KEY:
        raise Unsupported(f"a change of the keys of {format_path(path[:depth])}", hint="make a new column")
    if isinstance(data_type, RowType):
        place = find_index(data_type.fields, path[: depth + 1])
        member = data_type.fields[place]
        changed = replace(member, type=_replace_type_at(member.type, path, depth + 1, change))
        return replace(data_type, fields=(*data_type.fields[:place], changed, *data_type.fields[place + 1 :]))
    raise ColumnNotFound(f"there is no column {format_path(path)}: {format_path(path[:depth])} is {data_type}")


def find_type(fields: Fields, path: Path) -> DataType:
    """Return the type at `path`. Raises as `replace_type`."""
    found: list[DataType] = []

    def note(data_type: DataType) -> DataType:
        found.append(data_type)
        return data_type

    replace_type(fields, path, note)
    return found[0]


def find_index(fields: Fields, path: Path) -> int:
    """Return the index of the field that the last segment of `path` names. Raises `ColumnNotFound`."""
    names = [field.name for field in fields]
    if path[-1] not in names:
        raise ColumnNotFound(
            f"there is no column {format_path(path)}; {suggest_name(path[-1], names)}there are {', '.join(names)}"
        )
    return names.index(path[-1])


def format_path(path: Path) -> str:
    """Format a path for messages."""
    return repr(".".join(path))


TEXTS = "CHAR VARCHAR"
BYTES = "BINARY VARBINARY"
INTEGERS = "TINYINT SMALLINT INT BIGINT"
NUMBERS = f"{INTEGERS} DECIMAL FLOAT DOUBLE"
NESTED = "ARRAY MAP ROW"

WIDENING: Mapping[str, str] = {
    "CHAR": "CHAR",
    "VARCHAR": TEXTS,
    "BINARY": "BINARY",
    "VARBINARY": BYTES,
    "DECIMAL": NUMBERS,
    "TINYINT": "TINYINT",
    "SMALLINT": "TINYINT SMALLINT",
    "INT": "TINYINT SMALLINT INT",
    "BIGINT": INTEGERS,
    "FLOAT": f"{INTEGERS} DECIMAL FLOAT",
    "DOUBLE": NUMBERS,
    "DATE": "TIMESTAMP",
    "TIME": "TIMESTAMP",
    "TIMESTAMP": "TIMESTAMP TIMESTAMP_LTZ",
    "TIMESTAMP_LTZ": "TIMESTAMP TIMESTAMP_LTZ",
}
"""Target -> sources, always allowed."""

EXPLICIT: Mapping[str, str] = {
    "CHAR": f"{TEXTS} BOOLEAN {BYTES} {NUMBERS} {NESTED}",
    "VARCHAR": f"BOOLEAN {BYTES} {NUMBERS} {NESTED}",
    "BOOLEAN": f"{TEXTS} {INTEGERS}",
    "BINARY": f"{TEXTS} {BYTES}",
    "VARBINARY": TEXTS,
    "DECIMAL": f"{TEXTS} BOOLEAN",
    "TINYINT": f"{TEXTS} BOOLEAN {NUMBERS}",
    "SMALLINT": f"{TEXTS} BOOLEAN {NUMBERS}",
    "INT": f"{TEXTS} BOOLEAN {NUMBERS} TIMESTAMP TIMESTAMP_LTZ",
    "BIGINT": f"{TEXTS} BOOLEAN {NUMBERS} TIMESTAMP TIMESTAMP_LTZ",
    "FLOAT": f"{TEXTS} BOOLEAN {NUMBERS}",
    "DOUBLE": f"{TEXTS} BOOLEAN",
    "DATE": f"{TEXTS} TIMESTAMP_LTZ",
    "TIME": f"{TEXTS} TIMESTAMP_LTZ",
    "TIMESTAMP": f"{TEXTS} INT BIGINT DATE TIME",
    "TIMESTAMP_LTZ": f"{TEXTS} INT BIGINT DATE TIME",
}
"""Target -> sources, allowed unless the option ``disable-explicit-type-casting`` is on."""

TO_STRING = "DATE TIME TIMESTAMP TIMESTAMP_LTZ"
"""Types that can only be cast to a nullable STRING: Java cannot cast them to text of limited length or NOT NULL."""


def can_cast(source: DataType, target: DataType, *, explicit: bool) -> bool:
    """Return whether a column of type `source` may become `target`; nullability is not considered."""
    if source.text() == target.text():
        return True
    if explicit and source.keyword in TO_STRING.split() and target.keyword == VarCharType.keyword:
        return target == VarCharType()
    allowed = WIDENING.get(target.keyword, "").split()
    if explicit:
        allowed += EXPLICIT.get(target.keyword, "").split()
    return source.keyword in allowed
