"""Execution of statements: the runner of each kind, and SHOW, DESCRIBE, CALL and EXPLAIN.

CALL runs Paimon's procedures without Spark. EXPLAIN prints what a statement would read and write, and changes
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from morrow.engine.catalog.names import SYSTEM_DATABASE
from morrow.engine.errors import DatabaseNotFound, InvalidArgument, TableNotFound, Unsupported
from morrow.engine.options.declared.table import PARTITION, PRIMARY_KEY
from morrow.engine.redaction import clean_text, hide_secrets
from morrow.queries.query import Prepared, make_relation, prepare_query, run_prepared
from morrow.statements import context as sessions
from morrow.statements import copy_into, ddl, dml, insert
from morrow.statements import statement as st
from morrow.statements.context import Context, DependsOnRows, Warehouse, resolve_catalog
from morrow.statements.dml import build_condition
from morrow.statements.sources import qualify_name
from morrow.statements.tokens import read_words
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    import duckdb

    from morrow.engine.format.schema import TableSchema
    from morrow.engine.format.types import DataField
    from morrow.engine.plan.metadata import TableMetadata
    from morrow.procedures.procedure import Parameter, Procedure, Rows
    from morrow.tables.table import Table


def show(context: Context, statement: st.Show) -> duckdb.DuckDBPyRelation:
    return context.relation(_SHOWN[statement.what](context, statement))


def _build_table(**columns: Sequence[str | None]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def match_names(names: Sequence[str], pattern: str | None) -> list[str]:
    """Return the names that match ``LIKE 'or*|it*'``: ``*`` and ``|`` as in Spark, ``%`` and ``_`` as in SQL."""
    if pattern is None:
        return list(names)
    parts = ["".join({"*": ".*", "%": ".*"}.get(char, re.escape(char)) for char in part) for part in pattern.split("|")]
    found = re.compile("|".join(parts), re.IGNORECASE | re.DOTALL)
    return [name for name in names if found.fullmatch(name)]


def _show_databases(context: Context, statement: st.Show) -> pa.Table:
    return _build_table(database=match_names(context.catalog.databases(), statement.like))


def _show_catalogs(context: Context, statement: st.Show) -> pa.Table:
    return _build_table(catalog=match_names(list(context.session.sources), statement.like))


def _show_current_catalog(context: Context, _statement: st.Show) -> pa.Table:
    return _build_table(catalog=[context.session.current])


def _show_current_database(context: Context, _statement: st.Show) -> pa.Table:
    return _build_table(catalog=[context.session.current], database=[context.database])


def _show_tables(context: Context, statement: st.Show) -> pa.Table:
    from morrow.readers.system.catalog_tables import NAMES

    if statement.name == (SYSTEM_DATABASE,):
        database, tables = SYSTEM_DATABASE, list(NAMES)
    else:
        database = context.database_of(statement.name)
        tables = context.catalog.tables(database)
    names = match_names(tables, statement.like)
    return _build_table(database=[database] * len(names), table=names)


def _show_views(context: Context, statement: st.Show) -> pa.Table:
    database = context.database_of(statement.name)
    try:
        names = match_names(context.catalog.views(database), statement.like)
    except Unsupported:  # as in Paimon, a catalog without views has none
        names = []
    return _build_table(database=[database] * len(names), view=names)


def _show_functions(context: Context, statement: st.Show) -> pa.Table:
    database = context.database_of(statement.name)
    names = match_names(context.catalog.functions(database), statement.like)
    return _build_table(database=[database] * len(names), function=names)


def _show_extended(context: Context, statement: st.Show) -> pa.Table:
    database = context.database_of(statement.name)
    names = match_names(context.catalog.tables(database), statement.like)
    details = [_list_details(context.catalog.table(f"{database}.{name}")) for name in names]
    texts = ["\n".join(f"{key}: {value}" for key, value in each) for each in details]
    return _build_table(database=[database] * len(names), table=names, information=texts)


def _show_partitions(context: Context, statement: st.Show) -> pa.Table:
    from morrow.writers.operations.partition_filters import build_partition_filter, list_partitions

    target = WriteTarget.of(context.table(statement.name)._metadata)
    given = None if statement.partition is None else context.partition(statement.partition, "PARTITION")
    filter = build_partition_filter(target, given, None, "SHOW PARTITIONS")
    if not target.partition_fields:
        raise TableNotFound(f"{target.where}: it has no partitions")
    found = list_partitions(target, filter)
    parts = [found[name].cast(pl.String).fill_null("null") for name in found.columns]
    texts = ["/".join(f"{c.name}={value}" for c, value in zip(parts, row)) for row in zip(*parts)]
    return _build_table(partition=sorted(texts))


def _show_properties(context: Context, statement: st.Show) -> pa.Table:
    table = context.table(statement.name)
    found = hide_secrets(_collect_properties(table))
    if statement.like is not None:
        found = {statement.like: found.get(statement.like, "")} if statement.like in found else {}
    return _build_table(key=list(found), value=list(found.values()))


def _collect_properties(table: Table) -> dict[str, str]:
    keys = {PRIMARY_KEY.key: table.primary_keys, PARTITION.key: table.partition_keys}
    return {**table.options, **{name: ",".join(columns) for name, columns in keys.items() if columns}}


def _show_columns(context: Context, statement: st.Show) -> pa.Table:
    return _build_table(column=list(context.table(statement.name)._newest.by_name))


def _show_tags(context: Context, statement: st.Show) -> pa.Table:
    return _build_table(tag=sorted(context.table(statement.name).tags.names))


def _show_branches(context: Context, statement: st.Show) -> pa.Table:
    return _build_table(branch=context.table(statement.name).branches.list())


def _show_snapshots(context: Context, statement: st.Show) -> pa.Table:
    found: pa.Table = context.table(statement.name).system("snapshots").to_arrow()
    return found


def _show_procedures(_context: Context, statement: st.Show) -> pa.Table:
    from morrow.procedures.registry import PROCEDURES

    names = match_names(sorted(PROCEDURES), statement.like)
    return _build_table(procedure=names, arguments=[str(PROCEDURES[name]) for name in names])


def _show_create_table(context: Context, statement: st.Show) -> pa.Table:
    table = context.table(statement.name)
    return _build_table(create_table=[render_create_table(context.full_name(statement.name), table._newest)])


def render_create_table(name: str, schema: TableSchema) -> str:
    """Return the CREATE TABLE statement for these columns, keys and options."""
    lines = [f"  {_render_column(field)}" for field in schema.fields]
    if schema.primary_keys:
        lines.append(f"  PRIMARY KEY ({', '.join(map(_quote_name, schema.primary_keys))}) NOT ENFORCED")
    parts = [f"CREATE TABLE {'.'.join(map(_quote_name, name.split('.', 1)))} (\n" + ",\n".join(lines) + "\n)"]
    if schema.partition_keys:
        parts.append(f"PARTITIONED BY ({', '.join(map(_quote_name, schema.partition_keys))})")
    if schema.comment is not None:
        parts.append(f"COMMENT {_quote_text(schema.comment)}")
    if schema.options:
        pairs = (f"  {_quote_text(key)} = {_quote_text(value)}" for key, value in hide_secrets(schema.options).items())
        parts.append("TBLPROPERTIES (\n" + ",\n".join(pairs) + "\n)")
    return "\n".join(parts)


def _render_column(field: DataField) -> str:
    parts = [_quote_name(field.name), field.type.text()]
    if field.description is not None:
        parts.append(f"COMMENT {_quote_text(field.description)}")
    if field.default_value is not None:
        value = field.default_value
        parts.append(f"DEFAULT {value if _is_quoted(value) else _quote_text(value)}")
    return " ".join(parts)


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] == "'" and "'" not in text[1:-1]


def _quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _quote_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_SHOWN: Mapping[str, Callable[[Context, st.Show], pa.Table]] = {
    "catalogs": _show_catalogs,
    "current catalog": _show_current_catalog,
    "current database": _show_current_database,
    "databases": _show_databases,
    "tables": _show_tables,
    "views": _show_views,
    "functions": _show_functions,
    "table extended": _show_extended,
    "partitions": _show_partitions,
    "tblproperties": _show_properties,
    "create table": _show_create_table,
    "columns": _show_columns,
    "tags": _show_tags,
    "branches": _show_branches,
    "snapshots": _show_snapshots,
    "procedures": _show_procedures,
}


# DESCRIBE


def describe(context: Context, statement: st.Describe) -> duckdb.DuckDBPyRelation:
    """List the columns of a table, and with EXTENDED its properties. DuckDB describes its own tables."""
    try:
        table = context.table(statement.table)
    except (TableNotFound, DatabaseNotFound):
        if statement.extended:
            raise
        names = ".".join('"' + part.replace('"', '""') + '"' for part in statement.table)
        return make_relation(context.prepared(f"DESCRIBE {names}"), context.connection)
    rows = [(field.name, field.type.text(), field.description) for field in table._newest.fields]
    if statement.extended:
        rows += [("", "", None), ("# Detailed Table Information", "", None)]
        rows += [(key, value, None) for key, value in _list_details(table)]
    columns = list(zip(*rows))
    return context.relation(_build_table(col_name=columns[0], data_type=columns[1], comment=columns[2]))


def _list_details(table: Table) -> list[tuple[str, str]]:
    newest = table._metadata.latest_snapshot()
    details = {
        "Location": clean_text(table.path),
        "Branch": table.branch,
        "Comment": table.comment,
        "Primary Key": ", ".join(table.primary_keys),
        "Partition Keys": ", ".join(table.partition_keys),
        "Schema": str(table._newest.id),
        "Snapshot": None if newest is None else str(newest.id),
        "Options": ", ".join(f"{key}={value}" for key, value in hide_secrets(table.options).items()),
    }
    return [(key, value) for key, value in details.items() if value]


def describe_database(context: Context, statement: st.DescribeDatabase) -> duckdb.DuckDBPyRelation:
    found = context.catalog.database(st.format_name(statement.database))
    about = {
        "Database": found.name,
        "Warehouse": context.catalog.warehouse,
        "Comment": found.comment,
        "Owner": found.owner,
        "Location": found.location,
        **(hide_secrets(found.properties) if statement.extended else {}),
    }
    told = {name: clean_text(value) for name, value in about.items() if value is not None}
    return context.relation(_build_table(info_name=list(told), info_value=list(told.values())))


NAMESPACE = "sys"
TABLE = "table"
"""The first argument of procedures of a table."""
ARROW = {"BIGINT": pa.int64(), "INT": pa.int32(), "BOOLEAN": pa.bool_(), "STRING": pa.string()}


@dataclass(frozen=True)
class ProcedureTarget:
    """A table named by an argument, optionally with a branch; ``db.*`` names all tables of a database."""

    context: Context
    name: str
    branch: str | None = None

    @property
    def catalog(self) -> Warehouse:
        return self.context.catalog

    @property
    def table(self) -> Table:
        return self.context.open_table(self.name, self.branch)


@dataclass(frozen=True)
class Call:
    """A call of a procedure in a catalog."""

    context: Context
    where: ProcedureTarget | None

    @property
    def catalog(self) -> Warehouse:
        return self.context.catalog

    @property
    def table(self) -> Table:
        assert self.where is not None  # set for procedures with a table
        return self.where.table

    @property
    def metadata(self) -> TableMetadata:
        return self.table._metadata

    @property
    def tables(self) -> Sequence[Table]:
        assert self.where is not None
        database, _, name = self.where.name.rpartition(".")
        if name != "*":
            return [self.table]
        return [self.context.open_table(f"{database}.{each}") for each in self.catalog.tables(database)]


def call_procedure(context: Context, statement: st.CallProcedure) -> duckdb.DuckDBPyRelation:
    """Call a procedure. The result has the same columns as in Paimon."""
    from morrow.procedures.procedure import Kind
    from morrow.procedures.registry import find_procedure

    *namespace, name = statement.procedure
    if namespace and [part.lower() for part in namespace[-1:]] != [NAMESPACE]:
        raise InvalidArgument(f"there is no procedure {'.'.join(statement.procedure)}; they are in {NAMESPACE}")
    found = find_procedure(name)
    given = _bind_arguments(context, found, statement.arguments)
    table = _find_target(context, given.pop(TABLE)) if found.of_table else None
    bound = found.bound(given)
    for parameter in found.parameters:
        if parameter.kind is Kind.TABLE and bound[parameter.python] is not None:
            bound[parameter.python] = _find_target(context, bound[parameter.python])
    rows = found.run(Call(context, table), **bound)
    return context.relation(_to_arrow(rows, found.columns))


def _bind_arguments(context: Context, found: Procedure, arguments: Sequence[st.Argument]) -> dict[str, Any]:
    """Return the arguments by name. Positional arguments come first, in Paimon's order."""
    from morrow.procedures.procedure import Kind, Parameter

    first = (TABLE,) if found.of_table else ()
    parameters = [*(Parameter(name, Kind.TABLE, required=True) for name in first), *found.parameters]
    known = {name: parameter for parameter in parameters for name in parameter.names}
    placed = list(takewhile(lambda argument: argument.name is None, arguments))
    if any(argument.name is None for argument in arguments[len(placed) :]):
        raise InvalidArgument(f"CALL {found.name}: arguments without a name come first")
    values = [_evaluate_argument(context, each.value, None, f"CALL {found.name}") for each in placed]
    names = [*first[: len(values)], *found.place(values[len(first) :])]
    given: dict[str, Any] = {}
    for number, argument in enumerate(arguments):
        name = argument.name or names[number]
        wanted = known.get(name.lower())
        key = name if wanted is None else wanted.name
        if key in given:
            raise InvalidArgument(f"CALL {found.name}: the argument {key!r} is given twice")
        given[key] = _evaluate_argument(context, argument.value, wanted, f"CALL {found.name}, {key}")
    if found.of_table and given.get(TABLE) is None:
        raise InvalidArgument(f"{found.name} needs the argument {TABLE!r}; it has {found}")
    return given


