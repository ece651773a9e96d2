"""SQL queries over the tables, views and functions of a catalog, as ``Catalog.sql`` and ``morrow.sql`` run them.

sqlglot parses the text. Each table of the catalog becomes a variable that holds a dataset: DuckDB finds it in the
frame that runs the query, and the relation keeps it. No name or value of the query is pasted into text.
A view or function runs by its SQL for ``duckdb``, else by its SQL for ``spark``, ``trino``, ``presto`` or (functions)
``hive``, which sqlglot translates. Unqualified names in a view refer to the view's own database, and a catalog name of
another engine is dropped. A call ``db.f(a, b)`` is replaced with the function's expression. Arguments and result are
cast to the declared types, as in a call.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError

from morrow.engine.catalog.names import parse_object_name
from morrow.engine.catalog.protocol import SQL, Function, View
from morrow.engine.errors import InvalidArgument, TableNotFound, Unsupported
from morrow.engine.format.schema import TRACKED
from morrow.engine.format.types import DataType
from morrow.engine.plan.filter.sql_parsing import describe_problem, run_with_stack
from morrow.engine.plan.filter.variant_parts import put_variant_functions, write_paths
from morrow.engine.plan.time_travel import Travel
from morrow.queries.dialect import (
    Dialect,
    Node,
    bind,
    find_hints,
    find_travel,
    list_comments,
    parse_hints,
    parse_query,
    select_parameters,
    split_options,
)
from morrow.queries.incremental import has_change_options
from morrow.queries.rewriting import (
    find_aggregates,
    find_condition,
    find_used_columns,
    is_common,
    put_aggregates,
    suits_masks,
    take_part_conditions,
)
from morrow.readers.execution.duckdb_relation import make_variable
from morrow.readers.expressions.sql import check_duckdb, name_type, register_variant_functions, to_morrow_error

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from morrow.readers.execution.datasets import PaimonDataset

FILE = re.compile(r"/|\.(parquet|csv|tsv|json|jsonl|ndjson|xlsx|arrow)(\.\w+)?$", re.IGNORECASE)
"""Unqualified names that are files, which DuckDB reads."""

NO_TABLE = re.compile(r"Catalog Error: (Table|View|Schema) with name")
"""DuckDB's error for a missing table. DuckDB reports missing functions and file formats in the same form."""

RUN_QUERY = compile("morrow_run(morrow_query, **morrow_arguments)", "<query>", "eval")
"""DuckDB looks up variables in the calling frame, so it finds only the variables that this code is evaluated with."""


class Sources(Protocol):
    """The tables of a catalog, as queries name them."""

    @property
    def databases(self) -> Sequence[str]: ...

    def in_catalog(self, name: str) -> Sources | None:
        """Return the tables of another catalog of the session; None without a catalog of this name."""

    def open_table(
        self, name: str, travel: Travel, tracked: Sequence[str] = (), options: Mapping[str, str] = MappingProxyType({})
    ) -> PaimonDataset:
        """Return the dataset of ``database.table``, optionally with ``$``, at a snapshot.

        `tracked` are columns of row tracking to add, if the table has them; `options` are options of this read.
        """

    def changes(self, name: str, options: Mapping[str, str]) -> pa.Table | PaimonDataset:
        """Return the rows that were added or updated between the snapshots or tags that options name."""

    def of_schema(self, schema: str, name: str) -> pa.Table | None:
        """Return a table that the catalog generates, such as ``information_schema.tables``; None for other schemas."""

    def view(self, name: str) -> View | None:
        """Return the view ``database.view``, None if it does not exist."""

    def function(self, name: str, arguments: Sequence[object], database: str | None) -> pa.Table | PaimonDataset | None:
        """Return the rows of a Paimon table function, None for DuckDB's functions."""

    def catalog_function(self, name: str) -> Function | None:
        """Return the catalog's function ``database.name``, None if it does not exist."""

    def value(self, name: str, arguments: Sequence[object], database: str | None) -> str | None:
        """Return the value of a Paimon function in the database ``sys``, None if the function does not exist."""


@dataclass(frozen=True)
class Prepared:
    """A query ready for DuckDB: its text, its tables by variable name, and its parameter values."""

    text: str
    variables: Mapping[str, object]
    parameters: Mapping[str, object]


