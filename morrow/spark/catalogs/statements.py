"""Statements of Paimon that the driver runs: tags, CREATE TABLE LIKE, ANALYZE TABLE, and CALL of procedures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import AlreadyExists, InvalidArgument, Unsupported
from morrow.engine.options.declarations import parse_names
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import PATH, TYPE
from morrow.procedures.procedure import Kind
from morrow.procedures.registry import PROCEDURES, find_procedure
from morrow.scans.arguments import check_columns
from morrow.spark.catalogs import syntax
from morrow.spark.catalogs.copy_into import copy_into, copy_into_location
from morrow.spark.catalogs.ddl import IGNORED, PROVIDERS, check_database
from morrow.spark.catalogs.functions import create_function, describe_function, drop_function
from morrow.spark.catalogs.questions import Place, Question, build_full_name
from morrow.spark.catalogs.reads import find_folder
from morrow.spark.catalogs.syntax import resolve_name, unpack_statement
from morrow.spark.catalogs.view_statements import alter_view, create_view, drop_view, show_views
from morrow.spark.expressions import parse_value, quote_name
from morrow.spark.maintenance.commands import analyze_by_job
from morrow.spark.procedures import call
from morrow.statements.ddl import check_statement
from morrow.statements.statement import (
    AlterView,
    Analyze,
    AnalyzeTables,
    CopyInto,
    CopyIntoLocation,
    CreateFunction,
    CreateTableLike,
    CreateTag,
    CreateView,
    DeleteTags,
    DescribeFunction,
    DropFunction,
    DropView,
    RenameTag,
    RepairTable,
    Show,
    Statement,
)
from morrow.tables.format_table import FormatTable
from morrow.writers.operations.format_table import analyze_partitions, repair_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.engine.format.schema import TableSchema


def run(place: Place, packed: str) -> DataFrame:
    """Execute a packed statement and return its rows. Raises `TableNotFound`, and as `run_statement`."""
    return run_statement(place, *unpack_statement(packed))


def run_statement(place: Place, statement: Statement, name: str) -> DataFrame:
    """Execute a statement on a table or database and return its rows.

    Raises as the methods of `Table.tags` and `Catalog.create_table`.
    """
    if isinstance(statement, Show) and statement.what == "views":
        return show_views(place, name, statement)
    if isinstance(statement, Show):
        tags = sorted(place.table(name).tags.names)
        return place.spark.createDataFrame([(tag,) for tag in tags], "tag STRING NOT NULL")
    if type(statement) in ASKING:
        return ASKING[type(statement)](place, name, statement)
    EXECUTORS[type(statement)](place, name, statement)
    return place.spark.range(1).limit(0).select()


def _create_tag(place: Place, name: str, statement: CreateTag) -> None:
    tags = place.table(name).tags
    if statement.replace and statement.tag in tags:  # as in Paimon, REPLACE TAG creates a missing tag
        tags.replace(statement.tag, statement.snapshot, statement.retained)
    else:
        tags.create(statement.tag, statement.snapshot, statement.retained, ignore_if_exists=statement.if_not_exists)


def _delete_tags(place: Place, name: str, statement: DeleteTags) -> None:
    tags = place.table(name).tags
    wanted = parse_names(statement.tags)
    if not statement.if_exists:
        for tag in wanted:
            tags.get(tag)  # if a tag is missing, delete none of them
    for tag in wanted:
        tags.delete(tag, ignore_if_not_exists=True)


def _rename_tag(place: Place, name: str, statement: RenameTag) -> None:
    tags = place.table(name).tags
    if statement.tag in tags or not statement.if_exists:
        tags.rename(statement.tag, statement.to)


def _create_like(place: Place, name: str, statement: CreateTableLike) -> None:
    """Create a table with the columns, keys, partitions, options and comment of another table."""
    provider = (statement.provider or PROVIDERS[0]).lower()
    check_database(place, name.partition(".")[0])
    folder = find_folder(place, build_full_name(statement.source[:-1], statement.source[-1]))
    if isinstance(folder, FormatTable) and (statement.provider is None or provider == folder.format):
        _create_like_folder(place, name, statement, folder)
        return
    if provider not in PROVIDERS:
        raise Unsupported(f"a table USING {provider}", hint="write USING paimon, or leave it out")
    other = next((key for key in statement.options if key in IGNORED or key == "location"), None)
    if other is not None:
        raise Unsupported(f"the property {other!r} in CREATE TABLE LIKE")
    *namespace, source_name = statement.source
    source = place.table(build_full_name(namespace, source_name))
    options = {key: value for key, value in source.options.items() if key != PATH.key}
    try:
        place.catalog.create_table(
            name,
            schema=source._newest,
            partition_keys=source.partition_keys,
            options={**options, **statement.options},
            comment=source.comment,
        )
    except AlreadyExists:
        if not statement.if_not_exists:
            raise


def _create_like_folder(place: Place, name: str, statement: CreateTableLike, source: FormatTable) -> None:
    """Create a format table like another one, in a folder of its own."""
    left_out = (PATH.key, TYPE.key, FILE_FORMAT.key)
    options = {key: value for key, value in source.options.items() if key not in left_out}
    try:
        place.catalog.create_format_table(
            name,
            source.fields,
            format=source.format,
            partition_keys=source.partition_keys,
            options={**options, **statement.options},
            comment=source.comment,
        )
    except AlreadyExists:
        if not statement.if_not_exists:
            raise


def _repair(place: Place, name: str, statement: RepairTable) -> None:
    folder = find_folder(place, name)
    if not isinstance(folder, FormatTable):
        hint = "a table with snapshots has its partitions by its rows"
        raise Unsupported("MSCK REPAIR TABLE of a table with snapshots", where=name, hint=hint)
    repair_partitions(folder._table, adds=statement.adds, drops=statement.drops)


def _analyze_folder(place: Place, table: FormatTable, statement: Analyze) -> None:
    if statement.columns != ():
        raise Unsupported("ANALYZE TABLE FOR COLUMNS of a format table", hint="leave FOR COLUMNS out")
    found = {key.lower(): value for key, value in (statement.partition or {}).items() if value is not None}
    given = {key: found[key.lower()] for key in table.partition_keys if key.lower() in found}
    if len(given) != len(found) or tuple(given) != table.partition_keys[: len(given)]:
        raise InvalidArgument(f"{table.path}: PARTITION names values of the first keys of {table.partition_keys}")
    values = {key: place.spark.sql(f"SELECT {value}").collect()[0][0] for key, value in given.items()}
    analyze_partitions(table._table, values or None, scans=not statement.has_noscan)


def _analyze(place: Place, name: str, statement: Analyze) -> None:
    folder = find_folder(place, name)
    if isinstance(folder, FormatTable):
        _analyze_folder(place, folder, statement)
        return
    check_statement(statement)
    table = place.table(name)
    schema = table._newest
    columns = statement.columns
    named = tuple(schema.by_name) if columns is None else [_find_column(schema, each) for each in columns]
    analyze_by_job(table._target(), check_columns(named), place.spark)


def _analyze_all(place: Place, database: str, statement: AnalyzeTables) -> None:
    """Analyze every table of a database, in the order of their names."""
    check_statement(statement)
    for name in place.catalog.tables(database):
        analyze_by_job(place.table(f"{database}.{name}")._target(), (), place.spark)


def _find_column(schema: TableSchema, name: str) -> str:
    """Return the column that Spark finds by this name, ignoring case. Raises `ColumnNotFound`."""
    alike = [each for each in schema.by_name if each.lower() == name.lower()]
    return name if name in schema.by_name else schema.column(alike[0] if len(alike) == 1 else name).name


EXECUTORS: Mapping[type[Statement], Callable[[Place, str, Any], None]] = {
    CreateTag: _create_tag,
    DeleteTags: _delete_tags,
    RenameTag: _rename_tag,
    CreateTableLike: _create_like,
    Analyze: _analyze,
    AnalyzeTables: _analyze_all,
    CreateView: create_view,
    AlterView: alter_view,
    DropView: drop_view,
    RepairTable: _repair,
    CreateFunction: create_function,
    DropFunction: drop_function,
}
"""Class of a statement that Spark's parser does not know -> the function that executes it."""