def _evaluate_argument(context: Context, text: str, parameter: Parameter | None, what: str) -> Any:
    from morrow.procedures.procedure import Kind

    words = read_words(text)
    token = words.next
    if token is not None and token.token_type is TokenType.IDENTIFIER and len(words.tokens) == 1:
        return token.text  # text in double quotes, as in Spark
    if (parameter is None or parameter.kind is Kind.MAP) and words.has("MAP") and words.comes("("):
        items = words.enclosed(words.string)
        words.end()
        if len(items) % 2:
            raise InvalidArgument(f"{what}: a map has a value for each key")
        return dict(zip(items[::2], items[1::2]))
    value = context.constant(text, what)
    if parameter is not None and parameter.kind is Kind.STRING and isinstance(value, (int, float)):
        return str(value).lower()
    return value


def _find_target(context: Context, given: object) -> ProcedureTarget:
    if not isinstance(given, str):
        raise InvalidArgument(f"{TABLE} is the name of a table, not {given!r}")
    database, _, last = given.rpartition(".")
    if last == "*":
        return ProcedureTarget(context, f"{database.strip('`')}.*")
    name, branch = qualify_name(given, context.database)
    return ProcedureTarget(context, name, branch)


def _to_arrow(rows: Rows, columns: str) -> pa.Table:
    kinds: Mapping[str, pa.DataType] = {
        parts[0]: ARROW[parts[1]] for parts in (column.split() for column in columns.split(","))
    }
    values = list(map(list, zip(*rows))) if rows else [[] for _ in kinds]
    return pa.table({name: pa.array(part, kind) for (name, kind), part in zip(kinds.items(), values)})