def prepare_query(
    query: str,
    sources: Sources,
    *,
    database: str | None,
    connection: duckdb.DuckDBPyConnection,
    parameters: Mapping[str, object] | None = None,
    literals: bool = False,
) -> Prepared:
    """Return a query with the tables of the catalog as variables; see `Catalog.sql`.

    `literals`: replace parameters with literals, for statements in which DuckDB does not support parameters.

    Raises `InvalidArgument`: not a query, a parameter without a value. Others as opening and planning.
    """
    check_duckdb()
    tree = parse_query(write_paths(query, Dialect))
    given = parameters or {}
    bound = literals and tree.find(exp.Placeholder) is not None
    if bound:
        bind(tree, given)
    _name_subqueries(tree)
    variables: dict[str, object] = {}
    viewed = False
    named: set[tuple[str, ...]] = set()
    tracked = _list_tracked_columns(tree)
    pending: list[tuple[Node, tuple[str, ...], Sources]] = [(table, (), sources) for table in tree.find_all(exp.Table)]
    while pending:
        table, inside, current = pending.pop(0)
        catalog, own = _take_catalog(table, current)
        if isinstance(table.args.get("version"), exp.Expression):
            bind(table.args["version"], given)
        try:
            found = _find_source(table, own, database, connection, given, tracked)
        except TableNotFound:
            name = _name_in_catalog(table, own.databases, database, connection)
            view = None if name is None else own.view(name)
            if name is None or view is None:
                raise
            if name in inside:
                raise InvalidArgument(f"the view {name} reads itself") from None
            pending += [(each, (*inside, name), own) for each in put_view(table, name, view, own.databases)]
            viewed = True
            continue
        if found is None:
            _check_no_travel(table)
            continue
        name = f"morrow_{uuid.uuid4().hex}"
        answer = _summarize(table, found)
        if answer is not None:
            put_aggregates(table)
        variables[name] = (
            answer
            if answer is not None
            else make_variable(
                _select_used(tree, found),
                connection,
                partial(find_condition, table, parameters=given, connection=connection),
                suits_masks=partial(suits_masks, table),
                take_part_conditions=partial(take_part_conditions, table, parameters=given, connection=connection),
            )
        )
        named.add((*catalog, (table.db or database or "").lower(), table.name.lower()))
        _hide_columns(table, tracked, found)
        _replace(table, name)
    changed = put_functions(tree, sources.catalog_function) | _replace_calls(tree, sources, database, given)
    if put_variant_functions(tree):
        register_variant_functions(connection)
        changed = True
    used = select_parameters(tree, given)
    if not (variables or changed or used or bound or viewed):
        return Prepared(query, {}, {})
    _qualify_less(tree, named)
    return Prepared(run_with_stack(lambda: tree.sql(dialect=DuckDB), query, "the query"), variables, used)


def _name_subqueries(tree: Node) -> None:
    """Name the columns that are computed by a subquery, since its tables are replaced in DuckDB's own names."""
    columns = [column for select in tree.find_all(exp.Select) for column in select.expressions]
    for column in columns:
        if not column.output_name and column.find(exp.Table) is not None:
            column.replace(exp.alias_(column.copy(), _render_name(column), quoted=True))


def _render_name(column: Node) -> str:
    return str(run_with_stack(lambda: column.sql(dialect=DuckDB).replace("\n", " "), "", "the query"))


def _take_catalog(table: Node, sources: Sources) -> tuple[tuple[str, ...], Sources]:
    """Remove the name of a catalog of the session from a table; return it in lower case, and the catalog's tables."""
    found = sources.in_catalog(table.catalog) if table.catalog and isinstance(table.this, exp.Identifier) else None
    if found is None:
        return (), sources
    name = (table.catalog.lower(),)
    table.set("catalog", None)
    return name, found


def _find_source(
    table: Node,
    sources: Sources,
    database: str | None,
    connection: duckdb.DuckDBPyConnection,
    parameters: Mapping[str, object],
    tracked: Sequence[str],
) -> PaimonDataset | pa.Table | None:
    """Return the dataset of a table in the query, None if the table is not the catalog's."""
    if isinstance(table.this, exp.VectorSearch):  # sqlglot names the arguments of BigQuery's function
        arguments = [each for each in table.this.args.values() if each is not None]
        table.set("this", exp.Anonymous(this="vector_search", expressions=arguments))
    if isinstance(table.this, exp.Anonymous):
        if table.db or table.args.get("version") is not None:
            return None
        return sources.function(table.this.name, list(_evaluate_arguments(table.this, parameters)), database)
    if isinstance(table.this, exp.Identifier) and table.db and not table.catalog:
        made = sources.of_schema(table.db, table.name)
        if made is not None:
            _check_no_travel(table)
            return made
    name = _name_in_catalog(table, sources.databases, database, connection)
    if name is None:
        return None
    options = parse_hints(find_hints(list_comments(table)), name)
    if has_change_options(options):
        if table.args.get("version") is not None:
            raise InvalidArgument(f"{name}: both a hint and AS OF say which snapshot is read")
        return sources.changes(name, options)
    travel, reads = split_options(options, name)
    return sources.open_table(name, find_travel(table, name, travel), tracked, reads)