ASKING: Mapping[type[Statement], Callable[[Place, str, Any], DataFrame]] = {
    CopyInto: copy_into,
    CopyIntoLocation: copy_into_location,
    DescribeFunction: describe_function,
}
"""Class of a statement that returns rows -> the function that executes it."""

NAMESPACE = "sys"
DEFAULT = "default"
"""The default database of a catalog that is not the session's current one."""
TABLE = "table"
STATEMENT = "statement"
TYPES = dict.fromkeys(Kind, "STRING") | {kind: kind.value for kind in (Kind.INT, Kind.BIGINT, Kind.BOOLEAN, Kind.MAP)}
"""The type to which Spark casts an argument."""


def _list_procedures(_place: Place, _question: Question, _rows: DataFrame | None) -> list[str]:
    return sorted(PROCEDURES)


def _describe_parameters(_place: Place, question: Question, _rows: DataFrame | None) -> list[dict[str, object]]:
    """Describe the parameters of a procedure, in Paimon's order."""
    if question["namespace"] != [NAMESPACE]:
        name = ".".join([*question["namespace"], question["name"]])
        raise InvalidArgument(f"there is no procedure {name}; they are in the database {NAMESPACE}")
    if question["name"] == syntax.PROCEDURE:
        return [{"name": STATEMENT, "type": "STRING", "required": True}]
    found = find_procedure(question["name"])
    own = [{"name": p.name, "type": TYPES[p.kind], "required": p.required} for p in found.parameters]
    return [{"name": TABLE, "type": "STRING", "required": True}, *own] if found.of_table else own


