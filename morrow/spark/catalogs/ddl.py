"""DDL of databases and tables: CREATE, ALTER, DROP, RENAME, REPLACE, and default values of columns.

ALTER TABLE creates one schema version. Default values are Spark SQL literals, which Paimon stores as text.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from morrow.engine.catalog.databases import COMMENT, LOCATION, OWNER, has_properties
from morrow.engine.catalog.names import SYSTEM_DATABASE
from morrow.engine.catalog.protocol import has_format_tables, has_replacement, has_table_locations
from morrow.engine.errors import DatabaseNotFound, InvalidArgument, TableNotFound, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.file_formats import find_format
from morrow.engine.io.resolve import resolve
from morrow.engine.options import Options
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import PATH, TYPE
from morrow.engine.options.table_options import OPTIONS, find_present_key
from morrow.engine.plan.folder_table import FORMAT_TABLE, FORMATS
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.redaction import hide_secrets
from morrow.engine.schema.defaults import NESTED, check_default, format_default
from morrow.engine.schema.schema_changes import (
    AddColumn,
    DropColumn,
    MoveColumn,
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
from morrow.engine.schema.schema_changes import Place as Where
from morrow.readers.system.catalog_tables import NAMES
from morrow.spark.catalogs import descriptions
from morrow.spark.catalogs.questions import Place, Question, build_full_name, is_database_name, parse_name
from morrow.spark.catalogs.reads import find_folder, is_of_folder, load_table
from morrow.spark.expressions import quote_name
from morrow.spark.source.schemas import check_no_secrets
from morrow.spark.types import check_collations, to_paimon_fields, to_paimon_type
from morrow.tables.format_table import FormatTable
from morrow.tables.table_operations import rename_over
from morrow.writers.target import WRITE_OPTION_KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from morrow.engine.format.types import DataType
    from morrow.tables.table import Table

PROVIDERS = ("paimon", "morrow")
DEFAULT_SOURCE = "spark.sql.sources.default"
IGNORED = ("owner", "is_managed_location", "provider", "comment")
"""Properties that Spark adds by itself or passes separately."""
COLLATION = "collation"
"""The property for DEFAULT COLLATION."""
DEFAULT_DATABASE = "default"
OPTION = "option."
"""Spark's prefix for keys in OPTIONS (...), in addition to the plain key. Without the plain key: ROW FORMAT."""
OF_HIVE = ("hive.stored-as", "hive.serde", "hive.input-format", "hive.output-format")
"""Properties that Spark derives from STORED AS and ROW FORMAT."""


