"""Statements that define databases, tables, tags and statistics: CREATE, ALTER, DROP, RENAME, ANALYZE.

An ALTER TABLE becomes one version of the schema.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from morrow.engine.errors import AlreadyExists, DatabaseNotFound, InvalidArgument, TableNotFound, Unsupported
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import PATH, TYPE
from morrow.engine.options.kinds import parse_names
from morrow.engine.plan.folder_table import FORMAT_TABLE
from morrow.engine.schema.defaults import check_default
from morrow.engine.schema.schema_changes import (
    AddColumn,
    DropColumn,
    MoveColumn,
    Place,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetDefault,
    SetNullable,
    SetOption,
    SetTableComment,
    SetType,
)
from morrow.engine.schema.sql_columns import Column, Columns, parse_columns, parse_type
from morrow.engine.units import format_count
from morrow.queries.query import run_prepared
from morrow.statements.context import Context
from morrow.statements.insert import Filling, find_column, make_counts
from morrow.statements.statement import (
    AlterChange,
    AlterDatabase,
    AlterTable,
    Analyze,
    AnalyzeTables,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    CreateTag,
    DeleteTags,
    DropDatabase,
    DropPartitions,
    DropTable,
    Name,
    RenameTable,
    RenameTag,
    Use,
    format_name,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from morrow.engine.format.schema import TableSchema
    from morrow.tables.table import Table

DEFAULT_DATABASE = "default"


def use(context: Context, statement: Use) -> duckdb.DuckDBPyRelation:
    if statement.database not in context.catalog.databases():
        raise DatabaseNotFound(f"there is no database {statement.database}")
    context.database = statement.database
    return context.did(f"use {statement.database}")


def create_database(context: Context, statement: CreateDatabase) -> duckdb.DuckDBPyRelation:
    name, ignores = statement.database, statement.if_not_exists
    there = ignores and name in context.catalog.databases()
    context.catalog.create_database(name, properties=statement.properties, ignore_if_exists=ignores)
    return context.did(f"{'left' if there else 'created'} the database {name}")


def alter_database(context: Context, statement: AlterDatabase) -> duckdb.DuckDBPyRelation:
    context.catalog.alter_database(statement.database, statement.properties, unset=statement.removed)
    return context.did(f"altered the database {statement.database}")


def drop_database(context: Context, statement: DropDatabase) -> duckdb.DuckDBPyRelation:
    name = statement.database
    there = name in context.catalog.databases()
    context.catalog.drop_database(name, cascade=statement.cascade, ignore_if_not_exists=statement.if_exists)
    return context.did(f"dropped the database {name}" if there else f"there was no database {name}")


# CREATE TABLE


def create_table(context: Context, statement: CreateTable) -> duckdb.DuckDBPyRelation:
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
        _create_empty_table(context, statement, name, statement.columns)
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


def _create_empty_table(context: Context, statement: CreateTable, name: str, schema: object) -> Table:
    return context.catalog.create_table(
        name,
        schema=schema.columns if isinstance(schema, Columns) else schema,
        primary_keys=() if statement.columns is None else statement.columns.primary_keys,
        partition_keys=statement.partition_keys,
        options=dict(statement.options),
        comment=statement.comment,
    )


def _create_format_table(context: Context, statement: CreateTable, name: str) -> None:
    columns = statement.columns
    if columns is None or columns.primary_keys:
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


def _create_filled_table(context: Context, statement: CreateTable, name: str) -> duckdb.DuckDBPyRelation:
    """Create a table with the rows of a query. The table is dropped after an error."""
    import duckdb

    assert statement.query is not None  # CREATE TABLE AS
    relation = run_prepared(context.prepared(statement.query), context.connection.sql, {})
    assert isinstance(relation, duckdb.DuckDBPyRelation)  # the result of a query
    twice = sorted({column for column in relation.columns if relation.columns.count(column) > 1})
    if twice:
        raise InvalidArgument(f"CREATE TABLE AS: the query has several columns {twice[0]!r}")
    schema = _convert_schema(relation.limit(0).to_arrow_table().schema)
    table = _create_empty_table(context, statement, name, schema)
    filling = Filling(relation, tuple(relation.columns))
    try:
        with filling:
            snapshot = table.append(filling.source)
    except BaseException:
        context.catalog.drop_table(name)
        raise
    return make_counts(context, snapshot, filling.rows, 0, 0)


def _convert_schema(schema: pa.Schema) -> pa.Schema:
    """Convert columns to types that Paimon stores: times of day in milliseconds, enumerations as text."""
    import pyarrow as pa

    fields = []
    for field in schema:
        kind = pa.time32("ms") if pa.types.is_time64(field.type) else field.type
        fields.append(field.with_type(kind.value_type if pa.types.is_dictionary(kind) else kind))
    return pa.schema(fields)


def _replace_table(context: Context, statement: CreateTable, name: str, there: bool) -> duckdb.DuckDBPyRelation:
    """Create a table under another name, then replace the old one. The old table stays after an error."""
    if statement.must_exist and not there:
        raise TableNotFound(f"there is no table {name} to replace")
    context.catalog.check_replaceable()
    beside = f"{name}-staged-{uuid.uuid4().hex[:12]}"
    try:
        if statement.query is None:
            _create_empty_table(context, statement, beside, statement.columns)
            done = context.did(f"{'replaced' if there else 'created'} the table {name}")
        else:
            done = _create_filled_table(context, statement, beside)
        context.catalog.replace_table(name, beside)
    except BaseException:
        context.catalog.drop_table(beside, ignore_if_not_exists=True)
        raise
    return done


def create_table_like(context: Context, statement: CreateTableLike) -> duckdb.DuckDBPyRelation:
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


def drop_table(context: Context, statement: DropTable) -> duckdb.DuckDBPyRelation:
    name = context.plain_name(statement.table, statement.kind)
    try:
        context.catalog.drop_table(name)
    except (TableNotFound, DatabaseNotFound):
        if not statement.if_exists:
            raise
        return context.did(f"there was no table {name}")
    return context.did(f"dropped the table {name}")


def rename_table(context: Context, statement: RenameTable) -> duckdb.DuckDBPyRelation:
    name, to = (context.plain_name(part, statement.kind) for part in (statement.table, statement.to))
    context.catalog.rename_table(name, to)
    return context.did(f"renamed the table {name} to {to}")


def drop_partitions(context: Context, statement: DropPartitions) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    snapshot = table.drop_partition(*(context.partition(each, "PARTITION") for each in statement.partitions))
    return make_counts(context, snapshot, 0, 0, None)


# Tags and statistics


def create_tag(context: Context, statement: CreateTag) -> duckdb.DuckDBPyRelation:
    tags = context.table(statement.table).tags
    tag, there = statement.tag, statement.tag in tags
    if statement.replace and there:  # as in Paimon, REPLACE TAG creates a missing one
        tags.replace(tag, statement.snapshot, statement.retained)
    else:
        tags.create(tag, statement.snapshot, statement.retained, ignore_if_exists=statement.if_not_exists)
    deed = ("replaced" if statement.replace else "left") if there else "created"
    return context.did(f"{deed} the tag {tag}")


def delete_tags(context: Context, statement: DeleteTags) -> duckdb.DuckDBPyRelation:
    tags = context.table(statement.table).tags
    wanted = parse_names(statement.tags)
    if not statement.if_exists:
        for tag in wanted:
            tags.get(tag)  # raises before any tag is deleted if one is missing
    gone = [tag for tag in wanted if tags.delete(tag, ignore_if_not_exists=True)]
    return context.did(f"deleted the tag {', '.join(gone)}" if gone else f"there was no tag {statement.tags}")


def rename_tag(context: Context, statement: RenameTag) -> duckdb.DuckDBPyRelation:
    tags = context.table(statement.table).tags
    if statement.if_exists and statement.tag not in tags:
        return context.did(f"there was no tag {statement.tag}")
    tags.rename(statement.tag, statement.to)
    return context.did(f"renamed the tag {statement.tag} to {statement.to}")


def analyze(context: Context, statement: Analyze) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    columns = statement.columns
    named = None if columns is None else [find_column(name, table._newest).name for name in columns]
    snapshot = table.analyze(named)
    return make_counts(context, snapshot, 0, 0, 0)


def analyze_tables(context: Context, statement: AnalyzeTables) -> duckdb.DuckDBPyRelation:
    database = context.database_of(statement.database)
    names = context.catalog.tables(database)
    for name in names:
        context.catalog.table(f"{database}.{name}").analyze()
    return context.did(f"counted the rows of {format_count(len(names), 'table')} of {database}")


ANY_NAME = "x"
"""Placeholder name of a column whose definition is parsed alone."""


def alter_table(context: Context, statement: AlterTable) -> duckdb.DuckDBPyRelation:
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


def _is_done(told: AlterChange, schema: TableSchema) -> bool:
    """Return whether there is nothing to do, as for DROP COLUMN IF EXISTS of a missing column."""
    return told.if_exists and told.path[0].lower() not in {name.lower() for name in schema.by_name}


def _resolve_path(path: Name, schema: TableSchema) -> Name:
    """Return a path with its first part, a column of the table, in the table's case."""
    return (find_column(path[0], schema).name, *path[1:])