EXCLUDED = "except_" if "except_" in exp.Star.arg_types else "except"
"""The argument of a star with the columns that it excludes; versions of sqlglot differ in it."""


def _list_tracked_columns(tree: Node) -> tuple[str, ...]:
    """Return the columns of row tracking that a query names."""
    named = {column.name.upper() for column in tree.find_all(exp.Column)}
    return tuple(field.name for field in TRACKED if field.name in named)


def _hide_columns(table: Node, tracked: Sequence[str], found: PaimonDataset | pa.Table) -> None:
    """Exclude columns of row tracking, which a query has to name, from ``*`` and ``t.*`` of the table's SELECT."""
    select = table.parent_select
    added = [name for name in tracked if name in found.schema.names]
    if not added or select is None or parse_object_name(f"d.{table.name}").system is not None:
        return
    for star in (each for column in select.expressions for each in [column.find(exp.Star)] if each is not None):
        whole = star.parent is select
        if whole or (isinstance(star.parent, exp.Column) and star.parent.table in (table.alias, table.name)):
            excluded = {each.name.upper() for each in star.args.get(EXCLUDED) or ()}
            others = [exp.column(name) for name in added if name not in excluded]
            star.set(EXCLUDED, [*(star.args.get(EXCLUDED) or ()), *others])


def _replace_calls(tree: Node, sources: Sources, database: str | None, parameters: Mapping[str, object]) -> bool:
    """Replace calls such as ``sys.max_pt('t')`` with their values; return whether any was found."""
    changed = False
    for dot in list(tree.find_all(exp.Dot)):
        call = dot.expression
        if isinstance(call, exp.Anonymous) and isinstance(dot.this, exp.Identifier) and dot.this.name.lower() == "sys":
            value = sources.value(call.name, list(_evaluate_arguments(call, parameters)), database)
            if value is not None:
                dot.replace(exp.Literal.string(value))
                changed = True
    return changed


def _evaluate_arguments(call: Node, parameters: Mapping[str, object]) -> Iterator[object]:
    """Yield the arguments of a function call, which must be text, numbers (as text) or lists of these."""
    bind(call, parameters)
    for argument in call.expressions:
        yield _evaluate_argument(call, argument)


def _evaluate_argument(call: Node, argument: Node) -> object:
    if isinstance(argument, exp.Array):
        return [_evaluate_argument(call, each) for each in argument.expressions]
    if isinstance(argument, (exp.Cast, exp.Paren)):
        return _evaluate_argument(call, argument.this)
    if isinstance(argument, exp.Neg) and isinstance(argument.this, exp.Literal) and not argument.this.is_string:
        return f"-{argument.name}"
    if not isinstance(argument, exp.Literal):
        raise InvalidArgument(f"{call.name}: its arguments are texts and numbers, not {argument.sql(dialect=DuckDB)}")
    return argument.name


# Tables


def _summarize(table: Node, source: PaimonDataset | pa.Table) -> pa.Table | None:
    """Return the aggregates of a query over all rows of a table, as `SummarizeFunction`, without reading rows."""
    summarize = getattr(source, "summarize", None)
    asked = None if summarize is None else find_aggregates(table, source.schema.names)
    return None if summarize is None or asked is None else summarize(asked)


def _select_used(tree: Node, source: PaimonDataset | pa.Table) -> PaimonDataset | pa.Table:
    """Return a table with the columns that a query may read."""
    narrow = getattr(source, "narrow", None)
    used = None if narrow is None else find_used_columns(tree, source.schema.names)
    narrowed: PaimonDataset | pa.Table = source if narrow is None or used is None else narrow(used, None)
    return narrowed


def _name_in_catalog(
    table: Node, databases: Sequence[str], database: str | None, connection: duckdb.DuckDBPyConnection
) -> str | None:
    """Return ``database.table`` of a table of the catalog; None for common table expressions and DuckDB's own tables.

    Qualified names are the catalog's, unless only DuckDB has such a schema. Unqualified names are the catalog's if
    there is a default `database`.
    """
    if not isinstance(table.this, exp.Identifier) or table.catalog:
        return None  # a function, or a table of an attached database
    if table.db:
        is_duckdbs = table.db not in databases and _has_schema(connection, table.db)
        return None if is_duckdbs else f"{table.db}.{table.name}"
    if database is None or is_common(table) or FILE.search(table.name):
        return None
    return f"{database}.{table.name}"


