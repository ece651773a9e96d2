"""Statements that define databases, tables, views, tags and statistics: CREATE, ALTER, DROP, RENAME, ANALYZE.

An ALTER TABLE becomes one version of the schema.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import AlreadyExists, DatabaseNotFound, InvalidArgument, TableNotFound, Unsupported
from morrow.engine.options.declarations import parse_names
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import PATH, TYPE
from morrow.engine.plan.folder_table import FORMAT_TABLE
from morrow.engine.schema import schema_changes as sc
from morrow.engine.schema.defaults import check_default
from morrow.engine.schema.sql_columns import Column, parse_columns, parse_type
from morrow.engine.structs import replace
from morrow.engine.units import format_count
from morrow.queries.query import run_prepared
from morrow.readers.expressions.sql import quote_identifier
from morrow.statements import statement as st
from morrow.statements.context import Context, make_counts
from morrow.statements.insert import Filling, find_column
from morrow.statements.tokens import OPENING, Words, read_words
from morrow.writers.operations.partition_filters import check_new_partitions
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from morrow.engine.catalog.protocol import View
    from morrow.engine.format.schema import TableSchema
    from morrow.engine.format.snapshot import Snapshot
    from morrow.tables.table import Table

DEFAULT_DATABASE = "default"
PROVIDERS = ("paimon", "morrow")
LITERALS = frozenset({"TRUE", "FALSE", "NULL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "X"})
"""Words that a literal default value may begin with."""
CONSTRAINTS = frozenset({"CHECK", "UNIQUE", "REFERENCES", "FOREIGN", "GENERATED", "CONSTRAINT", "COLLATE"})


def check_statement(statement: st.Statement) -> None:
    """Check what the parser leaves to the executors, before the first statement of a text runs.

    Raises:
        InvalidArgument: the definitions of columns do not parse. Unsupported: a statement or clause that only Spark
            supports, a default value that is not a literal, or a constraint.
    """
    provider = getattr(statement, "provider", None)
    if provider is not None and provider.lower() not in PROVIDERS:
        raise Unsupported(f"a table USING {provider}", hint="write USING paimon, or leave it out")
    if isinstance(statement, st.CreateTable) and statement.columns is not None:
        _check_definitions(read_words(statement.columns))
        parse_columns(statement.columns)
    elif isinstance(statement, st.AlterTable):
        for change in statement.changes:
            if change.new is not None:
                _check_definitions(read_words(f"{ANY_NAME} {change.new.definition}"))
            if change.verb == "set default" and change.value is not None:
                _check_literal(read_words(change.value), 0)
    elif isinstance(statement, st.Analyze) and statement.partition is not None:
        raise Unsupported("Analyze table partition", hint="analyse the whole table")
    elif isinstance(statement, (st.Analyze, st.AnalyzeTables)) and statement.has_noscan:
        raise Unsupported(f"{statement.kind} with NOSCAN", hint="NOSCAN is ineffective with paimon: leave it out")
    elif isinstance(statement, st.Explain) and statement.mode is not None:
        raise Unsupported(f"EXPLAIN {statement.mode}", hint="EXPLAIN alone shows files, masks and the plan")


def _check_definitions(words: Words) -> None:
    """Refuse DEFAULT values that are not literals, and constraints that would not be enforced."""
    depth = 0
    for at, token in enumerate(words.tokens):
        depth += (token.text in "(<[") - (token.text in ")>]") if token.token_type is not TokenType.STRING else 0
        word = token.text.upper()
        if depth or token.token_type is TokenType.IDENTIFIER:
            continue
        if word == "DEFAULT":
            _check_literal(words, at + 1)
        if word in CONSTRAINTS and at > 0 and words.tokens[at - 1].text != ",":  # otherwise it is the name of a column
            raise Unsupported(f"{word} in a table", hint="Paimon has keys, NOT NULL, comments and default values")


def _check_literal(words: Words, at: int) -> None:
    """Refuse a computed default value, since Paimon stores values and not expressions."""
    words.at = at
    token = words.next
    if token is None:
        raise words.unexpected("a literal")
    opens = any(following.token_type in OPENING for following in words.tokens[at + 1 : at + 2])
    is_word = token.token_type not in (TokenType.STRING, TokenType.NUMBER, TokenType.DASH, TokenType.PLUS)
    if opens or (is_word and token.text.upper() not in LITERALS):
        raise Unsupported(f"the default value {token.text}", hint="give a literal")


def create_database(context: Context, statement: st.CreateDatabase) -> duckdb.DuckDBPyRelation:
    name, ignores = st.format_name(statement.database), statement.if_not_exists
    there = ignores and name in context.catalog.databases()
    context.catalog.create_database(name, properties=statement.properties, ignore_if_exists=ignores)
    return context.did(f"{'left' if there else 'created'} the database {name}")


def alter_database(context: Context, statement: st.AlterDatabase) -> duckdb.DuckDBPyRelation:
    name = st.format_name(statement.database)
    context.catalog.alter_database(name, statement.properties, unset=statement.removed)
    return context.did(f"altered the database {name}")


def drop_database(context: Context, statement: st.DropDatabase) -> duckdb.DuckDBPyRelation:
    name = st.format_name(statement.database)
    there = name in context.catalog.databases()
    context.catalog.drop_database(name, cascade=statement.cascade, ignore_if_not_exists=statement.if_exists)
    return context.did(f"dropped the database {name}" if there else f"there was no database {name}")


# CREATE TABLE


def create_table(context: Context, statement: st.CreateTable) -> duckdb.DuckDBPyRelation:
    name = context.plain_name(statement.table, statement.kind)
    _check_database(context, name)
    there = _has(context, name)
    if there and statement.if_not_exists:
        return context.did(f"left the table {name}, which exists")
    if statement.replace:
        return _replace_table(context, statement, name, there)
    if there:
        raise AlreadyExists(f"the table {name} exists")
    if statement.query is None and str(statement.options.get(TYPE.key, "")).strip().lower() == FORMAT_TABLE:
        _create_format_table(context, statement, name)
        return context.did(f"created the format table {name}")
    if statement.query is None:
        _create_empty_table(context, statement, name)
        return context.did(f"created the table {name}")
    return _create_filled_table(context, statement, name)


def _check_database(context: Context, name: str) -> None:
    """Raise `DatabaseNotFound` if the database does not exist. CREATE TABLE only creates the database ``default``."""
    database = name.partition(".")[0]
    if database != DEFAULT_DATABASE and database not in context.catalog.databases():
        raise DatabaseNotFound(f"there is no database {database}; CREATE DATABASE makes one")


def _has(context: Context, name: str) -> bool:
    database, _, table = name.partition(".")
    return database in context.catalog.databases() and table in context.catalog.tables(database)


def _create_empty_table(
    context: Context,
    statement: st.CreateTable,
    name: str,
    schema: pa.Schema | None = None,
    make: Callable[..., Table] | None = None,
) -> Table:
    """Create a table, by `make` if given, with the columns of a query, by default with those of the statement."""
    columns = None if statement.columns is None else parse_columns(statement.columns)
    return (make or context.catalog.create_table)(
        name,
        schema=schema if columns is None else columns.columns,
        primary_keys=() if columns is None else columns.primary_keys,
        partition_keys=statement.partition_keys,
        options=dict(statement.options),
        comment=statement.comment,
    )


def _create_format_table(context: Context, statement: st.CreateTable, name: str) -> None:
    columns = parse_columns(statement.columns or "")
    if columns.primary_keys:
        raise InvalidArgument(f"{name}: a format table has columns and no primary key")
    options = {key: value for key, value in statement.options.items() if key != TYPE.key}
    context.catalog.create_format_table(
        name,
        columns.columns,
        format=str(options.pop(FILE_FORMAT.key, FILE_FORMAT.default)),
        partition_keys=statement.partition_keys,
        options=options,
        comment=statement.comment,
    )


def _create_filled_table(context: Context, statement: st.CreateTable, name: str) -> duckdb.DuckDBPyRelation:
    """Create a table with the rows of a query. The table is dropped after an error."""
    made: list[Table] = []
    try:
        snapshot, rows = _fill_table(context, statement, name, made, context.catalog.create_table)
    except BaseException:
        if made:
            context.catalog.drop_table(name)
        raise
    return make_counts(context, snapshot, rows, 0, 0)


def _fill_table(
    context: Context, statement: st.CreateTable, name: str, made: list[Table], make: Callable[..., Table]
) -> tuple[Snapshot | None, int | None]:
    """Create a table by `make`, add it to `made`, and write the rows of the query, if the statement has one.

    Returns: the snapshot, and the number of rows.
    """
    import duckdb

    if statement.query is None:
        made.append(_create_empty_table(context, statement, name, make=make))
        return None, None
    relation = run_prepared(context.prepared(statement.query), context.connection.sql, {})
    assert isinstance(relation, duckdb.DuckDBPyRelation)  # the result of a query
    twice = sorted({column for column in relation.columns if relation.columns.count(column) > 1})
    if twice:
        raise InvalidArgument(f"CREATE TABLE AS: the query has several columns {twice[0]!r}")
    schema = _convert_schema(relation.limit(0).to_arrow_table().schema)
    made.append(_create_empty_table(context, statement, name, schema, make))
    filling = Filling(relation, tuple(relation.columns))
    with filling:
        snapshot = made[0].append(filling.source)
    return snapshot, filling.rows


def _convert_schema(schema: pa.Schema) -> pa.Schema:
    """Convert columns to types that Paimon stores: times of day in milliseconds, enumerations as text."""
    import pyarrow as pa

    fields = []
    for field in schema:
        kind = pa.time32("ms") if pa.types.is_time64(field.type) else field.type
        fields.append(field.with_type(kind.value_type if pa.types.is_dictionary(kind) else kind))
    return pa.schema(fields)


def _replace_table(context: Context, statement: st.CreateTable, name: str, there: bool) -> duckdb.DuckDBPyRelation:
    """Fill a branch, then make it the table, which keeps its history. The old table stays after an error.

    If the partition keys differ, a table under another name takes the place of the old one, whose history is lost.
    """
    if not there:
        if statement.must_exist:
            raise TableNotFound(f"there is no table {name} to replace")
        return create_table(context, replace(statement, replace=False))
    catalog = context.catalog
    made: list[Table] = []
    try:
        _, rows = _fill_table(context, statement, name, made, catalog.begin_replacement)
        snapshot = catalog.publish_replacement(name, made[0]._metadata.branch)._metadata.latest_snapshot()
    except BaseException as error:
        if made:
            catalog.table(name).branches.delete(made[0]._metadata.branch)
        if made or not isinstance(error, Unsupported):
            raise
        snapshot, rows = _exchange_table(context, statement, name)
    if statement.query is None:
        return context.did(f"replaced the table {name}")
    return make_counts(context, snapshot, rows, 0, 0)


def _exchange_table(context: Context, statement: st.CreateTable, name: str) -> tuple[Snapshot | None, int | None]:
    """Create a table under another name, then drop the old one and rename the new one."""
    context.catalog.check_replaceable()
    beside = f"{name}-staged-{uuid.uuid4().hex[:12]}"
    try:
        found = _fill_table(context, statement, beside, [], context.catalog.create_table)
        context.catalog.replace_table(name, beside)
    except BaseException:
        context.catalog.drop_table(beside, ignore_if_not_exists=True)
        raise
    return found


def create_table_like(context: Context, statement: st.CreateTableLike) -> duckdb.DuckDBPyRelation:
    name = context.plain_name(statement.table, statement.kind)
    _check_database(context, name)
    source = context.table(statement.source)
    there = _has(context, name)
    if not (there and statement.if_not_exists):
        options = {key: value for key, value in source.options.items() if key not in PATH.keys}
        context.catalog.create_table(
            name,
            schema=source._newest,
            partition_keys=source.partition_keys,
            options={**options, **statement.options},
            comment=source.comment,
            ignore_if_exists=statement.if_not_exists,
        )
    return context.did(f"{'left' if there else 'created'} the table {name}")


def drop_table(context: Context, statement: st.DropTable) -> duckdb.DuckDBPyRelation:
    name = context.plain_name(statement.table, statement.kind)
    try:
        context.catalog.drop_table(name)
    except (TableNotFound, DatabaseNotFound):
        if not statement.if_exists:
            raise
        return context.did(f"there was no table {name}")
    return context.did(f"dropped the table {name}")


def rename_table(context: Context, statement: st.RenameTable) -> duckdb.DuckDBPyRelation:
    name, to = (context.plain_name(part, statement.kind) for part in (statement.table, statement.to))
    context.catalog.rename_table(name, to)
    return context.did(f"renamed the table {name} to {to}")


def create_view(context: Context, statement: st.CreateView) -> duckdb.DuckDBPyRelation:
    name = context.plain_name(statement.view, statement.kind)
    there = statement.if_not_exists and name.partition(".")[2] in context.catalog.views(name.partition(".")[0])
    if any(comment is not None for _, comment in statement.columns):
        raise Unsupported("CREATE VIEW with comments of columns", hint="run it in Spark, or leave them out")
    context.catalog.create_view(
        name,
        name_columns(statement.query, [column for column, _ in statement.columns]),
        comment=statement.comment,
        options=statement.options,
        ignore_if_exists=statement.if_not_exists,
        replace=statement.replace,
    )
    return context.did(f"left the view {name}, which exists" if there else f"created the view {name}")


def name_columns(query: str, names: Sequence[str], quote: Callable[[str], str] = quote_identifier) -> str:
    """Return a query with other names of its columns, in their order; the query itself without names."""
    return f"SELECT * FROM (\n{query}\n) AS v({', '.join(map(quote, names))})" if names else query


def alter_view(context: Context, statement: st.AlterView) -> duckdb.DuckDBPyRelation:
    name = context.plain_name(statement.view, statement.kind)
    view = context.catalog.view(name)
    if statement.query is not None:
        context.catalog.create_view(name, statement.query, comment=view.comment, options=view.options, replace=True)
        return context.did(f"changed the view {name}")
    to = context.plain_name(statement.to, statement.kind) if statement.to else None
    context.catalog.replace_view(name, change_options(view, statement), new_name=to)
    return context.did(f"changed the view {name}" if to is None else f"renamed the view {name} to {to}")


def change_options(view: View, statement: st.AlterView) -> View:
    """Return a view with options set and removed."""
    options = {**view.options, **statement.options}
    return replace(view, options={key: value for key, value in options.items() if key not in statement.removed})


def drop_view(context: Context, statement: st.DropView) -> duckdb.DuckDBPyRelation:
    name = context.plain_name(statement.view, statement.kind)
    there = name.partition(".")[2] in context.catalog.views(name.partition(".")[0])
    context.catalog.drop_view(name, ignore_if_not_exists=statement.if_exists)
    return context.did(f"dropped the view {name}" if there else f"there was no view {name}")


def comment_column(context: Context, statement: st.CommentColumn) -> duckdb.DuckDBPyRelation:
    *table, column = statement.path
    if not table:
        raise InvalidArgument(f"COMMENT ON COLUMN {column}: write table.column")
    return alter_table(
        context, st.AlterTable(tuple(table), (st.AlterChange("set comment", (column,), statement.comment),))
    )


def drop_partitions(context: Context, statement: st.DropPartitions) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    snapshot = table.drop_partition(*(context.partition(each, "PARTITION") for each in statement.partitions))
    return make_counts(context, snapshot, 0, 0, None)


def add_partitions(context: Context, statement: st.AddPartitions) -> duckdb.DuckDBPyRelation:
    target = WriteTarget.of(context.table(statement.table)._metadata)
    check_new_partitions(target, [context.partition(each, "PARTITION") for each in statement.partitions])
    return make_counts(context, None, 0, 0, 0)


# Tags and statistics


def create_tag(context: Context, statement: st.CreateTag) -> duckdb.DuckDBPyRelation:
    tags = context.table(statement.table).tags
    tag, there = statement.tag, statement.tag in tags
    if statement.replace and there:  # as in Paimon, REPLACE TAG creates a missing one
        tags.replace(tag, statement.snapshot, statement.retained)
    else:
        tags.create(tag, statement.snapshot, statement.retained, ignore_if_exists=statement.if_not_exists)
    deed = ("replaced" if statement.replace else "left") if there else "created"
    return context.did(f"{deed} the tag {tag}")


def delete_tags(context: Context, statement: st.DeleteTags) -> duckdb.DuckDBPyRelation:
    tags = context.table(statement.table).tags
    wanted = parse_names(statement.tags)
    if not statement.if_exists:
        for tag in wanted:
            tags.get(tag)  # raises before any tag is deleted if one is missing
    gone = [tag for tag in wanted if tags.delete(tag, ignore_if_not_exists=True)]
    return context.did(f"deleted the tag {', '.join(gone)}" if gone else f"there was no tag {statement.tags}")


def rename_tag(context: Context, statement: st.RenameTag) -> duckdb.DuckDBPyRelation:
    tags = context.table(statement.table).tags
    if statement.if_exists and statement.tag not in tags:
        return context.did(f"there was no tag {statement.tag}")
    tags.rename(statement.tag, statement.to)
    return context.did(f"renamed the tag {statement.tag} to {statement.to}")


def analyze(context: Context, statement: st.Analyze) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    columns = statement.columns
    named = None if columns is None else [find_column(name, table._newest).name for name in columns]
    snapshot = table.analyze(named)
    return make_counts(context, snapshot, 0, 0, 0)


def analyze_tables(context: Context, statement: st.AnalyzeTables) -> duckdb.DuckDBPyRelation:
    database = context.database_of(statement.database)
    names = context.catalog.tables(database)
    for name in names:
        context.catalog.table(f"{database}.{name}").analyze()
    return context.did(f"counted the rows of {format_count(len(names), 'table')} of {database}")


ANY_NAME = "x"
"""Placeholder name of a column whose definition is parsed alone."""


def alter_table(context: Context, statement: st.AlterTable) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    schema = table._newest
    changes = [
        change
        for told in statement.changes
        if not _is_done(told, schema)
        for change in _CHANGES[told.verb](told, schema)
    ]
    if changes:
        table.alter(*changes)
    deed = "altered" if changes else "left"
    return context.did(f"{deed} the table {context.full_name(statement.table)}, schema {table._newest.id}")


def _is_done(told: st.AlterChange, schema: TableSchema) -> bool:
    """Return whether there is nothing to do, as for DROP COLUMN IF EXISTS of a missing column."""
    return told.if_exists and told.path[0].lower() not in {name.lower() for name in schema.by_name}


def _resolve_path(path: st.Name, schema: TableSchema) -> st.Name:
    """Return a path with its first part, a column of the table, in the table's case."""
    return (find_column(path[0], schema).name, *path[1:])