def explain(context: Context, statement: st.Explain) -> duckdb.DuckDBPyRelation:
    """Return one row for each part of the plan: its name and its text."""
    import pyarrow as pa

    found = statement.statement
    parts: list[tuple[str, str]] = []
    if isinstance(found, (st.Delete, st.Update)):
        table = context.table(found.table)
        try:
            where = build_condition(context, found, table._newest)
        except DependsOnRows:  # the statement joins all rows
            where = None
        scan = table.scan(filter=where)
        parts.append((f"{found.kind} {st.format_name(found.table)}: the rows are read by", scan.explain()))
    elif isinstance(found, st.Insert):
        context.table(found.table)
        verb = "INSERT OVERWRITE" if found.overwrite else "INSERT INTO"
        parts.append((f"{verb} {st.format_name(found.table)}: the rows of", _explain_query(context, found.query)))
    elif isinstance(found, st.MergeInto):
        scan = context.table(found.table).scan()
        parts.append((f"MERGE INTO {st.format_name(found.table)}: the rows are read by", scan.explain()))
        parts.append(("and joined with the rows of", _explain_query(context, f"SELECT * FROM {found.source}")))
    elif isinstance(found, st.Query):
        parts.append(("the query", _explain_query(context, found.text)))
    else:
        raise InvalidArgument(f"EXPLAIN {found.kind} is not supported")
    keys, texts = zip(*parts)
    return context.relation(pa.table({"part": pa.array(keys, pa.string()), "plan": pa.array(texts, pa.string())}))


