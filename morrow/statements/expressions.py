"""Expressions of statements as sqlglot's trees: their columns, and the values of their subqueries."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from morrow.engine.errors import ColumnNotFound, InvalidArgument, MorrowError, Unsupported
from morrow.engine.plan.filter.deep import with_room
from morrow.queries.parameters import Node, literal
from morrow.statements.context import Context

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.engine.format.types import DataType

MOST_VALUES = 100_000
"""The most values of a subquery: they become a list in the condition."""


class LooksAtRows(Exception):
    """A subquery has no value of its own: it reads columns of the table that is changed, or has too many values."""

    def __init__(self, error: MorrowError) -> None:
        super().__init__(str(error))
        self.error = error
        """What is wrong with it where rows cannot be looked at."""


def holder_of(context: Context, text: str, what: str) -> Node:
    """Returns the tree of an expression below a node, so that any part of it can be replaced."""
    return exp.Paren(this=context.expression(text, what))


def text_of(holder: Node) -> str:
    return str(with_room(lambda: holder.this.sql(dialect=DuckDB), "", "the statement"))


def sql_of(context: Context, text: str, what: str) -> str:
    """Returns an expression as DuckDB writes it, with literals in the place of parameters."""
    return text_of(holder_of(context, text, what))


UTC = frozenset(
    ("UTC", "Etc/UTC", "UCT", "Etc/UCT", "GMT", "Etc/GMT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal")
)
INSTANTS = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.UnixToTime)
NOW = frozenset(("now", "get_current_timestamp", "transaction_timestamp", "make_timestamptz"))
COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def check_zone(context: Context, tree: Node, what: str, zoned: Collection[str], others: Collection[str] = ()) -> None:
    """Refuses an expression with instants where the session is not in UTC: a change would read it in UTC all the same.

    Instants that are only copied, or compared with each other, are alike in all time zones.

    Args:
        zoned: columns with instants. others: those without, of either side.
    """
    names = {name.lower() for name in zoned}
    sure = names - {name.lower() for name in others}
    kinds = exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ
    has_instant = (
        tree.find(*INSTANTS) is not None
        or any(node.this in kinds for node in tree.find_all(exp.DataType))
        or any(node.name.lower() in NOW for node in tree.find_all(exp.Anonymous))
    )
    used = (node for node in tree.find_all(exp.Identifier) if node.name.lower() in names)
    if not has_instant and all(_is_alike(node, sure) for node in used):
        return
    zone = context.zone()
    if zone not in UTC:
        hint = "SET TimeZone = 'UTC' in it, or pass no connection"
        raise Unsupported(f"{what}: a change by instants while the connection's TimeZone is {zone},", hint=hint)


def _is_alike(column: Node, instants: Collection[str]) -> bool:
    """Tells whether the place of a column with instants means the same in all time zones."""
    while isinstance(column.parent, (exp.Column, exp.Dot, exp.Paren)):
        column = column.parent
    parent = column.parent
    if isinstance(parent, COMPARED):
        sides = (parent.this.unnest(), parent.expression.unnest())
        return all(isinstance(s, (exp.Column, exp.Dot)) and s.output_name.lower() in instants for s in sides)
    return parent is None or isinstance(parent, exp.Is)


def has_instants(type: DataType | pa.DataType) -> bool:
    """Tells whether values of a type of Paimon's or Arrow's are, or contain, instants."""
    return re.search(r"LOCAL TIME ZONE|tz=", str(type)) is not None


def is_inside(node: Node, kind: type) -> bool:
    return node.find_ancestor(kind) is not None


def path_of(parts: Sequence[Node]) -> Node:
    first, *rest = (part.copy() for part in parts)
    column: Node = exp.Column(this=first)
    for part in rest:
        column = exp.Dot(this=column, expression=part)
    return column


def replace_subqueries(context: Context, tree: Node, what: str) -> None:
    """Puts the values of subqueries in their places. They are read once, as when the statement begins.

    Raises:
        LooksAtRows: it has no value of its own. InvalidArgument: more rows or columns than one.
    """
    while (node := tree.find(exp.Query)) is not None:
        parent = node.parent
        if isinstance(parent, exp.In) and parent.args.get("query") is not None:
            values = _values_of(context, node, what)
            parent.set("query", None)
            parent.set("expressions", [literal(value) for value in values] or [exp.null()])
            if not values:  # nothing is IN an empty list, not even null
                parent.replace(exp.Boolean(this=False))
        elif isinstance(parent, exp.Exists):
            rows = _rows(context, f"SELECT 1 FROM ({_sql(node)}) LIMIT 1")
            parent.replace(exp.Boolean(this=rows.num_rows > 0))
        elif isinstance(parent, (exp.Any, exp.All)):
            raise LooksAtRows(Unsupported(f"ANY and ALL of a subquery, {what}", hint="use IN, or MERGE INTO"))
        else:
            values = _values_of(context, node, what)
            if len(values) > 1:
                raise InvalidArgument(f"{what}: a subquery returns {len(values)} rows where one value is expected")
            node.replace(literal(values[0] if values else None))


def _sql(node: Node) -> str:
    inner = node.this if isinstance(node, exp.Subquery) and not node.alias else node
    return str(inner.sql(dialect=DuckDB))


def _rows(context: Context, query: str) -> pa.Table:
    """Returns the rows of a subquery. Raises `LooksAtRows` where it does not stand alone, or is wrong."""
    try:
        return context.rows(query)
    except (ColumnNotFound, InvalidArgument) as error:
        raise LooksAtRows(error) from error


def _values_of(context: Context, node: Node, what: str) -> list[object]:
    rows = _rows(context, _sql(node))
    if rows.num_columns != 1:
        raise InvalidArgument(f"{what}: a subquery returns {rows.num_columns} columns where one is expected")
    column = rows.column(0).unique() if rows.num_rows > 1 and isinstance(node.parent, exp.In) else rows.column(0)
    if len(column) > MOST_VALUES:
        raise LooksAtRows(Unsupported(f"a subquery of {len(column)} values, {what}", hint="use MERGE INTO"))
    return list(column.to_pylist())