def _add_column(told: st.AlterChange, schema: TableSchema) -> list[sc.SchemaChange]:
    assert told.new is not None  # ADD COLUMN has a new column
    column = _parse_definition(told.new.definition, told.path)
    path = told.path if len(told.path) == 1 else _resolve_path(told.path, schema)
    added: list[sc.SchemaChange] = [sc.AddColumn(path, column.type, column.comment, _parse_position(told.new.after))]
    if column.default is not None:
        if len(path) > 1:
            raise Unsupported(f"a default value of {st.format_name(path)}, which is a member of a column,")
        added.append(sc.SetDefault(path, check_default(column.type, column.default, path[0])))
    return added


def _parse_definition(text: str, path: st.Name) -> Column:
    """Parse a type and its optional NOT NULL, COMMENT and DEFAULT."""
    found = parse_columns(f"{ANY_NAME} {text}", only=ANY_NAME)
    if found.primary_keys:
        raise Unsupported(f"a primary key added by ALTER TABLE ({st.format_name(path)})")
    return found.columns[0]


def _parse_position(after: str | None) -> sc.Position | None:
    if after is None:
        return None
    return sc.Position(sc.Place.AFTER, after) if after else sc.Position(sc.Place.FIRST)


def _move_column(told: st.AlterChange, schema: TableSchema) -> list[sc.SchemaChange]:
    position = _parse_position(told.value)
    assert position is not None  # FIRST or AFTER
    return [sc.MoveColumn(_resolve_path(told.path, schema), position)]