def _has_schema(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    with connection.cursor() as cursor:
        query = "SELECT count(*) FROM duckdb_schemas() WHERE ? IN (schema_name, database_name)"
        return cursor.execute(query, [name]).fetchall() != [(0,)]


def _check_no_travel(table: Node) -> None:
    if table.args.get("version") is not None or find_hints(list_comments(table)):
        name = table.this.sql(dialect=DuckDB)
        raise TableNotFound(f"the query: only tables of the catalog, written database.table, have a past; not {name}")


def _replace(table: Node, variable_name: str) -> None:
    """Replace the table with a variable that keeps the table's alias or name."""
    if not table.alias and not isinstance(table.parent, (exp.Summarize, exp.Describe)):
        name = table.name or table.this.name  # a function's name
        table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    table.set("this", exp.to_identifier(variable_name, quoted=True))
    table.set("db", None)
    table.set("version", None)


def _qualify_less(tree: Node, tables: Container[tuple[str, ...]]) -> None:
    """Drop database and catalog from qualified columns (``db.orders.id``), but not from struct fields."""
    for column in tree.find_all(exp.Column):
        if tuple(column.text(part).lower() for part in ("catalog", "db", "table")) in tables:
            column.set("catalog", None)
            column.set("db", None)
        # The parser reads the first part of `db.orders.place.city` as a catalog.
        first, second = ("db", "table") if column.args.get("catalog") is None else ("catalog", "db")
        if (column.text(first).lower(), column.text(second).lower()) in tables:
            column.set(first, None)


# The result


def make_relation(query: Prepared, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """Return the rows of a query as a relation, whose results raise `MorrowError`."""
    import duckdb

    from morrow.readers.execution.duckdb_relation import to_typed_relation

    arguments = {"params": dict(query.parameters)} if query.parameters else {}
    found = run_prepared(query, connection.sql, arguments)
    assert isinstance(found, duckdb.DuckDBPyRelation)  # statements without rows were refused
    return to_typed_relation(found)


def run_prepared(query: Prepared, run: object, arguments: Mapping[str, object]) -> object:
    """Run a query by a method of a DuckDB connection, with its tables as variables.

    Raises:
        InvalidArgument: DuckDB refuses it. TableNotFound: a table does not exist. StorageError: DuckDB cannot read a
        file.
    """
    import duckdb

    names = {"morrow_run": run, "morrow_query": query.text, "morrow_arguments": arguments}
    try:
        return eval(RUN_QUERY, {**names, **query.variables})
    except duckdb.CatalogException as error:
        if any(variable in str(error) for variable in query.variables):
            hint = "tables are handed over as variables, which this connection does not look for"
            raise InvalidArgument(f"{hint}: SET python_enable_replacements = true") from error
        if not NO_TABLE.search(str(error)):
            raise to_morrow_error(error) from error
        hint = "tables of the catalog are written database.table, and connection.register names a DataFrame"
        raise TableNotFound(f"the query: {_format_error(error)}; {hint}") from error
    except (duckdb.Error, TypeError) as error:
        raise to_morrow_error(error) from error


def _format_error(error: Exception) -> str:
    """Return DuckDB's message in one line, without the query that it quotes."""
    return " ".join(str(error).partition("\nLINE ")[0].split())


TRANSLATED: Mapping[str, str] = {"spark": "spark", "trino": "trino", "presto": "presto", "hive": "hive"}
"""The dialects that sqlglot translates, in order of preference."""
OWN = "duckdb"
MADE_OF_CONSTANTS = ("range", "generate_series", "unnest")
"""Table functions that do not read files."""


def put_view(table: Node, name: str, view: View, databases: Sequence[str]) -> list[Node]:
    """Replace a table of a query with the query of the view `name`; return the tables that the view reads.

    Raises `Unsupported`: the view's SQL is in an unknown dialect, has parameters, or reads files.
    """
    if table.args.get("version") is not None or any("OPTIONS" in each for each in table.comments or ()):
        raise Unsupported("an earlier state of a view", where=name, hint="name the tables that it reads")
    body = _parse_view(view, name)
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


def _parse_view(view: View, name: str) -> Node:
    if OWN in view.dialects:
        return _check_tree(parse_query(view.dialects[OWN]), name)
    for dialect, reader in TRANSLATED.items():
        if dialect in view.dialects:
            return _check_tree(_translate_view(view.dialects[dialect], reader, name), name)
    try:
        return _check_tree(parse_query(view.query), name)
    except InvalidArgument as error:
        written = f" (it has texts for {', '.join(sorted(view.dialects))})" if view.dialects else ""
        hint = f"add a text for the dialect {OWN} to it: {error}"
        raise Unsupported(f"the text of the view{written}", where=name, hint=hint) from error


def _translate_view(text: str, reader: str, name: str) -> Node:
    try:
        tree = sqlglot.parse_one(text, dialect=reader)
        again = tree.sql(dialect=DuckDB, unsupported_level=ErrorLevel.RAISE)
        return parse_query(again)
    except SqlglotError as error:
        problem = describe_problem(error) or f": {error}"
        raise Unsupported(f"the view's text for {reader}{problem}", where=name, hint=f"add one for {OWN}") from error


def _check_tree(tree: Node, name: str) -> Node:
    if not isinstance(tree, exp.Query):
        raise Unsupported("a view that is not a SELECT", where=name)
    if tree.find(exp.Placeholder, exp.Parameter) is not None:
        raise Unsupported("a view with parameters", where=name)
    return tree


def _qualify(table: Node, name: str, databases: Sequence[str]) -> None:
    """Qualify a table of a view with its database. Raises `Unsupported` for tables that are not the catalog's."""
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


MAX_CALLS = 200
"""Maximum function calls expanded in one query, since functions may call each other and themselves."""


def put_functions(tree: Node, known: Callable[[str], Function | None]) -> bool:
    """Replace calls of catalog functions with their definitions; return whether any was found.

    `known`: returns the catalog's function ``database.name``, None if it does not exist.

    Raises:
        InvalidArgument: a wrong number of arguments, or recursive functions.
        Unsupported: a function without SQL, or whose SQL reads more than its parameters.
    """
    asked = cache(known)
    done = 0
    while found := next(((dot, name, it) for dot, name in _list_calls(tree) if (it := asked(name)) is not None), None):
        dot, name, function = found
        done += 1
        if done > MAX_CALLS:
            raise InvalidArgument(f"the query: functions of the catalog call each other too often, {name} last")
        dot.replace(_expand_call(function, dot.expression.expressions, name))
    return done > 0


def _list_calls(tree: Node) -> list[tuple[Node, str]]:
    """List calls of the form ``database.function(...)``, inner ones first."""
    found = [
        (dot, f"{dot.this.name}.{dot.expression.name}")
        for dot in tree.find_all(exp.Dot)
        if isinstance(dot.expression, exp.Anonymous) and isinstance(dot.this, exp.Identifier)
    ]
    return found[::-1]


def _expand_call(function: Function, arguments: list[Node], name: str) -> Node:
    if len(arguments) != len(function.parameters):
        names = ", ".join(each.name for each in function.parameters)
        raise InvalidArgument(f"{name}({names}) has {len(function.parameters)} parameters, not {len(arguments)}")
    if len(function.returns) != 1:
        raise Unsupported(f"a function that returns {len(function.returns)} columns", where=name)
    values = {each.name.lower(): _cast(value, each.type) for each, value in zip(function.parameters, arguments)}
    body = exp.Paren(this=_parse_definition(function, name))
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
    return exp.cast(value.copy(), name_type(kind), dialect=DuckDB)


def _parse_definition(function: Function, name: str) -> Node:
    texts = {dialect: each.text for dialect, each in function.definitions.items() if each.kind == SQL and each.text}
    for dialect in (OWN, *TRANSLATED):
        if dialect in texts:
            return _parse_body(texts[dialect] or "", dialect, name)
    kinds = ", ".join(f"{dialect} ({each.kind})" for dialect, each in function.definitions.items()) or "none"
    hint = f"give it one in SQL, of type {SQL!r}, for {OWN}, spark or trino"
    raise Unsupported(f"a function with the definitions {kinds}", where=name, hint=hint)


def _parse_body(text: str, dialect: str, name: str) -> Node:
    try:
        tree = sqlglot.parse_one(text, dialect=Dialect if dialect == OWN else TRANSLATED[dialect])
        again = tree.sql(dialect=DuckDB, unsupported_level=ErrorLevel.RAISE)
        return sqlglot.parse_one(again, dialect=Dialect)
    except SqlglotError as error:
        problem = describe_problem(error) or f": {error}"
        raise Unsupported(f"the function's SQL for {dialect}{problem}", where=name) from error
