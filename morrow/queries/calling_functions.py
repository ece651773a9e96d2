"""Functions of a catalog in queries: calls ``db.f(a, b)`` become the expression that defines the function.

The SQL for ``duckdb`` is taken, else that for ``spark``, ``trino``, ``presto`` or ``hive``, which sqlglot translates.
Arguments are cast to the types of the parameters and the result to that of the function, as a call would.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError

from morrow.engine.catalog.functions import SQL, Function
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.types import DataType
from morrow.engine.plan.filter.sql_errors import problem_of
from morrow.queries.dialect import Dialect
from morrow.queries.parameters import Node
from morrow.queries.viewing import OWN, TRANSLATED
from morrow.readers.merges.sql.types import type_name

MOST_CALLS = 200
"""Calls that are put in place in one query at most: functions may call each other, and themselves."""


def put_functions(tree: Node, known: Callable[[str], Function | None]) -> bool:
    """Puts definitions in the place of calls of a catalog's functions; returns whether there was one.

    Args:
        known: returns the function ``database.name`` of the catalog, None where it has none.

    Raises:
        InvalidArgument: another number of arguments, or functions that call themselves.
        Unsupported: a function without SQL, or whose SQL reads more than its parameters.
    """
    asked = cache(known)
    done = 0
    while found := next(((dot, name, it) for dot, name in _calls(tree) if (it := asked(name)) is not None), None):
        dot, name, function = found
        done += 1
        if done > MOST_CALLS:
            raise InvalidArgument(f"the query: functions of the catalog call each other too often, {name} last")
        dot.replace(_called(function, dot.expression.expressions, name))
    return done > 0


def _calls(tree: Node) -> list[tuple[Node, str]]:
    """Lists calls of the form ``database.function(...)``, inner ones first."""
    found = [
        (dot, f"{dot.this.name}.{dot.expression.name}")
        for dot in tree.find_all(exp.Dot)
        if isinstance(dot.expression, exp.Anonymous) and isinstance(dot.this, exp.Identifier)
    ]
    return found[::-1]


def _called(function: Function, arguments: list[Node], name: str) -> Node:
    if len(arguments) != len(function.parameters):
        names = ", ".join(each.name for each in function.parameters)
        raise InvalidArgument(f"{name}({names}) has {len(function.parameters)} parameters, not {len(arguments)}")
    if len(function.returns) != 1:
        raise Unsupported(f"a function that returns {len(function.returns)} columns", where=name)
    values = {each.name.lower(): _cast(value, each.type) for each, value in zip(function.parameters, arguments)}
    body = exp.Paren(this=_body(function, name))
    if body.find(exp.Query, exp.Placeholder, exp.Parameter, exp.AggFunc, exp.Window) is not None:
        raise Unsupported("a function with a query, an aggregate or parameters of a query in it", where=name)
    for column in list(body.find_all(exp.Column)):
        value = None if column.table else values.get(column.name.lower())
        if value is None:
            raise Unsupported(
                f"a function that reads {column.sql(dialect=Dialect)}, no parameter of its own,", where=name
            )
        column.replace(value.copy())
    return _cast(body, function.returns[0].type)


def _cast(value: Node, kind: DataType) -> Node:
    return exp.cast(value.copy(), type_name(kind), dialect=DuckDB)


def _body(function: Function, name: str) -> Node:
    texts = {dialect: each.text for dialect, each in function.definitions.items() if each.kind == SQL and each.text}
    for dialect in (OWN, *TRANSLATED):
        if dialect in texts:
            return _parsed(texts[dialect] or "", dialect, name)
    kinds = ", ".join(f"{dialect} ({each.kind})" for dialect, each in function.definitions.items()) or "none"
    hint = f"give it one in SQL, of type {SQL!r}, for {OWN}, spark or trino"
    raise Unsupported(f"a function with the definitions {kinds}", where=name, hint=hint)


def _parsed(text: str, dialect: str, name: str) -> Node:
    try:
        tree = sqlglot.parse_one(text, dialect=Dialect if dialect == OWN else TRANSLATED[dialect])
        again = tree.sql(dialect=DuckDB, unsupported_level=ErrorLevel.RAISE)
        return sqlglot.parse_one(again, dialect=Dialect)
    except SqlglotError as error:
        problem = problem_of(error) or f": {error}"
        raise Unsupported(f"the function's SQL for {dialect}{problem}", where=name) from error
