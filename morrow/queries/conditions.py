"""Conditions of a query that one of its tables can test before DuckDB does.

DuckDB pushes comparisons of numbers and text into the scan of a table, but no comparison of floats, LIKE, function or
list. The WHERE of a SELECT over one table is therefore parsed a second time, as a filter of the table. The scan
gets the predicate that follows from it and drops most rows; DuckDB tests the whole condition on the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from morrow.engine.errors import MorrowError
from morrow.engine.format.types import DataField, LocalZonedTimestampType
from morrow.engine.plan.filter import parse_filter
from morrow.engine.plan.filter.literals import STRING_TYPES
from morrow.engine.plan.predicate import ALWAYS, Predicate, combine_predicates, find_columns
from morrow.queries.dialect import Node, bind

if TYPE_CHECKING:
    import duckdb

OTHER_SOURCES = ("joins", "laterals", "sample", "pivots", "match", "connect", "prewhere")
"""Clauses of a SELECT or a table after which WHERE tests other rows than the rows of the table."""


def find_condition(
    table: Node, fields: Sequence[DataField], parameters: Mapping[str, object], connection: duckdb.DuckDBPyConnection
) -> Predicate:
    """Return a predicate that all rows of a table fulfil that its SELECT keeps; `ALWAYS` if none is known.

    Comparisons that depend on the session (times with a zone, text under a collation) are left out.
    """
    select, source, alias = table.parent_select, table.parent, table.args.get("alias")
    if not isinstance(source, exp.From) or source.parent is not select or select is None:
        return ALWAYS
    where = select.args.get("where")
    if where is None:
        return ALWAYS
    if any(node.args.get(clause) for node in (select, table) for clause in OTHER_SOURCES):
        return ALWAYS
    if alias is not None and alias.args.get("columns"):
        return ALWAYS
    renamed = {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)}
    condition = where.this
    conjuncts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
    names = {(table.alias or table.name).lower()}
    found = [
        predicate
        for conjunct in conjuncts
        if (text := _write_condition(conjunct, names, renamed, parameters)) is not None
        for predicate in _parse_predicate(text, fields)
    ]
    predicate = combine_predicates(*found)
    return ALWAYS if predicate == ALWAYS or _depends_on_session(predicate, where, fields, connection) else predicate


def is_filtered(table: Node) -> bool:
    """Return whether a query tests conditions on rows of a table, or joins them, before it aggregates them."""
    select = table.parent_select
    while isinstance(select, exp.Select):
        joins = select.args.get("joins") or ()
        if select.args.get("where") is not None or any(not join.side for join in joins):
            return True
        if any(select.args.get(clause) for clause in ("group", "distinct", "limit")):
            return False
        select = select.parent_select
    return False


def _write_condition(
    conjunct: Node, names: set[str], renamed: set[str], parameters: Mapping[str, object]
) -> str | None:
    """Return a condition without the name of its table; None if it names something else than columns of the table."""
    if conjunct.find(exp.Query, exp.AggFunc, exp.Window) is not None:
        return None
    copy = conjunct.copy()
    for column in copy.find_all(exp.Column):
        parts = column.parts
        if len(parts) > 2 or (len(parts) == 2 and parts[0].name.lower() not in names):
            return None
        if column.name.lower() in renamed:
            return None
        column.set("table", None)
    try:
        bind(copy, parameters)
    except MorrowError:  # DuckDB gets the parameter, and says what is wrong with it
        return None
    return str(copy.sql(dialect=DuckDB))


def _parse_predicate(text: str, fields: Sequence[DataField]) -> Iterator[Predicate]:
    """Yield the predicate of a condition; none if it is not a filter, which DuckDB then reports."""
    try:
        yield parse_filter(text, fields).predicate
    except MorrowError:
        return


def _depends_on_session(
    predicate: Predicate, where: Node, fields: Sequence[DataField], connection: duckdb.DuckDBPyConnection
) -> bool:
    """Return whether settings or macros of the session may change what the conditions mean."""
    used = find_columns(predicate)
    kinds = [field.type for field in fields if field.name in used]
    if any(isinstance(kind, LocalZonedTimestampType) for kind in kinds):
        return True
    checks = (
        ["current_setting('default_collation') <> ''"] if any(isinstance(each, STRING_TYPES) for each in kinds) else []
    )
    if any(not isinstance(each, (exp.Connector, exp.Cast)) for each in where.find_all(exp.Func)):
        checks.append("EXISTS (FROM duckdb_functions() WHERE function_type = 'macro' AND NOT internal)")
    if not checks:
        return False
    with connection.cursor() as cursor:
        return cursor.execute(f"SELECT {' OR '.join(checks)}").fetchall() != [(False,)]