def _create(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    _make_table(place, question, question["name"])
    return load_table(place, question)


def _make_table(place: Place, question: Question, name: str, make: Callable[..., Table] | None = None) -> Table | None:
    """Create a table with `make` (None: `Catalog.create_table`); return it unless it is a format table."""
    from pyspark.sql.types import StructType

    full = build_full_name(question["namespace"], name)
    check_database(place, question["namespace"][0])
    properties = _complete_properties(place, question)
    _check(place, properties)
    left_out = (*IGNORED, "location", "external")
    own = {k: v for k, v in properties.items() if k not in left_out and not k.startswith(OPTION)}
    if "location" in properties:
        own[PATH.key] = properties["location"]
    check_no_secrets(own, full)
    provider = properties.get("provider", "").lower()
    if provider != FILE_FORMAT.default and (_is_format(provider) or (_is_of_files(properties) and provider in FORMATS)):
        own.setdefault(FILE_FORMAT.key, provider)
    schema = StructType.fromJson(json.loads(question["schema"]))
    check_collations(schema)
    fields = to_paimon_fields(schema)
    partition_keys = [_get_partition_key(path) for path in question["partitions"]]
    if not fields and PATH.key in own:
        return _register(place, full, own, properties)
    if _is_of_files(properties):
        if parse_defaults(place.spark, schema, {field.name: field for field in fields}):
            raise Unsupported("default values of columns of a format table", where=full)
        place.catalog.create_format_table(
            full,
            fields,
            format=str(own.pop(FILE_FORMAT.key, FILE_FORMAT.default)),
            partition_keys=partition_keys,
            options={key: value for key, value in own.items() if key != TYPE.key},
            comment=properties.get("comment"),
        )
        return None
    return (make or place.catalog.create_table)(
        full,
        schema=fields,
        defaults=parse_defaults(place.spark, schema, {field.name: field for field in fields}),
        partition_keys=partition_keys,
        options=own,
        comment=properties.get("comment"),
    )


def _register(place: Place, name: str, options: Mapping[str, str], properties: Mapping[str, str]) -> Table:
    """Create a table without columns in the statement: the table in its LOCATION has them."""
    there = TableMetadata(*resolve(options[PATH.key], place.access.storage_options)).latest_schema()
    given = {key: value for key, value in options.items() if key != PATH.key}
    return place.catalog.create_table(
        name,
        schema=there,
        partition_keys=there.partition_keys,
        options={**there.options, **given, PATH.key: options[PATH.key]},
        comment=properties.get("comment", there.comment),
    )


def _complete_properties(place: Place, question: Question) -> dict[str, str]:
    """Return the properties of a new table. USING a format of files makes a format table, if the catalog keeps them.

    `saveAsTable` and `toTable` of streams pass the session's default format if their caller names none, so that CREATE
    TABLE AS makes a Paimon table of this format, too.
    """
    properties: dict[str, str] = question["properties"]
    provider = properties.get("provider", "").lower()
    is_default = "how" in question and provider == place.spark.conf.get(DEFAULT_SOURCE)
    if provider not in FORMATS or is_default or TYPE.key in properties or not has_format_tables(place.catalog._catalog):
        return properties
    return {**properties, TYPE.key: FORMAT_TABLE}


def check_database(place: Place, name: str) -> None:
    """Raise `DatabaseNotFound` if the database is missing. Creating a table creates only the database ``default``."""
    if name != DEFAULT_DATABASE and name not in place.catalog.databases():
        raise DatabaseNotFound(f"there is no database {name}")


def _check(place: Place, properties: dict[str, str]) -> None:
    """Refuse properties that the new table would silently lack."""
    provider = properties.get("provider", PROVIDERS[0]).lower()
    # saveAsTable passes the session's default format if its caller names none.
    is_default = provider == place.spark.conf.get(DEFAULT_SOURCE) and _is_format(provider)
    is_files = _is_of_files(properties) and provider in FORMATS
    if provider not in PROVIDERS and not is_default and not is_files:
        hint = "write USING paimon, or leave it out"
        if provider in FORMATS:
            hint += "; this catalog does not support format table, those with metastore=rest or hive do"
        raise Unsupported(f"a table USING {provider}: Provider '{provider}'", hint=hint)
    if "location" in properties and not has_table_locations(place.catalog._catalog):
        hint = "tables lie in the folder of their catalog; catalogs with metastore=rest or hive have other ones"
        raise Unsupported("a table with a LOCATION of its own", hint=hint)
    if "external" in properties and "location" not in properties:
        raise Unsupported("CREATE EXTERNAL TABLE without a LOCATION", hint="name its folder, or leave EXTERNAL out")
    if COLLATION in properties:
        raise Unsupported(f"a table with DEFAULT COLLATION {properties[COLLATION]}", hint="collate in queries")
    for key in properties:
        if key in OF_HIVE or (key.startswith(OPTION) and key.removeprefix(OPTION) not in properties):
            hint = "leave them out; TBLPROPERTIES ('file.format' = 'orc') says how files are written"
            raise Unsupported("a table with STORED AS or ROW FORMAT", hint=hint)


def _is_of_files(properties: dict[str, str]) -> bool:
    """Return whether the properties ask for a format table."""
    return properties.get(TYPE.key, "").strip().lower() == FORMAT_TABLE


def _is_format(provider: str) -> bool:
    """Return whether tables can be written in files of this format."""
    known = find_format(provider)
    return known is not None and known.lacks is not None


def _get_partition_key(path: list[str]) -> str:
    if len(path) != 1:
        raise InvalidArgument(f"PARTITIONED BY {'.'.join(path)}: a member of a column cannot be a partition key")
    return path[0]


def _has_table(place: Place, question: Question, _rows: DataFrame | None) -> bool:
    """Return whether there is a table of this name, even if it cannot be read."""
    return place.catalog._catalog.has_table(build_full_name(question["namespace"], question["name"]))


def _drop(place: Place, question: Question, _rows: DataFrame | None) -> bool:
    name = build_full_name(question["namespace"], question["name"])
    parts = parse_name(name)
    if parts.system is not None or parts.branch is not None or name.startswith(f"{SYSTEM_DATABASE}."):
        raise Unsupported(f"dropping {name}, which is not a table of its own,", hint="a branch: CALL sys.delete_branch")
    try:
        place.catalog.drop_table(name)
    except (TableNotFound, DatabaseNotFound):
        return False
    return True


def _rename(place: Place, question: Question, _rows: DataFrame | None) -> str:
    """Rename a table; return its new database."""
    *catalog, database = question["to namespace"] or question["namespace"]
    if catalog not in ([], [place.name]):
        raise Unsupported(
            f"renaming a table into another catalog, {'.'.join(catalog)},",
            hint="Only supports operations within the same catalog",
        )
    namespace = [database]
    place.catalog.rename_table(
        build_full_name(question["namespace"], question["name"]), build_full_name(namespace, question["to"])
    )
    return str(database)


# CREATE TABLE AS SELECT


def _stage(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    """Create a table for a query to fill: under its own name, or as a branch of the table that it replaces.

    It is created under a temporary name if the partition keys differ, whereby the old table's history is lost, or if it
    replaces a table of Spark's own catalog.
    """
    name = question["name"]
    full = build_full_name(question["namespace"], name)
    if question["how"] == "beside":
        place.catalog.check_replaceable()
        return _stage_beside(place, question, "rename")
    if question["how"] == "create" or not place.catalog._catalog.has_table(full):
        _make_table(place, question, name)
        made = load_table(place, question)
        _check_order(place, question, made)
        return {**made, "staged": {"how": "create"}}
    if _is_of_files(_complete_properties(place, question)) or find_folder(place, full) is not None:
        return _stage_beside(place, question, "swap")
    if has_replacement(place.catalog._catalog):
        return _stage_beside(place, question, "server")
    try:
        branch = _make_table(place, question, name, place.catalog.begin_replacement)
    except Unsupported:
        place.catalog.check_replaceable()
        return _stage_beside(place, question, "rename")
    assert branch is not None
    beside = f"{name}$branch_{branch._metadata.branch}"
    made = load_table(place, {**question, "name": beside})
    _check_order(place, {**question, "name": beside}, made)
    return {**made, "staged": {"how": "replace", "name": full, "branch": branch._metadata.branch}}


def _stage_beside(place: Place, question: Question, how: str) -> dict[str, object]:
    """Create a table under a temporary name, for a query to fill.

    Raises `Unsupported`: the old and the new table are of different kinds, and the catalog cannot rename them.
    """
    full = build_full_name(question["namespace"], question["name"])
    if how == "swap" and not has_replacement(place.catalog._catalog):
        raise Unsupported("REPLACE TABLE of or by a format table", hint="drop the table, and create it")
    beside = f"{question['name']}-staged-{uuid.uuid4().hex[:12]}"
    _make_table(place, question, beside)
    made = load_table(place, {**question, "name": beside})
    if how == "server":
        _check_order(place, {**question, "name": beside}, made)
    return {**made, "staged": {"how": how, "name": full}}


def _check_order(place: Place, question: Question, made: dict[str, object]) -> None:
    """Drop a new table if its column order differs from that of the query, which fills it by position.

    Raises `Unsupported`: the order differs.
    """
    asked, there = ([field["name"] for field in json.loads(str(each["schema"]))["fields"]] for each in (question, made))
    if asked != there:
        _discard_table(place, build_full_name(question["namespace"], question["name"]))
        hint = f"select them as {', '.join(there)}"
        raise Unsupported(f"CREATE TABLE AS with the columns in the order {', '.join(asked)}", hint=hint)


def _publish(place: Place, question: Question, _rows: DataFrame | None) -> None:
    """Give a filled table its final name. If it was renamed, neither table exists for a moment."""
    staged = question["staged"]
    if staged["how"] == "replace":
        place.catalog.publish_replacement(staged["name"], staged["branch"])
    elif staged["how"] == "rename":
        place.catalog.replace_table(staged["name"], question["table"])
    elif staged["how"] == "swap":
        rename_over(staged["name"], question["table"], place.catalog.move_table, place.catalog.drop_table)
    elif staged["how"] == "server":
        _publish_on_server(place, staged["name"], question["table"])


def _publish_on_server(place: Place, name: str, beside: str) -> None:
    """Have the server replace a table, whose snapshots it keeps, and copy the rows of the filled table into it."""
    filled = place.catalog.table(beside)
    place.catalog.replace_schema(name, filled._newest)
    if filled._metadata.latest_snapshot() is not None:
        source, target = (".".join(map(quote_name, (place.name, *each.split(".", 1)))) for each in (beside, name))
        place.spark.table(source).writeTo(target).append()
    place.catalog.drop_table(beside)


def _discard(place: Place, question: Question, _rows: DataFrame | None) -> None:
    _discard_table(place, question["table"])


def _discard_table(place: Place, name: str) -> None:
    parts = parse_name(name)
    if parts.branch is None:
        place.catalog.drop_table(name, ignore_if_not_exists=True)
    else:
        place.catalog.table(parts.table).branches.delete(parts.branch)


# Tables whose rows are overwritten


def _keep_table(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, str]:
    """Return the write options for a ``saveAsTable`` that overwrites rows but keeps the table's definition.

    Raises `Unsupported`: the definition differs from the table's: other partitions, keys or buckets, another provider.
    """
    given: Mapping[str, str] = question["options"]
    told = {key: question[key] for key in ("provider", "location") if question[key] is not None}
    folder = find_folder(place, question["table"]) if is_of_folder(question) else None
    if isinstance(folder, FormatTable):
        if told.get("provider", folder.format).lower() not in (folder.format, *PROVIDERS):
            raise _make_mismatch_error(folder.path, f"of the format {told['provider']}")
        return dict(given)
    _check(place, told)
    table, asked_keys = place.table(question["table"]), [".".join(path) for path in question["partitions"]]
    if asked_keys and [key.casefold() for key in asked_keys] != [key.casefold() for key in table.partition_keys]:
        raise _make_mismatch_error(table.path, f"partitioned by {', '.join(asked_keys)}")
    there, left = Options(descriptions.collect_properties(table)), dict(given)
    for key, value in given.items():
        option = OPTIONS.get(find_present_key(key))
        if option is None or option.key in WRITE_OPTION_KEYS:
            continue
        if Options({key: value}).get(option) != there.get(option):
            raise _make_mismatch_error(table.path, f"with {key!r} = {value!r}")
        del left[key]
    return left


def _make_mismatch_error(where: str, what: str) -> Unsupported:
    """Return the error for an overwrite that would change the table's definition."""
    hint = "writeTo(...).createOrReplace() puts another table in its place"
    return Unsupported(f"saveAsTable in the mode overwrite, which keeps the table, {what},", where=where, hint=hint)


TABLE_ANSWERS = {
    "create table": _create,
    "has table": _has_table,
    "drop table": _drop,
    "rename table": _rename,
    "stage table": _stage,
    "publish table": _publish,
    "discard table": _discard,
    "kept table": _keep_table,
}

COMMENT_PROPERTY = "comment"
"""The property for a table's comment."""
FIXED_PROPERTIES = {"location": "SET LOCATION", "collation": "DEFAULT COLLATION", "provider": "another provider"}
"""Properties that follow from a table's folder, types or catalog, and the statement that sets each."""


def _alter(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    full = build_full_name(question["namespace"], question["name"])
    folder = (
        None if parse_name(full).branch or not has_format_tables(place.catalog._catalog) else find_folder(place, full)
    )
    if isinstance(folder, FormatTable):
        return _alter_folder(place, question, full)
    table = place.table(full)
    given = [
        {**told, "text": _parse_new_default(place, table, told)} if "default" in told else told
        for told in question["changes"]
    ]
    dropped = {told["path"][0] for told in given if told["verb"] == "drop column" and len(told["path"]) == 1}
    if dropped >= set(table.schema.names):
        if all(told["verb"] == "drop column" for told in given):
            raise Unsupported("dropping all columns of a table", where=table.path, hint="drop the table")
        raise Unsupported(
            "ALTER TABLE ... REPLACE COLUMNS is not supported for Paimon tables: a column without its values",
            where=table.path,
            hint="Please use RENAME COLUMN, ALTER COLUMN TYPE, DROP COLUMN, and ADD COLUMN instead",
        )
    changes = [_CHANGES[told["verb"]](told) for told in given if not _is_done(told, table)]
    if changes:
        table.alter(*changes)
    return load_table(place, question)


def _alter_folder(place: Place, question: Question, name: str) -> dict[str, object]:
    """Change the options of a format table. Raises `Unsupported` for its columns, which its files determine."""
    others = [told["verb"] for told in question["changes"] if not told["verb"].endswith("set option")]
    if others:
        raise Unsupported(f"ALTER TABLE ({others[0]}) of a format table", hint="create it again over its folder")
    place.catalog.alter_format_table(name, [_CHANGES[told["verb"]](told) for told in question["changes"]])
    return load_table(place, question)


def _is_done(told: Mapping[str, Any], table: Table) -> bool:
    """Return whether this is DROP COLUMN IF EXISTS for a missing column."""
    return bool(told.get("if exists")) and told["path"][0] not in table.schema.names


def _parse_new_default(place: Place, table: Table, told: Mapping[str, Any]) -> str | None:
    """Return the text of a new default value; None removes the current one."""
    if len(told["path"]) != 1:
        raise Unsupported(f"a default value of {'.'.join(told['path'])}, which is a member of a column,")
    name = told["path"][0]
    kind = table._newest.column(name).type
    return parse_default(place.spark, told["default"], kind, name) if told["default"] else None


def _parse_type(told: Mapping[str, Any]) -> DataType:
    from pyspark.sql.types import StructType

    kind = StructType.fromJson(json.loads(told["type"])).fields[0].dataType
    check_collations(kind, ".".join(told["path"]))
    return to_paimon_type(kind, ".".join(told["path"]), nullable=told.get("nullable", True))


def _parse_position(told: Mapping[str, Any]) -> Position | None:
    if "after" in told:
        return Position(Where.AFTER, told["after"])
    return Position(Where.FIRST) if told.get("first") else None


def _get_path(told: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(told["path"])


def _move_column(told: Mapping[str, Any]) -> SchemaChange:
    position = _parse_position(told)
    if position is None:
        raise Unsupported(f"moving the column {'.'.join(told['path'])} without a position")
    return MoveColumn(_get_path(told), position)


def _set_option(told: Mapping[str, Any]) -> SchemaChange:
    check_no_secrets([told["key"]])
    if told["key"] in FIXED_PROPERTIES:
        what = FIXED_PROPERTIES[told["key"]]
        raise Unsupported(f"ALTER TABLE ... {what} is not supported for Paimon tables: setting {told['key']!r}")
    return SetTableComment(told["value"]) if told["key"] == COMMENT_PROPERTY else SetOption(told["key"], told["value"])


def _unset_option(told: Mapping[str, Any]) -> SchemaChange:
    return SetTableComment(None) if told["key"] == COMMENT_PROPERTY else RemoveOption(told["key"])


def _check_properties(_place: Place, question: Question, _rows: DataFrame | None) -> None:
    """Refuse secrets before Spark plans the statement: Spark shows properties of plans in its events."""
    check_no_secrets(question["properties"])


_CHANGES: Mapping[str, Callable[[Mapping[str, Any]], SchemaChange]] = {
    "set option": _set_option,
    "unset option": _unset_option,
    "add column": lambda told: AddColumn(_get_path(told), _parse_type(told), told["comment"], _parse_position(told)),
    "drop column": lambda told: DropColumn(_get_path(told)),
    "rename column": lambda told: RenameColumn(_get_path(told), told["to"]),
    "set type": lambda told: SetType(_get_path(told), _parse_type(told)),
    "set nullable": lambda told: SetNullable(_get_path(told), told["nullable"]),
    "set comment": lambda told: SetComment(_get_path(told), told["comment"] or None),
    "set default": lambda told: SetDefault(_get_path(told), told["text"]),
    "move column": _move_column,
}
"""Schema changes by the verb of a change in `Questions.java`."""

ALTER_ANSWERS = {"alter table": _alter, "check properties": _check_properties}


def _list_databases(place: Place, _question: Question, _rows: DataFrame | None) -> list[str]:
    return place.catalog.databases()


def _describe_database(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, str] | None:
    """Return the metadata of a database, or None if it does not exist."""
    name = question["database"]
    if name == SYSTEM_DATABASE:
        return {}
    if not is_database_name(name) or name not in place.catalog.databases():
        return None
    found = place.catalog.database(name)
    own = {COMMENT: found.comment, OWNER: found.owner, LOCATION: found.location}
    told = {key: value for key, value in own.items() if value is not None}
    return {**hide_secrets(found.properties), **told}


def _create_database(place: Place, question: Question, _rows: DataFrame | None) -> None:
    name = question["database"]
    if not is_database_name(name):
        raise InvalidArgument(f"{name!r} is not a valid name for a database: it must not contain . / \\ $")
    given = dict(question["properties"])
    if not has_properties(place.catalog._catalog):
        given.pop(OWNER, None)  # Spark adds the owner itself
    place.catalog.create_database(name, properties=given)


def _alter_database(place: Place, question: Question, _rows: DataFrame | None) -> None:
    name = question["database"]
    if name == SYSTEM_DATABASE:
        raise Unsupported(f"ALTER DATABASE of {SYSTEM_DATABASE}, the database of the catalog's own tables,")
    set_, removed = dict[str, str](), dict[str, None]()
    for key, value in question["changes"]:  # the last change of a property counts
        set_.pop(key, None)
        removed.pop(key, None)
        if value is None:
            removed[key] = None
        else:
            set_[key] = value
    place.catalog.alter_database(name, set_, unset=tuple(removed))


def _drop_database(place: Place, question: Question, _rows: DataFrame | None) -> None:
    if question["database"] == SYSTEM_DATABASE:
        raise Unsupported(f"dropping {SYSTEM_DATABASE}, the database of the catalog's own tables,")
    place.catalog.drop_database(question["database"], cascade=question["cascade"])


def _list_tables(place: Place, question: Question, _rows: DataFrame | None) -> list[str]:
    if question["database"] == SYSTEM_DATABASE:
        return list(NAMES)
    return place.catalog.tables(question["database"])


DATABASE_ANSWERS = {
    "databases": _list_databases,
    "database": _describe_database,
    "create database": _create_database,
    "alter database": _alter_database,
    "drop database": _drop_database,
    "tables": _list_tables,
}

CURRENT = "CURRENT_DEFAULT"
"""The metadata key in which Spark keeps the default value of a column, as SQL."""
TEXT = re.compile(r"'([^'\\]|\\.|'')*'", re.DOTALL)
WRAPPERS = (exp.Cast, exp.Neg, exp.Paren)
CONSTANTS = (exp.Literal, exp.Boolean, exp.Null)
CONTAINERS = (exp.Array, exp.Map, exp.VarMap, exp.Struct)
"""Arrays, maps and structs, whose parts are checked when their text is parsed."""


def parse_defaults(spark: SparkSession, schema: StructType, fields: Mapping[str, t.DataField]) -> dict[str, str]:
    """Return the default values of columns as text, by column name. Raises as `parse_default`."""
    given = {f.name: f.metadata[CURRENT] for f in schema.fields if CURRENT in f.metadata}
    found = {name: parse_default(spark, sql, fields[name].type, name) for name, sql in given.items()}
    return {name: text for name, text in found.items() if text is not None}


def parse_default(spark: SparkSession, sql: str, kind: t.DataType, column: str) -> str | None:
    """Return the text that Paimon stores for a default value given as Spark SQL; None for NULL.

    Raises:
        Unsupported: not a literal (Paimon stores values only), or a type without default values.
        Others: Spark's own errors, if the value does not fit the type.
    """
    from morrow.spark.types import to_spark_type

    if not _is_literal(sql):
        raise Unsupported(f"Unsupported default value `{sql}` of the column {column!r}: it", hint="give a literal")
    type_name = to_spark_type(kind, column).simpleString()
    value = spark.sql(f"SELECT CAST(({sql}) AS {type_name})").collect()[0][0]
    if value is None:
        return None
    text = sql.strip() if type(kind) in NESTED else _format_value(value, kind, column)
    return check_default(kind, text, column)


def _format_value(value: Any, kind: t.DataType, column: str) -> str:
    if isinstance(kind, (t.CharType, t.VarCharType)):
        return f"'{value}'"  # Java readers remove the quotes
    if isinstance(kind, t.LocalZonedTimestampType) and isinstance(value, dt.datetime):
        return format_default(value.astimezone(dt.UTC), column)  # PySpark returns it in the time zone of this process
    if isinstance(value, (bytes, bytearray)):
        raise Unsupported(f"a default value of the type {kind.text()}", where=f"the column {column!r}")
    return format_default(value, column)


def _is_literal(sql: str) -> bool:
    if TEXT.fullmatch(sql.strip()):  # sqlglot does not know doubled quotes of Spark
        return True
    try:
        found: Any = sqlglot.parse_one(sql, read="spark")
    except SqlglotError:
        return False
    while isinstance(found, WRAPPERS):
        found = found.this
    return isinstance(found, (*CONSTANTS, *CONTAINERS))
