"""Changes of a schema, as values: each is one step, and a list of them becomes one new version.

A path names a column, then members inside it: ``("a", "b")`` is member b of the row in column a; the elements of an
array are ``element``, the values of a map ``value``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from morrow.engine.format.types import DataType

Path: TypeAlias = "tuple[str, ...]"


class Place(StrEnum):
    """Where a column goes among its neighbours."""

    FIRST = "first"
    LAST = "last"
    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True)
class Position:
    """A place, with the neighbour that `Place.AFTER` and `Place.BEFORE` name."""

    place: Place
    neighbour: str | None = None


@dataclass(frozen=True)
class SchemaChange:
    """Base of all changes."""


@dataclass(frozen=True)
class ColumnChange(SchemaChange):
    """A change of what `path` names."""

    path: Path


@dataclass(frozen=True)
class AddColumn(ColumnChange):
    """A new column or member, null in all rows there are. Without a position it goes last."""

    type: DataType
    comment: str | None = None
    position: Position | None = None


@dataclass(frozen=True)
class DropColumn(ColumnChange):
    """No more column or member of this name; its values stay in the files, unread."""


@dataclass(frozen=True)
class RenameColumn(ColumnChange):
    """Another name for the same column: options that name it follow."""

    new_name: str


@dataclass(frozen=True)
class MoveColumn(ColumnChange):
    """Another place in the order of the columns."""

    position: Position


@dataclass(frozen=True)
class SetType(ColumnChange):
    """Another type: values there are get cast when they are read. Nullability stays if `keep_nullability`."""

    type: DataType
    keep_nullability: bool = True


@dataclass(frozen=True)
class SetNullable(ColumnChange):
    """Whether nulls are allowed."""

    nullable: bool


@dataclass(frozen=True)
class SetComment(ColumnChange):
    """Another comment, or none."""

    comment: str | None


@dataclass(frozen=True)
class SetDefault(ColumnChange):
    """The text of another default value, or none: for rows written from now on."""

    default: str | None


@dataclass(frozen=True)
class SetOption(SchemaChange):
    """An option set."""

    key: str
    value: str


@dataclass(frozen=True)
class RemoveOption(SchemaChange):
    """An option unset: its default counts."""

    key: str


@dataclass(frozen=True)
class SetTableComment(SchemaChange):
    """Another comment of the table, or none."""

    comment: str | None
