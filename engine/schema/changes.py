"""Schema changes as values: each is one step, and a list of them makes one new version.

A path names a column, followed by members inside it: ``("a", "b")`` is member b of the row in column a; the elements
of an array are ``element``, the values of a map ``value``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from morrow.engine.format.types import DataType

Path: TypeAlias = "tuple[str, ...]"


class Place(StrEnum):
    """The position of a column relative to others."""

    FIRST = "first"
    LAST = "last"
    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True)
class Position:
    """A place, with the neighbour for `Place.AFTER` and `Place.BEFORE`."""

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
    """A new column or member, null in all existing rows. Without a position it goes last."""

    type: DataType
    comment: str | None = None
    position: Position | None = None


@dataclass(frozen=True)
class DropColumn(ColumnChange):
    """The removal of a column or member; its values stay in the files, unread."""


@dataclass(frozen=True)
class RenameColumn(ColumnChange):
    """A new name for the same column: options that name it follow."""

    new_name: str


@dataclass(frozen=True)
class MoveColumn(ColumnChange):
    """A new position in the order of the columns."""

    position: Position


@dataclass(frozen=True)
class SetType(ColumnChange):
    """A new type: existing values are cast when they are read. Nullability stays if `keep_nullability`.

    `lossy`: also where the new type does not keep the values that rows have.
    """

    type: DataType
    keep_nullability: bool = True
    lossy: bool = False


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
    """The text of a new default value, or none: for rows written from now on."""

    default: str | None


@dataclass(frozen=True)
class SetOption(SchemaChange):
    """The setting of an option."""

    key: str
    value: str


@dataclass(frozen=True)
class RemoveOption(SchemaChange):
    """The removal of an option: its default applies."""

    key: str


@dataclass(frozen=True)
class SetTableComment(SchemaChange):
    """A new comment of the table, or none."""

    comment: str | None