def _add_column(told: AlterChange, schema: TableSchema) -> list[SchemaChange]:
    assert told.new is not None  # ADD COLUMN has a new column
    column = _parse_definition(told.new.definition, told.path)
    path = told.path if len(told.path) == 1 else _resolve_path(told.path, schema)
    added: list[SchemaChange] = [AddColumn(path, column.type, column.comment, _parse_position(told.new.after))]
    if column.default is not None:
        if len(path) > 1:
            raise Unsupported(f"a default value of {format_name(path)}, which is a member of a column,")
        added.append(SetDefault(path, check_default(column.type, column.default, path[0])))
    return added


def _parse_definition(text: str, path: Name) -> Column:
    """Parse a type and its optional NOT NULL, COMMENT and DEFAULT."""
    found = parse_columns(f"{ANY_NAME} {text}", only=ANY_NAME)
    if found.primary_keys:
        raise Unsupported(f"a primary key added by ALTER TABLE ({format_name(path)})")
    return found.columns[0]


def _parse_position(after: str | None) -> Position | None:
    if after is None:
        return None
    return Position(Place.AFTER, after) if after else Position(Place.FIRST)


def _move_column(told: AlterChange, schema: TableSchema) -> list[SchemaChange]:
    position = _parse_position(told.value)
    assert position is not None  # FIRST or AFTER
    return [MoveColumn(_resolve_path(told.path, schema), position)]


