"""Rewriting of the SQL of queries before DuckDB gets it: conditions that prune files, columns, and aggregates.

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
from morrow.engine.format.types import ArrayType, DataField, LocalZonedTimestampType, MapType, RowType
from morrow.engine.plan.filter import parse_filter
from morrow.engine.plan.filter.literals import STRING_TYPES
from morrow.engine.plan.filter.variant_parts import is_part
from morrow.engine.plan.predicate import ALWAYS, Predicate, combine_predicates, find_columns
from morrow.queries.dialect import Node, bind

if TYPE_CHECKING:
    import duckdb

OTHER_SOURCES = ("joins", "laterals", "sample", "pivots", "match", "connect", "prewhere")
"""Clauses of a SELECT or a table after which WHERE tests other rows than the rows of the table."""


def find_condition(
    table: Node, fields: Sequence[DataField], parameters: Mapping[str, object], connection: duckdb.DuckDBPyConnection
) -> Predicate:
    """Return a predicate that is true for all rows of a table that its SELECT keeps; `ALWAYS` if none is known.

    Comparisons that depend on the session (times with a zone, text under a collation) are left out.
    """
    conjuncts = _list_conjuncts(table)
    if not conjuncts:
        return ALWAYS
    found = [
        predicate
        for _, text in _write_conditions(table, conjuncts, parameters)
        for predicate in _parse_predicate(text, fields)
    ]
    predicate = combine_predicates(*found)
    where = table.parent_select.args["where"]
    return ALWAYS if predicate == ALWAYS or _depends_on_session(predicate, where, fields, connection) else predicate


def take_part_conditions(
    table: Node, fields: Sequence[DataField], parameters: Mapping[str, object], connection: duckdb.DuckDBPyConnection
) -> str | None:
    """Remove conditions on parts of variants from the WHERE of a SELECT over one table; return them as a filter.

    Files may have columns of these parts, and then variants are not read. Returns None if there are none.
    """
    taken = []
    for conjunct, text in _write_conditions(table, _list_conjuncts(table), parameters):
        try:
            filter = parse_filter(text, fields)
        except MorrowError:  # DuckDB reports it
            continue
        if filter.parts is None or filter.predicate != ALWAYS or len(filter.residuals) > 1:
            continue
        kinds = [DataField(-1, part.name, part.type) for part in filter.parts.parts]
        if not _depends_on_session(filter.parts.predicate, conjunct, kinds, connection):
            conjunct.replace(exp.true())
            taken.append(f"({text})")
    return " AND ".join(taken) or None


def _list_conjuncts(table: Node) -> list[Node]:
    """Return the conditions of a SELECT over one table; none if its WHERE tests other rows."""
    select, source, alias = table.parent_select, table.parent, table.args.get("alias")
    if not isinstance(source, exp.From) or source.parent is not select or select is None:
        return []
    where = select.args.get("where")
    if where is None or any(node.args.get(clause) for node in (select, table) for clause in OTHER_SOURCES):
        return []
    if alias is not None and alias.args.get("columns"):
        return []
    return list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]


def _write_conditions(
    table: Node, conjuncts: Sequence[Node], parameters: Mapping[str, object]
) -> Iterator[tuple[Node, str]]:
    names = {(table.alias or table.name).lower()}
    select = table.parent_select
    renamed = {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)} if conjuncts else set()
    for conjunct in conjuncts:
        text = _write_condition(conjunct, names, renamed, parameters)
        if text is not None:
            yield conjunct, text


def suits_masks(table: Node, fields: Sequence[DataField]) -> bool:
    """Return whether a query is faster if DuckDB reads the files of a table, and looks up the mask of each row.

    A look-up costs more than to pass a number from Morrow to DuckDB. It costs less if conditions leave few rows, and if
    DuckDB decodes less: it groups text by codes, and reads nested columns and the columns of the top rows in part.
    """
    select = table.parent_select
    if isinstance(select, exp.Select) and _saves_decoding(select, fields):
        return True
    while isinstance(select, exp.Select):
        joins = select.args.get("joins") or ()
        if select.args.get("where") is not None or any(not join.side for join in joins):
            return True
        if any(select.args.get(clause) for clause in ("group", "distinct", "limit")):
            return False
        select = select.parent_select
    return False


def _saves_decoding(select: exp.Select, fields: Sequence[DataField]) -> bool:
    texts = {field.name.casefold() for field in fields if isinstance(field.type, STRING_TYPES)}
    nested = {field.name.casefold() for field in fields if isinstance(field.type, (ArrayType, MapType, RowType))}
    used = {part.name.casefold() for column in select.find_all(exp.Column) for part in column.parts}
    if used & nested:
        return True
    distinct = select.expressions if select.args.get("distinct") is not None else []
    grouped = [*filter(None, [select.args.get("group")]), *select.find_all(exp.Distinct), *distinct]
    if any(column.name.casefold() in texts for clause in grouped for column in clause.find_all(exp.Column)):
        return True
    is_top = select.args.get("order") is not None and select.args.get("limit") is not None
    return is_top and (bool(used & texts) or any(each.is_star for each in select.expressions))


WHOLE_ROWS = (exp.Columns, exp.PositionalColumn, exp.Pivot, exp.Summarize, exp.Describe)
"""Parts of a query that read columns which they do not name."""


def find_used_columns(tree: Node, columns: Sequence[str]) -> list[str] | None:
    """Return the columns of the only table of a query that it may read; None if the query may read all of them.

    DuckDB binds each column of a table for each query, which takes longer than to read few columns of a wide table.
    """
    sources = list(tree.find_all(exp.Table, exp.CTE))
    if sum(isinstance(each, exp.Table) and not is_common(each) for each in sources) > 1 or tree.find(*WHOLE_ROWS):
        return None
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return None
    if any(alias.args.get("columns") for alias in tree.find_all(exp.TableAlias)):
        return None
    if any(join.method for join in tree.find_all(exp.Join)):
        return None
    known = {name.casefold() for name in columns}
    places = {
        place.casefold() for each in sources for place in (each.text("catalog"), each.text("db"), each.name, each.alias)
    }
    aliases = {each.alias.casefold() for each in tree.find_all(exp.Alias)}
    for column in tree.find_all(exp.Column):
        parts = [part.name.casefold() for part in column.parts]
        while len(parts) > 1 and parts[0] in places - known:
            del parts[0]
        if parts[0] not in known | aliases:
            return None
    named = {each.name.casefold() for each in tree.find_all(exp.Identifier)}
    return [name for name in columns if name.casefold() in named] or None


def is_common(table: Node) -> bool:
    """Return whether a WITH around the table defines its name."""
    node = table.parent
    while node is not None:
        if any(table.name.lower() == each.alias.lower() for each in getattr(node, "ctes", ())):
            return True
        node = node.parent
    return False


AGGREGATES: Mapping[type[Node], str] = {exp.Count: "count", exp.Min: "min", exp.Max: "max"}
"""Aggregates that metadata may answer."""


def find_aggregates(table: Node, columns: Sequence[str]) -> list[tuple[str, str | None]] | None:
    """Return the aggregates of a SELECT that reads all rows of a table for them; None if it is another query."""
    select, source = table.parent_select, table.parent
    if not isinstance(select, exp.Select) or not isinstance(source, exp.From) or source.parent is not select:
        return None
    if _list_clauses(select) - {"expressions", "from", "from_"} or _list_clauses(table) & {*OTHER_SOURCES}:
        return None
    if isinstance(alias := table.args.get("alias"), exp.TableAlias) and alias.args.get("columns"):
        return None
    found = [_find_aggregate(each.unalias(), columns) for each in select.expressions]
    return None if None in found else [each for each in found if each is not None]


def _list_clauses(node: Node) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _find_aggregate(expression: Node, columns: Sequence[str]) -> tuple[str, str | None] | None:
    function, argument = AGGREGATES.get(type(expression)), expression.this
    if function is None or expression.args.get("expressions"):
        return None
    if isinstance(argument, exp.Star) and not _list_clauses(argument):
        return (function, None) if function == "count" else None
    if not isinstance(argument, exp.Column) or len(argument.parts) > 1 or argument.this.args.get("quoted"):
        return None
    named = [name for name in columns if name.casefold() == argument.name.casefold()]
    return (function, named[0]) if named else None


def put_aggregates(table: Node) -> None:
    """Replace the aggregates of `find_aggregates` with the columns ``s0``, ``s1`` ..., named as DuckDB names them."""
    select = table.parent_select
    assert select is not None  # `find_aggregates` found it
    for number, each in enumerate(select.expressions):
        inner = each.unalias()
        written = (
            "count_star()" if isinstance(inner.this, exp.Star) else f"{AGGREGATES[type(inner)]}({inner.this.name})"
        )
        value = exp.column(f"s{number}", quoted=True)
        name = each.args["alias"] if isinstance(each, exp.Alias) else exp.to_identifier(written, quoted=True)
        each.replace(exp.Alias(this=value, alias=name.copy()))


def _write_condition(
    conjunct: Node, names: set[str], renamed: set[str], parameters: Mapping[str, object]
) -> str | None:
    """Return a condition without the name of its table; None if it names anything but columns of the table."""
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
    if any(not isinstance(each, (exp.Connector, exp.Cast)) for each in where.find_all(exp.Func) if not is_part(each)):
        checks.append("EXISTS (FROM duckdb_functions() WHERE function_type = 'macro' AND NOT internal)")
    if not checks:
        return False
    with connection.cursor() as cursor:
        return cursor.execute(f"SELECT {' OR '.join(checks)}").fetchall() != [(False,)]
