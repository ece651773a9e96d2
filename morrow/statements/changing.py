"""UPDATE, DELETE and TRUNCATE, by the methods of `Table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import RowType
from morrow.engine.telling import did_you_mean
from morrow.readers.expressions.sql import quote_identifier
from morrow.statements.context import Context
from morrow.statements.expressions import (
    LooksAtRows,
    check_zone,
    has_instants,
    holder_of,
    is_inside,
    path_of,
    replace_subqueries,
    sql_of,
    text_of,
)
from morrow.statements.joined import delete_joined, update_joined
from morrow.statements.row_statements import Delete, Update
from morrow.statements.rows import column_named, counted, default_of
from morrow.statements.statement import Name, shown_name
from morrow.statements.table_statements import Truncate
from morrow.writers.commit.tally import Operation, tallied

if TYPE_CHECKING:
    import duckdb


DEFAULT = "DEFAULT"


# UPDATE and DELETE


def delete(context: Context, statement: Delete) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    with tallied(Operation.DELETE) as tally:
        try:
            where = condition_of(context, statement, table._newest)
        except LooksAtRows:
            snapshot = delete_joined(context, statement, table)
        else:
            snapshot = table.truncate() if where is None else table.delete(where)
    return counted(context, snapshot, 0, 0, 0 if snapshot is None else tally.deleted)


def update(context: Context, statement: Update) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    names, schema = _names(statement.table, statement.alias), table._newest
    with tallied(Operation.UPDATE) as tally:
        try:
            where = condition_of(context, statement, schema)
            values = _assignments(statement.set, schema, names, partial(_value, context, names=names, schema=schema))
        except LooksAtRows:
            value = partial(sql_of, context)
            snapshot = update_joined(context, statement, table, _assignments(statement.set, schema, names, value))
        else:
            snapshot = table.update(values, where)
    return counted(context, snapshot, 0, 0 if snapshot is None else tally.updated, 0)


def truncate(context: Context, statement: Truncate) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    if statement.partition is None:
        snapshot = table.truncate()
    else:
        snapshot = table.drop_partition(context.partition(statement.partition, "PARTITION"))
    return counted(context, snapshot, 0, 0, None)


def _names(table: Name, alias: str | None) -> set[str]:
    """Returns what may stand in front of a column of the table, in lower case."""
    return {(alias or table[-1]).lower()}


def _assignments(
    given: Sequence[tuple[Name, str]], schema: TableSchema, names: set[str], value_of: Callable[[str, str], str]
) -> dict[str, str]:
    """Returns SQL by the columns that an UPDATE sets; `value_of` makes it of an expression and what that is for."""
    found: dict[str, str] = {}
    members: dict[str, dict[tuple[str, ...], str]] = {}
    for path, text in given:
        path = path[1:] if len(path) > 1 and path[0].lower() in names and path[0] not in schema.by_name else path
        field = column_named(path[0], schema)
        value = default_of(field) if text.upper() == DEFAULT else value_of(text, f"set {field.name}")
        if len(path) == 1:
            if field.name in found or field.name in members:
                raise InvalidArgument(f"UPDATE: the column {field.name!r} is set twice")
            found[field.name] = value
            continue
        below = members.setdefault(field.name, {})
        if field.name in found or path[1:] in below:
            raise InvalidArgument(f"UPDATE: {shown_name(path)} is set twice")
        below[path[1:]] = value
    for name, below in members.items():
        kind = schema.by_name[name].type
        if not isinstance(kind, RowType):
            raise InvalidArgument(f"UPDATE: {name!r} is no ROW, and has no members to set")
        found[name] = _with_members(quote_identifier(name), kind, below)
    return found


def _with_members(row: str, kind: RowType, given: Mapping[tuple[str, ...], str]) -> str:
    """Returns a row with new values of some of its members."""
    known = {field.name for field in kind.fields}
    for path in given:
        if path[0] not in known:
            hint = did_you_mean(path[0], known)
            raise ColumnNotFound(f"UPDATE: {row} has no member {path[0]!r}; {hint}it has {', '.join(sorted(known))}")
    parts = []
    for field in kind.fields:
        mine = {path[1:]: value for path, value in given.items() if path[0] == field.name}
        name = quote_identifier(field.name)
        member = f"{row}.{name}"
        if () in mine:
            value = mine[()]
        elif mine and isinstance(field.type, RowType):
            value = _with_members(member, field.type, mine)
        elif mine:
            raise InvalidArgument(f"UPDATE: {member} is no ROW, and has no members to set")
        else:
            value = member
        parts.append(f"{name} := {value}")
    return f"struct_pack({', '.join(parts)})"


def condition_of(context: Context, statement: Delete | Update, schema: TableSchema) -> str | None:
    """Returns the condition of a statement as a filter; None without one. Raises `LooksAtRows`."""
    names = _names(statement.table, statement.alias)
    if statement.source is not None:
        raise LooksAtRows(Unsupported(f"{statement.kind} that joins {statement.source}"))
    return None if statement.where is None else _value(context, statement.where, "WHERE", names, schema)


def _value(context: Context, text: str, what: str, names: set[str], schema: TableSchema) -> str:
    """Returns an expression over the columns of one table, with the values of its subqueries."""
    tree = holder_of(context, text, what)
    for column in list(tree.find_all(exp.Column)):
        parts = [part.name for part in column.parts]
        if len(parts) > 1 and parts[-2].lower() in names and not is_inside(column, exp.Query):
            column.set("db", None)
            column.set("table", None)
        elif len(parts) > 2 and parts[0].lower() in names and not is_inside(column, exp.Query):
            column.replace(path_of(column.parts[1:]))
    replace_subqueries(context, tree, what)
    check_zone(context, tree, what, [field.name for field in schema.fields if has_instants(field.type)])
    return text_of(tree)