def _change_type(told: AlterChange, schema: TableSchema) -> list[SchemaChange]:
    kind = parse_type(told.value or "", format_name(told.path))
    return [SetType(_resolve_path(told.path, schema), kind, keep_nullability=kind.nullable)]


def _change_default(told: AlterChange, schema: TableSchema) -> list[SchemaChange]:
    path = _resolve_path(told.path, schema)
    if len(path) > 1:
        raise Unsupported(f"a default value of {format_name(path)}, which is a member of a column,")
    if told.value is None:
        return [SetDefault(path, None)]
    text = _parse_definition(f"STRING DEFAULT {told.value}", path).default
    if text is None:
        return [SetDefault(path, None)]
    return [SetDefault(path, check_default(schema.column(path[0]).type, text, path[0]))]


def _set_option(told: AlterChange, _schema: TableSchema) -> list[SchemaChange]:
    if told.value is None:
        raise InvalidArgument(f"the option {told.path[0]!r} needs a value")
    return [SetOption(told.path[0], told.value)]


_CHANGES: Mapping[str, Callable[[AlterChange, TableSchema], list[SchemaChange]]] = {
    "set option": _set_option,
    "unset option": lambda told, _: [RemoveOption(told.path[0])],
    "set table comment": lambda told, _: [SetTableComment(told.value)],
    "add column": _add_column,
    "drop column": lambda told, schema: [DropColumn(_resolve_path(told.path, schema))],
    "rename column": lambda told, schema: [RenameColumn(_resolve_path(told.path, schema), told.value or "")],
    "set type": _change_type,
    "set comment": lambda told, schema: [SetComment(_resolve_path(told.path, schema), told.value)],
    "set default": _change_default,
    "set not null": lambda told, schema: [SetNullable(_resolve_path(told.path, schema), False)],
    "drop not null": lambda told, schema: [SetNullable(_resolve_path(told.path, schema), True)],
    "move column": _move_column,
}
"""Verb of a change -> the function that builds its schema changes."""
