"""Changing a table's schema: ``t.alter.add_column("x", "INT")``, or several changes in one version by ``with``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, TypeAlias

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema.changes import (
    AddColumn,
    DropColumn,
    MoveColumn,
    Path,
    Place,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetDefault,
    SetNullable,
    SetOption,
    SetTableComment,
    SetType,
)
from morrow.engine.schema.columns import TypeLike, type_of
from morrow.engine.schema.committing import commit_changes
from morrow.engine.schema.creating import option_text
from morrow.engine.schema.defaults import default_text_of

ColumnPath: TypeAlias = "str | Sequence[str]"
"""A column (``"a"``), or a member inside one (``"a.b"``, ``("a", "b")``); ``element`` and ``value`` are those of
arrays and maps. Text with dots is one column if the table has it by that name."""


class Alteration:
    """Changes of one table's schema. Each method makes a new version of the schema, at once:

        t.alter.add_column("city", "STRING", after="name", comment="where they live")
        t.alter.set_options({"snapshot.num-retained.max": 20})

    Changes that belong together become one version, or nothing if one of them is refused:

        with t.alter() as a:
            a.rename_column("city", "town")
            a.set_type("amount", "BIGINT")

    Columns keep their identity through renames and moves, values there are are cast when they are read, and what
    Paimon refuses is refused. Whoever changes the schema at the same time goes before or after, never in between.

    Raises, by every method (in a batch: at its end):
        ColumnNotFound, AlreadyExists, InvalidArgument: a change that cannot be; nothing was changed.
        Unsupported: a type or an option that Morrow does not handle.
    """

    def __init__(self, metadata: TableMetadata, *, batch: bool = False) -> None:
        self._metadata = metadata
        self._pending: list[SchemaChange] | None = [] if batch else None

    def __call__(self, *changes: SchemaChange) -> Alteration:
        """Without changes: a batch for ``with``. With changes (`morrow.engine.schema.changes`): all in one version."""
        if not changes:
            return Alteration(self._metadata, batch=True)
        return self._do(*changes)

    # Columns

    def add_column(
        self,
        name: ColumnPath,
        type: TypeLike,
        *,
        first: bool = False,
        after: str | None = None,
        before: str | None = None,
        comment: str | None = None,
        default: object = None,
    ) -> Self:
        """A new column, last unless a place is given; null in the rows there are.

        Args:
            type: in SQL or pyarrow; it cannot be NOT NULL.
            default: the value for rows written from now on that do not give one.
        """
        path, data_type = self._path(name), type_of(type, _text(name))
        changes: list[SchemaChange] = [AddColumn(path, data_type, comment, _position(first, False, after, before))]
        if default is not None:
            changes.append(SetDefault(path, default_text_of(default, _text(name))))
        return self._do(*changes)

    def drop_column(self, name: ColumnPath) -> Self:
        """No more column of this name; one that is added later under the name is another one."""
        return self._do(DropColumn(self._path(name)))

    def rename_column(self, name: ColumnPath, new_name: str) -> Self:
        """Another name for a column; keys and options that name it follow."""
        return self._do(RenameColumn(self._path(name), new_name))

    def move_column(
        self,
        name: str,
        *,
        first: bool = False,
        last: bool = False,
        after: str | None = None,
        before: str | None = None,
    ) -> Self:
        """Another place for a column."""
        position = _position(first, last, after, before)
        if position is None:
            raise InvalidArgument(f"where to does {name!r} move? Give first=True, last=True, after= or before=")
        return self._do(MoveColumn(self._path(name), position))

    def set_type(self, name: ColumnPath, type: TypeLike) -> Self:
        """Another type; nullability stays, unless the SQL text says NOT NULL."""
        data_type = type_of(type, _text(name))
        return self._do(SetType(self._path(name), data_type, keep_nullability=data_type.nullable))

    widen = set_type

    def set_nullable(self, name: ColumnPath, nullable: bool) -> Self:
        """Whether nulls are allowed. NOT NULL needs the option ``alter-column-null-to-not-null.disabled`` = false."""
        return self._do(SetNullable(self._path(name), nullable))

    def set_comment(self, name: ColumnPath, comment: str | None) -> Self:
        """The comment of a column, None for none."""
        return self._do(SetComment(self._path(name), comment))

    def set_default(self, name: str, value: object) -> Self:
        """The value for rows written from now on that do not give one, None for none."""
        return self._do(SetDefault(self._path(name), None if value is None else default_text_of(value, name)))

    # The table

    def set_options(self, options: Mapping[str, object]) -> Self:
        """Set options; numbers and booleans are taken."""
        where = self._metadata.where
        return self._do(*(SetOption(key, option_text(key, value, where)) for key, value in options.items()))

    def unset_options(self, *keys: str) -> Self:
        """Put options back to their defaults."""
        return self._do(*(RemoveOption(key) for key in keys))

    def set_table_comment(self, comment: str | None) -> Self:
        """What the table is for, None for nothing."""
        return self._do(SetTableComment(comment))

    # Batches

    def __enter__(self) -> Self:
        if self._pending is None:
            raise InvalidArgument("a batch of changes is t.alter(), with its brackets: with t.alter() as a: ...")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pending, self._pending = self._pending or [], []
        if kind is None and pending:
            commit_changes(self._metadata, pending)

    def __repr__(self) -> str:
        pending = "" if self._pending is None else f", {len(self._pending)} changes pending"
        return f"Alteration({self._metadata.where}{pending})"

    def _do(self, *changes: SchemaChange) -> Self:
        if self._pending is not None:
            self._pending += changes
        elif changes:
            commit_changes(self._metadata, changes)
        return self

    def _path(self, name: ColumnPath) -> Path:
        """Text with dots is the path of a member, unless there is a column of that very name."""
        if not isinstance(name, str):
            path = tuple(name)
            if not path or not all(isinstance(part, str) for part in path):
                raise InvalidArgument(f"{name!r} is no path of a column; write 'a', 'a.b' or ('a', 'b')")
            return path
        schema: TableSchema = self._metadata.latest_schema()
        return (name,) if name in schema.by_name else tuple(name.split("."))


def _text(name: ColumnPath) -> str:
    return name if isinstance(name, str) else ".".join(name)


def _position(first: bool, last: bool, after: str | None, before: str | None) -> Position | None:
    given = [
        *([Position(Place.FIRST)] if first else []),
        *([Position(Place.LAST)] if last else []),
        *([Position(Place.AFTER, after)] if after is not None else []),
        *([Position(Place.BEFORE, before)] if before is not None else []),
    ]
    if len(given) > 1:
        raise InvalidArgument("a column has one place: give one of first, last, after and before")
    return given[0] if given else None
