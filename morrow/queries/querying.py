"""SQL over the tables of a catalog: the implementation of ``Catalog.sql`` and ``morrow.sql``.

The dialect is DuckDB's, plus names in backticks and time travel after a table's name in the syntax of Spark, Flink and
Trino::

    SELECT * FROM db.orders VERSION AS OF 'v1' AS o JOIN db.`customers$branch_dev` USING (id)
    SELECT * FROM db.orders FOR SYSTEM_TIME AS OF '2024-05-14 12:00:00'
    SELECT * FROM db.orders /*+ OPTIONS('scan.snapshot-id' = '3') */

sqlglot parses the text. Each table of the catalog becomes a variable that holds a dataset: DuckDB finds it in the frame
that runs the query, and the relation keeps it. No name or value of the query is pasted into text.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from morrow.engine.errors import InvalidArgument, TableNotFound
from morrow.engine.plan.filter.deep import with_room
from morrow.engine.plan.time_travel import Travel
from morrow.queries.calling_functions import put_functions
from morrow.queries.dialect import comments, parsed, travel_of
from morrow.queries.hints import hints_in, options_of_hints
from morrow.queries.incremental import are_of_changes
from morrow.queries.parameters import Node, bind, used_in
from morrow.queries.viewing import is_common, put_view
from morrow.readers.execution.duckdb_relation import variable
from morrow.readers.expressions.library import check_duckdb, of_query

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from morrow.engine.catalog.functions import Function
    from morrow.engine.catalog.views import View
    from morrow.readers.execution.dataset import PaimonDataset

FILE = re.compile(r"/|\.(parquet|csv|tsv|json|jsonl|ndjson|xlsx|arrow)(\.\w+)?$", re.IGNORECASE)
"""Names of one part that are files, which DuckDB reads."""

NO_TABLE = re.compile(r"Catalog Error: (Table|View|Schema) with name")
"""DuckDB's words for a table that is not there; it says them of functions and formats of files as well."""

RUN = compile("morrow_run(morrow_query, **morrow_arguments)", "<query>", "eval")
"""DuckDB looks up variables in the calling frame, so it finds only those that this code is evaluated with."""


class Sources(Protocol):
    """The tables of a catalog, as queries name them."""

    @property
    def databases(self) -> Sequence[str]: ...

    def open_table(self, name: str, travel: Travel) -> PaimonDataset:
        """Returns the dataset of ``database.table``, perhaps with ``$``, in a state."""

    def changes(self, name: str, options: Mapping[str, str]) -> pa.Table | PaimonDataset:
        """Returns the rows that were added or updated between the states that options name."""

    def of_schema(self, schema: str, name: str) -> pa.Table | None:
        """Returns a table that the catalog makes, such as ``information_schema.tables``; None for other schemas."""

    def view(self, name: str) -> View | None:
        """Returns the view ``database.view``; None where there is none."""

    def function(self, name: str, arguments: Sequence[object], database: str | None) -> pa.Table | PaimonDataset | None:
        """Returns the rows of a table function of Paimon's; None for DuckDB's functions."""

    def catalog_function(self, name: str) -> Function | None:
        """Returns the function ``database.name`` that the catalog keeps; None where there is none."""

    def value(self, name: str, arguments: Sequence[object], database: str | None) -> str | None:
        """Returns the value of a function of Paimon's in the database ``sys``; None where it has no such function."""


@dataclass(frozen=True)
class Prepared:
    """A query as DuckDB runs it: its text, the tables that it names by variables, and the values of its parameters."""

    text: str
    variables: Mapping[str, object]
    parameters: Mapping[str, object]


def run(
    query: str,
    sources: Sources,
    *,
    database: str | None,
    connection: duckdb.DuckDBPyConnection,
    parameters: Mapping[str, object] | None = None,
) -> duckdb.DuckDBPyRelation:
    """Runs `query` as a relation; see `Catalog.sql`."""
    found = prepared(query, sources, database=database, connection=connection, parameters=parameters)
    return related(found, connection)


def prepared(
    query: str,
    sources: Sources,
    *,
    database: str | None,
    connection: duckdb.DuckDBPyConnection,
    parameters: Mapping[str, object] | None = None,
    literals: bool = False,
) -> Prepared:
    """Returns a query with the tables of the catalog as variables; see `Catalog.sql`.

    `literals`: parameters become literals, for statements in which DuckDB has none.

    Raises:
        InvalidArgument: not a query, a parameter without a value. Others as opening and planning.
    """
    check_duckdb()
    tree = parsed(query)
    given = parameters or {}
    bound = literals and tree.find(exp.Placeholder) is not None
    if bound:
        bind(tree, given)
    variables: dict[str, object] = {}
    viewed = False
    named: set[tuple[str, str]] = set()
    pending: list[tuple[Node, tuple[str, ...]]] = [(table, ()) for table in tree.find_all(exp.Table)]
    while pending:
        table, inside = pending.pop(0)
        if isinstance(table.args.get("version"), exp.Expression):
            bind(table.args["version"], given)
        try:
            found = _of_catalog(table, sources, database, connection, given)
        except TableNotFound:
            name = _name_in_catalog(table, sources.databases, database, connection)
            view = None if name is None else sources.view(name)
            if name is None or view is None:
                raise
            if name in inside:
                raise InvalidArgument(f"the view {name} reads itself") from None
            pending += [(each, (*inside, name)) for each in put_view(table, name, view, sources.databases)]
            viewed = True
            continue
        if found is None:
            _check_no_travel(table)
            continue
        name = f"morrow_{uuid.uuid4().hex}"
        variables[name] = variable(found, connection)
        named.add(((table.db or database or "").lower(), table.name.lower()))
        _replace(table, name)
    changed = put_functions(tree, sources.catalog_function) | _values(tree, sources, database, given)
    used = used_in(tree, given)
    if not (variables or changed or used or bound or viewed):
        return Prepared(query, {}, {})
    _qualify_less(tree, named)
    return Prepared(with_room(lambda: tree.sql(dialect=DuckDB), query, "the query"), variables, used)


