"""Expressions of a statement whose names are those of a table, as `delete`, `update` and `merge` take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.spark.statements.text import Statement, requalified
from morrow.spark.writing.assigning import default_of
from morrow.writers.operations.merge_clauses import SOURCE, TARGET
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column

    from morrow.tables.table import Table

DEFAULT = "DEFAULT"


def assignments(
    words: Statement,
    table: Table,
    told: Callable[[str], str],
    path: tuple[str, ...],
    alias: str | None,
    ends: tuple[str, ...],
) -> dict[str, object]:
    """Takes ``column = value, ...`` up to one of the words; returns the values, told as `told` tells them."""
    found: dict[str, object] = {}
    more = True
    while more:
        name = column_of(words.until("="), path, alias)
        words.has("=")
        if name in found:
            raise InvalidArgument(f"{table.path}: {name!r} is set twice")
        found[name] = value_of(without_subquery(told(words.until(",", *ends)), "SET"), name, table)
        more = words.has(",")
    return found


def value_of(text: str, name: str, table: Table) -> object:
    """Returns the value of an assignment as `update` and `merge` take it."""
    if text.strip().upper() != DEFAULT:
        return as_column(text)
    target = WriteTarget.of(table._metadata)
    fields = {field.name.casefold(): field for field in target.schema.fields}
    return default_of(fields[name.casefold()] if name.casefold() in fields else target.schema.column(name))


def column_of(text: str, path: tuple[str, ...] = (), alias: str | None = None) -> str:
    """Returns the column that a text names, perhaps behind the name of its table."""
    words = Statement(text)
    names = words.path()
    words.end()
    found = qualifier(names, path, alias)
    names = names[found:]
    if len(names) != 1:
        raise Unsupported(f"setting {'.'.join(names)}, which is a member of a column,", hint="set the whole column")
    return names[0]


def qualifier(names: tuple[str, ...], path: tuple[str, ...], alias: str | None) -> int:
    """Returns how many parts of a name are the table's."""
    folded = tuple(name.casefold() for name in names)
    for one in [path[at:] for at in range(len(path))] if alias is None else [(alias,)]:
        if len(folded) > len(one) and folded[: len(one)] == tuple(name.casefold() for name in one):
            return len(one)
    return 0


def unqualified(text: str, path: tuple[str, ...], alias: str | None) -> str:
    """Returns an expression without the name of its table before columns."""

    def prefix(names: tuple[str, ...]) -> tuple[int, str] | None:
        length = qualifier(names, path, alias)
        return (length, "") if length else None

    return requalified(text, prefix)


def sides(path: tuple[str, ...], here: str | None, source: tuple[str, ...], there: str | None) -> Callable[[str], str]:
    """Returns the function that names the sides of a merge in an expression as `merge` does.

    Args:
        path, source: the names of both sides as they are written; the latter is empty for a query.
        here, there: their aliases.
    """

    def prefix(names: tuple[str, ...]) -> tuple[int, str] | None:
        length = qualifier(names, source, there)
        if length:
            return length, f"{SOURCE}."
        length = qualifier(names, path, here)
        return (length, f"{TARGET}.") if length else None

    return lambda text: requalified(text, prefix)


def condition_of(words: Statement, path: tuple[str, ...], alias: str | None, command: str) -> str | None:
    """Takes the rest of a statement; returns its condition, None where it has none."""
    if not words.has("WHERE"):
        words.end()
        return None
    return without_subquery(unqualified(words.rest(), path, alias), command)


def without_subquery(text: str, command: str) -> str:
    """Returns an expression. Raises `Unsupported` where it holds a query."""
    if Statement(text).has_subquery():
        raise Unsupported(f"a subquery in {command} here", hint="join its rows by MERGE INTO ... USING (query)")
    return text


def as_column(text: str) -> Column:
    """Returns an expression of Spark's SQL as a column."""
    from pyspark.sql import functions

    return functions.expr(text)
