"""The dialect of queries: DuckDB's, with names in backticks, and time travel as Spark, Flink and Trino write it."""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.filter import sql_brackets as brackets
from morrow.engine.plan.filter.deep import with_room
from morrow.engine.plan.filter.sql_errors import problem_of
from morrow.engine.plan.time_travel import NOW, Travel
from morrow.queries.as_of import travel_of_clause
from morrow.queries.hints import hints_in, travel_of_hints
from morrow.queries.parameters import Node

READING = (exp.Query, exp.Values, exp.Summarize, exp.Describe, exp.Pivot)
"""Statements that return rows and change nothing."""


class Dialect(DuckDB):
    """DuckDB's SQL with the backticks and time travel of Spark, Flink and Trino."""

    class Tokenizer(DuckDB.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012 - the form sqlglot's tokenizer reads

    class Parser(brackets.Parser):
        VERSION_PHRASES = {  # noqa: RUF012 - the form sqlglot's parser reads
            **DuckDB.Parser.VERSION_PHRASES,
            ("FOR", "SYSTEM_VERSION"): "VERSION",
        }


def _hinted(query: str) -> str:
    """Returns the query with hints for the options that Spark writes as ``FROM t WITH ('key' = 'value')``."""
    tokens = list(Dialect().tokenize(query))
    kinds = [token.token_type for token in tokens]
    parts, end = [], 0
    for at, kind in enumerate(kinds):
        if kind is TokenType.WITH and kinds[at + 1 : at + 4] == [TokenType.L_PAREN, TokenType.STRING, TokenType.EQ]:
            close = kinds.index(TokenType.R_PAREN, at) if TokenType.R_PAREN in kinds[at:] else len(kinds) - 1
            parts += [query[end : tokens[at].start], "/*+ OPTIONS"]
            parts += [query[tokens[at + 1].start : tokens[close].end + 1], " */"]
            end = tokens[close].end + 1
    return "".join([*parts, query[end:]])


def parsed(query: str) -> Node:
    """Parses one query.

    Raises:
        InvalidArgument: no text, not one query, one that changes rows, or a hint that follows no table.
    """
    if not isinstance(query, str):
        raise InvalidArgument(f"a query must be text, not {query!r}")
    try:
        text = _hinted(query)
        trees = with_room(lambda: sqlglot.parse(text, dialect=Dialect), text, "the query")
        statements = [statement for statement in trees if statement is not None]
    except SqlglotError as error:
        raise InvalidArgument(f"the query does not parse{problem_of(error)}") from error
    if len(statements) != 1:
        raise InvalidArgument(f"{len(statements)} statements where one query was expected")
    if not isinstance(statements[0], READING):
        raise InvalidArgument("the statement is no query: write a SELECT")
    for change in statements[0].find_all(exp.DML):
        if isinstance(change, (exp.Insert, exp.Update, exp.Delete, exp.Merge)):
            raise InvalidArgument("the query changes rows inside of it: write the change as a statement of its own")
    _check_hints(text, statements[0])
    return statements[0]


def _check_hints(query: str, tree: Node) -> None:
    """Checks that every hint of the text follows a table: the parser drops comments elsewhere."""
    if "/*+" not in query:
        return
    written = sum(len(hints_in(token.comments)) for token in Dialect().tokenize(query))
    known = sum(len(hints_in(comments(table))) for table in tree.find_all(exp.Table))
    if written != known:
        raise InvalidArgument("the query: a hint /*+ OPTIONS(...) */ belongs behind the name of its table")


def comments(table: Node) -> list[str]:
    """Returns the comments after a table's name, its alias or its AS OF clause."""
    parts = (table.args.get("alias"), table.args.get("version"))
    nodes = [table, table.this, *(node for part in parts if part is not None for node in part.walk())]
    return [comment for node in nodes for comment in node.comments or ()]


def travel_of(table: Node, name: str, options: Mapping[str, str]) -> Travel:
    """Returns the state of a table that a clause or a hint after its name asks for."""
    asked = travel_of_clause(table.args.get("version"))
    hinted = travel_of_hints(options, name)
    if NOW not in (asked, hinted):
        raise InvalidArgument(f"{name}: both a hint and AS OF say which snapshot is read")
    return hinted if asked == NOW else asked
