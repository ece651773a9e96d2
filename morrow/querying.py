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

import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from morrow.engine.errors import InvalidArgument, TableNotFound
from morrow.engine.plan.filter.deep import with_room
from morrow.engine.plan.time_travel import NOW, Travel, to_millis
from morrow.engine.units import MILLIS_PER_SECOND
from morrow.hints import hints_in, travel_of_hints
from morrow.readers.execution.duckdb_relation import handed
from morrow.readers.expressions.library import check_duckdb

if TYPE_CHECKING:
    import duckdb

    from morrow.readers.execution.dataset import PaimonDataset

OpenTable: TypeAlias = Callable[[str, Travel], "PaimonDataset"]
"""Maps ``database.table``, perhaps with ``$``, and the state to read to the dataset to scan."""
Node: TypeAlias = Any
"""A node of sqlglot's tree; its base class changed between versions."""

READING = (exp.Query, exp.Values, exp.Summarize, exp.Describe, exp.Pivot)
"""Statements that return rows and change nothing."""
NOT_CONSTANT = (exp.Column, exp.Query, exp.Star, exp.Placeholder, exp.Parameter)

RUN = compile("morrow_connection.sql(morrow_query)", "<query>", "eval")
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


def run(
    query: str,
    open_table: OpenTable,
    databases: Sequence[str],
    *,
    database: str | None,
    connection: duckdb.DuckDBPyConnection | None,
) -> duckdb.DuckDBPyRelation:
    """Runs `query` as a relation; see `Catalog.sql`."""
    import duckdb

    check_duckdb()
    connection = connection or duckdb.default_connection()
    tree = _parsed(query)
    _check_hints(query, tree)
    variables: dict[str, object] = {}
    for table in list(tree.find_all(exp.Table)):
        name = _name_in_catalog(table, databases, database, connection)
        if name is None:
            _check_no_travel(table)
            continue
        variable = f"morrow_{uuid.uuid4().hex}"
        variables[variable] = handed(open_table(name, _travel(table, name)))
        _replace(table, variable)
    if not variables:
        return _result(connection, query, {})
    _qualify_less(tree)
    return _result(connection, with_room(lambda: tree.sql(dialect=DuckDB), query, "the query"), variables)


def _parsed(query: str) -> Node:
    if not isinstance(query, str):
        raise InvalidArgument(f"a query must be text, not {query!r}")
    try:
        parsed = with_room(lambda: sqlglot.parse(query, dialect=Dialect), query, "the query")
        statements = [statement for statement in parsed if statement is not None]
    except SqlglotError as error:
        raise InvalidArgument(f"the query does not parse: {str(error).splitlines()[0]}") from error
    if len(statements) != 1:
        raise InvalidArgument(f"{len(statements)} statements where one query was expected")
    if not isinstance(statements[0], READING):
        raise InvalidArgument("the statement is no query: write a SELECT; tables are written by the methods of Table")
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
    if database is None or _is_common(table):
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
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
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


def _travel(table: Node, name: str) -> Travel:
    """Returns the state of a table that a clause or a hint after its name asks for."""
    asked = travel_of_clause(table.args.get("version"))
    hinted = travel_of_hints(hints_in(_comments(table)), name)
    if NOW not in (asked, hinted):
        raise InvalidArgument(f"{name}: both a hint and AS OF say which snapshot is read")
    return hinted if asked == NOW else asked


def travel_of_clause(version: Node | None) -> Travel:
    """Returns the state of a table that a clause ``VERSION | TIMESTAMP AS OF`` asks for.

    Raises:
        InvalidArgument: a form of time travel that is not ``AS OF``, or an invalid value.
    """
    if version is None:
        return NOW
    if version.args["kind"] != "AS OF":
        raise InvalidArgument(f"time travel by {version.args['kind']}: write AS OF (changes are read by Table.changes)")
    value = version.expression
    return {"VERSION": _version, "TIMESTAMP": _timestamp}[version.name](value)


def _version(value: Node) -> Travel:
    """Parses the name of a tag, an id, ``snapshot.<id>`` or ``watermark-<millis>`` as text, or an id as a number."""
    if not isinstance(value, exp.Literal) or not (value.is_string or value.is_int):
        raise InvalidArgument(f"VERSION AS OF takes a text or the id of a snapshot, not {value.sql(dialect=DuckDB)}")
    return Travel(version=value.name)


def _timestamp(value: Node) -> Travel:
    """Parses ISO text, seconds since 1970 as a number, or an expression of constants; times without a zone are UTC."""
    if isinstance(value, exp.Literal) and not value.is_string:
        return Travel(millis=int(Decimal(value.name) * MILLIS_PER_SECOND // 1))
    if isinstance(value, exp.Literal):
        if value.name.strip().isdecimal():
            raise InvalidArgument(f"TIMESTAMP AS OF {value.name!r}: write seconds since 1970 as a number, unquoted")
        return Travel(millis=to_millis(value.name))
    return Travel(millis=_evaluated(value))


def _evaluated(value: Node) -> int:
    """Evaluates an expression to epoch milliseconds, in a DuckDB without tables and file access."""
    import duckdb

    text = value.sql(dialect=DuckDB)
    if value.find(*NOT_CONSTANT) is not None:
        raise InvalidArgument(f"TIMESTAMP AS OF {text}: the time must not depend on rows")
    with duckdb.connect(config={"python_enable_replacements": "false", "enable_external_access": "false"}) as apart:
        apart.execute("SET TimeZone = 'UTC'")
        instant = exp.cast(value.copy(), "timestamptz", dialect=DuckDB)
        try:
            found = apart.execute(exp.select(exp.func("epoch_ms", instant)).sql(dialect=DuckDB)).fetchone()
        except duckdb.Error as error:
            raise InvalidArgument(f"TIMESTAMP AS OF {text}: {error}") from error
    if found is None or found[0] is None:
        raise InvalidArgument(f"TIMESTAMP AS OF {text}: that is NULL")
    return int(found[0])


# The result


def _result(
    connection: duckdb.DuckDBPyConnection, query: str, variables: Mapping[str, object]
) -> duckdb.DuckDBPyRelation:
    import duckdb

    try:
        found = eval(RUN, {"morrow_connection": connection, "morrow_query": query, **variables})
    except duckdb.CatalogException as error:
        if any(variable in str(error) for variable in variables):
            hint = "tables are handed over as variables, which this connection does not look for"
            raise InvalidArgument(f"{hint}: SET python_enable_replacements = true") from error
        raise TableNotFound(f"the query: {error}; tables of the catalog are written database.table") from error
    except duckdb.Error as error:
        raise InvalidArgument(f"the query: {error}") from error
    assert isinstance(found, duckdb.DuckDBPyRelation)  # statements without rows were refused
    return found
