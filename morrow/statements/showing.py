"""SHOW and DESCRIBE."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from morrow.engine.catalog.names import SYSTEM_DATABASE
from morrow.engine.errors import DatabaseNotFound, TableNotFound
from morrow.engine.options.declared.table import PARTITION, PRIMARY_KEY
from morrow.engine.telling import shown, without_secrets
from morrow.procedures.registry import PROCEDURES
from morrow.queries.querying import related
from morrow.readers.system.catalog_tables import NAMES
from morrow.statements.context import Context
from morrow.statements.statement import Describe, DescribeDatabase, Show
from morrow.writers.operations.partitions import listed, partition_filter
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    import duckdb

    from morrow.engine.format.schema import TableSchema
    from morrow.engine.format.types import DataField
    from morrow.tables.table import Table


def show(context: Context, statement: Show) -> duckdb.DuckDBPyRelation:
    return context.relation(_SHOWN[statement.what](context, statement))


def _texts(**columns: Sequence[str | None]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _fitting(names: Sequence[str], pattern: str | None) -> list[str]:
    """Returns the names that fit ``LIKE 'or*|it*'``: Spark's, with ``*`` and ``|``; ``%`` and ``_`` are SQL's."""
    if pattern is None:
        return list(names)
    parts = ["".join({"*": ".*", "%": ".*"}.get(char, re.escape(char)) for char in part) for part in pattern.split("|")]
    found = re.compile("|".join(parts), re.IGNORECASE | re.DOTALL)
    return [name for name in names if found.fullmatch(name)]


def _databases(context: Context, statement: Show) -> pa.Table:
    return _texts(database=_fitting(context.catalog.databases(), statement.like))


def _tables(context: Context, statement: Show) -> pa.Table:
    if statement.name == (SYSTEM_DATABASE,):
        database, tables = SYSTEM_DATABASE, list(NAMES)
    else:
        database = context.database_of(statement.name)
        tables = context.catalog.tables(database)
    names = _fitting(tables, statement.like)
    return _texts(database=[database] * len(names), table=names)


def _views(context: Context, statement: Show) -> pa.Table:
    database = context.database_of(statement.name)
    names = _fitting(context.catalog.views(database), statement.like)
    return _texts(database=[database] * len(names), view=names)


def _functions(context: Context, statement: Show) -> pa.Table:
    database = context.database_of(statement.name)
    names = _fitting(context.catalog.functions(database), statement.like)
    return _texts(database=[database] * len(names), function=names)


def _extended(context: Context, statement: Show) -> pa.Table:
    database = context.database_of(statement.name)
    names = _fitting(context.catalog.tables(database), statement.like)
    details = [_details(context.catalog.table(f"{database}.{name}")) for name in names]
    texts = ["\n".join(f"{key}: {value}" for key, value in each) for each in details]
    return _texts(database=[database] * len(names), table=names, information=texts)


def _partitions(context: Context, statement: Show) -> pa.Table:
    target = WriteTarget.of(context.table(statement.name)._metadata)
    given = None if statement.partition is None else context.partition(statement.partition, "PARTITION")
    filter = partition_filter(target, given, None, "SHOW PARTITIONS")
    if not target.partition_fields:
        raise TableNotFound(f"{target.where}: it has no partitions")
    found = listed(target, filter)
    parts = [found[name].cast(pl.String).fill_null("null") for name in found.columns]
    texts = ["/".join(f"{c.name}={value}" for c, value in zip(parts, row)) for row in zip(*parts)]
    return _texts(partition=sorted(texts))


def _properties(context: Context, statement: Show) -> pa.Table:
    table = context.table(statement.name)
    found = without_secrets(_all_properties(table))
    if statement.like is not None:
        found = {statement.like: found.get(statement.like, "")} if statement.like in found else {}
    return _texts(key=list(found), value=list(found.values()))


def _all_properties(table: Table) -> dict[str, str]:
    keys = {PRIMARY_KEY.key: table.primary_keys, PARTITION.key: table.partition_keys}
    return {**table.options, **{name: ",".join(columns) for name, columns in keys.items() if columns}}


def _columns(context: Context, statement: Show) -> pa.Table:
    return _texts(column=list(context.table(statement.name)._newest.by_name))


def _tags(context: Context, statement: Show) -> pa.Table:
    return _texts(tag=sorted(context.table(statement.name).tags.names))


def _branches(context: Context, statement: Show) -> pa.Table:
    return _texts(branch=context.table(statement.name).branches.list())


def _snapshots(context: Context, statement: Show) -> pa.Table:
    found: pa.Table = context.table(statement.name).system("snapshots").to_arrow()
    return found


def _procedures(_context: Context, statement: Show) -> pa.Table:
    names = _fitting(sorted(PROCEDURES), statement.like)
    return _texts(procedure=names, arguments=[str(PROCEDURES[name]) for name in names])


def _create_table(context: Context, statement: Show) -> pa.Table:
    table = context.table(statement.name)
    return _texts(create_table=[create_text(context.full_name(statement.name), table._newest)])


def create_text(name: str, schema: TableSchema) -> str:
    """Returns the statement that makes a table with these columns, keys and options."""
    lines = [f"  {_column(field)}" for field in schema.fields]
    if schema.primary_keys:
        lines.append(f"  PRIMARY KEY ({', '.join(map(_quoted, schema.primary_keys))}) NOT ENFORCED")
    parts = [f"CREATE TABLE {'.'.join(map(_quoted, name.split('.', 1)))} (\n" + ",\n".join(lines) + "\n)"]
    if schema.partition_keys:
        parts.append(f"PARTITIONED BY ({', '.join(map(_quoted, schema.partition_keys))})")
    if schema.comment is not None:
        parts.append(f"COMMENT {_text(schema.comment)}")
    if schema.options:
        pairs = (f"  {_text(key)} = {_text(value)}" for key, value in without_secrets(schema.options).items())
        parts.append("TBLPROPERTIES (\n" + ",\n".join(pairs) + "\n)")
    return "\n".join(parts)


def _column(field: DataField) -> str:
    parts = [_quoted(field.name), field.type.text()]
    if field.description is not None:
        parts.append(f"COMMENT {_text(field.description)}")
    if field.default_value is not None:
        value = field.default_value
        parts.append(f"DEFAULT {value if _is_quoted(value) else _text(value)}")
    return " ".join(parts)


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] == "'" and "'" not in text[1:-1]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_SHOWN: Mapping[str, Callable[[Context, Show], pa.Table]] = {
    "databases": _databases,
    "tables": _tables,
    "views": _views,
    "functions": _functions,
    "table extended": _extended,
    "partitions": _partitions,
    "tblproperties": _properties,
    "create table": _create_table,
    "columns": _columns,
    "tags": _tags,
    "branches": _branches,
    "snapshots": _snapshots,
    "procedures": _procedures,
}


# DESCRIBE


def describe(context: Context, statement: Describe) -> duckdb.DuckDBPyRelation:
    """Lists the columns of a table, with EXTENDED what else it is; tables of DuckDB are described by DuckDB."""
    try:
        table = context.table(statement.table)
    except (TableNotFound, DatabaseNotFound):
        if statement.extended:
            raise
        names = ".".join('"' + part.replace('"', '""') + '"' for part in statement.table)
        return related(context.prepared(f"DESCRIBE {names}"), context.connection)
    rows = [(field.name, field.type.text(), field.description) for field in table._newest.fields]
    if statement.extended:
        rows += [("", "", None), ("# Detailed Table Information", "", None)]
        rows += [(key, value, None) for key, value in _details(table)]
    columns = list(zip(*rows))
    return context.relation(_texts(col_name=columns[0], data_type=columns[1], comment=columns[2]))


def _details(table: Table) -> list[tuple[str, str]]:
    newest = table._metadata.latest_snapshot()
    details = {
        "Location": shown(table.path),
        "Branch": table.branch,
        "Comment": table.comment,
        "Primary Key": ", ".join(table.primary_keys),
        "Partition Keys": ", ".join(table.partition_keys),
        "Schema": str(table._newest.id),
        "Snapshot": None if newest is None else str(newest.id),
        "Options": ", ".join(f"{key}={value}" for key, value in without_secrets(table.options).items()),
    }
    return [(key, value) for key, value in details.items() if value]


def describe_database(context: Context, statement: DescribeDatabase) -> duckdb.DuckDBPyRelation:
    found = context.catalog.database(statement.database)
    about = {
        "Database": found.name,
        "Warehouse": context.catalog.warehouse,
        "Comment": found.comment,
        "Owner": found.owner,
        "Location": found.location,
        **(without_secrets(found.properties) if statement.extended else {}),
    }
    told = {name: shown(value) for name, value in about.items() if value is not None}
    return context.relation(_texts(info_name=list(told), info_value=list(told.values())))
