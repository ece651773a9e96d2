"""Views of a catalog in queries: the text of a view, in the dialect that it was written in, as a part of the query.

The text for ``duckdb`` is taken, else that for ``spark``, ``trino`` or ``presto``, which sqlglot translates, else the
text for all engines. Names without a database are those of the view's own; the name of the catalog that another engine
wrote in front of them is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError

from morrow.engine.catalog.views import View
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.plan.filter.sql_errors import problem_of
from morrow.queries.dialect import Dialect, parsed
from morrow.queries.parameters import Node

TRANSLATED: Mapping[str, str] = {"spark": "spark", "trino": "trino", "presto": "presto", "hive": "hive"}
"""The dialects that sqlglot translates, those that are taken first before the others."""
OWN = "duckdb"
MOST_VIEWS = 50
"""Views that lead to each other, at most."""
MADE_OF_CONSTANTS = ("range", "generate_series", "unnest")
"""Functions that return rows and read no files."""


def is_common(table: Node) -> bool:
    """Returns whether a WITH around the table defines its name."""
    node = table.parent
    while node is not None:
        if any(table.name.lower() == each.alias.lower() for each in getattr(node, "ctes", ())):
            return True
        node = node.parent
    return False


def put_view(table: Node, name: str, view: View, databases: Sequence[str]) -> list[Node]:
    """Puts the query of the view `name` in the place of a table of a query; returns the tables that it reads.

    Raises:
        Unsupported: its text is in a dialect that cannot be run, has parameters, or reads files.
    """
    if table.args.get("version") is not None or any("OPTIONS" in each for each in table.comments or ()):
        raise Unsupported("an earlier state of a view", where=name, hint="name the tables that it reads")
    body = _body(view, name)
    for inner in body.find_all(exp.Table):
        _qualify(inner, name, databases)
    columns = [exp.to_identifier(field.name, quoted=True) for field in view.fields]
    named = exp.TableAlias(this=exp.to_identifier("morrow_view", quoted=True), columns=columns)
    rows = exp.Select(expressions=[exp.Star()]).from_(exp.Subquery(this=body, alias=named))
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
    kept = {key: table.args[key] for key in ("joins", "laterals", "pivots", "sample") if table.args.get(key)}
    found = exp.Subquery(this=rows, alias=alias, **kept)
    table.replace(found)
    return list(body.find_all(exp.Table))


def _body(view: View, name: str) -> Node:
    if OWN in view.dialects:
        return _checked(parsed(view.dialects[OWN]), name)
    for dialect, reader in TRANSLATED.items():
        if dialect in view.dialects:
            return _checked(_translated(view.dialects[dialect], reader, name), name)
    try:
        return _checked(parsed(view.query), name)
    except InvalidArgument as error:
        written = f" (it has texts for {', '.join(sorted(view.dialects))})" if view.dialects else ""
        hint = f"add a text for the dialect {OWN} to it: {error}"
        raise Unsupported(f"the text of the view{written}", where=name, hint=hint) from error


def _translated(text: str, reader: str, name: str) -> Node:
    try:
        tree = sqlglot.parse_one(text, dialect=reader)
        again = tree.sql(dialect=DuckDB, unsupported_level=ErrorLevel.RAISE)
        return parsed(again)
    except SqlglotError as error:
        problem = problem_of(error) or f": {error}"
        raise Unsupported(f"the view's text for {reader}{problem}", where=name, hint=f"add one for {OWN}") from error


def _checked(tree: Node, name: str) -> Node:
    if not isinstance(tree, exp.Query):
        raise Unsupported("a view that is no SELECT", where=name)
    if tree.find(exp.Placeholder, exp.Parameter) is not None:
        raise Unsupported("a view with parameters", where=name)
    return tree


def _qualify(table: Node, name: str, databases: Sequence[str]) -> None:
    """Gives a table of a view its database. Raises `Unsupported` for what is no table of the catalog."""
    if isinstance(table.this, exp.Anonymous) and table.this.name.lower() in ("paimon_incremental_query",):
        return
    if not isinstance(table.this, exp.Identifier):
        called = isinstance(table.this, exp.Anonymous)
        function = table.this.name if called else table.this.sql_name().lower()
        if function.lower() not in MADE_OF_CONSTANTS and not isinstance(table.this, exp.Unnest):
            raise Unsupported(f"a view that reads {function}(...)", where=name, hint="views read tables of the catalog")
        return
    if not table.db:
        if not is_common(table):
            table.set("db", exp.to_identifier(name.partition(".")[0], quoted=True))
    elif table.db not in databases:
        raise Unsupported(f"a view that reads {table.sql(dialect=Dialect)}", where=name, hint="no database is so named")
    table.set("catalog", None)
