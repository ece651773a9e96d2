"""Databases and tables made, dropped and renamed; tags; statistics."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from morrow.engine.errors import AlreadyExists, DatabaseNotFound, InvalidArgument, TableNotFound
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import PATH, TYPE
from morrow.engine.options.kinds import names
from morrow.engine.plan.folder_table import FORMAT_TABLE
from morrow.engine.schema.sql import Columns
from morrow.engine.wording import plural
from morrow.queries.querying import evaluated
from morrow.statements.context import Context
from morrow.statements.rows import Filling, column_named, counted
from morrow.statements.statement import Use
from morrow.statements.table_statements import (
    AlterDatabase,
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
    RenameTable,
    RenameTag,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

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
        return _replaced(context, statement, name, there)
    if there:
        raise AlreadyExists(f"the table {name} exists")
    if statement.query is None and str(statement.options.get(TYPE.key, "")).strip().lower() == FORMAT_TABLE:
        _made_of_files(context, statement, name)
        return context.did(f"created the format table {name}")
    if statement.query is None:
        _made(context, statement, name, statement.columns)
        return context.did(f"created the table {name}")
    return _filled(context, statement, name)


def _check_database(context: Context, name: str) -> None:
    """Raises `DatabaseNotFound`: creating a table makes no database but ``default``."""
    database = name.partition(".")[0]
    if database != DEFAULT_DATABASE and database not in context.catalog.databases():
        raise DatabaseNotFound(f"there is no database {database}; CREATE DATABASE makes one")


def _has(context: Context, name: str) -> bool:
    database, _, table = name.partition(".")
    return database in context.catalog.databases() and table in context.catalog.tables(database)


def _made(context: Context, statement: CreateTable, name: str, schema: object) -> Table:
    return context.catalog.create_table(
        name,
        schema=schema.columns if isinstance(schema, Columns) else schema,
        primary_keys=() if statement.columns is None else statement.columns.primary_keys,
        partition_keys=statement.partition_keys,
        options=dict(statement.options),
        comment=statement.comment,
    )


def _made_of_files(context: Context, statement: CreateTable, name: str) -> None:
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


def _filled(context: Context, statement: CreateTable, name: str) -> duckdb.DuckDBPyRelation:
    """Makes a table of the rows of a query; after an error there is none."""
    import duckdb

    assert statement.query is not None  # CREATE TABLE AS
    relation = evaluated(context.prepared(statement.query), context.connection.sql, {})
    assert isinstance(relation, duckdb.DuckDBPyRelation)  # of a query
    twice = sorted({column for column in relation.columns if relation.columns.count(column) > 1})
    if twice:
        raise InvalidArgument(f"CREATE TABLE AS: the query has several columns {twice[0]!r}")
    schema = _storable(relation.limit(0).to_arrow_table().schema)
    table = _made(context, statement, name, schema)
    filling = Filling(relation, tuple(relation.columns))
    try:
        with filling:
            snapshot = table.append(filling.source)
    except BaseException:
        context.catalog.drop_table(name)
        raise
    return counted(context, snapshot, filling.rows, 0, 0)


def _storable(schema: pa.Schema) -> pa.Schema:
    """Returns the columns as Paimon stores them: times of day in milliseconds, enumerations as texts."""
    import pyarrow as pa

    fields = []
    for field in schema:
        kind = pa.time32("ms") if pa.types.is_time64(field.type) else field.type
        fields.append(field.with_type(kind.value_type if pa.types.is_dictionary(kind) else kind))
    return pa.schema(fields)


def _replaced(context: Context, statement: CreateTable, name: str, there: bool) -> duckdb.DuckDBPyRelation:
    """Makes a table beside another one and then gives it the name; after an error the old one stays."""
    if statement.must_exist and not there:
        raise TableNotFound(f"there is no table {name} to replace")
    context.catalog.check_replaceable()
    beside = f"{name}-staged-{uuid.uuid4().hex[:12]}"
    try:
        if statement.query is None:
            _made(context, statement, beside, statement.columns)
            done = context.did(f"{'replaced' if there else 'created'} the table {name}")
        else:
            done = _filled(context, statement, beside)
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
    return counted(context, snapshot, 0, 0, None)


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
    wanted = names(statement.tags)
    if not statement.if_exists:
        for tag in wanted:
            tags.get(tag)  # none is deleted where one is missing
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
    named = None if columns is None else [column_named(name, table._newest).name for name in columns]
    snapshot = table.analyze(named)
    return counted(context, snapshot, 0, 0, 0)


def analyze_tables(context: Context, statement: AnalyzeTables) -> duckdb.DuckDBPyRelation:
    database = context.database_of(statement.database)
    names = context.catalog.tables(database)
    for name in names:
        context.catalog.table(f"{database}.{name}").analyze()
    return context.did(f"counted the rows of {plural(len(names), 'table')} of {database}")