def _explain_query(context: Context, query: str) -> str:
    """Return DuckDB's plan of a query."""
    import duckdb

    found = context.prepared(query)
    asked = Prepared(f"EXPLAIN {found.text}", found.variables, {})
    rows = run_prepared(asked, context.connection.cursor().execute, {})
    assert isinstance(rows, duckdb.DuckDBPyConnection)
    return "\n".join(str(row[-1]) for row in rows.fetchall())


def run_statement(context: Context, statement: st.Statement) -> duckdb.DuckDBPyRelation:
    """Run a statement; return its rows, or a report of its changes."""
    context, statement = resolve_catalog(context, statement)
    done: duckdb.DuckDBPyRelation = RUNNERS[type(statement)](context, statement)
    return done


def _run_query(context: Context, statement: st.Query) -> duckdb.DuckDBPyRelation:
    found = prepare_query(
        statement.text,
        context.sources,
        database=context.database,
        connection=context.connection,
        parameters=context.parameters,
    )
    return make_relation(found, context.connection)


def _run_copy(context: Context, statement: st.CopyTo) -> duckdb.DuckDBPyRelation:
    """Write the rows of a query to a file, in a format that DuckDB supports."""
    import duckdb
    import pyarrow as pa

    found = context.prepared(statement.query)
    copied = Prepared(f"COPY ({found.text}\n) TO {statement.target}", found.variables, {})
    done = run_prepared(copied, context.connection.cursor().execute, {})
    assert isinstance(done, duckdb.DuckDBPyConnection)
    first = done.fetchone()
    if first is None:
        raise InvalidArgument("COPY: DuckDB did not return a number of rows")
    return context.relation(pa.table({"rows_copied": pa.array([first[0]], pa.int64())}))


