"""EXPLAIN: what a statement would read and write; nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument
from morrow.queries.querying import Prepared, evaluated
from morrow.statements.changing import condition_of
from morrow.statements.context import Context
from morrow.statements.expressions import LooksAtRows
from morrow.statements.row_statements import Delete, Insert, MergeInto, Update
from morrow.statements.statement import Explain, Query, shown_name

if TYPE_CHECKING:
    import duckdb


def explain(context: Context, statement: Explain) -> duckdb.DuckDBPyRelation:
    """Returns one row for each part of the plan: what it is, and its text."""
    import pyarrow as pa

    found = statement.statement
    parts: list[tuple[str, str]] = []
    if isinstance(found, (Delete, Update)):
        table = context.table(found.table)
        try:
            where = condition_of(context, found, table._newest)
        except LooksAtRows:  # all rows are joined
            where = None
        scan = table.scan(filter=where)
        parts.append((f"{found.kind} {shown_name(found.table)}: the rows are read by", scan.explain()))
    elif isinstance(found, Insert):
        context.table(found.table)
        verb = "INSERT OVERWRITE" if found.overwrite else "INSERT INTO"
        parts.append((f"{verb} {shown_name(found.table)}: the rows of", _duckdb(context, found.query)))
    elif isinstance(found, MergeInto):
        scan = context.table(found.table).scan()
        parts.append((f"MERGE INTO {shown_name(found.table)}: the rows are read by", scan.explain()))
        parts.append(("and joined with the rows of", _duckdb(context, f"SELECT * FROM {found.source}")))
    elif isinstance(found, Query):
        parts.append(("the query", _duckdb(context, found.text)))
    else:
        raise InvalidArgument(f"EXPLAIN {found.kind} is not supported")
    keys, texts = zip(*parts)
    return context.relation(pa.table({"part": pa.array(keys, pa.string()), "plan": pa.array(texts, pa.string())}))


def _duckdb(context: Context, query: str) -> str:
    """Returns DuckDB's plan of a query."""
    import duckdb

    found = context.prepared(query)
    asked = Prepared(f"EXPLAIN {found.text}", found.variables, {})
    rows = evaluated(asked, context.connection.cursor().execute, {})
    assert isinstance(rows, duckdb.DuckDBPyConnection)
    return "\n".join(str(row[-1]) for row in rows.fetchall())