def _call(place: Place, question: Question, _rows: DataFrame | None) -> DataFrame:
    given = {name: parse_value(told) for name, told in question["arguments"].items()}
    if question["name"] == syntax.PROCEDURE:
        return run(place, given[STATEMENT])
    found = find_procedure(question["name"])
    tables = [parameter.name for parameter in found.parameters if parameter.kind is Kind.TABLE]
    for name in (*tables, *((TABLE,) if found.of_table else ())):
        if given.get(name) is not None:
            given[name] = _qualify_name(place, given[name])
    result = call(
        place.spark,
        found.name,
        warehouse=place.catalog,
        storage_options=place.access.storage_options,
        allowed_roots=place.access.allowed_roots,
        **{name: value for name, value in given.items() if value is not None},
    )
    if found.of_table:
        _refresh(place, given[TABLE])
    return result


def _refresh(place: Place, name: str) -> None:
    """Invalidate Spark's cached rows of a table, as after a write: a rollback or a branch may have changed them."""
    session = cast("Any", place.spark)._jsparkSession
    if session.sharedState().cacheManager().isEmpty() or any(mark in name for mark in "*/"):
        return
    place.spark.catalog.refreshTable(".".join(map(quote_name, (place.name, *name.split(".", 1)))))


def _qualify_name(place: Place, text: str) -> str:
    """Return ``database.table`` for a table's name, in the current database if it names none."""
    name = text.removeprefix(f"{place.name}.")
    if not name.strip() or any(mark in name for mark in "./"):  # or a folder, for procedures that accept one
        return name
    catalog, parts = resolve_name(place.spark, (name,))
    return ".".join(parts if catalog == place.name else (DEFAULT, name))


ANSWERS = {"procedures": _list_procedures, "procedure": _describe_parameters, "call": _call}