def _of_catalog(
    table: Node,
    sources: Sources,
    database: str | None,
    connection: duckdb.DuckDBPyConnection,
    parameters: Mapping[str, object],
) -> PaimonDataset | pa.Table | None:
    """Returns the rows that a table of the query stands for; None where it is not the catalog's."""
    if isinstance(table.this, exp.Anonymous):
        if table.db or table.args.get("version") is not None:
            return None
        return sources.function(table.this.name, list(_constants(table.this, parameters)), database)
    if isinstance(table.this, exp.Identifier) and table.db and not table.catalog:
        made = sources.of_schema(table.db, table.name)
        if made is not None:
            _check_no_travel(table)
            return made
    name = _name_in_catalog(table, sources.databases, database, connection)
    if name is None:
        return None
    options = options_of_hints(hints_in(comments(table)), name)
    if are_of_changes(options):
        if table.args.get("version") is not None:
            raise InvalidArgument(f"{name}: both a hint and AS OF say which snapshot is read")
        return sources.changes(name, options)
    return sources.open_table(name, travel_of(table, name, options))


def _values(tree: Node, sources: Sources, database: str | None, parameters: Mapping[str, object]) -> bool:
    """Replaces calls ``sys.max_pt('t')`` by their values; returns whether there was one."""
    changed = False
    for dot in list(tree.find_all(exp.Dot)):
        call = dot.expression
        if isinstance(call, exp.Anonymous) and isinstance(dot.this, exp.Identifier) and dot.this.name.lower() == "sys":
            value = sources.value(call.name, list(_constants(call, parameters)), database)
            if value is not None:
                dot.replace(exp.Literal.string(value))
                changed = True
    return changed


def _constants(call: Node, parameters: Mapping[str, object]) -> Iterator[object]:
    """Yields the arguments of a function, which are texts or numbers."""
    bind(call, parameters)
    for argument in call.expressions:
        if not isinstance(argument, exp.Literal):
            raise InvalidArgument(
                f"{call.name}: its arguments are texts and numbers, not {argument.sql(dialect=DuckDB)}"
            )
        yield argument.name


# Tables


def _name_in_catalog(
    table: Node, databases: Sequence[str], database: str | None, connection: duckdb.DuckDBPyConnection
) -> str | None:
    """Returns ``database.table`` of a table of the catalog; None for common table expressions and DuckDB's own tables.

    Names of two parts are the catalog's, unless only DuckDB has such a schema. Names of one part are the catalog's when
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
    if table.args.get("version") is not None or hints_in(comments(table)):
        name = table.this.sql(dialect=DuckDB)
        raise TableNotFound(f"the query: only tables of the catalog, written database.table, have a past; not {name}")


def _replace(table: Node, variable_name: str) -> None:
    """Replaces the table by a variable, which keeps its alias or else its name."""
    if not table.alias and not isinstance(table.parent, (exp.Summarize, exp.Describe)):
        name = table.name or table.this.name  # of a function
        table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    table.set("this", exp.to_identifier(variable_name, quoted=True))
    table.set("db", None)
    table.set("version", None)


def _qualify_less(tree: Node, tables: Container[tuple[str, str]]) -> None:
    """Drops the database from columns qualified by database and table (``db.orders.id``), not from members of rows."""
    for column in tree.find_all(exp.Column):
        # Of `db.orders.place.city` the parser takes the first part for a catalog.
        first, second = ("db", "table") if column.args.get("catalog") is None else ("catalog", "db")
        if (column.text(first).lower(), column.text(second).lower()) in tables:
            column.set(first, None)


# The result


def related(query: Prepared, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """Returns the rows of a query as a relation, whose results raise `MorrowError`."""
    import duckdb

    from morrow.readers.execution.relation_errors import typed

    arguments = {"params": dict(query.parameters)} if query.parameters else {}
    found = evaluated(query, connection.sql, arguments)
    assert isinstance(found, duckdb.DuckDBPyRelation)  # statements without rows were refused
    return typed(found)


def evaluated(query: Prepared, run: object, arguments: Mapping[str, object]) -> object:
    """Runs a query by a method of DuckDB's connection, which finds its tables.

    Raises:
        InvalidArgument: DuckDB refuses it. TableNotFound: it names a table that nobody has.
        StorageError: it cannot read a file.
    """
    import duckdb

    names = {"morrow_run": run, "morrow_query": query.text, "morrow_arguments": arguments}
    try:
        return eval(RUN, {**names, **query.variables})
    except duckdb.CatalogException as error:
        if any(variable in str(error) for variable in query.variables):
            hint = "tables are handed over as variables, which this connection does not look for"
            raise InvalidArgument(f"{hint}: SET python_enable_replacements = true") from error
        if not NO_TABLE.search(str(error)):
            raise of_query(error) from error
        hint = "tables of the catalog are written database.table, and connection.register names a DataFrame"
        raise TableNotFound(f"the query: {_problem(error)}; {hint}") from error
    except (duckdb.Error, TypeError) as error:
        raise of_query(error) from error


def _problem(error: Exception) -> str:
    """Returns DuckDB's message in one line, without the query that it quotes."""
    return " ".join(str(error).partition("\nLINE ")[0].split())
