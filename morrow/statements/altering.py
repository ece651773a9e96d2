"""ALTER TABLE: changes of columns, comments and options, as one version of the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.schema.changes import (
    AddColumn,
    DropColumn,
    MoveColumn,
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
from morrow.engine.schema.defaults import checked_default
from morrow.engine.schema.sql import Column, parse_columns, parse_type
from morrow.statements.context import Context
from morrow.statements.rows import column_named
from morrow.statements.statement import Name, shown_name
from morrow.statements.table_statements import AlterChange, AlterTable

if TYPE_CHECKING:
    import duckdb

    from morrow.engine.format.schema import TableSchema

ANY_NAME = "x"
"""The name of a column whose definition is parsed alone."""


def alter_table(context: Context, statement: AlterTable) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    schema = table._newest
    changes = [
        change
        for told in statement.changes
        if not _is_done(told, schema)
        for change in _CHANGES[told.verb](told, schema)
    ]
    if changes:
        table.alter(*changes)
    deed = "altered" if changes else "left"
    return context.did(f"{deed} the table {context.full_name(statement.table)}, schema {table._newest.id}")


def _is_done(told: AlterChange, schema: TableSchema) -> bool:
    """Returns whether DROP COLUMN IF EXISTS finds none."""
    return told.if_exists and told.path[0].lower() not in {name.lower() for name in schema.by_name}


def _path(path: Name, schema: TableSchema) -> Name:
    """Returns a path whose first part is a column of the table, in the case that the table has."""
    return (column_named(path[0], schema).name, *path[1:])


def _added(told: AlterChange, schema: TableSchema) -> list[SchemaChange]:
    assert told.new is not None  # of ADD COLUMN
    column = _definition(told.new.definition, told.path)
    path = told.path if len(told.path) == 1 else _path(told.path, schema)
    added: list[SchemaChange] = [AddColumn(path, column.type, column.comment, _position(told.new.after))]
    if column.default is not None:
        if len(path) > 1:
            raise Unsupported(f"a default value of {shown_name(path)}, which is a member of a column,")
        added.append(SetDefault(path, checked_default(column.type, column.default, path[0])))
    return added


def _definition(text: str, path: Name) -> Column:
    """Parses a type with what may follow it: NOT NULL, COMMENT, DEFAULT."""
    found = parse_columns(f"{ANY_NAME} {text}", only=ANY_NAME)
    if found.primary_keys:
        raise Unsupported(f"a primary key added by ALTER TABLE ({shown_name(path)})")
    return found.columns[0]


def _position(after: str | None) -> Position | None:
    if after is None:
        return None
    return Position(Place.AFTER, after) if after else Position(Place.FIRST)


def _moved(told: AlterChange, schema: TableSchema) -> list[SchemaChange]:
    position = _position(told.value)
    assert position is not None  # FIRST or AFTER
    return [MoveColumn(_path(told.path, schema), position)]


def _typed(told: AlterChange, schema: TableSchema) -> list[SchemaChange]:
    kind = parse_type(told.value or "", shown_name(told.path))
    return [SetType(_path(told.path, schema), kind, keep_nullability=kind.nullable)]


def _defaulted(told: AlterChange, schema: TableSchema) -> list[SchemaChange]:
    path = _path(told.path, schema)
    if len(path) > 1:
        raise Unsupported(f"a default value of {shown_name(path)}, which is a member of a column,")
    if told.value is None:
        return [SetDefault(path, None)]
    text = _definition(f"STRING DEFAULT {told.value}", path).default
    if text is None:
        return [SetDefault(path, None)]
    return [SetDefault(path, checked_default(schema.column(path[0]).type, text, path[0]))]


def _option(told: AlterChange, _schema: TableSchema) -> list[SchemaChange]:
    if told.value is None:
        raise InvalidArgument(f"the option {told.path[0]!r} needs a value")
    return [SetOption(told.path[0], told.value)]


_CHANGES: Mapping[str, Callable[[AlterChange, TableSchema], list[SchemaChange]]] = {
    "set option": _option,
    "unset option": lambda told, _: [RemoveOption(told.path[0])],
    "set table comment": lambda told, _: [SetTableComment(told.value)],
    "add column": _added,
    "drop column": lambda told, schema: [DropColumn(_path(told.path, schema))],
    "rename column": lambda told, schema: [RenameColumn(_path(told.path, schema), told.value or "")],
    "set type": _typed,
    "set comment": lambda told, schema: [SetComment(_path(told.path, schema), told.value)],
    "set default": _defaulted,
    "set not null": lambda told, schema: [SetNullable(_path(told.path, schema), False)],
    "drop not null": lambda told, schema: [SetNullable(_path(told.path, schema), True)],
    "move column": _moved,
}
"""By the verb of a change."""