RUNNERS: Mapping[type[st.Statement], Callable[[Context, Any], Any]] = {
    st.Query: _run_query,
    st.Explain: explain,
    st.CopyTo: _run_copy,
    st.CopyInto: copy_into.copy_into,
    st.CopyIntoLocation: copy_into.copy_into_location,
    st.Use: sessions.use,
    st.SetOption: sessions.set_option,
    st.ResetOption: sessions.reset_option,
    st.CreateCatalog: sessions.create_catalog,
    st.DropCatalog: sessions.drop_catalog,
    st.CreateDatabase: ddl.create_database,
    st.AlterDatabase: ddl.alter_database,
    st.DropDatabase: ddl.drop_database,
    st.CreateTable: ddl.create_table,
    st.CreateTableLike: ddl.create_table_like,
    st.DropTable: ddl.drop_table,
    st.RenameTable: ddl.rename_table,
    st.AlterTable: ddl.alter_table,
    st.DropPartitions: ddl.drop_partitions,
    st.AddPartitions: ddl.add_partitions,
    st.CreateTag: ddl.create_tag,
    st.DeleteTags: ddl.delete_tags,
    st.RenameTag: ddl.rename_tag,
    st.CreateView: ddl.create_view,
    st.AlterView: ddl.alter_view,
    st.DropView: ddl.drop_view,
    st.CommentColumn: ddl.comment_column,
    st.Analyze: ddl.analyze,
    st.AnalyzeTables: ddl.analyze_tables,
    st.Insert: insert.insert,
    st.Delete: dml.delete,
    st.Update: dml.update,
    st.Truncate: dml.truncate,
    st.MergeInto: dml.merge,
    st.Show: show,
    st.Describe: describe,
    st.DescribeDatabase: describe_database,
    st.CallProcedure: call_procedure,
}
"""Class of a statement -> the function that runs it."""