def _change_type(told: st.AlterChange, schema: TableSchema) -> list[sc.SchemaChange]:
    kind = parse_type(told.value or "", st.format_name(told.path))
    return [sc.SetType(_resolve_path(told.path, schema), kind, keep_nullability=kind.nullable)]


def _change_default(told: st.AlterChange, schema: TableSchema) -> list[sc.SchemaChange]:
    path = _resolve_path(told.path, schema)
    if len(path) > 1:
        raise Unsupported(f"a default value of {st.format_name(path)}, which is a member of a column,")
    if told.value is None:
        return [sc.SetDefault(path, None)]
    text = _parse_definition(f"STRING DEFAULT {told.value}", path).default
    if text is None:
        return [sc.SetDefault(path, None)]
    return [sc.SetDefault(path, check_default(schema.column(path[0]).type, text, path[0]))]


def _set_option(told: st.AlterChange, _schema: TableSchema) -> list[sc.SchemaChange]:
    if told.value is None:
        raise InvalidArgument(f"the option {told.path[0]!r} needs a value")
    return [sc.SetOption(told.path[0], told.value)]


_CHANGES: Mapping[str, Callable[[st.AlterChange, TableSchema], list[sc.SchemaChange]]] = {
    "set option": _set_option,
    "unset option": lambda told, _: [sc.RemoveOption(told.path[0])],
    "set table comment": lambda told, _: [sc.SetTableComment(told.value)],
    "add column": _add_column,
    "drop column": lambda told, schema: [sc.DropColumn(_resolve_path(told.path, schema))],
    "rename column": lambda told, schema: [sc.RenameColumn(_resolve_path(told.path, schema), told.value or "")],
    "set type": _change_type,
    "set comment": lambda told, schema: [sc.SetComment(_resolve_path(told.path, schema), told.value)],
    "set default": _change_default,
    "set not null": lambda told, schema: [sc.SetNullable(_resolve_path(told.path, schema), False)],
    "drop not null": lambda told, schema: [sc.SetNullable(_resolve_path(told.path, schema), True)],
    "move column": _move_column,
}
"""Verb of a change -> the function that builds its schema changes."""
