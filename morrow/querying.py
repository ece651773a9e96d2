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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from morrow.as_of import travel_of_clause
from morrow.engine.errors import InvalidArgument, TableNotFound
from morrow.engine.plan.filter.deep import with_room
from morrow.engine.plan.filter.sql_errors import problem_of
from morrow.engine.plan.time_travel import NOW, Travel
from morrow.hints import hints_in, options_of_hints, travel_of_hints
from morrow.incremental import are_of_changes
from morrow.parameters import Node, literal, value_of
from morrow.readers.execution.duckdb_relation import handed
from morrow.readers.expressions.library import check_duckdb

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from morrow.readers.execution.dataset import PaimonDataset

FILE = re.compile(r"/|\.(parquet|csv|tsv|json|jsonl|ndjson|xlsx|arrow)(\.\w+)?$", re.IGNORECASE)
"""Names of one part that are files, which DuckDB reads."""
READING = (exp.Query, exp.Values, exp.Summarize, exp.Describe, exp.Pivot)
"""Statements that return rows and change nothing."""

RUN = compile("morrow_run(morrow_query, **morrow_arguments)", "<query>", "eval")
"""DuckDB looks up variables in the calling frame, so it finds only those that this code is evaluated with."""


class Dialect(DuckDB):
    """DuckDB's SQL with the backticks and time travel of Spark, Flink and Trino."""

    class Tokenizer(DuckDB.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012 - the form sqlglot's tokenizer reads

    class Parser(DuckDB.Parser):  # type: ignore[misc, valid-type]  # sqlglot names its parser by a variable
        VERSION_PHRASES = {  # noqa: RUF012 - the form sqlglot's parser reads
            **DuckDB.Parser.VERSION_PHRASES,
            ("FOR", "SYSTEM_VERSION"): "VERSION",
        }


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

    def function(self, name: str, arguments: Sequence[object], database: str | None) -> pa.Table | PaimonDataset | None:
        """Returns the rows of a table function of Paimon's; None for DuckDB's functions."""

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
    tree = _parsed(query)
    _check_hints(_hinted(query), tree)
    given = parameters or {}
    bound = literals and tree.find(exp.Placeholder) is not None
    if bound:
        _bind(tree, given)
    variables: dict[str, object] = {}
    for table in list(tree.find_all(exp.Table)):
        if isinstance(table.args.get("version"), exp.Expression):
            _bind(table.args["version"], given)
        found = _of_catalog(table, sources, database, connection, given)
        if found is None:
            _check_no_travel(table)
            continue
        variable = f"morrow_{uuid.uuid4().hex}"
        variables[variable] = handed(found)
        _replace(table, variable)
    changed = _values(tree, sources, database, given)
    used = _used(tree, given)
    if not (variables or changed or used or bound):
        return Prepared(query, {}, {})
    _qualify_less(tree)
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
    options = options_of_hints(hints_in(_comments(table)), name)
    if are_of_changes(options):
        if table.args.get("version") is not None:
            raise InvalidArgument(f"{name}: both a hint and AS OF say which snapshot is read")
        return sources.changes(name, options)
    return sources.open_table(name, _travel(table, name, options))


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
    _bind(call, parameters)
    for argument in call.expressions:
        if not isinstance(argument, exp.Literal):
            raise InvalidArgument(
                f"{call.name}: its arguments are texts and numbers, not {argument.sql(dialect=DuckDB)}"
            )
        yield argument.name


# Parameters


def _bind(node: Node, parameters: Mapping[str, object]) -> None:
    """Puts literals in the place of parameters, where DuckDB does not see them."""
    for placeholder in list(node.find_all(exp.Placeholder)):
        placeholder.replace(literal(value_of(placeholder, parameters)))


def _used(tree: Node, parameters: Mapping[str, object]) -> dict[str, object]:
    """Returns the values of the parameters that DuckDB sees, under names that are none of its numbers."""
    used: dict[str, object] = {}
    for placeholder in tree.find_all(exp.Placeholder):
        value = value_of(placeholder, parameters)
        name = f"morrow_{placeholder.this}"
        placeholder.set("this", name)
        used[name] = value
    return used


# The text


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


def _parsed(query: str) -> Node:
    if not isinstance(query, str):
        raise InvalidArgument(f"a query must be text, not {query!r}")
    try:
        text = _hinted(query)
        parsed = with_room(lambda: sqlglot.parse(text, dialect=Dialect), text, "the query")
        statements = [statement for statement in parsed if statement is not None]
    except SqlglotError as error:
        raise InvalidArgument(f"the query does not parse{problem_of(error)}") from error
    if len(statements) != 1:
        raise InvalidArgument(f"{len(statements)} statements where one query was expected")
    if not isinstance(statements[0], READING):
        raise InvalidArgument("the statement is no query: write a SELECT")
    for change in statements[0].find_all(exp.DML):
        if isinstance(change, (exp.Insert, exp.Update, exp.Delete, exp.Merge)):
            raise InvalidArgument("the query changes rows inside of it: write the change as a statement of its own")
    return statements[0]


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
    if database is None or _is_common(table) or FILE.search(table.name):
        return None
    return f"{database}.{table.name}"


def _has_schema(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    with connection.cursor() as cursor:
        query = "SELECT count(*) FROM duckdb_schemas() WHERE ? IN (schema_name, database_name)"
        return cursor.execute(query, [name]).fetchall() != [(0,)]


def _is_common(table: Node) -> bool:
    """Returns whether a WITH around the table defines its name."""
    node = table.parent
    while node is not None:
        if any(table.name.lower() == each.alias.lower() for each in getattr(node, "ctes", ())):
            return True
        node = node.parent
    return False


def _check_no_travel(table: Node) -> None:
    if table.args.get("version") is not None or hints_in(_comments(table)):
        name = table.this.sql(dialect=DuckDB)
        raise TableNotFound(f"the query: only tables of the catalog, written database.table, have a past; not {name}")


def _replace(table: Node, variable: str) -> None:
    """Replaces the table by a variable, which keeps its alias or else its name."""
    if not table.alias and not isinstance(table.parent, (exp.Summarize, exp.Describe)):
        name = table.name or table.this.name  # of a function
        table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    table.set("this", exp.to_identifier(variable, quoted=True))
    table.set("db", None)
    table.set("version", None)


def _qualify_less(tree: Node) -> None:
    """Drops the database from columns qualified by database and table (``db.orders.id``)."""
    for column in tree.find_all(exp.Column):
        if column.args.get("db") is not None and column.args.get("catalog") is None:
            column.set("db", None)


# Time travel


def _check_hints(query: str, tree: Node) -> None:
    """Checks that every hint of the text follows a table: the parser drops comments elsewhere."""
    if "/*+" not in query:
        return
    written = sum(len(hints_in(token.comments)) for token in Dialect().tokenize(query))
    known = sum(len(hints_in(_comments(table))) for table in tree.find_all(exp.Table))
    if written != known:
        raise InvalidArgument("the query: a hint /*+ OPTIONS(...) */ belongs behind the name of its table")


def _comments(table: Node) -> list[str]:
    """Returns the comments after a table's name, its alias or its AS OF clause."""
    parts = (table.args.get("alias"), table.args.get("version"))
    nodes = [table, table.this, *(node for part in parts if part is not None for node in part.walk())]
    return [comment for node in nodes for comment in node.comments or ()]


def _travel(table: Node, name: str, options: Mapping[str, str]) -> Travel:
    """Returns the state of a table that a clause or a hint after its name asks for."""
    asked = travel_of_clause(table.args.get("version"))
    hinted = travel_of_hints(options, name)
    if NOW not in (asked, hinted):
        raise InvalidArgument(f"{name}: both a hint and AS OF say which snapshot is read")
    return hinted if asked == NOW else asked


# The result


def related(query: Prepared, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """Returns the rows of a query as a relation."""
    import duckdb

    arguments = {"params": dict(query.parameters)} if query.parameters else {}
    found = evaluated(query, connection.sql, arguments)
    assert isinstance(found, duckdb.DuckDBPyRelation)  # statements without rows were refused
    return found


def evaluated(query: Prepared, run: object, arguments: Mapping[str, object]) -> object:
    """Runs a query by a method of DuckDB's connection, which finds its tables.

    Raises:
        InvalidArgument: DuckDB refuses it. TableNotFound: it names a table that nobody has.
    """
    import duckdb

    names = {"morrow_run": run, "morrow_query": query.text, "morrow_arguments": arguments}
    try:
        return eval(RUN, {**names, **query.variables})
    except duckdb.CatalogException as error:
        if any(variable in str(error) for variable in query.variables):
            hint = "tables are handed over as variables, which this connection does not look for"
            raise InvalidArgument(f"{hint}: SET python_enable_replacements = true") from error
        problem = _problem(error)
        raise TableNotFound(f"the query: {problem}; tables of the catalog are written database.table") from error
    except (duckdb.Error, TypeError) as error:
        raise InvalidArgument(f"the query: {_problem(error)}") from error


def _problem(error: Exception) -> str:
    """Returns DuckDB's message in one line, without the query that it quotes."""
    return " ".join(str(error).partition("\nLINE ")[0].split())
